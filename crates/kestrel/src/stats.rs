//! Writes the lines of `STATS`, `DUMP_STATS` and `DUMP_CONFIG` in the memcache dialect (spec
//! kestrel 7).

use std::io::Write as _;

use broker::policy::{Policy, QueueSync, WhenFull};
use broker::{AliasStats, ItemStats, Turn};

use crate::server::Server;

/// The original prints this number for a queue without a limit of items, and `NO_BYTES_MAX` for a
/// queue without a limit of bytes.
const NO_ITEMS_MAX: u64 = 2_147_483_647;
const NO_BYTES_MAX: u64 = 9_223_372_036_854_775_807;

/// Bytes that an item needs in the original's journal, in addition to its body.
const JOURNAL_BYTES_PER_ITEM: u64 = 21;

/// The size of the journal file that the original would have for these items. Here, no such file
/// exists, because all queues share one log.
pub(crate) fn journal_bytes(stats: &ItemStats) -> u64 {
    stats.bytes + JOURNAL_BYTES_PER_ITEM * stats.items
}

/// Room for the lines of a queue with a usual name.
const ROWS_BYTES_USUAL: usize = 1024;

/// A key and its value.
type Row = (&'static str, Value);

enum Value {
    Number(u64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    fn write(&self, text: &mut Vec<u8>) {
        match self {
            Self::Number(number) => write!(text, "{number}").expect("a vector takes everything"),
            Self::Text(value) => text.extend_from_slice(value.as_bytes()),
            Self::Bytes(value) => text.extend_from_slice(value),
        }
    }
}

/// Writes the server's own lines. `items` and `bytes` are the sums over all queues.
pub(crate) fn server_rows(server: &Server, items: u64, bytes: u64, turn: &Turn<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in of_server(server, items, bytes, turn) {
        write!(text, "STAT {key} {value}\r\n").expect("a vector takes everything");
    }
    text
}

/// Writes the lines of one queue.
pub(crate) fn queue_rows(name: &[u8], turn: &Turn<'_>) -> Vec<u8> {
    let mut text = Vec::with_capacity(ROWS_BYTES_USUAL);
    for (key, value) in of_queue(name, turn) {
        text.extend_from_slice(b"STAT queue_");
        text.extend_from_slice(name);
        write!(text, "_{key} ").expect("a vector takes everything");
        value.write(&mut text);
        text.extend_from_slice(b"\r\n");
    }
    text
}

/// The kind of the block that describes a queue.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Block {
    /// The numbers of the queue.
    Stats,
    /// The policy of the queue, in the format of the original's first versions. Settings that
    /// Lineshaft does not have appear as unlimited.
    Config,
}

impl Block {
    /// Writes the block of one queue.
    pub(crate) fn text(self, name: &[u8], server: &Server, turn: &Turn<'_>) -> Vec<u8> {
        let rows = match self {
            Self::Stats => of_queue(name, turn),
            Self::Config if turn.queue_id(name).is_some() => {
                of_policy(&turn.policy(name), server.options().sync)
            }
            Self::Config => Vec::new(),
        };
        let mut text = Vec::with_capacity(ROWS_BYTES_USUAL);
        text.extend_from_slice(b"queue '");
        text.extend_from_slice(name);
        text.extend_from_slice(b"' {\r\n");
        if rows.is_empty() {
            // COMPAT(kestrel): the original writes a line end after the lines even if there is no
            // line; case mc-dump-stats-missing.
            text.extend_from_slice(b"  \r\n");
        }
        for (key, value) in rows {
            write!(text, "  {key}=").expect("a vector takes everything");
            value.write(&mut text);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"}\r\n");
        text
    }
}

fn of_server(
    server: &Server,
    items: u64,
    bytes: u64,
    turn: &Turn<'_>,
) -> Vec<(&'static str, String)> {
    let counters = server.counters();
    let now_ms = turn.now().0;
    let totals = turn.totals();
    let numbers = [
        ("curr_connections", counters.connections.get()),
        ("total_connections", counters.connections_total.get()),
        ("cmd_get", counters.cmd_get.get()),
        ("cmd_set", counters.cmd_set.get()),
        ("cmd_peek", counters.cmd_peek.get()),
        ("get_hits", counters.get_hits.get()),
        ("get_misses", counters.get_misses.get()),
        ("bytes_read", counters.bytes_read.get()),
        ("bytes_written", counters.bytes_written.get()),
        ("queue_creates", totals.item_queue_creates),
        ("queue_deletes", totals.item_queue_deletes),
        ("queue_expires", totals.idle_queue_deletes),
    ];
    let mut rows = vec![
        ("uptime", (now_ms.saturating_sub(server.options().started.0) / 1_000).to_string()),
        ("time", (turn.wall_at(turn.now()).0 / 1_000).to_string()),
        ("version", server.options().version.clone()),
        ("curr_items", items.to_string()),
        ("total_items", totals.puts.to_string()),
        ("bytes", bytes.to_string()),
        // Lineshaft reserves no memory for a queue.
        ("reserved_memory_ratio", "0.000".to_owned()),
    ];
    rows.extend(numbers.map(|(key, number)| (key, number.to_string())));
    rows
}

fn of_queue(name: &[u8], turn: &Turn<'_>) -> Vec<Row> {
    if let Some(alias) = turn.alias_stats(name) {
        return of_alias(&alias);
    }
    let Some(queue) = turn.queue_id(name) else { return Vec::new() };
    let mut rows = of_items(&turn.item_stats_of(queue));
    if let Some(children) = turn.children_of(queue) {
        rows.push(("children", Value::Bytes(children.join(&b","[..]))));
    }
    rows
}

fn of_items(stats: &ItemStats) -> Vec<Row> {
    let numbers = [
        ("items", stats.items),
        ("bytes", stats.bytes),
        ("total_items", stats.puts),
        ("logsize", journal_bytes(stats)),
        ("expired_items", stats.expired),
        ("mem_items", stats.items - stats.stored_items),
        ("mem_bytes", stats.bytes - stats.stored_bytes),
        ("age", stats.age_ms),
        ("discarded", stats.discarded),
        ("waiters", stats.waiters),
        ("open_transactions", stats.open),
        ("transactions", stats.transactions),
        ("canceled_transactions", stats.cancelled),
        ("total_flushes", stats.flushes),
        ("journal_rewrites", 0),
        ("journal_rotations", 0),
    ];
    numbers.map(|(key, number)| (key, Value::Number(number))).into()
}

fn of_alias(stats: &AliasStats) -> Vec<Row> {
    vec![
        ("put_items", Value::Number(stats.puts)),
        ("put_bytes", Value::Number(stats.put_bytes)),
        ("children", Value::Bytes(stats.destinations.join(&b","[..]))),
    ]
}

fn of_policy(policy: &Policy, server_sync: QueueSync) -> Vec<Row> {
    let sync = policy.sync.unwrap_or(server_sync);
    let sync_text = match sync {
        QueueSync::Always => "true".to_owned(),
        QueueSync::Every(millis) => format!("{millis}ms"),
        QueueSync::Never | QueueSync::Memory => "false".to_owned(),
    };
    let numbers = [
        ("max_items", policy.jobs_max.unwrap_or(NO_ITEMS_MAX)),
        ("max_size", policy.bytes_max.unwrap_or(NO_BYTES_MAX)),
        // In seconds; 0 means no limit.
        ("max_age", policy.age_max_ms.map_or(0, |millis| millis.div_ceil(1_000))),
        ("max_journal_size", NO_BYTES_MAX),
        ("max_memory_size", policy.memory_max.unwrap_or(NO_BYTES_MAX)),
        ("max_journal_overflow", 0),
        ("max_journal_size_absolute", NO_BYTES_MAX),
    ];
    let mut rows: Vec<Row> = numbers.map(|(key, number)| (key, Value::Number(number))).into();
    let discards = policy.when_full == WhenFull::DropOldest;
    rows.push(("discard_old_when_full", Value::Text(discards.to_string())));
    rows.push(("journal", Value::Text((sync != QueueSync::Memory).to_string())));
    rows.push(("sync_journal", Value::Text(sync_text)));
    if let Some(target) = &policy.expire_to {
        rows.push(("move_expired_to", Value::Bytes(target.to_vec())));
    }
    rows
}
