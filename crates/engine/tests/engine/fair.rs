//! Fairness between the keys of a queue, by the policy `fair`.

use std::num::NonZeroU32;

use lineshaft_engine::policy::{FairMode, Rule, Rules, RulesError, Setting};
use lineshaft_engine::{Choice, Engine, Held, JobId, NewJob, Patience, SessionId, Submit, Take};

use crate::lanes::{held, put, put_with, set, take_now, world};
use crate::world::World;

fn fair() -> Vec<Setting> {
    vec![Setting::FairKey(Some("until:-".parse().expect("it is a key")))]
}

fn weighted(weights: &[(&str, u32)]) -> Setting {
    let weight =
        |(key, weight): &(&str, u32)| ((*key).into(), NonZeroU32::new(*weight).expect("a weight"));
    Setting::FairWeights(weights.iter().map(weight).collect())
}

fn in_flight() -> Vec<Setting> {
    [fair(), vec![Setting::FairMode(FairMode::InFlight)]].concat()
}

/// Puts this many jobs of each key, and returns the session.
fn filled(world: &mut World, keys: &[(&str, usize)]) -> SessionId {
    let session = world.open();
    for (key, count) in keys {
        for number in 0..*count {
            put(world, session, &format!("{key}-{number}"));
        }
    }
    session
}

/// The key of a job.
fn key_of(world: &World, id: JobId) -> String {
    let slot = world.engine.slot(id).expect("the job exists");
    let body = world.engine.body(slot).resident().expect("it is in memory").to_vec();
    String::from_utf8(body).expect("a text").split('-').next().expect("a key").to_owned()
}

/// Takes and finishes jobs. Returns their keys.
fn work_off(world: &mut World, session: SessionId, count: usize) -> String {
    let mut keys = String::new();
    for _ in 0..count {
        let Some(id) = take_now(world, session) else { break };
        keys.push_str(&key_of(world, id));
        assert!(world.finish(session, id));
    }
    keys
}

#[test]
fn the_keys_take_turns() {
    let mut world = world(fair());
    let session = filled(&mut world, &[("a", 5), ("b", 2), ("c", 1)]);
    assert_eq!(work_off(&mut world, session, 9), "abcabaaa");
    // A key that comes later gets its turn at once, and does not catch up.
    let session = filled(&mut world, &[("a", 5)]);
    assert_eq!(work_off(&mut world, session, 2), "aa");
    let session = filled(&mut world, &[("b", 3)]);
    assert_eq!(work_off(&mut world, session, 9), "ababab");
}

#[test]
fn a_weight_is_the_number_of_jobs_in_a_turn() {
    let weights = weighted(&[("a", 3), ("c", 2)]);
    let mut world = world(fair().into_iter().chain([weights]));
    let session = filled(&mut world, &[("a", 7), ("b", 3), ("c", 3)]);
    assert_eq!(work_off(&mut world, session, 20), "aaabccaaabcab");
}

#[test]
fn the_same_jobs_of_a_key_stay_in_their_order() {
    let mut world = world(fair());
    let session = world.open();
    let ids = ["a-1", "a-2", "b-1", "a-3"].map(|body| put(&mut world, session, body));
    let taken = [0; 4].map(|_| take_now(&mut world, session));
    assert_eq!(taken, [ids[0], ids[2], ids[1], ids[3]].map(Some));
    // A job that comes back is in its old place again.
    assert!(world.release(session, ids[1], 1024, 0));
    assert!(world.release(session, ids[0], 1024, 0));
    assert_eq!(take_now(&mut world, session), Some(ids[0]));
}

#[test]
fn jobs_without_a_key_are_counted() {
    let mut world = world(fair());
    let session = world.open();
    for body in ["a-1", "no key", "b-1", "none"] {
        put(&mut world, session, body);
    }
    assert_eq!(world.engine.totals().keyless, 2);
    assert_eq!(world.engine.oldest_key_heads_ms(world.engine.used(session)).len(), 3);
}

#[test]
fn the_keys_that_have_waited_longest_are_known() {
    let mut world = world(fair());
    let session = world.open();
    let queue = world.engine.used(session);
    let heads = |world: &World| world.engine.oldest_key_heads_ms(queue);
    for number in 0..30 {
        put(&mut world, session, &format!("{number}-first"));
        world.pass(1000);
        put(&mut world, session, &format!("{number}-second"));
    }
    let oldest: Vec<u64> = (11..=30).rev().map(|seconds| seconds * 1000).collect();
    assert_eq!(heads(&world), oldest);
    // The next job of a key counts when the first one is gone.
    let first = take_now(&mut world, session).expect("there are many");
    assert_eq!(
        heads(&world)[..2],
        [29_000, 29_000],
        "the second job of one key, the first of another"
    );
    assert!(world.release(session, first, 1024, 0));
    assert_eq!(heads(&world)[..2], [29_000, 28_000], "it is ready since now");
    // Without the policy, nothing is known.
    set(&mut world, []);
    assert!(heads(&world).is_empty());
    set(&mut world, fair());
    assert_eq!(heads(&world).len(), 20);
}

