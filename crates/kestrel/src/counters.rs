//! What Kestrel's sessions did since the start, counted together over all ports.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that all sessions of a server change.
///
/// Relaxed: nothing is concluded from one count about another.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub(crate) fn add_one(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn remove_one(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Commands and their outcomes, and the connections that sent them (spec kestrel 7.1, 7.3).
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that are open.
    pub connections: Count,
    /// Connections since the start.
    pub connections_total: Count,
    /// Fetches, also open and waiting ones; not a close or an abort by itself.
    pub cmd_get: Count,
    /// Items that a client wanted to add.
    pub cmd_set: Count,
    /// Looks at a head.
    pub cmd_peek: Count,
    /// MONITOR, and thrift's `get`.
    pub cmd_monitor: Count,
    /// Items that they looked for.
    pub cmd_monitor_get: Count,
    /// Lookups that found an item, of whatever command.
    pub get_hits: Count,
    /// Lookups that found none, of whatever command.
    pub get_misses: Count,
    /// Items that came for a waiting client when it was gone, and went back.
    pub cmd_get_open_dropped: Count,
    /// Waits that ended because the client was gone.
    pub waiters_aborted: Count,
    /// Bytes of requests.
    pub bytes_read: Count,
    /// Bytes of replies.
    pub bytes_written: Count,
}
