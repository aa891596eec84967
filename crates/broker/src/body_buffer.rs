//! The body of a command while its bytes arrive. The buffer grows with the received bytes, so a
//! large announced length alone costs no memory.

use std::borrow::Cow;

/// Collects the bytes of a body for a dialect. The client has announced the body's length.
#[derive(Debug)]
pub struct BodyBuffer {
    /// The announced length.
    bytes: usize,
    received: Vec<u8>,
}

impl BodyBuffer {
    /// An empty buffer for a body of this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { bytes, received: Vec::new() }
    }

    /// Adds a piece of the body, and returns how many of its bytes belong to the body. The buffer
    /// grows to at most twice the received bytes, and never beyond the announced length.
    pub fn push(&mut self, stretch: &[u8]) -> usize {
        let count = stretch.len().min(self.bytes - self.received.len());
        let needed = self.received.len() + count;
        if needed > self.received.capacity() {
            let capacity = needed.max(2 * self.received.len()).min(self.bytes);
            self.received.reserve_exact(capacity - self.received.len());
        }
        self.received.extend_from_slice(&stretch[..count]);
        count
    }

    /// Adds a piece of the body. Returns how many of its bytes belong to the body, and the whole
    /// body if its last byte has arrived. A body that arrives in one piece is not copied.
    pub fn complete<'a>(&mut self, stretch: &'a [u8]) -> (usize, Option<Cow<'a, [u8]>>) {
        if self.received.is_empty() && stretch.len() >= self.bytes {
            return (self.bytes, Some(Cow::Borrowed(&stretch[..self.bytes])));
        }
        let count = self.push(stretch);
        let is_complete = self.received.len() == self.bytes;
        (count, is_complete.then(|| Cow::Owned(self.take())))
    }

    /// The received bytes.
    pub fn received(&self) -> &[u8] {
        &self.received
    }

    /// Takes the received bytes.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }

    /// The memory of the buffer in bytes.
    pub fn buffered_bytes(&self) -> usize {
        self.received.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_complete_with_its_last_byte() {
        let mut whole = BodyBuffer::new(3);
        assert_eq!(whole.complete(b"abcd"), (3, Some(Cow::Borrowed(&b"abc"[..]))));
        let mut parts = BodyBuffer::new(3);
        assert_eq!(parts.complete(b"a"), (1, None));
        assert_eq!(parts.complete(b""), (0, None));
        assert_eq!(parts.complete(b"bcd"), (2, Some(Cow::Owned(b"abc".to_vec()))));
        assert_eq!(BodyBuffer::new(0).complete(b"x"), (0, Some(Cow::Borrowed(&b""[..]))));
    }

    #[test]
    fn memory_follows_what_came() {
        let mut body = BodyBuffer::new(1 << 30);
        assert_eq!(body.complete(&[0; 100]), (100, None));
        assert_eq!(body.complete(&[0; 100]), (100, None));
        assert!(body.buffered_bytes() <= 200);
    }
}
