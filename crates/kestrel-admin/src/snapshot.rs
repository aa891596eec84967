//! All numbers of Kestrel's statistics at one moment, under the names that monitoring expects (spec
//! kestrel 7.3).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use broker::{AliasStats, Broker, Clock, ItemStats, Millis, NameCursor, Status, Totals, Turn};
use hdrhistogram::Histogram;
use serde_json::Value;

use crate::name_list::NameList;

/// Number of queues that one turn of the broker reads at most.
const QUEUES_PER_TURN: usize = 64;
/// Limit of queues in a snapshot. Each queue takes 200 bytes of memory during a request, and 100
/// bytes for each recorded moment.
pub(crate) const QUEUES_MAX: usize = if cfg!(test) { 100 } else { 10_000 };
/// Limit of the bytes of all queue names, as JSON writes them. The limit exists because a response
/// repeats a queue's name for each number of the queue, 35 times.
const NAMES_BYTES_MAX: usize = if cfg!(test) { 64 << 10 } else { 256 << 10 };
/// Limit of the bytes of one queue name, as JSON writes it. A snapshot leaves out queues with longer
/// names. Otherwise a few of them could take the room of all other queues.
const NAME_BYTES_MAX: usize = 1 << 10;
/// Kestrel shows this value for a queue without a limit of items, and `NO_BYTES_MAX` for a queue
/// without a limit of bytes.
const NO_ITEMS_MAX: u64 = 2_147_483_647;
const NO_BYTES_MAX: u64 = 9_223_372_036_854_775_807;

/// The server's metrics. Responses contain all of them, even metrics without values.
const METRICS: [&str; 7] = [
    "delivery_latency_msec",
    "fsync_delay_usec",
    "get_hit_latency_usec",
    "get_miss_latency_usec",
    "get_timeout_msec",
    "item_fsync_delay_usec",
    "set_latency_usec",
];
/// Kestrel's metrics of each queue. Responses contain them without values, because Lineshaft does
/// not measure them.
const QUEUE_METRICS: [&str; 12] = [
    "delivery_latency_msec",
    "fill_readbehind_usec",
    "get_hit_latency_usec",
    "get_miss_latency_usec",
    "get_timeout_msec",
    "journal_rewrite_usec",
    "journal_rotation_usec",
    "queue_size",
    "request_size",
    "set_latency_usec",
    "tx_expire_list_size",
    "tx_map_size",
];
const QUEUE_COUNTERS: [&str; 12] = [
    "canceled_transactions",
    "discarded",
    "expired_items",
    "get_items_hit",
    "get_items_miss",
    "journal_rewrites",
    "journal_rotations",
    "put_bytes",
    "put_items",
    "total_flushes",
    "total_items",
    "transactions",
];
const QUEUE_GAUGES: [&str; 11] = [
    "age_msec",
    "bytes",
    "create_time",
    "items",
    "journal_size",
    "max_bytes",
    "max_items",
    "mem_bytes",
    "mem_items",
    "open_transactions",
    "waiters",
];
/// The counters of an alias: `put_bytes` and `put_items`.
const ALIAS_COUNTERS: Range<usize> = 7..9;
/// Approximate memory of the server's own counters and metrics in one [`Counts`], in bytes.
const SERVER_BYTES: u64 = 2_000;

/// Counters and metrics of all Kestrel sessions since the start.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Open connections.
    pub connections: u64,
    /// Counters by their names.
    pub counters: Vec<(&'static str, u64)>,
    /// Metrics by their names.
    pub metrics: Vec<(&'static str, Arc<Histogram<u64>>)>,
}

/// A metric; `None` if it has no values.
pub(crate) type Measured = Option<Arc<Histogram<u64>>>;

/// All numbers at one moment, or the changes of counters and metrics between two moments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    // The numbers of the server.
    pub(crate) counters: BTreeMap<&'static str, u64>,
    pub(crate) gauges: BTreeMap<&'static str, f64>,
    pub(crate) labels: BTreeMap<&'static str, String>,
    pub(crate) metrics: BTreeMap<&'static str, Measured>,
    /// The names of queues and aliases.
    names: Arc<NameList>,
    /// The numbers of each queue and alias, in the order of `names`.
    queues: Vec<Queue>,
    /// There were more queues behind these.
    is_cut: bool,
}

/// The counters of one queue, in the order of `QUEUE_COUNTERS`.
type QueueCounters = [u64; QUEUE_COUNTERS.len()];

