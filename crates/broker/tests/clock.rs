//! Tests a wall clock that somebody set while the store was closed, or that is wrong when the store
//! is opened. The store's time must not stop, and must not jump. A job that is due at a wall-clock
//! time must be ready when the wall clock shows that time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use lineshaft_broker::embedded::{Store, Wait};
use lineshaft_broker::policy::{QueueSync, Rule, Rules, Setting};
use lineshaft_broker::{
    Broker, EngineSetup, JobId, Millis, Missing, NewJob, Options, Patience, Position, ReadMode,
    STOP_MS_MAX, Settings, State, Submit, Sync, Take, When,
};

const HOUR_MS: u64 = 3_600_000;

/// The right time of the wall clock, in 2026, and two wrong times, in 2106 and in 1970.
const WALL: Millis = Millis(1_780_000_000_000);
const FUTURE: Millis = Millis(4_300_000_000_000);
const PAST: Millis = Millis(60_000);

/// The time limit for an event. If the test passes, the event comes within milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Creates a log in this folder. The last time in this log is an hour from now.
fn leave_log_of_later(folder: &std::path::Path) {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after the epoch");
    let later = Millis(wall.as_millis() as u64 + HOUR_MS);
    let disk = Arc::new(log::PosixDisk::new(folder).expect("the folder can be used"));
    let options = Options::without_threads(disk, Settings::default());
    let broker = Broker::open(options, later).expect("the folder is empty").0;
    let mut turn = broker.turn(later);
    let session = turn.open_session(0);
    let _ = turn.caller(session).create_queue(b"q");
    drop(turn);
    broker.close(later).expect("the disk works");
}

/// Calls `act` with a store. The last time in the store's log is an hour after the wall clock.
/// Fails if `act` takes too long.
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
    is_done.recv_timeout(PATIENCE).expect("time continues");
}

