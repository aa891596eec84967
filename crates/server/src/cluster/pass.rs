//! Passes the connections of a follower's clients on to the leader: bytes in, bytes out. This file
//! knows no protocol. `pass_http.rs` passes requests over HTTP on.
//!
//! A client gets a link to the leader when it has sent its first bytes: in all these protocols, the
//! client speaks first. A link costs both nodes a handshake, on the threads that carry their reports.
//! So a client that only connects must not cause one. If this node leads when the client speaks, the
//! client needs no link.

use std::future::pending;
use std::io;
use std::net::{IpAddr, TcpListener as StdTcpListener};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;
use std::time::Duration;

use notation::address::Address;
use origin::{Names, Reach};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader,
    Interest,
};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::{TlsAcceptor, client, server};

use crate::cluster::carry::{BUFFERS_BYTES, ClientEnd, Counted, LINK_BYTES, TASK_BYTES, carry};
use crate::cluster::entrance::serve_client;
use crate::cluster::line::{self, Passed, Purpose};
use crate::cluster::peers::{Peers, Shared};
use crate::cluster::status::Leader;
use crate::config::protocol::Protocol;
use crate::net::connection::TLS_BYTES;
use crate::net::limits::{LiveLimits, Slot};
use crate::net::listen::Endpoint;
use crate::net::tls::Certificates;
use crate::threads::mailbox::Peer;

/// A client that comes while nobody leads waits this long.
pub(super) const LEADER_MAX: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_millis(50);
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// So much of a client's first bytes stays here until it has a link. Each client has such a buffer.
const FIRST_BYTES: usize = 512;
/// A site closes connections that send nothing for this long. Its connections are few.
const SITE_SILENCE_MAX: Duration = Duration::from_secs(2);
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);

/// A link to the leader.
pub(super) type Link = client::TlsStream<TcpStream>;

/// The listeners whose connections are passed on, until this value is dropped. Connections that were
/// accepted before go on.
#[derive(Debug)]
pub(crate) struct Passing(Vec<AbortHandle>);

