//! Reading a log without changing it, and writing what can be saved of a damaged one into a new log.
//!
//! A whole log is read as at a start. One that a start refuses is read by `remains`, piece by piece.

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

/// The time of what a repair writes before it knows at which time the old log ends.
const START_MS: u64 = 0;

/// What was found in a log that was read without being changed.
#[derive(Debug, Default)]
pub struct Salvage {
    /// What was read; of a damaged log, what is left.
    pub report: RecoveryReport,
    /// Why a start is refused; none: the log is whole.
    pub refusal: Option<OpenError>,
    /// What cannot be read any more, in the order of the log. None in spite of a refusal: all that is there proves
    /// itself, and nothing is known to be missing but empty room at a file's end.
    pub losses: Vec<Loss>,
    /// Jobs among those of `report` that perhaps were finished: which of their neighbours a finish meant
    /// cannot be told any more. Besides them, each piece lost may have held finishes of any older job.
    pub doubtful_jobs: u64,
    /// Jobs whose queue's name was lost: they are in queues called `lost-queue-`, segment, `-` and number.
    pub unnamed_jobs: u64,
}

/// A piece of a log that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Loss {
    /// The file's path; where several files are missing, `to` and the name of the last one behind it.
    pub file: String,
    /// Where the piece starts.
    pub offset: u64,
    /// Its bytes; 0 if they are not known.
    pub bytes: u64,
    /// So many jobs at most were written there; none: this cannot be known.
    pub jobs_max: Option<u64>,
    /// What is wrong.
    pub what: &'static str,
}

/// Locks the folder and reads its log, as far as it can be read; calls `restore` as [`Log::open`] does. Changes
/// nothing. Fails if the folder cannot be used, or if its files are of several logs or of another version.
pub fn salvage(
    disk: &dyn Disk,
    restore: &mut dyn FnMut(Restored<'_>),
) -> Result<Salvage, OpenError> {
    lock(disk)?;
    read(disk, restore)
}

/// Writes all that can be read of the log on one disk into a new log on another, which has to be empty. The new log
/// ends at the time at which the old one does: the wall clock of whoever repairs it is not asked.
pub fn repair(from: &dyn Disk, to: Arc<dyn Disk>) -> Result<Salvage, OpenError> {
    lock(from)?;
    let settings =
        Settings { segment_bytes: usual_size(from)?, bytes_max: None, sync: Sync::Never };
    let (log, _) = Log::open(to, settings, START_MS, &mut |_| ())?;
    let mut writer = Writer { log, queues: HashMap::new(), failure: None };
    let salvage = read(from, &mut |restored| writer.write(&restored))?;
    if writer.failure.is_none() && writer.log.usage().short {
        // A log that is short of room leaves counters out, and a server with it would refuse puts.
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

/// The size of the log's usual segments: those made for one big entry are larger.
fn usual_size(disk: &dyn Disk) -> Result<u64, OpenError> {
    let folder = disk.folder();
    let names =
        disk.list().map_err(|error| OpenError::from_io(&folder, "list the files", error))?;
    let mut header = vec![0; HEADER_BYTES as usize];
    let sizes = names.iter().filter_map(|name| segment_number(name)).filter_map(|number| {
        // What cannot be read is no reason to stop here.
        disk.open(&segment_name(number)).and_then(|file| file.read_at(&mut header, 0)).ok()?;
        SegmentHeader::decode(&header).ok().map(|header| header.size)
    });
    Ok(sizes.min().unwrap_or(Settings::default().segment_bytes))
}

/// Enters what comes back of one log into another.
struct Writer {
    log: Log,
    queues: HashMap<Box<[u8]>, u32>,
    /// Nothing is written any more.
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
                let (target, _) = self.log.put(START_MS, queue, meta, body);
                if let Some(counters) = counters {
                    self.log.count(START_MS, target, counters);
                }
            }
            Restored::Fact { key, value, .. } => {
                self.log.fact(START_MS, key, value);
            }
        }
        if self.log.open_batch_bytes() >= self.log.open_batch_bytes_max() {
            // On a full disk a step without a sync would hold what it cannot write, and the rest would gather here.
            self.failure = self.log.commit_and_sync(START_MS).err();
        }
    }
}
