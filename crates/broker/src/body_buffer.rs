//! The body of a command while its bytes arrive. The buffer grows with the received bytes, so a
//! large announced length alone costs no memory.

mod copy;
mod kept;

use std::borrow::Cow;

use engine::Body;

pub use copy::BodyCopy;
use kept::KeptBody;

/// From this size on, a buffer grows in large steps, so that it seldom moves. If it doubled, the last
/// step would copy half of a large body at once, and other clients would wait. Room that has no
/// bytes yet takes addresses, but no memory.
const MOVED_BYTES_MAX: usize = 1 << 20;
/// How many times its received bytes a large buffer gets as room, at most. A bound, because a client
/// can announce a large body and send only the beginning: addresses are limited on some systems.
const LARGE_GROWTH: usize = 32;
/// From this size of a frame on, the body of a job is collected where it stays. To copy a smaller one
/// takes about a microsecond.
const KEPT_BYTES_MIN: usize = 16 << 10;
/// How many times its received bytes a body below [`MOVED_BYTES_MAX`] can take where it stays. All of
/// its room counts as memory: the allocator often has it from a body that was freed.
const KEPT_GROWTH: usize = 2;
/// The operating system gives memory to a buffer in pages of this size.
const PAGE_BYTES: usize = 4096;

/// Collects the bytes of a body for a dialect. The client has announced the body's length.
///
/// The body of a command has the body of a job in its middle. If the dialect says where, and it is
/// large, the buffer collects it where it stays. Otherwise the last step would copy all of it, and
/// other clients would wait.
#[derive(Debug)]
pub struct BodyBuffer {
    /// The announced length.
    bytes: usize,
    /// The bytes of a frame before the body of the job, if the dialect knows their number.
    before: Option<usize>,
    /// The bytes of a frame after the body of the job.
    after: usize,
    /// The body of the job, from the moment on when it is large. The box keeps sessions small, because
    /// few bodies are large.
    kept: Option<Box<KeptBody>>,
    /// The received bytes, without those of `kept`.
    received: Vec<u8>,
}

/// The body of a command that has arrived, with the body of a job in it.
#[derive(Debug)]
pub enum Frame<'a> {
    /// All bytes in one piece.
    Whole(Cow<'a, [u8]>),
    /// A large body of a job, and the bytes before and after it.
    Parts {
        /// The bytes before and after the body.
        around: Vec<u8>,
        /// The body of the job.
        body: Body,
    },
}

impl Frame<'_> {
    /// The body of the job, and the last `N` bytes, for a frame that has nothing before the body.
    ///
    /// # Panics
    ///
    /// Panics if the frame has fewer than `N` bytes. Its length is announced, so its owner knows it.
    #[inline]
    pub fn split_end<const N: usize>(self) -> (Body, [u8; N]) {
        const TOO_SHORT: &str = "a frame has the bytes behind its body";
        match self {
            Self::Whole(bytes) => {
                let (body, end) = bytes.split_last_chunk().expect(TOO_SHORT);
                (Body::from(body), *end)
            }
            Self::Parts { around, body } => (body, *around.last_chunk().expect(TOO_SHORT)),
        }
    }
}

