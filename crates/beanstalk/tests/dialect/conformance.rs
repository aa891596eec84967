//! Plays the conformance cases against the dialect in this process, on simulated time.

use lineshaft_beanstalk::MAX_JOB_SIZE_DEFAULT;
use testkit::conformance::lines::{Case, read_cases};
use testkit::conformance::suite::play_in_process;
use testkit::dialect::world::{InProcess, World};

use crate::world::{connect, listener, with_log};

fn cases(file: &str) -> Vec<Case> {
    read_cases("beanstalk", file).expect("the corpus is readable")
}

/// Plays the cases. Returns the number of times that a job became cold.
fn play(cases: &[Case], open: impl Fn() -> World) -> u64 {
    let outcome = play_in_process(cases, |_| {
        let listener = listener(MAX_JOB_SIZE_DEFAULT);
        let connect = move |world: &mut World, _: Option<&str>| connect(&listener, world);
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
    cases.retain(|case| !case.has_tag("memory"));
    let cooled = play(&cases, || World::cold(with_log()));
    assert!(cooled > 50, "{cooled} jobs became cold");
}
