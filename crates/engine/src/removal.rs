//! Removing queues: their jobs end, in slices, and then the queue goes, unless something came anew.
//!
//! While it is removed a queue hands out nothing. What is put into it meanwhile stays, as if it were
//! put into a new queue of its name.

use crate::chores::Chore;
use crate::effects::{Effects, Happening, News, Record};
use crate::engine::{DEFAULT_QUEUE, Engine, NotFound};
use crate::flush::Clearing;
use crate::ids::{JobId, JobSlot, Millis, QueueId, SessionId};
use crate::jobs::State;
use crate::limits::UNIT_COMPARISONS;
use crate::queue::ReadyKey;
use crate::session::Waiting;

/// How far the removal of a queue is.
#[derive(Debug)]
pub(crate) struct RemovalWork {
    queue: QueueId,
    /// Jobs from this number on were put later, and stay, …
    end: JobId,
    /// … and sessions with tickets from this one on came later.
    tickets_end: u64,
    next: Next,
}

/// Where the next job is looked for. None of the queue's jobs is handed out meanwhile, so none of the
/// old ones comes back to where it was looked for already.
#[derive(Debug)]
enum Next {
    /// Among sessions that wait, from this ticket on.
    Waiting(u64),
    /// Among those that somebody holds: from this place of the table of all jobs on, since there is
    /// no list of them.
    Leased(u32),
    /// From here on in the lists.
    Buried(u64),
    Delayed((Millis, u64)),
    Ready(ReadyKey),
}

impl RemovalWork {
    pub(crate) fn queue(&self) -> QueueId {
        self.queue
    }
}

impl Engine {
    /// Removes a queue that nobody works on: its jobs end, their watchers hear that they failed.
    /// `None`: it has workers, or jobs in somebody's hands.
    pub fn drop_queue(
        &mut self,
        session: SessionId,
        name: &[u8],
        effects: &mut Effects,
    ) -> Result<Option<Clearing>, NotFound> {
        let id = self.queue_id(name).ok_or(NotFound)?;
        let queue = self.queue(id);
        if queue.workers > 0 || queue.counts.leased > 0 {
            return Ok(None);
        }
        Ok(Some(self.remove(session, id, effects)))
    }

    /// Removes a queue: its jobs end, also those in somebody's hands, and whoever waits for an item
    /// of it waits no more. What other dialects' sessions use or watch stays, empty. Nothing happens
    /// to an alias, or without such a queue.
    pub fn remove_queue(
        &mut self,
        session: SessionId,
        name: &[u8],
        effects: &mut Effects,
    ) -> Clearing {
        match self.queue_id(name).filter(|_| self.alias(name).is_none()) {
            Some(id) => self.remove(session, id, effects),
            None => Clearing::Done,
        }
    }

    /// Whether the removal of a queue has begun and is not over.
    pub fn is_being_removed(&self, queue: QueueId) -> bool {
        self.queue(queue).removals > 0
    }

    fn remove(&mut self, session: SessionId, id: QueueId, effects: &mut Effects) -> Clearing {
        debug_assert!(!self.is_waiting(session));
        self.meter.begin_request();
        let work = self.begin_removal(id);
        let mut chore = Chore::Remove { session, work };
        if !self.step(&mut chore, effects) {
            return Clearing::Done;
        }
        self.open_mut(session).waiting = Some(Waiting::Clearing);
        self.chores.push_back(chore);
        Clearing::Waiting
    }

    /// A queue is no queue of items, and no child, any more; it exists while it is removed. The log
    /// learns of this at the end: after a crash in between it is what it was, with what is left.
    fn begin_removal(&mut self, id: QueueId) -> RemovalWork {
        if self.queue(id).extra.as_ref().is_some_and(|extra| extra.items) {
            self.special.queue_deletes += 1;
        }
        self.unmark(id);
        let queue = self.queue_mut(id);
        queue.removals += 1;
        // `default` is always there, and a queue that has workers until somebody drops it again.
        let is_kept = &*queue.name == DEFAULT_QUEUE || queue.workers > 0;
        queue.limits = [0; 3];
        self.set_kept(id, is_kept);
        let (end, tickets_end) = (JobId(self.jobs.next_id()), self.next_ticket);
        RemovalWork { queue: id, end, tickets_end, next: Next::Waiting(0) }
    }

