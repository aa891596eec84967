//! What a start passes to the owner: jobs, blocks and facts. Bodies and rows are read only if the owner
//! needs them.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::fmt::{self, Debug, Formatter};

use triomphe::Arc;

use crate::error::OpenError;
use crate::files::folder::Found;
use crate::format::SegmentHeader;
use crate::format::entry::{Entry, EntryKind};
use crate::index::build::{Built, Pace, Sealed, build};
use crate::index::reader::SegmentIndex;
use crate::index::{BlockId, BlockSummary, Classify, IndexError, OwnedRow, Place};
use crate::types::{Meta, Position, Slot};

/// A live job or fact, passed to the `restore` function of [`crate::Log::open`].
#[derive(Debug)]
pub enum Restored<'a> {
    /// A job that is not finished.
    Job {
        /// The job's slot. The owner needs it for later entries about the job.
        slot: Slot,
        /// The start of the entry that made the slot: an offset in the slot's segment.
        entry_at: u32,
        /// The end of the entry that made the slot.
        position: Position,
        /// The queue's name.
        queue: &'a [u8],
        /// The newest meta.
        meta: Meta<'a>,
        /// The counters of the newest COUNT entry, if this entry is newer than `meta`.
        counters: Option<&'a [u8]>,
        /// Whether the job has changed since the entry that made the slot: `meta` or `counters` come from
        /// a later entry. So no index describes the job before it has a new slot.
        is_changed: bool,
        /// The body.
        body: RestoredBody<'a>,
    },
    /// A block of jobs, from the index of a segment ([`crate::Settings::classify`]). Each of them is
    /// live, and has not changed since its entry.
    Block {
        /// The block.
        block: BlockId,
        /// The summary of these jobs. If some jobs of the block have ended or changed, it differs
        /// from the summary in the index.
        summary: BlockSummary,
        /// The queue's name.
        queue: &'a [u8],
        /// The jobs. The owner can read them now, or later with [`crate::Log::read_block`].
        rows: RestoredRows<'a>,
    },
    /// A fact: the newest value of a key.
    Fact {
        /// The key.
        key: &'a [u8],
        /// The value. It is never empty, because an empty value removes the fact.
        value: &'a [u8],
        /// The start of the fact's entry.
        position: Position,
    },
}

/// The body of a restored job. If the start did not read the job's segment, `read` reads the body.
#[derive(Copy, Clone, Debug)]
pub struct RestoredBody<'a>(Source<'a>);

#[derive(Copy, Clone, Debug)]
enum Source<'a> {
    Here(&'a [u8], Option<&'a BodyCopy>),
    File { found: &'a Found<'a>, header: SegmentHeader, entry_at: u32, end: Position, len: u32 },
}

/// A copy of a body that was made ahead, for an owner that keeps bodies in memory.
#[derive(Default)]
pub(crate) struct BodyCopy {
    copy: Cell<Option<Arc<[u8]>>>,
    was_wanted: Cell<bool>,
}

impl BodyCopy {
    /// Offers the copy of the next body. `None`: it was not made.
    pub(crate) fn set(&self, copy: Option<Arc<[u8]>>) {
        self.copy.set(copy);
    }

    /// Whether the owner asked for one of these copies.
    pub(crate) fn was_wanted(&self) -> bool {
        self.was_wanted.get()
    }
}

impl Debug for BodyCopy {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BodyCopy").finish_non_exhaustive()
    }
}

