//! Reclaim: copies the live entries of the oldest segment to the end of the log, and then gives the
//! segment up.
//!
//! Reclaim reads a slice of the segment without the owner's lock, and then copies the slice under
//! this lock, in parts so small that nobody waits long for the lock. Only the oldest segment can be
//! given up: a later segment can contain entries that end jobs in older segments, and without these
//! entries the jobs would come back. The TRIM entry is appended after all copies. So when the TRIM
//! is durable, the copies are durable, too. Then the file can be used again.

mod bound;
mod oldest;
mod pass;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use crate::disk::DiskFile;
use crate::error::{ReclaimError, is_out_of_descriptors};
use crate::files::segments::segment_name;
use crate::format::entry::{ENTRY_HEAD_BYTES, Entry, EntryKind, META_BYTES, write_meta};
use crate::format::{
    GROUP_HEADER_BYTES, GroupHeader, HEADER_BYTES, SegmentHeader, get_u32, padded,
};
use crate::log::{Log, REQUEST_OVERHEAD_BYTES};
use crate::reclaim::bound::Space;
use crate::reclaim::oldest::Oldest;
use crate::reclaim::pass::{Passes, Sizes};
use crate::settings::{SHARED_BYTES_MIN, SLICE_BYTES};
use crate::types::{BodyRef, Meta, Position, QueueRef, Slot};
use crate::write::batch::{Open, fact_entry_bytes, name_bytes};

/// The bytes after which a copy of a slice makes a pause.
const PART_BYTES: u64 = 64 << 10;

/// The jobs or facts after which a copy of a slice makes a pause. For each job, the owner reads memory
/// that nobody has used for long, which takes 0.3 to 3 µs. So 128 jobs hold the owner's lock for at
/// most 0.4 ms. Without this limit, a part of 1,400 jobs with small bodies held it for up to 4.5 ms on
/// a slow machine, and 256 KiB of the facts of queues for 3 to 8 ms.
const PART_ITEMS: usize = 128;

/// The owner's data of a job, for a copy of the job.
#[derive(Copy, Clone, Debug)]
pub struct Current<'a> {
    /// The job's current queue.
    pub queue: QueueRef<'a>,
    /// The job's current meta. The state of a leased job is *ready* here.
    pub meta: Meta<'a>,
}

/// The functions of the owner that reclaim needs. During these calls, reclaim holds the appenders'
/// lock (the lock of the open batch), so the functions must not call the log.
pub trait Owner {
    /// Returns the job's current queue and meta. Called only for live slots, possibly several times
    /// for one slot. `None` means that the owner does not have this job. This is a bug, and reclaim
    /// stops.
    fn current(&mut self, slot: Slot, id: u64) -> Option<Current<'_>>;

