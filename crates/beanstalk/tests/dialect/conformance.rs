//! Plays the conformance cases against the dialect in this process, on simulated time.

use lineshaft_beanstalk::MAX_JOB_SIZE_DEFAULT;
use testkit::case::Corpus;
use testkit::dialect::world::{InProcess, World};
use testkit::runner::run_case;
use testkit::suite::Outcome;

use crate::world::{connect, listener};

/// Each case has a server of its own, which holds no job at the end.
fn play(file: &str) {
    let corpus = Corpus::read("beanstalk", file).expect("the corpus is readable");
    let mut outcome = Outcome::default();
    for case in &corpus.cases {
        let listener = listener(MAX_JOB_SIZE_DEFAULT);
        let connect = |world: &mut World, _: Option<&str>| connect(&listener, world);
        let mut wire = InProcess { world: World::memory(), connect };
        outcome.played += 1;
        if let Err(error) = run_case(&mut wire, &corpus, case, "case") {
            outcome.failures.push((case.name.clone(), format!("{error:#}")));
        }
        wire.world.broker.turn(wire.world.now).check_invariants();
    }
    outcome.assert_all_passed();
}

#[test]
fn the_dialect_answers_like_the_original() {
    play("cases.jsonl");
}

#[test]
fn the_dialect_does_right_where_the_original_errs() {
    play("defects.jsonl");
}
