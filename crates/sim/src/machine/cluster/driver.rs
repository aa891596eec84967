//! The drivers of the nodes: requests on their way to the stream, and its answers.

use std::sync::Arc;

use replica::node::{Answer, Input, Request, Subject};
use replica::record::{Header, Kind};
use replica::{Incarnation, Seq};

use super::{Cluster, Event, Fate};
use crate::machine::stream::{Append, Verdict};
use crate::trace::Trace;
use crate::{Checked, Sabotage};

/// A driver gives a request up after this time.
const ANSWER_MS_MAX: u64 = 1000;
/// A late append arrives at most this much later.
const LATE_MS_MAX: u64 = 8000;
/// Proposals are decided within this time.
const UNDECIDED_MS_MAX: u64 = 5000;
/// What happens to an append that has an unusual fate. Some fates are more frequent.
const ODD_FATES: [Fate; 6] =
    [Fate::Silent, Fate::Undecided, Fate::Undecided, Fate::Refused, Fate::Busy, Fate::Stray];
/// A follower reads no further if this many groups wait to be applied.
const GROUPS_MAX: usize = 8;

impl Cluster {
    pub(super) fn request(&mut self, number: usize, request: Request) {
        let way = self.way();
        match request {
            Request::Append { id, subject, expect, record } => {
                let is_again = self.has_sent(number, id);
                let record = if is_again && self.sabotage == Sabotage::UnfencedResend {
                    super::trouble::altered(&record)
                } else {
                    record
                };
                self.send(number, id, Append { subject, expect, record });
            }
            Request::Follow { from } => {
                if let Some(process) = &mut self.members[number].process {
                    process.follows = from;
                }
                self.wake_consumer(number);
            }
            Request::Trim { below } => self.send_trim(number, below),
            Request::Tail | Request::Read { .. } | Request::LastClaim => {
                let is_lost = self.is_odd(2) && self.rng.coin();
                if is_lost || self.members[number].cut_to_stream > self.real {
                    let nothing = nothing_for(&request);
                    return self.add_to(number, ANSWER_MS_MAX, Event::Answer(nothing));
                }
                let late = if self.is_odd(2) { self.rng.below(ANSWER_MS_MAX) } else { 0 };
                self.add_to(number, way + late, Event::Ask(request));
            }
        }
    }

    /// Whether something unusual happens to a request, so many times less often than to an append.
    fn is_odd(&mut self, less: u64) -> bool {
        let odd = self.plan.odd_appends * less;
        odd > 0 && self.rng.one_in(odd)
    }

    /// A trim is not answered. It can be lost, late or doubled, also after its leader was deposed.
    fn send_trim(&mut self, number: usize, below: Seq) {
        let way = 10 * self.way();
        let cut = self.members[number].cut_to_stream.saturating_sub(self.real);
        if self.plan.is_faulty && self.rng.one_in(4) || cut > 0 {
            if self.rng.coin() {
                let late = cut + self.rng.below(LATE_MS_MAX);
                self.add_to(number, way + late, Event::Trim(below));
            }
            if cut > 0 || self.rng.coin() {
                return;
            }
        }
        self.add_to(number, way, Event::Trim(below));
    }

    /// Notes that the driver has an append. Returns whether it had it before.
    fn has_sent(&mut self, number: usize, id: u64) -> bool {
        let Some(process) = &mut self.members[number].process else { return false };
        process.open_append = Some(id);
        std::mem::replace(&mut process.last_append, id) == id
    }

