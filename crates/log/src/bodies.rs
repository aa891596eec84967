//! Reads bodies back from the segment files.
//!
//! Each entry has its own checksum, which includes the segment's salt and the entry's position. So
//! the checksum proves that the bytes are the entry at this position. No other entry must be read
//! for this proof.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::disk::DiskFile;
use crate::error::BodyError;
use crate::files::segments::segment_name;
use crate::format::entry::{ENTRY_HEAD_BYTES, Entry, EntryKind, META_BYTES};
use crate::format::{HEADER_BYTES, SegmentHeader, get_u32, padded};
use crate::log::Log;
use crate::types::Position;

/// The maximum number of segments that a reader keeps open.
const OPEN_FILES_MAX: usize = 4;
/// One read covers at most this many bytes, unless one entry is larger.
const READ_BYTES_MAX: u64 = 256 * 1024;
/// One read covers two entries if their starts are at most this many bytes apart. The extra bytes
/// cost less time than another system call.
const GAP_BYTES_MAX: u64 = 16 * 1024;
/// A read assumes that its last entry has at most this many bytes. If the entry is longer, a second
/// read gets its other bytes.
const ENTRY_BYTES_GUESS: u64 = 4 * 1024;
/// If a read fails, each of its entries is read alone. There is one attempt after each of these
/// pauses, because many errors of a disk or its connection last only a moment.
const PAUSES: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
];

/// The size in bytes of the entry that [`Log::put`] or [`Log::put_many`] appends: for this many
/// jobs, with this many bytes of options in all, and one body. These functions return the end of
/// the entry. The entry begins this many bytes before its end.
pub fn put_bytes(jobs: usize, options_bytes: usize, body_bytes: usize) -> u64 {
    padded(ENTRY_HEAD_BYTES + jobs * META_BYTES + options_bytes + body_bytes) as u64
}

/// An entry of [`Log::import`] is this many bytes longer than an entry of [`Log::put`], because it
/// is a copy and names the slot that it replaces.
pub const TARGET_BYTES: u64 = 8;

/// An open segment.
#[derive(Debug)]
struct OpenSegment {
    number: u32,
    file: Arc<dyn DiskFile>,
    header: SegmentHeader,
}

/// Reads bodies from segments. It keeps the files of a few segments open.
#[derive(Debug, Default)]
pub struct BodyReader {
    open: VecDeque<OpenSegment>,
    /// The memory for the next read.
    bytes: Vec<u8>,
}

impl BodyReader {
    /// Reads the bodies of entries of one segment. `entries` has the offsets at which the entries
    /// begin, in ascending order. Calls `each` once for every entry, with the index in `entries`.
    /// The caller must hold the segment ([`Log::hold`]), and must not hold the appenders' lock,
    /// because the reads can take long. If the disk reports an error, this function repeats the
    /// reads a few times, with pauses. It does not repeat a read that returned wrong bytes, nor one
    /// for which there was no descriptor: see [`BodyError::is_out_of_descriptors`].
    pub fn read(
        &mut self,
        log: &Log,
        segment: u32,
        entries: &[u32],
        mut each: impl FnMut(usize, Result<&[u8], BodyError>),
    ) {
        let mut failed = self.read_once(log, segment, entries, &mut each);
        for pause in PAUSES {
            let Some((_, error)) = failed.first() else { return };
            // Descriptors can be short for much longer. The caller can do other work meanwhile.
            if error.is_out_of_descriptors() {
                break;
            }
            log.segments.rest(pause);
            failed.retain_mut(|(index, error)| {
                match self.read_alone(log, segment, entries[*index]) {
                    Err(again @ BodyError::Read { .. }) => {
                        *error = again;
                        true
                    }
                    body => {
                        each(*index, body.as_deref().map_err(BodyError::clone));
                        false
                    }
                }
            });
        }
        for (index, error) in failed {
            each(index, Err(error));
        }
    }

    /// Like [`BodyReader::read`], for bodies that nobody waits for: repeats no read, and does not
    /// call `each` for an entry that cannot be read.
    pub fn read_ahead(
        &mut self,
        log: &Log,
        segment: u32,
        entries: &[u32],
        mut each: impl FnMut(usize, &[u8]),
    ) {
        self.read_once(log, segment, entries, |index, body| {
            if let Ok(body) = body {
                each(index, body);
            }
        });
    }

