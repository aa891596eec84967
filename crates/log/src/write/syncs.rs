//! The syncs in progress, in the order in which they began. Each of the two committers has at most one.
//!
//! A group is durable when its own sync and all syncs that began earlier have succeeded. After a failed
//! sync, nothing more becomes durable.
//!
//! Threads *hurry* the second committer (see `second`) after an append. They first note the hurry, then
//! look for a sync in progress. The first committer first notes its sync, then looks for a hurry. Both have
//! a fence between their two steps. So one of them wakes the second committer, or the entry is in the group
//! that the first one has taken.

use std::collections::VecDeque;
use std::sync::PoisonError;

use super::positions::Positions;
use super::primitives::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering, fence};

/// Syncs in progress, and hurries: see the comment of the module.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    state: Mutex<State>,
    ended: Condvar,
    /// Whether a sync is in progress. Stays true after a failure.
    running: AtomicBool,
    hurried: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// The syncs that have begun, without those that have made their groups durable.
    begun: VecDeque<BegunSync>,
    /// The number of the oldest of them.
    first: u64,
    failed: bool,
}

#[derive(Debug)]
struct BegunSync {
    /// The position up to which the log is written.
    end: u64,
    /// The number of clients' entries that wait for it.
    entries: u64,
    has_succeeded: bool,
}

/// What has become durable.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Released {
    /// The durable position.
    pub(crate) durable: u64,
    /// The number of clients' entries.
    pub(crate) entries: u64,
}

/// A sync in progress.
#[derive(Debug)]
#[must_use]
pub(crate) struct Ticket<'a> {
    syncs: &'a Syncs,
    number: u64,
}

impl Ticket<'_> {
    /// Notes that the sync has succeeded, and raises the durable position. Calls `count` for this sync, and
    /// never for two at the same time. Returns what is durable now, unless an older
    /// sync is in progress.
    pub(crate) fn succeed(self, positions: &Positions, count: impl FnOnce()) -> Option<Released> {
        let mut state = self.syncs.state();
        count();
        if state.failed {
            return None;
        }
        let at = (self.number - state.first) as usize;
        state.begun[at].has_succeeded = true;
        let mut released: Option<Released> = None;
        while let Some(oldest) = state.begun.front().filter(|oldest| oldest.has_succeeded) {
            let before = released.map_or(0, |released| released.entries);
            released = Some(Released { durable: oldest.end, entries: before + oldest.entries });
            state.begun.pop_front();
            state.first += 1;
        }
        if let Some(released) = released {
            positions.note_durable(released.durable);
        }
        // The durable position comes first: who sees no sync in progress also sees it.
        self.syncs.running.store(!state.begun.is_empty(), Ordering::Release);
        self.syncs.ended.notify_all();
        released
    }
}

impl Syncs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a sync begins. The log is written up to `end`. The caller holds the commit lock, so the syncs
    /// are in the order of their positions.
    pub(crate) fn begin(&self, end: u64, entries: u64) -> Ticket<'_> {
        let mut state = self.state();
        state.begun.push_back(BegunSync { end, entries, has_succeeded: false });
        self.running.store(true, Ordering::Release);
        let number = state.first + state.begun.len() as u64 - 1;
        Ticket { syncs: self, number }
    }

    /// Notes that the log has failed. From now on, nothing more becomes durable, even if a sync in progress
    /// succeeds: the failed one can have lost writes of other groups.
    pub(crate) fn fail(&self) {
        self.state().failed = true;
        self.ended.notify_all();
    }

    /// Waits until no sync is in progress, or until the log has failed. The caller holds the commit lock, so no
    /// other sync begins.
    pub(crate) fn settle(&self) {
        let mut state = self.state();
        while !state.failed && !state.begun.is_empty() {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether a sync is in progress.
    pub(crate) fn are_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    /// Notes a hurry. Returns whether the caller must wake the second committer.
    #[must_use]
    pub(crate) fn hurry(&self) -> bool {
        self.hurried.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        self.are_running()
    }

    /// Called by the first committer after `begin`. Returns whether it must wake the second one.
    #[must_use]
    pub(crate) fn is_hurried_after_begin(&self) -> bool {
        fence(Ordering::SeqCst);
        self.is_hurried()
    }

    /// Whether a hurry was noted.
    pub(crate) fn is_hurried(&self) -> bool {
        self.hurried.load(Ordering::Relaxed)
    }

    /// Forgets the hurry, because the caller will take the open batch. Returns whether there was one.
    pub(crate) fn take_hurry(&self) -> bool {
        self.is_hurried() && self.hurried.swap(false, Ordering::AcqRel)
    }
}
