//! Simulated clients of Kestrel: the parts that all dialects share, and the memcache dialect.

pub(super) mod text;
pub(super) mod thrift;

use super::{OTHER_NAME, body_len, random_bytes};
use crate::plan::Plan;
use crate::rng::Rng;

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Role {
    Producer,
    /// Takes items and finishes them at once.
    Taker,
    /// Opens reads, and closes or aborts them.
    Reader,
    Admin,
}

impl Role {
    pub(super) fn any(rng: &mut Rng) -> Self {
        *rng.pick(&[
            Self::Producer,
            Self::Producer,
            Self::Taker,
            Self::Reader,
            Self::Reader,
            Self::Admin,
        ])
    }

    fn kinds(self) -> &'static [(u64, &'static str)] {
        match self {
            Self::Producer => &[(40, "set"), (2, "get"), (1, "peek"), (1, "version")],
            Self::Taker => &[(30, "get"), (10, "wait"), (4, "peek"), (2, "monitor"), (3, "set")],
            Self::Reader => &[
                (16, "open"),
                (10, "close"),
                (14, "close/open"),
                (6, "abort"),
                (10, "open-wait"),
                (4, "monitor"),
                (6, "confirm"),
                (3, "peek-wait"),
                (2, "get"),
            ],
            Self::Admin => &[
                (4, "delete"),
                (5, "flush"),
                (1, "flush_all"),
                (4, "flush_expired"),
                (2, "flush_all_expired"),
                (3, "status"),
                (6, "status-up"),
                (1, "status-strict"),
                (8, "peek"),
                (6, "set"),
                (2, "quit"),
            ],
        }
    }
}

/// The data from which a client writes a request.
pub(super) struct Writer<'a> {
    pub(super) plan: &'a Plan,
    pub(super) now: u64,
    pub(super) rng: &'a mut Rng,
}

impl Writer<'_> {
    pub(super) fn request(&mut self, role: Role, bytes: &mut Vec<u8>) {
        let mut kind = self.rng.weighted(role.kinds());
        if kind == "set" && self.plan.scarce && self.rng.below(3) > 0 {
            kind = "peek";
        }
        let queue = queue(self.plan, self.rng);
        let wait = *self.rng.pick(&[1, 30, 300, 1000, 5000]);
        let text = match kind {
            "set" => return self.set(queue, bytes),
            "get" => format!("get {queue}"),
            "wait" => format!("get {queue}/t={wait}"),
            "peek" => format!("get {queue}/peek"),
            "peek-wait" => format!("get {queue}/t={wait}/peek"),
            "open" => format!("GET {queue}/open"),
            "open-wait" => format!("get {queue}/open/t={wait}"),
            "close" => format!("get {queue}/close"),
            "close/open" => format!("get {queue}/close/open/t={wait}"),
            "abort" => format!("get {queue}/abort"),
            "monitor" => {
                let max = *self.rng.pick(&["", " 0", " 1", " 3", " -1"]);
                format!("monitor {queue} {}{max}", self.rng.below(3))
            }
            "confirm" => format!("confirm {queue} {}", *self.rng.pick(&[0, 1, 1, 2, 3, -1])),
            "delete" | "flush" | "flush_expired" => format!("{kind} {queue}"),
            "status-up" | "status-strict" => self.change_of_status(kind),
            kind => kind.to_owned(),
        };
        bytes.extend_from_slice(text.as_bytes());
        self.end_line(bytes);
    }

    /// Both line protocols change the status in the same way.
    fn change_of_status(&mut self, kind: &str) -> String {
        match kind {
            "status-up" => "status up".to_owned(),
            _ => format!("STATUS {}", *self.rng.pick(&["readonly", "Quiescent", "down", "x"])),
        }
    }

    fn end_line(&mut self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(if self.rng.coin() { b"\r\n" } else { b"\n" });
    }

    fn set(&mut self, queue: &str, bytes: &mut Vec<u8>) {
        let now = self.now / 1000;
        // With policies, an item that is already expired at its put can move to another queue. The
        // protocol does not define the order of such items in the other queue. So runs with
        // policies have no such items.
        let may_be_late = self.plan.weights.policies == 0;
        let expiry = match self.rng.below(8) {
            0 if may_be_late => "-1".to_owned(),
            0 | 1 => self.rng.below(3).to_string(),
            2 => (now + self.rng.below(4) + u64::from(!may_be_late)).to_string(),
            3 => "3600".to_owned(),
            _ => "0".to_owned(),
        };
        let len = body_len(self.plan, self.rng);
        bytes.extend(format!("set {queue} 0 {expiry} {len}\r\n").as_bytes());
        random_bytes(bytes, len, self.rng);
        bytes.extend_from_slice(b"\r\n");
    }
}

/// A queue, a child, or an alias if the policies have one.
fn queue(plan: &Plan, rng: &mut Rng) -> &'static str {
    const NAMES: [&str; 11] =
        ["default", "a", "a", "a", "b-2", "b-2", "a+x", "a+x", "a+y", "b-2+x", "al"];
    if plan.renames && rng.one_in(4) {
        return if rng.coin() { OTHER_NAME } else { "sa+x" };
    }
    NAMES[rng.index(NAMES.len())]
}

pub(super) fn garbage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    const LINES: [&[u8]; 12] = [
        b"\r\n",
        b"get\r\n",
        b"get  a\r\n",
        b"get /\r\n",
        b"get a/open/peek\r\n",
        b"get a/t=x\r\n",
        b"set a x 0 3\r\nabc\r\n",
        b"set a 0 x 3\r\nabc\r\n",
        b"set a 0 0\r\n",
        b"confirm a\r\n",
        b"monitor a x\r\n",
        b"nonsense\r\n",
    ];
    bytes.extend_from_slice(LINES[rng.index(LINES.len())]);
}

/// The length of the first whole reply.
pub(super) fn reply_len(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let line = String::from_utf8_lossy(&bytes[..end]);
    let words: Vec<&str> = line.split(' ').collect();
    let rest = match words[..] {
        ["VALUE", _, _, len] => len.parse::<usize>().ok()? + b"\r\nEND\r\n".len(),
        _ => 0,
    };
    let len = end + 2 + rest;
    (bytes.len() >= len).then_some(len)
}
