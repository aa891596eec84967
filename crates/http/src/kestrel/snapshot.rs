//! All numbers of Kestrel's statistics at one moment, under the names that monitoring knows (spec kestrel 7.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::{Broker, Clock, ItemStats, Status, Totals};
use hdrhistogram::Histogram;

/// So many queues are looked at in one turn of the broker.
const QUEUES_PER_TURN: usize = 256;
/// What the original shows where a queue may have any number of items, or of bytes.
const NO_ITEMS_MAX: u64 = 2_147_483_647;
const NO_BYTES_MAX: u64 = 9_223_372_036_854_775_807;

/// What Kestrel's sessions did since the start, all ports together.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Open connections.
    pub connections: u64,
    /// Counters by their names. Those of one queue have `q/`, the name of the queue and `/` before it.
    pub counters: Vec<(String, u64)>,
    /// What was measured, by names of the same kind.
    pub metrics: Vec<(String, Arc<Histogram<u64>>)>,
}

/// What is measured; shown also if it never happened.
const METRICS: [&str; 7] = [
    "set_latency_usec",
    "get_hit_latency_usec",
    "get_miss_latency_usec",
    "get_timeout_msec",
    "delivery_latency_msec",
    "fsync_delay_usec",
    "item_fsync_delay_usec",
];

/// The same for each queue.
const QUEUE_METRICS: [&str; 12] = [
    "set_latency_usec",
    "get_hit_latency_usec",
    "get_miss_latency_usec",
    "get_timeout_msec",
    "delivery_latency_msec",
    "journal_rewrite_usec",
    "journal_rotation_usec",
    "fill_readbehind_usec",
    "tx_map_size",
    "tx_expire_list_size",
    "queue_size",
    "request_size",
];

/// All numbers at one moment, or how they changed between two.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) gauges: BTreeMap<String, f64>,
    pub(crate) labels: BTreeMap<&'static str, String>,
    /// `None`: nothing was measured.
    pub(crate) metrics: BTreeMap<String, Option<Arc<Histogram<u64>>>>,
}

