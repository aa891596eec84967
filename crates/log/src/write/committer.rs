//! The threads of a log. The *committer* writes and syncs. The *second committer* helps it: see `second`.
//! The *helper* prepares and frees segments. To prepare a segment, the helper fills a file with zeros,
//! which takes long. A commit waits for the helper only if it needs a segment that is not ready yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::background::{mark_as_background, mark_as_urgent};
use crate::log::{Log, OnProgress};
use crate::settings::{self, RETRY_FULL_MS};
use crate::write::fill::{FillRule, Synced};
use crate::write::second::second_loop;

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
    /// Starts the threads. They call `on_progress` when `written`, `durable` or `failure` has
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
        let same_clock = Arc::clone(&clock);
        committer.add("log-commit", move |log, stop| commit_loop(log, stop, &clock))?;
        if committer.log.sync == settings::Sync::Always {
            // Now, so that the number of open files stays the same.
            committer.log.second_handle(&mut committer.log.lock_commit());
            committer.add("log-commit-2", move |log, stop| second_loop(log, stop, &same_clock))?;
        }
        committer.add("log-prepare", prepare_loop)?;
        Ok(committer)
    }

    fn add(
        &mut self,
        name: &str,
        run: impl FnOnce(&Log, &AtomicBool) + Send + 'static,
    ) -> std::io::Result<()> {
        let (log, stop) = (Arc::clone(&self.log), Arc::clone(&self.stop));
        self.threads.push(Builder::new().name(name.into()).spawn(move || run(&log, &stop))?);
        Ok(())
    }

    /// Writes all waiting entries, and joins the threads. For a clean stop, call [`Log::close`]
    /// afterwards.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.log.segments.set_stopping(true);
        let log = &self.log;
        for sleeper in [&log.committer, &log.second_committer, &log.helper] {
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
    mark_as_urgent();
    log.committer.register();
    let mut rule = FillRule::default();
    // With several processors, the rule needs no processor time, so do not ask the kernel for it.
    let worked = || if log.one_processor { processor_time() } else { Duration::ZERO };
    loop {
        let stopping = stop.load(Ordering::SeqCst);
        let (begin, worked_before) = (Instant::now(), worked());
        let Ok(done) = log.commit_step(clock()) else {
            // After a failure, the log writes nothing more. `fail` has already reported the failure
            // to the owner.
            return;
        };
        if stopping {
            return;
        }
        if done.synced && log.sync == settings::Sync::Always {
            let work = worked().saturating_sub(worked_before);
            let_group_fill(log, stop, &mut rule, (done.released, begin.elapsed(), work));
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

/// Lets the next group fill, if the rule says so. While the group fills, appends wake this thread
/// only when the group is full, or when a reply needs only a write. A fill can also end when the threads
/// that serve clients have no more work. Requests for a sync do not end it: it takes a few syncs at most.
fn let_group_fill(
    log: &Log,
    stop: &AtomicBool,
    rule: &mut FillRule,
    (released, time, work): (u64, Duration, Duration),
) {
    let waiting = {
        let open = log.open_batch();
        // Behind a gate, the owner decides what is a group. So there is nothing to fill.
        if open.gate().is_some() {
            return;
        }
        open.waiting()
    };
    let prefers_large = log.prefers_large_groups();
    let synced = Synced { released, waiting, time, work, prefers_large };
    let Some(fill) = rule.next(synced) else { return };
    log.begin_fill(fill);
    let begin = Instant::now();
    let left = || fill.time.saturating_sub(begin.elapsed());
    while !log.must_write() && !left().is_zero() && !stop.load(Ordering::SeqCst) {
        log.committer.sleep(stop, || (!log.must_write()).then(left));
    }
    let waiting = log.end_fill();
    // If the fill was cut short, it says nothing about the clients.
    if waiting >= fill.entries || left().is_zero() {
        rule.filled(waiting, begin.elapsed());
    }
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn prepare_loop(log: &Log, stop: &AtomicBool) {
    mark_as_background();
    log.helper.register();
    while !stop.load(Ordering::SeqCst) {
        if log.prepare_once(false).is_err() {
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
