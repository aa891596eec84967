//! Reads the log's folder: which segments and spares it has, and the headers of the segments.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::files::groups::GroupFault;
use crate::files::segments::{segment_name, segment_number};
use crate::format::{
    FORMAT, GROUP_HEADER_BYTES, GroupHeader, HEADER_BYTES, HeaderFault, SEGMENT_MAGIC,
    SegmentHeader,
};
use crate::index::index_number;
use crate::types::Position;

/// Recovery reads segments that can be mostly empty in pieces of this many bytes. In simulations the
/// pieces are small, because the segments are small. A piece has whole blocks: if a block cannot be
/// read, all of it counts as zeros.
pub(crate) const PIECE_BYTES: usize = if cfg!(feature = "fault") { 20_480 } else { 1 << 20 };
const _: () = assert!(PIECE_BYTES.is_multiple_of(BLOCK_BYTES as usize));

/// The kernel reads and writes blocks of this size. If one of its sectors is bad, the whole block cannot
/// be read, and a part of it cannot be written. If the whole block is written, the disk puts it elsewhere.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// Recovery refuses a file with more bad blocks. Each of these reads can take seconds.
const BAD_BLOCKS_MAX: usize = 16;

/// The blocks of a segment's file that cannot be read.
#[derive(Debug, Default)]
pub(crate) struct BadBlocks {
    /// The offsets at which they begin, in ascending order.
    starts: Vec<u64>,
    /// The error of the first read of a bad block.
    error: Option<OpenError>,
}

impl BadBlocks {
    fn note(&mut self, start: u64, error: OpenError) -> Result<(), OpenError> {
        if self.starts.last() != Some(&start) {
            self.starts.push(start);
        }
        if self.starts.len() > BAD_BLOCKS_MAX {
            return Err(error);
        }
        self.error = self.error.take().or(Some(error));
        Ok(())
    }

    pub(crate) fn count(&self) -> u64 {
        self.starts.len() as u64
    }

    /// The offsets of the bad blocks that a start can replace by zeros. The intact groups of the file end at
    /// `end`, and `rest` has the bytes from there on. A bad block before `end` had zeros: otherwise the
    /// checksum of its group would be wrong. Fails if a bad block hides whether a group begins at `end`, or if
    /// one does: this group may have been acknowledged. Otherwise nothing after `end` was.
    pub(crate) fn replaceable(self, end: Position, rest: &[u8]) -> Result<Vec<u64>, OpenError> {
        let header = end.offset()..end.offset() + GROUP_HEADER_BYTES as u64;
        let is_hidden = self
            .starts
            .iter()
            .any(|&start| start < header.end && header.start < start + BLOCK_BYTES);
        let begins = GroupHeader::peek(rest).is_some_and(|group| group.position == end);
        match self.error {
            Some(error) if is_hidden || begins => Err(error),
            // The block with the header of the file was read before.
            _ => Ok(self.starts.into_iter().filter(|&start| start >= HEADER_BYTES).collect()),
        }
    }
}

/// A segment's file, as found in the folder. A log can have more segments than a process can have open
/// files. So the file is open only while it is read.
#[derive(Debug)]
pub(crate) struct Found<'d> {
    disk: &'d dyn Disk,
    pub(crate) number: u32,
    file: RefCell<Option<Arc<dyn DiskFile>>>,
    len: u64,
    header: Result<SegmentHeader, NoHeader>,
    folder: String,
}

/// Why the header of a file is not known. Only a start that needs the file fails for this reason.
#[derive(Debug)]
enum NoHeader {
    Fault(HeaderFault),
    Unreadable(io::Error),
}

/// The files of the folder that recovery reads.
#[derive(Debug)]
pub(crate) struct Folder<'d> {
    pub(crate) name: String,
    pub(crate) segments: BTreeMap<u32, Found<'d>>,
    /// The files with names of spares.
    pub(crate) spares: Vec<String>,
    /// Those of `spares` that are none. For example, a journal of Kestrel in the same folder can have
    /// such a name.
    pub(crate) strangers: BTreeSet<String>,
    /// The names of the index files, also of those that were being written.
    pub(crate) indexes: BTreeSet<String>,
}

/// Locks the folder for this process.
pub(crate) fn lock(disk: &dyn Disk) -> Result<(), OpenError> {
    let folder = disk.folder();
    match disk.lock() {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::Locked { folder }),
        Err(error) => Err(OpenError::from_io(&folder, "lock", error)),
    }
}

