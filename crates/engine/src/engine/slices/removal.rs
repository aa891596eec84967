//! Removes queues. First the jobs of the queue end, in slices. Then the queue vanishes if it has no
//! new jobs and no users.
//!
//! During its removal, a queue hands out no jobs. Jobs that clients put during the removal stay, as
//! in a new queue of the same name. So do jobs that come from other queues, for example dead letters:
//! a move counts as a put. The order number of a job shows when it was put or moved.

use crate::chores::{Chore, Next, NextJob, RemovalWork};
use crate::effects::{Effects, Event, News, Record};
use crate::engine::{Clearing, Engine, NotFound};
use crate::ids::{JobSlot, QueueId, SessionId};
use crate::jobs::{JobList, State};
use crate::limits::UNIT_COMPARISONS;
use crate::milestones::JobEnd;
use crate::queues::{DEFAULT_QUEUE, Extension};
use crate::sessions::Waiting;

/// Units of work to remove an idle queue. The cost is more than one unit, because a queue is in
/// several tables and trees.
const IDLE_REMOVAL_UNITS: usize = 4;

impl Engine {
    /// Removes a queue that has no workers and no leased jobs. The jobs of the queue end, and their
    /// watchers get the news that the jobs failed. `None`: the queue has workers or leased jobs, so
    /// it stays.
    pub fn drop_queue(
        &mut self,
        session: SessionId,
        name: &[u8],
        effects: &mut Effects,
    ) -> Result<Option<Clearing>, NotFound> {
        let id = self.queue_id(name).ok_or(NotFound)?;
        let queue = &self.queues[id];
        if queue.workers() > 0 || queue.counts().leased > 0 {
            return Ok(None);
        }
        Ok(Some(self.remove_queue_of(session, id, effects)))
    }

    /// Removes a queue. All its jobs end, including leased jobs. All waits for an item of the queue
    /// end, too. If sessions still use or watch the queue, the empty queue stays. Does nothing if
    /// the name is an alias or the queue does not exist.
    pub fn remove_queue(
        &mut self,
        session: SessionId,
        name: &[u8],
        effects: &mut Effects,
    ) -> Clearing {
        match self.queue_id(name).filter(|_| self.alias(name).is_none()) {
            Some(id) => self.remove_queue_of(session, id, effects),
            None => Clearing::Done,
        }
    }

    /// Whether a removal of this queue is in progress.
    pub fn is_being_removed(&self, queue: QueueId) -> bool {
        self.queues[queue].removals() > 0
    }

    /// Like [`Engine::remove_queue`], for this queue.
    pub fn remove_queue_of(
        &mut self,
        session: SessionId,
        id: QueueId,
        effects: &mut Effects,
    ) -> Clearing {
        debug_assert!(!self.is_waiting(session));
        self.meter.begin_request();
        let work = self.begin_removal(id);
        let end = work.end();
        let mut chore = Chore::Remove { session, work };
        if !self.step(&mut chore, effects) {
            return Clearing::Done;
        }
        self.ensure_extension(id).set_removal_end(end);
        self.sessions.begin_wait(session, Waiting::Clearing);
        self.chores.push(chore);
        Clearing::Waiting
    }

    /// Begins a removal. From now on, the queue is no longer a queue of items, and no longer a
    /// child. The engine pushes the record for the log only at the end of the removal. So if the
    /// process crashes before, the restart restores the queue as it was, with its remaining jobs.
    fn begin_removal(&mut self, id: QueueId) -> RemovalWork {
        if self.queues[id].extension().is_some_and(Extension::items) {
            self.tally.item_queue_deletes += 1;
        }
        self.queues.unmark(id);
        let queue = &mut self.queues[id];
        queue.begin_removal();
        // The queue `default` always exists. A queue with workers also stays, until a removal finds
        // it without workers.
        let is_kept = queue.name() == DEFAULT_QUEUE || queue.workers() > 0;
        queue.set_limits([0; 3]);
        self.queues.set_kept(id, is_kept);
        RemovalWork::new(id, self.jobs.next_id(), self.sessions.next_ticket())
    }

