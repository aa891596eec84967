//! One node, and a stream that the test controls.

use std::sync::Arc;

use replica::claim::Leader;
use replica::group::{At, SealedGroup};
use replica::node::{Act, Answer, Expect, Input, Node, Output, Request, Setting, Subject};
use replica::record::{Header, Kind};
use replica::{NodeId, Seq};

use crate::common::{OURS, Writer, origin};

pub(crate) const LEASE_MS: u64 = 1500;
/// The node under test.
pub(crate) const ME: NodeId = 1;

/// How the stream answers `Tail` and `Read`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mood {
    Right,
    /// Nobody answers.
    Silent,
    /// Only `Tail` is answered.
    Mute,
    /// The tail is too low.
    Old(Seq),
    /// The answer about the tail waits in `late`.
    Slow,
}

pub(crate) struct OpenAppend {
    pub(crate) id: u64,
    pub(crate) subject: Subject,
    pub(crate) expect: Expect,
    pub(crate) record: Arc<[u8]>,
}

pub(crate) struct Rig {
    pub(crate) node: Node,
    pub(crate) now_ms: u64,
    pub(crate) mood: Mood,
    /// The first record is number `first`.
    pub(crate) first: Seq,
    pub(crate) stream: Vec<Arc<[u8]>>,
    /// The stream does not have this record any more.
    pub(crate) lost: Option<Seq>,
    pub(crate) late: Option<Answer>,
    pub(crate) follows: Option<Seq>,
    pub(crate) open: Option<OpenAppend>,
    pub(crate) appends: u32,
    pub(crate) reads: u32,
    pub(crate) trims: Vec<Seq>,
    pub(crate) acts: Vec<Act>,
    /// Whether groups are applied at once.
    pub(crate) applies: bool,
    /// Whether groups become durable at once.
    pub(crate) flushes: bool,
    pub(crate) bytes: u64,
}

pub(crate) fn setting() -> Setting {
    Setting {
        lineage: OURS,
        node: ME,
        incarnation: 7,
        leader: Leader::default(),
        can_lead: true,
        has_place: true,
        lease_ms: LEASE_MS,
        jitter_ms: 50,
        folder_ms: 10_000,
        keep_bytes: 0,
        max_bytes: 1 << 30,
    }
}

impl Rig {
    /// A node that follows a stream with these records.
    pub(crate) fn new(stream: Vec<Vec<u8>>) -> Rig {
        Rig::with(setting(), origin(), 1, stream)
    }

    pub(crate) fn with(setting: Setting, at: At, first: Seq, stream: Vec<Vec<u8>>) -> Rig {
        let mut rig = Rig {
            node: Node::new(setting, at, 100),
            now_ms: 1_000_000,
            mood: Mood::Right,
            first,
            stream: stream.into_iter().map(Arc::from).collect(),
            lost: None,
            late: None,
            follows: None,
            open: None,
            appends: 0,
            reads: 0,
            trims: Vec::new(),
            acts: Vec::new(),
            applies: true,
            flushes: true,
            bytes: 0,
        };
        rig.input(Input::Guards(true));
        rig.deliver();
        rig
    }

    /// The process starts again with this folder.
    pub(crate) fn restart(&mut self, at: At) {
        self.node = Node::new(setting(), at, 100);
        self.follows = None;
        self.acts.clear();
        self.input(Input::Guards(true));
    }

    /// A node that leads in epoch 1.
    pub(crate) fn leader() -> Rig {
        let mut rig = Rig::new(Vec::new());
        rig.pass(LEASE_MS);
        rig.land();
        assert!(rig.node.leads());
        rig.acts.clear();
        rig
    }

    /// A writer with the epoch and the last group of this node.
    pub(crate) fn writer(&self) -> Writer {
        Writer { node: ME, epoch: self.node.reader().epoch(), at: self.node.reader().at() }
    }

    pub(crate) fn last(&self) -> Seq {
        self.first + self.stream.len() as u64 - 1
    }

    pub(crate) fn input(&mut self, input: Input) {
        let mut out = Vec::new();
        self.node.handle(self.now_ms, input, &mut out);
        for output in out {
            match output {
                Output::Request(request) => self.request(request),
                Output::Act(Act::Apply(group)) => {
                    let number = group.number;
                    self.acts.push(Act::Apply(group));
                    if self.applies {
                        self.input(Input::Applied { number, next_id: 100 });
                        self.flush(number);
                    }
                }
                Output::Act(Act::Acknowledged(number)) => {
                    self.acts.push(Act::Acknowledged(number));
                    self.flush(number);
                }
                Output::Act(act) => self.acts.push(act),
            }
        }
    }

