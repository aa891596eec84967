//! The open batch: the entries that the committer has not taken yet. An append encodes its entry
//! directly into the bytes of the next group, or keeps its large body beside them (`part`). So the
//! append can return the entry's position.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use crate::format::entry::{
    ENTRY_HEAD_BYTES, EntryKind, META_BYTES, SHARED_FINISH_BYTES_MAX, begin_entry, extend_finish,
    finish_entry, write_slots,
};
use crate::format::{GROUP_HEADER_BYTES, HEADER_BYTES, get_u32, padded};
use crate::liveness::{INDEX_BYTES, Liveness};
use crate::settings::{BACKLOG_BYTES, COPIES_BYTES_MAX, OPEN_BATCH_BYTES_MAX, SHARED_BYTES_MIN};
use crate::types::{BodyRef, Position, QueueRef, Slot};
use crate::write::lazy::LazyCounts;
use crate::write::part::Part;

/// Bytes of an OPEN entry.
const OPEN_BYTES: usize = 24;
/// A buffer with more capacity than this is not reused, but freed. A full open batch is half as
/// large, but a `Vec` can have twice the capacity that it needs.
const RECYCLED_BYTES_MAX: usize = 2 * OPEN_BATCH_BYTES_MAX as usize;
/// Bytes of an IDS entry.
pub const ID_LIMIT_BYTES: u64 = 24;
/// Bytes at the end of each segment that are reserved for starts of the server. Each start appends
/// one group. So even if there is no room for another segment, the server can start a few times.
pub(crate) const KEPT_FOR_STARTS: u64 = 1024;
/// The bytes of a segment up to the end of its OPEN entry.
const SEGMENT_OVERHEAD: u64 = HEADER_BYTES + (GROUP_HEADER_BYTES + OPEN_BYTES) as u64;

/// Bytes of a NAME entry.
pub fn name_bytes(name: &[u8]) -> u64 {
    padded(16 + name.len()) as u64
}

/// Bytes of an UPDATE entry whose meta has this many bytes of options.
pub fn update_bytes(options_bytes: usize) -> u64 {
    padded(ENTRY_HEAD_BYTES + 8 + META_BYTES + options_bytes) as u64
}

/// Bytes of a COUNT entry.
pub fn count_bytes(counters: &[u8]) -> u64 {
    padded(ENTRY_HEAD_BYTES + 8 + counters.len()) as u64
}

/// Bytes of the FINISH entries for this many jobs that end one after the other, without another entry
/// between them.
pub fn finishes_bytes(jobs: u64) -> u64 {
    let jobs_max = (SHARED_FINISH_BYTES_MAX - ENTRY_HEAD_BYTES) as u64 / 8;
    jobs * 8 + jobs.div_ceil(jobs_max) * padded(ENTRY_HEAD_BYTES) as u64
}

/// Bytes of a FACT entry.
pub fn fact_entry_bytes(key: &[u8], value: &[u8]) -> u64 {
    padded(ENTRY_HEAD_BYTES + 4 + key.len() + value.len()) as u64
}

/// The newest value of a fact's key, and the segment of its entry.
#[derive(Debug)]
pub(crate) struct FactPlace {
    pub(crate) segment: u32,
    pub(crate) value: Box<[u8]>,
}

