//! Why no job of a queue runs.

use std::num::NonZeroU32;

use broker::policy::{Order, Per, Rate, Rule, Rules, Setting, WhenFull};
use broker::{NewJob, Patience, Status};
use serde_json::json;

use crate::world::World;

#[test]
fn the_first_thing_in_the_way_is_named() {
    let world = World::new();
    let answer = || world.get("/queues/mail/why")["answer"].as_str().unwrap().to_owned();
    world.put(b"mail", NewJob { delay_s: 5, ..NewJob::default() }, b"x");
    let why = world.get("/queues/mail/why");
    assert_eq!(why["answer"], "not_ready");
    assert!(why["text"].as_str().unwrap().contains("1 wait for their time"), "{why}");
    assert_eq!(
        why["checked"],
        json!(["reads_blocked", "removing", "paused_by_policy", "not_ready"])
    );
    world.put(b"mail", NewJob::default(), b"x");
    assert_eq!(answer(), "no_workers");

    let mut turn = world.broker.turn(world.now());
    let session = turn.open_session(0);
    let _ = turn.caller(session).watch(b"mail");
    drop(turn);
    assert_eq!(answer(), "all_busy");
    let _ = world.broker.turn(world.now()).caller(session).pause(b"mail", 60);
    assert_eq!(answer(), "paused");
    let mut turn = world.broker.turn(world.now());
    let _ = turn.caller(session).take(Patience::Endless);
    drop(turn);
    world.pass(61_000);
    let why = world.get("/queues/mail/why");
    // Both jobs were ready after the pause: the client that waited has one, and does not wait.
    assert_eq!(
        (&why["answer"], why["checked"].as_array().unwrap().len()),
        (&json!("all_busy"), 15)
    );
    let _ = world.broker.turn(world.now()).set_status(Status::Quiescent, 0);
    assert_eq!(answer(), "reads_blocked");
    assert_eq!(world.ask("GET", "/queues/nothing/why").status, 404);
}

#[test]
fn a_pause_by_policy_is_named_with_its_reason() {
    let world = World::new();
    world.put(b"mail", NewJob::default(), b"x");
    let reason = Setting::PauseReason(Some(b"the database moves"[..].into()));
    let rule = Rule::new(["mail"], [Setting::Pause(true), reason]);
    let _ = world.broker.turn(world.now()).set_policies(Rules(vec![rule]));
    let why = world.get("/queues/mail/why");
    assert_eq!(
        (&why["answer"], &why["reason"]),
        (&json!("paused_by_policy"), &json!("the database moves"))
    );
    assert!(why["text"].as_str().unwrap().contains("(the database moves)"), "{why}");
    assert_eq!(why["checked"], json!(["reads_blocked", "removing", "paused_by_policy"]));
    let paused = world.get("/queues?state=paused");
    assert_eq!(paused["items"][0]["name"], "mail", "{paused}");
    let _ = world.broker.turn(world.now()).set_policies(Rules::default());
    let why = world.get("/queues/mail/why");
    assert_eq!((&why["answer"], why.get("reason")), (&json!("no_workers"), None));
}

#[test]
fn an_alias_with_the_name_of_the_queue_is_named() {
    let world = World::new();
    world.put(b"mail", NewJob::default(), b"x");
    let rule = Rule::new(["mail"], [Setting::Alias([b"letters"[..].into()].into())]);
    let _ = world.broker.turn(world.now()).set_policies(Rules(vec![rule]));
    let why = world.get("/queues/mail/why");
    assert_eq!(why["answer"], "alias", "{why}");
    assert!(why["text"].as_str().unwrap().contains("move the jobs"), "{why}");
}

#[test]
fn limits_of_hand_outs_are_named_with_their_number_and_their_moment() {
    let world = World::new();
    let milli = NonZeroU32::new(500).unwrap();
    let rate = Setting::Rate(Some(Rate { milli, per: Per::Second }));
    let slots = Setting::Concurrency(NonZeroU32::new(1));
    let mut turn = world.broker.turn(world.now());
    let _ = turn.set_policies(Rules(vec![Rule::new(["mail"], [rate, slots])]));
    let session = turn.open_session(0);
    let _ = turn.caller(session).watch(b"mail");
    drop(turn);
    for _ in 0..3 {
        world.put(b"mail", NewJob { ttr_s: 60, ..NewJob::default() }, b"x");
    }
    let why = world.get("/queues/mail/why");
    assert_eq!((&why["answer"], &why["wait_ms"]), (&json!("rate"), &json!(2000)), "{why}");
    assert!(why["text"].as_str().unwrap().contains("in 2000 ms"), "{why}");
    world.pass(2000);
    let mut turn = world.broker.turn(world.now());
    let _ = turn.caller(session).take(Patience::None);
    drop(turn);
    let why = world.get("/queues/mail/why");
    assert_eq!((&why["answer"], &why["wait_ms"]), (&json!("concurrency"), &json!(null)), "{why}");
    assert!(why["text"].as_str().unwrap().contains("concurrency.limit is 1"), "{why}");
}

#[test]
fn a_delayed_job_of_a_strict_order_is_named() {
    let world = World::new();
    let slots = Setting::Concurrency(NonZeroU32::new(1));
    let strict = Setting::ConcurrencyOrder(Order::Strict);
    let mut turn = world.broker.turn(world.now());
    let _ = turn.set_policies(Rules(vec![Rule::new(["mail"], [slots, strict])]));
    let session = turn.open_session(0);
    let _ = turn.caller(session).watch(b"mail");
    drop(turn);
    for _ in 0..2 {
        world.put(b"mail", NewJob { ttr_s: 60, ..NewJob::default() }, b"x");
    }
    let mut turn = world.broker.turn(world.now());
    let taken = turn.caller(session).take(Patience::None).value.granted().expect("a job is ready");
    let _ = turn.caller(session).give_back(taken.id, 1024, 30);
    drop(turn);
    let why = world.get("/queues/mail/why");
    assert_eq!((&why["answer"], &why["wait_ms"]), (&json!("order"), &json!(null)), "{why}");
    assert!(why["text"].as_str().unwrap().contains("concurrency.order is strict"), "{why}");
}

#[test]
fn a_queue_that_refuses_puts_says_why() {
    let world = World::new();
    let refusal = || world.get("/queues/mail/why")["put_refusal"].clone();
    world.put(b"mail", NewJob::default(), b"x");
    assert_eq!(refusal(), json!(null));
    let rules = Rules(vec![Rule::new(["mail"], [Setting::JobsMax(Some(1))])]);
    let _ = world.broker.turn(world.now()).set_policies(rules);
    assert_eq!(refusal(), json!("the queue is full; try again when it has fewer jobs"));
    let drops = Setting::WhenFull(WhenFull::DropOldest);
    let rules = Rules(vec![Rule::new(["mail"], [Setting::JobsMax(Some(1)), drops])]);
    let _ = world.broker.turn(world.now()).set_policies(rules);
    assert_eq!(refusal(), json!(null), "a put makes room");
    world.broker.drain();
    assert!(refusal().as_str().unwrap().starts_with("the server drains"), "{}", refusal());
    assert!(world.broker.put_refusals().iter().all(|(_, count)| *count == 0), "it counts nothing");
}
