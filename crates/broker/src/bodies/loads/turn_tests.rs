//! Tests that each turn of a thread that loads jobs, or makes them cold, is short.

use std::sync::Arc;

use engine::{JobList, NewJob, Patience, State};

use super::*;
use crate::cold::upkeep::CoolPass;
use crate::{Broker, Options};

const NOW: Millis = Millis(1_000_000);

/// Opens a broker without threads, and puts this many jobs into the default queue.
fn with_jobs(count: u32, change: impl FnOnce(Options) -> Options) -> Broker {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let log = log::Settings { segment_bytes: 256 << 10, ..log::Settings::default() };
    let options = change(Options::without_threads(disk, log));
    let broker = Broker::open(options, NOW).expect("the disk is empty").0;
    let session = broker.turn(NOW).open_session(0);
    for number in 1..=count {
        let put = broker.turn(NOW).caller(session).put(NewJob::default(), b"a body"[..].into());
        put.value.expect("there is room");
        if number % 100 == 0 {
            broker.commit_step(NOW).expect("the disk works");
            broker.prepare_step().expect("the disk works");
        }
    }
    broker
}

fn default_queue(broker: &Broker) -> QueueId {
    broker.turn(NOW).core.engine.own_queue_id(b"default").expect("it has jobs")
}

/// How much a number changes in turns.
#[derive(Debug, Default)]
struct Changes {
    turns: u64,
    total: u64,
    /// The largest change in one turn.
    largest: u64,
}

/// Runs `work`, and notes how much a number changes in its turns.
fn watch(
    broker: &Broker,
    number: impl Fn(&Core) -> u64,
    work: impl FnOnce(&mut WithCore<'_>),
) -> Changes {
    let mut changes = Changes::default();
    work(&mut |act| {
        let mut turn = broker.turn(NOW);
        let before = number(&turn.core);
        act(&mut turn.core);
        let change = before.abs_diff(number(&turn.core));
        changes.turns += 1;
        changes.total += change;
        changes.largest = changes.largest.max(change);
    });
    changes
}

#[test]
fn a_turn_makes_few_jobs_cold_and_loads_few_cold_jobs() {
    let broker =
        with_jobs(6000, |options| Options { jobs_bytes_max: Some(0), head_jobs: 100, ..options });
    let shared = &*broker.shared;
    let log = shared.log.as_ref().expect("there is a log");
    while log.index_step().expect("the disk works").is_some() {}
    let cold_jobs = |core: &Core| core.engine.cold_jobs();
    let mut pass = CoolPass::default();
    let cooled =
        watch(&broker, cold_jobs, |with_core| while shared.cool_step(&mut pass, with_core) {});
    assert!(cooled.total > 2000, "{cooled:?}");
    assert!(cooled.largest <= TURN_JOBS as u64, "{cooled:?}");

    let list = JobList { queue: default_queue(&broker), state: State::Ready };
    let loaded = watch(&broker, cold_jobs, |with_core| {
        shared.load_cold(ColdLoad::List(list), log, &mut shared.reader(), with_core);
    });
    assert!(loaded.total > 2000, "{loaded:?}");
    assert!(loaded.largest <= TURN_JOBS as u64, "{loaded:?}");
    broker.turn(NOW).check_invariants();
}

#[test]
fn a_turn_looks_for_few_bodies_and_keeps_few_that_were_loaded() {
    let broker = with_jobs(4000, |options| Options { bodies_bytes_max: Some(0), ..options });
    let shared = &*broker.shared;
    let log = shared.log.as_ref().expect("there is a log");
    while broker.turn(NOW).log_stats().stored_jobs < 4000 {}
    broker.set_bodies_limit(None);
    let stored = |core: &Core| core.ledger.locations.stored();
    let queue = default_queue(&broker);
    let mut reader = BodyReader::default();

    let session = broker.turn(NOW).open_session(0);
    let take = || broker.turn(NOW).caller(session).take(Patience::None).value.granted();
    let handouts: Vec<_> = (0..1000).map(|_| take().expect("there are more")).collect();
    let taken = watch(&broker, stored, |with_core| {
        shared.load_line(Some(queue), &mut reader, with_core);
    });
    assert!(handouts.iter().all(|handout| handout.body.resident().is_some()));
    assert_eq!(taken.total, 1000);
    assert!(taken.largest <= TURN_JOBS as u64, "{taken:?}");

    let ahead = watch(&broker, stored, |with_core| {
        shared.load_ahead(queue, log, &mut reader, with_core);
        shared.load_ahead(queue, log, &mut reader, with_core);
    });
    assert!(ahead.total > 2000, "{ahead:?}");
    assert!(ahead.largest <= TURN_JOBS as u64, "{ahead:?}");
    assert!(ahead.turns > 2 * ahead.total / TURN_JOBS as u64, "the looks are divided: {ahead:?}");
    broker.turn(NOW).check_invariants();
}
