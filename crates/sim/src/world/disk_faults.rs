//! Faults of the simulated disk.

use super::World;
use super::steps::Step;
use crate::Checked;
use crate::machine::storage::Storage;
use crate::model::{Job, JobKind};

/// A fault is planned at most this many calls of the disk ahead.
const CALLS_AHEAD_MAX: u64 = 40;

const READS_AHEAD_MAX: u64 = 4;

/// A disk that counts as full has at most this many free bytes.
const LAST_BYTES_MAX: u64 = 300_000;

/// Segments that the log can have besides twice its live data: the segment that is being written,
/// the next one, and the reserve for reclaim and for ends of jobs.
const SEGMENTS_BESIDES_LIVE_MAX: u64 = 5;

/// The most bytes that a job's entry and index take besides its body.
const ENTRY_OVERHEAD_BYTES_MAX: u64 = 200;

impl World {
    /// Plans a power failure, or a failed call, at a later call of the disk.
    pub(crate) fn plan_fault(&mut self, step: Step) {
        let call = self.storage.disk.calls() + self.rng.between(1, CALLS_AHEAD_MAX);
        self.trace.note(format_args!("{step:?} at disk call {call}"));
        self.storage.is_disturbed = true;
        // If a segment could not be made ready, the log has no segment to fill for a while.
        if !self.plan.must_not_be_short() {
            self.model.expect_shortage();
        }
        match step {
            Step::PlanFailure => self.storage.disk.fail_at(call),
            Step::PlanReadFailure => {
                let read = self.storage.disk.reads() + self.rng.between(1, READS_AHEAD_MAX);
                self.storage.disk.fail_read_at(read);
            }
            _ => self.storage.disk.crash_at(call),
        }
    }

    /// Other processes take nearly all free space of the disk.
    pub(crate) fn fill_disk(&mut self) -> Checked {
        // The log admits a put that is too big for a segment if the disk has room for a segment of
        // its own. The log makes that segment when it writes the put's group. If other processes
        // take the room in between, the write fails.
        self.commit()?;
        let capacity = self.storage.disk.used() + self.rng.below(LAST_BYTES_MAX);
        self.trace.note(format_args!("the disk is full at {capacity}"));
        self.storage.disk.set_capacity(capacity);
        self.storage.is_full = true;
        self.model.expect_shortage();
        Ok(())
    }

    /// The disk has room again. The log can still refuse requests until it notices the room.
    pub(crate) fn empty_disk(&mut self) {
        if self.storage.is_full {
            self.trace.note(format_args!("the disk has room"));
            self.storage.disk.set_capacity(crate::machine::storage::DISK_BYTES);
            self.storage.is_full = false;
        }
    }

    /// Checks, after reclaim has finished, that the live data bounds the size of the files.
    pub(crate) fn check_disk_use(&self) -> Checked {
        let live = |job: &Job| job.body.len() as u64 + ENTRY_OVERHEAD_BYTES_MAX;
        let jobs = self.model.jobs.values().filter(|job| job.kind == JobKind::Logged);
        let live_bytes: u64 = jobs.map(live).sum();
        let used = self.storage.disk.used();
        let biggest = u64::from(self.plan.packet_bytes_max()) + ENTRY_OVERHEAD_BYTES_MAX;
        // An entry that is too big for a segment has its own, which can be the newest.
        let own = if biggest > self.storage.segment_bytes_max / 2 { 2 * biggest } else { 0 };
        let bound = own
            + 2 * live_bytes
            + live_bytes / 16
            + SEGMENTS_BESIDES_LIVE_MAX * self.storage.segment_bytes_max;
        if used <= bound {
            Ok(())
        } else {
            let files = self.storage.disk.names();
            Err(format!("{live_bytes} live bytes take {used}, more than {bound}: {files:?}"))
        }
    }
}

impl Storage {
    pub(crate) fn set_segment_bytes(&mut self, bytes: u64) {
        self.segment_bytes = bytes;
        self.segment_bytes_max = self.segment_bytes_max.max(bytes);
    }

    /// A new process begins. No fault is planned for it.
    pub(crate) fn undisturb(&mut self) {
        self.is_disturbed = false;
    }

    /// Whether the simulation caused a failure of the log.
    pub(crate) fn was_disturbed(&self) -> bool {
        self.is_disturbed
    }
}
