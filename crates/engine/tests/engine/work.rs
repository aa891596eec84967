//! Workers that register, take jobs and sleep, and jobs that clients submit.

use lineshaft_engine::policy::{QueueSync, Rule, Setting};
use lineshaft_engine::{
    Body, Clearing, Effects, Engine, GrabOrder, JobId, Millis, NewJob, News, NotFound, Patience,
    Record, Refused, ReturnOrder, SessionId, State, Submit, Take, When, WorkProgress, limits,
};

use crate::world::{SLICE_UNITS, World, grab, take_job};

const BACKGROUND: bool = false;
const FOREGROUND: bool = true;

fn body(bytes: &[u8]) -> Body {
    bytes.into()
}

impl World {
    fn worker(&mut self, queues: &[&str]) -> SessionId {
        let session = self.engine.open_session(0, ReturnOrder::ToTail);
        for queue in queues {
            self.act(|e, fx| e.register(session, queue.as_bytes(), None, fx));
        }
        session
    }

    fn try_submit(
        &mut self,
        client: SessionId,
        queue: &str,
        unique: &str,
        foreground: bool,
        priority: u32,
    ) -> Result<JobId, Refused> {
        let submit = Submit {
            priority: Some(priority),
            due: None,
            unique: unique.as_bytes(),
            reducer: b"",
            body: body(b"work"),
            foreground,
        };
        self.act(|e, fx| e.submit(client, queue.as_bytes(), submit, fx))
    }

    fn submit(&mut self, client: SessionId, queue: &str, foreground: bool) -> JobId {
        self.try_submit(client, queue, "", foreground, 1024).expect("no limit is set")
    }

    fn grab(&mut self, worker: SessionId) -> Option<JobId> {
        self.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx)).map(|handout| handout.id)
    }

    fn grab_all(&mut self, worker: SessionId, order: GrabOrder) -> Vec<JobId> {
        std::iter::from_fn(|| self.act(|e, fx| grab(e, worker, order, fx)).map(|job| job.id))
            .collect()
    }

    fn complete(&mut self, worker: SessionId, id: JobId, result: &[u8]) -> Result<(), NotFound> {
        let news = News::Complete(body(result));
        self.act(|e, fx| e.complete(worker, id, &news, fx))
    }

    fn sleep(&mut self, worker: SessionId) -> bool {
        self.act(|e, _| e.sleep(worker))
    }

    pub(crate) fn work_progress(&self, id: JobId) -> WorkProgress {
        self.engine.work_progress(self.engine.slot(id).expect("it is there"))
    }

    fn woken(&mut self) -> Vec<SessionId> {
        let events = self.events().into_iter();
        events.filter(|(_, what)| what == "work to do").map(|(who, _)| who).collect()
    }
}

#[test]
fn a_foreground_job_goes_to_a_worker_and_its_outcome_to_the_client() {
    let mut world = World::new();
    let client = world.open();
    let worker = world.worker(&["reverse"]);
    let id = world.submit(client, "reverse", FOREGROUND);
    assert_eq!(world.grab(worker), Some(id));
    let data = News::Data(body(b"half"));
    world.act(|e, fx| e.report(worker, id, &data, fx)).expect("held");
    world.act(|e, fx| e.progress(worker, id, (1, 2), &body(b"1 of 2"), fx)).expect("held");
    let work_progress = WorkProgress { running: true, numerator: 1, denominator: 2, watchers: 1 };
    assert_eq!(world.work_progress(id), work_progress);
    assert_eq!(world.complete(worker, id, b"krow"), Ok(()));
    let events: Vec<String> = world.events().into_iter().map(|(_, what)| what).collect();
    assert_eq!(events.len(), 3, "data, progress, the end: {events:?}");
    assert!(events[2].contains("Complete"));
    assert!(world.records().iter().all(|record| matches!(record, Record::QueueFacts(_))));
    assert_eq!(world.complete(worker, id, b""), Err(NotFound), "a job ends once");
}

#[test]
fn the_newest_registration_supplies_first_and_round_robin_takes_turns() {
    for (order, expected) in
        [(GrabOrder::NewestFirst, [5, 6, 3, 4, 1, 2]), (GrabOrder::RoundRobin, [5, 3, 1, 6, 4, 2])]
    {
        let mut world = World::new();
        let client = world.open();
        let worker = world.worker(&["a", "b", "c"]);
        for queue in ["a", "a", "b", "b", "c", "c"] {
            world.submit(client, queue, BACKGROUND);
        }
        assert_eq!(world.grab_all(worker, order), expected.map(JobId), "{order:?}");
    }
}

