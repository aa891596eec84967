//! What all sessions of a process share: options, counters, and what only the owner can do.

use std::sync::Arc;

use broker::policy::QueueSync;
use broker::{Millis, SessionId, Turn};

use crate::counters::Counters;
use crate::latency::{Latencies, Measure, Measured, Watch};
use crate::thrift::Holder;

/// Largest item in bytes unless the options say otherwise.
pub const ITEM_BYTES_MAX_DEFAULT: u32 = 64 << 20;

/// The items that one request fetches end when they are this long; the last one may reach beyond.
pub(crate) const ITEMS_BYTES_MAX: usize = 8 << 20;

/// No more items come in one turn for one request, which ends with them.
pub(crate) const ITEMS_AT_ONCE_MAX: usize = 1000;

/// What an item costs beside its bytes, in the reply and in memory.
pub(crate) const ITEM_BYTES: usize = 64;

/// What a server tells of itself, and how it behaves. What differs from queue to queue is a policy
/// of the broker.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// As `VERSION` tells it. Its first number must not be 0: libmemcached refuses that.
    pub version: String,
    /// When the process started, in the broker's time.
    pub started: Millis,
    /// Largest item that a request may bring, in bytes; a larger one ends its connection. Also the
    /// most that a thrift frame may hold.
    pub item_bytes_max: u32,
    /// How durable a put is where no policy says otherwise, as `DUMP_CONFIG` shows it.
    pub sync: QueueSync,
    /// A stricter status holds this much later, in milliseconds (`statusChangeGracePeriod`).
    pub status_grace_ms: u64,
    /// A connection is refused writes if more than so many are open when it comes.
    pub refuse_writes_above: Option<u32>,
    /// A connection is refused reads if more than so many are open when it comes.
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

/// What a client may ask for and only the owner of the process can do.
pub trait Controls: Send + Sync + std::fmt::Debug {
    /// Sees to it that the policies are read anew and set. That is not done in this turn, where
    /// nobody may wait for a file; the session hears of it by [`Turn::tell_reloaded`]. If they are
    /// wrong nothing changes, the log of the server says why, and the session is told all the same.
    fn reload(&self, session: SessionId, turn: &mut Turn<'_>);

    /// The server is to stop, 100 ms from now. Returns at once.
    fn shut_down(&self);

    /// Microseconds of a clock that never goes back, to measure how long commands take. `None`: nobody wants to
    /// know, and nothing is measured.
    fn stopwatch_us(&self) -> Option<u64> {
        None
    }
}

/// What all sessions of a process share, over all of Kestrel's ports.
#[derive(Debug)]
pub struct Server {
    pub(crate) options: ServerOptions,
    pub(crate) controls: Box<dyn Controls>,
    counters: Counters,
    measured: Measured,
    /// Somebody wants to know how long commands take.
    is_measured: bool,
    /// Holds the open reads of all thrift connections.
    pub(crate) thrift_holder: Holder,
}

/// What a connection is refused for its whole life, because too many were open when it came.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Refusals {
    /// Set, delete, flush.
    writes: bool,
    /// Get, peek, monitor.
    reads: bool,
}

impl Refusals {
    /// Whether the connection may not set, delete or flush now.
    pub(crate) fn writes(self, turn: &Turn<'_>) -> bool {
        self.writes || turn.writes_blocked()
    }

    /// Whether it may not get, peek or monitor now.
    pub(crate) fn reads(self, turn: &Turn<'_>) -> bool {
        self.reads || turn.reads_blocked()
    }
}

impl Server {
    /// A server that has not seen a connection yet.
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

    /// What was done since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How long commands took since the start, if that is measured.
    pub fn latencies(&self) -> Latencies {
        self.measured.get()
    }

    /// A command begins.
    pub(crate) fn begin(&self, now: Millis) -> Watch {
        if self.is_measured && self.measured.only_counts(now) {
            return Watch::Counted;
        }
        self.begin_wait()
    }

    /// A wait begins, which is always measured.
    pub(crate) fn begin_wait(&self) -> Watch {
        let began = self.is_measured.then(|| self.controls.stopwatch_us()).flatten();
        began.map_or(Watch::Off, Watch::Since)
    }

    /// It has ended.
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

    /// What it was started with.
    pub fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// A fetch found nothing.
    pub(crate) fn count_miss(&self, queue: &[u8], turn: &Turn<'_>) {
        // An alias has no items that one could miss.
        if turn.alias_stats(queue).is_none() {
            self.counters.get_misses.add_one();
        }
    }

    /// Counts what came from a client and what will leave for it.
    pub(crate) fn count_bytes(&self, read: usize, written: usize) {
        self.counters.bytes_read.add(read as u64);
        self.counters.bytes_written.add(written as u64);
    }

    /// A connection came, to whichever port.
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

    /// A connection went.
    pub(crate) fn leave(&self) {
        self.counters.connections.remove_one();
    }
}
