//! Recovery: finds the end of the log, refuses damage, restores live entries, and makes the log
//! ready for appends.
//!
//! `docs/log-format.md` lists the rules in their order. Recovery reads the segments from the newest
//! to the oldest, for two reasons. The first group of a segment says where the segment before it
//! ends. And an entry that ends a slot is in the slot's segment or in a later one. So when recovery
//! has read a segment, it has all ends of the segment's slots.
//!
//! `tail` finds the end of the log. `replay` reads the live entries, and `ahead` the bytes for it.

pub(crate) mod ahead;
pub(crate) mod replay;
pub(crate) mod restored;
pub(crate) mod tail;

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::backup::{Manifest, adopt};
use crate::disk::{Disk, DiskFile};
use crate::error::{Failure, OpenError};
use crate::files::folder::{BLOCK_BYTES, Folder, Found, lock};
use crate::files::segments::{SegmentFile, Segments, segment_name};
use crate::format::HEADER_BYTES;
use crate::format::entry::EntryKind;
use crate::index::index_number;
use crate::index::reader::SegmentIndex;
use crate::index::step::Indexes;
use crate::liveness::Liveness;
use crate::log::Log;
use crate::recovery::replay::indexed::UsedIndexes;
use crate::recovery::replay::{Begin, Facts, Replay};
use crate::recovery::restored::Restored;
use crate::recovery::tail::Tail;
use crate::settings::{ID_BLOCK, ID_LIMIT_MAX, SEGMENT_BYTES_MIN, Settings};
use crate::types::{Position, RecoveryProgress, RecoveryReport};
use crate::write::batch::{Head, ID_LIMIT_BYTES, Open};
use crate::write::commit::Commit;

/// The lowest id of a job.
const FIRST_ID: u64 = 1;

/// Where the log continues.
struct End {
    head: SegmentFile,
    position: Position,
    /// The end and the checksum of the last group.
    chain: (Position, u32),
}

impl Log {
    /// Like [`Log::open_at`], but gets the time as a value, not from a function.
    pub fn open(
        disk: Arc<dyn Disk>,
        settings: Settings,
        now_ms: u64,
        restore: &mut dyn FnMut(Restored<'_>),
    ) -> Result<(Log, RecoveryReport), OpenError> {
        let mut restore = |restored: Restored<'_>| {
            restore(restored);
            Ok(())
        };
        let mut begin = |_: Begin<'_>| now_ms;
        let mut check = |_| Ok(());
        Self::open_at::<OpenError>(
            disk,
            settings,
            &mut begin,
            &mut restore,
            &mut check,
            &mut |_| (),
        )
    }

