//! Counters of all sessions since the start.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that all sessions of a server change.
///
/// Relaxed ordering is enough, because no code compares two of these numbers.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_one(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The numbers of well-formed commands, including commands that fail, and of connections.
///
/// COMPAT(beanstalkd): `reserve-job`, `kick-job` and `quit` have no counter. A put counts if its
/// four numbers are valid. A pause counts even if its name is wrong; cases
/// stats-cmd-put-counts-rejected-puts, stats-command-counters.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) put: Count,
    pub(crate) peek: Count,
    pub(crate) peek_ready: Count,
    pub(crate) peek_delayed: Count,
    pub(crate) peek_buried: Count,
    pub(crate) reserve: Count,
    pub(crate) reserve_with_timeout: Count,
    pub(crate) delete: Count,
    pub(crate) release: Count,
    pub(crate) use_tube: Count,
    pub(crate) watch: Count,
    pub(crate) ignore: Count,
    pub(crate) bury: Count,
    pub(crate) kick: Count,
    pub(crate) touch: Count,
    pub(crate) stats: Count,
    pub(crate) stats_job: Count,
    pub(crate) stats_tube: Count,
    pub(crate) list_tubes: Count,
    pub(crate) list_tube_used: Count,
    pub(crate) list_tubes_watched: Count,
    pub(crate) pause_tube: Count,
    /// Open connections.
    pub(crate) connections: Count,
    /// Connections since the start.
    pub(crate) connections_total: Count,
    /// Open connections that have sent a put of an acceptable size.
    pub(crate) producers: Count,
    /// Open connections that have requested a job, or got a job by its id.
    pub(crate) workers: Count,
}
