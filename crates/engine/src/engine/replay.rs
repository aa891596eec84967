//! Restores jobs and queues from the log, and adds jobs of other servers, before the first session
//! opens.

use super::Engine;
use crate::effects::{Effects, Record};
use crate::ids::{JobId, JobSlot, Millis, QueueId};
use crate::jobs::{Body, Job, JobBody, JobFacts, State, Tags};
use crate::limits::{JOB_ID_MAX, QUEUE_NAME_BYTES_MAX};
use crate::queues::QueueFacts;
use crate::queues::parent_of;
use crate::wall::When;

/// The log has impossible facts. Probably another program wrote the log.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RestoreError {
    /// The log has two jobs with this number.
    #[error("the log holds job {0} twice")]
    Duplicate(u64),
    /// Two jobs have the same place in a list of their queue. The value is the number of the second
    /// job.
    #[error(
        "the log holds two jobs at one place, the second is {0}; did another program write it?"
    )]
    SamePlace(u64),
    /// A job id or an order number is above the maximum.
    #[error("the log holds the number {0}, which is too high; did another program write it?")]
    Number(u64),
    /// A queue's name has this many bytes, and is too long.
    #[error(
        "the log holds a queue's name of {0} bytes, which is too long; did another program write it?"
    )]
    Name(usize),
    /// There are more jobs than the engine can count.
    #[error("the log holds more than {} jobs; did another program write it?", u32::MAX)]
    TooMany,
}

pub(super) fn check_number(number: u64) -> Result<(), RestoreError> {
    if number > JOB_ID_MAX { Err(RestoreError::Number(number)) } else { Ok(()) }
}

pub(super) fn check_name(name: &[u8]) -> Result<(), RestoreError> {
    if name.len() > QUEUE_NAME_BYTES_MAX { Err(RestoreError::Name(name.len())) } else { Ok(()) }
}

impl Engine {
    /// Restores a job from the log, at a start. A delayed job whose due time has passed becomes
    /// ready.
    pub fn restore(
        &mut self,
        queue: &[u8],
        facts: &JobFacts,
        tags: Option<Tags<'_>>,
        body: JobBody,
    ) -> Result<JobSlot, RestoreError> {
        check_name(queue)?;
        self.check_room_for(1)?;
        self.check_new(facts)?;
        let queue = self.own_queue_or_create(queue);
        let slot = self.insert_restored(queue, facts, tags, body);
        if self.has_same_place(slot) {
            self.forget_restored(slot);
            return Err(RestoreError::SamePlace(facts.id.0));
        }
        self.add_to_list(slot);
        self.sessions.raise_lease(self.jobs.next_id());
        Ok(slot)
    }

    /// Restores a cold job, after [`Engine::begin_load`]. The job is in no list before
    /// [`Engine::end_load`].
    pub fn load(
        &mut self,
        queue: QueueId,
        facts: &JobFacts,
        tags: Option<Tags<'_>>,
        body: JobBody,
    ) -> Result<JobSlot, RestoreError> {
        self.check_new(facts)?;
        let slot = self.insert_restored(queue, facts, tags, body);
        self.loaded.push((self.list_of(slot), self.jobs[slot].place(), slot));
        Ok(slot)
    }

    /// Adds the jobs of [`Engine::load`] to their lists. Calls `refused` with each job whose place
    /// another job has: another program wrote the log. The job is forgotten.
    pub(super) fn enlist_loaded(&mut self, refused: &mut dyn FnMut(JobSlot)) {
        let mut loaded = std::mem::take(&mut self.loaded);
        loaded.sort_unstable();
        let mut forgotten = Vec::new();
        for jobs in loaded.chunk_by(|(list, ..), (next, ..)| list == next) {
            let list = jobs[0].0;
            let mut places: Vec<((u64, u64), JobSlot)> = Vec::with_capacity(jobs.len());
            for (_, place, slot) in jobs {
                if places.last().is_some_and(|(last, _)| last == place) {
                    forgotten.push(*slot);
                } else {
                    places.push((*place, *slot));
                }
            }
            self.queues.add_all_to_list(list, &places, |slot| forgotten.push(slot));
            if list.state != State::Buried && self.lanes(&self.queues[list.queue]).is_some() {
                let known = places.iter().filter(|(_, slot)| !forgotten.contains(slot));
                known.for_each(|(_, slot)| self.enter_lane(*slot));
            }
            self.arm_queue(list.queue);
        }
        for slot in forgotten {
            self.forget_restored(slot);
            refused(slot);
        }
        loaded.clear();
        self.loaded = loaded;
    }

