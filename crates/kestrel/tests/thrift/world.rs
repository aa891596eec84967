//! A server of the thrift dialect in this process, on simulated time.

use std::sync::Arc;

use broker::policy::{Rule, Rules, Setting, WhenFull};
use broker::{SessionId, Turn};
use lineshaft_kestrel::{Controls, Server, ServerOptions, ThriftSession};
use testkit::dialect::world::World;

/// A test's server is never reloaded or stopped.
#[derive(Debug)]
struct NoControls;

impl Controls for NoControls {
    fn reload(&self, _session: SessionId, _turn: &mut Turn<'_>) {}

    fn shut_down(&self) {}
}

pub(crate) fn server(options: ServerOptions) -> Arc<Server> {
    Server::new(options, Box::new(NoControls))
}

/// Opens a connection.
pub(crate) fn connect(server: &Arc<Server>, world: &mut World) -> usize {
    world.connect_as(|turn, mailbox| {
        let session = ThriftSession::new(server.clone(), turn, mailbox);
        (session.id(), session)
    })
}

/// The policies that cases with the tag `testconfig` need.
pub(crate) fn rules() -> Rules {
    let names = |names: [&str; 2]| names.map(|name| Box::from(name.as_bytes())).into();
    Rules(vec![
        Rule::new(["kt_max1"], [Setting::JobsMax(Some(1))]),
        Rule::new(["kt_size510"], [Setting::BytesMax(Some(510))]),
        Rule::new(["kt_item128"], [Setting::ItemBytesMax(Some(128))]),
        Rule::new(
            ["kt_discard3"],
            [Setting::JobsMax(Some(3)), Setting::WhenFull(WhenFull::DropOldest)],
        ),
        Rule::new(["kt_fanonly"], [Setting::FanoutOnly(true)]),
        Rule::new(["kt_open2"], [Setting::OpenMax(2)]),
        Rule::new(["kt_alias"], [Setting::Alias(names(["kt_dest1", "kt_dest2"]))]),
    ])
}
