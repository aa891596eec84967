//! Bodies of requests. This module limits their size, their time and the pauses of slow clients.

use std::time::Duration;

use axum::body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Bytes;
use tokio::time::Instant;

use crate::unread::Unread;

/// Time limit for each part of a body.
const PART_TIME_MAX: Duration = Duration::from_secs(30);
/// Time limit for a whole body of a client that the server does not know.
const STRANGER_TIME_MAX: Duration = Duration::from_secs(5);
/// Time limit for a whole body of another client, without the time for the bytes that have arrived.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);
/// Bytes that must arrive in each further second. Slow modems are faster.
const BYTES_PER_S_MIN: u64 = 4 << 10;

/// Who sends a body. This decides how long the whole body can take. A limit for each part is not
/// enough: a client could send one byte at a time, and keep the place of its connection for minutes.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Sender {
    /// Anybody. The body is short, such as the form for signing in.
    Stranger,
    /// A client with a role. A long body on a slow link gets more time for the bytes that have arrived.
    Client,
}

impl Sender {
    /// Time limit for the next part, counted from the begin of the body.
    fn time_max(self, bytes: usize) -> Duration {
        match self {
            Sender::Stranger => STRANGER_TIME_MAX,
            Sender::Client => BODY_TIME_MAX + Duration::from_secs(bytes as u64 / BYTES_PER_S_MIN),
        }
    }
}

/// Why a body cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The body exceeds the limit of the page.
    #[error("the body is too long: the limit is {0} bytes")]
    TooLong(usize),
    /// The body, or a part of it, takes too long.
    #[error("the client sent the body too slowly")]
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

/// Reads the body of a request. The body has at most `bytes_max` bytes, and `sender` limits its time.
/// `unread` is in the extensions of the request.
pub async fn read_body(
    body: Body,
    bytes_max: usize,
    sender: Sender,
    unread: &Unread,
) -> Result<Received, ReceiveError> {
    let began = Instant::now();
    let mut body = Limited::new(body, bytes_max);
    let mut received = Received { bytes: Vec::new(), counted: 0, unread: unread.clone() };
    loop {
        let left = sender.time_max(received.bytes.len()).saturating_sub(began.elapsed());
        let next = tokio::time::timeout(left.min(PART_TIME_MAX), body.frame()).await;
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
