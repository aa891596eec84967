//! Bodies of requests. This module limits their size, their time and the pauses of slow clients.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
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
    /// The memory has no room for the body.
    #[error("the memory has no room for the body")]
    NoRoom,
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

    /// Frees the bytes of the body, and counts the bytes of what was made of it instead.
    pub fn replace(&mut self, bytes: usize) {
        self.bytes = Vec::new();
        self.count(bytes);
    }

    /// Counts so many bytes less: they are counted elsewhere from now on.
    pub fn hand_over(&mut self, bytes: usize) {
        self.count(self.counted.saturating_sub(bytes));
    }

    /// The bytes by which the buffer grows if it gets so many more.
    fn growth(&self, more: usize) -> usize {
        let free = self.bytes.capacity() - self.bytes.len();
        // It gets twice its size, or more.
        if more <= free { 0 } else { self.bytes.capacity().max(more) }
    }

    fn add(&mut self, part: &Bytes) {
        self.bytes.extend_from_slice(part);
        self.count(self.bytes.capacity());
    }

    fn count(&mut self, bytes: usize) {
        self.unread.count(bytes as i64 - self.counted as i64);
        self.counted = bytes;
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.unread.count(-(self.counted as i64));
    }
}

/// Reads the body of a request. The body has at most `bytes_max` bytes, and `sender` limits its time.
/// `unread` is in the extensions of the request. `has_room` says whether the memory has room for so many
/// bytes: first for the whole body, if the client says how long it is, and then each time when the buffer
/// grows. Other bodies can come meanwhile.
pub async fn read_body(
    body: Body,
    bytes_max: usize,
    sender: Sender,
    unread: &Unread,
    mut has_room: impl FnMut(usize) -> bool,
) -> Result<Received, ReceiveError> {
    // A body that is too long is refused for that reason.
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if !has_room(announced.min(bytes_max)) {
        return Err(ReceiveError::NoRoom);
    }
    let mut received = Received { bytes: Vec::new(), counted: 0, unread: unread.clone() };
    let add = |part: Bytes| {
        let growth = received.growth(part.len());
        if growth > 0 && !has_room(growth) {
            return Err(ReceiveError::NoRoom);
        }
        received.add(&part);
        Ok(())
    };
    read_parts(body, bytes_max, sender, add).await?;
    Ok(received)
}

/// Reads the body of a request like [`read_body`], but passes each part to `take`, and keeps nothing.
pub async fn read_parts(
    body: Body,
    bytes_max: usize,
    sender: Sender,
    mut take: impl FnMut(Bytes) -> Result<(), ReceiveError>,
) -> Result<(), ReceiveError> {
    let began = Instant::now();
    let mut body = Limited::new(body, bytes_max);
    let mut bytes = 0;
    loop {
        let left = sender.time_max(bytes).saturating_sub(began.elapsed());
        let next = tokio::time::timeout(left.min(PART_TIME_MAX), body.frame()).await;
        match next.map_err(|_| ReceiveError::Slow)? {
            None => return Ok(()),
            Some(Ok(frame)) => {
                // Ignore trailers.
                if let Ok(part) = frame.into_data() {
                    bytes += part.len();
                    take(part)?;
                }
            }
            Some(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(ReceiveError::TooLong(bytes_max));
            }
            Some(Err(_)) => return Err(ReceiveError::Broken),
        }
    }
}

#[cfg(test)]
mod tests {
    use broker::{Broker, EngineSetup, Millis};
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn what_was_made_of_a_body_is_in_the_account_instead() {
        let broker = Broker::memory(EngineSetup::default(), Millis(0));
        let before = broker.memory_usage().used_bytes;
        let counted = || broker.memory_usage().used_bytes - before;
        let unread = Unread::new(broker.clone());
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let body = Body::from("x".repeat(1_000));
        let read = read_body(body, 1_000, Sender::Client, &unread, |_| true);
        let mut received = runtime.block_on(read).unwrap();
        assert!((1_000..=2_000).contains(&counted()), "{}", counted());
        received.replace(3_000);
        assert_eq!((counted(), received.bytes()), (3_000, &b""[..]));
        received.hand_over(1_000);
        assert_eq!(counted(), 2_000);
        drop(received);
        assert_eq!(counted(), 0);
    }
}
