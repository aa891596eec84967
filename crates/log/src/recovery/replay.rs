//! Reads the log's segments, and restores the live entries.

mod changes;
pub(crate) mod indexed;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use triomphe::Arc;

use crate::disk::DiskFile;
use crate::error::OpenError;
use crate::files::folder::{Folder, Found};
use crate::files::groups::{Group, GroupFault, Groups, SegmentBytes};
use crate::format::entry::{Entry, EntryKind, META_BYTES, StoredSlot, read_meta};
use crate::format::{GROUP_HEADER_BYTES, HEADER_BYTES};
use crate::liveness::Liveness;
use crate::recovery::ahead::{Seam, Source, read_segment};
use crate::recovery::replay::changes::{ChangeKind, Changes};
use crate::recovery::replay::indexed::{Indexed, UsedIndexes};
use crate::recovery::restored::{BodyCopy, Restored, RestoredBody};
use crate::recovery::tail::Tail;
use crate::settings::{ID_LIMIT_MAX, TIME_MS_MAX};
use crate::types::{Meta, Position, RecoveryProgress, RecoveryReport, Slot};

/// The fault of an entry whose checksum is right.
const CONTENTS: &str = "an entry's contents";
/// The fault of an entry that ends a slot which does not exist.
const NEVER_WRITTEN: &str = "a job was ended that was never written";
/// The fault of a group whose time is later than [`TIME_MS_MAX`].
pub(crate) const TOO_LATE: &str = "a time that is too late";

/// The ended slots of a segment: a bit set that grows when needed.
#[derive(Debug, Default)]
struct Killed(Vec<u64>);

impl Killed {
    /// Adds an ended slot. Returns false if the set already contains this slot.
    fn insert(&mut self, index: u32) -> bool {
        let (word, bit) = (index as usize / 64, 1 << (index % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }

    fn contains(&self, index: u32) -> bool {
        self.0.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// The highest index of an ended slot, plus 1.
    fn end(&self) -> u32 {
        let last = self.0.iter().rposition(|&word| word != 0);
        last.map_or(0, |word| word as u32 * 64 + 64 - self.0[word].leading_zeros())
    }
}

/// The state of one segment during replay.
#[derive(Debug, Default)]
struct Segment {
    end: u64,
    names: Vec<Box<[u8]>>,
    slots: u32,
    /// The segment has no room for more slots than this.
    slots_max: u32,
    killed: Killed,
    /// The segment's index, if the segment was read by it.
    index: Option<Indexed>,
}

impl Segment {
    fn of_size(bytes: u64) -> Segment {
        // Each slot takes a meta, and offsets have 32 bits.
        let slots_max = bytes.min(u32::MAX.into()) as u32 / META_BYTES as u32;
        Segment { slots_max, ..Segment::default() }
    }
}

/// A slot as its entry says it.
struct StoredJob<'a> {
    slot: Slot,
    entry_at: u32,
    position: Position,
    queue: u32,
    meta: Meta<'a>,
}

/// The newest value of a key. An empty value means that the fact was removed.
#[derive(Debug)]
pub(crate) struct Fact {
    position: Position,
    pub(crate) value: Box<[u8]>,
}

pub(crate) type Facts = HashMap<Box<[u8]>, Fact>;

/// The time and the facts of a log. The owner gets them before the jobs are restored.
#[derive(Copy, Clone, Debug)]
pub struct Begin<'a> {
    /// The time of the newest group. 0 for a new log.
    pub last_time_ms: u64,
    pub(crate) facts: &'a Facts,
}

impl Begin<'_> {
    /// The newest value of a key, if the key has a value.
    pub fn fact(&self, key: &[u8]) -> Option<&[u8]> {
        self.facts.get(key).map(|fact| &*fact.value).filter(|value| !value.is_empty())
    }
}

/// The state of a recovery.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    folder: &'a Folder<'a>,
    tail: &'a Tail,
    used_indexes: Option<UsedIndexes>,
    /// The segments from `tail.first` on.
    segments: Vec<Segment>,
    changes: Changes,
    facts: Facts,
    /// The newest limit of ids, and its position.
    id_limit: (Position, u64),
    id_max: u64,
    time_ms: u64,
    report: RecoveryReport,
    progress: RecoveryProgress,
}

