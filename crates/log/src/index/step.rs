//! Writes the index files of sealed segments, and gives them to the owner.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::disk::Disk;
use crate::error::is_no_room;
use crate::files::numbered::SegmentHold;
use crate::files::pieces::write_in_pieces;
use crate::files::segments::segment_name;
use crate::format::{GROUP_HEADER_BYTES, GroupHeader, HEADER_BYTES, SegmentHeader};
use crate::index::build::{Built, Pace, Sealed, build};
use crate::index::reader::SegmentIndex;
use crate::index::{BlockId, Classify, IndexError, OwnedRow, index_name, new_index_name};
use crate::log::Log;
use crate::types::Slot;

/// A build that nobody waits for rests as long as it has taken since its last rest, but at most this
/// long. Commits need the processor and the disk more than an index does. A thread that only yields
/// keeps the processor from them: the kernel can let it run again at once.
const REST_MAX: Duration = Duration::from_millis(10);
/// After a write that found no room, although the disk showed room, no index is built for this time. The
/// user may have a quota, or the disk may lack room for names: nothing shows when that has passed.
const FULL_REST: Duration = Duration::from_mins(1);

/// The indexes of a log.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    shelf: Mutex<Shelf>,
    /// Locked while an index is built, so that only one thread builds.
    work: Mutex<()>,
    /// The number of threads that need an index to read jobs.
    readers: AtomicU32,
    /// No index is built any more.
    is_stopping: AtomicBool,
    /// See [`Log::hurry_indexing`].
    is_urgent: AtomicBool,
    /// Bytes of the index files that were written since the log was opened.
    written_bytes: AtomicU64,
}

/// A thread that needs an index to read jobs. It counts among the readers until it is dropped.
#[derive(Debug)]
struct Reader<'a>(&'a AtomicU32);

