//! The lists of functions, connections and jobs, which are text replies. The last line of each list
//! is a dot.
//!
//! A list can be long. So the session writes it row by row into the outbox. Between slices of work,
//! the session stores a cursor.

use std::io::Write as _;

use broker::{JobCursor, Outbox, QueueCursor, QueueFacts, QueueId, QueueStats, SessionId, Turn};

use crate::environment::Server;
use crate::reply::{AT_ONCE, visible};

/// The name of the queue that always exists.
const DEFAULT_QUEUE: &[u8] = b"default";

const END: &[u8] = b".\n";

/// Units of work for writing a row. Finding the row costs units, too, which the engine counts.
const ROW_UNITS: usize = 1;

/// A list that the session sends, and its progress.
#[derive(Debug)]
pub(crate) enum Listing {
    /// One row per function: its jobs, running jobs and workers.
    Status(QueueCursor),
    /// One row per function: its queued jobs by priority, and its workers.
    PriorityStatus(QueueCursor),
    /// One row per connection, oldest first. A row has the functions of the connection, newest
    /// registration first.
    Workers(Workers),
    /// One row per submitted job: handle, lost attempts, 0, and whether the job is durable. In the
    /// original, the third value is 1 if the server will drop the job later. This server ends such
    /// a job at once, so the value is always 0.
    Jobs(JobCursor),
    /// One row per submitted job: its key.
    UniqueJobs(JobCursor),
}

#[derive(Debug, Default)]
pub(crate) struct Workers {
    /// The number of the last connection whose row was begun.
    number: u64,
    /// The incomplete row: the connection's session, and the rank of the last registration in the
    /// row.
    line: Option<(SessionId, Option<i64>)>,
}

impl Listing {
    /// Sends the next row, or a part of it. Returns false after the last row.
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
            // The list of workers does not depend on the log.
            Self::Workers(_) => AT_ONCE,
            // These lists show which jobs exist, and so also which jobs have ended. A crash must
            // not undo what they show. So they wait for the log.
            Self::Status(_) | Self::PriorityStatus(_) | Self::Jobs(_) | Self::UniqueJobs(_) => {
                turn.after_all()
            }
        };
        outbox.reply(after, &text);
        goes_on
    }
}

/// Takes the next queue. If the queue is a function, writes its row. Returns false after the last
/// queue.
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

/// The statistics of a queue if the queue is a function, otherwise `None`. A queue is a function if
/// a client of Gearman or Kestrel created it, or if a worker is registered for it. So a tube that
/// only beanstalkd clients use is no function. The queue `default` is a function only while it has
/// jobs or workers.
fn function(queue: QueueId, turn: &Turn<'_>) -> Option<QueueStats> {
    let stats = turn.queue_stats_of(queue);
    let QueueFacts { kept, .. } = turn.queue_facts_of(queue);
    let in_use = stats.workers > 0 || total(&stats) > 0;
    let is_default = turn.queue_name(queue) == DEFAULT_QUEUE;
    let is_known = if is_default { in_use } else { kept || stats.workers > 0 };
    is_known.then_some(stats)
}

/// Number of jobs that are queued or running. Buried jobs do not count, because Gearman has no such
/// jobs.
fn total(stats: &QueueStats) -> u64 {
    stats.ready + stats.delayed + stats.leased
}

fn push_number(text: &mut Vec<u8>, number: impl std::fmt::Display) {
    write!(text, "\t{number}").expect("a vector takes everything");
}

/// Finds the function with this name. If no name matches exactly, finds the oldest function whose
/// name differs only in case. Also finds a function that is being dropped. If a name stands for
/// another queue, this queue is the function, even while the queue of the name itself still exists.
pub(crate) fn find_function(name: &[u8], turn: &mut Turn<'_>) -> Option<Vec<u8>> {
    let is_found = |queue: &QueueId, turn: &Turn<'_>| {
        function(*queue, turn).is_some() || turn.is_being_removed(*queue)
    };
    // Most names are exact, so no others are compared.
    turn.count_work(1);
    let mut found = turn.real_queue_id(name).filter(|queue| is_found(queue, turn));
    if found.is_none() {
        let alike = turn.queues_alike(name).into_iter();
        let mut alike = alike.filter_map(|queue| turn.real_queue_id(turn.queue_name(queue)));
        found = alike.find(|queue| is_found(queue, turn));
    }
    found.map(|queue| turn.queue_name(queue).to_vec())
}
