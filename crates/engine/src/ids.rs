//! The numbers of jobs, sessions, queues and leases, and moments in time.

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
    /// A job's number: ascending from 1, and never given to a second job. Below 2^53, so that
    /// JavaScript clients read it exactly.
    JobId(u64)
}
number! {
    /// A connection, or another user of the engine. A number is used again after 2^32 other
    /// sessions at the earliest.
    SessionId(u64)
}
number! {
    /// The place of a queue in the engine's table. Valid while the queue exists. Another queue can
    /// get the number after the queue has vanished.
    QueueId(u32)
}
number! {
    /// The place of a job in the engine's table. Valid while the job exists. Afterwards another job
    /// can get it.
    JobSlot(u32)
}
number! {
    /// The number of one hand-out of a job to one holder. Never dealt twice.
    LeaseId(u64)
}
number! {
    /// A moment, in milliseconds. The engine's time started with the wall clock and never goes
    /// back. A step of the wall clock does not change it.
    Millis(u64)
}

impl Millis {
    /// The moment `seconds` later, or the largest moment.
    #[must_use]
    pub fn plus_seconds(self, seconds: u32) -> Self {
        Self(self.0.saturating_add(u64::from(seconds) * 1000))
    }

    /// Milliseconds from `earlier` to this moment. 0 if this moment is not later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// How many milliseconds this moment is ahead of another one. Negative if it is behind.
    pub fn ahead_of(self, other: Self) -> i64 {
        let signed = |moment: Self| i64::try_from(moment.0).unwrap_or(i64::MAX);
        signed(self).saturating_sub(signed(other))
    }
}
