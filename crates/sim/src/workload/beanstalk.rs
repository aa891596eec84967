//! Simulated clients of beanstalkd.

use super::{Known, body_len, mostly_held, queue, random_bytes};
use crate::plan::Plan;
use crate::rng::Rng;

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Role {
    Producer,
    Worker,
    Admin,
    /// Uses and watches one queue after another, so that queues are dropped and created again.
    Wanderer,
    Anything,
}

impl Role {
    pub(super) fn any(rng: &mut Rng) -> Self {
        *rng.pick(&[
            Self::Producer,
            Self::Worker,
            Self::Worker,
            Self::Admin,
            Self::Wanderer,
            Self::Anything,
        ])
    }

    /// The commands of this role, and their frequencies.
    fn kinds(self) -> &'static [(u64, &'static str)] {
        match self {
            Role::Producer => {
                &[(60, "put"), (4, "use"), (2, "delete"), (1, "stats-job"), (1, "quit")]
            }
            Role::Worker => &[
                (40, "reserve-with-timeout"),
                (8, "reserve"),
                (4, "reserve-job"),
                (30, "delete"),
                (12, "release"),
                (10, "bury"),
                (8, "touch"),
                (4, "watch"),
                (3, "ignore"),
                (3, "stats-job"),
            ],
            Role::Admin => &[
                (6, "peek"),
                (5, "peek-ready"),
                (5, "peek-delayed"),
                (5, "peek-buried"),
                (8, "kick"),
                (8, "kick-job"),
                (4, "pause-tube"),
                (3, "stats"),
                (5, "stats-job"),
                (5, "stats-tube"),
                (3, "list-tubes"),
                (2, "list-tube-used"),
                (2, "list-tubes-watched"),
                (6, "use"),
                (8, "delete"),
                (6, "put"),
            ],
            Role::Wanderer => &[
                (24, "use"),
                (3, "watch"),
                (4, "ignore"),
                (12, "put"),
                (16, "delete"),
                (6, "peek-ready"),
                (3, "peek-delayed"),
                (3, "peek-buried"),
                (6, "kick"),
                (4, "reserve-with-timeout"),
                (2, "stats-tube"),
                (1, "list-tubes"),
            ],
            Role::Anything => &[
                (20, "put"),
                (10, "reserve-with-timeout"),
                (2, "reserve"),
                (4, "reserve-job"),
                (10, "delete"),
                (6, "release"),
                (6, "bury"),
                (3, "touch"),
                (4, "kick"),
                (4, "kick-job"),
                (2, "peek"),
                (2, "peek-ready"),
                (2, "peek-buried"),
                (2, "peek-delayed"),
                (2, "pause-tube"),
                (1, "stats"),
                (2, "stats-tube"),
                (2, "stats-job"),
                (3, "use"),
                (3, "watch"),
                (2, "ignore"),
                (1, "list-tubes"),
                (1, "quit"),
            ],
        }
    }
}

/// The job in a reply, and whether the client holds the job from now on.
pub(super) fn read_reply(reply: &[u8]) -> (Option<u64>, bool) {
    let line = reply.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let text = String::from_utf8_lossy(line);
    let mut words = text.split(' ');
    let word = words.next().unwrap_or_default();
    let id = words.next().and_then(|word| word.parse().ok());
    match word {
        "INSERTED" | "FOUND" => (id, false),
        "RESERVED" => (id, true),
        _ => (None, false),
    }
}

/// Writes up to 400 times the same command.
pub(super) fn crowd(plan: &Plan, bytes: &mut Vec<u8>, held: &mut Vec<u64>, rng: &mut Rng) {
    let count = rng.between(1, 400);
    match rng.below(6) {
        // The delay is the longest possible delay, so that the jobs do not all become ready at one
        // moment of the run.
        0 => bytes.extend(b"put 5 4294967295 4294967295 1\r\nx\r\n".repeat(count as usize)),
        1 => bytes.extend(b"put 5 0 4294967295 1\r\nx\r\n".repeat(count as usize)),
        2 | 3 => bytes.extend(b"reserve-with-timeout 0\r\n".repeat(count as usize)),
        4 => {
            for id in held.split_off(held.len().saturating_sub(count as usize)) {
                bytes.extend(format!("bury {id} 5\r\n").as_bytes());
            }
        }
        // The model cannot compute how many slices a kick needs that waits for cold jobs, nor after
        // which slice it ends because the log has no room. So with a model, such a kick is at most
        // one slice long.
        _ if (plan.jobs_bytes_max.is_some() || plan.weights.fill_disk > 0)
            && plan.unmodelled.is_none() =>
        {
            bytes.extend(b"kick 1000\r\n");
        }
        _ => bytes.extend(b"kick 100000\r\n"),
    }
}