    /// Called after reclaim has copied the job from the slot `old` to the slot `new`. The copy's
    /// entry begins at `entry`, and is not written to the file yet.
    fn moved(&mut self, old: Slot, new: Slot, id: u64, entry: Position, body: BodyRef<'_>);
}

/// An entry of a slice that had live slots when it was read.
#[derive(Debug)]
struct Candidate {
    /// The entry's offset in the slice's bytes.
    start: usize,
    first_index: u32,
    /// The body of the entry, if it is large. It is copied from the slice's bytes without the owner's
    /// lock. So the open batch can keep it, and the owner, too.
    body: Option<triomphe::Arc<[u8]>>,
}

/// A piece of the oldest segment that was read but not copied yet.
#[derive(Debug)]
pub struct Slice {
    segment: u32,
    bytes: Vec<u8>,
    candidates: Vec<Candidate>,
    /// Where the next slice begins.
    next: ReadPlace,
    /// True if this is the last slice of the segment.
    last: bool,
    scanned_bytes: u64,
    /// How many of the candidates were copied.
    copied: usize,
}

/// The place in a segment where reclaim continues to read.
#[derive(Copy, Clone, Debug, Default)]
struct ReadPlace {
    offset: u64,
    /// The bytes of the current group's entries from this place on.
    group_left: u64,
    /// The index of the next slot.
    next_index: u32,
}

/// The size of the copy of one entry: the bytes appended, and the live jobs of the entry.
#[derive(Copy, Clone, Debug)]
struct Copied {
    bytes: u64,
    jobs: usize,
}

/// How far the facts of a segment were copied.
enum CopiedFacts {
    All,
    Some,
    NoRoom,
}

/// The state of the log when a copy found too little room.
#[derive(Copy, Clone, Debug)]
struct Starved {
    available: u64,
    /// True if the oldest segment had no live jobs, only facts.
    dead: bool,
}

/// The progress of reclaim.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    segment: u32,
    file: Option<(Arc<dyn DiskFile>, SegmentHeader)>,
    place: ReadPlace,
    /// True if reclaim has stopped because it found damage. Then the log keeps this segment and all
    /// later segments.
    stopped: bool,
    /// The segment whose read failed, if reclaim stopped because of this failure. The owner may
    /// still have the bodies of the segment's live jobs.
    unreadable: Option<u32>,
    /// If reclaim stopped because the owner could not write all live jobs of a segment again: this
    /// segment.
    left: Option<u32>,
    /// The number of bytes that reclaim may scan. This credit grows by 2.2 for each byte that
    /// clients append. While the log is small enough, the credit does not grow above 0. The credit
    /// becomes negative if a slice is larger than it.
    credit_bytes: i64,
    used_bytes_before: u64,
    oldest: Oldest,
    /// See [`Log::reclaim_hurries`].
    hurries: bool,
    /// The oldest segment when the files last were about to exceed their bound. Reclaim hurries until
    /// this segment is free.
    too_big_with: Option<u32>,
    /// See [`Log::reclaim_lag`].
    lag: u32,
    passes: Passes,
    /// Whether a change waited for room when [`Log::reclaim_wanted`] was called last.
    had_to_go_on: bool,
    /// Set if reclaim stopped because there was too little room for a copy. Reclaim waits until
    /// there is more room, or until the oldest segment has no live job.
    starved_at: Option<Starved>,
}

