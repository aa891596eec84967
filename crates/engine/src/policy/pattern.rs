//! Patterns for names. `*` matches any number of bytes, and `?` matches one byte.

use crate::limits::{UNIT_COMPARISONS, UNIT_PATTERN_STEPS};

/// A pattern for names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pattern(Box<[u8]>);

impl Pattern {
    /// Makes a pattern from a text. Every text is valid.
    pub fn new(text: &[u8]) -> Pattern {
        Pattern(text.into())
    }

    /// The text of the pattern.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text of the pattern, if the pattern has no wildcards. Such a pattern matches only this
    /// name.
    pub fn literal(&self) -> Option<&[u8]> {
        let has_wildcards = self.0.iter().any(|byte| matches!(byte, b'*' | b'?'));
        (!has_wildcards).then_some(&self.0)
    }

    /// Whether the pattern matches the whole name. The time grows with the length of the name,
    /// whatever its bytes are: see [`Pattern::steps`].
    pub fn matches(&self, name: &[u8]) -> bool {
        let pattern = &self.0;
        let Some(first) = pattern.iter().position(|&byte| byte == b'*') else {
            return fits(pattern, name);
        };
        let last = pattern.iter().rposition(|&byte| byte == b'*').unwrap_or(first);
        // The parts before the first `*` and after the last `*` have only one place in the name.
        let (head, tail) = (&pattern[..first], &pattern[last + 1..]);
        if name.len() < head.len() + tail.len() {
            return false;
        }
        let (start, rest) = name.split_at(head.len());
        let (middle, end) = rest.split_at(rest.len() - tail.len());
        fits(head, start) && fits(tail, end) && has_parts(&pattern[first..=last], middle)
    }

    /// The maximum number of steps of [`Pattern::matches`]: the steps for every name, and the
    /// further steps per byte of the name. Only a part between two `*` has to be looked for in the
    /// name.
    pub fn steps(&self) -> (usize, usize) {
        let parts = self.0.split(|&byte| byte == b'*');
        let inner = parts.clone().count().saturating_sub(2);
        let blocks = parts.skip(1).take(inner).map(|part| part.len().div_ceil(BLOCK_BYTES));
        let tables: usize = blocks.clone().sum();
        // Each block of a long part reads all that is left of the name. Short parts together read
        // the name once, because each of them stops at its first place.
        let of_long: usize = blocks.filter(|count| *count > 1).sum();
        let per_byte = usize::from(tables > 0) + LONG_STEPS * of_long;
        (CALL_STEPS + self.0.len() + TABLE_STEPS * tables, per_byte)
    }
}

/// The steps of a match that compares nothing: 64 of them count as one unit of work, like other cheap
/// comparisons.
const CALL_STEPS: usize = UNIT_PATTERN_STEPS / UNIT_COMPARISONS;

/// This many bytes of a part are compared with a byte of the name at once: a word has so many bits.
const BLOCK_BYTES: usize = u64::BITS as usize;

/// The steps that prepare a block: they fill a table of 2 KiB.
const TABLE_STEPS: usize = 64;

/// The steps per block and byte of the name if a part has several blocks: they also note where each
/// block ends.
const LONG_STEPS: usize = 2;

/// Whether a pattern without `*` matches a whole name.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let is_same = |(wanted, byte): (&u8, &u8)| *wanted == b'?' || wanted == byte;
    pattern.len() == name.len() && pattern.iter().zip(name).all(is_same)
}

/// Whether a pattern that begins and ends with a `*` matches a whole name: its parts are in the
/// name, in this order. Each part takes its first place, because this leaves the most bytes for the
/// others.
fn has_parts(pattern: &[u8], mut name: &[u8]) -> bool {
    for part in pattern.split(|&byte| byte == b'*') {
        let Some(end) = first_end(part, name) else { return false };
        name = &name[end..];
    }
    true
}

/// Where the first place of a part ends in a name.
fn first_end(part: &[u8], name: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return Some(0);
    }
    if part.len() > name.len() {
        return None;
    }
    if part.len() <= BLOCK_BYTES {
        return ends(part, name, |_| true).next();
    }
    // A block begins where the block before it ends.
    let mut begins = vec![true; name.len() + 1];
    for block in part.chunks(BLOCK_BYTES) {
        let mut behind = vec![false; name.len() + 1];
        for end in ends(block, name, |at| begins[at]) {
            behind[end] = true;
        }
        begins = behind;
    }
    begins.iter().position(|is_end| *is_end)
}

/// Where a block ends in a name, if it begins at one of these places. This is the algorithm
/// Shift-And: bit `n` of the state tells whether the first `n + 1` bytes of the block match the
/// last bytes of the name that it has read. So it never goes back in the name, whatever both are.
fn ends(
    block: &[u8],
    name: &[u8],
    may_begin: impl Fn(usize) -> bool,
) -> impl Iterator<Item = usize> {
    // The bits of a byte: where the block has this byte.
    let (mut bits, mut any) = ([0_u64; 256], 0_u64);
    for (place, &byte) in block.iter().enumerate() {
        let bit = 1_u64 << place;
        if byte == b'?' {
            any |= bit;
        } else {
            bits[usize::from(byte)] |= bit;
        }
    }
    let last = 1_u64 << (block.len() - 1);
    let mut state = 0_u64;
    name.iter().enumerate().filter_map(move |(at, &byte)| {
        let begun = (state << 1) | u64::from(may_begin(at));
        state = begun & (bits[usize::from(byte)] | any);
        (state & last != 0).then_some(at + 1)
    })
}
