//! Taking: one request for all dialects and for all ways to choose a job. The session gets a job,
//! begins to wait, or gets nothing.

mod choice;
mod gates;
mod items;
mod lanes;
mod lease;
mod next;
mod serve;
mod workers;

pub use choice::{Choice, GrabOrder};
pub use items::{AliasStats, ItemStats};
pub(in crate::engine) use next::Asker;
pub use next::Held;

use std::num::NonZeroU64;

use super::Engine;
use crate::effects::{Effects, Handout, Record};
use crate::ids::{JobId, JobSlot, LeaseId, Millis, QueueId, SessionId};
use crate::jobs::{JobBody, State};
use crate::limits::UNIT_COMPARISONS;
use crate::sessions::{NEVER, ReadMode, Sessions, Waiting, Worker};

/// The maximum time that a take waits for a job.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Patience {
    /// The take does not wait.
    None,
    /// The take waits only until the engine has removed the expired jobs at the head of the queue,
    /// and until the head is in memory. This works only with [`Choice::Queue`]. With another
    /// choice, the take does not wait.
    UntilSwept,
    /// The take waits for this many milliseconds.
    Millis(u64),
    /// The take waits without a time limit.
    Endless,
}

impl Patience {
    /// The patience for a time limit in milliseconds. 0 gives [`Patience::UntilSwept`].
    pub fn of_millis(millis: u64) -> Self {
        if millis == 0 { Self::UntilSwept } else { Self::Millis(millis) }
    }
}

/// The immediate result of a take.
#[derive(Clone, Debug)]
pub enum Take {
    /// The session got a job.
    Granted(Handout),
    /// The session took and finished an item.
    Finished {
        /// The place that the item had. The [`Record::Finish`] of this item has the same place.
        job: JobSlot,
        /// The item's number.
        id: JobId,
        /// The item's body.
        body: JobBody,
    },
    /// The session peeked at an item.
    Peeked {
        /// The item's place.
        job: JobSlot,
        /// The item's number.
        id: JobId,
        /// The item's body.
        body: JobBody,
    },
    /// The take found no job, and the session does not wait. With [`Choice::Queue`], the value is
    /// the queue. `None`: the take had another choice, or the name is an alias, and an alias has no
    /// jobs.
    Nothing(Option<QueueId>),
    /// The take found no job, and the deadline of a job that the session holds is less than a
    /// second away.
    DeadlineSoon,
    /// The session waits. An [`crate::Event`] follows.
    Waiting,
}

impl Take {
    /// The item that a take from one queue found: its body, and the lease if the session holds the
    /// item.
    pub fn item(self) -> Option<(Option<LeaseId>, JobBody)> {
        match self {
            Self::Granted(Handout { lease, body, .. }) => Some((Some(lease), body)),
            Self::Finished { body, .. } | Self::Peeked { body, .. } => Some((None, body)),
            Self::Nothing(_) | Self::DeadlineSoon | Self::Waiting => None,
        }
    }

    /// The job that the session got at once, if any.
    pub fn granted(self) -> Option<Handout> {
        match self {
            Self::Granted(handout) => Some(handout),
            Self::Finished { .. }
            | Self::Peeked { .. }
            | Self::Nothing(_)
            | Self::DeadlineSoon
            | Self::Waiting => None,
        }
    }
}

impl Engine {
    /// Takes a job for a session. Only [`Choice::Watched`] and [`Choice::Queue`] can wait.
    ///
    /// With [`Patience::UntilSwept`], the session waits only in one case: one request cannot remove
    /// all expired jobs at the head of the queue. The wait lasts until a timer has removed these
    /// jobs.
    pub fn take(
        &mut self,
        session: SessionId,
        choice: Choice<'_>,
        patience: Patience,
        effects: &mut Effects,
    ) -> Take {
        self.meter.begin_request();
        match choice {
            Choice::Watched => self.take_watched(session, patience, effects),
            Choice::Registered(order) => self.take_registered(session, order, effects),
            Choice::Queue(name, how) => self.take_of_queue(session, name, how, patience, effects),
            Choice::Job(id) => self.take_job(session, id, effects),
        }
    }

    fn take_watched(
        &mut self,
        session: SessionId,
        patience: Patience,
        effects: &mut Effects,
    ) -> Take {
        debug_assert!(!self.is_waiting(session));
        if self.queues.have_extensions() {
            self.sweep_watched(session, effects);
        }
        if let Some(slot) = self.best_watched(session) {
            self.remove_from_list(slot);
            return Take::Granted(self.lease(slot, session, None, effects));
        }
        if self.deadline_is_soon(session) {
            return Take::DeadlineSoon;
        }
        let Some(until) = self.patience_ends(patience) else { return Take::Nothing(None) };
        let watched = self.sessions[session].lend_watched();
        let ticket = self.line_up(session, &watched);
        self.sessions[session].return_watched(watched);
        self.wait(session, Waiting::Job { ticket, until })
    }

    /// Whether the deadline of a job that the session holds is less than a second away.
    pub fn deadline_is_soon(&self, session: SessionId) -> bool {
        self.sessions[session].margin_begins().is_some_and(|margin| margin <= self.now)
    }

    /// Removes expired jobs at the heads of the queues that this session watches.
    pub(super) fn sweep_watched(&mut self, session: SessionId, effects: &mut Effects) {
        let watched = self.sessions[session].lend_watched();
        self.meter.count(watched.len() / UNIT_COMPARISONS);
        for queue in &watched {
            if self.queues.is_stocked(*queue)
                && self.queues[*queue].extension().is_some()
                && !self.meter.request_is_spent()
            {
                self.sweep_head(*queue, effects);
            }
        }
        self.sessions[session].return_watched(watched);
    }

