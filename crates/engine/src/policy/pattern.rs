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

    /// Whether the pattern matches the whole name. Allocates no memory. With one `*` at most, the
    /// maximum number of steps is the length of the pattern. With more, it is the length of the longest
    /// part between two of them, times the length of the name.
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

    /// The maximum number of steps of [`Pattern::matches`]: the steps for every name, and the further
    /// steps per byte of the name. A part between two `*` may have to be tried at each place of the name.
    pub(super) fn steps(&self) -> (usize, usize) {
        let parts = self.0.split(|&byte| byte == b'*');
        let inner = parts.clone().count().saturating_sub(2);
        let longest = parts.skip(1).take(inner).map(|part| part.len() + 1).max();
        (CALL_STEPS + self.0.len(), longest.unwrap_or(0))
    }
}

/// The steps of a match that compares nothing: 64 of them count as one unit of work, like other cheap
/// comparisons.
const CALL_STEPS: usize = UNIT_PATTERN_STEPS / UNIT_COMPARISONS;

/// Whether a pattern without `*` matches a whole name.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let is_same = |(wanted, byte): (&u8, &u8)| *wanted == b'?' || wanted == byte;
    pattern.len() == name.len() && pattern.iter().zip(name).all(is_same)
}

/// Whether a pattern that begins and ends with a `*` matches a whole name. If the part after the last
/// `*` so far does not match, this `*` takes one more byte. An earlier `*` never needs more bytes,
/// because the last `*` can take any bytes.
fn has_parts(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                if at == pattern.len() {
                    return true;
                }
                last_star = Some((at, from));
            }
            Some(&byte) if byte == b'?' || byte == name[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((after, taken_to)) = &mut last_star else { return false };
                *taken_to += 1;
                (at, from) = (*after, *taken_to);
            }
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}
