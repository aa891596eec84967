//! Simulated clients: what they write, and what they make of the replies they read.

use std::collections::VecDeque;

use crate::plan::Plan;
use crate::rng::Rng;

/// Ids that clients have heard of; they name them in commands of all kinds.
#[derive(Debug, Default)]
pub(crate) struct Known {
    ids: VecDeque<u64>,
    pub(crate) newest: u64,
}

const KNOWN_IDS_MAX: usize = 60;

impl Known {
    fn heard(&mut self, id: u64) {
        self.newest = self.newest.max(id);
        self.ids.push_back(id);
        if self.ids.len() > KNOWN_IDS_MAX {
            self.ids.pop_front();
        }
    }

    fn any(&self, rng: &mut Rng) -> u64 {
        match rng.below(20) {
            0 => rng.below(3),
            1 => u64::MAX - rng.below(2),
            2 => self.newest + rng.below(4),
            _ if self.ids.is_empty() => 1 + rng.below(5),
            3..12 => self.ids[self.ids.len() - 1 - rng.index(self.ids.len().min(4))],
            _ => self.ids[rng.index(self.ids.len())],
        }
    }
}

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Habit {
    Producer,
    Worker,
    Admin,
    /// Goes from tube to tube, so that tubes vanish and come again.
    Wanderer,
    Anything,
}

