//! The live slots: one bit per slot, and one byte for the slot's share of its entry's size. The log
//! uses this data to compute how many bytes of its files are live.

use std::collections::VecDeque;

use crate::types::Slot;

/// The bytes that an index would need for each live slot. The files have no index, but these bytes
/// count as live: the documented limit of disk use includes them.
pub(crate) const INDEX_BYTES: u64 = 24;

/// Returns the *class* of a size: the size, rounded so that it fits into one byte. There are eight
/// classes from one power of two to the next. This is exact enough for the limit of disk use.
pub(crate) fn class_of(size: u64) -> u8 {
    if size < 8 {
        return size as u8;
    }
    let exponent = size.ilog2();
    let step = (size >> (exponent - 3)) & 7;
    (u64::from((exponent - 2) * 8) + step).min(255) as u8
}

/// Returns the smallest size of a class.
fn class_bytes(class: u8) -> u64 {
    let class = u64::from(class);
    if class < 8 {
        return class;
    }
    (8 + class % 8) << (class / 8 - 1)
}

/// The slots of one segment.
#[derive(Debug, Default)]
struct SegmentSlots {
    bits: Vec<u64>,
    classes: Vec<u8>,
    live: u32,
    live_bytes: u64,
}

impl SegmentSlots {
    /// See [`Liveness::memory_bytes`].
    fn memory_bytes(&self) -> u64 {
        (size_of::<Self>() + self.classes.capacity() + self.bits.capacity() * size_of::<u64>())
            as u64
    }
}

/// The slots of all segments from `first` on.
#[derive(Debug)]
pub(crate) struct Liveness {
    first: u32,
    segments: VecDeque<SegmentSlots>,
    live_bytes: u64,
    live: u64,
    /// The memory of all segments but the last one.
    full_bytes: u64,
}

impl Liveness {
    pub(crate) fn new(first: u32) -> Liveness {
        Liveness { first, segments: VecDeque::new(), live_bytes: 0, live: 0, full_bytes: 0 }
    }

