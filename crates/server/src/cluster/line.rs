//! The lines that nodes send to each other. The first line of a connection says what it is for.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use origin::Names;
use replica::report::Report;
use replica::{Incarnation, Lineage};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

use crate::config::protocol::Protocol;
use crate::threads::mailbox::Peer;

const LINE_BYTES_MAX: usize = 4096;
/// Bytes of the names of a node in a line. The other parts are short.
const HOSTS_BYTES_MAX: usize = 3072;

/// This word says that the client is at a loopback listener. An older node takes it for a name of the
/// other node, which no client uses.
const LOOPBACK: &str = "loopback=1";

/// Begins the last word of a first line: the process that sends it.
const PROCESS: &str = " process=";

/// What a connection is for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Purpose {
    /// A follower reports, again and again. Each report gets an [`Answer`].
    Report(Report),
    /// The bytes of this client follow.
    Pass(Passed),
    /// A node of this lineage needs a copy of the folder: see `copy.rs`.
    Copy(Lineage),
    /// A request over HTTP follows, which a client has sent to another node.
    Http(HttpClient),
}

/// A client of another node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Passed {
    /// What it speaks.
    pub(crate) protocol: Protocol,
    pub(crate) peer: Peer,
    /// The names of the other node, for a protocol over HTTP, whose clients say which name they use.
    pub(crate) hosts: Vec<String>,
    /// For such a protocol: only clients on the machine of the other node reach its listener. Its names
    /// are checked as they are there, but the client gets no rights at the leader.
    pub(crate) is_loopback: bool,
}

/// A client over HTTP, as the other node sees it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct HttpClient {
    /// `None`: a unix socket.
    pub(crate) address: Option<IpAddr>,
    pub(crate) is_tls: bool,
    /// The SHA-256 of its certificate, if TLS has verified one.
    pub(crate) certificate: Option<[u8; 32]>,
    /// The name of the other node that the client uses.
    pub(crate) host: Option<String>,
}

/// What a node answers to a report.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Answer {
    /// The process that answers.
    pub(crate) incarnation: Incarnation,
    /// The last group that the stream has accepted, as far as this process knows.
    pub(crate) number: u64,
    /// Whether this process leads and may answer its clients.
    pub(crate) is_free: bool,
    /// The time of a leader, in milliseconds of log time. `None`: this process does not lead, or has an
    /// older version.
    pub(crate) time_ms: Option<u64>,
}

impl Passed {
    /// A client of this node, which has these names. If they are too long for a line, the last ones do
    /// not count. `is_loopback`: it is at a loopback listener.
    pub(crate) fn new(protocol: Protocol, peer: Peer, names: &Names, is_loopback: bool) -> Passed {
        let mut bytes = 0;
        let fits = |name: &&str| {
            bytes += name.len() + 1;
            bytes <= HOSTS_BYTES_MAX
        };
        let is_word =
            |name: &&str| !name.is_empty() && name.bytes().all(|one| one.is_ascii_graphic());
        let is_http = protocol.is_http();
        let names = names.all().filter(|_| is_http).filter(is_word);
        let hosts = names.take_while(fits).map(str::to_owned).collect();
        Passed { protocol, peer, hosts, is_loopback: is_loopback && is_http }
    }

    fn encode(&self) -> String {
        let Passed { protocol, peer, hosts, is_loopback } = self;
        let mut line = format!("pass 1 {} {}", protocol.name(), peer.shown_with_port());
        let mark = is_loopback.then_some(LOOPBACK);
        for word in hosts.iter().map(String::as_str).chain(mark) {
            line += " ";
            line += word;
        }
        line
    }

    fn decode(words: &str) -> Option<Passed> {
        let mut words = words.split(' ');
        let protocol = words.next()?;
        let protocol = Protocol::ALL.into_iter().find(|one| one.name() == protocol)?;
        let peer = match words.next()? {
            "unix" => Peer::Local,
            peer => peer.parse::<SocketAddr>().ok()?.into(),
        };
        let mut hosts: Vec<String> = words.map(str::to_owned).collect();
        let is_loopback = hosts.pop_if(|word| word == LOOPBACK).is_some();
        Some(Passed { protocol, peer, hosts, is_loopback })
    }
}

impl Purpose {
    /// The address of the client, if it has one, as [`Peer::counted_address`].
    pub(crate) fn counted_address(&self) -> Option<IpAddr> {
        let peer = match self {
            Purpose::Pass(client) => client.peer,
            Purpose::Http(client) => Peer::Host(client.address?.to_canonical(), 0),
            Purpose::Report(_) | Purpose::Copy(_) => return None,
        };
        peer.counted_address()
    }