/// All state that appends change. The appenders' lock (`Log::open`) protects it.
#[derive(Debug)]
pub(crate) struct Open {
    /// Parts that ended since the committer last took the batch: their segment became full, or the
    /// owner cut them. While a gate is closed, also the parts behind it.
    ended: VecDeque<Part>,
    part: Part,
    /// The offset of the newest entry in the bytes of the part, if it is a FINISH entry. Further
    /// finishes are added to it, so they need fewer bytes.
    last_finish: Option<usize>,
    /// The committer takes only parts that end at this position or before. `None`: it takes all.
    gate: Option<Position>,
    segment_bytes: u64,
    /// The index is the owner's number of a queue. The value is the last segment with a NAME entry
    /// for the queue, and the queue's number in this segment.
    names: Vec<(u32, u32)>,
    names_in_segment: u32,
    /// An empty buffer for the next part. The log uses two buffers in turn.
    recycled: Option<Vec<u8>>,
    pub(crate) lazy: LazyCounts,
    pub(crate) live: Liveness,
    /// The newest value of each key. This is not a hash table, because a growing hash table is
    /// rebuilt in one step. That step would be long: there can be as many facts as queues.
    facts: BTreeMap<Arc<[u8]>, FactPlace>,
    /// The keys of the facts in each segment. They are sorted, because reclaim copies facts in this
    /// order. With the order of a hash map, the bytes of the log would differ from run to run.
    fact_keys: BTreeMap<u32, BTreeSet<Arc<[u8]>>>,
    fact_bytes: u64,
    /// The lowest segment that is not void. The newest TRIM contains this number.
    pub(crate) first: u32,
    /// The newest limit of ids in the log. When the entry with this limit is durable, recovery
    /// treats all ids below the limit as used.
    pub(crate) id_limit: u64,
    /// The newest time that an append got, in milliseconds of the log's time. This time never goes
    /// back.
    pub(crate) time_ms: u64,
    /// Bytes of the entries of clients' changes. Copies and the log's own entries are not included.
    pub(crate) client_bytes: u64,
    /// Bytes of group headers, and of unused ends of segments that clients' changes left.
    pub(crate) slack_bytes: u64,
    /// Bytes of all entries and group headers since the log was opened.
    pub(crate) written_bytes: u64,
    /// Bytes of the segments that the open batch has begun, but whose files the committer has not
    /// taken yet. Counts only segments of the usual size.
    pub(crate) claimed_bytes: u64,
    /// Like `claimed_bytes`, for larger segments. Each larger segment is made for one big entry.
    pub(crate) claimed_big_bytes: u64,
    /// The number of entries appended since the log was opened. Finishes that were added to an
    /// entry count, too.
    pub(crate) entries: u64,
    /// How many of `entries` are copies by reclaim.
    pub(crate) copies: u64,
    /// How many of `entries` reclaim needed for its copies: these, and the names of their queues.
    for_copies: u64,
    /// The value of `entries` minus `for_copies` when the committer last took the batch.
    taken: u64,
    /// While the group fills: the value of `waiting` at which the committer must wake. 0: at once.
    pub(crate) full_at: u64,
    pub(crate) closed: bool,
}

/// Where appends begin when the server starts.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Head {
    pub(crate) segment: u32,
    pub(crate) segment_size: u64,
    pub(crate) offset: u64,
    pub(crate) id_limit: u64,
    /// The number of NAME entries that the segment already has.
    pub(crate) names: u32,
    pub(crate) time_ms: u64,
}

impl Open {
    pub(crate) fn new(head: Head, segment_bytes: u64, live: Liveness) -> Open {
        Open {
            ended: VecDeque::new(),
            gate: None,
            last_finish: None,
            part: Part::new(head.segment, head.segment_size, head.offset, None),
            segment_bytes,
            names: Vec::new(),
            names_in_segment: head.names,
            recycled: None,
            lazy: LazyCounts::new(segment_bytes),
            first: live.first(),
            live,
            facts: BTreeMap::new(),
            fact_keys: BTreeMap::new(),
            fact_bytes: 0,
            id_limit: head.id_limit,
            time_ms: head.time_ms,
            client_bytes: 0,
            slack_bytes: 0,
            written_bytes: 0,
            claimed_bytes: 0,
            claimed_big_bytes: 0,
            entries: 0,
            copies: 0,
            for_copies: 0,
            taken: 0,
            full_at: 0,
            closed: false,
        }
    }

