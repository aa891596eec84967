//! The lists among the text replies: functions, connections and jobs. Each ends in a line with a dot.
//!
//! A list can be long. So it goes row by row straight into the outbox, from a cursor that the
//! session keeps between slices of work.

use std::io::Write as _;

use broker::{JobCursor, Outbox, QueueCursor, QueueFacts, QueueId, QueueStats, SessionId, Turn};

use crate::environment::Server;
use crate::reply::{AT_ONCE, visible};

/// The queue that always exists.
const DEFAULT_QUEUE: &[u8] = b"default";

const END: &[u8] = b".\n";

/// Units of work to write a row, in addition to those to find it.
const ROW_UNITS: usize = 1;

/// A list being sent, and its position.
#[derive(Debug)]
pub(crate) enum Listing {
    /// Jobs, running jobs and workers of each function.
    Status(QueueCursor),
    /// Queued jobs of each function by priority, and its workers.
    PriorityStatus(QueueCursor),
    /// All connections, oldest first, with their functions, newest registration first.
    Workers(Workers),
    /// Handle, lost attempts, 0, and whether it is durable, of each job that was submitted. (The
    /// third number is 1 for jobs that the original will drop later; here they are gone at once.)
    Jobs(JobCursor),
    /// The key of each job that was submitted.
    UniqueJobs(JobCursor),
}

#[derive(Debug, Default)]
pub(crate) struct Workers {
    /// The number of the connection whose line began last.
    number: u64,
    /// The incomplete line: its session, and the rank of the registration written last.
    line: Option<(SessionId, Option<i64>)>,
}

impl Listing {
    /// Sends the next row, or a part of it. Returns false at the end.
    pub(crate) fn step(
        &mut self,
        server: &Server,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> bool {
        let mut text = Vec::new();
        let goes_on = match self {
            Self::Status(cursor) => function_row(cursor, turn, &mut text, |stats, text| {
                for number in [total(stats), stats.leased, stats.workers] {
                    push_number(text, number);
                }
            }),
            Self::PriorityStatus(cursor) => function_row(cursor, turn, &mut text, |stats, text| {
                for number in stats.bands.into_iter().chain([stats.workers]) {
                    push_number(text, number);
                }
            }),
            Self::Workers(workers) => workers.step(server, turn, &mut text),
            Self::Jobs(cursor) => turn.next_submitted(cursor).is_some_and(|job| {
                text.extend_from_slice(&server.prefix.handle(job.id));
                for number in [job.failures, 0, u32::from(job.is_durable)] {
                    push_number(&mut text, number);
                }
                text.push(b'\n');
                true
            }),
            Self::UniqueJobs(cursor) => turn.next_submitted(cursor).is_some_and(|job| {
                text.extend_from_slice(job.tags.unique);
                text.push(b'\n');
                true
            }),
        };
        turn.count_work(ROW_UNITS);
        if !goes_on {
            text.extend_from_slice(END);
        }
        let after = match self {
            // Depends on nothing in the log.
            Self::Workers(_) => AT_ONCE,
            // Shows that some jobs exist, and that others are gone.
            Self::Status(_) | Self::PriorityStatus(_) | Self::Jobs(_) | Self::UniqueJobs(_) => {
                turn.after_all()
            }
        };
        outbox.reply(after, &text);
        goes_on
    }
}

/// Takes the next queue, and writes its row if it is a function. Returns false if there is none.
fn function_row(
    cursor: &mut QueueCursor,
    turn: &mut Turn<'_>,
    text: &mut Vec<u8>,
    numbers: impl Fn(&QueueStats, &mut Vec<u8>),
) -> bool {
    let Some(queue) = turn.next_queue(cursor) else { return false };
    if let Some(stats) = function(queue, turn) {
        text.extend_from_slice(visible(turn.queue_name(queue)));
        numbers(&stats, text);
        text.push(b'\n');
    }
    true
}

impl Workers {
    fn step(&mut self, server: &Server, turn: &mut Turn<'_>, text: &mut Vec<u8>) -> bool {
        let Some((session, rank)) = &mut self.line else {
            let Some((number, peer)) = server.next_connection(self.number) else { return false };
            write!(text, "{number} {} ", peer.address).expect("a vector takes everything");
            text.extend_from_slice(visible(&peer.client_id));
            text.extend_from_slice(b" :");
            *self = Self { number, line: Some((peer.session, None)) };
            return true;
        };
        if let Some((function, next)) = turn.next_registration(*session, *rank) {
            text.push(b' ');
            text.extend_from_slice(visible(function));
            *rank = Some(next);
        } else {
            text.push(b'\n');
            self.line = None;
        }
        true
    }
}

/// The statistics of a queue if it is a function: one that Gearman's or Kestrel's clients created,
/// or that a worker registered for. Not every tube is a function. The default queue is one only
/// while it has jobs or workers.
fn function(queue: QueueId, turn: &Turn<'_>) -> Option<QueueStats> {
    let stats = turn.queue_stats_of(queue);
    let QueueFacts { kept, .. } = turn.queue_facts_of(queue);
    let in_use = stats.workers > 0 || total(&stats) > 0;
    let is_default = turn.queue_name(queue) == DEFAULT_QUEUE;
    let is_known = if is_default { in_use } else { kept || stats.workers > 0 };
    is_known.then_some(stats)
}

/// Jobs that are queued or running. Buried jobs do not count: only other dialects know them.
fn total(stats: &QueueStats) -> u64 {
    stats.ready + stats.delayed + stats.leased
}

fn push_number(text: &mut Vec<u8>, number: impl std::fmt::Display) {
    write!(text, "\t{number}").expect("a vector takes everything");
}

/// The function of this name: an exact match, otherwise the oldest that differs only in case.
/// Includes functions being dropped.
pub(crate) fn find_function(name: &[u8], turn: &mut Turn<'_>) -> Option<Vec<u8>> {
    let alike = turn.queues_alike(name);
    let is_same = |queue: &QueueId| turn.queue_name(*queue) == name;
    let same = alike.iter().copied().find(is_same);
    let mut found = same.into_iter().chain(alike);
    let found =
        found.find(|queue| function(*queue, turn).is_some() || turn.is_being_removed(*queue))?;
    Some(turn.queue_name(found).to_vec())
}
