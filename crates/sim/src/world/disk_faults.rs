//! Faults of the simulated disk.

use super::World;
use super::steps::Step;
use crate::Checked;
use crate::machine::storage::Storage;
use crate::model::{Job, JobKind};

/// A planned fault happens at one of the next calls of the disk, at most this many calls later.
const CALLS_AHEAD_MAX: u64 = 40;

const READS_AHEAD_MAX: u64 = 4;

/// A full disk has fewer free bytes than this.
const LAST_BYTES_MAX: u64 = 300_000;

/// The log can use at most twice its live data plus this many segments. These segments are the
/// segment that is being written, the next segment, and the reserve for reclaim and for ends of
/// jobs.
const SEGMENTS_BESIDES_LIVE_MAX: u64 = 5;

/// The log can use this many segments more if the simulation begins segments early.
const SEGMENTS_SEALED_MAX: u64 = 2;

/// The maximum number of bytes that a job takes in the log in addition to its body.
const ENTRY_OVERHEAD_BYTES_MAX: u64 = 200;

impl World {
    /// Plans a power failure, or a failed call, at a later call of the disk.
    pub(crate) fn plan_fault(&mut self, step: Step) {
        let call = self.storage.disk.calls() + self.rng.between(1, CALLS_AHEAD_MAX);
        self.trace.note(format_args!("{step:?} at disk call {call}"));
        self.storage.is_disturbed = true;
        // After a failure, the log may have no ready segment for some time, and refuse requests.
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

    /// Simulates other processes that use nearly all free space of the disk.
    pub(crate) fn fill_disk(&mut self) -> Checked {
        // If a put is too big for a segment, the log creates a larger segment for it. The log
        // admits the put if the disk has room. It creates the segment later, when it writes the
        // put's group. If other processes use the room in the meantime, the write fails. So first
        // commit all admitted puts.
        self.commit()?;
        let capacity = self.storage.disk.used() + self.rng.below(LAST_BYTES_MAX);
        self.trace.note(format_args!("the disk is full at {capacity}"));
        self.storage.disk.set_capacity(capacity);
        self.storage.is_full = true;
        self.model.expect_shortage();
        Ok(())
    }

    /// Gives the disk room again. The log can still refuse requests until it detects the room.
    pub(crate) fn empty_disk(&mut self) {
        if self.storage.is_full {
            self.trace.note(format_args!("the disk has room"));
            self.storage.disk.set_capacity(crate::machine::storage::DISK_BYTES);
            self.storage.is_full = false;
        }
    }

    /// Called after reclaim has finished. Checks that the files are not too large for the live
    /// data.
    pub(crate) fn check_disk_use(&self) -> Checked {
        let live = |job: &Job| job.body.len() as u64 + ENTRY_OVERHEAD_BYTES_MAX;
        let jobs = self.model.jobs.values().filter(|job| job.kind == JobKind::Logged);
        let live_bytes: u64 = jobs.map(live).sum();
        let used = self.storage.disk.used();
        let biggest = u64::from(self.plan.packet_bytes_max()) + ENTRY_OVERHEAD_BYTES_MAX;
        // An entry that is too big for a normal segment has its own larger segment. This can be the
        // newest segment.
        let own = if biggest > self.storage.segment_bytes_max / 2 { 2 * biggest } else { 0 };
        // The unused ends of segments that the simulation has sealed, and index files.
        let sealed = if self.plan.jobs_bytes_max.is_some() { SEGMENTS_SEALED_MAX } else { 0 };
        let bound = own
            + 2 * live_bytes
            + live_bytes / 16
            + (SEGMENTS_BESIDES_LIVE_MAX + sealed) * self.storage.segment_bytes_max;
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

    /// Notes that a new process begins. No fault is planned for this process yet.
    pub(crate) fn undisturb(&mut self) {
        self.is_disturbed = false;
    }

    /// True if the simulation planned a fault, which can explain a failure of the log. In a cluster,
    /// the power of a node can fail that did not serve when this was planned.
    pub(crate) fn was_disturbed(&self) -> bool {
        self.is_disturbed || self.disk.has_crashed()
    }
}
