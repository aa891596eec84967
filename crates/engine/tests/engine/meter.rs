//! The work meter: the engine counts the work of expensive operations, and does them in slices.

use lineshaft_engine::limits::{self, INDIVISIBLE_UNITS_MAX};
use lineshaft_engine::policy::{Pattern, Rule, Rules, Setting};
use lineshaft_engine::{
    Body, Choice, Clearing, Effects, Engine, Event, GrabOrder, JobId, Kick, Millis, Need, NewJob,
    Patience, ReadMode, ReturnOrder, SessionId, State, Status, Submit, Take,
};

use crate::world::{SLICE_UNITS, START, World, grab, read};

mod news;
mod searches;

const SLICE: u64 = SLICE_UNITS as u64;

/// Maximum units of a request about one or two jobs.
const FEW: u64 = 20;

impl World {
    /// The units of work of a request, which gets its own slice.
    fn cost(&mut self, act: impl FnOnce(&mut Engine, &mut Effects)) -> u64 {
        let before = self.engine.work_done();
        self.engine.begin_slice();
        act(&mut self.engine, &mut self.effects);
        self.engine.work_done() - before
    }

    fn watch_many(&mut self, session: SessionId, count: u32) {
        for number in 0..count {
            self.engine.watch(session, format!("q{number}").as_bytes());
        }
    }

    fn put_many(&mut self, session: SessionId, queue: &[u8], count: usize, job: NewJob) {
        let (engine, effects) = (&mut self.engine, &mut self.effects);
        engine.use_queue(session, queue, effects);
        for _ in 0..count {
            engine.put(session, job, b"body"[..].into(), effects).expect("it is taken");
        }
    }
}

fn foreground(unique: &[u8]) -> Submit<'_> {
    let body = Body::from(&b"work"[..]);
    Submit { priority: None, due: None, unique, reducer: b"", body, foreground: true }
}

#[test]
fn a_worker_that_cannot_do_one_thing_does_not_pay_for_all_that_it_holds() {
    let mut world = World::new();
    let (client, worker) = (world.open(), world.engine.open_session(0, ReturnOrder::ToTail));
    world.put_many(client, b"f", 100_000, NewJob::default());
    world.put_many(client, b"g", 3, NewJob::default());
    world.engine.register(worker, b"f", None, &mut world.effects);
    let grab = |world: &mut World| {
        grab(&mut world.engine, worker, GrabOrder::NewestFirst, &mut world.effects)
    };
    while grab(&mut world).is_some() {}
    world.engine.register(worker, b"g", None, &mut world.effects);
    while grab(&mut world).is_some() {}
    let cost = world.cost(|engine, fx| engine.unregister(worker, b"default", fx));
    assert!(cost <= FEW, "{cost} for a queue that it is not registered for");
    let cost = world.cost(|engine, fx| engine.unregister(worker, b"g", fx));
    assert!(cost <= FEW, "{cost} for three jobs");
    assert_eq!(world.engine.totals().ready, 3);
    let cost = world.cost(|engine, fx| engine.unregister(worker, b"f", fx));
    assert!(cost <= SLICE + FEW, "{cost} for all the others");
    // Call the engine directly. `World` would check all invariants after each of hundreds of calls.
    while world.engine.advance(&mut world.effects) {}
    world.engine.check_invariants();
    assert_eq!(world.engine.totals().leased, 0);
}

#[test]
fn a_worker_keeps_jobs_of_a_queue_that_it_gave_up() {
    let mut world = World::new();
    let (client, worker) = (world.open(), world.engine.open_session(0, ReturnOrder::ToTail));
    world.put_many(client, b"f", 2 * SLICE as usize, NewJob::default());
    world.engine.register(worker, b"f", None, &mut world.effects);
    let grab = |world: &mut World| {
        grab(&mut world.engine, worker, GrabOrder::NewestFirst, &mut world.effects)
    };
    while grab(&mut world).is_some() {}
    world.act(|engine, fx| engine.unregister(worker, b"f", fx));
    assert!(world.engine.totals().ready > 0, "the first slice is done");
    world.act(|engine, fx| engine.register(worker, b"f", None, fx));
    assert!(grab(&mut world).is_some());
    while world.act(Engine::advance) {}
    assert_eq!(world.engine.totals().leased, 1);
}

