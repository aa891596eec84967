//! A server of the thrift dialect in this process, on simulated time.

use std::sync::Arc;

use broker::{Options, SessionId, Settings, Turn};
use lineshaft_kestrel::{Controls, Server, ServerOptions, ThriftSession};
use testkit::dialect::world::World;

/// In these tests, clients do not reload or stop the server.
#[derive(Debug)]
struct NoControls;

impl Controls for NoControls {
    fn reload(&self, _session: SessionId, _turn: &mut Turn<'_>) {}

    fn shut_down(&self) {}
}

pub(crate) fn server(options: ServerOptions) -> Arc<Server> {
    Server::new(options, Box::new(NoControls))
}

/// The options of a broker whose log has room for many segments.
pub(crate) fn with_log() -> Options {
    let disk = Arc::new(log::FaultDisk::new(1, 1 << 30));
    Options::without_threads(disk, Settings::default())
}

/// Opens a connection.
pub(crate) fn connect(server: &Arc<Server>, world: &mut World) -> usize {
    world.connect_as(|turn, mailbox| {
        let session = ThriftSession::new(server.clone(), turn, mailbox);
        (session.id(), session)
    })
}
