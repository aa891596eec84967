//! What a reply waits for.

/// How far the log must have come before a reply may leave; and how far it has come.
///
/// A reply rests on entries of the log. Those of one queue have to be on stable storage, those of
/// another one only in the kernel, as the policies of the queues and the log's own setting say. A
/// reply may rest on both.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Position {
    /// All up to here is to be in the kernel.
    written: u64,
    /// All up to here is to be on stable storage. Never above `written`.
    durable: u64,
}

impl Position {
    /// Nothing to wait for.
    pub const NONE: Self = Self { written: 0, durable: 0 };
    /// Everything that can be waited for.
    pub const ALL: Self = Self { written: u64::MAX, durable: u64::MAX };

    /// The entry that ends here, and all before it, is to be in the kernel.
    pub(crate) fn written(at: log::Position) -> Self {
        Self { written: at.0, durable: 0 }
    }

    /// The same on stable storage.
    pub(crate) fn durable(at: log::Position) -> Self {
        Self { written: at.0, durable: at.0 }
    }

    /// How far the log has come.
    pub(crate) fn released(log: &log::Log) -> Self {
        // In this order: what is durable is written.
        let durable = log.durable().0;
        Self { written: log.written().0.max(durable), durable }
    }

    /// Both this and the other one are to be reached.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { written: self.written.max(other.written), durable: self.durable.max(other.durable) }
    }

    /// Whether a reply that waits for this may leave when the log has come so far.
    pub fn is_reached(self, released: Self) -> bool {
        self.written <= released.written && self.durable <= released.durable
    }

    /// What is missing yet when the log has come so far: a number to wait for, and for which of the
    /// two. If both are missing it is the later one.
    pub fn missing(self, released: Self) -> Option<Missing> {
        if self.durable > released.durable {
            Some(Missing::Durable(self.durable))
        } else if self.written > released.written {
            Some(Missing::Written(self.written))
        } else {
            None
        }
    }

    /// Whether the log has come as far as [`Position::missing`] told.
    pub fn covers(self, missing: Missing) -> bool {
        match missing {
            Missing::Written(at) => at <= self.written,
            Missing::Durable(at) => at <= self.durable,
        }
    }

    /// The segment of the log that was written last.
    pub fn written_segment(self) -> u32 {
        (self.written >> 32) as u32
    }
}

/// What a reply waits for yet, in the order of the log for each kind.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub enum Missing {
    /// All up to here is to be in the kernel.
    Written(u64),
    /// All up to here is to be on stable storage.
    Durable(u64),
}
