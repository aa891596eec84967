//! The Gearman part of a check that sends a conversation in whole pieces and then again in
//! fragments. The property test and the fuzz target share this file.

use broker::NewJob;
use testkit::dialect::fragments::Stage;

use crate::world::{World, options, with_log};

/// The number of the client that speaks HTTP.
pub(crate) const HTTP_CLIENT: usize = 3;

/// The longest packet. It is short, so that a test can send packets that are too long. It is longer
/// than 8192 bytes, so that a packet can also be too long for the connection's input buffer.
const PACKET_BYTES_MAX: u32 = 10_000;

/// The number of jobs in [`FilledWorld`].
const JOBS_FILLED: u32 = 9;

pub(crate) fn check(script: &[u8]) {
    testkit::dialect::fragments::check::<World>(script);
}

/// The same check, but more clients speak HTTP.
pub(crate) fn check_http(script: &[u8]) {
    testkit::dialect::fragments::check::<HttpWorld>(script);
}

/// Plays a script with and without cold jobs. The functions also have jobs of another dialect.
pub(crate) fn check_cold(script: &[u8]) {
    testkit::dialect::fragments::check_cold::<FilledWorld>(script, with_log);
}

/// A world whose functions `f` and `g` have jobs of another dialect.
struct FilledWorld(World);

impl Stage for FilledWorld {
    const CLIENTS: usize = World::CLIENTS;

    fn new(world: testkit::dialect::world::World) -> Self {
        let mut world: World = Stage::new(world);
        let mut turn = world.broker.turn(world.now);
        let session = turn.open_session(0);
        for number in 0..JOBS_FILLED {
            let mut caller = turn.caller(session);
            caller.use_queue(if number % 3 == 0 { b"g" } else { b"f" });
            let body = format!("body {number}").into_bytes();
            let put = caller.put(NewJob::default(), body[..].into());
            put.value.expect("there is room");
        }
        turn.close_session(session);
        drop(turn);
        world.deliver_events();
        Self(world)
    }

    fn world(&mut self) -> &mut testkit::dialect::world::World {
        self.0.world()
    }

    fn connect(&mut self, client: usize) -> usize {
        Stage::connect(&mut self.0, client)
    }

    fn held_bytes_max(&mut self, connection: usize, sent_bytes: usize) -> Option<usize> {
        self.0.held_bytes_max(connection, sent_bytes)
    }
}

impl Stage for World {
    const CLIENTS: usize = 4;

    fn new(world: testkit::dialect::world::World) -> Self {
        let packet_bytes_max = PACKET_BYTES_MAX;
        Self::over(world, lineshaft_gearman::ServerOptions { packet_bytes_max, ..options() })
    }

    fn world(&mut self) -> &mut testkit::dialect::world::World {
        self
    }

    fn connect(&mut self, client: usize) -> usize {
        if client == HTTP_CLIENT { self.connect_http() } else { World::connect(self) }
    }

    fn held_bytes_max(&mut self, _connection: usize, sent_bytes: usize) -> Option<usize> {
        Some((PACKET_BYTES_MAX as usize).min(2 * sent_bytes))
    }
}

/// A world in which all clients except the last one speak HTTP. The last client is the worker.
struct HttpWorld(World);

impl Stage for HttpWorld {
    const CLIENTS: usize = 3;

    fn new(world: testkit::dialect::world::World) -> Self {
        Self(Stage::new(world))
    }

    fn world(&mut self) -> &mut testkit::dialect::world::World {
        &mut self.0
    }

    fn connect(&mut self, client: usize) -> usize {
        if client + 1 == Self::CLIENTS { self.0.connect() } else { self.0.connect_http() }
    }

    fn held_bytes_max(&mut self, connection: usize, sent_bytes: usize) -> Option<usize> {
        self.0.held_bytes_max(connection, sent_bytes)
    }
}
