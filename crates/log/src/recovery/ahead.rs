//! Reads a segment in pieces, and checks them. While the caller uses a piece, a thread reads and
//! prepares the next ones, so a start uses two processors.

use std::borrow::Cow;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, scope};

use crate::error::OpenError;
use crate::files::folder::Found;
use crate::format::entry::{Entry, EntryKind};
use crate::format::{GROUP_HEADER_BYTES, GroupHeader, HEADER_BYTES};
use crate::types::Position;

/// The size of a piece, except for a larger group. A smaller segment is read without a thread.
/// Pieces fit into the cache of a processor. They are small in simulations, so that simulations use
/// the thread, too.
const PIECE_BYTES: u64 = if cfg!(feature = "fault") { 24 << 10 } else { 512 << 10 };
/// How many prepared pieces can wait for the caller.
const PIECES_AHEAD: usize = 2;

/// The end and the checksum of a group.
pub(super) type Seam = (Position, u32);

/// A segment to read.
#[derive(Copy, Clone, Debug)]
pub(super) struct Source<'a> {
    pub(super) found: &'a Found,
    /// The end of the segment's last group.
    pub(super) end: u64,
    /// The bytes up to `end`, if they are in memory.
    pub(super) bytes: Option<&'a [u8]>,
}

/// A piece of a segment: one or more whole groups. Their checksums are right, and each of them
/// follows the one before it.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    first: GroupHeader,
    last: GroupHeader,
    /// The groups, and possibly further bytes.
    bytes: Cow<'a, [u8]>,
    len: usize,
}

/// A group of a piece.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) header: GroupHeader,
    pub(super) entries: &'a [u8],
}

impl Piece<'_> {
    pub(super) fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let mut rest = &self.bytes[..self.len];
        std::iter::from_fn(move || {
            let header = GroupHeader::peek(rest)?;
            let (group, others) = rest.split_at(GROUP_HEADER_BYTES + header.len as usize);
            rest = others;
            Some(Group { header, entries: &group[GROUP_HEADER_BYTES..] })
        })
    }

    /// The intact PUT and COPY entries, and their positions.
    pub(super) fn puts(&self) -> impl Iterator<Item = (Position, Entry<'_>)> {
        let entries = self.groups().flat_map(|group| group.entries());
        entries.filter_map(|(position, entry)| {
            let entry = entry.ok()?;
            matches!(entry.kind, EntryKind::Put | EntryKind::Copy).then_some((position, entry))
        })
    }
}

impl<'a> Group<'a> {
    /// The entries and their positions. An entry that is broken ends them.
    pub(super) fn entries(&self) -> Entries<'a> {
        let position = Position(self.header.position.0 + GROUP_HEADER_BYTES as u64);
        Entries { rest: self.entries, position }
    }

    /// Checks that the entries' own checksums are right, too.
    pub(super) fn check_entries(&self, salt: u64) -> Result<(), (Position, &'static str)> {
        let mut entries = self.entries();
        loop {
            let rest = entries.rest;
            let Some((position, entry)) = entries.next() else { return Ok(()) };
            let checked = entry.and_then(|_| Entry::read(rest, salt, position.0));
            checked.map_err(|what| (position, what))?;
        }
    }
}

/// The entries of a group.
#[derive(Debug)]
pub(super) struct Entries<'a> {
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

