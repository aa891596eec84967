//! Carries bytes between a client and its server: at a follower, between the client and the link to
//! the leader; at the leader, between this link and the client's connection in this process.
//!
//! A link takes descriptors and memory of both nodes. So it ends soon after its server's side has
//! ended, whatever the client does. A client that has ended its own side, as `nc -N` does, can wait
//! for its replies for hours.

use std::io;
use std::pin::pin;
use std::time::Duration;

use broker::Broker;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::time::timeout;

use crate::net::connection::TLS_BYTES;
use crate::net::limits::LiveLimits;

/// So many bytes are on their way in one direction. Each link has two such buffers.
const BUFFER_BYTES: usize = 4 << 10;
/// Memory of a link at each of its nodes: its TLS and its buffers.
pub(super) const LINK_BYTES: u64 = TLS_BYTES + 2 * BUFFER_BYTES as u64;
/// Memory of the task that serves a client or a link, with the short buffer for its first bytes. An
/// estimate.
pub(super) const TASK_BYTES: u64 = 5 << 10;
/// How long a client may take to end its side after the server has ended its own, and the client has
/// got all replies.
const REST_MAX: Duration = Duration::from_secs(5);

/// Carries bytes until both sides have ended, or one of them fails. Fails if the client reads nothing
/// for `limits.unsent_time`, or does not end its side in time after the server.
pub(super) async fn carry(
    client: impl AsyncRead + AsyncWrite + Unpin,
    server: impl AsyncRead + AsyncWrite + Unpin,
    limits: &LiveLimits,
) -> io::Result<()> {
    let (from_client, to_client) = split(client);
    let (from_server, to_server) = split(server);
    // Without a limit: what a client sends behind a command that waits can wait as long.
    let mut requests = pin!(carry_one_way(from_client, to_server, None));
    let mut replies = pin!(carry_one_way(from_server, to_client, Some(limits)));
    tokio::select! {
        ended = &mut requests => {
            ended?;
            replies.await
        }
        ended = &mut replies => {
            ended?;
            timeout(REST_MAX, requests).await?
        }
    }
}

/// Carries bytes in one direction, up to their end. With `limits`, the receiver must take each piece
/// within `limits.unsent_time`.
async fn carry_one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    limits: Option<&LiveLimits>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        let sent = send(&mut to, &buffer[..count]);
        match limits {
            Some(limits) => timeout(Duration::from_millis(limits.unsent_ms()), sent).await??,
            None => sent.await?,
        }
        if count == 0 {
            return Ok(());
        }
    }
}

/// Sends a piece, or the end if it is empty.
async fn send(to: &mut (impl AsyncWrite + Unpin), piece: &[u8]) -> io::Result<()> {
    if piece.is_empty() {
        return to.shutdown().await;
    }
    to.write_all(piece).await?;
    to.flush().await
}

/// Memory that counts among that of connections until this value is dropped.
pub(super) struct Counted<'a> {
    broker: &'a Broker,
    bytes: u64,
}

impl<'a> Counted<'a> {
    pub(super) fn new(broker: &'a Broker, bytes: u64) -> Counted<'a> {
        broker.add_outside_bytes(bytes.cast_signed());
        Counted { broker, bytes }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.broker.add_outside_bytes(-self.bytes.cast_signed());
    }
}

#[cfg(test)]
mod tests {
    use broker::{EngineSetup, Millis};
    use tokio::io::duplex;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::config::Config;

    const ENOUGH: Duration = Duration::from_hours(1);
    const UNSENT_TIME: Duration = Duration::from_secs(10);

    fn limits() -> LiveLimits {
        let mut limits = Config::default().limits;
        limits.unsent_time = UNSENT_TIME;
        LiveLimits::new(&limits, 1024, 128)
    }

    #[test]
    fn a_link_counts_as_memory_while_it_lives() {
        let broker = Broker::memory(EngineSetup::default(), Millis(0));
        let used = || broker.memory_usage().used_bytes;
        let before = used();
        let link = Counted::new(&broker, LINK_BYTES);
        assert_eq!(used(), before + LINK_BYTES);
        drop(link);
        assert_eq!(used(), before);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_close_is_closed_soon_after_its_server() {
        let (near, mut client) = duplex(64);
        let (link, mut server) = duplex(64);
        let begun = Instant::now();
        server.write_all(b"bye").await.expect("there is room");
        server.shutdown().await.expect("an end");
        let carried = timeout(ENOUGH, carry(near, link, &limits())).await.expect("it ends");
        assert_eq!(carried.expect_err("it is late").kind(), io::ErrorKind::TimedOut);
        assert!((REST_MAX..ENOUGH).contains(&begun.elapsed()));
        let mut replies = String::new();
        client.read_to_string(&mut replies).await.expect("text");
        assert_eq!(replies, "bye");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_has_ended_its_side_can_wait_for_its_server() {
        let (near, mut client) = duplex(64);
        let (link, mut server) = duplex(64);
        let asking = async {
            client.write_all(&[b'x'; 1000]).await.expect("it goes on");
            client.shutdown().await.expect("an end");
            let mut reply = String::new();
            client.read_to_string(&mut reply).await.expect("text");
            reply
        };
        let answering = async move {
            let mut request = Vec::new();
            sleep(ENOUGH).await;
            server.read_to_end(&mut request).await.expect("an end");
            sleep(ENOUGH).await;
            server.write_all(b"done").await.expect("there is room");
            request.len()
        };
        let limits = limits();
        let (carried, reply, bytes) = tokio::join!(carry(near, link, &limits), asking, answering);
        carried.expect("both sides ended");
        assert_eq!((reply.as_str(), bytes), ("done", 1000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_given_up_and_a_slow_one_is_not() {
        const READS: u32 = 5;
        let pause = UNSENT_TIME.mul_f64(0.9);
        let (near, mut client) = duplex(64);
        let (link, mut server) = duplex(64);
        let begun = Instant::now();
        let reading = async move {
            for _ in 0..READS {
                sleep(pause).await;
                client.read_exact(&mut [0; 64]).await.expect("it goes on");
            }
            client
        };
        let sending = async move { while server.write_all(&[b'x'; 64]).await.is_ok() {} };
        let limits = limits();
        let carrying = timeout(ENOUGH, carry(near, link, &limits));
        let (carried, _client, ()) = tokio::join!(carrying, reading, sending);
        let error = carried.expect("it ends").expect_err("it reads nothing more");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= READS * pause + UNSENT_TIME);
    }
}
