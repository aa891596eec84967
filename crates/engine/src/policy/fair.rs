//! Fairness: a queue hands out the jobs of several keys in turn.

use std::num::NonZeroU32;

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
    pub weights: Box<[Weight]>,
    /// Which key is the next one.
    pub mode: FairMode,
    /// Whether the keys come before the priorities. If not, only jobs of the same priority share.
    pub across_priorities: bool,
}

/// The text of a key, and its weight.
pub type Weight = (Box<str>, NonZeroU32);

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
pub(crate) struct LaneWeights(Box<[(KeyHash, NonZeroU32)]>);

impl LaneWeights {
    /// The weight of a key.
    pub(crate) fn of(&self, key: KeyHash) -> u32 {
        let found = self.0.binary_search_by_key(&key, |(known, _)| *known);
        found.map_or(1, |at| self.0[at].1.get())
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
        let weights = self.fair.weights.iter();
        let mut weights: Vec<_> =
            weights.map(|(text, weight)| (key.hash_of(text.as_bytes()), *weight)).collect();
        weights.sort_unstable();
        weights.dedup_by_key(|(hash, _)| *hash);
        LaneWeights(weights.into())
    }
}
