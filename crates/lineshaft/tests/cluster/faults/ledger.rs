//! What real clients have put, got and finished, and what may never happen.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use testkit::process::{installed, scripts};
use testkit::tools;

/// The protocols, and the interpreters that have their libraries: greenstalk, gear, pymemcache.
const PROTOCOLS: [(&str, &str); 3] = [
    ("beanstalk", "python/bin/python"),
    ("gearman", "gearman/python/bin/python"),
    ("kestrel", "kestrel/python/bin/python"),
];

/// Nanoseconds of the clock of one client process.
type Nanos = u64;

#[derive(Clone, Copy, Debug)]
struct Put {
    id: u64,
    sent: Nanos,
    answered: Nanos,
}

/// The jobs of one protocol, by their numbers.
#[derive(Debug, Default)]
struct Book {
    puts: BTreeMap<u64, Put>,
    /// They may have been put.
    unsure: BTreeSet<u64>,
    /// When a worker asked before it got the job last.
    got: BTreeMap<u64, Nanos>,
    /// The ids of jobs of which a client knows the id, and the other way round.
    ids: BTreeMap<u64, u64>,
    numbers: BTreeMap<u64, u64>,
    /// When the end was acknowledged.
    finished: BTreeMap<u64, Nanos>,
    /// They may have been finished.
    maybe: BTreeSet<u64>,
    refused: usize,
    problems: Vec<(u64, &'static str)>,
    /// All events of each number.
    events: BTreeMap<u64, Vec<String>>,
    /// When this test read each acknowledgement.
    acknowledged: Vec<Instant>,
    heard: Option<Instant>,
}

impl Book {
    fn read(&mut self, line: &str) {
        let now = Instant::now();
        let (what, numbers) = line.split_once(' ').expect("an event");
        let numbers: Vec<u64> = numbers.split(' ').map(|word| word.parse().unwrap()).collect();
        let number = numbers[0];
        self.events.entry(number).or_default().push(line.to_owned());
        match what {
            "put" => {
                self.note_id(number, numbers[1]);
                let put = Put { id: numbers[1], sent: numbers[2], answered: numbers[3] };
                self.puts.insert(number, put);
                self.acknowledged.push(now);
            }
            "unsure" => drop(self.unsure.insert(number)),
            "got" => {
                self.note_id(number, numbers[1]);
                let asked = self.got.entry(number).or_default();
                *asked = numbers[2].max(*asked);
            }
            "finished" => {
                if self.finished.insert(number, numbers[1]).is_some() {
                    self.problems.push((number, "was finished twice"));
                }
                self.acknowledged.push(now);
            }
            "maybe" => drop(self.maybe.insert(number)),
            "refused" => self.refused += 1,
            other => panic!("unknown event {other}"),
        }
        self.heard = Some(now);
    }

    /// `id`: 0 if the client does not know it.
    fn note_id(&mut self, number: u64, id: u64) {
        if id == 0 {
            return;
        }
        if *self.ids.entry(number).or_insert(id) != id {
            self.problems.push((number, "has two ids"));
        }
        if *self.numbers.entry(id).or_insert(number) != number {
            self.problems.push((number, "has the id of another one"));
        }
    }

    /// Jobs that were acknowledged, and neither finished nor perhaps finished.
    fn missing(&self) -> Vec<u64> {
        let is_over =
            |number: &u64| self.finished.contains_key(number) || self.maybe.contains(number);
        self.puts.keys().copied().filter(|number| !is_over(number)).collect()
    }

    /// Jobs that nobody has put. While clients put, a worker can be faster than the answer.
    fn invented(&self) -> Vec<u64> {
        let is_known =
            |number: &u64| self.puts.contains_key(number) || self.unsure.contains(number);
        self.got.keys().copied().filter(|number| !is_known(number)).collect()
    }

