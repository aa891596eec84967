//! What the threads that serve clients tell the log. With one processor, it makes larger groups where nobody
//! waits for them. The log makes a second sync where a quiet client would wait for two.

use crate::Broker;

impl Broker {
    /// See [`log::Log::begin_work`].
    pub fn begin_work(&self) {
        if let Some(log) = &self.shared.log {
            log.begin_work();
        }
    }

    /// See [`log::Log::end_work`].
    pub fn end_work(&self) {
        if let Some(log) = &self.shared.log {
            log.end_work();
        }
    }

    /// See [`log::Log::fills_until_idle`].
    pub fn fills_until_idle(&self) -> bool {
        self.shared.log.as_ref().is_some_and(|log| log.fills_until_idle())
    }

    /// See [`log::Log::note_quiet_clients`].
    pub fn note_quiet_clients(&self, has_quiet: bool) {
        if let Some(log) = &self.shared.log {
            log.note_quiet_clients(has_quiet);
        }
    }

    /// See [`log::Log::hurry`].
    pub fn hurry(&self) {
        if let Some(log) = &self.shared.log {
            log.hurry();
        }
    }
}
