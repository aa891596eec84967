//! Applies the groups of a leader to the folder and the engine of a follower.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use engine::crons::{CronState, CronTable};
use engine::policy::Rules;
use engine::{Body, JobBody, JobId, JobSlot, Millis, QueueFacts, QueueId, Record, Status};
use log::{Log, Meta, QueueRef};
use replica::group::{At, SealedGroup};

use crate::Broker;
use crate::cold::loads::NotLoaded;
use crate::core::Core;
use crate::journal::fact::{Fact, FactError, FactReader};
use crate::journal::folder::placed;
use crate::journal::state_hash::job_hash;
use crate::journal::stream::{Gathering, PLACE_BYTES};
use crate::journal::{Mark, Placed};
use crate::ledger::locations::Location;
use crate::ledger::{Ledger, meta, queue_ref};

/// Why a follower cannot apply a group.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The log has no room for the group now. The follower must try again later.
    #[error("the data folder has no room for group {0}")]
    Full(u64),
    /// A job that the group changes cannot be read now. The follower must try again later.
    #[error("job {0} cannot be read from the data folder now")]
    Unread(u64),
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
    /// This node does not have the same jobs as the leader. The group is not written to the folder.
    /// The node must stop. An operator must decide which node is right.
    #[error("this node differs from the leader at group {number}: {what}")]
    Diverged {
        /// The number of the group.
        number: u64,
        /// What differs.
        what: &'static str,
    },
}

/// A group that was applied.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Applied {
    /// The place of the node after the group.
    pub at: At,
    /// The factor by which the owner should rest longer than the turn took: see [`crate::Turn::rests`].
    pub rests: u32,
    /// How long the turn took. While the call waits for the lock, or reads cold jobs, the owner is slow
    /// anyway, and needs no rest for that.
    pub turn_time: Duration,
}

impl Broker {
    /// Applies the next group of the leader to the engine and the log. When the function returns,
    /// the group is in the log's open batch: see [`crate::Stream::durable`]. After an error other
    /// than [`ApplyError::Full`] and [`ApplyError::Unread`], the broker must not be used any more.
    ///
    /// # Panics
    ///
    /// The broker is not that of a follower.
    pub fn apply(&self, group: &SealedGroup) -> Result<Applied, ApplyError> {
        let stream = self.stream().expect("only the node of a cluster applies groups");
        assert!(!stream.leads(), "a leader applies no groups");
        let at = stream.at();
        if group.number != at.number + 1 || group.before != at.chain {
            return Err(ApplyError::Order { last: at.number, found: group.number });
        }
        let log = self.shared.log.as_ref().expect("a node has a log");
        let needs = Needs::of(group)?;
        if !needs.has_room(log) {
            return Err(ApplyError::Full(group.number));
        }
        let loaded = self.shared.load_for_apply(&needs.jobs).map_err(|error| match error {
            NotLoaded::Later(id) => ApplyError::Unread(id.0),
            NotLoaded::Damaged(id) => ApplyError::Damaged(id.0),
        });
        let mut turn = self.turn(Millis(0));
        let began = Instant::now();
        let core = &mut *turn.core;
        core.cold.applying = false;
        loaded?;
        core.engine.set_time(Millis(group.time_ms));
        let mut gathering = stream.lock();
        gathering.begin_apply(log, group, needs.bytes);
        let mut applier = Applier { log, group, names: Vec::new() };
        let applied = applier.apply_all(core, &mut gathering);
        core.is_stopped = applied.is_err();
        applied?;
        let at = gathering.at();
        drop(gathering);
        stream.note_applied(at.number);
        core.ledger.appended = true;
        let rests = turn.rests();
        drop(turn);
        let turn_time = began.elapsed();
        self.set_clock_step();
        Ok(Applied { at, rests, turn_time })
    }
}

/// What a group needs of the log and of the memory before it can be applied.
#[derive(Debug, Default)]
struct Needs {
    /// The jobs of earlier groups that it changes.
    jobs: Vec<JobId>,
    /// Its entries have at most this many bytes, with all names that the log may write for them. A
    /// higher number would leave a larger end of a segment unused than the leader did.
    bytes: u64,
    /// It does not only end jobs and set counters.
    takes_room: bool,
}

impl Needs {
    fn of(group: &SealedGroup) -> Result<Self, ApplyError> {
        let (mut needs, mut names, mut new) = (Self::default(), Names::default(), HashSet::new());
        // Jobs that end one after the other share an entry.
        let mut finishes = 0;
        for fact in FactReader::new(&group.body) {
            let fact = fact?;
            if !matches!(fact, Fact::Finish(_)) {
                needs.bytes += log::finishes_bytes(std::mem::take(&mut finishes));
            }
            match fact {
                Fact::Name(name) => names.add(name),
                Fact::Put(jobs, body) => {
                    let options = jobs.iter().map(|(_, meta)| meta.options.len()).sum();
                    needs.bytes += names.bytes_for(jobs.iter().map(|(queue, _)| *queue));
                    needs.bytes += log::put_bytes(jobs.len(), options, body.len());
                    needs.takes_room = true;
                    new.extend(jobs.iter().map(|(_, meta)| meta.id));
                }
                Fact::Update(queue, meta) => {
                    needs.bytes += names.bytes_for([queue].into_iter());
                    needs.bytes += log::update_bytes(meta.options.len());
                    needs.takes_room = true;
                    // This job may have been the last one of another queue.
                    names.forget();
                    names.remember(queue);
                    needs.jobs.push(JobId(meta.id));
                }
                Fact::Count(id, counters) => {
                    needs.bytes += log::count_bytes(counters);
                    needs.jobs.push(JobId(id));
                }
                Fact::Finish(ids) => {
                    finishes += ids.len() as u64;
                    names.forget();
                    needs.jobs.extend(ids.into_iter().map(JobId));
                }
                Fact::Value(key, value) => {
                    needs.bytes += log::fact_entry_bytes(key, value);
                    needs.takes_room = true;
                    names.forget();
                }
                Fact::Ids(_) => needs.bytes += log::ID_LIMIT_BYTES,
            }
        }
        needs.bytes += log::finishes_bytes(finishes) + names.again;
        needs.jobs.retain(|id| !new.contains(&id.0));
        Ok(needs)
    }

