//! The thread that applies the leader's groups to the folder and the engine of a follower.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use broker::{Applied, ApplyError, Broker};
use replica::group::SealedGroup;
use replica::node::Input;
use tokio::sync::mpsc::UnboundedSender;

use crate::cluster::ClusterFailure;
use crate::cluster::node::Event;

/// Groups that wait here have at most this many bytes, plus one group.
const WAITING_BYTES_MAX: usize = 32 << 20;
/// Time before the next attempt, if the folder has no room now.
const RETRY: Duration = Duration::from_millis(100);
/// Time before the first look whether the log has written enough. The next looks come later and later,
/// up to [`RETRY`].
const LOG_PAUSE: Duration = Duration::from_millis(1);
/// The longest rest after a group.
const REST_MAX: Duration = Duration::from_millis(100);

/// The handle of the thread. The thread ends when the handle is dropped.
#[derive(Debug)]
pub(super) struct Applier {
    groups: Sender<SealedGroup>,
    waiting: Arc<Waiting>,
}

/// The groups that are not applied yet.
#[derive(Debug, Default)]
struct Waiting {
    bytes: AtomicUsize,
    /// The time of each group, in milliseconds of log time.
    times_ms: Mutex<VecDeque<u64>>,
    /// See [`Applier::hurry`].
    hurries: AtomicBool,
}

impl Waiting {
    fn times_ms(&self) -> MutexGuard<'_, VecDeque<u64>> {
        self.times_ms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Applier {
    pub(super) fn spawn(
        broker: Broker,
        events: UnboundedSender<Event>,
    ) -> std::io::Result<Applier> {
        let (groups, received) = channel();
        let waiting = Arc::new(Waiting::default());
        let shared = waiting.clone();
        let thread = std::thread::Builder::new().name("follow".to_owned());
        thread.spawn(move || run(&broker, &received, &shared, &events))?;
        Ok(Applier { groups, waiting })
    }

    /// Whether the thread takes more groups.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.bytes.load(Ordering::Relaxed) < WAITING_BYTES_MAX
    }

    /// How long the first group that is not applied has been there, if the leader's time is `now_ms`. 0:
    /// all groups are applied that this node has read.
    ///
    /// The last group that it has read does not show how far it is behind: while the folder has no
    /// room, [`Applier::has_room`] is false, and the node reads nothing more.
    pub(super) fn lag_ms(&self, now_ms: u64) -> u64 {
        let first = self.waiting.times_ms().front().copied();
        first.map_or(0, |first_ms| now_ms.saturating_sub(first_ms))
    }

    /// Whether the thread must not rest from now on, because a claim may wait for it.
    pub(super) fn hurry(&self, hurries: bool) {
        self.waiting.hurries.store(hurries, Ordering::Relaxed);
    }

    /// Applies a group after all groups before it. An event follows.
    pub(super) fn apply(&self, group: SealedGroup) {
        self.waiting.bytes.fetch_add(group.body.len(), Ordering::Relaxed);
        self.waiting.times_ms().push_back(group.time_ms);
        // If the thread has ended, its last event says why.
        let _ = self.groups.send(group);
    }
}

fn run(
    broker: &Broker,
    groups: &Receiver<SealedGroup>,
    waiting: &Waiting,
    events: &UnboundedSender<Event>,
) {
    for group in groups {
        let applied = apply(broker, &group);
        waiting.bytes.fetch_sub(group.body.len(), Ordering::Relaxed);
        waiting.times_ms().pop_front();
        let has_failed = applied.is_err();
        let (event, rest) = match applied {
            Ok(rest) => {
                let (number, next_id) = (group.number, broker.next_number());
                (Event::Input(Input::Applied { number, next_id }), rest)
            }
            Err(error) => (Event::Failed(error), Duration::ZERO),
        };
        if events.send(event).is_err() || has_failed {
            return;
        }
        if !rest.is_zero() && !waiting.hurries.load(Ordering::Relaxed) {
            std::thread::sleep(rest);
        }
    }
}