#[test]
fn a_worker_with_many_queues_finds_the_few_that_have_jobs() {
    let mut world = World::new();
    let client = world.open();
    let names: Vec<String> = (0..500).map(|n| format!("q{n}")).collect();
    let worker = world.worker(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let ids = [7, 400, 20].map(|n: usize| world.submit(client, &names[n], BACKGROUND));
    let grabbed = world.grab_all(worker, GrabOrder::NewestFirst);
    assert_eq!(grabbed, [ids[1], ids[2], ids[0]]);
    assert!(world.sleep(worker));
}

#[test]
fn a_sleeper_is_woken_once_by_a_job_that_stays_ready() {
    let mut world = World::new();
    let client = world.open();
    let worker = world.worker(&["q", "r"]);
    assert!(world.sleep(worker));
    world.submit(client, "other", BACKGROUND);
    assert!(world.woken().is_empty());
    world.submit(client, "q", BACKGROUND);
    world.submit(client, "r", BACKGROUND);
    assert_eq!(world.woken(), [worker], "one wake-up until it asks");
    assert!(!world.sleep(worker), "there is work");
    assert_eq!(world.grab_all(worker, GrabOrder::NewestFirst).len(), 2);
    assert!(world.sleep(worker));
    world.submit(client, "q", BACKGROUND);
    assert_eq!(world.woken(), [worker]);
}

#[test]
fn a_job_that_a_waiter_takes_wakes_no_sleeper() {
    let mut world = World::new();
    let client = world.open();
    let worker = world.worker(&["default"]);
    assert!(world.sleep(worker));
    let waiter = world.open();
    world.take(waiter, Patience::Endless);
    world.submit(client, "default", BACKGROUND);
    assert!(world.woken().is_empty());
    world.close(waiter);
    assert_eq!(world.woken(), [worker], "it came back, and no session waits");
}

#[test]
fn due_jobs_unpaused_queues_and_new_registrations_wake_sleepers() {
    let mut world = World::new();
    let client = world.open();
    let worker = world.worker(&["q"]);
    assert!(world.sleep(worker));
    let due = Some(When::At(Millis(world.engine.now().0 + 5000)));
    let submit = Submit {
        priority: Some(0),
        due,
        unique: b"",
        reducer: b"",
        body: body(b""),
        foreground: false,
    };
    world.act(|e, fx| e.submit(client, b"q", submit, fx)).expect("no limit is set");
    assert!(world.woken().is_empty());
    world.pass(5000);
    assert_eq!(world.woken(), [worker]);

    world.act(|e, fx| e.pause(b"q", 10, fx)).expect("it exists");
    assert!(world.sleep(worker), "a paused queue supplies nothing");
    world.pass(10_000);
    assert_eq!(world.woken(), [worker]);

    assert!(world.grab(worker).is_some());
    assert!(world.sleep(worker));
    world.submit(client, "new", BACKGROUND);
    world.act(|e, fx| e.register(worker, b"new", None, fx));
    assert_eq!(world.woken(), [worker]);
}

#[test]
fn a_job_that_has_not_expired_after_all_wakes_sleepers() {
    let mut world = World::new();
    let client = world.open();
    let worker = world.worker(&["q"]);
    world.act(|e, fx| e.pause(b"q", 1, fx)).expect("it exists");
    assert!(world.sleep(worker));
    for _ in 0..3 {
        world.submit(client, "q", BACKGROUND);
    }
    world.pass(500);
    // All jobs have expired. Each sweep ends only one of them.
    world.policies([Rule::new(["q"], [Setting::AgeMax(Some(10)), Setting::ExpireSweep(Some(1))])]);
    world.pass(1);
    world.act(|e, fx| e.pause(b"q", 0, fx)).expect("it exists");
    assert!(world.woken().is_empty(), "all have expired");
    world.policies([]);
    assert_eq!(world.woken(), [worker]);
    assert_eq!(world.grab_all(worker, GrabOrder::NewestFirst).len(), 2);
}

#[test]
fn one_job_wakes_no_more_workers_than_it_may() {
    let mut world = World::new();
    let client = world.open();
    let workers: Vec<SessionId> = (0..3).map(|_| world.worker(&["q"])).collect();
    world.engine.set_wake_max(1);
    for &worker in &workers {
        assert!(world.sleep(worker));
    }
    for &worker in &workers {
        world.submit(client, "q", BACKGROUND);
        assert_eq!(world.woken(), [worker]);
    }
}

#[test]
fn a_woken_worker_that_leaves_passes_the_wake_on() {
    let mut world = World::new();
    let client = world.open();
    let workers = [(); 4].map(|()| world.worker(&["q"]));
    world.engine.set_wake_max(1);
    for worker in workers {
        assert!(world.sleep(worker));
    }
    let id = world.submit(client, "q", BACKGROUND);
    assert_eq!(world.woken(), [workers[0]]);
    world.act(|engine, fx| engine.close_session(workers[0], fx));
    assert_eq!(world.woken(), [workers[1]], "the connection ended");
    world.act(|engine, fx| engine.unregister(workers[1], b"q", fx));
    assert_eq!(world.woken(), [workers[2]], "it forgot the queue");
    world.act(|engine, fx| engine.unregister_all(workers[2], fx));
    assert_eq!(world.woken(), [workers[3]], "it forgot all queues");
    assert_eq!(world.grab(workers[3]), Some(id));
}

#[test]
fn a_sleeper_that_leaves_wakes_no_other() {
    let mut world = World::new();
    let client = world.open();
    let workers = [(); 3].map(|()| world.worker(&["q"]));
    world.engine.set_wake_max(1);
    for worker in workers {
        assert!(world.sleep(worker));
    }
    world.submit(client, "q", BACKGROUND);
    assert_eq!(world.woken(), [workers[0]]);
    world.act(|engine, fx| engine.close_session(workers[1], fx));
    assert_eq!(world.woken(), []);
}

#[test]
fn a_woken_worker_that_takes_another_job_passes_the_wake_on() {
    let mut world = World::new();
    let client = world.open();
    // `busy` prefers jobs of `better`, because this is its newest registration.
    let busy = world.worker(&["q", "better"]);
    let idle = [(); 2].map(|()| world.worker(&["q"]));
    world.engine.set_wake_max(1);
    for worker in [busy, idle[0], idle[1]] {
        assert!(world.sleep(worker));
    }
    let id = world.submit(client, "q", BACKGROUND);
    assert_eq!(world.woken(), [busy]);
    let better = world.submit(client, "better", BACKGROUND);
    assert_eq!(world.woken(), [], "no other worker can do it");
    assert_eq!(world.grab(busy), Some(better));
    assert_eq!(world.woken(), [idle[0]], "it was woken for the other queue");
    assert_eq!(world.grab(idle[0]), Some(id));
    assert_eq!(world.woken(), [], "it took the job that it was woken for");
}

#[test]
fn a_wake_up_is_passed_on_once_and_for_a_job_that_is_there_only() {
    let mut world = World::new();
    let client = world.open();
    let busy = world.worker(&["q", "better"]);
    let awake = world.worker(&["q"]);
    let idle = [(); 2].map(|()| world.worker(&["q"]));
    world.engine.set_wake_max(1);
    for worker in [busy, idle[0], idle[1]] {
        assert!(world.sleep(worker));
    }
    let id = world.submit(client, "q", BACKGROUND);
    assert_eq!(world.woken(), [busy]);
    assert_eq!(world.grab(awake), Some(id), "another worker came first");
    assert_eq!(world.grab(busy), None);
    let id = world.submit(client, "q", BACKGROUND);
    assert_eq!(world.woken(), [idle[0]]);
    world.submit(client, "better", BACKGROUND);
    assert!(world.grab(busy).is_some(), "a job of the other queue");
    assert_eq!(world.woken(), [], "others know of the job that is left");
    assert_eq!(world.grab(idle[0]), Some(id));
}

#[test]
fn when_a_pause_ends_each_ready_job_wakes_a_worker() {
    let mut world = World::new();
    let client = world.open();
    let workers = [(); 3].map(|()| world.worker(&["q"]));
    world.engine.set_wake_max(1);
    world.act(|e, fx| e.pause(b"q", 1000, fx)).expect("it exists");
    for worker in workers {
        assert!(world.sleep(worker));
    }
    for _ in 0..2 {
        world.submit(client, "q", BACKGROUND);
    }
    assert_eq!(world.woken(), []);
    world.act(|e, fx| e.pause(b"q", 0, fx)).expect("it exists");
    assert_eq!(world.woken(), workers[..2]);
}

#[test]
fn a_timer_without_work_wakes_no_thread() {
    let mut world = World::new();
    world.policies([Rule::new(["q"], [Setting::JobsMax(Some(9))])]);
    let producer = world.open();
    world.act(|engine, fx| engine.use_queue(producer, b"q", fx));
    let delayed = world.put(producer, 0, 1, 60);
    let workers = [(); 2].map(|()| world.worker(&["q"]));
    world.engine.set_wake_max(1);
    for worker in workers {
        assert!(world.sleep(worker));
    }
    world.act(|engine, fx| engine.kick_job(delayed, fx)).expect("it is delayed");
    assert_eq!(world.woken(), [workers[0]]);
    // At this moment the job would have become due without the kick.
    world.pass(1000);
    assert_eq!(world.woken(), []);
}

#[test]
fn equal_keys_join_and_every_client_gets_the_end() {
    let mut world = World::new();
    let (first, second) = (world.open(), world.open());
    let worker = world.worker(&["q", "r"]);
    let submit = |world: &mut World, client, queue, key, foreground| {
        world.try_submit(client, queue, key, foreground, 1024).expect("no limit is set")
    };
    let id = submit(&mut world, first, "q", "k", FOREGROUND);
    assert_eq!(submit(&mut world, second, "q", "k", FOREGROUND), id);
    assert_eq!(submit(&mut world, second, "q", "k", FOREGROUND), id);
    assert_ne!(submit(&mut world, second, "r", "k", BACKGROUND), id, "keys are per queue");
    assert_eq!(world.engine.find_key(b"k"), Some(id));
    world.act(|e, fx| e.unregister(worker, b"r", fx));
    assert_eq!(world.grab(worker), Some(id));
    world.events();
    world.complete(worker, id, b"").expect("held");
    let events: Vec<SessionId> = world.events().into_iter().map(|(who, _)| who).collect();
    assert_eq!(events, [first, second, second]);
    assert_ne!(submit(&mut world, first, "q", "k", FOREGROUND), id, "the key is free again");

    let by_body = submit(&mut world, first, "q", "-", BACKGROUND);
    assert_eq!(submit(&mut world, first, "q", "-", BACKGROUND), by_body);
    assert_eq!(world.engine.find_key(b"-"), None);
}

#[test]
fn a_job_that_is_set_aside_has_no_key_until_it_is_back() {
    let mut world = World::new();
    let client = world.open();
    let submit = |world: &mut World| world.try_submit(client, "default", "k", BACKGROUND, 1024);
    let id = submit(&mut world).expect("no limit is set");
    let back: [fn(&mut World, JobId); 2] = [
        |world, id| {
            world.act(|e, fx| e.kick_job(id, fx)).expect("it is buried");
        },
        |world, id| {
            let other = world.open();
            world.act(|e, fx| take_job(e, other, id, fx)).expect("it is buried");
            world.close(other);
        },
    ];
    for back in back {
        assert_eq!(world.taken(client), id);
        assert!(world.bury(client, id));
        assert_eq!(world.engine.find_key(b"k"), None);
        let other = submit(&mut world).expect("no limit is set");
        assert_ne!(other, id, "it equals no other while it is set aside");
        back(&mut world, id);
        assert_eq!(submit(&mut world), Ok(id), "the older one is joined");
        assert_eq!(world.engine.find_key(b"k"), Some(id));
        assert!(world.finish(client, other));
        assert_eq!(submit(&mut world), Ok(id));
    }
}

#[test]
fn jobs_in_memory_only_are_counted() {
    let mut world = World::new();
    world.policies([Rule::new(["m"], [Setting::Sync(Some(QueueSync::Memory))])]);
    let client = world.open();
    let worker = world.worker(&["m", "q"]);
    let unlogged = |world: &World| world.engine.totals().unlogged;
    world.put(client, 0, 0, 0);
    world.submit(client, "q", BACKGROUND);
    assert_eq!(unlogged(&world), 0);
    let watched = world.try_submit(client, "q", "k", FOREGROUND, 1024).expect("no limit is set");
    world.act(|e, fx| e.use_queue(client, b"m", fx));
    let kept = world.put(client, 0, 0, 0);
    assert_eq!(unlogged(&world), 2);
    assert_eq!(world.try_submit(client, "q", "k", BACKGROUND, 1024), Ok(watched));
    assert_eq!(unlogged(&world), 1, "it is promised now");
    world.grab_all(worker, GrabOrder::NewestFirst);
    assert_eq!(unlogged(&world), 1, "it is not done yet");
    world.act(|e, fx| e.fail(worker, kept, &News::Fail, fx)).expect("it is held");
    assert_eq!((world.state(kept), unlogged(&world)), (Some(State::Buried), 0));
    world.act(|e, fx| e.kick_job(kept, fx)).expect("it is buried");
    assert_eq!(unlogged(&world), 1);
    assert!(world.finish(client, kept));
    assert_eq!(unlogged(&world), 0);
}

#[test]
fn a_client_attaches_to_one_job_only_so_often() {
    let mut world = World::new();
    let (client, other) = (world.open(), world.open());
    let submit = |world: &mut World, client, foreground| {
        world.try_submit(client, "q", "k", foreground, 1024)
    };
    let id = submit(&mut world, client, FOREGROUND).expect("a new job");
    for _ in 1..limits::ATTACHMENTS_MAX {
        assert_eq!(submit(&mut world, client, FOREGROUND), Ok(id));
    }
    assert_eq!(submit(&mut world, client, FOREGROUND), Err(Refused::QueueFull));
    assert_eq!(submit(&mut world, client, BACKGROUND), Ok(id), "no client gets more news for that");
    assert_eq!(submit(&mut world, other, FOREGROUND), Ok(id));
    let watchers = world.work_progress(id).watchers;
    assert_eq!(watchers, limits::ATTACHMENTS_MAX as usize + 1);
    world.act(|e, fx| e.cancel(id, fx)).expect("it waits");
    world.engine.send_more_news(&mut world.effects);
    assert_eq!(world.events().len(), watchers);
    assert!(submit(&mut world, client, FOREGROUND).is_ok());
}

#[test]
fn a_job_with_a_promise_outlives_its_clients_and_one_without_does_not() {
    let mut world = World::new();
    let worker = world.worker(&["q"]);
    let submit = |world: &mut World, client, foreground| {
        world.try_submit(client, "q", "k", foreground, 1024).expect("no limit is set")
    };
    // A foreground job ends when its client disconnects.
    let client = world.open();
    let id = submit(&mut world, client, FOREGROUND);
    world.close(client);
    assert_eq!(world.state(id), None);
    // A background submit and a foreground submit of the same job, in both orders.
    for order in [[BACKGROUND, FOREGROUND], [FOREGROUND, BACKGROUND]] {
        let client = world.open();
        world.records();
        let id = submit(&mut world, client, order[0]);
        assert_eq!(submit(&mut world, client, order[1]), id);
        let puts = world.records().into_iter().filter(|r| matches!(r, Record::Put(..))).count();
        assert_eq!(puts, 1, "it is put down when it is promised");
        world.close(client);
        assert_eq!(world.grab(worker), Some(id));
        assert_eq!(world.complete(worker, id, b""), Ok(()));
    }
    // The job is leased when its client disconnects. The worker keeps it, but the job gets no
    // second attempt.
    let client = world.open();
    let id = submit(&mut world, client, FOREGROUND);
    world.grab(worker);
    world.close(client);
    assert_eq!(world.state(id), Some(State::Leased));
    world.close(worker);
    assert_eq!(world.state(id), None);
}

#[test]
fn a_client_of_many_jobs_and_a_worker_that_cannot_do_them_leave_in_slices() {
    let mut world = World::new();
    let (client, other) = (world.open(), world.open());
    let worker = world.worker(&["q"]);
    let slice = u64::from(SLICE_UNITS);
    let jobs = 2 * slice + 1;
    let (engine, effects) = (&mut world.engine, &mut world.effects);
    for number in 0..jobs {
        let unique = number.to_string();
        let submit = Submit {
            priority: None,
            due: None,
            unique: unique.as_bytes(),
            reducer: b"",
            body: body(b"work"),
            foreground: true,
        };
        engine.submit(client, b"q", submit, effects).expect("no limit is set");
    }
    while grab(engine, worker, GrabOrder::NewestFirst, effects).is_some() {}
    world.act(|e, fx| e.unregister_all(worker, fx));
    let leased = |world: &World| world.engine.totals().leased;
    assert!((jobs - slice..jobs).contains(&leased(&world)), "{}", leased(&world));
    while world.act(Engine::advance) {}
    assert_eq!(leased(&world), 0);

    let joined = world.try_submit(other, "q", &(jobs - 1).to_string(), FOREGROUND, 1024);
    let joined = joined.expect("no limit is set");
    world.close(client);
    let ready = |world: &World| world.engine.totals().ready;
    assert!((jobs - slice..jobs).contains(&ready(&world)), "{}", ready(&world));
    assert!(world.act(Engine::advance));
    // `client` has disconnected, but is still a watcher of this job, because its removal continues
    // in later slices. The job can end before the next slice.
    world.events();
    world.act(|e, fx| e.cancel(joined, fx)).expect("it waits");
    assert_eq!(world.events().last(), Some(&(other, format!("{joined}: Fail"))));
    while world.act(Engine::advance) {}
    assert_eq!(ready(&world), 0);
}

#[test]
fn a_lost_worker_s_jobs_go_to_the_tail_the_newest_first() {
    let mut world = World::new();
    let client = world.open();
    let lost = world.worker(&["q"]);
    let ids: Vec<JobId> = (0..3).map(|_| world.submit(client, "q", BACKGROUND)).collect();
    assert_eq!([world.grab(lost), world.grab(lost)], [Some(ids[0]), Some(ids[1])]);
    world.close(lost);
    let worker = world.worker(&["q"]);
    let order = world.grab_all(worker, GrabOrder::NewestFirst);
    assert_eq!(order, [ids[2], ids[1], ids[0]]);
    let failures = world.engine.job_status(ids[0]).expect("it exists").facts.counters.failures;
    assert_eq!(failures, 1);
}

#[test]
fn a_worker_that_cannot_any_more_gives_back_what_it_holds_of_that_queue() {
    let mut world = World::new();
    let client = world.open();
    let worker = world.worker(&["q", "r"]);
    let q = world.submit(client, "q", BACKGROUND);
    let r = world.submit(client, "r", BACKGROUND);
    world.grab_all(worker, GrabOrder::NewestFirst);
    world.act(|e, fx| e.unregister(worker, b"q", fx));
    assert_eq!((world.state(q), world.state(r)), (Some(State::Ready), Some(State::Leased)));
    assert_eq!(world.complete(worker, q, b""), Err(NotFound));
    world.act(|e, fx| e.unregister_all(worker, fx));
    assert_eq!(world.state(r), Some(State::Ready));
    assert_eq!(world.grab(worker), None);
}

#[test]
fn a_limit_of_the_registration_takes_the_job_back() {
    let mut world = World::new();
    let client = world.open();
    let worker = world.worker(&[]);
    world.act(|e, fx| e.register(worker, b"q", Some(10), fx));
    let id = world.submit(client, "q", FOREGROUND);
    world.grab(worker);
    world.pass(999);
    world.act(|e, fx| e.progress(worker, id, (1, 2), &body(b""), fx)).expect("held");
    assert_eq!(world.state(id), Some(State::Leased), "a second at least");
    world.pass(1);
    assert_eq!(world.state(id), Some(State::Ready), "and progress does not extend it");
    assert_eq!(world.work_progress(id).denominator, 0);
}

#[test]
fn a_job_fails_when_it_has_had_its_attempts() {
    let mut world = World::new();
    let client = world.open();
    world.engine.set_attempts_max(2);
    let id = world.submit(client, "q", FOREGROUND);
    for _ in 0..2 {
        let worker = world.worker(&["q"]);
        assert_eq!(world.grab(worker), Some(id));
        world.close(worker);
    }
    assert_eq!(world.state(id), None);
    assert!(world.events().iter().any(|(who, what)| *who == client && what.contains("Fail")));
}

#[test]
fn limits_count_all_unfinished_jobs_but_hold_for_one_band() {
    let mut world = World::new();
    let client = world.open();
    let worker = world.worker(&["q"]);
    world.act(|e, fx| e.limit_queue(b"q", [3, 2, 1], fx)).expect("it exists");
    let submit =
        |world: &mut World, key, priority| world.try_submit(client, "q", key, BACKGROUND, priority);
    let first = submit(&mut world, "k", 1024).expect("the first");
    world.grab(worker);
    assert_eq!(submit(&mut world, "", u32::MAX), Err(Refused::QueueFull), "running ones count");
    submit(&mut world, "", 1024).expect("below the limit");
    assert_eq!(submit(&mut world, "", 1024), Err(Refused::QueueFull));
    assert_eq!(submit(&mut world, "k", 1024), Ok(first), "joining adds nothing");
    submit(&mut world, "", 0).expect("another limit");
    assert_eq!(submit(&mut world, "", 0), Err(Refused::QueueFull));
    let bands = world.engine.queue_stats(world.engine.queue_id(b"q").expect("kept")).bands;
    assert_eq!(bands, [1, 1, 0], "only what waits");
}

#[test]
fn a_dropped_queue_takes_its_jobs_with_it_except_leased_ones() {
    let mut world = World::new();
    let client = world.open();
    let worker = world.worker(&["q"]);
    let id = world.submit(client, "q", FOREGROUND);
    assert_eq!(world.act(|e, fx| e.drop_queue(client, b"q", fx)), Ok(None));
    world.act(|e, fx| e.unregister_all(worker, fx));
    world.events();
    assert_eq!(world.act(|e, fx| e.drop_queue(client, b"q", fx)), Ok(Some(Clearing::Done)));
    assert_eq!(world.events(), [(client, format!("{id}: Fail"))]);
    assert!(world.engine.queue_id(b"q").is_none());
    assert_eq!(world.act(|e, fx| e.drop_queue(client, b"q", fx)), Err(NotFound));
}

#[test]
fn jobs_that_a_worker_ends_count_as_finished_and_returned_ones_do_not() {
    let mut world = World::new();
    let (client, tube_user) = (world.open(), world.open());
    let worker = world.worker(&["default"]);
    let finishes = |world: &World| {
        world.engine.queue_stats(world.engine.queue_id(b"default").expect("it is used")).finishes
    };
    let id = world.submit(client, "default", FOREGROUND);
    assert_eq!(world.grab(worker), Some(id));
    world.complete(worker, id, b"").expect("held");
    assert_eq!(finishes(&world), 1);
    let id = world.submit(client, "default", FOREGROUND);
    assert_eq!(world.grab(worker), Some(id));
    world.act(|e, fx| e.fail(worker, id, &News::Fail, fx)).expect("held");
    assert_eq!(finishes(&world), 2);
    let id = world.put(tube_user, 5, 0, 60);
    assert_eq!(world.grab(worker), Some(id));
    world.act(|e, fx| e.fail(worker, id, &News::Fail, fx)).expect("held");
    assert_eq!(world.state(id), Some(State::Buried));
    assert_eq!(finishes(&world), 2);
}

#[test]
fn jobs_cross_between_dialects() {
    let mut world = World::new();
    let (client, tube_user) = (world.open(), world.open());
    let worker = world.worker(&["default"]);
    // A beanstalkd client puts the jobs, and a Gearman worker does them. A failed job is buried.
    let ids = [0, 1].map(|_| world.put(tube_user, 5, 0, 60));
    assert_eq!(world.grab(worker), Some(ids[0]));
    assert_eq!(world.complete(worker, ids[0], b"ignored"), Ok(()));
    assert_eq!(world.grab(worker), Some(ids[1]));
    world.pass(59_000);
    world.act(|e, fx| e.report(worker, ids[1], &News::Data(body(b"")), fx)).expect("held");
    world.pass(59_000);
    assert_eq!(world.state(ids[1]), Some(State::Leased), "news of the job extends its ttr");
    world.act(|e, fx| e.fail(worker, ids[1], &News::Fail, fx)).expect("held");
    assert_eq!(world.state(ids[1]), Some(State::Buried));
    // A client of Gearman submits a foreground job, and a worker of beanstalkd deletes or buries
    // it.
    world.act(|e, fx| e.unregister_all(worker, fx));
    for (deleted, outcome) in [(true, "Complete"), (false, "Fail")] {
        let id = world.submit(client, "default", FOREGROUND);
        assert!(matches!(world.take(tube_user, Patience::None), Take::Granted(_)));
        let done = if deleted { world.finish(tube_user, id) } else { world.bury(tube_user, id) };
        assert!(done);
        let events = world.events();
        assert!(events.iter().any(|(who, what)| *who == client && what.contains(outcome)));
        assert_eq!(world.state(id), None, "no reply promised that it lasts");
    }
}

#[test]
fn a_cancelled_job_is_gone_and_its_clients_know() {
    let mut world = World::new();
    let client = world.open();
    let worker = world.worker(&["q"]);
    let (queued, running) =
        (world.submit(client, "q", FOREGROUND), world.submit(client, "q", FOREGROUND));
    assert_eq!(world.grab(worker), Some(queued));
    for id in [queued, running] {
        world.events();
        world.act(|e, fx| e.cancel(id, fx)).expect("it exists");
        assert_eq!(world.events(), [(client, format!("{id}: Fail"))]);
    }
    assert_eq!(world.complete(worker, queued, b""), Err(NotFound));
    assert_eq!(world.grab(worker), None);
}

#[test]
fn a_worker_with_many_queues_leaves_at_once() {
    let mut world = World::new();
    // If the work for each queue were in proportion to the number of queues, this test would take
    // minutes.
    let queues: Vec<String> = (0..100_000).map(|number| format!("f{number}")).collect();
    let engine = &mut world.engine;
    let effects = &mut Effects::default();
    for ends_session in [false, true] {
        let worker = engine.open_session(0, ReturnOrder::ToTail);
        for queue in queues.iter().chain(&queues) {
            engine.register(worker, queue.as_bytes(), None, effects);
        }
        // A second registration replaces the first registration.
        assert_eq!(engine.registrations(worker).count(), queues.len());
        if ends_session {
            engine.close_session(worker, effects);
            while engine.advance(effects) {}
        } else {
            while engine.unregister_all(worker, effects) {}
        }
        assert_eq!(engine.registrations(worker).count(), 0);
    }
}

#[test]
fn to_register_again_comes_first_and_counts_once() {
    let mut world = World::new();
    let (engine, effects) = (&mut world.engine, &mut Effects::default());
    let client = engine.open_session(0, ReturnOrder::ToTail);
    let worker = engine.open_session(0, ReturnOrder::ToTail);
    for name in ["a", "b", "a"] {
        engine.register(worker, name.as_bytes(), None, effects);
    }
    for name in ["a", "b"] {
        let queue = engine.queue_id(name.as_bytes()).expect("it is registered for");
        assert_eq!(engine.queue_stats(queue).workers, 1, "{name}");
        engine.use_queue(client, name.as_bytes(), effects);
        engine.put(client, NewJob::default(), body(name.as_bytes()), effects).expect("no policy");
    }
    let mut grabbed = || {
        let handout = grab(engine, worker, GrabOrder::NewestFirst, effects);
        handout.map(|handout| handout.body.resident().expect("it is in memory").to_vec())
    };
    assert_eq!([grabbed(), grabbed()], [Some(b"a".to_vec()), Some(b"b".to_vec())]);
    engine.unregister(worker, b"a", effects);
    let queue = engine.queue_id(b"a").expect("its job is back");
    assert_eq!(engine.queue_stats(queue).workers, 0);
    engine.check_invariants();
}

#[test]
fn a_worker_whose_queues_all_have_jobs_does_not_look_at_all_of_them() {
    let (engine, effects) = (&mut World::new().engine, &mut Effects::default());
    let client = engine.open_session(0, ReturnOrder::ToTail);
    let worker = engine.open_session(0, ReturnOrder::ToTail);
    // If each grab searched all queues, this test would take minutes.
    let queues: Vec<String> = (0..20_000).map(|number| format!("f{number}")).collect();
    let last = queues.last().expect("there are some");
    for queue in queues.iter().chain(std::iter::repeat_n(last, queues.len())) {
        let submit = Submit {
            priority: None,
            due: None,
            unique: b"",
            reducer: b"",
            body: body(b""),
            foreground: false,
        };
        engine.submit(client, queue.as_bytes(), submit, effects).expect("no limit is set");
    }
    // The queue `none` has no jobs. So there are more registrations than queues with jobs.
    for queue in std::iter::once("none").chain(queues.iter().map(String::as_str)) {
        engine.register(worker, queue.as_bytes(), None, effects);
    }
    for _ in &queues {
        assert!(grab(engine, worker, GrabOrder::NewestFirst, effects).is_some());
    }
    for _ in &queues {
        assert!(grab(engine, worker, GrabOrder::RoundRobin, effects).is_some());
    }
    assert!(grab(engine, worker, GrabOrder::RoundRobin, effects).is_none());
}
