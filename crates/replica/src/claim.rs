//! The bodies of two kinds of records: a claim, and a resignation. A renewal has the body of the
//! claim that it repeats.

use crate::{Incarnation, NodeId};

/// Why a node claims.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Hash)]
pub enum Reason {
    /// Nobody has led yet.
    First,
    /// The leader has not appended for longer than its lease.
    Silence,
    /// The leader's process is gone.
    ProcessGone,
    /// The leader resigned.
    Resigned,
    /// An operator asked for it.
    Forced,
}

const REASONS: [Reason; 5] =
    [Reason::First, Reason::Silence, Reason::ProcessGone, Reason::Resigned, Reason::Forced];

/// The body of a claim.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub struct Claim {
    /// Why the node claims.
    pub reason: Reason,
    /// The process of the claimant.
    pub incarnation: Incarnation,
    /// The claimant.
    pub leader: Leader,
}

/// What a leader tells about itself.
#[derive(Clone, Debug, Default, Eq, PartialEq, Hash)]
pub struct Leader {
    /// The node's name. At most 255 bytes, like all texts here.
    pub name: String,
    /// The address for other nodes.
    pub address: String,
    /// The version of the program.
    pub version: String,
    /// A hash of the settings and policies that the leader enforces.
    pub settings: String,
}

/// A body is not a claim or a resignation.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Hash, thiserror::Error)]
#[error("the body of a claim or of a resignation is invalid")]
pub struct ClaimError;

impl Claim {
    /// The body's bytes. A text that is too long is cut.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let number = REASONS.iter().position(|reason| *reason == self.reason);
        let mut bytes = vec![number.map_or(0, |at| at as u8 + 1)];
        bytes.extend_from_slice(&self.incarnation.to_le_bytes());
        let Leader { name, address, version, settings } = &self.leader;
        for text in [name, address, version, settings] {
            let text = &text[..text.floor_char_boundary(255)];
            bytes.push(text.len() as u8);
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    /// Reads a body.
    ///
    /// # Errors
    ///
    /// The bytes are not a claim.
    pub fn decode(bytes: &[u8]) -> Result<Claim, ClaimError> {
        let (&reason, rest) = bytes.split_first().ok_or(ClaimError)?;
        let at = usize::from(reason).checked_sub(1).ok_or(ClaimError)?;
        let reason = *REASONS.get(at).ok_or(ClaimError)?;
        let (incarnation, mut rest) = rest.split_first_chunk::<8>().ok_or(ClaimError)?;
        let mut text = || {
            let (&len, tail) = rest.split_first().ok_or(ClaimError)?;
            let (text, tail) = tail.split_at_checked(usize::from(len)).ok_or(ClaimError)?;
            rest = tail;
            String::from_utf8(text.to_vec()).map_err(|_| ClaimError)
        };
        let leader =
            Leader { name: text()?, address: text()?, version: text()?, settings: text()? };
        if !rest.is_empty() {
            return Err(ClaimError);
        }
        Ok(Claim { reason, incarnation: u64::from_le_bytes(*incarnation), leader })
    }
}

/// The body of a resignation.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Hash)]
pub struct Resignation {
    /// The node that should claim next, or 0.
    pub successor: NodeId,
}

impl Resignation {
    /// The body's bytes.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        self.successor.to_le_bytes().to_vec()
    }

    /// Reads a body.
    ///
    /// # Errors
    ///
    /// The bytes are not a resignation.
    pub fn decode(bytes: &[u8]) -> Result<Resignation, ClaimError> {
        let bytes = <[u8; 8]>::try_from(bytes).map_err(|_| ClaimError)?;
        Ok(Resignation { successor: u64::from_le_bytes(bytes) })
    }
}
