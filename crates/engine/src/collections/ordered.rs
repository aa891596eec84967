//! An ordered map that stores its entries in short runs. The engine uses it for ready, delayed and
//! buried jobs, waiters and timers.
//!
//! If keys arrive in ascending order, the nodes of a `BTreeMap` stay half empty. Then an entry takes
//! almost twice its size. In this map, a run has up to 64 entries and fills up completely. A
//! `BTreeMap` finds the run of a key. An entry takes little more than its key and its place, and
//! removing the first entry is cheap.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use super::prefetch::prefetch;
use crate::ids::Millis;

/// Maximum number of entries in a run.
const RUN_LEN_MAX: usize = 64;
/// If a run has fewer entries than this after a removal, the map tries to join the run with the
/// next run.
const RUN_LEN_LOW: usize = 16;
/// The map joins two runs only if they have at most this many entries together.
const RUN_LEN_JOINED_MAX: usize = 48;

/// A key of an ordered map.
pub(crate) trait Key: Ord + Copy {
    /// The key as a run stores it. Without padding, an entry of the list of ready jobs takes 16 bytes
    /// instead of 24.
    type Packed: Copy + Debug;

    fn pack(self) -> Self::Packed;
    fn unpack(packed: Self::Packed) -> Self;
}

/// An entry of a run.
#[derive(Copy, Clone, Debug)]
struct Entry<K: Key> {
    packed: K::Packed,
    place: u32,
}

impl<K: Key> Entry<K> {
    fn new(key: K, place: u32) -> Self {
        Self { packed: key.pack(), place }
    }

    fn key(&self) -> K {
        K::unpack(self.packed)
    }

    fn pair(&self) -> (K, u32) {
        (self.key(), self.place)
    }
}

/// A number in two words, which need no alignment to eight bytes.
fn split(number: u64) -> [u32; 2] {
    [(number >> 32) as u32, number as u32]
}

fn join([high, low]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl Key for u64 {
    type Packed = [u32; 2];

    fn pack(self) -> [u32; 2] {
        split(self)
    }

    fn unpack(packed: [u32; 2]) -> Self {
        join(packed)
    }
}

impl Key for (u32, u64) {
    type Packed = [u32; 3];

    fn pack(self) -> [u32; 3] {
        let [high, low] = split(self.1);
        [self.0, high, low]
    }

    fn unpack([first, high, low]: [u32; 3]) -> Self {
        (first, join([high, low]))
    }
}

impl Key for (u64, u64) {
    type Packed = [[u32; 2]; 2];

    fn pack(self) -> [[u32; 2]; 2] {
        [split(self.0), split(self.1)]
    }

    fn unpack([first, second]: [[u32; 2]; 2]) -> Self {
        (join(first), join(second))
    }
}

impl Key for (Millis, u64) {
    type Packed = [[u32; 2]; 2];

    fn pack(self) -> [[u32; 2]; 2] {
        (self.0.0, self.1).pack()
    }

    fn unpack(packed: [[u32; 2]; 2]) -> Self {
        let (first, second) = Key::unpack(packed);
        (Millis(first), second)
    }
}

/// An ordered map from keys to places.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Ordered<K: Key> {
    /// The number of entries. This is the first field in memory. Most maps are empty, and an
    /// operation on an empty map reads no other field.
    len: usize,
    /// The run with the highest keys. It is the only run of most maps, because most queues are
    /// short and most keys arrive in ascending order. This run is empty only if the map is empty.
    last: VecDeque<Entry<K>>,
    /// The other runs, with lower keys. The key of a run in this map is its *fence*. The fence is
    /// above all keys of the previous run, and not above the first key of its own run.
    runs: BTreeMap<K, VecDeque<Entry<K>>>,
}

impl<K: Key> Default for Ordered<K> {
    fn default() -> Self {
        Self { last: VecDeque::new(), runs: BTreeMap::new(), len: 0 }
    }
}