#[test]
fn a_job_that_ends_while_lanes_are_cleared_is_no_longer_the_first() {
    let mut world = world(fair());
    world.follower = None;
    let session = world.open();
    let queue = world.engine.used(session);
    let oldest = put(&mut world, session, "old-1");
    world.pass(10_000);
    for number in 0..5000 {
        let body = format!("{}-x", number % 10).into_bytes().into();
        let put = world.engine.put(session, NewJob::default(), body, &mut world.effects);
        put.expect("no limit is set");
    }
    let rules = Rule::new(["*"], fair().into_iter().chain([weighted(&[("1", 3)])]));
    world.act(|engine, effects| engine.set_policies(Rules(vec![rules]), effects));
    assert!(world.act(Engine::advance) && world.act(Engine::advance), "it takes several slices");
    world.act(|engine, effects| engine.cancel(oldest, effects)).expect("the job exists");
    loop {
        let heads = world.engine.oldest_key_heads_ms(queue);
        assert!(heads.iter().all(|age_ms| *age_ms == 0), "{heads:?}");
        if !world.act(Engine::advance) {
            break;
        }
    }
    assert_eq!(world.engine.oldest_key_heads_ms(queue).len(), 10);
}

#[test]
fn priorities_come_first_unless_the_policy_says_otherwise() {
    let job = |priority| NewJob { priority, ttr_s: 60, ..NewJob::default() };
    for (across, wanted) in [(false, "aabab"), (true, "ababa")] {
        let settings = fair().into_iter().chain([Setting::FairAcross(across)]);
        let mut world = world(settings);
        let session = world.open();
        for (priority, body) in [(5, "a-5"), (1, "a-1"), (1, "a-1"), (5, "b-5"), (5, "b-5")] {
            put_with(&mut world, session, job(priority), body);
        }
        assert_eq!(work_off(&mut world, session, 9), wanted, "across: {across}");
    }
}

#[test]
fn no_worker_is_idle_while_a_key_has_a_job_that_may_go() {
    let slots = [
        Setting::Concurrency(NonZeroU32::new(1)),
        Setting::ConcurrencyKey(Some("until:-".parse().expect("it is a key"))),
    ];
    let mut world = world(fair().into_iter().chain(slots));
    let session = filled(&mut world, &[("a", 3), ("b", 3)]);
    let [a, b] = [0; 2].map(|_| take_now(&mut world, session).expect("both have a slot"));
    assert_eq!(
        (take_now(&mut world, session), held(&world)),
        (None, Some(Held::KeyConcurrency { limit: 1 }))
    );
    assert!(world.finish(session, b));
    assert_eq!(work_off(&mut world, session, 9), "bb", "the other key has no slot");
    assert!(world.finish(session, a));
    assert_eq!(work_off(&mut world, session, 9), "aa");
}

#[test]
fn a_key_that_could_not_go_keeps_its_turn() {
    let slots = [
        Setting::Concurrency(NonZeroU32::new(1)),
        Setting::ConcurrencyKey(Some("until:-".parse().expect("it is a key"))),
    ];
    let mut world = world(fair().into_iter().chain(slots));
    let session = filled(&mut world, &[("a", 9), ("b", 9), ("c", 9)]);
    let a = take_now(&mut world, session).expect("a job is ready");
    assert_eq!(work_off(&mut world, session, 3), "bcb");
    // It was its turn before those of the others, and it is one turn only.
    assert!(world.finish(session, a));
    world.pass(0);
    assert_eq!(work_off(&mut world, session, 4), "acba");
}

#[test]
fn a_pause_keeps_the_turns() {
    let mut world = world(fair());
    let session = filled(&mut world, &[("a", 3), ("b", 3)]);
    assert_eq!(work_off(&mut world, session, 3), "aba");
    set(&mut world, fair().into_iter().chain([Setting::Pause(true)]));
    assert_eq!((take_now(&mut world, session), held(&world)), (None, Some(Held::PausedByPolicy)));
    set(&mut world, fair());
    assert_eq!(work_off(&mut world, session, 9), "bab");
}

#[test]
fn those_who_wait_get_the_jobs_in_turn() {
    let mut world = world(fair());
    let producer = world.open();
    let waiters = [0; 3].map(|_| world.open());
    set(&mut world, fair().into_iter().chain([Setting::Pause(true)]));
    let ids = ["a-1", "a-2", "b-1"].map(|body| put(&mut world, producer, body));
    for waiter in waiters {
        assert!(matches!(world.take(waiter, Patience::Endless), Take::Waiting));
    }
    set(&mut world, fair());
    world.pass(0);
    let granted = [(0, ids[0]), (1, ids[2]), (2, ids[1])];
    let granted = granted.map(|(at, id)| (waiters[at], format!("granted {id}")));
    assert_eq!(world.events(), granted);
}

