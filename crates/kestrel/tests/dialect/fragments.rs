//! The Kestrel part of a check that sends a conversation in whole pieces and then again in
//! fragments. The property test and the fuzz targets share this file.

use testkit::dialect::fragments::{Stage, check, check_cold};

use crate::world::{World, options, with_log};

/// The longest line. If a client does not wait, at most the bytes of one line stay unused.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The largest item. It is small, so that a test can send larger items.
const ITEM_BYTES_MAX: u32 = 300;

pub(crate) fn check_memcache(script: &[u8]) {
    check::<Small<MEMCACHE>>(script);
}

pub(crate) fn check_text(script: &[u8]) {
    check::<Small<TEXT>>(script);
}

/// Plays a script with and without cold items.
pub(crate) fn check_cold_memcache(script: &[u8]) {
    check_cold::<Small<MEMCACHE>>(script, with_log);
}

pub(crate) fn check_cold_text(script: &[u8]) {
    check_cold::<Small<TEXT>>(script, with_log);
}

const MEMCACHE: bool = false;
const TEXT: bool = true;

/// A server with small limits, whose clients speak memcache or text.
struct Small<const SPEAKS_TEXT: bool>(World);

impl<const SPEAKS_TEXT: bool> Stage for Small<SPEAKS_TEXT> {
    const CLIENTS: usize = 3;

    fn new(world: testkit::dialect::world::World) -> Self {
        let options =
            lineshaft_kestrel::ServerOptions { item_bytes_max: ITEM_BYTES_MAX, ..options() };
        Self(World::over(world, options))
    }

    fn world(&mut self) -> &mut testkit::dialect::world::World {
        &mut self.0
    }

    fn connect(&mut self, _client: usize) -> usize {
        if SPEAKS_TEXT { self.0.connect_text() } else { self.0.connect_memcache() }
    }

    /// An incomplete line, the name or the error text of a request, the bytes of data or items that
    /// the session has collected after it, and its open reads, which are requests of some bytes
    /// each.
    fn held_bytes_max(&mut self, connection: usize, sent_bytes: usize) -> Option<usize> {
        let collected_max = 2 * (ITEM_BYTES_MAX as usize + LINE_BYTES_MAX);
        let open_bytes = sent_bytes / "get q\n".len() * 256;
        let waits = self.0.waits(connection);
        let request_max = 2 * LINE_BYTES_MAX;
        (!waits).then(|| (2 * sent_bytes + 64).min(request_max + collected_max) + open_bytes)
    }
}