impl<K: Key> Ordered<K> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn first(&self) -> Option<(K, u32)> {
        if self.len == 0 {
            return None;
        }
        if self.runs.is_empty() {
            return self.last.front().map(Entry::pair);
        }
        self.runs.first_key_value().and_then(|(_, run)| run.front()).map(Entry::pair)
    }

    /// Prefetches the memory that an insert of a new highest key needs.
    pub(crate) fn prefetch_end(&self) {
        if let Some(last) = self.last.back() {
            prefetch(last);
        }
    }

    pub(crate) fn last(&self) -> Option<(K, u32)> {
        self.last.back().map(Entry::pair)
    }

    /// Whether the map has this key. This is fast if the key is above all keys of the map.
    pub(crate) fn contains(&self, key: K) -> bool {
        self.last().is_some_and(|(last, _)| last >= key)
            && self.first_from(key).is_some_and(|(first, _)| first == key)
    }

    /// The first entry whose key is equal to this key or above it.
    pub(crate) fn first_from(&self, key: K) -> Option<(K, u32)> {
        let within = |run: &VecDeque<Entry<K>>| {
            run.get(run.partition_point(|entry| entry.key() < key)).map(Entry::pair)
        };
        let lower = self.runs.range(..=key).next_back().and_then(|(_, run)| within(run));
        let next = || self.runs.range(key..).find_map(|(_, run)| within(run));
        lower.or_else(next).or_else(|| within(&self.last))
    }

    /// The entries whose keys are equal to this key or above it, in order.
    pub(crate) fn iter_from(&self, key: K) -> impl Iterator<Item = (K, u32)> {
        let fence = self.runs.range(..=key).next_back().map_or(key, |(fence, _)| *fence);
        let runs = self.runs.range(fence..).map(|(_, run)| run).chain([&self.last]);
        let within = move |run: &VecDeque<Entry<K>>| run.partition_point(|entry| entry.key() < key);
        runs.flat_map(move |run| run.range(within(run)..)).map(Entry::pair)
    }

    /// All entries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, u32)> {
        self.runs.values().flatten().chain(&self.last).map(Entry::pair)
    }

    pub(crate) fn pop_first(&mut self) -> Option<(K, u32)> {
        let first = match self.runs.first_entry() {
            Some(mut entry) => {
                let first = entry.get_mut().pop_front();
                if entry.get().is_empty() {
                    entry.remove();
                }
                first
            }
            None => self.last.pop_front(),
        };
        self.len -= usize::from(first.is_some());
        self.give_back_room();
        first.map(|entry| entry.pair())
    }

    /// Adds a key that the map does not have yet.
    pub(crate) fn insert(&mut self, key: K, place: u32) {
        self.len += 1;
        if self.last.back().is_none_or(|back| back.key() < key) {
            if self.last.len() == RUN_LEN_MAX {
                let full = std::mem::take(&mut self.last);
                let fence = full.front().expect("a full run has a first entry").key();
                self.runs.insert(fence, full);
            }
            self.last.push_back(Entry::new(key, place));
        } else if self.runs.is_empty() || self.last.front().is_some_and(|front| front.key() < key) {
            insert_sorted(&mut self.last, key, place);
            if self.last.len() > RUN_LEN_MAX {
                let upper = self.last.split_off(RUN_LEN_MAX / 2);
                let lower = std::mem::replace(&mut self.last, upper);
                let fence = lower.front().expect("the lower half of a full run").key();
                self.runs.insert(fence, lower);
            }
        } else {
            self.insert_below(key, place);
        }
    }

    /// Adds a key that belongs to a run in `runs`.
    fn insert_below(&mut self, key: K, place: u32) {
        let fence = self.fence_for(key);
        let run = self.runs.get_mut(&fence).expect("the fence was just found");
        insert_sorted(run, key, place);
        if run.len() > RUN_LEN_MAX {
            let upper = run.split_off(RUN_LEN_MAX / 2);
            let upper_fence = upper.front().expect("the upper half of a full run").key();
            self.runs.insert(upper_fence, upper);
        }
    }

    /// Adds these entries, whose keys must be in ascending order. Calls `refused` with the place of
    /// each entry whose key the map has already. For neighbours, this is much faster than single
    /// inserts.
    pub(crate) fn insert_all(&mut self, entries: &[(K, u32)], mut refused: impl FnMut(u32)) {
        let mut entries = entries;
        while let Some(&(key, place)) = entries.first() {
            if self.last().is_none_or(|(last, _)| last < key) {
                // The same is true of all others.
                for (key, place) in entries {
                    self.insert(*key, *place);
                }
                return;
            }
            let Some((next, _)) = self.first_from(key) else { return };
            if next == key {
                refused(place);
                entries = &entries[1..];
                continue;
            }
            let count = entries.partition_point(|(key, _)| *key < next);
            let (group, others) = entries.split_at(count);
            self.insert_before(next, group);
            entries = others;
        }
    }

    /// Adds entries whose keys are all below the key `next` of the map, and above the key before it.
    fn insert_before(&mut self, next: K, group: &[(K, u32)]) {
        if group.len() < RUN_LEN_LOW {
            for (key, place) in group {
                self.insert(*key, *place);
            }
            return;
        }
        self.len += group.len();
        // Split the run that has `next` in front of it. The group continues the lower part.
        let in_last = self.last.front().is_some_and(|front| front.key() <= next);
        let mut lower = if in_last {
            let at = self.last.partition_point(|entry| entry.key() < next);
            let upper = self.last.split_off(at);
            std::mem::replace(&mut self.last, upper)
        } else {
            let fence = self.fence_for(next);
            let mut lower = self.runs.remove(&fence).expect("the fence was just found");
            let at = lower.partition_point(|entry| entry.key() < next);
            self.runs.insert(next, lower.split_off(at));
            lower
        };
        for (key, place) in group {
            if lower.len() == RUN_LEN_MAX {
                let full = std::mem::take(&mut lower);
                let fence = full.front().expect("a full run has a first entry").key();
                self.runs.insert(fence, full);
            }
            lower.push_back(Entry::new(*key, *place));
        }
        if let Some(front) = lower.front() {
            self.runs.insert(front.key(), lower);
        }
    }

    /// The fence of the run in `runs` to which `key` belongs. If `key` is below all fences, `key`
    /// becomes the new fence of the first run.
    fn fence_for(&mut self, key: K) -> K {
        if let Some((&fence, _)) = self.runs.range(..=key).next_back() {
            return fence;
        }
        let (_, run) = self.runs.pop_first().expect("the caller saw that there are lower runs");
        self.runs.insert(key, run);
        key
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<u32> {
        let in_last = self.last.front().is_some_and(|front| front.key() <= key);
        let place = if in_last {
            remove_sorted(&mut self.last, key)?
        } else {
            let (&fence, run) = self.runs.range_mut(..=key).next_back()?;
            let place = remove_sorted(run, key)?;
            if run.is_empty() {
                self.runs.remove(&fence);
            } else if run.len() < RUN_LEN_LOW {
                self.join_with_next(fence);
            }
            place
        };
        self.refill_last();
        self.len -= 1;
        self.give_back_room();
        Some(place)
    }

    /// Removes these keys, which must be in ascending order, and calls `removed` with the place of each
    /// key that the map had. For neighbours, this is much faster than single removals.
    pub(crate) fn remove_all(
        &mut self,
        keys: impl IntoIterator<Item = K>,
        mut removed: impl FnMut(u32),
    ) {
        let mut keys = keys.into_iter().peekable();
        while let Some(&key) = keys.peek() {
            let in_last = self.last.front().is_some_and(|front| front.key() <= key);
            let (fence, run) = if in_last {
                (None, &mut self.last)
            } else if let Some((fence, run)) = self.runs.range_mut(..=key).next_back() {
                (Some(*fence), run)
            } else {
                keys.next();
                continue;
            };
            let before = run.len();
            run.retain(|entry| {
                let (entry, place) = entry.pair();
                while keys.next_if(|key| *key < entry).is_some() {}
                let is_kept = keys.next_if(|key| *key == entry).is_none();
                if !is_kept {
                    removed(place);
                }
                is_kept
            });
            self.len -= before - run.len();
            let (is_empty, is_short) = (run.is_empty(), run.len() < RUN_LEN_LOW);
            // The map does not have this key.
            keys.next_if(|next| *next == key);
            match fence {
                Some(fence) if is_empty => {
                    self.runs.remove(&fence);
                }
                Some(fence) if is_short => self.join_with_next(fence),
                _ => {}
            }
            self.refill_last();
        }
        self.give_back_room();
    }

    /// Makes the run below it the last run if the last run is empty.
    fn refill_last(&mut self) {
        if self.last.is_empty()
            && let Some((_, run)) = self.runs.pop_last()
        {
            self.last = run;
        }
    }

    /// Frees the memory of an empty map. Otherwise each queue that was busy once would keep the
    /// memory of a full run.
    fn give_back_room(&mut self) {
        if self.len == 0 && self.last.capacity() > RUN_LEN_LOW {
            self.last = VecDeque::new();
        }
    }

    /// Joins a short run with the next run. Otherwise a few entries could keep the memory of many
    /// runs.
    fn join_with_next(&mut self, fence: K) {
        let mut pair = self.runs.range_mut(fence..);
        let Some((_, run)) = pair.next() else { return };
        if let Some((&next_fence, next)) = pair.next() {
            if run.len() + next.len() <= RUN_LEN_JOINED_MAX {
                run.append(next);
                self.runs.remove(&next_fence);
            }
        } else if run.len() + self.last.len() <= RUN_LEN_JOINED_MAX {
            run.append(&mut self.last);
            self.last = self.runs.remove(&fence).expect("it was just there");
        }
    }
}

