//! The memory account: how many bytes jobs, queues and sessions take, as the allocator gives them out.
//!
//! It is kept by adding and subtracting, so asking costs nothing. What things take is estimated from their
//! sizes; a test of the whole program holds the sum against the memory that the process really has.
//! Copies of a body that a put left in several queues count in full: after a restart each has its own.

use std::mem::size_of;

use crate::engine::Engine;
use crate::extra::Extra;
use crate::ids::JobSlot;
use crate::job::{Aside, Job, Outcome, State};
use crate::queue::Queue;
use crate::session::Session;

/// What a job takes beside its body: its place in the table, its entry in a list of its queue, and in the
/// index of numbers.
const JOB_BYTES: u64 = size_of::<Job>() as u64 + LIST_ENTRY_BYTES + 5;
/// An entry of [`crate::ordered::Ordered`]: a key of 16 bytes, a place, and the share of what is unused.
const LIST_ENTRY_BYTES: u64 = 26;
/// The count in front of a body.
const BODY_HEAD_BYTES: usize = size_of::<usize>();
/// Entries in the table of keys and in that of submitted jobs, as half-full nodes of a tree.
const SUBMITTED_BYTES: u64 = 64;
/// A queue's entries in the tables of names and of ages, and the first run of its list.
const QUEUE_INDEX_BYTES: u64 = 160;
/// A name up to this length lies in the queue itself.
const NAME_INSIDE_BYTES: usize = 24;
/// A watched queue: an entry in the session's list, and in the queue's line while it waits. Both grow by doubling, so this is
/// off by up to a fifth.
pub(crate) const WATCH_BYTES: u64 = 26;
/// A join: the job knows the session and the session the job.
pub(crate) const JOIN_BYTES: u64 = 48;
/// A registration of a worker: the session lists it by rank and by queue, and the queue the worker.
pub(crate) const REGISTRATION_BYTES: u64 = 112;
/// What only some queues have, and their entry in the table of queues of items.
pub(crate) const EXTRA_BYTES: u64 = size_of::<Extra>() as u64 + 124;
/// What the log keeps of a queue that exists when nobody uses it.
pub(crate) const KEPT_BYTES: u64 = 84;
/// What a session takes.
pub(crate) const SESSION_BYTES: u64 = size_of::<Session>() as u64;
/// [`Job::extra_units`] counts in these.
const UNIT_BYTES: u64 = 32;

/// How many bytes the allocator gives out for this many: its sizes are 16 bytes apart up to 128, then four
/// to each doubling.
pub fn allocated_bytes(bytes: usize) -> u64 {
    // The distance of its neighbours from the next power of two below.
    let doubling = bytes.saturating_sub(1).checked_ilog2().unwrap_or(0);
    let step = 1 << doubling.saturating_sub(2).max(4);
    bytes.next_multiple_of(step) as u64
}

/// How many bytes a job with a body of this length takes.
pub fn job_bytes(body_bytes: usize) -> u64 {
    JOB_BYTES + allocated_bytes(body_bytes + BODY_HEAD_BYTES)
}

/// How many bytes a queue of this name takes while it is empty.
pub(crate) fn queue_bytes(name: &[u8]) -> u64 {
    let outside = if name.len() > NAME_INSIDE_BYTES { allocated_bytes(name.len()) } else { 0 };
    size_of::<Queue>() as u64 + QUEUE_INDEX_BYTES + outside
}

/// What a job has beside what every job has, in units.
fn extra_units(job: &Job) -> u16 {
    let Some(aside) = &job.aside else { return 0 };
    let mut bytes = size_of::<Aside>() as u64;
    if let Some(outcome) = &aside.outcome {
        bytes += allocated_bytes(size_of::<Outcome>()) + SUBMITTED_BYTES;
        bytes += allocated_bytes(outcome.unique.len()) + allocated_bytes(outcome.reducer.len());
    }
    if job.state == State::Leased {
        // The session lists it, too.
        bytes += LIST_ENTRY_BYTES;
    }
    u16::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u16::MAX)
}

impl Engine {
    /// Bytes of memory that jobs, queues and sessions take.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// A job is new.
    pub(crate) fn charge_job(&mut self, slot: JobSlot) {
        self.memory_bytes += job_bytes(self.job(slot).body.len());
        self.recharge_job(slot);
    }

    /// What a job has beside what every job has may have changed.
    pub(crate) fn recharge_job(&mut self, slot: JobSlot) {
        let job = self.job_mut(slot);
        let units = extra_units(job);
        let before = std::mem::replace(&mut job.extra_units, units);
        self.memory_bytes += u64::from(units) * UNIT_BYTES;
        self.memory_bytes -= u64::from(before) * UNIT_BYTES;
    }

    /// A job has gone.
    pub(crate) fn discharge_job(&mut self, job: &Job) {
        let extra_bytes = u64::from(job.extra_units) * UNIT_BYTES;
        self.memory_bytes -= job_bytes(job.body.len()) + extra_bytes;
    }

    /// The account made anew, by walking everything.
    pub(crate) fn recounted_bytes(&self) -> u64 {
        let jobs = self.jobs.iter().map(|(_, job)| {
            assert_eq!(job.extra_units, extra_units(job), "what is counted for job {}", job.id);
            job_bytes(job.body.len()) + u64::from(job.extra_units) * UNIT_BYTES
        });
        let queues = self.queues.iter().map(|(_, queue)| {
            let kept_bytes = if queue.kept { KEPT_BYTES } else { 0 };
            let extra_bytes = if queue.extra.is_some() { EXTRA_BYTES } else { 0 };
            queue_bytes(&queue.name) + kept_bytes + extra_bytes
        });
        let sessions = self.sessions.iter().map(|(_, session)| {
            let joins: u64 = session.watching.values().map(|count| u64::from(*count)).sum();
            let registrations = session.worker.as_ref().map_or(0, |worker| worker.queues().count());
            SESSION_BYTES
                + session.watched.len() as u64 * WATCH_BYTES
                + joins * JOIN_BYTES
                + registrations as u64 * REGISTRATION_BYTES
        });
        self.wall.bytes() + jobs.chain(queues).chain(sessions).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_allocator() {
        let sizes = [
            (0, 0),
            (1, 16),
            (16, 16),
            (17, 32),
            (108, 112),
            (128, 128),
            (129, 160),
            (161, 192),
            (256, 256),
            (257, 320),
            (1025, 1280),
            (4097, 5120),
            (65_537, 81_920),
            (1 << 20, 1 << 20),
        ];
        for (bytes, wanted) in sizes {
            assert_eq!(allocated_bytes(bytes), wanted, "{bytes}");
        }
    }
}
