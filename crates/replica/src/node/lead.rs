//! A leader: it appends the groups that its owner gathers, one record at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Act, Append, End, Fault, Node, Output, Request, Role, Subject};
use crate::claim::Resignation;
use crate::group::SealedGroup;
use crate::reader::Meaning;
use crate::record::Kind;
use crate::trim::{Choice, Situation, choose};
use crate::{NodeId, Seq};

/// After this many records without a group, the owner gathers an empty group. Otherwise nothing of
/// an idle stream could be trimmed.
const ALIVE_MAX: u32 = 4096;
/// Time between two decisions about a trim.
const TRIM_MS: u64 = 10_000;

#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub(super) struct Lead {
    since_ms: u64,
    /// Groups that are not acknowledged, in their order.
    groups: VecDeque<SealedGroup>,
    /// The next part of the first group.
    part: u16,
    /// What the open append is.
    sending: Sending,
    /// When the last append ended.
    idle_since_ms: u64,
    /// Records since the last group.
    alive: u32,
    /// The engine's time at a moment of the clock. Both continue equally.
    clock: (u64, u64),
    resignation: Option<(Resignation, u64)>,
    /// This leader's claim, or its last renewal. It must stay in the stream: without it, a new reader
    /// would not find out who leads.
    claim: Seq,
    /// The claim is in the way of a trim.
    renews: bool,
    trim_ms: u64,
    /// The owner was asked to yield.
    yields: bool,
}

#[derive(Copy, Clone, Debug, Eq, PartialEq, Hash)]
enum Sending {
    Part,
    Alive,
    Resignation,
    Renewal,
}

impl Lead {
    pub(super) fn new(now_ms: u64, time_ms: u64, claim: Seq) -> Lead {
        Lead {
            since_ms: now_ms,
            groups: VecDeque::new(),
            part: 0,
            sending: Sending::Alive,
            idle_since_ms: now_ms,
            alive: 0,
            clock: (time_ms, now_ms),
            resignation: None,
            claim,
            renews: false,
            trim_ms: now_ms + TRIM_MS,
            yields: false,
        }
    }

    pub(super) fn asks_tail(&self, now_ms: u64) -> bool {
        now_ms >= self.trim_ms
    }

    pub(super) fn wake_at(&self, lease_ms: u64) -> u64 {
        self.trim_ms.min(self.idle_since_ms + lease_ms / 4)
    }

    fn time_ms(&self, now_ms: u64) -> u64 {
        self.clock.0 + (now_ms - self.clock.1)
    }
}

impl Node {
    fn lead(&mut self) -> Option<&mut Lead> {
        match &mut self.role {
            Role::Lead(lead) => Some(lead),
            Role::Search(_) | Role::Follow(_) | Role::Over => None,
        }
    }

    pub(super) fn gathered(&mut self, now_ms: u64, group: SealedGroup) {
        let (at, epoch) = (self.reader.at(), self.reader.epoch());
        // After the end, the owner may not know of it yet.
        let Some(lead) = self.lead() else { return };
        let (number, chain) =
            lead.groups.back().map_or((at.number, at.chain), |last| (last.number, last.after));
        assert_eq!(group.number, number + 1, "groups have no gap");
        assert_eq!(group.before, chain, "groups are chained");
        assert_eq!(group.epoch, epoch, "groups have the leader's epoch");
        lead.clock = (group.time_ms.max(lead.time_ms(now_ms)), now_ms);
        lead.groups.push_back(group);
    }

    pub(super) fn resign(&mut self, successor: NodeId, next_id: u64) {
        if let Some(lead) = self.lead() {
            lead.resignation = Some((Resignation { successor }, next_id));
        }
    }

    /// A leader whose folder hangs would soon make its clients wait, and nobody would trim the stream.
    /// So it yields, but only to a node whose folder works.
    fn yield_if_due(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        let at = self.reader.at();
        // If the folders share a disk, all of them hang. So one that only was a little faster does
        // not count.
        let since_ms = now_ms.saturating_sub(self.setting.folder_ms / 2);
        let epoch = self.reader.epoch();
        let is_due = self.folder_hangs(now_ms)
            && self.folders.works_better(epoch, self.durable, at.number, since_ms);
        if let Some(lead) = self.lead()
            && is_due
            && !std::mem::replace(&mut lead.yields, true)
        {
            out.push(Output::Act(Act::Yield));
        }
    }