/// Reads a segment up to its end. Calls `prepare` for each piece, possibly in another thread. Then
/// calls `each` with the piece and the result, in the caller's thread. Returns the seam to the
/// segment before this one, and the end and the checksum of the last group. Fails if anything is
/// damaged.
pub(super) fn read_segment<T: Send>(
    source: Source<'_>,
    mut prepare: impl FnMut(&Piece<'_>) -> Result<T, OpenError> + Send,
    mut each: impl FnMut(&Piece<'_>, T) -> Result<(), OpenError>,
) -> Result<(Seam, Seam), OpenError> {
    let found = source.found;
    let buffers = Buffers::default();
    let prepared = Pieces::new(source, &buffers)?.map(move |piece| {
        let piece = piece?;
        let made = prepare(&piece)?;
        Ok((piece, made))
    });
    let mut seams: Option<(Seam, Seam)> = None;
    let mut use_piece = |prepared: Result<(Piece<'_>, T), OpenError>| -> Result<(), OpenError> {
        let (piece, made) = prepared?;
        let (first, last) = (piece.first, piece.last);
        let before = seams.map_or((first.previous_end, first.previous_crc), |(before, _)| before);
        seams = Some((before, (last.end(), last.crc)));
        each(&piece, made)?;
        buffers.give_back(piece.bytes);
        Ok(())
    };
    if source.end <= PIECE_BYTES {
        for piece in prepared {
            use_piece(piece)?;
        }
    } else {
        scope(|scope| {
            let (sender, received) = sync_channel(PIECES_AHEAD);
            let read = move || prepared.for_each(|piece| drop(sender.send(piece)));
            let thread = Builder::new().name("read ahead".into()).spawn_scoped(scope, read);
            thread.map_err(|error| OpenError::from_io(&found.path(), "start a thread", error))?;
            // After a failure, the thread goes on to the end of the segment. So the reads of a start
            // do not depend on which thread is faster.
            let mut result = Ok(());
            for piece in received {
                result = result.and_then(|()| use_piece(piece));
            }
            result
        })?;
    }
    seams.ok_or_else(|| found.damaged(HEADER_BYTES, "the first group"))
}

/// The memory of pieces that were used, for the next ones. The first use of new memory costs more
/// than the read.
#[derive(Debug, Default)]
struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn give_back(&self, bytes: Cow<'_, [u8]>) {
        if let Cow::Owned(bytes) = bytes {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
        }
    }
}

/// The pieces of a segment. They end after the first failure.
#[derive(Debug)]
struct Pieces<'a> {
    source: Source<'a>,
    buffers: &'a Buffers,
    salt: u64,
    offset: u64,
    previous: Option<GroupHeader>,
}

impl<'a> Pieces<'a> {
    fn new(source: Source<'a>, buffers: &'a Buffers) -> Result<Pieces<'a>, OpenError> {
        let salt = source.found.header()?.salt;
        Ok(Pieces { source, buffers, salt, offset: HEADER_BYTES, previous: None })
    }

    /// Bytes from the current offset on: as many, or fewer at the end.
    fn bytes(&self, len: u64) -> Result<Cow<'a, [u8]>, OpenError> {
        let len = len.min(self.source.end - self.offset);
        if let Some(bytes) = self.source.bytes {
            return Ok(Cow::Borrowed(&bytes[self.offset as usize..][..len as usize]));
        }
        let mut bytes = self.buffers.take();
        bytes.resize(len as usize, 0);
        let read = self.source.found.read_into(self.offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(Cow::Owned(bytes))
    }

    /// The next piece. A group that is broken or not whole begins the piece after it.
    fn piece(&mut self) -> Result<Piece<'a>, OpenError> {
        let mut bytes = self.bytes(PIECE_BYTES)?;
        let group_bytes = GroupHeader::peek(&bytes)
            .map_or(0, |group| GROUP_HEADER_BYTES as u64 + u64::from(group.len));
        if group_bytes > bytes.len() as u64 {
            bytes = self.bytes(group_bytes)?;
        }
        let mut first = None;
        let mut end = 0;
        while end < bytes.len() {
            match self.group(&bytes[end..], self.offset + end as u64) {
                Ok(group) => {
                    first.get_or_insert(group);
                    self.previous = Some(group);
                    end = (group.end().offset() - self.offset) as usize;
                }
                Err(_) if first.is_some() => break,
                Err(error) => return Err(error),
            }
        }
        let broken = || self.source.found.damaged(self.offset, "a group's checksum");
        let (first, last) = first.zip(self.previous).ok_or_else(broken)?;
        self.offset += end as u64;
        Ok(Piece { first, last, bytes, len: end })
    }

    /// The group at the start of these bytes, if it is intact and follows the one before it.
    fn group(&self, bytes: &[u8], offset: u64) -> Result<GroupHeader, OpenError> {
        let found = self.source.found;
        let group = GroupHeader::check(bytes, self.salt, Position::new(found.number, offset))
            .ok_or_else(|| found.damaged(offset, "a group's checksum"))?;
        if self.previous.is_some_and(|previous| !group.follows(&previous)) {
            return Err(found.damaged(offset, "a group does not follow the one before it"));
        }
        Ok(group)
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Result<Piece<'a>, OpenError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.source.end {
            return None;
        }
        let piece = self.piece();
        if piece.is_err() {
            self.offset = self.source.end;
        }
        Some(piece)
    }
}
