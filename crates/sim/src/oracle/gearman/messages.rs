//! Parses what Gearman's clients and workers send and receive, according to the protocol's document.

/// Bytes before a packet's body.
const HEADER_BYTES: usize = 12;
/// A time limit with a longer text is ignored.
const LIMIT_BYTES_MAX: usize = 20;

/// The parts of a request that the oracle looks at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Request {
    Submit(Submit),
    /// A worker registers a function, with or without a time limit.
    CanDo {
        function: String,
        is_limited: bool,
    },
    CantDo(String),
    Reset,
    Sleep,
    Grab,
    /// News about a job: the kind of the packet, and its body.
    Report {
        id: u64,
        news: News,
    },
    /// The job may end.
    Cancel(u64),
    /// All jobs of the function may end.
    Drop(String),
    Other,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Submit {
    pub(super) function: String,
    pub(super) unique: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) is_foreground: bool,
    /// When the job is due, in milliseconds.
    pub(super) due: Option<u64>,
}

impl Submit {
    /// Whether this submit can join a job that is there.
    pub(super) fn can_join(&self) -> bool {
        let key = if self.unique == b"-" { &self.body } else { &self.unique };
        !key.is_empty()
    }
}

/// News of a job, as it is sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct News {
    pub(super) kind: u32,
    pub(super) body: Vec<u8>,
}

const COMPLETE: u32 = 13;
const FAIL: u32 = 14;
const EXCEPTION: u32 = 25;

impl News {
    pub(super) fn is_end(&self) -> bool {
        matches!(self.kind, COMPLETE | FAIL | EXCEPTION)
    }

    /// Whether the news that left is this news. A client can get a failure instead of an exception.
    pub(super) fn is_told_by(&self, told: &Self) -> bool {
        self == told || self.kind == EXCEPTION && told.kind == FAIL
    }
}

/// The parts of a reply that the oracle looks at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Reply {
    Created(u64),
    /// The server refused a submit.
    Refused,
    Assigned {
        id: u64,
        function: String,
        /// `None` if the packet does not have it.
        unique: Option<Vec<u8>>,
        body: Vec<u8>,
    },
    NoJob,
    Wake,
    Told {
        id: u64,
        news: News,
    },
    Other,
}

/// Takes the first message, if it is whole: the kind of a packet and its body, or a line.
enum Message {
    Packet(u32, Vec<u8>),
    Line(String),
}

fn message(bytes: &mut Vec<u8>) -> Option<Message> {
    if *bytes.first()? != 0 {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = bytes.drain(..=end).collect();
        return Some(Message::Line(String::from_utf8_lossy(&line).trim_end().to_owned()));
    }
    let word = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (kind, len) = (word(4)?, HEADER_BYTES + word(8)? as usize);
    let body = bytes.get(HEADER_BYTES..len)?.to_vec();
    bytes.drain(..len);
    Some(Message::Packet(kind, body))
}

/// The job that a handle names.
fn named(handle: &[u8]) -> Option<u64> {
    std::str::from_utf8(handle).ok()?.rsplit(':').next()?.parse().ok()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Takes the first request, if it has arrived completely.
pub(super) fn request(input: &mut Vec<u8>) -> Option<Request> {
    let (kind, body) = match message(input)? {
        Message::Packet(kind, body) => (kind, body),
        Message::Line(line) => {
            let mut words = line.split(' ').filter(|word| !word.is_empty());
            return Some(match (words.next(), words.next(), words.next()) {
                (Some("cancel"), Some("job"), Some(handle)) => {
                    named(handle.as_bytes()).map_or(Request::Other, Request::Cancel)
                }
                (Some("drop"), Some("function"), Some(name)) => Request::Drop(name.to_owned()),
                _ => Request::Other,
            });
        }
    };
    let part = |count: usize, index: usize| {
        body.splitn(count, |byte| *byte == 0).nth(index).unwrap_or_default()
    };
    Some(match kind {
        1 => Request::CanDo { function: text(&body), is_limited: false },
        23 => {
            let limit = part(2, 1);
            let is_number = limit.len() <= LIMIT_BYTES_MAX && number(limit).is_some_and(|n| n > 0);
            Request::CanDo { function: text(part(2, 0)), is_limited: is_number }
        }
        2 => Request::CantDo(text(&body)),
        3 => Request::Reset,
        4 => Request::Sleep,
        9 | 30 | 39 => Request::Grab,
        12..=14 | 25 | 28 | 29 => match named(part(2, 0)) {
            Some(id) => Request::Report { id, news: News { kind, body } },
            None => Request::Other,
        },
        7 | 18 | 21 | 32..=34 | 36..=38 => {
            let parts = match kind {
                36 => 4,
                37 | 38 => 5,
                _ => 3,
            };
            let due = match kind {
                // The server ignores a submit with a due time that no clock can reach.
                36 => match number(part(parts, 2)).map(u64::try_from) {
                    Some(Err(_)) => return Some(Request::Other),
                    seconds => seconds.and_then(Result::ok).map(|seconds| seconds * 1000),
                },
                _ => None,
            };
            Request::Submit(Submit {
                function: text(part(parts, 0)),
                unique: part(parts, 1).to_vec(),
                body: part(parts, parts - 1).to_vec(),
                is_foreground: matches!(kind, 7 | 21 | 33 | 37),
                due,
            })
        }
        _ => Request::Other,
    })
}

/// A number, if the text is nothing else. It must fit into 63 bits, as in the original.
fn number(text: &[u8]) -> Option<i128> {
    let number: i128 = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(if number > i128::from(i64::MAX) { -1 } else { number })
}

/// Takes the first reply, if it has left completely.
pub(super) fn reply(output: &mut Vec<u8>) -> Option<Reply> {
    let Message::Packet(kind, body) = message(output)? else { return Some(Reply::Other) };
    let part = |count: usize, index: usize| {
        body.splitn(count, |byte| *byte == 0).nth(index).unwrap_or_default()
    };
    let id = named(part(2, 0));
    let assigned = |count: usize| Reply::Assigned {
        id: id.unwrap_or_default(),
        function: text(part(count, 1)),
        unique: (count > 3).then(|| part(count, 2).to_vec()),
        body: part(count, count - 1).to_vec(),
    };
    Some(match (kind, id) {
        (6, _) => Reply::Wake,
        (8, Some(id)) => Reply::Created(id),
        (10, _) => Reply::NoJob,
        (11, _) => assigned(3),
        (31, _) => assigned(4),
        (40, _) => assigned(5),
        (12..=14 | 25 | 28 | 29, Some(id)) => Reply::Told { id, news: News { kind, body } },
        // Other errors are about results of jobs, and about options.
        (19, _) if matches!(part(2, 0), b"QUEUE_ERROR" | b"ARGUMENT_TOO_LARGE") => Reply::Refused,
        _ => Reply::Other,
    })
}
