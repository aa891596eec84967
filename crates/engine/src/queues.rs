//! Queues: the table of all queues, its indexes by name, age and kind, and the lists of each queue.
//!
//! [`Queues`] owns every queue. Only `Queues` changes a queue's lists, and the indexes that depend
//! on the lists. After each call, the lists and the indexes agree.

mod bytes;
mod cold;
mod extension;
mod gates;
mod lanes;
mod names;
mod queue;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Index, IndexMut};

use fixedbitset::FixedBitSet;

use crate::collections::Slab;
use crate::hash::NameHash;
use crate::ids::{BlockSlot, JobSlot, LeaseId, Millis, QueueId};
use crate::jobs::{BlockFacts, Job, JobList, State};
use crate::limits::{ALIKE_MAX, UNIT_COMPARISONS};
use crate::policy::{Name, Policy};
use names::NameTable;

pub(crate) use cold::{Cold, is_due_soon};
pub(crate) use extension::{Extension, parent_of};
pub(crate) use gates::GateTerms;
pub(crate) use lanes::{Closed, Entrant, Lanes, Sorting};
pub use queue::QueueFacts;
pub(crate) use queue::{Pause, PauseReason, Queue, ReadyKey, ready_key, ready_place};
pub(crate) use walk::Walk;

/// The name of the queue that always exists (spec beanstalkd 6).
pub const DEFAULT_QUEUE: &[u8] = b"default";

/// The table of all queues: see the module.
#[derive(Debug)]
pub(crate) struct Queues {
    slab: Slab<Queue>,
    hash: NameHash,
    names: NameTable,
    /// All queues by age rank, oldest first.
    by_age: BTreeMap<u64, QueueId>,
    next_age_rank: u64,
    /// Queues with capital letters in their names, by the hash of the name in lower case and by the
    /// age rank.
    cased: BTreeMap<(u64, u64), QueueId>,
    /// Queues that have both ready jobs and workers.
    supplying: BTreeSet<QueueId>,
    /// The places of queues that are stocked: see [`Queue::is_stocked`].
    stocked: FixedBitSet,
    /// The number of queues that have an [`Extension`].
    extensions: usize,
    /// Whether a queue has gates now, or had gates before. If not, no hand-out looks for gates.
    gated: bool,
    /// See [`GateTerms::empty_at`].
    pub(crate) buckets_empty_at: Millis,
    /// Queues of items, by name.
    of_items: BTreeMap<Name, QueueId>,
    /// The children, by the name of their parent. There can be children without an existing parent.
    families: BTreeMap<Name, BTreeSet<QueueId>>,
    /// Queues that became children, or that stay in existence from now on, as a side effect of a
    /// request or a rule. The log does not have these facts yet.
    unlogged_children: Vec<QueueId>,
    /// Lists whose next blocks of cold jobs are wanted, and that [`Queues::take_wanted`] has not
    /// returned yet.
    wanted: Vec<JobList>,
    bytes: u64,
    /// The part of the memory that all lanes take.
    lane_bytes: u64,
}

impl Index<QueueId> for Queues {
    type Output = Queue;

    #[inline]
    fn index(&self, id: QueueId) -> &Queue {
        self.slab.get(id.0).expect("a queue exists while something refers to it")
    }
}

impl IndexMut<QueueId> for Queues {
    #[inline]
    fn index_mut(&mut self, id: QueueId) -> &mut Queue {
        self.slab.get_mut(id.0).expect("a queue exists while something refers to it")
    }
}

impl Queues {
    pub(crate) fn new(hash: NameHash) -> Self {
        Self {
            slab: Slab::default(),
            hash,
            names: NameTable::default(),
            by_age: BTreeMap::new(),
            next_age_rank: 0,
            cased: BTreeMap::new(),
            supplying: BTreeSet::new(),
            stocked: FixedBitSet::new(),
            extensions: 0,
            gated: false,
            buckets_empty_at: Millis(0),
            of_items: BTreeMap::new(),
            families: BTreeMap::new(),
            unlogged_children: Vec::new(),
            wanted: Vec::new(),
            bytes: 0,
            lane_bytes: 0,
        }
    }

    // --- The table ---

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// The ids that the next queues get, in this order, before ids that no queue had yet.
    pub(crate) fn free_ids(&self) -> impl Iterator<Item = QueueId> {
        self.slab.free_places().map(QueueId)
    }

