//! What the service manager is told, if there is one: ready, stopping, alive. Everywhere else these
//! calls do nothing.

use std::time::Duration;

use sd_notify::NotifyState;

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot tell the service manager");
    }
}

/// Clients are served.
pub(crate) fn ready() {
    tell(NotifyState::Ready);
}

/// The stop has begun.
pub(crate) fn stopping() {
    tell(NotifyState::Stopping);
}

/// The server works. To be told once in each [`watchdog_period`].
pub(crate) fn alive() {
    tell(NotifyState::Watchdog);
}

/// How often the service manager wants to hear that the server works, if at all: a quarter of the
/// time after which it would restart it, so that a thread may answer one beat late.
pub(crate) fn watchdog_period() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|time| time / 4)
}
