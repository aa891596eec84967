//! Bytes of a connection that its dialect has not used yet: a part of a command, or commands that
//! wait.

/// If an empty buffer has more capacity than this, its memory is freed at once.
const KEPT_BUFFER_BYTES_MAX: usize = 4 * 1024;

/// A buffer. Bytes are added at its end and removed from its front. Removing bytes costs no more
/// time than adding them, even if many bytes stay in the buffer.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    bytes: Vec<u8>,
    /// The dialect has used the bytes before this index.
    start: usize,
}

impl Pending {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory of the buffer in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Adds bytes.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Removes this many bytes from the front.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() && self.bytes.capacity() > KEPT_BUFFER_BYTES_MAX {
            *self = Self::default();
        } else if self.start > self.len() {
            // This moves the bytes that stay. They are fewer than the bytes that were removed since
            // the last move.
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    /// Frees the memory of an empty buffer.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_in_which_they_came() {
        let mut pending = Pending::default();
        let all: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let (mut came, mut left) = (0, Vec::new());
        for step in 1.. {
            let count = (step % 7 * 31).min(all.len() - came);
            pending.append(&all[came..came + count]);
            came += count;
            let taken = pending.len().min(step % 5 * 37);
            left.extend_from_slice(&pending.as_slice()[..taken]);
            pending.consume(taken);
            if came == all.len() && pending.is_empty() {
                break;
            }
        }
        assert_eq!(left, all);
    }

    #[test]
    fn an_empty_buffer_is_kept_only_if_it_is_small() {
        let mut pending = Pending::default();
        for (bytes, is_kept) in [(100, true), (100_000, false)] {
            pending.append(&vec![0; bytes]);
            pending.consume(bytes);
            assert_eq!(pending.capacity() > 0, is_kept);
        }
    }
}