    /// What must never be, at any moment.
    fn wrong(&self) -> Vec<String> {
        let came_back = self.got.iter().filter(|(number, asked)| {
            self.finished.get(*number).is_some_and(|finished| finished < *asked)
        });
        let came_back = came_back.map(|(number, _)| (*number, "came back after its end"));
        let known = self.problems.iter().copied().chain(came_back);
        let mut problems: Vec<String> = known
            .map(|(number, what)| format!("job {number} {what}: {:?}", self.events[&number]))
            .collect();
        problems.extend(self.disorder());
        problems
    }

    /// Ids grow in the one history of the cluster. If two nodes acknowledged at the same time, an
    /// id would not be above all those that were acknowledged before its put was sent.
    fn disorder(&self) -> Option<String> {
        let mut answered: Vec<Put> = self.puts.values().copied().filter(|put| put.id > 0).collect();
        let mut sent = answered.clone();
        answered.sort_unstable_by_key(|put| put.answered);
        sent.sort_unstable_by_key(|put| put.sent);
        let (mut earlier, mut highest) = (answered.iter().peekable(), 0);
        for put in sent {
            while let Some(before) = earlier.next_if(|before| before.answered < put.sent) {
                highest = highest.max(before.id);
            }
            if put.id <= highest {
                return Some(format!("id {} was given after id {highest}", put.id));
            }
        }
        None
    }
}

/// The clients, and what they have said.
pub(super) struct Ledger {
    books: Arc<[Mutex<Book>; 3]>,
    clients: Vec<Child>,
    readers: Vec<JoinHandle<()>>,
}

impl Ledger {
    /// Whether the libraries of the clients are installed.
    pub(super) fn has_libraries() -> bool {
        PROTOCOLS.iter().all(|(_, interpreter)| {
            let path = installed(interpreter);
            tools::find_or_skip(path.to_str().expect("test paths are text")).is_some()
        })
    }

    /// Starts the clients. They connect to these addresses of each protocol.
    pub(super) fn start(addresses: &[Vec<SocketAddr>; 3]) -> Ledger {
        let books: Arc<[Mutex<Book>; 3]> = Arc::default();
        let (mut clients, mut readers) = (Vec::new(), Vec::new());
        for (at, (protocol, interpreter)) in PROTOCOLS.iter().enumerate() {
            let mut client = Command::new(installed(interpreter))
                .arg(scripts("cluster/ledger.py"))
                .arg(protocol)
                .args(addresses[at].iter().map(|address| address.port().to_string()))
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = BufReader::new(client.stdout.take().unwrap()).lines();
            let books = books.clone();
            readers.push(std::thread::spawn(move || {
                for line in lines {
                    lock(&books[at]).read(&line.unwrap());
                }
            }));
            clients.push(client);
        }
        Ledger { books, clients, readers }
    }

    fn books(&self) -> impl Iterator<Item = (&'static str, MutexGuard<'_, Book>)> {
        PROTOCOLS.iter().zip(self.books.iter()).map(|((name, _), book)| (*name, lock(book)))
    }

    /// The number of acknowledgements of each protocol.
    pub(super) fn acknowledged(&self) -> [usize; 3] {
        self.books.each_ref().map(|book| lock(book).acknowledged.len())
    }

    /// The longest time without an acknowledgement of any protocol.
    pub(super) fn longest_pause(&self, from: Instant, to: Instant) -> Duration {
        let mut moments = vec![from, to];
        for (_, book) in self.books() {
            let between = |moment: &&Instant| (from..to).contains(*moment);
            moments.extend(book.acknowledged.iter().filter(between));
        }
        moments.sort_unstable();
        moments.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }

    /// The clients put nothing more.
    pub(super) fn put_no_more(&self) {
        for client in &self.clients {
            client.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
        }
    }

    /// Whether nothing is missing, and no client has said anything for this time.
    pub(super) fn is_quiet(&self, time: Duration) -> bool {
        self.books().all(|(_, book)| {
            book.missing().is_empty() && book.heard.is_some_and(|heard| heard.elapsed() >= time)
        })
    }

