//! Threads that work in steps, with pauses between them: reclaim, and the upkeep of index files and
//! cold jobs.

use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between checks for work, and after an error.
const PAUSE: Duration = Duration::from_millis(50);

/// How many times longer than a short copy the thread rests. With rests as long as the copies, one
/// request of a client can meet many of them, because they come in bursts. A quiet client then waited
/// a tenth longer.
const RESTS: u32 = 4;

/// A rest that is longer than the copy has this length at most. A copy that took milliseconds has
/// mostly waited: for the lock, the disk or a processor. It must not make reclaim many times slower.
const LONG_REST_MAX: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct StepThread {
    /// Dropped to stop the thread.
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

/// The result of one step.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// There is nothing to do now, or the step failed.
    Idle,
    /// The step did a slice of work. The thread now sleeps as long as the step took, so that other
    /// threads get the lock and the processor.
    Worked,
    /// The step copied a part of the log, and nothing is short. If the step was short, the thread now
    /// sleeps [`RESTS`] times as long as it took.
    Copied,
    /// The step did a slice of work, and space or memory is short. The thread sleeps for an eighth
    /// of the step's time only, because clients may wait for what the work frees. The kernel rounds
    /// short sleeps up. The thread must sleep: on a machine with few processors, the kernel lets a
    /// thread that was asleep run before one that never sleeps.
    WorkedInHaste,
}

impl StepThread {
    /// Starts the thread. It calls `step` until there is nothing to do, and again after a pause. It
    /// ends if `step` returns `None`. Each step takes the broker's lock for one slice only.
    pub(crate) fn spawn(
        name: &str,
        mut step: impl FnMut() -> Option<Step> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            log::mark_as_background();
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                while stopped.try_recv() == Err(TryRecvError::Empty) {
                    let began = Instant::now();
                    match step() {
                        None => return,
                        Some(Step::Idle) => break,
                        Some(Step::Worked) => std::thread::sleep(began.elapsed().min(PAUSE)),
                        Some(Step::Copied) => {
                            let took = began.elapsed().min(PAUSE);
                            std::thread::sleep((took * RESTS).min(LONG_REST_MAX).max(took));
                        }
                        Some(Step::WorkedInHaste) => {
                            std::thread::sleep((began.elapsed() / 8).min(PAUSE));
                        }
                    }
                }
            }
        })?;
        Ok(Self { stop, thread })
    }

    pub(crate) fn stop(self) {
        drop(self.stop);
        // A panic of the thread was already reported.
        let _ = self.thread.join();
    }
}
