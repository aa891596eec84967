//! A thread that serves HTTP requests about the server. It owns its listeners and connections, and
//! limits their number.
//!
//! The thread is not an I/O thread, so that its failures do not affect clients. Its connections
//! have a separate limit, so that health checks work even if the server accepts no more clients.
//! Each site has its own thread. So health checks do not wait while Kestrel's admin commands read
//! thousands of queues.

use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http_api::{Client, Peer, Site, Unread, serve};
use notation::address::Address;
use origin::{Gate, Names, Reach};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;

use crate::net::limits::OPERATOR_CONNECTIONS_MAX;
use crate::net::listen::{Endpoint, SocketFile};
use crate::net::tls::Certificates;
use crate::web::connections::{LinkPlace, SiteConnections, Ticket};

/// The name of these threads. A panic in a thread with this name ends only one connection, not the
/// server.
pub const WEB_THREAD: &str = "http";

/// Pause after a failed accept. The likely cause is that the process has no free file descriptors.
const PAUSE: Duration = Duration::from_secs(1);

/// Time limit of a TLS handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Time between two ticks of a site.
const TICK: Duration = Duration::from_secs(1);

/// A handle on the running thread. The thread ends when the handle is dropped.
pub(crate) struct WebThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    runtime: Handle,
    served: Served,
    names: Arc<Names>,
}

/// State that all connections of a site share.
#[derive(Clone)]
struct Served {
    site: Site,
    connections: Arc<SiteConnections>,
    unread: Unread,
}

/// A way into a site for the clients of other nodes.
#[derive(Clone)]
pub(crate) struct Door {
    runtime: Handle,
    served: Served,
}

impl Door {
    /// Serves the client of another node, which may use these names. Returns the other end of its
    /// connection, and the place of its link.
    pub(crate) fn arrive(
        &self,
        peer: Peer,
        names: Arc<Names>,
    ) -> io::Result<(StdUnixStream, LinkPlace)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let socket = {
            let _inside = self.runtime.enter();
            UnixStream::from_std(theirs)?
        };
        // The client may be on the machine of the other node, but not on this one.
        let gate = Gate { names, reach: Reach::Network };
        let client = Client { gate, peer: Peer { is_passed: true, is_operator: false, ..peer } };
        let served = self.served.clone();
        let ticket = self.served.connections.admit(|ticket| {
            self.runtime.spawn(serve_one(socket, None, served, client, ticket)).abort_handle()
        });
        Ok((ours, ticket.place_of_link()))
    }
}

/// A listener that accepts connections.
struct Accepting {
    /// This field must be dropped before the socket: see [`Bound`].
    _file: Option<SocketFile>,
    socket: Socket,
    served: Served,
    gate: Gate,
    certificates: Option<Arc<Certificates>>,
    /// Whether this is the operator's socket, which only the server's user can use.
    is_for_operator: bool,
}

/// A listening socket of the runtime.
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// How long a stop waits for threads that read files.
const BLOCKED_TIME: Duration = Duration::from_secs(1);

impl WebThread {
    /// Serves a site on its own thread, with at most `connections_max` connections. Each site has
    /// its own limit. With a common limit, clients of one site could block health checks at the
    /// other site.
    pub(crate) fn spawn(
        runtime: Runtime,
        site: Site,
        endpoints: Vec<Endpoint>,
        names: &Arc<Names>,
        connections_max: usize,
        unread: Unread,
    ) -> io::Result<WebThread> {
        let inside = runtime.enter();
        runtime.spawn(tick(site.clone()));
        let connections = Arc::new(SiteConnections::new(connections_max));
        let served = Served { site, connections, unread };
        for place in endpoints {
            runtime.spawn(accept(Accepting::of(place, served.clone(), names.clone())?));
        }
        drop(inside);
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let named = std::thread::Builder::new().name(WEB_THREAD.to_owned());
        // `stopped` ends with an error when its sender is dropped. That also stops this thread.
        let thread = named.spawn(move || {
            log::mark_as_patient();
            drop(runtime.block_on(stopped));
            // A blocking thread can hang in a read of a disk that does not answer.
            runtime.shutdown_timeout(BLOCKED_TIME);
        })?;
        let (stop, thread, names) = (Some(stop), Some(thread), names.clone());
        Ok(WebThread { stop, thread, runtime: handle, served, names })
    }

    /// A way into the site for the clients of other nodes.
    pub(crate) fn door(&self) -> Door {
        Door { runtime: self.runtime.clone(), served: self.served.clone() }
    }

    /// Also serves the operator's socket. It has places of its own, so that the operator gets in when
    /// the site is full.
    pub(crate) fn add_operator_socket(&self, listener: StdUnixListener) -> io::Result<()> {
        let _inside = self.runtime.enter();
        let accepting = Accepting {
            _file: None,
            socket: Socket::Unix(UnixListener::from_std(listener)?),
            served: Served {
                connections: Arc::new(SiteConnections::new(OPERATOR_CONNECTIONS_MAX)),
                ..self.served.clone()
            },
            gate: Gate { names: self.names.clone(), reach: Reach::Unix },
            certificates: None,
            is_for_operator: true,
        };
        self.runtime.spawn(accept(accepting));
        Ok(())
    }
}

