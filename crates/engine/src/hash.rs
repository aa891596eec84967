//! The hash of names and keys that clients choose.
//!
//! The hash depends on a seed. Names with equal hashes would slow down look-ups. A client that
//! knows the seed could find such names. So a server draws its seed at random. No reply depends on
//! the seed: the engine looks up keys in hash tables, but never iterates over a hash table.

use std::hash::Hasher;

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;

/// Hashes names and keys. The same seed gives the same hashes.
#[derive(Clone, Debug)]
pub(crate) struct NameHash {
    seed: u64,
    /// Constants for foldhash, made from the same seed. With the public constants of foldhash,
    /// clients could build names whose hash does not depend on the seed.
    shared: SharedSeed,
}

impl NameHash {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, shared: SharedSeed::from_u64(seed) }
    }

    pub(crate) fn of(&self, name: &[u8]) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        hasher.write(name);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_collide_under_one_seed_do_not_under_another() {
        // The first half of these names cancels a public constant of foldhash. With this constant,
        // all these names would have the same hash.
        let name = |number: u64| {
            let mut name = vec![0x4E, 0xEC, 0x98, 0xFA, 0x2E, 0x08, 0x89, 0x6C];
            name.extend(number.to_le_bytes());
            name
        };
        for seed in [1, 2, u64::MAX] {
            let hash = NameHash::new(seed);
            let mut hashes: Vec<u64> = (0..1000).map(|number| hash.of(&name(number))).collect();
            hashes.sort_unstable();
            hashes.dedup();
            assert_eq!(hashes.len(), 1000, "seed {seed}");
        }
        assert_ne!(NameHash::new(1).of(b"default"), NameHash::new(2).of(b"default"));
    }
}
