//! Pauses by policy: hand-out stops until the policy changes.

use super::Name;

/// Whether a policy pauses a queue, and why. Unlike the pause that a client asks for, it has no
/// length: the rules in force say whether there is one, so it outlives a restart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PausePolicy {
    /// Whether the queue hands out no jobs.
    pub is_on: bool,
    /// The reason that the operator gave.
    pub reason: Option<Name>,
}
