//! Simulated clients of Kestrel, in the thrift dialect: the binary protocol, in frames.

use super::{Role, Writer, queue};
use crate::rng::Rng;
use crate::workload::{Known, body_len, random_bytes};

/// The longest item in a list of several. A whole list is far shorter than a segment.
const LISTED_BYTES_MAX: u64 = 2000;

const LISTED_ITEMS_MAX: u64 = 6;

/// The first bytes of messages, by their kind.
const CALL: u32 = 0x8001_0001;
const REPLY: u32 = 0x8001_0002;
const ONEWAY: u32 = 0x8001_0004;

// Types.
const I32: u8 = 8;
const I64: u8 = 10;
const BYTES: u8 = 11;
const SET: u8 = 14;
const LIST: u8 = 15;

impl Role {
    fn calls(self) -> &'static [(u64, &'static str)] {
        match self {
            Self::Producer => &[(40, "put"), (2, "get"), (2, "peek"), (1, "get_version")],
            Self::Taker => &[(20, "get"), (14, "get-wait"), (4, "peek"), (3, "put")],
            Self::Reader => &[
                (16, "open"),
                (12, "open-wait"),
                (14, "confirm"),
                (8, "abort"),
                (2, "get"),
                (2, "peek"),
            ],
            Self::Admin => &[
                (4, "delete_queue"),
                (5, "flush_queue"),
                (1, "flush_all_queues"),
                (3, "current_status"),
                (6, "status-up"),
                (1, "status-strict"),
                (10, "peek"),
                (6, "put"),
            ],
        }
    }
}

/// A message that is being written.
struct Message(Vec<u8>);

impl Message {
    fn begin(head: u32, name: &str, rng: &mut Rng) -> Self {
        let mut message = Self(head.to_be_bytes().to_vec());
        message.bytes(name.as_bytes());
        message.i32(rng.below(1 << 32) as u32 as i32);
        message
    }

    fn field(&mut self, kind: u8, number: u16) {
        self.0.push(kind);
        self.0.extend(number.to_be_bytes());
    }

    fn i32(&mut self, value: i32) {
        self.0.extend(value.to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.i32(bytes.len() as i32);
        self.0.extend_from_slice(bytes);
    }

    fn number(&mut self, field: u16, value: i32) {
        self.field(I32, field);
        self.i32(value);
    }

    fn end(mut self, bytes: &mut Vec<u8>) {
        self.0.push(0);
        self.send(bytes);
    }

    /// Writes the message as a frame, without the end of the arguments.
    fn send(self, bytes: &mut Vec<u8>) {
        bytes.extend((self.0.len() as u32).to_be_bytes());
        bytes.extend(self.0);
    }
}

impl Writer<'_> {
    pub(crate) fn call(
        &mut self,
        role: Role,
        held: &mut Vec<u64>,
        known: &Known,
        bytes: &mut Vec<u8>,
    ) {
        let mut kind = self.rng.weighted(role.calls());
        if kind == "put" && self.plan.scarce && self.rng.below(3) > 0 {
            kind = "peek";
        }
        let name = match kind {
            "get-wait" | "open" | "open-wait" => "get",
            "status-up" | "status-strict" => "set_status",
            name => name,
        };
        let wants_no_answer = matches!(kind, "confirm" | "abort" | "flush_queue");
        let head = if wants_no_answer && self.rng.one_in(20) { ONEWAY } else { CALL };
        let mut message = Message::begin(head, name, self.rng);
        match kind {
            "status-up" => message.number(1, 3),
            "status-strict" => message.number(1, *self.rng.pick(&[0, 1, 2, 7])),
            "get_version" | "current_status" | "flush_all_queues" => {}
            _ => {
                message.field(BYTES, 1);
                message.bytes(queue(self.plan, self.rng).as_bytes());
            }
        }
        match kind {
            "put" => self.items(&mut message),
            "confirm" | "abort" => self.ids(held, known, &mut message),
            _ if name == "get" => {
                message.number(2, *self.rng.pick(&[0, 1, 1, 2, 3, 10, -1]));
                if kind.ends_with("wait") {
                    message.number(3, *self.rng.pick(&[1, 30, 300, 1000, 5000]));
                }
                if kind.starts_with("open") {
                    message.number(4, *self.rng.pick(&[1, 100, 1000, 5000, 20_000]));
                }
            }
            _ => {}
        }
        message.end(bytes);
    }

