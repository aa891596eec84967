//! Applies the groups of a leader to the folder and the engine of a follower.

use std::collections::HashSet;

use engine::policy::Rules;
use engine::{Body, JobBody, JobId, JobSlot, Millis, QueueFacts, Record, Status};
use log::{Meta, QueueRef};
use replica::group::{At, SealedGroup};

use crate::Broker;
use crate::core::Core;
use crate::journal::Mark;
use crate::journal::fact::{Fact, FactError, FactReader};
use crate::journal::state_hash::job_hash;
use crate::journal::stream::Gathering;
use crate::ledger::locations::Location;
use crate::ledger::{meta, queue_ref};

/// An entry of the log needs at most this many bytes more than its fact.
const ENTRY_BYTES_MORE: u64 = 32;

/// Why a follower cannot apply a group.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The log has no room for the group now. The follower must try again later.
    #[error("the data folder has no room for group {0}")]
    Full(u64),
    /// The group does not follow the last group of this node.
    #[error("group {found} does not follow group {last} of this node")]
    Order {
        /// The last group of this node.
        last: u64,
        /// The number of the group.
        found: u64,
    },
    /// A newer version wrote the group. This node must be upgraded first.
    #[error(transparent)]
    Unknown(#[from] FactError),
    /// A newer version wrote a job of the group. This node must be upgraded first.
    #[error(transparent)]
    Meta(#[from] meta::UnknownMeta),
    /// A job that the group changes is in a damaged part of this node's folder. The node needs a
    /// copy of another node's folder.
    #[error("job {0} is in a damaged part of the data folder")]
    Damaged(u64),
    /// This node has not the same jobs as the leader. The group is not written to the folder. The
    /// node must stop, and must not be used before somebody has looked at it.
    #[error("this node differs from the leader at group {number}: {what}")]
    Diverged {
        /// The number of the group.
        number: u64,
        /// What differs.
        what: &'static str,
    },
}

impl Broker {
    /// Applies the next group of the leader to the engine and the log. When the function returns,
    /// the group is in the log's open batch: see [`crate::Stream::durable`]. After an error other than
    /// [`ApplyError::Full`], the broker must not be used any more.
    ///
    /// # Panics
    ///
    /// The broker is not that of a follower.
    pub fn apply(&self, group: &SealedGroup) -> Result<At, ApplyError> {
        let stream = self.stream().expect("only the node of a cluster applies groups");
        assert!(!stream.leads(), "a leader applies no groups");
        let at = stream.at();
        if group.number != at.number + 1 || group.before != at.chain {
            return Err(ApplyError::Order { last: at.number, found: group.number });
        }
        let log = self.shared.log.as_ref().expect("a node has a log");
        if !log.admits_put(group.body.len()) {
            return Err(ApplyError::Full(group.number));
        }
        self.load_absent(group)?;
        let mut turn = self.turn(Millis(group.time_ms));
        let core = &mut *turn.core;
        core.engine.set_time(Millis(group.time_ms));
        let bytes = group.body.len() as u64 + u64::from(group.facts) * ENTRY_BYTES_MORE;
        let mut gathering = stream.lock();
        gathering.begin_apply(log, group, bytes);
        let mut applier = Applier { log, group, names: Vec::new() };
        for fact in FactReader::new(&group.body) {
            applier.apply(core, &mut gathering, fact?)?;
        }
        if !gathering.end_apply(log, group) {
            return Err(applier.differs("the state hash"));
        }
        let at = gathering.at();
        drop(gathering);
        core.forget_gone_queues();
        core.cold.applying = false;
        stream.note_applied(at.number);
        core.ledger.appended = true;
        Ok(at)
    }

    /// Loads the cold jobs that a group changes.
    fn load_absent(&self, group: &SealedGroup) -> Result<(), ApplyError> {
        let (mut new, mut changed) = (HashSet::new(), Vec::new());
        for fact in FactReader::new(&group.body) {
            match fact? {
                Fact::Put(jobs, _) => new.extend(jobs.iter().map(|(_, meta)| meta.id)),
                Fact::Update(_, meta) => changed.push(meta.id),
                Fact::Count(id, _) => changed.push(id),
                Fact::Finish(ids) => changed.extend(ids),
                Fact::Name(_) | Fact::Value(..) | Fact::Ids(_) => {}
            }
        }
        changed.retain(|id| !new.contains(id));
        let ids: Vec<JobId> = changed.into_iter().map(JobId).collect();
        self.shared.load_for_apply(&ids).map_err(|id| ApplyError::Damaged(id.0))
    }
}

/// Applies the facts of one group.
struct Applier<'a> {
    log: &'a log::Log,
    group: &'a SealedGroup,
    /// The queues' names, by their numbers in the group.
    names: Vec<&'a [u8]>,
}

impl<'a> Applier<'a> {
    fn differs(&self, what: &'static str) -> ApplyError {
        ApplyError::Diverged { number: self.group.number, what }
    }

