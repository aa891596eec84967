//! State that all sessions of a process share: options, counters, and actions of the owner.

use std::sync::Arc;

use broker::policy::QueueSync;
use broker::{Millis, SessionId, Turn};

use crate::counters::Counters;
use crate::latency::{Latencies, Measure, Measured, Watch};
use crate::thrift::Holder;

/// Default limit of an item in bytes.
pub const ITEM_BYTES_MAX_DEFAULT: u32 = 64 << 20;

/// Limit of bytes that one request fetches; the last item can exceed it.
pub(crate) const ITEMS_BYTES_MAX: usize = 8 << 20;

/// Limit of items that one request fetches in one turn; then the request ends.
pub(crate) const ITEMS_AT_ONCE_MAX: usize = 1000;

/// Overhead of an item in the reply and in memory, in bytes.
pub(crate) const ITEM_BYTES: usize = 64;

/// What a server reports about itself, and how it behaves. The broker's policies hold what differs
/// between queues.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The reply to `VERSION`. Its first number must not be 0, because libmemcached refuses that.
    pub version: String,
    /// When the process started, in the broker's time.
    pub started: Millis,
    /// Limit of an item in bytes; a larger one ends its connection. Also the limit of a thrift
    /// frame.
    pub item_bytes_max: u32,
    /// The default durability of a put, shown by `DUMP_CONFIG`.
    pub sync: QueueSync,
    /// Delay before a stricter status takes effect, in milliseconds (`statusChangeGracePeriod`).
    pub status_grace_ms: u64,
    /// A connection cannot write if more than this number are open when it comes.
    pub refuse_writes_above: Option<u32>,
    /// A connection cannot read if more than this number are open when it comes.
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

/// Actions that a client can ask for, and only the owner of the process can do.
pub trait Controls: Send + Sync + std::fmt::Debug {
    /// Starts a reload of the policies. It does not run in this turn, which must not wait for a
    /// file. The session gets an event at its end, by [`Turn::tell_reloaded`]. If the policies are
    /// wrong, nothing changes, the server logs the reason, and the session still gets the event.
    fn reload(&self, session: SessionId, turn: &mut Turn<'_>);

    /// Stops the server in 100 ms. Returns at once.
    fn shut_down(&self);

    /// Microseconds of a monotonic clock, to measure latencies. `None` means that nothing is
    /// measured.
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
    /// Latencies are measured.
    is_measured: bool,
    /// Holds the open reads of all thrift connections.
    pub(crate) thrift_holder: Holder,
}

/// What a connection cannot do for its whole life, because too many were open when it came.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Refusals {
    /// Set, delete, flush.
    writes: bool,
    /// Get, peek, monitor.
    reads: bool,
}

impl Refusals {
    /// Whether set, delete and flush are refused now.
    pub(crate) fn writes(self, turn: &Turn<'_>) -> bool {
        self.writes || turn.writes_blocked()
    }

    /// Whether get, peek and monitor are refused now.
    pub(crate) fn reads(self, turn: &Turn<'_>) -> bool {
        self.reads || turn.reads_blocked()
    }
}

impl Server {
    /// A server without connections so far.
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

    /// The latencies since the start, if they are measured.
    pub fn latencies(&self) -> Latencies {
        self.measured.get()
    }

    /// Notes the beginning of a command.
    pub(crate) fn begin(&self, now: Millis) -> Watch {
        if self.is_measured && self.measured.only_counts(now) {
            return Watch::Counted;
        }
        self.begin_wait()
    }

    /// Notes the beginning of a wait, which is always measured.
    pub(crate) fn begin_wait(&self) -> Watch {
        let began = self.is_measured.then(|| self.controls.stopwatch_us()).flatten();
        began.map_or(Watch::Off, Watch::Since)
    }

    /// Notes the end of a command or wait.
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

    /// Counts a fetch that found nothing.
    pub(crate) fn count_miss(&self, queue: &[u8], turn: &Turn<'_>) {
        // An alias has no items, so it cannot have misses.
        if turn.alias_stats(queue).is_none() {
            self.counters.get_misses.add_one();
        }
    }

    /// Counts bytes from and to a client.
    pub(crate) fn count_bytes(&self, read: usize, written: usize) {
        self.counters.bytes_read.add(read as u64);
        self.counters.bytes_written.add(written as u64);
    }

    /// Counts a new connection on any port.
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
