//! The state machine of one node.
//!
//! ```text
//!            Request              Output                Act
//!  stream  <--------- driver  <---------- Node  ----------->  owner: folder, engine,
//!           --------->         ---------->      <-----------  links to other nodes
//!            Answer               Input                 Input
//! ```
//!
//! The caller passes one [`Input`] and the time, and gets [`Output`]s. A node has one of these roles,
//! in this order. It never goes back: a process leads at most once.
//!
//! 1. *Search*: it looks for the end of its folder in the stream (`search.rs`).
//! 2. *Follow*: it reads records, and its owner applies the groups. It claims when the leader is
//!    gone (`follow.rs`).
//! 3. *Lead*: it appends the groups that its owner gathers (`lead.rs`).
//! 4. *Over*: its owner ends the process.
//!
//! At most one append is open (`append.rs`). Its record is decided only by the stream's content,
//! never by the time: either the record is found at its place, or another record is there.
//!
//! **The driver's duties.** Each request except `Follow` and `Trim` gets exactly one answer. If the
//! driver cannot tell the outcome of an append, the answer is `Unknown`, and the connection that
//! carried the append is closed. Only the leader of the stream's replicas answers `Tail`, `Read` and
//! `LastClaim`.

mod append;
mod follow;
mod lead;
mod messages;
mod search;

use std::sync::Arc;

use crate::Seq;
use crate::group::At;
use crate::reader::{Meaning, ReadError, Reader};
use crate::record::{Header, Kind};
use crate::trim::{Folders, Marks};
use append::{Append, Outcome};
pub use messages::{
    Act, Answer, Counts, End, Expect, Fault, Input, Output, Request, Setting, Subject,
};

/// The number of ids that a claim reserves for its leader.
pub const CLAIM_IDS: u64 = 3 << 20;
/// A node claims only after a check of the stream's servers that is not older.
pub const GUARDS_AGE_MAX_MS: u64 = 120_000;
/// Time between two questions for the stream's tail.
const ASK_MS: u64 = 200;
/// A tail below a record that exists is believed after this time and this many answers. A server
/// that is cut off can answer with an old tail: measured for 18 seconds.
const LOST_MS: u64 = 60_000;
const LOST_ANSWERS: u32 = 10;

/// One node. See the head of this file.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub struct Node {
    setting: Setting,
    role: Role,
    /// Everything up to its tail is known. The leader's own records count as read.
    reader: Reader,
    append: Option<Append>,
    /// An append that was decided before the driver's answer. The next one waits for that answer.
    unanswered: Option<u64>,
    next_append: u64,
    /// A `Tail` is open.
    asks_tail: bool,
    /// When the last `Tail` was asked.
    asked_ms: u64,
    /// This node's tail at that moment. The answer can be older than records that this node appended
    /// meanwhile.
    asked_tail: Seq,
    /// Since when, and how often in a row, the stream's tail was below ours.
    lower: Option<(u64, u32)>,
    applied: u64,
    next_id: u64,
    durable: u64,
    /// Since when groups wait for the folder, and none has become durable.
    waits_since_ms: Option<u64>,
    safe_ms: Option<u64>,
    marks: Marks,
    folders: Folders,
    counts: Counts,
}

#[derive(Clone, Debug, Eq, PartialEq, Hash)]
enum Role {
    Search(search::Search),
    Follow(follow::Follow),
    Lead(lead::Lead),
    Over,
}

impl Node {
    /// A node whose folder ends at `at`. The owner passes a `Tick` at once.
    #[must_use]
    pub fn new(setting: Setting, at: At, next_id: u64) -> Node {
        Node {
            role: Role::Search(search::Search::new()),
            reader: Reader::new(setting.lineage, at, 0, 0),
            append: None,
            unanswered: None,
            next_append: 1,
            asks_tail: false,
            asked_ms: 0,
            asked_tail: 0,
            lower: None,
            applied: at.number,
            next_id,
            durable: at.number,
            waits_since_ms: None,
            safe_ms: None,
            marks: Marks::new(setting.max_bytes),
            folders: Folders::default(),
            counts: Counts::default(),
            setting,
        }
    }

