//! The work meter counts the cost of requests, and reports when a slice of work is spent.
//!
//! A unit is one job, list entry, waiter, watcher or queue that the engine reads or changes. It
//! takes well under a microsecond. Work is done in slices, and a slice is a number of units. An
//! operation that takes more than a few units checks the meter in between, stops when the slice is
//! spent, and continues in a later slice. So no request delays the others for long, however much is
//! stored.
//!
//! The meter serves two callers. The owner of a connection begins a *slice* for a piece of input,
//! an event or the end of a session, and begins no further request when the slice is spent. A
//! *request* that can be divided, and a step of a chore, each have their own slice: so their
//! immediate result does not depend on earlier requests. Therefore the owner's slice can be longer
//! than one slice of units, but never longer than two plus one indivisible step: see
//! [`crate::limits::INDIVISIBLE_UNITS_MAX`].

use std::cell::Cell;

/// Maximum cost of a job's change of state, unless sessions wait for it in many queues.
const JOB_UNITS: u32 = 4;

/// Counts units of work. See the module.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Units since the engine was made. (It is a cell, because requests that change nothing count
    /// units, too.)
    done: Cell<u64>,
    /// `None` before the first slice: the restore at a start belongs to no slice.
    slice_began: Option<u64>,
    slice_end: u64,
    /// The current request stops when `done` reaches this.
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

    /// Counts this many units of work, done or about to be done.
    pub(crate) fn count(&self, units: usize) {
        self.done.set(self.done.get() + units as u64);
    }

    /// Begins a slice, and ends the one before.
    pub(crate) fn begin_slice(&mut self) {
        self.longest = self.longest_slice();
        self.slice_began = Some(self.done());
        self.slice_end = self.done() + u64::from(self.slice_units);
        self.request_end = self.slice_end;
    }

    /// Whether the slice is spent: then the caller must begin nothing more in it.
    pub(crate) fn is_spent(&self) -> bool {
        self.done() >= self.slice_end
    }

    /// Begins a request that can be divided, or a step of a chore.
    pub(crate) fn begin_request(&mut self) {
        self.request_end = self.done() + u64::from(self.slice_units);
    }

    /// Whether the current request has used up its slice.
    pub(crate) fn request_is_spent(&self) -> bool {
        self.done() >= self.request_end
    }

    /// Maximum number of jobs in one step of a chore. Few jobs cost more than `JOB_UNITS` units. So
    /// this number usually ends a step, whatever its jobs cost. If the jobs do cost more, the meter
    /// ends the step.
    pub(crate) fn step_jobs(&self) -> u32 {
        (self.slice_units / JOB_UNITS).max(1)
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.get()
    }

    /// Units of the longest slice so far, including the current one.
    pub(crate) fn longest_slice(&self) -> u64 {
        self.longest.max(self.slice_began.map_or(0, |began| self.done() - began))
    }
}