impl Drop for Passing {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

/// The connection of a client.
trait Client: AsyncRead + AsyncWrite + ClientEnd + Unpin {
    /// Waits until the connection is broken: the client has reset it, or its machine is lost. The end
    /// of what the client sends is no such sign: see [`speaks`].
    fn broken(&self) -> impl Future<Output = ()> + Send;
}

impl Client for TcpStream {
    async fn broken(&self) {
        // If the runtime ends, this connection does, too.
        let _ = self.ready(Interest::ERROR).await;
    }
}

impl Client for UnixStream {
    async fn broken(&self) {
        let _ = self.ready(Interest::ERROR).await;
    }
}

impl<Inner: Client> Client for server::TlsStream<Inner> {
    fn broken(&self) -> impl Future<Output = ()> + Send {
        self.get_ref().0.broken()
    }
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

struct Listening {
    socket: Socket,
    protocol: Protocol,
    /// Only clients on this machine reach it, over TCP.
    is_loopback: bool,
    /// The leader would close a connection that sends nothing for this long.
    silence_max: Option<Duration>,
    certificates: Option<Arc<Certificates>>,
    limits: Arc<LiveLimits>,
    names: Arc<Names>,
    shared: Arc<Shared>,
}

impl Peers {
    /// Passes on what arrives at these listeners, which listen already.
    pub(crate) fn pass_on(
        &self,
        endpoints: &[Endpoint],
        limits: &Arc<LiveLimits>,
        names: &Arc<Names>,
    ) -> io::Result<Passing> {
        let _inside = self.handle.enter();
        let mut tasks = Vec::new();
        for Endpoint { bound, listener, certificates } in endpoints {
            // The acceptors of a later leader use the same socket.
            let socket = bound.socket.try_clone()?;
            let socket = if matches!(bound.address.address, Address::Unix(_)) {
                Socket::Unix(UnixListener::from_std(StdUnixListener::from(socket))?)
            } else {
                Socket::Tcp(TcpListener::from_std(StdTcpListener::from(socket))?)
            };
            let is_site = listener.protocol == Protocol::KestrelAdmin;
            let silence_max = listener.silence_max_ms.map(Duration::from_millis);
            let listening = Arc::new(Listening {
                socket,
                protocol: listener.protocol,
                is_loopback: listener.access.reach == Reach::Loopback,
                silence_max: if is_site { Some(SITE_SILENCE_MAX) } else { silence_max },
                certificates: certificates.clone(),
                limits: limits.clone(),
                names: names.clone(),
                shared: self.shared.clone(),
            });
            tasks.push(self.handle.spawn(accept(listening)).abort_handle());
        }
        Ok(Passing(tasks))
    }
}

async fn accept(listening: Arc<Listening>) {
    loop {
        listening.limits.room().await;
        let accepted = match &listening.socket {
            Socket::Tcp(listener) => listener.accept().await.map(|(socket, peer)| {
                let _ = socket.set_nodelay(true);
                if let Some(slot) = listening.limits.admit(peer.into(), listening.protocol) {
                    let listening = listening.clone();
                    tokio::spawn(async move { listening.serve(socket, peer.into(), slot).await });
                }
            }),
            Socket::Unix(listener) => listener.accept().await.map(|(socket, _)| {
                if let Some(slot) = listening.limits.admit(Peer::Local, listening.protocol) {
                    let listening = listening.clone();
                    tokio::spawn(async move { listening.serve(socket, Peer::Local, slot).await });
                }
            }),
        };
        if accepted.is_err() {
            sleep(PAUSE).await;
        }
    }
}

impl Listening {
    /// Serves one connection to its end, and keeps its slot until then. The client notices every
    /// failure as the end.
    async fn serve(&self, socket: impl Client, peer: Peer, slot: Slot) {
        let slot = Arc::new(slot);
        let tls_bytes = if self.certificates.is_some() { TLS_BYTES } else { 0 };
        let _memory = Counted::new(&self.shared.broker, TASK_BYTES + tls_bytes);
        let _ = match &self.certificates {
            None => self.pass(socket, peer, slot).await,
            // In a box, because most clients speak no TLS, and their tasks would be as large.
            Some(certificates) => Box::pin(self.pass_tls(certificates, socket, peer, slot)).await,
        };
    }

    /// Shakes hands with the client, and then passes it on.
    async fn pass_tls(
        &self,
        certificates: &Certificates,
        socket: impl Client,
        peer: Peer,
        slot: Arc<Slot>,
    ) -> io::Result<()> {
        let handshake = TlsAcceptor::from(certificates.current()).accept(socket);
        let driven = self.shared.tls_steps.drive(handshake);
        let client = timeout(HANDSHAKE_MAX, driven).await??;
        self.pass(client, peer, slot).await
    }

