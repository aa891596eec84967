//! Which names a queue may have.

use broker::Turn;

/// Longest name in bytes: what the engine takes.
const NAME_BYTES_MAX: usize = 8180;

/// Bytes that no queue of Kestrel's has in its name: it kept journals in files named after them.
/// They are taken where another dialect has made the queue already.
const FORBIDDEN: &[u8] = b"/.~";

/// Whether a request that would create the queue may name it so.
pub(crate) fn is_usable(name: &[u8], turn: &Turn<'_>) -> bool {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    fits && (!name.iter().any(|byte| FORBIDDEN.contains(byte)) || turn.queue_stats(name).is_some())
}

/// Whether a queue can have this name at all, whoever made it.
pub(crate) fn is_possible(name: &[u8]) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
}
