//! Gearman's binary packets: writes requests, and parses the server's packets.

use std::fmt;

use crate::client::ClientError;
use crate::client::stream::{Message, Requests};

/// Length of the header of a packet: its magic, its kind, and the size of its body.
const HEADER_BYTES: usize = 12;
/// The first bytes of each packet to a server.
const REQUEST_MAGIC: [u8; 4] = *b"\0REQ";
/// The first bytes of each packet from a server.
const REPLY_MAGIC: [u8; 4] = *b"\0RES";
/// If the received bytes are not a packet, the error message shows at most this many of these
/// bytes.
const SHOWN_BYTES_MAX: usize = 80;

/// The kinds of requests, with their numbers on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Request {
    CanDo = 1,
    PreSleep = 4,
    SubmitJob = 7,
    WorkStatus = 12,
    WorkComplete = 13,
    WorkFail = 14,
    EchoReq = 16,
    SubmitJobBg = 18,
    SubmitJobHigh = 21,
    SetClientId = 22,
    OptionReq = 26,
    WorkData = 28,
    WorkWarning = 29,
    SubmitJobHighBg = 32,
    SubmitJobLow = 33,
    SubmitJobLowBg = 34,
    SubmitJobEpoch = 36,
    GrabJobAll = 39,
}

/// The server's name for a job.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Handle(Vec<u8>);

/// A job assigned to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) handle: Handle,
    pub(crate) function: String,
    /// The unique key that the job's client gave; empty if it gave none.
    pub(crate) unique: String,
    /// The reducer of the job; empty for a job without one.
    pub(crate) reducer: String,
    pub(crate) body: Vec<u8>,
}

/// News of a job for its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// A part of the result.
    Data(Vec<u8>),
    Warning(Vec<u8>),
    /// The progress: numerator and denominator.
    Progress(u64, u64),
    /// The job is complete. The bytes are the result, or its last part.
    Complete(Vec<u8>),
    /// The job failed, and the worker gave no reason.
    Fail,
    /// The job failed, with the worker's reason.
    Exception(Vec<u8>),
}

/// One packet of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packet {
    /// Wakes a sleeping worker, because there may be a job.
    Noop,
    NoJob,
    Assigned(Assignment),
    Created(Handle),
    News(Handle, News),
    Echo,
    OptionSet,
    Error {
        code: String,
        text: String,
    },
    /// A packet of another kind, with its number.
    Other(u32),
}

impl News {
    /// True if the job ends with this news.
    pub(crate) fn is_end(&self) -> bool {
        match self {
            News::Complete(_) | News::Fail | News::Exception(_) => true,
            News::Data(_) | News::Warning(_) | News::Progress(..) => false,
        }
    }
}

impl Requests {
    /// Adds a packet to the buffer. NUL separates the arguments. Only the last argument may contain
    /// NUL.
    pub(crate) fn packet(
        &mut self,
        request: Request,
        arguments: &[&[u8]],
    ) -> Result<(), ClientError> {
        let separators = arguments.len().saturating_sub(1);
        let bytes = arguments.iter().map(|argument| argument.len()).sum::<usize>() + separators;
        let bytes = u32::try_from(bytes).map_err(|_| ClientError::PacketTooBig)?;
        let (kind, size) = ((request as u32).to_be_bytes(), bytes.to_be_bytes());
        self.add(&[&REQUEST_MAGIC, &kind, &size])?;
        for (index, argument) in arguments.iter().enumerate() {
            self.add(&[if index == 0 { b"" } else { b"\0" }, argument])?;
        }
        Ok(())
    }
}

impl Message for Packet {
    fn parse(input: &[u8]) -> Result<Option<(Packet, usize)>, ClientError> {
        let magic = input.len().min(REPLY_MAGIC.len());
        if input[..magic] != REPLY_MAGIC[..magic] {
            let line = input.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let shown = &line[..line.len().min(SHOWN_BYTES_MAX)];
            let shown = shown.trim_ascii_end().escape_ascii().to_string();
            return Err(ClientError::NotGearman(shown));
        }
        let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let [_, _, _, _, kind @ .., _, _, _, _] = *header;
        let [.., a, b, c, d] = *header;
        let size = u32::from_be_bytes([a, b, c, d]) as usize;
        let Some(body) = rest.get(..size) else { return Ok(None) };
        Ok(Some((Packet::read(u32::from_be_bytes(kind), body), HEADER_BYTES + size)))
    }
}

