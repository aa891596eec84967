//! The beanstalkd part of a check that sends a conversation in whole pieces and then again in
//! fragments. The property test and the fuzz target share this file.

use testkit::dialect::fragments::Stage;

use crate::world::{World, with_log};

/// Length of the longest command line. If a session does not wait, at most this many bytes of its
/// input stay unused.
const LINE_BYTES_MAX: usize = 224;

/// The largest body. It is small, so that a test can send a body that is too big.
const JOB_BYTES_MAX: u32 = 300;

pub(crate) fn check(script: &[u8]) {
    testkit::dialect::fragments::check::<World>(script);
}

/// Plays a script with and without cold jobs.
pub(crate) fn check_cold(script: &[u8]) {
    testkit::dialect::fragments::check_cold::<World>(script, with_log);
}

impl Stage for World {
    const CLIENTS: usize = 3;

    fn new(world: testkit::dialect::world::World) -> Self {
        Self::over(world, JOB_BYTES_MAX)
    }

    fn world(&mut self) -> &mut testkit::dialect::world::World {
        self
    }

    fn connect(&mut self, _client: usize) -> usize {
        World::connect(self)
    }

    fn held_bytes_max(&mut self, connection: usize, sent_bytes: usize) -> Option<usize> {
        let body_bytes_max = JOB_BYTES_MAX as usize + 2;
        let held_bytes_max = LINE_BYTES_MAX - 1 + 2 * sent_bytes.min(body_bytes_max);
        // While a command waits, the session uses no bytes. So the number of unused bytes has no
        // limit here.
        (!self.waits(connection)).then_some(held_bytes_max)
    }
}
