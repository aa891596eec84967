//! The data that a worker sends before the result of a job. An HTTP client gets it with the result, so
//! its session keeps it until then.

use broker::{Body, Outbox, Position};

/// A piece of at least this size is shared with the sessions of the other clients. Smaller pieces are
/// joined: kept alone, a piece of one byte would take the memory of many.
const SHARED_BYTES_MIN: usize = 16 << 10;

/// Small pieces are joined up to this size. So a copy takes a few microseconds, however much data the
/// worker sends.
const JOINED_BYTES_MAX: usize = 32 << 10;

/// Data of a worker, in order.
#[derive(Debug, Default)]
pub(crate) struct EarlyData {
    pieces: Vec<Body>,
    /// The bytes of `pieces`.
    pieces_bytes: usize,
    /// The small pieces behind `pieces`, joined.
    tail: Vec<u8>,
}

impl EarlyData {
    pub(crate) fn total_bytes(&self) -> usize {
        self.pieces_bytes + self.tail.len()
    }

    /// The memory of the data in bytes. Shared pieces count in full, because the session can be the
    /// last that keeps them.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.pieces.capacity() * size_of::<Body>() + self.pieces_bytes + self.tail.capacity()
    }

    /// Appends a piece. Returns how many bytes it copied.
    pub(crate) fn push(&mut self, piece: &Body) -> usize {
        if piece.len() >= SHARED_BYTES_MIN {
            let copied = self.close_tail();
            self.keep(piece.clone());
            return copied;
        }
        let is_full = self.tail.len() + piece.len() > JOINED_BYTES_MAX;
        let copied = if is_full { self.close_tail() } else { 0 };
        self.tail.extend_from_slice(piece);
        copied + piece.len()
    }

    /// Makes a piece of the joined small ones. Returns how many bytes it copied.
    fn close_tail(&mut self) -> usize {
        let copied = self.tail.len();
        if copied > 0 {
            self.keep(Body::from(&self.tail[..]));
            self.tail.clear();
        }
        copied
    }

    fn keep(&mut self, piece: Body) {
        self.pieces_bytes += piece.len();
        self.pieces.push(piece);
    }

    /// Sends the data. The outbox shares the large pieces.
    pub(crate) fn send(self, after: Position, outbox: &mut Outbox) {
        for piece in self.pieces {
            outbox.reply_with_body(after, b"", &piece.into(), b"");
        }
        outbox.reply(after, &self.tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(data: EarlyData) -> Vec<u8> {
        let mut outbox = Outbox::default();
        data.send(Position::NONE, &mut outbox);
        let mut bytes = Vec::new();
        while !outbox.is_empty() {
            let part = outbox.sendable(Position::NONE);
            bytes.extend_from_slice(part);
            let count = part.len();
            outbox.advance(count);
        }
        bytes
    }

    #[test]
    fn large_pieces_are_shared() {
        let large = Body::from(vec![b'L'; SHARED_BYTES_MIN]);
        let mut data = EarlyData::default();
        assert_eq!(data.push(&large), 0);
        assert_eq!(data.push(&Body::from(&b"small"[..])), 5);
        assert_eq!(data.push(&large), 5);
        for index in [0, 2] {
            assert!(
                std::ptr::addr_eq(data.pieces[index].as_ptr(), large.as_ptr()),
                "piece {index}"
            );
        }
        let wanted = [&large[..], b"small", &large[..]].concat();
        assert_eq!(data.total_bytes(), wanted.len());
        assert!(sent(data) == wanted);
    }

    #[test]
    fn small_pieces_take_little_more_memory_than_their_bytes() {
        for piece_bytes in [1, 100, SHARED_BYTES_MIN - 1] {
            let mut data = EarlyData::default();
            let (mut wanted, mut copied) = (Vec::new(), 0);
            for number in 0..200_000 / piece_bytes {
                let piece = vec![number as u8; piece_bytes];
                copied += data.push(&Body::from(&piece[..]));
                wanted.extend_from_slice(&piece);
                assert!(data.memory_bytes() <= data.total_bytes() + 2 * JOINED_BYTES_MAX);
            }
            assert_eq!(data.total_bytes(), wanted.len());
            assert!(copied <= 2 * wanted.len(), "{copied} bytes");
            assert!(sent(data) == wanted, "pieces of {piece_bytes} bytes");
        }
    }
}
