//! Bytes that come in stretches: memory follows what really came, not what was announced.

use std::borrow::Cow;

/// What came so far of a body of announced length, for dialects.
#[derive(Debug)]
pub struct Gathering {
    /// How long the body is.
    bytes: usize,
    gathered: Vec<u8>,
}

impl Gathering {
    /// Nothing yet of a body of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { bytes, gathered: Vec::new() }
    }

    /// Keeps a stretch of the body; how many bytes of it belong there. The buffer grows with what
    /// really came: to at most twice that, and never beyond the announced length.
    pub fn gather(&mut self, stretch: &[u8]) -> usize {
        let count = stretch.len().min(self.bytes - self.gathered.len());
        let needed = self.gathered.len() + count;
        if needed > self.gathered.capacity() {
            let capacity = needed.max(2 * self.gathered.len()).min(self.bytes);
            self.gathered.reserve_exact(capacity - self.gathered.len());
        }
        self.gathered.extend_from_slice(&stretch[..count]);
        count
    }

    /// The whole body once its last byte is here, and how many bytes of the stretch belong to it. A
    /// body that comes in one piece is not copied.
    pub fn complete<'a>(&mut self, stretch: &'a [u8]) -> (usize, Option<Cow<'a, [u8]>>) {
        if self.gathered.is_empty() && stretch.len() >= self.bytes {
            return (self.bytes, Some(Cow::Borrowed(&stretch[..self.bytes])));
        }
        let count = self.gather(stretch);
        let is_complete = self.gathered.len() == self.bytes;
        (count, is_complete.then(|| Cow::Owned(self.take())))
    }

    /// What is here.
    pub fn gathered(&self) -> &[u8] {
        &self.gathered
    }

    /// Takes what is here.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.gathered)
    }

    /// Bytes of memory held for it.
    pub fn buffered_bytes(&self) -> usize {
        self.gathered.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_complete_with_its_last_byte() {
        let mut whole = Gathering::new(3);
        assert_eq!(whole.complete(b"abcd"), (3, Some(Cow::Borrowed(&b"abc"[..]))));
        let mut parts = Gathering::new(3);
        assert_eq!(parts.complete(b"a"), (1, None));
        assert_eq!(parts.complete(b""), (0, None));
        assert_eq!(parts.complete(b"bcd"), (2, Some(Cow::Owned(b"abc".to_vec()))));
        assert_eq!(Gathering::new(0).complete(b"x"), (0, Some(Cow::Borrowed(&b""[..]))));
    }

    #[test]
    fn memory_follows_what_came() {
        let mut body = Gathering::new(1 << 30);
        assert_eq!(body.complete(&[0; 100]), (100, None));
        assert_eq!(body.complete(&[0; 100]), (100, None));
        assert!(body.buffered_bytes() <= 200);
    }
}