    /// Takes a job for a worker. The worker is awake from now on. A job of one queue may have woken
    /// the worker. If the worker now gets a job of another queue, the engine wakes other sleepers
    /// of the first queue.
    fn take_registered(
        &mut self,
        session: SessionId,
        order: GrabOrder,
        effects: &mut Effects,
    ) -> Take {
        let woken_for = self.sessions[session].worker_mut().and_then(Worker::look);
        let (rank, registration) = loop {
            let Some(found) = self.next_supplier(session) else { return Take::Nothing(None) };
            let queue = found.1.queue;
            if self.queues[queue].extension().is_none()
                || self.sweep(queue, usize::MAX, effects) == 0
            {
                break found;
            }
            if self.meter.request_is_spent() {
                // The slice of work is spent, so the worker gets no job now. The worker's next
                // request to sleep will be refused, because there is still work.
                if let Some(worker) = self.sessions[session].worker_mut() {
                    worker.look_again(woken_for);
                }
                return Take::Nothing(None);
            }
        };
        if order == GrabOrder::RoundRobin
            && let Some(worker) = self.sessions[session].worker_mut()
        {
            worker.move_to_end(rank);
        }
        let Some(next) = self.head(&self.queues[registration.queue]) else {
            return Take::Nothing(None);
        };
        let slot = next.slot;
        self.remove_from_list(slot);
        let limit_ms = registration.limit_ms.map(NonZeroU64::get);
        let handout = self.lease(slot, session, limit_ms, effects);
        if let Some(queue) = woken_for.filter(|queue| *queue != registration.queue) {
            self.pass_wake_on(queue, effects);
        }
        if self.has_gates(registration.queue) {
            // Since the gates opened, time may have let more jobs pass.
            self.pass_wake_on(registration.queue, effects);
        }
        Take::Granted(handout)
    }

    fn take_of_queue(
        &mut self,
        session: SessionId,
        name: &[u8],
        how: ReadMode,
        patience: Patience,
        effects: &mut Effects,
    ) -> Take {
        debug_assert!(!self.is_waiting(session));
        self.meter.count(1);
        self.renew_named(name);
        if self.alias(name).is_some() {
            return Take::Nothing(None);
        }
        let queue = self.item_queue(name, effects);
        self.sweep_head(queue, effects);
        if let Some(next) = self.head(&self.queues[queue]) {
            let slot = next.slot;
            self.count_hit(queue);
            return match how {
                ReadMode::Peek => {
                    let job = &self.jobs[slot];
                    Take::Peeked { job: slot, id: job.id(), body: job.body() }
                }
                ReadMode::Open { limit_ms } => {
                    self.remove_from_list(slot);
                    Take::Granted(self.open_read(slot, session, limit_ms, effects))
                }
                ReadMode::Finish => self.read_out(slot, effects),
            };
        }
        // More jobs have expired at the head than one request can end, or the head is cold. The
        // take waits until a timer has ended these jobs, or until the head is loaded.
        let is_cold = self.may_serve_loaded(&self.queues[queue]);
        if is_cold {
            self.want_head(queue);
        }
        let is_held_up = is_cold || self.head_is_expired(&self.queues[queue]);
        let waits_for_sweep = patience == Patience::UntilSwept && is_held_up;
        let until = if waits_for_sweep { Some(self.now) } else { self.patience_ends(patience) };
        let Some(until) = until else {
            self.count_miss(queue);
            return Take::Nothing(Some(queue));
        };
        let ticket = self.line_up(session, &[queue]);
        self.wait(session, Waiting::Item { ticket, until, queue, how })
    }

    /// Takes this job for a session, also from a paused queue. If the job has expired, the job ends
    /// instead.
    fn take_job(&mut self, session: SessionId, id: JobId, effects: &mut Effects) -> Take {
        let Ok(slot) = self.slot(id) else { return Take::Nothing(None) };
        let job = &self.jobs[slot];
        let state = job.state();
        let queue = &self.queues[job.queue()];
        if state == State::Leased
            || queue.removals() > 0
            || self.is_blocked(queue)
            || state == State::Ready && self.expire_if_due(slot, effects)
            || self.gate_of_job(slot).is_some()
        {
            return Take::Nothing(None);
        }
        self.remove_from_list(slot);
        let handout = self.lease(slot, session, None, effects);
        if state != State::Ready {
            // When the lease ends, the job is ready and no longer delayed or buried. Without this
            // record, a restart would bury or delay the job again.
            self.note(Record::Update, slot, effects);
        }
        Take::Granted(handout)
    }

    /// The moment at which the wait of a take ends. `None`: the take does not wait.
    fn patience_ends(&self, patience: Patience) -> Option<Millis> {
        match patience {
            Patience::None | Patience::UntilSwept | Patience::Millis(0) => None,
            Patience::Millis(millis) => Some(Millis(self.now.0.saturating_add(millis))),
            Patience::Endless => Some(NEVER),
        }
    }

    /// Adds a session to the lines of these queues, with the same ticket in each line. The caller
    /// begins the wait next.
    fn line_up(&mut self, session: SessionId, queues: &[QueueId]) -> u64 {
        let ticket = self.sessions.deal_ticket();
        self.meter.count(queues.len());
        for queue in queues {
            self.queues[*queue].line_up(ticket, Sessions::place_of(session));
            self.resume_sweep(*queue);
            if self.may_serve_loaded(&self.queues[*queue]) {
                // The end of the load serves the session.
                self.want_head(*queue);
            }
        }
        ticket
    }

    fn wait(&mut self, session: SessionId, waiting: Waiting) -> Take {
        self.sessions.begin_wait(session, waiting);
        self.arm_session(session);
        Take::Waiting
    }
}