#[test]
fn a_take_ends_a_slice_of_expired_jobs_over_all_queues_that_it_watches() {
    let mut world = World::new();
    world.policies([Rule::new(["q*"], [Setting::AgeMax(Some(10))])]);
    let (client, taker) = (world.open(), world.open());
    world.watch_many(taker, 20);
    for number in 0..20 {
        world.put_many(client, format!("q{number}").as_bytes(), 200, NewJob::default());
    }
    world.engine.set_time(Millis(START.0 + 11));
    let ends = world.engine.totals().ends;
    let cost = world.cost(|engine, fx| {
        assert!(matches!(
            engine.take(taker, Choice::Watched, Patience::None, fx),
            Take::Nothing(_)
        ));
    });
    let ended = world.engine.totals().ends - ends;
    assert!((1..=SLICE).contains(&ended) && cost <= SLICE + 2 * FEW, "{ended} jobs, {cost} units");
}

#[test]
fn every_kicked_job_counts_and_a_long_kick_goes_on_by_itself() {
    let mut world = World::new();
    let client = world.open();
    let delayed = NewJob { delay_s: 100, ..NewJob::default() };
    world.put_many(client, b"q", 3 * SLICE as usize, delayed);
    let cost = world.cost(|engine, fx| {
        assert_eq!(engine.kick(client, 100, fx), Kick::Done(100));
    });
    assert!((100..SLICE).contains(&cost), "{cost}");
    let cost = world.cost(|engine, fx| {
        assert_eq!(engine.kick(client, u64::MAX, fx), Kick::Waiting);
    });
    assert!((SLICE / 4..=SLICE + FEW).contains(&cost), "{cost}");
    while world.act(Engine::advance) {}
    assert_eq!(world.events(), [(client, format!("kicked {}", 3 * SLICE - 100))]);
}

#[test]
fn a_put_counts_each_queue_that_it_goes_to() {
    let mut world = World::new();
    for number in 0..256 {
        world.get(&format!("p+{number}"));
    }
    let cost = world.cost(|engine, fx| {
        engine.add(None, b"p", b"1"[..].into(), None, fx).expect("there is room");
    });
    assert!((257..=INDIVISIBLE_UNITS_MAX).contains(&cost), "{cost}");
}

#[test]
fn the_names_of_children_count_and_the_numbers_of_their_parent_are_cheap() {
    let mut world = World::new();
    for number in 0..256 {
        world.get(&format!("p+{number}"));
    }
    world.get("p");
    let parent = world.engine.queue_id(b"p").expect("it exists");
    let cost = world.cost(|engine, _| {
        let names = engine.children_of(parent).expect("it has children");
        assert_eq!((names.len(), names.is_sorted()), (256, true));
    });
    assert!((256..=256 + FEW).contains(&cost), "{cost}");
    let cost = world.cost(|engine, _| assert_eq!(engine.item_stats_of(parent).items, 0));
    assert!(cost <= FEW, "{cost}");
}

#[test]
fn a_put_to_many_queues_serves_their_waiters_in_slices() {
    const LINES: u32 = 2 * SLICE_UNITS;
    let mut world = World::new();
    for number in 0..256 {
        world.get(&format!("p+{number}"));
    }
    let mut waiters = Vec::new();
    for number in 0..10 {
        let waiter = world.open();
        world.watch_many(waiter, LINES);
        world.engine.watch(waiter, format!("p+{number}").as_bytes());
        let take =
            world.engine.take(waiter, Choice::Watched, Patience::Endless, &mut world.effects);
        assert!(matches!(take, Take::Waiting));
        waiters.push(waiter);
    }
    // A slice can end with one wait, and that wait leaves all its lines.
    let most = SLICE + u64::from(LINES) + FEW;
    let cost = world.cost(|engine, fx| {
        engine.add(None, b"p", b"1"[..].into(), None, fx).expect("there is room");
    });
    assert!(cost <= most, "{cost}");
    world.engine.check_invariants();
    assert_eq!(world.effects.events.len(), 1, "the slice is spent");
    // Another session does not overtake those who wait.
    for number in 0..10 {
        assert_eq!(world.get(&format!("p+{number}")), None);
    }
    world.engine.set_time(Millis(START.0 + limits::SERVING_REST_MS));
    let mut more = true;
    while more {
        let cost = world.cost(|engine, fx| more = engine.advance(fx));
        assert!(cost <= most, "{cost}");
        world.engine.check_invariants();
    }
    let mut served: Vec<_> = world.events().into_iter().map(|(session, _)| session).collect();
    served.sort_unstable();
    assert_eq!(served, waiters);
}