impl Snapshot {
    /// Looks at everything. Takes one turn for the names and the totals, and one for so many queues each, so that
    /// others get theirs in between.
    pub(crate) fn take(broker: &Broker, clock: &Clock, served: &Served) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let (names, totals, status) = {
            let turn = broker.turn(clock());
            let names: Vec<Vec<u8>> = turn.item_queues().into_iter().map(<[u8]>::to_vec).collect();
            (names, turn.totals(), turn.status())
        };
        let (mut items, mut bytes) = (0, 0);
        for slice in names.chunks(QUEUES_PER_TURN) {
            let turn = broker.turn(clock());
            for name in slice {
                let shown = String::from_utf8_lossy(name);
                if let Some(alias) = turn.alias_stats(name) {
                    snapshot.count_queue(
                        &shown,
                        [("put_items", alias.puts), ("put_bytes", alias.put_bytes)],
                    );
                } else if let Some(stats) = turn.item_stats(name) {
                    items += stats.items;
                    bytes += stats.bytes;
                    snapshot.add_queue(&shown, &stats);
                }
            }
        }
        snapshot.add_server(&totals, status);
        snapshot.gauge("items", items as f64);
        snapshot.gauge("bytes", bytes as f64);
        snapshot.add_served(served);
        snapshot
    }

    fn add_server(&mut self, totals: &Totals, status: Status) {
        let of_engine = [
            ("total_items", totals.puts),
            ("queue_creates", totals.item_queue_creates),
            ("queue_deletes", totals.item_queue_deletes),
            ("queue_expires", totals.idle_queue_deletes),
        ];
        for (name, value) in of_engine {
            self.counters.insert(name.to_owned(), value);
        }
        let (label, reads, writes) = match status {
            Status::Up => ("Up", true, true),
            Status::WriteAvoid => ("WriteAvoid", true, true),
            Status::ReadOnly => ("ReadOnly", true, false),
            Status::Quiescent => ("Quiescent", false, false),
        };
        self.labels.insert("status", label.to_owned());
        // No memory is set apart for a queue.
        self.gauge("reserved_memory_ratio", 0.0);
        self.gauge("status/readable", f64::from(u8::from(reads)));
        self.gauge("status/writeable", f64::from(u8::from(writes)));
    }

    fn add_queue(&mut self, queue: &str, stats: &ItemStats) {
        let counters = [
            ("total_items", stats.puts),
            ("put_items", stats.puts),
            ("put_bytes", stats.put_bytes),
            ("get_items_hit", stats.hits),
            ("get_items_miss", stats.misses),
            ("transactions", stats.transactions),
            ("canceled_transactions", stats.cancelled),
            ("expired_items", stats.expired),
            ("discarded", stats.discarded),
            ("total_flushes", stats.flushes),
            ("journal_rewrites", 0),
            ("journal_rotations", 0),
        ];
        self.count_queue(queue, counters);
        let gauges = [
            ("items", stats.items),
            ("max_items", stats.items_max.unwrap_or(NO_ITEMS_MAX)),
            ("bytes", stats.bytes),
            ("max_bytes", stats.bytes_max.unwrap_or(NO_BYTES_MAX)),
            // There is one log for all queues, and all items are in memory.
            ("journal_size", 0),
            ("mem_items", stats.items),
            ("mem_bytes", stats.bytes),
            ("age_msec", stats.age_ms),
            ("waiters", stats.waiters),
            ("open_transactions", stats.open),
            ("create_time", stats.created.0 / 1_000),
        ];
        for (name, value) in gauges {
            self.gauge(&format!("q/{queue}/{name}"), value as f64);
        }
        for name in QUEUE_METRICS {
            self.metrics.insert(format!("q/{queue}/{name}"), None);
        }
    }

    fn count_queue<const N: usize>(&mut self, queue: &str, counters: [(&str, u64); N]) {
        for (name, value) in counters {
            self.counters.insert(format!("q/{queue}/{name}"), value);
        }
    }

    fn add_served(&mut self, served: &Served) {
        self.gauge("connections", served.connections as f64);
        for name in METRICS {
            self.metrics.insert(name.to_owned(), None);
        }
        // Queues that are gone are not shown.
        for (name, value) in &served.counters {
            if !name.starts_with("q/") || self.counters.contains_key(name) {
                self.counters.insert(name.clone(), *value);
            }
        }
        for (name, measured) in &served.metrics {
            if !name.starts_with("q/") || self.metrics.contains_key(name) {
                self.metrics.insert(name.clone(), Some(measured.clone()));
            }
        }
    }

    /// Adds a gauge.
    pub(crate) fn gauge(&mut self, name: &str, value: f64) {
        self.gauges.insert(name.to_owned(), value);
    }

    /// These numbers with counters and metrics as they changed since an earlier moment. What began anew meanwhile
    /// changed by all that it has.
    pub(crate) fn since(&self, earlier: &Snapshot) -> Snapshot {
        let counters = self.counters.iter().map(|(name, now)| {
            let before = earlier.counters.get(name).copied().unwrap_or(0);
            (name.clone(), now.checked_sub(before).unwrap_or(*now))
        });
        let metrics = self.metrics.iter().map(|(name, now)| {
            let before = earlier.metrics.get(name).cloned().flatten();
            (name.clone(), now.as_ref().map(|now| difference(now, before.as_deref())))
        });
        Snapshot {
            counters: counters.collect(),
            gauges: self.gauges.clone(),
            labels: self.labels.clone(),
            metrics: metrics.collect(),
        }
    }
}

fn difference(now: &Arc<Histogram<u64>>, before: Option<&Histogram<u64>>) -> Arc<Histogram<u64>> {
    let Some(before) = before else { return now.clone() };
    let mut difference = Histogram::clone(now);
    match difference.subtract(before) {
        Ok(()) => Arc::new(difference),
        // It has less than before: it began anew.
        Err(_) => now.clone(),
    }
}
