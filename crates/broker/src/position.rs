//! Positions that replies wait for.

/// How far the log must be written before a reply can be sent, or how far the log is written now.
///
/// A reply depends on entries of the log. Before the reply is sent, each of these entries must be
/// in the kernel or on stable storage. The policy of the entry's queue decides which of the two is
/// necessary. If the policy does not decide it, the log's setting decides. A reply can depend on
/// entries of both kinds.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Position {
    /// Everything up to here must be in the kernel.
    written: u64,
    /// Everything up to here must be on stable storage. Never above `written`.
    durable: u64,
}

impl Position {
    /// Nothing to wait for.
    pub const NONE: Self = Self { written: 0, durable: 0 };
    /// The largest position.
    pub const ALL: Self = Self { written: u64::MAX, durable: u64::MAX };

    /// The position of a reply that waits until an entry and all earlier entries are in the kernel.
    /// `at` is the end of this entry.
    pub(crate) fn written(at: log::Position) -> Self {
        Self { written: at.0, durable: 0 }
    }

    /// The position of a reply that waits until an entry and all earlier entries are on stable
    /// storage. `at` is the end of this entry.
    pub(crate) fn durable(at: log::Position) -> Self {
        Self { written: at.0, durable: at.0 }
    }

    /// How far the log is written now.
    pub(crate) fn released(log: &log::Log) -> Self {
        // Everything durable is written, and `written` only grows. So read `durable` first: then
        // the value of `written` is at least as large. `max` makes sure that it is.
        let durable = log.durable().0;
        Self { written: log.written().0.max(durable), durable }
    }

    /// The position of a reply that depends on both positions.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { written: self.written.max(other.written), durable: self.durable.max(other.durable) }
    }

    /// Whether a reply with this position can be sent when the log is at `released`.
    pub fn is_reached(self, released: Self) -> bool {
        self.written <= released.written && self.durable <= released.durable
    }

    /// The part of this position that a log at `released` has not reached. If the log has reached
    /// neither part, returns the durable part.
    pub fn missing(self, released: Self) -> Option<Missing> {
        if self.durable > released.durable {
            Some(Missing::Durable(self.durable))
        } else if self.written > released.written {
            Some(Missing::Written(self.written))
        } else {
            None
        }
    }

    /// Whether a log at this position has reached `missing`, which [`Position::missing`] returned.
    pub fn covers(self, missing: Missing) -> bool {
        match missing {
            Missing::Written(at) => at <= self.written,
            Missing::Durable(at) => at <= self.durable,
        }
    }

    /// The number of the segment up to which the log must be written. For a position of
    /// `Position::released`, this is the segment that the log wrote last.
    pub fn written_segment(self) -> u32 {
        (self.written >> 32) as u32
    }
}

/// The place in the log that a reply still waits for. Values of the same variant are in the order
/// of the log.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub enum Missing {
    /// Everything up to here must be in the kernel.
    Written(u64),
    /// Everything up to here must be on stable storage.
    Durable(u64),
}
