//! The table of the numbered segment files. Decides which of them can be freed: segments that
//! reclaim gave up, and that nobody holds.
//!
//! A backup or a reader of bodies reads the file of a segment without the owner's lock. During this
//! time it *holds* the segment: the log does not free, reuse or cut the file. Segments are freed
//! from the oldest on, so a hold also keeps all later segments.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::types::Position;

/// Holds one segment. Until this hold and all other holds of the segment are dropped, the log does
/// not free, reuse or cut the segment's file.
#[derive(Debug)]
pub struct SegmentHold {
    numbered: Arc<Numbered>,
    segment: u32,
}

impl SegmentHold {
    /// The segment's number.
    pub fn segment(&self) -> u32 {
        self.segment
    }
}

impl Drop for SegmentHold {
    fn drop(&mut self) {
        // This function does not wake the helper: the committer wakes the helper at least once a
        // second, and then the helper frees the segment.
        let mut state = self.numbered.state();
        if let Some(count) = state.held.get_mut(&self.segment) {
            *count -= 1;
            if *count == 0 {
                state.held.remove(&self.segment);
            }
        }
    }
}

/// The numbered files up to the head, those that wait to be freed, and the holds.
#[derive(Debug, Default)]
pub(crate) struct Numbered(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The size of each file.
    sizes: BTreeMap<u32, u64>,
    bytes: Bytes,
    /// Segments that reclaim gave up, from the oldest on, each with the position of its TRIM entry.
    /// A segment can be freed when the log is durable up to this position.
    given_up: VecDeque<(u32, Position)>,
    /// The number of holds of each held segment.
    held: BTreeMap<u32, u32>,
    /// The segments whose files could not be read, or had wrong bytes.
    spoiled: BTreeSet<u32>,
    /// The oldest segment that can be held. The files of lower segments are already freed, or are
    /// being freed now.
    kept_from: u32,
}

/// The bytes of the numbered files up to the head.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Bytes {
    pub(crate) all: u64,
    /// Without the segments that reclaim gave up and that are not freed yet.
    pub(crate) kept: u64,
}

impl Numbered {
    /// Locks the state. A thread must not call the disk while it holds this lock, because appenders
    /// and readers need the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the number and the size of each file that recovery found.
    pub(crate) fn adopt(&self, sizes: BTreeMap<u32, u64>) {
        let mut state = self.state();
        let bytes = sizes.values().sum();
        state.kept_from = sizes.keys().next().copied().unwrap_or(0);
        (state.sizes, state.bytes) = (sizes, Bytes { all: bytes, kept: bytes });
    }

    /// Adds the file of the head.
    pub(crate) fn add(&self, segment: u32, bytes: u64) {
        let mut state = self.state();
        if state.sizes.is_empty() {
            state.kept_from = segment;
        }
        state.sizes.insert(segment, bytes);
        state.bytes.all += bytes;
        state.bytes.kept += bytes;
    }

    /// Adds a file that recovery found below the log's first segment. It counts as given up.
    pub(crate) fn add_void(&self, segment: u32, bytes: u64, trim: Position) {
        let mut state = self.state();
        state.sizes.insert(segment, bytes);
        state.bytes.all += bytes;
        state.given_up.push_back((segment, trim));
    }

    pub(crate) fn bytes(&self) -> Bytes {
        self.state().bytes
    }

    /// Notes that reclaim gave up a segment. The TRIM entry of this segment ends at `trim`.
    pub(crate) fn give_up(&self, segment: u32, trim: Position) {
        let mut state = self.state();
        state.bytes.kept -= state.size_of(segment);
        state.given_up.push_back((segment, trim));
    }

    /// Holds a segment. Returns `None` if the segment is already being freed.
    pub(crate) fn hold(self: &Arc<Self>, segment: u32) -> Option<SegmentHold> {
        let mut state = self.state();
        if segment < state.kept_from {
            return None;
        }
        *state.held.entry(segment).or_default() += 1;
        Some(SegmentHold { numbered: Arc::clone(self), segment })
    }

    /// Holds the oldest segment that can be held. This hold also keeps all later segments.
    pub(crate) fn hold_oldest(self: &Arc<Self>) -> SegmentHold {
        let mut state = self.state();
        let segment = state.kept_from;
        *state.held.entry(segment).or_default() += 1;
        SegmentHold { numbered: Arc::clone(self), segment }
    }

    /// The lowest segment that the log needs if it ends at this position.
    pub(crate) fn first_at(&self, end: Position) -> u32 {
        let state = self.state();
        let void = state.given_up.iter().take_while(|(_, trim)| *trim <= end).last();
        // Not all files that recovery found below the first segment need be there.
        void.map_or(state.kept_from, |&(segment, _)| state.kept_from.max(segment + 1))
    }

    /// Notes that a segment's file could not be read, or had wrong bytes.
    pub(crate) fn note_spoiled(&self, segment: u32) {
        self.state().spoiled.insert(segment);
    }

    /// Whether a segment's file is spoiled. Forgets the answer, because the caller frees the file.
    pub(crate) fn take_spoiled(&self, segment: u32) -> bool {
        self.state().spoiled.remove(&segment)
    }

    /// Whether a segment can be freed when the log is durable up to this position.
    pub(crate) fn can_free(&self, durable: Position) -> bool {
        self.state().next(durable).is_some()
    }