#[test]
fn a_large_body_counts_for_more_than_a_small_one() {
    let mut world = World::new();
    let client = world.open();
    let cost = world.cost(|engine, fx| {
        let body = Body::from(vec![0; 1 << 20]);
        engine.put(client, NewJob::default(), body, fx).expect("no policy asks for anything");
    });
    assert!(cost >= 256, "{cost}");
}

#[test]
fn a_submit_counts_a_body_that_is_its_key_also_if_it_joins() {
    let mut world = World::new();
    let client = world.open();
    let body = Body::from(vec![7; 1 << 20]);
    for (unique, new, joined) in [(&b"-"[..], 512, 256), (&b"key"[..], 256, 0)] {
        let submit = Submit { body: body.clone(), ..foreground(unique) };
        for least in [new, joined] {
            let cost = world.cost(|engine, fx| {
                engine.submit(client, b"f", submit.clone(), fx).expect("there is room");
            });
            assert!((least..=least + FEW).contains(&cost), "{cost}");
        }
    }
    assert_eq!(world.engine.totals().ready, 2);
}

#[test]
fn a_key_that_is_in_many_queues_is_looked_up_in_some() {
    let mut world = World::new();
    let client = world.open();
    for number in 0..20_000 {
        let name = format!("f{number}");
        let submitted =
            world.engine.submit(client, name.as_bytes(), foreground(b"key"), &mut world.effects);
        assert_eq!(submitted, Ok(JobId(number + 1)));
    }
    let cost = world.cost(|engine, _| assert_eq!(engine.find_key(b"key"), Some(JobId(1))));
    assert!((1..=limits::SAME_KEY_MAX as u64).contains(&cost), "{cost}");
}

#[test]
fn a_long_key_counts_as_often_as_a_redrive_hashes_it_for_a_letter() {
    const UNITS: u64 = 16;
    let mut world = World::new();
    let key = |text: &str| Some(text.parse().expect("it is a key"));
    let settings = [Setting::UniqueBy(key("prefix:1")), Setting::FairKey(key("prefix:2"))];
    world.policies([Rule::new(["mail"], settings)]);
    let client = world.open();
    world.put_many(client, b"mail", 1, NewJob::default());
    for (key, has_it) in [(&b"b"[..], true), (b"bo", true), (b"c", false)] {
        let cost = world.cost(|engine, _| {
            assert_eq!(engine.has_key(JobId(1), key, |_| true), has_it);
        });
        assert!(cost <= FEW, "{cost}");
    }
    let long = vec![b'b'; UNITS as usize * limits::UNIT_BODY_BYTES];
    let cost = world.cost(|engine, _| assert!(!engine.has_key(JobId(1), &long, |_| true)));
    assert!((2 * UNITS..=2 * UNITS + FEW).contains(&cost), "{cost}");
}

#[test]
fn the_end_of_a_wait_counts_every_line_that_it_leaves() {
    let mut world = World::new();
    let waiter = world.open();
    world.watch_many(waiter, 10_000);
    for _ in 0..2 {
        let cost = world.cost(|engine, fx| {
            assert!(matches!(
                engine.take(waiter, Choice::Watched, Patience::Endless, fx),
                Take::Waiting
            ));
        });
        assert!(cost >= 10_000, "{cost}: lined up in all of them");
        let cost = world.cost(|engine, _| assert!(engine.stop_waiting(waiter)));
        assert!(cost >= 10_000, "{cost}");
    }
}

