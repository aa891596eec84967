//! Plays the conformance cases against the dialect in this process, on simulated time.

use lineshaft_gearman::Server;
use testkit::conformance::gearman::read_cases;
use testkit::conformance::suite::play_in_process;
use testkit::dialect::world::{InProcess, World};

use crate::world::{connect, options};

fn play(file: &str) {
    let cases = read_cases(file).expect("the corpus is readable");
    let outcome = play_in_process(&cases, |_| {
        let server = Server::new(options());
        let connect = move |world: &mut World, _: Option<&str>| connect(&server, world);
        InProcess { world: World::memory(), connect }
    });
    outcome.assert_all_passed("the dialect");
}

#[test]
fn the_dialect_answers_like_the_original() {
    play("cases.jsonl");
}

#[test]
fn the_dialect_does_right_where_the_original_errs() {
    play("defects.jsonl");
}
