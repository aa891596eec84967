//! The journal of a server that is alone: the log of its data folder.

use std::cell::Cell;
use std::sync::Arc;

use engine::policy::QueueSync;
use engine::{Body, JobId, QueueId};
use log::{Log, Meta, QueueRef, Slot, Sync};

use crate::Position;
use crate::journal::{Journal, Mark, Placed};

/// Writes each change to the log at once. The committer writes the log to the disk.
#[derive(Debug)]
pub(crate) struct FolderJournal {
    log: Arc<Log>,
    asks: SyncRequests,
    /// The slots of the last entry with several jobs. Kept only to reuse its memory.
    slots: Vec<Slot>,
}

/// Sync requests for queues whose policy differs from the log's setting. The journal passes the
/// requests to the log at the end of the turn. If it passed them earlier, the committer could write
/// a group with only the turn's first entries. The turn's other entries would then wait for a
/// second group.
#[derive(Debug, Default)]
struct SyncRequests {
    durable: Cell<u64>,
    written: Cell<u64>,
    sync_by_ms: Cell<Option<u64>>,
}

impl FolderJournal {
    pub(crate) fn new(log: Arc<Log>) -> Self {
        Self { log, asks: SyncRequests::default(), slots: Vec::new() }
    }

    /// Passes the turn's sync requests to the log.
    fn pass_requests(&self) {
        let SyncRequests { durable, written, sync_by_ms } = &self.asks;
        match written.take() {
            0 => {}
            at => self.log.want_written(log::Position(at)),
        }
        if let Some(at_ms) = sync_by_ms.take() {
            self.log.want_sync_by(at_ms);
        }
        match durable.take() {
            0 => {}
            at => self.log.want_durable(log::Position(at)),
        }
    }
}

impl Journal for FolderJournal {
    fn log(&self) -> &Arc<Log> {
        &self.log
    }

    fn put(&mut self, now_ms: u64, queue: QueueRef<'_>, meta: &Meta<'_>, body: &Body) -> Placed {
        let (slot, end) = self.log.put(now_ms, queue, meta, body);
        placed(slot, end, log::put_bytes(1, meta.options.len(), body.len()))
    }

    fn import(&mut self, now_ms: u64, queue: QueueRef<'_>, meta: &Meta<'_>, body: &Body) -> Placed {
        let (slot, end) = self.log.import(now_ms, queue, meta, body);
        // The log writes an imported job as a copy. The entry of a copy has a target: the slot that
        // it replaces. An imported job replaces nothing, so its target is empty.
        let bytes = log::put_bytes(1, meta.options.len(), body.len()) + log::TARGET_BYTES;
        placed(slot, end, bytes)
    }

    fn put_many(
        &mut self,
        now_ms: u64,
        jobs: &[(QueueRef<'_>, Meta<'_>)],
        body: &Body,
        found: &mut Vec<Placed>,
    ) {
        let options_bytes = jobs.iter().map(|(_, meta)| meta.options.len()).sum();
        let bytes = log::put_bytes(jobs.len(), options_bytes, body.len());
        self.slots.clear();
        let end = self.log.put_many(now_ms, jobs, body, &mut self.slots);
        found.extend(self.slots.iter().map(|slot| placed(*slot, end, bytes)));
    }

    fn replace(
        &mut self,
        now_ms: u64,
        old: Slot,
        queue: QueueRef<'_>,
        meta: &Meta<'_>,
        body: &Body,
    ) -> Placed {
        let (slot, end) = self.log.replace(now_ms, old, queue, meta, body);
        let bytes = log::put_bytes(1, meta.options.len(), body.len()) + log::TARGET_BYTES;
        placed(slot, end, bytes)
    }

    fn update(
        &mut self,
        now_ms: u64,
        slot: Slot,
        queue: QueueRef<'_>,
        meta: &Meta<'_>,
        _: usize,
    ) -> Mark {
        Mark(self.log.update(now_ms, slot, queue, meta).0)
    }

