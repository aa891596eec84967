//! Counters of all Kestrel sessions since the start, over all ports.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that all sessions of a server change.
///
/// Relaxed ordering: no code draws conclusions from one count about another.
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

    /// The current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Commands and their outcomes, and the connections that sent them (spec kestrel 7.1, 7.3).
#[derive(Debug, Default)]
pub struct Counters {
    /// Open connections.
    pub connections: Count,
    /// Connections since the start.
    pub connections_total: Count,
    /// Fetches, including open and waiting ones, but not a close or an abort alone.
    pub cmd_get: Count,
    /// Items that clients tried to add.
    pub cmd_set: Count,
    /// Peeks at a head.
    pub cmd_peek: Count,
    /// MONITOR, and thrift's `get`.
    pub cmd_monitor: Count,
    /// Items that these looked for.
    pub cmd_monitor_get: Count,
    /// Lookups of any command that found an item.
    pub get_hits: Count,
    /// Lookups of any command that found no item.
    pub get_misses: Count,
    /// Items for a waiting client that was gone; they went back.
    pub cmd_get_open_dropped: Count,
    /// Waits that ended because the client was gone.
    pub waiters_aborted: Count,
    /// Bytes of requests.
    pub bytes_read: Count,
    /// Bytes of replies.
    pub bytes_written: Count,
}
