//! Responses that clients have not read yet. This module limits their bytes, and sends them in
//! pieces.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker, ready};

use axum::body::{Body, HttpBody};
use broker::Broker;
use hyper::body::{Bytes, Frame, SizeHint};
use hyper::{Response, StatusCode};

use crate::answer::{TEXT, answer, complete};

/// Memory limit for the unread long responses of one site: when they reach it, the site refuses to
/// read more. So the last one that it admits can exceed the limit, and a body of any length can be
/// read. Responses to changes count, but the site never refuses them.
const BYTES_MAX: usize = 32 << 20;
/// Responses are sent in pieces of this size. The memory limit does not count shorter responses:
/// they need little memory, because the connections of a site are limited.
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

    /// Adds to the broker's account of memory in use.
    pub(crate) fn count(&self, bytes: i64) {
        if let Some(broker) = self.broker.get() {
            broker.add_outside_bytes(bytes);
        }
    }

    /// Returns the response. If the limit is reached and the response is long and replaceable, returns
    /// an error response instead. A response to a change is not replaceable: the change has happened,
    /// and the client would not learn its result.
    pub(crate) fn admit(
        &self,
        asked_for: Response<Body>,
        is_replaceable: bool,
    ) -> Response<Pieces> {
        let (head, body) = asked_for.into_parts();
        let pieces = Pieces::of(body, self.clone());
        let len = pieces.unread_bytes();
        let has_room = || self.bytes.load(Ordering::Relaxed) < BYTES_MAX;
        if !is_replaceable || len <= PIECE_BYTES || has_room() {
            return Response::from_parts(head, pieces.counted());
        }
        let text = "too many long responses wait to be read; try again later\n";
        complete(answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, text))
            .map(|body| Pieces::of(body, self.clone()))
    }
}

/// The body of a response. Its bytes count as unread until this value is dropped.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// Bytes that the handler has produced, and hyper has not taken yet.
    rest: Bytes,
    /// The rest of a stream. `None` if the response is complete.
    stream: Option<Body>,
    counted: usize,
    unread: Unread,
}

impl Pieces {
    /// Takes the bytes of a complete response. A response without a known length is a stream, which
    /// produces its parts when the client reads.
    fn of(mut body: Body, unread: Unread) -> Pieces {
        let (mut rest, mut stream) = (Bytes::new(), None);
        let len = body.size_hint().exact();
        // A complete response has its only frame at once, so the waker is never called.
        let mut context = Context::from_waker(Waker::noop());
        let first = match len {
            Some(0) => return Pieces { rest, stream, counted: 0, unread },
            Some(_) => Pin::new(&mut body).poll_frame(&mut context),
            None => Poll::Pending,
        };
        match first {
            Poll::Ready(Some(Ok(frame))) => rest = frame.into_data().unwrap_or_default(),
            Poll::Ready(None | Some(Err(_))) | Poll::Pending => {}
        }
        if len != Some(rest.len() as u64) {
            stream = Some(body);
        }
        Pieces { rest, stream, counted: 0, unread }
    }

    /// Memory of the response until the client has read it. A stream needs the memory of one part, so
    /// what keeps more memory for its client must not be a stream.
    fn unread_bytes(&self) -> usize {
        let stream_bytes = if self.stream.is_some() { PIECE_BYTES } else { 0 };
        self.rest.len().max(stream_bytes)
    }

