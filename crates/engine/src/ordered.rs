//! An ordered map in short runs: for ready, delayed and buried jobs, waiters and timers.
//!
//! A `BTreeMap` that is filled in ascending order leaves its nodes half empty and costs close to
//! 40 bytes for an entry of 20. Here runs of up to 64 entries are filled whole and a `BTreeMap`
//! finds the run, which costs about 25 bytes an entry and makes taking the first one cheap.

use std::collections::{BTreeMap, VecDeque};

/// Most entries in a run.
const RUN_LEN_MAX: usize = 64;
/// A run below this looks for a neighbour to join.
const RUN_LEN_LOW: usize = 16;
/// Two runs that are together no longer than this are joined.
const RUN_LEN_JOINED_MAX: usize = 48;

/// Keys in order, each with the place of what it stands for.
#[derive(Debug)]
pub(crate) struct Ordered<K> {
    /// By a key that is not above the run's first and above every key of the run before.
    runs: BTreeMap<K, VecDeque<(K, u32)>>,
    len: usize,
}

impl<K> Default for Ordered<K> {
    fn default() -> Self {
        Self { runs: BTreeMap::new(), len: 0 }
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
        self.runs.first_key_value().and_then(|(_, run)| run.front().copied())
    }

    /// All entries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, u32)> {
        self.runs.values().flatten().copied()
    }

    pub(crate) fn pop_first(&mut self) -> Option<(K, u32)> {
        let mut entry = self.runs.first_entry()?;
        let first = entry.get_mut().pop_front();
        if entry.get().is_empty() {
            entry.remove();
        }
        self.len -= 1;
        first
    }

    /// Adds a key that is not there yet.
    pub(crate) fn insert(&mut self, key: K, place: u32) {
        self.len += 1;
        if let Some(mut last) = self.runs.last_entry() {
            let run = last.get_mut();
            if run.back().is_some_and(|back| back.0 < key) {
                if run.len() < RUN_LEN_MAX {
                    run.push_back((key, place));
                } else {
                    self.runs.insert(key, VecDeque::from([(key, place)]));
                }
                return;
            }
        }
        let Some(fence) = self.fence_for(key) else {
            self.runs.insert(key, VecDeque::from([(key, place)]));
            return;
        };
        let run = self.runs.get_mut(&fence).expect("the fence was just found");
        let at = run.partition_point(|entry| entry.0 < key);
        debug_assert!(run.get(at).is_none_or(|entry| entry.0 != key));
        run.insert(at, (key, place));
        if run.len() > RUN_LEN_MAX {
            let upper = run.split_off(RUN_LEN_MAX / 2);
            let upper_fence = upper.front().expect("the upper half of a full run").0;
            self.runs.insert(upper_fence, upper);
        }
    }

    /// The fence of the run where `key` belongs. A key below all fences lowers the first.
    fn fence_for(&mut self, key: K) -> Option<K> {
        if let Some((&fence, _)) = self.runs.range(..=key).next_back() {
            return Some(fence);
        }
        let (_, run) = self.runs.pop_first()?;
        self.runs.insert(key, run);
        Some(key)
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<u32> {
        let (&fence, run) = self.runs.range_mut(..=key).next_back()?;
        let at = run.binary_search_by(|entry| entry.0.cmp(&key)).ok()?;
        let place = run.remove(at).expect("the place was just found").1;
        self.len -= 1;
        if run.is_empty() {
            self.runs.remove(&fence);
        } else if run.len() < RUN_LEN_LOW {
            self.join_with_next(fence);
        }
        Some(place)
    }

    /// Keeps sparse survivors from holding a run each.
    fn join_with_next(&mut self, fence: K) {
        let mut pair = self.runs.range_mut(fence..);
        let Some((_, run)) = pair.next() else { return };
        let Some((&next_fence, next)) = pair.next() else { return };
        if run.len() + next.len() <= RUN_LEN_JOINED_MAX {
            run.append(next);
            self.runs.remove(&next_fence);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16),
        Remove(u16),
        PopFirst,
        RemoveBetween(u16, u16),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => any::<u16>().prop_map(Step::Insert),
            3 => any::<u16>().prop_map(Step::Remove),
            1 => Just(Step::PopFirst),
            1 => (any::<u16>(), 0..2000u16).prop_map(|(from, len)| Step::RemoveBetween(from, len)),
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
                }
                prop_assert_eq!(ordered.len(), model.len());
                prop_assert_eq!(ordered.first(), model.first_key_value().map(|(k, v)| (*k, *v)));
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
        assert_eq!(ordered.runs.len(), 100);
    }
}