    /// Ends waits for an item of this queue, beginning with the ticket `from`. A session that waits
    /// for jobs of its watched queues stays in line. Returns the ticket to continue with. `None`:
    /// all these waits are over.
    fn send_readers_away(
        &mut self,
        work: &RemovalWork,
        from: u64,
        effects: &mut Effects,
    ) -> Option<u64> {
        let mut from = from;
        loop {
            let (ticket, place) = self.queues[work.queue()].waiters().first_from(from)?;
            if !work.covers_ticket(ticket) {
                return None;
            }
            if self.meter.request_is_spent() {
                return Some(ticket);
            }
            self.meter.count(1);
            from = ticket + 1;
            let session = self.sessions.at(place);
            if matches!(self.sessions[session].waiting(), Some(Waiting::Item { .. })) {
                self.stop_waiting(session);
                effects.events.push((session, Event::NoItem(None)));
            }
        }
    }

    /// Does one slice of a removal. Returns true if work is left.
    pub(in crate::engine) fn removal_slice(
        &mut self,
        work: &mut RemovalWork,
        effects: &mut Effects,
    ) -> bool {
        let mut jobs_left = self.meter.step_jobs();
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
            match self.end_leased(work.queue(), from, &mut jobs_left, effects) {
                Some(from) => {
                    work.next = Next::Leased(from);
                    return true;
                }
                None => work.begin_pass(&self.queues[work.queue()]),
            }
        }
        while jobs_left > 0 && !self.meter.request_is_spent() {
            jobs_left -= 1;
            self.meter.count(1);
            let slot = match work.next_of_lists(&self.queues[work.queue()]) {
                Some(NextJob::Resident(slot)) => slot,
                Some(NextJob::Cold(state)) => {
                    self.rest_for_load(JobList { queue: work.queue(), state });
                    return true;
                }
                None if work.may_have_missed(&self.queues[work.queue()]) => {
                    work.begin_pass(&self.queues[work.queue()]);
                    continue;
                }
                None => {
                    self.end_removal(work.queue(), effects);
                    return false;
                }
            };
            if work.covers(self.jobs[slot].order()) {
                self.end_job(slot, JobEnd::Flushed, &News::Fail, effects);
            }
        }
        true
    }

    /// Ends the leased jobs of a queue, beginning at the place `from` in the table of jobs. Returns
    /// the place to continue with. `None`: the queue has no leased job any more.
    fn end_leased(
        &mut self,
        id: QueueId,
        from: u32,
        jobs_left: &mut u32,
        effects: &mut Effects,
    ) -> Option<u32> {
        let end = self.jobs.end();
        for place in from..end {
            if self.queues[id].counts().leased == 0 {
                return None;
            }
            if *jobs_left == 0 || self.meter.request_is_spent() {
                return Some(place);
            }
            if (place as usize).is_multiple_of(UNIT_COMPARISONS) {
                self.meter.count(1);
            }
            let job = self.jobs.get(JobSlot(place));
            if job.is_some_and(|job| job.queue() == id && job.state() == State::Leased) {
                *jobs_left -= 1;
                self.end_job(JobSlot(place), JobEnd::Flushed, &News::Fail, effects);
            }
        }
        None
    }

    /// Ends a removal after all old jobs and waits of the queue have ended.
    fn end_removal(&mut self, id: QueueId, effects: &mut Effects) {
        self.queues[id].end_removal();
        if self.queues[id].is_wanted() {
            // The queue stays. If a rule makes it a child, it becomes a child again.
            self.resolve(id);
        }
        let queue = &self.queues[id];
        let record = if queue.is_kept() {
            Record::QueueFacts(id)
        } else {
            Record::QueueDropped(id, (*queue.name()).into())
        };
        effects.records.push(record);
        // Waiters can now get the jobs that were put during the removal.
        self.serve_waiters(id, effects);
        self.drop_if_unwanted(id, effects);
    }

    /// Removes a queue if it is idle: empty, unused, and older than its policy allows. The removal
    /// is done at once, because it has no jobs or waits to end.
    pub(in crate::engine) fn remove_if_idle(&mut self, id: QueueId, effects: &mut Effects) {
        if self.queues[id].idle_ends().is_some_and(|at| at <= self.now) {
            self.meter.count(IDLE_REMOVAL_UNITS);
            self.tally.idle_queue_deletes += 1;
            self.begin_removal(id);
            self.end_removal(id, effects);
        }
    }
}