    /// Waits until the client speaks, and passes it on.
    async fn pass(&self, client: impl Client, peer: Peer, slot: Arc<Slot>) -> io::Result<()> {
        let mut client = BufReader::with_capacity(FIRST_BYTES, client);
        if speaks(&mut client, self.silence_max).await? {
            let passed = Passed::new(self.protocol, peer, &self.names, self.is_loopback);
            self.shared.pass(&mut client, passed, slot, &self.limits).await?;
        }
        Ok(())
    }
}

/// Waits for the first bytes of a client, which stay in the buffer. Returns false if the client ends
/// without any. The end of a client that has sent something may be a half-close, as of `nc -N`: the
/// leader still has to answer.
async fn speaks(
    client: &mut (impl AsyncBufRead + Unpin),
    silence_max: Option<Duration>,
) -> io::Result<bool> {
    let first = client.fill_buf();
    let first = match silence_max {
        Some(most) => timeout(most, first).await??,
        None => first.await?,
    };
    Ok(!first.is_empty())
}

/// Waits for `opening`, unless the connection of the client breaks first. Then nobody needs the link,
/// and its handshake is left out if it has not begun.
async fn unless_broken<Opened>(
    broken: impl Future<Output = ()>,
    opening: impl Future<Output = io::Result<Opened>>,
) -> io::Result<Opened> {
    tokio::select! {
        opened = opening => opened,
        () = broken => Err(io::ErrorKind::ConnectionReset.into()),
    }
}

impl Shared {
    /// Carries bytes between a client and the leader, until both have ended, or another node leads.
    async fn pass(
        &self,
        client: &mut BufReader<impl Client>,
        passed: Passed,
        slot: Arc<Slot>,
        limits: &LiveLimits,
    ) -> io::Result<()> {
        let purpose = Purpose::Pass(passed.clone());
        // In a box, because the task of the client lasts longer than the handshake of its link.
        let opening = Box::pin(async {
            tokio::select! {
                biased;
                () = self.leads_here() => Ok(None),
                opened = self.open_link(&purpose, LEADER_MAX) => opened.map(Some),
            }
        });
        let opened = unless_broken(client.get_ref().broken(), opening).await?;
        let Some((mut link, leader)) = opened else {
            return self.serve_here(client, passed, slot).await;
        };
        let _memory = Counted::new(&self.broker, LINK_BYTES);
        tokio::select! {
            carried = carry(client, &mut link, limits) => carried,
            () = self.replaced(leader) => Ok(()),
        }
    }

    /// Serves a client that came before this process began to lead. Over a link to this process, the
    /// client would count twice among the connections, and those of its address.
    async fn serve_here(
        &self,
        client: &mut BufReader<impl Client>,
        passed: Passed,
        slot: Arc<Slot>,
    ) -> io::Result<()> {
        let entrance = self.entered().await?;
        let _memory = Counted::new(&self.broker, BUFFERS_BYTES);
        let arrived = entrance.arrive(passed, Some(slot));
        serve_client(client, arrived, &entrance.limits, pending()).await
    }

    /// Waits until this process leads.
    async fn leads_here(&self) {
        let mut known = self.status.leader();
        let own = self.identity.incarnation;
        let is_own = |now: &Option<Leader>| now.as_ref().is_some_and(|now| now.incarnation == own);
        let _ = known.wait_for(is_own).await;
    }

    /// Connects to the leader for this purpose. While nobody leads, waits.
    pub(super) async fn open_link(
        &self,
        purpose: &Purpose,
        wait: Duration,
    ) -> io::Result<(Link, Leader)> {
        let (mut link, leader) = self.reach_leader(wait, purpose.counted_address()).await?;
        let line = line::with_process(&purpose.encode(), self.identity.incarnation) + "\n";
        link.write_all(line.as_bytes()).await?;
        link.flush().await?;
        Ok((link, leader))
    }

    /// Waits until this process does not lead any more.
    pub(super) async fn replaced(&self, leader: Leader) {
        let mut known = self.status.leader();
        let is_other = |now: &Option<Leader>| now.as_ref().is_none_or(|now| *now != leader);
        let _ = known.wait_for(is_other).await;
    }

