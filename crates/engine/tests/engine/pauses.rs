//! Pauses by policy: a queue hands out no jobs until other rules are in force.

use lineshaft_engine::policy::{PausePolicy, Rule, Rules, Setting};
use lineshaft_engine::{
    GrabOrder, Held, JobId, Millis, Patience, ReadMode, ReturnOrder, SessionId, State, Submit, Take,
};

use crate::world::{START, World, grab, read, take_job};

fn set_rules(world: &mut World, rules: Vec<Rule>) {
    let rules = Rules(rules);
    rules.check().expect("the rules can be obeyed");
    world.act(|e, fx| e.set_policies(rules, fx));
    world.pass(0);
}

fn pause(world: &mut World) {
    let reason = Setting::PauseReason(Some(b"maintenance"[..].into()));
    set_rules(world, vec![Rule::new(["*"], [Setting::Pause(true), reason])]);
}

fn resume(world: &mut World) {
    set_rules(world, Vec::new());
}

fn held(world: &World, queue: &[u8]) -> Option<Held> {
    world.engine.held_back(world.engine.queue_id(queue).expect("it exists"))
}

fn submit(world: &mut World, client: SessionId) -> JobId {
    let (body, reducer) = (b"work"[..].into(), &b""[..]);
    let (priority, due, unique, foreground) = (None, None, &b""[..], false);
    let submit = Submit { priority, due, unique, reducer, body, foreground };
    world.act(|e, fx| e.submit(client, b"q", submit, fx)).expect("no limit is set")
}

#[test]
fn a_paused_queue_takes_jobs_and_hands_none_out() {
    let mut world = World::new();
    let (session, waiter) = (world.open(), world.open());
    let held_before = world.put(session, 5, 0, 60);
    assert_eq!(world.taken(session), held_before);
    pause(&mut world);
    let id = world.put(session, 5, 0, 60);
    assert!(world.take(session, Patience::None).granted().is_none());
    assert!(matches!(world.take(waiter, Patience::Endless), Take::Waiting));
    assert_eq!(held(&world, b"default"), Some(Held::PausedByPolicy));
    // A job that a session has stays its job, and comes back as ever.
    assert!(world.release(session, held_before, 5, 0));
    assert_eq!(world.state(held_before), Some(State::Ready));
    // A client that names the job gets it.
    assert!(world.act(|e, fx| take_job(e, session, id, fx)).is_some());
    world.pass(10_000);
    assert!(world.events().is_empty());
    resume(&mut world);
    assert_eq!(world.events(), [(waiter, format!("granted {held_before}"))]);
    assert_eq!(held(&world, b"default"), Some(Held::Empty));
}

#[test]
fn the_pause_of_a_client_is_another_one() {
    let mut world = World::new();
    let session = world.open();
    let id = world.put(session, 5, 0, 60);
    world.act(|e, fx| e.pause(b"default", 20, fx)).expect("it exists");
    pause(&mut world);
    let stats = world.engine.queue_stats(world.engine.queue_id(b"default").expect("it exists"));
    assert_eq!((stats.pause_s, stats.paused_by_policy), (20, true));
    // Its end does not end the pause of the policy.
    world.act(|e, fx| e.pause(b"default", 0, fx)).expect("it exists");
    assert!(world.take(session, Patience::None).granted().is_none());
    world.act(|e, fx| e.pause(b"default", 20, fx)).expect("it exists");
    resume(&mut world);
    assert_eq!(held(&world, b"default"), Some(Held::Paused));
    world.pass(20_000);
    assert_eq!(world.taken(session), id);
}

#[test]
fn a_later_rule_lets_some_queues_go_on() {
    let mut world = World::new();
    let session = world.open();
    let all = Rule::new(["*"], [Setting::Pause(true)]);
    set_rules(&mut world, vec![all, Rule::new(["default"], [Setting::Pause(false)])]);
    let id = world.put(session, 5, 0, 60);
    assert_eq!(world.taken(session), id);
    submit(&mut world, session);
    assert_eq!(held(&world, b"q"), Some(Held::PausedByPolicy));
}

#[test]
fn a_worker_that_sleeps_is_woken_at_the_end() {
    let mut world = World::new();
    let client = world.open();
    let worker = world.engine.open_session(0, ReturnOrder::ToTail);
    world.act(|e, fx| e.register(worker, b"q", None, fx));
    pause(&mut world);
    let id = submit(&mut world, client);
    assert!(world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx)).is_none());
    assert!(world.act(|e, _| e.sleep(worker)), "there is nothing to do");
    assert!(world.events().is_empty());
    resume(&mut world);
    assert_eq!(world.events(), [(worker, "work to do".into())]);
    let granted = world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx));
    assert_eq!(granted.map(|handout| handout.id), Some(id));
}

