//! Finds the end of the log: the last segment, and the chain of groups in it. Checks that no bytes
//! after the end were ever durable.

use crate::error::OpenError;
use crate::files::folder::{BadBlocks, Folder, Found, PIECE_BYTES, is_zeros};
use crate::files::segments::segment_name;
use crate::format::entry::{Entry, EntryKind};
use crate::format::{GROUP_HEADER_BYTES, GROUP_MAGIC, GroupHeader, HEADER_BYTES, get_u32};
use crate::types::Position;

/// The result of finding the end of the log.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// The lowest segment that is not void.
    pub(crate) first: u32,
    /// The segment in which the log ends.
    pub(crate) last: u32,
    /// The bytes of the last segment up to the end of the log.
    pub(crate) bytes: Vec<u8>,
    /// The end of the log. New groups begin here.
    pub(crate) end: Position,
    /// The log was certainly durable up to this position.
    pub(crate) durable: Position,
    /// The end of the log's last group. The next field is the checksum of this group.
    pub(crate) previous_end: Position,
    pub(crate) previous_crc: u32,
    /// The time of the log's last group. An older group after the end was left over from an earlier
    /// torn write. An earlier start of the server has already reported such a group, so this start
    /// does not count it.
    time_ms: u64,
    pub(crate) cut_bytes: u64,
    pub(crate) cut_groups: u64,
    /// The offsets of the blocks of the last segment that cannot be read. A start writes zeros to them.
    pub(crate) bad_blocks: Vec<u64>,
    /// The number of these blocks and of those in prepared segments.
    pub(crate) unreadable_blocks: u64,
    /// The prepared segments with blocks that cannot be read.
    pub(crate) spoiled: Vec<u32>,
}

impl Tail {
    /// The end of a log that does not exist yet.
    pub(crate) fn empty() -> Tail {
        Tail::default()
    }

    pub(crate) fn find(folder: &Folder) -> Result<Tail, OpenError> {
        check_ids(folder)?;
        let (last, mut bytes, used, bad) = last_segment(folder)?;
        let salt = last.header()?.salt;
        let mut tail = Tail { last: last.number, ..Tail::default() };
        let mut offset = HEADER_BYTES;
        let mut previous: Option<GroupHeader> = None;
        let mut first = 0;
        while let Some(group) = group_at(&bytes, salt, last.number, offset) {
            if previous.is_some_and(|previous| !group.follows(&previous)) {
                break;
            }
            let end = group.end().offset();
            let entries = &bytes[offset as usize + GROUP_HEADER_BYTES..end as usize];
            first = first.max(first_in(entries).map_err(|what| last.damaged(offset, what))?);
            tail.durable = tail.durable.max(group.durable);
            previous = Some(group);
            offset = end;
        }
        let previous = previous.expect("the last segment has a whole first group");
        tail.end = previous.end();
        tail.previous_end = previous.end();
        tail.previous_crc = previous.crc;
        tail.time_ms = previous.time_ms;
        tail.first = first;
        tail.bad_blocks = bad.replaceable(tail.end, rest_from(&bytes, tail.end.offset()))?;
        tail.unreadable_blocks = tail.bad_blocks.len() as u64;
        tail.look_beyond(&bytes, used, salt);
        bytes.truncate(tail.end.offset() as usize);
        bytes.shrink_to_fit();
        for prepared in folder.segments.range(last.number + 1..).map(|(_, found)| found) {
            tail.look_at_prepared(prepared, last)?;
        }
        if tail.end < tail.durable {
            return Err(last.damaged(tail.end.offset(), "a group is missing or broken"));
        }
        if first == 0 || first > last.number {
            return Err(last.damaged(HEADER_BYTES, "the segment does not say where the log begins"));
        }
        tail.bytes = bytes;
        check_files(folder, &tail)?;
        Ok(tail)
    }

    /// Looks for groups in the last segment after the end of the chain. From `used` on, the segment
    /// has only zeros.
    fn look_beyond(&mut self, bytes: &[u8], used: u64, salt: u64) {
        let start = self.end.offset();
        let torn = GroupHeader::peek(rest_from(bytes, start));
        let torn_end = torn
            .filter(|torn| torn.position == self.end && torn.time_ms >= self.time_ms)
            .map_or(start, |torn| torn.end().offset().min(bytes.len() as u64));
        let end = self.search(bytes, salt, self.last, (start, used));
        self.cut_bytes += end.max(torn_end) - start;
    }

    /// Looks for groups in a prepared segment. Reads the segment piece by piece, because it can be
    /// large and is usually empty.
    fn look_at_prepared(&mut self, prepared: &Found, last: &Found) -> Result<(), OpenError> {
        let header = prepared.header_of_log(last)?;
        let mut end = HEADER_BYTES;
        let mut offset = HEADER_BYTES;
        let mut piece = vec![0; PIECE_BYTES];
        let mut bad = BadBlocks::default();
        while offset + GROUP_HEADER_BYTES as u64 <= header.size {
            let want = piece.len().min((header.size - offset) as usize);
            let read = prepared.read_around(offset, &mut piece[..want], &mut bad)?;
            let piece = &piece[..read];
            let Some(places) = piece.len().checked_sub(GROUP_HEADER_BYTES - 1) else { break };
            let places_used = if is_zeros(piece) { 0 } else { places };
            for at in (0..places_used).step_by(8) {
                let position = Position::new(prepared.number, offset + at as u64);
                let group = GroupHeader::peek(&piece[at..]);
                if let Some(group) = group.filter(|group| group.position == position) {
                    let left = header.size - position.offset();
                    let len = left.min(GROUP_HEADER_BYTES as u64 + u64::from(group.len));
                    let bytes = prepared.bytes_at(position.offset(), len)?;
                    if let Some(group) = GroupHeader::check(&bytes, header.salt, position) {
                        end = end.max(self.note(&group).unwrap_or(end));
                    }
                }
            }
            offset += places.next_multiple_of(8) as u64;
        }
        self.cut_bytes += end - HEADER_BYTES;
        if bad.count() > 0 {
            self.unreadable_blocks += bad.count();
            self.spoiled.push(prepared.number);
        }
        prepared.close();
        Ok(())
    }

