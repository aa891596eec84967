//! Parses the replies of the beanstalkd protocol.

use std::fmt;

use memchr::memchr;

use crate::client::error::{ClientError, TLS_ALERT};
use crate::client::stream::Message;

/// Limit of the first line of a reply. A server of another protocol may never send a line end, and
/// without a limit, the client would wait for one for ever.
const LINE_BYTES_MAX: usize = 1024;

/// A job as the server sends it for `reserve` and `peek`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    /// The job's id.
    pub id: u64,
    /// The body, unchanged.
    pub body: Vec<u8>,
}

/// One reply of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Inserted(u64),
    /// The reply to `put` contains the id; the reply to `bury` does not.
    Buried(Option<u64>),
    ExpectedCrlf,
    JobTooBig,
    Draining,
    OutOfMemory,
    InternalError,
    BadFormat,
    UnknownCommand,
    Using(String),
    Watching(u64),
    NotIgnored,
    Reserved(Job),
    Found(Job),
    TimedOut,
    DeadlineSoon,
    Deleted,
    Released,
    Touched,
    /// The reply to `kick` contains a count; the reply to `kick-job` does not.
    Kicked(Option<u64>),
    Paused,
    NotFound,
    /// The text of statistics and lists.
    Data(Vec<u8>),
}

impl Message for Reply {
    fn parse(input: &[u8]) -> Result<Option<(Reply, usize)>, ClientError> {
        let Some(line_end) = memchr(b'\n', input) else {
            // A TLS alert may have no line end.
            if input.len() > LINE_BYTES_MAX || input.starts_with(&TLS_ALERT) {
                return Err(garbled(input));
            }
            return Ok(None);
        };
        let Some(line) = input[..line_end].strip_suffix(b"\r") else {
            return Err(garbled(&input[..line_end]));
        };
        let text = str::from_utf8(line).map_err(|_| garbled(line))?;
        let body_start = line_end + 1;
        let mut words = text.split(' ');
        let verb = words.next().unwrap_or("");
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let with_body = match verb {
            "RESERVED" | "FOUND" => {
                let id = number().ok_or_else(|| garbled(line))?;
                Some((id, number().ok_or_else(|| garbled(line))?))
            }
            "OK" => Some((0, number().ok_or_else(|| garbled(line))?)),
            _ => None,
        };
        let Some((id, body_bytes)) = with_body else {
            let reply = line_reply(verb, number(), text).ok_or_else(|| garbled(line))?;
            return Ok(Some((reply, body_start)));
        };
        let Some(body) = body_of(input, body_start, body_bytes)? else { return Ok(None) };
        let used = body_start + body.len() + 2;
        let body = body.to_vec();
        let reply = match verb {
            "RESERVED" => Reply::Reserved(Job { id, body }),
            "FOUND" => Reply::Found(Job { id, body }),
            _ => Reply::Data(body),
        };
        Ok(Some((reply, used)))
    }
}

/// Parses a reply that is only one line. `number` is the first word after the verb, if that word is
/// a number.
fn line_reply(verb: &str, number: Option<u64>, text: &str) -> Option<Reply> {
    let reply = match verb {
        "INSERTED" => Reply::Inserted(number?),
        "BURIED" => Reply::Buried(number),
        "EXPECTED_CRLF" => Reply::ExpectedCrlf,
        "JOB_TOO_BIG" => Reply::JobTooBig,
        "DRAINING" => Reply::Draining,
        "OUT_OF_MEMORY" => Reply::OutOfMemory,
        "INTERNAL_ERROR" => Reply::InternalError,
        "BAD_FORMAT" => Reply::BadFormat,
        "UNKNOWN_COMMAND" => Reply::UnknownCommand,
        "USING" => Reply::Using(text.strip_prefix("USING ")?.to_owned()),
        "WATCHING" => Reply::Watching(number?),
        "NOT_IGNORED" => Reply::NotIgnored,
        "TIMED_OUT" => Reply::TimedOut,
        "DEADLINE_SOON" => Reply::DeadlineSoon,
        "DELETED" => Reply::Deleted,
        "RELEASED" => Reply::Released,
        "TOUCHED" => Reply::Touched,
        "KICKED" => Reply::Kicked(number),
        "PAUSED" => Reply::Paused,
        "NOT_FOUND" => Reply::NotFound,
        _ => return None,
    };
    Some(reply)
}

