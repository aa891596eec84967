//! The work meter: counts what requests cost, and says when a slice of work is spent.
//!
//! One unit is one job, list entry, waiter, watcher or queue that is looked at or changed: well
//! under a microsecond. Work is done in slices. A slice is a number of units. Whoever does more than
//! a few units looks at the meter in between, stops when the slice is spent, and goes on in a later
//! slice, so that no request holds up the others for long, whatever is stored.
//!
//! There are two looks at it. The owner of a connection begins a *slice* for a piece of input, an
//! event or the end of a session, and begins no further request when that is spent. A *request* that
//! can be divided, and a step of a chore, has a slice of its own: what it does at once does not
//! depend on the requests before it. So a slice of the owner is never longer than two, and what
//! cannot be divided: see [`crate::limits::INDIVISIBLE_UNITS_MAX`].

use std::cell::Cell;

/// What a job costs at most that goes from one state to another, unless others wait for it in many queues.
const JOB_UNITS: u32 = 4;

/// Counts units of work. See the module.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Units since the engine was made. (A cell: looking at things is work, too.)
    done: Cell<u64>,
    /// `None` before the first slice: what a start restores is in none.
    slice_began: Option<u64>,
    slice_end: u64,
    /// The request in progress stops when `done` is here.
    request_end: u64,
    slice_units: u32,
    /// Units of the longest slice that has ended.
    longest: u64,
}

impl Meter {
    pub(crate) fn new(slice_units: u32) -> Self {
        let end = slice_units.into();
        Self {
            done: Cell::new(0),
            slice_began: None,
            slice_end: end,
            request_end: end,
            slice_units,
            longest: 0,
        }
    }

    /// So many units of work are done, or are about to be.
    pub(crate) fn count(&self, units: usize) {
        self.done.set(self.done.get() + units as u64);
    }

    /// Begins a slice; the one before ends.
    pub(crate) fn begin_slice(&mut self) {
        self.longest = self.longest_slice();
        self.slice_began = Some(self.done());
        self.slice_end = self.done() + u64::from(self.slice_units);
        self.request_end = self.slice_end;
    }

    /// Whether nothing more is to be begun in this slice.
    pub(crate) fn is_spent(&self) -> bool {
        self.done() >= self.slice_end
    }

    /// Begins a request that can be divided, or a step of a chore.
    pub(crate) fn begin_request(&mut self) {
        self.request_end = self.done() + u64::from(self.slice_units);
    }

    /// Whether the request in progress has done enough at once.
    pub(crate) fn request_is_spent(&self) -> bool {
        self.done() >= self.request_end
    }

    /// How many jobs one step of a chore touches at most. Few cost more than so many units each, so
    /// it does not depend on what else they cost where a step ends; when they do, the meter ends it.
    pub(crate) fn step_jobs(&self) -> u32 {
        (self.slice_units / JOB_UNITS).max(1)
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.get()
    }

    /// Units of the longest slice so far, the one in progress included.
    pub(crate) fn longest_slice(&self) -> u64 {
        self.longest.max(self.slice_began.map_or(0, |began| self.done() - began))
    }
}
