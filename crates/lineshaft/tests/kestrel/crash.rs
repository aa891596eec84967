//! Kills a server under load and starts it again. Every acknowledged item must still exist, in
//! order. An item whose end was acknowledged must not come back.
//!
//! `LINESHAFT_ROUNDS` sets the number of rounds.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use testkit::backlog;
use testkit::process::{IO_THREADS, Program};
use testkit::{settings, wait};

use crate::programs::lineshaft_path;

const ROUNDS_DEFAULT: u64 = 8;
const COLD_ROUNDS_DEFAULT: u64 = 2;

/// The items of a queue that is mostly cold. The server keeps 4,096 of them in memory.
const COLD_BACKLOG: u64 = 12_000;
/// Requests that are sent with one write.
const BATCH: u64 = 1_000;
/// The expiry time of each item. No item expires during a test.
const EXPIRY_S: u64 = 3_600;

/// Duration of the load before the kill. It is a little longer in each round.
const LOAD_MS_MIN: u64 = 100;
const LOAD_MS_STEP: u64 = 40;

/// The replies that one client got in a round.
#[derive(Debug, Default)]
struct Told {
    /// The numbers of the items whose requests got a reply.
    done: BTreeSet<u64>,
    /// The item whose request got no reply before the kill. So the request's outcome is unknown.
    unknown: Option<u64>,
}

#[test]
fn jobs_that_lineshaft_acknowledged_survive_kill() -> Result<()> {
    let program = Program::serve_on(&["kestrel"], lineshaft_path(), &[]);
    kill_and_check(&program, settings::rounds(ROUNDS_DEFAULT), 0)
}

/// Most items are cold when the server is killed, and again when the new server reads its log.
#[test]
fn cold_items_survive_kill() -> Result<()> {
    let program = Program::serve_on(&["kestrel", "http"], lineshaft_path(), &[]);
    let program = backlog::with_little_memory(program);
    kill_and_check(&program, settings::rounds(COLD_ROUNDS_DEFAULT), COLD_BACKLOG)
}

/// `backlog` is the number of items that a client sets before each round.
fn kill_and_check(program: &Program, rounds: u64, backlog: u64) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path().to_str().context("a text path")?;
    let program = program.clone().with(&["--data", folder]);
    let start = |round: u64| {
        // Rounds alternate between one I/O thread and several.
        let threads = IO_THREADS[round as usize % IO_THREADS.len()];
        program.clone().with_io_threads(threads).start()
    };
    let (mut next, mut acknowledged) = (1, 0);
    for round in 0..rounds {
        let server = start(round)?;
        let address = server.address();
        let waiting = next..next + backlog;
        fill(address, waiting.clone())?;
        next = waiting.end;
        if backlog > 0 {
            // Up to 7,000 items stay in memory: those near the head, and those of the last segment.
            backlog::wait_until_cold(&server, backlog as usize / 4)?;
        }
        let load = Duration::from_millis(LOAD_MS_MIN + LOAD_MS_STEP * (round % 8));
        let (mut stored, closed) = std::thread::scope(|scope| {
            let producer = scope.spawn(move || produce(address, next));
            let consumer = scope.spawn(move || consume(address));
            wait::let_pass(load, "the kill comes at a random moment");
            server.kill();
            (producer.join().expect("it fails politely"), consumer.join().expect("the same"))
        });
        stored.done.extend(waiting);
        let server = start(round)?;
        let left = drain(server.address())?;
        check(&stored, &closed, &left).with_context(|| format!("round {round}"))?;
        acknowledged += stored.done.len().min(closed.done.len());
        next = stored.unknown.or(stored.done.last().copied()).unwrap_or(next) + 1;
        server.terminate()?;
    }
    ensure!(acknowledged > 0, "nothing was under way when the server was killed");
    Ok(())
}

/// Sets these items.
fn fill(address: SocketAddr, numbers: Range<u64>) -> Result<()> {
    let mut client = Client::connect(address)?;
    for first in numbers.clone().step_by(BATCH as usize) {
        let batch = first..numbers.end.min(first + BATCH);
        let requests: String = batch.clone().map(set).collect();
        client.0.get_mut().write_all(requests.as_bytes())?;
        for number in batch {
            let reply = client.line();
            ensure!(reply.as_deref() == Some("STORED"), "item {number}: {reply:?}");
        }
    }
    Ok(())
}

