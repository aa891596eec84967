//! Reads a log without changing it, and writes the intact part of a damaged log into a new log.
//!
//! This module reads an intact log in the same way as a start of the server. If a start would
//! refuse the log, `remains` reads the log piece by piece.

mod pieces;
mod remains;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::{Failure, OpenError};
use crate::files::folder::{Folder, lock};
use crate::files::segments::{segment_name, segment_number};
use crate::format::{HEADER_BYTES, SegmentHeader};
use crate::log::Log;
use crate::recovery::find_tail;
use crate::recovery::replay::Replay;
use crate::recovery::restored::Restored;
use crate::settings::{Settings, Sync};
use crate::types::{QueueRef, RecoveryReport};

/// The time of the entries that a repair writes. The repair writes these entries before it has read
/// the end time of the old log.
const START_MS: u64 = 0;

/// The result of reading a log without changing it.
#[derive(Debug, Default)]
pub struct Salvage {
    /// The report of the recovery. For a damaged log, it is about the intact part.
    pub report: RecoveryReport,
    /// Why a start refuses the log. `None`: the log is intact.
    pub refusal: Option<OpenError>,
    /// The unreadable pieces, in log order. The list is empty if a start refuses the log only
    /// because unused room at the end of a file is missing.
    pub losses: Vec<Loss>,
    /// The number of restored jobs that may have been finished. After a gap, a finish can mean one
    /// of several neighbouring jobs, and all of them are restored. A lost piece can also contain
    /// finishes, of any older jobs. This number does not count the jobs that such a finish may have
    /// ended.
    pub doubtful_jobs: u64,
    /// The number of restored jobs whose queue name was lost. Their queue gets the name
    /// `lost-queue-SEGMENT-NUMBER`.
    pub unnamed_jobs: u64,
}

/// A piece of a log that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Loss {
    /// The file's path. For several missing files: the path of the first file, the word `to`, and
    /// the name of the last file.
    pub file: String,
    /// The offset of the piece in the file.
    pub offset: u64,
    /// The size of the piece in bytes. 0: unknown.
    pub bytes: u64,
    /// The maximum number of jobs that were written in the piece. `None`: unknown.
    pub jobs_max: Option<u64>,
    /// The kind of damage.
    pub what: &'static str,
}

/// Locks the folder, and reads as much of its log as possible. Calls `restore` like [`Log::open`].
/// Changes no file. Fails if the folder cannot be read, or if its files belong to several logs or
/// to another format version.
pub fn salvage(
    disk: &dyn Disk,
    restore: &mut dyn FnMut(Restored<'_>),
) -> Result<Salvage, OpenError> {
    lock(disk)?;
    read(disk, restore)
}

/// Repairs the log on the disk `from`: writes all readable jobs, and the readable facts whose keys
/// `keeps` accepts, into a new log on the empty disk `to`. The new log ends at the same log time as
/// the old log, not at the time of the repair.
pub fn repair(
    from: &dyn Disk,
    to: Arc<dyn Disk>,
    keeps: &dyn Fn(&[u8]) -> bool,
) -> Result<Salvage, OpenError> {
    lock(from)?;
    let settings =
        Settings { segment_bytes: usual_size(from)?, sync: Sync::Never, ..Settings::default() };
    let (log, _) = Log::open(to, settings, START_MS, &mut |_| ())?;
    let mut writer = Writer { log, queues: HashMap::new(), failure: None };
    let salvage = read(from, &mut |restored| match restored {
        Restored::Fact { key, .. } if !keeps(key) => {}
        kept => writer.write(&kept),
    })?;
    if writer.failure.is_none() && writer.log.usage().short {
        // Without a reserve of free segments, the new log may have dropped counters, and a server
        // would refuse puts.
        let no_room = ErrorKind::StorageFull.into();
        writer.failure = Some(Failure::new("allocate", "a reserve for finishes", no_room));
    }
    if let Some(failure) = writer.failure {
        return Err(failure.into());
    }
    writer.log.close(salvage.report.last_time_ms, salvage.report.next_id)?;
    Ok(salvage)
}

fn read(disk: &dyn Disk, restore: &mut dyn FnMut(Restored<'_>)) -> Result<Salvage, OpenError> {
    let mut began = false;
    let whole = read_whole(disk, &mut |restored| {
        began = true;
        restore(restored);
    });
    match whole {
        Ok(report) => Ok(Salvage { report, ..Salvage::default() }),
        Err(
            refusal @ (OpenError::Damaged { .. }
            | OpenError::MissingSegment { .. }
            | OpenError::CutBackup { .. }
            | OpenError::Io { .. }),
        ) if !began => remains::read(disk, refusal, restore),
        Err(error) => Err(error),
    }
}

/// Reads an intact log. Fails where a start would fail.
fn read_whole(
    disk: &dyn Disk,
    restore: &mut dyn FnMut(Restored<'_>),
) -> Result<RecoveryReport, OpenError> {
    let folder = Folder::read(disk)?;
    let Some(tail) = find_tail(disk, &folder)? else {
        return Ok(RecoveryReport { next_id: 1, ..RecoveryReport::default() });
    };
    let mut replay = Replay::new(&folder, &tail, None);
    replay.read(&mut |_| ())?;
    let mut restore = |restored: Restored<'_>| {
        restore(restored);
        Ok(())
    };
    replay.restore::<OpenError>(&mut restore, &mut |_| ())?;
    Ok(replay.report())
}

/// The size of the log's usual segments: the minimum, because a segment for one big entry is
/// larger.
fn usual_size(disk: &dyn Disk) -> Result<u64, OpenError> {
    let folder = disk.folder();
    let names =
        disk.list().map_err(|error| OpenError::from_io(&folder, "list the files", error))?;
    let mut header = vec![0; HEADER_BYTES as usize];
    let sizes = names.iter().filter_map(|name| segment_number(name)).filter_map(|number| {
        // Ignore unreadable files. The other files have the same usual size.
        disk.open(&segment_name(number)).and_then(|file| file.read_at(&mut header, 0)).ok()?;
        SegmentHeader::decode(&header).ok().map(|header| header.size)
    });
    Ok(sizes.min().unwrap_or(Settings::default().segment_bytes))
}

/// Writes restored jobs and facts into a new log.
struct Writer {
    log: Log,
    queues: HashMap<Box<[u8]>, u32>,
    /// Set after a failed write. After that, nothing more is written.
    failure: Option<Failure>,
}

impl Writer {
    fn write(&mut self, restored: &Restored<'_>) {
        if self.failure.is_some() {
            return;
        }
        match restored {
            Restored::Job { queue, meta, counters, body, .. } => {
                let next = self.queues.len() as u32;
                let number = *self.queues.entry((*queue).into()).or_insert(next);
                let queue = QueueRef { number, name: queue };
                let body = body.read().expect("a salvage reads the bodies with the jobs");
                let (slot, _) = self.log.put(START_MS, queue, meta, &*body);
                if let Some(counters) = counters {
                    self.log.count(START_MS, slot, counters);
                }
            }
            Restored::Block { .. } => unreachable!("a salvage uses no index files"),
            Restored::Fact { key, value, .. } => {
                self.log.fact(START_MS, key, value);
            }
        }
        if self.log.is_batch_full() {
            // `commit_and_sync` fails on a full disk. A plain commit step would keep the unwritten
            // groups, and all later entries would stay in memory.
            self.failure = self.log.commit_and_sync(START_MS).err();
        }
    }
}
