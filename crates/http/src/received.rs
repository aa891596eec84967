//! Bodies of requests. This module limits their size and the pauses of slow clients.

use std::time::Duration;

use axum::body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Bytes;

use crate::unread::Unread;

/// Time limit for each part of a body.
const PART_TIME_MAX: Duration = Duration::from_secs(30);

/// Why a body cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The body exceeds the limit of the page.
    #[error("the body is too long: the limit is {0} bytes")]
    TooLong(usize),
    /// The client sent nothing for a long time.
    #[error("the client sent nothing for {} seconds", PART_TIME_MAX.as_secs())]
    Slow,
    /// The connection ended, or the body does not follow HTTP.
    #[error("the body is incomplete or invalid")]
    Broken,
}

/// A complete body. Its bytes count as memory in use until this value is dropped.
#[derive(Debug)]
pub struct Received {
    bytes: Vec<u8>,
    counted: usize,
    unread: Unread,
}

impl Received {
    /// The bytes of the body.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn add(&mut self, part: &Bytes) {
        self.bytes.extend_from_slice(part);
        let grown = self.bytes.capacity() - self.counted;
        self.counted += grown;
        self.unread.count(grown as i64);
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.unread.count(-(self.counted as i64));
    }
}

/// Reads the body of a request. The body has at most `bytes_max` bytes. `unread` is in the
/// extensions of the request.
pub async fn read_body(
    body: Body,
    bytes_max: usize,
    unread: &Unread,
) -> Result<Received, ReceiveError> {
    let mut body = Limited::new(body, bytes_max);
    let mut received = Received { bytes: Vec::new(), counted: 0, unread: unread.clone() };
    loop {
        let next = tokio::time::timeout(PART_TIME_MAX, body.frame()).await;
        match next.map_err(|_| ReceiveError::Slow)? {
            None => return Ok(received),
            Some(Ok(frame)) => {
                // Ignore trailers.
                if let Some(part) = frame.data_ref() {
                    received.add(part);
                }
            }
            Some(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(ReceiveError::TooLong(bytes_max));
            }
            Some(Err(_)) => return Err(ReceiveError::Broken),
        }
    }
}
