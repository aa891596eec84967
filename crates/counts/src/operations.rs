//! The counted requests of each protocol.

use std::sync::Arc;

use beanstalk::{Listener, MAX_JOB_SIZE_DEFAULT, ProcessorTime, ServerInfo};
use broker::{SessionId, Turn};
use kestrel::{Controls, MemcacheSession};

use crate::server::{NOW, Server};

/// The jobs that wait while requests are counted.
const WAITING: usize = 2000;
const BODY: [u8; 100] = [b'x'; 100];

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// beanstalkd's put, reserve and delete.
    Put,
    Take,
    Finish,
    /// Gearman's submit of a background job.
    Submit,
    /// SET and GET of Kestrel's memcache protocol.
    Set,
    Get,
}

impl Operation {
    pub(crate) const ALL: [Operation; 6] = [
        Operation::Put,
        Operation::Take,
        Operation::Finish,
        Operation::Submit,
        Operation::Set,
        Operation::Get,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Put => "put",
            Operation::Take => "take",
            Operation::Finish => "finish",
            Operation::Submit => "submit",
            Operation::Set => "SET",
            Operation::Get => "GET",
        }
    }

    /// Fills a queue, and then runs the counted requests. Checks each reply, because a refused
    /// request would be cheap.
    pub(crate) fn run(self, requests: usize) {
        match self {
            Operation::Put => repeat(&mut beanstalk(), requests, &put(), b"INSERTED "),
            Operation::Take | Operation::Finish => self.take_and_finish(requests),
            Operation::Submit => repeat(&mut gearman(), requests, &submit(), b"\0RES\0\0\0\x08"),
            Operation::Set => repeat(&mut memcache(), requests, &set(), b"STORED"),
            Operation::Get => repeat(&mut memcache(), requests, b"get q\r\n", b"VALUE q 0 100"),
        }
    }

    fn take_and_finish(self, requests: usize) {
        let mut server = beanstalk();
        for _ in 0..requests {
            let reserve = b"reserve-with-timeout 0\r\n";
            let reply = match self {
                Operation::Take => server.ask_measured(reserve),
                _ => server.ask(reserve),
            };
            let delete = format!("delete {}\r\n", job_of(&reply));
            let reply = match self {
                Operation::Finish => server.ask_measured(delete.as_bytes()),
                _ => server.ask(delete.as_bytes()),
            };
            assert_eq!(reply, b"DELETED\r\n");
        }
    }
}

/// Kestrel's commands that concern the whole program. No counted request uses them.
#[derive(Debug)]
struct NoControls;

impl Controls for NoControls {
    fn reload(&self, _session: SessionId, _turn: &mut Turn<'_>) {}

    fn shut_down(&self) {}
}

fn repeat(server: &mut Server, requests: usize, request: &[u8], expected: &[u8]) {
    for _ in 0..requests {
        let reply = server.ask_measured(request);
        assert!(reply.starts_with(expected), "{}", String::from_utf8_lossy(&reply));
    }
}

/// The job's number in `RESERVED <id> <bytes>`.
fn job_of(reply: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(reply);
    let id = text.strip_prefix("RESERVED ").and_then(|rest| rest.split(' ').next());
    id.and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("no job: {text}"))
}

fn filled(mut server: Server, request: &[u8]) -> Server {
    for _ in 0..WAITING {
        server.send(request);
    }
    server.commit();
    server.reply();
    server
}

fn put() -> Vec<u8> {
    [b"put 1024 0 120 100\r\n", &BODY[..], b"\r\n"].concat()
}

fn set() -> Vec<u8> {
    [b"set q 0 0 100\r\n", &BODY[..], b"\r\n"].concat()
}

/// A background job of the function `q`, without a key.
fn submit() -> Vec<u8> {
    [b"\0REQ\0\0\0\x12\0\0\0\x67q\0\0", &BODY[..]].concat()
}

fn beanstalk() -> Server {
    let info = ServerInfo {
        pid: 1,
        version: String::new(),
        hostname: String::new(),
        os: String::new(),
        platform: String::new(),
        id: 1,
        segment_bytes: 1,
        started: NOW,
        processor_time: || ProcessorTime { user_us: 0, system_us: 0 },
    };
    let server = beanstalk::Server::new(info);
    let listener = Arc::new(Listener { server, max_job_size: MAX_JOB_SIZE_DEFAULT });
    let server = Server::new(|turn, mailbox| beanstalk::Session::new(listener, turn, mailbox));
    filled(server, &put())
}

fn gearman() -> Server {
    let options = gearman::ServerOptions::for_host("host");
    let dialect = gearman::Server::new(options);
    let server =
        Server::new(|turn, mailbox| gearman::Session::new(dialect, "127.0.0.1", turn, mailbox));
    filled(server, &submit())
}

fn memcache() -> Server {
    let options = kestrel::ServerOptions { started: NOW, ..kestrel::ServerOptions::default() };
    let dialect = kestrel::Server::new(options, Box::new(NoControls));
    let server = Server::new(|turn, mailbox| MemcacheSession::new(dialect, turn, mailbox));
    filled(server, &set())
}
