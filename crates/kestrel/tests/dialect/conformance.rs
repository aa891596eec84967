//! Plays the conformance cases against the dialects in this process, on simulated time.

use std::sync::Arc;

use broker::policy::{Rule, Rules, Setting};
use broker::{Broker, Options};
use testkit::case::{Case, Corpus};
use testkit::dialect::world::{self, InProcess, START};
use testkit::runner::run_case;
use testkit::suite::Outcome;

use crate::world::{World, connect_memcache, connect_text, options, rules};

/// The rules that a case wants.
fn rules_for(case: &Case) -> Option<Rules> {
    let one_open = || Rules(vec![Rule::new(["*"], [Setting::OpenMax(1)])]);
    if case.has_tag("maxopen1") { Some(one_open()) } else { case.has_tag("policies").then(rules) }
}

/// Each case has a server of its own.
fn play(file: &str, open: impl Fn() -> world::World) {
    let corpus = Corpus::read("kestrel", file).expect("the corpus is readable");
    let mut outcome = Outcome::default();
    for case in &corpus.cases {
        let (world, server) = World::over(open(), options()).into_parts();
        if let Some(rules) = rules_for(case) {
            let _ = world.broker.turn(world.now).set_policies(rules);
        }
        let connect = |world: &mut world::World, port: Option<&str>| match port {
            Some("memcache") => connect_memcache(&server, world),
            Some("text") => connect_text(&server, world),
            other => panic!("no port {other:?}"),
        };
        let mut wire = InProcess { world, connect };
        outcome.played += 1;
        if let Err(error) = run_case(&mut wire, &corpus, case, "case") {
            outcome.failures.push((case.name.clone(), format!("{error:#}")));
        }
        wire.world.broker.turn(wire.world.now).check_invariants();
    }
    outcome.assert_all_passed();
}

/// With a log on a simulated disk, which is written after every step.
fn durable() -> world::World {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let options = Options::without_threads(disk, log::Settings::default());
    world::World::over(Broker::open(options, START).expect("the disk is empty").0)
}

#[test]
fn the_dialects_answer_like_the_original() {
    play("cases.jsonl", world::World::memory);
}

#[test]
fn the_dialects_answer_like_the_original_with_a_log() {
    play("cases.jsonl", durable);
}

#[test]
fn the_dialects_do_right_where_the_original_errs() {
    play("defects.jsonl", world::World::memory);
}

#[test]
fn the_dialects_do_right_where_the_original_errs_with_a_log() {
    play("defects.jsonl", durable);
}
