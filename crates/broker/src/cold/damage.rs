//! Cold blocks that cannot be read.
//!
//! If a block cannot be read, it stays cold, and everybody who needs it waits: the broker tries
//! again after a rest. After [`TRIES`] tries its jobs are *lost*: the queue continues without them.
//! The broker tries to read lost blocks again every minute, because the disk may work again. If it
//! can read one, its jobs come back.

use std::collections::BTreeMap;

use engine::{BlockFacts, Millis};
use log::BlockId;

use crate::cold::loads::{ColdLoad, Read};

/// If a segment's index cannot be built again this often, blocks that cannot be read are lost.
const TRIES: u32 = 3;
/// The rest after the first tries, and after all later ones.
const REST_MS: u64 = 1000;
const LONG_REST_MS: u64 = 60_000;

/// The segments whose blocks cannot be read now.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    segments: BTreeMap<u32, Trouble>,
    /// The lost blocks, and what the engine knew of them.
    lost: BTreeMap<BlockId, BlockFacts>,
}

#[derive(Debug, Default)]
struct Trouble {
    /// How often the index could not be built again.
    tries: u32,
    /// The index is not built again before this moment.
    again_at: Millis,
    /// The loads that wait for the next try.
    waiting: Vec<ColdLoad>,
}

impl Damage {
    /// Whether the index of this segment could not be built a short time ago, so that nobody should
    /// try now.
    pub(crate) fn rests(&self, segment: u32, now: Millis) -> bool {
        self.segments.get(&segment).is_some_and(|trouble| trouble.again_at > now)
    }

    /// Whether blocks of this segment that cannot be read are lost.
    pub(crate) fn is_hopeless(&self, segment: u32) -> bool {
        self.segments.get(&segment).is_some_and(|trouble| trouble.tries >= TRIES)
    }

    /// What a reader of a block learns that could not be read.
    pub(crate) fn unread(&self, segment: u32) -> Read {
        if self.is_hopeless(segment) { Read::Damaged } else { Read::Later }
    }

    /// Notes that the index of this segment could not be built again. `is_read`: because the segment
    /// cannot be read.
    pub(crate) fn note_failure(&mut self, segment: u32, now: Millis, is_read: bool) {
        let trouble = self.segments.entry(segment).or_default();
        // Several threads can fail at the same moment. That is one try.
        trouble.tries += u32::from(is_read && trouble.again_at <= now);
        let rest = if trouble.tries < TRIES { REST_MS } else { LONG_REST_MS };
        trouble.again_at = Millis(now.0 + rest);
    }

    /// Notes that the index of this segment was built again. Returns the loads that waited for it.
    pub(crate) fn note_success(&mut self, segment: u32) -> Vec<ColdLoad> {
        let trouble = self.segments.remove(&segment).unwrap_or_default();
        if blocks_of(&self.lost, segment).next().is_some() {
            // The next try for the lost blocks is due now.
            self.segments.insert(segment, Trouble::default());
        }
        trouble.waiting
    }

    /// Repeats a load at the next try for this segment.
    pub(crate) fn repeat_later(&mut self, segment: u32, load: ColdLoad) {
        self.segments.entry(segment).or_default().waiting.push(load);
    }

    /// The loads whose next try is due.
    pub(crate) fn take_due(&mut self, now: Millis) -> Vec<ColdLoad> {
        let mut due = Vec::new();
        let lost = &self.lost;
        self.segments.retain(|segment, trouble| {
            if trouble.again_at > now {
                return true;
            }
            due.append(&mut trouble.waiting);
            let has_lost = blocks_of(lost, *segment).next().is_some();
            if has_lost {
                due.push(ColdLoad::Lost(*segment));
                // The load sets a new moment, but it may have to wait for other loads first.
                trouble.again_at = Millis(now.0 + LONG_REST_MS);
            }
            // Without lost blocks, the next failure counts as the first one again, if it comes late.
            has_lost || trouble.again_at.0 + LONG_REST_MS > now.0
        });
        due
    }

    /// Notes that a block is lost.
    pub(crate) fn lose(&mut self, block: BlockId, facts: BlockFacts) {
        self.lost.insert(block, facts);
        // Another thread can have read the segment in the meantime. The block is tried again anyway.
        self.segments.entry(block.segment).or_default();
    }

    /// Notes that a lost block can be read again. Returns false if it was not lost.
    pub(crate) fn find(&mut self, block: BlockId) -> bool {
        self.lost.remove(&block).is_some()
    }

    pub(crate) fn is_lost(&self, block: BlockId) -> bool {
        self.lost.contains_key(&block)
    }

    pub(crate) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// The lost blocks of a segment.
    pub(crate) fn lost_of(&self, segment: u32) -> Vec<BlockId> {
        blocks_of(&self.lost, segment).map(|(block, _)| *block).collect()
    }

    /// The number of lost jobs of a segment.
    pub(crate) fn lost_jobs_of(&self, segment: u32) -> u64 {
        blocks_of(&self.lost, segment).map(|(_, facts)| u64::from(facts.jobs())).sum()
    }

    pub(crate) fn has_lost_in(&self, segment: u32) -> bool {
        blocks_of(&self.lost, segment).next().is_some()
    }

    /// The number of lost jobs.
    pub(crate) fn lost_jobs(&self) -> u64 {
        self.lost.values().map(|facts| u64::from(facts.jobs())).sum()
    }
}

fn blocks_of(
    lost: &BTreeMap<BlockId, BlockFacts>,
    segment: u32,
) -> impl Iterator<Item = (&BlockId, &BlockFacts)> {
    lost.range(BlockId { segment, number: 0 }..=BlockId { segment, number: u32::MAX })
}

#[cfg(test)]
mod tests {
    use engine::State;

    use super::*;

    #[test]
    fn tries_rest_longer_when_they_fail_often() {
        let mut damage = Damage::default();
        let load = ColdLoad::Lost(7);
        let mut now = Millis(0);
        for (tries, rest) in [(1, REST_MS), (2, REST_MS), (3, LONG_REST_MS)] {
            // The second failure at the same moment is no second try.
            damage.note_failure(7, now, true);
            damage.note_failure(7, now, true);
            damage.repeat_later(7, load);
            let next = Millis(now.0 + rest);
            assert!(damage.rests(7, Millis(next.0 - 1)) && !damage.rests(7, next));
            assert!(damage.take_due(Millis(next.0 - 1)).is_empty());
            assert_eq!(damage.take_due(next).len(), 1);
            assert_eq!(damage.is_hopeless(7), tries >= TRIES);
            now = next;
        }
        damage.repeat_later(7, load);
        damage.note_failure(8, now, false);
        assert!(!damage.is_hopeless(8));
        assert_eq!(damage.note_success(7).len(), 1);
        assert!(!damage.is_hopeless(7) && !damage.rests(7, now));
    }

    #[test]
    fn a_block_that_is_lost_after_a_success_is_tried_again() {
        let mut damage = Damage::default();
        damage.note_failure(7, Millis(0), true);
        assert!(damage.note_success(7).is_empty());
        let facts = BlockFacts {
            state: State::Ready,
            first: (0, 1),
            last: (0, 2),
            first_ready: (0, 1),
            created: Millis(0),
            bands: [2, 0, 0],
            body_bytes: 10,
            expires: false,
        };
        damage.lose(BlockId { segment: 7, number: 3 }, facts);
        assert!(damage.has_lost_in(7) && !damage.has_lost_in(8));
        assert_eq!(damage.take_due(Millis(0)).len(), 1);
    }
}
