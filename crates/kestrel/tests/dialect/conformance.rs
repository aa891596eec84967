//! Plays the conformance cases against the dialects in this process, on simulated time.

use std::sync::Arc;

use broker::policy::{Rule, Rules, Setting};
use broker::{Broker, Options};
use testkit::conformance::lines::{Case, read_cases};
use testkit::conformance::suite::play_in_process;
use testkit::dialect::world::{self, InProcess, START};

use crate::world::{World, connect_memcache, connect_text, options, with_log};
use testkit::conformance::policies::rules;

/// The rules that a case requires.
fn rules_for(case: &Case) -> Option<Rules> {
    let one_open = || Rules(vec![Rule::new(["*"], [Setting::OpenMax(1)])]);
    if case.has_tag("maxopen1") { Some(one_open()) } else { case.has_tag("policies").then(rules) }
}

fn cases(file: &str) -> Vec<Case> {
    read_cases("kestrel", file).expect("the corpus is readable")
}

/// Plays the cases. Returns the number of times that an item became cold.
fn play(cases: &[Case], open: impl Fn() -> world::World) -> u64 {
    let outcome = play_in_process(cases, |case| {
        let (world, server) = World::over(open(), options()).into_parts();
        if let Some(rules) = rules_for(case) {
            let _ = world.broker.turn(world.now).set_policies(rules);
        }
        let connect = move |world: &mut world::World, port: Option<&str>| match port {
            Some("memcache") => connect_memcache(&server, world),
            Some("text") => connect_text(&server, world),
            other => panic!("no port {other:?}"),
        };
        InProcess { world, connect }
    });
    outcome.assert_all_passed("the dialects");
    outcome.cooled
}

/// A world with a log on a simulated disk. The log is written after every step.
fn durable() -> world::World {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let options = Options::without_threads(disk, log::Settings::default());
    world::World::over(Broker::open(options, START).expect("the disk is empty").0)
}

#[test]
fn the_dialects_answer_like_the_original() {
    play(&cases("cases.jsonl"), world::World::memory);
}

#[test]
fn the_dialects_answer_like_the_original_with_a_log() {
    play(&cases("cases.jsonl"), durable);
}

#[test]
fn the_dialects_do_right_where_the_original_errs() {
    play(&cases("defects.jsonl"), world::World::memory);
}

#[test]
fn the_dialects_do_right_where_the_original_errs_with_a_log() {
    play(&cases("defects.jsonl"), durable);
}

#[test]
fn the_dialects_answer_the_same_with_cold_items() {
    let mut cases = [cases("cases.jsonl"), cases("defects.jsonl")].concat();
    cases.retain(|case| !case.has_tag("resident"));
    let cooled = play(&cases, || world::World::cold(with_log()));
    assert!(cooled > 50, "{cooled} items became cold");
}
