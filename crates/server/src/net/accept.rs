//! Accepts connections, and distributes them to the I/O threads in turn. If there are too many
//! connections, or the process has no free file descriptors, the acceptor pauses. The end of a
//! connection ends the pause.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with};
use tokio::io::unix::AsyncFd;
use tokio::sync::futures::Notified;

use crate::config::listener::Listener;
use crate::net::limits::{Admission, LiveLimits};
use crate::net::listen::{Bound, Endpoint, SocketFile};
use crate::net::tls::Certificates;
use crate::process::message_limit::MessageLimit;
use crate::threads::mailbox::{Arrival, Inbox, OpenSession, Peer};

/// How long the acceptor pauses at most if it cannot accept a connection and no connection ends. A
/// reload can raise the limit meanwhile, and descriptors of other kinds can become free.
const PAUSE: Duration = Duration::from_millis(100);
/// Time between two messages about pauses.
const WARNING_PERIOD: Duration = Duration::from_mins(1);
/// The acceptor accepts at most this many connections before other tasks of its thread run.
const ACCEPTS_MAX: usize = 64;

/// A listening socket whose connections the server accepts.
pub(crate) struct Acceptor {
    /// This field must be dropped before the socket: see [`Bound`].
    _file: Option<SocketFile>,
    socket: AsyncFd<OwnedFd>,
    listener: Arc<Listener>,
    open: Arc<OpenSession>,
    /// The certificates, if the listener speaks TLS.
    certificates: Option<Arc<Certificates>>,
    limits: Arc<LiveLimits>,
    inboxes: Vec<Arc<Inbox>>,
    next_inbox: usize,
    warned_at: Option<Instant>,
    refusals: MessageLimit,
}

impl Acceptor {
    /// Creates an acceptor. The caller must be inside the runtime that will run the acceptor.
    pub(crate) fn new(
        endpoint: Endpoint,
        open: Arc<OpenSession>,
        limits: Arc<LiveLimits>,
        inboxes: Vec<Arc<Inbox>>,
    ) -> io::Result<Acceptor> {
        let Endpoint { bound: Bound { socket, file, .. }, listener, certificates } = endpoint;
        #[expect(
            deprecated,
            reason = "its successor is unsafe for types that do not keep their descriptor open; this does"
        )]
        let socket = AsyncFd::new(socket)?;
        Ok(Acceptor {
            _file: file,
            socket,
            listener,
            open,
            certificates,
            limits,
            inboxes,
            next_inbox: 0,
            warned_at: None,
            refusals: MessageLimit::default(),
        })
    }

    /// Accepts connections until the future is dropped.
    pub(crate) async fn run(mut self) {
        let limits = self.limits.clone();
        loop {
            // This comes before the checks, so the acceptor misses no connection that ends later.
            let freed = limits.freed();
            if limits.is_full() {
                self.pause("the limit of connections is reached", freed).await;
                continue;
            }
            let mut accepted = 0;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let failed = loop {
                if accepted == ACCEPTS_MAX || limits.is_full() {
                    break None;
                }
                match acceptfrom_with(&self.socket, flags) {
                    Ok((socket, peer)) => self.deal(socket, peer_of(peer)),
                    Err(error) => break Some(error),
                }
                accepted += 1;
            };
            match failed {
                None => tokio::task::yield_now().await,
                Some(Errno::WOULDBLOCK) => self.wait().await,
                Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    self.pause("out of descriptors or memory for connections", freed).await;
                }
                // The client disconnected before the server accepted it.
                Some(error @ (Errno::CONNABORTED | Errno::PROTO | Errno::PERM)) => {
                    tracing::debug!(listener = %self.listener.address, %error, "accept failed");
                    tokio::task::yield_now().await;
                }
                // The network has a fault, or an inherited socket does not listen.
                Some(error) => self.pause(&format!("accept failed ({error})"), freed).await,
            }
        }
    }

    fn deal(&mut self, socket: OwnedFd, peer: Peer) {
        let Some(slot) = self.limits.admit(peer, self.listener.protocol) else {
            if let Some(count) = self.refusals.count() {
                let (listener, address) = (&self.listener.address, peer.shown());
                tracing::warn!(%listener, address, count, "closed at once: too many connections from one address");
            }
            return;
        };
        tracing::debug!(listener = %self.listener.address, thread = self.next_inbox, "accept");
        let tls = self.certificates.as_ref().map(|certificates| certificates.current());
        let (listener, open) = (self.listener.clone(), self.open.clone());
        let arrival = Arrival { socket, admission: Admission::Own(slot), listener, open, tls };
        self.inboxes[self.next_inbox].arrive(arrival);
        self.next_inbox = (self.next_inbox + 1) % self.inboxes.len();
    }

    async fn wait(&self) {
        // An error means that the runtime ends. Then this task ends, too.
        if let Ok(mut guard) = self.socket.readable().await {
            guard.clear_ready();
        }
    }

    /// Waits until a connection ends, but at most for [`PAUSE`]. During this time, new clients wait
    /// in the accept queue. Clients that leave meanwhile stay in the queue, and each of them takes a
    /// place for a moment. So a pause of fixed length for each of them would add up to seconds.
    async fn pause(&mut self, reason: &str, freed: Notified<'_>) {
        if self.warned_at.is_none_or(|at| at.elapsed() >= WARNING_PERIOD) {
            self.warned_at = Some(Instant::now());
            tracing::warn!(listener = %self.listener.address, "{reason}: new clients must wait");
        }
        // After either end of the wait, the acceptor tries again.
        let _ = tokio::time::timeout(PAUSE, freed).await;
    }
}