    /// Locks the folder, and recovers the log in it. If the folder has no log, creates an empty
    /// one. If the copy of another log has arrived in the folder, adopts this copy first. Calls
    /// `begin` once to get the time. Then calls `restore` once per live job, and once per fact. With
    /// [`Settings::classify`], it can also be called for blocks of jobs. The jobs come in the order
    /// of their segments. After that, calls `check` once with the lowest id above all ids that may have
    /// been used. If `restore` or `check` fails, returns the error, and has changed no file since it
    /// adopted the copy. Calls `on_progress` whenever it has read a segment. The returned log is ready
    /// for appends.
    pub fn open_at<E: From<OpenError>>(
        disk: Arc<dyn Disk>,
        settings: Settings,
        begin: &mut dyn FnMut(Begin<'_>) -> u64,
        restore: &mut dyn FnMut(Restored<'_>) -> Result<(), E>,
        check: &mut dyn FnMut(u64) -> Result<(), E>,
        on_progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(Log, RecoveryReport), E> {
        lock(disk.as_ref())?;
        adopt(disk.as_ref())?;
        let space = disk
            .space()
            .map_err(|error| OpenError::from_io(&disk.folder(), "ask for the room", error))?;
        let segment_bytes = settings.segment_bytes_on(space.capacity);
        let folder = Folder::read(disk.as_ref())?;
        let Some(tail) = find_tail(disk.as_ref(), &folder)? else {
            let now_ms = begin(Begin { last_time_ms: 0, facts: &Facts::new() });
            check(FIRST_ID)?;
            return Ok(create(Arc::clone(&disk), &settings, segment_bytes, now_ms, &folder)?);
        };
        let used_indexes =
            settings.classify.map(|classify| UsedIndexes { disk: Arc::clone(&disk), classify });
        let mut replay = Replay::new(&folder, &tail, used_indexes);
        replay.read(on_progress)?;
        let now_ms = begin(replay.begin());
        let live = replay.restore(restore, on_progress)?;
        check(replay.next_id())?;
        let report = replay.report();

        let last = &folder.segments[&tail.last];
        let header = last.header()?;
        let file = last.file()?;
        secure_tail(&*file, &tail).map_err(OpenError::from)?;
        let (kept, void): (Vec<_>, Vec<_>) = folder
            .segments
            .values()
            .partition(|found| (tail.first..=tail.last).contains(&found.number));
        let taken: u64 = folder.segments.values().map(Found::size).sum();
        let left = settings.bytes_max.map_or(u64::MAX, |max| max.saturating_sub(taken));
        let is_full = left.min(space.free) < 4 * segment_bytes;
        let prepared =
            if is_full { prepared_bytes(disk.as_ref(), &folder, &kept, &void) } else { None };
        let segment_bytes = prepared.unwrap_or(segment_bytes);
        let log_disk = Arc::clone(&disk);
        let segments = Segments::new(log_disk, header.log_id, segment_bytes, settings.bytes_max);
        segments.adopt(kept.iter().map(|found| (found.number, found.size())).collect());
        segments.adopt_spares(&folder).map_err(OpenError::from)?;
        adopt_indexes(&segments, &folder, &replay.indexes(), settings.classify.is_some());
        let unreadable = void.iter().filter(|found| found.has_unreadable_header());
        let spoiled = unreadable.map(|found| found.number).chain(tail.spoiled.iter().copied());
        spoiled.for_each(|number| segments.note_spoiled(number));
        let void = void.iter().map(|found| (found.number, found.size())).collect();
        segments.discard_void(void, tail.end).map_err(OpenError::from)?;

        let end = End {
            head: SegmentFile { number: tail.last, size: header.size, salt: header.salt, file },
            position: tail.end,
            chain: (tail.previous_end, tail.previous_crc),
        };
        let log = start(&settings, segments, end, live, &replay, now_ms)?;
        Ok((log, report))
    }
}

/// Finds the end of the log. Returns `None` if the folder has no log. If the folder is a backup,
/// checks that the backup is complete.
pub(crate) fn find_tail(disk: &dyn Disk, folder: &Folder) -> Result<Option<Tail>, OpenError> {
    let manifest = Manifest::read(disk)?;
    if let Some(manifest) = &manifest {
        manifest.check_files(folder)?;
    }
    if folder.segments.is_empty() {
        return Ok(None);
    }
    let tail = Tail::find(folder)?;
    if let Some(manifest) = &manifest {
        manifest.check_end(folder, &tail)?;
    }
    Ok(Some(tail))
}

/// The most frequent size of the files that an earlier process prepared. `None`: there are no such
/// files. The log needs a reserve of free segments, for finishes and reclaim. On a full disk, only
/// these files can be the reserve, because there is no room for files of another size.
fn prepared_bytes(
    disk: &dyn Disk,
    folder: &Folder,
    kept: &[&Found<'_>],
    void: &[&Found<'_>],
) -> Option<u64> {
    let is_whole = |size: &u64| *size >= SEGMENT_BYTES_MIN && size.is_multiple_of(4096);
    // A file that was made for a single big entry is not part of the reserve.
    let is_usual = |size: &u64| kept.iter().any(|found| found.size() == *size);
    let spares = folder.spares.iter().filter(|name| !folder.strangers.contains(*name));
    let spares = spares.filter_map(|name| Some(disk.look_at(name).ok()?.0));
    let void = void.iter().map(|found| found.size());
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for size in spares.chain(void).filter(is_whole).filter(is_usual) {
        *counts.entry(size).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|(size, count)| (**count, Reverse(**size)));
    most.map(|(size, _)| *size)
}

/// Makes the end of the log durable. The bytes after the durable position may be only in the
/// kernel's cache. If an earlier process failed to sync these bytes, the kernel treats them as
/// written, so a sync alone would not help. So recovery writes these bytes again, and syncs them. Before
/// that, it writes zeros to the bad blocks, because a part of such a block cannot be written.
fn secure_tail(file: &dyn DiskFile, tail: &Tail) -> Result<(), Failure> {
    let start = tail.durable.max(Position::new(tail.last, HEADER_BYTES)).offset();
    let end = tail.end.offset();
    let name = segment_name(tail.last);
    let write = |bytes: &[u8], offset: u64| {
        let written = file.write_at(bytes, offset);
        written.map_err(|error| Failure::new("write", &name, error))
    };
    for &block in &tail.bad_blocks {
        write(&[0; BLOCK_BYTES as usize], block)?;
    }
    if start < end {
        write(&tail.bytes[start as usize..end as usize], start)?;
    }
    file.sync_data().map_err(|error| Failure::new("sync", &name, error))
}

/// Counts the index files that are used, and removes the others. If this log uses no index files, it
/// removes them later, with their segments.
fn adopt_indexes(
    segments: &Segments,
    folder: &Folder,
    used: &[(Arc<SegmentIndex>, u64)],
    uses_indexes: bool,
) {
    let used: BTreeMap<u32, u64> =
        used.iter().map(|(index, len)| (index.segment(), *len)).collect();
    for name in &folder.indexes {
        let Some((number, is_new)) = index_number(name) else { continue };
        if let Some(&len) = used.get(&number).filter(|_| !is_new) {
            segments.set_index(number, Some(len));
        } else if uses_indexes {
            // If this fails, a later start removes the file.
            let _ = segments.disk().remove(name);
        } else if !is_new && folder.segments.contains_key(&number) {
            let len = segments.disk().look_at(name).map_or(0, |(len, _)| len);
            segments.set_index(number, Some(len));
        }
    }
}

/// Creates a log in a folder without a log.
fn create(
    disk: Arc<dyn Disk>,
    settings: &Settings,
    segment_bytes: u64,
    now_ms: u64,
    folder: &Folder,
) -> Result<(Log, RecoveryReport), OpenError> {
    let name = disk.folder();
    let random =
        || disk.random().map_err(|error| OpenError::from_io(&name, "find a log id", error));
    let mut log_id = [0; 16];
    log_id[..8].copy_from_slice(&random()?.to_le_bytes());
    log_id[8..].copy_from_slice(&random()?.to_le_bytes());
    let segments = Segments::new(Arc::clone(&disk), log_id, segment_bytes, settings.bytes_max);
    segments.adopt_spares(folder)?;
    adopt_indexes(&segments, folder, &[], settings.classify.is_some());
    let head = segments.take_first().map_err(|failure| {
        if failure.is_no_room() {
            let doing = format!("{} {}", failure.doing, failure.file);
            OpenError::Full { folder: name.clone(), doing, needed: segment_bytes * 4 }
        } else {
            OpenError::Failed(failure)
        }
    })?;
    let end = End { head, position: Position::new(1, HEADER_BYTES), chain: (Position(0), 0) };
    let mut live = Liveness::new(1);
    live.push_segment();
    let tail = Tail::empty();
    let replay = Replay::new(folder, &tail, None);
    let log = start(settings, segments, end, live, &replay, now_ms)?;
    Ok((log, RecoveryReport { next_id: FIRST_ID, ..RecoveryReport::default() }))
}

/// Makes the log ready for appends. Writes and syncs a first group, which reserves ids.
fn start(
    settings: &Settings,
    segments: Segments,
    end: End,
    live: Liveness,
    replay: &Replay<'_>,
    now_ms: u64,
) -> Result<Log, OpenError> {
    let next_id = replay.next_id();
    let head = Head {
        segment: end.head.number,
        segment_size: end.head.size,
        offset: end.position.offset(),
        id_limit: next_id,
        names: replay.names_in_last(),
        time_ms: now_ms.max(replay.time_ms()),
    };
    let mut open = Open::new(head, segments.segment_bytes, live);
    if end.position.offset() == HEADER_BYTES {
        let first = open.first;
        open.append(EntryKind::Open, 0, |buffer| {
            buffer.extend_from_slice(&first.to_le_bytes());
            buffer.extend_from_slice(&next_id.to_le_bytes());
        });
    }
    replay.facts(|segment, key, value| open.remember_fact(segment, key, value));
    open.room_to_the_end(ID_LIMIT_BYTES);
    let id_limit = (next_id + ID_BLOCK).min(ID_LIMIT_MAX);
    open.append_id_limit(id_limit);
    let commit = Commit {
        head: end.head,
        second_handle: None,
        held: VecDeque::new(),
        retry_ms: 0,
        previous_end: end.chain.0,
        previous_crc: end.chain.1,
        time_ms: head.time_ms,
        begun: end.chain.0,
        unsynced_since_ms: None,
        sync_by_ms: None,
        synced_ms: now_ms,
        marked: false,
    };
    let indexes = replay.indexes().into_iter().map(|(index, _)| index).collect();
    let log = Log::new(settings, open, commit, (segments, Indexes::new(indexes)), next_id);
    log.commit_and_sync(now_ms)?;
    log.segments.name_first()?;
    log.raise_id_limit(id_limit);
    log.allocate_reserve()?;
    Ok(log)
}