    fn items(&mut self, message: &mut Message) {
        message.field(LIST, 2);
        message.0.push(BYTES);
        let count = if self.rng.coin() { 1 } else { self.rng.below(LISTED_ITEMS_MAX + 1) };
        message.i32(count as i32);
        let most = self.plan.body_bytes.min(LISTED_BYTES_MAX).min(self.plan.max_job_size.into());
        for _ in 0..count {
            let len = match count {
                1 => body_len(self.plan, self.rng),
                _ => self.rng.below(most / LISTED_ITEMS_MAX + 1),
            };
            message.i32(len as i32);
            random_bytes(&mut message.0, len, self.rng);
        }
        // As in `set`, runs with policies have no items that are already expired at their put.
        let may_be_late = self.plan.weights.policies == 0;
        match self.rng.below(8) {
            0 if may_be_late => message.number(3, -1),
            0 | 1 => message.number(3, self.rng.below(3000) as i32),
            2 => message.number(3, 3_600_000),
            _ => {}
        }
    }

    /// Numbers of items that this client or another client received.
    fn ids(&mut self, held: &mut Vec<u64>, known: &Known, message: &mut Message) {
        message.field(SET, 2);
        message.0.push(I64);
        let count = *self.rng.pick(&[0, 1, 1, 1, 2, 2, 3]);
        message.i32(count);
        for _ in 0..count {
            let id = if held.is_empty() || self.rng.one_in(6) {
                known.any_lease(self.rng)
            } else {
                held.swap_remove(self.rng.index(held.len()))
            };
            message.0.extend(id.to_be_bytes());
        }
    }
}

pub(in crate::workload) fn garbage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    match rng.below(8) {
        0 => Message::begin(CALL, "nonsense", rng).end(bytes),
        1 => Message::begin(REPLY, "get_version", rng).end(bytes),
        2 => Message::begin(0x8002_0001, "get_version", rng).end(bytes),
        3 => bytes.extend_from_slice(b"\0\0\0\0\x80"),
        4 => bytes.extend_from_slice(b"\x7f\xff\xff\xff\x80"),
        5 => Message::begin(CALL, "get", rng).end(bytes),
        6 => {
            let mut message = Message::begin(CALL, "current_status", rng);
            message.number(9, 1);
            message.end(bytes);
        }
        _ => {
            let mut message = Message::begin(CALL, "get", rng);
            message.number(2, 1);
            message.send(bytes);
        }
    }
}

/// The length of the first whole reply.
pub(in crate::workload) fn reply_len(bytes: &[u8]) -> Option<usize> {
    let (head, rest) = bytes.split_first_chunk::<4>()?;
    let len = u32::from_be_bytes(*head) as usize;
    (rest.len() >= len).then_some(4 + len)
}

/// Numbers of the items that the client holds until it confirms them.
pub(in crate::workload) fn leases(reply: &[u8]) -> Vec<u64> {
    /// The name begins after the length of the frame and the head.
    const NAME_AT: usize = 8;
    const COUNT_AT: usize = NAME_AT + 7 + 4 + 4;
    let mut leases = Vec::new();
    let is_result = reply.get(4..8).is_some_and(|head| head == REPLY.to_be_bytes());
    if !is_result || reply.get(NAME_AT..NAME_AT + 7) != Some(b"\0\0\0\x03get") {
        return leases;
    }
    let number = |at: usize| reply.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let count = number(COUNT_AT).unwrap_or(0);
    let mut at = COUNT_AT + 4;
    for _ in 0..count {
        // The item's bytes are field 1, and its number is field 2.
        let Some(len) = number(at + 3) else { return leases };
        let lease_at = at + 7 + len as usize + 3;
        let lease = reply.get(lease_at..lease_at + 8).and_then(|bytes| bytes.try_into().ok());
        leases.extend(lease.map(u64::from_be_bytes).filter(|lease| *lease > 0));
        at = lease_at + 9;
    }
    leases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_found_in_the_reply_of_the_spec() {
        let reply = b"\0\0\0\x2c\x80\x01\0\x02\0\0\0\x03get\0\0\0\x01\x0f\0\0\x0c\0\0\0\x01\
            \x0b\0\x01\0\0\0\x01x\x0a\0\x02\0\0\0\0\0\0\0\x07\0\0";
        assert_eq!(reply_len(reply), Some(reply.len()));
        assert_eq!(leases(reply), [7]);
        assert!(leases(b"\0\0\0\x01x").is_empty());
    }
}
