//! The work meter counts the cost of requests, and reports when a slice of work is spent.
//!
//! A unit is one job, list entry, waiter, watcher or queue that the engine reads or changes. A unit
//! takes well under a microsecond. The engine works in slices of a number of units. An
//! operation that needs more than a few units checks the meter again and again. When the slice is
//! spent, the operation stops, and continues in a later slice. So a request never delays other
//! requests for long, even if the engine has very many jobs.
//!
//! The meter measures two kinds of slices. The owner of a connection begins a *slice* for a piece
//! of input, an event or the end of a session. The owner begins no further request when the slice
//! is spent. A divisible *request*, or a step of a chore, gets a slice of its own inside the owner's
//! slice. So the immediate result of a request does not depend on earlier requests, as long as all
//! slices have the same length: the owner of the engine can shorten them while others wait. A step
//! of a loop must not begin a request, because the loop would get a new slice with each step.
//! Together, the requests in an owner's slice can use more units than `slice_units`. The maximum is
//! twice `slice_units` plus one indivisible step: see [`crate::limits::INDIVISIBLE_UNITS_MAX`].

use std::cell::Cell;

use crate::limits::SHORT_SLICE_DIVISOR;

/// The maximum cost of a job's change of state, in units. There is one exception: if the session
/// that gets the job waits in many queues, the change can cost more.
const JOB_UNITS: u32 = 4;

/// Counts units of work: see the module.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Units since the engine was made. The field is a cell, because requests with a shared
    /// reference to the engine count units, too.
    done: Cell<u64>,
    /// The value of `done` when the current slice began. `None` before the first slice: while the
    /// engine restores jobs from the log, no slice has begun.
    slice_began: Option<u64>,
    slice_end: u64,
    /// The current request stops when `done` reaches this value.
    request_end: u64,
    /// Units of a slice that begins now.
    slice_units: u32,
    /// Units of a slice that is not short.
    full_slice_units: u32,
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
            full_slice_units: slice_units,
            longest: 0,
        }
    }

    /// Counts this many units of work, before or after the work itself.
    pub(crate) fn count(&self, units: usize) {
        self.done.set(self.done.get() + units as u64);
    }

    /// Sets the length of slices and requests that begin after this call.
    pub(crate) fn use_short_slices(&mut self, are_short: bool) {
        let share = if are_short { SHORT_SLICE_DIVISOR } else { 1 };
        self.slice_units = (self.full_slice_units / share).max(1);
    }

    /// Ends the current slice and begins a new slice.
    pub(crate) fn begin_slice(&mut self) {
        self.longest = self.longest_slice();
        self.slice_began = Some(self.done());
        self.slice_end = self.done() + u64::from(self.slice_units);
        self.request_end = self.slice_end;
    }

    /// Whether the slice is spent. If it is, the caller must not begin more work in this slice.
    pub(crate) fn is_spent(&self) -> bool {
        self.done() >= self.slice_end
    }

    /// Begins a divisible request, or a step of a chore.
    pub(crate) fn begin_request(&mut self) {
        self.request_end = self.done() + u64::from(self.slice_units);
    }

    /// Begins a part of a request that stops at the end of the slice.
    pub(crate) fn use_rest_of_slice(&mut self) {
        self.request_end = self.slice_end;
    }

    /// Whether the current request has used up its slice.
    pub(crate) fn request_is_spent(&self) -> bool {
        self.done() >= self.request_end
    }

    /// Maximum number of jobs in one step of a chore. Most jobs cost at most `JOB_UNITS` units. So
    /// most steps end at this number of jobs, and not at a number of units. If the jobs cost more,
    /// the meter ends the step.
    pub(crate) fn step_jobs(&self) -> u32 {
        (self.slice_units / JOB_UNITS).max(1)
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.get()
    }

    /// Units of the longest slice so far, including the current slice.
    pub(crate) fn longest_slice(&self) -> u64 {
        self.longest.max(self.slice_began.map_or(0, |began| self.done() - began))
    }
}