impl Log {
    /// Whether reclaim should run now. Normally, there are two conditions. The files must be larger
    /// than 1.4 times the live bytes plus a segment, or plus two segments if clients finish the
    /// jobs of the oldest segment fast enough. And reclaim must have scanned fewer than 2.2
    /// bytes for each byte that clients appended.
    ///
    /// If the log is much too big, or the disk is full, reclaim does not wait for clients. If
    /// nothing in the oldest segment is live, reclaim runs at once, because it has nothing to copy.
    pub fn reclaim_wanted(&self) -> bool {
        let open = self.open_batch();
        let dead = open.live.live_in(open.first) == 0;
        let (live_bytes, entry_bytes) = (open.live_bytes(), open.entry_bytes());
        let oldest_bytes = open.live.bytes_in(open.first);
        let void = dead && open.fact_in(open.first).is_none();
        let (first, last, remaining) = (open.first, open.segment(), open.remaining());
        let (used_bytes, available) = (open.used_bytes(), self.available(&open));
        let segment = self.segments.segment_bytes;
        let reserve = self.put_reserve(&open).next_multiple_of(segment);
        // The open batch may have begun segments whose files the committer has not taken yet.
        let data_bytes =
            self.segments.data_bytes().kept + open.claimed_bytes + open.claimed_big_bytes;
        let ahead_bytes = self.segments.ahead_bytes().saturating_sub(open.claimed_bytes);
        drop(open);
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let lag_before = std::mem::take(&mut cursor.lag);
        cursor.hurries = false;
        if cursor.stopped || self.failure().is_some() || first >= self.written().segment() {
            return false;
        }
        let is_starved = |starved: Starved| available <= starved.available && starved.dead == dead;
        if !void && cursor.starved_at.is_some_and(is_starved) {
            return false;
        }
        let index_bytes = self.segments.index_bytes();
        let file_bytes = data_bytes + index_bytes;
        let is_dying = cursor.segment != first
            && cursor.oldest.is_dying(first, (oldest_bytes, used_bytes), segment);
        let space = Space {
            segment,
            live: live_bytes,
            data: data_bytes,
            remaining,
            index: index_bytes,
            reserve,
            for_updates: self.reserve_for_updates(),
            to_copy: (!is_dying).then_some(oldest_bytes),
        };
        let is_small = file_bytes + ahead_bytes <= space.bound() - segment;
        let allowance = segment * (1 + u64::from(is_dying && is_small));
        let exceeds = |tenths: u64| file_bytes > live_bytes * tenths / 10 + allowance;
        // The bytes that a pass over all files can free. The calculation uses `entry_bytes` instead
        // of `live_bytes`, because the files do not contain the index that `live_bytes` includes.
        // With the index, the garbage would seem smaller. Then a pass on a full disk would begin
        // too late, after the reserve is used up.
        let garbage = data_bytes.saturating_sub(remaining + entry_bytes);
        // See `Log::admits_accepted`: the smallest garbage that is worth a pass decides whether a follower
        // has room for what its leader has admitted.
        let must_go_on = self.wants_room.load(Ordering::Relaxed);
        if must_go_on && !cursor.had_to_go_on {
            // What earlier passes were worth says nothing: clients make no garbage while a change waits.
            cursor.passes = Passes::default();
        }
        cursor.had_to_go_on = must_go_on;
        let (spared, gain) =
            if must_go_on { (0, segment / 8) } else { (entry_bytes / 10, segment / 2) };
        let has_garbage = garbage > spared + gain;
        let new_bytes = used_bytes - cursor.used_bytes_before;
        cursor.used_bytes_before = used_bytes;
        cursor.credit_bytes += (new_bytes * 22 / 10) as i64;
        if !exceeds(14) {
            cursor.credit_bytes = cursor.credit_bytes.min(0);
        }
        let is_too_big = space.is_too_big();
        let is_full = self.segments.is_short() || must_go_on;
        let presses = (is_full || is_too_big) && has_garbage || exceeds(19);
        // A segment that is copied in part gives nothing back. Its copies can make the log seem small
        // enough, but reclaim must go on to hurry, and clients to rest, until the segment is free.
        let must_free = cursor.too_big_with == Some(first);
        if !has_garbage {
            cursor.passes = Passes::default();
        }
        let sizes = Sizes {
            garbage,
            not_of_clients: data_bytes as i64 - remaining as i64 - used_bytes as i64,
            live: entry_bytes,
        };
        let helps = presses && cursor.passes.would_help(first, last, sizes, gain);
        if helps && is_too_big {
            cursor.too_big_with = Some(first);
        }
        if cursor.too_big_with == Some(first) {
            // Step by step, even if reclaim begins to hurry late.
            cursor.lag = space.lag().min(lag_before + 1);
        }
        cursor.hurries = helps || must_free;
        if !cursor.hurries {
            cursor.passes.end();
        }
        if void || cursor.hurries {
            return true;
        }
        exceeds(14) && (dead || cursor.credit_bytes >= 0)
    }