#[test]
fn a_search_among_the_watched_queues_counts_even_if_it_finds_nothing() {
    let mut world = World::new();
    let session = world.open();
    world.watch_many(session, 10_000);
    let least = 10_000 / limits::UNIT_COMPARISONS as u64;
    for (name, is_watched) in [(&b"q9999"[..], true), (&b"other"[..], false)] {
        let cost = world.cost(|engine, _| assert_eq!(engine.watches(session, name), is_watched));
        assert!((least..=least + FEW).contains(&cost), "{cost}");
    }
}

#[test]
fn sessions_that_hold_and_watch_much_leave_in_slices() {
    let mut world = World::new();
    let (client, worker) = (world.open(), world.engine.open_session(0, ReturnOrder::ToTail));
    let holder = world.open();
    world.watch_many(holder, 5000);
    world.put_many(client, b"q7", 5000, NewJob::default());
    while let Take::Granted(_) =
        world.engine.take(holder, Choice::Watched, Patience::None, &mut world.effects)
    {}
    for number in 0..5000 {
        world.engine.register(worker, format!("f{number}").as_bytes(), None, &mut world.effects);
    }
    world.engine.watch(client, b"q7");
    for session in [holder, worker] {
        let cost = world.cost(|engine, fx| engine.close_session(session, fx));
        world.engine.check_invariants();
        assert!(cost <= SLICE + FEW, "{cost}");
    }
    let (mut slices, mut more) = (0, true);
    while more {
        let cost = world.cost(|engine, fx| more = engine.advance(fx));
        world.engine.check_invariants();
        assert!(cost <= 2 * (SLICE + FEW), "{cost}");
        slices += 1;
    }
    assert!(slices > 10, "{slices}");
    let totals = world.engine.totals();
    assert_eq!((totals.ready, totals.leased, totals.sessions), (5000, 0, 1));
    assert!(world.engine.queue_id(b"q8").is_none(), "no session watches it any more");
}

/// Makes this many workers of the queue `f`, which sleep.
fn sleepers(world: &mut World, count: u32) -> Vec<SessionId> {
    let mut workers = Vec::new();
    for _ in 0..count {
        let worker = world.engine.open_session(0, ReturnOrder::ToTail);
        world.engine.register(worker, b"f", None, &mut world.effects);
        assert!(world.engine.sleep(worker));
        workers.push(worker);
    }
    workers
}

/// Submits a job to the queue `f`, within a slice. Returns the workers that this wakes.
fn submit_and_wake(world: &mut World, client: SessionId) -> Vec<SessionId> {
    let cost = world.cost(|engine, fx| {
        engine.submit(client, b"f", foreground(b""), fx).expect("no limit is set");
    });
    assert!(cost <= SLICE + FEW, "{cost}");
    world.engine.check_invariants();
    woken(world)
}

fn woken(world: &mut World) -> Vec<SessionId> {
    let events = world.events().into_iter();
    events.filter(|(_, what)| what == "work to do").map(|(who, _)| who).collect()
}

#[test]
fn a_job_wakes_many_workers_in_slices() {
    for wake_max in [0, 3 * SLICE_UNITS] {
        let mut world = World::new();
        let client = world.open();
        let workers = sleepers(&mut world, 3 * SLICE_UNITS);
        world.engine.set_wake_max(wake_max);
        let mut all = submit_and_wake(&mut world, client);
        while all.len() < workers.len() {
            let now = Millis(world.engine.now().0 + limits::SERVING_REST_MS);
            world.engine.set_time(now);
            slices_until_idle(&mut world);
            let more = woken(&mut world);
            assert!((1..=SLICE_UNITS as usize).contains(&more.len()), "{}", more.len());
            all.extend(more);
        }
        assert_eq!(all, workers, "in the order of their sleep");
    }
}