fn insert_sorted<K: Key>(run: &mut VecDeque<Entry<K>>, key: K, place: u32) {
    let at = run.partition_point(|entry| entry.key() < key);
    debug_assert!(run.get(at).is_none_or(|entry| entry.key() != key));
    run.insert(at, Entry::new(key, place));
}

fn remove_sorted<K: Key>(run: &mut VecDeque<Entry<K>>, key: K) -> Option<u32> {
    // Usually it is the first one, because jobs are taken in order, and timers fire in order.
    if run.front().is_some_and(|first| first.key() == key) {
        return run.pop_front().map(|first| first.place);
    }
    let at = run.binary_search_by(|entry| entry.key().cmp(&key)).ok()?;
    run.remove(at).map(|entry| entry.place)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    impl Key for u16 {
        type Packed = u16;

        fn pack(self) -> u16 {
            self
        }

        fn unpack(packed: u16) -> u16 {
            packed
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16),
        Remove(u16),
        PopFirst,
        RemoveBetween(u16, u16),
        RemoveAll(u16, Vec<u16>),
        InsertAll(u16, Vec<u16>),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => any::<u16>().prop_map(Step::Insert),
            3 => any::<u16>().prop_map(Step::Remove),
            1 => Just(Step::PopFirst),
            1 => (any::<u16>(), 0..2000u16).prop_map(|(from, len)| Step::RemoveBetween(from, len)),
            1 => (any::<u16>(), prop::collection::vec(0..300u16, 1..200))
                .prop_map(|(from, gaps)| Step::RemoveAll(from, gaps)),
            1 => (any::<u16>(), prop::collection::vec(0..30u16, 1..200))
                .prop_map(|(from, gaps)| Step::InsertAll(from, gaps)),
        ];
        prop::collection::vec(step, 0..1500)
    }

    /// Ascending keys with these gaps between them.
    fn keys_from(from: u16, gaps: &[u16]) -> Vec<u16> {
        let mut at = from;
        let keys = gaps.iter().map_while(|gap| {
            at = at.checked_add(*gap + 1)?;
            Some(at)
        });
        keys.collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn behaves_as_a_btreemap(ascending in 0..500u16, steps in steps()) {
            let mut ordered = Ordered::default();
            let mut model = BTreeMap::new();
            for key in (0..ascending).map(|key| key * 100) {
                ordered.insert(key, u32::from(key));
                model.insert(key, u32::from(key));
            }
            for step in steps {
                match step {
                    Step::Insert(key) => {
                        if model.insert(key, 1).is_none() {
                            ordered.insert(key, 1);
                        } else {
                            model.insert(key, ordered.remove(key).expect("in the model"));
                            ordered.insert(key, model[&key]);
                        }
                    }
                    Step::Remove(key) => prop_assert_eq!(ordered.remove(key), model.remove(&key)),
                    Step::PopFirst => prop_assert_eq!(ordered.pop_first(), model.pop_first()),
                    Step::RemoveBetween(from, len) => {
                        let keys: Vec<u16> =
                            model.range(from..from.saturating_add(len)).map(|(k, _)| *k).collect();
                        for key in keys {
                            prop_assert_eq!(ordered.remove(key), model.remove(&key));
                        }
                    }
                    Step::RemoveAll(from, gaps) => {
                        let keys = keys_from(from, &gaps);
                        // Half of them are keys that the map has.
                        let known = model.range(from..).map(|(key, _)| *key).take(keys.len());
                        let all: BTreeSet<u16> = known.chain(keys).collect();
                        let mut places = Vec::new();
                        ordered.remove_all(all.iter().copied(), |place| places.push(place));
                        let wanted: Vec<u32> =
                            all.iter().filter_map(|key| model.remove(key)).collect();
                        prop_assert_eq!(places, wanted);
                    }
                    Step::InsertAll(from, gaps) => {
                        let all: Vec<(u16, u32)> =
                            keys_from(from, &gaps).into_iter().zip(1..).collect();
                        let mut refused = Vec::new();
                        ordered.insert_all(&all, |place| refused.push(place));
                        for (key, place) in all {
                            if refused.contains(&place) {
                                prop_assert!(model.contains_key(&key));
                            } else {
                                prop_assert_eq!(model.insert(key, place), None);
                            }
                        }
                    }
                }
                prop_assert_eq!(ordered.len(), model.len());
                prop_assert_eq!(ordered.first(), model.first_key_value().map(|(k, v)| (*k, *v)));
                prop_assert_eq!(ordered.last(), model.last_key_value().map(|(k, v)| (*k, *v)));
                for key in [0, 1000, 5001, 20_000, u16::MAX] {
                    let from = model.range(key..).next().map(|(k, v)| (*k, *v));
                    prop_assert_eq!(ordered.first_from(key), from);
                }
            }
            for key in [0, 1, 5000, 5001, 20_000, u16::MAX] {
                let from = model.range(key..).map(|(k, v)| (*k, *v));
                prop_assert!(ordered.iter_from(key).eq(from));
            }
            prop_assert!(ordered.iter().eq(model.into_iter()));
        }
    }

    #[test]
    fn ascending_keys_fill_whole_runs() {
        let mut ordered = Ordered::default();
        for key in 0..6400u32 {
            ordered.insert(u64::from(key), key);
        }
        assert_eq!(ordered.runs.len(), 99, "and the last one apart");
    }

    #[test]
    fn packed_keys_come_back_and_take_no_padding() {
        let (low, high) = (u64::from(u32::MAX), u64::MAX - 1);
        for number in [0, 1, low, low + 1, high] {
            assert_eq!(u64::unpack(number.pack()), number);
            assert_eq!(<(u32, u64)>::unpack((7_u32, number).pack()), (7, number));
            assert_eq!(<(u64, u64)>::unpack((number, 9).pack()), (number, 9));
            let key = (Millis(number), high);
            assert_eq!(<(Millis, u64)>::unpack(key.pack()), key);
        }
        assert_eq!(size_of::<Entry<u64>>(), 12);
        assert_eq!(size_of::<Entry<(u32, u64)>>(), 16);
        assert_eq!(size_of::<Entry<(Millis, u64)>>(), 20);
    }
}
