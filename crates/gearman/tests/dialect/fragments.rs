//! The Gearman part of a check that sends a conversation in whole pieces and then again in
//! fragments. The property test and the fuzz target share this file.

use testkit::dialect::fragments::Stage;

use crate::world::{World, options};

/// The number of the client that speaks HTTP.
pub(crate) const HTTP_CLIENT: usize = 3;

/// The longest packet. It is short, so that a test can send packets that are too long. It is longer
/// than 8192 bytes, so that a packet can also be too long for the connection's input buffer.
const PACKET_BYTES_MAX: u32 = 10_000;

pub(crate) fn check(script: &[u8]) {
    testkit::dialect::fragments::check::<World>(script);
}

/// The same check, but more clients speak HTTP.
pub(crate) fn check_http(script: &[u8]) {
    testkit::dialect::fragments::check::<HttpWorld>(script);
}

impl Stage for World {
    const CLIENTS: usize = 4;

    fn new() -> Self {
        Self::with(lineshaft_gearman::ServerOptions {
            packet_bytes_max: PACKET_BYTES_MAX,
            ..options()
        })
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

    fn new() -> Self {
        Self(Stage::new())
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