    /// Reads the bodies with as few reads as possible. Calls `each` for every entry, except entries
    /// for which the disk reported an error. Returns the indices of these entries, and the errors.
    fn read_once(
        &mut self,
        log: &Log,
        segment: u32,
        entries: &[u32],
        mut each: impl FnMut(usize, Result<&[u8], BodyError>),
    ) -> Vec<(usize, BodyError)> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let open = match self.open(log, segment) {
            Ok(open) => open,
            Err(error) => return (0..entries.len()).map(|index| (index, error.clone())).collect(),
        };
        let mut failed = Vec::new();
        let mut is_spoiled = false;
        let mut done = 0;
        while done < entries.len() {
            let end = stretch(&entries[done..]) + done;
            let stretch = &entries[done..end];
            open.read_stretch(&mut bytes, stretch, ENTRY_BYTES_GUESS, |index, body| {
                is_spoiled |= body.is_err();
                match body {
                    Err(error @ BodyError::Read { .. }) => failed.push((done + index, error)),
                    body => each(done + index, body),
                }
            });
            done = end;
        }
        if is_spoiled {
            log.segments.note_spoiled(segment);
        }
        // An entry can be much larger than a usual read.
        bytes.clear();
        bytes.shrink_to(2 * READ_BYTES_MAX as usize);
        self.bytes = bytes;
        failed
    }

    /// Reads the body of one entry, and as few other bytes as possible.
    fn read_alone(&mut self, log: &Log, segment: u32, entry: u32) -> Result<Vec<u8>, BodyError> {
        let mut read = Ok(Vec::new());
        let mut bytes = Vec::new();
        let head = ENTRY_HEAD_BYTES as u64;
        self.open(log, segment)?.read_stretch(&mut bytes, &[entry], head, |_, body| {
            read = body.map(<[u8]>::to_vec);
        });
        read
    }

    fn open(&mut self, log: &Log, number: u32) -> Result<&OpenSegment, BodyError> {
        if let Some(at) = self.open.iter().position(|open| open.number == number) {
            self.open.swap(0, at);
        } else {
            self.open.truncate(OPEN_FILES_MAX - 1);
            self.open.push_front(OpenSegment::open(log, number)?);
        }
        Ok(&self.open[0])
    }

    /// Closes the files of segments below `first`, because the log has given up these segments.
    pub fn close_below(&mut self, first: u32) {
        self.open.retain(|open| open.number >= first);
    }
}

/// How many of these entries the next read covers: the *stretch*.
fn stretch(entries: &[u32]) -> usize {
    let start = u64::from(entries[0]);
    let mut last = start;
    let fits = |&&entry: &&u32| {
        let entry = u64::from(entry);
        let is_near = entry - last <= GAP_BYTES_MAX && entry - start < READ_BYTES_MAX;
        last = entry;
        is_near
    };
    entries.iter().take_while(fits).count()
}

impl OpenSegment {
    fn open(log: &Log, number: u32) -> Result<OpenSegment, BodyError> {
        let name = segment_name(number);
        let failed = |source| BodyError::read(&name, 0, source);
        let file = log.segments.open(number).map_err(failed)?;
        let mut header = vec![0; HEADER_BYTES as usize];
        file.read_at(&mut header, 0).map_err(failed)?;
        let header = SegmentHeader::decode(&header)
            .map_err(|_| BodyError::damaged(&name, 0, "the header"))?;
        if header.number != number {
            return Err(BodyError::damaged(&name, 0, "the header"));
        }
        Ok(OpenSegment { number, file, header })
    }

    /// Reads the entries of one stretch into `bytes`. The first read assumes that the last entry
    /// has `last_bytes` bytes.
    fn read_stretch(
        &self,
        bytes: &mut Vec<u8>,
        entries: &[u32],
        last_bytes: u64,
        mut each: impl FnMut(usize, Result<&[u8], BodyError>),
    ) {
        let name = segment_name(self.number);
        let start = u64::from(entries[0]);
        let last = u64::from(entries[entries.len() - 1]);
        bytes.clear();
        let wanted = last - start + last_bytes;
        let mut failed = self.fill(bytes, start, wanted).err().map(Arc::new);
        for (index, &entry) in entries.iter().enumerate() {
            let at = u64::from(entry) - start;
            if failed.is_none() && (bytes.len() as u64) >= at + ENTRY_HEAD_BYTES as u64 {
                let len = padded(get_u32(bytes, at as usize + 4) as usize) as u64;
                failed = self.fill(bytes, start, at + len).err().map(Arc::new);
            }
            if let Some(source) = &failed {
                let (file, source) = (name.clone(), source.clone());
                each(index, Err(BodyError::Read { file, offset: start, source }));
                continue;
            }
            let rest = bytes.get(at as usize..).unwrap_or_default();
            let position = Position::new(self.number, u64::from(entry));
            let body = body_of(rest, self.header.salt, position);
            each(index, body.map_err(|what| BodyError::damaged(&name, u64::from(entry), what)));
        }
    }

    /// Reads the segment from the offset `start` into `bytes`, until `bytes` has the length `len`
    /// or the segment ends. `bytes` can already contain the first of these bytes.
    fn fill(&self, bytes: &mut Vec<u8>, start: u64, len: u64) -> std::io::Result<()> {
        // A damaged entry can give any length, so limit it to the size of the segment.
        let len = len.min(self.header.size.saturating_sub(start)) as usize;
        let known = bytes.len();
        if len <= known {
            return Ok(());
        }
        bytes.resize(len, 0);
        let read = self.file.read_at(&mut bytes[known..], start + known as u64)?;
        bytes.truncate(known + read);
        Ok(())
    }
}

fn body_of(bytes: &[u8], salt: u64, position: Position) -> Result<&[u8], &'static str> {
    let entry = Entry::read(bytes, salt, position.0)?;
    match entry.kind {
        EntryKind::Put | EntryKind::Copy => {
            entry.for_each_slot(|_| {}).ok_or("an entry's contents")
        }
        _ => Err("another kind of entry"),
    }
}
