//! The table of timers. When the timer of a queue or session is due, the engine *looks at* the
//! queue or session: it makes all changes that are due there.
//!
//! The owner of a timer is usually a queue or a session. An owner has at most one timer, and stores
//! the moment of its timer in a field. The functions here get this field as `timer`, and change it
//! together with the table. **Invariant**: an entry of the table and the field of its owner have
//! the same moment.

use crate::collections::{Key, Ordered};
use crate::ids::Millis;

/// The owner of a timer. The timer of a queue or session is never later than the next change of the
/// queue or session. If the next change moves to a later moment, the timer keeps its moment. Then
/// the engine looks at the owner once too early, and finds no change.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub(crate) enum TimerKey {
    /// The queue at this place of the table of queues.
    Queue(u32),
    /// The session at this place of the table of sessions.
    Session(u32),
    /// The server's status, when a requested change comes into force.
    Status,
    /// A queue that needed more than one slice of work. The queue continues after all other owners
    /// that were due at the same moment.
    QueueAgain(u32),
    /// The same as `QueueAgain`, for a session.
    SessionAgain(u32),
    /// News of a job that some watchers do not have yet.
    News,
    /// The walk over all queues, for new policies or a new status.
    Walk,
    /// The rescheduling of jobs after a step of the wall clock.
    Rescheduling,
    /// The end of claims on keys of unique jobs.
    Claims,
    /// The end of waits for room.
    Room,
    /// The next job of an entry with a schedule.
    Crons,
    /// Kept outcomes that must leave the memory.
    Results,
}

impl TimerKey {
    /// The key for an owner that continues after all other due owners.
    fn again(self) -> Self {
        match self {
            Self::Queue(place) | Self::QueueAgain(place) => Self::QueueAgain(place),
            Self::Session(place) | Self::SessionAgain(place) => Self::SessionAgain(place),
            Self::Status => Self::Status,
            Self::News => Self::News,
            Self::Walk => Self::Walk,
            Self::Rescheduling => Self::Rescheduling,
            Self::Claims => Self::Claims,
            Self::Room => Self::Room,
            Self::Crons => Self::Crons,
            Self::Results => Self::Results,
        }
    }
}

impl Key for (Millis, TimerKey) {
    type Packed = Self;

    fn pack(self) -> Self {
        self
    }

    fn unpack(packed: Self) -> Self {
        packed
    }
}

/// The table of timers. Its entries are in the order of their moments. Entries of the same moment
/// are in the order of their keys.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    entries: Ordered<(Millis, TimerKey)>,
}

impl Timers {
    /// The next moment at which a timer is due.
    pub(crate) fn next(&self) -> Option<Millis> {
        self.entries.first().map(|((at, _), _)| at)
    }

    /// Removes the first entry that is due by now, and returns its key. The caller clears the
    /// owner's field.
    pub(crate) fn pop_due(&mut self, now: Millis) -> Option<TimerKey> {
        let ((at, key), _) = self.entries.first()?;
        if at > now {
            return None;
        }
        self.entries.pop_first();
        Some(key)
    }

    /// Sets a timer to this moment. If the timer is already set to an earlier moment, nothing
    /// changes.
    pub(crate) fn arm(&mut self, timer: &mut Option<Millis>, moment: Millis, key: TimerKey) {
        match *timer {
            Some(at) if at <= moment => return,
            // The entry of this owner has the key from [`TimerKey::again`]. The entry must stay,
            // because the owner continues after all other due owners.
            Some(at) if self.entries.remove((at, key)).is_none() => return,
            Some(_) | None => {}
        }
        self.entries.insert((moment, key), 0);
        *timer = Some(moment);
    }

    /// Sets a timer to the present moment, behind all other timers of this moment.
    pub(crate) fn arm_behind(&mut self, timer: &mut Option<Millis>, now: Millis, key: TimerKey) {
        self.disarm(timer, key);
        self.entries.insert((now, key.again()), 0);
        *timer = Some(now);
    }

    /// Removes a timer if it is set.
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
