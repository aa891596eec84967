//! Cold jobs: jobs that are only in the log, far from the heads of the lists of their queues.
//!
//! The log's index files sort the jobs of a sealed segment into blocks. If the records of jobs take
//! too much memory, blocks become cold (`upkeep`): their jobs leave the engine. A block comes back
//! as a whole when one of its jobs is needed (`loads`).
//!
//! **Invariant: nothing happens to a cold job, except that its block is loaded.** So a row of a cold
//! block is a cold job exactly if its slot in the log is live and the engine has no job with its
//! number.

pub(crate) mod damage;
pub(crate) mod loads;
pub(crate) mod upkeep;
pub(crate) mod waits;
mod wakes;

use std::collections::{BTreeMap, HashMap};

use engine::policy::{Policy, Rules, parent_name};
use engine::{
    BlockFacts, BlockSlot, Body, Choice, Engine, GrabOrder, JobBody, JobId, JobList, JobSlot, Need,
    Obstacle, QueueId, State,
};
use log::{BlockId, BlockSummary, Class, Log, Meta, OwnedRow, RestoredRows};

use crate::cold::damage::Damage;
use crate::cold::loads::ColdLoad;
use crate::cold::waits::Waits;
use crate::core::Core;
use crate::ledger::locations::Location;
use crate::ledger::meta;
use crate::{Answer, BrokerError, Caller, Event, Turn};

/// A block stays in memory if fewer jobs of it can become cold than the head of a queue has,
/// divided by this number. The default is 32 jobs.
const HEADS_OF_BLOCK: usize = 128;
/// Roughly what a body in memory takes besides its bytes.
const BODY_HEAD_BYTES: u64 = 16;

/// Jobs with a key have lists of their own in the log's index: a start must read their keys.
const HAS_KEY: u8 = 1 << 4;
/// Jobs that expire have lists of their own: the engine must know whether a cold head expires.
const EXPIRES: u8 = 1 << 5;

/// Sorts the jobs of a segment into blocks, for the log's index files. Index files contain the
/// result, so it must stay the same.
pub(crate) fn classify(meta: &Meta<'_>) -> Option<Class> {
    let (facts, tags) = meta::facts(meta, None).ok()?;
    let expires = facts.expires.is_some();
    // The place of a job in its list must not go by the wall clock.
    let has_place = facts.wall.is_none() || expires;
    let is_bare = facts.death.is_none()
        && facts.key.is_none()
        && facts.group.is_none()
        && facts.fired.is_none();
    let may_be_cold = !Engine::needs_body(tags) && is_bare;
    let is_plain = facts.state != State::Leased && may_be_cold && has_place;
    let key = BlockFacts::place(&facts);
    let has_key = facts.state != State::Buried && tags.is_some_and(|tags| !tags.unique.is_empty());
    let flags = if has_key { HAS_KEY } else { 0 } | if expires { EXPIRES } else { 0 };
    is_plain.then(|| Class {
        list: facts.state as u8 | flags,
        key,
        next_key: if facts.state == State::Delayed { BlockFacts::ready_place(&facts) } else { key },
        band: engine::Band::of(facts.priority) as u8,
    })
}

/// The cold blocks, and the sessions that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Cold {
    /// The limit of memory for the records of jobs. `None`: no limit, so no job becomes cold.
    bytes_max: Option<u64>,
    /// Where the blocks of the engine are in the log.
    blocks: BTreeMap<BlockId, BlockSlot>,
    /// The same blocks, by their place in the engine.
    pub(crate) places: BTreeMap<BlockSlot, BlockId>,
    /// Sessions that wait for cold jobs.
    waits: Waits,
    /// Blocks that cannot be read.
    pub(crate) damage: Damage,
    /// Reclaim copies the jobs of this segment now, so they stay in memory.
    reclaiming: u32,
    /// A follower applies a group now, so the jobs of the group stay in memory.
    pub(crate) applying: bool,
    /// See [`crate::Options::head_jobs`].
    head_jobs: usize,
    /// During a start: the policies. The engine gets them only after the jobs.
    at_start: Option<StartRules>,
}

/// The policies during a start, and for each queue whether its jobs can stay cold.
#[derive(Debug)]
struct StartRules {
    rules: Rules,
    known: HashMap<Box<[u8]>, bool>,
}