    /// Whether the last call of [`Log::reclaim_wanted`] found the log much too big, or the disk full,
    /// or a segment that must become free because the log was too big. Then reclaim should not rest
    /// between slices.
    pub fn reclaim_hurries(&self) -> bool {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner).hurries
    }

    /// How far reclaim is behind clients that append, from 0 to 8, as of the last call of
    /// [`Log::reclaim_wanted`]. It is more than 0 only if reclaim hurries, because the files would
    /// exceed the bound of their size before reclaim has freed a segment. The owner should then slow
    /// its clients down. Each call of [`Log::reclaim_wanted`] raises it by at most 1. It is 0 as soon
    /// as reclaim has stopped, because then nobody knows when the segment becomes free.
    pub fn reclaim_lag(&self) -> u32 {
        let cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        if cursor.stopped { 0 } else { cursor.lag }
    }

    /// Reads the next slice of the oldest segment. The caller must not hold the owner's lock,
    /// because the read can take long. Returns `None` if the log has only the current segment, if
    /// reclaim has stopped, or if the process has too many open files now.
    pub fn reclaim_read(&self) -> Result<Option<Slice>, ReclaimError> {
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, live) = {
            let open = self.open_batch();
            (open.first, open.live.live_in(open.first))
        };
        if cursor.stopped || first >= self.written().segment() {
            return Ok(None);
        }
        if cursor.segment != first {
            cursor.segment = first;
            cursor.file = None;
            cursor.place = ReadPlace { offset: HEADER_BYTES, ..ReadPlace::default() };
        }
        if live == 0 {
            let next = cursor.place;
            let (bytes, candidates) = (Vec::new(), Vec::new());
            return Ok(Some(Slice {
                segment: first,
                bytes,
                candidates,
                next,
                last: true,
                scanned_bytes: 0,
                copied: 0,
            }));
        }
        let slice = self.read_slice(&mut cursor, first);
        // The segment is in order, and a later call can open it.
        if let Err(ReclaimError::Read { source, .. }) = &slice
            && is_out_of_descriptors(source)
        {
            return Ok(None);
        }
        if slice.is_err() {
            cursor.stopped = true;
            cursor.unreadable = Some(first);
            self.segments.note_spoiled(first);
        }
        slice.map(Some)
    }

    /// The oldest segment, if reclaim stopped because it cannot read this segment. If the owner has
    /// the bodies of the segment's live jobs, it can [write them again](Log::write_again).
    pub fn unreadable_segment(&self) -> Option<u32> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner).unreadable
    }

    /// Writes a live job to the end of the log, with the owner's body: a job of the unreadable segment, or
    /// one that needs a slot whose entry has all its changes. Does nothing if the job has ended. The
    /// caller must hold the owner's lock. Returns false if there is no room now.
    pub fn write_again<'b>(
        &self,
        now_ms: u64,
        (slot, id): (Slot, u64),
        body: impl Into<BodyRef<'b>>,
        owner: &mut dyn Owner,
    ) -> Result<bool, ReclaimError> {
        let mut open = self.open_batch();
        if open.closed || !open.live.is_live(slot) {
            return Ok(true);
        }
        open.time_ms = open.time_ms.max(now_ms);
        let slack_bytes = open.slack_bytes;
        let copied = self.append_copy(&mut open, &[(slot, id)], body.into(), owner);
        open.slack_bytes = slack_bytes;
        Ok(copied?.is_some())
    }

    /// Begins the rescue of the oldest segment, because the owner cannot read all its jobs.
    pub fn begin_rescue(&self, segment: u32) {
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        if segment == self.open_batch().first {
            (cursor.stopped, cursor.unreadable) = (true, Some(segment));
            self.segments.note_spoiled(segment);
        }
    }

    /// Ends the rescue of the unreadable segment. If the segment has no live jobs now, reclaim
    /// continues. Otherwise reclaim stops, until [`Log::rescue_again`]. Returns whether it stops.
    pub fn end_rescue(&self) -> bool {
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let open = self.open_batch();
        if let Some(segment) = cursor.unreadable.take()
            && segment == open.first
        {
            cursor.lag = 0;
            cursor.stopped = open.live.live_in(segment) > 0;
            cursor.left = cursor.stopped.then_some(segment);
        }
        cursor.left.is_some()
    }

    /// Begins the rescue again, if the last rescue could not write all jobs of its segment again.
    /// The remaining jobs may have ended since then, and the disk may work again.
    pub fn rescue_again(&self) {
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let left = cursor.left.take();
        cursor.unreadable = cursor.unreadable.or(left);
    }

    fn read_slice(&self, cursor: &mut Cursor, segment: u32) -> Result<Slice, ReclaimError> {
        let name = segment_name(segment);
        let read_error = |offset| {
            let file = name.clone();
            move |source| ReclaimError::Read { file, offset, source }
        };
        if cursor.file.is_none() {
            let file = self.segments.open(segment).map_err(read_error(0))?;
            let mut header = vec![0; HEADER_BYTES as usize];
            file.read_at(&mut header, 0).map_err(read_error(0))?;
            let header =
                SegmentHeader::decode(&header).map_err(|_| damaged(segment, 0, "the header"))?;
            cursor.file = Some((file, header));
        }
        let (file, header) = cursor.file.as_ref().expect("the file was just opened");
        let start = cursor.place.offset;
        let mut bytes = Vec::new();
        let mut wanted = SLICE_BYTES;
        loop {
            let len = wanted.min(header.size.saturating_sub(start));
            bytes.resize(len as usize, 0);
            let read = file.read_at(&mut bytes, start).map_err(read_error(start))?;
            bytes.truncate(read);
            let walk = Walk { segment, salt: header.salt, start, bytes: &bytes };
            let (candidates, next, last) = match walk.entries(cursor.place, self)? {
                WalkResult::Through { candidates, next, last } => (candidates, next, last),
                // The file ends here, so a larger read would not return more bytes.
                WalkResult::NeedsBytes(_) if (read as u64) < len => {
                    return Err(damaged(segment, start + read as u64, "the file ends"));
                }
                WalkResult::NeedsBytes(needed) if start + needed <= header.size => {
                    wanted = needed;
                    continue;
                }
                WalkResult::NeedsBytes(_) => return Err(damaged(segment, start, "entry length")),
            };
            let scanned_bytes = next.offset - start;
            return Ok(Slice { segment, bytes, candidates, next, last, scanned_bytes, copied: 0 });
        }
    }

    /// Copies live jobs of a slice to the end of the log, at most 64 KiB or 128 jobs, and one entry.
    /// Returns true if the slice is done, and false if the next call must continue with this slice.
    /// At the end of the last slice of a segment, copies live facts of the segment within the same
    /// limits, and gives the segment up if it has no more of them. The caller must hold the owner's
    /// lock, and should release it between two calls.
    pub fn reclaim_copy(
        &self,
        now_ms: u64,
        slice: &mut Slice,
        owner: &mut dyn Owner,
    ) -> Result<bool, ReclaimError> {
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open = self.open_batch();
        if open.closed || slice.segment != open.first || cursor.stopped {
            return Ok(true);
        }
        open.time_ms = open.time_ms.max(now_ms);
        let (mut appended, mut items) = (0, 0);
        // Restore `slack_bytes` after each copy. If a copy begins a new segment, `slack_bytes`
        // grows by the unused end of the old segment. Without this line, reclaim could scan more
        // because of its own copies.
        let slack_bytes = open.slack_bytes;
        cursor.starved_at = None;
        while let Some(candidate) = slice.candidates.get(slice.copied) {
            if appended >= PART_BYTES || items >= PART_ITEMS {
                self.wake_after_copies(open);
                return Ok(false);
            }
            let copied = self.copy_entry(&mut open, slice, candidate, owner);
            open.slack_bytes = slack_bytes;
            match copied {
                Ok(Some(copied)) => {
                    appended += copied.bytes;
                    // An entry whose jobs have ended since the read takes time, too.
                    items += copied.jobs.max(1);
                }
                // There is no room for this copy. Reclaim will read this slice again later. Then it
                // skips the entries copied so far, because they have no live slots any more.
                Ok(None) => {
                    let available = self.available(&open);
                    cursor.starved_at = Some(Starved { available, dead: false });
                    self.wake_after_copies(open);
                    return Ok(true);
                }
                Err(error) => {
                    cursor.stopped = true;
                    return Err(error);
                }
            }
            slice.copied += 1;
        }
        cursor.place = slice.next;
        cursor.credit_bytes -= slice.scanned_bytes as i64;
        if slice.last {
            if open.live.live_in(slice.segment) > 0 {
                cursor.stopped = true;
                return Err(damaged(slice.segment, slice.next.offset, "live jobs were not found"));
            }
            match self.copy_facts(&mut open, slice.segment, (appended, items)) {
                CopiedFacts::All => self.give_up(&mut open, slice.segment),
                // The next slice copies more facts of this segment.
                CopiedFacts::Some => {}
                CopiedFacts::NoRoom => {
                    let available = self.available(&open);
                    cursor.starved_at = Some(Starved { available, dead: true });
                }
            }
            open.slack_bytes = slack_bytes;
        }
        self.wake_after_copies(open);
        Ok(true)
    }

    /// Wakes the committer if it must write the copies now: see [`Open::is_due`].
    fn wake_after_copies(&self, open: MutexGuard<'_, Open>) {
        let is_due = open.is_due();
        drop(open);
        if is_due {
            self.wake();
        }
    }

    /// Copies live facts of a segment without live jobs, until the call has copied 64 KiB or 128 jobs
    /// and facts. `appended` and `items` are what it has copied before.
    fn copy_facts(
        &self,
        open: &mut Open,
        segment: u32,
        (mut appended, mut items): (u64, usize),
    ) -> CopiedFacts {
        while let Some((key, value)) = open.fact_in(segment) {
            let bytes = fact_entry_bytes(key, value);
            if appended >= PART_BYTES || items >= PART_ITEMS {
                return CopiedFacts::Some;
            }
            // Copies of facts may leave less room for finishes than copies of jobs, because a whole
            // segment becomes free after these copies.
            if !self.has_room_to_copy(open, bytes, self.segments.segment_bytes / 16) {
                return CopiedFacts::NoRoom;
            }
            let (key, value) = (Arc::clone(key), value.to_vec());
            let entries_before = open.entries;
            open.room(bytes);
            open.append_fact(&key, &value);
            open.note_copy(entries_before);
            appended += bytes;
            items += 1;
        }
        CopiedFacts::All
    }

    /// Gives up a segment without live entries, and appends the TRIM entry.
    fn give_up(&self, open: &mut Open, segment: u32) {
        open.room(24);
        open.first = segment + 1;
        open.live.pop_segment();
        let trim = open.append(EntryKind::Trim, 0, |buffer| {
            buffer.extend_from_slice(&(segment + 1).to_le_bytes());
        });
        self.segments.trimmed(segment, trim);
        self.want_durable(trim);
    }
}

