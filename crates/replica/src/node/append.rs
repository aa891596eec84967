//! One append, from its first attempt until the stream's content decides it.
//!
//! Every attempt has the same bytes and the same conditions. So at most one of them can be in the
//! stream, and only at one place: after the tail that the conditions name.

use std::sync::Arc;

use super::{Answer, Counts, Expect, Output, Request, Subject};
use crate::Seq;

/// The first wait after `Busy`. Later waits are longer.
const BUSY_MS: u64 = 1;
const BUSY_WAIT_MAX_MS: u64 = 64;
/// After this time, `Busy` is treated as an unknown outcome.
const BUSY_MAX_MS: u64 = 1000;

#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub(super) struct Append {
    id: u64,
    subject: Subject,
    pub(super) expect: Expect,
    pub(super) record: Arc<[u8]>,
    /// The begin of the first attempt. The lease counts from here.
    pub(super) since_ms: u64,
    phase: Phase,
    /// The last wait after `Busy`.
    wait_ms: u64,
}

#[derive(Clone, Debug, Eq, PartialEq, Hash)]
enum Phase {
    /// The driver has it.
    Sent,
    /// The next attempt begins at this moment.
    Busy { until_ms: u64 },
    /// The next answer to `Tail` tells what to do.
    Settle,
    /// The record at the append's place is being read.
    Read,
}

/// What an answer says about the append.
pub(super) enum Outcome {
    /// Nothing final.
    Open,
    /// It is in the stream, at its place.
    Landed,
    /// It is not in the stream, and will not be: this record has its place.
    Other(Arc<[u8]>),
    /// The stream has been trimmed beyond its place. Only a later leader does that, so the append no
    /// longer matters.
    Trimmed,
    /// The stream ignored the conditions.
    Misplaced { seq: Seq, expected: Seq },
}

impl Append {
    pub(super) fn new(
        id: u64,
        now_ms: u64,
        subject: Subject,
        expect: Expect,
        record: Arc<[u8]>,
        out: &mut Vec<Output>,
    ) -> Append {
        let mut append = Append {
            id,
            subject,
            expect,
            record,
            since_ms: now_ms,
            phase: Phase::Sent,
            wait_ms: 0,
        };
        append.send(out);
        append
    }

    /// The only place in the stream where the record can be.
    pub(super) fn place(&self) -> Seq {
        self.expect.tail + 1
    }

    /// The id, if the driver still owes an answer.
    pub(super) fn unanswered(&self) -> Option<u64> {
        (self.phase == Phase::Sent).then_some(self.id)
    }

    /// `ask_ms`: the moment when the tail can be asked for again.
    pub(super) fn wake_at(&self, ask_ms: u64) -> u64 {
        match self.phase {
            Phase::Busy { until_ms } => until_ms,
            Phase::Settle => ask_ms,
            Phase::Sent | Phase::Read => u64::MAX,
        }
    }

    /// Continues after a wait. True: the append needs the stream's tail.
    pub(super) fn go_on(&mut self, now_ms: u64, out: &mut Vec<Output>) -> bool {
        match self.phase {
            Phase::Busy { until_ms } if now_ms >= until_ms => {
                self.send(out);
                false
            }
            Phase::Settle => true,
            Phase::Sent | Phase::Read | Phase::Busy { .. } => false,
        }
    }

    pub(super) fn answer(
        &mut self,
        now_ms: u64,
        answer: &Answer,
        counts: &mut Counts,
        out: &mut Vec<Output>,
    ) -> Outcome {
        match answer {
            Answer::Appended { id, seq } if *id == self.id => {
                self.phase = Phase::Settle;
                if *seq == self.place() {
                    return Outcome::Landed;
                }
                return Outcome::Misplaced { seq: *seq, expected: self.place() };
            }
            // Not final: the number in this error counts records that are not decided, also an
            // earlier attempt of this append.
            Answer::Refused { id } if *id == self.id => {
                counts.refused += 1;
                self.phase = Phase::Settle;
            }
            Answer::Unknown { id } if *id == self.id => {
                counts.unknown += 1;
                self.phase = Phase::Settle;
            }
            Answer::Busy { id } if *id == self.id => {
                counts.busy += 1;
                self.wait(now_ms);
            }
            Answer::Tail { first, .. } if self.phase == Phase::Settle && *first > self.place() => {
                return Outcome::Trimmed;
            }
            Answer::Tail { last, .. } if self.phase == Phase::Settle => {
                if *last > self.expect.tail {
                    self.phase = Phase::Read;
                    out.push(Output::Request(Request::Read { seq: self.place() }));
                } else if *last == self.expect.tail {
                    // Whether an earlier attempt is still on its way, or lost: another attempt is
                    // right, because it has the same bytes and the same place.
                    self.send(out);
                }
            }
            Answer::Read { seq, bytes } if *seq == self.place() => return self.found(bytes),
            // A follower may see the record earlier than the answer.
            Answer::Record { seq, bytes } if *seq == self.place() => return self.found(bytes),
            Answer::NoRecord { seq } if *seq == self.place() && self.phase == Phase::Read => {
                self.phase = Phase::Settle;
            }
            Answer::NoRead if self.phase == Phase::Read => self.phase = Phase::Settle,
            _ => (),
        }
        Outcome::Open
    }

    fn found(&self, bytes: &Arc<[u8]>) -> Outcome {
        if *bytes == self.record { Outcome::Landed } else { Outcome::Other(bytes.clone()) }
    }

    fn wait(&mut self, now_ms: u64) {
        self.wait_ms = (self.wait_ms * 2).clamp(BUSY_MS, BUSY_WAIT_MAX_MS);
        self.phase = if now_ms - self.since_ms < BUSY_MAX_MS {
            Phase::Busy { until_ms: now_ms + self.wait_ms }
        } else {
            Phase::Settle
        };
    }

    fn send(&mut self, out: &mut Vec<Output>) {
        self.phase = Phase::Sent;
        out.push(Output::Request(Request::Append {
            id: self.id,
            subject: self.subject,
            expect: self.expect,
            record: self.record.clone(),
        }));
    }
}
