//! Plays the conformance cases against the dialect in this process, on simulated time, in all
//! styles.

use std::sync::Arc;

use broker::{Broker, Options};
use lineshaft_kestrel::ServerOptions;
use testkit::dialect::world::{InProcess, START, World};
use testkit::suite::Outcome;

use crate::world::{connect, rules, server};
use testkit::thrift::cases::read_cases;
use testkit::thrift::codec::{STYLES, Style};

/// Each case has a server of its own.
fn play(style: Style, open: impl Fn() -> World) -> Outcome {
    let mut outcome = Outcome::default();
    for case in read_cases().expect("the corpus is readable") {
        let world = open();
        let _ = world.broker.turn(world.now).set_policies(rules());
        let server = server(ServerOptions::default());
        let connect = |world: &mut World, _: Option<&str>| connect(&server, world);
        let mut wire = InProcess { world, connect };
        outcome.played += 1;
        if let Err(error) = case.play(&mut wire, style, "case") {
            outcome.failures.push((case.name, format!("{style:?}: {error:#}")));
        }
        wire.world.broker.turn(wire.world.now).check_invariants();
    }
    outcome
}

#[test]
fn the_service_does_what_its_description_says_in_memory() {
    for style in STYLES {
        play(style, World::memory).assert_all_passed();
    }
}

#[test]
fn the_service_does_what_its_description_says_with_a_log() {
    let open = || {
        let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
        let options = Options::without_threads(disk, log::Settings::default());
        World::over(Broker::open(options, START).expect("the disk is empty").0)
    };
    for style in [STYLES[0], STYLES[5]] {
        play(style, open).assert_all_passed();
    }
}
