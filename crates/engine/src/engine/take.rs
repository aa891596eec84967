//! Handing out: takes, waiters, leases and their deadlines.

use super::{Engine, NotFound};
use crate::effects::{Effects, Event, Record};
use crate::ids::{JobId, JobSlot, LeaseId, Millis, QueueId, SessionId};
use crate::jobs::{Body, Lease, State};
use crate::limits::SERVING_REST_MS;
use crate::queues::{Pause, PauseReason};
use crate::sessions::{NEVER, Sessions, Waiting};

/// How long a take may wait.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Patience {
    /// Not at all.
    None,
    /// A read waits only while expired items in front are swept away. A take does not wait.
    UntilSwept,
    /// This many milliseconds.
    Millis(u64),
    /// For ever.
    Endless,
}

impl Patience {
    /// This many milliseconds, and [`Patience::UntilSwept`] for none.
    pub fn of_millis(millis: u64) -> Self {
        if millis == 0 { Self::UntilSwept } else { Self::Millis(millis) }
    }
}

/// What a take leads to at once.
#[derive(Clone, Debug)]
pub enum Take {
    /// A job is handed out.
    Granted(Handout),
    /// There is none, and the session does not wait.
    TimedOut,
    /// There is none, and a job that the session holds is within a second of its deadline.
    DeadlineSoon,
    /// The session waits; an [`Event`] will come.
    Waiting,
}

/// A job handed out to a session.
#[derive(Clone, Debug)]
pub struct Handout {
    /// Its place.
    pub job: JobSlot,
    /// Its number.
    pub id: JobId,
    /// The number of the hand-out.
    pub lease: LeaseId,
    /// Its bytes.
    pub body: Body,
}

impl Engine {
    /// Takes the best ready job, by (priority, order number), over the queues that the session
    /// watches and that are not paused.
    pub fn take(&mut self, session: SessionId, patience: Patience, effects: &mut Effects) -> Take {
        debug_assert!(!self.is_waiting(session));
        self.meter.begin_request();
        if self.queues.have_extensions() {
            self.sweep_watched(session, effects);
        }
        self.meter.count(self.sessions[session].watched().len());
        if let Some(slot) = self.best_watched(session) {
            self.remove_from_list(slot);
            return Take::Granted(self.hand_out(slot, session, None, effects));
        }
        if self.sessions[session].margin_begins().is_some_and(|margin| margin <= self.now) {
            return Take::DeadlineSoon;
        }
        let until = match patience {
            Patience::None | Patience::UntilSwept | Patience::Millis(0) => return Take::TimedOut,
            Patience::Millis(millis) => Millis(self.now.0.saturating_add(millis)),
            Patience::Endless => NEVER,
        };
        self.wait_for_job(session, until);
        Take::Waiting
    }

    /// Ends what has expired at the heads of the queues that this session watches.
    fn sweep_watched(&mut self, session: SessionId, effects: &mut Effects) {
        let watched = self.sessions[session].lend_watched();
        for queue in &watched {
            if self.queues[*queue].extension().is_some() && !self.meter.request_is_spent() {
                self.sweep_head(*queue, effects);
            }
        }
        self.sessions[session].return_watched(watched);
    }

    /// The best job that a take of this session would get now.
    fn best_watched(&self, session: SessionId) -> Option<JobSlot> {
        let watched = self.sessions[session].watched().iter();
        let heads = watched.filter_map(|id| {
            let queue = &self.queues[*id];
            let serves = queue.can_serve(self.now)
                && !self.is_blocked(queue)
                && (queue.extension().is_none() || !self.head_is_expired(queue));
            if serves { queue.ready().first() } else { None }
        });
        heads.min().map(|(_, slot)| JobSlot(slot))
    }

    fn wait_for_job(&mut self, session: SessionId, until: Millis) {
        let watched = self.sessions[session].lend_watched();
        let ticket = self.line_up(session, &watched);
        self.sessions[session].return_watched(watched);
        self.sessions.begin_wait(session, Waiting::Job { ticket, until });
        self.arm_session(session);
    }

    /// A session that is about to wait gets in the lines of these queues, with one ticket.
    pub(crate) fn line_up(&mut self, session: SessionId, queues: &[QueueId]) -> u64 {
        let ticket = self.sessions.deal_ticket();
        self.meter.count(queues.len());
        for queue in queues {
            self.queues[*queue].line_up(ticket, Sessions::place_of(session));
            self.resume_sweep(*queue);
        }
        ticket
    }

    /// Takes this job, whatever queue it is in, if it is ready, delayed or buried. One that has expired
    /// ends instead.
    pub fn take_job(
        &mut self,
        session: SessionId,
        id: JobId,
        effects: &mut Effects,
    ) -> Result<Handout, NotFound> {
        self.meter.begin_request();
        let slot = self.slot(id)?;
        let state = self.jobs[slot].state();
        if state == State::Leased || self.queues[self.jobs[slot].queue()].removals() > 0 {
            return Err(NotFound);
        }
        if state == State::Ready && self.expire_if_due(slot, effects) {
            return Err(NotFound);
        }
        self.remove_from_list(slot);
        let handout = self.hand_out(slot, session, None, effects);
        if state != State::Ready {
            // It is not delayed or buried any more, whatever becomes of the lease; without this a
            // restart would set aside again what was seen ready.
            self.note(Record::Update, slot, effects);
        }
        Ok(handout)
    }