fn peer_of(address: Option<SocketAddrAny>) -> Peer {
    let address = address.and_then(|address| SocketAddr::try_from(address).ok());
    address.map_or(Peer::Local, Peer::from)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use socket2::{Domain, Socket, Type};
    use tokio::runtime::Builder;

    use notation::address::Address;

    use super::*;
    use crate::config::Config;
    use crate::config::protocol::Protocol;

    /// An acceptor of a socket, with at most this many connections. They arrive in the inbox.
    fn acceptor(socket: OwnedFd, connections: Option<usize>, inbox: &Arc<Inbox>) -> Acceptor {
        let (protocol, address) = (Protocol::Beanstalk, Address::Unix("socket".into()).into());
        let bound = Bound { socket, protocol, address, file: None, backlog: None };
        let mut config = Config::default();
        config.limits.connections = connections;
        let endpoint = Endpoint::new(bound, &config, None);
        let limits = Arc::new(LiveLimits::new(&config.limits, 1024, 128));
        let open: Arc<OpenSession> = Arc::new(|_, _, _| unreachable!("no session opens"));
        Acceptor::new(endpoint, open, limits, vec![inbox.clone()]).unwrap()
    }

    #[test]
    fn an_unusable_socket_stops_no_other_listener() {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let acceptor = acceptor(socket.into(), None, &Arc::default());
        let ended = runtime.block_on(async {
            tokio::time::timeout(Duration::from_millis(50), acceptor.run()).await
        });
        assert!(ended.is_err(), "an acceptor ends only with its future");
    }

    #[test]
    fn at_the_limit_the_end_of_a_connection_lets_the_next_client_in_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = UnixListener::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        // All these clients have left before the acceptor sees them.
        let mut clients = 20;
        for _ in 0..clients {
            UnixStream::connect(&path).unwrap();
        }
        let inbox = Arc::<Inbox>::default();
        // The time of this runtime stands still while a task is ready, so no pause is over.
        let runtime =
            Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let acceptor = acceptor(socket.into(), Some(1), &inbox);
            let end_all = async {
                // An acceptor needs only a few rounds for each client.
                for _ in 0..1000 {
                    let arrivals = inbox.take_arrivals();
                    assert!(arrivals.len() <= 1, "the limit is one connection");
                    clients -= arrivals.len();
                    drop(arrivals);
                    if clients == 0 {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
                panic!("{clients} clients wait although there is room");
            };
            tokio::select! {
                () = acceptor.run() => panic!("an acceptor ends only with its future"),
                () = end_all => {}
            }
        });
    }
}
