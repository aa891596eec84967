//! A body that keeps a value until the body is dropped. So the owner of a connection knows about how
//! long a request or a response lasts. hyper drops the body of a response when it has the last piece
//! in its buffer, so the end of the response can still be unsent.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::HttpBody;
use hyper::body::{Frame, SizeHint};

/// A body and the value that lasts as long as the body.
#[derive(Debug)]
pub(crate) struct Guarded<B, G> {
    pub(crate) body: B,
    pub(crate) _guard: G,
}

impl<B: HttpBody + Unpin, G: Unpin> HttpBody for Guarded<B, G> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
