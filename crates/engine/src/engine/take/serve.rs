//! Serves waiters. The session that has waited longest gets a job that becomes ready. A queue that
//! can hand out jobs again serves all its waiters.

use super::{Asker, Held};
use crate::effects::{Effects, Event};
use crate::engine::Engine;
use crate::ids::{JobSlot, Millis, QueueId, SessionId};
use crate::jobs::State;
use crate::limits::SERVING_REST_MS;
use crate::queues::{Pause, PauseReason};
use crate::sessions::{ReadMode, Waiting};

impl Engine {
    /// Adds a job to the list for its state. If the job is ready, a session that waits can get it
    /// instead.
    pub(in crate::engine) fn enlist(&mut self, slot: JobSlot, effects: &mut Effects) {
        match self.jobs[slot].state() {
            State::Ready => self.deliver_or_list(slot, effects),
            State::Delayed | State::Leased | State::Buried => self.add_to_list(slot),
        }
    }

    /// Hands a job that became ready to the session that has waited longest for a job of its queue.
    /// If no session waits, adds the job to the list of ready jobs.
    pub(in crate::engine) fn deliver_or_list(&mut self, slot: JobSlot, effects: &mut Effects) {
        let id = self.jobs[slot].queue();
        if self.lanes(&self.queues[id]).is_some() {
            return self.deliver_by_lanes(slot, effects);
        }
        loop {
            let queue = &self.queues[id];
            // Most queues have neither waiters nor sleepers, so this question comes last.
            let serves = || self.shut(queue, Asker::Line).is_none() && !queue.head_is_cold();
            match queue.waiters().first() {
                Some((_, place))
                    if serves() && (queue.extension().is_none() || !self.is_expired(slot)) =>
                {
                    if self.may_expire(queue) && !queue.ready().is_empty() {
                        // Jobs that have expired are in front. The sweep of the queue's timer serves
                        // the line in order, unless this job is more urgent than they are.
                        self.add_to_list(slot);
                        return self.serve_waiters(id, effects);
                    }
                    if self.hand_to_waiter(slot, place, effects) {
                        return;
                    }
                    if self.meter.request_is_spent() {
                        // All waiters of this slice have only peeked at the job. The slice is
                        // spent, and the job is still available.
                        self.add_to_list(slot);
                        return self.rest_from_serving(id);
                    }
                }
                Some(_) | None => {
                    // Only a queue with workers can have sleepers, and most queues have no workers.
                    // So `&&` usually stops before the field `sleepers`. This saves a memory
                    // access.
                    let wakes = queue.workers() > 0 && !queue.sleepers().is_empty() && serves();
                    self.add_to_list(slot);
                    if wakes {
                        self.wake_sleepers(id, 1, effects);
                    }
                    return;
                }
            }
        }
    }

    /// If the slice of work is spent and a session waits for this new job, adds the job to its list,
    /// and leaves the session to the queue's timer. Otherwise does nothing, and returns false. With
    /// lanes, `serve_waiters` looks at the slice itself.
    pub(in crate::engine) fn leave_to_timer(&mut self, slot: JobSlot) -> bool {
        if !self.meter.request_is_spent() {
            return false;
        }
        let job = &self.jobs[slot];
        let id = job.queue();
        let queue = &self.queues[id];
        let is_awaited = job.state() == State::Ready
            && !queue.waiters().is_empty()
            && self.lanes(queue).is_none()
            && self.shut(queue, Asker::Line).is_none()
            && !queue.head_is_cold()
            && (queue.extension().is_none() || !self.is_expired(slot));
        if is_awaited {
            self.add_to_list(slot);
            self.rest_from_serving(id);
        }
        is_awaited
    }

    /// Gives a job to a waiting session, and ends the wait. The job must be in no list, unless the
    /// session only peeks. Returns false if it only peeked.
    fn hand_to_waiter(&mut self, slot: JobSlot, place: u32, effects: &mut Effects) -> bool {
        let session = self.sessions.at(place);
        if let Some(Waiting::Item { how, .. }) = self.sessions[session].waiting() {
            return self.serve_reader(slot, session, how, effects);
        }
        self.stop_waiting(session);
        let handout = self.lease(slot, session, None, effects);
        effects.events.push((session, Event::Granted(handout)));
        true
    }

    /// Serves the waiters of a queue that can hand out jobs again, as many as the slice of work
    /// allows. If the slice is spent, pauses the queue for a moment with [`PauseReason::Serving`].
    /// During this pause, the waiters come before other sessions. The queue's timer then continues
    /// to serve the waiters.
    pub(in crate::engine) fn serve_waiters(&mut self, id: QueueId, effects: &mut Effects) {
        loop {
            let queue = &self.queues[id];
            let slot = match self.next_of(queue, Asker::Line) {
                Ok(next) => next.slot,
                Err(Held::Cold) => {
                    // The end of the load calls this function again.
                    if !queue.waiters().is_empty() || !queue.sleepers().is_empty() {
                        self.want_head(id);
                    }
                    return;
                }
                Err(_) => return,
            };
            let Some((_, place)) = queue.waiters().first() else {
                // No session waits. The queue could not hand out its ready jobs before, so these
                // jobs have not woken any sleepers yet.
                let jobs = self.openings(queue).min(queue.counts().ready.into());
                return self.wake_sleepers(id, jobs, effects);
            };
            if self.meter.request_is_spent() {
                return self.rest_from_serving(id);
            }
            // A look at a job changes nothing, also not the turn of its key.
            if !self.only_looks(place) {
                self.remove_from_list(slot);
            }
            self.hand_to_waiter(slot, place, effects);
        }
    }

    /// Whether a session that waits does not take the item that it waits for.
    fn only_looks(&self, place: u32) -> bool {
        let waiting = self.sessions[self.sessions.at(place)].waiting();
        matches!(waiting, Some(Waiting::Item { how: ReadMode::Peek, .. }))
    }

    /// Pauses a queue with more waiters than one slice of work can serve, or with more sleepers than
    /// it can wake.
    pub(super) fn rest_from_serving(&mut self, id: QueueId) {
        let until = Millis(self.now.0.saturating_add(SERVING_REST_MS));
        self.queues[id].set_pause(Some(Pause { until, reason: PauseReason::Serving }));
        self.arm_queue(id);
    }

    /// Serves a session that waits for an item of one queue, in the mode that its request gave.
    /// Returns false if the session only peeked: then the job is still available.
    fn serve_reader(
        &mut self,
        slot: JobSlot,
        waiter: SessionId,
        how: ReadMode,
        effects: &mut Effects,
    ) -> bool {
        self.stop_waiting(waiter);
        self.count_hit(self.jobs[slot].queue());
        let handout = match how {
            ReadMode::Peek => {
                let body = self.jobs[slot].body();
                effects.events.push((waiter, Event::Peeked { job: slot, body }));
                return false;
            }
            ReadMode::Finish => self.hand_to_reader(slot, waiter, None, effects),
            ReadMode::Open { limit_ms } => self.open_read(slot, waiter, limit_ms, effects),
        };
        effects.events.push((waiter, Event::Granted(handout)));
        true
    }
}
