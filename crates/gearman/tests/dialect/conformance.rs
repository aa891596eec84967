//! Plays the conformance cases against the dialect in this process, on simulated time.

use lineshaft_gearman::Server;
use testkit::dialect::world::{InProcess, World};
use testkit::gearman::case::read_cases;
use testkit::gearman::runner::{CaseContext, run_case};
use testkit::suite::Outcome;

use crate::world::{connect, options};

/// Each case has a server of its own.
fn play(file: &str) {
    let context = CaseContext { tag: "case".to_owned(), unix_ms_at_zero: 0 };
    let mut outcome = Outcome::default();
    for case in read_cases(file).expect("the corpus is readable") {
        let server = Server::new(options());
        let connect = |world: &mut World, _: Option<&str>| connect(&server, world);
        let mut wire = InProcess { world: World::memory(), connect };
        outcome.played += 1;
        if let Err(error) = run_case(&mut wire, &case, &context) {
            outcome.failures.push((case.name, format!("{error:#}")));
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