impl ReclaimError {
    /// Makes the error for a rescue that could not write `jobs` jobs of this segment again. `id` is
    /// the first of these jobs, if it is known.
    pub fn left(segment: u32, jobs: u64, id: Option<u64>) -> ReclaimError {
        ReclaimError::Left { jobs, id, file: segment_name(segment) }
    }
}

fn damaged(segment: u32, offset: u64, what: &str) -> ReclaimError {
    ReclaimError::Damaged { file: segment_name(segment), offset, what: what.to_owned() }
}

/// The body of an entry in memory of its own, if it is large.
fn large_body(entry: &Entry<'_>) -> Option<triomphe::Arc<[u8]>> {
    if entry.payload.len() < SHARED_BYTES_MIN {
        return None;
    }
    let body = entry.for_each_slot(|_| ())?;
    (body.len() >= SHARED_BYTES_MIN).then(|| body.into())
}

/// Finds the entries in a piece of a segment.
struct Walk<'a> {
    segment: u32,
    salt: u64,
    /// The offset of the piece in the segment.
    start: u64,
    bytes: &'a [u8],
}

enum WalkResult {
    Through {
        candidates: Vec<Candidate>,
        next: ReadPlace,
        last: bool,
    },
    /// The piece has no complete entry. The caller must read a piece of at least this many bytes.
    NeedsBytes(u64),
}

