//! The cold jobs of a queue. They are only in the log, in blocks: see [`crate::jobs::BlockFacts`].
//!
//! The first job of a queue is its *head*. If the first job of a block comes before all ready jobs
//! in memory, the head is cold. The head is also cold if a job of a block of delayed jobs is due.
//! Then the queue hands out no job until the block is loaded.

use super::extension::Extension;
use super::lanes::Lanes;
use super::queue::{Queue, ReadyKey, ready_key, ready_place};
use crate::collections::Ordered;
use crate::ids::{BlockSlot, JobSlot, Millis};
use crate::jobs::{BlockFacts, State};

/// The owner gets this many milliseconds to load a delayed job before the job is due.
const LOAD_AHEAD_MS: u64 = 1000;

/// The cold jobs of a queue.
#[derive(Debug, Default)]
pub(crate) struct Cold {
    ready: ColdList,
    delayed: ColdList,
    buried: ColdList,
    /// A cold job of the list of delayed jobs is due.
    is_due: bool,
}

/// The cold jobs of one state.
#[derive(Debug, Default)]
pub(crate) struct ColdList {
    /// The blocks, by the lowest place of their jobs in the list of this state.
    blocks: Ordered<(u64, u64)>,
    /// The first of them. Each request that needs the head of the queue reads it.
    first: Option<((u64, u64), BlockSlot)>,
    /// When a job at this place or behind it leaves the list of ready jobs, the next blocks are
    /// wanted. `None`: only a cold head makes them wanted.
    pub(crate) wanted_from: Option<(u64, u64)>,
    /// The next blocks are wanted, and not loaded yet.
    pub(crate) is_wanted: bool,
}

impl ColdList {
    /// The blocks, in the order of their first jobs.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockSlot> {
        self.blocks.iter().map(|(_, id)| BlockSlot(id))
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The place of the first cold job, and its block.
    fn first(&self) -> Option<((u64, u64), BlockSlot)> {
        self.first
    }

    /// The first block that begins at this place or behind it, and where it begins.
    pub(crate) fn first_from(&self, from: (u64, u64)) -> Option<((u64, u64), BlockSlot)> {
        self.blocks.first_from(from).map(|(key, id)| (key, BlockSlot(id)))
    }

    fn insert(&mut self, key: (u64, u64), id: BlockSlot) {
        self.blocks.insert(key, id.0);
        self.note_first();
    }

    fn remove(&mut self, key: (u64, u64)) {
        self.blocks.remove(key);
        self.note_first();
    }

    fn note_first(&mut self) {
        self.first = self.blocks.first().map(|(key, id)| (key, BlockSlot(id)));
    }
}

impl Cold {
    pub(crate) fn list(&self, state: State) -> &ColdList {
        match state {
            State::Ready => &self.ready,
            State::Delayed => &self.delayed,
            State::Buried => &self.buried,
            State::Leased => unreachable!("a leased job is in memory"),
        }
    }

    pub(crate) fn list_mut(&mut self, state: State) -> &mut ColdList {
        match state {
            State::Ready => &mut self.ready,
            State::Delayed => &mut self.delayed,
            State::Buried => &mut self.buried,
            State::Leased => unreachable!("a leased job is in memory"),
        }
    }

    fn is_empty(&self) -> bool {
        [&self.ready, &self.delayed, &self.buried].iter().all(|list| list.blocks.is_empty())
    }

    /// Whether any ready or delayed job is cold.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.ready.blocks.is_empty() || !self.delayed.blocks.is_empty()
    }

    /// When the first delayed job is due.
    fn first_due(&self) -> Option<Millis> {
        self.delayed.first().map(|((due, _), _)| Millis(due))
    }

    /// The next moment at which the delayed jobs need something: the load of their first block, or
    /// the note that a job is due.
    pub(crate) fn next_moment(&self) -> Option<Millis> {
        let due = self.first_due()?;
        match (self.delayed.is_wanted, self.is_due) {
            (false, _) => Some(load_begins(due)),
            (true, false) => Some(due),
            (true, true) => None,
        }
    }
}

/// When the load of a delayed job should begin.
fn load_begins(due: Millis) -> Millis {
    Millis(due.0.saturating_sub(LOAD_AHEAD_MS))
}

/// Whether a delayed job is loaded soon, so that it should stay in memory.
pub(crate) fn is_due_soon(due: Millis, now: Millis) -> bool {
    due.0 <= now.0.saturating_add(2 * LOAD_AHEAD_MS)
}

