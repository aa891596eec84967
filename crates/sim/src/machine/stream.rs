//! The stream that the nodes of a cluster share: a model of NATS JetStream, as it was measured.
//!
//! An append has conditions. The stream's leader compares them with its last record, and counts a
//! proposal that is not decided yet. So an append can be refused, and be in the stream nevertheless.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use replica::group::{At, SealedGroup};
use replica::node::{Expect, Subject};
use replica::reader::{Meaning, Reader};
use replica::record::Header;
use replica::{Epoch, Lineage, NodeId, Seq};

use crate::Checked;

/// The lineage of the simulated cluster.
pub(crate) const LINEAGE: Lineage = Lineage([7; 16]);

/// The stream counts this for a record beside its bytes.
const RECORD_EXTRA_BYTES: u64 = 180;

/// An append on its way to the stream.
#[derive(Clone, Debug)]
pub(crate) struct Append {
    pub(crate) subject: Subject,
    pub(crate) expect: Expect,
    pub(crate) record: Arc<[u8]>,
}

/// What the stream's leader says about an append.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    Appended(Seq),
    /// The proposal is not decided. There is no answer.
    Undecided,
    Refused,
    /// Another proposal is not decided.
    Busy,
}

#[derive(Debug)]
struct Entry {
    subject: Subject,
    bytes: Arc<[u8]>,
}

#[derive(Debug)]
pub(crate) struct Stream {
    /// Records that the stream has lost.
    lost: BTreeSet<Seq>,
    /// All records since the beginning. A trim hides some of them.
    entries: Vec<Entry>,
    first: Seq,
    proposal: Option<Append>,
    /// Sabotage: no append has conditions.
    pub(crate) ignores_conditions: bool,
    /// Sabotage: a claim has no conditions, as if its writer had not read the stream to the end.
    pub(crate) trusts_claims: bool,
    /// Decides which records count, in the order of the stream.
    judge: Reader,
    /// The places after all accepted groups, by their numbers.
    accepted: Vec<At>,
    /// The accepted groups, from the first one on.
    groups: Vec<SealedGroup>,
    /// The claims that count: their nodes, and the last groups before them.
    claims: BTreeMap<Seq, (NodeId, u64)>,
    /// The first record of each accepted group, by its number.
    places: Vec<Seq>,
    /// The number of records that did not count.
    pub(crate) stale: u64,
    /// The number of renewals that counted.
    pub(crate) renewals: u64,
}

impl Stream {
    pub(crate) fn new(origin: At) -> Self {
        Self {
            lost: BTreeSet::new(),
            entries: Vec::new(),
            first: 1,
            proposal: None,
            ignores_conditions: false,
            trusts_claims: false,
            judge: Reader::new(LINEAGE, origin, 0, 0),
            accepted: vec![origin],
            groups: Vec::new(),
            claims: BTreeMap::new(),
            places: vec![0],
            stale: 0,
            renewals: 0,
        }
    }

    pub(crate) fn first(&self) -> Seq {
        self.first
    }

    pub(crate) fn last(&self) -> Seq {
        self.entries.len() as Seq
    }

    /// The size of all records that a trim has left.
    pub(crate) fn bytes(&self) -> u64 {
        let kept = self.entries.get(self.first as usize - 1..).unwrap_or_default();
        kept.iter().map(|entry| entry.bytes.len() as u64 + RECORD_EXTRA_BYTES).sum()
    }

    pub(crate) fn read(&self, seq: Seq) -> Option<Arc<[u8]>> {
        self.read_of(self.view(), seq)
    }

    /// What the servers know that agree with each other: the first and the last record.
    pub(crate) fn view(&self) -> (Seq, Seq) {
        (self.first, self.last())
    }

    /// A record, as a server with this view answers.
    pub(crate) fn read_of(&self, (first, last): (Seq, Seq), seq: Seq) -> Option<Arc<[u8]>> {
        let at = usize::try_from(seq).ok()?.checked_sub(1)?;
        let is_there = (first..=last).contains(&seq) && !self.lost.contains(&seq);
        self.entries.get(at).filter(|_| is_there).map(|entry| entry.bytes.clone())
    }

    /// The last claim, also if it does not count. 0: there is none.
    pub(crate) fn last_claim(&self) -> Seq {
        self.last_claim_of(self.view())
    }

    /// The last claim, as a server with this view answers.
    pub(crate) fn last_claim_of(&self, (first, last): (Seq, Seq)) -> Seq {
        let is_claim = |entry: &Entry| entry.subject == Subject::Claims;
        let known = &self.entries[..self.entries.len().min(last as usize)];
        let found = known.iter().rposition(is_claim).map_or(0, |at| at as Seq + 1);
        if found < first { 0 } else { found }
    }

