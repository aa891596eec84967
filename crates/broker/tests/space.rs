//! A full disk, with a log that is driven by hand.

use std::sync::Arc;

use lineshaft_broker::policy::{Rule, Rules, Setting};
use lineshaft_broker::{AddRefusal, Broker, Kick, Millis, NewJob, Options, Refusal, SessionId};

const NOW: Millis = Millis(1_000_000);

/// What the log's threads would do meanwhile.
fn work(broker: &Broker) {
    loop {
        broker.commit_step(NOW).expect("the log does not fail for want of room");
        broker.prepare_step().expect("a full disk is no failure");
        if !broker.reclaim_step(NOW).expect("nothing is damaged") {
            return;
        }
    }
}

/// Puts delayed jobs until there is no room; how many.
fn fill(broker: &Broker, session: SessionId) -> u64 {
    let job = NewJob { delay_s: 1000, ..NewJob::default() };
    let (mut puts, mut refusals) = (0, 0);
    while refusals < 5 {
        let mut turn = broker.turn(NOW);
        match (0..1000).try_for_each(|_| turn.put(session, job, b"x"[..].into()).map(|_| puts += 1))
        {
            Ok(()) => {}
            Err(AddRefusal::LogFull) => refusals += 1,
            Err(refusal) => panic!("{refusal}"),
        }
        drop(turn);
        work(broker);
    }
    puts
}

#[test]
fn a_kick_for_which_there_is_no_room_is_refused_before_it_begins() {
    let disk = Arc::new(log::FaultDisk::new(1, 16 << 20));
    let options = Options { disk, log: log::Settings::default(), clock: None };
    let broker = Broker::open(options, NOW).expect("the disk is empty").0;
    let session = broker.turn(NOW).open_session(0);
    let puts = fill(&broker, session);
    assert!(puts > 100_000, "{puts} jobs");
    let mut turn = broker.turn(NOW);
    assert!(matches!(turn.kick(session, u64::MAX), Err(Refusal::Full)));
    assert!(matches!(turn.kick(session, 1000), Ok(Kick::Done(1000, _))), "there is room for these");
    drop(turn);
    work(&broker);
}

#[test]
fn a_log_is_full_as_soon_as_jobs_of_ordinary_size_are_refused() {
    let disk = Arc::new(log::FaultDisk::new(1, 16 << 20));
    let options = Options { disk, log: log::Settings::default(), clock: None };
    let broker = Broker::open(options, NOW).expect("the disk is empty").0;
    let session = broker.turn(NOW).open_session(0);
    let put = |bytes: usize| {
        let put = broker.turn(NOW).put(session, NewJob::default(), vec![b'x'; bytes].into());
        work(&broker);
        put.map(|(id, _)| id)
    };
    assert!(!broker.is_full());
    let mut ids = Vec::new();
    while let Ok(id) = put(60_000) {
        ids.push(id);
    }
    assert!(ids.len() > 10, "{} jobs", ids.len());
    assert!(matches!(put(60_000), Err(AddRefusal::LogFull)));
    assert!(put(20).is_ok(), "there is room for small ones");
    assert!(broker.is_full());
    for id in ids {
        broker.turn(NOW).finish(session, id).expect("it is there");
        work(&broker);
    }
    assert!(!broker.is_full());
    assert!(put(60_000).is_ok());
}

#[test]
fn what_expires_while_the_disk_is_full_goes_its_way_and_the_log_does_not_fail() {
    let disk = log::FaultDisk::new(1, 16 << 20);
    let open = |now| {
        let disk = Arc::new(disk.clone());
        let options = Options { disk, log: log::Settings::default(), clock: None };
        Broker::open(options, now).expect("the log is whole").0
    };
    let broker = open(NOW);
    let old = Setting::ExpireTo(Some(b"old"[..].into()));
    broker.turn(NOW).set_policies(Rules(vec![Rule::new(["q"], [old])]));
    let (mut adds, mut refusals) = (0, 0);
    while refusals < 5 {
        let mut turn = broker.turn(NOW);
        let expires = Some(Millis(NOW.0 + 10));
        match (0..1000).try_for_each(|_| {
            turn.add(b"q", b"a body that takes some room"[..].into(), expires).map(|_| adds += 1)
        }) {
            Ok(()) => {}
            Err(AddRefusal::LogFull) => refusals += 1,
            Err(refusal) => panic!("{refusal}"),
        }
        drop(turn);
        work(&broker);
    }
    let later = Millis(NOW.0 + 11);
    loop {
        let more = broker.turn(later).advance();
        work(&broker);
        if !more {
            break;
        }
    }
    let moved = |broker: &Broker| {
        let turn = broker.turn(later);
        turn.check_invariants();
        turn.item_stats(b"old").map(|stats| stats.items)
    };
    assert_eq!(moved(&broker), Some(adds));
    // What the log had no room for expires again.
    broker.close(later).expect("the disk works");
    drop(broker);
    disk.restart();
    let broker = open(later);
    while broker.turn(later).advance() {
        work(&broker);
    }
    assert_eq!(moved(&broker), Some(adds));
}