impl Habit {
    /// Its commands and how frequent they are.
    fn kinds(self) -> &'static [(u64, &'static str)] {
        match self {
            Habit::Producer => {
                &[(60, "put"), (4, "use"), (2, "delete"), (1, "stats-job"), (1, "quit")]
            }
            Habit::Worker => &[
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
            Habit::Admin => &[
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
            Habit::Wanderer => &[
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
            Habit::Anything => &[
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

/// One client: its habits, what it holds as far as it knows, and the reply it is reading.
#[derive(Debug)]
pub(crate) struct Client {
    habit: Habit,
    /// Reads rarely.
    pub(crate) is_slow: bool,
    held: Vec<u64>,
    unread: Vec<u8>,
}

impl Client {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        Self {
            habit: *rng.pick(&[
                Habit::Producer,
                Habit::Worker,
                Habit::Worker,
                Habit::Admin,
                Habit::Wanderer,
                Habit::Anything,
            ]),
            is_slow: rng.one_in(6),
            held: Vec::new(),
            unread: Vec::new(),
        }
    }

    /// The client reads some bytes. Returns each whole reply.
    pub(crate) fn read(&mut self, bytes: &[u8], known: &mut Known) -> Vec<Vec<u8>> {
        self.unread.extend_from_slice(bytes);
        let mut replies = Vec::new();
        while let Some(len) = reply_len(&self.unread) {
            let reply: Vec<u8> = self.unread.drain(..len).collect();
            self.hear(&reply, known);
            replies.push(reply);
        }
        replies
    }

    fn hear(&mut self, reply: &[u8], known: &mut Known) {
        let line = reply.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let text = String::from_utf8_lossy(line);
        let mut words = text.split(' ');
        let word = words.next().unwrap_or_default();
        let Some(Ok(id)) = words.next().map(str::parse) else { return };
        match word {
            "INSERTED" | "FOUND" => known.heard(id),
            "RESERVED" => {
                known.heard(id);
                self.held.push(id);
            }
            _ => {}
        }
    }

    /// Some bytes to send: whole commands, but the world may cut them anywhere.
    pub(crate) fn write(&mut self, plan: &Plan, known: &Known, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = Vec::new();
        if plan.crowd && rng.coin() {
            self.crowd(&mut bytes, rng);
            return bytes;
        }
        for _ in 0..rng.between(1, plan.pipeline) {
            if plan.garbage && rng.one_in(25) {
                garbage(&mut bytes, rng);
            } else {
                self.command(&mut bytes, plan, known, rng);
            }
        }
        bytes
    }

    /// Hundreds of the same command.
    fn crowd(&mut self, bytes: &mut Vec<u8>, rng: &mut Rng) {
        let count = rng.between(1, 400);
        match rng.below(6) {
            // Never due, so that all of them do not come due in one moment.
            0 => bytes.extend(b"put 5 4294967295 4294967295 1\r\nx\r\n".repeat(count as usize)),
            1 => bytes.extend(b"put 5 0 4294967295 1\r\nx\r\n".repeat(count as usize)),
            2 | 3 => bytes.extend(b"reserve-with-timeout 0\r\n".repeat(count as usize)),
            4 => {
                for id in self.held.split_off(self.held.len().saturating_sub(count as usize)) {
                    bytes.extend(format!("bury {id} 5\r\n").as_bytes());
                }
            }
            _ => bytes.extend(b"kick 100000\r\n"),
        }
    }

    fn command(&mut self, bytes: &mut Vec<u8>, plan: &Plan, known: &Known, rng: &mut Rng) {
        let mut kind = rng.weighted(self.habit.kinds());
        if kind == "put" && plan.scarce && rng.below(3) > 0 {
            kind = *rng.pick(&["delete", "delete", "use", "peek-ready"]);
        }
        if kind == "put" {
            put(bytes, plan, rng);
            return;
        }
        let arguments = self.arguments(kind, plan, known, rng);
        bytes.extend_from_slice(kind.as_bytes());
        bytes.extend_from_slice(arguments.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }

    fn arguments(&mut self, kind: &str, plan: &Plan, known: &Known, rng: &mut Rng) -> String {
        match kind {
            "delete" | "touch" => format!(" {}", self.mostly_held(kind == "delete", known, rng)),
            "bury" => format!(" {} {}", self.mostly_held(true, known, rng), priority(rng)),
            "release" => {
                let id = self.mostly_held(true, known, rng);
                format!(" {id} {} {}", priority(rng), delay(rng))
            }
            "reserve-with-timeout" => format!(" {}", *rng.pick(&[0, 0, 0, 1, 2, 5, 60])),
            "kick" => format!(" {}", *rng.pick(&[0, 1, 1, 2, 5, 100])),
            "reserve-job" | "kick-job" | "peek" | "stats-job" => format!(" {}", known.any(rng)),
            "use" | "watch" | "ignore" | "stats-tube" => format!(" {}", tube(plan, rng)),
            "pause-tube" => format!(" {} {}", tube(plan, rng), *rng.pick(&[0, 0, 1, 2, 5])),
            _ => String::new(),
        }
    }

    /// An id that this client thinks it holds, or any other.
    fn mostly_held(&mut self, gives_it_up: bool, known: &Known, rng: &mut Rng) -> u64 {
        if self.held.is_empty() || rng.one_in(8) {
            return known.any(rng);
        }
        let index = rng.index(self.held.len());
        if gives_it_up { self.held.swap_remove(index) } else { self.held[index] }
    }
}

fn tube(plan: &Plan, rng: &mut Rng) -> &'static str {
    let names = ["default", "a", "b-2", "(c)", "d/e", "f.$;+_"];
    names[rng.below(plan.tubes) as usize]
}

fn priority(rng: &mut Rng) -> u32 {
    *rng.pick(&[0, 1, 5, 5, 5, 1023, 1024, u32::MAX])
}

fn delay(rng: &mut Rng) -> u32 {
    *rng.pick(&[0, 0, 0, 0, 1, 1, 2, 3, 10, 3600, u32::MAX])
}

fn put(bytes: &mut Vec<u8>, plan: &Plan, rng: &mut Rng) {
    let size = match rng.below(30) {
        0 => u64::from(plan.max_job_size) + rng.below(3) - 1,
        1 => 0,
        2 => rng.below(20_000),
        _ => rng.below(plan.body_bytes + 1),
    };
    // Neither the largest of all nor the too big ones too often: they only cost time.
    let size = if size > 20_000 && !rng.one_in(4) { rng.below(50) } else { size };
    let ttr = *rng.pick(&[0, 1, 1, 2, 3, 5, 60, u32::MAX]);
    let head = format!("put {} {} {ttr} {size}\r\n", priority(rng), delay(rng));
    bytes.extend_from_slice(head.as_bytes());
    let mut word = [0; 8];
    for index in 0..size {
        if index % 8 == 0 {
            word = rng.next_u64().to_le_bytes();
        }
        bytes.push(word[(index % 8) as usize]);
    }
    let end: &[u8] = if rng.one_in(60) { b"xx" } else { b"\r\n" };
    bytes.extend_from_slice(end);
}

fn garbage(bytes: &mut Vec<u8>, rng: &mut Rng) {
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
fn reply_len(bytes: &[u8]) -> Option<usize> {
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
