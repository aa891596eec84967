//! Simulated clients and workers of Gearman.

use super::{Known, body_len, mostly_held, queue, random_bytes};
use crate::plan::Plan;
use crate::rng::Rng;

/// Bytes before a packet's body.
const HEADER_BYTES: usize = 12;

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Role {
    Client,
    Worker,
    /// Submits and works on the same connection.
    Both,
    Admin,
}

/// A request of a client or worker: a packet or a line of text.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Request {
    Foreground,
    Background,
    Epoch,
    Reduce,
    Status,
    StatusUnique,
    Option,
    Echo,
    CanDo,
    CanDoTimeout,
    CantDo,
    Reset,
    Sleep,
    Grab,
    Report,
    Progress,
    Complete,
    Fail,
    Exception,
    Text,
    Cancel,
    Drop,
    Limit,
}

impl Role {
    pub(super) fn any(rng: &mut Rng) -> Self {
        *rng.pick(&[
            Self::Client,
            Self::Client,
            Self::Worker,
            Self::Worker,
            Self::Worker,
            Self::Both,
            Self::Admin,
        ])
    }

    fn requests(self) -> &'static [(u64, Request)] {
        match self {
            Self::Client => &[
                (30, Request::Foreground),
                (20, Request::Background),
                (6, Request::Epoch),
                (4, Request::Reduce),
                (6, Request::Status),
                (4, Request::StatusUnique),
                (1, Request::Option),
                (1, Request::Echo),
            ],
            Self::Worker => &[
                (8, Request::CanDo),
                (2, Request::CanDoTimeout),
                (2, Request::CantDo),
                (1, Request::Reset),
                (24, Request::Sleep),
                (40, Request::Grab),
                (8, Request::Report),
                (8, Request::Progress),
                (24, Request::Complete),
                (5, Request::Fail),
                (5, Request::Exception),
            ],
            Self::Both => &[
                (12, Request::Foreground),
                (8, Request::Background),
                (2, Request::Epoch),
                (1, Request::Reduce),
                (6, Request::CanDo),
                (1, Request::CantDo),
                (8, Request::Sleep),
                (16, Request::Grab),
                (3, Request::Report),
                (3, Request::Progress),
                (10, Request::Complete),
                (3, Request::Fail),
                (3, Request::Exception),
                (1, Request::Option),
            ],
            Self::Admin => &[
                (10, Request::Text),
                (5, Request::Cancel),
                (4, Request::Drop),
                (2, Request::Limit),
                (3, Request::Status),
                (3, Request::StatusUnique),
                (4, Request::Background),
            ],
        }
    }
}

/// A packet that a client sends.
pub(crate) fn packet(kind: u32, arguments: &[&[u8]]) -> Vec<u8> {
    let body = arguments.join(&0);
    let mut bytes = b"\0REQ".to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn handle(id: u64) -> Vec<u8> {
    format!("H:sim:{id}").into_bytes()
}

/// The data from which a client writes a request.
pub(super) struct Writer<'a> {
    pub(super) plan: &'a Plan,
    pub(super) known: &'a Known,
    pub(super) held: &'a mut Vec<u64>,
    pub(super) now: u64,
    pub(super) rng: &'a mut Rng,
}

