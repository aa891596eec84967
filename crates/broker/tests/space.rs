//! A full disk, with a log that is driven by hand.

use std::sync::Arc;

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
