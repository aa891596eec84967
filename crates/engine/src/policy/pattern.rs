//! Patterns of names: `*` matches any run of bytes, `?` matches one byte.

/// A pattern for names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pattern(Box<[u8]>);

impl Pattern {
    /// Makes a pattern from any text: every text is valid.
    pub fn new(text: &[u8]) -> Pattern {
        Pattern(text.into())
    }

    /// The pattern as it was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The only name that the pattern matches, if it has no wildcards.
    pub fn literal(&self) -> Option<&[u8]> {
        let has_wildcards = self.0.iter().any(|byte| matches!(byte, b'*' | b'?'));
        (!has_wildcards).then_some(&self.0)
    }

    /// Whether the pattern matches the whole name. Needs no memory, and takes at most as many steps
    /// as the product of both lengths. If the part after a `*` does not match, only the last `*`
    /// takes one more byte. An earlier `*` could not match better.
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
