//! Lazy counters are counters of jobs. A reply can be sent before these counters are in the log.
//! They stay in memory until the next group is written. If the job is finished before this write,
//! the log drops them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

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

/// A map with slots as keys. Its hasher has no random seed, so its order is the same in every run.
pub(crate) type SlotMap<T> = HashMap<Slot, T, BuildHasherDefault<SlotHasher>>;

/// The newest counters of each slot, in the order in which the slots got their first counters.
#[derive(Debug, Default)]
pub(crate) struct LazyCounts {
    places: SlotMap<u32>,
    /// `None`: the counters were dropped.
    items: Vec<Option<(Slot, Range<usize>)>>,
    bytes: Vec<u8>,
    /// The time when the oldest of these counters were set, in milliseconds of the log's time.
    since_ms: u64,
}

impl LazyCounts {
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The time when the oldest counters were set. `None`: there are no counters.
    pub(crate) fn since_ms(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.since_ms)
    }

    pub(crate) fn set(&mut self, now_ms: u64, slot: Slot, counters: &[u8]) {
        if self.is_empty() {
            self.since_ms = now_ms;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(counters);
        let item = Some((slot, start..self.bytes.len()));
        let next = self.items.len() as u32;
        match self.places.insert(slot, next) {
            Some(old) => {
                self.places.insert(slot, old);
                self.items[old as usize] = item;
            }
            None => self.items.push(item),
        }
    }

    /// Drops the counters of a slot. Called when the slot has ended, or when the log got an entry
    /// with the job's whole meta, which includes the newest counters.
    pub(crate) fn remove(&mut self, slot: Slot) {
        if !self.places.is_empty()
            && let Some(place) = self.places.remove(&slot)
        {
            self.items[place as usize] = None;
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_what_was_dropped() {
        let mut counts = LazyCounts::default();
        let slots = [0, 1].map(|index| Slot { segment: 1, index });
        for slot in slots {
            counts.set(5, slot, b"counted");
        }
        counts.remove(slots[0]);
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(slots[1], &b"counted"[..])]);
        counts.remove(slots[1]);
        assert_eq!((counts.bytes(), counts.since_ms(), counts.iter().count()), (0, None, 0));
    }
}
