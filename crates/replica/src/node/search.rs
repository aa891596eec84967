//! Finds the end of the folder in the stream, so that reading begins there.
//!
//! The numbers of records that count never fall. So a binary search finds the first record with the
//! number of the folder's last group. Then the search compares chains, from a few records earlier on.
//!
//! A stale record has a low number, so it can make the search halve the wrong part of the stream. If
//! the search then finds only later groups, it looks once more, in the part before. It is over if the
//! record just before that place is an earlier one: so it reads few records, also of a history
//! without the folder's last group.

use std::sync::Arc;

use super::follow::Follow;
use super::{ASK_MS, Act, Fault, LOST_ANSWERS, LOST_MS, Node, Output, Request, Role};
use crate::claim::Claim;
use crate::reader::{ReadError, Reader};
use crate::record::{Header, Kind};
use crate::{Epoch, Seq};

/// More stale records than this are never in a row.
const STALE_MAX: u64 = 64;

#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub(super) struct Search {
    first: Seq,
    last: Seq,
    /// The halving looks at the records before this one.
    end: Seq,
    phase: Phase,
    /// Since when, and how often, the stream ended before the folder.
    behind: Option<(u64, u32)>,
    /// Since when, and how often, the stream did not have this record of its own.
    missing: Option<(u64, u32, Seq)>,
}

#[derive(Clone, Debug, Eq, PartialEq, Hash)]
enum Phase {
    /// The bounds of the stream are not known.
    Tail,
    /// The first record with the number is in `low..high`, or it is `high`.
    Halve { low: Seq, high: Seq },
    /// This record is being compared. The halving found `place`, and the comparison began at `from`.
    Compare { place: Seq, from: Seq, seq: Seq },
    /// The place is found. The last claim is needed, too.
    Claim { epoch: Epoch, seq: Seq },
}

impl Search {
    pub(super) fn new() -> Search {
        Search { first: 0, last: 0, end: 0, phase: Phase::Tail, behind: None, missing: None }
    }

    pub(super) fn asks_tail(&self) -> bool {
        self.phase == Phase::Tail
    }
}

impl Node {
    fn search(&mut self) -> Option<&mut Search> {
        match &mut self.role {
            Role::Search(search) => Some(search),
            Role::Follow(_) | Role::Lead(_) | Role::Over => None,
        }
    }

    pub(super) fn search_tail(
        &mut self,
        now_ms: u64,
        first: Seq,
        last: Seq,
        out: &mut Vec<Output>,
    ) {
        let number = self.reader.at().number;
        let Some(search) = self.search() else { return };
        (search.first, search.last) = (first, last);
        if search.missing.is_some_and(|(_, _, seq)| seq < first || seq > last) {
            search.missing = None;
        }
        let is_empty = first > last;
        if number == 0 {
            // Before the first group: everything from the first record on is needed.
            if last == 0 || first == 1 {
                return self.follow_from(now_ms, 0, 0, out);
            }
            return self.finish(Act::Fetch, out);
        }
        if last == 0 {
            return self.folder_is_ahead(now_ms, out);
        }
        if is_empty {
            return self.finish(Act::Fetch, out);
        }
        search.end = last + 1;
        search.phase = Phase::Halve { low: first, high: search.end };
        self.next_read(out);
    }

    /// Requests the record that the search needs next.
    fn next_read(&mut self, out: &mut Vec<Output>) {
        let Some(search) = self.search() else { return };
        if let Phase::Halve { low, high } = search.phase
            && low == high
        {
            let from = low.saturating_sub(STALE_MAX).max(search.first);
            search.phase = Phase::Compare { place: low, from, seq: from };
        }
        let request = match search.phase {
            Phase::Tail => return,
            Phase::Halve { low, high } => Request::Read { seq: low + (high - low) / 2 },
            Phase::Compare { seq, .. } => Request::Read { seq },
            Phase::Claim { .. } => Request::LastClaim,
        };
        out.push(Output::Request(request));
    }

    pub(super) fn search_read(
        &mut self,
        now_ms: u64,
        seq: Seq,
        bytes: Option<&Arc<[u8]>>,
        out: &mut Vec<Output>,
    ) {
        let lineage = self.setting.lineage;
        if self.search().is_none() {
            return;
        }
        let Some(bytes) = bytes else {
            return self.is_missing(now_ms, seq, out);
        };
        let header = match Header::decode(bytes) {
            Ok((header, _)) if header.lineage == lineage => header,
            Ok(_) => return self.fail(ReadError::Lineage { seq }.into(), out),
            Err(error) => return self.fail(ReadError::Record { seq, error }.into(), out),
        };
        self.search_header(now_ms, seq, &header, out);
    }

