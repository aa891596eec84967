//! The actions with which clients control the process. Kestrel's clients can reload the
//! configuration, and stop the server.

use std::sync::Arc;
use std::time::Instant;

use broker::{Millis, SessionId, Turn};
use tokio::sync::Notify;

use crate::config::Config;
use crate::process::facts;
use crate::process::reload::{ReloadRequester, Reloader};

/// Reloads and stops the process for clients.
#[derive(Clone, Debug)]
pub(crate) struct Controls {
    pub(crate) reloader: Arc<Reloader>,
    /// Notified when a client requests a stop.
    pub(crate) stop: Arc<Notify>,
    /// The instant from which latencies are measured. `None` if the server measures no latencies.
    pub(crate) stopwatch: Option<Instant>,
}

impl Controls {
    /// The state that all Kestrel listeners share.
    pub(crate) fn kestrel_server(self, config: &Config, started: Millis) -> Arc<kestrel::Server> {
        kestrel::Server::new(facts::kestrel_options(config, started), Box::new(self))
    }
}

impl kestrel::Controls for Controls {
    fn reload(&self, session: SessionId, _turn: &mut Turn<'_>) {
        self.reloader.request(ReloadRequester::Session(session));
    }

    fn forget_reload(&self, session: SessionId) {
        self.reloader.forget(session);
    }

    fn shut_down(&self) {
        self.stop.notify_one();
    }

    fn stopwatch_us(&self) -> Option<u64> {
        self.stopwatch.map(|since| since.elapsed().as_micros() as u64)
    }
}