    /// The memory of all queues, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes + self.lane_bytes
    }

    pub(crate) fn get(&self, id: QueueId) -> Option<&Queue> {
        self.slab.get(id.0)
    }

    pub(crate) fn get_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.slab.get_mut(id.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (QueueId, &Queue)> {
        self.slab.iter().map(|(place, queue)| (QueueId(place), queue))
    }

    /// The queue of this name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<QueueId> {
        self.names.find(self.hash.of(name), |id| {
            let queue = &self[id];
            queue.prefetch();
            queue.name() == name
        })
    }

    /// Adds a queue under a name that no other queue has. The new queue can be the parent of
    /// existing queues.
    pub(crate) fn insert(&mut self, name: &[u8], now: Millis) -> QueueId {
        let age_rank = self.next_age_rank;
        self.next_age_rank += 1;
        let id = QueueId(self.slab.insert(Queue::new(name, age_rank)));
        // The bits grow with the table, so that a put need not check it.
        self.stocked.grow(self.slab.end() as usize);
        let (slab, hash) = (&self.slab, &self.hash);
        self.names.insert(hash.of(name), id, |id| {
            hash.of(slab.get(id.0).expect("the table names queues that exist").name())
        });
        self.by_age.insert(age_rank, id);
        if let Some(place) = self.cased_place(name, age_rank) {
            self.cased.insert(place, id);
        }
        self.bytes += bytes::queue_bytes(name);
        if self.families.contains_key(name) {
            self.ensure_extension(id, now).set_parent();
        }
        id
    }

    /// Removes a queue that is not wanted any more. The caller disarms the queue's timer.
    pub(crate) fn remove(&mut self, id: QueueId) -> Queue {
        self.unmark(id);
        let queue = self.slab.remove(id.0).expect("a queue that was just looked at");
        self.names.remove(self.hash.of(queue.name()), id);
        self.by_age.remove(&queue.age_rank());
        if let Some(place) = self.cased_place(queue.name(), queue.age_rank()) {
            self.cased.remove(&place);
        }
        self.extensions -= usize::from(queue.extension().is_some());
        self.bytes -= bytes::of_queue(&queue);
        self.lane_bytes -= bytes::of_lanes(&queue);
        queue
    }

    // --- By age and by name ---

    /// The oldest queue whose age rank is at least `from`, and its age rank.
    pub(crate) fn next_by_age(&self, from: u64) -> Option<(u64, QueueId)> {
        self.by_age.range(from..).next().map(|(age_rank, id)| (*age_rank, *id))
    }

    /// All queues, oldest first.
    pub(crate) fn ids(&self) -> impl Iterator<Item = QueueId> {
        self.by_age.values().copied()
    }

    /// The queues whose names differ from this name at most in the case of ASCII letters, oldest
    /// first. If there are more such queues than [`ALIKE_MAX`] allows, the list has only some of
    /// them.
    pub(crate) fn in_any_case(&self, name: &[u8]) -> Vec<QueueId> {
        let folded = name.to_ascii_lowercase();
        let hash = self.hash.of(&folded);
        let most = ALIKE_MAX / (1 + name.len() / UNIT_COMPARISONS);
        let cased = self.cased.range((hash, 0)..=(hash, u64::MAX)).take(most);
        let cased = cased.map(|(_, id)| *id).chain(self.find(&folded));
        let mut alike: Vec<QueueId> =
            cased.filter(|id| self[*id].name().eq_ignore_ascii_case(name)).collect();
        alike.sort_unstable_by_key(|id| self[*id].age_rank());
        alike
    }

    /// The key of a queue in the index `cased`. `None`: the name has no capital letters. Then the
    /// table of names finds the queue.
    fn cased_place(&self, name: &[u8], age_rank: u64) -> Option<(u64, u64)> {
        let is_cased = name.iter().any(u8::is_ascii_uppercase);
        is_cased.then(|| (self.hash.of(&name.to_ascii_lowercase()), age_rank))
    }

    // --- Lists of jobs ---

    /// Adds a job to the list of its queue for the job's state: ready, delayed or buried. Returns
    /// whether the queue may need an earlier timer.
    #[inline]
    pub(crate) fn add_to_list(&mut self, slot: JobSlot, job: &Job) -> bool {
        let queue = self.slab.get_mut(job.queue().0).expect("a job's queue exists");
        queue.add_to_list(slot, job);
        match job.state() {
            State::Ready => {
                if queue.workers() > 0 {
                    self.supplying.insert(job.queue());
                }
                self.stocked.insert(job.queue().0 as usize);
                queue.extension().is_some()
            }
            State::Delayed => true,
            State::Leased | State::Buried => false,
        }
    }

    /// Removes a job from the list of its queue for the job's state: ready, delayed or buried.
    /// Returns whether the queue may need an earlier timer.
    #[inline]
    pub(crate) fn remove_from_list(&mut self, slot: JobSlot, job: &Job) -> bool {
        let queue = self.slab.get_mut(job.queue().0).expect("a job's queue exists");
        queue.remove_from_list(slot, job);
        if queue.workers() > 0 && !queue.has_ready() {
            self.supplying.remove(&job.queue());
        }
        if !queue.is_stocked() {
            self.stocked.remove(job.queue().0 as usize);
        }
        // The job that is the new head may expire sooner than the old head.
        queue.extension().is_some()
    }

    // --- Cold jobs ---

    /// Adds jobs that were cold to a list. The places must be in ascending order. Calls `refused`
    /// with each job whose place another job has.
    pub(crate) fn add_all_to_list(
        &mut self,
        list: JobList,
        jobs: &[((u64, u64), JobSlot)],
        refused: impl FnMut(JobSlot),
    ) {
        let queue = &mut self[list.queue];
        queue.add_all_to_list(list.state, jobs, refused);
        if list.state == State::Ready && queue.workers() > 0 && !queue.ready().is_empty() {
            self.supplying.insert(list.queue);
        }
        self.note_stock(list.queue);
    }

    /// Removes the jobs at these places from a list, because they become cold. The places must be in
    /// ascending order. The caller adds their block next.
    pub(crate) fn remove_all_from_list(&mut self, list: JobList, places: &[(u64, u64)]) {
        self[list.queue].remove_all_from_list(list.state, places);
        self.note_stock(list.queue);
    }

    /// Adds a block of cold jobs to its queue, which must have an extension.
    pub(crate) fn add_block(&mut self, id: QueueId, facts: &BlockFacts, block: BlockSlot) {
        let queue = &mut self[id];
        queue.add_block(facts, block);
        queue.count_block_in(facts);
        if queue.workers() > 0 && facts.state == State::Ready {
            self.supplying.insert(id);
        }
        self.note_stock(id);
    }

    /// Removes a block of cold jobs from its queue.
    pub(crate) fn remove_block(&mut self, id: QueueId, facts: &BlockFacts) {
        let queue = &mut self[id];
        queue.remove_block(facts);
        queue.count_block_out(facts);
        if queue.workers() > 0 && !queue.has_ready() {
            self.supplying.remove(&id);
        }
        self.note_stock(id);
    }

    fn note_stock(&mut self, id: QueueId) {
        let is_stocked = self[id].is_stocked();
        self.stocked.set(id.0 as usize, is_stocked);
    }

    /// Whether a queue is stocked: see [`Queue::is_stocked`]. Reads one bit, and nothing of the queue
    /// itself.
    #[inline]
    pub(crate) fn is_stocked(&self, id: QueueId) -> bool {
        self.stocked.contains(id.0 as usize)
    }

    /// Notes that the next blocks of a list are wanted, if it has any.
    pub(crate) fn want_blocks(&mut self, list: JobList) {
        if let Some(cold) = self[list.queue].cold_mut() {
            let cold = cold.list_mut(list.state);
            if cold.len() > 0 && !std::mem::replace(&mut cold.is_wanted, true) {
                self.wanted.push(list);
            }
        }
    }

    /// Returns and clears the lists whose next blocks are wanted.
    pub(crate) fn take_wanted(&mut self) -> Vec<JobList> {
        std::mem::take(&mut self.wanted)
    }

    // --- Workers ---

    /// Adds a registration of a worker for a queue. `is_new`: the worker was not registered for
    /// this queue before.
    pub(crate) fn add_worker(&mut self, id: QueueId, is_new: bool) {
        let queue = &mut self[id];
        queue.add_workers(u32::from(is_new));
        if queue.has_ready() {
            self.supplying.insert(id);
        }
    }

    /// Removes a registration of a worker for a queue. Returns whether the queue now has no
    /// registration.
    pub(crate) fn remove_worker(&mut self, id: QueueId) -> bool {
        let queue = &mut self[id];
        queue.remove_worker();
        let was_last = queue.workers() == 0;
        if was_last {
            self.supplying.remove(&id);
        }
        was_last
    }

    /// Queues that have both ready jobs and workers.
    pub(crate) fn supplying(&self) -> &BTreeSet<QueueId> {
        &self.supplying
    }

    // --- Optional parts of a queue ---

    /// Whether any queue has an [`Extension`].
    pub(crate) fn have_extensions(&self) -> bool {
        self.extensions > 0
    }

    /// Sets whether the queue stays in existence without jobs or users. Returns the old value.
    pub(crate) fn set_kept(&mut self, id: QueueId, kept: bool) -> bool {
        let was_kept = self[id].set_kept(kept);
        let kept_bytes = bytes::kept_bytes(self[id].name());
        self.bytes += if kept { kept_bytes } else { 0 };
        self.bytes -= if was_kept { kept_bytes } else { 0 };
        was_kept
    }

    /// Makes sure that a queue has an [`Extension`].
    pub(crate) fn ensure_extension(&mut self, id: QueueId, now: Millis) -> &mut Extension {
        if self[id].extension().is_none() {
            self.extensions += 1;
            self.bytes += bytes::EXTRA_BYTES;
        }
        self[id].ensure_extension(now)
    }

    /// Sets the policy of a queue. Its gates can shut, but they do not open. Leases before
    /// `first_lease` do not count for their keys if the queue had no lanes before.
    pub(crate) fn set_policy(
        &mut self,
        id: QueueId,
        policy: Policy,
        now: Millis,
        first_lease: LeaseId,
    ) {
        self.gated |= policy.has_gates();
        self.ensure_extension(id, now);
        let terms = self.gate_terms(&self[id], now);
        let Some(extension) = self[id].extension_mut() else { return };
        let had_lanes = extension.lanes().is_some();
        extension.change_policy(policy, terms, first_lease);
        if !had_lanes {
            self.change_lanes(id, now, Lanes::count_leases);
        }
    }

    /// Changes the lanes of a queue. `None`: it has no lanes.
    pub(crate) fn change_lanes<T>(
        &mut self,
        id: QueueId,
        now: Millis,
        change: impl FnOnce(&mut Lanes, GateTerms) -> T,
    ) -> Option<T> {
        let terms = self.gate_terms(&self[id], now);
        let lanes = self[id].extension_mut()?.lanes.as_deref_mut()?;
        let before = lanes.bytes();
        let changed = change(lanes, terms);
        let after = lanes.bytes();
        self.lane_bytes = self.lane_bytes + after - before;
        Some(changed)
    }

    /// Replaces the dropped lanes of a queue, if its policy needs lanes by now. Returns whether it does.
    pub(crate) fn replace_lanes(&mut self, id: QueueId, now: Millis, first_lease: LeaseId) -> bool {
        let Some(extension) = self[id].extension_mut() else { return false };
        let (rules, weights) = (extension.policy().lane_rules(), extension.policy().lane_weights());
        let lanes = rules.map(|rules| Box::new(Lanes::new((rules, weights), now, first_lease)));
        extension.lanes = lanes;
        self.change_lanes(id, now, Lanes::count_leases).is_some()
    }

    /// Whether a queue has gates now, or had gates before.
    #[inline]
    pub(crate) fn have_gates(&self) -> bool {
        self.gated
    }

    /// What the gates of a queue need to know.
    pub(crate) fn gate_terms(&self, queue: &Queue, now: Millis) -> GateTerms {
        GateTerms { now, leased: queue.counts().leased, empty_at: self.buckets_empty_at }
    }

    /// Marks a queue as a queue of items. Keeps the queue in existence.
    pub(crate) fn mark_items(&mut self, id: QueueId, now: Millis) {
        let name: Name = self[id].name().into();
        self.of_items.insert(name, id);
        self.ensure_extension(id, now).set_items(true);
        self.set_kept(id, true);
    }

    /// Makes a queue a child, so that it gets its parent's puts. Also keeps the queue in existence,
    /// because a child that vanished would miss puts. Returns false if the name of the queue has no
    /// `+` that follows a parent's name.
    pub(crate) fn link_child(&mut self, id: QueueId, now: Millis) -> bool {
        let Some(parent) = parent_of(self[id].name()).map(Name::from) else { return false };
        let was_child = self.ensure_extension(id, now).set_child(true);
        if let Some(parent) = self.find(&parent) {
            self.ensure_extension(parent, now).set_parent();
        }
        self.families.entry(parent).or_default().insert(id);
        let was_kept = self.set_kept(id, true);
        if !was_kept || !was_child {
            self.unlogged_children.push(id);
        }
        true
    }

    /// Removes a new child from `unlogged_children`, because the caller pushes the record itself.
    pub(crate) fn forget_unlogged_child(&mut self, id: QueueId) {
        self.unlogged_children.pop_if(|last| *last == id);
    }

    /// Returns and clears `unlogged_children`. The caller must push the records of these queues.
    pub(crate) fn take_unlogged_children(&mut self) -> Vec<QueueId> {
        std::mem::take(&mut self.unlogged_children)
    }

    /// Removes the marks of a queue: that it is a queue of items, and that it is a child.
    pub(crate) fn unmark(&mut self, id: QueueId) {
        let queue = self.slab.get_mut(id.0).expect("a queue that was just looked at");
        let Some((was_marked, was_child)) = queue.unmark() else { return };
        if was_marked {
            self.of_items.remove(queue.name());
        }
        if let Some(parent) = parent_of(queue.name())
            && was_child
            && let Some(children) = self.families.get_mut(parent)
        {
            children.remove(&id);
            if children.is_empty() {
                self.families.remove(parent);
            }
        }
    }

    /// The queues of items in the order of their names, beginning after `name`. `None`: all queues
    /// of items.
    pub(crate) fn items_behind(
        &self,
        name: Option<&[u8]>,
    ) -> impl Iterator<Item = (&[u8], QueueId)> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.of_items.range::<[u8], _>((from, Bound::Unbounded));
        behind.map(|(name, id)| (&**name, *id))
    }

    /// The children of the queue of this name. They can exist without their parent.
    pub(crate) fn children(&self, parent: &[u8]) -> Option<&BTreeSet<QueueId>> {
        self.families.get(parent)
    }

    // --- Checks ---

    /// Walks all queues. Panics if an index, a count or the memory account disagrees with the
    /// queues.
    pub(crate) fn check_invariants(&self) {
        assert_eq!(self.names.len(), self.len());
        assert_eq!(self.by_age.len(), self.len());
        let (mut cased, mut extensions, mut marked, mut children, mut bytes) = (0, 0, 0, 0, 0);
        let mut lane_bytes = 0;
        for (id, queue) in self.iter() {
            queue.check_invariants();
            let name = queue.name();
            assert_eq!(self.find(name), Some(id));
            assert_eq!(self.by_age.get(&queue.age_rank()), Some(&id));
            if let Some(place) = self.cased_place(name, queue.age_rank()) {
                assert_eq!(self.cased.get(&place), Some(&id));
                cased += 1;
            }
            let supplies = queue.workers() > 0 && queue.has_ready();
            assert_eq!(self.supplying.contains(&id), supplies);
            assert_eq!(self.is_stocked(id), queue.is_stocked());
            bytes += bytes::of_queue(queue);
            lane_bytes += bytes::of_lanes(queue);
            let Some(extension) = queue.extension() else { continue };
            extensions += 1;
            if extension.items() {
                assert_eq!(self.of_items.get(name), Some(&id));
                assert!(queue.is_kept(), "a queue of items is kept");
                marked += 1;
            }
            if extension.child() {
                let parent = parent_of(name).expect("a child's name has a plus");
                assert!(self.families[parent].contains(&id));
                children += 1;
            }
            assert!(extension.parent() || !self.families.contains_key(name));
        }
        assert_eq!(cased, self.cased.len(), "only names of queues");
        assert_eq!(extensions, self.extensions);
        assert_eq!(marked, self.of_items.len());
        let linked: usize = self.families.values().map(BTreeSet::len).sum();
        assert_eq!(children, linked);
        assert!(self.families.values().all(|family| !family.is_empty()));
        for family in self.families.keys() {
            let parent = self.find(family);
            assert!(parent.is_none_or(|parent| self[parent].extension().is_some()));
        }
        assert_eq!(bytes, self.bytes, "the memory account of queues");
        assert_eq!(lane_bytes, self.lane_bytes, "the memory account of lanes");
    }
}

#[cfg(test)]
mod tests;
