//! The table of timers: which owner the engine looks at next, and when.
//!
//! An owner has at most one timer, and keeps its moment itself. The functions here get `timer`, the
//! owner's field, and change it together with the table. **Invariant**: an entry of the table is at
//! the moment that its owner keeps.

use crate::collections::Ordered;
use crate::ids::Millis;

/// The owner of a timer. A queue or session has at most one timer, at or before its next change. If
/// the change moves to a later moment, the timer stays. Then the engine looks at the owner once
/// without need.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub(crate) enum TimerKey {
    /// The place of a queue.
    Queue(u32),
    /// The place of a session.
    Session(u32),
    /// The status: a requested change comes into force.
    Status,
    /// The place of a queue that had more to do than one slice of work allows. It continues behind
    /// all other timers that were due at that moment.
    QueueAgain(u32),
    /// The same for a session.
    SessionAgain(u32),
    /// News that some watchers of its job do not have yet.
    News,
    /// The walk over all queues.
    Walk,
    /// Rescheduling of jobs that go by the wall clock, after a step of that clock.
    Rescheduling,
}

impl TimerKey {
    /// The key under which the owner continues behind others.
    fn again(self) -> Self {
        match self {
            Self::Queue(place) | Self::QueueAgain(place) => Self::QueueAgain(place),
            Self::Session(place) | Self::SessionAgain(place) => Self::SessionAgain(place),
            Self::Status => Self::Status,
            Self::News => Self::News,
            Self::Walk => Self::Walk,
            Self::Rescheduling => Self::Rescheduling,
        }
    }
}

/// The table. Entries are in the order of their moments. At the same moment, they are in the order
/// of their keys.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    entries: Ordered<(Millis, TimerKey)>,
}

impl Timers {
    /// The next moment at which a timer is due.
    pub(crate) fn next(&self) -> Option<Millis> {
        self.entries.first().map(|((at, _), _)| at)
    }

    /// Takes out the first entry that is due by now. The caller clears the owner's field.
    pub(crate) fn pop_due(&mut self, now: Millis) -> Option<TimerKey> {
        let ((at, key), _) = self.entries.first()?;
        if at > now {
            return None;
        }
        self.entries.pop_first();
        Some(key)
    }

    /// Sets a timer to this moment, unless it is at an earlier one.
    pub(crate) fn arm(&mut self, timer: &mut Option<Millis>, moment: Millis, key: TimerKey) {
        match *timer {
            Some(at) if at <= moment => return,
            // An entry that continues behind others is due, and must not move in front of them
            // again.
            Some(at) if self.entries.remove((at, key)).is_none() => return,
            Some(_) | None => {}
        }
        self.entries.insert((moment, key), 0);
        *timer = Some(moment);
    }

    /// Moves a timer to this moment, behind all others that are due then.
    pub(crate) fn arm_behind(&mut self, timer: &mut Option<Millis>, now: Millis, key: TimerKey) {
        self.disarm(timer, key);
        self.entries.insert((now, key.again()), 0);
        *timer = Some(now);
    }

    /// Removes a timer, if it is set.
    pub(crate) fn disarm(&mut self, timer: &mut Option<Millis>, key: TimerKey) {
        if let Some(at) = timer.take()
            && self.entries.remove((at, key)).is_none()
        {
            self.entries.remove((at, key.again()));
        }
    }

    /// All entries, for [`crate::Engine::check_invariants`].
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Millis, TimerKey)> {
        self.entries.iter().map(|(entry, _)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_moves_to_earlier_moments_only() {
        let (mut timers, mut timer) = (Timers::default(), None);
        timers.arm(&mut timer, Millis(20), TimerKey::Queue(1));
        timers.arm(&mut timer, Millis(30), TimerKey::Queue(1));
        assert_eq!((timer, timers.next()), (Some(Millis(20)), Some(Millis(20))));
        timers.arm(&mut timer, Millis(10), TimerKey::Queue(1));
        assert_eq!((timer, timers.iter().count()), (Some(Millis(10)), 1));
        assert_eq!(timers.pop_due(Millis(9)), None);
        assert_eq!(timers.pop_due(Millis(10)), Some(TimerKey::Queue(1)));
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn one_that_goes_on_stands_behind_all_that_are_due_and_stays_there() {
        let (mut timers, mut first, mut second) = (Timers::default(), None, None);
        let now = Millis(5);
        timers.arm(&mut second, now, TimerKey::Session(7));
        timers.arm(&mut first, now, TimerKey::Queue(1));
        timers.arm_behind(&mut first, now, TimerKey::Queue(1));
        timers.arm(&mut first, Millis(4), TimerKey::Queue(1));
        assert_eq!(first, Some(now));
        assert_eq!(timers.pop_due(now), Some(TimerKey::Session(7)));
        assert_eq!(timers.pop_due(now), Some(TimerKey::QueueAgain(1)));
    }

    #[test]
    fn a_timer_is_taken_out_wherever_it_stands() {
        let (mut timers, mut timer) = (Timers::default(), None);
        timers.disarm(&mut timer, TimerKey::Session(3));
        timers.arm(&mut timer, Millis(5), TimerKey::Session(3));
        timers.disarm(&mut timer, TimerKey::Session(3));
        assert_eq!((timer, timers.next()), (None, None));
        timers.arm_behind(&mut timer, Millis(5), TimerKey::Session(3));
        timers.disarm(&mut timer, TimerKey::Session(3));
        assert_eq!((timer, timers.next()), (None, None));
    }
}