    /// Handles one input at the moment `now_ms` of a monotonic clock.
    pub fn handle(&mut self, now_ms: u64, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Tick => (),
            Input::Answer(answer) => self.answer(now_ms, answer, out),
            Input::Applied { number, next_id } => {
                self.applied = number;
                self.next_id = next_id;
            }
            Input::Durable(number) => {
                if number != self.durable {
                    self.waits_since_ms = None;
                }
                self.durable = number;
            }
            Input::Guards(is_safe) => self.safe_ms = is_safe.then_some(now_ms),
            Input::Gathered(group) => self.gathered(now_ms, group),
            Input::LeaderGone(incarnation) => self.leader_gone(incarnation),
            Input::LeaderRefuses(incarnation) => self.leader_refuses(incarnation),
            Input::Reported { report, is_live } => {
                self.folders.reported(now_ms, report, is_live);
            }
            Input::Lost(node) => self.folders.lost(node),
            Input::Forget(node) => self.folders.forget(node),
            Input::Promote => self.promote(),
            Input::Resign { successor, next_id } => self.resign(successor, next_id),
        }
        self.go_on(now_ms, out);
    }

    /// The moment of the next `Tick`, if no other input comes before it.
    #[must_use]
    pub fn wake_at(&self, now_ms: u64) -> u64 {
        let ask_ms = if self.asks_tail { u64::MAX } else { self.asked_ms + ASK_MS };
        let append = self.append.as_ref().map_or(u64::MAX, |append| append.wake_at(ask_ms));
        let role = match &self.role {
            Role::Search(search) if search.asks_tail() => ask_ms,
            Role::Search(_) | Role::Over => u64::MAX,
            Role::Follow(follow) => follow.wake_at(now_ms, self.setting.lease_ms),
            Role::Lead(_) if self.append.is_some() => u64::MAX,
            Role::Lead(lead) => lead.wake_at(self.setting.lease_ms),
        };
        append.min(role)
    }

    /// The place in the stream that this node has reached: its last record, epoch and group.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Whether this node leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        matches!(self.role, Role::Lead(_))
    }

    /// What this node knows about the folders of others.
    #[must_use]
    pub fn folders(&self) -> &Folders {
        &self.folders
    }

    /// Numbers for operators.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What can be done without a further input.
    fn go_on(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        self.watch_folder(now_ms);
        let settle = self.append.as_mut().is_some_and(|append| append.go_on(now_ms, out));
        let asks = match &self.role {
            Role::Search(search) => search.asks_tail(),
            Role::Follow(follow) => follow.asks_tail(now_ms, self.setting.lease_ms),
            Role::Lead(lead) => lead.asks_tail(now_ms),
            Role::Over => false,
        };
        let is_time = self.asked_ms == 0 || now_ms >= self.asked_ms + ASK_MS;
        if (settle || asks) && !self.asks_tail && is_time {
            self.asks_tail = true;
            self.asked_ms = now_ms;
            self.asked_tail = self.reader.tail();
            out.push(Output::Request(Request::Tail));
        }
        match &self.role {
            Role::Search(_) | Role::Over => (),
            Role::Follow(_) => self.claim_if_due(now_ms, out),
            Role::Lead(_) => self.append_next(now_ms, out),
        }
    }

    fn watch_folder(&mut self, now_ms: u64) {
        let number = if self.leads() { self.reader.at().number } else { self.applied };
        if self.durable >= number {
            self.waits_since_ms = None;
        } else {
            self.waits_since_ms.get_or_insert(now_ms);
        }
    }

    /// Whether the folder of this node hangs. Such a node does not begin to lead.
    #[must_use]
    pub fn folder_hangs(&self, now_ms: u64) -> bool {
        let limit_ms = self.setting.folder_ms;
        self.waits_since_ms.is_some_and(|since_ms| now_ms >= since_ms + limit_ms)
    }

    /// Whether the last check of the stream's servers was good, and is not too old.
    fn is_safe(&self, now_ms: u64) -> bool {
        self.safe_ms.is_some_and(|at| now_ms - at <= GUARDS_AGE_MAX_MS)
    }

    /// Whether this node would claim if there was no leader, as far as it depends on this node.
    #[must_use]
    pub fn can_lead(&self, now_ms: u64) -> bool {
        self.setting.can_lead && self.is_safe(now_ms) && !self.folder_hangs(now_ms)
    }

    /// Whether a claim may wait for the groups that this node has read: the leader may be gone, or has
    /// resigned. The owner should then apply them as fast as it can.
    #[must_use]
    pub fn hurries(&self, now_ms: u64) -> bool {
        match &self.role {
            Role::Follow(follow) => follow.hurries(now_ms, self.setting.lease_ms),
            Role::Search(_) | Role::Lead(_) | Role::Over => false,
        }
    }

    fn answer(&mut self, now_ms: u64, answer: Answer, out: &mut Vec<Output>) {
        if let Answer::Tail { .. } | Answer::NoTail = answer {
            self.asks_tail = false;
        }
        if let Answer::Tail { last, .. } = answer
            && self.is_lost(now_ms, last)
        {
            let ours = self.reader.tail();
            return self.fail(Fault::StreamLost { ours, last }, out);
        }
        if let Some(append) = &mut self.append {
            match append.answer(now_ms, &answer, &mut self.counts, out) {
                Outcome::Open => (),
                Outcome::Landed => return self.landed(now_ms, out),
                Outcome::Other(bytes) => return self.other(now_ms, &bytes, out),
                Outcome::Trimmed => {
                    self.take_append();
                    if self.leads() {
                        return self.end(End::Overtaken, out);
                    }
                }
                Outcome::Misplaced { seq, expected } => {
                    return self.fail(Fault::Misplaced { seq, expected }, out);
                }
            }
        }
        match answer {
            Answer::Record { seq, bytes } => self.record(now_ms, seq, &bytes, out),
            Answer::Tail { first, last, bytes } => match &self.role {
                Role::Search(_) => self.search_tail(now_ms, first, last, out),
                Role::Follow(_) => self.follow_tail(now_ms, last),
                Role::Lead(_) => self.trim(now_ms, first, bytes, out),
                Role::Over => (),
            },
            Answer::NoTail => {
                self.follow_no_tail();
                self.search_no_tail();
            }
            Answer::Read { seq, bytes } => self.search_read(now_ms, seq, Some(&bytes), out),
            Answer::NoRecord { seq } => self.search_read(now_ms, seq, None, out),
            Answer::LastClaim { seq, bytes } => self.search_claim(now_ms, seq, &bytes, out),
            Answer::NoClaim => self.search_no_claim(now_ms, out),
            Answer::NoRead => self.search_no_read(),
            Answer::Appended { id, .. }
            | Answer::Refused { id }
            | Answer::Busy { id }
            | Answer::Unknown { id } => {
                if self.unanswered == Some(id) {
                    self.unanswered = None;
                }
            }
        }
    }

    /// The open append is in the stream.
    fn landed(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        let append = self.take_append();
        let until = append.since_ms + self.setting.lease_ms;
        match self.role {
            Role::Lead(_) => self.appended(now_ms, &append, out),
            Role::Follow(_) => self.claimed(now_ms, &append, out),
            Role::Search(_) | Role::Over => unreachable!("these roles append nothing"),
        }
        if self.leads() {
            out.push(Output::Act(Act::MayAnswerUntil(until)));
        }
    }

    /// Another record has the place of the open append. So the append is not in the stream.
    fn other(&mut self, now_ms: u64, bytes: &Arc<[u8]>, out: &mut Vec<Output>) {
        let append = self.take_append();
        match self.role {
            Role::Lead(_) => self.appended_other(&append, bytes, out),
            Role::Follow(_) => self.read(now_ms, bytes, out),
            Role::Search(_) | Role::Over => unreachable!("these roles append nothing"),
        }
    }

    fn take_append(&mut self) -> Append {
        let append = self.append.take().expect("only an open append is decided");
        self.unanswered = append.unanswered();
        append
    }

    fn can_append(&self) -> bool {
        self.append.is_none() && self.unanswered.is_none()
    }

    /// Reads the record after the tail.
    fn read_record(&mut self, seq: Seq, bytes: &[u8]) -> Result<Meaning, ReadError> {
        let meaning = self.reader.read(seq, bytes)?;
        let group = match &meaning {
            Meaning::Group(group) => Some(group.number),
            _ => None,
        };
        self.marks.note(seq, bytes.len() as u64, group);
        Ok(meaning)
    }

    /// Whether the stream has lost records. One low tail means nothing: a server that is cut off
    /// from the others does not know the newest records.
    fn is_lost(&mut self, now_ms: u64, last: Seq) -> bool {
        if last >= self.asked_tail {
            self.lower = None;
            return false;
        }
        let (since_ms, answers) = self.lower.get_or_insert((now_ms, 0));
        *answers += 1;
        *answers >= LOST_ANSWERS && now_ms - *since_ms >= LOST_MS
    }

    fn begin_append(
        &mut self,
        now_ms: u64,
        subject: Subject,
        record: Arc<[u8]>,
        out: &mut Vec<Output>,
    ) {
        assert!(self.can_append(), "one append at a time");
        let expect = Expect { tail: self.reader.tail(), claim: self.reader.claim() };
        let append = Append::new(self.next_append, now_ms, subject, expect, record, out);
        self.next_append += 1;
        self.append = Some(append);
    }

    /// A record without facts.
    fn plain_record(&self, kind: Kind, time_ms: u64, id_limit: u64, body: &[u8]) -> Arc<[u8]> {
        let at = self.reader.at();
        let header = Header {
            kind,
            lineage: self.setting.lineage,
            epoch: self.reader.epoch(),
            number: at.number,
            part: 0,
            parts: 1,
            body_bytes: body.len() as u64,
            time_ms,
            before: at.chain,
            after: at.chain,
            state: at.state,
            jobs: at.jobs,
            id_limit,
            writer: self.setting.node,
            facts: 0,
            body_crc: crc32fast::hash(body),
        };
        header.encode(body).into()
    }

    fn end(&mut self, end: End, out: &mut Vec<Output>) {
        self.finish(Act::End(end), out);
    }

    fn fail(&mut self, fault: Fault, out: &mut Vec<Output>) {
        self.finish(Act::Fault(fault), out);
    }

    fn finish(&mut self, act: Act, out: &mut Vec<Output>) {
        self.role = Role::Over;
        self.append = None;
        out.push(Output::Request(Request::Follow { from: None }));
        out.push(Output::Act(act));
    }
}