    /// Bytes of live entries, plus `INDEX_BYTES` for each of them.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live.live_bytes() + self.fact_bytes + self.facts.len() as u64 * INDEX_BYTES
    }

    /// Bytes of live entries in the files, without an index.
    pub(crate) fn entry_bytes(&self) -> u64 {
        self.live.entry_bytes() + self.fact_bytes
    }

    /// The segment that gets the next entry.
    pub(crate) fn segment(&self) -> u32 {
        self.part.segment
    }

    /// The bytes that clients have used in the files. Reclaim may scan a number of bytes in
    /// proportion to this number.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.client_bytes + self.slack_bytes
    }

    /// Bytes left in the segment that gets the next entry.
    pub(crate) fn remaining(&self) -> u64 {
        // The difference can be negative, because the segment may have no room for the header of
        // the next group.
        self.part.segment_size.saturating_sub(self.part.start + self.part.size() as u64)
    }

    /// Bytes that wait for the committer. The committer leaves lazy counters for up to a second, so
    /// they do not count: no client is held back because of them.
    pub(crate) fn bytes(&self) -> usize {
        let ended: usize = self.ended.iter().map(Part::size).sum();
        ended + if self.part.is_empty() { 0 } else { self.part.size() }
    }

    /// Whether the committer can take entries now. Lazy counters are not entries yet, and entries
    /// behind the gate cannot be taken.
    pub(crate) fn has_entries(&self) -> bool {
        match self.gate {
            None => !self.ended.is_empty() || !self.part.is_empty(),
            Some(gate) => self.ended.front().is_some_and(|part| part.end() <= gate),
        }
    }

    /// Whether the committer must take entries now. Nobody waits for reclaim's copies, so a few of
    /// them alone are not due. They are taken in the next step: when there are many, when other
    /// entries come, or a second later. If the committer wrote and synced each few copies, clients
    /// would find the disk busy nearly always.
    pub(crate) fn is_due(&self) -> bool {
        let copies_max = COPIES_BYTES_MAX.min(self.segment_bytes / 16) as usize;
        let has_few_copies =
            self.ended.is_empty() && self.waiting() == 0 && self.bytes() < copies_max;
        self.has_entries() && !has_few_copies
    }

    pub(crate) fn gate(&self) -> Option<Position> {
        self.gate
    }

    pub(crate) fn set_gate(&mut self, gate: Option<Position>) {
        self.gate = gate;
    }

    /// Ends the current part, so that its entries become one group. Returns the part's end. If the
    /// part has no entries, changes nothing, and returns the end of the part before it.
    pub(crate) fn cut(&mut self) -> Position {
        if !self.part.is_empty() {
            let part = self.end_part();
            self.ended.push_back(part);
        }
        Position::new(self.part.segment, self.part.start)
    }

    /// Replaces the current part by an empty part behind it, in the same segment.
    fn end_part(&mut self) -> Part {
        self.last_finish = None;
        self.slack_bytes += GROUP_HEADER_BYTES as u64;
        self.part.appended = self.appended();
        let end = self.part.end().offset();
        let (segment, size) = (self.part.segment, self.part.segment_size);
        let next = Part::new(segment, size, end, self.recycled.take());
        std::mem::replace(&mut self.part, next)
    }

    /// Notes that reclaim has appended a copy. `entries_before`: the value of `entries` before.
    pub(crate) fn note_copy(&mut self, entries_before: u64) {
        self.copies += 1;
        self.for_copies += self.entries - entries_before;
    }

    /// The number of entries appended since the log was opened, without reclaim's copies.
    fn appended(&self) -> u64 {
        self.entries - self.for_copies
    }

    /// The number of entries that wait for the committer, without reclaim's copies.
    pub(crate) fn waiting(&self) -> u64 {
        self.appended() - self.taken
    }

    /// Whether the committer must not let the batch fill any further.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting() >= self.full_at || self.bytes() >= BACKLOG_BYTES as usize
    }

    /// Begins the next segment if entries of this many bytes do not fit into the current segment.
    pub(crate) fn room(&mut self, bytes: u64) {
        self.room_to_the_end(bytes + KEPT_FOR_STARTS);
    }

    /// Like `room`, but can also use the bytes that are reserved for starts.
    pub(crate) fn room_to_the_end(&mut self, bytes: u64) {
        if self.remaining() < bytes {
            self.rotate(bytes);
        }
    }

    /// Begins the next segment if the current one has jobs. Returns whether it had.
    pub(crate) fn seal(&mut self) -> bool {
        let has_jobs = self.live.slots_in(self.part.segment) > 0;
        if has_jobs {
            self.rotate(0);
        }
        has_jobs
    }

    #[cold]
    fn rotate(&mut self, bytes: u64) {
        let segment = self.part.segment + 1;
        self.slack_bytes += self.remaining();
        let size = self.segment_size_for(bytes);
        assert!(u32::try_from(size).is_ok(), "an entry is smaller than 4 GiB");
        let part = Part::new(segment, size, HEADER_BYTES, self.recycled.take());
        let mut full = std::mem::replace(&mut self.part, part);
        if full.is_empty() {
            self.recycled = Some(full.bytes);
        } else {
            full.appended = self.appended();
            self.ended.push_back(full);
        }
        self.names_in_segment = 0;
        *self.claimed(size) += size;
        self.live.push_segment();
        let (first, id_limit) = (self.first, self.id_limit);
        self.append(EntryKind::Open, 0, |buffer| {
            buffer.extend_from_slice(&first.to_le_bytes());
            buffer.extend_from_slice(&id_limit.to_le_bytes());
        });
    }

    /// The size of a new segment whose first entries have this many bytes.
    pub(crate) fn segment_size_for(&self, bytes: u64) -> u64 {
        let needed = (SEGMENT_OVERHEAD + bytes).next_multiple_of(4096);
        self.segment_bytes.max(needed)
    }

    /// The counter of claimed bytes that counts a segment of this size.
    pub(crate) fn claimed(&mut self, size: u64) -> &mut u64 {
        if size > self.segment_bytes {
            &mut self.claimed_big_bytes
        } else {
            &mut self.claimed_bytes
        }
    }

    /// The bytes that an entry of this size uses. If the entry does not fit into the current
    /// segment, the result includes the segment's unused end.
    pub(crate) fn cost(&self, bytes: u64) -> u64 {
        bytes + if self.remaining() < bytes + KEPT_FOR_STARTS { self.remaining() } else { 0 }
    }

    /// Appends one entry. `write` writes its contents. Returns the end of the entry. The caller
    /// must make `room` for the entry first.
    pub(crate) fn append(
        &mut self,
        kind: EntryKind,
        n: u16,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Position {
        self.entries += 1;
        self.last_finish = None;
        let buffer = &mut self.part.bytes;
        let start = begin_entry(buffer, kind, n);
        write(buffer);
        finish_entry(buffer, start, 0);
        self.written_bytes += (buffer.len() - start) as u64;
        self.part.count += 1;
        self.part.end()
    }

    /// Appends one entry that ends with a body, like `append`. `write` writes the contents before the
    /// body. A large body is not copied if it is shared.
    pub(crate) fn append_body(
        &mut self,
        kind: EntryKind,
        n: u16,
        body: BodyRef<'_>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Position {
        match body {
            BodyRef::Shared(body) if body.len() >= SHARED_BYTES_MIN => {
                self.entries += 1;
                self.last_finish = None;
                self.written_bytes += self.part.append_shared(kind, n, body, write) as u64;
                self.part.end()
            }
            BodyRef::Shared(_) | BodyRef::Bytes(_) => self.append(kind, n, |buffer| {
                write(buffer);
                buffer.extend_from_slice(body.bytes());
            }),
        }
    }

    /// Returns the queue's number in the current segment. If the segment has no NAME entry for the
    /// queue yet, appends one. The caller must first make `room` for the NAME entry and for the
    /// entry that uses the number.
    pub(crate) fn queue(&mut self, queue: QueueRef<'_>) -> u32 {
        let index = queue.number as usize;
        match self.names.get(index) {
            Some(&(segment, number)) if segment == self.part.segment => number,
            _ => self.name(queue),
        }
    }

    #[cold]
    fn name(&mut self, queue: QueueRef<'_>) -> u32 {
        let index = queue.number as usize;
        if self.names.len() <= index {
            self.names.resize(index + 1, (0, 0));
        }
        let number = self.names_in_segment;
        self.names_in_segment += 1;
        self.names[index] = (self.part.segment, number);
        self.append(EntryKind::Name, 0, |buffer| {
            buffer.extend_from_slice(&number.to_le_bytes());
            buffer.extend_from_slice(queue.name);
        });
        number
    }

    pub(crate) fn forget_queue(&mut self, number: u32) {
        if let Some(place) = self.names.get_mut(number as usize) {
            *place = (0, 0);
        }
    }

    /// Appends a FACT entry, and calls `remember_fact` for it. The caller must make `room` for the
    /// entry first.
    pub(crate) fn append_fact(&mut self, key: &[u8], value: &[u8]) -> Position {
        let position = self.append(EntryKind::Fact, 0, |buffer| {
            buffer.extend_from_slice(&(key.len() as u32).to_le_bytes());
            buffer.extend_from_slice(key);
            buffer.extend_from_slice(value);
        });
        self.remember_fact(self.part.segment, key, value);
        position
    }

    /// Changes the value of a fact that is the last entry of the part with this end. The part is behind
    /// the gate, and has no checksums yet.
    pub(crate) fn amend_fact(&mut self, end: Position, key: &[u8], value: &[u8]) {
        let part = self.ended.iter_mut().find(|part| part.end() == end);
        let part = part.expect("the gate keeps the part");
        let entry_at = part.bytes.len() - fact_entry_bytes(key, value) as usize;
        let value_at = entry_at + ENTRY_HEAD_BYTES + 4 + key.len();
        let (len, kind) = (get_u32(&part.bytes, entry_at + 4), part.bytes[entry_at + 8]);
        assert_eq!(kind, EntryKind::Fact as u8, "the last entry is a fact");
        assert_eq!(len as usize, value_at - entry_at + value.len(), "the values are equally long");
        assert_eq!(part.bytes[value_at - key.len()..value_at], *key, "the entry has this key");
        let old = &mut part.bytes[value_at..value_at + value.len()];
        // A later part can have a newer value. The caller gives each part another one.
        if let Some(place) = self.facts.get_mut(key)
            && *place.value == *old
        {
            place.value = value.into();
        }
        old.copy_from_slice(value);
    }

    /// Stores the newest value of a key, and the segment of its entry. An empty value removes the
    /// key.
    pub(crate) fn remember_fact(&mut self, segment: u32, key: &[u8], value: &[u8]) {
        if value.is_empty() {
            if let Some((key, old)) = self.facts.remove_entry(key) {
                self.fact_bytes -= fact_entry_bytes(&key, &old.value);
                self.take_fact_key(old.segment, &key);
            }
            return;
        }
        self.fact_bytes += fact_entry_bytes(key, value);
        let new = FactPlace { segment, value: value.into() };
        let key = if let Some(place) = self.facts.get_mut(key) {
            let old = std::mem::replace(place, new);
            self.fact_bytes -= fact_entry_bytes(key, &old.value);
            if old.segment == segment {
                return;
            }
            self.take_fact_key(old.segment, key)
        } else {
            let key: Arc<[u8]> = key.into();
            self.facts.insert(Arc::clone(&key), new);
            key
        };
        self.fact_keys.entry(segment).or_default().insert(key);
    }

    /// Removes a fact's key from the keys of this segment, and returns it.
    fn take_fact_key(&mut self, segment: u32, key: &[u8]) -> Arc<[u8]> {
        let keys = self.fact_keys.get_mut(&segment).expect("the segment has the fact's key");
        let key = keys.take(key).expect("the segment has the fact's key");
        if keys.is_empty() {
            self.fact_keys.remove(&segment);
        }
        key
    }

    /// The lowest key whose newest entry is in this segment, and its value.
    pub(crate) fn fact_in(&self, segment: u32) -> Option<(&Arc<[u8]>, &[u8])> {
        let key = self.fact_keys.get(&segment)?.first()?;
        let place = self.facts.get(key).expect("each key of a segment is that of a fact");
        Some((key, &place.value))
    }

    /// The newest value of a key, if the key has a value.
    pub(crate) fn fact_value(&self, key: &[u8]) -> Option<&[u8]> {
        self.facts.get(key).map(|place| &*place.value)
    }

    /// The facts whose keys begin with `prefix`, sorted by their keys.
    pub(crate) fn facts_with(&self, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let facts = self.facts.range::<[u8], _>(from);
        let facts = facts.take_while(|(key, _)| key.starts_with(prefix));
        facts.map(|(key, place)| (key.to_vec(), place.value.to_vec())).collect()
    }

    /// Appends an IDS entry, and returns its end. The caller must make `room` for the entry first.
    pub(crate) fn append_id_limit(&mut self, limit: u64) -> Position {
        self.id_limit = limit;
        self.append(EntryKind::Ids, 0, |buffer| buffer.extend_from_slice(&limit.to_le_bytes()))
    }

    /// Makes a live slot for the entry that was appended last. `bytes` is the slot's share of the
    /// entry's bytes.
    pub(crate) fn new_slot(&mut self, bytes: u64) -> Slot {
        Slot { segment: self.part.segment, index: self.live.push(bytes) }
    }

    /// Appends a COUNT entry for each live job with lazy counters.
    pub(crate) fn flush_lazy(&mut self) {
        let empty = LazyCounts::new(self.segment_bytes);
        let lazy = std::mem::replace(&mut self.lazy, empty);
        for (slot, counters) in lazy.iter() {
            if self.live.is_live(slot) {
                self.room(count_bytes(counters));
                self.append_count(slot, counters);
            }
        }
        self.lazy = lazy;
        self.lazy.clear();
    }

    /// Appends a FINISH entry for these slots, or adds the slots to the newest entry, if it is one.
    /// Returns the entry's end. The caller must make `room` for an entry first.
    pub(crate) fn append_finish(&mut self, slots: &[Slot]) -> Position {
        let before = self.part.bytes.len();
        let buffer = &mut self.part.bytes;
        let extended = self.last_finish.filter(|start| extend_finish(buffer, *start, slots));
        if extended.is_some() {
            self.entries += 1;
            self.written_bytes += (self.part.bytes.len() - before) as u64;
        } else {
            let n = u16::try_from(slots.len()).expect("at most 65,535 jobs end together");
            self.append(EntryKind::Finish, n, |buffer| write_slots(buffer, slots));
        }
        self.last_finish = extended.or(Some(before));
        self.client_bytes += (self.part.bytes.len() - before) as u64;
        self.part.end()
    }

    /// Appends a COUNT entry, and returns its end. The caller must make `room` for the entry first.
    pub(crate) fn append_count(&mut self, slot: Slot, counters: &[u8]) -> Position {
        self.client_bytes += count_bytes(counters);
        self.append(EntryKind::Count, 0, |buffer| {
            buffer.extend_from_slice(&slot.to_u64().to_le_bytes());
            buffer.extend_from_slice(counters);
        })
    }

    /// Takes the waiting entries for the committer, up to the gate. If nothing waits and `mark` is
    /// true, takes an empty group. If the empty group does not fit into the segment, takes nothing.
    pub(crate) fn take(&mut self, mark: bool, now_ms: u64) -> Vec<Part> {
        if self.lazy.due_ms().is_some_and(|due_ms| due_ms <= now_ms) {
            self.flush_lazy();
        }
        let parts = match self.gate {
            None => self.take_all(mark),
            Some(gate) => {
                let behind = self.ended.iter().take_while(|part| part.end() <= gate).count();
                self.ended.drain(..behind).collect()
            }
        };
        self.note_taken(&parts);
        parts
    }

    /// Takes the waiting entries for the second committer, if all of them are in this segment, and if there is
    /// no gate.
    pub(crate) fn take_within(&mut self, segment: u32) -> Vec<Part> {
        let is_within = self.ended.iter().chain([&self.part]).all(|part| part.segment == segment);
        if self.gate.is_some() || !is_within {
            return Vec::new();
        }
        let parts = self.take_all(false);
        self.note_taken(&parts);
        parts
    }

    fn note_taken(&mut self, parts: &[Part]) {
        self.written_bytes += (parts.len() * GROUP_HEADER_BYTES) as u64;
        if let Some(last) = parts.last() {
            self.taken = last.appended;
        }
    }

    fn take_all(&mut self, mark: bool) -> Vec<Part> {
        let mut parts = Vec::from(std::mem::take(&mut self.ended));
        let fits = self.part.end().offset() <= self.part.segment_size;
        let mark = mark && parts.is_empty() && fits;
        if self.part.is_empty() && mark {
            // The log is idle, so free the memory that a burst of entries needed.
            self.recycled = None;
        }
        if !self.part.is_empty() || mark {
            parts.push(self.end_part());
        }
        parts
    }

    /// Keeps the buffer of a group that was written, for reuse.
    pub(crate) fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.recycled.is_none() && bytes.capacity() <= RECYCLED_BYTES_MAX {
            bytes.clear();
            self.recycled = Some(bytes);
        }
    }
}
