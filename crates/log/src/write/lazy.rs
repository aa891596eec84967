//! Counters that no reply waits for: kept until the next group, dropped if the job is finished
//! before.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use crate::types::Target;

/// Targets are dealt by us, so a multiplication spreads them well enough.
#[derive(Debug, Default)]
pub(crate) struct TargetHasher(u64);

impl Hasher for TargetHasher {
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

/// A map by target that is never iterated.
pub(crate) type TargetMap<T> = HashMap<Target, T, BuildHasherDefault<TargetHasher>>;

/// Newest counters per slot, in the order in which the slots were first counted.
#[derive(Debug, Default)]
pub(crate) struct LazyCounts {
    places: TargetMap<u32>,
    /// None: dropped.
    items: Vec<Option<(Target, Range<usize>)>>,
    bytes: Vec<u8>,
    /// When the oldest came, milliseconds of the log's time.
    since_ms: u64,
}

impl LazyCounts {
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// When the oldest of them came; none: there is none.
    pub(crate) fn since_ms(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.since_ms)
    }

    pub(crate) fn set(&mut self, now_ms: u64, target: Target, counters: &[u8]) {
        if self.is_empty() {
            self.since_ms = now_ms;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(counters);
        let item = Some((target, start..self.bytes.len()));
        let next = self.items.len() as u32;
        match self.places.insert(target, next) {
            Some(old) => {
                self.places.insert(target, old);
                self.items[old as usize] = item;
            }
            None => self.items.push(item),
        }
    }

    /// The slot died, or a whole meta came.
    pub(crate) fn remove(&mut self, target: Target) {
        if !self.places.is_empty()
            && let Some(place) = self.places.remove(&target)
        {
            self.items[place as usize] = None;
            if self.places.is_empty() {
                self.clear();
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Target, &[u8])> {
        self.items.iter().flatten().map(|(target, range)| (*target, &self.bytes[range.clone()]))
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
        let targets = [0, 1].map(|slot| Target { segment: 1, slot });
        for target in targets {
            counts.set(5, target, b"counted");
        }
        counts.remove(targets[0]);
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(targets[1], &b"counted"[..])]);
        counts.remove(targets[1]);
        assert_eq!((counts.bytes(), counts.since_ms(), counts.iter().count()), (0, None, 0));
    }
}
