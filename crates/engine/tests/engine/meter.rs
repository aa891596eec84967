//! The work meter: what costs much is counted, divided, and bounded.

use lineshaft_engine::limits::{self, INDIVISIBLE_UNITS_MAX};
use lineshaft_engine::policy::{Rule, Setting};
use lineshaft_engine::{
    Body, Effects, Engine, GrabOrder, Happening, JobId, Kick, Manner, Millis, NewJob, News,
    Patience, Refused, SessionId, Submit, Take,
};

use crate::world::{SLICE_UNITS, START, World};

const SLICE: u64 = SLICE_UNITS as u64;

/// What is "few": a request that touches a job or two.
const FEW: u64 = 20;

impl World {
    /// Units of work of a request, in a slice of its own.
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
    Submit { priority: 1024, due: None, unique, reducer: b"", body, foreground: true }
}

#[test]
fn a_worker_that_cannot_do_one_thing_does_not_pay_for_all_that_it_holds() {
    let mut world = World::new();
    let (client, worker) = (world.open(), world.engine.open_session(0, Manner::ToTheTail));
    world.put_many(client, b"f", 100_000, NewJob::default());
    world.put_many(client, b"g", 3, NewJob::default());
    world.engine.register(worker, b"f", None, &mut world.effects);
    let grab =
        |world: &mut World| world.engine.grab(worker, GrabOrder::NewestFirst, &mut world.effects);
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
    // Without a check of everything after each of hundreds of steps.
    while world.engine.advance(&mut world.effects) {}
    world.engine.check_invariants();
    assert_eq!(world.engine.totals().leased, 0);
}

#[test]
fn what_is_handed_out_after_a_worker_gave_a_queue_up_stays_with_it() {
    let mut world = World::new();
    let (client, worker) = (world.open(), world.engine.open_session(0, Manner::ToTheTail));
    world.put_many(client, b"f", 2 * SLICE as usize, NewJob::default());
    world.engine.register(worker, b"f", None, &mut world.effects);
    let grab =
        |world: &mut World| world.engine.grab(worker, GrabOrder::NewestFirst, &mut world.effects);
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
        assert!(matches!(engine.take(taker, Patience::None, fx), Take::TimedOut));
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
    assert_eq!(world.happenings(), [(client, format!("kicked {}", 3 * SLICE - 100))]);
}

#[test]
fn a_put_counts_each_queue_that_it_goes_to() {
    let mut world = World::new();
    for number in 0..256 {
        world.get(&format!("p+{number}"));
    }
    let cost = world.cost(|engine, fx| {
        engine.add(b"p", b"1"[..].into(), None, fx).expect("there is room");
    });
    assert!((257..=INDIVISIBLE_UNITS_MAX).contains(&cost), "{cost}");
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
fn a_job_has_a_bounded_number_of_watchers_and_each_piece_of_news_counts_them() {
    let mut world = World::new();
    let worker = world.engine.open_session(0, Manner::ToTheTail);
    let join = |world: &mut World, client| {
        world.engine.submit(client, b"f", foreground(b"key"), &mut world.effects)
    };
    let per_client = limits::ATTACHMENTS_MAX as usize;
    for _ in 0..limits::WATCHERS_MAX / per_client {
        let client = world.open();
        for _ in 0..per_client {
            assert_eq!(join(&mut world, client), Ok(JobId(1)));
        }
    }
    let late = world.open();
    assert_eq!(join(&mut world, late), Err(Refused::Full));
    world.engine.register(worker, b"f", None, &mut world.effects);
    let grabbed = world.engine.grab(worker, GrabOrder::NewestFirst, &mut world.effects);
    let id = grabbed.expect("it is ready").id;
    world.happenings();
    let cost = world.cost(|engine, fx| {
        let news = News::Data(Body::from(&b"x"[..]));
        engine.report(worker, id, &news, fx).expect("it holds the job");
    });
    let told = world.effects.happenings.len() as u64;
    assert_eq!(told, limits::WATCHERS_MAX as u64);
    assert!((told..=INDIVISIBLE_UNITS_MAX).contains(&cost), "{cost}");
}

#[test]
fn the_end_of_a_wait_counts_every_line_that_it_leaves() {
    let mut world = World::new();
    let waiter = world.open();
    world.watch_many(waiter, 10_000);
    for _ in 0..2 {
        let cost = world.cost(|engine, fx| {
            assert!(matches!(engine.take(waiter, Patience::Endless, fx), Take::Waiting));
        });
        assert!(cost >= 20_000, "{cost}: looked at, and lined up in, all of them");
        let cost = world.cost(|engine, _| assert!(engine.stop_waiting(waiter)));
        assert!(cost >= 10_000, "{cost}");
    }
}

#[test]
fn sessions_that_hold_and_watch_much_leave_in_slices() {
    let mut world = World::new();
    let (client, worker) = (world.open(), world.engine.open_session(0, Manner::ToTheTail));
    let holder = world.open();
    world.watch_many(holder, 5000);
    world.put_many(client, b"q7", 5000, NewJob::default());
    while let Take::Granted(_) = world.engine.take(holder, Patience::None, &mut world.effects) {}
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
    assert!(world.engine.queue_id(b"q8").is_none(), "nobody watches it any more");
}

#[test]
fn registrations_are_taken_back_a_slice_at_a_time() {
    let mut world = World::new();
    let worker = world.engine.open_session(0, Manner::ToTheTail);
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
    // All of them are due, and the other's patience is not over.
    let mut now = START.0 + 1000;
    world.engine.set_time(Millis(now));
    let (engine, effects) = (&mut world.engine, &mut world.effects);
    assert!(engine.advance(effects));
    now += 500;
    engine.set_time(Millis(now));
    for _ in 0..2 {
        assert!(engine.advance(effects), "the burst goes on");
    }
    let timed_out = effects
        .happenings
        .iter()
        .any(|(session, happening)| *session == waiter && matches!(happening, Happening::TimedOut));
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
    let kicked = effects.happenings.iter().any(
        |(_, happening)| matches!(happening, Happening::Kicked(_, count) if *count == 2 * SLICE),
    );
    assert!(kicked && engine.totals().delayed > 0);
}
