//! The rules of replication, without I/O: the same inputs give the same outputs.
//!
//! Several nodes share one *stream*: a replicated log that another program keeps. One node *leads*.
//! It appends *groups* of facts. The other nodes *follow*: they read the groups and apply them.
//!
//! - [`record`]: the bytes of one message of the stream. `docs/replication-format.md` describes
//!   them. [`claim`]: the contents of two kinds of records.
//! - [`group`]: a group as a value, its parts, and the place that a node has reached.
//! - [`chain`]: the hash that connects each group with all groups before it.
//! - [`reader`]: which records of a stream count. All nodes decide this in the same way.
//! - [`audit`]: verifies a whole stream, for an operator.
//! - [`node`]: the state machine of one node: it follows, claims and leads.
//! - [`report`]: what a follower tells the leader. [`trim`]: how much of the stream can go.
//!
//! This crate decides, and others act. So the driver of a real stream, the simulator and the
//! exhaustive model use the same rules.

pub mod audit;
pub mod chain;
pub mod claim;
pub mod group;
pub mod node;
pub mod reader;
pub mod record;
pub mod report;
pub mod trim;

use std::fmt;
use std::str::FromStr;

/// The sequence number of a record in the stream. The first record has 1.
pub type Seq = u64;

/// The sequence number of a leader's claim. Epochs rise. 0: nobody has led yet.
pub type Epoch = Seq;

/// The number of a node. It is random, made at the node's first start, and never 0.
pub type NodeId = u64;

/// The number of a process. It is random, made at each start.
pub type Incarnation = u64;

/// The identity of a cluster's history. A record of another lineage is never applied.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct Lineage(pub [u8; 16]);

/// 32 hexadecimal digits, as people, the stream's metadata and the lines between nodes show it.
impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The text is not a [`Lineage`].
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a lineage has 32 hexadecimal digits")]
pub struct NotALineage;

impl FromStr for Lineage {
    type Err = NotALineage;

    fn from_str(digits: &str) -> Result<Lineage, NotALineage> {
        // The parser of numbers also accepts a sign.
        let is_hex = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_hex.then(|| u128::from_str_radix(digits, 16).ok()).flatten();
        number.map(|number| Lineage(number.to_be_bytes())).ok_or(NotALineage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lineage_is_read_as_it_was_written() {
        let lineage = Lineage([0x0b, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xff]);
        assert_eq!(lineage.to_string(), "0b0102030405060708090a0b0c0d0eff");
        assert_eq!(lineage.to_string().parse(), Ok(lineage));
        for text in
            ["", "0b", "+b0102030405060708090a0b0c0d0eff", "xb0102030405060708090a0b0c0d0eff"]
        {
            assert_eq!(text.parse::<Lineage>(), Err(NotALineage), "{text}");
        }
    }
}
