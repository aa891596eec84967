//! How long requests take, by protocol. Each I/O thread counts its own, so that counting costs only
//! a few additions.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use histogram::{Histogram, SharedHistogram};

use crate::config::protocol::Protocol;

/// The times of one thread's requests: from the turn that executes a request until all replies of
/// the connection are sent. For a durable change, this is mostly the wait for the log. Requests that
/// arrive together count as one. A wait for a job does not count.
#[derive(Debug, Default)]
pub(crate) struct RequestTimes([SharedHistogram; Protocol::ALL.len()]);

impl RequestTimes {
    /// Counts a request. Only the thread that owns this value calls this.
    pub(crate) fn add(&self, protocol: Protocol, time: Duration) {
        self.0[protocol as usize].add(time.as_micros() as u64);
    }
}

/// The times of all threads.
#[derive(Debug, Default)]
pub(crate) struct AllRequestTimes(Mutex<Vec<Arc<RequestTimes>>>);

impl AllRequestTimes {
    /// Adds a thread.
    pub(crate) fn enter(&self) -> Arc<RequestTimes> {
        let times = Arc::<RequestTimes>::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(times.clone());
        times
    }

    /// The times of a protocol's requests since the start, in microseconds.
    pub(crate) fn of(&self, protocol: Protocol) -> Histogram {
        let mut all = Histogram::default();
        for thread in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            all.merge(&thread.0[protocol as usize].read());
        }
        all
    }
}
