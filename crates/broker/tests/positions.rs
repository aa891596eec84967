//! What replies wait for, with a log that is driven by hand.

use std::sync::Arc;

use lineshaft_broker::{Broker, Kick, Millis, NewJob, Options, Refusal, State};

const NOW: Millis = Millis(1_000_000);

fn durable_broker() -> Broker {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let options = Options { disk, log: log::Settings::default(), clock: None };
    Broker::open(options, NOW).expect("the disk is empty").0
}

#[test]
fn a_denial_waits_for_the_end_of_a_queue_that_came_again() {
    let broker = durable_broker();
    let mut turn = broker.turn(NOW);
    let session = turn.open_session(0);
    turn.use_queue(session, b"q");
    let (id, _) = turn.put(session, NewJob::default(), b"x"[..].into()).expect("there is room");
    turn.use_queue(session, b"default");
    let finished = turn.finish(session, id).expect("nobody holds it");
    assert!(turn.queue_stats(b"q").is_none(), "with its last job the queue is gone");
    let Err(Refusal::NotFound(after)) = turn.pause(b"q", 9) else { panic!("nothing is there") };
    assert!(finished.is_reached(after), "a crash could bring the job back");
    // Another queue takes its place in the tables.
    turn.watch(session, b"other");
    turn.use_queue(session, b"q");
    let Ok(Kick::Done(0, after)) = turn.kick(session, 9) else { panic!("nothing is there") };
    assert!(finished.is_reached(after), "a crash could bring the job back");
    let Err(Refusal::NotFound(after)) = turn.peek_used(session, State::Ready) else {
        panic!("nothing is there")
    };
    assert!(finished.is_reached(after));
    drop(turn);
    broker.commit_step(NOW).expect("the disk works");
    assert!(after.is_reached(broker.released()), "the wait ends with the next group");
}
