//! Limits that can change while the server runs. Also the limit of the process's file descriptors.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use broker::{Broker, DiskLimits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::timeout;

use crate::config::Limits;
use crate::config::protocol::Protocol;
use crate::net::connection::Held;
use crate::threads::mailbox::{Inbox, Peer};
use crate::threads::request_times::AllRequestTimes;

/// Number of file descriptors for the log's files, the standard streams, and files that are open
/// only briefly.
const FILES_MAX: usize = 32;
/// Threads of a site for work that takes long: as many as can wait for a disk that hangs, one that masks
/// bodies, and one that sorts many queues.
pub(crate) const BLOCKING_THREADS_MAX: usize = api::HANGING_THREADS_MAX + 2;
/// Number of file descriptors for the history of jobs, and for a new file of it before the oldest
/// one is deleted. Small files make it reach this number at any `data.history_size`.
const HISTORY_FILES_MAX: usize = api::HISTORY_FILES_MAX + 1;
/// Number of file descriptors of the two HTTP sites for bodies in the log: one for each thread.
const SITE_FILES_MAX: usize = 2 * BLOCKING_THREADS_MAX;
/// Limit of connections to the operator's socket. They do not count as connections of clients.
pub(crate) const OPERATOR_CONNECTIONS_MAX: usize = 16;
/// Number of file descriptors that one tokio runtime uses for wake-ups and signals.
const RUNTIME_DESCRIPTORS: usize = 4;
/// At the limit of connections, so many links wait at a leader for the end of a connection.
pub(crate) const WAITING_LINKS_MAX: usize = 32;
/// One that waits for room looks again at the latest after this time: a reload can raise the limit.
const ROOM_PAUSE: Duration = Duration::from_millis(100);
/// Number of file descriptors that a node of a cluster needs besides those of its clients: 64
/// handshakes, the links that wait, two runtimes, the connections to NATS and to the other nodes.
const CLUSTER_DESCRIPTORS: u64 = (64 + WAITING_LINKS_MAX + 2 * RUNTIME_DESCRIPTORS) as u64 + 24;
/// Incomplete commands can use the memory limit divided by this number. Unsent replies can use the
/// same amount.
const BUFFERS_SHARE: u64 = 20;
/// Loaded bodies that clients have not read yet can use the limit of unsent replies divided by this
/// number. One more body can be loaded beyond that, for which the limit of unsent replies has room.
/// So they alone make no requests wait.
const LOADS_SHARE: u64 = 2;
/// Connections for HTTP: a sixteenth of the descriptors, within these bounds. So a process with few
/// descriptors keeps them for the clients of the queues.
const WEB_CONNECTIONS: RangeInclusive<usize> = 64..=256;

/// Number of file descriptors that connections cannot use. They are reserved, because clients wait
/// while the log cannot open its next file. `has_folder`: the server stores jobs.
pub(crate) fn own_descriptors(
    io_threads: usize,
    listeners: usize,
    has_traces: bool,
    has_folder: bool,
) -> usize {
    // The main thread, the two HTTP sites and the export of traces have a runtime each.
    let runtimes = 3 + usize::from(has_traces);
    // Each I/O thread has an event queue of the kernel for its sockets, and a descriptor that wakes it.
    let queues = 2 * io_threads;
    let stored = if has_folder { HISTORY_FILES_MAX + SITE_FILES_MAX } else { 0 };
    let files = FILES_MAX + stored;
    files + OPERATOR_CONNECTIONS_MAX + RUNTIME_DESCRIPTORS * runtimes + queues + listeners
}

/// How many of a process's descriptors a node of a cluster can use as if each client took one. A client
/// of another node takes three at the leader: the link to that node, and both ends of a pair of
/// sockets. At the other node, it takes two.
pub(crate) fn descriptors_in_cluster(descriptors: u64, own: usize) -> u64 {
    let reserved = own as u64 + CLUSTER_DESCRIPTORS;
    own as u64 + descriptors.saturating_sub(reserved) / 3
}