    fn count(&mut self, now_ms: u64, _: JobId, slot: Slot, counters: &[u8]) {
        self.log.count(now_ms, slot, counters);
    }

    fn finish(&mut self, now_ms: u64, _: JobId, slot: Slot) -> Mark {
        Mark(self.log.finish(now_ms, slot).0)
    }

    fn fact(&mut self, now_ms: u64, key: &[u8], value: &[u8]) -> Mark {
        Mark(self.log.fact(now_ms, key, value).0)
    }

    fn forget_queue(&mut self, queue: QueueId) {
        self.log.forget_queue(queue.0);
    }

    fn mark_of(&self, end: log::Position) -> Mark {
        Mark(end.0)
    }

    fn rests_on(&self, mark: Mark, asked: Option<QueueSync>) -> Position {
        let at = log::Position(mark.0);
        let log_is_strict = self.log.sync() == Sync::Always;
        let SyncRequests { durable, written, .. } = &self.asks;
        match asked {
            None if log_is_strict => Position::durable(at),
            Some(QueueSync::Always) => {
                // Most replies depend on entries that are already durable. They need no sync
                // request.
                if !log_is_strict && at > self.log.durable() {
                    durable.set(durable.get().max(at.0));
                }
                Position::durable(at)
            }
            None | Some(QueueSync::Every(_) | QueueSync::Never | QueueSync::Memory) => {
                if log_is_strict {
                    written.set(written.get().max(at.0));
                }
                Position::written(at)
            }
        }
    }

    fn want_sync(&mut self, now_ms: u64, asked: Option<QueueSync>) {
        let Some(QueueSync::Every(millis)) = asked else { return };
        let is_later = match self.log.sync() {
            Sync::Always => false,
            Sync::Never => true,
            Sync::Every(period) => period.as_millis() > u128::from(millis),
        };
        if is_later {
            let by_ms = now_ms.saturating_add(millis);
            let sooner = self.asks.sync_by_ms.get().is_none_or(|at_ms| by_ms < at_ms);
            self.asks.sync_by_ms.set(if sooner { Some(by_ms) } else { self.asks.sync_by_ms.get() });
        }
    }

    fn end_turn(&mut self, now_ms: u64, next_number: u64, appended: bool) {
        // Some ids have no entry in the log, such as the ids of jobs that are only in memory. The
        // log must reserve these ids, too.
        self.log.note_next_id(now_ms, next_number);
        self.pass_requests();
        if appended {
            self.log.wake();
        }
    }
}

/// The place of a job. Its entry has this many bytes, and ends at `end`.
pub(crate) fn placed(slot: Slot, end: log::Position, bytes: u64) -> Placed {
    Placed { slot, entry_at: (end.offset() - bytes) as u32, mark: Mark(end.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: QueueRef<'static> = QueueRef { number: 0, name: b"q" };

    #[test]
    fn only_what_is_not_durable_yet_is_asked_of_the_log() {
        let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
        let settings = log::Settings { sync: Sync::Never, ..log::Settings::default() };
        let log = Log::open(disk, settings, 1000, &mut |_| ()).expect("the disk is empty").0;
        let mut journal = FolderJournal::new(Arc::new(log));
        let meta =
            Meta { id: 1, priority: 0, ttr: 1, created_ms: 1, due_ms: 0, state: 1, options: b"" };
        let mark = journal.put(1000, QUEUE, &meta, &Body::from(&b"x"[..])).mark;
        let after = journal.rests_on(mark, Some(QueueSync::Always));
        assert!(journal.asks.durable.get() > 0, "the put must become durable");
        journal.end_turn(1000, 2, true);
        journal.log.commit_step(1000).expect("the disk works");
        assert_eq!(journal.rests_on(mark, Some(QueueSync::Always)), after);
        assert!(after.is_reached(Position::released(&journal.log)));
        assert_eq!(journal.asks.durable.get(), 0, "it is durable");
    }
}
