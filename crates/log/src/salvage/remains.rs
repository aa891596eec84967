//! Reads the intact part of a log that the server refuses when it starts.
//!
//! This module makes two passes, as `recovery` does. But it reads the segments from the oldest to
//! the newest, and continues after gaps.
//!
//! A finish names a job by the index of its slot. After a gap, the index of a slot is known only
//! within bounds: the gap may have had slots, too. A wrong index must not cause the loss of another
//! job. So a job counts as finished only if it was certainly finished. Otherwise it is restored,
//! and may run twice.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::pieces::{Outline, Pages, Piece};
use super::{Loss, Salvage};
use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::files::segments::{segment_name, segment_number};
use crate::format::entry::{Entry, EntryKind, StoredSlot, read_meta};
use crate::format::{
    GROUP_HEADER_BYTES, GroupHeader, HEADER_BYTES, HeaderFault, SegmentHeader, get_u64,
};
use crate::recovery::replay::TOO_LATE;
use crate::recovery::restored::{Restored, RestoredBody};
use crate::settings::{ID_BLOCK, ID_LIMIT_MAX, TIME_MS_MAX};
use crate::types::{Meta, Position, Slot};

/// If the disk cannot read a file in one read, this module reads pieces of this many bytes.
const PIECE_BYTES: usize = 4096;
/// The maximum number of bytes to read from a file whose header is lost, because the header has the
/// segment's size. A position cannot have a higher offset, so no group can be after these bytes.
const FILE_BYTES_MAX: u64 = u32::MAX as u64;
/// Bytes of the fields of a segment's header, and of their checksum.
const HEADER_FIELDS_BYTES: usize = 52;
/// The offset of the salt in a segment's header.
const SALT_AT: usize = 40;
/// The kind of damage in the report of a gap.
const NOTHING_PROVED: &str = "no entry there passes its checksum";
/// The number of ids to skip. An entry that raised the limit of ids may be lost. So ids above the
/// highest limit that was found may have been used.
const IDS_SKIPPED: u64 = 16 * ID_BLOCK;

/// The data of a segment that the first pass found.
#[derive(Debug)]
struct Segment {
    len: u64,
    salt: u64,
    /// The end of the log's bytes in the segment, as far as it is known.
    end: u64,
    names: HashMap<u32, Box<[u8]>>,
    /// The number of slots found so far.
    slots: u32,
    /// The indices of the slots that another entry ended, such as a FINISH. These indices are
    /// exact, because those entries contain them.
    ended: Vec<u32>,
}

/// The newest value so far, and the position of its entry.
type Newest<T> = (Position, T);

#[derive(Debug, Default)]
struct Remains {
    folder: String,
    segments: BTreeMap<u32, Segment>,
    /// The greatest *first* (lowest segment that is not void) in OPEN and TRIM entries.
    first: u32,
    /// The highest file that is certainly a segment, because it has a valid header or an intact
    /// group.
    last: u32,
    /// The position of the last COPY entry of each job, by the job's id.
    copies: HashMap<u64, Position>,
    updates: HashMap<u64, Newest<Box<[u8]>>>,
    counts: HashMap<Slot, Newest<Box<[u8]>>>,
    facts: HashMap<Box<[u8]>, Newest<Box<[u8]>>>,
    next_id: u64,
    /// The last intact group so far.
    previous: Option<GroupHeader>,
    losses: Vec<(Position, Loss)>,
    salvage: Salvage,
}

