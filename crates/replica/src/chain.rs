//! The hash that connects groups. It protects against accidents, not against an attacker: the
//! stream's own access rights do that.

use crate::Lineage;

/// Multipliers of the mix. They are odd, and part of the format.
const FIRST: u64 = 0x9fb2_1c65_1e98_df25;
const SECOND: u64 = 0xd6e8_feb8_6659_fd93;
/// The beginning of every mix.
const START: u64 = 0x6c73_6d69_7865_6431;

/// A hash of 64-bit words and bytes. Its values are stored, so it never changes.
#[derive(Copy, Clone, Debug)]
pub struct Mix(u64);

impl Mix {
    /// The hash of nothing.
    #[must_use]
    pub fn new() -> Mix {
        Mix(START)
    }

    /// Adds one word.
    #[must_use]
    pub fn word(self, word: u64) -> Mix {
        // The rotation makes the order of words count, also for words that are zero.
        let mut hash = self.0.rotate_left(23) ^ word;
        hash = (hash ^ (hash >> 32)).wrapping_mul(FIRST);
        hash = (hash ^ (hash >> 29)).wrapping_mul(SECOND);
        Mix(hash ^ (hash >> 32))
    }

    /// Adds bytes: their number, then words of 8 bytes. Zeros fill the last word.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Mix {
        let mut mix = self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mix = mix.word(u64::from_le_bytes(word));
        }
        mix
    }

    /// The hash.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }
}

impl Default for Mix {
    fn default() -> Mix {
        Mix::new()
    }
}

/// The hash of a group and all groups before it. Two nodes with the same number and the same chain
/// have applied the same groups.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct Chain(pub u64);

/// The values of a group that its chain covers. `body_crc` stands for its facts.
#[derive(Copy, Clone, Debug)]
pub struct Link {
    /// The epoch of the group's leader.
    pub epoch: u64,
    /// The group's number.
    pub number: u64,
    /// The time of the group, in milliseconds of log time.
    pub time_ms: u64,
    /// The state hash after the group.
    pub state: u64,
    /// The number of logged jobs after the group.
    pub jobs: u64,
    /// Ids below this limit may have been used.
    pub id_limit: u64,
    /// The length of the group's facts in bytes.
    pub body_bytes: u64,
    /// The checksum of the group's facts.
    pub body_crc: u32,
}

impl Chain {
    /// The chain of a new cluster, before its first group. `state` and `jobs` describe the folder
    /// that the cluster begins with.
    #[must_use]
    pub fn origin(lineage: Lineage, state: u64, jobs: u64) -> Chain {
        Chain(Mix::new().bytes(&lineage.0).word(state).word(jobs).value())
    }

    /// The chain after one more group.
    #[must_use]
    pub fn then(self, link: &Link) -> Chain {
        let mix = Mix::new()
            .word(self.0)
            .word(link.epoch)
            .word(link.number)
            .word(link.time_ms)
            .word(link.state)
            .word(link.jobs)
            .word(link.id_limit)
            .word(link.body_bytes)
            .word(u64::from(link.body_crc));
        Chain(mix.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_length_and_zeros_count() {
        let mix = Mix::new();
        assert_ne!(mix.word(1).word(2).value(), mix.word(2).word(1).value());
        assert_ne!(mix.word(0).value(), mix.value());
        assert_ne!(mix.word(0).word(0).value(), mix.word(0).value());
        assert_ne!(mix.bytes(b"a\0").value(), mix.bytes(b"a").value());
        assert_ne!(mix.bytes(b"").bytes(b"a").value(), mix.bytes(b"a").bytes(b"").value());
    }
}