#[test]
fn the_other_workers_sleep_on_if_the_first_ones_take_the_job() {
    let mut world = World::new();
    let client = world.open();
    let workers = sleepers(&mut world, 2 * SLICE_UNITS);
    let first = submit_and_wake(&mut world, client).len();
    assert!((1..workers.len()).contains(&first), "{first}");
    let grab = |world: &mut World, worker| {
        world.act(|engine, fx| grab(engine, worker, GrabOrder::NewestFirst, fx)).is_some()
    };
    assert!(grab(&mut world, workers[1]), "the rest of the queue holds up no worker");
    world.pass(limits::SERVING_REST_MS);
    assert_eq!(woken(&mut world), []);
    // A job that comes during the next rest wakes workers, too.
    let second = submit_and_wake(&mut world, client);
    assert_eq!(second[0], workers[first]);
    assert!(first + second.len() < workers.len());
    assert_eq!(submit_and_wake(&mut world, client), []);
    assert!(grab(&mut world, workers[first]));
    world.pass(limits::SERVING_REST_MS);
    assert_eq!(woken(&mut world).last(), workers.last());
}

#[test]
fn the_first_worker_gets_a_cold_job_although_others_still_sleep() {
    let mut world = World::new();
    let client = world.open();
    let workers = sleepers(&mut world, 2 * SLICE_UNITS);
    world.engine.begin_slice();
    let background = Submit { foreground: false, ..foreground(b"") };
    world.engine.submit(client, b"f", background, &mut world.effects).expect("no limit is set");
    assert!((1..workers.len()).contains(&woken(&mut world).len()));
    let slot = world.engine.slot(JobId(1)).expect("the job exists");
    world.act(|engine, _| engine.cool(&[slot])).expect("the job can be cold");
    let missing = world.engine.missing(workers[0], Need::Registered).expect("it gets the job");
    assert_eq!(missing.state, State::Ready);
}

#[test]
fn a_few_workers_wake_at_once_although_the_slice_is_spent() {
    let mut world = World::new();
    let client = world.open();
    let workers = sleepers(&mut world, limits::WOKEN_AT_ONCE_MIN as u32);
    let large =
        Submit { body: Body::from(vec![0; SLICE_UNITS as usize * 4096]), ..foreground(b"") };
    let cost = world.cost(|engine, fx| {
        engine.submit(client, b"f", large, fx).expect("no limit is set");
    });
    assert!(cost > SLICE, "{cost}");
    assert_eq!(woken(&mut world), workers);
}

#[test]
fn registrations_are_taken_back_a_slice_at_a_time() {
    let mut world = World::new();
    let worker = world.engine.open_session(0, ReturnOrder::ToTail);
    for number in 0..5 * SLICE {
        world.engine.register(worker, format!("f{number}").as_bytes(), None, &mut world.effects);
    }
    let (mut slices, mut more) = (0, true);
    while more {
        let cost = world.cost(|engine, fx| more = engine.unregister_all(worker, fx));
        assert!(cost <= SLICE + FEW, "{cost}");
        slices += 1;
    }
    assert!(slices >= 5, "{slices}");
    assert_eq!(world.engine.registrations(worker).count(), 0);
}

#[test]
fn a_queue_with_many_due_jobs_does_not_hold_up_other_timers() {
    let mut world = World::new();
    let (client, waiter) = (world.open(), world.open());
    let delayed = NewJob { delay_s: 1, ..NewJob::default() };
    world.put_many(client, b"burst", 20 * SLICE as usize, delayed);
    let patience = Patience::Millis(1500);
    assert!(matches!(world.take(waiter, patience), Take::Waiting));
    // All jobs are due now, and the wait of `waiter` ends later.
    let mut now = START.0 + 1000;
    world.engine.set_time(Millis(now));
    let (engine, effects) = (&mut world.engine, &mut world.effects);
    assert!(engine.advance(effects));
    now += 500;
    engine.set_time(Millis(now));
    for _ in 0..2 {
        assert!(engine.advance(effects), "the burst continues");
    }
    let timed_out = effects
        .events
        .iter()
        .any(|(session, event)| *session == waiter && matches!(event, Event::TimedOut));
    assert!(timed_out, "it waited for its own time and a slice");
    assert!(engine.totals().delayed > 10 * SLICE);
    engine.check_invariants();
    while engine.advance(effects) {}
    assert_eq!(engine.totals().delayed, 0);
}