    /// The line, without its end.
    pub(crate) fn encode(&self) -> String {
        match self {
            Purpose::Report(report) => report.encode(),
            Purpose::Pass(client) => client.encode(),
            Purpose::Copy(lineage) => format!("copy 1 {lineage}"),
            Purpose::Http(client) => client.encode(),
        }
    }

    pub(crate) fn decode(line: &str) -> Option<Purpose> {
        if let Some(report) = Report::decode(line) {
            return Some(Purpose::Report(report));
        }
        if let Some(digits) = line.strip_prefix("copy 1 ") {
            return digits.parse().ok().map(Purpose::Copy);
        }
        if let Some(words) = line.strip_prefix("http 1 ") {
            return HttpClient::decode(words).map(Purpose::Http);
        }
        Passed::decode(line.strip_prefix("pass 1 ")?).map(Purpose::Pass)
    }
}

impl HttpClient {
    fn encode(&self) -> String {
        let HttpClient { address, is_tls, certificate, host } = self;
        let address = address.map_or_else(|| "unix".to_owned(), |address| address.to_string());
        let tls = if *is_tls { "tls" } else { "plain" };
        let certificate = certificate.map_or_else(|| "-".to_owned(), |sum| sum_digits(&sum));
        // A name contains no space: it was compared with the names of the node.
        format!("http 1 {address} {tls} {certificate} {}", host.as_deref().unwrap_or("-"))
    }

    fn decode(words: &str) -> Option<HttpClient> {
        let mut words = words.split(' ');
        let address = match words.next()? {
            "unix" => None,
            address => Some(address.parse().ok()?),
        };
        let is_tls = match words.next()? {
            "tls" => true,
            "plain" => false,
            _ => return None,
        };
        let certificate = match words.next()? {
            "-" => None,
            digits => Some(read_sum(digits)?),
        };
        let host = Some(words.next()?.to_owned()).filter(|host| host != "-");
        Some(HttpClient { address, is_tls, certificate, host })
    }
}

