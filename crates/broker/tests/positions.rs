//! Tests which position each reply waits for. The log writes only when a test tells it to.

use std::sync::Arc;

use lineshaft_broker::{
    Broker, Denied, Event, GrabOrder, Kick, Millis, NewJob, News, Options, Patience, PutRefusal,
    Read, ReadMode, State, Submit,
};

const NOW: Millis = Millis(1_000_000);

fn durable_broker() -> Broker {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let options = Options::without_threads(disk, log::Settings::default());
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
    let finished = turn.finish(session, id).expect("no session holds it");
    assert!(turn.queue_stats(b"q").is_none(), "with its last job the queue is gone");
    let Err(Denied(after)) = turn.pause(b"q", 9) else { panic!("nothing is there") };
    assert!(finished.is_reached(after), "a crash could bring the job back");
    // Another queue takes its place in the tables.
    turn.watch(session, b"other");
    turn.use_queue(session, b"q");
    let Ok(Kick::Done(0, after)) = turn.kick(session, 9) else { panic!("nothing is there") };
    assert!(finished.is_reached(after), "a crash could bring the job back");
    let Err(Denied(after)) = turn.peek_used(session, State::Ready) else {
        panic!("nothing is there")
    };
    assert!(finished.is_reached(after));
    drop(turn);
    broker.commit_step(NOW).expect("the disk works");
    assert!(after.is_reached(broker.released()), "the wait ends with the next group");
}

#[test]
fn the_end_of_a_wait_is_reported_when_the_end_of_the_last_item_is_durable() {
    let broker = durable_broker();
    let mut turn = broker.turn(NOW);
    let (reader, waiter) = (turn.open_reader_session(0), turn.open_reader_session(0));
    turn.add(b"q", b"x"[..].into(), None).expect("there is room");
    drop(turn);
    broker.commit_step(NOW).expect("the disk works");
    let mut turn = broker.turn(NOW);
    let taken = turn.read(reader, b"q", ReadMode::Finish, Patience::None);
    let Read::Item(item) = taken else { panic!("it was just added") };
    let waits = turn.read(waiter, b"q", ReadMode::Finish, Patience::Endless);
    assert!(matches!(waits, Read::Waiting));
    let after = turn.cancel_wait(waiter).expect("it waits");
    drop(turn);
    assert!(item.after.is_reached(after), "a crash could bring the item back");
    assert!(!after.is_reached(broker.released()));
    broker.commit_step(NOW).expect("the disk works");
    assert!(after.is_reached(broker.released()));
}

#[test]
fn facts_of_a_job_leave_when_the_job_is_durable() {
    let broker = durable_broker();
    let mut turn = broker.turn(NOW);
    let client = turn.open_worker_session(0);
    let mut submit = |foreground| {
        let body = b"x"[..].into();
        let submit =
            Submit { priority: 1024, due: None, unique: b"", reducer: b"", body, foreground };
        turn.submit(client, b"f", submit).expect("there is room")
    };
    let ((durable, submitted), (watched, _)) = (submit(false), submit(true));
    let (_, after) = turn.work_progress(durable).expect("it is there");
    assert!(submitted.is_reached(after));
    let (_, after) = turn.work_progress(watched).expect("it is there");
    assert!(after.is_reached(broker.released()), "it is in no log");
}

#[test]
fn a_full_queue_is_reported_when_its_jobs_are_durable() {
    let broker = durable_broker();
    let mut turn = broker.turn(NOW);
    let client = turn.open_worker_session(0);
    turn.create_queue(b"f");
    turn.limit_queue(b"f", [1; 3]).expect("it exists");
    let mut submit = || {
        let body = b"x"[..].into();
        let submit = Submit {
            priority: 1024,
            due: None,
            unique: b"",
            reducer: b"",
            body,
            foreground: false,
        };
        turn.submit(client, b"f", submit)
    };
    let (_, first) = submit().expect("one may be there");
    let Err(PutRefusal::QueueFull(after)) = submit() else { panic!("one is there") };
    assert!(first.is_reached(after));
}

#[test]
fn the_end_of_a_foreground_job_waits_for_no_durable_one() {
    let broker = durable_broker();
    let mut turn = broker.turn(NOW);
    let (client, worker) = (turn.open_worker_session(0), turn.open_worker_session(0));
    let mut submit = |foreground| {
        let body = b"x"[..].into();
        let submit =
            Submit { priority: 1024, due: None, unique: b"", reducer: b"", body, foreground };
        turn.submit(client, b"f", submit).expect("there is room").0
    };
    let (durable, watched) = (submit(false), submit(true));
    drop(turn);
    broker.commit_step(NOW).expect("the disk works");
    let mut turn = broker.turn(NOW);
    turn.register(worker, b"f", None);
    for id in [durable, watched] {
        let grabbed = turn.grab(worker, GrabOrder::NewestFirst).expect("it is ready");
        assert_eq!(grabbed.grant.id, id);
        turn.complete(worker, id, &News::Fail).expect("it is held");
    }
    let mut events = Vec::new();
    turn.take_events(0, &mut events);
    let [(_, Event::News { id, after, .. })] = &events[..] else { panic!("{events:?}") };
    assert!(*id == watched && after.is_reached(broker.released()));
}
