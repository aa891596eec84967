//! The bare loop: the smallest server that answers the generator's requests. It has no queues, no
//! priorities and no checks. A put gets its reply at once, or goes to a client that waits for a job
//! of this queue. With a log, a put is written and synced before its reply, in one group with all
//! other puts that have arrived. If it keeps jobs, it copies each put to new memory. It treats
//! Gearman's background jobs like puts. It passes foreground jobs to a worker, and neither logs nor
//! keeps them.
//!
//! A comparison measures it beside the real servers. A server with the same promise needs at least
//! this time for the kernel's work, so no server with one thread can be much faster.

mod gearman;
mod kept;

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Context;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use kept::Kept;

/// The log is filled with zeros before, and written from its beginning again at its end.
const LOG_BYTES: u64 = 64 << 20;
const READ_BYTES: usize = 256 << 10;
/// What the generator asks before a trip.
const STATISTICS: &str =
    "---\ncurrent-jobs-ready: 0\ncurrent-jobs-delayed: 0\ncurrent-jobs-reserved: 0\n";
const LISTENER: Token = Token(usize::MAX);

struct Connection {
    stream: TcpStream,
    /// The beginning of a request.
    input: Vec<u8>,
    output: Vec<u8>,
    /// The queue of puts and takes, or the function of a worker.
    queue: Vec<u8>,
}

struct BareLoop {
    connections: HashMap<Token, Connection>,
    /// The queues that a client watches. The jobs of other queues are forgotten.
    watched: HashMap<Vec<u8>, Watched>,
    functions: HashMap<Vec<u8>, gearman::Function>,
    /// Connections with output.
    answered: Vec<Token>,
    store: Store,
}

/// Where jobs go: memory, a log, both or nowhere.
struct Store {
    kept: Option<Kept>,
    log: Option<Log>,
}

impl Store {
    fn put(&mut self, request: &[u8], body: &[u8]) {
        if let Some(kept) = &mut self.kept {
            kept.put(body);
        }
        if let Some(log) = &mut self.log {
            log.group.extend_from_slice(request);
        }
    }
}

/// A queue with one consumer.
#[derive(Default)]
struct Watched {
    /// The consumer, while it waits.
    waiter: Option<Token>,
    /// The body of a job that came before the consumer waited, with its line end.
    job: Option<Vec<u8>>,
}

struct Log {
    file: File,
    offset: u64,
    /// The requests of this round.
    group: Vec<u8>,
}

impl Log {
    fn create(folder: &Path) -> anyhow::Result<Self> {
        let file = File::create(folder.join("bare-loop"))?;
        let zeros = vec![0; 1 << 20];
        for offset in (0..LOG_BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, offset)?;
        }
        file.sync_all()?;
        Ok(Self { file, offset: 0, group: Vec::new() })
    }

    fn sync(&mut self) -> anyhow::Result<()> {
        if self.group.is_empty() {
            return Ok(());
        }
        if self.offset + self.group.len() as u64 > LOG_BYTES {
            self.offset = 0;
        }
        self.file.write_all_at(&self.group, self.offset)?;
        self.offset += self.group.len() as u64;
        self.group.clear();
        Ok(self.file.sync_data()?)
    }
}

/// Serves at this address until the process is killed. Puts are logged if there is a folder, and
/// their jobs stay in memory if `keeps` is true.
pub(crate) fn serve(address: SocketAddr, keeps: bool, folder: Option<&Path>) -> anyhow::Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(address)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut bare = BareLoop {
        connections: HashMap::new(),
        watched: HashMap::new(),
        functions: HashMap::new(),
        answered: Vec::new(),
        store: Store { kept: keeps.then(Kept::default), log: folder.map(Log::create).transpose()? },
    };
    let mut events = Events::with_capacity(1024);
    let mut buffer = vec![0; READ_BYTES];
    let mut next = 0;
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &events {
            if event.token() != LISTENER {
                bare.read(event.token(), &mut buffer)?;
                continue;
            }
            while let Ok((mut stream, _)) = listener.accept() {
                let token = Token(next);
                next += 1;
                stream.set_nodelay(true)?;
                poll.registry().register(
                    &mut stream,
                    token,
                    Interest::READABLE | Interest::WRITABLE,
                )?;
                let connection = Connection {
                    stream,
                    input: Vec::new(),
                    output: Vec::new(),
                    queue: b"default".to_vec(),
                };
                bare.connections.insert(token, connection);
            }
        }
        if let Some(log) = &mut bare.store.log {
            log.sync()?;
        }
        bare.write();
    }
}