#[test]
fn timers_without_end_do_not_hold_up_a_kick() {
    let mut world = World::new();
    let client = world.open();
    let delayed = NewJob { delay_s: 1, ..NewJob::default() };
    world.put_many(client, b"burst", 20 * SLICE as usize, delayed);
    let later = NewJob { delay_s: 100, ..NewJob::default() };
    world.put_many(client, b"q", 2 * SLICE as usize, later);
    world.engine.set_time(Millis(START.0 + 1000));
    let (engine, effects) = (&mut world.engine, &mut world.effects);
    assert_eq!(engine.kick(client, u64::MAX, effects), Kick::Waiting);
    for _ in 0..12 {
        assert!(engine.advance(effects));
    }
    let kicked = effects
        .events
        .iter()
        .any(|(_, event)| matches!(event, Event::Kicked(_, count) if *count == 2 * SLICE));
    assert!(kicked && engine.totals().delayed > 0);
}

#[test]
fn a_kick_that_waits_for_a_cold_job_does_not_hold_up_other_chores() {
    let mut world = World::new();
    let (client, holder) = (world.open(), world.open());
    world.put_many(client, b"cold", 1, NewJob::default());
    world.engine.bury_job(JobId(1), 0, &mut world.effects).expect("it is ready");
    let slot = world.engine.slot(JobId(1)).expect("the job exists");
    world.engine.cool(&[slot]).expect("the job can be cold");
    world.put_many(client, b"q", 3 * SLICE as usize, NewJob::default());
    world.engine.watch(holder, b"q");
    while let Take::Granted(_) =
        world.engine.take(holder, Choice::Watched, Patience::None, &mut world.effects)
    {}
    let (engine, effects) = (&mut world.engine, &mut world.effects);
    engine.close_session(holder, effects);
    assert!(engine.totals().leased > 0, "the first slice is done");
    engine.use_queue(client, b"cold", effects);
    assert_eq!(engine.kick(client, 1, effects), Kick::Waiting);
    while engine.advance(effects) {}
    assert_eq!(engine.totals().leased, 0);
    assert!(engine.has_chores(), "the kick waits for the load");
    engine.check_invariants();
}

/// Advances until no work is due, and checks the length of each slice. Returns the number of
/// slices.
fn slices_until_idle(world: &mut World) -> u32 {
    let (mut slices, mut more) = (0, true);
    while more {
        let cost = world.cost(|engine, fx| more = engine.advance(fx));
        assert!(cost <= 2 * (SLICE + FEW), "{cost}");
        slices += 1;
    }
    world.engine.check_invariants();
    slices
}

#[test]
fn a_change_of_the_status_comes_to_many_queues_in_slices() {
    let mut world = World::new();
    let (client, waiter) = (world.open(), world.open());
    for number in 0..20_000 {
        world.put_many(client, format!("q{number}").as_bytes(), 1, NewJob::default());
    }
    world.engine.watch(waiter, b"q19999");
    let cost = world.cost(|engine, fx| engine.set_status(Status::Quiescent, 0, fx));
    assert!(cost <= FEW, "{cost}");
    let waits = world.engine.take(waiter, Choice::Watched, Patience::Endless, &mut world.effects);
    assert!(matches!(waits, Take::Waiting));
    let cost = world.cost(|engine, fx| engine.set_status(Status::Up, 0, fx));
    assert!(cost <= SLICE + FEW, "{cost}");
    assert!(!world.engine.reads_blocked(), "the status is in force");
    world.engine.check_invariants();
    // Another session cannot get the job that `waiter` waits for.
    let hasty = world.open();
    world.engine.watch(hasty, b"q19999");
    let hasty = world.engine.take(hasty, Choice::Watched, Patience::None, &mut world.effects);
    assert!(matches!(hasty, Take::Nothing(_)));
    assert!(world.events().is_empty());
    assert!(slices_until_idle(&mut world) > 10);
    assert_eq!(world.events().len(), 1, "the one who waited has it");
    let late = world.open();
    world.engine.watch(late, b"q0");
    let late = world.engine.take(late, Choice::Watched, Patience::None, &mut world.effects);
    assert!(matches!(late, Take::Granted(_)));
}

