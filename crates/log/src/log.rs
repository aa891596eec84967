//! The log's interface for its owner: append entries, read positions, check for room.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use histogram::{Histogram, SharedHistogram};

use crate::disk::Space;
use crate::error::Failure;
use crate::files::numbered::SegmentHold;
use crate::files::segments::Segments;
use crate::format::entry::{ENTRY_HEAD_BYTES, EntryKind, META_BYTES, write_meta};
use crate::format::padded;
use crate::index::Classify;
use crate::index::step::Indexes;
use crate::reclaim::Cursor;
use crate::settings::{
    BACKLOG_BYTES, ID_BLOCK, ID_LIMIT_MAX, IDS_AHEAD, LAG_MARGIN_BYTES, OPEN_BATCH_BYTES_MAX,
    Settings, Sync,
};
use crate::types::{BodyRef, Meta, Position, QueueRef, Slot};
use crate::write::batch::{ID_LIMIT_BYTES, Open, fact_entry_bytes, name_bytes, update_bytes};
use crate::write::commit::Commit;
use crate::write::fill::Fill;
use crate::write::positions::Positions;
use crate::write::serving::Serving;
use crate::write::sleeper::Sleeper;
use crate::write::syncs::Syncs;

/// The maximum number of bytes that a request for one queue needs besides the body: name, meta,
/// options and a group header.
pub(crate) const REQUEST_OVERHEAD_BYTES: u64 = 16 << 10;

/// The maximum number of bytes that a put into many queues needs besides the body: 64 KiB of names,
/// and 256 metas.
const ROUTED_OVERHEAD_BYTES: u64 = 96 << 10;

/// Bytes of an UPDATE entry of a job that has all options, and keys of the usual length.
const UPDATE_BYTES: u64 = 256;

/// The reserve for each live job: for its finish and its first copy.
const FINISH_RESERVE_BYTES: u64 = 16;

/// A function that the log calls when `written`, `durable` or `failure` has changed.
pub type OnProgress = Arc<dyn Fn() + Send + std::marker::Sync>;

/// One log, shared by its owner and the committers.
pub struct Log {
    pub(crate) sync: Sync,
    /// See [`Settings::one_processor`].
    pub(crate) one_processor: bool,
    serving: Serving,
    /// See [`Settings::update_segments`].
    update_segments: u64,
    pub(crate) open: Mutex<Open>,
    pub(crate) commit: Mutex<Commit>,
    /// Held by the first committer during a step.
    pub(crate) first_committer: Mutex<()>,
    pub(crate) segments: Segments,
    pub(crate) cursor: Mutex<Cursor>,
    /// A change that the owner cannot refuse waits for room: see [`Log::admits_accepted`].
    pub(crate) wants_room: AtomicBool,
    /// Set if the log has index files.
    pub(crate) classify: OnceLock<Classify>,
    pub(crate) indexes: Indexes,
    pub(crate) positions: Positions,
    /// If the owner's next id is above this id, the log appends a higher limit of ids.
    ids_asked_from: AtomicU64,
    /// The owner can use ids below this limit. The entry with the limit is durable.
    id_limit: AtomicU64,
    /// Limits of ids that are not durable yet, each with the end of its entry.
    id_pending: Mutex<Vec<(Position, u64)>>,
    pub(crate) failed: Mutex<Option<Failure>>,
    pub(crate) syncs: Syncs,
    pub(crate) committer: Sleeper,
    pub(crate) second_committer: Sleeper,
    pub(crate) helper: Sleeper,
    pub(crate) on_progress: OnceLock<OnProgress>,
    /// Times of the syncs on which replies wait, in microseconds.
    pub(crate) syncs_us: SharedHistogram,
    /// Entries of each group that had entries of clients.
    pub(crate) group_entries: SharedHistogram,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("sync", &self.sync)
            .field("written", &self.written())
            .field("durable", &self.durable())
            .finish_non_exhaustive()
    }
}

