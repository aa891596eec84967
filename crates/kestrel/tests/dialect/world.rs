//! A server with Kestrel's memcache and text dialects, in this thread and on simulated time.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use broker::{Options, SessionId, Settings, Turn};
use lineshaft_kestrel::{Controls, MemcacheSession, Server, ServerOptions, TextSession};
use testkit::conformance::policies::rules;
use testkit::dialect::world;

/// A world whose connections speak memcache or text.
pub(crate) struct World {
    inner: world::World,
    server: Arc<Server>,
    /// How often a client requested that the server stops.
    shutdowns: Arc<AtomicU32>,
    /// How often a session's request for a reload was dropped.
    forgotten_reloads: Arc<AtomicU32>,
}

/// The actions that only the program around the sessions can execute. Here, a reload sets the
/// policies of the tests.
#[derive(Debug)]
struct TestControls {
    shutdowns: Arc<AtomicU32>,
    forgotten_reloads: Arc<AtomicU32>,
}

impl Controls for TestControls {
    fn reload(&self, session: SessionId, turn: &mut Turn<'_>) {
        let after = turn.set_policies(rules());
        turn.tell_reloaded(session, after);
    }

    fn forget_reload(&self, _session: SessionId) {
        self.forgotten_reloads.fetch_add(1, Ordering::Relaxed);
    }

    fn shut_down(&self) {
        self.shutdowns.fetch_add(1, Ordering::Relaxed);
    }
}

/// The options of a test's server.
pub(crate) fn options() -> ServerOptions {
    ServerOptions { started: world::START, ..ServerOptions::default() }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::over(world::World::memory(), options())
    }

    pub(crate) fn over(inner: world::World, options: ServerOptions) -> Self {
        let [shutdowns, forgotten_reloads] = [0, 0].map(|count| Arc::new(AtomicU32::new(count)));
        let controls = TestControls {
            shutdowns: shutdowns.clone(),
            forgotten_reloads: forgotten_reloads.clone(),
        };
        let server = Server::new(options, Box::new(controls));
        Self { inner, server, shutdowns, forgotten_reloads }
    }

    /// Opens a connection that speaks memcache, and returns its number. The other functions
    /// identify the connection by this number.
    pub(crate) fn connect_memcache(&mut self) -> usize {
        connect_memcache(&self.server, &mut self.inner)
    }

    /// Opens a connection that speaks text.
    pub(crate) fn connect_text(&mut self) -> usize {
        connect_text(&self.server, &mut self.inner)
    }

    /// Sends bytes on a new memcache connection. Returns the immediate reply.
    pub(crate) fn ask_once(&mut self, bytes: &str) -> String {
        let client = self.connect_memcache();
        self.say(client, bytes)
    }

    pub(crate) fn shutdowns(&self) -> u32 {
        self.shutdowns.load(Ordering::Relaxed)
    }

    pub(crate) fn forgotten_reloads(&self) -> u32 {
        self.forgotten_reloads.load(Ordering::Relaxed)
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the inner world and the server.
    pub(crate) fn into_parts(self) -> (world::World, Arc<Server>) {
        (self.inner, self.server)
    }
}

/// The options of a broker whose log has room for many segments.
pub(crate) fn with_log() -> Options {
    let disk = Arc::new(log::FaultDisk::new(1, 1 << 30));
    Options::without_threads(disk, Settings::default())
}

pub(crate) fn connect_memcache(server: &Arc<Server>, world: &mut world::World) -> usize {
    world.connect_as(|turn, mailbox| {
        let session = MemcacheSession::new(server.clone(), turn, mailbox);
        (session.id(), session)
    })
}

pub(crate) fn connect_text(server: &Arc<Server>, world: &mut world::World) -> usize {
    world.connect_as(|turn, mailbox| {
        let session = TextSession::new(server.clone(), turn, mailbox);
        (session.id(), session)
    })
}

impl Deref for World {
    type Target = world::World;

    fn deref(&self) -> &world::World {
        &self.inner
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut world::World {
        &mut self.inner
    }
}