    /// Counts an intact group after the end of the log. Returns the group's end, or `None` if the
    /// group was left over from an earlier torn write.
    fn note(&mut self, group: &GroupHeader) -> Option<u64> {
        self.durable = self.durable.max(group.durable);
        if group.time_ms < self.time_ms {
            return None;
        }
        self.cut_groups += 1;
        Some(group.end().offset())
    }

    /// Calls `note` for every intact group that begins from `start` on and before `limit`. Returns
    /// the end of the last of these groups, or `start`. The result ignores groups that were left over
    /// from an earlier torn write.
    fn search(&mut self, bytes: &[u8], salt: u64, number: u32, (start, limit): (u64, u64)) -> u64 {
        let mut end = start;
        let places = (bytes.len() as u64).saturating_sub(GROUP_HEADER_BYTES as u64 - 1);
        for offset in (start..places.min(limit)).step_by(8) {
            if get_u32(bytes, offset as usize) == GROUP_MAGIC
                && let Some(group) = group_at(bytes, salt, number, offset)
            {
                end = end.max(self.note(&group).unwrap_or(end));
            }
        }
        end
    }
}

/// The bytes of a segment from an offset on.
fn rest_from(bytes: &[u8], offset: u64) -> &[u8] {
    bytes.get(offset as usize..).unwrap_or_default()
}

/// The header of the group at an offset, if the group is intact.
pub(crate) fn group_at(bytes: &[u8], salt: u64, number: u32, offset: u64) -> Option<GroupHeader> {
    let rest = bytes.get(offset as usize..)?;
    GroupHeader::check(rest, salt, Position::new(number, offset))
}

/// The highest segment whose first group is intact, its bytes, the offset from which on they are zeros,
/// and its blocks that cannot be read. At most two files can have a higher number. One is a segment
/// whose first group was being written at the crash. The other one is a prepared segment.
fn last_segment<'a>(
    folder: &'a Folder<'_>,
) -> Result<(&'a Found<'a>, Vec<u8>, u64, BadBlocks), OpenError> {
    let from_above: Vec<&'a Found<'a>> = folder.segments.values().rev().take(3).collect();
    let highest = from_above[0];
    let mut above = highest.number;
    for &found in &from_above {
        // A file gets its header before its number. So a broken header means that the file was
        // damaged later.
        let header = found.header()?;
        if found.number + 1 < above {
            return Err(missing(folder, found.number + 1, found.number, highest.number));
        }
        above = found.number;
        let (bytes, used, bad) = found.bytes_and_used(header.size)?;
        if group_at(&bytes, header.salt, found.number, HEADER_BYTES).is_some() {
            return Ok((found, bytes, used, bad));
        }
        let start = Position::new(found.number, HEADER_BYTES);
        bad.replaceable(start, rest_from(&bytes, HEADER_BYTES))?;
    }
    // Without damage, one of these segments has an intact first group. Segment 1 gets its number
    // only when its first group is durable. A file gets a higher number N only when segment N - 2
    // is durable up to its end.
    let lowest = from_above[from_above.len() - 1];
    Err(lowest.damaged(HEADER_BYTES, "the first group"))
}

/// The greatest *first* (lowest segment that is not void) in OPEN and TRIM entries. 0: there is no
/// such entry.
fn first_in(mut entries: &[u8]) -> Result<u32, &'static str> {
    let mut first = 0;
    while !entries.is_empty() {
        let entry = Entry::parse(entries)?;
        let named = match entry.kind {
            EntryKind::Open => entry.open().map(|(first, _)| first),
            EntryKind::Trim => entry.trim(),
            _ => Some(0),
        };
        first = first.max(named.ok_or("an entry's contents")?);
        entries = &entries[entry.bytes..];
    }
    Ok(first)
}

/// Checks that all files belong to one log, even void files. Otherwise a file of another log with a
/// higher number would make all segments of this log void.
fn check_ids(folder: &Folder) -> Result<(), OpenError> {
    let mut headed = folder.segments.values().filter(|found| found.header().is_ok());
    let Some(highest) = headed.next_back() else { return Ok(()) };
    headed.try_for_each(|found| found.header_of_log(highest).map(|_| ()))
}

/// Checks that every segment from `first` to `last` exists, has an intact header and its full size,
/// and belongs to this log.
fn check_files(folder: &Folder, tail: &Tail) -> Result<(), OpenError> {
    let last = &folder.segments[&tail.last];
    for number in tail.first..=tail.last {
        let found =
            folder.segment(number).ok_or_else(|| missing(folder, number, tail.first, tail.last))?;
        found.header_of_log(last)?;
    }
    Ok(())
}

fn missing(folder: &Folder, number: u32, first: u32, last: u32) -> OpenError {
    OpenError::MissingSegment {
        file: format!("{}/{}", folder.name, segment_name(number)),
        first,
        last,
    }
}