impl<'a> RestoredBody<'a> {
    pub(crate) fn here(body: &'a [u8], copy: Option<&'a BodyCopy>) -> RestoredBody<'a> {
        RestoredBody(Source::Here(body, copy))
    }

    pub(crate) fn stored(
        found: &'a Found<'a>,
        header: SegmentHeader,
        row: &OwnedRow,
    ) -> RestoredBody<'a> {
        let OwnedRow { entry_at, position: end, body_len: len, .. } = *row;
        RestoredBody(Source::File { found, header, entry_at, end, len })
    }

    /// The bytes of the body.
    pub fn len(&self) -> usize {
        match self.0 {
            Source::Here(body, _) => body.len(),
            Source::File { len, .. } => len as usize,
        }
    }

    /// Whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The body in memory of its own.
    pub fn shared(&self) -> Result<Arc<[u8]>, OpenError> {
        if let Source::Here(_, Some(copy)) = self.0 {
            copy.was_wanted.set(true);
            if let Some(copy) = copy.copy.take() {
                return Ok(copy);
            }
        }
        Ok(Arc::from(&*self.read()?))
    }

    /// The body.
    pub fn read(&self) -> Result<Cow<'a, [u8]>, OpenError> {
        let (found, header, entry_at, end, len) = match self.0 {
            Source::Here(body, _) => return Ok(Cow::Borrowed(body)),
            Source::File { found, header, entry_at, end, len } => {
                (found, header, entry_at, end, len)
            }
        };
        let start = u64::from(entry_at);
        let bytes = found.bytes_at(start, end.offset().min(header.size).saturating_sub(start))?;
        let position = Position::new(header.number, start);
        let entry = Entry::read(&bytes, header.salt, position.0)
            .map_err(|what| found.damaged(start, what))?;
        let body = match entry.kind {
            EntryKind::Put | EntryKind::Copy => entry.for_each_slot(|_| {}),
            _ => None,
        };
        let body = body.filter(|body| body.len() == len as usize);
        let body = body.ok_or_else(|| found.damaged(start, "an entry's contents"))?;
        Ok(Cow::Owned(body.to_vec()))
    }
}

/// The blocks of a segment at a start. If the index file is damaged, reads the segment.
#[derive(Debug)]
pub(crate) struct BlockSource<'a> {
    pub(crate) index: &'a SegmentIndex,
    pub(crate) found: &'a Found<'a>,
    pub(crate) header: SegmentHeader,
    pub(crate) end: (u64, u32),
    pub(crate) classify: Classify,
    /// The index that was built because the file is damaged.
    pub(crate) built: OnceCell<Built>,
}

impl BlockSource<'_> {
    /// The section of the rows that are in no block. `section` is its place in the index file.
    pub(crate) fn others(&self, section: Place) -> Result<Vec<u8>, OpenError> {
        if self.built.get().is_none()
            && let Ok(bytes) = self.index.section(section)
        {
            return Ok(bytes);
        }
        Ok(self.built()?.others().to_vec())
    }

    /// All rows of a block.
    pub(crate) fn rows(&self, number: u32) -> Result<Vec<OwnedRow>, OpenError> {
        if self.built.get().is_none()
            && let Ok(rows) = self.index.read_block(number)
        {
            return Ok(rows);
        }
        let rows = self.built()?.block(number);
        rows.ok_or_else(|| self.found.damaged(0, "the index of the segment is wrong"))
    }

    /// The index, built from the segment.
    fn built(&self) -> Result<&Built, OpenError> {
        if self.built.get().is_none() {
            let (file, header, end) = (self.found.file()?, self.header, self.end);
            let sealed = Sealed { file: &*file, header, end, slots: 0 };
            let built =
                build(sealed, self.classify, Pace::hurried()).map_err(|error| match error {
                    IndexError::Damaged { what, .. } => self.found.damaged(0, what),
                    other => self.found.damaged(0, other.to_string()),
                })?;
            let _ = self.built.set(built);
        }
        let built = self.built.get();
        built.ok_or_else(|| self.found.damaged(0, "the index of the segment is wrong"))
    }
}

/// The rows of a restored block: its live jobs that have not changed since their entries.
#[derive(Copy, Clone, Debug)]
pub struct RestoredRows<'a> {
    source: &'a BlockSource<'a>,
    number: u32,
    /// The rows, if they were read.
    rows: Option<&'a [OwnedRow]>,
}

impl<'a> RestoredRows<'a> {
    pub(crate) fn new(
        source: &'a BlockSource<'a>,
        number: u32,
        rows: Option<&'a [OwnedRow]>,
    ) -> RestoredRows<'a> {
        RestoredRows { source, number, rows }
    }

    /// Reads the rows, in the order of their keys.
    pub fn read(&self) -> Result<Cow<'a, [OwnedRow]>, OpenError> {
        match self.rows {
            Some(rows) => Ok(Cow::Borrowed(rows)),
            None => self.source.rows(self.number).map(Cow::Owned),
        }
    }

    /// The body of one of these rows.
    pub fn body(&self, row: &OwnedRow) -> RestoredBody<'a> {
        RestoredBody::stored(self.source.found, self.source.header, row)
    }
}