    fn has_same_place(&self, slot: JobSlot) -> bool {
        let job = &self.jobs[slot];
        let queue = &self.queues[job.queue()];
        match job.state() {
            State::Ready => queue.ready().contains(job.ready_key()),
            State::Buried => queue.buried().contains(job.buried_order()),
            // The place of a delayed job has its number.
            State::Delayed | State::Leased => false,
        }
    }

    pub(super) fn forget_restored(&mut self, slot: JobSlot) {
        let job = self.jobs.remove(slot);
        self.queues[job.queue()].count_out(job.counted());
    }

    /// Whether the engine can count this many more jobs. The owner refuses puts long before.
    pub(super) fn check_room_for(&self, jobs: u64) -> Result<(), RestoreError> {
        let is_countable = self.job_count() + jobs <= u32::MAX.into();
        is_countable.then_some(()).ok_or(RestoreError::TooMany)
    }

    /// Whether the numbers of a job are possible and new.
    fn check_new(&self, facts: &JobFacts) -> Result<(), RestoreError> {
        for number in [facts.id.0, facts.order, facts.buried_order] {
            check_number(number)?;
        }
        match self.jobs.find(facts.id) {
            Some(_) => Err(RestoreError::Duplicate(facts.id.0)),
            None => Ok(()),
        }
    }

    /// Adds a job of the log to the tables, but not to the list of its queue.
    fn insert_restored(
        &mut self,
        queue: QueueId,
        facts: &JobFacts,
        tags: Option<Tags<'_>>,
        body: JobBody,
    ) -> JobSlot {
        let (due, expires) = self.moments(facts);
        if expires.is_some() || facts.death.is_some() {
            self.ensure_extension(queue);
        }
        let overdue = facts.state == State::Delayed && due <= self.now;
        if overdue {
            self.came_due = self.now;
        }
        let is_ready = overdue || matches!(facts.state, State::Leased | State::Ready);
        let state = if is_ready { State::Ready } else { facts.state };
        let job = Job::restored(queue, facts, state, (due, expires), tags, body);
        self.jobs.use_numbers(&job);
        self.queues[job.queue()].count_in(job.counted());
        let slot = self.jobs.insert(job);
        if let Some(wall) = facts.wall {
            self.jobs.set_wall_time(slot, wall);
        }
        if let Some(key) = facts.key {
            self.jobs.set_unique_key(slot, key);
        }
        self.jobs.set_group_key(slot, facts.group);
        if let Some(fired) = facts.fired {
            self.crons.note_job(facts.id, fired);
        }
        if facts.death.is_some() {
            self.arm_queue(queue);
        }
        slot
    }

    /// Adds a job of another server, with all facts of the job. No limit of a policy applies,
    /// because the job existed before. The job enters only this queue, and not the other queues of
    /// a route.
    pub fn import(
        &mut self,
        queue: &[u8],
        facts: &JobFacts,
        tags: Option<Tags<'_>>,
        body: Body,
        effects: &mut Effects,
    ) -> Result<JobSlot, RestoreError> {
        // No entry of this server has put the job.
        let facts = JobFacts { fired: None, ..facts.clone() };
        let slot = self.restore(queue, &facts, tags, body.into())?;
        if tags.is_some() {
            // As after a submit, the queue stays in existence.
            self.keep(self.jobs[slot].queue(), effects);
        }
        self.note(Record::Put, slot, effects);
        Ok(slot)
    }

    /// Makes a queue of items, if it is missing.
    pub fn make_item_queue(&mut self, name: &[u8], effects: &mut Effects) {
        self.item_queue(name, effects);
    }

    /// The job that a submit with this key and body would join.
    pub fn joined(&self, queue: &[u8], unique: &[u8], body: &[u8]) -> Option<JobId> {
        let slot = self.find_unique(self.queue_id(queue)?, unique, body)?;
        Some(self.jobs[slot].id())
    }

    /// A number above the `buried_order` of every buried job.
    pub fn next_buried_order(&self) -> u64 {
        self.jobs.next_buried()
    }

    /// The due time and the expiry of a job. If the facts have a time of the wall clock, converts
    /// this time to a moment of the engine's time. Assumes that the present difference between the
    /// two clocks does not change.
    fn moments(&self, facts: &JobFacts) -> (Millis, Option<Millis>) {
        let moment = facts.wall.map(|wall| self.wall.moment_of(When::Wall(wall)));
        match (facts.expires, facts.state) {
            (Some(expires), _) => (facts.due, Some(moment.unwrap_or(expires))),
            (None, State::Delayed) => (moment.unwrap_or(facts.due), None),
            (None, State::Ready | State::Leased | State::Buried) => (facts.due, None),
        }
    }