impl BodyBuffer {
    /// An empty buffer for a body of this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { bytes, before: None, after: 0, kept: None, received: Vec::new() }
    }

    /// An empty buffer for the body of a job, and this many bytes after it.
    pub fn with_end(body_bytes: usize, after: usize) -> Self {
        Self { before: Some(0), after, ..Self::new(body_bytes + after) }
    }

    /// Says that the body of the job begins after this many bytes, and goes on to the end.
    pub fn set_beginning(&mut self, before: usize) {
        self.before = Some(before);
    }

    /// Whether the dialect could say where the body of the job begins, so that the buffer can keep it.
    pub fn lacks_beginning(&self) -> bool {
        self.before.is_none() && self.bytes >= KEPT_BYTES_MIN
    }

    /// Adds a piece of the body, and returns how many of its bytes belong to the body. The memory of
    /// the buffer grows to at most twice the received bytes, its addresses to at most 32 times, and
    /// both never beyond the announced length.
    pub fn push(&mut self, stretch: &[u8]) -> usize {
        let count = stretch.len().min(self.bytes - self.len());
        let mut piece = &stretch[..count];
        self.keep_if_large(count);
        if let Some(kept) = &mut self.kept {
            piece = &piece[kept.fill(piece)..];
        }
        if !piece.is_empty() {
            make_room(&mut self.received, piece.len(), self.bytes);
            self.received.extend_from_slice(piece);
        }
        count
    }

    /// Moves what has come of the body of a job to where it stays, if it is large, and enough of it
    /// has come. `coming` is the number of the bytes that come next.
    fn keep_if_large(&mut self, coming: usize) {
        let len = self.received.len() + coming;
        let (Some(before), None) = (self.before, &self.kept) else { return };
        let growth = if self.bytes < MOVED_BYTES_MAX { KEPT_GROWTH } else { LARGE_GROWTH };
        if self.bytes < KEPT_BYTES_MIN || len.saturating_mul(growth) < self.bytes {
            return;
        }
        let Some(body_bytes) = self.bytes.checked_sub(before + self.after) else { return };
        let Some(mut kept) = KeptBody::of(body_bytes) else { return };
        let Some(beginning) = self.received.get(before..) else { return };
        let end = before + kept.fill(beginning);
        self.received.drain(before..end);
        self.received.shrink_to_fit();
        self.kept = Some(Box::new(kept));
    }

    fn len(&self) -> usize {
        self.received.len() + self.kept.as_ref().map_or(0, |kept| kept.filled())
    }

    /// Adds a piece of the body. Returns how many of its bytes belong to the body, and the whole
    /// body if its last byte has arrived. A body that arrives in one piece is not copied. The dialect
    /// has not said where the body of a job is.
    pub fn complete<'a>(&mut self, stretch: &'a [u8]) -> (usize, Option<Cow<'a, [u8]>>) {
        match self.complete_frame(stretch) {
            (count, Some(Frame::Whole(bytes))) => (count, Some(bytes)),
            (count, _) => (count, None),
        }
    }

    /// Like [`complete`](Self::complete), for a frame with the body of a job.
    pub fn complete_frame<'a>(&mut self, stretch: &'a [u8]) -> (usize, Option<Frame<'a>>) {
        if self.received.is_empty() && self.kept.is_none() && stretch.len() >= self.bytes {
            return (self.bytes, Some(Frame::Whole(Cow::Borrowed(&stretch[..self.bytes]))));
        }
        let count = self.push(stretch);
        if self.len() < self.bytes {
            return (count, None);
        }
        let frame = match self.kept.take().and_then(|kept| kept.finish()) {
            Some(body) => Frame::Parts { around: self.take(), body },
            None => Frame::Whole(Cow::Owned(self.take())),
        };
        (count, Some(frame))
    }

    /// The received bytes, up to a large body of a job.
    pub fn received(&self) -> &[u8] {
        &self.received
    }

    /// Takes the received bytes.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }

    /// The memory of the buffer in bytes. Pages of a large buffer beyond its received bytes take no
    /// memory.
    pub fn buffered_bytes(&self) -> usize {
        let kept_bytes = self.kept.as_ref().map_or(0, |kept| match kept.bytes() {
            bytes if bytes < MOVED_BYTES_MAX => bytes,
            _ => kept.filled().next_multiple_of(PAGE_BYTES),
        });
        room_bytes(&self.received) + kept_bytes
    }
}

/// Makes room for `count` more bytes in a buffer that will have at most `bytes_max`. A large buffer
/// grows in large steps.
pub fn make_room(buffer: &mut Vec<u8>, count: usize, bytes_max: usize) {
    let len = buffer.len();
    let needed = len + count;
    if needed > buffer.capacity() {
        let bytes_max = bytes_max.max(needed);
        let doubled = needed.max(2 * len);
        let large = doubled.saturating_mul(LARGE_GROWTH / 2).min(bytes_max);
        let is_large = doubled >= MOVED_BYTES_MAX;
        // There can be too few addresses, for example if the system's administrator limits them.
        if !(is_large && buffer.try_reserve_exact(large - len).is_ok()) {
            buffer.reserve_exact(doubled.min(bytes_max) - len);
        }
    }
}

