//! Fairness: a queue hands out the jobs of several keys in turn.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Key, KeyHash, Policy};

/// The largest weight of a key.
pub const WEIGHT_MAX: u32 = 1000;
/// Maximum number of keys with a weight of their own.
pub const WEIGHTS_MAX: usize = 1000;

/// How a queue shares its hand-outs between keys.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Fair {
    /// Where the key of a job is. `None`: the keys do not matter for the order.
    pub key: Option<Key>,
    /// The weights of keys, by their texts, in order. Other keys have the weight 1.
    pub weights: Weights,
    /// Which key is the next one.
    pub mode: FairMode,
    /// Whether the keys come before the priorities. If not, only jobs of the same priority share.
    pub across_priorities: bool,
}

/// The text of a key, and its weight.
pub type Weight = (Box<str>, NonZeroU32);

/// Weights of keys. A clone is cheap and shares them, so that many queues with one rule need the
/// memory of one.
#[derive(Clone, Default)]
pub struct Weights(Option<Arc<SharedWeights>>);

struct SharedWeights {
    texts: Box<[Weight]>,
    /// The weights by the hashes of the keys, for each expression of keys that a queue has with them.
    hashed: Mutex<BTreeMap<Box<str>, LaneWeights>>,
}

/// Which key of a fair queue is the next one.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum FairMode {
    /// The keys take turns. In each turn, a key gets as many jobs as its weight says: deficit round
    /// robin with a quantum of one job.
    #[default]
    RoundRobin,
    /// The key with the fewest leased jobs for its weight. Of several, the key with the oldest first
    /// job.
    InFlight,
}

/// How lanes share the hand-outs of a queue.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Share {
    /// See [`Fair::mode`].
    pub(crate) mode: FairMode,
    /// See [`Fair::across_priorities`].
    pub(crate) across_priorities: bool,
}

/// The weights of keys, by their hashes, in order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct LaneWeights(Option<Arc<[(KeyHash, NonZeroU32)]>>);

impl LaneWeights {
    /// The weight of a key.
    pub(crate) fn of(&self, key: KeyHash) -> u32 {
        let Some(weights) = &self.0 else { return 1 };
        let found = weights.binary_search_by_key(&key, |(known, _)| *known);
        found.map_or(1, |at| weights[at].1.get())
    }

    /// Whether both are one list in memory.
    #[cfg(test)]
    pub(super) fn shares_with(&self, other: &LaneWeights) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, _) | (_, None) => false,
        }
    }
}

impl Weights {
    /// The weights by the hashes of these keys.
    fn hashed(&self, key: &Key) -> LaneWeights {
        let Some(shared) = &self.0 else { return LaneWeights::default() };
        // Another thread that panicked cannot have left a part of a list.
        let mut known = shared.hashed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(weights) = known.get(key.as_str()) {
            return weights.clone();
        }
        let texts = shared.texts.iter();
        let mut weights: Vec<_> =
            texts.map(|(text, weight)| (key.hash_of(text.as_bytes()), *weight)).collect();
        weights.sort_unstable();
        weights.dedup_by_key(|(hash, _)| *hash);
        let weights = LaneWeights(Some(weights.into()));
        known.insert(key.as_str().into(), weights.clone());
        weights
    }
}

impl From<Vec<Weight>> for Weights {
    fn from(weights: Vec<Weight>) -> Weights {
        if weights.is_empty() {
            return Weights::default();
        }
        let shared = SharedWeights { texts: weights.into(), hashed: Mutex::default() };
        Weights(Some(Arc::new(shared)))
    }
}

impl<const N: usize> From<[Weight; N]> for Weights {
    fn from(weights: [Weight; N]) -> Weights {
        Vec::from(weights).into()
    }
}

impl FromIterator<Weight> for Weights {
    fn from_iter<I: IntoIterator<Item = Weight>>(weights: I) -> Weights {
        Vec::from_iter(weights).into()
    }
}

impl Deref for Weights {
    type Target = [Weight];

    fn deref(&self) -> &[Weight] {
        self.0.as_ref().map_or(&[], |shared| &shared.texts)
    }
}

impl PartialEq for Weights {
    fn eq(&self, other: &Weights) -> bool {
        self.as_ptr() == other.as_ptr() || **self == **other
    }
}

impl Eq for Weights {}

impl fmt::Debug for Weights {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(to)
    }
}

impl Policy {
    /// How the keys of the queue share its hand-outs. `None`: they do not.
    pub(crate) fn share(&self) -> Option<Share> {
        self.fair.key.as_ref()?;
        Some(Share { mode: self.fair.mode, across_priorities: self.fair.across_priorities })
    }

    /// The weights of the keys of the queue.
    pub(crate) fn lane_weights(&self) -> LaneWeights {
        let (Some(_), Some(key)) = (self.share(), self.group_key()) else {
            return LaneWeights::default();
        };
        self.fair.weights.hashed(key)
    }
}