/// The current limits, shared by all threads.
#[derive(Debug)]
pub(crate) struct LiveLimits {
    connections: AtomicUsize,
    /// 0 means no limit.
    connections_per_address: AtomicUsize,
    unfinished_ms: AtomicU64,
    unsent_bytes: AtomicU64,
    unsent_ms: AtomicU64,
    unsent_total_bytes: AtomicU64,
    unfinished_bytes: AtomicU64,
    loads_bytes: AtomicU64,
    /// `u64::MAX` means no limit.
    memory_bytes: AtomicU64,
    /// `u64::MAX` means no limit.
    bodies_bytes: AtomicU64,
    jobs_bytes: AtomicU64,
    /// The limit of jobs. `u64::MAX`: there is none.
    job_count: AtomicU64,
    queues: AtomicUsize,
    disk: Mutex<DiskLimits>,
    /// Limit of connections that the number of file descriptors allows.
    descriptors: usize,
    /// Limit of connections for HTTP. They do not count as open connections.
    web_connections: usize,
    /// Number of open connections of all threads, by the number of their protocol.
    open: [AtomicUsize; Protocol::ALL.len()],
    /// Number of open connections per address: see [`Peer::counted_address`]. Addresses without
    /// connections are removed.
    addresses: Mutex<HashMap<IpAddr, usize>>,
    /// Wakes those that wait for the end of a connection.
    freed: Notify,
    /// Counts of refused connections.
    pub(crate) refused: Refused,
    /// Memory of all connections.
    pub(crate) held: HeldInTotal,
    /// The total time for which I/O threads have held the broker's lock, in nanoseconds.
    pub(crate) turns_ns: AtomicU64,
    /// How long requests take.
    pub(crate) request_times: AllRequestTimes,
}

/// Numbers of connections that the server closed at once, since the start.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// Connections closed because their address had too many connections.
    pub(crate) per_address: AtomicU64,
    /// Connections closed because the client sent HTTP or TLS to a port of another protocol.
    pub(crate) wrong_protocol: AtomicU64,
}

/// Memory of the connections of all threads. Each thread adds its changes after a delay. So a sum
/// can be negative for a short time.
#[derive(Debug, Default)]
pub(crate) struct HeldInTotal {
    unfinished_bytes: AtomicI64,
    stuck_bytes: AtomicI64,
    /// Unsent replies that are not stuck.
    flowing_bytes: AtomicI64,
    /// The inboxes of all threads. They are weak references, because an inbox can own connections,
    /// which own these limits. Strong references would form a circle that is never freed.
    inboxes: Mutex<Vec<Weak<Inbox>>>,
}

impl HeldInTotal {
    /// Registers a thread by its inbox.
    pub(crate) fn enter(&self, inbox: &Arc<Inbox>) {
        self.inboxes().push(Arc::downgrade(inbox));
    }

    /// The current sums.
    pub(crate) fn all(&self) -> Held {
        Held {
            unfinished_bytes: self.unfinished_bytes(),
            stuck_bytes: self.stuck_bytes(),
            ..Held::default()
        }
    }