/// The numbers of one queue.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Queue {
    counters: QueueCounters,
    /// In the order of `QUEUE_GAUGES`. An alias has no gauges.
    gauges: Option<[u64; QUEUE_GAUGES.len()]>,
}

/// The part of a snapshot that the history stores: counters and metrics. They only grow, so their
/// changes can be computed later.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    counters: BTreeMap<&'static str, u64>,
    metrics: BTreeMap<&'static str, Measured>,
    /// Names of queues and aliases. Most recorded `Counts` share one list.
    names: Arc<NameList>,
    queues: Box<[QueueCounters]>,
    /// There were more queues behind these.
    is_cut: bool,
}

impl Snapshot {
    /// Reads all numbers, except the numbers of queues beyond the limits. Takes one turn of the
    /// broker for the totals, and one turn for each group of queues. Between these turns, other
    /// threads can take turns.
    pub(crate) fn take(broker: &Broker, clock: &Clock, served: &Served) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let (totals, status) = {
            let turn = broker.turn(clock());
            (turn.totals(), turn.status())
        };
        let (mut cursor, mut names_bytes) = (NameCursor::default(), 0);
        let (mut queues, mut long_names) = (BTreeMap::new(), 0);
        'all: loop {
            let found = look(&mut broker.turn(clock()), &mut cursor);
            if found.is_empty() {
                break;
            }
            // This code does not hold the broker's lock, so it delays only threads on the same
            // processor. Yield to them first.
            std::thread::yield_now();
            for (name, queue) in found {
                let name = String::from_utf8_lossy(&name).into_owned();
                let name_bytes = json_bytes(&name);
                let is_long = name_bytes > NAME_BYTES_MAX;
                names_bytes += if is_long { 0 } else { name_bytes };
                if queues.len() + long_names == QUEUES_MAX || names_bytes > NAMES_BYTES_MAX {
                    snapshot.is_cut = true;
                    break 'all;
                }
                if is_long {
                    long_names += 1;
                } else {
                    queues.insert(name, queue);
                }
            }
        }
        let first = queues.len() + long_names;
        let missing = match (snapshot.is_cut, long_names) {
            (false, 0) => None,
            (false, long) => Some(format!("without {long} queues with long names")),
            (true, 0) => Some(format!("only the first {first} queues")),
            (true, long) => {
                Some(format!("only the first {first} queues, without {long} with long names"))
            }
        };
        snapshot.labels.extend(missing.map(|missing| ("incomplete", missing)));
        snapshot.names = Arc::new(NameList::of(queues.keys().map(String::as_str)));
        snapshot.queues = queues.into_values().collect();
        snapshot.add_server(&totals, status);
        snapshot.add_served(served);
        snapshot
    }

    fn add_server(&mut self, totals: &Totals, status: Status) {
        self.counters.extend([
            ("total_items", totals.puts),
            ("queue_creates", totals.item_queue_creates),
            ("queue_deletes", totals.item_queue_deletes),
            ("queue_expires", totals.idle_queue_deletes),
        ]);
        let (label, reads, writes) = match status {
            Status::Up => ("Up", true, true),
            Status::WriteAvoid => ("WriteAvoid", true, true),
            Status::ReadOnly => ("ReadOnly", true, false),
            Status::Quiescent => ("Quiescent", false, false),
        };
        self.labels.insert("status", label.to_owned());
        let sum = |name: &str| self.queues.iter().filter_map(|queue| queue.gauge(name)).sum();
        let (items, bytes): (u64, u64) = (sum("items"), sum("bytes"));
        self.gauges.extend([
            ("items", items as f64),
            ("bytes", bytes as f64),
            // Lineshaft reserves no memory for queues.
            ("reserved_memory_ratio", 0.0),
            ("status/readable", f64::from(u8::from(reads))),
            ("status/writeable", f64::from(u8::from(writes))),
        ]);
    }

    fn add_served(&mut self, served: &Served) {
        self.gauges.insert("connections", served.connections as f64);
        self.counters.extend(served.counters.iter().copied());
        self.metrics.extend(METRICS.map(|name| (name, None)));
        self.metrics.extend(served.metrics.iter().map(|(name, all)| (*name, Some(all.clone()))));
    }

    /// The part of these numbers that the history stores.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            counters: self.counters.clone(),
            metrics: self.metrics.clone(),
            names: self.names.clone(),
            queues: self.queues.iter().map(|queue| queue.counters).collect(),
            is_cut: self.is_cut,
        }
    }

    /// If one of the recorded `Counts` has the same list of names, this snapshot uses that list. So
    /// equal lists use memory only once.
    pub(crate) fn share_names<'a>(&mut self, mut remembered: impl Iterator<Item = &'a Counts>) {
        if let Some(same) = remembered.find(|counts| counts.names == self.names) {
            self.names = same.names.clone();
        }
    }

    /// Returns these numbers, but counters and metrics as changes since `earlier`. If a counter has
    /// restarted since then, its change is its whole value. The changes of a queue that was beyond the
    /// limits then are not known, and count as 0. Its whole values would look like a sudden growth.
    pub(crate) fn since(&self, earlier: &Counts) -> Snapshot {
        let mut changed = self.clone();
        for (name, now) in &mut changed.counters {
            *now = grown(*now, earlier.counters.get(name).copied());
        }
        for (name, now) in &mut changed.metrics {
            let before = earlier.metrics.get(name).cloned().flatten();
            *now = now.as_ref().map(|now| difference(now, before.as_deref()));
        }
        for (name, queue) in self.names.iter().zip(&mut changed.queues) {
            match earlier.queue(name) {
                Some(before) => {
                    for (now, before) in queue.counters.iter_mut().zip(before) {
                        *now = grown(*now, Some(*before));
                    }
                }
                None if earlier.may_lack(name) => queue.counters = QueueCounters::default(),
                None => {}
            }
        }
        changed
    }

    /// Returns these numbers, but with the counters and metrics of `changed`. Counters and metrics
    /// that are missing in `changed` are 0.
    pub(crate) fn with_changes(&self, changed: &Counts) -> Snapshot {
        let mut shown = self.since(&self.counts());
        shown.counters.extend(changed.counters.iter().map(|(name, value)| (*name, *value)));
        shown.metrics.extend(changed.metrics.iter().map(|(name, all)| (*name, all.clone())));
        for (name, queue) in self.names.iter().zip(&mut shown.queues) {
            queue.counters = changed.queue(name).copied().unwrap_or_default();
        }
        shown
    }

    /// Counters of queues, by names such as `q/mail/put_items`.
    pub(crate) fn queue_counters(&self) -> impl Iterator<Item = (String, u64)> {
        self.by_name().flat_map(|(queue, numbers)| {
            let named = QUEUE_COUNTERS.iter().zip(&numbers.counters);
            let shown = numbers.shown_counters();
            let shown = named.skip(shown.start).take(shown.len());
            shown.map(move |(name, value)| (path(queue, name), *value))
        })
    }

    /// Gauges of queues, by names such as `q/mail/age_msec`.
    pub(crate) fn queue_gauges(&self) -> impl Iterator<Item = (String, f64)> {
        self.by_name().flat_map(|(queue, numbers)| {
            let named = QUEUE_GAUGES.iter().zip(numbers.gauges.iter().flatten());
            named.map(move |(name, value)| (path(queue, name), *value as f64))
        })
    }

    /// Names of the queues' metrics.
    pub(crate) fn queue_metrics(&self) -> impl Iterator<Item = String> {
        let queues = self.by_name().filter(|(_, numbers)| numbers.gauges.is_some());
        queues.flat_map(|(queue, _)| QUEUE_METRICS.iter().map(move |name| path(queue, name)))
    }

    /// About the bytes of a report with these numbers, or a little more.
    pub(crate) fn report_bytes(&self) -> usize {
        const ROWS: usize = QUEUE_COUNTERS.len() + QUEUE_GAUGES.len() + QUEUE_METRICS.len();
        /// The longest names of numbers, and values of a few digits, take about as much.
        const ROW_BYTES: usize = 40;
        let names_bytes: usize = self.names.iter().map(json_bytes).sum();
        4096 + ROWS * (self.queues.len() * ROW_BYTES + names_bytes)
    }

    /// All queues and aliases. A report writes many numbers of each. So threads on the same
    /// processor come first now and then: a scheduler can let this thread run for milliseconds,
    /// although a client's request waits for the processor.
    fn by_name(&self) -> impl Iterator<Item = (&str, &Queue)> {
        self.names.iter().zip(&self.queues).enumerate().map(|(index, queue)| {
            if index.is_multiple_of(QUEUES_PER_TURN) {
                std::thread::yield_now();
            }
            queue
        })
    }
}

