//! The types for the numbers of jobs, sessions, queues and leases, and for moments in time.

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
    /// A job's number. Numbers ascend from 1, and no two jobs get the same number. They are below
    /// 2^53, so that JavaScript clients read them exactly.
    JobId(u64)
}
number! {
    /// The number of a session: a connection, or another user of the engine. At least 2^32 other
    /// sessions get a number before a number is used again.
    SessionId(u64)
}
number! {
    /// The place of a queue in the engine's table. It is valid while the queue exists. After the
    /// queue has vanished, another queue can get the place.
    QueueId(u32)
}
number! {
    /// The place of a job in the engine's table. It is valid while the job exists. After the job
    /// has ended, another job can get the place.
    JobSlot(u32)
}
number! {
    /// The place of a block of cold jobs in the engine's table. It is valid until the block is loaded.
    /// Then another block can get the place.
    BlockSlot(u32)
}
number! {
    /// The number of one lease: one hand-out of a job to one holder. No two leases get the same
    /// number.
    LeaseId(u64)
}
number! {
    /// A moment, in milliseconds. At the start of the server, the engine's time is the time of the
    /// wall clock. The engine's time never goes back. A later step of the wall clock does not
    /// change the engine's time.
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

    /// Milliseconds from the other moment to this moment. Negative if this moment is earlier.
    pub fn ahead_of(self, other: Self) -> i64 {
        let signed = |moment: Self| i64::try_from(moment.0).unwrap_or(i64::MAX);
        signed(self).saturating_sub(signed(other))
    }
}

/// The earlier one of two moments. `None` is no moment.
#[inline]
pub(crate) fn sooner(first: Option<Millis>, second: Option<Millis>) -> Option<Millis> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.min(second)),
        (first, second) => first.or(second),
    }
}