    /// Whether a node with this last group finds it, and everything after it.
    pub(crate) fn is_whole_from(&self, number: u64) -> bool {
        let place = self.places.get(number as usize).copied().unwrap_or(Seq::MAX);
        self.first == 1 || number > 0 && place >= self.first
    }

    /// Whether an append can come into the stream whatever its conditions: it is that of a former
    /// leader, or a claim. The appends of a leader keep their places, because at most one is open.
    pub(crate) fn is_late(&self, append: &Append) -> bool {
        let header = Header::decode(&append.record).ok().map(|(header, _)| header);
        let is_old = header.is_some_and(|header| header.epoch < self.judge.epoch());
        self.proposal.is_none() && (is_old || append.subject == Subject::Claims)
    }

    /// The claim that counts.
    pub(crate) fn epoch(&self) -> Epoch {
        self.judge.epoch()
    }

    /// The places after the accepted groups, by their numbers.
    pub(crate) fn accepted(&self) -> &[At] {
        &self.accepted
    }

    /// The accepted groups after this one.
    pub(crate) fn groups_after(&self, number: u64) -> &[SealedGroup] {
        self.groups.get(number as usize..).unwrap_or_default()
    }

    /// The node of a claim that counts, and the last group before the claim.
    pub(crate) fn claim(&self, seq: Seq) -> Option<(NodeId, u64)> {
        self.claims.get(&seq).copied()
    }

    /// The number of the last accepted group.
    pub(crate) fn number(&self) -> u64 {
        self.accepted.len() as u64 - 1
    }

    /// An append arrives at the stream's leader. `decides`: a majority of the servers works.
    pub(crate) fn propose(&mut self, append: Append, decides: bool) -> Result<Verdict, String> {
        if self.proposal.is_some() {
            let is_next = append.expect.tail == self.last() + 1;
            let is_group = append.subject == Subject::Groups;
            return Ok(if is_next && is_group { Verdict::Busy } else { Verdict::Refused });
        }
        let found = Expect { tail: self.last(), claim: self.last_claim() };
        let trusts = self.trusts_claims && append.subject == Subject::Claims;
        // A second attempt of the same claim is refused, as always.
        let place = self.entries.get(append.expect.tail as usize);
        let is_there = place.is_some_and(|entry| entry.bytes == append.record);
        let ignores = self.ignores_conditions || trusts && !is_there;
        if append.expect != found && !ignores {
            return Ok(Verdict::Refused);
        }
        if !decides {
            self.proposal = Some(append);
            return Ok(Verdict::Undecided);
        }
        let expected = append.expect.tail + 1;
        self.commit(append.subject, append.record)?;
        // A server that ignores conditions does not tell that the record has another place.
        Ok(Verdict::Appended(if ignores { expected } else { self.last() }))
    }

    /// The servers agree about the proposal. `lands`: it is in the stream.
    pub(crate) fn decide(&mut self, lands: bool) -> Checked {
        match self.proposal.take() {
            Some(append) if lands => self.commit(append.subject, append.record),
            _ => Ok(()),
        }
    }

    /// Adds a record, whatever its conditions.
    pub(crate) fn commit(&mut self, subject: Subject, bytes: Arc<[u8]>) -> Checked {
        let seq = self.last() + 1;
        self.entries.push(Entry { subject, bytes });
        let bytes = &self.entries[seq as usize - 1].bytes;
        match self.judge.read(seq, bytes).map_err(|error| format!("the stream: {error}"))? {
            Meaning::Group(group) => {
                self.accepted.push(group.at());
                self.places.push(seq + 1 - Seq::from(group.parts()));
                self.groups.push(group);
            }
            Meaning::Claim(node, _) => {
                self.claims.insert(seq, (node, self.judge.at().number));
            }
            Meaning::Stale => self.stale += 1,
            Meaning::Renewal => self.renewals += 1,
            Meaning::Part | Meaning::Alive | Meaning::Resign(_) => {}
        }
        Ok(())
    }

    /// The stream loses one record.
    pub(crate) fn lose(&mut self, seq: Seq) {
        self.lost.insert(seq);
    }

    /// The stream loses all records after this one, because its servers did not flush them.
    pub(crate) fn lose_after(&mut self, last: Seq) -> Checked {
        let origin = self.accepted[0];
        let kept = Self { first: self.first, ..Self::new(origin) };
        let entries = std::mem::replace(self, kept).entries;
        for entry in entries.into_iter().take(last as usize) {
            self.commit(entry.subject, entry.bytes)?;
        }
        Ok(())
    }

    /// Removes all records before this one. Returns the last group of which a part is gone.
    pub(crate) fn trim(&mut self, below: Seq) -> u64 {
        self.first = self.first.max(below.min(self.last() + 1));
        let is_gone = |place: &Seq| *place < self.first;
        self.places.partition_point(is_gone) as u64 - 1
    }
}
