//! How clients reach the threads of a leader, if they came through another node, or before it led.

use std::future::pending;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use origin::{Names, Reach};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::cluster::carry::{ClientEnd, carry};
use crate::cluster::line::{HttpClient, Passed};
use crate::config::Config;
use crate::config::listener::{Access, Listener};
use crate::config::protocol::Protocol;
use crate::net::limits::{Admission, LiveLimits, Slot, WAITING_LINKS_MAX};
use crate::threads::mailbox::{Arrival, ConnectionInfo, Inbox, OpenSession};
use crate::web::connections::LinkPlace;
use crate::web::sites::names;
use crate::web::thread::Door;

/// The kernel keeps about so many bytes between a link and the connection of its client. What a client
/// does not read must wait in the outbox of its connection, which has limits.
const SOCKET_BYTES: usize = 16 << 10;

/// A link to a site carries the rest of a response for this long after it has lost its place.
const GIVES_WAY_IN: Duration = Duration::from_millis(250);

/// At the limit of connections, a client waits this long for the end of another connection. Then it is
/// closed, because its link takes a descriptor.
const ROOM_MAX: Duration = Duration::from_secs(15);
/// Time between two looks whether anybody is still behind a link that waits.
const PAUSE: Duration = Duration::from_millis(100);

/// The other end of a client's connection in this process, and the place of the connection.
pub(super) type Arrived = (StdUnixStream, Place);

/// The place of a connection. The link takes descriptors, too. So the place is taken until the link has
/// ended, also if the connection ends before. A client that came to this node itself has no link, but a
/// task that carries its bytes in the same way.
pub(super) enum Place {
    Queues {
        _slot: Arc<Slot>,
    },
    /// The connections of a site give way to each other.
    Site(LinkPlace),
}

impl Place {
    /// Completes when the connection has given way to another one.
    async fn lost(&mut self) {
        match self {
            Place::Queues { .. } => pending().await,
            Place::Site(place) => place.lost().await,
        }
    }
}

/// How connections from other nodes reach the I/O threads of a leader.
pub(crate) struct Entrance {
    doors: Vec<(Arc<Listener>, Arc<OpenSession>)>,
    pub(super) limits: Arc<LiveLimits>,
    inboxes: Vec<Arc<Inbox>>,
    next: AtomicUsize,
    /// The places of clients that wait for the end of another connection.
    waiting: Semaphore,
    /// The names of this node over HTTP.
    names: Names,
    /// Health, metrics, the API and the console. `None`: this node has no listener for HTTP.
    http: Option<Door>,
    /// Kestrel's admin commands.
    admin: Option<Door>,
}

impl Entrance {
    pub(crate) fn new(
        config: &Config,
        opens: &[Option<Arc<OpenSession>>],
        limits: Arc<LiveLimits>,
        inboxes: Vec<Arc<Inbox>>,
        [http, admin]: [Option<Door>; 2],
    ) -> Entrance {
        let reach = Reach::Network;
        // The rights of a client on the machine of a follower do not reach the leader.
        let access = Access { reach, may_control: config.kestrel.control.is_allowed(reach) };
        let door = |(protocol, open): (Protocol, &Option<Arc<OpenSession>>)| {
            let address = config.cluster.listen.clone();
            let silence_max_ms = config.silence_max_ms(protocol);
            let listener = Listener { protocol, address, access, silence_max_ms };
            Some((Arc::new(listener), open.clone()?))
        };
        let doors = Protocol::ALL.into_iter().zip(opens).filter_map(door).collect();
        let (next, waiting) = (AtomicUsize::new(0), Semaphore::new(WAITING_LINKS_MAX));
        Entrance { doors, limits, inboxes, next, waiting, names: names(config), http, admin }
    }

