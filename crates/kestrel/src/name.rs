//! Which names a queue may have.

use broker::Turn;

/// Longest name in bytes: what the engine takes.
const NAME_BYTES_MAX: usize = 8180;

/// Bytes that no queue of Kestrel's has in its name: it kept journals in files named after them.
const FORBIDDEN: &[u8] = b"/.~";

/// Bytes that no name has, because a line could not carry it, or not to its end.
const NOT_IN_LINES: &[u8] = b" \r\n";

/// Whether a request that would create the queue may name it so: it may name what is there already,
/// an alias or a queue that another dialect made, as long as it can be told from the rest of a line. A
/// queue can have so many fan-out children.
pub(crate) fn is_usable(name: &[u8], turn: &Turn<'_>) -> bool {
    let has_any = |bytes: &[u8]| name.iter().any(|byte| bytes.contains(byte));
    let is_there = || turn.queue_stats(name).is_some() || turn.alias_stats(name).is_some();
    is_possible(name)
        && !has_any(NOT_IN_LINES)
        && (!has_any(FORBIDDEN) || is_there())
        && turn.admits_child(name)
}

/// Whether a queue can have this name at all, whoever made it.
pub(crate) fn is_possible(name: &[u8]) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
}
