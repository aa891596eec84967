//! Patterns for names. `*` matches any number of bytes, and `?` matches one byte.

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

    /// Whether the pattern matches the whole name. Allocates no memory. The maximum number of steps
    /// is the length of the pattern times the length of the name. If the part after the last `*`
    /// does not match, this `*` takes one more byte. An earlier `*` never needs more bytes, because
    /// the last `*` can take any bytes.
    pub fn matches(&self, name: &[u8]) -> bool {
        let pattern = &self.0;
        let (mut at, mut from) = (0, 0);
        let mut last_star: Option<(usize, usize)> = None;
        while from < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    at += 1;
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
}
