//! Which queue names are valid.

use broker::Turn;

/// Longest name in bytes: the engine's limit.
const NAME_BYTES_MAX: usize = 8180;

/// Bytes that Kestrel forbids in queue names, because it named journal files after queues.
const FORBIDDEN: &[u8] = b"/.~";

/// Bytes that no name can have, because they end a line or a word.
const NOT_IN_LINES: &[u8] = b" \r\n";

/// Whether a request that would create the queue can use this name. It can always use the name of
/// an existing alias or queue, if the name fits into a line. The number of fan-out children of a
/// queue is limited.
pub(crate) fn is_usable(name: &[u8], turn: &Turn<'_>) -> bool {
    let has_any = |bytes: &[u8]| name.iter().any(|byte| bytes.contains(byte));
    let is_there = || turn.queue_stats(name).is_some() || turn.alias_stats(name).is_some();
    is_possible(name)
        && !has_any(NOT_IN_LINES)
        && (!has_any(FORBIDDEN) || is_there())
        && turn.admits_child(name)
}

/// Whether any queue can have this name.
pub(crate) fn is_possible(name: &[u8]) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
}