impl Log {
    pub(crate) fn new(
        settings: &Settings,
        open: Open,
        commit: Commit,
        (segments, indexes): (Segments, Indexes),
        next_id: u64,
    ) -> Log {
        let end = commit.previous_end.0;
        let ids_asked_from = open.id_limit - ID_BLOCK / 2;
        Log {
            sync: settings.sync,
            one_processor: settings.one_processor,
            serving: Serving::default(),
            update_segments: settings.update_segments,
            open: Mutex::new(open),
            commit: Mutex::new(commit),
            first_committer: Mutex::new(()),
            segments,
            cursor: Mutex::new(Cursor::default()),
            wants_room: AtomicBool::new(false),
            classify: settings.classify.map_or_else(OnceLock::new, OnceLock::from),
            indexes,
            positions: Positions::new(end),
            ids_asked_from: AtomicU64::new(ids_asked_from),
            id_limit: AtomicU64::new(next_id),
            id_pending: Mutex::new(Vec::new()),
            failed: Mutex::new(None),
            syncs: Syncs::default(),
            committer: Sleeper::default(),
            second_committer: Sleeper::default(),
            helper: Sleeper::default(),
            on_progress: OnceLock::new(),
            syncs_us: SharedHistogram::default(),
            group_entries: SharedHistogram::default(),
        }
    }

    /// Counts the caller as a thread that serves clients and has work.
    pub fn begin_work(&self) {
        if self.one_processor {
            self.serving.begin_work();
        }
    }

    /// Called after [`Log::begin_work`], when the thread has no more work, or rests. If a group fills until no thread
    /// has work, this ends the fill.
    pub fn end_work(&self) {
        if self.one_processor && self.serving.end_work() {
            self.cut_fill_short();
        }
    }

    /// Whether a group fills until the threads that serve clients have no more work. Then a thread
    /// should look for more work before it calls [`Log::end_work`].
    pub fn fills_until_idle(&self) -> bool {
        self.serving.fills()
    }

    /// Notes whether quiet clients sent requests a short time ago. They send short single requests, and wait
    /// for each reply. With one processor and without such clients, the log makes larger groups, and fills
    /// segments with zeros in larger pieces. Before the first call, there are quiet clients.
    pub fn note_quiet_clients(&self, has_quiet: bool) {
        if self.one_processor && self.serving.note_quiet(has_quiet) {
            self.cut_fill_short();
        }
    }

    /// Whether large groups and large pieces are better than short waits for single requests.
    pub(crate) fn prefers_large_groups(&self) -> bool {
        self.one_processor && !self.serving.has_quiet()
    }

    pub(crate) fn begin_fill(&self, fill: Fill) {
        self.open_batch().full_at = fill.entries;
        if fill.until_idle && !self.serving.begin_fill() {
            self.end_fill();
        }
    }

    /// Ends the fill of a group. Returns the number of entries that wait.
    pub(crate) fn end_fill(&self) -> u64 {
        self.serving.end_fill();
        let mut open = self.open_batch();
        open.full_at = 0;
        open.waiting()
    }

    fn cut_fill_short(&self) {
        // Without entries, the next one wakes the committer.
        if self.end_fill() > 0 {
            self.committer.wake();
        }
    }

    pub(crate) fn open_batch(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the open batch for an append. `now_ms` is the time for the next group.
    pub(crate) fn appending(&self, now_ms: u64) -> MutexGuard<'_, Open> {
        let mut open = self.open_batch();
        assert!(!open.closed, "nothing is appended after close");
        open.time_ms = open.time_ms.max(now_ms);
        open
    }