/// The state of the jobs of a list of the log's index. [`classify`] makes no other list.
fn state_of(list: u8) -> State {
    [State::Delayed, State::Buried]
        .into_iter()
        .find(|state| *state as u8 == list & !(HAS_KEY | EXPIRES))
        .unwrap_or(State::Ready)
}

impl Cold {
    pub(crate) fn new(bytes_max: Option<u64>, head_jobs: usize) -> Self {
        Self { bytes_max, head_jobs, ..Self::default() }
    }

    /// Sets the limit of memory in bytes.
    pub(crate) fn set_limit(&mut self, bytes_max: Option<u64>) {
        self.bytes_max = bytes_max;
    }

    /// Whether jobs can become cold.
    pub(crate) fn is_on(&self) -> bool {
        self.bytes_max.is_some()
    }

    /// Sets the policies for the start. `None`: the start has ended.
    pub(crate) fn set_start_rules(&mut self, rules: Option<Rules>) {
        self.at_start = rules.map(|rules| StartRules { rules, known: HashMap::new() });
    }

    /// Whether the blocks of this queue stay cold at a start.
    pub(crate) fn restores_block_of(&mut self, queue: &[u8]) -> bool {
        if !self.is_on() {
            return false;
        }
        let Some(StartRules { rules, known }) = &mut self.at_start else { return true };
        if let Some(stays) = known.get(queue) {
            return *stays;
        }
        // Whether the queue is a child of its parent is not known yet.
        let policies = [parent_name(queue), None].map(|parent| rules.resolve(queue, parent));
        // The jobs of a queue whose name stands for another queue move there.
        let moves = policies.iter().any(|policy| policy.same_as.is_some());
        let stays = !moves && !policies.iter().any(Policy::needs_all_jobs);
        known.insert(queue.into(), stays);
        stays
    }

    fn insert(&mut self, id: BlockId, slot: BlockSlot) {
        self.blocks.insert(id, slot);
        self.places.insert(slot, id);
    }

    fn remove(&mut self, id: BlockId) {
        if let Some(slot) = self.blocks.remove(&id) {
            self.places.remove(&slot);
        }
    }

    /// The cold blocks of a segment.
    fn of_segment(&self, segment: u32) -> impl Iterator<Item = BlockId> {
        let all = BlockId { segment, number: 0 }..=BlockId { segment, number: u32::MAX };
        self.blocks.range(all).map(|(id, _)| *id)
    }

    /// Whether a segment has jobs that are not in memory.
    fn has_absent_jobs_in(&self, segment: u32) -> bool {
        self.of_segment(segment).next().is_some() || self.damage.has_lost_in(segment)
    }

    /// Whether there are jobs that are not in memory.
    pub(crate) fn has_absent_jobs(&self) -> bool {
        !self.blocks.is_empty() || self.damage.has_lost()
    }
}

/// What one load of a list should read.
struct NextBlocks {
    blocks: Vec<BlockId>,
    /// The first blocks, as many as this, are read with the bodies of their jobs.
    with_bodies: usize,
    /// The bodies that are read have at most this many bytes.
    bytes_max: u64,
    /// When the job at this place is taken, the blocks behind these are wanted.
    wanted_from: Option<(u64, u64)>,
}

/// What became of an attempt to make a block cold.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Cooled {
    /// Its jobs are cold now.
    Yes,
    /// Some of its jobs can become cold later.
    NotNow,
    /// Too many of its jobs have ended or changed.
    Never,
}

