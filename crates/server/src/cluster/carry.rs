//! Carries bytes between a client and its server: at a follower, between the client and the link to
//! the leader; at the leader, between this link and the client's connection in this process.
//!
//! A link takes descriptors and memory of both nodes. So it ends soon after its server's side has
//! ended, whatever the client does. A client that has ended its own side, as `nc -N` does, can wait
//! for its replies for hours. A client that is gone ends its link, also if its server takes nothing
//! because the session waits.

use std::io;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use broker::Broker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader, ReadBuf, split,
};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use crate::net::connection::TLS_BYTES;
use crate::net::limits::LiveLimits;

/// So many bytes are on their way in one direction. Each link has two such buffers.
const BUFFER_BYTES: usize = 4 << 10;
/// Memory of the buffers in both directions.
pub(super) const BUFFERS_BYTES: u64 = 2 * BUFFER_BYTES as u64;
/// Memory of a link at each of its nodes: its TLS and its buffers.
pub(super) const LINK_BYTES: u64 = TLS_BYTES + BUFFERS_BYTES;
/// Memory of the task that serves a client or a link, with the short buffer for its first bytes. An
/// estimate.
pub(super) const TASK_BYTES: u64 = 5 << 10;
/// How long a client may take to end its side after the server has ended its own, and the client has
/// got all replies.
const REST_MAX: Duration = Duration::from_secs(5);
/// While a server takes no more requests, its link looks this often whether the client is gone.
const LOOK_PERIOD: Duration = Duration::from_mins(1);

/// The side of a link where the client is: its connection, or the link from its node.
pub(super) trait ClientEnd {
    /// Whether nobody is at the other end any more. The kernel knows this without a read, which finds
    /// an end only behind all bytes before it. The end of what the client sends is no such sign. If a
    /// client closes its connection and leaves bytes behind, the two look alike at first. But the kernel
    /// asks a silent client after a minute (`net/listen.rs`), and another node after seconds
    /// (`keys.rs`), and then learns that the connection is gone.
    fn is_gone(&self) -> bool;
}

impl ClientEnd for TcpStream {
    fn is_gone(&self) -> bool {
        has_hung_up(self)
    }
}

impl ClientEnd for UnixStream {
    fn is_gone(&self) -> bool {
        has_hung_up(self)
    }
}

impl<Inner: ClientEnd> ClientEnd for TlsStream<Inner> {
    fn is_gone(&self) -> bool {
        self.get_ref().0.is_gone()
    }
}

impl<Inner: AsyncRead + ClientEnd> ClientEnd for BufReader<Inner> {
    fn is_gone(&self) -> bool {
        self.get_ref().is_gone()
    }
}

impl<Inner: ClientEnd> ClientEnd for &mut Inner {
    fn is_gone(&self) -> bool {
        (**self).is_gone()
    }
}

fn has_hung_up(socket: &impl AsFd) -> bool {
    // The kernel reports these two without being asked. After a half-close, there are none of them.
    let signs = PollFlags::HUP | PollFlags::ERR;
    let mut sockets = [PollFd::new(socket, PollFlags::empty())];
    poll(&mut sockets, Some(&Timespec::default())).is_ok() && sockets[0].revents().intersects(signs)
}

/// The client's side, which both directions use. One task drives them, so nobody waits for the lock.
struct Both<Client>(Mutex<Client>);

impl<Client> Both<Client> {
    fn lock(&self) -> MutexGuard<'_, Client> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Client: AsyncRead + Unpin> AsyncRead for &Both<Client> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_read(context, buffer)
    }
}

impl<Client: AsyncWrite + Unpin> AsyncWrite for &Both<Client> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_shutdown(context)
    }
}

/// Carries bytes until both sides have ended, or one of them fails. Fails if the client reads nothing
/// for `limits.unsent_time`, does not end its side in time after the server, or is gone.
pub(super) async fn carry(
    client: impl AsyncRead + AsyncWrite + ClientEnd + Unpin,
    server: impl AsyncRead + AsyncWrite + Unpin,
    limits: &LiveLimits,
) -> io::Result<()> {
    let client = Both(Mutex::new(client));
    let (from_server, to_server) = split(server);
    // What a client sends behind a command that waits can wait as long, while the client is there.
    let is_there = || !client.lock().is_gone();
    let mut requests = pin!(carry_one_way(&client, to_server, || LOOK_PERIOD, is_there));
    let unsent_time = || Duration::from_millis(limits.unsent_ms());
    let mut replies = pin!(carry_one_way(from_server, &client, unsent_time, || false));
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

/// Carries bytes in one direction, up to their end. Each time that the receiver has not taken a piece
/// for `period`, asks whether it `may_wait` longer.
async fn carry_one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    period: impl Fn() -> Duration,
    may_wait: impl Fn() -> bool,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        let mut sending = pin!(send(&mut to, &buffer[..count]));
        loop {
            match timeout(period(), sending.as_mut()).await {
                Ok(sent) => break sent?,
                Err(_) if may_wait() => {}
                Err(late) => return Err(late.into()),
            }
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
    use tokio::io::{DuplexStream, duplex};
    use tokio::net::TcpListener;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::config::Config;

    const ENOUGH: Duration = Duration::from_hours(1);
    const UNSENT_TIME: Duration = Duration::from_secs(10);

    /// In other tests, the client stays.
    impl ClientEnd for DuplexStream {
        fn is_gone(&self) -> bool {
            false
        }
    }

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

    /// The session of the client waits, so its server takes nothing more. `leave` ends the client.
    async fn ends_with_its_client<Client: AsyncRead + AsyncWrite + AsFd + ClientEnd + Unpin>(
        (near, mut client): (Client, Client),
        leave: impl FnOnce(Client),
    ) {
        let (link, _server) = duplex(64);
        client.write_all(&[b'x'; 1000]).await.expect("the kernel takes it");
        client.shutdown().await.expect("an end");
        let limits = limits();
        let same = near.as_fd().try_clone_to_owned().expect("a descriptor");
        let mut carrying = pin!(carry(near, link, &limits));
        assert!(timeout(ENOUGH, carrying.as_mut()).await.is_err(), "it waits for its replies");
        leave(client);
        // The clock of the test runs ahead of the kernel.
        testkit::wait::until("the kernel knows of the end", || has_hung_up(&same));
        let carried = timeout(ENOUGH, carrying).await.expect("it ends");
        assert_eq!(carried.expect_err("it is gone").kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_gone_ends_its_link_although_its_server_takes_nothing() {
        ends_with_its_client(UnixStream::pair().expect("two sockets"), drop).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (client, (near, _)) =
            tokio::try_join!(TcpStream::connect(address), listener.accept()).expect("a link");
        let reset = |client: TcpStream| client.set_zero_linger().expect("an option");
        ends_with_its_client((near, client), reset).await;
    }
}
