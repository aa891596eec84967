//! The journal: where the ledger writes each change of a job or a queue, so that it lasts.
//!
//! The trait is the seam between the ledger, which knows what has changed, and the place that keeps
//! the changes. [`FolderJournal`] keeps them in the log of the data folder. [`StreamJournal`] also
//! gives them to the other nodes of a cluster.

pub(crate) mod fact;
pub(crate) mod folder;
pub(crate) mod state_hash;
pub(crate) mod stream;

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::policy::QueueSync;
use engine::{Body, JobId, QueueId};
use log::{Log, Meta, QueueRef, Slot};

use crate::Position;
pub(crate) use crate::journal::folder::FolderJournal;
pub(crate) use crate::journal::stream::StreamJournal;

/// The end of an entry. A journal makes the position of a reply from it: [`Journal::rests_on`].
/// Later entries have higher marks. 0 is before every entry.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Ord, PartialOrd)]
pub(crate) struct Mark(pub(crate) u64);

/// Where the journal has written a new job.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Placed {
    /// The job's slot in the log.
    pub(crate) slot: Slot,
    /// The offset of the job's entry in the segment of its slot.
    pub(crate) entry_at: u32,
    pub(crate) mark: Mark,
}

/// Writes changes. All calls are made under the broker's lock. `now_ms` is the engine's time.
pub(crate) trait Journal: std::fmt::Debug + Send {
    /// The log of the data folder.
    fn log(&self) -> &Arc<Log>;

    /// Writes a new job.
    fn put(&mut self, now_ms: u64, queue: QueueRef<'_>, meta: &Meta<'_>, body: &Body) -> Placed;

    /// Writes a job of another server that keeps its id: see [`Log::import`].
    fn import(&mut self, now_ms: u64, queue: QueueRef<'_>, meta: &Meta<'_>, body: &Body) -> Placed;

    /// Writes new jobs that share a body, as one entry. Pushes their places to `placed` in the order
    /// of `jobs`.
    fn put_many(
        &mut self,
        now_ms: u64,
        jobs: &[(QueueRef<'_>, Meta<'_>)],
        body: &Body,
        placed: &mut Vec<Placed>,
    );

    /// Writes a job that has another body now, and ends its old slot: see [`Log::replace`].
    fn replace(
        &mut self,
        now_ms: u64,
        old: Slot,
        queue: QueueRef<'_>,
        meta: &Meta<'_>,
        body: &Body,
    ) -> Placed;

    /// Writes the new meta of a job. `body_len` is the length of its body.
    fn update(
        &mut self,
        now_ms: u64,
        slot: Slot,
        queue: QueueRef<'_>,
        meta: &Meta<'_>,
        body_len: usize,
    ) -> Mark;

    /// Writes the counters of a job, at some later moment. No reply waits for them.
    fn count(&mut self, now_ms: u64, id: JobId, slot: Slot, counters: &[u8]);

    /// Some jobs whose counters must be written now, with [`Journal::count_now`]. The log of a server
    /// that is alone writes counters without this.
    fn take_due_counts(&mut self, _now_ms: u64) -> BTreeSet<JobId> {
        BTreeSet::new()
    }

    /// Writes the counters of a job at once.
    fn count_now(&mut self, _now_ms: u64, _id: JobId, _slot: Slot, _counters: &[u8]) {}

    /// Writes that a job has ended.
    fn finish(&mut self, now_ms: u64, id: JobId, slot: Slot) -> Mark;

    /// Writes a fact: see [`Log::fact`].
    fn fact(&mut self, now_ms: u64, key: &[u8], value: &[u8]) -> Mark;

    /// A queue was removed, so another queue may get its number.
    fn forget_queue(&mut self, queue: QueueId);

    /// The mark of a job that was read from the log, with the end of its entry.
    fn mark_of(&self, end: log::Position) -> Mark;

    /// Begins a request. Other threads cut no group before its end.
    fn begin_request(&mut self) {}

    /// Ends a request.
    fn end_request(&mut self) {}

    /// Whether this is a follower. Its engine has only the changes of the leader.
    fn follows(&self) -> bool {
        false
    }

    /// The memory that the journal needs for jobs besides the log, in bytes.
    fn memory_bytes(&self) -> u64 {
        0
    }

    /// The position of a reply that depends on an entry. `asked` is the sync policy of the reply's
    /// queue. If it is `None`, the log's setting applies.
    fn rests_on(&self, mark: Mark, asked: Option<QueueSync>) -> Position;

    /// Must be called after an entry was written. Requests a sync if the queue's policy `asked`
    /// requires an earlier sync than the log's setting.
    fn want_sync(&mut self, now_ms: u64, asked: Option<QueueSync>);

    /// Ends a turn: passes its requests on, and reserves ids. `next_number` is the id that the
    /// engine assigns next. `appended`: the turn wrote entries for which replies may wait.
    fn end_turn(&mut self, now_ms: u64, next_number: u64, appended: bool);

    /// Must be called before the log gets entries that are not changes.
    fn cut(&mut self) {}

    /// Must be called in the turn that copies jobs, before the log gets the copies. They can have jobs
    /// as ready that the clock made ready until `due_ms`.
    fn cut_before_copies(&mut self, _due_ms: u64) {}

    /// A job is only in the log now.
    fn left_memory(&mut self, _id: JobId) {}

    /// A job is in memory again. `hash` is its part of the state hash.
    fn came_back(&mut self, _id: JobId, _hash: u64) {}
}
