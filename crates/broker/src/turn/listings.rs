//! Lists of queues, jobs and registrations. A cursor reads most lists row by row.

use engine::{
    Body, Engine, JobBody, JobCursor, JobId, JobSlot, NameCursor, QueueCursor, QueueId, SessionId,
    Tags,
};

use crate::cold::loads::ColdLoad;
use crate::{Answer, Event, Turn};

/// A row in the listing of submitted jobs.
#[derive(Debug)]
pub struct SubmittedJob<'a> {
    /// The job's id.
    pub id: JobId,
    /// The job's tags.
    pub tags: Tags<'a>,
    /// How often a holder lost the job, for example because its lease ran out.
    pub failures: u32,
    /// Whether the job is in the log.
    pub is_durable: bool,
}

/// A leased job, for tests and the simulator.
#[derive(Debug)]
pub struct LeasedJob<'a> {
    /// The job's id.
    pub id: JobId,
    /// The name of the job's queue.
    pub queue: &'a [u8],
    /// The key of a submitted job, or empty.
    pub unique: &'a [u8],
    /// The body, if it is in memory.
    pub body: Option<Body>,
}

/// # Listings
impl Turn<'_> {
    /// The id of the queue of this name, or else of the queue that this name stands for (see the policy
    /// `same_as`), if it exists. The id of a removed queue can be used again.
    /// If events of two queues are due at the same moment, the event of the queue with the lower id
    /// comes first.
    pub fn queue_id(&self, name: &[u8]) -> Option<QueueId> {
        self.core.engine.shown_queue_id(name)
    }

    /// The id of the queue that this name stands for, if it exists. Requests about the name are about
    /// this queue, even while a queue of the name itself still exists.
    pub fn real_queue_id(&self, name: &[u8]) -> Option<QueueId> {
        self.core.engine.queue_id(name)
    }

    /// See [`engine::Engine::free_queue_ids`]. For the simulator.
    pub fn free_queue_ids(&self) -> impl Iterator<Item = QueueId> {
        self.core.engine.free_queue_ids()
    }

    /// The name of the queue that [`Turn::queue_id`] finds. If it finds none, `name` itself.
    pub fn shown_name(&self, name: &[u8]) -> Vec<u8> {
        let queue = self.queue_id(name);
        queue.map_or(name, |queue| self.queue_name(queue)).to_vec()
    }

    /// The name of a queue.
    pub fn queue_name(&self, queue: QueueId) -> &[u8] {
        self.core.engine.queue_name(queue)
    }

    /// Names of all queues, oldest queue first. Reading all names delays all clients, because the
    /// turn holds the lock. So a server reads only the first few names with this function, and
    /// calls [`Turn::next_queue`] for longer lists. Tests and the simulator can read all names.
    pub fn queue_names(&self) -> impl Iterator<Item = &[u8]> {
        let engine = &self.core.engine;
        engine.queue_ids().map(|queue| engine.queue_name(queue))
    }

    /// Moves the cursor to the next queue, oldest first, and returns that queue.
    pub fn next_queue(&mut self, cursor: &mut QueueCursor) -> Option<QueueId> {
        self.core.engine.next_queue(cursor)
    }

    /// Queues whose names equal this name, ignoring ASCII case, oldest first.
    pub fn queues_alike(&mut self, name: &[u8]) -> Vec<QueueId> {
        self.core.engine.queues_alike(name)
    }

    /// The sorted names of all aliases, and of all queues that a Kestrel client created or used.
    /// Returns all names at once, so it is only for tests and for programs that embed the broker.
    pub fn item_queues(&self) -> Vec<&[u8]> {
        self.core.engine.item_queues()
    }

    /// Moves the cursor to the next queue of items or the next alias, and returns the name.
    pub fn next_item_queue<'c>(&mut self, cursor: &'c mut NameCursor) -> Option<&'c [u8]> {
        self.core.engine.next_item_queue(cursor)
    }

    /// Moves the cursor to the next submitted job, and returns that job.
    pub fn next_submitted(&mut self, cursor: &mut JobCursor) -> Option<SubmittedJob<'_>> {
        let engine = &mut self.core.engine;
        let slot = engine.next_submitted(cursor)?;
        Some(SubmittedJob::at(engine, slot))
    }

    /// The body of a job, for tests and the simulator. If the body is only in the log, reads it
    /// there.
    pub fn body(&self, id: JobId) -> Option<Body> {
        let engine = &self.core.engine;
        let slot = engine.slot(id).ok()?;
        match engine.body(slot) {
            JobBody::Stored(_) => self.shared.read_body(self.core.ledger.locations.get(slot)?),
            body => body.resident().cloned(),
        }
    }

    /// Loads the jobs and bodies that sessions and queues wait for, while this turn holds the lock.
    /// Returns whether it loaded jobs. Only for the simulator. In a server, a thread loads them
    /// without the lock.
    pub fn load_now(&mut self) -> bool {
        let core = &mut *self.core;
        let mut has_loaded = false;
        if let Some(log) = &self.shared.log {
            loop {
                for list in core.engine.take_wanted() {
                    core.loads.add_cold(ColdLoad::List(list));
                }
                let Some(load) = core.loads.take_cold() else { break };
                let reader = &mut self.shared.reader();
                self.shared.load_cold(load, log, reader, &mut |act| act(core));
                has_loaded = true;
            }
        }
        self.load_bodies_now();
        has_loaded
    }

    /// Loads the bodies that sessions wait for. Only for the simulator.
    pub fn load_bodies_now(&mut self) {
        let core = &mut *self.core;
        while self.shared.load_for_sessions(|with_core| with_core(core)) {}
    }

    /// Loads all cold jobs. Only for the simulator, which compares all jobs.
    pub fn load_all_now(&mut self) {
        let core = &mut *self.core;
        let Some(log) = &self.shared.log else { return };
        let queues: Vec<QueueId> = core.engine.queue_ids().collect();
        for queue in queues {
            while let Some(list) = core.engine.first_cold_list(queue) {
                let before = core.engine.cold_jobs();
                let reader = &mut self.shared.reader();
                let load = ColdLoad::List(list);
                self.shared.load_cold(load, log, reader, &mut |act| act(core));
                if core.engine.cold_jobs() == before {
                    // The disk has failed.
                    break;
                }
            }
        }
    }

    /// Takes the event of this turn that a session waits for, if it has come. Only for the
    /// simulator: a load that a request waits for ends within the request.
    pub fn take_outcome(&mut self, session: SessionId) -> Option<Answer<Event>> {
        let is_outcome = |event: &Event| !matches!(event, Event::News { .. } | Event::WorkToDo);
        let outgoing = &mut self.core.outgoing;
        let found = outgoing
            .iter()
            .position(|(_, of, event)| *of == session && is_outcome(&event.value))?;
        Some(outgoing.remove(found).2)
    }

    /// Whether a session waits for an event of the engine. Only for the simulator.
    pub fn is_waiting(&self, session: SessionId) -> bool {
        self.core.engine.mailbox(session).is_some() && self.core.engine.is_waiting(session)
    }

    /// Whether a session waits for the end of a flush or of the removal of a queue. Only for the
    /// simulator.
    pub fn is_clearing(&self, session: SessionId) -> bool {
        self.core.engine.mailbox(session).is_some() && self.core.engine.is_clearing(session)
    }

    /// All submitted jobs, for tests and the simulator.
    pub fn submitted_jobs(&self) -> impl Iterator<Item = SubmittedJob<'_>> {
        let engine = &self.core.engine;
        engine.submitted_jobs().map(|slot| SubmittedJob::at(engine, slot))
    }

    /// All leased jobs, for tests and the simulator.
    pub fn leased_jobs(&self) -> impl Iterator<Item = LeasedJob<'_>> {
        let engine = &self.core.engine;
        engine.leased_jobs().map(|slot| LeasedJob {
            id: engine.facts(slot).id,
            queue: engine.queue_name(engine.queue_of(slot)),
            unique: engine.tags(slot).map_or(&[], |tags| tags.unique),
            body: engine.body(slot).resident().cloned(),
        })
    }

    /// No job has this number or a higher one. For tests and the simulator.
    pub fn next_job_id(&self) -> JobId {
        self.core.engine.next_job_id()
    }

    /// Names of the queues that a session is registered for, newest first, once per registration.
    pub fn registrations(&self, session: SessionId) -> impl Iterator<Item = &[u8]> {
        let engine = &self.core.engine;
        engine.registrations(session).map(move |queue| engine.registered_name(session, queue))
    }

    /// Returns a registration of the session: the name under which it has registered, and the registration's rank. If
    /// `behind` is `None`, returns the registration with the highest rank. Otherwise returns the
    /// registration with the highest rank below `behind`.
    pub fn next_registration(
        &mut self,
        session: SessionId,
        behind: Option<i64>,
    ) -> Option<(&[u8], i64)> {
        let engine = &mut self.core.engine;
        let (queue, rank) = engine.next_registration(session, behind)?;
        Some((engine.registered_name(session, queue), rank))
    }
}

impl<'a> SubmittedJob<'a> {
    fn at(engine: &'a Engine, slot: JobSlot) -> Self {
        Self {
            id: engine.id_of(slot),
            tags: engine.tags(slot).unwrap_or_default(),
            failures: engine.facts(slot).counters.failures,
            is_durable: engine.is_durable(slot),
        }
    }
}