impl Writer<'_> {
    pub(super) fn request(&mut self, role: Role, bytes: &mut Vec<u8>) {
        let mut request = self.rng.weighted(role.requests());
        let adds = matches!(request, Request::Foreground | Request::Background | Request::Epoch);
        if adds && self.plan.scarce && self.rng.below(3) > 0 {
            request = *self.rng.pick(&[Request::Status, Request::StatusUnique, Request::Echo]);
        }
        match request {
            Request::Foreground => self.submit(bytes, &[7, 7, 21, 33], &[]),
            Request::Background => self.submit(bytes, &[18, 18, 32, 34], &[]),
            Request::Epoch => {
                let seconds = self.moment();
                self.submit(bytes, &[36], &[seconds.as_bytes()]);
            }
            Request::Reduce => {
                let reducer = *self.rng.pick(&["", "r", "reducer"]);
                self.submit(bytes, &[37, 38], &[reducer.as_bytes(), b""]);
            }
            Request::Text => {
                let lines =
                    ["status", "prioritystatus", "show jobs", "show unique jobs", "version"];
                bytes.extend(self.rng.pick(&lines).as_bytes());
                bytes.extend(b"\n");
            }
            Request::Cancel => {
                let id = self.known.any(self.rng);
                bytes.extend(format!("cancel job H:sim:{id}\r\n").as_bytes());
            }
            Request::Drop => {
                // A `drop` of thousands of jobs would take several turns. So runs with a crowd have
                // no `drop`.
                let verbs =
                    if self.plan.crowd { ["create"; 3] } else { ["drop", "drop", "create"] };
                let verb = *self.rng.pick(&verbs);
                bytes.extend(format!("{verb} function {}\n", self.function()).as_bytes());
            }
            Request::Limit => {
                let limits = *self.rng.pick(&["", " 0", " 2", " 1 3", " 4 2 1", " 0 5 0"]);
                bytes.extend(format!("maxqueue {}{limits}\n", self.function()).as_bytes());
            }
            request => bytes.extend(self.plain(request)),
        }
    }

    /// Requests that are one packet with few arguments.
    fn plain(&mut self, request: Request) -> Vec<u8> {
        match request {
            Request::Status => packet(15, &[&handle(self.known.any(self.rng))]),
            Request::StatusUnique => packet(41, &[self.unique()]),
            Request::Option => {
                packet(26, &[*self.rng.pick(&[&b"exceptions"[..], b"Exceptions", b"x"])])
            }
            Request::Echo => packet(16, &[b"a\0b"]),
            Request::CanDo => packet(1, &[self.function().as_bytes()]),
            Request::CanDoTimeout => {
                let limit = *self.rng.pick(&["0", "1", "1000", "2500", "x"]);
                packet(23, &[self.function().as_bytes(), limit.as_bytes()])
            }
            Request::CantDo => packet(2, &[self.function().as_bytes()]),
            Request::Reset => packet(3, &[]),
            Request::Sleep => packet(4, &[]),
            Request::Grab => packet(*self.rng.pick(&[9, 30, 39]), &[]),
            Request::Report => {
                let handle = self.mostly_held(false);
                packet(*self.rng.pick(&[28, 29]), &[&handle, b"some data"])
            }
            Request::Progress => {
                let handle = self.mostly_held(false);
                let numerator = self.rng.below(5).to_string();
                packet(
                    12,
                    &[&handle, numerator.as_bytes(), *self.rng.pick(&[&b"5"[..], b"", b"-5x"])],
                )
            }
            Request::Complete => packet(13, &[&self.mostly_held(true), b"result"]),
            Request::Fail => packet(14, &[&self.mostly_held(true)]),
            _ => packet(25, &[&self.mostly_held(true), b"why"]),
        }
    }

    /// A submit: function, key, further arguments, and the workload.
    fn submit(&mut self, bytes: &mut Vec<u8>, kinds: &[u32], between: &[&[u8]]) {
        let kind = *self.rng.pick(kinds);
        let (function, unique) = (self.function(), self.unique());
        let mut body = Vec::new();
        // If the key is `-`, jobs with equal bodies join.
        if self.rng.one_in(3) {
            body.extend(*self.rng.pick(&[&b""[..], b"x", b"y"]));
        } else {
            let len = body_len(self.plan, self.rng);
            random_bytes(&mut body, len, self.rng);
        }
        let mut arguments = vec![function.as_bytes(), unique];
        arguments.extend(between);
        arguments.push(&body);
        bytes.extend(packet(kind, &arguments));
    }

    fn mostly_held(&mut self, gives_it_up: bool) -> Vec<u8> {
        handle(mostly_held(self.held, gives_it_up, self.known, self.rng))
    }

    /// A due time in Unix seconds, or an invalid value.
    fn moment(&mut self) -> String {
        let now = self.now / 1000;
        match self.rng.below(8) {
            0 => "soon".into(),
            1 => (now - 5).to_string(),
            2 => u64::MAX.to_string(),
            3 => (now + 3600).to_string(),
            _ => (now + self.rng.below(5)).to_string(),
        }
    }

    /// Mostly names that clients of other dialects use, too.
    fn function(&mut self) -> &'static str {
        if self.rng.one_in(12) { "fün" } else { queue(self.plan, self.rng) }
    }

    fn unique(&mut self) -> &'static [u8] {
        const LONG: &[u8] = &[b'u'; 65];
        let common = if self.plan.keyed { 3 } else { 12 };
        match self.rng.below(common + 8) {
            0 | 1 => b"-",
            2..4 => b"k",
            4 | 5 => b"l",
            6 => &LONG[..64 + usize::from(self.rng.one_in(3))],
            _ => b"",
        }
    }
}

