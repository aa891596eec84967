//! Parses requests and replies from the bytes of a connection, according to the protocols'
//! documents.

use std::fmt;

/// The parts of a beanstalkd request that the oracle looks at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Request {
    Put {
        pri: u32,
        delay: u32,
        ttr: u32,
    },
    Use(String),
    Watch(String),
    Ignore(String),
    Reserve {
        timeout: Option<u32>,
    },
    ReserveJob(u64),
    Delete(u64),
    Release {
        id: u64,
        pri: u32,
        delay: u32,
    },
    Bury {
        id: u64,
        pri: u32,
    },
    Touch(u64),
    Kick,
    KickJob(u64),
    Pause {
        name: String,
        seconds: u32,
    },
    /// `peek` and `stats-job`.
    Look(u64),
    /// The request changes nothing.
    Other,
    /// The oracle cannot decide how the server must reply.
    Unclear,
}

/// A reply of beanstalkd.
#[derive(Clone)]
pub(super) struct Reply {
    pub(super) word: String,
    pub(super) id: u64,
    pub(super) body: Vec<u8>,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.word, self.id)
    }
}

/// Packets of Gearman.
pub(super) const JOB_ASSIGN: u32 = 11;
pub(super) const WORK_COMPLETE: u32 = 13;
pub(super) const JOB_ASSIGN_UNIQ: u32 = 31;
pub(super) const JOB_ASSIGN_ALL: u32 = 40;

/// Bytes before a packet's body.
const HEADER_BYTES: usize = 12;

/// Verbs that change something. If a line begins with one of these verbs, the server may accept the
/// line even if this parser rejects it.
const CHANGING: [&str; 10] =
    ["put", "use", "watch", "ignore", "reserve", "delete", "release", "bury", "kick", "pause-tube"];

fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|pair| pair == b"\r\n")
}

/// Takes the first request, if a whole line arrived. First takes the last `body` bytes of an earlier
/// put's body, and moves them to `taken`. These bytes can arrive after the reply to the put.
pub(super) fn request(
    input: &mut Vec<u8>,
    body: &mut usize,
    taken: &mut Vec<u8>,
) -> Option<Request> {
    let count = input.len().min(*body);
    taken.extend(input.drain(..count));
    *body -= count;
    if *body > 0 {
        return None;
    }
    let end = line_end(input)?;
    let line = String::from_utf8_lossy(&input[..end]).into_owned();
    let words: Vec<&str> = line.split(' ').collect();
    let request = match words[..] {
        ["put", pri, delay, ttr, size] => {
            let numbers = (pri.parse(), delay.parse(), ttr.parse(), size.parse::<u32>());
            let (Ok(pri), Ok(delay), Ok(ttr), Ok(size)) = numbers else {
                return Some(Request::Unclear);
            };
            *body = size as usize + 2;
            Some(Request::Put { pri, delay, ttr })
        }
        ["use", name] if !name.starts_with('-') => Some(Request::Use(name.to_owned())),
        ["watch", name] => Some(Request::Watch(name.to_owned())),
        ["ignore", name] => Some(Request::Ignore(name.to_owned())),
        ["reserve"] => Some(Request::Reserve { timeout: None }),
        ["reserve-with-timeout", time] => {
            time.parse().ok().map(|time| Request::Reserve { timeout: Some(time) })
        }
        ["reserve-job", id] => id.parse().ok().map(Request::ReserveJob),
        ["delete", id] => id.parse().ok().map(Request::Delete),
        ["release", id, pri, delay] => release(id, pri, delay),
        ["bury", id, pri] => bury(id, pri),
        ["touch", id] => id.parse().ok().map(Request::Touch),
        ["kick", bound] => bound.parse::<u32>().ok().map(|_| Request::Kick),
        ["kick-job", id] => id.parse().ok().map(Request::KickJob),
        ["peek" | "stats-job", id] => id.parse().ok().map(Request::Look),
        ["pause-tube", name, seconds] => {
            let name = name.to_owned();
            seconds.parse().ok().map(|seconds| Request::Pause { name, seconds })
        }
        _ if line.len() > 200 || CHANGING.iter().any(|verb| line.starts_with(verb)) => None,
        _ => Some(Request::Other),
    };
    input.drain(..end + 2);
    Some(request.unwrap_or(Request::Unclear))
}

fn release(id: &str, pri: &str, delay: &str) -> Option<Request> {
    Some(Request::Release {
        id: id.parse().ok()?,
        pri: pri.parse().ok()?,
        delay: delay.parse().ok()?,
    })
}

fn bury(id: &str, pri: &str) -> Option<Request> {
    Some(Request::Bury { id: id.parse().ok()?, pri: pri.parse().ok()? })
}

/// Takes the first whole reply.
pub(super) fn reply(output: &mut Vec<u8>) -> Result<Option<Reply>, String> {
    let Some(end) = line_end(output) else { return Ok(None) };
    let line = String::from_utf8_lossy(&output[..end]).into_owned();
    let words: Vec<&str> = line.split(' ').collect();
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{line:?} has no number"));
    let (id, body) = match words[..] {
        ["RESERVED" | "FOUND", id, len] => (number(id)?, number(len)? as usize + 2),
        ["OK", len] => (0, number(len)? as usize + 2),
        ["INSERTED", id] => (number(id)?, 0),
        _ => (0, 0),
    };
    let len = end + 2 + body;
    if output.len() < len {
        return Ok(None);
    }
    let word = words[0].to_owned();
    let body = output[end + 2..end + 2 + body.saturating_sub(2)].to_vec();
    output.drain(..len);
    Ok(Some(Reply { word, id, body }))
}

/// Takes the first whole packet of Gearman: its kind, the job that its handle names, and its body.
/// Ignores lines of text.
pub(super) fn packet(bytes: &mut Vec<u8>) -> Option<(u32, Option<u64>, Vec<u8>)> {
    while bytes.first().is_some_and(|byte| *byte != 0) {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        bytes.drain(..=end);
    }
    let header: [u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
    let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let (kind, len) = (word(4), HEADER_BYTES + word(8) as usize);
    let body = bytes.get(HEADER_BYTES..len)?;
    let handle = body.split(|byte| *byte == 0).next().unwrap_or_default();
    let handle = String::from_utf8_lossy(handle);
    let id = handle.rsplit(':').next().and_then(|id| id.parse().ok());
    let body = body.to_vec();
    bytes.drain(..len);
    Some((kind, id, body))
}