impl Packet {
    fn read(kind: u32, body: &[u8]) -> Packet {
        match kind {
            6 => Packet::Noop,
            8 => Packet::Created(Handle(body.to_vec())),
            10 => Packet::NoJob,
            12 => {
                let [handle, numerator, denominator] = arguments(body);
                Packet::News(handle.into(), News::Progress(number(numerator), number(denominator)))
            }
            13 => news(body, News::Complete),
            14 => Packet::News(body.into(), News::Fail),
            17 => Packet::Echo,
            19 => {
                let [code, text] = arguments(body).map(text);
                Packet::Error { code, text }
            }
            25 => news(body, News::Exception),
            27 => Packet::OptionSet,
            28 => news(body, News::Data),
            29 => news(body, News::Warning),
            31 => {
                let [handle, function, unique, body] = arguments(body);
                Packet::Assigned(assignment([handle, function, unique, b"", body]))
            }
            40 => Packet::Assigned(assignment(arguments(body))),
            other => Packet::Other(other),
        }
    }
}

fn assignment([handle, function, unique, reducer, body]: [&[u8]; 5]) -> Assignment {
    let [function, unique, reducer] = [function, unique, reducer].map(text);
    Assignment { handle: handle.into(), function, unique, reducer, body: body.to_vec() }
}

fn news(body: &[u8], what: fn(Vec<u8>) -> News) -> Packet {
    let [handle, data] = arguments(body);
    Packet::News(handle.into(), what(data.to_vec()))
}

/// Splits a body into its arguments at NUL. The last argument can contain NUL. Missing arguments
/// are empty.
fn arguments<const COUNT: usize>(body: &[u8]) -> [&[u8]; COUNT] {
    let mut parts = body.splitn(COUNT, |byte| *byte == 0);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Parses a count. Returns 0 if the text is not a number: the count is only for display.
fn number(digits: &[u8]) -> u64 {
    text(digits).trim().parse().unwrap_or(0)
}

impl From<&[u8]> for Handle {
    fn from(bytes: &[u8]) -> Handle {
        Handle(bytes.to_vec())
    }
}

impl Handle {
    /// The bytes of the name, as in a packet.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).fmt(formatter)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().fmt(formatter)
    }
}

/// Shows the packet's kind, for messages.
impl fmt::Display for Packet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Noop => formatter.write_str("NOOP"),
            Packet::NoJob => formatter.write_str("NO_JOB"),
            Packet::Assigned(assignment) => write!(formatter, "JOB_ASSIGN {}", assignment.handle),
            Packet::Created(handle) => write!(formatter, "JOB_CREATED {handle}"),
            Packet::News(handle, _) => write!(formatter, "news of {handle}"),
            Packet::Echo => formatter.write_str("ECHO_RES"),
            Packet::OptionSet => formatter.write_str("OPTION_RES"),
            Packet::Error { code, text } => write!(formatter, "ERROR {code} {text}"),
            Packet::Other(kind) => write!(formatter, "a packet of type {kind}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(kind: u32, arguments: &[&[u8]]) -> Vec<u8> {
        let body = arguments.join(&0);
        let mut bytes = b"\0RES".to_vec();
        bytes.extend(kind.to_be_bytes());
        bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn packets_are_read_one_after_the_other_and_only_when_whole() {
        let handle = || Handle(b"H:a:1".to_vec());
        let assigned = Assignment {
            handle: handle(),
            function: "wc".into(),
            unique: "key".into(),
            reducer: String::new(),
            body: b"a\0b".to_vec(),
        };
        for (input, expected) in [
            (bytes(8, &[b"H:a:1"]), Packet::Created(handle())),
            (bytes(12, &[b"H:a:1", b"3", b"10"]), Packet::News(handle(), News::Progress(3, 10))),
            (bytes(13, &[b"H:a:1", b"\0x"]), Packet::News(handle(), News::Complete(b"\0x".into()))),
            (bytes(14, &[b"H:a:1"]), Packet::News(handle(), News::Fail)),
            (bytes(31, &[b"H:a:1", b"wc", b"key", b"a\0b"]), Packet::Assigned(assigned)),
            (
                bytes(19, &[b"QUEUE_ERROR", b"Job queue is full"]),
                Packet::Error { code: "QUEUE_ERROR".into(), text: "Job queue is full".into() },
            ),
        ] {
            for length in 0..input.len() {
                assert!(Packet::parse(&input[..length]).unwrap().is_none(), "{expected}: {length}");
            }
            let twice = [&input[..], &input[..]].concat();
            assert_eq!(Packet::parse(&twice).unwrap(), Some((expected, input.len())));
        }
    }

    #[test]
    fn other_protocols_are_recognised_at_their_first_byte() {
        for (input, shown) in [
            (&b"UNKNOWN_COMMAND\r\n"[..], "UNKNOWN_COMMAND"),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/1.1 400 Bad Request"),
            (b"\0REQ\0\0", "\\x00REQ\\x00\\x00"),
            (b"S", "S"),
        ] {
            let error = Packet::parse(input).unwrap_err();
            assert!(matches!(&error, ClientError::NotGearman(text) if text == shown), "{error}");
        }
    }
}
