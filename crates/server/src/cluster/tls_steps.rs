//! The TLS handshakes of a follower's clients. They run on the thread of the links, and a step of one
//! can take a millisecond. So only a few take a step before the other tasks of the thread have their
//! turn: reports must not wait for hundreds of clients that come at once.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;

/// Steps before the other tasks have their turn.
const STEPS_MAX: usize = 4;

/// The places of steps.
pub(super) struct Steps(Semaphore);

/// Notes that a handshake can go on.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

impl Default for Steps {
    fn default() -> Steps {
        Steps(Semaphore::new(STEPS_MAX))
    }
}

impl Steps {
    /// Drives a handshake to its end. While it waits for its client, it needs no place: otherwise a
    /// few silent strangers would keep all clients waiting.
    pub(super) async fn drive<Handshake: Future>(&self, handshake: Handshake) -> Handshake::Output {
        let mut handshake = pin!(handshake);
        // A waker of its own: the one of the task also ends the waits below.
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        loop {
            let place = self.0.acquire().await.expect("nobody closes it");
            let step = handshake.as_mut().poll(&mut Context::from_waker(&waker));
            // With the place, so that the next handshake waits for the other tasks, too.
            yield_now().await;
            drop(place);
            match step {
                Poll::Ready(done) => return done,
                Poll::Pending => woken.0.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::task::JoinHandle;
    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test]
    async fn other_tasks_have_their_turn_between_a_few_steps_of_handshakes() {
        const HANDSHAKES: usize = 100;
        const STEPS: usize = 3;
        let (steps, taken) = (Arc::new(Steps::default()), Arc::new(AtomicUsize::new(0)));
        let begin = |_| {
            let (steps, taken) = (steps.clone(), taken.clone());
            tokio::spawn(async move {
                let handshake = async {
                    for _ in 0..STEPS {
                        taken.fetch_add(1, Ordering::Relaxed);
                        yield_now().await;
                    }
                };
                steps.drive(handshake).await;
            })
        };
        let handshakes: Vec<JoinHandle<()>> = (0..HANDSHAKES).map(begin).collect();
        let mut before = 0;
        while before < HANDSHAKES * STEPS {
            yield_now().await;
            let now = taken.load(Ordering::Relaxed);
            assert!(now - before <= STEPS_MAX, "{} steps in one turn", now - before);
            before = now;
        }
        for handshake in handshakes {
            handshake.await.expect("no panic");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_clients_keep_no_others_from_their_handshakes() {
        const ENOUGH: Duration = Duration::from_hours(1);
        let steps = Arc::new(Steps::default());
        let begin = |_| {
            let steps = steps.clone();
            tokio::spawn(async move { steps.drive(pending::<()>()).await })
        };
        let silent: Vec<JoinHandle<()>> = (0..3 * STEPS_MAX).map(begin).collect();
        // Time passes only when all of them wait.
        sleep(ENOUGH).await;
        let driven = timeout(ENOUGH, steps.drive(async { 7 })).await;
        assert_eq!(driven.expect("there is a place"), 7);
        for handshake in silent {
            handshake.abort();
        }
    }
}