fn sum_digits(bytes: &[u8; 32]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

fn read_sum(digits: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

impl Answer {
    pub(crate) fn encode(self) -> String {
        let Answer { incarnation, number, is_free, time_ms } = self;
        // An older node ignores what comes after the third word.
        let time = time_ms.map(|time_ms| format!(" {time_ms}")).unwrap_or_default();
        format!("node 1 {incarnation:016x} {number} {}{time}", u8::from(is_free))
    }

    pub(crate) fn decode(line: &str) -> Option<Answer> {
        let mut words = line.strip_prefix("node 1 ")?.split(' ');
        let incarnation = Incarnation::from_str_radix(words.next()?, 16).ok()?;
        let number = words.next()?.parse().ok()?;
        let is_free = words.next()? == "1";
        let time_ms = words.next().and_then(|word| word.parse().ok());
        Some(Answer { incarnation, number, is_free, time_ms })
    }
}

/// Adds the process that sends this first line. An older node takes the word for one more name of the
/// other node, or ignores it.
pub(crate) fn with_process(line: &str, process: Incarnation) -> String {
    format!("{line}{PROCESS}{process:016x}")
}

/// A first line without the process that sends it, and this process. `None`: an older node.
pub(crate) fn split_process(line: &str) -> (&str, Option<Incarnation>) {
    let split = line.rsplit_once(PROCESS);
    let process = split.and_then(|(_, digits)| Incarnation::from_str_radix(digits, 16).ok());
    match split {
        Some((rest, _)) if process.is_some() => (rest, process),
        Some(_) | None => (line, None),
    }
}

/// Reads a line, and returns it without its end. What follows the line stays in the reader.
pub(crate) async fn read(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        let bytes = reader.fill_buf().await?;
        if bytes.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let end = memchr::memchr(b'\n', bytes);
        let used = end.map_or(bytes.len(), |at| at + 1);
        line.extend_from_slice(&bytes[..end.unwrap_or(used)]);
        reader.consume(used);
        if line.len() > LINE_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        if end.is_some() {
            return String::from_utf8(line).map_err(|_| ErrorKind::InvalidData.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(protocol: Protocol, peer: Peer, hosts: &[&str]) -> Purpose {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        Purpose::Pass(Passed { protocol, peer, hosts, is_loopback: false })
    }

    fn at_loopback(hosts: &[&str]) -> Purpose {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        let (protocol, peer) = (Protocol::GearmanHttp, Peer::Local);
        Purpose::Pass(Passed { protocol, peer, hosts, is_loopback: true })
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        let peer = Peer::Host("2001:db8::1".parse().expect("an address"), 4730);
        for purpose in [
            Purpose::Report(Report { node: 7, applied: 9, ..Report::default() }),
            pass(Protocol::Gearman, peer, &[]),
            pass(Protocol::Beanstalk, Peer::Local, &[]),
            pass(Protocol::KestrelAdmin, peer, &["two", "b.example"]),
            at_loopback(&["two"]),
            at_loopback(&[]),
            Purpose::Copy(Lineage([0x0a; 16])),
            Purpose::Http(HttpClient::default()),
            Purpose::Http(HttpClient {
                address: Some([192, 0, 2, 7].into()),
                is_tls: true,
                certificate: Some([0xa7; 32]),
                host: Some("node-1.example".to_owned()),
            }),
        ] {
            assert_eq!(Purpose::decode(&purpose.encode()), Some(purpose));
        }
        for (is_free, time_ms) in [(false, None), (true, None), (true, Some(1_790_000_000_000))] {
            let answer = Answer { incarnation: u64::MAX - 1, number: 17, is_free, time_ms };
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        // The line of an older node, and one of a newer node.
        for (line, time_ms) in [("", None), (" 5", Some(5)), (" 5 more", Some(5))] {
            let answer = Answer::decode(&format!("node 1 00000000000000ff 17 1{line}"));
            let wanted = Answer { incarnation: 0xff, number: 17, is_free: true, time_ms };
            assert_eq!(answer, Some(wanted), "{line}");
        }
    }

    #[test]
    fn a_line_can_name_its_process() {
        let client = HttpClient { host: Some("one".to_owned()), ..HttpClient::default() };
        for purpose in [
            pass(Protocol::KestrelAdmin, Peer::Local, &["two"]),
            pass(Protocol::Gearman, Peer::Local, &[]),
            at_loopback(&["two"]),
            Purpose::Http(client),
        ] {
            let line = with_process(&purpose.encode(), 0xab);
            assert!(line.len() < LINE_BYTES_MAX);
            let (rest, process) = split_process(&line);
            assert_eq!((Purpose::decode(rest), process), (Some(purpose.clone()), Some(0xab)));
            // An older node gets the same client.
            match (Purpose::decode(&line), purpose) {
                (Some(Purpose::Pass(found)), Purpose::Pass(client)) => {
                    assert_eq!((found.protocol, found.peer), (client.protocol, client.peer));
                    assert!(found.hosts.starts_with(&client.hosts), "{found:?}");
                }
                (found, purpose) => assert_eq!(found, Some(purpose)),
            }
        }
        for line in ["copy 1 0a", "pass 1 gearman unix process", "pass 1 gearman unix process=x"] {
            assert_eq!(split_process(line), (line, None));
        }
    }

    #[test]
    fn the_names_of_a_node_fit_into_a_line() {
        let many = (0..500).map(|number| format!("name-{number}.example"));
        let names = Names::new(["two words".to_owned(), "10.0.0.1".to_owned()], many.collect());
        let client = Passed::new(Protocol::KestrelAdmin, Peer::Local, &names, true);
        let line = client.encode();
        assert!(line.len() < LINE_BYTES_MAX);
        assert_eq!(Purpose::decode(&line), Some(Purpose::Pass(client.clone())));
        let hosts = client.hosts;
        assert!(hosts.len() > 100 && hosts[0] == "name-0.example", "{hosts:?}");
        let gearman = Passed::new(Protocol::GearmanHttp, Peer::Local, &names, false);
        assert_eq!(gearman.hosts, hosts);
        let other = Passed::new(Protocol::Gearman, Peer::Local, &names, true);
        assert_eq!(Purpose::Pass(other), pass(Protocol::Gearman, Peer::Local, &[]));
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "",
            "pass 1 beanstalk",
            "pass 1 smtp unix",
            "pass 2 beanstalk unix",
            "pass 1 http 1.2.3.4",
            "copy 1 0a",
            "copy 2 0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a",
            "http 1 unix plain -",
            "http 1 here plain - -",
            "http 1 unix naked - -",
            "http 1 unix tls 00ff -",
            "http 2 unix plain - -",
        ] {
            assert_eq!(Purpose::decode(line), None, "{line}");
        }
        for line in ["", "node 1 x 1 1", "node 1 0000000000000001 1", "node 2 0000000000000001 1 1"]
        {
            assert_eq!(Answer::decode(line), None, "{line}");
        }
    }

    #[tokio::test]
    async fn a_line_ends_at_its_end_and_has_a_limit() {
        let mut reader = &b"one\ntwo"[..];
        assert_eq!(read(&mut reader).await.expect("a line"), "one");
        assert_eq!(reader, b"two");
        let error = read(&mut reader).await.expect_err("no end");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        let long = vec![b'x'; 2 * LINE_BYTES_MAX];
        let error = read(&mut &long[..]).await.expect_err("too long");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
}