    /// Begins the next append, if none is open.
    pub(super) fn append_next(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        self.yield_if_due(now_ms, out);
        if !self.can_append() {
            return;
        }
        let (lease_ms, id_limit) = (self.setting.lease_ms, self.reader.id_limit());
        let (lineage, node) = (self.setting.lineage, self.setting.node);
        let (last_ms, last_claim) = (self.reader.time_ms(), self.reader.claim());
        let Some(lead) = self.lead() else { return };
        let time_ms = lead.time_ms(now_ms).max(last_ms);
        let resignation = lead.resignation;
        // A late claim that does not count can be the last one. Then the leader's own claim must
        // become the last one again.
        let renews = lead.renews || lead.claim != last_claim;
        if renews && lead.part == 0 && resignation.is_none() {
            // A renewal repeats the claim.
            let Some((_, claim)) = self.reader.leader() else { return };
            let record = self.plain_record(Kind::Renewal, time_ms, id_limit, &claim.encode());
            self.append_as(now_ms, Sending::Renewal, record, out);
        } else if let Some(group) = lead.groups.front() {
            let record = group.record(lead.part, lineage, node).into();
            self.append_as(now_ms, Sending::Part, record, out);
        } else if let Some((resignation, next_id)) = resignation {
            let body = resignation.encode();
            let record = self.plain_record(Kind::Resign, time_ms, next_id, &body);
            self.append_as(now_ms, Sending::Resignation, record, out);
        } else if now_ms >= lead.idle_since_ms + lease_ms / 4 {
            let record = self.plain_record(Kind::Alive, time_ms, id_limit, b"");
            self.append_as(now_ms, Sending::Alive, record, out);
        }
    }

    fn append_as(
        &mut self,
        now_ms: u64,
        sending: Sending,
        record: Arc<[u8]>,
        out: &mut Vec<Output>,
    ) {
        if let Some(lead) = self.lead() {
            lead.sending = sending;
        }
        let subject = match sending {
            Sending::Renewal => Subject::Claims,
            Sending::Part | Sending::Alive | Sending::Resignation => Subject::Groups,
        };
        self.begin_append(now_ms, subject, record, out);
    }

    /// An append of this leader is in the stream.
    pub(super) fn appended(&mut self, now_ms: u64, append: &Append, out: &mut Vec<Output>) {
        let seq = append.place();
        let Some(lead) = self.lead() else { return };
        lead.idle_since_ms = now_ms;
        let sending = lead.sending;
        if sending == Sending::Part {
            return self.appended_part(seq, append.record.len() as u64, out);
        }
        if let Err(error) = self.read_record(seq, &append.record) {
            return self.fail(error.into(), out);
        }
        let Some(lead) = self.lead() else { return };
        match sending {
            Sending::Part => (),
            Sending::Alive => {
                lead.alive += 1;
                if lead.alive == ALIVE_MAX {
                    lead.alive = 0;
                    out.push(Output::Act(Act::Cut));
                }
            }
            Sending::Resignation => self.end(End::Resigned, out),
            Sending::Renewal => (lead.claim, lead.renews) = (seq, false),
        }
    }

    fn appended_part(&mut self, seq: Seq, bytes: u64, out: &mut Vec<Output>) {
        self.reader.passed(seq);
        let Some(lead) = self.lead() else { return };
        lead.part += 1;
        if lead.groups.front().is_none_or(|group| lead.part < group.parts()) {
            return self.marks.note(seq, bytes, None);
        }
        lead.part = 0;
        lead.alive = 0;
        let Some(group) = lead.groups.pop_front() else { return };
        self.reader.reached(group.at());
        self.marks.note(seq, bytes, Some(group.number));
        out.push(Output::Act(Act::Acknowledged(group.number)));
    }

    /// Another record has the place of this leader's append.
    pub(super) fn appended_other(
        &mut self,
        append: &Append,
        bytes: &Arc<[u8]>,
        out: &mut Vec<Output>,
    ) {
        let seq = append.place();
        match self.read_record(seq, bytes) {
            Ok(Meaning::Claim(node, _)) => self.end(End::Deposed(node), out),
            // A late record of a former leader, or a late repetition of this leader's renewal. The
            // append begins again at the next place.
            Ok(Meaning::Stale | Meaning::Renewal) => self.counts.stale += 1,
            Ok(Meaning::Group(_) | Meaning::Part | Meaning::Alive | Meaning::Resign(_)) => {
                self.fail(Fault::Imitated { seq }, out);
            }
            Err(error) => self.fail(error.into(), out),
        }
    }

    /// Considers a trim, now that the size of the stream is known.
    pub(super) fn trim(&mut self, now_ms: u64, first: Seq, bytes: u64, out: &mut Vec<Output>) {
        let Role::Lead(lead) = &mut self.role else { return };
        if now_ms < lead.trim_ms {
            return;
        }
        lead.trim_ms = now_ms + TRIM_MS;
        self.marks.trimmed(first);
        let situation = Situation {
            now_ms,
            since_ms: lead.since_ms,
            epoch: self.reader.epoch(),
            claim: lead.claim,
            durable: self.durable,
            stream_bytes: bytes,
            keep_bytes: self.setting.keep_bytes,
            max_bytes: self.setting.max_bytes,
        };
        match choose(&self.marks, &self.folders, &situation) {
            Choice::Trim(below) => out.push(Output::Request(Request::Trim { below })),
            Choice::Renew => lead.renews = true,
            Choice::Wait => (),
        }
    }
}
