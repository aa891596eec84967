//! The segment files. This module prepares files before they are needed, and gives them to the
//! committer. When reclaim has given up a segment, this module uses its file again.
//!
//! The background work prepares a segment in these steps:
//!
//! 1. Write zeros where the file was never written. Later writes only overwrite these zeros. So the
//!    sync of a later write changes no file-system metadata.
//! 2. Write a header with a new number and salt.
//! 3. Sync the file, rename it, and sync the folder.
//!
//! So the committer needs only a write to begin a prepared segment. The committer writes to one
//! segment at a time, the *head*. All files that are allocated for later segments are the reserve.
//! On a full disk, the log writes finishes and reclaim's copies into the reserve.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::disk::{Disk, DiskFile, Space};
use crate::error::Failure;
use crate::files::folder::Folder;
use crate::files::numbered::{Bytes, Numbered, SegmentHold};
use crate::files::pieces::{Pace, fill, remove_in_pieces};
use crate::format::{HEADER_BYTES, SegmentHeader};
use crate::index::index_name;
use crate::types::Position;

/// The free part of the head is counted in thousandths.
pub(crate) const THOUSAND: u64 = 1000;
/// The background work is slow only while the next segment is this many bytes ahead of being ready
/// when the head is half full. With the half of the head that is still free then, this is more than
/// clients write in a long rest.
const SLOW_AHEAD_BYTES: u64 = 2 << 20;
/// The background work is gentle while the next segment will be ready with this part of the head
/// free, in thousandths. The rest is room for clients that write faster later.
const GENTLE_FREE: u64 = THOUSAND / 4;
/// The part of the head that clients may fill before the fill of the next segment begins, in
/// thousandths. A fill that begins that late need not hurry.
const LATE_BEGIN: u64 = THOUSAND / 32;

/// A start frees this many of the files that the log has given up, and on a full disk more: a file that is
/// also part of a backup gives no room.
const VOID_FREED_AT_ONCE: usize = 4;
/// A log on a full disk needs this many segments in reserve.
const AHEAD_AT_ONCE: u64 = 3;

pub(crate) fn segment_name(number: u32) -> String {
    format!("{number:010}.seg")
}

/// The number in a segment's name.
pub(crate) fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".seg")?;
    (digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
}

/// A segment that can be written.
#[derive(Clone, Debug)]
pub(crate) struct SegmentFile {
    pub(crate) number: u32,
    pub(crate) size: u64,
    pub(crate) salt: u64,
    pub(crate) file: Arc<dyn DiskFile>,
}

/// A file that waits to become a segment.
#[derive(Clone, Debug)]
struct Spare {
    name: String,
    size: u64,
    /// True if the file is allocated but was never written. Such a file needs zeros before it
    /// becomes a segment.
    blank: bool,
}

#[derive(Debug)]
struct State {
    /// The next segment, if it is ready.
    prepared: Option<SegmentFile>,
    spares: Vec<Spare>,
    /// The name of the spare that contains the first segment of a new log, until `name_first`
    /// renames this spare. `None`: there is no such spare.
    unnamed: Option<String>,
    spare_counter: u64,
    /// The segment that the committer writes.
    head: u32,
}

/// The files of one log.
#[derive(Debug)]
pub(crate) struct Segments {
    disk: Arc<dyn Disk>,
    log_id: [u8; 16],
    pub(crate) segment_bytes: u64,
    bytes_max: Option<u64>,
    state: Mutex<State>,
    /// The numbered files up to the head.
    numbered: Arc<Numbered>,
    /// The bytes of each segment's index file.
    indexes: Mutex<BTreeMap<u32, u64>>,
    /// Bytes of the prepared segment and of the spares.
    ahead_bytes: AtomicU64,
    /// True if the last attempt to allocate a file found no room.
    short: AtomicBool,
    /// True if the last attempt to make a segment, or a file of the reserve, failed for want of
    /// descriptors.
    lacks_descriptors: AtomicBool,
    /// True if the next segment is prepared.
    ready: AtomicBool,
    /// True if the file of a segment that was given up could not be checked. The background work
    /// retries after the same time as on a full disk.
    stuck: AtomicBool,
    /// The number of callers that wait for the lock of `state`. The background work holds this
    /// lock, and does not rest while a caller waits.
    waiters: AtomicU32,
    /// True if the background work is about to be stopped.
    stopping: AtomicBool,
}