    async fn reach_leader(
        &self,
        wait: Duration,
        address: Option<IpAddr>,
    ) -> io::Result<(Link, Leader)> {
        let until = Instant::now() + wait;
        loop {
            let place = timeout_at(until, self.connects.acquire(address)).await?;
            // It may be another one than before the wait for the place.
            let leader = self.status.leader().borrow().clone();
            let error = match leader {
                None => io::ErrorKind::NotConnected.into(),
                Some(leader) => match self.keys.connect(&leader.address).await {
                    Ok(link) => return Ok((link, leader)),
                    Err(error) => error,
                },
            };
            drop(place);
            if Instant::now() >= until {
                return Err(error);
            }
            sleep(RETRY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream as StdTcpStream;
    use std::os::unix::net::UnixStream as StdUnixStream;
    use std::path::Path;

    use broker::{Broker, Millis, Options, Settings};
    use log::FaultDisk;
    use notation::address::ListenAddress;
    use replica::Lineage;
    use testkit::tls::certificates::Authority;
    use testkit::wait;
    use tokio::io::{AsyncReadExt as _, duplex};
    use tokio::sync::mpsc::unbounded_channel;
    use tokio::task::yield_now;

    use super::*;
    use crate::cluster::copy::send::Sending;
    use crate::cluster::entrance::Entrance;
    use crate::cluster::keys::Keys;
    use crate::cluster::peers::Identity;
    use crate::cluster::status::Status;
    use crate::config::{Cluster, Config};
    use crate::net::listen::{SocketOptions, bind};
    use crate::process::clock::Clock;
    use crate::threads::mailbox::{Inbox, OpenSession};

    const ENOUGH: Duration = Duration::from_hours(1);

    fn buffered<Client: AsyncRead>(client: Client) -> BufReader<Client> {
        BufReader::with_capacity(FIRST_BYTES, client)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_only_connects_gets_no_link() {
        let (near, far) = duplex(64);
        let mut near = buffered(near);
        let early = timeout(ENOUGH, speaks(&mut near, None)).await;
        assert!(early.is_err(), "it has time, as at the leader");
        drop(far);
        assert!(!speaks(&mut near, None).await.expect("an end is no failure"));

        let (near, _far) = duplex(64);
        let begun = Instant::now();
        let silent = speaks(&mut buffered(near), Some(SITE_SILENCE_MAX)).await;
        assert_eq!(silent.expect_err("it is late").kind(), io::ErrorKind::TimedOut);
        assert!((SITE_SILENCE_MAX..ENOUGH).contains(&begun.elapsed()));
    }

    /// A client that has sent a byte, and its connection at the follower.
    async fn speaking(listener: &TcpListener) -> (TcpStream, BufReader<TcpStream>) {
        let address = listener.local_addr().expect("an address");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let mut client = client.expect("somebody listens");
        client.write_all(b"x").await.expect("there is room");
        let mut near = buffered(accepted.expect("it has connected").0);
        assert!(speaks(&mut near, None).await.expect("a byte"));
        (client, near)
    }

    #[tokio::test]
    async fn a_client_that_is_gone_waits_for_no_link() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (client, near) = speaking(&listener).await;
        client.set_zero_linger().expect("an option");
        // This resets the connection.
        drop(client);
        let no_leader = pending::<io::Result<()>>();
        let opened = unless_broken(near.get_ref().broken(), no_leader).await;
        assert_eq!(opened.expect_err("it is gone").kind(), io::ErrorKind::ConnectionReset);

        let (mut client, near) = speaking(&listener).await;
        client.shutdown().await.expect("an end");
        let opening = async {
            let count = near.get_ref().peek(&mut [0]).await?;
            yield_now().await;
            io::Result::Ok(count)
        };
        let opened = unless_broken(near.get_ref().broken(), opening).await;
        assert_eq!(opened.expect("it waits for its replies"), 0, "it has ended its side");
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_bytes_of_a_client_are_passed_on_also_after_a_half_close() {
        let (near, mut far) = duplex(2 * FIRST_BYTES);
        let mut near = buffered(near);
        assert!(timeout(ENOUGH, speaks(&mut near, None)).await.is_err());
        let sent = vec![b'x'; FIRST_BYTES + 7];
        far.write_all(&sent).await.expect("there is room");
        far.shutdown().await.expect("an end");
        assert!(speaks(&mut near, None).await.expect("bytes"));
        let (link, mut leader) = duplex(4 * FIRST_BYTES);
        let limits = LiveLimits::new(&Config::default().limits, 1024, 128);
        let passing = carry(near, link, &limits);
        let answering = async move {
            let mut all = Vec::new();
            leader.read_to_end(&mut all).await.expect("an end");
            leader.write_all(b"done").await.expect("there is room");
            all
        };
        let (passed, all) = tokio::join!(passing, answering);
        passed.expect("both sides ended");
        assert_eq!(all, sent);
        let mut answer = String::new();
        far.read_to_string(&mut answer).await.expect("text");
        assert_eq!(answer, "done");
    }

    const PATIENCE: Duration = Duration::from_secs(20);
    const IDENTITY: Identity = Identity { node: 1, incarnation: 7, lineage: Lineage([5; 16]) };

    /// The links of a node, and their address.
    fn peers(status: &Arc<Status>, folder: &Path) -> (Peers, String) {
        let authority = Authority::new(folder, "authority").expect("an authority");
        let own = authority.issue("one").expect("a certificate");
        let (ca, certificate, key) = (authority.file.clone(), own.certificate, own.key);
        let (ca, certificate, key) = (Some(ca), Some(certificate), Some(key));
        let settings = Cluster { ca, certificate, key, ..Cluster::default() };
        let keys = Keys::load(&settings).expect("right files");
        let socket = StdTcpListener::bind("127.0.0.1:0").expect("a port");
        socket.set_nonblocking(true).expect("an option");
        let address = socket.local_addr().expect("an address").to_string();
        let disk = Arc::new(FaultDisk::new(1, 64 << 20));
        let log = Settings { segment_bytes: 64 << 10, ..Settings::default() };
        let options = Options::without_threads(disk, log);
        let options = Options { cluster: Some(IDENTITY.lineage), ..options };
        let (broker, _) = Broker::open(options, Millis(0)).expect("the disk is empty");
        let sending = Sending::new(folder.to_owned(), 1).expect("a folder");
        let (events, _) = unbounded_channel();
        let with = (broker, Clock::start());
        let peers = Peers::spawn(keys, socket, IDENTITY, with, status.clone(), events, sending);
        (peers.expect("a thread starts"), address)
    }

    #[test]
    fn a_client_stays_when_its_node_begins_to_lead() {
        let folder = tempfile::tempdir().expect("a folder");
        let status = Arc::<Status>::default();
        let (peers, own_address) = peers(&status, folder.path());
        let mut config = Config::default();
        config.limits.connections_per_address = Some(1);
        let limits = Arc::new(LiveLimits::new(&config.limits, 1024, 128));
        let wanted: ListenAddress = Address::Tcp { host: "127.0.0.1".to_owned(), port: 0 }.into();
        let bound = bind(Protocol::Beanstalk, &wanted, &SocketOptions::default());
        let mut bound = bound.expect("a port").remove(0);
        bound.listen().expect("the port is free");
        let listening = bound.address.to_string();
        let endpoints = [Endpoint::new(bound, &config, None)];
        let passing = peers.pass_on(&endpoints, &limits, &Arc::default()).expect("it listens");
        let mut client = StdTcpStream::connect(listening).expect("somebody listens");
        client.set_read_timeout(Some(PATIENCE)).expect("an option");
        wait::until("the node accepts its client", || limits.open() == 1);

        drop(passing);
        let (node, incarnation) = (IDENTITY.node, IDENTITY.incarnation);
        let (name, address) = ("one".to_owned(), own_address);
        status.led_by(Leader { node, name, address, incarnation, epoch: 1 });
        let open: Arc<OpenSession> = Arc::new(|_, _, _| unreachable!("no thread opens it"));
        let opens = Protocol::ALL.map(|_| Some(open.clone()));
        let inbox = Arc::<Inbox>::default();
        let inboxes = vec![inbox.clone()];
        peers.open(Entrance::new(&config, &opens, limits.clone(), inboxes, [None, None]));
        client.write_all(b"stats\r\n").expect("there is room");
        let arrival = wait::for_some(PATIENCE, || inbox.take_arrivals().pop());
        let arrival = arrival.expect("its address has one connection, and may have one");
        assert_eq!(limits.open(), 1);
        let mut session = StdUnixStream::from(arrival.socket);
        session.set_nonblocking(false).expect("an option");
        session.set_read_timeout(Some(PATIENCE)).expect("an option");
        let mut request = [0; 7];
        session.read_exact(&mut request).expect("the request");
        assert_eq!(&request, b"stats\r\n");
        session.write_all(b"OK").expect("there is room");
        let mut reply = [0; 2];
        client.read_exact(&mut reply).expect("the reply");
        assert_eq!(&reply, b"OK");
    }
}
