//! Statistics of all queues, of one queue, of one job and of the log.

use std::sync::atomic::Ordering;

use engine::policy::{Key, Name};
use engine::{
    AliasStats, Claim, ClaimKey, Held, ItemStats, JobId, JobStatus, JobTimes, KeptResult,
    Milestone, NotFound, QueueFacts, QueueId, QueueStats, Span, Totals, WorkProgress,
};

use crate::{Answer, Turn};

/// Statistics of the log.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct LogStats {
    /// The oldest segment that is still needed.
    pub oldest_segment: u32,
    /// The segment that is being written.
    pub current_segment: u32,
    /// Entries that reclaim has copied since the process started.
    pub records_copied: u64,
    /// Entries written since the process started, copies included.
    pub records_written: u64,
    /// Bytes written since the process started: entries, group headers and index files.
    pub bytes_written: u64,
    /// The part of `bytes_written` that is entries of clients' changes.
    pub bytes_of_clients: u64,
    /// Bytes of live entries.
    pub live_bytes: u64,
    /// Bytes of the segments that hold the log.
    pub data_bytes: u64,
    /// Bytes of the segments that are prepared ahead or kept as a reserve.
    pub ahead_bytes: u64,
    /// Memory of bodies that are both in memory and in the log.
    pub resident_body_bytes: u64,
    /// Jobs whose body is only in the log.
    pub stored_jobs: u64,
    /// Ready jobs that are only in the log.
    pub cold_jobs: u64,
    /// Jobs that are only in the log, and that cannot be read now.
    pub unreadable_jobs: u64,
    /// Bodies that could not be read from the log since the process started.
    pub body_errors: u64,
}

