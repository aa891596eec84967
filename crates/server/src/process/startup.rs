//! The progress of a start: how much of the log the server has read. A long start reports its
//! progress to health checks, to the service manager, and to the operator.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use log::RecoveryProgress;
use notation::size;

use crate::config::MessageFormat;
use crate::process::systemd;

/// A start that is shorter than this reports nothing to the operator.
const SHORT: Duration = Duration::from_secs(1);
/// Time between two reports to the service manager, and on a terminal.
const PERIOD: Duration = Duration::from_millis(500);
/// Time between two messages, if there is no terminal.
const MESSAGE_PERIOD: Duration = Duration::from_secs(10);
/// The service manager waits at least this long for the next report. A start reports after each
/// segment, and a slow disk needs some time for the largest segment.
const PATIENCE: Duration = Duration::from_mins(2);

/// The progress of the start of this process.
#[derive(Debug)]
pub(crate) struct Startup {
    began: Instant,
    read_bytes: AtomicU64,
    total_bytes: AtomicU64,
    /// Whether the progress is drawn on the terminal of standard error.
    has_terminal: bool,
    reports: Mutex<Reports>,
}

#[derive(Debug, Default)]
struct Reports {
    reported_at: Option<Instant>,
    told_at: Option<Instant>,
    is_drawn: bool,
}

impl Startup {
    pub(crate) fn new(format: MessageFormat) -> Arc<Startup> {
        Arc::new(Startup {
            began: Instant::now(),
            read_bytes: AtomicU64::new(0),
            total_bytes: AtomicU64::new(0),
            has_terminal: format == MessageFormat::Human && io::stderr().is_terminal(),
            reports: Mutex::default(),
        })
    }

    /// Stores the progress, and reports it if it is time for a report.
    pub(crate) fn note(&self, progress: RecoveryProgress) {
        self.total_bytes.store(progress.total_bytes, Ordering::Relaxed);
        self.read_bytes.store(progress.read_bytes, Ordering::Relaxed);
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due =
            |last: Option<Instant>, period| last.is_none_or(|last| last.elapsed() >= period);
        if !is_due(reports.reported_at, PERIOD) {
            return;
        }
        reports.reported_at = Some(Instant::now());
        let state = self.state();
        systemd::starting(&state, PATIENCE);
        if self.began.elapsed() < SHORT {
            return;
        }
        if self.has_terminal {
            reports.is_drawn = true;
            draw(&state);
        } else if is_due(reports.told_at, MESSAGE_PERIOD) {
            reports.told_at = Some(Instant::now());
            tracing::info!("{state}");
        }
    }

    /// The progress of the start, as a text.
    pub(crate) fn state(&self) -> String {
        let total = self.total_bytes.load(Ordering::Relaxed);
        let read = self.read_bytes.load(Ordering::Relaxed);
        match (read * 100).checked_div(total) {
            None => "starting".to_owned(),
            // A start reads the log twice, so `total` is twice the size of the log.
            Some(percent) => {
                format!("starting: {percent} % of a log of {} is read", size::rounded(total / 2))
            }
        }
    }

    /// Ends the reports, and removes the progress from the terminal.
    pub(crate) fn end(&self) {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        if reports.reported_at.take().is_some() {
            systemd::started();
        }
        if std::mem::take(&mut reports.is_drawn) {
            draw("");
        }
    }
}

/// Replaces the terminal's current line by this text.
fn draw(text: &str) {
    // Ignore an error: the terminal may be gone, and the server does not need it.
    let _ = write!(io::stderr().lock(), "\r{text}\x1b[K");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_says_how_much_is_read() {
        let startup = Startup::new(MessageFormat::Json);
        assert_eq!(startup.state(), "starting");
        startup.note(RecoveryProgress { read_bytes: 3 << 29, total_bytes: 1 << 32 });
        assert_eq!(startup.state(), "starting: 37 % of a log of 2.0 GiB is read");
        startup.end();
    }
}