impl Walk<'_> {
    fn entries(&self, mut place: ReadPlace, log: &Log) -> Result<WalkResult, ReclaimError> {
        let mut candidates = Vec::new();
        loop {
            let at = (place.offset - self.start) as usize;
            let rest = &self.bytes[at.min(self.bytes.len())..];
            if place.group_left == 0 {
                let position = Position::new(self.segment, place.offset);
                match GroupHeader::peek(rest).filter(|group| group.position == position) {
                    Some(group) => {
                        place.offset += GROUP_HEADER_BYTES as u64;
                        place.group_left = u64::from(group.len);
                    }
                    // The piece ends inside a group's header. The next slice begins with this
                    // header.
                    None if at > 0 && rest.len() < GROUP_HEADER_BYTES => {
                        return Ok(WalkResult::Through { candidates, next: place, last: false });
                    }
                    None => return Ok(WalkResult::Through { candidates, next: place, last: true }),
                }
                continue;
            }
            let needed = match rest.len() {
                0..ENTRY_HEAD_BYTES => ENTRY_HEAD_BYTES,
                _ => padded(get_u32(rest, 4) as usize),
            };
            if needed > rest.len() || needed as u64 > place.group_left {
                return match at {
                    _ if needed as u64 > place.group_left => {
                        Err(damaged(self.segment, place.offset, "entry length"))
                    }
                    0..=GROUP_HEADER_BYTES if candidates.is_empty() => {
                        Ok(WalkResult::NeedsBytes((at + needed) as u64))
                    }
                    _ => Ok(WalkResult::Through { candidates, next: place, last: false }),
                };
            }
            let position = Position::new(self.segment, place.offset);
            let entry = Entry::read(rest, self.salt, position.0)
                .map_err(|what| damaged(self.segment, place.offset, what))?;
            if matches!(entry.kind, EntryKind::Put | EntryKind::Copy) {
                let first_index = place.next_index;
                place.next_index += u32::from(entry.n);
                let open = log.open_batch();
                let segment = self.segment;
                let is_live = (first_index..place.next_index)
                    .any(|index| open.live.is_live(Slot { segment, index }));
                drop(open);
                if is_live {
                    candidates.push(Candidate { start: at, first_index, body: large_body(&entry) });
                }
            }
            place.offset += entry.bytes as u64;
            place.group_left -= entry.bytes as u64;
        }
    }
}