/// The data from which a client writes a command.
pub(super) struct Writer<'a> {
    pub(super) plan: &'a Plan,
    pub(super) known: &'a Known,
    pub(super) held: &'a mut Vec<u64>,
    pub(super) rng: &'a mut Rng,
}

impl Writer<'_> {
    pub(super) fn command(&mut self, role: Role, bytes: &mut Vec<u8>) {
        let Self { plan, rng, .. } = self;
        let mut kind = rng.weighted(role.kinds());
        if kind == "put" && plan.scarce && rng.below(3) > 0 {
            kind = *rng.pick(&["delete", "delete", "use", "peek-ready"]);
        }
        if kind == "put" {
            put(bytes, plan, rng);
            return;
        }
        let arguments = self.arguments(kind);
        bytes.extend_from_slice(kind.as_bytes());
        bytes.extend_from_slice(arguments.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }

    fn arguments(&mut self, kind: &str) -> String {
        let Self { plan, known, held, rng } = self;
        match kind {
            "delete" | "touch" => {
                format!(" {}", mostly_held(held, kind == "delete", known, rng))
            }
            "bury" => format!(" {} {}", mostly_held(held, true, known, rng), priority(rng)),
            "release" => {
                let id = mostly_held(held, true, known, rng);
                format!(" {id} {} {}", priority(rng), delay(rng))
            }
            "reserve-with-timeout" => format!(" {}", *rng.pick(&[0, 0, 0, 1, 2, 5, 60])),
            "kick" => format!(" {}", *rng.pick(&[0, 1, 1, 2, 5, 100])),
            "reserve-job" | "kick-job" | "peek" | "stats-job" => format!(" {}", known.any(rng)),
            "use" | "watch" | "ignore" | "stats-tube" => format!(" {}", queue(plan, rng)),
            "pause-tube" => format!(" {} {}", queue(plan, rng), *rng.pick(&[0, 0, 1, 2, 5])),
            _ => String::new(),
        }
    }
}

fn priority(rng: &mut Rng) -> u32 {
    *rng.pick(&[0, 1, 5, 5, 5, 1023, 1024, u32::MAX])
}

fn delay(rng: &mut Rng) -> u32 {
    *rng.pick(&[0, 0, 0, 0, 1, 1, 2, 3, 10, 3600, u32::MAX])
}

fn put(bytes: &mut Vec<u8>, plan: &Plan, rng: &mut Rng) {
    let size = body_len(plan, rng);
    let ttr = *rng.pick(&[0, 1, 1, 2, 3, 5, 60, u32::MAX]);
    let head = format!("put {} {} {ttr} {size}\r\n", priority(rng), delay(rng));
    bytes.extend_from_slice(head.as_bytes());
    random_bytes(bytes, size, rng);
    let end: &[u8] = if rng.one_in(60) { b"xx" } else { b"\r\n" };
    bytes.extend_from_slice(end);
}

pub(super) fn garbage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    const LINES: [&[u8]; 12] = [
        b"\r\n",
        b"nonsense\r\n",
        b"put 1 2\r\n",
        b"put 0 0 0 -1\r\n",
        b"put 0 0 10 3 \r\nabc\r\n",
        b"delete 1 \r\n",
        b"reserve-with-timeout -1x\r\n",
        b"kick 4294967297 x\r\n",
        b"kick abc\r\n",
        b"use -a\r\n",
        b"pause-tubea 1\r\n",
        b"\rpeek 1\n\r\n",
    ];
    match rng.below(4) {
        0 => {
            let len = rng.below(600);
            bytes.extend((0..len).map(|_| b'x'));
            bytes.extend_from_slice(b"\r\n");
        }
        1 => {
            let len = rng.below(40);
            bytes.extend((0..len).map(|_| rng.next_u64() as u8));
            bytes.extend_from_slice(b"\r\n");
        }
        _ => bytes.extend_from_slice(LINES[rng.index(LINES.len())]),
    }
}

/// The length of the first whole reply.
pub(super) fn reply_len(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let line = String::from_utf8_lossy(&bytes[..end]);
    let words: Vec<&str> = line.split(' ').collect();
    let body = match words[..] {
        ["OK", len] | ["RESERVED" | "FOUND", _, len] => len.parse::<usize>().ok()? + 2,
        _ => 0,
    };
    let len = end + 2 + body;
    (bytes.len() >= len).then_some(len)
}
