//! Guards the free room of the disk. Other programs also fill the disk, and the log grows until the
//! disk is full. Below one limit, the owner of the broker can warn. Below another one, puts are
//! refused, as if the log had no room, until there is a little more room than that. Everything else
//! continues in the files that the log has prepared, so a disk that is nearly full can be drained.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::Millis;
use log::{Log, Space};

use crate::broker::lock;

/// The time between two looks at the disk.
const LOOK_MS: u64 = 1_000;

/// Puts are accepted again if the free room is larger than the critical limit by this part of it.
/// Otherwise each file that comes and goes would change the answer.
const MARGIN_PART: u64 = 10;

/// An amount of free room.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum DiskLimit {
    /// A percentage of the size of the disk.
    Percent(u8),
    /// A number of bytes.
    Bytes(u64),
}

impl DiskLimit {
    fn bytes_of(self, size_bytes: u64) -> u64 {
        match self {
            Self::Percent(percent) => size_bytes / 100 * u64::from(percent),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The limits of free room. `None`: no limit.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct DiskLimits {
    /// Below this, [`DiskRoom::is_low`] is true.
    pub low: Option<DiskLimit>,
    /// Below this, puts are refused, until a tenth more than this is free.
    pub critical: Option<DiskLimit>,
}

impl DiskLimits {
    /// Whether the critical limit is above the other one, as far as this does not depend on the size of
    /// the disk.
    pub fn are_reversed(&self) -> bool {
        match (self.low, self.critical) {
            (Some(DiskLimit::Percent(low)), Some(DiskLimit::Percent(critical))) => critical > low,
            (Some(DiskLimit::Bytes(low)), Some(DiskLimit::Bytes(critical))) => critical > low,
            (Some(DiskLimit::Percent(_)), Some(DiskLimit::Bytes(_)))
            | (Some(DiskLimit::Bytes(_)), Some(DiskLimit::Percent(_)))
            | (None, _)
            | (_, None) => false,
        }
    }

    /// What a file system with this room means. `was_critical`: puts are refused so far.
    fn judge(&self, space: Space, was_critical: bool) -> DiskRoom {
        let bytes_of = |limit: DiskLimit| limit.bytes_of(space.capacity);
        let is_critical = self.critical.is_some_and(|limit| {
            let limit = bytes_of(limit);
            let margin = if was_critical { limit / MARGIN_PART } else { 0 };
            space.free < limit.saturating_add(margin)
        });
        let is_low = self.low.is_some_and(|limit| space.free < bytes_of(limit));
        DiskRoom {
            size_bytes: space.capacity,
            free_bytes: space.free,
            is_low: is_low || is_critical,
            is_critical,
        }
    }
}

/// The room of the disk at the last look.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct DiskRoom {
    /// The size of the file system.
    pub size_bytes: u64,
    /// The free bytes.
    pub free_bytes: u64,
    /// The disk has less room than [`DiskLimits::low`], or too little for puts.
    pub is_low: bool,
    /// Puts are refused: see [`DiskLimits::critical`].
    pub is_critical: bool,
}

/// The limits, and what the last look found.
#[derive(Debug, Default)]
pub(crate) struct DiskGuard {
    limits: Mutex<DiskLimits>,
    room: Mutex<Option<DiskRoom>>,
    /// Copy of [`DiskRoom::is_critical`]: each put reads it.
    is_critical: AtomicBool,
    looked_at: Mutex<Option<Millis>>,
}

impl DiskGuard {
    /// The next look uses these limits.
    pub(crate) fn set(&self, limits: DiskLimits) {
        *lock(&self.limits) = limits;
        *lock(&self.looked_at) = None;
    }

    /// Looks at the disk, at most once a second.
    pub(crate) fn look_if_due(&self, log: &Log, now: Millis) {
        let mut looked_at = lock(&self.looked_at);
        if looked_at.is_none_or(|at| now.since(at) >= LOOK_MS) {
            // New limits do not continue a refusal by earlier ones.
            let was_critical = looked_at.is_some() && self.is_critical();
            *looked_at = Some(now);
            self.look(log, was_critical);
        }
    }

    fn look(&self, log: &Log, was_critical: bool) {
        // An unknown room refuses nothing. Some file systems have no size of their own, and report 0.
        let space = log.space().ok().filter(|space| space.capacity > 0);
        let limits = *lock(&self.limits);
        let room = space.map(|space| limits.judge(space, was_critical));
        self.is_critical.store(room.is_some_and(|room| room.is_critical), Ordering::Relaxed);
        *lock(&self.room) = room;
    }

    pub(crate) fn is_critical(&self) -> bool {
        self.is_critical.load(Ordering::Relaxed)
    }

    pub(crate) fn room(&self) -> Option<DiskRoom> {
        *lock(&self.room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_that_of_the_whole_disk() {
        assert_eq!(DiskLimit::Percent(5).bytes_of(1 << 40), (1 << 40) / 100 * 5);
        assert_eq!(DiskLimit::Percent(99).bytes_of(u64::MAX), u64::MAX / 100 * 99);
        assert_eq!(DiskLimit::Bytes(7).bytes_of(5), 7);
    }

    #[test]
    fn puts_are_accepted_again_only_with_more_room() {
        let critical = Some(DiskLimit::Percent(10));
        let limits = DiskLimits { low: Some(DiskLimit::Percent(5)), critical };
        let judge = |free, was_critical| {
            let room = limits.judge(Space { capacity: 10_000, free }, was_critical);
            (room.is_low, room.is_critical)
        };
        assert_eq!(judge(1000, false), (false, false));
        assert_eq!(judge(999, false), (true, true), "refusals are always a warning, too");
        assert_eq!(judge(1099, true), (true, true));
        assert_eq!(judge(1100, true), (false, false));
    }

    #[test]
    fn only_limits_of_one_kind_can_be_compared() {
        let are_reversed = |low, critical| DiskLimits { low, critical }.are_reversed();
        let (percent, bytes) = (DiskLimit::Percent, DiskLimit::Bytes);
        assert!(are_reversed(Some(percent(5)), Some(percent(6))));
        assert!(are_reversed(Some(bytes(5)), Some(bytes(6))));
        assert!(!are_reversed(Some(percent(5)), Some(percent(5))));
        assert!(!are_reversed(Some(percent(5)), Some(bytes(6))));
        assert!(!are_reversed(None, Some(percent(6))));
    }
}