    fn send(&mut self, number: usize, id: u64, append: Append) {
        self.add_to(number, ANSWER_MS_MAX, Event::TimeOut(id));
        if let Some(process) = &mut self.members[number].process
            && append.subject == Subject::Groups
        {
            process.sent = Some((id, append.clone()));
        }
        let way = self.way();
        let cut = self.members[number].cut_to_stream.saturating_sub(self.real);
        if cut > 0 {
            // The bytes are lost, or the network delivers them later.
            if self.rng.coin() {
                let fate = self.stray();
                self.add_to(number, cut + way, Event::Arrive { id, append, fate });
            }
            return;
        }
        let odd = self.plan.odd_appends;
        let is_odd = odd > 0 && self.rng.one_in(odd);
        let fate = if is_odd { *self.rng.pick(&ODD_FATES) } else { Fate::Plain };
        match fate {
            // It is lost, late or doubled.
            Fate::Stray => match self.rng.below(3) {
                0 => {}
                kind => {
                    if kind == 1 {
                        let append = append.clone();
                        self.add_to(number, way, Event::Arrive { id, append, fate: Fate::Plain });
                    }
                    let (late, fate) = (self.rng.below(LATE_MS_MAX), self.stray());
                    self.add_to(number, way + late, Event::Arrive { id, append, fate });
                }
            },
            fate => self.add_to(number, way, Event::Arrive { id, append, fate }),
        }
    }

    /// What a late append does.
    fn stray(&mut self) -> Fate {
        if self.plan.strays && self.rng.coin() { Fate::Stray } else { Fate::Plain }
    }

    /// An append reaches the stream. Its sender may have ended.
    pub(super) fn arrive(
        &mut self,
        trace: &mut Trace,
        number: usize,
        incarnation: Incarnation,
        id: u64,
        append: Append,
        fate: Fate,
    ) -> Checked {
        let way = self.way();
        let stale = self.members[number].stale.filter(|(until, _)| *until > self.real);
        let answer = if let Some((_, (_, last))) = stale {
            // A server that is cut off proposes in vain.
            if append.expect.tail == last {
                return Ok(());
            }
            Answer::Refused { id }
        } else if self.leaderless > self.real {
            Answer::Unknown { id }
        } else {
            match fate {
                Fate::Refused => Answer::Refused { id },
                Fate::Busy => Answer::Busy { id },
                Fate::Stray if self.stream.is_late(&append) => {
                    trace.note(format_args!("a stray append of node {number}"));
                    self.stream.commit(append.subject, append.record)?;
                    self.wake_consumers();
                    return Ok(());
                }
                Fate::Plain | Fate::Silent | Fate::Undecided | Fate::Stray => {
                    let claims = append.subject == Subject::Claims;
                    let verdict = self.stream.propose(append, fate != Fate::Undecided)?;
                    trace.note(format_args!("append {id} of node {number}: {fate:?} {verdict:?}"));
                    match verdict {
                        Verdict::Appended(seq) => {
                            if claims {
                                self.stray_after_claim(number);
                            }
                            self.wake_consumers();
                            if fate == Fate::Silent {
                                return Ok(());
                            }
                            Answer::Appended { id, seq }
                        }
                        Verdict::Undecided => {
                            let after = self.rng.below(UNDECIDED_MS_MAX);
                            let lands = self.rng.coin();
                            self.add(after, number, incarnation, Event::Decide { lands });
                            return Ok(());
                        }
                        Verdict::Refused => Answer::Refused { id },
                        Verdict::Busy => Answer::Busy { id },
                    }
                }
            }
        };
        if self.members[number].cut_from_stream <= self.real {
            self.add(way, number, incarnation, Event::Answer(answer));
        }
        Ok(())
    }

    /// What a former leader sent last can come into the stream directly after the claim of another
    /// node, whatever its conditions. Then it looks like the next group.
    fn stray_after_claim(&mut self, claimer: usize) {
        for number in 0..self.members.len() {
            let Some(process) = &self.members[number].process else { continue };
            let (incarnation, sent) = (process.incarnation, process.sent.clone());
            if let Some((id, append)) = sent.filter(|_| self.plan.strays && number != claimer)
                && self.rng.coin()
            {
                let way = self.way();
                self.add(way, number, incarnation, Event::Arrive { id, append, fate: Fate::Stray });
            }
        }
    }