#[test]
fn a_wait_ends_in_time_although_the_clock_was_set_back() {
    in_a_store_of_later(|store| {
        let wait = Duration::from_millis(20);
        let begun = Instant::now();
        let nothing = store.session().take(&["q"], Wait::For(wait)).expect("no failure");
        // The store's clock counts whole milliseconds. The first millisecond can be nearly over
        // when the wait begins, so the wait can be up to 1 ms shorter.
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
        bodies_bytes_max: None,
        on_progress: None,
        jobs_bytes_max: None,
        head_jobs: lineshaft_broker::HEAD_JOBS,
        cluster: None,
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
    let _ = turn
        .set_policies(Rules(vec![Rule::new(["q"], [Setting::Sync(Some(QueueSync::Every(50)))])]));
    let session = turn.open_session(0);
    turn.caller(session).use_queue(b"q");
    let put = turn.caller(session).put(NewJob::default(), b"x"[..].into()).after;
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

/// A server that the test starts repeatedly, each time with the current wall clock.
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

    /// How long no server ran, in whole seconds, as the broker computed it. Rounds the value,
    /// because the log's last mark is a little later than the last entry.
    fn stopped_s(&self) -> i64 {
        (self.broker().stopped_ms() + 500) / 1000
    }

    fn pass(&mut self, millis: u64) {
        self.now.0 += millis;
        while self.broker().turn(self.now).advance() {}
    }

    /// Puts a job that is due after this delay.
    fn put(&self, delay_s: u32) -> JobId {
        let mut turn = self.broker().turn(self.now);
        let session = turn.open_session(0);
        let job = NewJob { delay_s, ..NewJob::default() };
        turn.caller(session).put(job, b"x"[..].into()).value.expect("there is room")
    }

    /// Puts a job that is due when the wall clock shows this time.
    fn put_at(&self, wall: Millis) -> JobId {
        self.put_due(When::Wall(wall))
    }

    fn put_due(&self, due: When) -> JobId {
        let mut turn = self.broker().turn(self.now);
        let session = turn.open_session(0);
        let due = Some(due);
        let (unique, reducer) = (&b""[..], &b""[..]);
        let body = b"x"[..].into();
        let submit = Submit { priority: Some(1), due, unique, reducer, body, foreground: false };
        turn.caller(session).submit(b"q", submit).value.expect("there is room")
    }

    fn add(&self, queue: &[u8], expires: Option<When>) {
        let mut turn = self.broker().turn(self.now);
        let session = turn.open_session(0);
        let added = turn.caller(session).add(queue, b"x"[..].into(), expires);
        added.value.expect("there is room");
    }

    /// Adds an item that expires when the wall clock shows this time.
    fn add_until(&self, wall: Millis) {
        self.add(b"items", Some(When::Wall(wall)));
    }

    /// Adds an item that expires after this many milliseconds.
    fn add_for(&self, millis: u64) {
        self.add(b"timed", Some(When::At(Millis(self.now.0 + millis))));
    }

    /// Puts a job and takes it for this many seconds.
    fn take(&self, ttr_s: u32) -> JobId {
        let mut turn = self.broker().turn(self.now);
        let session = turn.open_session(0);
        turn.caller(session).use_queue(b"taken");
        let job = NewJob { ttr_s, ..NewJob::default() };
        let id = turn.caller(session).put(job, b"x"[..].into()).value.expect("there is room");
        turn.caller(session).take_job(id).value.expect("it is ready");
        id
    }

    /// Does the work of the log's threads.
    fn work(&self) {
        self.broker().commit_step(self.now).expect("the disk works");
        self.broker().prepare_step().expect("the disk works");
        while self.broker().reclaim_step(self.now).expect("the log is whole") {}
    }

    /// Takes an item and gives it back, so that the log gets another entry about the item.
    fn look_at_item(&self) {
        let mut turn = self.broker().turn(self.now);
        let session = turn.open_reader_session(0);
        let read =
            turn.caller(session).read(b"items", ReadMode::Open { limit_ms: None }, Patience::None);
        assert!(matches!(read.value, Ok(Take::Granted(_))), "{read:?}");
        turn.close_session(session);
    }

    fn items(&self, queue: &[u8]) -> u64 {
        self.broker().turn(self.now).item_stats(queue).map_or(0, |stats| stats.items)
    }

    /// Sets the wall clock while the server runs.
    fn set_wall(&self, wall: Millis) {
        self.broker().turn(self.now).set_wall(self.now, wall);
    }

    fn state(&self, id: JobId) -> Option<State> {
        let turn = self.broker().turn(self.now);
        Some(turn.job_status(id).value.ok()?.facts.state)
    }
}

#[test]
fn a_delay_continues_while_the_server_is_stopped() {
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
        let _ = server.broker().turn(server.now).set_policies(rules);
        let id = server.put(3600);
        server.add(b"aging", None);

        server.start(wrong);
        let stopped_ms = server.broker().stopped_ms();
        assert!(!(0..STOP_MS_MAX).contains(&stopped_ms), "this needs a warning");
        server.pass(0);
        assert_eq!((server.state(id), server.items(b"aging")), (Some(State::Delayed), 1));
        // A wall-clock time refers to the server's wall clock, even if that clock is wrong.
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
            assert_eq!((server.state(id), server.items(b"aging")), (Some(State::Delayed), 1));
            let soon = server.put_at(Millis(wall.0 + 10_000));
            server.pass(9_999);
            assert_eq!(server.state(soon), Some(State::Delayed));
            server.pass(1);
            assert_eq!(server.state(soon), Some(State::Ready));
        }
        server.start(Millis(WALL.0 + HOUR_MS + 1_800_000));
        assert_eq!((server.state(id), server.items(b"aging")), (Some(State::Ready), 1));
        server.pass(HOUR_MS);
        assert_eq!(server.items(b"aging"), 0);
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
        // The wall clock is right again. So the server again computes correctly how long no server
        // ran.
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
        log::repair(&server.disk, Arc::new(repaired.clone()), &|_| true).expect("the log is whole");
        repaired.restart();
        server.disk = repaired;
        server.start(Millis(WALL.0 + 1000 + HOUR_MS));
        assert_eq!(server.stopped_s(), 3600);
        assert_eq!(server.state(id), Some(State::Delayed));
        server.start(Millis(WALL.0 + 3 * HOUR_MS));
        assert_eq!(server.state(id), Some(State::Ready));
    }
}

/// Changes of the wall clock while the server runs: an hour forward, and an hour back.
fn steps() -> [i64; 2] {
    [HOUR_MS as i64, -(HOUR_MS as i64)]
}

#[test]
fn a_step_of_the_wall_clock_moves_its_times_and_nothing_else() {
    for step_ms in steps() {
        let mut server = Server::new();
        server.start(WALL);
        let shown = Millis(WALL.0 + 2 * HOUR_MS);
        let (delayed, given) = (server.put(2 * 3600), server.put_at(shown));
        server.add_until(shown);
        server.add_for(2 * HOUR_MS);
        let leased = server.take(7200);
        server.set_wall(Millis(WALL.0.saturating_add_signed(step_ms)));
        let after = server.put_at(shown);
        let left_ms = (2 * HOUR_MS).saturating_add_signed(-step_ms);
        let seen = |server: &Server| {
            let states = [delayed, leased, given, after].map(|id| server.state(id));
            (states, server.items(b"items"), server.items(b"timed"))
        };
        let (ready, still) = (Some(State::Ready), Some(State::Delayed));
        let held = Some(State::Leased);
        // What a client finds of jobs and items whose due time or end is a time of the wall clock.
        let by_wall = |is_over| if is_over { (ready, 0) } else { (still, 1) };
        // What a client finds of jobs and items whose due time or end is a time span after the
        // request.
        let by_time = |is_over| if is_over { (ready, ready, 0) } else { (still, held, 1) };
        let mut passed_ms = 0;
        for at_ms in [left_ms.min(2 * HOUR_MS), left_ms.max(2 * HOUR_MS)] {
            // An item expires after the end of its last millisecond.
            for at_ms in [at_ms - 1, at_ms + 1] {
                server.pass(at_ms - passed_ms);
                passed_ms = at_ms;
                let (given, items) = by_wall(passed_ms > left_ms);
                let (delayed, leased, timed) = by_time(passed_ms > 2 * HOUR_MS);
                assert_eq!(seen(&server), ([delayed, leased, given, given], items, timed));
            }
        }
    }
}