impl Counts {
    fn queue(&self, name: &str) -> Option<&QueueCounters> {
        self.queues.get(self.names.find(name)?)
    }

    /// Whether a queue of this name may have been beyond the limits. The limits cut off the last names.
    fn may_lack(&self, name: &str) -> bool {
        self.is_cut && self.names.last().is_none_or(|last| last < name)
    }

    /// Memory of all these `Counts` in bytes. A shared list of names counts once.
    pub(crate) fn bytes_of<'a>(all: impl Iterator<Item = &'a Counts>) -> u64 {
        let (mut bytes, mut lists) = (0, BTreeMap::new());
        for counts in all {
            lists.insert(Arc::as_ptr(&counts.names), counts.names.bytes());
            bytes += size_of_val(&*counts.queues) as u64 + SERVER_BYTES;
            let measured = counts.metrics.values().flatten();
            let measured = measured.map(|all| all.distinct_values() * size_of::<u64>());
            bytes += measured.sum::<usize>() as u64;
        }
        bytes + lists.values().sum::<u64>()
    }
}

impl Queue {
    /// The numbers of a queue. `created` is the time when the queue was created, by the wall clock.
    fn of_items(stats: &ItemStats, created: Millis) -> Queue {
        Queue {
            counters: [
                stats.cancelled,
                stats.discarded,
                stats.expired,
                stats.hits,
                stats.misses,
                // `journal_rewrites` and `journal_rotations` are 0, because all queues share one
                // log.
                0,
                0,
                stats.put_bytes,
                stats.puts,
                stats.flushes,
                stats.puts,
                stats.transactions,
            ],
            gauges: Some([
                stats.age_ms,
                stats.bytes,
                created.0 / 1_000,
                stats.items,
                0,
                stats.bytes_max.unwrap_or(NO_BYTES_MAX),
                stats.items_max.unwrap_or(NO_ITEMS_MAX),
                stats.bytes - stats.stored_bytes,
                stats.items - stats.stored_items,
                stats.open,
                stats.waiters,
            ]),
        }
    }

