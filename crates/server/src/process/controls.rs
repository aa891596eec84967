//! What clients may ask of the process itself: Kestrel's can make it read its configuration anew, and
//! stop it.

use std::sync::Arc;
use std::time::Instant;

use broker::{Millis, SessionId, Turn};
use tokio::sync::Notify;

use crate::config::Config;
use crate::process::facts;
use crate::process::reload::{Asker, Reloader};

/// Does what clients ask for.
#[derive(Clone, Debug)]
pub(crate) struct Controls {
    pub(crate) reloader: Arc<Reloader>,
    /// Somebody wants the server to stop.
    pub(crate) stop: Arc<Notify>,
    /// How long commands take is measured from here, if anybody can ask for it.
    pub(crate) stopwatch: Option<Instant>,
}

impl Controls {
    /// What all Kestrel listeners have in common.
    pub(crate) fn kestrel_server(self, config: &Config, started: Millis) -> Arc<kestrel::Server> {
        kestrel::Server::new(facts::kestrel_options(config, started), Box::new(self))
    }
}

impl kestrel::Controls for Controls {
    fn reload(&self, session: SessionId, _turn: &mut Turn<'_>) {
        self.reloader.ask(Asker::Session(session));
    }

    fn shut_down(&self) {
        self.stop.notify_one();
    }

    fn stopwatch_us(&self) -> Option<u64> {
        self.stopwatch.map(|since| since.elapsed().as_micros() as u64)
    }
}
