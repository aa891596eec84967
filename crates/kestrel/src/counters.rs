//! Counters of all Kestrel sessions on all ports since the start.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that all sessions of a server change.
///
/// Relaxed ordering is enough, because no code compares two counters.
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

/// Counters of commands, their outcomes, and connections (spec kestrel 7.1, 7.3).
#[derive(Debug, Default)]
pub struct Counters {
    /// Open connections.
    pub connections: Count,
    /// Connections since the start.
    pub connections_total: Count,
    /// Fetches, including open reads and waits. A close or an abort without a fetch does not count.
    pub cmd_get: Count,
    /// Items that clients tried to add.
    pub cmd_set: Count,
    /// Peeks at a head.
    pub cmd_peek: Count,
    /// `MONITOR` requests, and thrift's `get` calls.
    pub cmd_monitor: Count,
    /// How often `MONITOR` requests and `get` calls looked for an item.
    pub cmd_monitor_get: Count,
    /// How often any command found an item.
    pub get_hits: Count,
    /// How often any command found no item.
    pub get_misses: Count,
    /// Items that the broker granted to a client that had just disconnected. The broker gave them
    /// back.
    pub cmd_get_open_dropped: Count,
    /// Waits that ended because the client disconnected.
    pub waiters_aborted: Count,
    /// Bytes of requests.
    pub bytes_read: Count,
    /// Bytes of replies.
    pub bytes_written: Count,
}