impl Log {
    /// Copies the live slots of one entry. Returns `None` if the copy would leave too little room
    /// for finishes.
    fn copy_entry(
        &self,
        open: &mut Open,
        slice: &Slice,
        candidate: &Candidate,
        owner: &mut dyn Owner,
    ) -> Result<Option<Copied>, ReclaimError> {
        let entry =
            Entry::parse(&slice.bytes[candidate.start..]).expect("the entry was read before");
        let mut slots: Vec<(Slot, u64)> = Vec::new();
        let mut index = candidate.first_index;
        let body = entry.for_each_slot(|stored| {
            let slot = Slot { segment: slice.segment, index };
            if open.live.is_live(slot) {
                slots.push((slot, stored.meta.id));
            }
            index += 1;
        });
        let body =
            body.ok_or_else(|| damaged(slice.segment, slice.next.offset, "an entry's contents"))?;
        if slots.is_empty() {
            return Ok(Some(Copied { bytes: 0, jobs: 0 }));
        }
        let body = candidate.body.as_ref().map_or(BodyRef::Bytes(body), BodyRef::Shared);
        self.append_copy(open, &slots, body, owner)
    }

    /// Appends a COPY entry for live jobs that share a body. Uses the owner's current queue and
    /// meta of each job. Returns `None` if there is too little room.
    fn append_copy(
        &self,
        open: &mut Open,
        slots: &[(Slot, u64)],
        body: BodyRef<'_>,
        owner: &mut dyn Owner,
    ) -> Result<Option<Copied>, ReclaimError> {
        let (mut names, mut metas_bytes) = (0, 0);
        for &(slot, id) in slots {
            let current = owner
                .current(slot, id)
                .ok_or_else(|| ReclaimError::NoOwner { id, file: segment_name(slot.segment) })?;
            names += name_bytes(current.queue.name);
            metas_bytes += 8 + META_BYTES + current.meta.options.len();
        }
        let bytes = padded(ENTRY_HEAD_BYTES + metas_bytes + body.bytes().len()) as u64;
        if !self.has_room_to_copy(open, bytes + names, self.segments.segment_bytes / 4) {
            return Ok(None);
        }
        let entries_before = open.entries;
        open.room(bytes + names);
        let mut metas = Vec::with_capacity(metas_bytes);
        for &(slot, id) in slots {
            let current = owner.current(slot, id).expect("the owner knew it a moment ago");
            let queue = open.queue(current.queue);
            metas.extend_from_slice(&slot.to_u64().to_le_bytes());
            write_meta(&mut metas, queue, &current.meta);
        }
        let n = slots.len() as u16;
        let position = open.append_body(EntryKind::Copy, n, body, |buffer| {
            buffer.extend_from_slice(&metas);
        });
        open.note_copy(entries_before);
        let start = Position::new(position.segment(), position.offset() - bytes);
        for &(old, id) in slots {
            assert!(open.live.kill(old), "a copied slot lived");
            // The copy contains the owner's current meta, which includes the newest counters. So
            // older lazy counters must not be appended after this entry.
            open.lazy.remove(old);
            let new = open.new_slot(bytes / slots.len() as u64);
            owner.moved(old, new, id, start, body);
        }
        Ok(Some(Copied { bytes, jobs: slots.len() }))
    }

    /// Whether there is room for a copy of `bytes` bytes that leaves `left` bytes for finishes.
    fn has_room_to_copy(&self, open: &Open, bytes: u64, left: u64) -> bool {
        let segment = self.segments.segment_bytes;
        if bytes + REQUEST_OVERHEAD_BYTES > segment {
            // A big entry gets a segment of its own size. After this segment, the log needs another
            // one of the usual size.
            let own = bytes + REQUEST_OVERHEAD_BYTES + segment;
            return self.segments.has_room_for(own + open.claimed_big_bytes);
        }
        self.available(open) >= open.cost(bytes) + left
    }
}