/// # What is in memory
impl Caller<'_> {
    /// Whether a request of this session can run now. If not, the job that it needs is only in the
    /// log, or behind more expired jobs than one slice of work can end. The broker then loads the job,
    /// and sends [`Event::Loaded`]. Until that event, the session must make no other request.
    pub fn is_at_hand(&mut self, need: Need<'_>) -> bool {
        if !self.core.engine.needs_sweeps() || self.is_refused_for(need) {
            return true;
        }
        let core = &mut *self.core;
        let obstacle = core.engine.clear_way(self.session, need, &mut core.effects);
        core.apply_effects();
        let Some(mailbox) = core.engine.mailbox(self.session) else { return true };
        match obstacle {
            None => return true,
            // The session continues in its next slice.
            Some(Obstacle::Expired) => {
                core.outgoing.push((mailbox, self.session, Answer::at_once(Event::Loaded)));
            }
            Some(Obstacle::Cold(list)) => {
                core.engine.want_blocks(list);
                core.cold.waits.for_list(list, self.session, mailbox);
            }
        }
        false
    }

    /// Whether the take that has this need would be refused: see [`Caller::must_finish_first`]. Then no
    /// job is loaded for it.
    pub(crate) fn is_refused_for(&self, need: Need<'_>) -> bool {
        match need {
            Need::Watched => self.must_finish_first(Choice::Watched),
            Need::Registered | Need::Sleep => {
                self.must_finish_first(Choice::Registered(GrabOrder::NewestFirst))
            }
            Need::Used(_) | Need::Queue(_) => false,
        }
    }

    /// Whether the session must finish some of the jobs that it holds before this take gets another one.
    /// So it is while memory is full, if it holds many, and the take may get a job of a queue with cold
    /// jobs. Without this, a session that finishes nothing could bring a whole queue into memory.
    pub(crate) fn must_finish_first(&self, choice: Choice<'_>) -> bool {
        self.core.engine.holds_many(self.session)
            && self.core.engine.memory_is_full()
            && self.core.engine.takes_beside_cold(self.session, choice)
    }

    /// Like [`Caller::is_at_hand`], for a submit with this key into this queue, or for a search for
    /// this key in all queues.
    pub fn is_key_at_hand(&mut self, queue: Option<&[u8]>, unique: &[u8]) -> bool {
        if let Some(id) = self.core.engine.cold_with_key(queue, unique) {
            return self.is_job_at_hand(id);
        }
        self.core.end_wait(self.session);
        true
    }

    /// Like [`Caller::is_at_hand`], for a request that names a job by its number.
    pub fn is_job_at_hand(&mut self, id: JobId) -> bool {
        let core = &mut *self.core;
        let is_absent = core.end_wait(self.session).is_some_and(|wait| wait.is_absent(id));
        if is_absent || !core.needs_search(id) {
            return true;
        }
        let Some(mailbox) = core.engine.mailbox(self.session) else { return true };
        let search = core.cold.waits.for_job(id, self.session, mailbox);
        core.loads.add_cold(ColdLoad::Job(search));
        false
    }
}

impl Turn<'_> {
    /// Whether [`Caller::is_job_at_hand`] would begin a search for this job in the log.
    pub fn needs_search(&self, id: JobId) -> bool {
        self.core.needs_search(id)
    }
}

impl Core {
    fn needs_search(&self, id: JobId) -> bool {
        let is_new = id.0 >= self.engine.next_number();
        !is_new && self.cold.has_absent_jobs() && self.engine.slot(id).is_err()
    }

    /// Whether the records of jobs take more memory than the limit. `is_cooling`: than seven
    /// eighths of it.
    pub(crate) fn has_too_many_jobs(&self, is_cooling: bool) -> bool {
        let Some(max) = self.cold.bytes_max else { return false };
        self.engine.record_bytes() > if is_cooling { max - max / 8 } else { max }
    }

    fn is_cold(&self, id: BlockId) -> bool {
        self.cold.blocks.contains_key(&id)
    }

