//! Emptying queues and removing them.

use crate::chores::Chore;
use crate::effects::{Effects, Happening, News, Record};
use crate::engine::{DEFAULT_QUEUE, Engine, NotFound};
use crate::ids::{JobSlot, QueueId, SessionId};
use crate::limits::SLICE_JOBS_MAX;
use crate::policy::Name;
use crate::session::Waiting;

/// What a flush leads to at once.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Flush {
    /// It is done.
    Done,
    /// It goes on in slices; [`Happening::Flushed`] will come.
    Waiting,
}

/// How far a flush is.
#[derive(Debug)]
pub(crate) struct FlushWork {
    /// After this queue comes the next one by name.
    all: bool,
    queue: Name,
    /// Ready jobs that the queue had when its turn came, and has no more: what is put meanwhile
    /// need not go.
    left: u64,
}

impl Engine {
    /// Ends all ready jobs of a queue. Those that expired go where they would have gone.
    pub fn flush(&mut self, session: SessionId, name: &[u8], effects: &mut Effects) -> Flush {
        let Some(left) = self.begin_flush(name) else { return Flush::Done };
        let work = FlushWork { all: false, queue: name.into(), left };
        self.start_flush(session, work, effects)
    }

    /// The same for all queues of items.
    pub fn flush_all(&mut self, session: SessionId, effects: &mut Effects) -> Flush {
        let Some(queue) = self.special.item_queues.keys().next().cloned() else {
            return Flush::Done;
        };
        let left = self.begin_flush(&queue).unwrap_or_default();
        self.start_flush(session, FlushWork { all: true, queue, left }, effects)
    }

    fn begin_flush(&mut self, name: &[u8]) -> Option<u64> {
        if self.alias(name).is_some() {
            // It hides a queue of its name.
            return None;
        }
        let id = self.queue_id(name)?;
        let queue = self.queue_mut(id);
        if let Some(extra) = &mut queue.extra {
            extra.flushes += 1;
        }
        Some(queue.counts.ready)
    }

    fn start_flush(&mut self, session: SessionId, work: FlushWork, effects: &mut Effects) -> Flush {
        debug_assert!(!self.is_waiting(session));
        let mut chore = Chore::Flush { session, work };
        if !self.step(&mut chore, effects) {
            return Flush::Done;
        }
        self.open_mut(session).waiting = Some(Waiting::Flush);
        self.chores.push_back(chore);
        Flush::Waiting
    }

    /// One slice of a flush; true if something is left.
    pub(crate) fn flush_slice(&mut self, work: &mut FlushWork, effects: &mut Effects) -> bool {
        let mut budget = SLICE_JOBS_MAX as u64;
        loop {
            let (slice, queue) = (work.left.min(budget), self.queue_id(&work.queue));
            let done = queue.map_or(0, |id| self.flush_some(id, slice, effects));
            work.left = if done < slice { 0 } else { work.left - done };
            if work.left > 0 {
                return true;
            }
            if !work.all {
                return false;
            }
            let after = (std::ops::Bound::Excluded(&*work.queue), std::ops::Bound::Unbounded);
            let next = self.special.item_queues.range::<[u8], _>(after).next();
            let Some((next, _)) = next else { return false };
            work.queue.clone_from(next);
            work.left = self.begin_flush(&work.queue.clone()).unwrap_or_default();
            budget = budget.saturating_sub(done + 1);
            if budget == 0 {
                return true;
            }
        }
    }

    /// Ends up to `max` ready jobs of a queue; how many there were.
    fn flush_some(&mut self, id: QueueId, max: u64, effects: &mut Effects) -> u64 {
        self.queue_mut(id).users += 1;
        let mut count = 0;
        while count < max
            && let Some((_, slot)) = self.queue(id).ready.first()
        {
            if self.is_expired(JobSlot(slot)) {
                self.expire(JobSlot(slot), effects);
            } else {
                self.end_job(JobSlot(slot), &News::Fail, effects);
            }
            count += 1;
        }
        self.queue_mut(id).users -= 1;
        self.drop_if_unwanted(id, effects);
        count
    }

