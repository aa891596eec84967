//! Which processes of followers live, so that the leader ends the links of one that is gone.
//!
//! The kernel ends a link without unacknowledged bytes a few seconds after the loss of the other
//! machine: see `keys.rs`. But it repeats unacknowledged bytes for a quarter of an hour, and does not
//! ask meanwhile. `TCP_USER_TIMEOUT` would be shorter. But it would also end a link whose client reads
//! nothing for that time. So the reports of the follower decide.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use replica::Incarnation;
use tokio::time::{Instant, sleep_until};

/// A process that is silent for this long is gone. A follower that lives reports twice a second, and
/// replaces a broken link within a few seconds.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The processes that were heard of lately.
#[derive(Debug)]
pub(super) struct Reporters {
    own: Incarnation,
    heard: Mutex<BTreeMap<Incarnation, Instant>>,
}

impl Reporters {
    /// For the process `own`.
    pub(super) fn new(own: Incarnation) -> Reporters {
        Reporters { own, heard: Mutex::default() }
    }

    fn heard(&self) -> MutexGuard<'_, BTreeMap<Incarnation, Instant>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process lives.
    pub(super) fn note(&self, process: Incarnation) {
        let mut heard = self.heard();
        heard.retain(|_, at| at.elapsed() < SILENCE_MAX);
        heard.insert(process, Instant::now());
    }

    /// Waits until the process is gone. `None`: an older version, which does not name its process.
    ///
    /// This process does not report to itself. But a request over HTTP that came to it before it began to
    /// lead can have a link from it to itself.
    pub(super) async fn gone(&self, process: Option<Incarnation>) {
        let Some(process) = process.filter(|it| *it != self.own) else { return pending().await };
        loop {
            let Some(at) = self.heard().get(&process).copied() else { return };
            let until = at + SILENCE_MAX;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_process_is_gone_when_it_reports_no_more() {
        let reporters = Reporters::new(6);
        let begun = Instant::now();
        let reporting = async {
            for _ in 0..60 {
                reporters.note(7);
                sleep(Duration::from_millis(500)).await;
            }
        };
        reporters.note(7);
        tokio::join!(reporters.gone(Some(7)), reporting);
        // The last report came after 59 pauses.
        let wanted = Duration::from_millis(29_500) + SILENCE_MAX;
        assert!(begun.elapsed() >= wanted && begun.elapsed() < wanted + Duration::from_secs(1));
        reporters.note(8);
        assert_eq!(reporters.heard().len(), 1, "what is gone needs no memory");
        timeout(Duration::ZERO, reporters.gone(Some(7))).await.expect("it stays gone");
        let old = timeout(10 * SILENCE_MAX, reporters.gone(None)).await;
        assert!(old.is_err(), "nobody knows whether an older process is gone");
        reporters.note(6);
        let own = timeout(10 * SILENCE_MAX, reporters.gone(Some(6))).await;
        assert!(own.is_err(), "a process that waits is not gone");
    }
}
