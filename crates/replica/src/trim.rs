//! How much of the stream can go.
//!
//! The leader decides. A group can go when two folders hold it durably. Nodes that are away hold
//! groups back, too, because they follow from there when they return.

use std::collections::{BTreeMap, VecDeque};

use crate::report::Report;
use crate::{Epoch, NodeId, Seq};

/// No trim happens in the first moments of an epoch: followers have not reported yet.
const EPOCH_AGE_MIN_MS: u64 = 10_000;
/// A node without a sign of life for this long holds nothing back.
const AWAY_MAX_MS: u64 = 24 * 60 * 60 * 1000;
/// A trim that frees less is not worth a request.
const FREED_BYTES_MIN: u64 = 64 << 20;
/// The most marks. They cover the whole stream.
const MARKS_MAX: usize = 16 << 10;
/// What a stream counts for a record beside its bytes: the subject, the conditions, the place. This
/// is an estimate. It must not be so low that many small records look as if they were removed.
const RECORD_EXTRA_BYTES: u64 = 200;

/// Places of the stream where a trim can end.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub struct Marks {
    places: VecDeque<Mark>,
    /// Bytes of all records that were noted, as the stream counts them.
    bytes: u64,
    /// One mark for this many bytes.
    mark_bytes: u64,
}

#[derive(Copy, Clone, Debug, Eq, PartialEq, Hash)]
struct Mark {
    number: u64,
    /// The last record of the group: a folder that has the group finds its place here.
    seq: Seq,
    bytes_before: u64,
}

impl Marks {
    /// No places yet. `max_bytes`: the size that the stream must not exceed.
    #[must_use]
    pub fn new(max_bytes: u64) -> Marks {
        let mark_bytes = max_bytes / MARKS_MAX as u64;
        Marks { places: VecDeque::new(), bytes: 0, mark_bytes }
    }

    /// Notes the next record of the stream. `group`: the group that is complete with it.
    pub fn note(&mut self, seq: Seq, bytes: u64, group: Option<u64>) {
        let last = self.places.back();
        let is_due = last.is_none_or(|mark| self.bytes - mark.bytes_before >= self.mark_bytes);
        if let Some(number) = group
            && is_due
        {
            if self.places.len() == MARKS_MAX {
                self.places.pop_front();
            }
            self.places.push_back(Mark { number, seq, bytes_before: self.bytes });
        }
        self.bytes += bytes + RECORD_EXTRA_BYTES;
    }

    /// Forgets the places where a trim would remove nothing: the stream begins with `first`.
    pub fn trimmed(&mut self, first: Seq) {
        while self.places.front().is_some_and(|mark| mark.seq <= first) {
            self.places.pop_front();
        }
    }
}

/// What the leader knows about the folders of all nodes.
#[derive(Clone, Debug, Default, Eq, PartialEq, Hash)]
pub struct Folders {
    nodes: BTreeMap<NodeId, Folder>,
}

#[derive(Clone, Debug, Eq, PartialEq, Hash)]
struct Folder {
    report: Report,
    is_live: bool,
    heard_ms: u64,
    /// When the durable group of the report last rose.
    rose_ms: u64,
}

impl Folders {
    /// A follower reported. `is_live`: over its own link. Otherwise these are its last words, which
    /// somebody else has kept: they can hold groups back, but they do not count as a copy.
    pub fn reported(&mut self, now_ms: u64, report: Report, is_live: bool) {
        let known = self.nodes.get(&report.node);
        if is_live || known.is_none_or(|known| !known.is_live) {
            let has_risen = known.is_none_or(|known| known.report.durable < report.durable);
            let rose_ms = known.map_or(now_ms, |known| known.rose_ms);
            let rose_ms = if has_risen { now_ms } else { rose_ms };
            let folder = Folder { report, is_live, heard_ms: now_ms, rose_ms };
            self.nodes.insert(report.node, folder);
        }
    }

    /// The link of a follower ended.
    pub fn lost(&mut self, node: NodeId) {
        if let Some(folder) = self.nodes.get_mut(&node) {
            folder.is_live = false;
        }
    }

    /// An operator says that the node does not come back.
    pub fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// The live follower that can lead and has applied most, except those of another epoch.
    #[must_use]
    pub fn successor(&self, epoch: Epoch) -> Option<NodeId> {
        let live = self.nodes.values().filter(|node| node.can_lead(epoch));
        live.max_by_key(|node| node.report.applied).map(|node| node.report.node)
    }

    /// The last report of a live follower of this epoch.
    #[must_use]
    pub fn live(&self, node: NodeId, epoch: Epoch) -> Option<Report> {
        self.nodes.get(&node).filter(|folder| folder.counts(epoch)).map(|folder| folder.report)
    }