    /// Ends the waits of sessions that wait for an item of this queue, and of no other: those with tickets
    /// from this one on. `None`: nobody is left; else the ticket to go on with.
    fn send_readers_away(
        &mut self,
        work: &RemovalWork,
        from: u64,
        effects: &mut Effects,
    ) -> Option<u64> {
        let mut from = from;
        loop {
            let (ticket, place) = self.queue(work.queue).waiters.first_from(from)?;
            if ticket >= work.tickets_end {
                return None;
            }
            if self.meter.request_is_spent() {
                return Some(ticket);
            }
            self.meter.count(1);
            from = ticket + 1;
            let session = self.session_at(place);
            if matches!(self.session(session).waiting, Some(Waiting::Item { .. })) {
                self.stop_waiting(session);
                effects.happenings.push((session, Happening::NoneCame(None)));
            }
        }
    }

    /// One slice of a removal; true if something is left.
    pub(crate) fn removal_slice(&mut self, work: &mut RemovalWork, effects: &mut Effects) -> bool {
        if let Next::Waiting(from) = work.next {
            match self.send_readers_away(work, from, effects) {
                Some(from) => {
                    work.next = Next::Waiting(from);
                    return true;
                }
                None => work.next = Next::Leased(0),
            }
        }
        if let Next::Leased(from) = work.next {
            match self.end_leased(work.queue, from, effects) {
                Some(from) => {
                    work.next = Next::Leased(from);
                    return true;
                }
                None => work.next = Next::Buried(0),
            }
        }
        let mut jobs_left = self.meter.step_jobs();
        while jobs_left > 0 && !self.meter.request_is_spent() {
            jobs_left -= 1;
            self.meter.count(1);
            let Some(slot) = self.next_of_lists(work) else {
                self.end_removal(work.queue, effects);
                return false;
            };
            if self.jobs[slot].id() < work.end {
                self.end_job(slot, &News::Fail, effects);
            }
        }
        true
    }

    /// Ends jobs of a queue that somebody holds, at places from this one on. `None`: it has none any
    /// more; else the place to go on with.
    fn end_leased(&mut self, id: QueueId, from: u32, effects: &mut Effects) -> Option<u32> {
        let end = self.jobs.end();
        for place in from..end {
            if self.queue(id).counts.leased == 0 {
                return None;
            }
            if self.meter.request_is_spent() {
                return Some(place);
            }
            if (place as usize).is_multiple_of(UNIT_COMPARISONS) {
                self.meter.count(1);
            }
            let job = self.jobs.get(JobSlot(place));
            if job.is_some_and(|job| job.queue() == id && job.state() == State::Leased) {
                self.end_job(JobSlot(place), &News::Fail, effects);
            }
        }
        None
    }

    /// The next job in the lists of a queue, which is passed by that.
    fn next_of_lists(&self, work: &mut RemovalWork) -> Option<JobSlot> {
        let queue = self.queue(work.queue);
        loop {
            match &mut work.next {
                Next::Waiting(_) | Next::Leased(_) => work.next = Next::Buried(0),
                Next::Buried(from) => {
                    if let Some((order, slot)) = queue.buried.first_from(*from) {
                        *from = order + 1;
                        return Some(JobSlot(slot));
                    }
                    work.next = Next::Delayed((Millis(0), 0));
                }
                Next::Delayed(from) => {
                    if let Some(((due, id), slot)) = queue.delayed.first_from(*from) {
                        *from = (due, id + 1);
                        return Some(JobSlot(slot));
                    }
                    work.next = Next::Ready((0, 0));
                }
                Next::Ready(from) => {
                    let ((rank, order), slot) = queue.ready.first_from(*from)?;
                    *from = (rank, order + 1);
                    return Some(JobSlot(slot));
                }
            }
        }
    }

    /// Nothing is left of what a queue had when its removal began.
    fn end_removal(&mut self, id: QueueId, effects: &mut Effects) {
        self.queue_mut(id).removals -= 1;
        if self.queue(id).is_wanted() {
            // It stays, so a rule that makes a child of it does so again.
            self.resolve(id);
        }
        let queue = self.queue(id);
        let record = if queue.kept {
            Record::QueueFacts(id)
        } else {
            Record::QueueDropped(id, (*queue.name).into())
        };
        effects.records.push(record);
        if !self.queue(id).is_paused() {
            // What came meanwhile was not handed out.
            self.serve_waiters(id, effects);
        }
        self.drop_if_unwanted(id, effects);
    }

    /// Removes a queue that is older than its policy lets an empty one be, unless somebody uses it.
    pub(crate) fn remove_if_idle(&mut self, id: QueueId, effects: &mut Effects) {
        if self.queue(id).idle_ends().is_some_and(|at| at <= self.now) {
            self.special.queue_expires += 1;
            self.meter.begin_request();
            let mut work = self.begin_removal(id);
            let is_left = self.removal_slice(&mut work, effects);
            assert!(!is_left, "an idle queue is empty");
        }
    }
}
