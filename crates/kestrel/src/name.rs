//! Which queue names are valid.

use broker::Turn;

/// Longest name in bytes. This is the engine's limit.
const NAME_BYTES_MAX: usize = 8180;

/// Bytes that Kestrel forbids in queue names, because it uses queue names in the names of its
/// journal files.
const FORBIDDEN: &[u8] = b"/.~";

/// Bytes that a name in a line cannot contain, because they end the line or the word.
const NOT_IN_LINES: &[u8] = b" \r\n";

/// True if a request that can create the queue can use this name. If the queue or an alias already
/// exists, its name can also have forbidden bytes. A child is refused if its parent already has the
/// maximum of fan-out children.
pub(crate) fn is_usable(name: &[u8], turn: &Turn<'_>) -> bool {
    let has_any = |bytes: &[u8]| name.iter().any(|byte| bytes.contains(byte));
    let is_there = || turn.queue_stats(name).is_some() || turn.alias_stats(name).is_some();
    is_possible(name)
        && !has_any(NOT_IN_LINES)
        && (!has_any(FORBIDDEN) || is_there())
        && turn.admits_child(name)
}

/// True if a queue's name can have this length.
pub(crate) fn is_possible(name: &[u8]) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
}