impl Drop for WebThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic was already reported.
            let _ = thread.join();
        }
    }
}

impl Accepting {
    /// Begins to listen. The caller must be inside the runtime that watches the socket.
    fn of(place: Endpoint, served: Served, names: Arc<Names>) -> io::Result<Accepting> {
        let Endpoint { mut bound, listener, certificates } = place;
        bound.listen().map_err(io::Error::other)?;
        let gate = Gate { names, reach: listener.access.reach };
        let socket = if matches!(bound.address.address, Address::Unix(_)) {
            Socket::Unix(UnixListener::from_std(StdUnixListener::from(bound.socket))?)
        } else {
            Socket::Tcp(TcpListener::from_std(StdTcpListener::from(bound.socket))?)
        };
        let is_for_operator = false;
        Ok(Accepting { _file: bound.file, socket, served, gate, certificates, is_for_operator })
    }

    /// Accepts one connection and serves it in its own task.
    async fn accept(&self) -> io::Result<()> {
        let connections = &self.served.connections;
        match &self.socket {
            Socket::Tcp(listener) => {
                let (socket, address) = listener.accept().await?;
                let address = Some(address.ip().to_canonical());
                let peer = Peer { address, ..Peer::default() };
                connections.admit(|ticket| self.serve(socket, peer, ticket));
            }
            Socket::Unix(listener) => {
                let (socket, _) = listener.accept().await?;
                let is_operator = self.is_for_operator && is_own_user(&socket);
                let peer = Peer { is_operator, ..Peer::default() };
                connections.admit(|ticket| self.serve(socket, peer, ticket));
            }
        }
        Ok(())
    }

    fn serve<S>(&self, socket: S, peer: Peer, ticket: Arc<Ticket>) -> AbortHandle
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (served, client) = (self.served.clone(), Client { gate: self.gate.clone(), peer });
        // Get the certificates for each connection, because a reload can change them.
        let tls = self.certificates.as_ref().map(|certificates| certificates.current());
        tokio::spawn(serve_one(socket, tls, served, client, ticket)).abort_handle()
    }
}

/// Serves one connection to its end. If the listener speaks TLS, the handshake comes first.
async fn serve_one<S>(
    socket: S,
    tls: Option<Arc<ServerConfig>>,
    served: Served,
    client: Client,
    ticket: Arc<Ticket>,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let Served { site, unread, .. } = served;
    let begin_request = || ticket.begin_request();
    match tls {
        None => serve(socket, site, client, unread, begin_request).await,
        Some(config) => {
            let handshake = TlsAcceptor::from(config).accept(socket);
            // Ignore a failed handshake, because the cause is the client: garbage, silence or a
            // wrong certificate.
            if let Ok(Ok(socket)) = tokio::time::timeout(HANDSHAKE_TIME, handshake).await {
                let certificates = socket.get_ref().1.peer_certificates();
                let certificate = certificates.and_then(|all| all.first()).map(AsRef::as_ref);
                let Client { gate, peer } = client;
                let client = Client { gate, peer: peer.over_tls(certificate) };
                serve(socket, site, client, unread, begin_request).await;
            }
        }
    }
}

/// Whether the other end runs as the user of this process, or as root. The mode of the socket's
/// file says the same, but not on all systems.
fn is_own_user(socket: &UnixStream) -> bool {
    let user = rustix::process::geteuid().as_raw();
    socket.peer_cred().is_ok_and(|peer| peer.uid() == user || peer.uid() == 0)
}

/// Calls the site's `tick` once per [`TICK`].
async fn tick(site: Site) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        site.tick();
    }
}