    /// Restores the facts of a queue from the log. The caller must restore the queue's jobs first.
    /// This function ignores the facts if the queue has no jobs and the facts do not keep it in
    /// existence. Such a queue had vanished before the restart.
    pub fn restore_queue(&mut self, name: &[u8], facts: QueueFacts) -> Result<(), RestoreError> {
        check_name(name)?;
        let is_kept = facts.kept || facts.child && parent_of(name).is_some();
        if !is_kept && self.own_queue_id(name).is_none() {
            return Ok(());
        }
        self.set_queue_facts(name, facts);
        Ok(())
    }

    /// Makes the queue if it is missing, and sets its facts. But does not undo what is set already.
    pub(super) fn set_queue_facts(&mut self, name: &[u8], facts: QueueFacts) {
        let id = self.own_queue_or_create(name);
        self.queues[id].set_limits(facts.limits);
        if facts.kept {
            self.queues.set_kept(id, true);
        }
        if facts.items {
            self.ensure_extension(id).created = facts.created;
            self.mark(id);
        }
        if facts.child {
            self.link_child(id);
            self.queues.forget_unlogged_child(id);
        }
        self.arm_queue(id);
    }

    /// Makes sure that the number of every new job and lease is at least `next`. An earlier engine
    /// may have used the lower numbers.
    pub fn raise_numbers(&mut self, next: u64) -> Result<(), RestoreError> {
        check_number(next)?;
        self.jobs.raise_id(next);
        self.sessions.raise_lease(next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::Counters;

    #[test]
    fn impossible_facts_are_refused() {
        let facts = |id| JobFacts {
            id: JobId(id),
            created: Millis(1),
            due: Millis(0),
            priority: 0,
            ttr_s: 60,
            state: State::Ready,
            delay_s: 0,
            counters: Counters::default(),
            attempts: 0,
            death: None,
            order: id,
            buried_order: 0,
            expires: None,
            wall: None,
            key: None,
            group: None,
            fired: None,
        };
        let mut engine = Engine::new(crate::EngineSetup::default(), Millis(5), 1);
        let mut restore = |queue: &[u8], facts| {
            engine.restore(queue, &facts, None, JobBody::Resident(b""[..].into()))
        };
        let too_high = JOB_ID_MAX + 1;
        for broken in [
            facts(too_high),
            facts(u64::MAX),
            JobFacts { order: u64::MAX, ..facts(1) },
            JobFacts { buried_order: u64::MAX, ..facts(1) },
        ] {
            assert!(matches!(restore(b"q", broken), Err(RestoreError::Number(_))));
        }
        let long = vec![b'q'; QUEUE_NAME_BYTES_MAX + 1];
        assert_eq!(restore(&long, facts(1)), Err(RestoreError::Name(long.len())));
        assert!(restore(b"q", facts(1)).is_ok());
        assert_eq!(restore(b"q", facts(1)), Err(RestoreError::Duplicate(1)));
        let same = JobFacts { order: 1, ..facts(2) };
        assert_eq!(restore(b"q", same.clone()), Err(RestoreError::SamePlace(2)));
        assert!(restore(b"other", same).is_ok());
        let buried = |id| JobFacts { state: State::Buried, buried_order: 7, ..facts(id) };
        assert!(restore(b"q", buried(3)).is_ok());
        assert_eq!(restore(b"q", buried(4)), Err(RestoreError::SamePlace(4)));
        let name = engine.restore_queue(&long, QueueFacts::default());
        assert_eq!(name, Err(RestoreError::Name(long.len())));
        assert_eq!(engine.raise_numbers(too_high), Err(RestoreError::Number(too_high)));
        assert_eq!(engine.raise_numbers(JOB_ID_MAX), Ok(()));
    }

    #[test]
    fn facts_of_a_queue_that_ended_do_not_bring_it_back() {
        let mut engine = Engine::new(crate::EngineSetup::default(), Millis(5), 1);
        let facts = QueueFacts { limits: [1, 2, 3], items: true, ..QueueFacts::default() };
        for facts in [facts, QueueFacts { child: true, ..facts }] {
            assert_eq!(engine.restore_queue(b"ended", facts), Ok(()));
            engine.check_invariants();
            assert_eq!(engine.queue_id(b"ended"), None);
        }
        assert_eq!(engine.restore_queue(b"kept", QueueFacts { kept: true, ..facts }), Ok(()));
        assert_eq!(engine.restore_queue(b"a+b", QueueFacts { child: true, ..facts }), Ok(()));
        engine.check_invariants();
        assert!(engine.queue_id(b"kept").is_some() && engine.queue_id(b"a+b").is_some());
    }
}
