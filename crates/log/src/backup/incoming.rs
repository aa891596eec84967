//! Writes a copy of another log into the folder of a log.
//!
//! The folder's own log can be in use meanwhile, because the log ignores the names of these files:
//!
//! - `copy-NNNNNNNNNN.seg`: a sealed segment that has arrived whole.
//! - `copy-new`: the segment that arrives. The last segment of the copy keeps this name. So a later
//!   attempt, whose copy ends later, does not mistake it for a sealed segment.
//! - `copy-manifest`: the copy is whole, checked and durable. The next start adopts it: `adopt`.
//! - `copy-manifest-new`: a manifest that is being written.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::backup::{BackupCheck, BackupDamage, BackupPoint};
use crate::disk::{Disk, DiskFile};
use crate::files::segments::{segment_name, segment_number};

pub(super) const COPY_MANIFEST: &str = "copy-manifest";
const MANIFEST_NEW: &str = "copy-manifest-new";
const SEGMENT_NEW: &str = "copy-new";
const PREFIX: &str = "copy-";

/// A file is synced each time this many bytes were written. Without these syncs, the kernel would
/// later write a large amount at once, and the log's own syncs would wait for this write.
const UNSYNCED_BYTES_MAX: u64 = 8 << 20;
/// Bytes that are read at once of a segment from an earlier attempt.
const PIECE_BYTES: usize = 256 << 10;

/// The name of a segment of the copy of this point.
pub(super) fn copy_name(point: &BackupPoint, number: u32) -> String {
    if number == point.last() {
        SEGMENT_NEW.to_owned()
    } else {
        format!("{PREFIX}{}", segment_name(number))
    }
}

/// Why a copy does not go on.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A call to the disk failed.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// The bytes are not those of a log up to the point. All that has arrived is worth nothing.
    #[error(transparent)]
    Damage(#[from] BackupDamage),
    /// More bytes arrived than the segment has.
    #[error("a segment has more bytes than its size")]
    TooLong,
}

/// A copy that arrives. For each segment that [`IncomingCopy::next_segment`] returns, call
/// `begin_segment`, and `write` with all bytes, or `end_with_zeros` after some of them. Then call
/// `finish`.
pub struct IncomingCopy {
    disk: Arc<dyn Disk>,
    point: BackupPoint,
    check: BackupCheck,
    /// The segment that arrives now, or next.
    next: u32,
    arriving: Option<Arriving>,
    kept_bytes: u64,
}

/// A segment that arrives.
struct Arriving {
    file: Arc<dyn DiskFile>,
    size: u64,
    written: u64,
    unsynced: u64,
}