    /// Numbers for people.
    pub(super) fn counts(&self) -> String {
        let said = self.books().map(|(name, book)| {
            let Book { puts, unsure, finished, maybe, refused, .. } = &*book;
            let [puts, unsure, finished, maybe] =
                [puts.len(), unsure.len(), finished.len(), maybe.len()];
            format!("{name} {puts}+{unsure}? put, {finished}+{maybe}? finished, {refused} refused")
        });
        said.collect::<Vec<String>>().join("; ")
    }

    /// Fails if something happened that must never happen.
    pub(super) fn check_so_far(&self) {
        for (name, book) in self.books() {
            let wrong = book.wrong();
            assert!(wrong.is_empty(), "{name}: {wrong:?}");
        }
    }

    /// Ends the clients. Fails if anything acknowledged is missing, or has come back, and if a protocol
    /// has finished fewer jobs than `at_least`: they would prove nothing.
    pub(super) fn judge(mut self, at_least: usize) {
        for client in &mut self.clients {
            drop(client.stdin.take());
            assert!(client.wait().unwrap().success());
        }
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        self.check_so_far();
        for (name, book) in self.books() {
            let missing = book.missing();
            assert!(missing.is_empty(), "{name}: acknowledged jobs are lost: {missing:?}");
            let invented = book.invented();
            assert!(invented.is_empty(), "{name}: nobody has put these jobs: {invented:?}");
            assert!(book.finished.len() >= at_least, "{name}: {} jobs", book.finished.len());
        }
    }
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Ledger {
    fn drop(&mut self) {
        for client in &mut self.clients {
            // It may have ended.
            let _ = client.kill();
            let _ = client.wait();
        }
    }
}

/// The judge finds what it is there for.
#[cfg(test)]
mod tests {
    use super::*;

    fn book(lines: &[&str]) -> Book {
        let mut book = Book::default();
        for line in lines {
            book.read(line);
        }
        book
    }

    #[test]
    fn a_lost_job_is_missing() {
        assert_eq!(book(&["put 1 7 10 20", "put 2 8 30 40", "finished 2 50"]).missing(), [1]);
        assert!(book(&["put 1 7 10 20", "got 1 7 30 40", "maybe 1"]).missing().is_empty());
    }

    #[test]
    fn a_finished_job_must_not_come_back() {
        let once = ["put 1 7 10 20", "got 1 7 30 40", "finished 1 50"];
        assert!(book(&once).wrong().is_empty());
        assert_eq!(book(&[&once[..], &["got 1 7 60 70"]].concat()).wrong().len(), 1);
        assert_eq!(book(&[&once[..], &["finished 1 80"]].concat()).wrong().len(), 1);
        assert_eq!(book(&["got 1 7 60 70"]).invented(), [1]);
    }

    #[test]
    fn a_job_that_was_put_twice_is_noticed() {
        assert!(book(&["put 1 7 10 20", "got 1 7 30 40", "got 1 7 50 60"]).wrong().is_empty());
        assert!(book(&["put 1 0 10 20", "got 1 0 30 40"]).wrong().is_empty());
        assert_eq!(book(&["put 1 7 10 20", "got 1 8 30 40"]).wrong().len(), 1);
        assert_eq!(book(&["put 1 7 10 20", "got 2 7 30 40"]).wrong().len(), 1);
    }

    #[test]
    fn two_histories_are_noticed() {
        assert!(book(&["put 1 7 10 30", "put 2 6 20 40"]).wrong().is_empty());
        // Also the id of another job.
        assert_eq!(book(&["put 1 7 10 20", "put 2 7 30 40"]).wrong().len(), 2);
        assert_eq!(book(&["put 1 7 10 20", "put 2 6 30 40"]).wrong().len(), 1);
    }
}