    /// Leases a job that is in no list to a session.
    /// The earlier of its ttr and the holder's own limit ends it.
    pub(crate) fn hand_out(
        &mut self,
        slot: JobSlot,
        session: SessionId,
        limit_ms: Option<u64>,
        effects: &mut Effects,
    ) -> Handout {
        self.tally.takes += 1;
        self.change_state(slot, State::Leased);
        let until = limit_ms.map_or(NEVER, |limit| Millis(self.now.0.saturating_add(limit)));
        let lease = Lease { id: self.sessions.deal_lease(), holder: session, until };
        let deadline = self.deadline(self.jobs[slot].ttr_s()).min(until);
        let job = &mut self.jobs[slot];
        job.count(|counters| &mut counters.takes);
        job.set_due(deadline);
        job.set_lease(Some(lease));
        let queue = job.queue();
        let handout =
            Handout { job: slot, id: job.id(), lease: lease.id, body: job.body().clone() };
        self.jobs.recharge(slot);
        self.sessions[session].hold(queue, lease.id, deadline, slot);
        self.arm_session(session);
        self.note(Record::Count, slot, effects);
        handout
    }

    /// A job became ready: hands it to whoever waits longest for its queue, or enlists it.
    pub(crate) fn deliver_or_list(&mut self, slot: JobSlot, effects: &mut Effects) {
        let id = self.jobs[slot].queue();
        loop {
            let queue = &self.queues[id];
            let serves = !queue.is_paused() && !self.is_blocked(queue);
            match queue.waiters().first() {
                Some((_, place))
                    if serves && (queue.extension().is_none() || !self.is_expired(slot)) =>
                {
                    if self.hand_to_waiter(slot, place, effects) {
                        return;
                    }
                    if self.meter.request_is_spent() {
                        // Many who only look.
                        self.add_to_list(slot);
                        return self.rest_from_serving(id);
                    }
                }
                Some(_) | None => {
                    // Only workers sleep: most queues have none, and need not be read further.
                    let wakes = serves && queue.workers() > 0 && !queue.sleepers().is_empty();
                    self.add_to_list(slot);
                    if wakes {
                        self.wake_sleepers(id, 1, effects);
                    }
                    return;
                }
            }
        }
    }

    /// Gives a job that is in no list to a session that waits for one. `false`: it only looked.
    fn hand_to_waiter(&mut self, slot: JobSlot, place: u32, effects: &mut Effects) -> bool {
        let session = self.sessions.at(place);
        if let Some(Waiting::Item { wish, .. }) = self.sessions[session].waiting() {
            return self.grant_wish(slot, session, wish, effects);
        }
        self.stop_waiting(session);
        let Handout { job, id, lease, body } = self.hand_out(slot, session, None, effects);
        effects.events.push((session, Event::Granted { job, id, lease, body }));
        true
    }

    /// Serves those who wait for a queue that may hand out again: as many as the slice of work allows.
    /// If there are more, the queue rests for a moment, so that nobody gets what they wait for, and
    /// goes on by itself.
    pub(crate) fn serve_waiters(&mut self, id: QueueId, effects: &mut Effects) {
        loop {
            let queue = &self.queues[id];
            let Some((_, slot)) = queue.ready().first() else { return };
            if self.is_blocked(queue) || queue.extension().is_some() && self.head_is_expired(queue)
            {
                return;
            }
            let Some((_, place)) = queue.waiters().first() else {
                // None of them was told of these jobs.
                return self.wake_sleepers(id, queue.counts().ready.into(), effects);
            };
            if self.meter.request_is_spent() {
                return self.rest_from_serving(id);
            }
            self.remove_from_list(JobSlot(slot));
            if !self.hand_to_waiter(JobSlot(slot), place, effects) {
                self.add_to_list(JobSlot(slot));
            }
        }
    }

    /// More sessions wait here than one slice of work may serve.
    fn rest_from_serving(&mut self, id: QueueId) {
        let until = Millis(self.now.0.saturating_add(SERVING_REST_MS));
        self.queues[id].set_pause(Some(Pause { until, reason: PauseReason::Serving }));
        self.arm_queue(id);
    }

    /// Starts the ttr of a job that this session holds anew.
    pub fn touch(&mut self, session: SessionId, id: JobId) -> Result<JobSlot, NotFound> {
        let slot = self.held(session, id)?;
        self.renew_deadline(slot);
        Ok(slot)
    }

    /// Starts the ttr of a leased job anew, within its holder's own limit.
    pub(crate) fn renew_deadline(&mut self, slot: JobSlot) {
        let job = &self.jobs[slot];
        let lease = job.lease().expect("a held job has a lease");
        let (before, deadline) = (job.due(), self.deadline(job.ttr_s()).min(lease.until));
        self.jobs[slot].set_due(deadline);
        self.sessions[lease.holder].move_deadline(lease.id, before, deadline, slot);
        self.arm_session(lease.holder);
    }
}