    /// The memory of this table, in bytes: a little more than one for each slot, also for those that
    /// have ended, until their segment is given up.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.full_bytes + self.segments.back().map_or(0, SegmentSlots::memory_bytes)
    }

    /// The lowest segment that is not given up.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// Bytes of the live slots, plus [`INDEX_BYTES`] for each of them.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes + self.live * INDEX_BYTES
    }

    /// Bytes of the live slots: each slot's share of its entry.
    pub(crate) fn entry_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// The number of live slots.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Adds a segment at the end.
    pub(crate) fn push_segment(&mut self) {
        if let Some(full) = self.segments.back_mut() {
            // It gets no more slots. Up to half of its memory is for more of them.
            full.classes.shrink_to_fit();
            full.bits.shrink_to_fit();
            self.full_bytes += full.memory_bytes();
        }
        self.segments.push_back(SegmentSlots::default());
    }

    /// Removes the lowest segment. It must have no live slot.
    pub(crate) fn pop_segment(&mut self) {
        let gone = self.segments.pop_front().expect("the lowest segment is known");
        assert_eq!(gone.live, 0, "a segment with live slots is never given up");
        if !self.segments.is_empty() {
            self.full_bytes -= gone.memory_bytes();
        }
        self.first += 1;
    }

    /// Adds a live slot to the last segment, and returns its index.
    pub(crate) fn push(&mut self, bytes: u64) -> u32 {
        let slots = self.segments.back_mut().expect("there is a segment to append to");
        let index = slots.classes.len();
        let class = class_of(bytes);
        slots.classes.push(class);
        if index.is_multiple_of(64) {
            slots.bits.push(0);
        }
        slots.bits[index / 64] |= 1 << (index % 64);
        slots.live += 1;
        slots.live_bytes += class_bytes(class);
        self.live_bytes += class_bytes(class);
        self.live += 1;
        index as u32
    }

    /// Adds live slots of one class to the last segment.
    pub(crate) fn push_run(&mut self, run: u32, class: u8) {
        let slots = self.segments.back_mut().expect("there is a segment to append to");
        let start = slots.classes.len();
        let end = start + run as usize;
        slots.classes.resize(end, class);
        slots.bits.resize(end.div_ceil(64), 0);
        let mut at = start;
        while at < end {
            let (word, bit) = (at / 64, at % 64);
            let bits = (64 - bit).min(end - at);
            slots.bits[word] |= u64::MAX >> (64 - bits) << bit;
            at += bits;
        }
        let bytes = u64::from(run) * class_bytes(class);
        slots.live += run;
        slots.live_bytes += bytes;
        self.live_bytes += bytes;
        self.live += u64::from(run);
    }

    /// Ends a slot. Returns false if it was not live.
    pub(crate) fn kill(&mut self, slot: Slot) -> bool {
        if !self.is_live(slot) {
            return false;
        }
        let slots = &mut self.segments[(slot.segment - self.first) as usize];
        let index = slot.index as usize;
        slots.bits[index / 64] &= !(1 << (index % 64));
        let bytes = class_bytes(slots.classes[index]);
        slots.live -= 1;
        slots.live_bytes -= bytes;
        self.live_bytes -= bytes;
        self.live -= 1;
        true
    }

    pub(crate) fn is_live(&self, slot: Slot) -> bool {
        slot.segment >= self.first
            && self.segments.get((slot.segment - self.first) as usize).is_some_and(|slots| {
                slots
                    .bits
                    .get(slot.index as usize / 64)
                    .is_some_and(|word| word >> (slot.index % 64) & 1 == 1)
            })
    }

    /// The number of live slots in one segment.
    pub(crate) fn live_in(&self, segment: u32) -> u32 {
        self.slots_of(segment).map_or(0, |slots| slots.live)
    }

    /// The bytes of the live slots of one segment.
    pub(crate) fn bytes_in(&self, segment: u32) -> u64 {
        self.slots_of(segment).map_or(0, |slots| slots.live_bytes)
    }

    /// The number of all slots in one segment.
    pub(crate) fn slots_in(&self, segment: u32) -> usize {
        self.slots_of(segment).map_or(0, |slots| slots.classes.len())
    }

    fn slots_of(&self, segment: u32) -> Option<&SegmentSlots> {
        self.segments.get(segment.checked_sub(self.first)? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_within_an_eighth() {
        for size in (1..5000).chain([1 << 20, (1 << 20) - 1, u64::from(u32::MAX)]) {
            let near = class_bytes(class_of(size));
            assert!(near <= size && near * 8 >= size * 7, "{size} became {near}");
        }
    }

    #[test]
    fn a_run_equals_single_slots() {
        let (mut one, mut runs) = (Liveness::new(1), Liveness::new(1));
        one.push_segment();
        runs.push_segment();
        for (run, bytes) in [(3, 100), (61, 48), (64, 9000), (1, 100), (0, 3), (200, 56)] {
            (0..run).for_each(|_| _ = one.push(bytes));
            runs.push_run(run, class_of(bytes));
            assert_eq!(format!("{one:?}"), format!("{runs:?}"));
        }
    }

    #[test]
    fn a_full_segment_takes_memory_for_its_slots_until_it_is_given_up() {
        let mut live = Liveness::new(7);
        live.push_segment();
        let empty = live.memory_bytes();
        let slots = 0..100_001_u32;
        slots.clone().for_each(|_| _ = live.push(100));
        assert!(live.memory_bytes() > 112_501);
        live.push_segment();
        // A byte and a bit for each slot.
        assert_eq!(live.memory_bytes(), 2 * empty + 100_001 + 8 * 1563);
        for index in slots {
            live.kill(Slot { segment: 7, index });
        }
        live.pop_segment();
        assert_eq!(live.memory_bytes(), empty);
    }

    #[test]
    fn a_slot_dies_once() {
        let mut live = Liveness::new(7);
        live.push_segment();
        for index in 0..130 {
            assert_eq!(live.push(100), index);
        }
        let slot = Slot { segment: 7, index: 129 };
        assert!(live.kill(slot) && !live.kill(slot));
        assert!(!live.kill(Slot { segment: 7, index: 130 }));
        assert!(!live.kill(Slot { segment: 6, index: 0 }));
        assert_eq!((live.live(), live.live_in(7)), (129, 129));
    }
}
