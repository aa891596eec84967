//! Decides which segments can be freed: segments that reclaim gave up, and that nobody holds.
//!
//! A backup or a reader of bodies reads the file of a segment without the owner's lock. During this
//! time it *holds* the segment: the log does not free, reuse or cut the file. Segments are freed
//! from the oldest on, so a hold also keeps all later segments.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::types::Position;

/// Holds one segment. Until this hold and all other holds of the segment are dropped, the log does
/// not free, reuse or cut the segment's file.
#[derive(Debug)]
pub struct SegmentHold {
    freeing: Arc<Freeing>,
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
        let mut state = self.freeing.state();
        if let Some(count) = state.held.get_mut(&self.segment) {
            *count -= 1;
            if *count == 0 {
                state.held.remove(&self.segment);
            }
        }
    }
}

/// The segments that wait to be freed, and the holds.
#[derive(Debug, Default)]
pub(crate) struct Freeing(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Segments that reclaim gave up, from the oldest on, each with the position of its TRIM entry.
    /// A segment can be freed when the log is durable up to this position.
    given_up: VecDeque<(u32, Position)>,
    /// The number of holds of each held segment.
    held: BTreeMap<u32, u32>,
    /// The oldest segment that can be held. The files of lower segments are already freed, or are
    /// being freed now.
    kept_from: u32,
}

impl Freeing {
    /// Locks the state. A thread must not call the disk while it holds this lock, because appenders
    /// and readers need the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the oldest segment of the log.
    pub(crate) fn begin_at(&self, segment: u32) {
        self.state().kept_from = segment;
    }

    /// Adds a segment that reclaim gave up. The TRIM entry of this segment ends at `trim`.
    pub(crate) fn give_up(&self, segment: u32, trim: Position) {
        self.state().given_up.push_back((segment, trim));
    }

    /// The number of segments that reclaim gave up and that are not freed yet.
    pub(crate) fn waiting(&self) -> usize {
        self.state().given_up.len()
    }

    /// Holds a segment. Returns `None` if the segment is already being freed.
    pub(crate) fn hold(self: &Arc<Self>, segment: u32) -> Option<SegmentHold> {
        let mut state = self.state();
        if segment < state.kept_from {
            return None;
        }
        *state.held.entry(segment).or_default() += 1;
        Some(SegmentHold { freeing: Arc::clone(self), segment })
    }

    /// Holds the oldest segment that can be held. This hold also keeps all later segments.
    pub(crate) fn hold_oldest(self: &Arc<Self>) -> SegmentHold {
        let mut state = self.state();
        let segment = state.kept_from;
        *state.held.entry(segment).or_default() += 1;
        SegmentHold { freeing: Arc::clone(self), segment }
    }

    /// The lowest segment that the log needs if it ends at this position.
    pub(crate) fn first_at(&self, end: Position) -> u32 {
        let state = self.state();
        let void = state.given_up.iter().take_while(|(_, trim)| *trim <= end).last();
        void.map_or(state.kept_from, |&(segment, _)| segment + 1)
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
        state.kept_from = segment + 1;
        Some(segment)
    }

    /// Removes the segment that `begin` returned, because it is freed now.
    pub(crate) fn end(&self) {
        self.state().given_up.pop_front();
    }
}

impl State {
    fn next(&self, durable: Position) -> Option<u32> {
        let (segment, trim) = *self.given_up.front()?;
        (trim <= durable && !self.held.contains_key(&segment)).then_some(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIM: Position = Position(100);

    #[test]
    fn a_held_segment_is_freed_after_the_last_hold() {
        let freeing = Arc::new(Freeing::default());
        freeing.begin_at(1);
        let holds = [freeing.hold(1).unwrap(), freeing.hold(1).unwrap()];
        freeing.give_up(1, TRIM);
        freeing.give_up(2, TRIM);
        for hold in holds {
            assert_eq!(freeing.begin(TRIM), None, "a later segment waits, too");
            assert!(freeing.is_held_back(TRIM));
            drop(hold);
        }
        assert!(!freeing.is_held_back(TRIM));
        assert_eq!(freeing.begin(TRIM), Some(1));
        freeing.end();
        assert_eq!(freeing.begin(TRIM), Some(2));
        freeing.end();
        assert_eq!((freeing.begin(TRIM), freeing.waiting()), (None, 0));
    }

    #[test]
    fn a_hold_of_a_later_segment_keeps_no_earlier_one() {
        let freeing = Arc::new(Freeing::default());
        let _hold = freeing.hold(2).unwrap();
        freeing.give_up(1, TRIM);
        freeing.give_up(2, TRIM);
        assert_eq!(freeing.begin(TRIM), Some(1));
        freeing.end();
        assert_eq!(freeing.begin(TRIM), None);
    }

    #[test]
    fn a_hold_comes_too_late_for_a_segment_that_is_being_freed() {
        let freeing = Arc::new(Freeing::default());
        freeing.give_up(1, TRIM);
        assert_eq!(freeing.begin(Position(99)), None, "the TRIM is not durable yet");
        assert!(!freeing.is_held_back(Position(99)));
        drop(freeing.hold(1).expect("nobody frees it yet"));
        assert_eq!(freeing.begin(TRIM), Some(1));
        assert!(freeing.hold(1).is_none());
        assert!(freeing.hold(2).is_some());
        freeing.begin_at(3);
        assert!(freeing.hold(2).is_none());
    }

    #[test]
    fn the_oldest_segment_and_the_first_needed_one_differ_while_segments_wait() {
        let freeing = Arc::new(Freeing::default());
        freeing.begin_at(4);
        assert_eq!(freeing.first_at(TRIM), 4);
        freeing.give_up(4, Position(50));
        freeing.give_up(5, TRIM);
        let hold = freeing.hold_oldest();
        assert_eq!(hold.segment(), 4);
        let first = [49, 50, 99, 100].map(|end| freeing.first_at(Position(end)));
        assert_eq!(first, [4, 5, 5, 6]);
        assert_eq!(freeing.begin(TRIM), None);
        drop(hold);
        assert_eq!(freeing.begin(TRIM), Some(4));
        assert_eq!(freeing.hold_oldest().segment(), 5, "segment 4 is being freed");
    }
}