impl fmt::Debug for IncomingCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IncomingCopy")
            .field("point", &self.point)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl IncomingCopy {
    /// Begins a copy of the log up to this point. Keeps the sealed segments of an earlier attempt,
    /// and checks them again. If they do not belong together, the copy begins anew.
    pub fn begin(disk: Arc<dyn Disk>, point: BackupPoint) -> io::Result<IncomingCopy> {
        let names = disk.list()?;
        // Without its manifest, no copy is adopted. This must be durable before anything else changes.
        if names.iter().any(|name| name == COPY_MANIFEST) {
            disk.remove(COPY_MANIFEST)?;
            disk.sync_folder()?;
        }
        let mut copy = IncomingCopy {
            disk,
            point,
            check: BackupCheck::new(point),
            next: point.first,
            arriving: None,
            kept_bytes: 0,
        };
        while copy.next < point.last() && names.contains(&copy_name(&point, copy.next)) {
            match copy.keep() {
                Ok(()) => copy.next += 1,
                Err(CopyError::Disk(error)) => return Err(error),
                Err(CopyError::Damage(_) | CopyError::TooLong) => {
                    copy.check = BackupCheck::new(point);
                    (copy.next, copy.kept_bytes) = (point.first, 0);
                    break;
                }
            }
        }
        let kept = point.first..copy.next;
        remove(copy.disk.as_ref(), &names, |number| !kept.contains(&number))?;
        Ok(copy)
    }

    /// Removes everything that has arrived.
    pub fn discard(disk: &dyn Disk) -> io::Result<()> {
        let names = disk.list()?;
        if names.iter().any(|name| name == COPY_MANIFEST) {
            disk.remove(COPY_MANIFEST)?;
            disk.sync_folder()?;
        }
        remove(disk, &names, |_| true)
    }

    /// Checks the next segment, which an earlier attempt has written.
    fn keep(&mut self) -> Result<(), CopyError> {
        let file = self.disk.open(&copy_name(&self.point, self.next))?;
        self.check.begin_segment()?;
        let mut buffer = vec![0; PIECE_BYTES];
        let mut offset = 0;
        loop {
            let read = file.read_at(&mut buffer, offset)?;
            if read == 0 {
                break;
            }
            self.check.update(&buffer[..read])?;
            offset += read as u64;
        }
        self.kept_bytes += offset;
        Ok(())
    }

    /// Bytes of the segments that an earlier attempt has written.
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// The segment that must arrive next. `None`: all segments are here.
    pub fn next_segment(&self) -> Option<u32> {
        (self.next <= self.point.last()).then_some(self.next)
    }

    /// Begins the next segment, which has this size in bytes.
    pub fn begin_segment(&mut self, size: u64) -> Result<(), CopyError> {
        assert!(self.arriving.is_none(), "one segment arrives at a time");
        assert!(self.next <= self.point.last(), "all segments are here");
        self.check.begin_segment()?;
        let file = self.disk.create(SEGMENT_NEW)?;
        file.allocate(size)?;
        self.arriving = Some(Arriving { file, size, written: 0, unsynced: 0 });
        self.end_segment()
    }

    /// Writes the next bytes of the segment, and checks them.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CopyError> {
        let arriving = self.arriving.as_mut().filter(|one| one.left() >= bytes.len() as u64);
        let Some(arriving) = arriving else { return Err(CopyError::TooLong) };
        self.check.update(bytes)?;
        arriving.file.write_at(bytes, arriving.written)?;
        arriving.written += bytes.len() as u64;
        arriving.unsynced += bytes.len() as u64;
        if arriving.unsynced >= UNSYNCED_BYTES_MAX {
            arriving.file.sync_data()?;
            arriving.unsynced = 0;
        }
        self.end_segment()
    }

    /// Ends the segment: all its other bytes are zeros, and need not arrive. The check of the copy
    /// fails if a group is missing.
    pub fn end_with_zeros(&mut self) -> Result<(), CopyError> {
        if let Some(arriving) = &mut self.arriving {
            // `allocate` has filled the file with zeros.
            arriving.written = arriving.size;
        }
        self.end_segment()
    }

    /// Ends the segment if all its bytes are here.
    fn end_segment(&mut self) -> Result<(), CopyError> {
        let Some(arrived) = self.arriving.take_if(|arriving| arriving.left() == 0) else {
            return Ok(());
        };
        arrived.file.sync_all()?;
        if self.next < self.point.last() {
            self.disk.rename(SEGMENT_NEW, &copy_name(&self.point, self.next))?;
        }
        self.next += 1;
        Ok(())
    }

    /// Ends a copy whose segments are all here: the next start adopts it. Fails if the log does not
    /// end at the point.
    pub fn finish(self) -> Result<(), CopyError> {
        assert!(self.next > self.point.last(), "all segments are here");
        self.check.finish()?;
        self.disk.sync_folder()?;
        let file = self.disk.create(MANIFEST_NEW)?;
        file.write_at(self.point.manifest().as_bytes(), 0)?;
        file.sync_all()?;
        self.disk.rename(MANIFEST_NEW, COPY_MANIFEST)?;
        self.disk.sync_folder()?;
        Ok(())
    }
}

impl Arriving {
    fn left(&self) -> u64 {
        self.size - self.written
    }
}

/// Removes files of a copy: these segments, and the files that were being written.
fn remove(disk: &dyn Disk, names: &[String], is_removed: impl Fn(u32) -> bool) -> io::Result<()> {
    for name in names {
        let number = name.strip_prefix(PREFIX).and_then(segment_number);
        if number.map_or(name == SEGMENT_NEW || name == MANIFEST_NEW, &is_removed) {
            disk.remove(name)?;
        }
    }
    Ok(())
}
