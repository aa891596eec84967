//! The body of a command while its bytes arrive. The buffer grows with the received bytes, so a
//! large announced length alone costs no memory.

use std::borrow::Cow;

/// From this size on, a buffer grows in large steps, so that it seldom moves. If it doubled, the last
/// step would copy half of a large body at once, and other clients would wait. Room that has no
/// bytes yet takes addresses, but no memory.
const MOVED_BYTES_MAX: usize = 1 << 20;
/// How many times its received bytes a large buffer gets as room, at most. A bound, because a client
/// can announce a large body and send only the beginning: addresses are limited on some systems.
const LARGE_GROWTH: usize = 32;
/// The operating system gives memory to a buffer in pages of this size.
const PAGE_BYTES: usize = 4096;

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

    /// Adds a piece of the body, and returns how many of its bytes belong to the body. The memory of
    /// the buffer grows to at most twice the received bytes, its addresses to at most 32 times, and
    /// both never beyond the announced length.
    pub fn push(&mut self, stretch: &[u8]) -> usize {
        let count = stretch.len().min(self.bytes - self.received.len());
        let needed = self.received.len() + count;
        if needed > self.received.capacity() {
            let len = self.received.len();
            let doubled = needed.max(2 * len);
            let large = doubled.saturating_mul(LARGE_GROWTH / 2).min(self.bytes);
            let is_large = doubled >= MOVED_BYTES_MAX;
            // There can be too few addresses, for example if the system's administrator limits them.
            if !(is_large && self.received.try_reserve_exact(large - len).is_ok()) {
                self.received.reserve_exact(doubled.min(self.bytes) - len);
            }
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

    /// The memory of the buffer in bytes. Pages beyond the received bytes take no memory.
    pub fn buffered_bytes(&self) -> usize {
        let pages_bytes = self.received.len().next_multiple_of(PAGE_BYTES);
        self.received.capacity().min(pages_bytes)
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

    #[test]
    fn addresses_follow_what_came() {
        let mut body = BodyBuffer::new(1 << 40);
        let piece = vec![7; 64 << 10];
        for arrived in 1..=40 {
            body.push(&piece);
            let received = arrived * piece.len();
            assert!(body.received.capacity() <= LARGE_GROWTH * received);
        }
    }

    #[test]
    fn a_large_body_does_not_move_and_its_memory_follows_what_came() {
        let (bytes, piece) = (15 << 20, vec![7; 64 << 10]);
        let mut body = BodyBuffer::new(bytes);
        let mut place = None;
        let mut arrived = 0;
        while arrived < bytes {
            arrived += body.push(&piece);
            assert_eq!(body.received().len(), arrived);
            assert!(body.buffered_bytes() <= 2 * arrived + PAGE_BYTES);
            if arrived >= MOVED_BYTES_MAX {
                assert!(body.buffered_bytes() <= arrived + PAGE_BYTES);
                let at = body.received().as_ptr();
                assert_eq!(*place.get_or_insert(at), at, "after {arrived} bytes");
            }
        }
        assert_eq!(body.push(&piece), 0);
        assert!(body.take().iter().all(|byte| *byte == 7));
    }
}
