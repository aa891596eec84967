//! Single jobs that are written to the log again: what a rescue and a rewrite have in common.

use engine::{Body, JobId, JobSlot};
use log::{BodyError, BodyReader, Log, Slot};

use crate::core::Core;

/// One step writes jobs until their bodies have at least this many bytes in all, and at most this many
/// jobs. A step of reclaim has the same limits, so that nobody waits long for the broker's lock.
const STEP_BYTES_MAX: usize = 64 << 10;
const STEP_JOBS_MAX: usize = 128;

/// A job to write again.
#[derive(Debug)]
pub(super) struct JobToWrite {
    pub(super) slot: JobSlot,
    pub(super) id: JobId,
    log_slot: Slot,
    entry_at: u32,
    /// `None`: it is only in the log, and was not read yet, or cannot be read.
    pub(super) body: Option<Body>,
}

impl JobToWrite {
    /// The slot in the log, and the number of the job.
    pub(super) fn log_slot(&self) -> (Slot, u64) {
        (self.log_slot, self.id.0)
    }
}

/// The jobs of one step.
#[derive(Debug)]
pub(super) struct JobsToWrite(pub(super) Vec<JobToWrite>);

impl JobsToWrite {
    /// Reads the bodies that are only in the log. Leaves out those that cannot be read. Returns false if
    /// a segment cannot be opened for want of descriptors. The caller must not hold the broker's lock.
    pub(super) fn read_bodies(&mut self, log: &Log) -> bool {
        let mut stored: Vec<_> = self.0.iter_mut().filter(|job| job.body.is_none()).collect();
        stored.sort_unstable_by_key(|job| (job.log_slot.segment, job.entry_at));
        let mut lacks_descriptors = false;
        for stored in stored.chunk_by_mut(|one, next| one.log_slot.segment == next.log_slot.segment)
        {
            let segment = stored[0].log_slot.segment;
            let entries: Vec<u32> = stored.iter().map(|job| job.entry_at).collect();
            let _hold = log.hold(segment);
            // A failing disk can take long for each read. So do not lock the loader's reader, because
            // other threads need it.
            BodyReader::default().read(log, segment, &entries, |index, body| {
                lacks_descriptors |= body.as_ref().is_err_and(BodyError::is_out_of_descriptors);
                stored[index].body = body.ok().map(Body::from);
            });
        }
        !lacks_descriptors
    }
}

impl Core {
    /// The next of these jobs, as many as one step writes.
    pub(super) fn jobs_to_write(&self, slots: &mut dyn Iterator<Item = JobSlot>) -> JobsToWrite {
        let mut jobs = Vec::new();
        let mut bytes = 0;
        while bytes < STEP_BYTES_MAX
            && jobs.len() < STEP_JOBS_MAX
            && let Some(slot) = slots.next()
        {
            let (Some(id), Some(location)) =
                (self.engine.id_at(slot), self.ledger.locations.get(slot))
            else {
                continue;
            };
            let body = self.engine.body(slot);
            bytes += body.len();
            let (log_slot, entry_at) = (location.log_slot, location.entry_at);
            let body = body.resident().cloned();
            jobs.push(JobToWrite { slot, id, log_slot, entry_at, body });
        }
        JobsToWrite(jobs)
    }

    /// Begins to write jobs again in this turn. Returns the time for their entries.
    pub(super) fn begin_writing(&mut self) -> u64 {
        self.ledger.cut_before_copies(&self.engine);
        self.ledger.appended = true;
        self.engine.now().0
    }

    /// Whether the log still has the job at this place. It can have ended since its body was read.
    pub(super) fn is_where_it_was(&self, job: &JobToWrite) -> bool {
        let location = self.ledger.locations.get(job.slot);
        self.engine.id_at(job.slot) == Some(job.id)
            && location.is_some_and(|location| location.log_slot == job.log_slot)
    }
}
