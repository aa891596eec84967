//! The thread that bounds the log's size by copying live entries out of the oldest files.

use std::sync::Weak;
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::broker::{Clock, Shared};

/// Time between checks for work, and after an error.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Reclaimer {
    /// Dropped to stop the thread.
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Reclaimer {
    pub(crate) fn spawn(shared: Weak<Shared>, clock: Clock) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new().name("reclaim".into()).spawn(move || {
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                let Some(shared) = shared.upgrade() else { return };
                // There may be much work; each step takes the lock for one slice only.
                while shared.reclaim_wanted() && stopped.try_recv() == Err(TryRecvError::Empty) {
                    let began = Instant::now();
                    match shared.reclaim_step(clock()) {
                        // On a full disk, clients wait for the space that this frees.
                        Ok(true) if shared.is_short() => {}
                        // Others get the lock, and the processor, for as long again.
                        Ok(true) => std::thread::sleep(began.elapsed().min(PAUSE)),
                        Ok(false) => break,
                        // The owner learns the error. If a file cannot be read, its jobs are still
                        // in memory.
                        Err(error) => {
                            shared.note_reclaim_error(error);
                            break;
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