    /// Whether a live follower that can lead has more than this on disk, and its folder works: it has
    /// all groups up to `last`, or what is durable rose after `since_ms`.
    pub(crate) fn works_better(
        &self,
        epoch: Epoch,
        durable: u64,
        last: u64,
        since_ms: u64,
    ) -> bool {
        let mut live = self.nodes.values().filter(|node| node.can_lead(epoch));
        live.any(|node| {
            let works = node.report.durable >= last || node.rose_ms > since_ms;
            node.report.durable > durable && works
        })
    }

    /// The highest number that is durable in two folders.
    fn durable_twice(&self, epoch: Epoch, own: u64) -> u64 {
        let live = self.nodes.values().filter(|node| node.counts(epoch));
        let mut durable: Vec<u64> = live.map(|node| node.report.durable).collect();
        durable.push(own);
        durable.sort_unstable();
        durable.iter().rev().nth(1).copied().unwrap_or(0)
    }

    /// The lowest group that some node needs.
    fn needed(&self, now_ms: u64) -> Option<u64> {
        let known = self.nodes.values();
        let here = known.filter(|node| now_ms.saturating_sub(node.heard_ms) < AWAY_MAX_MS);
        here.map(|node| node.report.needs).min()
    }
}

impl Folder {
    fn counts(&self, epoch: Epoch) -> bool {
        self.is_live && self.report.epoch == epoch
    }

    fn can_lead(&self, epoch: Epoch) -> bool {
        self.counts(epoch) && !self.report.cannot_lead
    }
}

/// The leader's situation when it considers a trim.
#[derive(Copy, Clone, Debug)]
pub struct Situation {
    /// Milliseconds of the monotonic clock.
    pub now_ms: u64,
    /// The moment when the epoch began.
    pub since_ms: u64,
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The leader's claim, or its last renewal. It must stay in the stream.
    pub claim: Seq,
    /// The last group that is durable in the leader's folder.
    pub durable: u64,
    /// The size of the stream.
    pub stream_bytes: u64,
    /// Always keep this many bytes.
    pub keep_bytes: u64,
    /// The size that the stream must not exceed.
    pub max_bytes: u64,
}

/// What the leader should do.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Choice {
    /// Nothing.
    Wait,
    /// Remove all records before this one.
    Trim(Seq),
    /// Renew the claim, because it is in the way.
    Renew,
}

