//! State that all Kestrel sessions of a process share: options, counters, and actions that only the
//! program around the sessions can execute.

use std::sync::Arc;

use broker::policy::QueueSync;
use broker::{Millis, SessionId, Turn};

use crate::counters::Counters;
use crate::latency::{Latencies, Measure, Measured, Watch};
use crate::thrift::Holder;

/// Default limit of an item in bytes.
pub const ITEM_BYTES_MAX_DEFAULT: u32 = 64 << 20;

/// Limit of bytes that one request fetches. The last item can exceed the limit.
pub(crate) const ITEMS_BYTES_MAX: usize = 8 << 20;

/// Limit of items that one request fetches. At the limit, the request ends.
pub(crate) const ITEMS_AT_ONCE_MAX: usize = 1000;

/// Memory for each item of a reply in addition to its body, in bytes.
pub(crate) const ITEM_BYTES: usize = 64;

/// Options of the whole server. Options of single queues are in the broker's policies.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The reply to `VERSION`. Its first number must not be 0, because the client library
    /// libmemcached refuses such a version.
    pub version: String,
    /// When the process started, in the broker's time.
    pub started: Millis,
    /// Limit of an item in bytes, and of a thrift frame. If a client sends a larger item or frame,
    /// its connection is closed.
    pub item_bytes_max: u32,
    /// The default durability of a put. `DUMP_CONFIG` shows it.
    pub sync: QueueSync,
    /// If a new status refuses more requests than the old status, the server applies the new status
    /// after this delay, in milliseconds (`statusChangeGracePeriod`).
    pub status_grace_ms: u64,
    /// If a new connection arrives while more than this number are open, the new connection can
    /// never write.
    pub refuse_writes_above: Option<u32>,
    /// If a new connection arrives while more than this number are open, the new connection can
    /// never read.
    pub refuse_reads_above: Option<u32>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            version: "2.4.1".to_owned(),
            started: Millis(0),
            item_bytes_max: ITEM_BYTES_MAX_DEFAULT,
            sync: QueueSync::Always,
            status_grace_ms: 0,
            refuse_writes_above: None,
            refuse_reads_above: None,
        }
    }
}

/// Actions that a client can request, but that only the program around the sessions can execute.
pub trait Controls: Send + Sync + std::fmt::Debug {
    /// Starts a reload of the policies. The reload does not run in this turn, because a turn must
    /// not wait for a file. After the reload, the program calls [`Turn::tell_reloaded`], which
    /// sends an event to the session. If the new policies are wrong, nothing changes, and the
    /// server writes a message with the reason. The session still gets the event.
    fn reload(&self, session: SessionId, turn: &mut Turn<'_>);

    /// Drops the request of a session for a reload, if it made one, because its client has gone.
    fn forget_reload(&self, session: SessionId) {
        let _ = session;
    }

    /// Stops the server after 100 ms. Returns at once.
    fn shut_down(&self);

    /// The time of a monotonic clock in microseconds, to measure latencies. `None` turns the
    /// measurements off.
    fn stopwatch_us(&self) -> Option<u64> {
        None
    }
}

/// State that all sessions of a process share, over all of Kestrel's ports.
#[derive(Debug)]
pub struct Server {
    pub(crate) options: ServerOptions,
    pub(crate) controls: Box<dyn Controls>,
    counters: Counters,
    measured: Measured,
    /// True if latencies are measured.
    is_measured: bool,
    /// The session that holds the open reads of all thrift connections.
    pub(crate) thrift_holder: Holder,
}

/// The requests that a connection can never use, because too many connections were open when it
/// arrived.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Refusals {
    /// True for set, delete and flush.
    writes: bool,
    /// True for get, peek and monitor.
    reads: bool,
}

impl Refusals {
    /// True if the connection cannot set, delete or flush now.
    pub(crate) fn writes(self, turn: &Turn<'_>) -> bool {
        self.writes || turn.writes_blocked()
    }

    /// True if the connection cannot get, peek or monitor now.
    pub(crate) fn reads(self, turn: &Turn<'_>) -> bool {
        self.reads || turn.reads_blocked()
    }
}

impl Server {
    /// A server that has no connections yet.
    pub fn new(options: ServerOptions, controls: Box<dyn Controls>) -> Arc<Self> {
        let thrift_holder = Holder::default();
        let is_measured = controls.stopwatch_us().is_some();
        Arc::new(Self {
            options,
            controls,
            counters: Counters::default(),
            measured: Measured::default(),
            is_measured,
            thrift_holder,
        })
    }

    /// The counters since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The latencies since the start. They are empty if latencies are not measured.
    pub fn latencies(&self) -> Latencies {
        self.measured.get()
    }

    /// Begins the measurement of a command.
    pub(crate) fn begin(&self, now: Millis) -> Watch {
        if self.is_measured && self.measured.only_counts(now) {
            return Watch::Counted;
        }
        self.begin_wait()
    }

    /// Begins the measurement of a wait. The server measures every wait, and never only counts it.
    pub(crate) fn begin_wait(&self) -> Watch {
        let began = self.is_measured.then(|| self.controls.stopwatch_us()).flatten();
        began.map_or(Watch::Off, Watch::Since)
    }

    /// Ends the measurement of a command or a wait.
    pub(crate) fn note(&self, watch: Watch, measure: Measure) {
        match watch {
            Watch::Off => {}
            Watch::Counted => self.measured.count(measure),
            Watch::Since(began) => {
                let took_us = self.controls.stopwatch_us().unwrap_or(began).saturating_sub(began);
                let value = match measure {
                    Measure::Set | Measure::Hit | Measure::Miss => took_us,
                    Measure::Timeout => took_us / 1_000,
                };
                self.measured.note(measure, value);
            }
        }
    }

    /// The options of the server.
    pub fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// Counts a fetch that found no item.
    pub(crate) fn count_miss(&self, queue: &[u8], turn: &Turn<'_>) {
        // An alias has no items, so a fetch from an alias is not a miss.
        if turn.alias_stats(queue).is_none() {
            self.counters.get_misses.add_one();
        }
    }

    /// Counts bytes that a client sent, and bytes for a client.
    pub(crate) fn count_bytes(&self, read: usize, written: usize) {
        self.counters.bytes_read.add(read as u64);
        self.counters.bytes_written.add(written as u64);
    }

    /// Counts a new connection on any port. Returns the requests that the connection can never use.
    pub(crate) fn enter(&self) -> Refusals {
        self.counters.connections.add_one();
        self.counters.connections_total.add_one();
        let open = self.counters.connections.get();
        let exceeds = |limit: Option<u32>| limit.is_some_and(|limit| open > u64::from(limit));
        Refusals {
            writes: exceeds(self.options.refuse_writes_above),
            reads: exceeds(self.options.refuse_reads_above),
        }
    }

    /// Counts a closed connection.
    pub(crate) fn leave(&self) {
        self.counters.connections.remove_one();
    }
}