#[test]
fn the_key_with_the_fewest_leased_jobs_for_its_weight_is_next() {
    let weights = weighted(&[("b", 2)]);
    let mut world = world(in_flight().into_iter().chain([weights]));
    let session = filled(&mut world, &[("a", 4), ("b", 6)]);
    let mut taken = Vec::new();
    let keys = |world: &mut World, taken: &mut Vec<JobId>, count: usize| {
        let mut keys = String::new();
        for _ in 0..count {
            let id = take_now(world, session).expect("a job is ready");
            keys.push_str(&key_of(world, id));
            taken.push(id);
        }
        keys
    };
    // Of two equal ones, the key with the oldest first job.
    assert_eq!(keys(&mut world, &mut taken, 6), "abbabb");
    // Now 2 and 4 jobs are leased.
    assert!(world.finish(session, taken[0]));
    assert_eq!(keys(&mut world, &mut taken, 1), "a");
    for id in [taken[1], taken[2], taken[4]] {
        assert!(world.finish(session, id));
    }
    assert_eq!(keys(&mut world, &mut taken, 3), "bba");
    assert_eq!(take_now(&mut world, session), None);
}

#[test]
fn a_reload_applies_other_weights_and_begins_the_turns_anew() {
    let mut world = world(fair());
    let session = filled(&mut world, &[("a", 20), ("b", 20)]);
    assert_eq!(work_off(&mut world, session, 3), "aba");
    set(&mut world, fair().into_iter().chain([weighted(&[("b", 3)])]));
    world.pass(0);
    assert_eq!(work_off(&mut world, session, 6), "abbbab");
    set(&mut world, []);
    world.pass(0);
    assert_eq!(work_off(&mut world, session, 3), "aaa", "the order of the puts");
}

#[test]
fn a_hand_out_costs_the_same_with_many_keys() {
    let mut world = World::new();
    set(&mut world, fair());
    let session = world.open();
    for key in 0..3000 {
        for number in 0..2 {
            let body = format!("{key}-{number}").into_bytes().into();
            let job = NewJob::default();
            let put = world.engine.put(session, job, body, &mut world.effects);
            put.expect("no limit is set");
        }
    }
    let before = world.engine.work_done();
    for _ in 0..100 {
        let take = world.engine.take(session, Choice::Watched, Patience::None, &mut world.effects);
        assert!(take.granted().is_some());
    }
    assert!(world.engine.work_done() - before < 100 * 10);
    world.engine.check_invariants();
}

#[test]
fn a_fair_queue_has_one_key() {
    let other = Setting::RateKey(Some("body".parse().expect("it is a key")));
    let rules = Rules(vec![Rule::new(["*"], fair().into_iter().chain([other]))]);
    assert_eq!(rules.check(), Err(RulesError::SeveralKeys { line: 0, key: "rate.key" }));
}

/// Each dialect puts in its own way.
#[test]
fn a_key_can_be_the_client_that_puts_the_job() {
    let mut world = world([Setting::FairKey("client".parse().ok())]);
    let mut open = |peer: &[u8]| {
        let session = world.open();
        world.act(|engine, _| engine.set_peer(session, peer));
        session
    };
    // Two connections of one host, one of another host, and a client with a name.
    let (one, same) = (open(b"10.0.0.1:5000"), open(b"10.0.0.1:6000"));
    let (other, named) = (open(b"10.0.0.2:5000"), open(b"shop:eu"));
    let unknown = world.open();
    let job = NewJob { priority: 1024, ttr_s: 60, ..NewJob::default() };
    let submit = |world: &mut World, session, body: &str| {
        let submit = Submit {
            priority: None,
            due: None,
            unique: b"",
            reducer: b"",
            body: body.as_bytes().into(),
            foreground: false,
        };
        let id = world.act(|engine, fx| engine.submit(session, b"default", submit, fx));
        id.expect("no limit is set");
    };
    let add = |world: &mut World, session, body: &str| {
        let body = body.as_bytes().into();
        let added = world.act(|engine, fx| engine.add(session, b"default", body, None, fx));
        added.expect("no limit is set");
    };
    put_with(&mut world, one, job, "a");
    submit(&mut world, same, "a");
    add(&mut world, Some(one), "a");
    put_with(&mut world, other, job, "b");
    add(&mut world, Some(other), "b");
    submit(&mut world, named, "n");
    put_with(&mut world, unknown, job, "x");
    add(&mut world, None, "x");
    assert_eq!(work_off(&mut world, unknown, 9), "abnxabxa");
    assert_eq!(world.engine.totals().keyless, 2, "nobody knows the clients of two jobs");
}
