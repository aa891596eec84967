//! The thrift part of a check that sends a conversation in whole pieces and then again in
//! fragments. The replies must be the same. The property test and the fuzz target share this file.

use std::sync::Arc;

use lineshaft_kestrel::{Server, ServerOptions};
use testkit::dialect::fragments::{Stage, check, check_cold};
use testkit::dialect::world::World;

use crate::world::{connect, server, with_log};
use testkit::conformance::policies::rules;

/// The longest call. It is short, so that a test can send longer calls.
const CALL_BYTES_MAX: u32 = 10_000;

/// This time is longer than any time that a client can request: 31 bits of milliseconds are less
/// than 25 days.
const MONTH_MS: u64 = 31 * 24 * 3_600_000;

struct Thrift {
    world: World,
    server: Arc<Server>,
}

/// Plays a script, as `testkit::dialect::fragments` describes it.
pub(crate) fn check_script(script: &[u8]) {
    check::<Thrift>(script);
}

/// Plays a script with and without cold items.
pub(crate) fn check_cold_script(script: &[u8]) {
    check_cold::<Thrift>(script, with_log);
}

impl Stage for Thrift {
    const CLIENTS: usize = 3;

    fn new(world: World) -> Self {
        let _ = world.broker.turn(world.now).set_policies(rules());
        let options = ServerOptions { item_bytes_max: CALL_BYTES_MAX, ..ServerOptions::default() };
        Self { world, server: server(options) }
    }

    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    fn connect(&mut self, _client: usize) -> usize {
        connect(&self.server, &mut self.world)
    }

    fn held_bytes_max(&mut self, connection: usize, sent_bytes: usize) -> Option<usize> {
        // While a call waits, the session uses no bytes. So the number of unused bytes has no limit
        // here. Each `get` of a few bytes can open 100 reads of a queue.
        let waits = self.world.waits(connection);
        let open_bytes = sent_bytes + sent_bytes / "get".len() * 2_000;
        (!waits).then_some((CALL_BYTES_MAX as usize).min(2 * sent_bytes) + open_bytes)
    }

    fn come_to_rest(&mut self) -> u64 {
        self.world.advance(MONTH_MS);
        // One session remains: the common holder of all open reads.
        1
    }
}