    /// Whether a segment could be freed if nobody held it.
    pub(crate) fn is_held_back(&self, durable: Position) -> bool {
        let state = self.state();
        let is_durable = state.given_up.front().is_some_and(|&(_, trim)| trim <= durable);
        is_durable && state.next(durable).is_none()
    }

    /// The segment to free next, if the log is durable up to this position. From now on, nobody can
    /// hold this segment.
    pub(crate) fn begin(&self, durable: Position) -> Option<u32> {
        let mut state = self.state();
        let segment = state.next(durable)?;
        state.kept_from = state.kept_from.max(segment + 1);
        Some(segment)
    }

    /// Removes the segment that `begin` returned, because it is freed now.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        if let Some((segment, _)) = state.given_up.pop_front() {
            state.bytes.all -= state.size_of(segment);
            state.sizes.remove(&segment);
        }
    }
}

impl State {
    fn size_of(&self, segment: u32) -> u64 {
        self.sizes.get(&segment).copied().unwrap_or(0)
    }

    fn next(&self, durable: Position) -> Option<u32> {
        let (segment, trim) = *self.given_up.front()?;
        (trim <= durable && !self.held.contains_key(&segment)).then_some(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIM: Position = Position(100);

    /// The segment `n` has `n` thousand bytes.
    fn numbered(segments: impl Iterator<Item = u32>) -> Arc<Numbered> {
        let numbered = Arc::new(Numbered::default());
        numbered.adopt(segments.map(|segment| (segment, u64::from(segment) * 1000)).collect());
        numbered
    }

    #[test]
    fn a_held_segment_is_freed_after_the_last_hold() {
        let numbered = numbered(1..3);
        let holds = [numbered.hold(1).unwrap(), numbered.hold(1).unwrap()];
        numbered.give_up(1, TRIM);
        numbered.give_up(2, TRIM);
        for hold in holds {
            assert_eq!(numbered.begin(TRIM), None, "a later segment waits, too");
            assert!(numbered.is_held_back(TRIM));
            drop(hold);
        }
        assert!(!numbered.is_held_back(TRIM));
        assert_eq!(numbered.begin(TRIM), Some(1));
        numbered.end();
        assert_eq!(numbered.begin(TRIM), Some(2));
        numbered.end();
        assert_eq!(numbered.begin(TRIM), None);
    }

    #[test]
    fn a_segment_counts_until_it_is_freed_and_is_kept_until_it_is_given_up() {
        let numbered = numbered(1..3);
        let bytes = |all, kept| assert_eq!(numbered.bytes(), Bytes { all, kept });
        bytes(3000, 3000);
        numbered.add(3, 500);
        bytes(3500, 3500);
        numbered.give_up(1, TRIM);
        numbered.give_up(2, TRIM);
        bytes(3500, 500);
        assert_eq!(numbered.begin(TRIM), Some(1));
        bytes(3500, 500);
        numbered.end();
        bytes(2500, 500);
        assert_eq!(numbered.begin(TRIM), Some(2));
        numbered.end();
        bytes(500, 500);
    }

    #[test]
    fn a_hold_of_a_later_segment_keeps_no_earlier_one() {
        let numbered = numbered(1..3);
        let _hold = numbered.hold(2).unwrap();
        numbered.give_up(1, TRIM);
        numbered.give_up(2, TRIM);
        assert_eq!(numbered.begin(TRIM), Some(1));
        numbered.end();
        assert_eq!(numbered.begin(TRIM), None);
    }

    #[test]
    fn a_hold_comes_too_late_for_a_segment_that_is_being_freed() {
        let numbered = numbered(1..3);
        numbered.give_up(1, TRIM);
        assert_eq!(numbered.begin(Position(99)), None, "the TRIM is not durable yet");
        assert!(!numbered.is_held_back(Position(99)));
        drop(numbered.hold(1).expect("nobody frees it yet"));
        assert_eq!(numbered.begin(TRIM), Some(1));
        assert!(numbered.hold(1).is_none());
        assert!(numbered.hold(2).is_some());
    }

    #[test]
    fn void_files_are_freed_first_and_cannot_be_held() {
        let numbered = numbered(7..9);
        numbered.add_void(3, 1000, TRIM);
        numbered.add_void(4, 2000, TRIM);
        assert_eq!(numbered.bytes(), Bytes { all: 18_000, kept: 15_000 });
        assert!(numbered.hold(4).is_none());
        assert_eq!(numbered.first_at(TRIM), 7, "5 and 6 are gone already");
        let hold = numbered.hold_oldest();
        for segment in [3, 4] {
            assert_eq!(numbered.begin(TRIM), Some(segment));
            numbered.end();
        }
        assert_eq!((numbered.begin(TRIM), hold.segment()), (None, 7));
        assert_eq!(numbered.bytes(), Bytes { all: 15_000, kept: 15_000 });
    }

    #[test]
    fn the_oldest_segment_and_the_first_needed_one_differ_while_segments_wait() {
        let numbered = numbered(4..6);
        assert_eq!(numbered.first_at(TRIM), 4);
        numbered.give_up(4, Position(50));
        numbered.give_up(5, TRIM);
        let hold = numbered.hold_oldest();
        assert_eq!(hold.segment(), 4);
        let first = [49, 50, 99, 100].map(|end| numbered.first_at(Position(end)));
        assert_eq!(first, [4, 5, 5, 6]);
        assert_eq!(numbered.begin(TRIM), None);
        drop(hold);
        assert_eq!(numbered.begin(TRIM), Some(4));
        assert_eq!(numbered.hold_oldest().segment(), 5, "segment 4 is being freed");
    }
}