/// Returns the body that begins at `start`, or `None` if the body and its line end have not arrived
/// completely.
fn body_of(input: &[u8], start: usize, bytes: u64) -> Result<Option<&[u8]>, ClientError> {
    let end = usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_add(start));
    let Some(end) = end.filter(|end| *end < usize::MAX - 2) else {
        return Err(garbled(&input[..start]));
    };
    match input.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some(&input[start..end])),
        Some(_) => Err(garbled(&input[..start])),
    }
}

fn garbled(line: &[u8]) -> ClientError {
    let shown = &line[..line.len().min(80)];
    ClientError::Garbled(shown.trim_ascii_end().escape_ascii().to_string())
}

/// Shows the first line of the reply, as the server sent it.
impl fmt::Display for Reply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Reply::Inserted(id) => return write!(formatter, "INSERTED {id}"),
            Reply::Buried(Some(id)) => return write!(formatter, "BURIED {id}"),
            Reply::Using(name) => return write!(formatter, "USING {name}"),
            Reply::Watching(count) => return write!(formatter, "WATCHING {count}"),
            Reply::Kicked(Some(count)) => return write!(formatter, "KICKED {count}"),
            Reply::Reserved(job) => {
                return write!(formatter, "RESERVED {} {}", job.id, job.body.len());
            }
            Reply::Found(job) => return write!(formatter, "FOUND {} {}", job.id, job.body.len()),
            Reply::Data(data) => return write!(formatter, "OK {}", data.len()),
            Reply::Buried(None) => "BURIED",
            Reply::ExpectedCrlf => "EXPECTED_CRLF",
            Reply::JobTooBig => "JOB_TOO_BIG",
            Reply::Draining => "DRAINING",
            Reply::OutOfMemory => "OUT_OF_MEMORY",
            Reply::InternalError => "INTERNAL_ERROR",
            Reply::BadFormat => "BAD_FORMAT",
            Reply::UnknownCommand => "UNKNOWN_COMMAND",
            Reply::NotIgnored => "NOT_IGNORED",
            Reply::TimedOut => "TIMED_OUT",
            Reply::DeadlineSoon => "DEADLINE_SOON",
            Reply::Deleted => "DELETED",
            Reply::Released => "RELEASED",
            Reply::Touched => "TOUCHED",
            Reply::Kicked(None) => "KICKED",
            Reply::Paused => "PAUSED",
            Reply::NotFound => "NOT_FOUND",
        };
        formatter.write_str(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(input: &[u8]) -> (Reply, usize) {
        Reply::parse(input).unwrap().expect("the reply is complete")
    }

    #[test]
    fn replies_are_read_one_after_the_other() {
        let input = b"INSERTED 7\r\nRESERVED 7 4\r\na\r\nb\r\nKICKED\r\nKICKED 3\r\n";
        let mut rest: &[u8] = input;
        let mut replies = Vec::new();
        while !rest.is_empty() {
            let (reply, used) = complete(rest);
            replies.push(reply);
            rest = &rest[used..];
        }
        let job = Job { id: 7, body: b"a\r\nb".to_vec() };
        assert_eq!(
            replies,
            [Reply::Inserted(7), Reply::Reserved(job), Reply::Kicked(None), Reply::Kicked(Some(3))]
        );
    }

    #[test]
    fn every_prefix_of_a_reply_is_incomplete() {
        for whole in [&b"FOUND 12 5\r\nhello\r\n"[..], b"OK 4\r\n---\n\r\n", b"NOT_FOUND\r\n"] {
            for length in 0..whole.len() {
                assert!(Reply::parse(&whole[..length]).unwrap().is_none(), "{length}");
            }
            let (reply, used) = complete(whole);
            assert_eq!(used, whole.len());
            assert!(whole.starts_with(reply.to_string().as_bytes()));
        }
    }

    #[test]
    fn other_protocols_are_recognised() {
        for garbage in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"SSH-2.0-OpenSSH\n",
            b"OK x\r\n",
            b"FOUND 1 3\r\nabcde",
            b"RESERVED 1 18446744073709551615\r\n",
            &[b'x'; 2000],
            // The answer of a TLS server to a client without TLS.
            b"\x15\x03\x03\0\x02\x02F",
        ] {
            assert!(matches!(Reply::parse(garbage), Err(ClientError::Garbled(_))));
        }
    }
}
