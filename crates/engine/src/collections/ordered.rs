//! An ordered map that stores its entries in short runs. The engine uses it for ready, delayed and
//! buried jobs, waiters and timers.
//!
//! If keys arrive in ascending order, the nodes of a `BTreeMap` stay half empty. Then an entry of
//! 20 bytes takes almost 40 bytes. In this map, a run has up to 64 entries and fills up completely.
//! A `BTreeMap` finds the run of a key. An entry takes about 25 bytes, and removing the first entry
//! is cheap.

use std::collections::{BTreeMap, VecDeque};

use super::prefetch::prefetch;

/// Maximum number of entries in a run.
const RUN_LEN_MAX: usize = 64;
/// If a run has fewer entries than this after a removal, the map tries to join the run with the
/// next run.
const RUN_LEN_LOW: usize = 16;
/// The map joins two runs only if they have at most this many entries together.
const RUN_LEN_JOINED_MAX: usize = 48;

/// An ordered map from keys to places.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Ordered<K> {
    /// The number of entries. This is the first field in memory. Most maps are empty, and an
    /// operation on an empty map reads no other field.
    len: usize,
    /// The run with the highest keys. It is the only run of most maps, because most queues are
    /// short and most keys arrive in ascending order. This run is empty only if the map is empty.
    last: VecDeque<(K, u32)>,
    /// The other runs, with lower keys. The key of a run in this map is its *fence*. The fence is
    /// above all keys of the previous run, and not above the first key of its own run.
    runs: BTreeMap<K, VecDeque<(K, u32)>>,
}

impl<K> Default for Ordered<K> {
    fn default() -> Self {
        Self { last: VecDeque::new(), runs: BTreeMap::new(), len: 0 }
    }
}

impl<K: Ord + Copy> Ordered<K> {
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
            return self.last.front().copied();
        }
        self.runs.first_key_value().and_then(|(_, run)| run.front().copied())
    }

    /// Prefetches the memory that an insert of a new highest key needs.
    pub(crate) fn prefetch_end(&self) {
        if let Some(last) = self.last.back() {
            prefetch(last);
        }
    }

    pub(crate) fn last(&self) -> Option<(K, u32)> {
        self.last.back().copied()
    }

    /// Whether the map has this key. This is fast if the key is above all keys of the map.
    pub(crate) fn contains(&self, key: K) -> bool {
        self.last().is_some_and(|(last, _)| last >= key)
            && self.first_from(key).is_some_and(|(first, _)| first == key)
    }

    /// The first entry whose key is equal to this key or above it.
    pub(crate) fn first_from(&self, key: K) -> Option<(K, u32)> {
        let within =
            |run: &VecDeque<(K, u32)>| run.get(run.partition_point(|entry| entry.0 < key)).copied();
        let lower = self.runs.range(..=key).next_back().and_then(|(_, run)| within(run));
        let next = || self.runs.range(key..).find_map(|(_, run)| within(run));
        lower.or_else(next).or_else(|| within(&self.last))
    }

    /// All entries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, u32)> {
        self.runs.values().flatten().chain(&self.last).copied()
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
        first
    }

    /// Adds a key that the map does not have yet.
    pub(crate) fn insert(&mut self, key: K, place: u32) {
        self.len += 1;
        if self.last.back().is_none_or(|back| back.0 < key) {
            if self.last.len() == RUN_LEN_MAX {
                let full = std::mem::take(&mut self.last);
                let fence = full.front().expect("a full run has a first entry").0;
                self.runs.insert(fence, full);
            }
            self.last.push_back((key, place));
        } else if self.runs.is_empty() || self.last.front().is_some_and(|front| front.0 < key) {
            insert_sorted(&mut self.last, key, place);
            if self.last.len() > RUN_LEN_MAX {
                let upper = self.last.split_off(RUN_LEN_MAX / 2);
                let lower = std::mem::replace(&mut self.last, upper);
                let fence = lower.front().expect("the lower half of a full run").0;
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
            let upper_fence = upper.front().expect("the upper half of a full run").0;
            self.runs.insert(upper_fence, upper);
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
        let in_last = self.last.front().is_some_and(|front| front.0 <= key);
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
            let in_last = self.last.front().is_some_and(|front| front.0 <= key);
            let (fence, run) = if in_last {
                (None, &mut self.last)
            } else if let Some((fence, run)) = self.runs.range_mut(..=key).next_back() {
                (Some(*fence), run)
            } else {
                keys.next();
                continue;
            };
            let before = run.len();
            run.retain(|&(entry, place)| {
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

fn insert_sorted<K: Ord + Copy>(run: &mut VecDeque<(K, u32)>, key: K, place: u32) {
    let at = run.partition_point(|entry| entry.0 < key);
    debug_assert!(run.get(at).is_none_or(|entry| entry.0 != key));
    run.insert(at, (key, place));
}

fn remove_sorted<K: Ord + Copy>(run: &mut VecDeque<(K, u32)>, key: K) -> Option<u32> {
    let at = run.binary_search_by(|entry| entry.0.cmp(&key)).ok()?;
    run.remove(at).map(|entry| entry.1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16),
        Remove(u16),
        PopFirst,
        RemoveBetween(u16, u16),
        RemoveAll(u16, Vec<u16>),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => any::<u16>().prop_map(Step::Insert),
            3 => any::<u16>().prop_map(Step::Remove),
            1 => Just(Step::PopFirst),
            1 => (any::<u16>(), 0..2000u16).prop_map(|(from, len)| Step::RemoveBetween(from, len)),
            1 => (any::<u16>(), prop::collection::vec(0..300u16, 1..200))
                .prop_map(|(from, gaps)| Step::RemoveAll(from, gaps)),
        ];
        prop::collection::vec(step, 0..1500)
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
                        let mut at = from;
                        let keys: Vec<u16> = gaps
                            .iter()
                            .map_while(|gap| {
                                at = at.checked_add(*gap + 1)?;
                                Some(at)
                            })
                            .collect();
                        // Half of them are keys that the map has.
                        let known = model.range(from..).map(|(key, _)| *key).take(keys.len());
                        let all: BTreeSet<u16> = known.chain(keys).collect();
                        let mut places = Vec::new();
                        ordered.remove_all(all.iter().copied(), |place| places.push(place));
                        let wanted: Vec<u32> =
                            all.iter().filter_map(|key| model.remove(key)).collect();
                        prop_assert_eq!(places, wanted);
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
            prop_assert!(ordered.iter().eq(model.into_iter()));
        }
    }

    #[test]
    fn ascending_keys_fill_whole_runs() {
        let mut ordered = Ordered::default();
        for key in 0..6400u32 {
            ordered.insert(key, key);
        }
        assert_eq!(ordered.runs.len(), 99, "and the last one apart");
    }
}
