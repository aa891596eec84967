//! The one question of the engine: which job does a queue hand out next, and if none, why not?
//! Every take asks it, every wait is served by it, and operators get the same answer.

use crate::engine::Engine;
use crate::ids::{JobSlot, QueueId};
use crate::queues::{PauseReason, Queue, ReadyKey};

/// The next job of a queue.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(in crate::engine) struct Next {
    /// The place of the job among the next jobs of several queues.
    pub(in crate::engine) key: ReadyKey,
    pub(in crate::engine) slot: JobSlot,
}

/// Why a queue hands out no job now: the first thing in the way.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Held {
    /// No job is ready.
    Empty,
    /// A client removes the queue with all its jobs.
    Removed,
    /// The policy of the queue pauses it.
    PausedByPolicy,
    /// The name of the queue is an alias by now, and takes of this name find nothing.
    Alias,
    /// A client has paused the queue.
    Paused,
    /// The queue serves its waiters, and has not more ready jobs for a taker than waiters.
    Serving,
    /// The status of the server does not let clients take jobs.
    Blocked,
    /// The next job is only in the log. A load brings it back.
    Cold,
    /// The next job has expired. A sweep ends it.
    Expired,
    /// The policy limits how many jobs the queue hands out in a time.
    Rate {
        /// Milliseconds until the queue hands out a job again.
        wait_ms: u64,
    },
    /// The policy limits how many jobs of the queue are leased at one time.
    Concurrency {
        /// The limit.
        limit: u32,
    },
    /// The policy limits how many jobs with the key of the first job the queue hands out in a time.
    /// No job of another key is ready, or other limits hold them back.
    KeyRate {
        /// Milliseconds until the queue hands out a job of this key again.
        wait_ms: u64,
    },
    /// The policy limits how many jobs with the key of the first job are leased at one time. No job of
    /// another key is ready, or other limits hold them back.
    KeyConcurrency {
        /// The limit.
        limit: u32,
    },
    /// The order of the policy is strict. A job that was handed out is delayed, and the jobs behind it
    /// wait for it. With a key, this is so for the keys of all ready jobs, or they are at other limits.
    Order,
    /// The policy has changed, and the queue sorts its jobs by their keys.
    Sorting,
}

/// Who asks for the next job.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(in crate::engine) enum Asker {
    /// A request that takes a job at once.
    Taker,
    /// The sessions that wait for a job of the queue. A pause that is over holds them back until the
    /// queue's timer clears it. The timer serves them in the same step, so nobody overtakes them.
    Line,
}

impl Engine {
    /// The job that a queue hands out next to this asker, or why it hands out none.
    pub(in crate::engine) fn next_of(&self, queue: &Queue, asker: Asker) -> Result<Next, Held> {
        if queue.ready().is_empty() && !queue.head_is_cold() {
            return Err(Held::Empty);
        }
        if let Some(held) = self.shut(queue, asker) {
            return Err(held);
        }
        if queue.head_is_cold() {
            return Err(Held::Cold);
        }
        let next = match self.lanes(queue) {
            Some(lanes) => self.next_of_lanes(lanes),
            None => queue.ready().first().map(|(key, slot)| (key, JobSlot(slot))),
        };
        let (key, slot) = next.ok_or(Held::Empty)?;
        let next = Next { key, slot };
        if self.may_expire(queue) && self.is_expired(next.slot) {
            return Err(Held::Expired);
        }
        Ok(next)
    }

    /// What holds back all jobs of a queue, whichever job is the next one.
    #[inline]
    pub(in crate::engine) fn shut(&self, queue: &Queue, asker: Asker) -> Option<Held> {
        if self.is_blocked(queue) {
            return Some(Held::Blocked);
        }
        if queue.removals() > 0 {
            return Some(Held::Removed);
        }
        if self.is_paused_by_policy(queue) {
            return Some(Held::PausedByPolicy);
        }
        if Self::is_hidden(queue) {
            return Some(Held::Alias);
        }
        if let Some(pause) = queue.pause() {
            let is_requested = matches!(pause.reason, PauseReason::Requested { .. });
            if is_requested && (asker == Asker::Line || pause.until > self.now) {
                return Some(Held::Paused);
            }
            // The waiters come first, so a taker gets only what they leave. Sleepers do not: the
            // first taker gets the job.
            let waiters = queue.waiters().len() as u64;
            if asker == Asker::Line || (waiters > 0 && self.passable(queue) <= waiters) {
                return Some(Held::Serving);
            }
        }
        self.gate(queue, asker)
    }

    /// Whether a queue can serve a take now. Does not check whether the head has expired.
    pub(in crate::engine) fn may_serve(&self, queue: &Queue) -> bool {
        !queue.ready().is_empty()
            && matches!(self.next_of(queue, Asker::Taker), Ok(_) | Err(Held::Expired))
    }

    /// Whether a queue could serve its waiters if its first job were in memory. If it has no waiters:
    /// whether it could serve a taker.
    pub(in crate::engine) fn may_serve_loaded(&self, queue: &Queue) -> bool {
        let asker = if queue.waiters().is_empty() { Asker::Taker } else { Asker::Line };
        queue.head_is_cold() && self.next_of(queue, asker) == Err(Held::Cold)
    }

    /// The job that a take from this queue gets now.
    pub(in crate::engine) fn head(&self, queue: &Queue) -> Option<Next> {
        // Most queues that a session watches are empty. This check needs no other memory of them.
        if queue.ready().is_empty() {
            return None;
        }
        self.next_of(queue, Asker::Taker).ok()
    }

    /// Why a queue hands out no job to a take now. `None`: it does. Names what holds back all jobs
    /// even if the queue is empty.
    pub fn held_back(&self, queue: QueueId) -> Option<Held> {
        let queue = self.queues.get(queue)?;
        let shut = self.shut(queue, Asker::Taker);
        shut.or_else(|| self.next_of(queue, Asker::Taker).err())
    }
}
