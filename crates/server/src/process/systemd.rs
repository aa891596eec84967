//! Notifies the service manager that the server is ready, stopping or alive. Without a service
//! manager, these functions do nothing.

use std::time::Duration;

use sd_notify::NotifyState;

fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

/// Reports the progress of a start. Requests that the service manager waits at least the time
/// `patience` for the next report.
pub(crate) fn starting(state: &str, patience: Duration) {
    let patience_us = u32::try_from(patience.as_micros()).unwrap_or(u32::MAX);
    notify(NotifyState::Status(state));
    notify(NotifyState::ExtendTimeoutUsec(patience_us));
}

/// Reports that the log is read. This replaces the last progress that `starting` reported.
pub(crate) fn started() {
    notify(NotifyState::Status("the log is read"));
}

/// Reports that the server is ready.
pub(crate) fn ready() {
    notify(NotifyState::Ready);
}

/// Reports that the server is stopping.
pub(crate) fn stopping() {
    notify(NotifyState::Stopping);
}

/// Reports that the server is alive. The caller must call this once per [`watchdog_period`].
pub(crate) fn alive() {
    notify(NotifyState::Watchdog);
}

/// Time between two notifications of the watchdog. `None` if there is no watchdog. The time is a
/// quarter of the watchdog's timeout. So a thread can answer one period late before the watchdog
/// ends the server.
pub(crate) fn watchdog_period() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|time| time / 4)
}
