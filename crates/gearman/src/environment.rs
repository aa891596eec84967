//! What all sessions of a server share: its options, and who is connected.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use broker::{GrabOrder, SessionId};

use crate::handle::Prefix;

/// Longest packet in bytes unless the options say otherwise.
pub const PACKET_BYTES_MAX_DEFAULT: u32 = 64 << 20;

/// What a server tells of itself, and how it behaves.
///
/// How many sleepers one job wakes and how many attempts a job has are settings of the queue
/// engine: [`broker::Turn::set_wake_max`], [`broker::Turn::set_attempts_max`].
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Number of the process.
    pub pid: u32,
    /// Version of the server, as `version` tells it.
    pub version: String,
    /// How much the server logs, as `verbose` tells it: one of FATAL, ALERT, CRITICAL, ERROR,
    /// WARNING, NOTICE, INFO, DEBUG.
    pub verbosity: String,
    /// What handles of jobs begin with, before `:` and the number of the job. Should not change
    /// between restarts. Only graphic ASCII characters are used of it, at most 46.
    pub handle_prefix: String,
    /// A worker's functions take turns, instead of the newest always coming first.
    pub round_robin: bool,
    /// All connections get `WORK_EXCEPTION`, as if they had asked for it.
    pub exceptions: bool,
    /// Longest packet, header included, in bytes; a longer one ends its connection.
    pub packet_bytes_max: u32,
}

impl ServerOptions {
    /// The original's defaults, for a server on the machine `host`.
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

/// What all Gearman sessions of a process share, over all listeners.
#[derive(Debug)]
pub struct Server {
    pub(crate) options: ServerOptions,
    pub(crate) prefix: Prefix,
    /// Only touched by who holds a turn of the broker, so nobody ever waits for it.
    peers: Mutex<Peers>,
}

/// The open connections, by a number that `workers` shows where the original shows a descriptor.
#[derive(Debug, Default)]
struct Peers {
    last_number: u64,
    by_number: BTreeMap<u64, Peer>,
}

/// What `workers` shows of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) session: SessionId,
    /// Where it comes from.
    pub(crate) address: Box<str>,
    /// What it calls itself.
    pub(crate) client_id: Box<[u8]>,
}

impl Server {
    /// A server that has not seen a connection yet.
    pub fn new(options: ServerOptions) -> Arc<Self> {
        let prefix = Prefix::new(&options.handle_prefix);
        Arc::new(Self { options, prefix, peers: Mutex::default() })
    }

    pub(crate) fn grab_order(&self) -> GrabOrder {
        if self.options.round_robin { GrabOrder::RoundRobin } else { GrabOrder::NewestFirst }
    }

    /// Enters a connection; its number is for the other functions.
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

    /// The oldest open connection whose number is above this one.
    pub(crate) fn next_connection(&self, above: u64) -> Option<(u64, Peer)> {
        let peers = self.peers();
        let mut newer = peers.by_number.range(above + 1..);
        newer.next().map(|(number, peer)| (*number, peer.clone()))
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().expect("no holder panics")
    }
}
