//! The lists among the text replies: functions, connections and jobs. Each ends in a line with a dot.

use std::io::Write as _;

use broker::{QueueStats, Turn};

use crate::commands::visible;
use crate::environment::Peer;
use crate::handle::Prefix;

/// The queue that exists whether anybody wants it or not.
const DEFAULT_QUEUE: &[u8] = b"default";

const END: &[u8] = b".\n";

/// The queues that Gearman's clients and workers have made known, or Kestrel's clients, or that a
/// worker is registered for, oldest first: not every tube. The queue that always exists is one of them only while it has
/// jobs or workers.
fn functions<'a>(turn: &'a Turn<'_>) -> impl Iterator<Item = (&'a [u8], QueueStats)> {
    turn.queue_names().filter_map(|name| {
        let stats = turn.queue_stats(name)?;
        let kept = turn.queue_facts(name).is_some_and(|facts| facts.kept);
        let in_use = stats.workers > 0 || total(&stats) > 0;
        let known = if name == DEFAULT_QUEUE { in_use } else { kept || stats.workers > 0 };
        known.then_some((name, stats))
    })
}

/// Jobs that are queued or running. Buried ones are neither: only other dialects know of them.
fn total(stats: &QueueStats) -> u64 {
    stats.ready + stats.delayed + stats.leased
}

/// A list with a line for each item.
fn list<T>(items: impl Iterator<Item = T>, line: impl Fn(T, &mut Vec<u8>)) -> Vec<u8> {
    let mut text = Vec::new();
    for item in items {
        line(item, &mut text);
        text.push(b'\n');
    }
    text.extend_from_slice(END);
    text
}

fn push_number(text: &mut Vec<u8>, number: impl std::fmt::Display) {
    write!(text, "\t{number}").expect("a vector takes everything");
}

/// Jobs, running jobs and workers of each function.
pub(crate) fn status(turn: &Turn<'_>) -> Vec<u8> {
    list(functions(turn), |(name, stats), text| {
        text.extend_from_slice(visible(name));
        for number in [total(&stats), stats.leased, stats.workers] {
            push_number(text, number);
        }
    })
}

/// Queued jobs of each function by priority, and its workers.
pub(crate) fn priority_status(turn: &Turn<'_>) -> Vec<u8> {
    list(functions(turn), |(name, stats), text| {
        text.extend_from_slice(visible(name));
        for number in stats.bands.into_iter().chain([stats.workers]) {
            push_number(text, number);
        }
    })
}

/// All connections and what they can do, the newest registration first.
pub(crate) fn workers(connections: &[(u64, Peer)], turn: &Turn<'_>) -> Vec<u8> {
    list(connections.iter(), |(number, peer), text| {
        write!(text, "{number} {} ", peer.address).expect("a vector takes everything");
        text.extend_from_slice(visible(&peer.client_id));
        text.extend_from_slice(b" :");
        for function in turn.registrations(peer.session) {
            text.push(b' ');
            text.extend_from_slice(visible(function));
        }
    })
}

/// Handle, lost attempts, 0, and whether it is durable, of each job that was submitted. (The third
/// number is 1 for jobs that the original will throw away; here they are gone at once.)
pub(crate) fn jobs(prefix: &Prefix, turn: &Turn<'_>) -> Vec<u8> {
    list(turn.submitted_jobs(), |(id, _, failures, is_durable), text| {
        text.extend_from_slice(&prefix.handle(id));
        for number in [failures, 0, u32::from(is_durable)] {
            push_number(text, number);
        }
    })
}

/// The key of each job that was submitted.
pub(crate) fn unique_jobs(turn: &Turn<'_>) -> Vec<u8> {
    list(turn.submitted_jobs(), |(_, tags, ..), text| text.extend_from_slice(tags.unique))
}

/// The function of this name: exactly so, or else the oldest that differs in case only.
pub(crate) fn find_function(name: &[u8], turn: &Turn<'_>) -> Option<Vec<u8>> {
    let same = |(found, _): &(&[u8], QueueStats)| *found == name;
    let alike = |(found, _): &(&[u8], QueueStats)| found.eq_ignore_ascii_case(name);
    let found = functions(turn).find(same).or_else(|| functions(turn).find(alike));
    found.map(|(name, _)| name.to_vec())
}
