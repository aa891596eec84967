//! Texts of the memcache dialect's `STATS`, `DUMP_STATS` and `DUMP_CONFIG` (spec kestrel 7).

use std::collections::BTreeSet;

use broker::policy::{Policy, QueueSync, WhenFull};
use broker::{AliasStats, ItemStats, Turn};

use crate::server::Server;

/// What the original prints where there is no limit, for items and for bytes.
const NO_ITEMS_MAX: u64 = 2_147_483_647;
const NO_BYTES_MAX: u64 = 9_223_372_036_854_775_807;

/// What an item took in the original's journal beside its bytes.
const JOURNAL_BYTES_PER_ITEM: u64 = 21;

/// There is one log for all queues. This is what the items would take in a file of their own.
pub(crate) fn journal_bytes(stats: &ItemStats) -> u64 {
    stats.bytes + JOURNAL_BYTES_PER_ITEM * stats.items
}

/// A key and its value, as they are printed.
type Row = (&'static str, String);

/// Numbers of the server, and of all queues by name.
pub(crate) fn all(server: &Server, turn: &Turn<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    let names = turn.item_queues();
    let (items, bytes) = sums(&names, turn);
    for (key, value) in of_server(server, items, bytes, turn) {
        text.extend_from_slice(format!("STAT {key} {value}\r\n").as_bytes());
    }
    for name in names {
        for (key, value) in of_queue(name, turn) {
            text.extend_from_slice(b"STAT queue_");
            text.extend_from_slice(name);
            text.extend_from_slice(format!("_{key} ").as_bytes());
            text.extend_from_slice(&value);
            text.extend_from_slice(b"\r\n");
        }
    }
    text.extend_from_slice(b"END\r\n");
    text
}

/// Numbers of the queues named, or of all.
pub(crate) fn dump(names: &[&[u8]], turn: &Turn<'_>) -> Vec<u8> {
    blocks(names, turn, |name| of_queue(name, turn))
}

/// What is asked of the queues named, or of all, in the shape that the original's first versions
/// printed. What has no counterpart is shown as unlimited.
pub(crate) fn dump_config(names: &[&[u8]], server: &Server, turn: &Turn<'_>) -> Vec<u8> {
    blocks(names, turn, |name| match turn.item_stats(name) {
        Some(_) => of_policy(&turn.policy(name), server.options().sync),
        None => Vec::new(),
    })
}

fn blocks(
    names: &[&[u8]],
    turn: &Turn<'_>,
    rows: impl Fn(&[u8]) -> Vec<(&'static str, Vec<u8>)>,
) -> Vec<u8> {
    let mut all = if names.is_empty() { turn.item_queues() } else { names.to_vec() };
    // A short line must not have a long queue's numbers printed thousands of times.
    let mut printed = BTreeSet::new();
    all.retain(|name| printed.insert(*name));
    // COMPAT(kestrel): the lines are joined as if there were one at least, so that nothing is an
    // empty line, and a queue that is missing a line of two blanks; cases mc-dump-stats-missing,
    // mc-dump-stats-of-nothing.
    if all.is_empty() {
        return b"\r\nEND\r\n".to_vec();
    }
    let mut text = Vec::new();
    for name in all {
        text.extend_from_slice(b"queue '");
        text.extend_from_slice(name);
        text.extend_from_slice(b"' {\r\n");
        let rows = rows(name);
        if rows.is_empty() {
            text.extend_from_slice(b"  \r\n");
        }
        for (key, value) in rows {
            text.extend_from_slice(format!("  {key}=").as_bytes());
            text.extend_from_slice(&value);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"}\r\n");
    }
    text.extend_from_slice(b"END\r\n");
    text
}

/// Items and bytes of all queues.
fn sums(names: &[&[u8]], turn: &Turn<'_>) -> (u64, u64) {
    let stats = names.iter().filter_map(|name| turn.item_stats(name));
    stats.fold((0, 0), |(items, bytes), stats| (items + stats.items, bytes + stats.bytes))
}

fn of_server(server: &Server, items: u64, bytes: u64, turn: &Turn<'_>) -> Vec<Row> {
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
        ("time", (now_ms / 1_000).to_string()),
        ("version", server.options().version.clone()),
        ("curr_items", items.to_string()),
        ("total_items", totals.puts.to_string()),
        ("bytes", bytes.to_string()),
        // No memory is set apart for a queue.
        ("reserved_memory_ratio", "0.000".to_owned()),
    ];
    rows.extend(numbers.map(|(key, number)| (key, number.to_string())));
    rows
}

fn of_queue(name: &[u8], turn: &Turn<'_>) -> Vec<(&'static str, Vec<u8>)> {
    if let Some(alias) = turn.alias_stats(name) {
        return of_alias(&alias);
    }
    turn.item_stats(name).map_or_else(Vec::new, |stats| of_items(&stats))
}

fn of_items(stats: &ItemStats) -> Vec<(&'static str, Vec<u8>)> {
    let numbers = [
        ("items", stats.items),
        ("bytes", stats.bytes),
        ("total_items", stats.puts),
        ("logsize", journal_bytes(stats)),
        ("expired_items", stats.expired),
        ("mem_items", stats.items),
        ("mem_bytes", stats.bytes),
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
    let mut rows: Vec<_> =
        numbers.iter().map(|(key, number)| (*key, number.to_string().into_bytes())).collect();
    if let Some(children) = &stats.children {
        rows.push(("children", children.join(&b","[..])));
    }
    rows
}

fn of_alias(stats: &AliasStats) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("put_items", stats.puts.to_string().into_bytes()),
        ("put_bytes", stats.put_bytes.to_string().into_bytes()),
        ("children", stats.destinations.join(&b","[..])),
    ]
}

fn of_policy(policy: &Policy, server_sync: QueueSync) -> Vec<(&'static str, Vec<u8>)> {
    let sync = policy.sync.unwrap_or(server_sync);
    let sync_text = match sync {
        QueueSync::Always => "true".to_owned(),
        QueueSync::Every(millis) => format!("{millis}ms"),
        QueueSync::Never | QueueSync::Memory => "false".to_owned(),
    };
    let numbers = [
        ("max_items", policy.jobs_max.unwrap_or(NO_ITEMS_MAX)),
        ("max_size", policy.bytes_max.unwrap_or(NO_BYTES_MAX)),
        // Seconds; 0: none.
        ("max_age", policy.age_max_ms.map_or(0, |millis| millis.div_ceil(1_000))),
        ("max_journal_size", NO_BYTES_MAX),
        ("max_memory_size", NO_BYTES_MAX),
        ("max_journal_overflow", 0),
        ("max_journal_size_absolute", NO_BYTES_MAX),
    ];
    let mut rows: Vec<_> =
        numbers.iter().map(|(key, number)| (*key, number.to_string().into_bytes())).collect();
    let discards = policy.when_full == WhenFull::DropOldest;
    rows.push(("discard_old_when_full", discards.to_string().into_bytes()));
    rows.push(("journal", (sync != QueueSync::Memory).to_string().into_bytes()));
    rows.push(("sync_journal", sync_text.into_bytes()));
    if let Some(target) = &policy.expire_to {
        rows.push(("move_expired_to", target.to_vec()));
    }
    rows
}
