//! The thread that applies the leader's groups to the folder and the engine of a follower.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use broker::{ApplyError, Broker};
use replica::group::SealedGroup;
use replica::node::Input;
use tokio::sync::mpsc::UnboundedSender;

use crate::cluster::ClusterFailure;
use crate::cluster::node::Event;

/// Groups that wait here have at most this many bytes, plus one group.
const WAITING_BYTES_MAX: usize = 32 << 20;
/// Time before the next attempt, if the folder has no room now.
const RETRY: Duration = Duration::from_millis(100);

/// The handle of the thread. The thread ends when the handle is dropped.
#[derive(Debug)]
pub(super) struct Applier {
    groups: Sender<SealedGroup>,
    waiting_bytes: Arc<AtomicUsize>,
}

impl Applier {
    pub(super) fn spawn(
        broker: Broker,
        events: UnboundedSender<Event>,
    ) -> std::io::Result<Applier> {
        let (groups, received) = channel();
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let waiting = waiting_bytes.clone();
        let thread = std::thread::Builder::new().name("follow".to_owned());
        thread.spawn(move || run(&broker, &received, &waiting, &events))?;
        Ok(Applier { groups, waiting_bytes })
    }

    /// Whether the thread takes more groups.
    pub(super) fn has_room(&self) -> bool {
        self.waiting_bytes.load(Ordering::Relaxed) < WAITING_BYTES_MAX
    }

    /// Applies a group after all groups before it. An event follows.
    pub(super) fn apply(&self, group: SealedGroup) {
        self.waiting_bytes.fetch_add(group.body.len(), Ordering::Relaxed);
        // If the thread has ended, its last event says why.
        let _ = self.groups.send(group);
    }
}

fn run(
    broker: &Broker,
    groups: &Receiver<SealedGroup>,
    waiting_bytes: &AtomicUsize,
    events: &UnboundedSender<Event>,
) {
    for group in groups {
        let applied = apply(broker, &group);
        waiting_bytes.fetch_sub(group.body.len(), Ordering::Relaxed);
        let has_failed = applied.is_err();
        let event = match applied {
            Ok(()) => {
                let (number, next_id) = (group.number, broker.next_number());
                Event::Input(Input::Applied { number, next_id })
            }
            Err(error) => Event::Failed(error),
        };
        if events.send(event).is_err() || has_failed {
            return;
        }
    }
}

/// Applies one group. Waits while the folder has no room.
fn apply(broker: &Broker, group: &SealedGroup) -> Result<(), ClusterFailure> {
    let mut is_told = false;
    loop {
        match broker.apply(group) {
            Ok(_) => return Ok(()),
            Err(error @ (ApplyError::Full(_) | ApplyError::Unread(_))) => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!("this node falls behind: {error}");
                }
            }
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(RETRY);
    }
}