    /// Gives a connection with one request to the site.
    pub(super) fn arrive_at_site(&self, client: HttpClient) -> Option<Arrived> {
        let HttpClient { address, is_tls, certificate, host } = client;
        let peer = http_api::Peer { address, is_tls, certificate, ..Default::default() };
        // The other node has checked the name as its listener requires.
        let names = self.names_with(host.into_iter().collect(), false);
        let (socket, place) = self.http.as_ref()?.arrive(peer, names).ok()?;
        Some((socket, Place::Site(place)))
    }

    /// Waits until the limit of connections lets a client of this protocol in. The connections of a site
    /// give way to each other, so they do not wait. A link with nobody behind it waits no longer: there are
    /// few places. `gone`: its process is gone.
    pub(super) async fn room(
        &self,
        protocol: Protocol,
        link: &mut impl ClientEnd,
        gone: impl Future<Output = ()>,
    ) -> io::Result<()> {
        if protocol == Protocol::KestrelAdmin || !self.limits.is_full() {
            return Ok(());
        }
        let _place = self.waiting.try_acquire().map_err(|_| ErrorKind::ConnectionRefused)?;
        tokio::select! {
            room = timeout(ROOM_MAX, self.limits.room()) => Ok(room?),
            () = hung_up(link) => Err(ErrorKind::ConnectionReset.into()),
            () = gone => Err(ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Gives a connection to an I/O thread. `slot` is that of a client which came to this node before it
    /// led. Other clients get one, if there is [`room`].
    ///
    /// [`room`]: Entrance::room
    pub(super) fn arrive(&self, client: Passed, slot: Option<Arc<Slot>>) -> Option<Arrived> {
        let Passed { protocol, peer, hosts, is_loopback } = client;
        if protocol == Protocol::KestrelAdmin {
            let peer = http_api::Peer { address: peer.address(), ..Default::default() };
            let names = self.names_with(hosts, is_loopback);
            let (socket, place) = self.admin.as_ref()?.arrive(peer, names).ok()?;
            return Some((socket, Place::Site(place)));
        }
        let (listener, open) = self.doors.iter().find(|(one, _)| one.protocol == protocol)?;
        let slot = match slot {
            Some(slot) => slot,
            None => Arc::new(self.limits.admit(peer, protocol)?),
        };
        let (ours, theirs) = StdUnixStream::pair().ok()?;
        for socket in [&ours, &theirs] {
            socket.set_nonblocking(true).ok()?;
            sockopt::set_socket_send_buffer_size(socket, SOCKET_BYTES).ok()?;
        }
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.inboxes.len();
        let (listener, open) = (listener.clone(), open.clone());
        let open = if protocol.is_http() {
            with_names(open, self.names_with(hosts, is_loopback))
        } else {
            open
        };
        let (socket, admission) = (theirs.into(), Admission::OfLink(slot.clone()));
        let arrival = Arrival { socket, admission, listener, open, tls: None };
        self.inboxes[at].arrive(arrival);
        Some((ours, Place::Queues { _slot: slot }))
    }

    /// The names of this node and those of another one, which its clients use. `is_loopback`: at the
    /// listener of the other node, clients may use no other names.
    fn names_with(&self, hosts: Vec<String>, is_loopback: bool) -> Arc<Names> {
        let names = self.names.with(hosts);
        Arc::new(if is_loopback { names.required() } else { names })
    }
}

/// Opens sessions of clients that may use these names.
fn with_names(open: Arc<OpenSession>, names: Arc<Names>) -> Arc<OpenSession> {
    Arc::new(move |info, turn, mailbox| {
        open(ConnectionInfo { names: Some(&names), ..info }, turn, mailbox)
    })
}

/// Waits until nobody is behind a link any more, as far as the kernel knows.
async fn hung_up(link: &mut impl ClientEnd) {
    while !link.is_gone() {
        sleep(PAUSE).await;
    }
}

/// Carries bytes between a link, or the client itself, and the connection in this process, until both
/// have ended, the connection has given way to another one, or the process behind the link is gone.
pub(super) async fn serve_client(
    link: &mut (impl AsyncRead + AsyncWrite + ClientEnd + Unpin),
    arrived: Option<Arrived>,
    limits: &LiveLimits,
    gone: impl Future<Output = ()>,
) -> io::Result<()> {
    let (socket, mut place) = arrived.ok_or(ErrorKind::ConnectionRefused)?;
    let mut socket = UnixStream::from_std(socket)?;
    let gives_way = async {
        place.lost().await;
        // The end of a response can still be in the socket.
        sleep(GIVES_WAY_IN).await;
    };
    tokio::select! {
        carried = carry(link, &mut socket, limits) => carried,
        () = gone => Err(ErrorKind::TimedOut.into()),
        () = gives_way => Err(ErrorKind::ConnectionAborted.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::io::Write as _;

    use axum::Router;
    use broker::{Broker, EngineSetup, Millis, Outbox};
    use http_api::{Site, Unread};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::runtime::Builder;

    use super::*;
    use crate::cluster::reporters::Reporters;
    use crate::net::sessions::open_gearman_http;
    use crate::threads::mailbox::Peer;
    use crate::web::thread::WebThread;

    /// The other machine is lost, and does not take the bytes that the link has.
    #[tokio::test(start_paused = true)]
    async fn a_link_ends_with_the_process_behind_it() {
        let reporters = Reporters::new(6);
        reporters.note(7);
        let (mut link, _lost) = duplex(64);
        let (ours, theirs) = StdUnixStream::pair().expect("two sockets");
        for socket in [&ours, &theirs] {
            socket.set_nonblocking(true).expect("an option");
        }
        let mut client = UnixStream::from_std(theirs).expect("a socket");
        client.write_all(&[b'x'; 1000]).await.expect("the kernel takes it");
        let limits = Arc::new(LiveLimits::new(&Config::default().limits, 1024, 128));
        let slot = limits.admit(Peer::Local, Protocol::Beanstalk).expect("there is room").into();
        let arrived = Some((ours, Place::Queues { _slot: slot }));
        let gone = reporters.gone(Some(7));
        let served = serve_client(&mut link, arrived, &limits, gone).await;
        assert_eq!(served.expect_err("its process is gone").kind(), ErrorKind::TimedOut);
        // What the client has not been told is lost with the socket. It notices the end.
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest).await;
        assert!(rest.is_empty());
    }

    /// An entrance for clients of beanstalkd, without the I/O thread behind it, and for those of
    /// Kestrel's admin site.
    fn entrance(limits: &Arc<LiveLimits>, inbox: &Arc<Inbox>, admin: Option<Door>) -> Entrance {
        let open: Arc<OpenSession> = Arc::new(|_, _, _| unreachable!("no thread opens it"));
        let opens =
            Protocol::ALL.map(|protocol| (protocol == Protocol::Beanstalk).then(|| open.clone()));
        let inboxes = vec![inbox.clone()];
        Entrance::new(&Config::default(), &opens, limits.clone(), inboxes, [None, admin])
    }

    fn client(protocol: Protocol) -> Passed {
        Passed { protocol, peer: Peer::Local, hosts: Vec::new(), is_loopback: false }
    }

    #[test]
    fn what_a_passed_client_does_not_read_waits_in_its_outbox() {
        let limits = Arc::new(LiveLimits::new(&Config::default().limits, 1024, 128));
        let inbox = Arc::<Inbox>::default();
        let entrance = entrance(&limits, &inbox, None);
        let arrived = entrance.arrive(client(Protocol::Beanstalk), None);
        let (_ours, _slot) = arrived.expect("there is room");
        let arrival = inbox.take_arrivals().pop().expect("it has arrived");
        let mut socket = StdUnixStream::from(arrival.socket);
        let mut taken = 0;
        while let Ok(count) = socket.write(&[b'x'; 1000]) {
            taken += count;
        }
        assert!((1000..=4 * SOCKET_BYTES).contains(&taken), "{taken} bytes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_has_its_place_until_it_ends() {
        let limits = Arc::new(LiveLimits::new(&Config::default().limits, 1024, 128));
        let inbox = Arc::<Inbox>::default();
        let entrance = entrance(&limits, &inbox, None);
        let arrived = entrance.arrive(client(Protocol::Beanstalk), None);
        // The client has sent `quit`, but does not close. The connection ends without it.
        drop(inbox.take_arrivals());
        let (mut link, mut client) = duplex(64);
        let serving = tokio::spawn(async move {
            serve_client(&mut link, arrived, &entrance.limits, pending()).await
        });
        let mut replies = Vec::new();
        client.read_to_end(&mut replies).await.expect("the end of the connection");
        assert_eq!(limits.open(), 1, "the link is still there");
        sleep(Duration::from_hours(1)).await;
        assert_eq!(limits.open(), 0);
        let served = serving.await.expect("no panic");
        assert_eq!(served.expect_err("the client is late").kind(), ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_connection_has_its_place_until_it_ends() {
        let limits = Arc::new(LiveLimits::new(&Config::default().limits, 1024, 128));
        let inbox = Arc::<Inbox>::default();
        let entrance = entrance(&limits, &inbox, None);
        let arrived = entrance.arrive(client(Protocol::Beanstalk), None);
        let arrivals = inbox.take_arrivals();
        let (mut link, _client) = duplex(64);
        let served = serve_client(&mut link, arrived, &entrance.limits, ready(())).await;
        assert_eq!(served.expect_err("its process is gone").kind(), ErrorKind::TimedOut);
        assert_eq!(limits.open(), 1, "the I/O thread still has the connection");
        drop(arrivals);
        assert_eq!(limits.open(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_passed_client_waits_at_the_limit_of_connections() {
        let mut settings = Config::default().limits;
        settings.connections = Some(1);
        let limits = Arc::new(LiveLimits::new(&settings, 1024, 128));
        let inbox = Arc::<Inbox>::default();
        let entrance = entrance(&limits, &inbox, None);
        let room = async || {
            let (mut link, _client) = duplex(64);
            entrance.room(Protocol::Beanstalk, &mut link, pending()).await
        };
        let arrive = || entrance.arrive(client(Protocol::Beanstalk), None);
        room().await.expect("the limit is one");
        let first = arrive().expect("the limit is one");
        assert_eq!(room().await.expect_err("it is late").kind(), ErrorKind::TimedOut);
        let (mut link, _client) = duplex(64);
        let to_site = entrance.room(Protocol::KestrelAdmin, &mut link, pending());
        to_site.await.expect("the connections of sites do not count");
        // What is behind these links is gone, so they do not keep their places.
        let after_its_node = entrance.room(Protocol::Beanstalk, &mut link, ready(())).await;
        assert_eq!(after_its_node.expect_err("it is gone").kind(), ErrorKind::ConnectionAborted);
        let (mut link, far) = UnixStream::pair().expect("two sockets");
        drop(far);
        let after_reset = entrance.room(Protocol::Beanstalk, &mut link, pending()).await;
        assert_eq!(after_reset.expect_err("it is gone").kind(), ErrorKind::ConnectionReset);

        let end_first = async {
            sleep(ROOM_MAX / 2).await;
            drop((first, inbox.take_arrivals()));
        };
        let (waited, ()) = tokio::join!(room(), end_first);
        waited.expect("another connection has ended");
        let _second = arrive().expect("there is room again");

        let others = entrance.waiting.try_acquire_many(WAITING_LINKS_MAX as u32);
        let _others = others.expect("nobody waits");
        assert_eq!(room().await.expect_err("many wait").kind(), ErrorKind::ConnectionRefused);
    }

    /// The response of the leader to a client of the node `two.example`, which uses this name.
    async fn response(
        entrance: &Entrance,
        inbox: &Inbox,
        protocol: Protocol,
        (host, is_loopback): (&str, bool),
    ) -> String {
        let hosts = vec!["two.example".to_owned()];
        let client = Passed { hosts, is_loopback, ..client(protocol) };
        let (socket, _place) = entrance.arrive(client, None).expect("there is room");
        let request = format!("GET /ping HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let mut response = Vec::new();
        if let Some(arrival) = inbox.take_arrivals().pop() {
            let broker = Broker::memory(EngineSetup::default(), Millis(0));
            let mut turn = broker.turn(Millis(0));
            let (peer, listener) = (Peer::Local, &*arrival.listener);
            let info = ConnectionInfo { peer, listener, names: None };
            let (_, mut dialect) = (arrival.open)(info, &mut turn, 0);
            let mut outbox = Outbox::default();
            dialect.input(request.as_bytes(), &mut turn, &mut outbox);
            dialect.close(&mut turn);
            drop(turn);
            response.extend_from_slice(outbox.sendable(broker.released()));
        } else {
            let mut socket = UnixStream::from_std(socket).expect("a socket");
            socket.write_all(request.as_bytes()).await.expect("there is room");
            socket.read_to_end(&mut response).await.expect("the end of the connection");
        }
        String::from_utf8(response).expect("text")
    }

    #[tokio::test]
    async fn a_client_keeps_the_rule_of_names_of_its_node() {
        for listed in [&[][..], &["jobs.example"]] {
            let mut config = Config::default();
            config.http.hosts = listed.iter().map(|name| (*name).to_owned()).collect();
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            let unread = Unread::new(Broker::memory(EngineSetup::default(), Millis(0)));
            let (site, places) = (Site::new(Router::new()), 8);
            let web = WebThread::spawn(runtime, site, Vec::new(), &Arc::default(), places, unread);
            let web = web.expect("a thread");
            let opens = Protocol::ALL.map(|protocol| {
                (protocol == Protocol::GearmanHttp).then(|| open_gearman_http(&config))
            });
            let limits = Arc::new(LiveLimits::new(&config.limits, 1024, 128));
            let inbox = Arc::<Inbox>::default();
            let (inboxes, doors) = (vec![inbox.clone()], [None, Some(web.door())]);
            let entrance = Entrance::new(&config, &opens, limits, inboxes, doors);
            for protocol in [Protocol::GearmanHttp, Protocol::KestrelAdmin] {
                for (host, is_loopback, is_refused) in [
                    ("localhost", true, false),
                    ("two.example:8080", true, false),
                    ("two.example", false, false),
                    ("evil.example", true, true),
                    // Elsewhere, a program may use any name, unless the operator has listed some.
                    ("evil.example", false, !listed.is_empty()),
                ] {
                    let with = (host, is_loopback);
                    let response = response(&entrance, &inbox, protocol, with).await;
                    let is_so = response.split(' ').nth(1) == Some("403");
                    assert_eq!(is_so, is_refused, "{protocol:?} {with:?} {listed:?}: {response}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_link_to_a_site_has_its_place_until_it_ends_and_gives_way_with_it() {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let unread = Unread::new(Broker::memory(EngineSetup::default(), Millis(0)));
        let (site, places) = (Site::new(Router::new()), 1);
        let web = WebThread::spawn(runtime, site, Vec::new(), &Arc::default(), places, unread);
        let web = web.expect("a thread");
        let limits = Arc::new(LiveLimits::new(&Config::default().limits, 1024, 128));
        let entrance = entrance(&limits, &Arc::default(), Some(web.door()));
        let serve = || {
            let arrived = entrance.arrive(client(Protocol::KestrelAdmin), None);
            let (mut link, client) = duplex(1024);
            let limits = limits.clone();
            let serving =
                tokio::spawn(
                    async move { serve_client(&mut link, arrived, &limits, pending()).await },
                );
            (client, serving)
        };
        let (mut client, serving) = serve();
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        client.write_all(request).await.expect("there is room");
        let mut response = Vec::new();
        client.read_to_end(&mut response).await.expect("the end of the connection");
        assert!(response.starts_with(b"HTTP/1.1 "));
        // The client does not close, so its link waits for it. But it has the only place.
        let _other = serve();
        let served = serving.await.expect("no panic");
        assert_eq!(served.expect_err("it gave way").kind(), ErrorKind::ConnectionAborted);
    }
}