    fn of_alias(stats: &AliasStats) -> Queue {
        let mut counters = QueueCounters::default();
        counters[ALIAS_COUNTERS].copy_from_slice(&[stats.put_bytes, stats.puts]);
        Queue { counters, gauges: None }
    }

    /// The indices of the counters that the queue or alias has.
    fn shown_counters(&self) -> Range<usize> {
        if self.gauges.is_some() { 0..QUEUE_COUNTERS.len() } else { ALIAS_COUNTERS }
    }

    fn gauge(&self, name: &str) -> Option<u64> {
        let index = QUEUE_GAUGES.iter().position(|known| *known == name)?;
        self.gauges.map(|gauges| gauges[index])
    }
}

/// Reads the next queues and aliases after the cursor, or returns an empty list at the end. This
/// function runs with the broker's lock. So it is one slice of work at most, and does not format
/// anything.
fn look(turn: &mut Turn<'_>, cursor: &mut NameCursor) -> Vec<(Vec<u8>, Queue)> {
    turn.begin_slice();
    let mut found = Vec::with_capacity(QUEUES_PER_TURN);
    while found.len() < QUEUES_PER_TURN
        && !turn.slice_is_spent()
        && let Some(name) = turn.next_item_queue(cursor)
    {
        let queue = match turn.alias_stats(name) {
            Some(alias) => Some(Queue::of_alias(&alias)),
            None => turn
                .item_stats(name)
                .map(|stats| Queue::of_items(&stats, turn.wall_at(stats.created))),
        };
        found.extend(queue.map(|queue| (name.to_vec(), queue)));
    }
    found
}

/// The bytes of a name in JSON, without the quotes. A control character takes six bytes.
pub(crate) fn json_bytes(name: &str) -> usize {
    Value::from(name).to_string().len() - 2
}

fn path(queue: &str, name: &str) -> String {
    format!("q/{queue}/{name}")
}

/// The growth of a counter. If its value is less than before, the counter restarted.
fn grown(now: u64, before: Option<u64>) -> u64 {
    now.checked_sub(before.unwrap_or(0)).unwrap_or(now)
}

fn difference(now: &Arc<Histogram<u64>>, before: Option<&Histogram<u64>>) -> Arc<Histogram<u64>> {
    let Some(before) = before else { return now.clone() };
    let mut difference = Histogram::clone(now);
    match difference.subtract(before) {
        Ok(()) => Arc::new(difference),
        // The histogram has fewer values than before, so it has restarted.
        Err(_) => now.clone(),
    }
}
