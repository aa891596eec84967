//! The thread that keeps the log's files in bounds by copying what lives in the oldest ones.

use std::sync::Weak;
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::broker::{Clock, Shared};

/// How often the thread looks whether there is work, and how long it rests after an error.
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
                // One look may find much to do; each step takes the lock for one slice only.
                while shared.reclaim_wanted() && stopped.try_recv() == Err(TryRecvError::Empty) {
                    match shared.reclaim_step(clock()) {
                        Ok(true) => {}
                        Ok(false) => break,
                        // The owner is to be told. If a file cannot be read, memory has its jobs.
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
        // A panic of the thread was reported when it happened.
        let _ = self.thread.join();
    }
}
