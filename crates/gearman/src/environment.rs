//! State that all sessions of a server share: its options and its connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use broker::{GrabOrder, SessionId};

use crate::handle::Prefix;

/// Default of the longest packet, in bytes.
pub const PACKET_BYTES_MAX_DEFAULT: u32 = 64 << 20;

/// The facts that a server reports about itself, and its options.
///
/// Two more options belong to the engine. They limit how many sleeping workers a job wakes, and how
/// many attempts a job has. See [`broker::Turn::set_wake_max`] and
/// [`broker::Turn::set_attempts_max`].
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The id of the process.
    pub pid: u32,
    /// Version of the server, for the command `version`.
    pub version: String,
    /// Level of the server's messages, for the command `verbose`. It is one of FATAL, ALERT,
    /// CRITICAL, ERROR, WARNING, NOTICE, INFO, DEBUG.
    pub verbosity: String,
    /// Prefix of job handles. A handle consists of the prefix, `:` and the job's id. The prefix
    /// should not change at a restart. The server uses only its graphic ASCII characters, and at
    /// most 46 of them.
    pub handle_prefix: String,
    /// If true, a worker's functions take turns. Otherwise the worker first gets jobs of the
    /// function that it registered last.
    pub round_robin: bool,
    /// If true, all clients get `WORK_EXCEPTION`. Otherwise only clients that have requested it get
    /// it.
    pub exceptions: bool,
    /// Longest packet in bytes, including its header. A longer packet ends its connection.
    pub packet_bytes_max: u32,
}

impl ServerOptions {
    /// The defaults of the original, for a server on the machine `host`.
    pub fn for_host(host: &str) -> Self {
        Self {
            pid: 0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            verbosity: "ERROR".to_owned(),
            handle_prefix: format!("H:{host}"),
            round_robin: false,
            exceptions: false,
            packet_bytes_max: PACKET_BYTES_MAX_DEFAULT,
        }
    }
}

/// State that all Gearman sessions of a process share. All listeners of the protocol use one
/// `Server`.
#[derive(Debug)]
pub struct Server {
    pub(crate) options: ServerOptions,
    pub(crate) prefix: Prefix,
    /// Sessions use this only during a turn of the broker, and only one thread has a turn. So no
    /// thread ever waits for this lock.
    peers: Mutex<Peers>,
}

/// The open connections by number. The reply to `workers` shows this number. In the original, the
/// reply shows a file descriptor.
#[derive(Debug, Default)]
struct Peers {
    last_number: u64,
    by_number: BTreeMap<u64, Peer>,
}

/// The facts about a connection that `workers` shows.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) session: SessionId,
    /// The client's address.
    pub(crate) address: Box<str>,
    /// The name that the client chose for itself.
    pub(crate) client_id: Box<[u8]>,
}

impl Server {
    /// A server that has no connections yet.
    pub fn new(options: ServerOptions) -> Arc<Self> {
        let prefix = Prefix::new(&options.handle_prefix);
        Arc::new(Self { options, prefix, peers: Mutex::default() })
    }

    pub(crate) fn grab_order(&self) -> GrabOrder {
        if self.options.round_robin { GrabOrder::RoundRobin } else { GrabOrder::NewestFirst }
    }

    /// Adds a connection, and returns its number. The other functions identify the connection by
    /// this number.
    pub(crate) fn enter(&self, session: SessionId, address: &str) -> u64 {
        let mut peers = self.peers();
        peers.last_number += 1;
        let number = peers.last_number;
        let peer = Peer { session, address: address.into(), client_id: Box::from(&b"-"[..]) };
        peers.by_number.insert(number, peer);
        number
    }

    pub(crate) fn leave(&self, number: u64) {
        self.peers().by_number.remove(&number);
    }

    pub(crate) fn set_client_id(&self, number: u64, client_id: &[u8]) {
        if let Some(peer) = self.peers().by_number.get_mut(&number) {
            peer.client_id = client_id.into();
        }
    }

    /// The oldest open connection whose number is above `above`.
    pub(crate) fn next_connection(&self, above: u64) -> Option<(u64, Peer)> {
        let peers = self.peers();
        let mut newer = peers.by_number.range(above + 1..);
        newer.next().map(|(number, peer)| (*number, peer.clone()))
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().expect("no holder panics")
    }
}
