//! Lazy counters are counters of jobs. A reply can be sent before these counters are in the log.
//! They stay in memory for up to a second. If the job is finished meanwhile, the log drops them: so
//! a job that is taken and soon finished has one small entry in the log for this, and not two.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use crate::settings::{LAZY_BYTES_MAX, LAZY_MAX_MS};
use crate::types::Slot;

/// A hasher for slots. It only needs a multiplication, because clients cannot choose slots that
/// have equal hashes.
#[derive(Debug, Default)]
pub(crate) struct SlotHasher(u64);

impl Hasher for SlotHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// Bytes of dropped counters that are not worth a compaction.
const GARBAGE_BYTES_MIN: usize = 16 << 10;

/// A map with slots as keys. Its hasher has no random seed, so its order is the same in every run.
pub(crate) type SlotMap<T> = HashMap<Slot, T, BuildHasherDefault<SlotHasher>>;

/// The newest counters of each slot, in the order in which the slots got their first counters.
#[derive(Debug)]
pub(crate) struct LazyCounts {
    /// When there are this many bytes of counters, they must be written at once.
    bytes_max: usize,
    places: SlotMap<u32>,
    /// `None`: the counters were dropped.
    items: Vec<Option<(Slot, Range<usize>)>>,
    bytes: Vec<u8>,
    /// The bytes of the counters in `bytes` that were not dropped.
    live_bytes: usize,
    /// The time when the oldest of these counters were set, in milliseconds of the log's time.
    since_ms: u64,
}

impl LazyCounts {
    /// For a log whose segments have this size.
    pub(crate) fn new(segment_bytes: u64) -> Self {
        Self {
            bytes_max: LAZY_BYTES_MAX.min((segment_bytes / 8) as usize),
            places: SlotMap::default(),
            items: Vec::new(),
            bytes: Vec::new(),
            live_bytes: 0,
            since_ms: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether there are so many counters that they must be written now.
    pub(crate) fn is_full(&self) -> bool {
        self.live_bytes >= self.bytes_max
    }

    /// When the counters must be written. `None`: there are no counters.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        match self.is_empty() {
            true => None,
            false if self.is_full() => Some(0),
            false => Some(self.since_ms + LAZY_MAX_MS),
        }
    }

    pub(crate) fn set(&mut self, now_ms: u64, slot: Slot, counters: &[u8]) {
        if self.is_empty() {
            self.since_ms = now_ms;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(counters);
        self.live_bytes += counters.len();
        let item = Some((slot, start..self.bytes.len()));
        let next = self.items.len() as u32;
        match self.places.insert(slot, next) {
            Some(old) => {
                self.places.insert(slot, old);
                let before = std::mem::replace(&mut self.items[old as usize], item);
                self.live_bytes -= before.map_or(0, |(_, range)| range.len());
            }
            None => self.items.push(item),
        }
        if self.bytes.len() > 2 * self.live_bytes + GARBAGE_BYTES_MIN {
            self.compact();
        }
    }

    /// Removes the bytes of dropped counters. Each byte is moved at most once for each byte that was
    /// set since the last compaction.
    fn compact(&mut self) {
        let (items, bytes) = (std::mem::take(&mut self.items), std::mem::take(&mut self.bytes));
        for (slot, range) in items.into_iter().flatten() {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&bytes[range]);
            self.places.insert(slot, self.items.len() as u32);
            self.items.push(Some((slot, start..self.bytes.len())));
        }
    }

    /// Drops the counters of a slot. Called when the slot has ended, or when the log got an entry
    /// with the job's whole meta, which includes the newest counters.
    pub(crate) fn remove(&mut self, slot: Slot) {
        if !self.places.is_empty()
            && let Some(place) = self.places.remove(&slot)
        {
            let dropped = self.items[place as usize].take();
            self.live_bytes -= dropped.map_or(0, |(_, range)| range.len());
            if self.places.is_empty() {
                self.clear();
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &[u8])> {
        self.items.iter().flatten().map(|(slot, range)| (*slot, &self.bytes[range.clone()]))
    }

    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.items.clear();
        self.bytes.clear();
        self.live_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_what_was_dropped() {
        let mut counts = LazyCounts::new(64 << 20);
        let slots = [0, 1].map(|index| Slot { segment: 1, index });
        for slot in slots {
            counts.set(5, slot, b"counted");
        }
        counts.remove(slots[0]);
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(slots[1], &b"counted"[..])]);
        counts.remove(slots[1]);
        assert_eq!((counts.live_bytes, counts.due_ms(), counts.iter().count()), (0, None, 0));
    }

    #[test]
    fn dropped_counters_take_no_memory_for_long() {
        let mut counts = LazyCounts::new(64 << 20);
        let kept = Slot { segment: 1, index: 0 };
        counts.set(5, kept, b"kept");
        for index in 1..100_000 {
            let slot = Slot { segment: 1, index };
            counts.set(6, slot, &[1; 24]);
            counts.set(6, slot, &[2; 24]);
            assert_eq!(counts.iter().nth(1), Some((slot, &[2; 24][..])));
            counts.remove(slot);
            assert_eq!(counts.live_bytes, 4);
        }
        assert!(counts.bytes.capacity() < 4 * GARBAGE_BYTES_MIN, "{}", counts.bytes.capacity());
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(kept, &b"kept"[..])]);
        assert_eq!(counts.due_ms(), Some(5 + LAZY_MAX_MS));
    }
}