#[test]
fn a_status_that_changes_back_during_that_blocks_all_queues() {
    let mut world = World::new();
    let (client, taker) = (world.open(), world.open());
    for number in 0..20_000 {
        world.put_many(client, format!("q{number}").as_bytes(), 1, NewJob::default());
    }
    world.engine.watch(taker, b"q0");
    for _ in 0..2 {
        world.engine.set_status(Status::Quiescent, 0, &mut world.effects);
        let taken = world.engine.take(taker, Choice::Watched, Patience::None, &mut world.effects);
        assert!(matches!(taken, Take::Nothing(_)));
        world.engine.set_status(Status::ReadOnly, 0, &mut world.effects);
    }
    world.engine.set_status(Status::Quiescent, 0, &mut world.effects);
    slices_until_idle(&mut world);
    let taken = world.engine.take(taker, Choice::Watched, Patience::None, &mut world.effects);
    assert!(matches!(taken, Take::Nothing(_)), "the walk changes nothing any more");
}

#[test]
fn a_search_for_rules_counts_patterns_and_the_length_of_the_name() {
    let long = b"-retr".repeat(1600);
    for (pattern, of_long) in [("*-retry", 1..=2 * FEW), ("*-retry*!", 1000..=30_000)] {
        let mut world = World::new();
        world.policies(std::array::from_fn::<_, 100, _>(|number| {
            let stands_for = Setting::SameAs(Some(b"real"[..].into()));
            let (pattern, setting) = if number == 0 {
                ("other", stands_for)
            } else {
                (pattern, Setting::JobsMax(Some(1)))
            };
            Rule::new([pattern], [setting])
        }));
        let cost = world.cost(|engine, _| assert_eq!(engine.queue_id(b"short"), None));
        assert!(cost <= FEW, "{cost} for a short name");
        let cost = world.cost(|engine, _| assert_eq!(engine.queue_id(&long), None));
        assert!(of_long.contains(&cost), "{cost} for a long name");
        let cost = world.cost(|engine, fx| engine.create_queue(&long, fx));
        assert!(cost > *of_long.start(), "{cost} for a queue with a long name");
    }
}

#[test]
fn a_search_for_the_queue_behind_many_aliases_counts_each_of_them() {
    const ALIASES: u64 = 60;
    let mut world = World::new();
    let client = world.open();
    world.put_many(client, b"old", 1, NewJob::default());
    let same_as = Setting::SameAs(Some(b"a0"[..].into()));
    // With so many patterns, each search takes more than one unit.
    let others = (0..200).map(|number| Pattern::new(format!("other{number}").as_bytes()));
    let others = Rule { patterns: others.collect(), ..Rule::default() };
    let mut rules = vec![Rule::new(["old"], [same_as]), others];
    for number in 0..ALIASES {
        let next = Box::<[u8]>::from(format!("a{}", number + 1).as_bytes());
        let alias = Setting::Alias([next].into());
        rules.push(Rule::new([format!("a{number}").as_str()], [alias]));
    }
    let rules = Rules(rules);
    rules.check().expect("a put reaches few queues");
    let cost = world.cost(|engine, fx| engine.set_policies(rules, fx));
    assert!(cost > 2 * ALIASES, "{cost}");
}

