//! Bounds that a running server can change, and the process's own bound on descriptors.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Limits;

/// What the process has open besides what is counted below: the log's files, standard streams, files that
/// are read in passing.
const FILES_MAX: usize = 32;
/// What one runtime has open, to watch sockets, to be woken, and to hear of signals.
const RUNTIME_DESCRIPTORS: usize = 4;
/// Connections for HTTP.
const WEB_CONNECTIONS_MAX: usize = 64;

/// Descriptors that no connection may take: a log that cannot open its next file is the end of the server.
pub(crate) fn own_descriptors(io_threads: usize, listeners: usize) -> usize {
    // HTTP has a runtime, too.
    FILES_MAX + RUNTIME_DESCRIPTORS * (io_threads + 1) + listeners
}

/// The bounds as they are now, shared by all threads.
#[derive(Debug)]
pub(crate) struct LiveLimits {
    connections: AtomicUsize,
    unsent_bytes: AtomicU64,
    unsent_ms: AtomicU64,
    unsent_total_bytes: AtomicU64,
    unfinished_bytes: AtomicU64,
    /// How many connections may be open because of the process's descriptors.
    descriptors: usize,
    /// How many connections for HTTP may be open, beside the others.
    web_connections: usize,
    /// Open connections of all threads.
    open: AtomicUsize,
}

impl LiveLimits {
    /// Connections may have the process's descriptors, without its own ones.
    pub(crate) fn new(limits: &Limits, descriptors: u64, own: usize) -> LiveLimits {
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        // The count of our own is generous, so where there are too few some are left all the same.
        let free = descriptors.saturating_sub(own).max(descriptors / 16).max(1);
        let web_connections = WEB_CONNECTIONS_MAX.min(free / 2);
        let live = LiveLimits {
            connections: AtomicUsize::default(),
            unsent_bytes: AtomicU64::default(),
            unsent_ms: AtomicU64::default(),
            unsent_total_bytes: AtomicU64::default(),
            unfinished_bytes: AtomicU64::default(),
            descriptors: free - web_connections,
            web_connections,
            open: AtomicUsize::default(),
        };
        live.set(limits);
        live
    }

    pub(crate) fn set(&self, limits: &Limits) {
        let connections = limits.connections.unwrap_or(usize::MAX).min(self.descriptors);
        self.connections.store(connections, Ordering::Relaxed);
        // A reply has its body and its head; the largest one must always be allowed to wait, and it
        // may have been put in another protocol. The same goes for a command.
        let sizes =
            [limits.beanstalk_job_bytes, limits.gearman_packet_bytes, limits.kestrel_item_bytes];
        let one_body = sizes.into_iter().max().unwrap_or(0);
        let one_reply = u64::from(one_body) + 4096;
        self.unsent_bytes.store(limits.unsent_bytes.saturating_add(one_reply), Ordering::Relaxed);
        let unsent_ms = u64::try_from(limits.unsent_time.as_millis()).unwrap_or(u64::MAX);
        self.unsent_ms.store(unsent_ms, Ordering::Relaxed);
        let unsent_total_bytes = limits.unsent_total_bytes.saturating_add(one_reply);
        self.unsent_total_bytes.store(unsent_total_bytes, Ordering::Relaxed);
        let unfinished_bytes = limits.unfinished_bytes.saturating_add(one_reply);
        self.unfinished_bytes.store(unfinished_bytes, Ordering::Relaxed);
    }

    /// How many connections may be open.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// How many bytes of replies may wait for a reader that does not catch up.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.unsent_bytes.load(Ordering::Relaxed)
    }

    /// How long replies may wait for a reader that takes none.
    pub(crate) fn unsent_ms(&self) -> u64 {
        self.unsent_ms.load(Ordering::Relaxed)
    }

    /// How many bytes of replies may wait for all slow readers of one thread.
    pub(crate) fn unsent_total_bytes(&self) -> u64 {
        self.unsent_total_bytes.load(Ordering::Relaxed)
    }

    /// How many bytes of incomplete commands the connections of one thread may have sent.
    pub(crate) fn unfinished_bytes(&self) -> u64 {
        self.unfinished_bytes.load(Ordering::Relaxed)
    }

    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// How many connections for HTTP may be open, beside the others.
    pub(crate) fn web_connections(&self) -> usize {
        self.web_connections
    }

    pub(crate) fn is_full(&self) -> bool {
        self.open() >= self.connections()
    }

    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Raises the soft limit of open descriptors to the hard one, and says what it is then.
pub fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn connections_leave_descriptors_for_the_log_and_all_threads() {
        let mut limits = Config::default().limits;
        let connections = |descriptors, io_threads| {
            let own = own_descriptors(io_threads, 8);
            LiveLimits::new(&Config::default().limits, descriptors, own).connections()
        };
        assert_eq!(connections(1024, 1), 1024 - 48 - 64);
        assert_eq!(connections(1024, 64), 1024 - 300 - 64);
        assert!(connections(340, 64) <= 20);
        assert_eq!(connections(100, 1), 26);
        assert_eq!(connections(20, 1), 1);
        let live = LiveLimits::new(&limits, 1024, 128);
        limits.connections = Some(1);
        live.set(&limits);
        assert!(!live.is_full());
        live.opened();
        assert!(live.is_full());
        live.closed();
        assert!(!live.is_full());
    }

    #[test]
    fn one_whole_reply_may_always_wait() {
        let mut limits = Config::default().limits;
        limits.unsent_bytes = 0;
        limits.beanstalk_job_bytes = 1000;
        limits.gearman_packet_bytes = 2000;
        assert!(LiveLimits::new(&limits, 100, 10).unsent_bytes() >= 2000);
    }
}