    fn apply(
        &mut self,
        core: &mut Core,
        gathering: &mut Gathering,
        fact: Fact<'a>,
    ) -> Result<(), ApplyError> {
        let now_ms = self.group.time_ms;
        match fact {
            Fact::Name(name) => self.names.push(name),
            Fact::Put(jobs, body) => self.put(core, gathering, &jobs, body)?,
            Fact::Update(queue, meta) => self.update(core, gathering, queue, &meta)?,
            Fact::Count(id, counters) => {
                // The leader writes counters late. The job can have ended.
                if let Ok(slot) = core.engine.slot(JobId(id))
                    && let Some(location) = core.ledger.locations.get(slot)
                {
                    let log_slot = location.log_slot;
                    let read = meta::counters(counters).ok_or_else(|| self.differs("counters"))?;
                    core.engine.apply_counters(slot, read);
                    self.log.count_now(now_ms, log_slot, counters);
                }
            }
            Fact::Finish(ids) => {
                for id in ids.into_iter().map(JobId) {
                    let slot = core.engine.slot(id).map_err(|_| self.differs("an ended job"))?;
                    let location = core.ledger.locations.remove(slot);
                    let location = location.ok_or_else(|| self.differs("an ended job"))?;
                    core.engine.apply_finish(slot, &mut core.effects);
                    self.log.finish(now_ms, location.log_slot);
                    gathering.state.finish(id);
                }
            }
            Fact::Value(key, value) => {
                self.fact(core, key, value)?;
                self.log.fact(now_ms, key, value);
                if key != meta::CLOCK_KEY {
                    gathering.state.fact(key, value);
                }
            }
            Fact::Ids(limit) => {
                self.log.reserve_ids(now_ms, limit);
            }
        }
        Ok(())
    }

    fn put(
        &self,
        core: &mut Core,
        gathering: &mut Gathering,
        jobs: &[(u32, Meta<'_>)],
        body: &[u8],
    ) -> Result<(), ApplyError> {
        let shared: Body = body.into();
        let mut slots = Vec::with_capacity(jobs.len());
        for (queue, meta) in jobs {
            let (facts, tags) = meta::facts(meta, None)?;
            let name = self.names[*queue as usize];
            let restored =
                core.engine.restore(name, &facts, tags, JobBody::Resident(shared.clone()));
            let slot = restored.map_err(|_| self.differs("a new job"))?;
            gathering.state.put(facts.id, core.job_hash(slot));
            slots.push((slot, facts.id));
        }
        let Core { engine, ledger, .. } = core;
        let refs: Vec<(QueueRef<'_>, Meta<'_>)> = slots
            .iter()
            .zip(jobs)
            .map(|((slot, _), (_, meta))| (queue_ref(engine, *slot).1, *meta))
            .collect();
        let mut log_slots = Vec::with_capacity(slots.len());
        let end = self.log.put_many(self.group.time_ms, &refs, body, &mut log_slots);
        let options_bytes = refs.iter().map(|(_, meta)| meta.options.len()).sum();
        let bytes = log::put_bytes(refs.len(), options_bytes, body.len());
        let entry_at = (end.offset() - bytes) as u32;
        for ((slot, _), log_slot) in slots.iter().zip(log_slots) {
            let location = Location::new(log_slot, entry_at, Mark::default(), false);
            ledger.locations.set(*slot, location);
        }
        core.note_fresh(&Record::PutMany(slots.into()));
        Ok(())
    }

    fn update(
        &self,
        core: &mut Core,
        gathering: &mut Gathering,
        queue: u32,
        meta: &Meta<'_>,
    ) -> Result<(), ApplyError> {
        let (facts, tags) = meta::facts(meta, None)?;
        let id = facts.id;
        let before = core.engine.slot(id).map_err(|_| self.differs("a changed job"))?;
        let location = core.ledger.locations.remove(before);
        let location = location.ok_or_else(|| self.differs("a changed job"))?;
        let name = self.names[queue as usize];
        let applied = core.engine.apply_update(before, name, &facts, tags, &mut core.effects);
        let slot = applied.map_err(|_| self.differs("a changed job"))?;
        let (_, queue) = queue_ref(&core.engine, slot);
        self.log.update(self.group.time_ms, location.log_slot, queue, meta);
        core.ledger.locations.set(slot, location);
        gathering.state.update(id, core.job_hash(slot));
        core.note_fresh(&Record::Update(slot, id));
        Ok(())
    }

    fn fact(&self, core: &mut Core, key: &[u8], value: &[u8]) -> Result<(), ApplyError> {
        let unknown = || self.differs("a fact");
        if let Some(name) = meta::queue_of_fact(key) {
            let facts = match value {
                [] => QueueFacts::default(),
                _ => meta::read_queue_fact(key, value).ok_or_else(unknown)?.1,
            };
            let applied = core.engine.apply_queue(name, facts, &mut core.effects);
            applied.map_err(|_| unknown())?;
        } else if key == meta::POLICIES_KEY {
            let rules = Rules::decode(value).ok_or_else(unknown)?;
            core.engine.apply_rules(rules, &mut core.effects);
            core.trim_bodies();
        } else if key == meta::STATUS_KEY {
            let [number] = value else { return Err(unknown()) };
            core.engine.restore_status(Status::from_number(*number).ok_or_else(unknown)?);
        } else if key == meta::CLOCK_KEY {
            let ahead_ms = value.try_into().map(i64::from_le_bytes).map_err(|_| unknown())?;
            core.engine.set_wall_ahead(ahead_ms);
            core.logged_ahead_ms = ahead_ms;
        }
        Ok(())
    }
}

impl Core {
    /// The state hash of one job, from what the engine has.
    pub(crate) fn job_hash(&self, slot: JobSlot) -> u64 {
        let engine = &self.engine;
        let name = engine.queue_name(engine.queue_of(slot));
        job_hash(name, &engine.facts(slot), engine.tags(slot), engine.body(slot).len())
    }

    /// After the changes of a leader: forgets the queues that are gone, and does a slice of what new
    /// policies have left. The other records of the engine are in the log already.
    fn forget_gone_queues(&mut self) {
        self.engine.apply_more(&mut self.effects);
        self.engine.note_children(&mut self.effects);
        for record in self.effects.records.drain(..) {
            if let Record::QueueGone(queue) = record {
                self.ledger.note_gone(queue);
            }
        }
        self.effects.events.clear();
    }
}
