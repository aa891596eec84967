//! A server that speaks Gearman's protocols. It runs in the thread of the test, on simulated time.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use broker::{Broker, Options, Settings};
use lineshaft_gearman::{HttpSession, Server, ServerOptions, Session};
use origin::{Gate, Reach};
use testkit::dialect::world;

/// A world whose connections speak Gearman's protocols.
pub(crate) struct World {
    world: world::World,
    server: Arc<Server>,
}

/// The options of a test's server.
pub(crate) fn options() -> ServerOptions {
    ServerOptions { pid: 4711, ..ServerOptions::for_host("vm") }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(options())
    }

    pub(crate) fn with(options: ServerOptions) -> Self {
        Self::over(world::World::memory(), options)
    }

    pub(crate) fn over(world: world::World, options: ServerOptions) -> Self {
        Self { world, server: Server::new(options) }
    }

    /// A server with short slices, so that a long reply takes many slices.
    pub(crate) fn with_slices(units: u32) -> Self {
        Self::over(world::World::with_slices(units), options())
    }

    /// A server whose log writes only when the test calls `commit`.
    pub(crate) fn over_unwritten(broker: Broker) -> Self {
        Self::over(world::World::over_unwritten(broker), options())
    }

    /// Opens a connection, and returns its number. The other functions identify the connection by
    /// this number.
    pub(crate) fn connect(&mut self) -> usize {
        connect(&self.server, &mut self.world)
    }

    /// Opens a connection of a client that speaks HTTP.
    pub(crate) fn connect_http(&mut self) -> usize {
        let server = self.server.clone();
        self.world.connect_as(|turn, mailbox| {
            let gate = Gate { names: Arc::default(), reach: Reach::Loopback };
            let session = HttpSession::new(server, gate, turn, mailbox);
            (session.id(), session)
        })
    }
}

/// The options of a broker whose log has room for many segments.
pub(crate) fn with_log() -> Options {
    let disk = Arc::new(log::FaultDisk::new(1, 1 << 30));
    Options::without_threads(disk, Settings::default())
}

/// Opens a connection to this server.
pub(crate) fn connect(server: &Arc<Server>, world: &mut world::World) -> usize {
    world.connect_as(|turn, mailbox| {
        let session = Session::new(server.clone(), "127.0.0.1", turn, mailbox);
        (session.id(), session)
    })
}

impl Deref for World {
    type Target = world::World;

    fn deref(&self) -> &world::World {
        &self.world
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut world::World {
        &mut self.world
    }
}