    /// Whether the log has room. A group that only ends jobs always fits, because it makes room.
    fn has_room(&self, log: &Log) -> bool {
        !self.takes_room || log.admits_accepted(self.bytes + PLACE_BYTES)
    }
}

/// The queues of a group, by their numbers in it, and which of them the log has certainly named for it.
///
/// The log names a queue once in a segment. But a queue that is gone, and comes back, gets its name again.
/// At a follower, a queue is gone with its last job, because nobody uses it there.
#[derive(Debug, Default)]
struct Names<'a> {
    /// Each name, and the period in which the log has named it last.
    all: Vec<(&'a [u8], Option<u32>)>,
    /// The next period begins when any queue may be gone.
    period: u32,
    /// For each entry, the log asks for room for all its names, also for those that it has written. So
    /// this is the most that it asks for in vain, and must be left behind the other entries.
    again: u64,
}

impl<'a> Names<'a> {
    fn add(&mut self, name: &'a [u8]) {
        self.all.push((name, None));
    }

    /// The bytes of the names that the log may write for one entry about jobs in these queues.
    fn bytes_for(&mut self, queues: impl Iterator<Item = u32>) -> u64 {
        let (mut new, mut again) = (0, 0);
        for queue in queues {
            let (name, named) = &mut self.all[queue as usize];
            let bytes = log::name_bytes(name);
            if named.replace(self.period) == Some(self.period) {
                again += bytes;
            } else {
                new += bytes;
            }
        }
        self.again = self.again.max(again);
        new
    }

    /// Any queue may be gone.
    fn forget(&mut self) {
        self.period += 1;
    }

    /// This queue is not gone.
    fn remember(&mut self, queue: u32) {
        self.all[queue as usize].1 = Some(self.period);
    }
}

/// Applies the facts of one group.
struct Applier<'a> {
    log: &'a Log,
    group: &'a SealedGroup,
    /// The queues' names, by their numbers in the group.
    names: Vec<&'a [u8]>,
}

impl<'a> Applier<'a> {
    fn differs(&self, what: &'static str) -> ApplyError {
        ApplyError::Diverged { number: self.group.number, what }
    }

    fn apply_all(&mut self, core: &mut Core, gathering: &mut Gathering) -> Result<(), ApplyError> {
        let group = self.group;
        for fact in FactReader::new(&group.body) {
            self.apply(core, gathering, fact?)?;
            self.forget_gone_queues(core, gathering);
        }
        core.engine.apply_more(&mut core.effects);
        core.engine.note_children(&mut core.effects);
        self.forget_gone_queues(core, gathering);
        if gathering.end_apply(self.log, group) {
            Ok(())
        } else {
            Err(self.differs("the state hash"))
        }
    }

    /// Must be called after each fact: a new queue may get the number of a queue that is gone.
    fn forget_gone_queues(&self, core: &mut Core, gathering: &mut Gathering) {
        core.forget_gone_queues(|queue, _| {
            self.log.forget_queue(queue.0);
            gathering.forget_queue(queue);
        });
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
                    core.ledger.locations.set_changed(slot, true);
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
                gathering.write_fact(self.log, now_ms, key, value);
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
        let end = self.log.put_many(self.group.time_ms, &refs, &shared, &mut log_slots);
        let options_bytes = refs.iter().map(|(_, meta)| meta.options.len()).sum();
        let bytes = log::put_bytes(refs.len(), options_bytes, body.len());
        for ((slot, _), log_slot) in slots.iter().zip(log_slots) {
            // Replies about accepted jobs wait for nothing.
            let placed = Placed { mark: Mark::default(), ..placed(log_slot, end, bytes) };
            ledger.locations.set(*slot, Location::of(placed));
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
        core.ledger.locations.set_changed(slot, true);
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
        } else if let Some((key, claim)) = meta::read_claim_fact(key, value) {
            core.engine.apply_claim(key, claim);
        } else if key == meta::POLICIES_KEY {
            let rules = Rules::decode(value).ok_or_else(unknown)?;
            core.engine.apply_rules(rules, &mut core.effects);
            core.trim_bodies();
        } else if key == meta::CRONS_KEY {
            core.engine.restore_crons(CronTable::decode(value).ok_or_else(unknown)?);
        } else if let Some(name) = meta::cron_of_fact(key) {
            let state = match value {
                [] => None,
                _ => Some(CronState::decode(value).ok_or_else(unknown)?),
            };
            core.engine.restore_cron_state(name, state);
        } else if let Some(name) = meta::note_of_fact(key) {
            core.engine.restore_note(name, value);
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
        job_hash(name, &engine.facts(slot), engine.tags(slot), engine.body_len(slot))
    }

    /// Calls `forget` with each queue that is gone, and drops all other records: the log gets the
    /// leader's changes.
    pub(crate) fn forget_gone_queues(&mut self, mut forget: impl FnMut(QueueId, &mut Ledger)) {
        for record in self.effects.records.drain(..) {
            if let Record::QueueGone(queue) = record {
                forget(queue, &mut self.ledger);
            }
        }
    }
}
