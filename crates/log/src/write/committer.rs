//! The two threads of a log. The *committer* writes and syncs. The *helper* prepares and frees
//! segments. To prepare a segment, the helper fills a file with zeros, which takes long. A commit
//! waits for the helper only if it needs a segment that is not ready yet.

use std::mem::replace;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::background::{mark_as_background, mark_as_urgent};
use crate::log::{Log, OnProgress};
use crate::settings::{self, RETRY_FULL_MS};
use crate::write::fill::{FillRule, QUIET_LOOKS, Synced};

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
    mark_as_urgent();
    log.committer.register();
    let mut rule = FillRule::new(log.segments.one_processor);
    loop {
        let stopping = stop.load(Ordering::SeqCst);
        let begin = Instant::now();
        let Ok(done) = log.commit_step(clock()) else {
            // After a failure, the log writes nothing more. `fail` has already reported the failure
            // to the owner.
            return;
        };
        if stopping {
            return;
        }
        if done.synced && log.sync == settings::Sync::Always {
            let_group_fill(log, stop, &mut rule, (done.entries, begin.elapsed()));
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
/// only when the group is full, or when a reply needs only a write. Requests for a sync do not end
/// the fill, because it is short: a part of a sync, or a few syncs while the processor has work.
fn let_group_fill(
    log: &Log,
    stop: &AtomicBool,
    rule: &mut FillRule,
    (released, time): (u64, Duration),
) {
    let waiting = {
        let open = log.open_batch();
        // Behind a gate, the owner decides what is a group. So there is nothing to fill.
        if open.gate().is_some() {
            return;
        }
        open.waiting()
    };
    let Some(fill) = rule.next(Synced { released, waiting, time }) else { return };
    log.open_batch().full_at = fill.entries;
    let begin = Instant::now();
    let pays = match fill.look {
        None => {
            sleep_until_due(log, stop, begin, fill.time);
            true
        }
        Some(look) => fill_while_busy(log, stop, fill.time, look),
    };
    let time = begin.elapsed();
    let mut open = log.open_batch();
    let (waiting, is_full) = (open.waiting(), open.is_full());
    open.full_at = 0;
    drop(open);
    // If the fill was cut short, it says nothing about the clients.
    match fill.look {
        None if waiting >= fill.entries || time >= fill.time => rule.filled(waiting, time),
        Some(_) if !pays || is_full || time >= fill.time => rule.filled_while_busy(pays),
        None | Some(_) => {}
    }
}

/// Lets the group fill while the processor has work and entries come. Returns false if it was idle for the
/// time of a look, or if no entry came in [`QUIET_LOOKS`].
fn fill_while_busy(log: &Log, stop: &AtomicBool, time: Duration, look: Duration) -> bool {
    let (begin, worked_before) = (Instant::now(), processor_time());
    let (mut waiting, mut quiet_looks) = (log.open_batch().waiting(), 0);
    while begin.elapsed() < time {
        if !sleep_until_due(log, stop, Instant::now(), look) {
            return true;
        }
        let worked = processor_time().saturating_sub(worked_before);
        let idle = begin.elapsed().saturating_sub(worked);
        let waiting_before = replace(&mut waiting, log.open_batch().waiting());
        quiet_looks = if waiting == waiting_before { quiet_looks + 1 } else { 0 };
        if idle >= look || quiet_looks == QUIET_LOOKS {
            return false;
        }
    }
    true
}

/// Sleeps for a time. Returns false, and possibly earlier, if the committer must not let the group fill
/// any further.
fn sleep_until_due(log: &Log, stop: &AtomicBool, begin: Instant, time: Duration) -> bool {
    let left = || time.saturating_sub(begin.elapsed());
    while !log.must_write() && !left().is_zero() && !stop.load(Ordering::SeqCst) {
        log.committer.sleep(stop, || (!log.must_write()).then(left));
    }
    !log.must_write() && !stop.load(Ordering::SeqCst)
}

/// The processor time of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
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