impl BareLoop {
    fn read(&mut self, token: Token, buffer: &mut [u8]) -> anyhow::Result<()> {
        loop {
            let Some(connection) = self.connections.get_mut(&token) else { return Ok(()) };
            let count = match connection.stream.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => {
                    self.connections.remove(&token);
                    return Ok(());
                }
                Ok(count) => count,
            };
            let mut input = std::mem::take(&mut connection.input);
            if input.is_empty() {
                let done = self.requests(token, &buffer[..count])?;
                input.extend_from_slice(&buffer[done..count]);
            } else {
                input.extend_from_slice(&buffer[..count]);
                let done = self.requests(token, &input)?;
                input.drain(..done);
            }
            if let Some(connection) = self.connections.get_mut(&token) {
                connection.input = input;
            }
            if count < buffer.len() {
                break;
            }
        }
        self.answered.push(token);
        Ok(())
    }

    /// Answers all complete requests. Returns their length.
    fn requests(&mut self, token: Token, input: &[u8]) -> anyhow::Result<usize> {
        if input.first() == Some(&0) {
            return self.packets(token, input);
        }
        let mut at = 0;
        while let Some(len) = input[at..].iter().position(|byte| *byte == b'\n') {
            let line = &input[at..at + len.saturating_sub(1)];
            let mut end = at + len + 1;
            let words = || line.split(|byte| *byte == b' ');
            let last = words().next_back().unwrap_or_default();
            let connection = self.connections.get_mut(&token).context("an open connection")?;
            match words().next().unwrap_or_default() {
                b"put" => {
                    let bytes: usize = std::str::from_utf8(last)?.parse()?;
                    let body = end;
                    end += bytes + 2;
                    if end > input.len() {
                        break;
                    }
                    connection.output.extend_from_slice(b"INSERTED 1\r\n");
                    self.store.put(&input[at..end], &input[body..end - 2]);
                    if !self.watched.is_empty()
                        && let Some(watched) = self.watched.get_mut(&connection.queue)
                    {
                        let queue = connection.queue.clone();
                        watched.job = Some(input[body..end].to_vec());
                        self.hand_out(&queue)?;
                    }
                }
                b"use" => {
                    connection.queue = last.to_vec();
                    write!(connection.output, "USING {}\r\n", last.escape_ascii())?;
                }
                b"watch" => {
                    connection.queue = last.to_vec();
                    self.watched.entry(last.to_vec()).or_default();
                    connection.output.extend_from_slice(b"WATCHING 2\r\n");
                }
                b"ignore" => connection.output.extend_from_slice(b"WATCHING 1\r\n"),
                b"stats-tube" => {
                    write!(connection.output, "OK {}\r\n{STATISTICS}\r\n", STATISTICS.len())?;
                }
                b"delete" => connection.output.extend_from_slice(b"DELETED\r\n"),
                b"reserve" | b"reserve-with-timeout" => {
                    let queue = connection.queue.clone();
                    self.watched.entry(queue.clone()).or_default().waiter = Some(token);
                    self.hand_out(&queue)?;
                }
                _ => anyhow::bail!("unknown request: {}", line.escape_ascii()),
            }
            at = end;
        }
        Ok(at)
    }

    /// Sends the job of a queue to its consumer, if both are there.
    fn hand_out(&mut self, queue: &[u8]) -> anyhow::Result<()> {
        let Some(watched) = self.watched.get_mut(queue) else { return Ok(()) };
        if let (Some(waiter), Some(job)) = (watched.waiter, &watched.job)
            && let Some(consumer) = self.connections.get_mut(&waiter)
        {
            write!(consumer.output, "RESERVED 1 {}\r\n", job.len() - 2)?;
            consumer.output.extend_from_slice(job);
            self.answered.push(waiter);
            *watched = Watched::default();
        }
        Ok(())
    }

    fn write(&mut self) {
        for token in std::mem::take(&mut self.answered) {
            let Some(connection) = self.connections.get_mut(&token) else { continue };
            // What the socket does not take is sent with the next reply.
            while !connection.output.is_empty()
                && let Ok(count) = connection.stream.write(&connection.output)
            {
                connection.output.drain(..count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    /// Starts a bare loop. Returns its address when it accepts connections.
    pub(super) fn serving(keeps: bool, folder: Option<&Path>) -> SocketAddr {
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let address = free.expect("a free port");
        let folder = folder.map(Path::to_owned);
        std::thread::spawn(move || serve(address, keeps, folder.as_deref()));
        while std::net::TcpStream::connect(address).is_err() {
            std::thread::yield_now();
        }
        address
    }

    #[test]
    fn it_keeps_the_body_of_a_put() {
        let mut store = Store { kept: Some(Kept::default()), log: None };
        store.put(b"put 0 0 60 5\r\nhello\r\n", b"hello");
        let kept = store.kept.expect("it keeps jobs");
        assert_eq!(kept.bytes(), 105);
    }

    #[test]
    fn it_passes_a_put_to_a_waiting_client() {
        let folder = tempfile::tempdir().expect("a folder");
        let address = serving(false, Some(folder.path()));
        let connect = || BufReader::new(std::net::TcpStream::connect(address).expect("it serves"));
        let (mut consumer, mut producer) = (connect(), connect());
        let expect = |client: &mut BufReader<std::net::TcpStream>, expected: &str| {
            let mut line = String::new();
            client.read_line(&mut line).expect("a line");
            assert_eq!(line.trim_end(), expected);
        };
        consumer.get_mut().write_all(b"watch q\r\nreserve\r\n").expect("it is open");
        expect(&mut consumer, "WATCHING 2");
        producer.get_mut().write_all(b"use q\r\nput 0 0 60 5\r\nhel").expect("it is open");
        expect(&mut producer, "USING q");
        producer.get_mut().write_all(b"lo\r\n").expect("it is open");
        expect(&mut producer, "INSERTED 1");
        expect(&mut consumer, "RESERVED 1 5");
        expect(&mut consumer, "hello");
        let mut log = [0; 21];
        let file = File::open(folder.path().join("bare-loop")).expect("it has a log");
        file.read_exact_at(&mut log, 0).expect("the log is filled");
        assert_eq!(&log, b"put 0 0 60 5\r\nhello\r\n");
    }
}