/// Writes up to 400 times the same request.
pub(super) fn crowd(bytes: &mut Vec<u8>, held: &mut Vec<u64>, rng: &mut Rng) {
    let count = rng.between(1, 400) as usize;
    match rng.below(8) {
        0 | 1 => bytes.extend(packet(18, &[b"default", b"", b"x"]).repeat(count)),
        2 => bytes.extend(packet(7, &[b"default", b"", b"x"]).repeat(count)),
        3..6 => {
            bytes.extend(packet(1, &[b"default"]));
            bytes.extend(packet(9, &[]).repeat(count));
        }
        6 => {
            for id in held.split_off(held.len().saturating_sub(count)) {
                bytes.extend(packet(14, &[&handle(id)]));
            }
        }
        _ => {
            for id in held.iter().take(count) {
                bytes.extend(format!("cancel job H:sim:{id}\n").as_bytes());
            }
        }
    }
}

pub(super) fn garbage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    const LINES: [&[u8]; 10] = [
        b"\n",
        b" status\r\n",
        b"STATUS now please\n",
        b"nonsense\n",
        b"drop function\n",
        b"cancel it\n",
        b"cancel this job\n",
        b"show me\n",
        b"maxqueue\n",
        b"one two three four five six\n",
    ];
    match rng.below(5) {
        0 => bytes.extend(packet(rng.below(46) as u32, &[b"H:sim:1", b"2", b"3"])),
        1 => {
            let mut response = packet(rng.between(1, 42) as u32, &[b"a", b"b", b"c", b"d"]);
            response[3] = b'S';
            bytes.extend(response);
        }
        2 => {
            // The argument is too long, or further arguments are missing.
            let len = rng.between(8000, 9000) as usize;
            bytes.extend(packet(*rng.pick(&[1, 7, 15, 28]), &[&vec![b'x'; len]]));
        }
        3 => bytes.extend(vec![b'y'; rng.below(9000) as usize]),
        _ => bytes.extend_from_slice(LINES[rng.index(LINES.len())]),
    }
}

/// The length of the first whole packet, or of a line.
pub(super) fn reply_len(bytes: &[u8]) -> Option<usize> {
    let len = if *bytes.first()? == 0 {
        let len: [u8; 4] = bytes.get(8..HEADER_BYTES)?.try_into().ok()?;
        HEADER_BYTES + u32::from_be_bytes(len) as usize
    } else {
        bytes.iter().position(|byte| *byte == b'\n')? + 1
    };
    (bytes.len() >= len).then_some(len)
}

/// The job in a packet, and whether the worker holds the job from now on.
pub(super) fn read_reply(reply: &[u8]) -> (Option<u64>, bool) {
    const JOB_CREATED: u8 = 8;
    const ASSIGNS: [u8; 3] = [11, 31, 40];
    let Some(body) = reply.get(HEADER_BYTES..).filter(|_| reply[0] == 0) else {
        return (None, false);
    };
    let kind = reply[7];
    let handle = body.split(|byte| *byte == 0).next().unwrap_or_default();
    let digits = std::str::from_utf8(handle).ok().and_then(|text| text.strip_prefix("H:sim:"));
    let id = digits.and_then(|digits| digits.parse().ok());
    let is_taken = ASSIGNS.contains(&kind);
    (id.filter(|_| is_taken || kind == JOB_CREATED), is_taken)
}