    /// A claim up to the place belongs to what this node has not read. Later claims it will read.
    pub(super) fn search_claim(
        &mut self,
        now_ms: u64,
        claim_seq: Seq,
        bytes: &[u8],
        out: &mut Vec<Output>,
    ) {
        let Some(&mut Search { phase: Phase::Claim { epoch, seq }, .. }) = self.search() else {
            return;
        };
        let claim = match Header::decode(bytes) {
            Ok((header, body)) => Claim::decode(body).ok().map(|claim| (header, claim)),
            Err(error) => {
                let seq = claim_seq;
                return self.fail(ReadError::Record { seq, error }.into(), out);
            }
        };
        self.follow_from(now_ms, epoch, seq, out);
        if let Some((header, claim)) = claim
            && claim_seq <= seq
            && self.reader.introduce(claim_seq, &header, claim.clone())
        {
            out.push(Output::Act(Act::Follows(header.writer, claim)));
        }
    }

    pub(super) fn search_no_claim(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        if let Some(&mut Search { phase: Phase::Claim { epoch, .. }, .. }) = self.search() {
            self.is_missing(now_ms, epoch, out);
        }
    }

    /// Nobody answered: the search begins again. That says nothing about the records.
    pub(super) fn search_no_read(&mut self) {
        if let Some(search) = self.search() {
            search.phase = Phase::Tail;
            search.missing = None;
        }
    }

    pub(super) fn search_no_tail(&mut self) {
        if let Some(search) = self.search() {
            search.missing = None;
        }
    }

    /// The stream was trimmed meanwhile. The bounds may have changed, so the search begins again. But
    /// if the stream does not have a record between its first and its last one, then it has lost the
    /// record.
    fn is_missing(&mut self, now_ms: u64, seq: Seq, out: &mut Vec<Output>) {
        let Some(search) = self.search() else { return };
        search.phase = Phase::Tail;
        let (since_ms, answers, missing) = search.missing.get_or_insert((now_ms, 0, seq));
        *missing = seq;
        *answers += 1;
        if *answers >= LOST_ANSWERS && now_ms - *since_ms >= LOST_MS {
            self.fail(Fault::RecordLost { seq }, out);
        }
    }

    fn search_header(&mut self, now_ms: u64, seq: Seq, header: &Header, out: &mut Vec<Output>) {
        let at = self.reader.at();
        let Some(search) = self.search() else { return };
        let (first, last, end) = (search.first, search.last, search.end);
        match search.phase {
            Phase::Tail | Phase::Claim { .. } => return,
            Phase::Halve { low, high } => {
                search.phase = if header.number < at.number {
                    Phase::Halve { low: seq + 1, high }
                } else {
                    Phase::Halve { low, high: seq }
                };
            }
            Phase::Compare { place, from, .. } => {
                let is_ours = header.number == at.number && header.after == at.chain;
                if is_ours && header.is_last_part() {
                    let epoch = if header.kind == Kind::Claim { seq } else { header.epoch };
                    search.phase = Phase::Claim { epoch, seq };
                } else if header.epoch >= at.epoch && is_behind(header, at.number, is_ours) {
                    if from > first && place < end {
                        search.end = from;
                        search.phase = Phase::Halve { low: first, high: from };
                        return self.next_read(out);
                    }
                    // The history continues without our last group.
                    if from == first && header.number > at.number {
                        return self.finish(Act::Fetch, out);
                    }
                    let (number, writer) = (at.number, header.writer);
                    let (ours, theirs) = (at.chain, header.after);
                    let error = ReadError::Diverged { number, writer, ours, theirs };
                    return self.fail(error.into(), out);
                } else if seq == last {
                    search.phase = Phase::Tail;
                    return self.folder_is_ahead(now_ms, out);
                } else {
                    search.phase = Phase::Compare { place, from, seq: seq + 1 };
                }
            }
        }
        self.next_read(out);
    }

    /// The stream ends before the folder does. A server that is cut off from the others can say so.
    fn folder_is_ahead(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        let number = self.reader.at().number;
        let Some(search) = self.search() else { return };
        search.phase = Phase::Tail;
        let (since_ms, answers) = search.behind.get_or_insert((now_ms, 0));
        *answers += 1;
        if *answers >= LOST_ANSWERS && now_ms - *since_ms >= LOST_MS {
            self.fail(Fault::FolderAhead { number }, out);
        }
    }

    fn follow_from(&mut self, now_ms: u64, epoch: Epoch, seq: Seq, out: &mut Vec<Output>) {
        let at = self.reader.at();
        self.reader = Reader::new(self.setting.lineage, at, epoch, seq);
        let has_not_written = epoch > 0 && at.epoch != epoch;
        self.role = Role::Follow(Follow::new(now_ms, has_not_written));
        // The first question for the tail can come at once.
        self.asked_ms = self.asked_ms.saturating_sub(ASK_MS);
        out.push(Output::Request(Request::Follow { from: Some(seq + 1) }));
    }
}

/// Whether the record comes after our last group, or is another group with its number.
fn is_behind(header: &Header, number: u64, is_ours: bool) -> bool {
    let is_other = header.number == number && header.kind == Kind::Group && !is_ours;
    header.number > number || is_other
}