    /// Restores the block of an index at a start. The block stays cold.
    pub(crate) fn restore_block(
        &mut self,
        id: BlockId,
        queue: &[u8],
        (summary, rows): (&BlockSummary, &RestoredRows<'_>),
    ) -> Result<(), BrokerError> {
        let [high, normal, low, _] = summary.bands;
        let facts = BlockFacts {
            state: state_of(summary.list),
            first: summary.first_key,
            last: summary.last_key,
            first_ready: summary.first_next_key,
            created: engine::Millis(summary.first_created_ms),
            bands: [high, normal, low],
            body_bytes: summary.body_bytes,
            expires: summary.list & EXPIRES != 0,
        };
        let slot = self.engine.restore_block(queue, facts)?;
        self.cold.insert(id, slot);
        if summary.list & HAS_KEY != 0 {
            for row in rows.read()?.iter() {
                if let Some(tags) = meta::facts(&row.meta(), None)?.1 {
                    self.engine.restore_key(queue, tags.unique, JobId(row.id));
                }
            }
        }
        Ok(())
    }

    /// The next blocks of a list that a load should read.
    fn next_blocks(&self, list: JobList, count: usize) -> NextBlocks {
        let is_ready = list.state == State::Ready;
        // Only ready jobs are taken soon.
        let bytes_max = if is_ready { self.bytes_ahead(list.queue) } else { 0 };
        let mut bytes_left = bytes_max;
        let (mut blocks, mut firsts, mut with_bodies) = (Vec::new(), Vec::new(), 0);
        for slot in self.engine.blocks_to_load(list).take(count) {
            let known = self.cold.places.get(&slot).zip(self.engine.block(slot));
            let Some((id, (_, facts))) = known else { continue };
            let bytes = facts.body_bytes + u64::from(facts.jobs()) * BODY_HEAD_BYTES;
            if with_bodies == blocks.len() && bytes <= bytes_left {
                bytes_left -= bytes;
                with_bodies += 1;
            }
            blocks.push(*id);
            firsts.push(facts.first);
        }
        let wanted_from = firsts.get(firsts.len() / 2).copied().filter(|_| is_ready);
        NextBlocks { blocks, with_bodies, bytes_max, wanted_from }
    }

    /// So many jobs at the head of each list stay in memory. While memory is full, those become cold, too.
    fn jobs_at_head(&self) -> usize {
        if self.engine.memory_is_full() { 0 } else { self.cold.head_jobs }
    }

    /// Whether a list of a block has enough jobs that some of them are far from its head. A delayed
    /// job can be far without other jobs. `queue`: the queue that has this name itself, as the log
    /// names it.
    fn has_far_jobs(&self, queue: &[u8], list: u8) -> bool {
        let Some(queue) = self.engine.own_queue_id(queue) else { return false };
        match state_of(list) {
            State::Delayed => true,
            state => self.engine.count(JobList { queue, state }) as usize > self.jobs_at_head(),
        }
    }

    /// Makes the jobs of a block cold, if the block is far from the head of its queue. `rows` are
    /// all rows of the block.
    fn cool_block(&mut self, id: BlockId, rows: &[OwnedRow]) -> Cooled {
        if self.is_cold(id) || id.segment <= self.cold.reclaiming || self.cold.applying {
            return Cooled::NotNow;
        }
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            if let Ok(slot) = self.engine.slot(JobId(row.id)) {
                self.engine.prefetch_job(slot);
                self.ledger.locations.prefetch(slot);
                found.push((slot, row));
            }
        }
        let described = found.into_iter().filter(|(slot, row)| self.describes(row, *slot));
        let described: Vec<JobSlot> = described.map(|(slot, _)| slot).collect();
        // A block with few jobs would save little memory.
        let jobs_min = (self.cold.head_jobs / HEADS_OF_BLOCK).max(1);
        if described.len() < jobs_min {
            return Cooled::Never;
        }
        let mut slots = described;
        slots.retain(|slot| {
            self.engine.may_be_cold(*slot) && !self.cold.waits.need(self.engine.id_of(*slot))
        });
        if let Some(list) = slots.first().map(|slot| self.engine.list_of(*slot)) {
            slots.retain(|slot| self.engine.list_of(*slot) == list);
        }
        let head = self.jobs_at_head();
        if slots.len() < jobs_min || !self.engine.are_far_from_head(&slots, head) {
            return Cooled::NotNow;
        }
        let Some(block) = self.engine.cool(&slots) else { return Cooled::NotNow };
        for slot in &slots {
            self.ledger.locations.remove(*slot);
        }
        for row in rows {
            if self.ledger.keeps_state() && self.engine.slot(JobId(row.id)).is_err() {
                self.ledger.left_memory(JobId(row.id));
            }
        }
        self.cold.insert(id, block);
        Cooled::Yes
    }

