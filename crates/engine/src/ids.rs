//! The numbers that name things: jobs, sessions, queues, leases, and moments in time.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A job's number: from 1, growing, never given to a second job. Kept below 2^53 so that
    /// JavaScript clients read it exactly.
    JobId(u64)
}
number! {
    /// A connection, or another user of the engine. Given out again after 2^32 others at the
    /// earliest.
    SessionId(u64)
}
number! {
    /// The place of a queue in the engine's table. Valid while the queue exists; the number of a
    /// queue that vanished is used again.
    QueueId(u32)
}
number! {
    /// The place of a job in the engine's table. Valid while the job exists; used again after it.
    JobSlot(u32)
}
number! {
    /// The number of one hand-out of a job to one holder. Never given out twice.
    LeaseId(u64)
}
number! {
    /// A moment, in milliseconds. The engine's began with the wall clock's and never go back; no step of the
    /// wall clock moves them.
    Millis(u64)
}

impl Millis {
    /// The moment `seconds` later, or the end of time.
    #[must_use]
    pub fn plus_seconds(self, seconds: u32) -> Self {
        Self(self.0.saturating_add(u64::from(seconds) * 1000))
    }

    /// Milliseconds from `earlier` to this moment; 0 if this one is not later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// How many milliseconds this moment is ahead of another; negative if it is behind.
    pub fn ahead_of(self, other: Self) -> i64 {
        let signed = |moment: Self| i64::try_from(moment.0).unwrap_or(i64::MAX);
        signed(self).saturating_sub(signed(other))
    }
}