#[test]
fn after_a_restart_times_of_the_wall_clock_mean_what_it_shows_then() {
    for step_ms in steps() {
        for is_set_while_it_runs in [false, true] {
            let mut server = Server::new();
            server.start(WALL);
            let shown = Millis(WALL.0 + 2 * HOUR_MS);
            let (delayed, given) = (server.put(2 * 3600), server.put_at(shown));
            server.add_until(shown);
            if is_set_while_it_runs {
                server.set_wall(Millis(WALL.0.saturating_add_signed(step_ms)));
            }
            server.look_at_item();
            server.pass(1000);
            let wall = Millis((WALL.0 + 1000).saturating_add_signed(step_ms));
            for start in 0..3 {
                server.start(Millis(wall.0 + start * 1000));
                assert_eq!(server.items(b"items"), 1);
            }
            let left_ms = shown.0 - (wall.0 + 2000);
            server.pass(left_ms - 1);
            assert_eq!((server.state(given), server.items(b"items")), (Some(State::Delayed), 1));
            server.pass(2);
            assert_eq!((server.state(given), server.items(b"items")), (Some(State::Ready), 0));
            if is_set_while_it_runs {
                // Before each start, the server was stopped for a second, minus the delay of the
                // log's last mark.
                let is_over = left_ms + 4000 > 2 * HOUR_MS;
                let state = if is_over { State::Ready } else { State::Delayed };
                assert_eq!(server.state(delayed), Some(state));
            }
        }
    }
}

#[test]
fn reclaimed_jobs_keep_their_wall_clock_times() {
    let mut server = Server::new();
    server.start(WALL);
    let shown = Millis(WALL.0 + 2 * HOUR_MS);
    let given = server.put_at(shown);
    server.add_until(shown);
    let copied = |server: &Server| server.broker().turn(server.now).log_stats().records_copied;
    while copied(&server) < 2 {
        let id = server.put(0);
        let mut turn = server.broker().turn(server.now);
        let session = turn.open_session(0);
        turn.caller(session).finish(id).value.expect("no session holds it");
        drop(turn);
        server.work();
    }
    server.start(Millis(WALL.0 + HOUR_MS));
    server.start(WALL);
    server.pass(2 * HOUR_MS - 1);
    assert_eq!((server.state(given), server.items(b"items")), (Some(State::Delayed), 1));
    server.pass(2);
    assert_eq!((server.state(given), server.items(b"items")), (Some(State::Ready), 0));
}

#[test]
fn a_wall_clock_that_is_set_is_written_once_and_costs_memory_for_its_jobs_only() {
    let mut server = Server::new();
    server.start(WALL);
    let written = |server: &Server| server.broker().turn(server.now).log_stats().records_written;
    let before = written(&server);
    for second in 0..100 {
        server.pass(1000);
        // The server reads the wall clock up to 2 ms after the engine's clock.
        server.set_wall(Millis(WALL.0 + (second + 1) * 1000 + second % 3));
    }
    assert_eq!(written(&server), before);
    server.set_wall(Millis(server.now.0 + HOUR_MS));
    server.set_wall(Millis(server.now.0 + HOUR_MS));
    assert_eq!(written(&server), before + 1);

    let used = |server: &Server| server.broker().memory_usage().used_bytes;
    let taken_by = |id| {
        let with = used(&server);
        let mut turn = server.broker().turn(server.now);
        let session = turn.open_session(0);
        turn.caller(session).finish(id).value.expect("no session holds it");
        turn.close_session(session);
        drop(turn);
        with - used(&server)
    };
    let by_time = server.put_due(When::At(Millis(server.now.0 + HOUR_MS)));
    let by_time = taken_by(by_time);
    let by_wall = server.put_at(Millis(server.now.0 + 2 * HOUR_MS));
    assert!(taken_by(by_wall) > by_time);
}