#[test]
fn a_search_in_any_case_compares_few_names_if_they_are_long() {
    for (length, most) in [(50, limits::ALIKE_MAX), (8100, 10)] {
        let mut world = World::new();
        for number in 0..limits::ALIKE_MAX + 200 {
            let mut name = vec![b'a'; length];
            // The letters with capitals are the bits of the number that are set.
            for (bit, letter) in name.iter_mut().take(11).enumerate() {
                if (number >> bit) & 1 == 1 {
                    letter.make_ascii_uppercase();
                }
            }
            world.engine.create_queue(&name, &mut world.effects);
        }
        let mut found = 0;
        let name = b"A".repeat(length);
        let cost = world.cost(|engine, _| found = engine.queues_alike(&name).len());
        // The name without capitals is found by itself, and does not count for the maximum.
        assert!((2..=most + 1).contains(&found), "{found} names of {length} bytes");
        assert!(cost <= limits::ALIKE_MAX as u64 + FEW, "{cost} for {length} bytes");
    }
}

#[test]
fn new_policies_come_to_many_queues_in_slices() {
    let mut world = World::new();
    let client = world.open();
    for number in 0..20_000 {
        world.put_many(client, format!("q{number}").as_bytes(), 1, NewJob::default());
    }
    let full = Rules(vec![Rule::new(["q*"], [Setting::JobsMax(Some(1))])]);
    let cost = world.cost(|engine, fx| engine.set_policies(full, fx));
    assert!(cost <= SLICE + FEW, "{cost}");
    world.engine.check_invariants();
    let put = |world: &mut World, queue: &[u8]| {
        world.engine.use_queue(client, queue, &mut world.effects);
        let body = Body::from(&b"x"[..]);
        world.engine.put(client, NewJob::default(), body, &mut world.effects).is_ok()
    };
    assert!(!put(&mut world, b"q0"), "the oldest queue has it at once");
    assert!(put(&mut world, b"new"));
    assert!(slices_until_idle(&mut world) > 10);
    assert!(!put(&mut world, b"q19999"));
}

#[test]
fn waiters_of_a_removed_queue_are_notified_in_slices() {
    let mut world = World::new();
    let client = world.open();
    for _ in 0..5000 {
        let reader = world.engine.open_reader(0);
        let effects = &mut world.effects;
        let read =
            read(&mut world.engine, reader, b"q", ReadMode::Finish, Patience::Endless, effects);
        assert!(matches!(read, Take::Waiting));
    }
    let mut removal = Clearing::Done;
    let cost = world.cost(|engine, fx| removal = engine.remove_queue(client, b"q", fx));
    assert_eq!(removal, Clearing::Waiting);
    assert!(cost <= SLICE + FEW, "{cost}");
    world.engine.check_invariants();
    let late = world.engine.open_reader(0);
    read(&mut world.engine, late, b"q", ReadMode::Finish, Patience::Endless, &mut world.effects);
    assert!(slices_until_idle(&mut world) > 2);
    let events = world.events();
    assert_eq!(events.iter().filter(|(_, what)| what == "none came").count(), 5000);
    assert!(events.iter().all(|(session, _)| *session != late), "it came after the removal began");
}

#[test]
fn many_queues_that_are_idle_at_one_moment_are_removed_in_slices() {
    const QUEUES: u64 = 5 * SLICE;
    let mut world = World::new();
    world.policies([Rule::new(["q*"], [Setting::Idle(Some(1000))])]);
    for number in 0..QUEUES {
        world.engine.create_queue(format!("q{number}").as_bytes(), &mut world.effects);
    }
    world.engine.set_time(Millis(START.0 + 1001));
    assert!(slices_until_idle(&mut world) > 10);
    assert_eq!(world.engine.totals().idle_queue_deletes, QUEUES);
}

#[test]
fn a_short_slice_ends_a_long_request_sooner() {
    let mut world = World::new();
    let delayed = NewJob { delay_s: 100, ..NewJob::default() };
    let short = SLICE / u64::from(limits::SHORT_SLICE_DIVISOR);
    for (are_short, slice) in [(true, short), (false, SLICE)] {
        let client = world.open();
        world.put_many(client, b"q", 3 * SLICE as usize, delayed);
        world.engine.use_short_slices(are_short);
        let cost = world.cost(|engine, fx| {
            assert_eq!(engine.kick(client, u64::MAX, fx), Kick::Waiting);
        });
        assert!((slice / 4..=slice + FEW).contains(&cost), "{cost} units, short: {are_short}");
        while world.act(Engine::advance) {}
    }
}