/// Decides about a trim.
#[must_use]
pub fn choose(marks: &Marks, folders: &Folders, now: &Situation) -> Choice {
    if now.now_ms.saturating_sub(now.since_ms) < EPOCH_AGE_MIN_MS {
        return Choice::Wait;
    }
    let mut last = folders.durable_twice(now.epoch, now.durable);
    // A stream that is half full cannot wait for a node that is away.
    if now.stream_bytes < now.max_bytes / 2 {
        last = folders.needed(now.now_ms).map_or(last, |needed| last.min(needed));
    }
    let worth = FREED_BYTES_MIN.min(now.max_bytes / 10);
    let frees = |mark: &&Mark| {
        let kept = marks.bytes - mark.bytes_before;
        kept >= now.keep_bytes && now.stream_bytes.saturating_sub(kept) >= worth
    };
    let can_go = |mark: &&Mark| mark.number <= last && frees(mark);
    match marks.places.iter().rev().find(can_go) {
        None => Choice::Wait,
        Some(mark) if mark.seq <= now.claim => Choice::Trim(mark.seq),
        // A trim up to the claim may be enough. Otherwise the claim moves.
        Some(_) => {
            let behind = |mark: &&Mark| mark.seq <= now.claim && can_go(mark);
            let mark = marks.places.iter().rev().find(behind);
            mark.map_or(Choice::Renew, |mark| Choice::Trim(mark.seq))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A stream of 1,000 groups of 1 MiB. Group n is record n + 1, because record 1 is a claim.
    fn marks() -> Marks {
        let mut marks = Marks::new(10_000 * MIB);
        for number in 1..=1000 {
            marks.note(number + 1, MIB, Some(number));
        }
        marks
    }

    fn situation() -> Situation {
        Situation {
            now_ms: 100_000,
            since_ms: 0,
            epoch: 999,
            claim: 999,
            durable: 900,
            stream_bytes: 1000 * MIB,
            keep_bytes: 100 * MIB,
            max_bytes: 10_000 * MIB,
        }
    }

    fn report(node: NodeId, durable: u64, needs: u64) -> Report {
        Report { node, durable, needs, epoch: 999, ..Report::default() }
    }

    #[test]
    fn what_two_folders_hold_can_go() {
        let mut folders = Folders::default();
        let choose = |folders: &Folders| choose(&marks(), folders, &situation());
        assert_eq!(choose(&folders), Choice::Wait, "the leader alone is one folder");
        folders.reported(1, report(2, 800, 800), false);
        assert_eq!(choose(&folders), Choice::Wait, "last words are no copy");
        folders.reported(1, report(2, 800, 800), true);
        assert_eq!(choose(&folders), Choice::Trim(801), "group 800 stays");
        folders.reported(1, report(2, 1000, 1000), true);
        assert_eq!(choose(&folders), Choice::Trim(901), "the leader has 900, and 100 MiB stay");
        folders.lost(2);
        assert_eq!(choose(&folders), Choice::Wait);
    }

    #[test]
    fn a_report_of_another_epoch_does_not_count() {
        let mut folders = Folders::default();
        folders.reported(1, Report { epoch: 998, ..report(2, 800, 800) }, true);
        assert_eq!(choose(&marks(), &folders, &situation()), Choice::Wait);
        assert_eq!((folders.successor(999), folders.live(2, 999)), (None, None));
        assert_eq!(folders.live(2, 998).map(|report| report.durable), Some(800));
    }

    #[test]
    fn a_node_that_cannot_lead_is_no_successor() {
        let mut folders = Folders::default();
        folders.reported(1, report(2, 800, 800), true);
        folders.reported(
            1,
            Report { applied: 900, cannot_lead: true, ..report(3, 900, 900) },
            true,
        );
        assert_eq!(folders.successor(999), Some(2));
        assert!(folders.works_better(999, 700, 800, 0));
        folders.lost(2);
        assert_eq!(folders.successor(999), None);
        assert!(!folders.works_better(999, 700, 800, 0));
        // But it has a copy.
        assert_eq!(choose(&marks(), &folders, &situation()), Choice::Trim(801));
    }

    #[test]
    fn a_node_that_is_away_holds_groups_back_until_the_stream_is_half_full() {
        let mut folders = Folders::default();
        folders.reported(1, report(2, 900, 900), true);
        folders.reported(1, report(3, 500, 500), true);
        folders.lost(3);
        assert_eq!(choose(&marks(), &folders, &situation()), Choice::Trim(501));
        let full = Situation { max_bytes: 2000 * MIB, ..situation() };
        assert_eq!(choose(&marks(), &folders, &full), Choice::Trim(901));
        let later = Situation { now_ms: 2 + AWAY_MAX_MS, ..situation() };
        folders.reported(later.now_ms, report(2, 900, 900), true);
        assert_eq!(choose(&marks(), &folders, &later), Choice::Trim(901), "a day without a sign");
        folders.forget(3);
        assert_eq!(choose(&marks(), &folders, &situation()), Choice::Trim(901));
    }

    #[test]
    fn the_claim_stays() {
        let mut folders = Folders::default();
        folders.reported(1, report(2, 900, 900), true);
        let now = Situation { claim: 300, ..situation() };
        assert_eq!(choose(&marks(), &folders, &now), Choice::Trim(300));
        let now = Situation { claim: 20, ..situation() };
        assert_eq!(choose(&marks(), &folders, &now), Choice::Renew);
    }

    #[test]
    fn small_trims_and_young_epochs_wait() {
        let mut folders = Folders::default();
        folders.reported(1, report(2, 60, 60), true);
        assert_eq!(choose(&marks(), &folders, &situation()), Choice::Wait);
        folders.reported(1, report(2, 900, 900), true);
        let young = Situation { since_ms: 95_000, ..situation() };
        assert_eq!(choose(&marks(), &folders, &young), Choice::Wait);
        let mut marks = marks();
        marks.trimmed(850);
        let trimmed = Situation { stream_bytes: 152 * MIB, ..situation() };
        assert_eq!(choose(&marks, &folders, &trimmed), Choice::Wait);
    }

    #[test]
    fn a_trim_that_would_remove_nothing_is_not_tried() {
        let mut folders = Folders::default();
        folders.reported(1, report(2, 900, 900), true);
        // The stream counts more than the bytes of groups, and begins with the claim.
        let now = Situation { claim: 20, stream_bytes: 1400 * MIB, ..situation() };
        let mut marks = marks();
        marks.trimmed(20);
        assert_eq!(choose(&marks, &folders, &now), Choice::Renew);
    }

    #[test]
    fn an_idle_stream_is_trimmed_too() {
        let mut folders = Folders::default();
        folders.reported(1, report(2, 2, 2), true);
        let mut marks = Marks::new(10_000 * MIB);
        let mut bytes = 0;
        for seq in 2..500_000 {
            // A record without facts, and now and then an empty group.
            let group = (seq % 4096 == 0).then_some(seq / 4096);
            marks.note(seq, 128, group);
            bytes += 128 + RECORD_EXTRA_BYTES;
        }
        let now = Situation { stream_bytes: bytes, keep_bytes: 50 * MIB, claim: 1, ..situation() };
        assert_eq!(choose(&marks, &folders, &now), Choice::Wait, "two groups are too few");
        folders.reported(1, report(2, 100, 100), true);
        assert_eq!(choose(&marks, &folders, &now), Choice::Renew);
        let renewed = Situation { claim: 499_000, ..now };
        assert_eq!(choose(&marks, &folders, &renewed), Choice::Trim(83 * 4096));
    }
}