    /// Whether the row describes this job exactly. A job that has changed never agrees with its row
    /// again.
    fn describes(&self, row: &OwnedRow, slot: JobSlot) -> bool {
        let location = self.ledger.locations.get(slot);
        if location.is_none_or(|location| location.log_slot != row.slot) {
            return false;
        }
        let Ok((known, tags)) = meta::facts(&row.meta(), None) else { return false };
        let mut facts = self.engine.facts(slot);
        let is_overdue = known.state == State::Delayed && known.due <= self.engine.now();
        if facts.state == State::Ready && is_overdue {
            // The job has become ready. The log does not have this change.
            facts.state = State::Delayed;
        }
        if facts.wall.is_some() && facts.expires.is_some() && facts.wall == known.wall {
            // The time of the wall clock decides. The engine's moment for it can have changed.
            facts.expires = known.expires;
        }
        facts == known && self.engine.tags(slot) == tags
    }

    /// Restores the jobs of a block. `rows` are all rows of the block. `bodies` are the bodies of
    /// these rows, in the same order, as far as they were read.
    fn load_block(&mut self, id: BlockId, rows: &[OwnedRow], bodies: Vec<Option<Body>>, log: &Log) {
        let Some(slot) = self.cold.blocks.get(&id).copied() else { return };
        self.cold.remove(id);
        let Some(list) = self.engine.begin_load(slot) else { return };
        self.load_rows(list.queue, rows, bodies, log);
        self.end_load(list.queue);
        self.apply_effects();
        self.wake_waiting(list);
    }

    fn end_load(&mut self, queue: QueueId) {
        let locations = &mut self.ledger.locations;
        self.engine.end_load(queue, &mut self.effects, &mut |refused| {
            locations.remove(refused);
        });
    }

    /// Restores the jobs of these rows that are live and not in memory.
    fn load_rows(
        &mut self,
        queue: QueueId,
        rows: &[OwnedRow],
        bodies: Vec<Option<Body>>,
        log: &Log,
    ) {
        let are_live = log.are_live(rows.iter().map(|row| row.slot));
        let bodies = bodies.into_iter().chain(std::iter::repeat(None));
        for ((row, is_live), body) in rows.iter().zip(are_live).zip(bodies) {
            if !is_live {
                continue;
            }
            let Ok((facts, tags)) = meta::facts(&row.meta(), None) else { continue };
            let body = body.filter(|body| body.len() == row.body_len as usize);
            let is_stored = body.is_none();
            let body = body.map_or(JobBody::Stored(row.body_len), JobBody::Resident);
            let mark = self.ledger.mark_of(row.position);
            // The engine refuses a job that is in memory.
            if let Ok(job) = self.engine.load(queue, &facts, tags, body) {
                let location = Location::new(row.slot, row.entry_at, mark, is_stored);
                self.ledger.locations.set(job, location);
                if self.ledger.keeps_state() {
                    let hash = self.job_hash(job);
                    self.ledger.came_back(JobId(row.id), hash);
                }
            }
        }
    }

    /// Removes a block that cannot be read. Its queue continues without these jobs.
    fn lose_block(&mut self, id: BlockId) {
        let Some(slot) = self.cold.blocks.get(&id).copied() else { return };
        let Some((_, facts)) = self.engine.block(slot) else { return };
        self.cold.remove(id);
        let Some(list) = self.engine.begin_load(slot) else { return };
        self.cold.damage.lose(id, facts);
        self.engine.end_failed_load(list.queue, &mut self.effects);
        self.apply_effects();
        self.wake_waiting(list);
    }

    /// Restores the jobs of a block that was lost.
    fn find_block(&mut self, id: BlockId, queue: &[u8], rows: &[OwnedRow], log: &Log) {
        if !self.cold.damage.find(id) {
            return;
        }
        let queue = self.engine.begin_return(queue);
        self.load_rows(queue, rows, Vec::new(), log);
        self.end_load(queue);
        self.apply_effects();
    }

    /// Ends the load of the wanted blocks of a list. When the job at the place `next` leaves the
    /// list of ready jobs, the next blocks are wanted.
    fn end_wanted(&mut self, list: JobList, next: Option<(u64, u64)>) {
        self.engine.end_wanted(list, next);
        self.wake_waiting(list);
    }

    /// Panics if the engine and the broker disagree on the cold blocks.
    pub(crate) fn check_cold(&self) {
        assert_eq!(self.cold.blocks.len(), self.engine.blocks(), "every block has a place");
        for (id, slot) in &self.cold.blocks {
            assert_eq!(self.cold.places.get(slot), Some(id));
            assert!(self.engine.block(*slot).is_some(), "the engine has the block");
        }
    }
}