impl<'a> Reader<'a> {
    fn new(readers: &'a AtomicU32) -> Self {
        readers.fetch_add(1, Ordering::Relaxed);
        Self(readers)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Shelf {
    indexes: BTreeMap<u32, Arc<SegmentIndex>>,
    /// Segments whose index could not be built or written.
    refused: BTreeSet<u32>,
    /// The segment whose index was built last, and the bytes of the index. If there was no room for
    /// them, the segment is not read again before there is.
    built: Option<(u32, u64)>,
    /// See [`FULL_REST`].
    rest_until: Option<Instant>,
}

impl Indexes {
    pub(crate) fn new(indexes: Vec<Arc<SegmentIndex>>) -> Indexes {
        let indexes = indexes.into_iter().map(|index| (index.segment(), index)).collect();
        let shelf = Mutex::new(Shelf { indexes, ..Shelf::default() });
        Indexes { shelf, ..Indexes::default() }
    }

    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Whether a reader waits for the index that is made now, or for the next one.
    fn is_awaited(&self) -> bool {
        self.readers.load(Ordering::Relaxed) > 0
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// The shelf, without the segments before `first`: the log has given them up.
    fn shelf_from(&self, first: u32) -> MutexGuard<'_, Shelf> {
        let mut shelf = self.shelf();
        shelf.indexes = shelf.indexes.split_off(&first);
        shelf.refused = shelf.refused.split_off(&first);
        shelf
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// Whether a slot is live: no entry has ended it.
    pub fn is_live(&self, slot: Slot) -> bool {
        self.open_batch().live.is_live(slot)
    }

    /// For each of these slots, whether it is live.
    pub fn are_live(&self, slots: impl Iterator<Item = Slot>) -> Vec<bool> {
        let live = &self.open_batch().live;
        slots.map(|slot| live.is_live(slot)).collect()
    }

    /// Whether the log writes and reads index files.
    pub fn has_indexes(&self) -> bool {
        self.classify.get().is_some()
    }

    /// Writes and reads index files from now on, if the log was opened without
    /// [`Settings::classify`](crate::Settings::classify). All index files are written again.
    pub fn use_indexes(&self, classify: Classify) {
        let _ = self.classify.set(classify);
    }

    /// Ends the work on index files soon, because the owner stops. The thread that builds an index
    /// need not read the whole segment first.
    pub fn stop_indexing(&self) {
        self.indexes.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Whether indexes are built without rests, because the owner waits for them.
    pub fn hurry_indexing(&self, hurries: bool) {
        self.indexes.is_urgent.store(hurries, Ordering::Relaxed);
    }

    /// The segments that have an index, from the oldest on.
    pub fn indexed(&self) -> Vec<u32> {
        self.indexes.shelf_from(self.first_segment()).indexes.keys().copied().collect()
    }

    /// The segments whose index may have the job with this id, from the oldest on. Reads no file.
    pub fn segments_that_may_have(&self, id: u64) -> Vec<u32> {
        let shelf = self.indexes.shelf_from(self.first_segment());
        let found = shelf.indexes.values().filter(|index| index.may_have(id));
        found.map(|index| index.segment()).collect()
    }

    /// The memory of all indexes in bytes. It grows with the names of queues in each segment.
    pub fn index_memory_bytes(&self) -> u64 {
        let shelf = self.indexes.shelf_from(self.first_segment());
        shelf.indexes.values().map(|index| index.memory_bytes()).sum()
    }

    /// The memory of the table of slots in bytes. It grows with the jobs in the log, also with those
    /// that have ended, until reclaim has freed their segments.
    pub fn slots_memory_bytes(&self) -> u64 {
        self.open_batch().live.memory_bytes()
    }

    /// The index of a segment, if it has one.
    pub fn index(&self, segment: u32) -> Option<Arc<SegmentIndex>> {
        self.indexes.shelf().indexes.get(&segment).cloned()
    }

    /// Writes the index of one segment: the newest sealed segment without an index, of whose slots
    /// at least an eighth is live. Returns its number, or `None` if there is nothing to do now.
    ///
    /// This call reads a whole segment, so it takes a while. It holds no lock meanwhile. The caller
    /// decides when to call it. An error is no failure of the log. The log does not try this
    /// segment again in this process. Too many open files and a full disk are no errors, because they
    /// pass. If the write finds no room although the disk showed room, further calls do nothing for a
    /// minute.
    pub fn index_step(&self) -> Result<Option<u32>, IndexError> {
        let Some(&classify) = self.classify.get() else { return Ok(None) };
        let _work = self.indexes.work.lock().unwrap_or_else(PoisonError::into_inner);
        let rests = self.indexes.shelf().rest_until.is_some_and(|until| Instant::now() < until);
        if rests || self.failure().is_some() {
            return Ok(None);
        }
        let Some(&segment) = self.to_index(1).first() else { return Ok(None) };
        let built = self.indexes.shelf().built.filter(|(number, _)| *number == segment);
        let usual = self.segments.segment_bytes / 8;
        if !self.has_room_for_index(built.map_or(usual, |(_, bytes)| bytes.max(usual))) {
            return Ok(None);
        }
        // Reclaim gave the segment up in the meantime.
        let Some(_hold) = self.hold(segment) else { return Ok(None) };
        let written = self.build(segment, classify).and_then(|built| self.write_index(&built));
        match written {
            Ok(()) => Ok(Some(segment)),
            Err(IndexError::Stopped) => Ok(None),
            // Another call can succeed, when others have closed files or freed room.
            Err(error) if error.is_out_of_descriptors() || error.is_no_room() => Ok(None),
            Err(error) => {
                self.indexes.shelf().refused.insert(segment);
                Err(error)
            }
        }
    }

    /// Reads the rows of a block in the order of their keys, also those of jobs that have ended
    /// since. If the index file is damaged, reads the segment, and writes the index file again.
    /// The caller must not hold the owner's lock.
    pub fn read_block(&self, block: BlockId) -> Result<Vec<OwnedRow>, IndexError> {
        let gone = || IndexError::Gone { file: segment_name(block.segment) };
        let damage = match self.read_indexed(block) {
            Ok(rows) => return Ok(rows),
            Err(damage) => damage,
        };
        let _hold: SegmentHold = self.hold(block.segment).ok_or_else(gone)?;
        let (built, _) = self.build_again(block.segment)?;
        built.block(block.number).ok_or(damage)
    }

    /// Like [`Log::read_block`], but fails if the index file is damaged.
    pub fn read_indexed(&self, block: BlockId) -> Result<Vec<OwnedRow>, IndexError> {
        let gone = || IndexError::Gone { file: segment_name(block.segment) };
        let _hold: SegmentHold = self.hold(block.segment).ok_or_else(gone)?;
        self.index(block.segment).ok_or_else(gone)?.read_block(block.number)
    }

    /// Reads several blocks of one segment, which follow each other, with one read. Fails like
    /// [`Log::read_indexed`].
    pub fn read_indexed_run(
        &self,
        segment: u32,
        numbers: Range<u32>,
    ) -> Result<Vec<Vec<OwnedRow>>, IndexError> {
        let gone = || IndexError::Gone { file: segment_name(segment) };
        let _hold: SegmentHold = self.hold(segment).ok_or_else(gone)?;
        self.index(segment).ok_or_else(gone)?.read_blocks(numbers)
    }

    /// Like [`SegmentIndex::find`], but reads the segment, for example because a list of ids is
    /// damaged. Writes the index file again, if possible. The caller must not hold the owner's lock.
    pub fn find_in_segment(&self, segment: u32, id: u64) -> Result<Option<u32>, IndexError> {
        let gone = || IndexError::Gone { file: segment_name(segment) };
        let _hold: SegmentHold = self.hold(segment).ok_or_else(gone)?;
        let (built, _) = self.build_again(segment)?;
        Ok(built.find(id))
    }

    /// Builds the index of a segment. Also returns whether the file could be written. The caller
    /// holds the segment.
    fn build_again(&self, segment: u32) -> Result<(Built, Result<(), IndexError>), IndexError> {
        let gone = || IndexError::Gone { file: segment_name(segment) };
        let classify = *self.classify.get().ok_or_else(gone)?;
        // Another build may be in progress, and must not rest while this reader waits for it.
        let _reader = Reader::new(&self.indexes.readers);
        let _work = self.indexes.work.lock().unwrap_or_else(PoisonError::into_inner);
        let built = self.build(segment, classify)?;
        let written = self.write_index(&built);
        Ok((built, written))
    }

    /// Whether an index file of this size leaves enough room for the segments of the log.
    fn has_room_for_index(&self, bytes: u64) -> bool {
        let missing = self.ahead_wanted().saturating_sub(self.segments.ahead_bytes());
        let needed = missing + self.segments.segment_bytes + bytes;
        !self.segments.is_short() && self.segments.has_room_for(needed)
    }

    /// The number of segments that need an index, but at most `max`.
    pub fn segments_to_index(&self, max: usize) -> usize {
        if self.has_indexes() { self.to_index(max).len() } else { 0 }
    }

    /// The segments that need an index, the newest first, at most this many.
    fn to_index(&self, count: usize) -> Vec<u32> {
        let first = self.first_segment();
        let sealed = first..self.durable().segment();
        let shelf = self.indexes.shelf_from(first);
        let is_known =
            |segment: &u32| shelf.indexes.contains_key(segment) || shelf.refused.contains(segment);
        let is_worth_it = |segment: &u32| {
            let open = self.open_batch();
            let live = open.live.live_in(*segment) as usize;
            live > 0 && live * 8 >= open.live.slots_in(*segment)
        };
        // No thread waits for the shelf while it has the lock of the open batch.
        let wanted = sealed.rev().filter(|segment| !is_known(segment) && is_worth_it(segment));
        wanted.take(count).collect()
    }

    /// Reads a sealed segment. The caller holds it.
    fn build(&self, number: u32, classify: Classify) -> Result<Built, IndexError> {
        let name = segment_name(number);
        let open = |number: u32| {
            let name = segment_name(number);
            let failed = |source| IndexError::read(&name, source);
            let file = self.segments.open(number).map_err(failed)?;
            let mut bytes = vec![0; HEADER_BYTES as usize + GROUP_HEADER_BYTES];
            let read = file.read_at(&mut bytes, 0).map_err(failed)?;
            bytes.truncate(read);
            let header = SegmentHeader::decode(&bytes).ok();
            let header = header.filter(|header| header.number == number);
            let header = header.ok_or_else(|| IndexError::damaged(&name, "the header"))?;
            Ok::<_, IndexError>((file, header, bytes))
        };
        let (file, header, _) = open(number)?;
        // The first group of the next segment says where this segment ends. The chain of groups
        // must end there, so the group needs no check.
        let (_, _, next) = open(number + 1)?;
        let next = next.get(HEADER_BYTES as usize..).and_then(GroupHeader::peek);
        let next = next.filter(|next| next.previous_end.segment() == number);
        let next = next.ok_or_else(|| IndexError::damaged(&name, "the next segment"))?;
        let end = (next.previous_end.offset(), next.previous_crc);
        let began = Cell::new(Instant::now());
        let rest = || {
            let is_stopping = self.indexes.is_stopping();
            let is_urgent = self.indexes.is_urgent.load(Ordering::Relaxed);
            if !is_stopping && !is_urgent && !self.indexes.is_awaited() {
                self.segments.rest(began.get().elapsed().min(REST_MAX));
            }
            began.set(Instant::now());
            !is_stopping
        };
        let slots = self.open_batch().live.slots_in(number);
        let built = build(Sealed { file: &*file, header, end, slots }, classify, Pace::new(&rest));
        if built.as_ref().is_err_and(|error| !matches!(error, IndexError::Stopped)) {
            self.segments.note_spoiled(number);
        }
        built
    }

    /// Writes an index file, and puts the index on the shelf. The caller holds the segment.
    fn write_index(&self, built: &Built) -> Result<(), IndexError> {
        let segment = built.segment();
        let bytes = built.file();
        let name = index_name(segment);
        let disk = self.segments.disk();
        self.indexes.shelf().built = Some((segment, bytes.len() as u64));
        if !self.has_room_for_index(bytes.len() as u64) {
            return Err(IndexError::write(&name, io::ErrorKind::StorageFull.into()));
        }
        // The file counts as used before it exists, so that it is removed with its segment.
        let before = self.segments.set_index(segment, Some(bytes.len() as u64));
        let hurries = || self.indexes.is_awaited() || self.indexes.is_stopping();
        if let Err(source) = write_file(&**disk, segment, &bytes, &hurries) {
            let _ = disk.remove(&new_index_name(segment));
            self.segments.set_index(segment, before);
            if is_no_room(&source) {
                self.indexes.shelf().rest_until = Some(Instant::now() + FULL_REST);
            }
            return Err(IndexError::write(&name, source));
        }
        self.indexes.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let index = built.index(Arc::clone(disk), &bytes);
        self.indexes.shelf().indexes.insert(segment, Arc::new(index));
        Ok(())
    }
}

/// Writes the file under another name, and renames it. The folder is not synced: if the rename is
/// lost, the index is built again.
fn write_file(
    disk: &dyn Disk,
    segment: u32,
    bytes: &[u8],
    hurries: &dyn Fn() -> bool,
) -> io::Result<()> {
    let name = new_index_name(segment);
    let file = match disk.create(&name) {
        // An earlier write failed.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.remove(&name)?;
            disk.create(&name)?
        }
        other => other?,
    };
    write_in_pieces(disk, &*file, bytes, hurries)?;
    disk.rename(&name, &index_name(segment))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::disk::fault::FaultDisk;
    use crate::index::file::IndexFile;
    use crate::index::tests::classify;
    use crate::settings::Settings;
    use crate::types::{Meta, QueueRef};

    /// A log with segments that need an index of several pieces.
    fn filled(disk: &FaultDisk) -> Log {
        let settings =
            Settings { segment_bytes: 4 << 20, classify: Some(classify), ..Settings::default() };
        let log = Log::open(Arc::new(disk.clone()), settings, 1, &mut |_| ()).unwrap().0;
        let queue = QueueRef { number: 1, name: b"mail" };
        for id in 1.. {
            let meta =
                Meta { id, priority: 0, ttr: 60, created_ms: 1, due_ms: 0, state: 1, options: b"" };
            log.put(1, queue, &meta, &[7; 20]);
            if id % 100 > 0 {
                continue;
            }
            log.commit_step(1).unwrap();
            log.prepare_step().unwrap();
            if log.durable().segment() > 3 {
                break;
            }
        }
        log
    }

    /// The rests while an index is built and written.
    fn rests(disk: &FaultDisk, log: &Log) -> u64 {
        let before = disk.rests();
        let segment = log.index_step().unwrap().unwrap();
        assert!(disk.bytes(&index_name(segment)).unwrap().len() > 100 << 10);
        disk.rests() - before
    }

    #[test]
    fn an_index_is_built_when_files_can_be_opened_again() {
        let disk = FaultDisk::new(1, 64 << 20);
        let log = filled(&disk);
        // The segment, the next segment, and the index file.
        for opens in 0..3 {
            disk.limit_opens(opens);
            assert_eq!(log.index_step().unwrap(), None, "{opens} files");
        }
        disk.set_fail_opens(false);
        assert!(log.index_step().unwrap().is_some());
    }

    #[test]
    fn after_a_write_that_found_no_room_no_index_is_built_in_vain_for_a_while() {
        let disk = FaultDisk::new(1, 64 << 20);
        let log = filled(&disk);
        let step = || {
            let reads = disk.reads();
            let written = log.index_step().unwrap();
            (disk.reads() > reads, written.is_some())
        };
        disk.set_quota(disk.used());
        for _ in 0..2 {
            assert_eq!(step(), (true, false), "the disk shows room");
            assert_eq!(step(), (false, false), "it would be built in vain");
            // As if the time had passed.
            log.indexes.shelf().rest_until = None;
        }
        disk.set_quota(u64::MAX);
        assert_eq!(step(), (true, true));
    }

    #[test]
    fn an_index_is_built_and_written_without_rests_while_a_reader_waits() {
        let disk = FaultDisk::new(1, 64 << 20);
        let log = filled(&disk);
        let reader = Reader::new(&log.indexes.readers);
        assert_eq!(rests(&disk, &log), 0);
        drop(reader);
        let usual = rests(&disk, &log);
        log.hurry_indexing(true);
        let write = rests(&disk, &log);
        assert!(0 < write && write < usual, "{write} of {usual}: commits are more urgent");
    }

    #[test]
    fn a_stop_does_not_wait_for_the_rests_of_a_write() {
        let disk = FaultDisk::new(1, 64 << 20);
        let log = filled(&disk);
        let _hold = log.hold(1).unwrap();
        let built = log.build(1, classify).unwrap();
        assert!(built.file().len() > 100 << 10);
        let before = disk.rests();
        log.stop_indexing();
        log.write_index(&built).unwrap();
        assert_eq!(disk.rests(), before);
    }

    #[test]
    fn the_index_of_a_build_is_that_of_its_file() {
        let disk = FaultDisk::new(1, 64 << 20);
        let log = filled(&disk);
        let segment = log.index_step().unwrap().unwrap();
        let file = disk.open(&index_name(segment)).unwrap();
        let file = IndexFile::read(&*file, segment).unwrap();
        let read = SegmentIndex::new(Arc::new(disk.clone()), file);
        let index = log.index(segment).unwrap();
        assert!(read.blocks().len() > 10);
        assert_eq!((index.blocks(), &index.names), (read.blocks(), &read.names));
        assert_eq!(index.memory_bytes(), read.memory_bytes());
        let rows = read.read_blocks(0..read.blocks().len() as u32).unwrap();
        for row in rows.iter().flatten() {
            assert_eq!(index.find(row.id).unwrap(), read.find(row.id).unwrap());
        }
        assert_eq!(index.read_block(7).unwrap(), rows[7]);
    }

    #[test]
    fn a_reader_counts_from_before_it_waits_for_a_build_to_its_end() {
        let disk = FaultDisk::new(1, 64 << 20);
        let log = filled(&disk);
        let readers = || log.indexes.readers.load(Ordering::Relaxed);
        thread::scope(|scope| {
            // As if another thread built an index.
            let work = log.indexes.work.lock().unwrap();
            let reader = scope.spawn(|| log.find_in_segment(1, 1).unwrap());
            while readers() == 0 {
                assert!(!reader.is_finished(), "it waits for the build");
                thread::yield_now();
            }
            drop(work);
            assert!(reader.join().unwrap().is_some());
        });
        assert_eq!(readers(), 0);
        let gone = log.find_in_segment(log.durable().segment(), 1);
        assert!(gone.is_err() && readers() == 0, "the segment is not sealed yet");
    }
}
