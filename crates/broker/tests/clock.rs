//! A wall clock that was set back while the queue was closed: the log's last time is ahead of it, and
//! time must not stand still until the clock has come there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use lineshaft_broker::embedded::{Store, Wait};
use lineshaft_broker::policy::{QueueSync, Rule, Rules, Setting};
use lineshaft_broker::{
    Broker, EngineSetup, Millis, Missing, NewJob, Options, Position, Settings, Sync,
};

const HOUR_MS: u64 = 3_600_000;

/// What is waited for comes within milliseconds, if at all.
const PATIENCE: Duration = Duration::from_secs(20);

/// Leaves a log in this folder whose last time is an hour from now.
fn leave_log_of_later(folder: &std::path::Path) {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after the epoch");
    let later = Millis(wall.as_millis() as u64 + HOUR_MS);
    let disk = Arc::new(log::PosixDisk::new(folder).expect("the folder can be used"));
    let options = Options::without_threads(disk, Settings::default());
    let broker = Broker::open(options, later).expect("the folder is empty").0;
    broker.turn(later).create_queue(b"q");
    broker.close(later).expect("the disk works");
}

/// Does this with a store whose clock is an hour behind its log; in time, or it fails.
fn in_a_store_of_later(act: impl FnOnce(&Store) + Send + 'static) {
    let folder = tempfile::tempdir().expect("there is room");
    leave_log_of_later(folder.path());
    let store = Store::open(folder.path()).expect("the log is whole");
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        act(&store);
        store.close().expect("the disk works");
        done.send(()).expect("the test waits for it");
    });
    is_done.recv_timeout(PATIENCE).expect("time goes on");
}

#[test]
fn a_wait_ends_in_time_although_the_clock_was_set_back() {
    in_a_store_of_later(|store| {
        let wait = Duration::from_millis(20);
        let begun = Instant::now();
        let nothing = store.session().take(&["q"], Wait::For(wait)).expect("no failure");
        // The store's clock counts whole milliseconds, and the first of them may be nearly over.
        let waited = begun.elapsed() + Duration::from_millis(1);
        assert!(nothing.is_none() && waited >= wait, "{waited:?}");
    });
}

#[test]
fn a_ttr_ends_in_time_although_the_clock_was_set_back() {
    in_a_store_of_later(|store| {
        let (mut holder, mut other) = (store.session(), store.session());
        let id = holder.put("q", NewJob { ttr_s: 1, ..NewJob::default() }, b"x").expect("room");
        holder.take(&["q"], Wait::No).expect("no failure").expect("it is ready");
        let job = other.take(&["q"], Wait::Forever).expect("no failure").expect("its ttr is over");
        assert_eq!(job.id, id);
    });
}

#[test]
fn a_sync_that_a_policy_asks_for_is_not_late_although_the_clock_was_set_back() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let options = |clock| Options {
        disk: Arc::new(disk.clone()),
        log: Settings { sync: Sync::Never, ..Settings::default() },
        engine: EngineSetup::default(),
        clock,
    };
    let last = Millis(1_000_000 + HOUR_MS);
    let broker = Broker::open(options(None), last).expect("the disk is empty").0;
    broker.close(last).expect("the disk works");
    drop(broker);
    disk.restart();

    let wall_ms = Arc::new(AtomicU64::new(1_000_000));
    let clock = {
        let wall_ms = wall_ms.clone();
        Arc::new(move || Millis(wall_ms.load(Ordering::SeqCst)))
    };
    let now = Millis(wall_ms.load(Ordering::SeqCst));
    let broker = Broker::open(options(Some(clock)), now).expect("the log is whole").0;
    assert!(broker.clock_ahead_ms() >= HOUR_MS);
    let now = Millis(now.0 + broker.clock_ahead_ms());
    let mut turn = broker.turn(now);
    turn.set_policies(Rules(vec![Rule::new(["q"], [Setting::Sync(Some(QueueSync::Every(50)))])]));
    let session = turn.open_session(0);
    turn.use_queue(session, b"q");
    let (_, put) = turn.put(session, NewJob::default(), b"x"[..].into()).expect("there is room");
    drop(turn);
    let Some(Missing::Written(at)) = put.missing(Position::NONE) else { panic!("{put:?}") };
    wall_ms.fetch_add(60, Ordering::SeqCst);
    let begun = Instant::now();
    while !broker.released().covers(Missing::Durable(at)) {
        assert!(begun.elapsed() < PATIENCE, "it is on stable storage after its 50 ms");
        std::thread::yield_now();
    }
    broker.close(now).expect("the disk works");
}
