//! Notifies the service manager, if there is one: ready, stopping, alive. Without one, these calls
//! do nothing.

use std::time::Duration;

use sd_notify::NotifyState;

fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

/// The server is ready.
pub(crate) fn ready() {
    notify(NotifyState::Ready);
}

/// The server is stopping.
pub(crate) fn stopping() {
    notify(NotifyState::Stopping);
}

/// The server is alive. Must be called once per [`watchdog_period`].
pub(crate) fn alive() {
    notify(NotifyState::Watchdog);
}

/// The period of watchdog notifications, if there is a watchdog: a quarter of its timeout, so that
/// a thread can answer one period late.
pub(crate) fn watchdog_period() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|time| time / 4)
}