    /// Appends a new job. Returns its slot, and the position that a reply must wait for.
    pub fn put<'b>(
        &self,
        now_ms: u64,
        queue: QueueRef<'_>,
        meta: &Meta<'_>,
        body: impl Into<BodyRef<'b>>,
    ) -> (Slot, Position) {
        self.put_as(None, now_ms, queue, meta, body.into())
    }

    /// Like [`Log::put`], for a job of another server that keeps its id. The ids in PUT entries
    /// always increase, but an imported job can have a lower id than an earlier job. So the log
    /// writes a COPY entry that replaces no slot, instead of a PUT entry.
    pub fn import<'b>(
        &self,
        now_ms: u64,
        queue: QueueRef<'_>,
        meta: &Meta<'_>,
        body: impl Into<BodyRef<'b>>,
    ) -> (Slot, Position) {
        self.put_as(Some(Slot::from_u64(0)), now_ms, queue, meta, body.into())
    }

    /// Replaces a job by the same job with another body. The old slot ends, and the job gets a new
    /// one. Both are in one entry, so recovery finds the job with one of the two bodies.
    pub fn replace<'b>(
        &self,
        now_ms: u64,
        old: Slot,
        queue: QueueRef<'_>,
        meta: &Meta<'_>,
        body: impl Into<BodyRef<'b>>,
    ) -> (Slot, Position) {
        {
            let mut open = self.appending(now_ms);
            assert!(open.live.kill(old), "only a live slot is replaced: {old:?}");
            // The meta's options include the newest counters.
            open.lazy.remove(old);
        }
        self.put_as(Some(old), now_ms, queue, meta, body.into())
    }

    fn put_as(
        &self,
        replaced: Option<Slot>,
        now_ms: u64,
        queue: QueueRef<'_>,
        meta: &Meta<'_>,
        body: BodyRef<'_>,
    ) -> (Slot, Position) {
        // A COPY entry contains the slot that it replaces. 0 means no slot.
        let kind = if replaced.is_some() { EntryKind::Copy } else { EntryKind::Put };
        let slot_bytes = replaced.unwrap_or(Slot::from_u64(0)).to_u64().to_le_bytes();
        let replaced: &[u8] = if replaced.is_some() { &slot_bytes } else { &[] };
        let contents = replaced.len() + META_BYTES + meta.options.len() + body.bytes().len();
        let bytes = padded(ENTRY_HEAD_BYTES + contents) as u64;
        let mut open = self.appending(now_ms);
        open.room(bytes + name_bytes(queue.name));
        let number = open.queue(queue);
        let position = open.append_body(kind, 1, body, |buffer| {
            buffer.extend_from_slice(replaced);
            write_meta(buffer, number, meta);
        });
        open.client_bytes += bytes;
        (open.new_slot(bytes), position)
    }

    /// Appends at most 65,535 new jobs that share a body, as for a queue with children. All jobs
    /// are in one entry, so recovery finds all of them or none. Pushes their slots to `slots` in
    /// the order of `jobs`.
    pub fn put_many<'b>(
        &self,
        now_ms: u64,
        jobs: &[(QueueRef<'_>, Meta<'_>)],
        body: impl Into<BodyRef<'b>>,
        slots: &mut Vec<Slot>,
    ) -> Position {
        let body = body.into();
        let n = u16::try_from(jobs.len()).expect("at most 65,535 jobs share a body");
        let metas: usize = jobs.iter().map(|(_, meta)| META_BYTES + meta.options.len()).sum();
        let names: u64 = jobs.iter().map(|(queue, _)| name_bytes(queue.name)).sum();
        let bytes = padded(ENTRY_HEAD_BYTES + metas + body.bytes().len()) as u64;
        let mut open = self.appending(now_ms);
        open.room(bytes + names);
        let numbers: Vec<u32> = jobs.iter().map(|&(queue, _)| open.queue(queue)).collect();
        let position = open.append_body(EntryKind::Put, n, body, |buffer| {
            for (&number, (_, meta)) in numbers.iter().zip(jobs) {
                write_meta(buffer, number, meta);
            }
        });
        open.client_bytes += bytes;
        slots.extend(jobs.iter().map(|_| open.new_slot(bytes / u64::from(n.max(1)))));
        position
    }

    /// Appends a job's new meta, which replaces the old meta.
    pub fn update(
        &self,
        now_ms: u64,
        slot: Slot,
        queue: QueueRef<'_>,
        meta: &Meta<'_>,
    ) -> Position {
        let bytes = update_bytes(meta.options.len());
        let mut open = self.appending(now_ms);
        assert!(open.live.is_live(slot), "only a live slot is updated: {slot:?}");
        // The meta's options include the newest counters. So older lazy counters must not be
        // appended after this entry.
        open.lazy.remove(slot);
        open.room(bytes + name_bytes(queue.name));
        let number = open.queue(queue);
        open.client_bytes += bytes;
        open.append(EntryKind::Update, 0, |buffer| {
            buffer.extend_from_slice(&slot.to_u64().to_le_bytes());
            write_meta(buffer, number, meta);
        })
    }

    /// Replaces all counters of a job. No reply waits for these counters. They are written within a
    /// second. The log drops them if the job is finished before the write, or if the disk is full.
    pub fn count(&self, now_ms: u64, slot: Slot, counters: &[u8]) {
        let mut open = self.appending(now_ms);
        assert!(open.live.is_live(slot), "only a live slot is counted: {slot:?}");
        if !self.segments.is_short() || self.available(&open) >= self.put_reserve(&open) {
            open.lazy.set(now_ms, slot, counters);
        }
        if open.lazy.is_full() {
            drop(open);
            self.wake();
        }
    }

    /// Ends a job.
    pub fn finish(&self, now_ms: u64, slot: Slot) -> Position {
        self.finish_many(now_ms, &[slot])
    }

    /// Ends at most 65,535 jobs with one entry, or with the newest entry if it ends jobs, too. So
    /// recovery finds that all of them ended, or that none did.
    pub fn finish_many(&self, now_ms: u64, slots: &[Slot]) -> Position {
        assert!(u16::try_from(slots.len()).is_ok(), "at most 65,535 jobs end together");
        let bytes = padded(ENTRY_HEAD_BYTES + 8 * slots.len()) as u64;
        let mut open = self.appending(now_ms);
        open.room(bytes);
        for &slot in slots {
            assert!(open.live.kill(slot), "only a live slot is finished, once: {slot:?}");
            open.lazy.remove(slot);
        }
        open.append_finish(slots)
    }

    /// Appends a fact. The newest value of a key applies; an empty value removes the fact.
    pub fn fact(&self, now_ms: u64, key: &[u8], value: &[u8]) -> Position {
        let mut open = self.appending(now_ms);
        let bytes = fact_entry_bytes(key, value);
        open.room(bytes);
        open.client_bytes += bytes;
        open.append_fact(key, value)
    }

    /// The newest value of a key, if the key has a value.
    pub fn fact_value(&self, key: &[u8]) -> Option<Box<[u8]>> {
        self.open_batch().fact_value(key).map(Box::from)
    }

    /// The facts whose keys begin with `prefix`, sorted by their keys.
    pub fn facts_with(&self, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.open_batch().facts_with(prefix)
    }

    /// Makes sure that the next entries are in one segment, if they have at most `bytes` bytes in
    /// all. They are also in one group if the owner makes no commit step between the appends. Then
    /// recovery finds all of them or none.
    pub fn keep_together(&self, now_ms: u64, bytes: u64) {
        self.appending(now_ms).room(bytes);
    }

    /// Begins the next segment if the newest one has jobs. Returns whether it had. After the next
    /// commit, the index of the segment with these jobs can be built. For tests: segments fill
    /// slowly, and only a sealed segment has an index.
    pub fn seal(&self, now_ms: u64) -> bool {
        self.appending(now_ms).seal()
    }

    /// Forgets a queue's number, because the owner will use this number for another name.
    pub fn forget_queue(&self, number: u32) {
        self.open_batch().forget_queue(number);
    }

    /// Wakes the committer after a batch of appends. This call is cheap if the committer is awake.
    /// While the committer lets the group fill, this call wakes it only if the group is full.
    pub fn wake(&self) {
        if self.must_write() {
            self.committer.wake();
        }
    }

    /// Whether the committer must not let the next group fill any further. A reply that needs only
    /// a write does not wait for a fill.
    pub(crate) fn must_write(&self) -> bool {
        self.open_batch().is_full() || self.positions.wants_written()
    }

    /// Whether there is room for a put with a body of this length. There is room in two cases: the
    /// put needs nothing of the reserve for finishes and reclaim, or the disk has room to refill
    /// the reserve. The owner must call this function before the put changes anything.
    pub fn admits_put(&self, body_len: usize) -> bool {
        let bytes = body_len as u64 + REQUEST_OVERHEAD_BYTES;
        let segment = self.segments.segment_bytes;
        let (left, reserve, big) = {
            let open = self.open_batch();
            let left = self.available(&open).saturating_sub(open.cost(bytes));
            (left, self.put_reserve(&open), open.claimed_big_bytes)
        };
        // A big entry needs a segment of its own size. The committer creates this segment when it
        // writes the entry.
        let has_room_for = |own: u64| {
            !self.segments.is_short() && self.segments.has_room_for(reserve + segment + big + own)
        };
        let with_names = body_len as u64 + ROUTED_OVERHEAD_BYTES;
        if bytes + REQUEST_OVERHEAD_BYTES > segment {
            return has_room_for(with_names);
        }
        // A smaller body can also make a big entry, together with the names of many queues. This
        // function does not get the names, so it assumes the longest names. A body of at most a
        // quarter of a segment always fits with these names into a segment of 128 KiB or more. Only
        // simulations have smaller segments.
        let may_be_big = body_len as u64 > segment / 4 && with_names > segment;
        if may_be_big && !has_room_for(with_names) {
            return false;
        }
        left >= reserve || left >= segment && has_room_for(0)
    }

    /// Whether there is room for an update. Updates can use half a segment of the reserve that puts
    /// cannot use. The other part of the reserve is for finishes and reclaim.
    pub fn admits_update(&self) -> bool {
        self.admits_updates(1)
    }

    /// Whether there is room for `n` updates of one request. Several updates can also use room of
    /// the disk that is not allocated yet.
    pub fn admits_updates(&self, n: u64) -> bool {
        let more = n.saturating_sub(1).saturating_mul(UPDATE_BYTES);
        let (available, reserve) = {
            let open = self.open_batch();
            (self.available(&open), self.put_reserve(&open))
        };
        let segment = self.segments.segment_bytes;
        let needed = reserve - segment / 2 + REQUEST_OVERHEAD_BYTES + more;
        available >= needed
            || (more > 0 || available >= segment + REQUEST_OVERHEAD_BYTES)
                && !self.segments.is_short()
                && self.segments.has_room_for(needed)
    }

    /// Whether the disk has room, but the helper does not prepare segments fast enough. Then the
    /// owner should hold clients back until the log calls `on_progress`. Otherwise `admits_put`
    /// would refuse their puts, as on a full disk.
    pub fn lags(&self) -> bool {
        let open = self.open_batch();
        let margin = LAG_MARGIN_BYTES.min(self.segments.segment_bytes / 8);
        !self.segments.is_short() && self.available(&open) < self.put_reserve(&open) + margin
    }

    /// Bytes that are allocated, and that the open batch does not use yet.
    pub(crate) fn available(&self, open: &Open) -> u64 {
        (self.segments.ahead_bytes() + open.remaining()).saturating_sub(open.claimed_bytes)
    }

    /// The bytes of the reserve that puts cannot use. One segment is for reclaim's copies. The
    /// other bytes are for finishes, because on a full disk, reclaim begins only after finishes
    /// have made enough garbage.
    ///
    /// A finish can use more bytes than it turns into garbage, for example if the finish is alone
    /// in its group and the job is small. A job also grows by 8 bytes at its first copy. For each
    /// job, `FINISH_RESERVE_BYTES` covers these additional bytes of its finish and of its copy.
    pub(crate) fn put_reserve(&self, open: &Open) -> u64 {
        let segment = self.segments.segment_bytes;
        let finishes = open.live.live() * FINISH_RESERVE_BYTES + open.entry_bytes() / 64;
        segment + segment.max(segment / 2 + finishes) + self.reserve_for_updates()
    }

    /// The bytes of the reserve that changes by a leader cannot use: see [`Log::admits_accepted`].
    /// Less than this, and a follower could not end all its jobs on a full disk.
    ///
    /// It is what updates leave of [`Log::put_reserve`], without the part that only they can use. If
    /// reclaim has copied all jobs already, they have grown by half of `FINISH_RESERVE_BYTES`. Then
    /// the other half is enough. If it has copied none, and the leader has the same limit, there are more
    /// bytes left than this.
    pub(crate) fn accepted_reserve(&self, open: &Open) -> u64 {
        let segment = self.segments.segment_bytes;
        let finishes = open.live.live() * FINISH_RESERVE_BYTES / 2 + open.entry_bytes() / 64;
        segment / 2 + segment.max(segment / 2 + finishes)
    }

    /// The bytes of the reserve that only updates can use.
    pub(crate) fn reserve_for_updates(&self) -> u64 {
        self.segments.segment_bytes * self.update_segments
    }

    /// The limit of ids. The owner can use ids below it.
    pub fn id_limit(&self) -> u64 {
        self.id_limit.load(Ordering::Acquire)
    }

    /// Raises the limit of ids in blocks, long before the owner reaches it. The owner must call
    /// this function with the next id that it will assign. The call is usually cheap.
    pub fn note_next_id(&self, now_ms: u64, next: u64) {
        if next <= self.ids_asked_from.load(Ordering::Relaxed) {
            return;
        }
        let mut open = self.appending(now_ms);
        let limit = open.id_limit.max(next + IDS_AHEAD + ID_BLOCK).min(ID_LIMIT_MAX);
        open.room(ID_LIMIT_BYTES);
        let position = self.append_id_limit(&mut open, limit);
        drop(open);
        self.want_durable(position);
    }

    /// Appends a new limit of ids. It applies when its entry is durable.
    pub(crate) fn append_id_limit(&self, open: &mut Open, limit: u64) -> Position {
        let position = open.append_id_limit(limit);
        self.ids_asked_from.store(limit.saturating_sub(IDS_AHEAD), Ordering::Relaxed);
        self.id_pending().push((position, limit));
        position
    }

    fn id_pending(&self) -> MutexGuard<'_, Vec<(Position, u64)>> {
        self.id_pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Raises `id_limit` to the limits that are now durable.
    pub(crate) fn publish_id_limit(&self, durable: Position) {
        self.id_pending().retain(|&(position, limit)| {
            if position <= durable {
                self.id_limit.fetch_max(limit, Ordering::AcqRel);
            }
            position > durable
        });
    }

    /// Raises `id_limit` to a limit that became durable when the log was opened.
    pub(crate) fn raise_id_limit(&self, limit: u64) {
        self.id_limit.fetch_max(limit, Ordering::AcqRel);
    }

    /// The oldest segment that the log still needs.
    pub fn first_segment(&self) -> u32 {
        self.open_batch().first
    }

    /// The written position. The kernel has all bytes before it, so they survive the end of this
    /// process.
    pub fn written(&self) -> Position {
        Position(self.positions.written())
    }

    /// The durable position. All bytes before it are on stable storage.
    pub fn durable(&self) -> Position {
        Position(self.positions.durable())
    }

    /// Requests that the log becomes durable up to this position, whatever the setting of `sync`.
    pub fn want_durable(&self, position: Position) {
        self.positions.want_durable(position.0);
        self.committer.wake();
    }

    /// Requests a call of `on_progress` when the log is written up to this position. Without a
    /// request and with `Sync::Always`, the log calls `on_progress` only after syncs.
    pub fn want_written(&self, position: Position) {
        self.positions.want_written(position.0);
        // The next group may fill now. It must be written at once.
        self.committer.wake();
    }

    /// Requests that everything appended so far is synced at this time or earlier, whatever the
    /// setting of `sync`. The time is in milliseconds of the log's time. The caller must call
    /// [`Log::wake`] afterwards.
    pub fn want_sync_by(&self, at_ms: u64) {
        self.positions.want_sync_by(at_ms);
    }

    /// When the log syncs.
    pub fn sync(&self) -> Sync {
        self.sync
    }

    /// The size of the open batch: the bytes that the committer has not taken yet.
    pub fn open_batch_bytes(&self) -> usize {
        self.open_batch().bytes()
    }

    /// The size of the open batch above which the owner should hold clients back.
    pub fn open_batch_bytes_max(&self) -> usize {
        OPEN_BATCH_BYTES_MAX.min(self.segments.segment_bytes / 4) as usize
    }

    /// Whether the open batch has reached [`Log::open_batch_bytes_max`].
    pub fn is_batch_full(&self) -> bool {
        self.open_batch_bytes() >= self.open_batch_bytes_max()
    }

    /// Whether a write of the open batch takes longer than a sync of a few bytes. Then the owner
    /// should delay work that is not urgent.
    pub fn has_backlog(&self) -> bool {
        self.open_batch_bytes() >= BACKLOG_BYTES.min(self.segments.segment_bytes / 16) as usize
    }

    /// Holds a segment, so that its file can be read without the owner's lock. Until the hold is
    /// dropped, the log does not free, reuse or cut the files of this segment and of later
    /// segments. In these files, the log writes only after the durable position. A segment with a
    /// live slot can always be held. Returns `None` if the log is already freeing the segment. The
    /// call is cheap, because it does not use the disk.
    pub fn hold(&self, segment: u32) -> Option<SegmentHold> {
        self.segments.hold(segment)
    }

    /// Whether a hold is the only reason why the log cannot free a segment now.
    pub fn is_held_back(&self) -> bool {
        self.segments.is_held_back(self.durable())
    }

    /// Whether the log waits for a descriptor, because the process or the system has too many open
    /// files. It refuses puts then, as on a full disk.
    pub fn lacks_descriptors(&self) -> bool {
        self.segments.lacks_descriptors()
    }

    /// The failure after which the log stopped, if any.
    pub fn failure(&self) -> Option<Failure> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stores the failure if it is the first one, and calls `on_progress`. Returns the first
    /// failure.
    pub(crate) fn fail(&self, failure: Failure) -> Failure {
        let first = {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(failure).clone()
        };
        self.syncs.fail();
        self.progress();
        first
    }

    pub(crate) fn progress(&self) {
        if let Some(on_progress) = self.on_progress.get() {
            on_progress();
        }
    }

    /// How long the syncs took, and how large the groups were.
    pub fn commit_sizes(&self) -> CommitSizes {
        CommitSizes { syncs_us: self.syncs_us.read(), group_entries: self.group_entries.read() }
    }

    /// The size of the file system, and its free room.
    pub fn space(&self) -> io::Result<Space> {
        self.segments.space()
    }

    /// The disk use of the log, and counts of entries.
    pub fn usage(&self) -> Usage {
        let open = self.open_batch();
        Usage {
            live_bytes: open.live_bytes(),
            first_segment: open.first,
            last_segment: open.segment(),
            entries: open.entries,
            copies: open.copies,
            written_bytes: open.written_bytes + self.indexes.written_bytes(),
            client_bytes: open.client_bytes,
            data_bytes: self.segments.data_bytes().all,
            ahead_bytes: self.segments.ahead_bytes(),
            index_bytes: self.segments.index_bytes(),
            short: self.segments.is_short(),
        }
    }
}

