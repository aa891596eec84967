//! A wall clock that was set while the queue was closed, or that is wrong at a start: time neither stands
//! still nor jumps, and times of the wall clock mean what it shows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use lineshaft_broker::embedded::{Store, Wait};
use lineshaft_broker::policy::{QueueSync, Rule, Rules, Setting};
use lineshaft_broker::{
    Broker, EngineSetup, JobId, Millis, Missing, NewJob, Options, Position, STOP_MS_MAX, Settings,
    State, Submit, Sync,
};

const HOUR_MS: u64 = 3_600_000;

/// The wall clock when it is right, in 2026, and when it is wrong, in 2106 and in 1970.
const WALL: Millis = Millis(1_780_000_000_000);
const FUTURE: Millis = Millis(4_300_000_000_000);
const PAST: Millis = Millis(60_000);

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
    assert!(broker.clock_step_ms() >= HOUR_MS as i64);
    let now = Millis(now.0 + broker.clock_step_ms() as u64);
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

/// A server that is started again and again, by the wall clock that it finds.
struct Server {
    disk: log::FaultDisk,
    broker: Option<Broker>,
    now: Millis,
}

impl Server {
    fn new() -> Self {
        Self { disk: log::FaultDisk::new(1, 64 << 20), broker: None, now: Millis(0) }
    }

    fn start(&mut self, wall: Millis) {
        self.stop();
        let options = Options::without_threads(Arc::new(self.disk.clone()), Settings::default());
        let broker = Broker::open(options, wall).expect("the log is whole").0;
        self.now = broker.last_time();
        self.broker = Some(broker);
    }

    fn stop(&mut self) {
        if let Some(broker) = self.broker.take() {
            broker.close(self.now).expect("the disk works");
            self.disk.restart();
        }
    }

    fn broker(&self) -> &Broker {
        self.broker.as_ref().expect("it was started")
    }

    /// For how long nobody served. The log's last mark is written a little later than the last entry.
    fn stopped_s(&self) -> i64 {
        (self.broker().stopped_ms() + 500) / 1000
    }

    fn pass(&mut self, millis: u64) {
        self.now.0 += millis;
        while self.broker().turn(self.now).advance() {}
    }

    /// A job that is due in so many seconds.
    fn put(&self, delay_s: u32) -> JobId {
        let mut turn = self.broker().turn(self.now);
        let session = turn.open_session(0);
        let job = NewJob { delay_s, ..NewJob::default() };
        turn.put(session, job, b"x"[..].into()).expect("there is room").0
    }

    /// A job that is due when the wall clock shows this.
    fn put_at(&self, wall: Millis) -> JobId {
        let mut turn = self.broker().turn(self.now);
        let session = turn.open_session(0);
        let due = Some(turn.at_wall(wall));
        let (unique, reducer) = (&b""[..], &b""[..]);
        let body = b"x"[..].into();
        let submit = Submit { priority: 1, due, unique, reducer, body, foreground: false };
        turn.submit(session, b"q", submit).expect("there is room").0
    }

    fn state(&self, id: JobId) -> Option<State> {
        let turn = self.broker().turn(self.now);
        Some(turn.job_status(id).ok()?.0.facts.state)
    }
}

#[test]
fn a_delay_goes_on_while_nobody_serves() {
    let mut server = Server::new();
    server.start(WALL);
    let (sooner, later) = (server.put(3600), server.put(3 * 3600));
    server.start(Millis(WALL.0 + 2 * HOUR_MS));
    assert_eq!(server.stopped_s(), 2 * 3600);
    assert_eq!(
        (server.state(sooner), server.state(later)),
        (Some(State::Ready), Some(State::Delayed))
    );
    server.pass(HOUR_MS);
    assert_eq!(server.state(later), Some(State::Ready));
}

#[test]
fn a_start_under_a_wrong_clock_moves_no_delay_and_the_next_one_is_right_again() {
    for wrong in [FUTURE, PAST] {
        let mut server = Server::new();
        server.start(WALL);
        let rules = Rules(vec![Rule::new(["aging"], [Setting::AgeMax(Some(2 * HOUR_MS))])]);
        server.broker().turn(server.now).set_policies(rules);
        let id = server.put(3600);
        server
            .broker()
            .turn(server.now)
            .add(b"aging", b"x"[..].into(), None)
            .expect("there is room");
        let items = |server: &Server| {
            let turn = server.broker().turn(server.now);
            turn.item_stats(b"aging").map(|stats| stats.items)
        };

        server.start(wrong);
        let stopped_ms = server.broker().stopped_ms();
        assert!(!(0..STOP_MS_MAX).contains(&stopped_ms), "somebody should be warned");
        server.pass(0);
        assert_eq!((server.state(id), items(&server)), (Some(State::Delayed), Some(1)));
        // The times of the wall clock are those of the clock that it has.
        let soon = server.put_at(Millis(wrong.0 + 10_000));
        server.pass(9_999);
        assert_eq!(server.state(soon), Some(State::Delayed));
        server.pass(1);
        assert_eq!(server.state(soon), Some(State::Ready));

        for start in 1..4 {
            let wall = Millis(WALL.0 + start * 600_000);
            server.start(wall);
            assert_eq!(server.broker().turn(server.now).wall_at(server.now), wall);
            server.pass(0);
            assert_eq!((server.state(id), items(&server)), (Some(State::Delayed), Some(1)));
            let soon = server.put_at(Millis(wall.0 + 10_000));
            server.pass(9_999);
            assert_eq!(server.state(soon), Some(State::Delayed));
            server.pass(1);
            assert_eq!(server.state(soon), Some(State::Ready));
        }
        server.start(Millis(WALL.0 + HOUR_MS + 1_800_000));
        assert_eq!((server.state(id), items(&server)), (Some(State::Ready), Some(1)));
        server.pass(HOUR_MS);
        assert_eq!(items(&server), Some(0));
    }
}

#[test]
fn a_log_that_was_begun_under_a_wrong_clock_is_right_from_the_next_start_on() {
    for wrong in [FUTURE, PAST] {
        let mut server = Server::new();
        server.start(wrong);
        let id = server.put(3 * 3600);
        server.start(WALL);
        assert_eq!(server.state(id), Some(State::Delayed));
        // How long nobody served is known again.
        server.start(Millis(WALL.0 + HOUR_MS));
        assert_eq!(server.stopped_s(), 3600);
        assert_eq!(server.state(id), Some(State::Delayed));
        server.start(Millis(WALL.0 + 3 * HOUR_MS));
        assert_eq!(server.state(id), Some(State::Ready));
    }
}

#[test]
fn a_repaired_log_has_the_time_of_the_old_one() {
    for wrong in [FUTURE, PAST] {
        let mut server = Server::new();
        server.start(wrong);
        let id = server.put(3 * 3600);
        server.start(WALL);
        server.pass(1000);
        server.stop();
        let repaired = log::FaultDisk::new(2, 64 << 20);
        log::repair(&server.disk, Arc::new(repaired.clone())).expect("the log is whole");
        repaired.restart();
        server.disk = repaired;
        server.start(Millis(WALL.0 + 1000 + HOUR_MS));
        assert_eq!(server.stopped_s(), 3600);
        assert_eq!(server.state(id), Some(State::Delayed));
        server.start(Millis(WALL.0 + 3 * HOUR_MS));
        assert_eq!(server.state(id), Some(State::Ready));
    }
}
