//! Responses that clients have not read yet. This module limits their bytes, and sends them in
//! pieces.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use broker::Broker;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::{Response, StatusCode};

use crate::answer::{Answer, TEXT, answer};

/// Memory limit for the unread long responses of one site.
const BYTES_MAX: usize = 32 << 20;
/// Responses are sent in pieces of this size. The memory limit does not count shorter responses:
/// they need little memory, because a site has few connections.
const PIECE_BYTES: usize = 64 << 10;

/// Bytes of long responses that the clients of one site have not read yet.
#[derive(Clone, Debug)]
pub struct Unread {
    bytes: Arc<AtomicUsize>,
    /// The broker that counts the bytes as memory in use. It is not set during the start. But then
    /// all responses are short, and short responses are not counted.
    broker: Arc<OnceLock<Broker>>,
}

impl Unread {
    /// Starts with no unread bytes.
    pub fn new(broker: Broker) -> Unread {
        Unread { bytes: Arc::default(), broker: Arc::new(OnceLock::from(broker)) }
    }

    /// Starts without a broker, for a site whose responses are short until `set_broker` is called.
    pub fn without_broker() -> Unread {
        Unread { bytes: Arc::default(), broker: Arc::default() }
    }

    /// Sets the broker. A second call does nothing.
    pub fn set_broker(&self, broker: Broker) {
        let _ = self.broker.set(broker);
    }

    fn count(&self, bytes: i64) {
        if let Some(broker) = self.broker.get() {
            broker.add_outside_bytes(bytes);
        }
    }

    /// Returns the response. If the response would exceed the limit, returns an error response
    /// instead.
    pub(crate) fn admit(&self, asked_for: Answer) -> Response<Pieces> {
        let len = asked_for.body().len();
        if len <= PIECE_BYTES || self.bytes.load(Ordering::Relaxed) + len <= BYTES_MAX {
            return asked_for.map(|body| self.pieces(body));
        }
        let text = "too many long responses wait to be read; try again later\n";
        answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, text).map(|body| self.pieces(body))
    }

    fn pieces(&self, answer: Bytes) -> Pieces {
        let counted = if answer.len() > PIECE_BYTES { answer.len() } else { 0 };
        self.bytes.fetch_add(counted, Ordering::Relaxed);
        self.count(counted as i64);
        Pieces { rest: answer, counted, unread: self.clone() }
    }
}

/// The body of a response. Its bytes count as unread until this value is dropped.
#[derive(Debug)]
pub(crate) struct Pieces {
    rest: Bytes,
    counted: usize,
    unread: Unread,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let piece = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(piece);
        // Copy the piece. The original piece shares its memory with the whole response, so it would
        // keep the response in memory until the client has read the piece.
        let piece = if self.counted > 0 { Bytes::copy_from_slice(&piece) } else { piece };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.unread.bytes.fetch_sub(self.counted, Ordering::Relaxed);
        self.unread.count(-(self.counted as i64));
    }
}

#[cfg(test)]
mod tests {
    use broker::{EngineSetup, Millis};

    use super::*;

    fn unread() -> Unread {
        Unread::new(Broker::memory(EngineSetup::default(), Millis(0)))
    }

    fn long() -> Answer {
        Response::new(Bytes::from(vec![0; BYTES_MAX / 4]))
    }

    fn next(body: &mut Pieces) -> Option<Bytes> {
        let frame = Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()));
        let Poll::Ready(frame) = frame else { panic!("it waits") };
        frame.map(|frame| frame.unwrap().into_data().unwrap())
    }

    #[test]
    fn long_unread_answers_are_bounded_and_short_ones_are_not() {
        let unread = unread();
        let mut kept: Vec<Response<Pieces>> = (0..4).map(|_| unread.admit(long())).collect();
        assert!(kept.iter().all(|answer| answer.status() == StatusCode::OK));
        assert_eq!(unread.admit(long()).status(), StatusCode::SERVICE_UNAVAILABLE);
        let used_bytes = || unread.broker.get().unwrap().memory_usage().used_bytes;
        let full_bytes = used_bytes();
        assert!(full_bytes >= BYTES_MAX as u64, "they are in the account");
        let short = Response::new(Bytes::from(vec![0; PIECE_BYTES]));
        assert_eq!(unread.admit(short).status(), StatusCode::OK);
        drop(kept.pop());
        assert_eq!(full_bytes - used_bytes(), BYTES_MAX as u64 / 4);
        assert_eq!(unread.admit(long()).status(), StatusCode::OK);
    }

    #[test]
    fn an_answer_leaves_in_pieces() {
        let unread = unread();
        let bytes: Vec<u8> = (0..3 * PIECE_BYTES + 5).map(|index| (index % 251) as u8).collect();
        let mut body = unread.admit(Response::new(Bytes::from(bytes.clone()))).into_body();
        assert_eq!(body.size_hint().exact(), Some(bytes.len() as u64));
        let mut left = Vec::new();
        while let Some(piece) = next(&mut body) {
            assert!(piece.len() <= PIECE_BYTES);
            left.extend(piece);
        }
        assert!(left == bytes && body.is_end_stream());
    }
}