/// How long the syncs of a log took, and how large its groups were, since the log was opened.
#[derive(Clone, Debug, Default)]
pub struct CommitSizes {
    /// Times of the syncs on which replies wait, in microseconds.
    pub syncs_us: Histogram,
    /// Entries of each group that had entries of clients.
    pub group_entries: Histogram,
}

/// The disk use of a log, and counts of entries.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Usage {
    /// The oldest segment that the log still needs.
    pub first_segment: u32,
    /// The segment that gets the next entry.
    pub last_segment: u32,
    /// The number of entries appended since the log was opened.
    pub entries: u64,
    /// How many of `entries` are copies by reclaim.
    pub copies: u64,
    /// Bytes written since the log was opened: entries, group headers and index files.
    pub written_bytes: u64,
    /// The part of `written_bytes` that is entries of the owner's appends. The other part is copies,
    /// index files and the log's own entries and headers.
    pub client_bytes: u64,
    /// Bytes of live entries, plus 24 bytes for each of them. The 24 bytes are for an entry of an
    /// index: this log has no index, but the documented limit of disk use includes one.
    pub live_bytes: u64,
    /// Bytes of the segments that contain the log, including the last segment.
    pub data_bytes: u64,
    /// Bytes of the files that are allocated for later segments.
    pub ahead_bytes: u64,
    /// Bytes of the index files.
    pub index_bytes: u64,
    /// True if the last attempt to fill the reserve found no room.
    pub short: bool,
}
