//! Reads a log without changing it, and writes the intact part of a damaged one into a new log.
//!
//! An intact log is read as at a start. `remains` reads a log that a start refuses, piece by piece.

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
use crate::recovery::KEPT_BYTES_MAX;
use crate::recovery::replay::Replay;
use crate::recovery::tail::Tail;
use crate::settings::{Settings, Sync};
use crate::types::{QueueRef, RecoveryReport, Restored};

/// The time of entries that a repair writes before it knows the end time of the old log.
const START_MS: u64 = 0;

/// The result of reading a log without changing it.
#[derive(Debug, Default)]
pub struct Salvage {
    /// The report; for a damaged log, about its intact part.
    pub report: RecoveryReport,
    /// Why a start refuses the log; `None` if it is intact.
    pub refusal: Option<OpenError>,
    /// Unreadable pieces, in log order. If a start refuses the log but there are no losses, all
    /// existing entries are intact. Only empty room at a file's end is known to be missing.
    pub losses: Vec<Loss>,
    /// Jobs in `report` that may have been finished. A finish names one of several neighbouring
    /// jobs, but it is unknown which one. In addition, each lost piece may have contained finishes
    /// of any older job.
    pub doubtful_jobs: u64,
    /// Jobs whose queue name was lost. They are in queues named `lost-queue-`, segment, `-` and
    /// number.
    pub unnamed_jobs: u64,
}

/// A piece of a log that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Loss {
    /// The file's path. If several files are missing, `to` and the last file's name follow.
    pub file: String,
    /// Where the piece starts.
    pub offset: u64,
    /// Its bytes; 0 if unknown.
    pub bytes: u64,
    /// The maximum number of jobs that were written there; `None` if unknown.
    pub jobs_max: Option<u64>,
    /// The kind of damage.
    pub what: &'static str,
}

/// Locks the folder and reads its log as far as possible; calls `restore` like [`Log::open`].
/// Changes nothing. Fails if the folder cannot be used, or if its files belong to several logs or
/// to another version.
pub fn salvage(
    disk: &dyn Disk,
    restore: &mut dyn FnMut(Restored<'_>),
) -> Result<Salvage, OpenError> {
    lock(disk)?;
    read(disk, restore)
}

/// Writes all readable entries of a log on one disk into a new log on another, empty disk. The new
/// log ends at the same time as the old one. The wall clock during the repair does not matter.
pub fn repair(from: &dyn Disk, to: Arc<dyn Disk>) -> Result<Salvage, OpenError> {
    lock(from)?;
    let settings =
        Settings { segment_bytes: usual_size(from)?, bytes_max: None, sync: Sync::Never };
    let (log, _) = Log::open(to, settings, START_MS, &mut |_| ())?;
    let mut writer = Writer { log, queues: HashMap::new(), failure: None };
    let salvage = read(from, &mut |restored| writer.write(&restored))?;
    if writer.failure.is_none() && writer.log.usage().short {
        // A log without room leaves out counters, and a server would refuse puts.
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
            | OpenError::Io { .. }),
        ) if !began => remains::read(disk, refusal, restore),
        Err(error) => Err(error),
    }
}

/// Reads a log as a start does.
fn read_whole(
    disk: &dyn Disk,
    restore: &mut dyn FnMut(Restored<'_>),
) -> Result<RecoveryReport, OpenError> {
    let folder = Folder::read(disk)?;
    if folder.segments.is_empty() {
        return Ok(RecoveryReport { next_id: 1, ..RecoveryReport::default() });
    }
    let tail = Tail::find(&folder)?;
    let mut replay = Replay::new(&folder, &tail, KEPT_BYTES_MAX);
    replay.read()?;
    replay.restore(restore)?;
    Ok(RecoveryReport { cut_bytes: tail.cut_bytes, cut_groups: tail.cut_groups, ..replay.report() })
}

/// The size of the log's usual segments. A segment made for one big entry is larger.
fn usual_size(disk: &dyn Disk) -> Result<u64, OpenError> {
    let folder = disk.folder();
    let names =
        disk.list().map_err(|error| OpenError::from_io(&folder, "list the files", error))?;
    let mut header = vec![0; HEADER_BYTES as usize];
    let sizes = names.iter().filter_map(|name| segment_number(name)).filter_map(|number| {
        // Unreadable files do not matter here.
        disk.open(&segment_name(number)).and_then(|file| file.read_at(&mut header, 0)).ok()?;
        SegmentHeader::decode(&header).ok().map(|header| header.size)
    });
    Ok(sizes.min().unwrap_or(Settings::default().segment_bytes))
}

/// Writes restored entries of one log into another.
struct Writer {
    log: Log,
    queues: HashMap<Box<[u8]>, u32>,
    /// Set after a failed write. Then nothing more is written.
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
                let (slot, _) = self.log.put(START_MS, queue, meta, body);
                if let Some(counters) = counters {
                    self.log.count(START_MS, slot, counters);
                }
            }
            Restored::Fact { key, value, .. } => {
                self.log.fact(START_MS, key, value);
            }
        }
        if self.log.open_batch_bytes() >= self.log.open_batch_bytes_max() {
            // On a full disk, a step without a sync would keep unwritten groups, and the rest would
            // pile up here.
            self.failure = self.log.commit_and_sync(START_MS).err();
        }
    }
}
