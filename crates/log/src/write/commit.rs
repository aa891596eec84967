//! Group commit: one write for each group, more if it has large bodies, and one sync for all entries
//! that arrived during the previous sync.
//!
//! A step of the committer takes the open batch. While the step writes or syncs, it does not hold
//! the appenders' lock, so other threads can append. During its last sync, it does not hold the
//! commit lock either, so the second committer can write the next group: see `second`.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use crate::disk::DiskFile;
use crate::error::Failure;
use crate::files::segments::{SegmentFile, THOUSAND, Wanted, segment_name};
use crate::format::{GROUP_HEADER_BYTES, GroupHeader, HEADER_BYTES};
use crate::log::Log;
use crate::settings::{LAG_MARGIN_BYTES, MARK_AFTER_MS, RETRY_FULL_MS, Sync, TIME_MS_MAX};
use crate::types::{Committed, Position};
use crate::write::batch::{ID_LIMIT_BYTES, Open};
use crate::write::part::Part;
use crate::write::syncs::{Released, Ticket};

/// State of the committers. The commit lock (`Log::commit`) protects it. A committer holds this lock while
/// it takes and writes groups, and while it begins a segment.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) head: SegmentFile,
    /// The second committer's own handle of the head's file, if it is open.
    pub(crate) second_handle: Option<Arc<dyn DiskFile>>,
    /// Groups that wait because their segment could not be allocated or opened. Until a retry
    /// succeeds, the committer writes none of these groups, and takes no newer entries.
    pub(crate) held: VecDeque<Part>,
    /// The time of the next retry, in milliseconds of the log's time. 0: the last attempt
    /// succeeded. If a segment becomes free, the committer retries earlier.
    pub(crate) retry_ms: u64,
    /// The end of the newest group. The next group's header repeats this position for the chain.
    pub(crate) previous_end: Position,
    /// The checksum of the newest group. The next group's header repeats this checksum for the
    /// chain.
    pub(crate) previous_crc: u32,
    pub(crate) time_ms: u64,
    /// Syncs have begun for everything before this position.
    pub(crate) begun: Position,
    /// The time when the oldest entries were written for which no sync has begun. `None`: there are none.
    pub(crate) unsynced_since_ms: Option<u64>,
    /// The latest time for a requested sync. A request applies whatever the log's sync setting is.
    pub(crate) sync_by_ms: Option<u64>,
    /// When the newest sync began, or when the mark after it was postponed.
    pub(crate) synced_ms: u64,
    /// True if no mark is needed. Either a group written after the newest sync contains the durable
    /// position, or the segment has no room for a mark.
    pub(crate) marked: bool,
}

impl Commit {
    /// The time when the committer must write a mark, if it writes nothing else before this time.
    fn mark_due(&self) -> Option<u64> {
        let needed = !self.marked && self.unsynced_since_ms.is_none();
        needed.then_some(self.synced_ms + MARK_AFTER_MS)
    }
}

/// A sync that has begun.
pub(crate) struct Begun<'a> {
    ticket: Ticket<'a>,
    file: Arc<dyn DiskFile>,
    segment: u32,
}

impl Log {
    /// Writes the waiting entries, syncs if it is time for a sync, and publishes the new positions.
    /// If no entry waits, writes a mark when it is time for a mark. The committer thread calls this
    /// function in a loop. A simulator calls it directly.
    pub fn commit_step(&self, now_ms: u64) -> Result<Committed, Failure> {
        self.step(now_ms, false)
    }