/// Accepts connections until the runtime ends.
async fn accept(listener: Accepting) {
    loop {
        if let Err(error) = listener.accept().await {
            tracing::debug!(%error, "cannot accept an HTTP connection");
            tokio::time::sleep(PAUSE).await;
        }
        // Let the new connection run before the next accept. At the limit of connections, the next
        // accept could close the new connection before it has run.
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::sync::Mutex;

    use axum::Router;
    use axum::body::{Body, to_bytes};
    use axum::routing::{get, post};
    use broker::{Broker, EngineSetup, Millis};
    use testkit::wait::until;
    use tokio::runtime::Builder;
    use tokio::sync::Semaphore;

    use notation::address::ListenAddress;

    use super::*;
    use crate::config::Config;
    use crate::config::protocol::Protocol;
    use crate::net::listen::{Bound, SocketOptions, bind};

    fn silent() -> Site {
        Site::new(Router::new().fallback(|| async {}))
    }

    fn spawn(runtime: Runtime, site: Site, bound: Bound) -> WebThread {
        let unread = Unread::new(Broker::memory(EngineSetup::default(), Millis(0)));
        let endpoints = vec![Endpoint::new(bound, &Config::default(), None)];
        WebThread::spawn(runtime, site, endpoints, &Arc::default(), 2, unread).unwrap()
    }

    fn connect(address: &ListenAddress) -> TcpStream {
        let peer = TcpStream::connect(address.to_string()).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        peer
    }

    #[test]
    fn silent_connections_give_way_to_one_that_asks() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let wanted = Address::Tcp { host: "127.0.0.1".to_owned(), port: 0 }.into();
        let bound = bind(Protocol::Http, &wanted, &SocketOptions::default()).unwrap().remove(0);
        let address = bound.address.clone();
        let _web = spawn(runtime, silent(), bound);
        let ask = |peer: &mut TcpStream| {
            peer.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                peer.read_exact(&mut byte).unwrap();
                answer.extend(byte);
            }
            assert!(answer.starts_with(b"HTTP/1.1 200 OK"));
        };
        let mut kept = connect(&address);
        ask(&mut kept);
        let mut first = connect(&address);
        first.write_all(b"GET / HT").unwrap();
        let _crowd: Vec<TcpStream> = (0..100).map(|_| connect(&address)).collect();
        ask(&mut connect(&address));
        assert_eq!(first.read(&mut [0]).unwrap_or(0), 0, "it had to go");
        ask(&mut kept);
    }

    #[test]
    fn the_oldest_request_in_progress_gives_way_to_nobody() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let wanted = Address::Tcp { host: "127.0.0.1".to_owned(), port: 0 }.into();
        let bound = bind(Protocol::Http, &wanted, &SocketOptions::default()).unwrap().remove(0);
        let address = bound.address.clone();
        // Requests for `/wait` wait until the test sends a permit.
        let (permits, begun) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (waited, noted) = (permits.clone(), begun.clone());
        let router = Router::new().route(
            "/wait",
            get(async move || {
                noted.add_permits(1);
                drop(waited.acquire().await);
                "done"
            }),
        );
        let _web = spawn(runtime, Site::new(router.fallback(|| async {})), bound);
        let wait = |count: usize| {
            let mut peer = connect(&address);
            peer.write_all(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            until("the request has begun", || begun.available_permits() == count);
            peer
        };
        let mut first = wait(1);
        let mut second = wait(2);
        // All places have requests in progress, and another client still gets in.
        let mut quick = connect(&address);
        quick.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        quick.read_exact(&mut [0; 15]).unwrap();
        assert_eq!(second.read(&mut [0]).unwrap_or(0), 0, "the newest request had to go");
        permits.add_permits(2);
        let mut answer = [0; 15];
        first.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    }

    #[test]
    fn a_body_that_arrives_gives_way_to_a_client_that_waits() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let wanted = Address::Tcp { host: "127.0.0.1".to_owned(), port: 0 }.into();
        let bound = bind(Protocol::Http, &wanted, &SocketOptions::default()).unwrap().remove(0);
        let address = bound.address.clone();
        let (permits, noted) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (waited, steps) = (permits.clone(), noted.clone());
        let wait = post(move |body: Body| {
            let (waited, steps) = (waited.clone(), steps.clone());
            async move {
                steps.add_permits(1);
                drop(to_bytes(body, 100).await);
                steps.add_permits(1);
                drop(waited.acquire().await);
                "done"
            }
        });
        let router = Router::new().route("/wait", wait).fallback(|| async {});
        let _web = spawn(runtime, Site::new(router), bound);
        let head = b"POST /wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nx";
        let mut sender = connect(&address);
        sender.write_all(head).unwrap();
        until("the first request has begun", || noted.available_permits() == 1);
        let mut waiter = connect(&address);
        waiter.write_all(head).unwrap();
        until("the second request has begun", || noted.available_permits() == 2);
        waiter.write_all(b"x").unwrap();
        until("the second request waits", || noted.available_permits() == 3);
        // The older request has to go, because its body has not arrived.
        let mut quick = connect(&address);
        quick.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        quick.read_exact(&mut [0; 15]).unwrap();
        assert_eq!(sender.read(&mut [0]).unwrap_or(0), 0, "it had to go");
        permits.add_permits(1);
        let mut answer = [0; 15];
        waiter.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    }

    #[test]
    fn a_site_that_takes_long_keeps_no_other_waiting() {
        let wanted = Address::Tcp { host: "127.0.0.1".to_owned(), port: 0 }.into();
        let lock = Arc::new(Mutex::new(()));
        let waited = lock.clone();
        // A site whose replies block while the test holds the lock.
        let stuck = Site::new(Router::new().fallback(move || {
            drop(waited.lock());
            async {}
        }));
        let serve = |site: Site| {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let bound = bind(Protocol::Http, &wanted, &SocketOptions::default()).unwrap().remove(0);
            let address = bound.address.clone();
            (spawn(runtime, site, bound), address)
        };
        let (_slow, slow_address) = serve(stuck);
        let (_quick, quick_address) = serve(silent());
        let held = lock.lock().unwrap();
        let mut peers = [slow_address, quick_address].map(|address| {
            let mut peer = connect(&address);
            peer.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            peer
        });
        let mut answer = [0; 15];
        peers[1].read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        drop(held);
        peers[0].read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    }
}