#[test]
fn a_reader_waits_for_the_end() {
    let mut world = World::new();
    let (reader, waiter) = (world.open(), world.open());
    pause(&mut world);
    world.act(|e, fx| e.add(None, b"q", b"x"[..].into(), None, fx)).expect("no limit is set");
    let how = ReadMode::Finish;
    let now = world.act(|e, fx| read(e, reader, b"q", how, Patience::None, fx));
    assert!(now.granted().is_none());
    let waits = world.act(|e, fx| read(e, waiter, b"q", how, Patience::Endless, fx));
    assert!(matches!(waits, Take::Waiting));
    resume(&mut world);
    let events = world.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].0 == waiter && events[0].1.starts_with("granted"), "{events:?}");
}

#[test]
fn expiry_goes_on_while_a_queue_is_paused() {
    let mut world = World::new();
    let session = world.open();
    let age = Setting::AgeMax(Some(1000));
    set_rules(&mut world, vec![Rule::new(["*"], [Setting::Pause(true), age])]);
    let id = world.put(session, 5, 0, 60);
    world.pass(2_000);
    assert_eq!(world.state(id), None);
}

/// Pauses all queues for the first 20 s of each fifth minute. The tests begin 100 s after such a
/// minute, and 200 s before the next.
fn pause_by_schedule(world: &mut World) {
    set_rules(world, vec![Rule::new(["*"], windows("*/5 * * * *", 20_000, "UTC"))]);
}

fn windows(cron: &str, length_ms: u64, zone: &str) -> [Setting; 4] {
    [
        Setting::Pause(true),
        Setting::PauseCron(Some(cron.parse().expect("a cron expression"))),
        Setting::PauseLength(Some(length_ms)),
        Setting::PauseZone(zone.parse().expect("a time zone")),
    ]
}

#[test]
fn a_schedule_pauses_a_queue_again_and_again() {
    let mut world = World::new();
    let (session, waiter) = (world.open(), world.open());
    let worker = world.engine.open_session(0, ReturnOrder::ToTail);
    world.act(|e, fx| e.register(worker, b"q", None, fx));
    pause_by_schedule(&mut world);
    let first = world.put(session, 5, 0, 3_000_000);
    assert_eq!(world.taken(session), first, "there is no pause yet");
    world.pass(199_999);
    let second = world.put(session, 5, 0, 3_000_000);
    assert_eq!(world.taken(session), second, "it is the last moment before the pause");
    for _ in 0..3 {
        world.pass(1);
        let id = world.put(session, 5, 0, 3_000_000);
        assert_eq!(held(&world, b"default"), Some(Held::PausedByPolicy));
        assert!(matches!(world.take(waiter, Patience::Endless), Take::Waiting));
        submit(&mut world, session);
        assert!(world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx)).is_none());
        assert!(world.act(|e, _| e.sleep(worker)), "there is nothing to do");
        world.pass(19_999);
        assert!(world.events().is_empty());
        world.pass(1);
        let events = world.events();
        assert!(events.contains(&(waiter, format!("granted {id}"))), "{events:?}");
        assert!(events.contains(&(worker, "work to do".into())), "{events:?}");
        assert!(world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx)).is_some());
        world.pass(279_999);
    }
}

#[test]
fn nobody_gets_a_job_between_the_beginning_of_a_pause_and_the_timer_of_the_queue() {
    let mut world = World::new();
    let session = world.open();
    pause_by_schedule(&mut world);
    world.put(session, 5, 0, 60);
    let begins = Millis(START.0 + 200_000);
    world.engine.set_time(begins);
    assert!(world.take(session, Patience::None).granted().is_none());
    // The same at the end: those who wait come first.
    let waiter = world.open();
    assert!(matches!(world.take(waiter, Patience::Endless), Take::Waiting));
    world.engine.set_time(Millis(begins.0 + 20_000));
    assert!(world.take(session, Patience::None).granted().is_none());
    world.pass(0);
    assert_eq!(world.events().len(), 1);
}