impl<'a> Replay<'a> {
    /// With `used_indexes`, reads sealed segments by their index files.
    pub(crate) fn new(
        folder: &'a Folder<'a>,
        tail: &'a Tail,
        used_indexes: Option<UsedIndexes>,
    ) -> Replay<'a> {
        Replay {
            folder,
            tail,
            used_indexes,
            segments: Vec::new(),
            changes: Changes::default(),
            facts: HashMap::new(),
            id_limit: (Position(0), 1),
            id_max: 0,
            time_ms: 0,
            report: RecoveryReport::default(),
            progress: RecoveryProgress::default(),
        }
    }

    /// The lowest id above all ids that may have been used.
    pub(crate) fn next_id(&self) -> u64 {
        self.id_limit.1.max(self.id_max + 1)
    }

    pub(crate) fn time_ms(&self) -> u64 {
        self.time_ms
    }

    /// The argument for the owner's `begin` function.
    pub(crate) fn begin(&self) -> Begin<'_> {
        Begin { last_time_ms: self.time_ms, facts: &self.facts }
    }

    /// The number of NAME entries in the last segment.
    pub(crate) fn names_in_last(&self) -> u32 {
        self.segments.last().map_or(0, |segment| segment.names.len() as u32)
    }

    /// The report of the recovery.
    pub(crate) fn report(&self) -> RecoveryReport {
        let files = self.folder.segments.values();
        let headers = files.filter(|found| found.has_unreadable_header()).count() as u64;
        RecoveryReport {
            next_id: self.next_id(),
            last_time_ms: self.time_ms,
            segments: self.segments.len() as u64,
            cut_bytes: self.tail.cut_bytes,
            cut_groups: self.tail.cut_groups,
            unreadable_blocks: self.tail.unreadable_blocks + headers,
            ..self.report.clone()
        }
    }

    /// Calls `each` for every live fact, with the segment of its newest entry, its key and its
    /// value.
    pub(crate) fn facts(&self, mut each: impl FnMut(u32, &[u8], &[u8])) {
        for (key, fact) in &self.facts {
            if !fact.value.is_empty() {
                each(fact.position.segment(), key, &fact.value);
            }
        }
    }

    /// First pass: reads and verifies all segments. Collects the entries that end or change slots.
    /// Calls `on_progress` after each segment.
    pub(crate) fn read(
        &mut self,
        on_progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(), OpenError> {
        let tail = self.tail;
        let sizes: Vec<u64> = self
            .folder
            .segments
            .range(tail.first..=tail.last)
            .map(|(_, found)| found.size())
            .collect();
        self.progress.total_bytes = 2 * sizes.iter().sum::<u64>();
        self.segments = sizes.into_iter().map(Segment::of_size).collect();
        // The seam to the next segment. It says where this segment ends.
        let mut sealed: Option<Seam> = None;
        for number in (tail.first..=tail.last).rev() {
            self.forget_ended();
            let found = &self.folder.segments[&number];
            let end = match sealed {
                Some((end, _)) if end.segment() == number => end.offset(),
                Some(_) => {
                    return Err(found.damaged(HEADER_BYTES, "the next segment does not follow it"));
                }
                None => tail.end.offset(),
            };
            if let Some(next) = sealed
                && let Some(seam) = self.read_index(found, next)?
            {
                sealed = Some(seam);
                self.note_read(found, on_progress);
                continue;
            }
            let file = found.file()?;
            let source = self.source(found, end, &*file);
            sealed = Some(self.read_segment(source, sealed)?);
            self.note_read(found, on_progress);
        }
        self.check_changes()
    }

    /// The source of a segment that ends at the offset `end`. `tail` has the bytes of the last one.
    fn source<'s>(&self, found: &'s Found<'s>, end: u64, file: &'s dyn DiskFile) -> Source<'s>
    where
        'a: 's,
    {
        let bytes = if found.number == self.tail.last {
            SegmentBytes::Memory(&self.tail.bytes)
        } else {
            SegmentBytes::File(file)
        };
        Source { found, end, bytes }
    }

    /// Reads one segment, and returns the seam to the segment before it. Fails if a group before
    /// its end is damaged. `next` is the seam to the next segment.
    fn read_segment(&mut self, source: Source<'_>, next: Option<Seam>) -> Result<Seam, OpenError> {
        let found = source.found;
        let salt = found.header()?.salt;
        let check =
            |groups: &Groups<'_>| groups.each().try_for_each(|group| group.check_entries(salt));
        let (before, last) = read_segment(source, check, |groups, ()| {
            groups.each().try_for_each(|group| self.read_group(found, &group))
        })?;
        let index = (found.number - self.tail.first) as usize;
        self.segments[index].end = source.end;
        if next.is_some_and(|(_, crc)| last.1 != crc) {
            return Err(found.damaged(source.end, "the next segment does not follow it"));
        }
        if self.segments[index].killed.end() > self.segments[index].slots {
            return Err(found.damaged(source.end, NEVER_WRITTEN));
        }
        Ok(before)
    }

    /// Notes the entries of a group. Their checksums are right.
    fn read_group(&mut self, found: &Found, group: &Group<'_>) -> Result<(), OpenError> {
        let header = &group.header;
        if header.time_ms > TIME_MS_MAX {
            return Err(found.damaged(header.position.offset(), TOO_LATE));
        }
        self.time_ms = self.time_ms.max(header.time_ms);
        self.report.groups += 1;
        self.report.bytes += GROUP_HEADER_BYTES as u64 + u64::from(header.len);
        let mut count = 0;
        for (position, entry) in group.entries() {
            let noted = entry.and_then(|entry| self.entry(&entry, position));
            noted.map_err(|what| found.damaged(position.offset(), what))?;
            count += 1;
        }
        if count != header.count {
            return Err(found.damaged(header.position.offset(), "the number of entries"));
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry<'_>, position: Position) -> Result<(), &'static str> {
        let here = (position.segment() - self.tail.first) as usize;
        match entry.kind {
            EntryKind::Open => self.limit(position, entry.open().ok_or(CONTENTS)?.1)?,
            EntryKind::Ids => self.limit(position, entry.ids().ok_or(CONTENTS)?)?,
            EntryKind::Trim => {
                entry.trim().ok_or(CONTENTS)?;
            }
            EntryKind::Name => {
                let (number, name) = entry.name().ok_or(CONTENTS)?;
                let names = &mut self.segments[here].names;
                if number as usize != names.len() {
                    return Err("a queue's number");
                }
                names.push(name.into());
            }
            EntryKind::Put | EntryKind::Copy => {
                let mut fault = None;
                let slots = entry.for_each_slot(|slot| {
                    fault = fault.or(self.read_slot(here, position, &slot).err());
                });
                slots.ok_or(CONTENTS)?;
                fault.map_or(Ok(()), Err)?;
            }
            EntryKind::Finish => {
                for slot in entry.finished_slots().ok_or(CONTENTS)? {
                    self.kill(slot, position)?;
                }
            }
            EntryKind::Update => {
                let (slot, meta) = entry.split_slot().ok_or(CONTENTS)?;
                let (_, queue, rest) = read_meta(meta).ok_or(CONTENTS)?;
                if !rest.is_empty() || queue as usize >= self.segments[here].names.len() {
                    return Err(CONTENTS);
                }
                self.change(slot, ChangeKind::Update, position, meta)?;
            }
            EntryKind::Count => {
                let (slot, counters) = entry.split_slot().ok_or(CONTENTS)?;
                self.change(slot, ChangeKind::Count, position, counters)?;
            }
            EntryKind::Fact => {
                let (key, value) = entry.fact().ok_or(CONTENTS)?;
                self.fact(key, value, position);
            }
        }
        Ok(())
    }

    /// Notes a fact, if no newer value of its key is noted.
    fn fact(&mut self, key: &[u8], value: &[u8], position: Position) {
        if self.facts.get(key).is_none_or(|fact| fact.position < position) {
            self.facts.insert(key.into(), Fact { position, value: value.into() });
        }
    }

    fn limit(&mut self, position: Position, limit: u64) -> Result<(), &'static str> {
        if limit > ID_LIMIT_MAX {
            return Err("a limit of ids that is too high");
        }
        if position > self.id_limit.0 {
            self.id_limit = (position, limit);
        }
        Ok(())
    }

    fn read_slot(
        &mut self,
        here: usize,
        position: Position,
        stored: &StoredSlot<'_>,
    ) -> Result<(), &'static str> {
        if stored.queue as usize >= self.segments[here].names.len() {
            return Err("a queue's number");
        }
        if stored.meta.id >= ID_LIMIT_MAX {
            return Err("a job's id that is too high");
        }
        self.id_max = self.id_max.max(stored.meta.id);
        if let Some(slot) = stored.replaces.filter(|slot| slot.segment != 0) {
            self.kill(slot, position)?;
        }
        self.segments[here].slots += 1;
        Ok(())
    }

    /// Adds a slot to the ended slots of its segment. The entry at `position` ends the slot. The
    /// slot's segment may not be read yet, so `read_segment` checks later that the slot exists.
    /// Until then, the size of the segment limits the memory for its ended slots.
    fn kill(&mut self, slot: Slot, position: Position) -> Result<(), &'static str> {
        if slot.segment < self.tail.first {
            return Ok(());
        }
        self.check_age(slot, position)?;
        let segment = &mut self.segments[(slot.segment - self.tail.first) as usize];
        if slot.index >= segment.slots_max {
            return Err(NEVER_WRITTEN);
        }
        segment.killed.insert(slot.index).then_some(()).ok_or("a job was ended twice")
    }

    /// Checks that a slot is older than the entry at `position` that contains the slot.
    fn check_age(&self, slot: Slot, position: Position) -> Result<(), &'static str> {
        let here = position.segment();
        let slots = self.segments[(here - self.tail.first) as usize].slots;
        let older = slot.segment < here || slot.segment == here && slot.index < slots;
        older.then_some(()).ok_or("a job is named before it was written")
    }

    /// Stores an UPDATE or COUNT entry of a slot, if it is the newest entry of this kind so far.
    fn change(
        &mut self,
        slot: Slot,
        kind: ChangeKind,
        position: Position,
        bytes: &[u8],
    ) -> Result<(), &'static str> {
        if slot.segment < self.tail.first {
            return Ok(());
        }
        self.check_age(slot, position)?;
        if !self.segments[(slot.segment - self.tail.first) as usize].killed.contains(slot.index) {
            self.changes.note(slot, kind, position, bytes);
        }
        Ok(())
    }

    /// Forgets the changes of slots that have ended later in the segment of their changes.
    fn forget_ended(&mut self) {
        let (segments, first) = (&self.segments, self.tail.first);
        self.changes.forget_ended(|slot| {
            segments[(slot.segment - first) as usize].killed.contains(slot.index)
        });
    }

    /// Fails if an UPDATE or COUNT entry names a slot that was never written.
    fn check_changes(&self) -> Result<(), OpenError> {
        let first = self.tail.first;
        let stray = self
            .changes
            .position_of(|slot| slot.index >= self.segments[(slot.segment - first) as usize].slots);
        let Some(position) = stray else { return Ok(()) };
        let found = &self.folder.segments[&position.segment()];
        Err(found.damaged(position.offset(), "a job was changed that was never written"))
    }

    /// Notes that a pass has read a segment. Closes its file, but not that of the last segment: the log
    /// writes there.
    fn note_read(&mut self, found: &Found<'_>, on_progress: &mut dyn FnMut(RecoveryProgress)) {
        if found.number != self.tail.last {
            found.close();
        }
        self.progress.read_bytes += found.size();
        on_progress(self.progress);
    }

    /// Second pass: restores the live jobs in the order of their segments, then the live facts.
    /// Calls `on_progress` after each segment. Ends when `restore` fails.
    pub(crate) fn restore<E: From<OpenError>>(
        &mut self,
        restore: &mut dyn FnMut(Restored<'_>) -> Result<(), E>,
        on_progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<Liveness, E> {
        let first = self.tail.first;
        let mut live = Liveness::new(first);
        let changed = self.changed_slots();
        let unchanged = BTreeSet::new();
        for index in 0..self.segments.len() {
            live.push_segment();
            let number = first + index as u32;
            if let Some(indexed) = &self.segments[index].index {
                let changed = changed.get(&number).unwrap_or(&unchanged);
                self.restore_indexed(number, indexed, changed, &mut live, restore)?;
                self.note_read(&self.folder.segments[&number], on_progress);
                continue;
            }
            self.restore_segment(number, &mut live, restore)?;
            self.note_read(&self.folder.segments[&number], on_progress);
        }
        self.report.jobs = live.live();
        let mut facts: Vec<_> =
            self.facts.iter().filter(|(_, fact)| !fact.value.is_empty()).collect();
        // Restore the facts in the same order in every process. A hash map has no fixed order, so
        // sort the facts.
        facts.sort_unstable_by_key(|(_, fact)| fact.position);
        self.report.facts = facts.len() as u64;
        for (key, fact) in facts {
            restore(Restored::Fact { key, value: &fact.value, position: fact.position })?;
        }
        Ok(live)
    }

    /// Restores the live jobs of one segment.
    fn restore_segment<E: From<OpenError>>(
        &self,
        number: u32,
        live: &mut Liveness,
        restore: &mut dyn FnMut(Restored<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let found = &self.folder.segments[&number];
        let segment = &self.segments[(number - self.tail.first) as usize];
        let file = found.file()?;
        let source = self.source(found, segment.end, &*file);
        let contents = |position: Position| GroupFault::Damaged(position.offset(), CONTENTS);
        // Whether the owner keeps bodies in memory: whether it did so with one of the last groups. Then
        // the other thread makes their copies, because most of a start is the first use of memory.
        let wants_bodies = AtomicBool::new(true);
        let mut next = 0;
        let copy_bodies = |groups: &Groups<'_>| {
            let mut bodies = Vec::new();
            let wants_bodies = wants_bodies.load(Ordering::Relaxed);
            for (position, entry) in groups.puts() {
                let first = next;
                let body = entry.for_each_slot(|_| next += 1).ok_or_else(|| contents(position))?;
                if wants_bodies {
                    let live = (first..next).filter(|&index| !segment.killed.contains(index));
                    bodies.extend(live.map(|_| Arc::from(body)));
                }
            }
            Ok(bodies)
        };
        let mut index = 0;
        read_segment(source, copy_bodies, |groups, bodies| {
            let mut bodies = bodies.into_iter();
            let copy = BodyCopy::default();
            let mut slots = Vec::new();
            for (at, entry) in groups.puts() {
                slots.clear();
                let body = entry.for_each_slot(|stored| slots.push(stored));
                let body = body.ok_or_else(|| found.fault(contents(at)))?;
                let position = Position(at.0 + entry.bytes as u64);
                let share = (entry.bytes / slots.len().max(1)) as u64;
                for stored in &slots {
                    let slot = Slot { segment: number, index };
                    live.push(share);
                    if segment.killed.contains(index) {
                        live.kill(slot);
                    } else {
                        let StoredSlot { queue, meta, .. } = *stored;
                        let entry_at = at.offset() as u32;
                        let job = StoredJob { slot, entry_at, position, queue, meta };
                        copy.set(bodies.next());
                        self.restore_job(&job, RestoredBody::here(body, Some(&copy)), restore)?;
                    }
                    index += 1;
                }
            }
            wants_bodies.store(copy.was_wanted(), Ordering::Relaxed);
            Ok::<(), E>(())
        })?;
        if index != segment.slots {
            return Err(found.damaged(HEADER_BYTES, "the file changed while it was read").into());
        }
        Ok(())
    }

    fn restore_job<E>(
        &self,
        stored: &StoredJob<'_>,
        body: RestoredBody<'_>,
        restore: &mut dyn FnMut(Restored<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let StoredJob { slot, entry_at, position, .. } = *stored;
        let (update, count) = self.changes.of(slot);
        let (meta, queue, named_in) = match update {
            Some((at, meta)) => {
                let (meta, queue, _) = read_meta(meta).expect("updates were read before");
                (meta, queue, at.segment())
            }
            None => (stored.meta, stored.queue, slot.segment),
        };
        let newer = count.filter(|(at, _)| update.is_none_or(|(updated, _)| updated < *at));
        restore(Restored::Job {
            slot,
            entry_at,
            position,
            queue: &self.segments[(named_in - self.tail.first) as usize].names[queue as usize],
            meta,
            counters: newer.map(|(_, counters)| counters),
            is_changed: update.is_some() || newer.is_some(),
            body,
        })
    }
}