/// Applies one group. Waits while the folder has no room, or the log writes too slowly: what waits for the
/// log is in memory. Returns how long the thread must rest: while the upkeep or reclaim is behind, each
/// group would need more memory, or more room on the disk. A leader slows its clients down for this.
fn apply(broker: &Broker, group: &SealedGroup) -> Result<Duration, ClusterFailure> {
    let mut pause = LOG_PAUSE;
    while broker.is_batch_full() {
        std::thread::sleep(pause);
        pause = (2 * pause).min(RETRY);
    }
    let mut is_told = false;
    loop {
        match broker.apply(group) {
            Ok(Applied { rests, turn_time, .. }) => return Ok((turn_time * rests).min(REST_MAX)),
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

#[cfg(test)]
mod tests {
    use broker::{Millis, NewJob, Options, Settings, Since};
    use log::FaultDisk;
    use replica::Lineage;
    use testkit::wait;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    const NOW: Millis = Millis(1_000_000);

    fn node(disk: &FaultDisk) -> Broker {
        let log = Settings { segment_bytes: 64 << 10, ..Settings::default() };
        let options = Options::without_threads(Arc::new(disk.clone()), log);
        let options = Options { cluster: Some(Lineage([7; 16])), ..options };
        Broker::open(options, NOW).expect("the disk is empty").0
    }

    fn commit(broker: &Broker) {
        broker.commit_step(NOW).expect("the disk works");
        broker.prepare_step().expect("the disk works");
    }

    /// The groups of a leader that puts a job with each of these bodies, one every second.
    fn groups(body_bytes: &[usize]) -> Vec<SealedGroup> {
        let leader = node(&FaultDisk::new(1, 64 << 20));
        let since = Since::Wall { now: NOW, record: Millis(0) };
        leader.lead(1, 1..1 << 22, since).expect("ids are left");
        let stream = leader.stream().expect("it is a node");
        let mut all = Vec::new();
        for (second, bytes) in (1..).zip(body_bytes) {
            let mut turn = leader.turn(Millis(NOW.0 + 1000 * second));
            let session = turn.open_session(0);
            let put = turn.caller(session).put(NewJob::default(), vec![7; *bytes].into());
            put.value.expect("there is room");
            drop(turn);
            while let Some(group) = stream.take_group() {
                leader.accept(group.number);
                all.push(group);
            }
            commit(&leader);
        }
        all
    }

    #[test]
    fn the_lag_of_a_follower_without_room_grows() {
        let all = groups(&[100, 600_000, 100]);
        let large = all.iter().find(|group| group.body.len() > 500_000).expect("it was put");
        let disk = FaultDisk::new(2, 512 << 10);
        let follower = node(&disk);
        let (events, _received) = unbounded_channel();
        let applier = Applier::spawn(follower.clone(), events).expect("a thread starts");
        assert_eq!(applier.lag_ms(NOW.0 + 60_000), 0, "it has read nothing");
        for group in &all {
            applier.apply(group.clone());
        }
        // Once the large group is the first one, it stays the first one.
        let waits = || applier.lag_ms(large.time_ms + 10_000) == 10_000;
        wait::until("the group has no room", waits);
        assert_eq!(applier.lag_ms(large.time_ms + 20_000), 20_000);
        disk.set_capacity(64 << 20);
        wait::until("all groups are applied", || {
            commit(&follower);
            applier.lag_ms(large.time_ms + 30_000) == 0
        });
    }

    #[test]
    fn groups_wait_while_the_log_has_enough_to_write() {
        let all = groups(&[1000; 200]);
        let follower = node(&FaultDisk::new(2, 64 << 20));
        let (events, _received) = unbounded_channel();
        let applier = Applier::spawn(follower.clone(), events).expect("a thread starts");
        for group in &all {
            applier.apply(group.clone());
        }
        let is_done = || applier.lag_ms(u64::MAX) == 0;
        // Nobody else writes the log.
        let mut commits = 0;
        while !is_done() {
            wait::until("the log has enough to write, or all", || {
                follower.prepare_step().expect("the disk works");
                follower.is_batch_full() || is_done()
            });
            commit(&follower);
            commits += 1;
        }
        // The open batch has room for a quarter of a segment, and one group: see `node`.
        assert!(commits >= 200 * 1000 / (20 << 10), "{commits} commits");
    }
}