impl Queue {
    pub(crate) fn cold(&self) -> Option<&Cold> {
        self.extension()?.cold.as_deref()
    }

    pub(crate) fn cold_mut(&mut self) -> Option<&mut Cold> {
        self.extension_mut()?.cold.as_deref_mut()
    }

    /// The blocks of cold jobs of a state, in the order of their first jobs.
    pub(crate) fn blocks(&self, state: State) -> impl Iterator<Item = BlockSlot> {
        self.cold().into_iter().flat_map(move |cold| cold.list(state).blocks())
    }

    /// The place of the first cold job of a state in the list of this state, and its block.
    pub(crate) fn first_cold(&self, state: State) -> Option<((u64, u64), BlockSlot)> {
        self.cold()?.list(state).first()
    }

    /// The first block of delayed jobs, if its load should begin.
    pub(crate) fn block_due_soon(&self, now: Millis) -> Option<(Millis, BlockSlot)> {
        let ((due, _), block) = self.first_cold(State::Delayed)?;
        (load_begins(Millis(due)) <= now).then_some((Millis(due), block))
    }

    /// Whether the next job of the queue is cold.
    pub(crate) fn head_is_cold(&self) -> bool {
        let Some(cold) = self.cold() else { return false };
        cold.is_due || self.is_first_cold(State::Ready)
    }

    /// The place of the first cold job that this queue hands out, and the list to load. Only for a
    /// queue whose head is cold.
    pub(crate) fn cold_head(&self) -> (ReadyKey, State) {
        match self.first_cold(State::Ready) {
            Some((key, _)) if !self.cold().is_some_and(|cold| cold.is_due) => {
                (ready_key(key), State::Ready)
            }
            // Nobody knows the priority of a due job before it is loaded.
            _ => ((0, 0), State::Delayed),
        }
    }

    /// Whether the first job in the list of this state is cold.
    pub(crate) fn is_first_cold(&self, state: State) -> bool {
        let Some((cold, _)) = self.first_cold(state) else { return false };
        let resident = match state {
            State::Ready => self.ready().first().map(|(key, _)| ready_place(key)),
            State::Delayed => self.delayed().first().map(|((due, id), _)| (due.0, id)),
            State::Buried => self.buried().first().map(|(order, _)| (order, 0)),
            State::Leased => None,
        };
        resident.is_none_or(|key| cold < key)
    }

    /// Whether the queue has a ready job, in memory or cold.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready().is_empty() || self.first_cold(State::Ready).is_some()
    }

    /// Whether the queue has a ready job, or a cold job that is ready or delayed. Without one, no take
    /// gets a job of this queue unless it names the job, and no load would change that.
    pub(crate) fn is_stocked(&self) -> bool {
        !self.ready().is_empty() || self.cold().is_some_and(Cold::has_waiting)
    }

    /// The next job, if it is in memory. If no lane is open, it is the first job.
    pub(crate) fn first_ready(&self) -> Option<JobSlot> {
        let lanes = self.extension().and_then(Extension::lanes).filter(|lanes| lanes.are_wanted());
        if let Some(slot) = lanes.and_then(Lanes::next) {
            return Some(slot);
        }
        let (_, slot) = self.ready().first().filter(|_| !self.head_is_cold())?;
        Some(JobSlot(slot))
    }

    /// Notes whether a cold job of the list of delayed jobs is due.
    pub(crate) fn note_due(&mut self, now: Millis) {
        if let Some(cold) = self.cold_mut() {
            cold.is_due = cold.first_due().is_some_and(|due| due <= now);
        }
    }

    /// Adds a block. The queue must have an extension.
    pub(super) fn add_block(&mut self, facts: &BlockFacts, id: BlockSlot) {
        let extension = self.extension_mut().expect("a queue with cold jobs has an extension");
        let list = extension.cold.get_or_insert_default().list_mut(facts.state);
        list.insert(facts.first, id);
    }

    /// Removes a block.
    pub(super) fn remove_block(&mut self, facts: &BlockFacts) {
        let Some(extension) = self.extension_mut() else { return };
        let Some(cold) = &mut extension.cold else { return };
        cold.list_mut(facts.state).remove(facts.first);
        if cold.is_empty() {
            extension.cold = None;
        }
    }
}
