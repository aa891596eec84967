//! The work meter: counts what requests cost, and says when a slice of work is spent.
//!
//! One unit is one job, list entry, waiter, watcher or queue that is looked at or changed: well
//! under a microsecond. Work is done in slices. Whoever does more than a few units looks at the
//! meter in between, stops when the slice is spent, and goes on in a later slice, so that no request
//! holds up the others for longer than the engine promises, whatever is stored.

/// Counts units of work. See the module.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Units since the engine was made.
    done: u64,
    /// The slice in progress is spent when `done` is here.
    slice_end: u64,
    slice_units: u32,
}

impl Meter {
    pub(crate) fn new(slice_units: u32) -> Self {
        Self { done: 0, slice_end: slice_units.into(), slice_units }
    }

    /// So many units of work are done, or are about to be.
    pub(crate) fn count(&mut self, units: usize) {
        self.done += units as u64;
    }

    /// Begins a slice; the one before ends.
    pub(crate) fn begin_slice(&mut self) {
        self.slice_end = self.done + u64::from(self.slice_units);
    }

    /// Whether nothing more is to be begun in this slice.
    pub(crate) fn is_spent(&self) -> bool {
        self.done >= self.slice_end
    }

    pub(crate) fn done(&self) -> u64 {
        self.done
    }
}