/// The request that sets an item.
fn set(number: u64) -> String {
    let item = number.to_string();
    format!("set queue 0 {EXPIRY_S} {}\r\n{item}\r\n", item.len())
}

/// Sets items until the server ends.
fn produce(address: SocketAddr, first: u64) -> Told {
    let mut told = Told::default();
    let Ok(mut client) = Client::connect(address) else { return told };
    for number in first.. {
        told.unknown = Some(number);
        match client.ask(&set(number)) {
            Some(line) if line == "STORED" => told.done.insert(number),
            _ => break,
        };
        told.unknown = None;
    }
    told
}

/// Opens and closes items until the server ends. The last item may be open, but not closed.
fn consume(address: SocketAddr) -> Told {
    let mut told = Told::default();
    let Ok(mut client) = Client::connect(address) else { return told };
    loop {
        let number = match client.get("get queue/open/t=50\r\n") {
            Got::Number(number) => number,
            Got::Nothing => continue,
            Got::Gone => break,
        };
        told.unknown = Some(number);
        if client.ask("get queue/close\r\n").as_deref() != Some("END") {
            break;
        }
        told.done.insert(number);
        told.unknown = None;
    }
    told
}

/// Takes all waiting items, many at a time: each of them waits for a sync of the log.
fn drain(address: SocketAddr) -> Result<Vec<u64>> {
    let mut client = Client::connect(address)?;
    let requests = "get queue\r\n".repeat(BATCH as usize);
    let mut left = Vec::new();
    let mut is_empty = false;
    while !is_empty {
        client.0.get_mut().write_all(requests.as_bytes())?;
        for _ in 0..BATCH {
            match client.item() {
                Got::Number(number) => left.push(number),
                Got::Nothing => is_empty = true,
                Got::Gone => bail!("the server is gone"),
            }
        }
    }
    Ok(left)
}

fn check(stored: &Told, closed: &Told, left: &[u64]) -> Result<()> {
    ensure!(left.is_sorted_by(|one, other| one < other), "not in their order: {left:?}");
    let left: BTreeSet<u64> = left.iter().copied().collect();
    let again: Vec<_> = left.intersection(&closed.done).collect();
    ensure!(again.is_empty(), "closed, and here again: {again:?}");
    let uncertain = |number: &&u64| closed.unknown == Some(**number);
    let known: BTreeSet<u64> = left.union(&closed.done).copied().collect();
    let lost: Vec<_> = stored.done.difference(&known).filter(|one| !uncertain(one)).collect();
    ensure!(lost.is_empty(), "stored, and lost: {lost:?}");
    let unknown = stored.unknown;
    let strange: Vec<_> =
        known.difference(&stored.done).filter(|number| unknown != Some(**number)).collect();
    ensure!(strange.is_empty(), "never stored: {strange:?}");
    Ok(())
}

/// The result of a `get`.
enum Got {
    /// An item, whose body is this number.
    Number(u64),
    Nothing,
    /// The server has ended.
    Gone,
}

/// A connection to the memcache port.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: SocketAddr) -> Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(Client(BufReader::new(stream)))
    }

    /// Sends a request and reads one line. Returns `None` if the server has ended.
    fn ask(&mut self, request: &str) -> Option<String> {
        self.0.get_mut().write_all(request.as_bytes()).ok()?;
        self.line()
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        line.strip_suffix("\r\n").map(str::to_owned)
    }

    fn get(&mut self, request: &str) -> Got {
        match self.0.get_mut().write_all(request.as_bytes()) {
            Ok(()) => self.item(),
            Err(_) => Got::Gone,
        }
    }

    /// Reads the reply of a `get`.
    fn item(&mut self) -> Got {
        match self.line().as_deref() {
            Some("END") => return Got::Nothing,
            Some(_) => {}
            None => return Got::Gone,
        }
        let number = self.line().and_then(|line| line.parse().ok());
        let end = self.line();
        number.filter(|_| end.as_deref() == Some("END")).map_or(Got::Gone, Got::Number)
    }
}