    pub(crate) fn lock_commit(&self) -> MutexGuard<'_, Commit> {
        self.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self, now_ms: u64, sync: bool) -> Result<Committed, Failure> {
        // Each committer uses its own handle of a file: see `second`. So there is one first committer.
        let _first = self.first_committer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut commit = self.lock_commit();
        // A failure is noted before the lock is released. So nobody writes after a gap.
        let (mut done, begun) =
            self.begin_step(&mut commit, now_ms, sync).map_err(|failure| self.fail(failure))?;
        drop(commit);
        if let Some(begun) = begun {
            // A hurry after the batch was taken, but before this sync began.
            if self.syncs.is_hurried_after_begin() {
                self.second_committer.wake();
            }
            (done.synced, done.released) = (true, self.end_sync(begun)?);
        }
        if self.prepare_wanted() {
            self.helper.wake();
        }
        Ok(done)
    }

    /// Everything that a step does before its sync.
    fn begin_step(
        &self,
        commit: &mut Commit,
        now_ms: u64,
        sync: bool,
    ) -> Result<(Committed, Option<Begun<'_>>), Failure> {
        self.check()?;
        if sync {
            // Otherwise the log would not be durable after the step's own sync.
            self.settle()?;
        }
        let sync_by_ms = self.positions.take_sync_by();
        commit.sync_by_ms = [sync_by_ms, commit.sync_by_ms].into_iter().flatten().min();
        let before = commit.previous_end;
        let mut entries = 0;
        self.write_held(commit, now_ms, sync)?;
        if commit.held.is_empty() {
            // The group has the entries of all hurries before it.
            self.syncs.take_hurry();
            let mut mark = commit.mark_due().is_some_and(|due_ms| due_ms <= now_ms);
            if mark && self.syncs.are_running() {
                // The mark must contain the durable position after this sync. So it is due again later.
                commit.synced_ms = now_ms;
                mark = false;
            }
            entries = self.take_batch(commit, now_ms, |open| open.take(mark, now_ms));
            // If the segment has no room for a mark, `take` returned nothing. Then the committer
            // does not retry the mark, because the retries would never end.
            commit.marked |= mark && commit.held.is_empty();
            self.write_held(commit, now_ms, sync)?;
        }
        let wrote = self.note_written(commit, before, entries);
        let is_due = self.sync_due(commit).is_some_and(|due_ms| due_ms <= now_ms);
        let begun = (sync || is_due).then(|| {
            commit.sync_by_ms = None;
            let file = Arc::clone(&commit.head.file);
            self.begin_sync(commit, file, entries, now_ms)
        });
        Ok((Committed { wrote, entries, ..Committed::default() }, begun))
    }

    /// Takes entries from the open batch. Returns their number.
    pub(crate) fn take_batch(
        &self,
        commit: &mut Commit,
        now_ms: u64,
        take: impl FnOnce(&mut Open) -> Vec<Part>,
    ) -> u64 {
        let mut open = self.open_batch();
        // A start refuses a later time, and the mark of a stop is a little in the future.
        commit.time_ms = commit.time_ms.max(open.time_ms).max(now_ms).min(TIME_MS_MAX);
        let waiting = open.waiting();
        commit.held.extend(take(&mut open));
        // Only what was taken counts. What waits behind the gate was not taken.
        waiting.saturating_sub(open.waiting())
    }

    /// Publishes the written position, if something was written after `before`. Returns whether it was.
    pub(crate) fn note_written(&self, commit: &Commit, before: Position, entries: u64) -> bool {
        if commit.previous_end <= before {
            return false;
        }
        if entries > 0 {
            self.group_entries.add(entries);
        }
        self.publish_written(commit);
        true
    }

    /// Publishes the written position. With `Always`, most replies wait for the sync. So this notifies
    /// waiting threads only if one of them waits for a position that was written now.
    fn publish_written(&self, commit: &Commit) {
        let is_awaited = self.positions.note_written(commit.previous_end.0);
        if self.sync != Sync::Always || is_awaited {
            self.progress();
        }
    }

    /// Writes the groups that were taken from the open batch. If there is no room for a segment,
    /// keeps the remaining groups in `held`. If `now` is true, fails instead.
    fn write_held(&self, commit: &mut Commit, now_ms: u64, now: bool) -> Result<(), Failure> {
        while let Some(part) = commit.held.pop_front() {
            if part.segment == commit.head.number || self.rotate(commit, &part, now_ms, now)? {
                self.write(commit, part, now_ms)?;
                continue;
            }
            let file = segment_name(part.segment);
            commit.held.push_front(part);
            if now {
                return Err(Failure::new("allocate", file, ErrorKind::StorageFull.into()));
            }
            break;
        }
        Ok(())
    }

    /// Makes this group's segment the head. Returns false if the segment could not be allocated or
    /// opened, or if it is too early for a retry. If `now` is true, retries at once.
    fn rotate(
        &self,
        commit: &mut Commit,
        part: &Part,
        now_ms: u64,
        now: bool,
    ) -> Result<bool, Failure> {
        let was_held = commit.retry_ms > 0;
        // A big group needs a segment of its own size, so a prepared segment does not help.
        let is_big = part.segment_size > self.segments.segment_bytes;
        let waits = now_ms < commit.retry_ms && !now;
        let lacks_descriptor = self.segments.lacks_descriptors() && !self.segments.is_ready();
        let nothing_helps = self.segments.ahead_bytes() == 0 || lacks_descriptor;
        if waits && (is_big || nothing_helps) {
            return Ok(false);
        }
        if !was_held {
            // Sync the current segment before the next one is used, because recovery accepts a torn
            // write only in the last segment.
            // Replies that need only a write do not wait for these syncs.
            self.publish_written(commit);
            self.settle()?;
            let file = Arc::clone(&commit.head.file);
            self.end_sync(self.begin_sync(commit, file, 0, now_ms))?;
        }
        let head = self.segments.take(part.segment, part.segment_size, |publish| {
            let mut open = self.open_batch();
            *open.claimed(part.segment_size) -= part.segment_size;
            publish();
        })?;
        let Some(head) = head else {
            commit.retry_ms = now_ms + RETRY_FULL_MS;
            self.wake_helper_if_short();
            return Ok(false);
        };
        commit.head = head;
        if commit.second_handle.take().is_some() {
            self.second_handle(commit);
        }
        commit.retry_ms = 0;
        self.segments.allocate_ahead(self.ahead_wanted());
        self.wake_helper_if_short();
        Ok(true)
    }

    /// Wakes the helper thread (see `committer.rs`) if the last attempt to allocate found no room.
    /// Otherwise the helper could sleep without a time limit, and would never retry.
    fn wake_helper_if_short(&self) {
        if self.segments.is_short() {
            self.helper.wake();
        }
    }

    /// Writes one group into the head segment. Each large body has a write of its own: a crash between
    /// two writes leaves a torn group, as a crash within one does.
    pub(crate) fn write(
        &self,
        commit: &mut Commit,
        mut part: Part,
        now_ms: u64,
    ) -> Result<(), Failure> {
        let position = Position::new(part.segment, part.start);
        let is_next = if part.segment == commit.previous_end.segment() {
            position == commit.previous_end
        } else {
            part.start == HEADER_BYTES
        };
        assert!(is_next, "groups follow each other without a gap");
        assert!(part.end().offset() <= commit.head.size, "a group fits its segment");
        let header = GroupHeader {
            crc: 0,
            len: (part.size() - GROUP_HEADER_BYTES) as u32,
            count: part.count,
            position,
            durable: self.durable(),
            previous_end: commit.previous_end,
            previous_crc: commit.previous_crc,
            time_ms: commit.time_ms,
        };
        let crc = part.seal(&header, commit.head.salt);
        let mut offset = part.start;
        for piece in part.pieces(0) {
            let written = commit.head.file.write_at(piece, offset);
            written.map_err(|error| Failure::new("write", segment_name(part.segment), error))?;
            offset += piece.len() as u64;
        }
        commit.previous_end = part.end();
        commit.previous_crc = crc;
        if part.count == 0 {
            // A mark is written while the log is idle. So its buffer is freed, not reused.
            commit.marked = true;
        } else {
            commit.unsynced_since_ms.get_or_insert(now_ms);
            self.open_batch().recycle(part.bytes);
        }
        Ok(())
    }

    /// Begins a sync of the head segment with this handle. When it and the syncs before it have succeeded,
    /// everything written so far is durable, because earlier segments were synced before. `entries` of clients
    /// wait for it.
    pub(crate) fn begin_sync(
        &self,
        commit: &mut Commit,
        file: Arc<dyn DiskFile>,
        entries: u64,
        now_ms: u64,
    ) -> Begun<'_> {
        if commit.unsynced_since_ms.take().is_some() {
            commit.marked = false;
        }
        commit.synced_ms = now_ms;
        commit.begun = commit.previous_end;
        Begun {
            ticket: self.syncs.begin(commit.begun.0, entries),
            file,
            segment: commit.head.number,
        }
    }

    /// Syncs, and publishes the durable position, if no older sync is in progress. Returns the number of clients'
    /// entries that are durable now. Notes a failure.
    pub(crate) fn end_sync(&self, begun: Begun<'_>) -> Result<u64, Failure> {
        let Begun { ticket, file, segment } = begun;
        // The time is only a number for operators. Nothing that the log does depends on it.
        let began = Instant::now();
        let failed = |error| self.fail(Failure::new("sync", segment_name(segment), error));
        file.sync_data().map_err(failed)?;
        let us = began.elapsed().as_micros() as u64;
        let released = ticket.succeed(&self.positions, || self.syncs_us.add(us));
        let Some(Released { durable, entries }) = released else { return Ok(0) };
        self.publish_id_limit(Position(durable));
        self.progress();
        Ok(entries)
    }

    /// Waits until no sync is in progress.
    fn settle(&self) -> Result<(), Failure> {
        self.syncs.settle();
        self.check()
    }

    /// Returns the failure after which the log stopped, if any.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.failure().map_or(Ok(()), Err)
    }

    /// The time of the next sync, in milliseconds of the log's time. 0: now. `None`: no sync is
    /// needed.
    fn sync_due(&self, commit: &Commit) -> Option<u64> {
        let Some(since_ms) = commit.unsynced_since_ms else {
            // Nothing is unsynced, except perhaps a mark. A mark is synced only on request.
            let has_mark = self.written() > commit.begun;
            return (has_mark && self.positions.wants_durable(commit.begun.0)).then_some(0);
        };
        let due_ms = match self.sync {
            _ if self.positions.wants_durable(commit.begun.0) => Some(0),
            Sync::Always => Some(0),
            Sync::Every(period) => Some(since_ms + period.as_millis() as u64),
            Sync::Never => None,
        };
        [due_ms, commit.sync_by_ms].into_iter().flatten().min()
    }

    /// The time when `commit_step` must be called next, in milliseconds of the log's time. 0: now.
    /// `None`: only after the next append or request.
    pub fn next_step_ms(&self) -> Option<u64> {
        let commit = self.lock_commit();
        if !commit.held.is_empty() {
            return Some(commit.retry_ms);
        }
        let (entries, lazy_due_ms) = {
            let open = self.open_batch();
            (open.is_due(), open.lazy.due_ms())
        };
        // A step reads requests for a sync only at its start. So a request that came later needs
        // another step.
        if entries || self.positions.wants_sync() {
            return Some(0);
        }
        [lazy_due_ms, self.sync_due(&commit), commit.mark_due()].into_iter().flatten().min()
    }

    /// Does the background work: frees segments, prepares the next segment, fills the reserve. If
    /// `usage().short` is true, the caller must call this function again after a second.
    pub fn prepare_step(&self) -> Result<(), Failure> {
        while self.prepare_once(true)? {}
        Ok(())
    }

    /// Does one step of `prepare_step`. Returns true if there may be more work now. If the caller
    /// does not wait for the step, it can be slow.
    pub(crate) fn prepare_once(&self, caller_waits: bool) -> Result<bool, Failure> {
        self.check()?;
        let wanted = Wanted { ahead_bytes: self.ahead_wanted(), durable: self.durable() };
        let has_more_work =
            || caller_waits || self.reserve_is_short() || self.segments.can_free(self.durable());
        let (head_left, large_pieces) = (|| self.head_left(), || self.prefers_large_groups());
        let prepared = self.segments.prepare(wanted, &head_left, &has_more_work, &large_pieces);
        prepared.map_err(|failure| self.fail(failure))
    }

    /// The part of the head segment, in thousandths, that clients can still fill before they are
    /// held back ([`Log::lags`]). The next segment must be ready before clients have filled this
    /// part.
    fn head_left(&self) -> u64 {
        let open = self.open_batch();
        if open.claimed_bytes + open.claimed_big_bytes > 0 {
            // The open batch has already begun the next segment, so the next segment is needed now.
            return 0;
        }
        let segment = self.segments.segment_bytes;
        let margin = 2 * LAG_MARGIN_BYTES.min(segment / 8);
        open.remaining().saturating_sub(margin) * THOUSAND / (segment - margin).max(1)
    }

    /// Makes a step that ends with a sync.
    pub(crate) fn commit_and_sync(&self, now_ms: u64) -> Result<(), Failure> {
        self.step(now_ms, true).map(|_| ())
    }

    /// Brings the reserve to its size, but does not prepare the next segment. So this function is
    /// quick enough for a start.
    pub(crate) fn allocate_reserve(&self) -> Result<(), Failure> {
        let wanted = self.ahead_wanted();
        self.segments.allocate_ahead(wanted);
        self.segments.remove_surplus(wanted)
    }

    /// Whether the helper has work now.
    pub(crate) fn prepare_wanted(&self) -> bool {
        let lacks = || !self.segments.is_ready() || self.reserve_is_short();
        let is_short = self.segments.is_short();
        let is_stuck = self.segments.is_stuck();
        !is_stuck && self.segments.can_free(self.durable()) || !is_short && lacks()
    }

    /// Whether fewer bytes are allocated than must be.
    fn reserve_is_short(&self) -> bool {
        self.segments.ahead_bytes() < self.ahead_wanted()
    }

    /// Whether the helper must retry later, because it found no room, or could not check the file
    /// of an old segment.
    pub(crate) fn prepare_later(&self) -> bool {
        self.segments.is_short() || self.segments.is_stuck()
    }

    /// The number of bytes that must be allocated for segments after the head: the reserve for
    /// finishes and reclaim, and the segments that the open batch has begun. When the head segment
    /// is half full, the number includes one more segment. So the reserve is still complete after
    /// the log begins the next segment.
    pub(crate) fn ahead_wanted(&self) -> u64 {
        let open = self.open_batch();
        let segment = self.segments.segment_bytes;
        let reserve = self.put_reserve(&open).next_multiple_of(segment);
        let head_is_half_full = open.remaining() < segment / 2;
        reserve + open.claimed_bytes + if head_is_half_full { segment } else { 0 }
    }

    /// Stops the log cleanly. Writes the exact next id, so that ids continue without a gap when the
    /// server starts again. Then writes a final mark and syncs it. Nothing may be appended
    /// afterwards.
    pub fn close(&self, now_ms: u64, next_id: u64) -> Result<(), Failure> {
        {
            let mut open = self.open_batch();
            assert!(!open.closed, "a log is closed once");
            assert!(open.gate().is_none(), "nothing waits behind a gate when a log is closed");
            open.flush_lazy();
            open.room(ID_LIMIT_BYTES);
            open.append_id_limit(next_id);
            open.closed = true;
        }
        self.step(now_ms, true)?;
        self.step(now_ms + MARK_AFTER_MS, true)?;
        Ok(())
    }
}
