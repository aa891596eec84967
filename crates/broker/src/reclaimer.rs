//! The reclaim thread. It copies live entries from the oldest segment to the end of the log. Then
//! the log can use the oldest segment again, so its size has a bound.

use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between checks for work, and after an error.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Reclaimer {
    /// Dropped to stop the thread.
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

/// The result of one step.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// There is nothing to do now, or the step failed.
    Idle,
    /// A slice was copied. The thread now sleeps as long as the step took, so that other threads
    /// get the lock and the processor.
    Copied,
    /// A slice was copied, and the log lacks space. The thread does not sleep, because clients wait
    /// for the space that reclaim frees.
    CopiedInHaste,
}

impl Reclaimer {
    /// Starts the thread. It calls `step` until there is nothing to do, and again after a pause. It
    /// ends if `step` returns `None`. Each step takes the broker's lock for one slice only.
    pub(crate) fn spawn(
        name: &str,
        mut step: impl FnMut() -> Option<Step> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                while stopped.try_recv() == Err(TryRecvError::Empty) {
                    let began = Instant::now();
                    match step() {
                        None => return,
                        Some(Step::Idle) => break,
                        Some(Step::Copied) => std::thread::sleep(began.elapsed().min(PAUSE)),
                        Some(Step::CopiedInHaste) => {}
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
