//! Kestrel's side of the conversations that run in whole pieces and in fragments. The property test
//! and the fuzz targets share this file.

use testkit::dialect::fragments::{Stage, check};

use crate::world::{World, options};

/// The longest line. Beyond it the server keeps nothing for a client that does not wait.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Small, so that a test can send data that is too long.
const ITEM_BYTES_MAX: u32 = 300;

pub(crate) fn check_memcache(script: &[u8]) {
    check::<Memcache>(script);
}

pub(crate) fn check_text(script: &[u8]) {
    check::<Text>(script);
}

struct Memcache(World);

struct Text(World);

fn small_world() -> World {
    let options = lineshaft_kestrel::ServerOptions { item_bytes_max: ITEM_BYTES_MAX, ..options() };
    World::over(testkit::dialect::world::World::memory(), options)
}

/// The line, and the bytes of data or items that are collected so far.
fn held_bytes_max(world: &World, connection: usize, sent_bytes: usize) -> Option<usize> {
    let gathered_max = 2 * (ITEM_BYTES_MAX as usize + LINE_BYTES_MAX);
    (!world.waits(connection)).then(|| (2 * sent_bytes + 16).min(LINE_BYTES_MAX + gathered_max))
}

impl Stage for Memcache {
    const CLIENTS: usize = 3;

    fn new() -> Self {
        Self(small_world())
    }

    fn world(&mut self) -> &mut testkit::dialect::world::World {
        &mut self.0
    }

    fn connect(&mut self, _client: usize) -> usize {
        self.0.connect_memcache()
    }

    fn held_bytes_max(&mut self, connection: usize, sent_bytes: usize) -> Option<usize> {
        held_bytes_max(&self.0, connection, sent_bytes)
    }
}

impl Stage for Text {
    const CLIENTS: usize = 3;

    fn new() -> Self {
        Self(small_world())
    }

    fn world(&mut self) -> &mut testkit::dialect::world::World {
        &mut self.0
    }

    fn connect(&mut self, _client: usize) -> usize {
        self.0.connect_text()
    }

    fn held_bytes_max(&mut self, connection: usize, sent_bytes: usize) -> Option<usize> {
        held_bytes_max(&self.0, connection, sent_bytes)
    }
}
