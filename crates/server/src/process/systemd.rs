//! Notifies the service manager that the server is ready, stopping or alive. Without a service
//! manager, these functions do nothing.

use std::time::Duration;

use sd_notify::NotifyState;

fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

/// Reports that the server is ready.
pub(crate) fn ready() {
    notify(NotifyState::Ready);
}

/// Reports that the server is stopping.
pub(crate) fn stopping() {
    notify(NotifyState::Stopping);
}

/// Reports that the server is alive. Must be called once per [`watchdog_period`].
pub(crate) fn alive() {
    notify(NotifyState::Watchdog);
}

/// Time between two notifications of the watchdog. `None` if there is no watchdog. The time is a
/// quarter of the watchdog's timeout, so that a thread can answer one period late.
pub(crate) fn watchdog_period() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|time| time / 4)
}
