//! Jobs: the table of all jobs, and the indexes and counts that depend on them.
//!
//! [`Jobs`] owns every job. Only `Jobs` changes a job's state, kind, key and queue, because indexes
//! and counts depend on these fields. The lists of jobs are in [`crate::queues`].

mod blocks;
mod body;
mod bytes;
mod counts;
mod dead;
mod draft;
mod facts;
mod job;
mod keys;
mod unique;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Index, IndexMut};

use crate::collections::{IdIndex, Slab};
use crate::hash::NameHash;
use crate::ids::{BlockSlot, JobId, JobSlot, Millis, QueueId};
use crate::limits::JOB_ID_MAX;
use crate::policy::KeyHash;
use dead::DeadIndex;
use keys::Keys;
use unique::UniqueKeys;

pub use blocks::BlockFacts;
pub(crate) use blocks::{Block, Blocks};
pub use body::{JobBody, Loading};
pub use bytes::job_bytes;
pub use counts::Band;
pub(crate) use counts::{CountedJob, Counts};
pub use dead::{Death, DeathCause, FailureCause};
pub(crate) use draft::Draft;
pub(crate) use facts::JobKind;
pub(crate) use facts::PutKeys;
pub use facts::{Body, Counters, JobFacts, JobList, JobStatus, NewJob, State, Tags};
pub(crate) use job::{Job, Lease};
pub(crate) use keys::is_body_key;
pub(crate) use unique::Stage;

/// The table of all jobs: see the module.
#[derive(Debug)]
pub(crate) struct Jobs {
    slab: Slab<Job>,
    /// The jobs that are not in `slab`, because they are only in the log.
    blocks: Blocks,
    ids: IdIndex,
    next_id: u64,
    next_buried: u64,
    /// The jobs that a submit can join, by key. A submit cannot join a buried job.
    keys: Keys,
    /// Jobs that were made by a submit.
    submitted: BTreeSet<JobSlot>,
    /// Jobs with a time of the wall clock, and this time. **Invariant**: if the job can expire,
    /// this is the time of its expiry. Otherwise the job is delayed, and this is its due time.
    wall_times: BTreeMap<JobSlot, Millis>,
    /// The number of jobs that have an expiry.
    expiring: u64,
    dead: DeadIndex,
    unique_keys: UniqueKeys,
    /// The group keys of jobs: see [`JobFacts::group`].
    group_keys: BTreeMap<JobId, KeyHash>,
    counts: Counts,
    /// The number of jobs that are only in memory. Buried jobs do not count.
    unlogged: u64,
    bytes: u64,
    /// The part of `bytes` that [`Jobs::store_body`] can free.
    resident: u64,
}

impl Index<JobSlot> for Jobs {
    type Output = Job;

    #[inline]
    fn index(&self, slot: JobSlot) -> &Job {
        self.slab.get(slot.0).expect("a slot in a list or index has its job")
    }
}

impl IndexMut<JobSlot> for Jobs {
    #[inline]
    fn index_mut(&mut self, slot: JobSlot) -> &mut Job {
        self.slab.get_mut(slot.0).expect("a slot in a list or index has its job")
    }
}

impl Jobs {
    pub(crate) fn new(hash: NameHash, first_id: u64) -> Self {
        Self {
            slab: Slab::default(),
            blocks: Blocks::default(),
            ids: IdIndex::default(),
            next_id: first_id,
            next_buried: 1,
            keys: Keys::new(hash),
            submitted: BTreeSet::new(),
            wall_times: BTreeMap::new(),
            expiring: 0,
            dead: DeadIndex::default(),
            unique_keys: UniqueKeys::default(),
            group_keys: BTreeMap::new(),
            counts: Counts::default(),
            unlogged: 0,
            bytes: 0,
            resident: 0,
        }
    }

    // --- Numbers ---