/// Why a file could not be created.
#[derive(Debug)]
enum MakeError {
    /// A call for the new file failed. The log does not need this file yet, so the file was removed,
    /// unless only a descriptor was missing. The caller can try another file.
    Spoiled(Failure),
    /// The sync of the folder failed.
    Fatal(Failure),
}

impl From<MakeError> for Failure {
    fn from(error: MakeError) -> Failure {
        match error {
            MakeError::Spoiled(failure) | MakeError::Fatal(failure) => failure,
        }
    }
}

/// The input of `Segments::prepare`: how much it must allocate, and which segments it can free.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Wanted {
    /// The number of bytes that must be allocated for segments after the head.
    pub(crate) ahead_bytes: u64,
    /// The log is durable up to this position. A segment can be freed if its TRIM entry is durable.
    pub(crate) durable: Position,
}

impl Segments {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        log_id: [u8; 16],
        segment_bytes: u64,
        bytes_max: Option<u64>,
    ) -> Segments {
        let state =
            State { prepared: None, spares: Vec::new(), unnamed: None, spare_counter: 0, head: 0 };
        Segments {
            disk,
            log_id,
            segment_bytes,
            bytes_max,
            state: Mutex::new(state),
            numbered: Arc::default(),
            indexes: Mutex::default(),
            ahead_bytes: AtomicU64::new(0),
            short: AtomicBool::new(false),
            lacks_descriptors: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            waiters: AtomicU32::new(0),
            stopping: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // After a panic in another thread, the state is still usable. A thread completes each
        // change of the state before it calls anything that can panic. So no panic leaves half a
        // change.
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        state
    }

    fn is_urgent(&self) -> bool {
        self.waiters.load(Ordering::Relaxed) > 0 || self.stopping.load(Ordering::Relaxed)
    }

    /// Sets whether the background work of this log is about to be stopped. If so, the work does
    /// not rest.
    pub(crate) fn set_stopping(&self, stopping: bool) {
        self.stopping.store(stopping, Ordering::Relaxed);
    }

    /// Stores the numbers and sizes of the segments that recovery found.
    pub(crate) fn adopt(&self, sizes: BTreeMap<u32, u64>) {
        let mut state = self.state();
        state.head = sizes.keys().next_back().copied().unwrap_or(0);
        self.numbered.adopt(sizes);
        self.publish(&state);
    }

    /// Reuses the spares of an earlier run. Deletes spares that cannot be reused, for example
    /// because of their size.
    pub(crate) fn adopt_spares(&self, folder: &Folder) -> Result<(), Failure> {
        let mut state = self.state();
        for name in &folder.spares {
            let (kind, number) = name.split_once('-').unwrap_or((name, "0"));
            state.spare_counter = state.spare_counter.max(number.parse().unwrap_or(0));
            if folder.strangers.contains(name) {
                continue;
            }
            // A file that this process cannot open for writing does not belong to the log.
            let Ok(file) = self.disk.open(name) else { continue };
            let size = file.size().and_then(|size| Ok((size, file.links()?)));
            let size = size.map_err(|error| Failure::new("look at", name, error))?;
            if size == (self.segment_bytes, 1) && !self.disk.copies_on_write() {
                state.spares.push(Spare {
                    name: name.clone(),
                    size: size.0,
                    blank: kind == "blank",
                });
            } else {
                self.disk.remove(name).map_err(|error| Failure::new("remove", name, error))?;
            }
        }
        self.publish(&state);
        Ok(())
    }

    pub(crate) fn ahead_bytes(&self) -> u64 {
        self.ahead_bytes.load(Ordering::Acquire)
    }

    /// Bytes of the numbered files up to the head.
    pub(crate) fn data_bytes(&self) -> Bytes {
        self.numbered.bytes()
    }

    /// Bytes of the index files.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.index_sizes().values().sum()
    }

    /// No thread holds this lock during a call to the disk.
    fn index_sizes(&self) -> MutexGuard<'_, BTreeMap<u32, u64>> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the size of a segment's index file. Returns the size that was noted before.
    pub(crate) fn set_index(&self, number: u32, bytes: Option<u64>) -> Option<u64> {
        let mut sizes = self.index_sizes();
        match bytes {
            Some(bytes) => sizes.insert(number, bytes),
            None => sizes.remove(&number),
        }
    }

    /// Removes the index file of a segment, if it has one. If this fails, the file is left over
    /// until a later start removes it.
    fn remove_index(&self, number: u32) {
        let size = self.index_sizes().remove(&number);
        if size.is_some() {
            let _ = self.disk.remove(&index_name(number));
        }
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The size of the file system, and its free room.
    pub(crate) fn space(&self) -> io::Result<Space> {
        self.disk.space()
    }

    /// Whether the file system and the setting `bytes_max` leave room for this many more bytes.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        let taken = self.ahead_bytes() + self.data_bytes().all + self.index_bytes();
        self.bytes_max.is_none_or(|max| taken + bytes <= max)
            && self.disk.space().is_ok_and(|space| space.free >= bytes)
    }

    /// Whether the next segment is prepared.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Acquire)
    }

    /// Whether the last attempt to make a segment or a file of the reserve failed because the process or
    /// the system had too many open files.
    pub(crate) fn lacks_descriptors(&self) -> bool {
        self.lacks_descriptors.load(Ordering::Acquire)
    }

    /// Opens a numbered segment for reading.
    pub(crate) fn open(&self, number: u32) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(&segment_name(number))
    }

    /// Makes segment `number` the head. The segment has at least `size` bytes. If it is not
    /// prepared, creates it now. Returns `None` if there is no room, or no descriptor for another
    /// open file. The caller can retry.
    ///
    /// A segment that is larger than usual is made for one big entry. If there is no other room for
    /// such a segment, this function removes files of the reserve. The log does not need these
    /// files now, because it can write nothing else before the big entry.
    ///
    /// When the segment becomes the head, `ahead_bytes` no longer counts it, but `data_bytes` does.
    /// `claimed_bytes` of the open batch no longer counts it either (see `batch.rs`). Appenders and
    /// reclaim add these numbers, so they must see all changes or none. `settle` gets a function that
    /// updates the first two. `settle` must hold the appenders' lock while it calls that function and
    /// reduces `claimed_bytes`.
    pub(crate) fn take(
        &self,
        number: u32,
        size: u64,
        settle: impl FnOnce(&dyn Fn()),
    ) -> Result<Option<SegmentFile>, Failure> {
        let mut state = self.state();
        let ready = state.prepared.take_if(|file| file.number == number && file.size >= size);
        let head = if let Some(ready) = ready {
            ready
        } else {
            // If the prepared segment is too small, `make` replaces its file by a rename.
            let mut small = state.prepared.take();
            let needed = size.saturating_sub(self.ahead_bytes());
            let reserve_helps = size > self.segment_bytes && self.has_room_for(needed);
            loop {
                let lacks_room = match self.make(&mut state, number, size, &|_| Pace::Urgent) {
                    Ok(head) => break head,
                    Err(MakeError::Spoiled(failure)) if failure.is_no_room() => true,
                    // More room does not help.
                    Err(MakeError::Spoiled(failure)) if failure.is_out_of_descriptors() => false,
                    Err(error) => return Err(error.into()),
                };
                if !lacks_room
                    || !reserve_helps
                    || !self.remove_ahead(&mut state.spares, &mut small)?
                {
                    state.prepared = small;
                    self.short.store(true, Ordering::Release);
                    self.publish(&state);
                    return Ok(None);
                }
            }
        };
        state.head = number;
        settle(&|| {
            self.numbered.add(number, head.size);
            self.publish(&state);
        });
        Ok(Some(head))
    }

    /// Removes one file of the reserve to free its room. Returns false if the reserve is empty.
    fn remove_ahead(
        &self,
        spares: &mut Vec<Spare>,
        prepared: &mut Option<SegmentFile>,
    ) -> Result<bool, Failure> {
        let name = match spares.pop() {
            Some(spare) => spare.name,
            None => match prepared.take() {
                Some(file) => segment_name(file.number),
                None => return Ok(false),
            },
        };
        self.disk.remove(&name).map_err(|error| Failure::new("remove", &name, error))?;
        self.sync_folder()?;
        Ok(true)
    }

    /// Makes the first segment of a new log the head. `name_first` gives the file its number when
    /// its first group is durable. So a numbered first segment always has a complete first group.
    pub(crate) fn take_first(&self) -> Result<SegmentFile, Failure> {
        let mut state = self.state();
        let spare = match state.spares.pop() {
            Some(spare) => spare,
            None => self.allocate(&mut state, self.segment_bytes)?,
        };
        let head = self.make_segment(&spare, self.open_spare(&spare)?, 1, &|_| Pace::Urgent)?;
        state.unnamed = Some(spare.name);
        state.head = 1;
        self.numbered.add(1, head.size);
        self.publish(&state);
        Ok(head)
    }

    /// Renames the file of the first segment to its number.
    pub(crate) fn name_first(&self) -> Result<(), Failure> {
        let Some(name) = self.state().unnamed.take() else { return Ok(()) };
        self.name(&name, 1)?;
        self.sync_folder()
    }

    fn name(&self, spare: &str, number: u32) -> Result<(), Failure> {
        let renamed = self.disk.rename(spare, &segment_name(number));
        renamed.map_err(|error| Failure::new("rename", spare, error))
    }

    /// Does one step of the background work: fills the reserve, prepares the next segment, frees
    /// segments. Returns true if there may be more work now. A full disk or a failed spare is not
    /// an error, because a later call retries.
    ///
    /// A step must be short if clients may be held back until it ends. So a step frees at most one
    /// segment that the reserve does not need. Only while `has_more_work` returns false, a step can
    /// be slow. While `large_pieces` returns true, no client minds large pieces of zeros. The caller must
    /// compute `wanted` again for each step.
    pub(crate) fn prepare(
        &self,
        wanted: Wanted,
        head_left: &dyn Fn() -> u64,
        has_more_work: &dyn Fn() -> bool,
        large_pieces: &dyn Fn() -> bool,
    ) -> Result<bool, Failure> {
        let pace = |left| {
            let pace = match self.pace(left, head_left) {
                Pace::Slow if has_more_work() => Pace::Gentle,
                pace => pace,
            };
            let can_be_brisk = matches!(pace, Pace::Gentle | Pace::Steady);
            if can_be_brisk && large_pieces() { Pace::Brisk } else { pace }
        };
        let mut state = self.state();
        // This loop can free several segments: it takes almost no time to move a segment into the
        // reserve.
        while ahead_of(&state) < wanted.ahead_bytes && self.free_one(&mut state, wanted, &pace)? {}
        self.fill_reserve(&mut state, wanted.ahead_bytes);
        if state.prepared.is_some() {
            return self.free_one(&mut state, wanted, &pace);
        }
        if !state.spares.iter().any(|spare| !spare.blank) {
            // Prefer the file of a freed segment to a blank file: only a blank file needs zeros.
            self.free_one(&mut state, wanted, &pace)?;
        }
        let next = state.head + 1;
        match self.make(&mut state, next, self.segment_bytes, &pace) {
            Ok(file) => state.prepared = Some(file),
            Err(MakeError::Spoiled(_)) => {
                self.short.store(true, Ordering::Release);
                self.publish(&state);
                return self.free_one(&mut state, wanted, &pace);
            }
            Err(MakeError::Fatal(failure)) => return Err(failure),
        }
        self.publish(&state);
        Ok(true)
    }

    /// The pace of the background work when it must still write `left` bytes of the next segment.
    /// The pace is gentle while the next segment can be ready before the head is three quarters full,
    /// and slow while it can be ready well before the head is half full. Otherwise the background
    /// work must fill the next segment faster than clients fill the head.
    fn pace(&self, left: u64, head_left: &dyn Fn() -> u64) -> Pace {
        if self.is_urgent() {
            return Pace::Urgent;
        }
        let head_left = head_left();
        let left = left * THOUSAND / self.segment_bytes.max(1);
        let ahead = SLOW_AHEAD_BYTES * THOUSAND / self.segment_bytes.max(1);
        // Whether the fill keeps to a line: all is left when the fill may begin at the latest, and
        // nothing when this part of the head is free.
        let is_in_time = |free: u64| {
            left * (THOUSAND - LATE_BEGIN - free) <= head_left.saturating_sub(free) * THOUSAND
        };
        if left + THOUSAND + ahead <= 2 * head_left {
            Pace::Slow
        } else if is_in_time(GENTLE_FREE) {
            Pace::Gentle
        } else if is_in_time(0) {
            Pace::Steady
        } else {
            Pace::Urgent
        }
    }

    /// Does the quick part of `prepare`: allocates files, but writes no zeros.
    pub(crate) fn allocate_ahead(&self, ahead_bytes: u64) {
        self.fill_reserve(&mut self.state(), ahead_bytes);
    }

    /// Removes the prepared files that a log with this reserve does not need, but for one. A killed
    /// process leaves such files if it had many entries in memory.
    pub(crate) fn remove_surplus(&self, ahead_bytes: u64) -> Result<(), Failure> {
        let mut state = self.state();
        while ahead_of(&state) >= ahead_bytes + 2 * self.segment_bytes {
            // Keep the files that need no zeros.
            let blank = state.spares.iter().rposition(|spare| spare.blank);
            let Some(index) = blank.or(state.spares.len().checked_sub(1)) else { break };
            let Spare { name, .. } = state.spares.remove(index);
            self.disk.remove(&name).map_err(|error| Failure::new("remove", &name, error))?;
        }
        self.publish(&state);
        Ok(())
    }

    fn fill_reserve(&self, state: &mut State, ahead_bytes: u64) {
        let mut short = false;
        while ahead_of(state) < ahead_bytes {
            // There is probably no room, or no descriptor. The next call retries.
            let spare = match self.allocate(state, self.segment_bytes) {
                Ok(spare) => spare,
                Err(failure) => {
                    short = true;
                    let lacks = failure.is_out_of_descriptors();
                    self.lacks_descriptors.store(lacks, Ordering::Release);
                    break;
                }
            };
            state.spares.push(spare);
            self.publish(state);
        }
        self.short.store(short, Ordering::Release);
    }

    /// Adds a segment that reclaim gave up. The TRIM entry of this segment ends at `trim`.
    pub(crate) fn trimmed(&self, number: u32, trim: Position) {
        self.numbered.give_up(number, trim);
    }

    /// Notes that a segment's file could not be read, or had wrong bytes. The log removes this file when
    /// it frees the segment: the next segment in it could not be read either.
    pub(crate) fn note_spoiled(&self, number: u32) {
        self.numbered.note_spoiled(number);
    }

    /// Waits, so that other threads can use the disk.
    pub(crate) fn rest(&self, time: Duration) {
        self.disk.rest(time);
    }

    /// Holds a segment: until the hold is dropped, the log does not free, reuse or cut the files of
    /// this segment and of later segments. Returns `None` if the segment is already being freed.
    /// Makes no call to the disk.
    pub(crate) fn hold(&self, number: u32) -> Option<SegmentHold> {
        self.numbered.hold(number)
    }

    /// Holds all segments that have a file now.
    pub(crate) fn hold_oldest(&self) -> SegmentHold {
        self.numbered.hold_oldest()
    }

    /// The lowest segment that the log needs if it ends at this position.
    pub(crate) fn first_at(&self, end: Position) -> u32 {
        self.numbered.first_at(end)
    }

    pub(crate) fn log_id(&self) -> [u8; 16] {
        self.log_id
    }

    /// Whether a segment can be freed when the log is durable up to this position.
    pub(crate) fn can_free(&self, durable: Position) -> bool {
        self.numbered.can_free(durable)
    }

    /// Whether a segment could be freed if nobody held it.
    pub(crate) fn is_held_back(&self, durable: Position) -> bool {
        self.numbered.is_held_back(durable)
    }

    /// Whether the file of a segment that was given up could not be checked.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Acquire)
    }

    fn publish(&self, state: &State) {
        self.ahead_bytes.store(ahead_of(state), Ordering::Release);
        self.ready.store(state.prepared.is_some(), Ordering::Release);
    }

    /// Frees the oldest segment that reclaim gave up. Returns false if no segment can be freed now,
    /// for example because somebody holds it, or if the file cannot be checked.
    fn free_one(
        &self,
        state: &mut State,
        wanted: Wanted,
        pace: &dyn Fn(u64) -> Pace,
    ) -> Result<bool, Failure> {
        self.stuck.store(false, Ordering::Release);
        let Some(number) = self.numbered.begin(wanted.durable) else { return Ok(false) };
        self.remove_index(number);
        let enough = ahead_of(state) >= wanted.ahead_bytes;
        match self.disk.look_at(&segment_name(number)) {
            Ok(looks) => self.discard(state, number, looks, enough, pace)?,
            // Another program removed the file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // The log does not need the file any more, so a later call can retry.
            Err(_) => {
                self.stuck.store(true, Ordering::Release);
                return Ok(false);
            }
        }
        self.sync_folder()?;
        self.publish(state);
        self.numbered.end();
        Ok(true)
    }

    /// Turns a file that the log does not need into a spare, or removes it. The caller must sync
    /// the folder afterwards.
    fn discard(
        &self,
        state: &mut State,
        number: u32,
        (size, links): (u64, u64),
        enough: bool,
        pace: &dyn Fn(u64) -> Pace,
    ) -> Result<(), Failure> {
        let name = segment_name(number);
        let is_spoiled = self.numbered.take_spoiled(number);
        // A file with a second link is part of a backup. So only the log's name of the file is
        // removed. A spoiled file gets no other name, because a start would use it as a spare.
        if links != 1 || is_spoiled {
            return self.disk.remove(&name).map_err(|error| Failure::new("remove", &name, error));
        }
        state.spare_counter += 1;
        let spare = format!("spare-{}", state.spare_counter);
        self.disk.rename(&name, &spare).map_err(|error| Failure::new("rename", &name, error))?;
        let mut unneeded = Spare { name: spare, size, blank: false };
        if size == self.segment_bytes && !self.disk.copies_on_write() {
            if !enough {
                state.spares.push(unneeded);
                return Ok(());
            }
            // The unneeded file needs no zeros before its next use. So it replaces a blank file of
            // the reserve, and the blank file is removed instead.
            if let Some(blank) = state.spares.iter_mut().find(|spare| spare.blank) {
                std::mem::swap(blank, &mut unneeded);
            }
        }
        // The rename must be durable before the file is cut. Otherwise a power failure could undo
        // the rename, and leave a numbered file that is too short.
        self.sync_folder()?;
        let Spare { name, size, blank } = unneeded;
        // A blank file has no data in memory or on disk, so removing it is quick.
        let pace: &dyn Fn(u64) -> Pace = if blank { &|_| Pace::Urgent } else { pace };
        let removed = remove_in_pieces(&*self.disk, &name, size, pace);
        removed.map_err(|error| Failure::new("remove", &name, error))
    }

    /// Discards the numbered files that are not part of the log: `void` has their numbers and sizes.
    /// The numbers above the head go from the highest down, and each removal is durable before the next
    /// one. Otherwise a power failure could leave a gap between the numbers, and a gap looks like a lost
    /// segment. Below the head, `prepare` frees most of the files later, because there can be thousands.
    /// The log is durable up to `trim`, and says there that it does not need these files.
    pub(crate) fn discard_void(
        &self,
        mut void: BTreeMap<u32, u64>,
        trim: Position,
    ) -> Result<(), Failure> {
        let mut state = self.state();
        let above = void.split_off(&state.head);
        for &number in above.keys().rev() {
            self.sync_folder()?;
            self.discard_one(&mut state, number)?;
        }
        for (index, (number, size)) in void.into_iter().enumerate() {
            let missing = (AHEAD_AT_ONCE * self.segment_bytes).saturating_sub(ahead_of(&state));
            self.publish(&state);
            let lacks_room = missing > 0 && !self.has_room_for(missing + size);
            if index < VOID_FREED_AT_ONCE || lacks_room {
                self.discard_one(&mut state, number)?;
            } else {
                self.numbered.add_void(number, size, trim);
            }
        }
        self.sync_folder()?;
        self.publish(&state);
        Ok(())
    }

    fn discard_one(&self, state: &mut State, number: u32) -> Result<(), Failure> {
        self.remove_index(number);
        let enough = ahead_of(state) >= AHEAD_AT_ONCE * self.segment_bytes;
        let name = segment_name(number);
        let looks = self.disk.look_at(&name);
        let looks = looks.map_err(|error| Failure::new("look at", &name, error))?;
        self.discard(state, number, looks, enough, &|_| Pace::Urgent)
    }

    /// Makes a durable segment file with a header and a number.
    fn make(
        &self,
        state: &mut State,
        number: u32,
        size: u64,
        pace: &dyn Fn(u64) -> Pace,
    ) -> Result<SegmentFile, MakeError> {
        let made = self.make_with_spare(state, number, size, pace);
        let lacks = match &made {
            Err(MakeError::Spoiled(failure)) => failure.is_out_of_descriptors(),
            Ok(_) | Err(MakeError::Fatal(_)) => false,
        };
        self.lacks_descriptors.store(lacks, Ordering::Release);
        made
    }

    fn make_with_spare(
        &self,
        state: &mut State,
        number: u32,
        size: u64,
        pace: &dyn Fn(u64) -> Pace,
    ) -> Result<SegmentFile, MakeError> {
        // Prefer a spare that is not blank, because it needs no zeros.
        let fits = state.spares.iter().enumerate().filter(|(_, spare)| spare.size == size);
        let fit = fits.min_by_key(|(_, spare)| spare.blank).map(|(index, _)| index);
        let spare = match fit {
            Some(index) => state.spares.swap_remove(index),
            None => self.allocate(state, size).map_err(MakeError::Spoiled)?,
        };
        let file = match self.open_spare(&spare) {
            Ok(file) => file,
            Err(failure) => {
                // For example, the process has too many open files. The spare is as it was.
                state.spares.push(spare);
                return Err(MakeError::Spoiled(failure));
            }
        };
        let dressed = self.make_segment(&spare, file, number, pace);
        match dressed.and_then(|file| self.name(&spare.name, number).map(|()| file)) {
            Ok(file) => {
                self.sync_folder().map_err(MakeError::Fatal)?;
                Ok(file)
            }
            Err(failure) => {
                if failure.is_out_of_descriptors() {
                    // The file is in order, and a later attempt writes its header again.
                    state.spares.push(spare);
                } else {
                    let _ = self.disk.remove(&spare.name);
                }
                Err(MakeError::Spoiled(failure))
            }
        }
    }

    fn open_spare(&self, spare: &Spare) -> Result<Arc<dyn DiskFile>, Failure> {
        let opened = self.disk.open(&spare.name);
        opened.map_err(|error| Failure::new("open", &spare.name, error))
    }

    /// Fills a blank file with zeros, writes the header, and syncs the file.
    fn make_segment(
        &self,
        spare: &Spare,
        file: Arc<dyn DiskFile>,
        number: u32,
        pace: &dyn Fn(u64) -> Pace,
    ) -> Result<SegmentFile, Failure> {
        let fail = |doing| move |error| Failure::new(doing, &spare.name, error);
        // This can need a descriptor. So it comes before the long fill.
        let salt = self.disk.random().map_err(fail("find a salt for"))?;
        if spare.blank && !self.disk.copies_on_write() {
            fill(&*self.disk, &*file, HEADER_BYTES, spare.size, pace).map_err(fail("fill"))?;
        }
        let header = SegmentHeader { log_id: self.log_id, number, size: spare.size, salt };
        file.write_at(&header.encode(), 0).map_err(fail("write the header of"))?;
        file.sync_all().map_err(fail("sync"))?;
        Ok(SegmentFile { number, size: spare.size, salt, file })
    }

    /// Creates a blank spare: a file that is allocated but not written.
    fn allocate(&self, state: &mut State, size: u64) -> Result<Spare, Failure> {
        let taken = ahead_of(state) + self.data_bytes().all + self.index_bytes();
        if self.bytes_max.is_some_and(|max| taken + size > max) {
            return Err(Failure::new("allocate", "a segment", io::ErrorKind::StorageFull.into()));
        }
        state.spare_counter += 1;
        let name = format!("blank-{}", state.spare_counter);
        let file = self.disk.create(&name).map_err(|error| Failure::new("create", &name, error))?;
        if let Err(error) = file.allocate(size) {
            let _ = self.disk.remove(&name);
            return Err(Failure::new("allocate", &name, error));
        }
        Ok(Spare { name, size, blank: true })
    }

    fn sync_folder(&self) -> Result<(), Failure> {
        self.disk.sync_folder().map_err(|error| Failure::new("sync", self.disk.folder(), error))
    }
}

/// Bytes that are allocated for segments after the head.
fn ahead_of(state: &State) -> u64 {
    let prepared = state.prepared.as_ref().map_or(0, |file| file.size);
    prepared + state.spares.iter().map(|spare| spare.size).sum::<u64>()
}

#[cfg(test)]
mod tests;