    /// Number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.inboxes().len()
    }

    /// Notifies all threads except one that the connections together use too much memory.
    pub(crate) fn notify_excess(&self, but: &Arc<Inbox>) {
        let inboxes = self.inboxes();
        let others =
            inboxes.iter().filter_map(Weak::upgrade).filter(|inbox| !Arc::ptr_eq(inbox, but));
        others.for_each(|inbox| inbox.notify_excess());
    }

    fn inboxes(&self) -> MutexGuard<'_, Vec<Weak<Inbox>>> {
        // A panic cannot leave the list half changed.
        self.inboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, unfinished_bytes: i64, stuck_bytes: i64, flowing_bytes: i64) {
        self.unfinished_bytes.fetch_add(unfinished_bytes, Ordering::Relaxed);
        self.stuck_bytes.fetch_add(stuck_bytes, Ordering::Relaxed);
        self.flowing_bytes.fetch_add(flowing_bytes, Ordering::Relaxed);
    }

    /// Bytes of incomplete commands.
    pub(crate) fn unfinished_bytes(&self) -> u64 {
        u64::try_from(self.unfinished_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Bytes of replies that wait for slow readers.
    pub(crate) fn stuck_bytes(&self) -> u64 {
        u64::try_from(self.stuck_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Bytes of replies that wait for readers that are not slow.
    pub(crate) fn flowing_bytes(&self) -> u64 {
        u64::try_from(self.flowing_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

/// Counts one open connection until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    limits: Arc<LiveLimits>,
    /// The client's address.
    peer: Peer,
    protocol: Protocol,
}

/// How a connection of an I/O thread counts as open.
#[derive(Debug)]
pub(crate) enum Admission {
    /// The connection has its own slot.
    Own(Slot),
    /// In a cluster, the connection of a client that came through another node shares its slot with the
    /// link that carries its bytes. Each of them can end later than the other. The same applies to a
    /// client that came to this node before it led.
    OfLink(Arc<Slot>),
}

impl Admission {
    /// The client's address.
    pub(crate) fn peer(&self) -> Peer {
        match self {
            Self::Own(slot) => slot.peer,
            Self::OfLink(slot) => slot.peer,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(address) = self.peer.counted_address() {
            let mut addresses = self.limits.addresses();
            if let Some(count) = addresses.get_mut(&address) {
                *count -= 1;
                if *count == 0 {
                    addresses.remove(&address);
                }
            }
        }
        self.limits.open[self.protocol as usize].fetch_sub(1, Ordering::Relaxed);
        // The counts come first, so an acceptor that wakes finds the room. If no acceptor waits,
        // this call only takes a lock that is almost always free.
        self.limits.freed.notify_waiters();
    }
}

impl LiveLimits {
    /// Creates the limits. The process can have `descriptors` file descriptors. It needs `own` of
    /// them for other purposes than connections.
    pub(crate) fn new(limits: &Limits, descriptors: u64, own: usize) -> LiveLimits {
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        // `own` is a generous estimate. So connections get some descriptors even if `own` leaves
        // none.
        let free = descriptors.saturating_sub(own).max(descriptors / 16).max(1);
        let wanted = (free / 16).clamp(*WEB_CONNECTIONS.start(), *WEB_CONNECTIONS.end());
        let web_connections = wanted.min(free / 2);
        let live = LiveLimits {
            connections: AtomicUsize::default(),
            connections_per_address: AtomicUsize::default(),
            unfinished_ms: AtomicU64::default(),
            unsent_bytes: AtomicU64::default(),
            unsent_ms: AtomicU64::default(),
            unsent_total_bytes: AtomicU64::default(),
            unfinished_bytes: AtomicU64::default(),
            loads_bytes: AtomicU64::default(),
            memory_bytes: AtomicU64::default(),
            bodies_bytes: AtomicU64::default(),
            jobs_bytes: AtomicU64::default(),
            job_count: AtomicU64::default(),
            queues: AtomicUsize::default(),
            disk: Mutex::default(),
            descriptors: free - web_connections,
            web_connections,
            open: Default::default(),
            addresses: Mutex::default(),
            freed: Notify::new(),
            refused: Refused::default(),
            held: HeldInTotal::default(),
            turns_ns: AtomicU64::default(),
            request_times: AllRequestTimes::default(),
        };
        live.set(limits);
        live
    }

    pub(crate) fn set(&self, limits: &Limits) {
        let connections = limits.connections.unwrap_or(usize::MAX).min(self.descriptors);
        self.connections.store(connections, Ordering::Relaxed);
        let per_address = limits.connections_per_address.unwrap_or(0);
        self.connections_per_address.store(per_address, Ordering::Relaxed);
        let unfinished_ms = limits.unfinished_time.map_or(u64::MAX, |time| time.as_millis() as u64);
        self.unfinished_ms.store(unfinished_ms, Ordering::Relaxed);
        // A client must be able to have at least one unsent reply of the largest size, with body
        // and head. Clients of other protocols can put this body, so the largest of all sizes
        // counts. The limit of incomplete commands also needs room for one largest body.
        let sizes =
            [limits.beanstalk_job_bytes, limits.gearman_packet_bytes, limits.kestrel_item_bytes];
        let largest = sizes.into_iter().max().unwrap_or(0);
        let one_reply = u64::from(largest) + 4096;
        self.unsent_bytes.store(limits.unsent_bytes.saturating_add(one_reply), Ordering::Relaxed);
        let unsent_ms = u64::try_from(limits.unsent_time.as_millis()).unwrap_or(u64::MAX);
        self.unsent_ms.store(unsent_ms, Ordering::Relaxed);
        let memory_limit = limits.memory.bytes();
        let memory_bytes = memory_limit.unwrap_or(u64::MAX);
        self.memory_bytes.store(memory_bytes, Ordering::Relaxed);
        let bodies_bytes = limits.bodies.bytes_of(memory_limit).unwrap_or(u64::MAX);
        self.bodies_bytes.store(bodies_bytes, Ordering::Relaxed);
        let jobs_bytes = limits.jobs.bytes_of(memory_limit).unwrap_or(u64::MAX);
        self.jobs_bytes.store(jobs_bytes, Ordering::Relaxed);
        let job_count = limits.job_count.map_or(u64::MAX, |count| count as u64);
        self.job_count.store(job_count, Ordering::Relaxed);
        self.queues.store(limits.queues.unwrap_or(usize::MAX), Ordering::Relaxed);
        *self.disk.lock().unwrap_or_else(PoisonError::into_inner) = limits.disk;
        // At the memory limit, the server refuses puts, so jobs use no more memory. But incomplete
        // commands and unsent replies still grow. To limit these bytes, the server must disconnect
        // clients. So the limits of these bytes are only a small share of the memory limit.
        let share = memory_bytes / BUFFERS_SHARE;
        let one_body = broker::allocated_bytes(one_reply as usize);
        let total = |wanted: u64| wanted.min(share).saturating_add(one_body);
        self.unsent_total_bytes.store(total(limits.unsent_total_bytes), Ordering::Relaxed);
        self.unfinished_bytes.store(total(limits.unfinished_bytes), Ordering::Relaxed);
        let loads = limits.unsent_total_bytes.min(share) / LOADS_SHARE;
        self.loads_bytes.store(loads, Ordering::Relaxed);
    }

    /// Limit of open connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Limit of unsent bytes for one client that does not catch up.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.unsent_bytes.load(Ordering::Relaxed)
    }

    /// How long a client with unsent replies can read nothing, in milliseconds.
    pub(crate) fn unsent_ms(&self) -> u64 {
        self.unsent_ms.load(Ordering::Relaxed)
    }

    /// Gives the broker its limits.
    pub(crate) fn apply_to(&self, broker: &Broker) {
        broker.set_memory_limit(self.memory_bytes());
        broker.set_bodies_limit(self.bodies_bytes());
        broker.set_jobs_limit(self.jobs_bytes());
        broker.set_loads_limit(self.loads_bytes.load(Ordering::Relaxed));
        let job_count = self.job_count.load(Ordering::Relaxed);
        broker.set_job_count_limit((job_count < u64::MAX).then_some(job_count));
        broker.set_queue_limit(self.queues());
        let disk = *self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        broker.set_disk_limits(disk);
    }

    /// Limit of the memory of jobs, queues and connections together. `None` means no limit.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        let bytes = self.memory_bytes.load(Ordering::Relaxed);
        (bytes < u64::MAX).then_some(bytes)
    }

    /// Limit of the memory for bodies of durable jobs. `None` means no limit.
    pub(crate) fn bodies_bytes(&self) -> Option<u64> {
        let bytes = self.bodies_bytes.load(Ordering::Relaxed);
        (bytes < u64::MAX).then_some(bytes)
    }

    /// Limit of the memory for records of durable jobs. `None` means no limit.
    pub(crate) fn jobs_bytes(&self) -> Option<u64> {
        let bytes = self.jobs_bytes.load(Ordering::Relaxed);
        (bytes < u64::MAX).then_some(bytes)
    }

    /// Limit of queues. `None` means no limit.
    pub(crate) fn queues(&self) -> Option<usize> {
        let count = self.queues.load(Ordering::Relaxed);
        (count < usize::MAX).then_some(count)
    }

    /// Limit of unsent bytes for all slow readers together. If the other readers have as much to
    /// read, requests wait.
    pub(crate) fn unsent_total_bytes(&self) -> u64 {
        self.unsent_total_bytes.load(Ordering::Relaxed)
    }

    /// Limit of bytes of incomplete commands of all connections together.
    pub(crate) fn unfinished_bytes(&self) -> u64 {
        self.unfinished_bytes.load(Ordering::Relaxed)
    }

    /// Number of open connections.
    pub(crate) fn open(&self) -> usize {
        Protocol::ALL.into_iter().map(|protocol| self.open_of(protocol)).sum()
    }

    /// Number of open connections of one protocol. HTTP connections do not count.
    pub(crate) fn open_of(&self, protocol: Protocol) -> usize {
        self.open[protocol as usize].load(Ordering::Relaxed)
    }

    /// Limit of connections for HTTP. They do not count as open connections.
    pub(crate) fn web_connections(&self) -> usize {
        self.web_connections
    }

    pub(crate) fn is_full(&self) -> bool {
        self.open() >= self.connections()
    }

    /// Waits until there is room for a connection.
    pub(crate) async fn room(&self) {
        loop {
            // This comes before the check, so the loop misses no connection that ends later.
            let freed = self.freed();
            if !self.is_full() {
                return;
            }
            let _ = timeout(ROOM_PAUSE, freed).await;
        }
    }

    /// Completes when a connection ends after this call, even if that is before the first poll.
    pub(crate) fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }

    /// How long an incomplete request can wait for more bytes, in milliseconds.
    pub(crate) fn unfinished_ms(&self) -> u64 {
        self.unfinished_ms.load(Ordering::Relaxed)
    }

    /// Counts a new connection. Returns `None` if its address has too many connections. The caller
    /// checks the total limit before it accepts a connection. At that limit, clients wait in the
    /// accept queue.
    pub(crate) fn admit(self: &Arc<Self>, peer: Peer, protocol: Protocol) -> Option<Slot> {
        if let Some(address) = peer.counted_address() {
            let most = self.connections_per_address.load(Ordering::Relaxed);
            let mut addresses = self.addresses();
            let count = addresses.entry(address).or_default();
            // This return leaves no entry with count 0, because the count is at least `most` here.
            if most > 0 && *count >= most {
                self.refused.per_address.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            *count += 1;
        }
        self.open[protocol as usize].fetch_add(1, Ordering::Relaxed);
        Some(Slot { limits: self.clone(), peer, protocol })
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // A panic cannot leave the table half changed.
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Raises the soft limit of open descriptors to the hard limit, and returns it.
pub fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::config::Config;

    #[test]
    fn connections_leave_descriptors_for_the_log_and_all_threads() {
        let mut limits = Config::default().limits;
        let connections = |descriptors, io_threads, has_folder| {
            let own = own_descriptors(io_threads, 8, false, has_folder);
            LiveLimits::new(&Config::default().limits, descriptors, own).connections()
        };
        assert_eq!(connections(1024, 1, false), 1024 - 70 - 64);
        assert_eq!(connections(1024, 64, false), 1024 - 196 - 64);
        // The history of jobs can have 129 open files, and the sites 16.
        assert_eq!(connections(1024, 1, true), 1024 - 70 - 129 - 16 - 64);
        assert!(connections(216, 64, false) <= 20);
        assert_eq!(connections(100, 1, false), 15);
        assert_eq!(connections(20, 1, false), 1);
        let own = own_descriptors(1, 8, false, true);
        let usable = descriptors_in_cluster(1024, own);
        let clients = LiveLimits::new(&Config::default().limits, usable, own).connections();
        assert!(
            clients > 150 && 3 * clients + own + 64 + 64 + WAITING_LINKS_MAX <= 1024,
            "{clients}"
        );
        let live = Arc::new(LiveLimits::new(&limits, 1024, 128));
        limits.connections = Some(1);
        live.set(&limits);
        assert!(!live.is_full());
        let slot = live.admit(Peer::Local, Protocol::Gearman);
        assert!(live.is_full());
        drop(slot);
        assert!(!live.is_full());
    }

    #[test]
    fn an_address_has_no_more_connections_than_it_may() {
        let mut limits = Config::default().limits;
        let live = Arc::new(LiveLimits::new(&limits, 1024, 128));
        let peer = |host: &str| Peer::from(SocketAddr::new(host.parse().unwrap(), 7));
        let admit = |peer| live.admit(peer, Protocol::Beanstalk);
        let many: Vec<Slot> = (0..9).filter_map(|_| admit(peer("192.0.2.1"))).collect();
        assert_eq!((many.len(), live.open()), (9, 9), "without a limit all clients are accepted");
        limits.connections_per_address = Some(2);
        live.set(&limits);
        assert!(admit(peer("192.0.2.1")).is_none());
        drop(many);
        let first = admit(peer("192.0.2.1"));
        let _second = admit(peer("::ffff:192.0.2.1"));
        assert!(admit(peer("192.0.2.1")).is_none());
        let _others: Vec<Slot> =
            (0..5).filter_map(|_| live.admit(Peer::Local, Protocol::Gearman)).collect();
        assert!(admit(peer("192.0.2.2")).is_some());
        assert_eq!(live.open(), 7);
        assert_eq!(live.open_of(Protocol::Gearman), 5);
        drop(first);
        assert!(admit(peer("192.0.2.1")).is_some());
        assert_eq!(live.refused.per_address.load(Ordering::Relaxed), 2);
        assert_eq!(live.addresses().len(), 1, "only addresses with connections are kept");
    }

    #[test]
    fn a_network_of_ipv6_addresses_counts_as_one_address() {
        let mut limits = Config::default().limits;
        limits.connections_per_address = Some(2);
        let live = Arc::new(LiveLimits::new(&limits, 1024, 128));
        let admit = |host: &str| {
            let host = SocketAddr::new(host.parse().unwrap(), 7);
            live.admit(host.into(), Protocol::Beanstalk)
        };
        let first = admit("2001:db8:0:1::1");
        let _second = admit("2001:db8:0:1:ffff:ffff:ffff:ffff");
        assert!(admit("2001:db8:0:1:8000::3").is_none());
        let _other_network = admit("2001:db8:0:2::1").unwrap();
        drop(first);
        let _third = admit("2001:db8:0:1::3").unwrap();
        // Addresses of version 4 and the own machine have no network in common.
        let hosts = ["::ffff:192.0.2.1", "::ffff:192.0.2.2", "::ffff:198.51.100.1", "::1", "::2"];
        let hosts = [&hosts[..], &["fe80::1", "fe80::2", "fe80::3"]].concat();
        let slots: Vec<Slot> = hosts.iter().filter_map(|host| admit(host)).collect();
        assert_eq!(slots.len(), hosts.len());
    }

    #[test]
    fn one_whole_reply_may_always_wait() {
        let mut limits = Config::default().limits;
        limits.unsent_bytes = 0;
        limits.beanstalk_job_bytes = 1000;
        limits.gearman_packet_bytes = 2000;
        assert!(LiveLimits::new(&limits, 100, 10).unsent_bytes() >= 2000);
    }
}
