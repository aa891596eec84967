//! Passes the connections of a follower's clients on to the leader: bytes in, bytes out. This file
//! knows no protocol. `pass_http.rs` passes requests over HTTP on.

use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;
use std::time::Duration;

use notation::address::Address;
use origin::Names;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::cluster::line::{self, Purpose};
use crate::cluster::peers::{Peers, Shared};
use crate::cluster::status::Leader;
use crate::config::protocol::Protocol;
use crate::net::limits::LiveLimits;
use crate::net::listen::Endpoint;
use crate::net::tls::Certificates;
use crate::threads::mailbox::Peer;

/// A client that comes while nobody leads waits this long.
pub(super) const LEADER_MAX: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_millis(50);
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Pause after a failed accept, or at the limit of connections.
const PAUSE: Duration = Duration::from_millis(100);

/// A link to the leader.
pub(super) type Link = tokio_rustls::client::TlsStream<tokio::net::TcpStream>;

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

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

struct Listening {
    socket: Socket,
    protocol: Protocol,
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
            let listening = Arc::new(Listening {
                socket,
                protocol: listener.protocol,
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
        if listening.limits.is_full() {
            sleep(PAUSE).await;
            continue;
        }
        let accepted = match &listening.socket {
            Socket::Tcp(listener) => listener.accept().await.map(|(socket, peer)| {
                let _ = socket.set_nodelay(true);
                let listening = listening.clone();
                tokio::spawn(async move { listening.serve(socket, Peer::Host(peer)).await });
            }),
            Socket::Unix(listener) => listener.accept().await.map(|(socket, _)| {
                let listening = listening.clone();
                tokio::spawn(async move { listening.serve(socket, Peer::Local).await });
            }),
        };
        if accepted.is_err() {
            sleep(PAUSE).await;
        }
    }
}

impl Listening {
    /// Serves one connection to its end. The client notices every failure as the end.
    async fn serve(&self, socket: impl AsyncRead + AsyncWrite + Unpin, peer: Peer) {
        let Some(_slot) = self.limits.admit(peer, self.protocol) else { return };
        let purpose = Purpose::pass(self.protocol, peer, &self.names);
        let _ = match &self.certificates {
            None => self.shared.pass(socket, &purpose).await,
            Some(certificates) => {
                let handshake = TlsAcceptor::from(certificates.current()).accept(socket);
                match timeout(HANDSHAKE_MAX, handshake).await {
                    Ok(Ok(socket)) => self.shared.pass(socket, &purpose).await,
                    Ok(Err(_)) | Err(_) => return,
                }
            }
        };
    }
}

impl Shared {
    /// Copies bytes between a client and the leader, until one of them ends, or another node leads.
    async fn pass(
        &self,
        mut client: impl AsyncRead + AsyncWrite + Unpin,
        purpose: &Purpose,
    ) -> io::Result<()> {
        let (mut link, leader) = self.open_link(purpose, LEADER_MAX).await?;
        tokio::select! {
            copied = copy_bidirectional(&mut client, &mut link) => copied.map(drop),
            () = self.replaced(leader) => Ok(()),
        }
    }

    /// Connects to the leader for this purpose. While nobody leads, waits.
    pub(super) async fn open_link(
        &self,
        purpose: &Purpose,
        wait: Duration,
    ) -> io::Result<(Link, Leader)> {
        let (mut link, leader) = self.reach_leader(wait).await?;
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

    async fn reach_leader(&self, wait: Duration) -> io::Result<(Link, Leader)> {
        let until = Instant::now() + wait;
        loop {
            let leader = self.status.leader().borrow().clone();
            let error = match leader {
                None => io::ErrorKind::NotConnected.into(),
                Some(leader) => match self.keys.connect(&leader.address).await {
                    Ok(link) => return Ok((link, leader)),
                    Err(error) => error,
                },
            };
            if Instant::now() >= until {
                return Err(error);
            }
            sleep(RETRY).await;
        }
    }
}