    /// A question reaches the stream.
    pub(super) fn ask(&mut self, number: usize, incarnation: Incarnation, request: &Request) {
        let way = self.way();
        let member = &self.members[number];
        let stale = member.stale.filter(|(until, _)| *until > self.real);
        let view = stale.map_or(self.stream.view(), |(_, view)| view);
        let (first, last) = view;
        let is_silent = self.leaderless > self.real && stale.is_none();
        let found = match request {
            _ if is_silent => None,
            Request::Tail => Some(Answer::Tail { first, last, bytes: self.stream.bytes() }),
            Request::Read { seq } => {
                let bytes = self.stream.read_of(view, *seq);
                bytes.map(|bytes| Answer::Read { seq: *seq, bytes })
            }
            _ => {
                let seq = self.stream.last_claim_of(view);
                self.stream.read_of(view, seq).map(|bytes| Answer::LastClaim { seq, bytes })
            }
        };
        let answer = found.unwrap_or_else(|| nothing_for(request));
        if member.cut_from_stream > self.real {
            let nothing = nothing_for(request);
            self.add(ANSWER_MS_MAX, number, incarnation, Event::Answer(nothing));
        } else {
            self.add(way, number, incarnation, Event::Answer(answer));
        }
    }

    pub(super) fn answered(&mut self, trace: &mut Trace, number: usize, answer: Answer) -> Checked {
        if let Answer::Appended { id, .. }
        | Answer::Refused { id }
        | Answer::Busy { id }
        | Answer::Unknown { id } = &answer
        {
            let Some(process) = &mut self.members[number].process else { return Ok(()) };
            if process.open_append != Some(*id) {
                // The driver has given it up, and closed its connection.
                return Ok(());
            }
            process.open_append = None;
        }
        self.counts.unknown += u64::from(matches!(answer, Answer::Unknown { .. }));
        self.counts.refused += u64::from(matches!(answer, Answer::Refused { .. }));
        self.input(trace, number, Input::Answer(answer))
    }

    // --- Consumers ---

    pub(super) fn wake_consumers(&mut self) {
        for number in 0..self.members.len() {
            self.wake_consumer(number);
        }
    }

    pub(super) fn wake_consumer(&mut self, number: usize) {
        let last = self.stream.last();
        let Some(process) = &mut self.members[number].process else { return };
        let has_next = process.follows.is_some_and(|seq| seq <= last);
        if has_next && !std::mem::replace(&mut process.is_delivering, true) {
            let way = self.way();
            self.add_to(number, way, Event::Deliver);
        }
    }

    pub(super) fn deliver(&mut self, trace: &mut Trace, number: usize) -> Checked {
        let member = &mut self.members[number];
        let stale = member.stale.map_or(0, |(until, _)| until);
        let free = member.cut_to_stream.max(member.cut_from_stream).max(member.silent).max(stale);
        let Some(process) = &mut member.process else { return Ok(()) };
        if free > self.real || process.groups.len() >= GROUPS_MAX {
            let after = free.saturating_sub(self.real).max(1);
            self.add_to(number, after, Event::Deliver);
            return Ok(());
        }
        process.is_delivering = false;
        let Some(next) = process.follows else { return Ok(()) };
        // A consumer skips what is not there.
        let is_there = |seq: &Seq| self.stream.read(*seq).is_some();
        let found = (next.max(self.stream.first())..=self.stream.last()).find(is_there);
        let Some(seq) = found else { return Ok(()) };
        let Some(bytes) = self.stream.read(seq) else { return Ok(()) };
        process.follows = Some(seq + 1);
        let bytes = if self.sabotage == Sabotage::ReaderFenceOff {
            as_of_now(&bytes, process.node.reader().epoch())
        } else {
            bytes
        };
        self.input(trace, number, Input::Answer(Answer::Record { seq, bytes }))?;
        self.wake_consumer(number);
        Ok(())
    }
}

/// A late group as if it belonged to this epoch: a sabotage of a reader.
fn as_of_now(record: &Arc<[u8]>, epoch: replica::Epoch) -> Arc<[u8]> {
    match Header::decode(record) {
        Ok((mut header, body)) if header.kind == Kind::Group && header.epoch < epoch => {
            header.epoch = epoch;
            header.after = header.before.then(&header.link());
            header.encode(body).into()
        }
        _ => record.clone(),
    }
}

/// The answer if nobody answers.
fn nothing_for(request: &Request) -> Answer {
    match request {
        Request::Read { .. } | Request::LastClaim => Answer::NoRead,
        _ => Answer::NoTail,
    }
}