    /// Removes a queue that nobody works on: its jobs end, their watchers hear that they failed.
    /// `false`: it has workers, or jobs in somebody's hands.
    pub fn drop_queue(&mut self, name: &[u8], effects: &mut Effects) -> Result<bool, NotFound> {
        let id = self.queue_id(name).ok_or(NotFound)?;
        let queue = self.queue(id);
        if queue.workers > 0 || queue.counts.leased > 0 {
            return Ok(false);
        }
        self.remove(id, effects);
        Ok(true)
    }

    /// Removes a queue: its jobs end, also those in somebody's hands, and whoever waits for an item
    /// of it waits no more. What other dialects' sessions use or watch stays, empty. Nothing happens
    /// to an alias, or without such a queue.
    pub fn remove_queue(&mut self, name: &[u8], effects: &mut Effects) {
        let Some(id) = self.queue_id(name).filter(|_| self.alias(name).is_none()) else { return };
        if self.queue(id).counts.leased > 0 {
            for slot in self.leased_in(id) {
                self.end_in(id, slot, effects);
            }
        }
        self.remove(id, effects);
    }

    /// All jobs of a queue that somebody holds. There is no list of them: whoever removes a queue
    /// with open reads looks through what all sessions hold.
    fn leased_in(&self, id: QueueId) -> Vec<JobSlot> {
        let held = self.sessions.iter().flat_map(|(_, session)| session.leases.iter());
        let mut slots: Vec<JobSlot> = held
            .map(|(_, slot)| JobSlot(slot))
            .filter(|slot| self.job(*slot).queue == id)
            .collect();
        for chore in &self.chores {
            if let Chore::Return { held, .. } = chore {
                let valid = held.iter().filter(|held| self.is_still_held(held));
                slots
                    .extend(valid.map(|held| held.slot).filter(|slot| self.job(*slot).queue == id));
            }
        }
        // A heap has its own order; ours is that of the jobs.
        slots.sort_unstable_by_key(|slot| self.job(*slot).id);
        slots
    }

    /// Removes a queue none of whose jobs is in somebody's hands.
    fn remove(&mut self, id: QueueId, effects: &mut Effects) {
        self.send_readers_away(id, effects);
        let queue = self.queue(id);
        let ready = queue.ready.iter().map(|(_, slot)| slot);
        let delayed = queue.delayed.iter().map(|(_, slot)| slot);
        let buried = queue.buried.iter().map(|(_, slot)| slot);
        let slots: Vec<u32> = ready.chain(delayed).chain(buried).collect();
        // Held while its jobs go, so that it goes once, at the end.
        self.queue_mut(id).users += 1;
        for slot in slots {
            self.end_job(JobSlot(slot), &News::Fail, effects);
        }
        if self.queue(id).extra.as_ref().is_some_and(|extra| extra.items) {
            self.special.queue_deletes += 1;
        }
        self.unmark(id);
        let queue = self.queue_mut(id);
        queue.users -= 1;
        // `default` is always there, and a queue that has workers until somebody drops it again.
        queue.kept = &*queue.name == DEFAULT_QUEUE || queue.workers > 0;
        queue.limits = [0; 3];
        let record = if queue.kept {
            Record::QueueFacts(id)
        } else {
            Record::QueueDropped(id, (*queue.name).into())
        };
        effects.records.push(record);
        self.drop_if_unwanted(id, effects);
    }

    /// Ends the waits of sessions that wait for an item of this queue, and of no other.
    fn send_readers_away(&mut self, id: QueueId, effects: &mut Effects) {
        let places: Vec<u32> = self.queue(id).waiters.iter().map(|(_, place)| place).collect();
        for place in places {
            let session = self.session_at(place);
            if matches!(self.session(session).waiting, Some(Waiting::Item { .. })) {
                self.stop_waiting(session);
                effects.happenings.push((session, Happening::NoneCame(None)));
            }
        }
    }

    /// Removes a queue that is older than its policy lets an empty one be, unless somebody uses it.
    pub(crate) fn remove_if_idle(&mut self, id: QueueId, effects: &mut Effects) {
        if self.queue(id).idle_ends().is_some_and(|at| at <= self.now) {
            self.special.queue_expires += 1;
            self.remove(id, effects);
        }
    }
}