impl<'d> Folder<'d> {
    pub(crate) fn read(disk: &'d dyn Disk) -> Result<Folder<'d>, OpenError> {
        let name = disk.folder();
        let fail = |doing: String, error| OpenError::from_io(&name, doing, error);
        let mut segments = BTreeMap::new();
        let mut spares = Vec::new();
        let mut strangers = BTreeSet::new();
        let mut indexes = BTreeSet::new();
        for file in disk.list().map_err(|error| fail("list the files".into(), error))? {
            if is_spare(&file) {
                if !begins_like_spare(disk, &file) {
                    strangers.insert(file.clone());
                }
                spares.push(file);
            } else if index_number(&file).is_some() {
                indexes.insert(file);
            } else if let Some(number) = segment_number(&file) {
                let found = Found::read(disk, &name, number)
                    .map_err(|error| fail(format!("read {file}"), error))?;
                segments.insert(number, found);
            }
        }
        Ok(Folder { name, segments, spares, strangers, indexes })
    }

    pub(crate) fn segment(&self, number: u32) -> Option<&Found<'d>> {
        self.segments.get(&number)
    }
}

/// Whether a file is a spare: its name is `spare-` or `blank-` and a number. The log ignores other
/// files.
pub(crate) fn is_spare(name: &str) -> bool {
    let number = name.strip_prefix("spare-").or_else(|| name.strip_prefix("blank-"));
    number.is_some_and(|number| {
        // The log never gives a spare a number with more digits.
        (1..=18).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Whether a file begins like a segment, or with zeros. No journal of Kestrel does. A file that this
/// process cannot open or read does not belong to the log.
fn begins_like_spare(disk: &dyn Disk, name: &str) -> bool {
    let mut bytes = [0; 32];
    let read = disk.open(name).and_then(|file| file.read_at(&mut bytes, 0));
    read.is_ok_and(|read| bytes.starts_with(SEGMENT_MAGIC) || is_zeros(&bytes[..read]))
}

/// Whether all bytes are zeros. It looks at whole stretches, which is many times as fast as byte by
/// byte.
pub(crate) fn is_zeros(bytes: &[u8]) -> bool {
    bytes.chunks(4096).all(|stretch| stretch.iter().fold(0, |any, byte| any | byte) == 0)
}

fn copy_of(error: &io::Error) -> io::Error {
    let other = || io::Error::new(error.kind(), error.to_string());
    error.raw_os_error().map_or_else(other, io::Error::from_raw_os_error)
}

impl<'d> Found<'d> {
    fn read(disk: &'d dyn Disk, folder: &str, number: u32) -> io::Result<Found<'d>> {
        let file = disk.open(&segment_name(number))?;
        let len = file.size()?;
        let mut bytes = vec![0; HEADER_BYTES as usize];
        let header = file.read_at(&mut bytes, 0).map_err(NoHeader::Unreadable);
        let header =
            header.and_then(|read| SegmentHeader::decode(&bytes[..read]).map_err(NoHeader::Fault));
        let (file, folder) = (RefCell::default(), folder.to_owned());
        Ok(Found { disk, number, file, len, header, folder })
    }

    /// The file. It stays open until `close`.
    pub(crate) fn file(&self) -> Result<Arc<dyn DiskFile>, OpenError> {
        let mut open = self.file.borrow_mut();
        if let Some(file) = open.as_ref() {
            return Ok(Arc::clone(file));
        }
        let file = self.disk.open(&segment_name(self.number));
        let file = file.map_err(|error| self.failed("open", error))?;
        *open = Some(Arc::clone(&file));
        Ok(file)
    }

    pub(crate) fn close(&self) {
        drop(self.file.take());
    }

    pub(crate) fn size(&self) -> u64 {
        self.header.as_ref().map_or(self.len, |header| header.size)
    }

    /// Whether the file is shorter than its header says, or too short for a header.
    pub(crate) fn is_short(&self) -> bool {
        self.len < self.header.as_ref().map_or(HEADER_BYTES, |header| header.size)
    }

    /// The file's path, for messages.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.folder, segment_name(self.number))
    }

    pub(crate) fn damaged(&self, offset: u64, what: impl Into<String>) -> OpenError {
        OpenError::Damaged { file: self.path(), offset, what: what.into() }
    }

    /// Whether the disk could not read the header.
    pub(crate) fn has_unreadable_header(&self) -> bool {
        matches!(self.header, Err(NoHeader::Unreadable(_)))
    }

    /// Returns the file's header. Fails if the header cannot be read, is damaged, has another format
    /// version or another segment number, or if the file is too short.
    pub(crate) fn header(&self) -> Result<SegmentHeader, OpenError> {
        let header = self.header.as_ref().map_err(|fault| match fault {
            NoHeader::Fault(HeaderFault::Damaged) => self.damaged(0, "the segment's header"),
            NoHeader::Fault(HeaderFault::Format(found)) => {
                OpenError::Format { file: self.path(), found: *found, known: FORMAT }
            }
            NoHeader::Unreadable(error) => self.failed("read", copy_of(error)),
        })?;
        if header.number != self.number {
            return Err(self.damaged(28, format!("the header says segment {}", header.number)));
        }
        if self.len < header.size {
            return Err(
                self.damaged(self.len, format!("the file ends before its {} bytes", header.size))
            );
        }
        Ok(*header)
    }

    /// Like `header`, but also fails if this file and `other` belong to different logs.
    pub(crate) fn header_of_log(&self, other: &Found<'_>) -> Result<SegmentHeader, OpenError> {
        let header = self.header()?;
        if header.log_id != other.header()?.log_id {
            return Err(OpenError::ForeignLog { file: self.path(), other: other.path() });
        }
        Ok(header)
    }

    /// The file's bytes up to `end`, the end of the last piece that has more than zeros, and the blocks
    /// that cannot be read: the bytes have zeros in their place. The log fills a segment with zeros ahead
    /// of its use, so the last segment is often mostly empty. This function writes no zeros to memory,
    /// because the first use of memory costs more than a read.
    pub(crate) fn bytes_and_used(&self, end: u64) -> Result<(Vec<u8>, u64, BadBlocks), OpenError> {
        let mut bad = BadBlocks::default();
        let mut bytes = vec![0; end as usize];
        let mut piece = vec![0; PIECE_BYTES.min(bytes.len())];
        let (mut offset, mut used) = (0, 0);
        while offset < bytes.len() {
            let want = piece.len().min(bytes.len() - offset);
            let read = self.read_around(offset as u64, &mut piece[..want], &mut bad)?;
            let piece_end = offset + read;
            if !is_zeros(&piece[..read]) {
                bytes[offset..piece_end].copy_from_slice(&piece[..read]);
                used = piece_end as u64;
            }
            if read < want {
                bytes.truncate(piece_end);
            }
            offset = piece_end;
        }
        Ok((bytes, used, bad))
    }

    /// Like `read_into`, but if this fails, reads block by block. Notes the blocks that cannot be read, and
    /// reads zeros in their place.
    pub(crate) fn read_around(
        &self,
        offset: u64,
        bytes: &mut [u8],
        bad: &mut BadBlocks,
    ) -> Result<usize, OpenError> {
        if let Ok(read) = self.read_into(offset, bytes) {
            return Ok(read);
        }
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let block = at / BLOCK_BYTES * BLOCK_BYTES;
            let want = ((block + BLOCK_BYTES - at) as usize).min(bytes.len() - done);
            let piece = &mut bytes[done..done + want];
            let read = match self.read_into(at, piece) {
                Ok(read) => read,
                Err(error) => {
                    bad.note(block, error)?;
                    piece.fill(0);
                    want
                }
            };
            done += read;
            if read < want {
                break;
            }
        }
        Ok(done)
    }

    /// Reads `len` bytes from an offset, or fewer at the end of the file.
    pub(crate) fn bytes_at(&self, offset: u64, len: u64) -> Result<Vec<u8>, OpenError> {
        let mut bytes = vec![0; len as usize];
        let read = self.read_into(offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Reads bytes from an offset. Returns how many: fewer than wanted only at the end of the file.
    pub(crate) fn read_into(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, OpenError> {
        self.file()?.read_at(bytes, offset).map_err(|error| self.failed("read", error))
    }

    /// The error of a call for this file.
    pub(crate) fn failed(&self, doing: &str, error: io::Error) -> OpenError {
        let doing = format!("{doing} {}", segment_name(self.number));
        OpenError::from_io(&self.folder, doing, error)
    }

    /// The error for groups of this file that cannot be read.
    pub(crate) fn fault(&self, fault: GroupFault) -> OpenError {
        match fault {
            GroupFault::Read(error) => self.failed("read", error),
            GroupFault::Damaged(offset, what) => self.damaged(offset, what),
        }
    }
}
