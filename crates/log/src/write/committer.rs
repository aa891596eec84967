//! The two threads of a log. The *committer* writes and syncs. The *helper* prepares and frees
//! segments. To prepare a segment, the helper fills a file with zeros, which takes long. A commit
//! waits for the helper only if it needs a segment that is not ready yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::log::{Log, OnProgress};
use crate::settings::RETRY_FULL_MS;

/// The time between two retries on a full disk.
const RETRY_FULL: Duration = Duration::from_millis(RETRY_FULL_MS);
/// The longest sleep of the committer. After this time, it reads the clock again, in case the clock
/// stood still.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// The caller's clock. It returns milliseconds of the log's time, and never goes back.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The running threads. They end when `stop` is called or when this value is dropped.
#[derive(Debug)]
pub struct Committer {
    log: Arc<Log>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Committer {
    /// Starts both threads. They call `on_progress` when `written`, `durable` or `failure` has
    /// changed. During the call, they hold no lock that an appender needs. `on_progress` must be
    /// quick.
    pub fn spawn(
        log: Arc<Log>,
        clock: Clock,
        on_progress: OnProgress,
    ) -> std::io::Result<Committer> {
        // A log has one committer. If the owner starts a second one, the log keeps the first
        // `on_progress`.
        let _ = log.on_progress.set(on_progress);
        log.segments.set_stopping(false);
        let stop = Arc::new(AtomicBool::new(false));
        let mut committer = Committer { log, stop, threads: Vec::new() };
        let (log, stop) = (Arc::clone(&committer.log), Arc::clone(&committer.stop));
        committer.threads.push(
            Builder::new()
                .name("log-commit".into())
                .spawn(move || commit_loop(&log, &stop, &clock))?,
        );
        let (log, stop) = (Arc::clone(&committer.log), Arc::clone(&committer.stop));
        committer.threads.push(
            Builder::new().name("log-prepare".into()).spawn(move || prepare_loop(&log, &stop))?,
        );
        Ok(committer)
    }

    /// Writes all waiting entries, and joins both threads. For a clean stop, call [`Log::close`]
    /// afterwards.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.log.segments.set_stopping(true);
        for sleeper in [&self.log.committer, &self.log.helper] {
            sleeper.wake_to_stop();
        }
        for thread in self.threads.drain(..) {
            // If the thread panicked, the panic hook has already reported the panic.
            let _ = thread.join();
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.end();
    }
}

fn commit_loop(log: &Log, stop: &AtomicBool, clock: &Clock) {
    log.committer.register();
    loop {
        let stopping = stop.load(Ordering::SeqCst);
        if log.commit_step(clock()).is_err() || stopping {
            // After a failure, the log writes nothing more. `fail` has already reported the failure
            // to the owner.
            return;
        }
        log.committer.sleep(stop, || {
            let now_ms = clock();
            let wait = log.next_step_ms().map_or(SLEEP_MAX, |due_ms| {
                Duration::from_millis(due_ms.saturating_sub(now_ms)).min(SLEEP_MAX)
            });
            Some(wait)
        });
    }
}

fn prepare_loop(log: &Log, stop: &AtomicBool) {
    log.helper.register();
    while !stop.load(Ordering::SeqCst) {
        if log.prepare_once().is_err() {
            return;
        }
        // Clients and the committer may wait for a segment. `prepare_once` may have made one ready.
        log.wake();
        log.progress();
        log.helper.sleep(stop, || match () {
            () if log.prepare_wanted() => None,
            () if log.prepare_later() => Some(RETRY_FULL),
            () => Some(Duration::MAX),
        });
    }
}
