//! Reads the segments of a log with the bytes that the backup of this log has.

use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::backup::BackupPoint;
use crate::disk::{Disk, DiskFile};
use crate::files::segments::segment_name;

/// The segments of one backup. Reads them from the folder of the log, whose files must be held, or
/// from the folder of the backup.
#[derive(Debug)]
pub struct BackupSource<'a> {
    disk: &'a dyn Disk,
    point: BackupPoint,
}

impl<'a> BackupSource<'a> {
    /// Reads the part of a log up to a point.
    pub fn new(disk: &'a dyn Disk, point: BackupPoint) -> BackupSource<'a> {
        BackupSource { disk, point }
    }

    /// The numbers of the segments.
    pub fn segments(&self) -> RangeInclusive<u32> {
        self.point.first..=self.point.last()
    }

    /// The name of a segment's file, in the log and in the backup.
    pub fn name(number: u32) -> String {
        segment_name(number)
    }

    /// Whether a segment is sealed: its bytes do not change any more, so the backup can link the
    /// file. All segments except the last one of the backup are sealed.
    pub fn is_sealed(&self, number: u32) -> bool {
        number < self.point.last()
    }

    /// Opens a segment.
    pub fn open(&self, number: u32) -> io::Result<SegmentReader> {
        let file = self.disk.open(&segment_name(number))?;
        let size = file.size()?;
        let end = if self.is_sealed(number) { size } else { self.point.end.offset() };
        if end > size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(SegmentReader { file, size, end, offset: 0 })
    }
}

/// Reads the bytes of one segment. After the end of the backup, it reads zeros up to the size of
/// the file.
#[derive(Debug)]
pub struct SegmentReader {
    file: Arc<dyn DiskFile>,
    size: u64,
    /// From this offset on, the backup has zeros.
    end: u64,
    offset: u64,
}

impl SegmentReader {
    /// The number of bytes that this reader returns.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Read for SegmentReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let is_zeros = self.offset >= self.end;
        let end = if is_zeros { self.size } else { self.end };
        let wanted = (end - self.offset).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..wanted];
        if is_zeros {
            buffer.fill(0);
        } else if self.file.read_at(buffer, self.offset)? < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.offset += wanted as u64;
        Ok(wanted)
    }
}