/// The memory of a buffer that [`make_room`] has grown, in bytes. Pages of a large buffer beyond its
/// bytes take no memory. All room of a smaller one counts: the allocator often has it from a buffer that
/// was freed.
pub fn room_bytes(buffer: &Vec<u8>) -> usize {
    match buffer.capacity() {
        room if room < MOVED_BYTES_MAX => room,
        room => room.min(buffer.len().next_multiple_of(PAGE_BYTES)),
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
    fn all_room_of_a_small_buffer_counts_as_memory() {
        let mut body = BodyBuffer::new(1 << 30);
        body.push(&vec![0; 100_000]);
        body.push(&[0]);
        assert!((200_000..=200_002).contains(&body.buffered_bytes()), "{}", body.buffered_bytes());
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

    /// The sizes of the pieces in which the server passes an input to a dialect.
    const PIECES_BYTES: [usize; 2] = [1 << 10, 4 << 10];

    /// Sends a frame in pieces of this size, and returns it with the buffer's memory just before its
    /// end.
    fn arrive(
        mut buffer: BodyBuffer,
        frame: &[u8],
        before: usize,
        piece_bytes: usize,
    ) -> (Frame<'static>, usize) {
        let (mut memory, mut at) = (0, 0);
        loop {
            let piece = &frame[at..frame.len().min(at + piece_bytes)];
            let (count, done) = buffer.complete_frame(piece);
            at += count;
            if buffer.lacks_beginning() {
                buffer.set_beginning(before);
            }
            match done {
                Some(Frame::Parts { around, body }) => {
                    return (Frame::Parts { around, body }, memory);
                }
                Some(Frame::Whole(bytes)) => {
                    return (Frame::Whole(Cow::Owned(bytes.into_owned())), memory);
                }
                None => memory = buffer.buffered_bytes(),
            }
            assert!(buffer.buffered_bytes() <= KEPT_GROWTH * at + PAGE_BYTES);
        }
    }

    #[test]
    fn a_large_body_is_collected_where_it_stays() {
        for body_bytes in [KEPT_BYTES_MIN, 64 << 10, 3 << 20] {
            let body: Vec<u8> = (0..body_bytes).map(|at| (at % 251) as u8).collect();
            for piece_bytes in PIECES_BYTES {
                let frame = [&body[..], b"\r\n"].concat();
                let buffer = BodyBuffer::with_end(body.len(), 2);
                let (frame, memory) = arrive(buffer, &frame, 0, piece_bytes);
                assert!(memory <= body.len() + 2 * PAGE_BYTES, "{memory}");
                assert!(matches!(frame, Frame::Parts { .. }), "{body_bytes} in {piece_bytes}");
                let (arrived, end) = frame.split_end();
                assert!(*arrived == *body && end == *b"\r\n");

                let frame = [b"f\0u1\0", &body[..]].concat();
                let (frame, _) = arrive(BodyBuffer::new(frame.len()), &frame, 5, piece_bytes);
                let Frame::Parts { around, body: arrived } = frame else { panic!("it is large") };
                assert!(around == b"f\0u1\0" && *arrived == *body);
            }
        }
    }

    #[test]
    fn a_small_body_stays_in_its_frame() {
        for body_bytes in [0, 1, KEPT_BYTES_MIN - 3] {
            let frame = [&vec![b'x'; body_bytes][..], b"\r\n"].concat();
            let (frame, _) = arrive(BodyBuffer::with_end(body_bytes, 2), &frame, 0, 4 << 10);
            assert!(matches!(frame, Frame::Whole(_)), "{body_bytes}");
            let (body, end) = frame.split_end();
            assert!(body.len() == body_bytes && end == *b"\r\n");
        }
    }
}
