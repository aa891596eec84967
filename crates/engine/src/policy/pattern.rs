//! Patterns of names: `*` stands for any run of bytes, `?` for one.

/// A pattern that names are compared with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pattern(Box<[u8]>);

impl Pattern {
    /// Every text is a pattern.
    pub fn new(text: &[u8]) -> Pattern {
        Pattern(text.into())
    }

    /// As it was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The only name that it matches, if it has no wildcards.
    pub fn literal(&self) -> Option<&[u8]> {
        let has_wildcards = self.0.iter().any(|byte| matches!(byte, b'*' | b'?'));
        (!has_wildcards).then_some(&self.0)
    }

    /// Whether the whole name matches. Takes no memory, and no more steps than the lengths of both
    /// multiplied: when something after a `*` does not fit, only the last `*` has to take one byte
    /// more, since an earlier one could do no better.
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