    /// The number of the next job.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id
    }

    /// A number above the `buried_order` of every buried job.
    pub(crate) fn next_buried(&self) -> u64 {
        self.next_buried
    }

    pub(crate) fn deal_id(&mut self) -> JobId {
        let id = self.next_id;
        assert!(id <= JOB_ID_MAX, "job ids are used up");
        self.next_id += 1;
        JobId(id)
    }

    /// Makes sure that the number of every new job is at least `next`. An earlier process may have
    /// used the lower numbers.
    pub(crate) fn raise_id(&mut self, next: u64) {
        self.next_id = self.next_id.max(next);
    }

    /// Marks all numbers of a job from the log as used, so that no new job gets them.
    pub(crate) fn use_numbers(&mut self, job: &Job) {
        self.raise_id(job.id().0.max(job.order()) + 1);
        self.next_buried = self.next_buried.max(job.buried_order() + 1);
    }

    /// The number of all jobs by state.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn unlogged(&self) -> u64 {
        self.unlogged
    }

    /// The memory of all jobs, in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        let wall_times = self.wall_times.len() as u64 * bytes::WALL_TIME_BYTES;
        let keys = self.keys.cold() * bytes::KEY_BYTES + self.unique_keys.bytes();
        self.bytes + self.blocks.bytes() + keys + wall_times + self.dead.origin_bytes()
    }

    // --- The table ---

    /// The place of the job with this number.
    pub(crate) fn find(&self, id: JobId) -> Option<JobSlot> {
        self.ids.get(id.0).map(JobSlot)
    }

    /// The job at this place. `None`: the place is free.
    pub(crate) fn get(&self, slot: JobSlot) -> Option<&Job> {
        self.slab.get(slot.0)
    }

    /// The end of the table: all jobs have places below this place.
    pub(crate) fn end(&self) -> u32 {
        self.slab.end()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (JobSlot, &Job)> {
        self.slab.iter().map(|(place, job)| (JobSlot(place), job))
    }

    /// Adds a job. Its number must come from [`Jobs::deal_id`], or [`Jobs::use_numbers`] must have
    /// marked it as used.
    #[inline]
    pub(crate) fn insert(&mut self, mut job: Job) -> JobSlot {
        let (id, is_submitted) = (job.id(), job.is_submitted());
        self.counts.add(job.counted());
        self.unlogged += u64::from(job.is_unlogged());
        self.expiring += u64::from(job.expires().is_some());
        if is_submitted {
            self.keys.hash_body(&mut job);
        }
        if job.state() != State::Buried {
            self.keys.insert(&job);
        }
        if let Some(death) = job.death_mut() {
            self.dead.add_letter(death);
            self.dead.insert(dead::place(&job));
        }
        self.bytes += bytes::bytes_of(&job);
        self.resident += bytes::evictable(&job);
        let slot = JobSlot(self.slab.insert(job));
        self.ids.insert(id.0, slot.0);
        if is_submitted {
            self.submitted.insert(slot);
        }
        self.recharge(slot);
        slot
    }

    pub(crate) fn remove(&mut self, slot: JobSlot) -> Job {
        let job = &self.slab.get(slot.0).expect("the caller holds a live slot");
        self.keys.remove(job);
        self.remove_but_key(slot)
    }

    fn remove_but_key(&mut self, slot: JobSlot) -> Job {
        let job = self.slab.remove(slot.0).expect("the caller holds a live slot");
        if job.may_go_by_wall() {
            self.wall_times.remove(&slot);
        }
        if self.dead.letters > 0
            && let Some(death) = job.death()
        {
            self.dead.remove_letter(death);
            self.dead.remove(dead::place(&job));
        }
        if !self.unique_keys.is_empty() {
            self.unique_keys.remove(&job);
        }
        if !self.group_keys.is_empty() && self.group_keys.remove(&job.id()).is_some() {
            self.bytes -= bytes::GROUP_KEY_BYTES;
        }
        self.ids.remove(job.id().0);
        self.bytes -= bytes::bytes_of(&job);
        self.resident -= bytes::evictable(&job);
        self.unlogged -= u64::from(job.is_unlogged());
        self.expiring -= u64::from(job.expires().is_some());
        if job.is_submitted() {
            self.submitted.remove(&slot);
        }
        self.counts.remove(job.counted());
        job
    }

    /// Updates the memory account after a change of the optional parts of a job.
    pub(crate) fn recharge(&mut self, slot: JobSlot) {
        let job = &mut self[slot];
        let units = bytes::extra_units(job);
        let before = std::mem::replace(&mut job.extra_units, units);
        self.bytes += bytes::of_units(units);
        self.bytes -= bytes::of_units(before);
    }

    // --- Changes to fields that indexes and counts depend on ---

    /// Sets the state of a job. The caller updates the lists and the counts of its queue.
    #[inline]
    pub(crate) fn set_state(&mut self, slot: JobSlot, next: State) {
        let job = self.slab.get_mut(slot.0).expect("the caller holds a live slot");
        let (before, was_unlogged) = (job.counted(), job.is_unlogged());
        if self.dead.letters > 0 {
            self.dead.remove(dead::place(job));
        }
        if !self.unique_keys.is_empty() {
            self.unique_keys.leave(job);
        }
        let was_due_later = before.state == State::Delayed && job.expires().is_none();
        if next == State::Buried {
            self.keys.remove(job);
        }
        job.set_state(next);
        if before.state == State::Buried {
            self.keys.insert(job);
        }
        if !self.unique_keys.is_empty() {
            self.unique_keys.enter(job);
        }
        self.unlogged = self.unlogged + u64::from(job.is_unlogged()) - u64::from(was_unlogged);
        self.counts.remove(before);
        self.counts.add(job.counted());
        if self.dead.letters > 0 {
            self.dead.insert(dead::place(job));
        }
        if was_due_later {
            self.wall_times.remove(&slot);
        }
        self.recharge(slot);
    }

    /// Sets the priority and the due time of a job that is in no list, and that no session holds. `wall`:
    /// its time of the wall clock, if it is delayed and does not expire. The caller updates the counts of
    /// its queue.
    pub(crate) fn set_urgency(
        &mut self,
        slot: JobSlot,
        (priority, due): (u32, Millis),
        wall: Option<Millis>,
    ) {
        let job = &mut self[slot];
        let before = job.counted();
        job.set_urgency(priority, due);
        let (after, goes_by_due) = (job.counted(), job.expires().is_none());
        self.counts.remove(before);
        self.counts.add(after);
        if goes_by_due {
            self.wall_times.remove(&slot);
            if let Some(wall) = wall {
                self.set_wall_time(slot, wall);
            }
        }
    }

    /// Gives a job the last place among the buried jobs. The caller buries it next.
    pub(crate) fn deal_buried_order(&mut self, slot: JobSlot) {
        let order = self.next_buried;
        self.next_buried += 1;
        self[slot].set_buried_order(order);
    }

    pub(crate) fn set_counters(&mut self, slot: JobSlot, counters: Counters) {
        self[slot].set_counters(counters);
        self.recharge(slot);
    }

    /// Sets how long a job exists. The caller pushes the records.
    pub(crate) fn set_kind(&mut self, slot: JobSlot, kind: JobKind) {
        let job = &mut self[slot];
        let (was_unlogged, was_evictable) = (job.is_unlogged(), bytes::evictable(job));
        job.set_kind(kind);
        let evictable = bytes::evictable(job);
        let is_unlogged = job.is_unlogged();
        self.unlogged = self.unlogged + u64::from(is_unlogged) - u64::from(was_unlogged);
        self.resident = self.resident + evictable - was_evictable;
    }

    /// Sets the key of a submitted job that is not buried.
    pub(crate) fn set_unique(&mut self, slot: JobSlot, unique: &[u8]) {
        let was_evictable = bytes::evictable(&self[slot]);
        self[slot].set_unique(unique);
        self.resident = self.resident + bytes::evictable(&self[slot]) - was_evictable;
        let job = self.slab.get_mut(slot.0).expect("it was just there");
        self.keys.hash_body(job);
        self.keys.insert(job);
        self.recharge(slot);
    }

    /// Moves a job to another queue, as if a client put it there at the moment `created`. It is no dead
    /// letter. It keeps its expiry, and a delayed job its due time. The job must be in no list.
    pub(crate) fn set_queue(&mut self, slot: JobSlot, queue: QueueId, created: Millis) {
        self.revive(slot);
        let order = self.deal_id();
        let job = self.slab.get_mut(slot.0).expect("the caller holds a live slot");
        self.keys.remove(job);
        self.unique_keys.leave(job);
        job.set_queue(queue, created, order);
        self.keys.insert(job);
        self.unique_keys.enter(job);
        self.recharge(slot);
    }

    /// Gives a job the last place among the jobs of its priority. The job must be in no list.
    pub(crate) fn move_to_tail(&mut self, slot: JobSlot) {
        let order = self.deal_id();
        self[slot].set_order(order);
    }

    // --- Dead letters ---

    /// Makes a job a dead letter. It must not be one.
    pub(crate) fn set_death(&mut self, slot: JobSlot, mut death: Death) {
        let job = self.slab.get_mut(slot.0).expect("the caller holds a live slot");
        debug_assert!(job.death().is_none());
        self.unique_keys.leave(job);
        self.dead.add_letter(&mut death);
        job.set_death(Some(Box::new(death)));
        self.dead.insert(dead::place(job));
        self.recharge(slot);
    }

    /// From now on, the job does not expire at a moment of its own. It must be in no list.
    pub(crate) fn forget_expiry(&mut self, slot: JobSlot) {
        if self[slot].expires().is_some() {
            self.expiring -= 1;
            self.wall_times.remove(&slot);
            self[slot].forget_expiry();
        }
    }

    /// From now on, the job can fail as often as a new job, and is no dead letter. It must be in no list.
    pub(crate) fn revive(&mut self, slot: JobSlot) {
        if self[slot].death().is_some() {
            // It would expire as soon as it is back.
            self.forget_expiry(slot);
            let place = dead::place(&self[slot]);
            self.dead.remove(place);
            let job = self.slab.get_mut(slot.0).expect("the caller holds a live slot");
            if let Some(death) = job.death() {
                self.dead.remove_letter(death);
            }
            job.set_death(None);
            self.unique_keys.enter(job);
            self.recharge(slot);
        }
        self[slot].forget_attempts();
    }

    /// Whether there is any dead letter.
    pub(crate) fn have_dead_letters(&self) -> bool {
        self.dead.letters > 0
    }

    /// The number of dead letters of a queue that no session holds.
    pub(crate) fn dead_count(&self, queue: QueueId) -> u64 {
        self.dead.count(queue)
    }

    /// The dead letter of a queue that the server ends next, and the moment of its end. The next one
    /// after `after`, if this is given.
    pub(crate) fn next_dead(
        &self,
        queue: QueueId,
        after: Option<(Millis, JobId)>,
    ) -> Option<(Millis, JobId)> {
        if self.dead.letters == 0 {
            return None;
        }
        self.dead.next(queue, after.unwrap_or_default())
    }

    // --- Group keys ---

    /// Gives a new or restored job its group key.
    pub(crate) fn set_group_key(&mut self, slot: JobSlot, key: Option<KeyHash>) {
        if let Some(key) = key {
            let id = self[slot].id();
            if self.group_keys.insert(id, key).is_none() {
                self.bytes += bytes::GROUP_KEY_BYTES;
            }
        }
    }

    /// The group key of a job, or the empty key.
    pub(crate) fn group_key(&self, id: JobId) -> KeyHash {
        self.known_group_key(id).unwrap_or_default()
    }

    /// The group key of a job. `None`: it has the empty key.
    pub(crate) fn known_group_key(&self, id: JobId) -> Option<KeyHash> {
        if self.group_keys.is_empty() { None } else { self.group_keys.get(&id).copied() }
    }

    /// The keys of a job.
    #[inline]
    pub(crate) fn keys_of(&self, id: JobId) -> PutKeys {
        // Normally no job has keys.
        if self.unique_keys.is_empty() && self.group_keys.is_empty() {
            return PutKeys::default();
        }
        PutKeys { unique: self.unique_key(id), group: self.known_group_key(id) }
    }

    // --- Keys of unique jobs ---

    /// Gives a new or restored job the key that makes it unique.
    pub(crate) fn set_unique_key(&mut self, slot: JobSlot, key: KeyHash) {
        self.unique_keys.set(self.slab.get(slot.0).expect("the caller holds a live slot"), key);
    }

    /// Sets whether the keys of a queue's jobs can be taken longer than the jobs exist. Before the queue
    /// goes, the caller must take this back.
    pub(crate) fn let_keys_outlast(&mut self, queue: QueueId, outlast: bool) {
        self.unique_keys.let_outlast(queue, outlast);
    }

    /// The number of jobs whose keys can be taken longer than the jobs exist.
    pub(crate) fn outlasting_keys(&self) -> u64 {
        self.unique_keys.outlasting()
    }

    /// Whether any job has a key that makes it unique.
    #[inline]
    pub(crate) fn have_unique_keys(&self) -> bool {
        !self.unique_keys.is_empty()
    }

    /// The key that makes a job unique. `None`: it has none.
    pub(crate) fn unique_key(&self, id: JobId) -> Option<KeyHash> {
        if self.unique_keys.is_empty() { None } else { self.unique_keys.key(id) }
    }

    /// The jobs of a queue with this key at this stage, newest first. Dead letters have no stage.
    pub(crate) fn with_unique_key(
        &self,
        queue: QueueId,
        key: KeyHash,
        stage: Stage,
    ) -> impl Iterator<Item = JobSlot> {
        self.unique_keys.with_key(queue, key, stage).filter_map(|id| self.find(id))
    }

    // --- Bodies ---

    /// The bytes of memory that [`Jobs::store_body`] can free, for all jobs together.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.resident
    }

    /// Removes the body of a job from memory, because the log also has it. Returns false and
    /// changes nothing in three cases: the log does not have the job, the body is the job's key, or
    /// the body is not in memory.
    pub(crate) fn store_body(&mut self, slot: JobSlot) -> bool {
        let bytes = bytes::evictable(&self[slot]);
        if bytes == 0 {
            return false;
        }
        self[slot].store_body();
        self.bytes -= bytes;
        self.resident -= bytes;
        true
    }

    /// Loads a stored body: `body` has the bytes that the caller read from the log.
    pub(crate) fn load_body(&mut self, slot: JobSlot, body: Body) {
        self[slot].load_body(body);
        let bytes = bytes::evictable(&self[slot]);
        self.bytes += bytes;
        self.resident += bytes;
    }

    /// Gives a job another body.
    pub(crate) fn replace_body(&mut self, slot: JobSlot, body: Body) {
        let before = (bytes::bytes_of(&self[slot]), bytes::evictable(&self[slot]));
        self.counts.remove(self[slot].counted());
        self[slot].replace_body(body);
        self.counts.add(self[slot].counted());
        let after = (bytes::bytes_of(&self[slot]), bytes::evictable(&self[slot]));
        self.bytes = self.bytes - before.0 + after.0;
        self.resident = self.resident - before.1 + after.1;
    }

    // --- Cold jobs ---

    /// The blocks of cold jobs.
    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Removes a job, because it becomes cold. The caller adds its block.
    pub(crate) fn cool(&mut self, slot: JobSlot) -> Job {
        self.keys.cool(self.slab.get(slot.0).expect("the caller holds a live slot"));
        self.remove_but_key(slot)
    }

    /// Adds the key of a cold job of a block.
    pub(crate) fn insert_cold_key(&mut self, queue: QueueId, unique: &[u8], id: JobId) {
        self.keys.insert_cold(queue, unique, id);
    }

    /// Adds a block, and counts its jobs.
    pub(crate) fn insert_block(&mut self, block: Block) -> BlockSlot {
        self.counts.add_block(&block.facts);
        if block.facts.state == State::Buried {
            self.next_buried = self.next_buried.max(block.facts.last.0 + 1);
        }
        self.blocks.insert(block)
    }

    /// The jobs of a block of delayed jobs become ready. Returns the new facts of the block.
    pub(crate) fn ready_block(&mut self, id: BlockSlot) -> Option<BlockFacts> {
        let block = self.blocks.get_mut(id)?;
        self.counts.remove_block(&block.facts);
        block.facts = block.facts.when_ready();
        self.counts.add_block(&block.facts);
        Some(block.facts)
    }

    /// Removes a block. Its jobs do not count any more.
    pub(crate) fn remove_block(&mut self, id: BlockSlot) -> Option<Block> {
        let block = self.blocks.remove(id)?;
        self.counts.remove_block(&block.facts);
        Some(block)
    }

    // --- Keys ---

    /// Whether a cold job has a key.
    pub(crate) fn have_cold_keys(&self) -> bool {
        self.keys.cold() > 0
    }

    /// The jobs of a queue that may have this key, oldest first. The second value of a cold job is
    /// `None`. The index compares only hashes, so the caller must check each job with
    /// [`Jobs::is_same`].
    pub(crate) fn with_key_in(
        &self,
        queue: QueueId,
        unique: &[u8],
        body: &[u8],
    ) -> impl Iterator<Item = (JobId, Option<JobSlot>)> {
        self.keys.with_key_in(queue, unique, body).map(|id| (id, self.find(id)))
    }

    /// Whether a submit with this key and body can join a job.
    pub(crate) fn is_same(&self, slot: JobSlot, unique: &[u8], body: &[u8]) -> bool {
        keys::is_same(&self[slot], unique, body)
    }

    /// The jobs of all queues that may have this key. The second value of a cold job is `None`. The
    /// index compares only hashes.
    pub(crate) fn with_key(&self, unique: &[u8]) -> impl Iterator<Item = (JobId, Option<JobSlot>)> {
        self.keys.with_key(unique).map(|id| (id, self.find(id)))
    }

    // --- Submitted jobs ---

    /// All jobs that were made by a submit, from this place on.
    pub(crate) fn submitted_from(&self, slot: JobSlot) -> impl Iterator<Item = JobSlot> {
        self.submitted.range(slot..).copied()
    }

    /// Whether any job in memory has an expiry.
    pub(crate) fn can_expire(&self) -> bool {
        self.expiring > 0
    }

    // --- Jobs with a time of the wall clock ---

    /// Whether any job is due or expires at a time of the wall clock.
    pub(crate) fn go_by_wall(&self) -> bool {
        !self.wall_times.is_empty()
    }

    /// The time of the wall clock at which a job expires or is due. `None`: it has no such time.
    #[inline]
    pub(crate) fn wall_time(&self, slot: JobSlot) -> Option<Millis> {
        if self[slot].may_go_by_wall() { self.wall_times.get(&slot).copied() } else { None }
    }

    /// Sets the time of the wall clock at which a job expires or is due. The job must be delayed or
    /// have an expiry. Other jobs are ignored.
    pub(crate) fn set_wall_time(&mut self, slot: JobSlot, wall: Millis) {
        if self[slot].may_go_by_wall() {
            self.wall_times.insert(slot, wall);
        }
    }

    /// The next job with a time of the wall clock, and this time. The search begins after the place
    /// `behind`.
    pub(crate) fn next_by_wall(&self, behind: Option<JobSlot>) -> Option<(JobSlot, Millis)> {
        let rest = (behind.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        self.wall_times.range(rest).next().map(|(slot, wall)| (*slot, *wall))
    }

    // --- Checks ---

    /// Walks all jobs. Panics if an index, a count or the memory account disagrees with the jobs.
    pub(crate) fn check_invariants(&self) {
        let mut counts = Counts::default();
        let (mut keyed, mut unlogged, mut bytes, mut resident) = (0, 0, 0, 0);
        let (mut letters, mut moved, mut indexed) = (0, 0, 0);
        let mut unique_keys = (0, 0);
        let expiring = self.iter().filter(|(_, job)| job.expires().is_some()).count();
        assert_eq!(self.expiring, expiring as u64, "the jobs that have an expiry");
        let submitted = self.iter().filter(|(_, job)| job.is_submitted()).map(|(slot, _)| slot);
        assert!(submitted.eq(self.submitted.iter().copied()));
        for (slot, job) in self.iter() {
            let id = job.id();
            assert_eq!(self.find(id), Some(slot), "job {id} is in the index");
            assert!(id.0 < self.next_id && job.order() < self.next_id);
            assert_eq!(job.lease().is_some(), job.state() == State::Leased);
            counts.add(job.counted());
            unlogged += u64::from(job.is_unlogged());
            if let Some(is_found) = self.keys.has(job) {
                assert_eq!(is_found, job.state() != State::Buried, "the key of job {id}");
                keyed += u64::from(is_found);
            }
            assert!(self.keys.has_right_hash(job), "the hash of the body of job {id}");
            letters += u64::from(job.death().is_some());
            moved += u64::from(job.death().is_some_and(|death| !death.origin.is_empty()));
            if let Some(place) = dead::place(job) {
                assert!(self.dead.has(&place), "dead letter {id} is in the index");
                indexed += 1;
            }
            unique_keys.0 += usize::from(self.unique_keys.key(id).is_some());
            if let Some(is_found) = self.unique_keys.has(job) {
                assert!(is_found, "job {id} is found by its key");
                unique_keys.1 += 1;
            }
            assert_eq!(job.extra_units, bytes::extra_units(job), "what is counted for job {id}");
            bytes += bytes::bytes_of(job);
            resident += bytes::evictable(job);
        }
        for (_, block) in self.blocks.iter() {
            counts.add_block(&block.facts);
        }
        for slot in self.wall_times.keys() {
            let job = &self[*slot];
            assert!(job.may_go_by_wall(), "job {} has no moment that it tells", job.id());
        }
        assert_eq!(self.keys.len(), keyed, "only keys of jobs");
        assert_eq!(self.dead.letters, letters, "dead letters");
        self.dead.check_origins(moved);
        assert_eq!(self.dead.len() as u64, indexed, "only dead letters are in the index");
        assert_eq!(self.unique_keys.len(), unique_keys, "only keys of jobs");
        assert_eq!(self.ids.len(), self.slab.len());
        assert_eq!(counts, self.counts);
        assert_eq!(unlogged, self.unlogged);
        bytes += self.group_keys.len() as u64 * bytes::GROUP_KEY_BYTES;
        assert_eq!(bytes, self.bytes, "the memory account of jobs");
        assert_eq!(resident, self.resident, "the memory of bodies that the log has, too");
    }
}

#[cfg(test)]
mod tests;