    /// Counts a long response as unread.
    fn counted(mut self) -> Pieces {
        let bytes = self.unread_bytes();
        self.counted = if bytes > PIECE_BYTES || self.stream.is_some() { bytes } else { 0 };
        self.unread.bytes.fetch_add(self.counted, Ordering::Relaxed);
        self.unread.count(self.counted as i64);
        self
    }
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.rest.is_empty() {
            let Some(stream) = self.stream.as_mut() else { return Poll::Ready(None) };
            match ready!(Pin::new(stream).poll_frame(context)) {
                Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.stream = None,
            }
        }
        // The broker's threads can wait for this processor. A scheduler can let this thread run for
        // milliseconds, so yield to them before each piece of a long response.
        if self.counted > 0 {
            std::thread::yield_now();
        }
        let piece = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(piece);
        // Copy the piece. The original piece shares its memory with the whole response, so it would
        // keep the response in memory until the client has read the piece.
        let piece = if self.counted > 0 { Bytes::copy_from_slice(&piece) } else { piece };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.stream.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let Some(stream) = &self.stream else {
            return SizeHint::with_exact(self.rest.len() as u64);
        };
        let (rest, of_stream) = (self.rest.len() as u64, stream.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(rest + of_stream.lower());
        if let Some(upper) = of_stream.upper() {
            hint.set_upper(rest + upper);
        }
        hint
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

    fn long() -> Response<Body> {
        Response::new(Body::from(vec![0; BYTES_MAX / 4]))
    }

    fn next(body: &mut Pieces) -> Option<Bytes> {
        let frame = Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(frame) = frame else { panic!("it waits") };
        frame.map(|frame| frame.unwrap().into_data().unwrap())
    }

    #[test]
    fn long_unread_answers_are_bounded_and_short_ones_are_not() {
        let unread = unread();
        let mut kept: Vec<Response<Pieces>> = (0..4).map(|_| unread.admit(long(), true)).collect();
        assert!(kept.iter().all(|answer| answer.status() == StatusCode::OK));
        assert_eq!(unread.admit(long(), true).status(), StatusCode::SERVICE_UNAVAILABLE);
        let used_bytes = || unread.broker.get().unwrap().memory_usage().used_bytes;
        let full_bytes = used_bytes();
        assert!(full_bytes >= BYTES_MAX as u64, "they are in the account");
        let short = Response::new(Body::from(vec![0; PIECE_BYTES]));
        assert_eq!(unread.admit(short, true).status(), StatusCode::OK);
        drop(kept.pop());
        assert_eq!(full_bytes - used_bytes(), BYTES_MAX as u64 / 4);
        assert_eq!(unread.admit(long(), true).status(), StatusCode::OK);
    }

    #[test]
    fn one_answer_can_exceed_the_limit_and_no_other_one_is_admitted_meanwhile() {
        let unread = unread();
        let huge = || unread.admit(Response::new(Body::from(vec![0; 2 * BYTES_MAX])), true);
        let kept = (unread.admit(long(), true), huge());
        assert_eq!((kept.0.status(), kept.1.status()), (StatusCode::OK, StatusCode::OK));
        for refused in [huge(), unread.admit(long(), true)] {
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        }
        drop(kept.1);
        assert_eq!(huge().status(), StatusCode::OK);
    }

    #[test]
    fn the_answer_to_a_change_is_counted_and_never_replaced() {
        let unread = unread();
        let _kept: Vec<Response<Pieces>> = (0..5).map(|_| unread.admit(long(), false)).collect();
        let next = unread.admit(long(), false);
        assert_eq!((next.status(), next.body().unread_bytes()), (StatusCode::OK, BYTES_MAX / 4));
        assert_eq!(unread.bytes.load(Ordering::Relaxed), BYTES_MAX / 4 * 6);
        assert_eq!(unread.admit(long(), true).status(), StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn an_answer_leaves_in_pieces() {
        let unread = unread();
        let bytes: Vec<u8> = (0..3 * PIECE_BYTES + 5).map(|index| (index % 251) as u8).collect();
        let mut body = unread.admit(Response::new(Body::from(bytes.clone())), true).into_body();
        assert_eq!(body.size_hint().exact(), Some(bytes.len() as u64));
        let mut left = Vec::new();
        while let Some(piece) = next(&mut body) {
            assert!(piece.len() <= PIECE_BYTES);
            left.extend(piece);
        }
        assert!(left == bytes && body.is_end_stream());
    }
}