    fn flush(&mut self, number: u64) {
        if self.flushes {
            self.input(Input::Durable(number));
        }
    }

    pub(crate) fn answer(&mut self, answer: Answer) {
        self.input(Input::Answer(answer));
    }

    fn request(&mut self, request: Request) {
        let last = self.last();
        self.reads += u32::from(matches!(request, Request::Read { .. }));
        match (request, self.mood) {
            (Request::Append { id, subject, expect, record }, _) => {
                assert!(self.open.is_none(), "at most one append is open");
                self.appends += 1;
                self.open = Some(OpenAppend { id, subject, expect, record });
            }
            (Request::Follow { from }, _) => self.follows = from,
            (Request::Trim { below }, _) => self.trims.push(below),
            (Request::Tail, Mood::Silent) => self.answer(Answer::NoTail),
            (Request::Tail, Mood::Slow) => {
                let bytes = self.bytes;
                self.late = Some(Answer::Tail { first: self.first, last, bytes });
            }
            (Request::Tail, Mood::Old(last)) => {
                self.answer(Answer::Tail { first: self.first, last, bytes: self.bytes });
            }
            (Request::Tail, Mood::Right | Mood::Mute) => {
                self.answer(Answer::Tail { first: self.first, last, bytes: self.bytes });
            }
            (Request::Read { .. } | Request::LastClaim, Mood::Silent | Mood::Mute) => {
                self.answer(Answer::NoRead);
            }
            (Request::Read { seq }, Mood::Right)
                if seq >= self.first && seq <= last && self.lost != Some(seq) =>
            {
                let bytes = self.stream[(seq - self.first) as usize].clone();
                self.answer(Answer::Read { seq, bytes });
            }
            (Request::Read { seq }, _) => self.answer(Answer::NoRecord { seq }),
            (Request::LastClaim, _) => {
                let is_claim = |record: &Arc<[u8]>| {
                    let kind = Header::decode(record).unwrap().0.kind;
                    matches!(kind, Kind::Claim | Kind::Renewal)
                };
                let answer = self.stream.iter().rposition(is_claim).map_or(Answer::NoClaim, |at| {
                    Answer::LastClaim {
                        seq: self.first + at as u64,
                        bytes: self.stream[at].clone(),
                    }
                });
                self.answer(answer);
            }
        }
    }

    /// Delivers all records that the node follows.
    pub(crate) fn deliver(&mut self) {
        while let Some(seq) = self.follows.filter(|seq| *seq <= self.last()) {
            self.follows = Some(seq + 1);
            let bytes = self.stream[(seq - self.first) as usize].clone();
            self.answer(Answer::Record { seq, bytes });
        }
    }

    /// Time passes. The node gets its ticks.
    pub(crate) fn pass(&mut self, ms: u64) {
        let end_ms = self.now_ms + ms;
        while self.node.wake_at(self.now_ms) <= end_ms {
            self.now_ms = self.node.wake_at(self.now_ms).max(self.now_ms + 1).min(end_ms);
            self.input(Input::Tick);
            if self.now_ms == end_ms {
                break;
            }
        }
        self.now_ms = end_ms;
        self.input(Input::Tick);
    }

    /// Somebody else appends.
    pub(crate) fn push(&mut self, record: Vec<u8>) {
        self.stream.push(record.into());
    }

    /// The open append comes into the stream, but its answer is still missing.
    pub(crate) fn land_silently(&mut self) -> OpenAppend {
        let open = self.open.take().expect("an append is open");
        assert_eq!(open.expect.tail, self.last(), "the condition is right");
        self.stream.push(open.record.clone());
        open
    }

    /// The open append succeeds.
    pub(crate) fn land(&mut self) {
        let open = self.land_silently();
        self.answer(Answer::Appended { id: open.id, seq: open.expect.tail + 1 });
    }

    /// The open append ends otherwise.
    pub(crate) fn end(&mut self, answer: fn(u64) -> Answer) -> OpenAppend {
        let open = self.open.take().expect("an append is open");
        self.answer(answer(open.id));
        open
    }

    pub(crate) fn gather(&mut self, body: &[u8]) -> SealedGroup {
        let group = self.writer().group(body.to_vec());
        self.input(Input::Gathered(group.clone()));
        group
    }

    pub(crate) fn take_acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }
}

pub(crate) fn refused(id: u64) -> Answer {
    Answer::Refused { id }
}

pub(crate) fn unknown(id: u64) -> Answer {
    Answer::Unknown { id }
}

pub(crate) fn busy(id: u64) -> Answer {
    Answer::Busy { id }
}
