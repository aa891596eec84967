//! A small HTTP client that shows the exact bytes of a reply.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The time limit for an answer.
const LIMIT: Duration = Duration::from_secs(30);

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The headers, by their name in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// A connection that stays open.
pub(crate) struct Peer<S = TcpStream> {
    stream: BufReader<S>,
}

impl Peer {
    pub(crate) fn connect(address: &str) -> Peer {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Peer::over(stream)
    }
}

impl<S: Read + Write> Peer<S> {
    pub(crate) fn over(stream: S) -> Peer<S> {
        Peer { stream: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Sends a request without a body and reads the answer.
    pub(crate) fn ask(&mut self, method: &str, path: &str) -> Answer {
        self.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        self.answer(method != "HEAD")
    }

    /// Reads one answer, which must contain its length.
    pub(crate) fn answer(&mut self, has_body: bool) -> Answer {
        let status = self.line();
        let (version, rest) = status.split_once(' ').unwrap();
        assert_eq!(version, "HTTP/1.1", "{status}");
        let status: u16 = rest[..3].parse().unwrap();
        let mut headers = BTreeMap::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { break };
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        // An answer with this status never has a body.
        let length: usize =
            if status == 204 { 0 } else { headers["content-length"].parse().unwrap() };
        let mut body = vec![0; if has_body { length } else { 0 }];
        self.stream.read_exact(&mut body).unwrap();
        Answer { status, headers, body: String::from_utf8(body).unwrap() }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.strip_suffix("\r\n").expect("a whole line").to_owned()
    }

    /// Reads all remaining bytes. Returns true if the server has closed the connection.
    pub(crate) fn has_ended(&mut self) -> bool {
        match self.stream.read_to_end(&mut Vec::new()) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// Gets one page on a new connection.
pub(crate) fn get(address: &str, path: &str) -> Answer {
    Peer::connect(address).ask("GET", path)
}