/// # Statistics
impl Turn<'_> {
    /// Sums over all queues.
    pub fn totals(&self) -> Totals {
        self.core.engine.totals()
    }

    /// The keys of unique jobs that have ended, as long as the window of their policy lasts. Takes
    /// time in proportion to their number.
    pub fn claims(&self) -> impl Iterator<Item = (ClaimKey, Claim)> {
        self.core.engine.claims()
    }

    /// How long jobs waited and were leased, since the start.
    pub fn job_times(&self) -> JobTimes {
        self.core.engine.job_times().clone()
    }

    /// Notes spans from now on: the times that jobs waited or were leased.
    pub fn note_spans(&mut self) {
        self.core.engine.note_spans();
    }

    /// Takes the spans that ended since the last call, and the number of those that were dropped
    /// because this call came too late.
    pub fn take_spans(&mut self) -> (Vec<Span>, u64) {
        self.core.engine.take_spans()
    }

    /// Notes milestones from now on: what happens to jobs of queues whose policy keeps a history.
    pub fn note_milestones(&mut self) {
        self.core.engine.note_milestones();
    }

    /// Whether [`Turn::take_milestones`] would return something.
    pub fn has_milestones(&self) -> bool {
        self.core.engine.has_milestones()
    }

    /// Whether the history of a job can go on: the job exists, and the policy of its queue keeps a
    /// history. Also true if the job may be cold, because only the log knows the cold jobs.
    pub fn may_have_history(&self, id: JobId) -> bool {
        match self.core.engine.slot(id) {
            Ok(slot) => self.core.engine.keeps_history(slot),
            Err(_) => self.core.cold.has_absent_jobs(),
        }
    }

    /// Takes the milestones since the last call, and the number of those that were dropped because
    /// this call came too late.
    pub fn take_milestones(&mut self) -> (Vec<Milestone>, u64) {
        self.core.engine.take_milestones()
    }

    /// Statistics of the log. All numbers are 0 if the broker has no log.
    pub fn log_stats(&self) -> LogStats {
        let Some(log) = self.core.ledger.log() else { return LogStats::default() };
        let usage = log.usage();
        LogStats {
            oldest_segment: usage.first_segment,
            current_segment: usage.last_segment,
            records_copied: usage.copies,
            records_written: usage.entries,
            bytes_written: usage.written_bytes,
            bytes_of_clients: usage.client_bytes,
            live_bytes: usage.live_bytes,
            data_bytes: usage.data_bytes,
            ahead_bytes: usage.ahead_bytes,
            resident_body_bytes: self.core.engine.resident_bytes(),
            stored_jobs: self.core.ledger.locations.stored() + self.core.engine.cold_jobs(),
            cold_jobs: self.core.engine.cold_jobs(),
            unreadable_jobs: self.core.cold.damage.lost_jobs(),
            body_errors: self.shared.body_errors.load(Ordering::Relaxed),
        }
    }

    /// Whether some ready jobs of this queue are only in the log, so that a read can wait for a
    /// load.
    pub fn has_cold_jobs(&self, queue: QueueId) -> bool {
        self.core.engine.first_cold_list(queue).is_some()
    }

    /// Statistics of the queue of this name, if it exists.
    pub fn queue_stats(&self, name: &[u8]) -> Option<QueueStats> {
        let engine = &self.core.engine;
        engine.shown_queue_id(name).map(|queue| engine.queue_stats(queue))
    }

    /// How long the first jobs of the keys of a fair queue have been ready, in milliseconds: those that
    /// have waited longest, at most [`crate::limits::KEY_HEADS_MAX`].
    pub fn oldest_key_heads_ms(&self, name: &[u8]) -> Vec<u64> {
        let engine = &self.core.engine;
        let queue = engine.shown_queue_id(name);
        queue.map(|queue| engine.oldest_key_heads_ms(queue)).unwrap_or_default()
    }

    /// Statistics of a queue.
    pub fn queue_stats_of(&self, queue: QueueId) -> QueueStats {
        self.core.engine.queue_stats(queue)
    }

    /// The facts of the queue of this name, if it exists: whether the queue stays when it is empty
    /// and unused, its limits, and whether it is a queue of items or a child.
    pub fn queue_facts(&self, name: &[u8]) -> Option<QueueFacts> {
        let engine = &self.core.engine;
        engine.shown_queue_id(name).map(|queue| engine.queue_facts(queue))
    }

    /// The facts of a queue.
    pub fn queue_facts_of(&self, queue: QueueId) -> QueueFacts {
        self.core.engine.queue_facts(queue)
    }

    /// Whether this queue is being removed.
    pub fn is_being_removed(&self, queue: QueueId) -> bool {
        self.core.engine.is_being_removed(queue)
    }

    /// Why this queue hands out no job to a take now. `None`: it does.
    pub fn held_back(&self, queue: QueueId) -> Option<Held> {
        self.core.engine.held_back(queue)
    }

    /// Kestrel's statistics of the queue of this name, if it exists.
    pub fn item_stats(&self, queue: &[u8]) -> Option<ItemStats> {
        self.core.engine.item_stats(queue)
    }

    /// Kestrel's statistics of a queue.
    pub fn item_stats_of(&self, queue: QueueId) -> ItemStats {
        self.core.engine.item_stats_of(queue)
    }

    /// Names of the fan-out children of a queue, sorted, or `None` if it never had a child. Each name
    /// counts as a unit of work.
    pub fn children_of(&self, queue: QueueId) -> Option<Vec<Name>> {
        self.core.engine.children_of(queue)
    }

    /// Statistics of an alias, or `None` if the name is not an alias.
    pub fn alias_stats(&self, name: &[u8]) -> Option<AliasStats> {
        self.core.engine.alias_stats(name)
    }

    /// The status of a job. The reply waits until the job, or its end, is durable.
    pub fn job_status(&self, id: JobId) -> Answer<Result<JobStatus, NotFound>> {
        Answer::new(self.core.engine.job_status(id), self.core.after_id(id))
    }

    /// Whether a key of a job has these bytes: see `Engine::has_key`.
    pub fn has_key(&self, id: JobId, bytes: &[u8], is_shown: impl Fn(&Key) -> bool) -> bool {
        self.core.engine.has_key(id, bytes, is_shown)
    }

    /// The progress of a job. The reply waits until the job, or its end, is durable.
    pub fn work_progress(&self, id: JobId) -> Answer<Result<WorkProgress, NotFound>> {
        let engine = &self.core.engine;
        let progress = engine.slot(id).map(|slot| engine.work_progress(slot));
        Answer::new(progress, self.core.after_id(id))
    }

    /// The outcome of a job that has ended, if the policy of its queue keeps it.
    pub fn kept_result(&self, id: JobId) -> Option<&KeptResult> {
        self.core.engine.kept_result(id)
    }

    /// The outcome of the last job with this key that has ended, if the policy of its queue keeps it.
    pub fn kept_result_with_key(&self, unique: &[u8]) -> Option<&KeptResult> {
        self.core.engine.kept_result_with_key(unique)
    }

    /// The unfinished job with this key, in any queue.
    pub fn find_key(&self, unique: &[u8]) -> Answer<Result<JobId, NotFound>> {
        match self.core.engine.find_key(unique) {
            Some(id) => Answer::new(Ok(id), self.core.after_id(id)),
            None => Answer::new(Err(NotFound), self.core.ledger.after_ended()),
        }
    }

    /// The number of the log segment that holds a job. 0 if the job is only in memory.
    pub fn job_segment(&self, id: JobId) -> u32 {
        let slot = self.core.engine.slot(id).ok();
        let location = slot.and_then(|slot| self.core.ledger.locations.get(slot));
        location.map_or(0, |location| location.log_slot.segment)
    }
}
