//! Reads the groups of a segment, a piece of the file at a time, and checks them.

use std::borrow::Cow;
use std::io;
use std::sync::{Mutex, PoisonError};

use crate::disk::DiskFile;
use crate::format::entry::{Entry, EntryKind};
use crate::format::{GROUP_HEADER_BYTES, GroupHeader, HEADER_BYTES, SegmentHeader};
use crate::types::Position;

/// Why the groups of a segment cannot be read.
#[derive(Debug)]
pub(crate) enum GroupFault {
    /// The file cannot be read.
    Read(io::Error),
    /// A group is broken: its offset, and what is wrong.
    Damaged(u64, &'static str),
}

/// Where the bytes of a segment are.
#[derive(Copy, Clone, Debug)]
pub(crate) enum SegmentBytes<'a> {
    File(&'a dyn DiskFile),
    /// In memory, from the segment's start to the end of its last group.
    Memory(&'a [u8]),
}

/// One or more whole groups of a segment. Their checksums are right, and each of them follows the one
/// before it.
#[derive(Debug)]
pub(crate) struct Groups<'a> {
    pub(crate) first: GroupHeader,
    pub(crate) last: GroupHeader,
    /// The groups, and possibly further bytes.
    bytes: Cow<'a, [u8]>,
    len: usize,
}

/// An intact group.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) header: GroupHeader,
    entries: &'a [u8],
}

impl Groups<'_> {
    pub(crate) fn each(&self) -> impl Iterator<Item = Group<'_>> {
        let mut rest = &self.bytes[..self.len];
        std::iter::from_fn(move || {
            let header = GroupHeader::peek(rest)?;
            let (group, others) = rest.split_at(GROUP_HEADER_BYTES + header.len as usize);
            rest = others;
            Some(Group { header, entries: &group[GROUP_HEADER_BYTES..] })
        })
    }

    /// The intact PUT and COPY entries, and their positions.
    pub(crate) fn puts(&self) -> impl Iterator<Item = (Position, Entry<'_>)> {
        let entries = self.each().flat_map(|group| group.entries());
        entries.filter_map(|(position, entry)| {
            let entry = entry.ok()?;
            matches!(entry.kind, EntryKind::Put | EntryKind::Copy).then_some((position, entry))
        })
    }
}

impl<'a> Group<'a> {
    /// The entries and their positions. An entry that is broken ends them.
    pub(crate) fn entries(&self) -> Entries<'a> {
        let position = Position(self.header.position.0 + GROUP_HEADER_BYTES as u64);
        Entries { rest: self.entries, position }
    }

    /// Checks that the entries' own checksums are right, too.
    pub(crate) fn check_entries(&self, salt: u64) -> Result<(), GroupFault> {
        let mut at = 0;
        while at < self.entries.len() {
            let position = Position(self.header.position.0 + (GROUP_HEADER_BYTES + at) as u64);
            let entry = Entry::read(&self.entries[at..], salt, position.0)
                .map_err(|what| GroupFault::Damaged(position.offset(), what))?;
            at += entry.bytes;
        }
        Ok(())
    }
}

/// The entries of a group.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    rest: &'a [u8],
    position: Position,
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Position, Result<Entry<'a>, &'static str>);

    fn next(&mut self) -> Option<Self::Item> {
        let entry = (!self.rest.is_empty()).then(|| Entry::parse(self.rest))?;
        let position = self.position;
        let bytes = entry.map_or(self.rest.len(), |entry| entry.bytes);
        self.rest = &self.rest[bytes..];
        self.position = Position(position.0 + bytes as u64);
        Some((position, entry))
    }
}

/// The memory of groups that were used, for the next ones. The first use of new memory costs more
/// than the read.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    pub(crate) fn give_back(&self, groups: Groups<'_>) {
        if let Cow::Owned(bytes) = groups.bytes {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
        }
    }
}

/// Reads a segment from its first group to its end, as many groups at a time as a piece of the file
/// has. Ends after the first failure.
#[derive(Debug)]
pub(crate) struct GroupReader<'a> {
    bytes: SegmentBytes<'a>,
    header: SegmentHeader,
    /// The end of the segment's last group.
    end: u64,
    /// The size of a piece, except for a larger group.
    piece_bytes: u64,
    buffers: &'a Buffers,
    offset: u64,
    previous: Option<GroupHeader>,
}

impl<'a> GroupReader<'a> {
    pub(crate) fn new(
        bytes: SegmentBytes<'a>,
        (header, end): (SegmentHeader, u64),
        piece_bytes: u64,
        buffers: &'a Buffers,
    ) -> GroupReader<'a> {
        let offset = HEADER_BYTES;
        GroupReader { bytes, header, end, piece_bytes, buffers, offset, previous: None }
    }

    /// Bytes from the current offset on: as many, or fewer at the end.
    fn bytes(&self, len: u64) -> Result<Cow<'a, [u8]>, GroupFault> {
        let len = len.min(self.end - self.offset) as usize;
        match self.bytes {
            SegmentBytes::Memory(bytes) => Ok(Cow::Borrowed(&bytes[self.offset as usize..][..len])),
            SegmentBytes::File(file) => {
                let mut bytes = self.buffers.take();
                bytes.resize(len, 0);
                let read = file.read_at(&mut bytes, self.offset).map_err(GroupFault::Read)?;
                bytes.truncate(read);
                Ok(Cow::Owned(bytes))
            }
        }
    }

    /// The next groups. A group that is broken or not whole is left to the next call.
    fn groups(&mut self) -> Result<Groups<'a>, GroupFault> {
        let mut bytes = self.bytes(self.piece_bytes)?;
        let group_bytes = GroupHeader::peek(&bytes)
            .map_or(0, |group| GROUP_HEADER_BYTES as u64 + u64::from(group.len));
        if group_bytes > bytes.len() as u64 {
            bytes = self.bytes(group_bytes)?;
        }
        let first = self.group(&bytes, 0, self.previous)?;
        let mut last = first;
        let len = |last: GroupHeader| (last.end().offset() - self.offset) as usize;
        while let Ok(group) = self.group(&bytes, len(last), Some(last)) {
            last = group;
        }
        Ok(Groups { first, last, len: len(last), bytes })
    }

    /// The group at a place in these bytes, if it is intact and follows the one before it.
    fn group(
        &self,
        bytes: &[u8],
        at: usize,
        previous: Option<GroupHeader>,
    ) -> Result<GroupHeader, GroupFault> {
        let SegmentHeader { number, salt, .. } = self.header;
        let position = Position::new(number, self.offset + at as u64);
        let damaged = |what| GroupFault::Damaged(position.offset(), what);
        let group = GroupHeader::check(&bytes[at..], salt, position)
            .ok_or_else(|| damaged("a group's checksum"))?;
        if previous.is_some_and(|previous| !group.follows(&previous)) {
            return Err(damaged("a group does not follow the one before it"));
        }
        Ok(group)
    }
}

impl<'a> Iterator for GroupReader<'a> {
    type Item = Result<Groups<'a>, GroupFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.end {
            return None;
        }
        let groups = self.groups();
        self.offset = groups.as_ref().map_or(self.end, |groups| groups.last.end().offset());
        self.previous = groups.as_ref().ok().map(|groups| groups.last);
        Some(groups)
    }
}