/// Reads the intact part of the log. `refusal` is the error of a start with this log.
pub(super) fn read(
    disk: &dyn Disk,
    refusal: OpenError,
    restore: &mut dyn FnMut(Restored<'_>),
) -> Result<Salvage, OpenError> {
    let mut remains = Remains { folder: disk.folder(), next_id: 1, ..Remains::default() };
    remains.find(disk)?;
    let numbers: Vec<u32> = remains.segments.keys().copied().collect();
    for &number in &numbers {
        remains.gather(disk, number)?;
    }
    remains.note_missing();
    for &number in &numbers {
        if number >= remains.first {
            remains.restore(disk, number, restore)?;
        }
    }
    remains.restore_facts(restore);
    Ok(remains.finish(refusal))
}

/// The file's bytes, with zeros in place of unreadable pieces.
fn bytes_of(file: &dyn DiskFile, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    match file.read_at(&mut bytes, 0) {
        Ok(read) => bytes.truncate(read),
        Err(_) => {
            for (index, piece) in bytes.chunks_mut(PIECE_BYTES).enumerate() {
                if file.read_at(piece, (index * PIECE_BYTES) as u64).is_err() {
                    piece.fill(0);
                }
            }
        }
    }
    bytes
}

/// Repairs a segment header. This works if only one byte of the header's fields is wrong, or if
/// only bytes after the fields are wrong.
fn repaired_header(page: &[u8]) -> Option<SegmentHeader> {
    let mut tried = vec![0; HEADER_BYTES as usize];
    tried[..HEADER_FIELDS_BYTES].copy_from_slice(page.get(..HEADER_FIELDS_BYTES)?);
    for at in 0..HEADER_FIELDS_BYTES {
        let found = tried[at];
        for value in 0..=u8::MAX {
            tried[at] = value;
            if let Ok(header) = SegmentHeader::decode(&tried) {
                return Some(header);
            }
        }
        tried[at] = found;
    }
    None
}

/// The end of a segment, according to the first group of the next segment. The header of this group
/// has the end and the checksum of the group before it. If the header is damaged, one of these two
/// fields may still be correct.
fn end_by_next(next: &Outline, number: u32, outline: Outline) -> Option<u64> {
    let first = next.first?;
    let stated = Some(first.previous_end).filter(|end| end.segment() == number);
    match stated {
        Some(stated) if next.is_first_whole => Some(stated.offset()),
        _ if first.previous_crc == outline.crc => Some(outline.end),
        _ => stated.map(|stated| stated.offset().max(outline.end)),
    }
}

impl Remains {
    fn path(&self, number: u32) -> String {
        format!("{}/{}", self.folder, segment_name(number))
    }

    fn lose(
        &mut self,
        number: u32,
        (start, end): (u64, u64),
        jobs_max: Option<u64>,
        what: &'static str,
    ) {
        let file = self.path(number);
        let loss = Loss { file, offset: start, bytes: end - start, jobs_max, what };
        self.losses.push((Position::new(number, start), loss));
    }

    /// Reads all segments, and finds the end of each segment.
    fn find(&mut self, disk: &dyn Disk) -> Result<(), OpenError> {
        let fail = |doing: String, error| OpenError::from_io(&disk.folder(), doing, error);
        let names = disk.list().map_err(|error| fail("list the files".into(), error))?;
        let mut outlines: BTreeMap<u32, (u64, u64, Outline)> = BTreeMap::new();
        let mut log_id: Option<([u8; 16], u32)> = None;
        for number in names.iter().filter_map(|name| segment_number(name)) {
            let opened = disk.open(&segment_name(number)).and_then(|file| Ok((file.size()?, file)));
            let (len, file) =
                opened.map_err(|error| fail(format!("open {}", segment_name(number)), error))?;
            let page = bytes_of(file.as_ref(), len.min(HEADER_BYTES));
            let header = self.header(number, &page)?;
            if let Some(header) = header {
                let (id, other) = *log_id.get_or_insert((header.log_id, number));
                if id != header.log_id {
                    let (file, other) = (self.path(number), self.path(other));
                    return Err(OpenError::ForeignLog { file, other });
                }
            }
            // If the header is damaged, this function uses the header's salt without a check. If
            // the salt is wrong, no group passes its checksum.
            let salt = || page.get(SALT_AT..SALT_AT + 8).map_or(0, |salt| get_u64(salt, 0));
            let header = header.filter(|header| header.number == number);
            let (size, salt) = header.map_or_else(
                || (len.min(FILE_BYTES_MAX), salt()),
                |header| (header.size, header.salt),
            );
            // Ignore bytes after the segment's size, because there may be very many.
            let len = len.min(size);
            let bytes = bytes_of(file.as_ref(), len);
            let outline = Pages { number, salt, bytes }.outline();
            if header.is_some() || outline.end > HEADER_BYTES {
                self.last = self.last.max(number);
            }
            outlines.insert(number, (len, size, outline));
            let (names, ended) = (HashMap::new(), Vec::new());
            let segment = Segment { len, salt, end: HEADER_BYTES, names, slots: 0, ended };
            self.segments.insert(number, segment);
        }
        let durable = outlines.values().map(|(.., outline)| outline.durable).max();
        self.find_ends(&outlines, durable.unwrap_or_default());
        Ok(())
    }

    /// A segment's header. `None`: the header is damaged and cannot be repaired.
    fn header(&mut self, number: u32, page: &[u8]) -> Result<Option<SegmentHeader>, OpenError> {
        match SegmentHeader::decode(page) {
            Ok(header) => Ok(Some(header)),
            Err(HeaderFault::Format(found)) => {
                let file = self.path(number);
                Err(OpenError::Format { file, found, known: crate::format::FORMAT })
            }
            Err(HeaderFault::Damaged) => {
                let header = repaired_header(page);
                // Without the header, the salt may be lost, too. Then no checksum in the file can
                // be verified, and the number of lost jobs is unknown.
                let jobs_max = header.map(|_| 0);
                self.lose(number, (0, page.len() as u64), jobs_max, "the segment's header");
                Ok(header)
            }
        }
    }

    /// Finds the end of each segment. `outlines` contains the length, the expected size and the
    /// groups of each file. The log was once durable up to `durable`.
    fn find_ends(&mut self, outlines: &BTreeMap<u32, (u64, u64, Outline)>, durable: Position) {
        for (&number, &(len, size, outline)) in outlines {
            let next = number.checked_add(1).and_then(|next| outlines.get(&next));
            let stated = next.and_then(|(_, _, next)| end_by_next(next, number, outline));
            let end = match stated {
                Some(end) => end,
                None if durable.segment() > number => {
                    let what = "the segment's end is unknown: the next segment does not say it";
                    self.lose(number, (outline.end, outline.end), None, what);
                    outline.end
                }
                None if durable.segment() == number => outline.chain_end.max(durable.offset()),
                None => outline.chain_end,
            };
            if stated.is_none() && outline.end > end {
                self.salvage.report.cut_bytes += outline.end - end;
                self.salvage.report.cut_groups += outline.beyond;
            }
            let certain_end = if stated.is_some() { end } else { size };
            if certain_end > len {
                self.lose(number, (len, certain_end), None, "the file ends");
            }
            if let Some(segment) = self.segments.get_mut(&number) {
                segment.end = end.min(len);
            }
        }
    }

    /// The bytes of a segment, and the end up to which they belong to the log. The file is open only here,
    /// because a log can have more segments than a process can have open files. If it cannot be opened
    /// again, the salvage fails: otherwise its jobs would be missing without a report.
    fn pages(&self, disk: &dyn Disk, number: u32) -> Result<(Pages, u64), OpenError> {
        let segment = &self.segments[&number];
        let name = segment_name(number);
        let file = disk
            .open(&name)
            .map_err(|error| OpenError::from_io(&self.folder, format!("open {name}"), error))?;
        let bytes = bytes_of(file.as_ref(), segment.len);
        let end = segment.end.min(bytes.len() as u64);
        Ok((Pages { number, salt: segment.salt, bytes }, end))
    }

    /// First pass: reads a segment, and collects the entries that end or change slots.
    fn gather(&mut self, disk: &dyn Disk, number: u32) -> Result<(), OpenError> {
        let (pages, end) = self.pages(disk, number)?;
        // The offset of the header of a broken group, while all entries of the group so far are
        // intact. If all its entries are intact, only the header is lost.
        let mut broken = None;
        pages.walk(end, |piece| match piece {
            Piece::BrokenGroup(at) => self.lose_header(number, broken.replace(at)),
            Piece::Group(group) => {
                self.lose_header(number, broken.take());
                self.check_chain(&group);
                self.salvage.report.groups += 1;
                if group.time_ms > TIME_MS_MAX {
                    let start = group.position.offset();
                    let header = (start, start + GROUP_HEADER_BYTES as u64);
                    self.lose(number, header, Some(0), TOO_LATE);
                    return;
                }
                let time_ms = &mut self.salvage.report.last_time_ms;
                *time_ms = (*time_ms).max(group.time_ms);
            }
            Piece::Entry(position, entry) => {
                self.salvage.report.bytes += entry.bytes as u64;
                if self.entry(position, &entry).is_none() {
                    let start = position.offset();
                    let end = start + entry.bytes as u64;
                    self.lose(number, (start, end), None, "an entry's contents");
                }
            }
            Piece::Gap { start, end, slots } => {
                broken = None;
                self.lose(number, (start, end), Some(slots.max), NOTHING_PROVED);
            }
        });
        self.lose_header(number, broken);
        Ok(())
    }

    /// Reports a group that begins at the end of the previous group, but does not follow it in the
    /// chain. The group may be left over from a torn write, in the place of a lost group.
    fn check_chain(&mut self, group: &GroupHeader) {
        let at = group.position;
        if let Some(previous) = self.previous.replace(*group)
            && [at, group.previous_end].contains(&previous.end())
            && !group.follows(&previous)
        {
            let what = "a group does not follow the one before it";
            self.lose(at.segment(), (at.offset(), at.offset()), None, what);
        }
    }

    fn lose_header(&mut self, number: u32, at: Option<u64>) {
        if let Some(at) = at {
            self.lose(number, (at, at + GROUP_HEADER_BYTES as u64), Some(0), "a group's header");
        }
    }

    fn entry(&mut self, position: Position, entry: &Entry<'_>) -> Option<()> {
        match entry.kind {
            EntryKind::Open => {
                let (first, limit) = entry.open()?;
                self.first = self.first.max(first);
                self.limit(limit)?;
            }
            EntryKind::Ids => self.limit(entry.ids()?)?,
            EntryKind::Trim => self.first = self.first.max(entry.trim()?),
            EntryKind::Name => {
                let (number, name) = entry.name()?;
                self.segment(position).names.insert(number, name.into());
            }
            EntryKind::Put | EntryKind::Copy => {
                let mut are_ids = true;
                entry.for_each_slot(|stored| {
                    self.segment(position).slots += 1;
                    if stored.meta.id >= ID_LIMIT_MAX {
                        are_ids = false;
                        return;
                    }
                    self.next_id = self.next_id.max(stored.meta.id.saturating_add(1));
                    if let Some(slot) = stored.replaces {
                        self.end(slot);
                        self.copies.insert(stored.meta.id, position);
                    }
                })?;
                return are_ids.then_some(());
            }
            EntryKind::Finish => entry.finished_slots()?.for_each(|slot| self.end(slot)),
            EntryKind::Update => {
                let (_, bytes) = entry.split_slot()?;
                let (meta, ..) = read_meta(bytes)?;
                self.updates.insert(meta.id, (position, bytes.into()));
            }
            EntryKind::Count => {
                let (slot, counters) = entry.split_slot()?;
                self.counts.insert(slot, (position, counters.into()));
            }
            EntryKind::Fact => {
                let (key, value) = entry.fact()?;
                self.facts.insert(key.into(), (position, value.into()));
            }
        }
        Some(())
    }

    /// Raises `next_id` to a limit of ids, because ids below the limit may have been used. Returns
    /// `None` if the limit is impossible.
    fn limit(&mut self, limit: u64) -> Option<()> {
        self.next_id = self.next_id.max(Some(limit).filter(|limit| *limit <= ID_LIMIT_MAX)?);
        Some(())
    }

    fn segment(&mut self, position: Position) -> &mut Segment {
        let segment = self.segments.get_mut(&position.segment());
        segment.expect("only segments that were found are walked over")
    }

    fn end(&mut self, slot: Slot) {
        // If the segment was not found, there is no job to end.
        if let Some(segment) = self.segments.get_mut(&slot.segment) {
            segment.ended.push(slot.index);
        }
    }

    /// Second pass: restores all jobs of a segment that may be live.
    fn restore(
        &mut self,
        disk: &dyn Disk,
        number: u32,
        restore: &mut dyn FnMut(Restored<'_>),
    ) -> Result<(), OpenError> {
        let (pages, end) = self.pages(disk, number)?;
        let mut ended = std::mem::take(&mut self.segments.get_mut(&number).expect("found").ended);
        ended.sort_unstable();
        ended.dedup();
        let mut index: u32 = 0;
        // The highest possible number of lost slots that `index` does not count.
        let mut lost_max = 0;
        pages.walk(end, |piece| match piece {
            Piece::Group(_) | Piece::BrokenGroup(_) => {}
            Piece::Gap { start, end, slots } => {
                index = index.saturating_add(u32::try_from(slots.min).unwrap_or(u32::MAX));
                lost_max += slots.max - slots.min;
                // Report the gap in this pass, too. If the disk read these bytes without an error
                // in the first pass, the first pass reported nothing. `finish` removes equal
                // reports.
                self.lose(number, (start, end), Some(slots.max), NOTHING_PROVED);
            }
            Piece::Entry(position, entry) => {
                if !matches!(entry.kind, EntryKind::Put | EntryKind::Copy) {
                    return;
                }
                let mut slots = Vec::new();
                let body = entry.for_each_slot(|stored| slots.push(stored)).unwrap_or_default();
                for stored in &slots {
                    // The slot's index is at least `index`, and at most `highest`.
                    let highest = u64::from(index) + lost_max;
                    let from = ended.partition_point(|&ended| ended < index);
                    let to = ended.partition_point(|&ended| u64::from(ended) <= highest);
                    let slot = Slot { segment: number, index };
                    index += 1;
                    let is_id = stored.meta.id < ID_LIMIT_MAX;
                    let is_copied =
                        self.copies.get(&stored.meta.id).is_some_and(|copy| *copy > position);
                    if !is_id || is_copied || (to - from) as u64 == lost_max + 1 {
                        continue;
                    }
                    self.salvage.doubtful_jobs += u64::from(to > from);
                    let entry_at = position.offset() as u32;
                    let entry_end = position.offset() + entry.bytes as u64;
                    let place = (entry_at, Position::new(number, entry_end));
                    let is_numbered = lost_max == 0;
                    self.restore_job(slot, is_numbered, place, stored, body, restore);
                }
            }
        });
        self.salvage.report.segments += 1;
        Ok(())
    }

    fn restore_job(
        &mut self,
        slot: Slot,
        is_numbered: bool,
        (entry_at, position): (u32, Position),
        stored: &StoredSlot<'_>,
        body: &[u8],
        restore: &mut dyn FnMut(Restored<'_>),
    ) {
        // `at` is the start of the UPDATE entry, and `position` is the end of the job's entry. They
        // are equal if the UPDATE is the next entry.
        let update = self.updates.get(&stored.meta.id).filter(|(at, _)| *at >= position);
        let count = self.counts.get(&slot).filter(|(at, _)| {
            // If the slot's index is uncertain, the counters may be those of another job.
            is_numbered && update.is_none_or(|(updated, _)| updated < at)
        });
        let (meta, queue, named_in): (Meta<'_>, u32, u32) = match update {
            Some((at, bytes)) => {
                let (meta, queue, _) = read_meta(bytes).expect("updates were read before");
                (meta, queue, at.segment())
            }
            None => (stored.meta, stored.queue, slot.segment),
        };
        let name = self.segments[&named_in].names.get(&queue);
        self.salvage.unnamed_jobs += u64::from(name.is_none());
        let substitute = || format!("lost-queue-{named_in}-{queue}").into_bytes();
        let queue = name.map_or_else(|| Cow::Owned(substitute()), |name| Cow::Borrowed(&name[..]));
        self.salvage.report.jobs += 1;
        let counters = count.map(|(_, counters)| &counters[..]);
        let is_changed = update.is_some() || counters.is_some();
        restore(Restored::Job {
            slot,
            entry_at,
            position,
            queue: &queue,
            meta,
            counters,
            is_changed,
            body: RestoredBody::here(body, None),
        });
    }

    fn restore_facts(&mut self, restore: &mut dyn FnMut(Restored<'_>)) {
        let mut facts: Vec<_> = self.facts.iter().collect();
        // Leave out removed facts, and facts in void segments. A fact in a void segment was removed
        // or written again later.
        facts.retain(|(_, (at, value))| !value.is_empty() && at.segment() >= self.first);
        // Restore the facts in the same order in every process. A hash map has no fixed order, so
        // sort the facts.
        facts.sort_unstable_by_key(|(_, (position, _))| *position);
        self.salvage.report.facts = facts.len() as u64;
        for (key, (position, value)) in facts {
            restore(Restored::Fact { key, value, position: *position });
        }
    }

    fn note_missing(&mut self) {
        let mut expected = self.first.max(1);
        let found = self.segments.range(expected..).map(|(&number, _)| number);
        for number in found.take_while(|number| *number <= self.last).collect::<Vec<_>>() {
            if number > expected {
                self.lose(expected, (0, 0), None, "missing");
                if let Some((_, loss)) = self.losses.last_mut().filter(|_| number - expected > 1) {
                    loss.file = format!("{} to {}", loss.file, segment_name(number - 1));
                }
            }
            expected = number + 1;
        }
    }

    fn finish(mut self, refusal: OpenError) -> Salvage {
        let first = self.first;
        self.losses.retain(|(position, _)| position.segment() >= first);
        self.losses.sort_by_key(|(position, _)| *position);
        self.losses.dedup();
        self.salvage.losses = self.losses.into_iter().map(|(_, loss)| loss).collect();
        // A start must be able to reserve a block of ids after this id.
        let next_id_max = ID_LIMIT_MAX - ID_BLOCK;
        self.salvage.report.next_id = (self.next_id + IDS_SKIPPED).min(next_id_max);
        self.salvage.refusal = Some(refusal);
        self.salvage
    }
}
