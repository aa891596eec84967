//! Plays the conformance cases against the dialect in this process, on simulated time.

use lineshaft_gearman::Server;
use testkit::conformance::gearman::{Case, read_cases};
use testkit::conformance::suite::play_in_process;
use testkit::dialect::world::{InProcess, World};

use crate::world::{connect, options, with_log};

fn cases(file: &str) -> Vec<Case> {
    read_cases(file).expect("the corpus is readable")
}

/// Plays the cases. Returns the number of times that a job became cold.
fn play(cases: &[Case], open: impl Fn() -> World) -> u64 {
    let outcome = play_in_process(cases, |_| {
        let server = Server::new(options());
        let connect = move |world: &mut World, _: Option<&str>| connect(&server, world);
        InProcess { world: open(), connect }
    });
    outcome.assert_all_passed("the dialect");
    outcome.cooled
}

#[test]
fn the_dialect_answers_like_the_original() {
    play(&cases("cases.jsonl"), World::memory);
}

#[test]
fn the_dialect_does_right_where_the_original_errs() {
    play(&cases("defects.jsonl"), World::memory);
}

#[test]
fn the_dialect_answers_the_same_with_cold_jobs() {
    let mut cases = [cases("cases.jsonl"), cases("defects.jsonl")].concat();
    // Lists of jobs do not have cold jobs.
    cases.retain(|case| {
        let mut sent = case.steps.iter().filter_map(|step| step.send.as_ref());
        !sent.any(|text| text.contains("show "))
    });
    let cooled = play(&cases, || World::cold(with_log()));
    assert!(cooled > 50, "{cooled} jobs became cold");
}