#[test]
fn a_step_of_the_wall_clock_begins_and_ends_pauses() {
    let mut world = World::new();
    let (session, waiter) = (world.open(), world.open());
    pause_by_schedule(&mut world);
    let id = world.put(session, 5, 0, 60);
    world.act(|e, _| e.set_wall_ahead(210_000));
    assert!(world.take(session, Patience::None).granted().is_none(), "at once");
    world.pass(0);
    assert!(matches!(world.take(waiter, Patience::Endless), Take::Waiting));
    world.act(|e, _| e.set_wall_ahead(150_000));
    world.pass(0);
    assert_eq!(world.events(), [(waiter, format!("granted {id}"))]);
    // The pause begins by the wall clock: 50 s from now.
    world.pass(49_999);
    let id = world.put(session, 5, 0, 60);
    assert_eq!(world.taken(session), id);
    world.pass(1);
    assert_eq!(held(&world, b"default"), Some(Held::PausedByPolicy));
    // Two clocks that drift are no step.
    world.act(|e, _| e.set_wall_ahead(149_900));
    assert_eq!(held(&world, b"default"), Some(Held::PausedByPolicy));
    world.pass(20_200);
    assert_ne!(held(&world, b"default"), Some(Held::PausedByPolicy));
}

#[test]
fn a_pause_of_hours_has_the_length_that_the_clocks_of_the_zone_do_not_change() {
    // Berlin, 2026-10-25: two hours from 01:00 end at 02:00 of the second pass, at 01:00 UTC.
    let mut world = World::new();
    let midnight = 1_792_879_200_000; // 2026-10-24T22:00Z
    world.act(|e, _| e.set_wall_ahead((midnight - START.0) as i64));
    set_rules(&mut world, vec![Rule::new(["*"], windows("0 1 * * *", 7_200_000, "Europe/Berlin"))]);
    let at = |world: &mut World, minutes: u64| {
        let now = world.engine.now().0 - START.0;
        world.pass(minutes * 60_000 - now);
        held(world, b"default")
    };
    assert_eq!(at(&mut world, 59), Some(Held::Empty));
    assert_eq!(at(&mut world, 60), Some(Held::PausedByPolicy));
    assert_eq!(at(&mut world, 179), Some(Held::PausedByPolicy));
    assert_eq!(at(&mut world, 180), Some(Held::Empty));
    assert_eq!(at(&mut world, 1559), Some(Held::Empty), "a day of 25 hours");
    assert_eq!(at(&mut world, 1560), Some(Held::PausedByPolicy));
}

#[test]
fn pauses_that_overlap_are_one() {
    let mut world = World::new();
    let session = world.open();
    set_rules(&mut world, vec![Rule::new(["*"], windows("* * * * *", 90_000, "UTC"))]);
    world.put(session, 5, 0, 60);
    for _ in 0..300 {
        assert_eq!(held(&world, b"default"), Some(Held::PausedByPolicy));
        world.pass(1_000);
    }
    resume(&mut world);
    assert_eq!(held(&world, b"default"), None);
}

#[test]
fn a_later_pause_has_nothing_of_an_earlier_one() {
    let mut world = World::new();
    let mut all = windows("*/5 * * * *", 20_000, "UTC").to_vec();
    all.push(Setting::PauseReason(Some(b"backup"[..].into())));
    let rules = Rules(vec![
        Rule::new(["*"], all),
        Rule::new(["default"], [Setting::Pause(true)]),
        Rule::new(["open"], [Setting::Pause(false)]),
    ]);
    let pause = |name: &[u8]| rules.resolve(name, None).pause;
    assert_eq!(pause(b"q").reason.as_deref(), Some(&b"backup"[..]));
    assert!(pause(b"q").has_windows());
    let plain = PausePolicy { is_on: true, ..PausePolicy::default() };
    assert_eq!((pause(b"default"), pause(b"open")), (plain, PausePolicy::default()));
    let origins = rules.resolve_with_origins(b"default", None);
    let origin = |key| origins.iter().find(|(setting, _)| setting.key() == key).unwrap().1;
    assert_eq!(
        (origin("pause"), origin("pause.cron"), origin("pause.reason")),
        (Some(0), None, None)
    );
    set_rules(&mut world, rules.0);
    assert_eq!(held(&world, b"default"), Some(Held::PausedByPolicy), "not only at times");
}

#[test]
fn a_part_of_a_window_is_refused() {
    let [on, cron, length, zone] = windows("*/5 * * * *", 20_000, "Asia/Tokyo");
    let refused = |settings: Vec<Setting>| {
        let rules = Rules(vec![Rule::new(["*"], settings)]);
        rules.check().expect_err("a part is missing").to_string()
    };
    let needs = |key| format!("pause: a pause with a schedule needs `{key}`");
    assert_eq!(refused(vec![on.clone(), cron.clone(), zone.clone()]), needs("pause.for"));
    assert_eq!(refused(vec![on.clone(), length]), needs("pause.cron"));
    assert_eq!(refused(vec![on, zone]), needs("pause.cron"));
    let rules = Rules(vec![Rule::new(["*"], windows("0 0 * * 6", 1, "Asia/Tokyo"))]);
    assert_eq!(rules.check(), Ok(()));
    assert_eq!(Rules::decode(&rules.encode()), Some(rules));
}
