//! Plays the conformance cases against the dialect in this process, on simulated time, in all
//! styles of encoding.

use std::sync::Arc;

use broker::{Broker, Options};
use lineshaft_kestrel::ServerOptions;
use testkit::conformance::suite::play_in_process;
use testkit::conformance::thrift::codec::{STYLES, Style};
use testkit::conformance::thrift::read_cases;
use testkit::dialect::world::{InProcess, START, World};

use crate::world::{connect, server, with_log};
use testkit::conformance::policies::rules;

/// Plays the cases. Returns the number of times that an item became cold.
fn play(styles: &[Style], open: impl Fn() -> World) -> u64 {
    let cases = read_cases(styles).expect("the corpus is readable");
    let outcome = play_in_process(&cases, |_| {
        let world = open();
        let _ = world.broker.turn(world.now).set_policies(rules());
        let server = server(ServerOptions::default());
        let connect = move |world: &mut World, _: Option<&str>| connect(&server, world);
        InProcess { world, connect }
    });
    outcome.assert_all_passed("the dialect");
    outcome.cooled
}

#[test]
fn the_service_does_what_its_description_says_in_memory() {
    play(&STYLES, World::memory);
}

#[test]
fn the_service_does_what_its_description_says_with_a_log() {
    play(&[STYLES[0], STYLES[5]], || {
        let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
        let options = Options::without_threads(disk, log::Settings::default());
        World::over(Broker::open(options, START).expect("the disk is empty").0)
    });
}

#[test]
fn the_service_does_what_its_description_says_with_cold_items() {
    let cooled = play(&[STYLES[0], STYLES[5]], || World::cold(with_log()));
    assert!(cooled > 50, "{cooled} items became cold");
}
