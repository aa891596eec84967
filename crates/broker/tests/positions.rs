//! Tests which position each reply waits for. The log writes only when a test calls `commit_step`.

use std::sync::Arc;

use lineshaft_broker::{
    Answer, Broker, Event, GrabOrder, Kick, Millis, NewJob, News, Options, Patience, PutRefusal,
    ReadMode, State, Submit, Take,
};

use lineshaft_broker::policy::{DeadTarget, Rule, Rules, Setting};

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
    turn.caller(session).use_queue(b"q");
    let id =
        turn.caller(session).put(NewJob::default(), b"x"[..].into()).value.expect("there is room");
    turn.caller(session).use_queue(b"default");
    let Answer { value: Ok(()), after: finished } = turn.caller(session).finish(id) else {
        panic!("no session holds it")
    };
    assert!(turn.queue_stats(b"q").is_none(), "with its last job the queue is gone");
    let denied = turn.caller(session).pause(b"q", 9);
    denied.value.expect_err("nothing is there");
    assert!(finished.is_reached(denied.after), "a crash could bring the job back");
    // Another queue gets the removed queue's number.
    turn.caller(session).watch(b"other");
    turn.caller(session).use_queue(b"q");
    let kicked = turn.caller(session).kick(9);
    assert_eq!(kicked.value, Ok(Kick::Done(0)), "nothing is there");
    assert!(finished.is_reached(kicked.after), "a crash could bring the job back");
    let Answer { value, after } = turn.caller(session).peek_used(State::Ready);
    value.expect_err("nothing is there");
    assert!(finished.is_reached(after));
    drop(turn);
    broker.commit_step(NOW).expect("the disk works");
    assert!(after.is_reached(broker.released()), "the wait ends with the next group");
}

#[test]
fn a_release_that_ends_a_job_waits_for_the_end() {
    for dead in [Setting::DeadQueue(DeadTarget::Drop), Setting::DeadJobsMax(0)] {
        let broker = durable_broker();
        let mut turn = broker.turn(NOW);
        let settings = [Setting::Retries(true), Setting::RetryLimit(0), dead];
        let _ = turn.set_policies(Rules(vec![Rule::new(["default"], settings)]));
        let session = turn.open_session(0);
        let put = turn.caller(session).put(NewJob::default(), b"x"[..].into());
        let id = put.value.expect("there is room");
        let taken = turn.caller(session).take_job(id);
        taken.value.expect("it is ready");
        let Answer { value: Ok(()), after } = turn.caller(session).give_back(id, 0, 0) else {
            panic!("the session holds it")
        };
        assert!(turn.job_status(id).value.is_err(), "the policy ended it");
        drop(turn);
        assert!(!after.is_reached(broker.released()), "a crash could bring the job back");
        broker.commit_step(NOW).expect("the disk works");
        assert!(after.is_reached(broker.released()));
    }
}

#[test]
fn a_job_with_a_durable_lease_leaves_when_the_log_has_its_take() {
    for (is_durable, takes) in [(true, 1), (false, 0)] {
        let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
        let options = || Options::without_threads(disk.clone(), log::Settings::default());
        let broker = Broker::open(options(), NOW).expect("the disk is empty").0;
        let mut turn = broker.turn(NOW);
        let durable = Setting::DurableLeases(is_durable);
        let _ = turn.set_policies(Rules(vec![Rule::new(["default"], [durable])]));
        let session = turn.open_session(0);
        let put = turn.caller(session).put(NewJob::default(), b"x"[..].into());
        let id = put.value.expect("there is room");
        drop(turn);
        broker.commit_step(NOW).expect("the disk works");

        let mut turn = broker.turn(NOW);
        let taken = turn.caller(session).take(Patience::None);
        assert!(matches!(taken.value, Take::Granted(_)), "it is ready");
        drop(turn);
        assert_eq!(taken.after.is_reached(broker.released()), !is_durable);
        broker.commit_step(NOW).expect("the disk works");
        assert!(taken.after.is_reached(broker.released()));

        disk.crash();
        drop(broker);
        disk.restart();
        let broker = Broker::open(options(), NOW).expect("the log is whole").0;
        let facts = broker.turn(NOW).job_status(id).value.expect("it was not finished").facts;
        assert_eq!((facts.state, facts.counters.takes), (State::Ready, takes));
    }
}

#[test]
fn a_full_disk_delays_no_take_with_a_durable_lease() {
    let disk = Arc::new(log::FaultDisk::new(1, 1 << 20));
    let log = log::Settings { segment_bytes: 64 << 10, ..log::Settings::default() };
    let options = Options::without_threads(disk, log);
    let broker = Broker::open(options, NOW).expect("the disk is empty").0;
    let mut turn = broker.turn(NOW);
    let durable = Setting::DurableLeases(true);
    let _ = turn.set_policies(Rules(vec![Rule::new(["default"], [durable])]));
    let session = turn.open_session(0);
    drop(turn);
    let put = || {
        let body = vec![b'x'; 1000].into();
        let put = broker.turn(NOW).caller(session).put(NewJob::default(), body).value;
        broker.commit_step(NOW).expect("the disk works");
        put.ok()
    };
    let puts = std::iter::from_fn(put).count();
    assert!(puts > 0);
    for _ in 0..puts {
        let Take::Granted(handout) = broker.turn(NOW).caller(session).take(Patience::None).value
        else {
            panic!("a job is left")
        };
        let finished = broker.turn(NOW).caller(session).finish(handout.id);
        finished.value.expect("the session holds it");
        broker.commit_step(NOW).expect("the disk works");
        assert!(finished.after.is_reached(broker.released()));
    }
}

#[test]
fn the_end_of_a_wait_is_reported_when_the_end_of_the_last_item_is_durable() {
    let broker = durable_broker();
    let mut turn = broker.turn(NOW);
    let (reader, waiter) = (turn.open_reader_session(0), turn.open_reader_session(0));
    turn.caller(reader).add(b"q", b"x"[..].into(), None).value.expect("there is room");
    drop(turn);
    broker.commit_step(NOW).expect("the disk works");
    let mut turn = broker.turn(NOW);
    let taken = turn.caller(reader).read(b"q", ReadMode::Finish, Patience::None);
    let Ok(Take::Finished { .. }) = taken.value else { panic!("it was just added") };
    let waits = turn.caller(waiter).read(b"q", ReadMode::Finish, Patience::Endless);
    assert!(matches!(waits.value, Ok(Take::Waiting)));
    let Answer { value: waited, after } = turn.caller(waiter).cancel_wait();
    drop(turn);
    assert!(waited && taken.after.is_reached(after), "a crash could bring the item back");
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
            Submit { priority: None, due: None, unique: b"", reducer: b"", body, foreground };
        turn.caller(client).submit(b"f", submit)
    };
    let (durable, watched) = (submit(false), submit(true));
    let progress = turn.work_progress(durable.value.expect("there is room"));
    assert!(progress.value.is_ok() && durable.after.is_reached(progress.after));
    let progress = turn.work_progress(watched.value.expect("there is room"));
    assert!(
        progress.value.is_ok() && progress.after.is_reached(broker.released()),
        "it is in no log"
    );
}

#[test]
fn a_full_queue_is_reported_when_its_jobs_are_durable() {
    let broker = durable_broker();
    let mut turn = broker.turn(NOW);
    let client = turn.open_worker_session(0);
    let _ = turn.caller(client).create_queue(b"f");
    turn.caller(client).limit_queue(b"f", [1; 3]).value.expect("it exists");
    let mut submit = || {
        let body = b"x"[..].into();
        let submit = Submit {
            priority: None,
            due: None,
            unique: b"",
            reducer: b"",
            body,
            foreground: false,
        };
        turn.caller(client).submit(b"f", submit)
    };
    let (first, second) = (submit(), submit());
    assert!(first.value.is_ok(), "one may be there");
    assert_eq!(second.value, Err(PutRefusal::QueueFull));
    assert!(first.after.is_reached(second.after));
}

#[test]
fn the_end_of_a_foreground_job_waits_for_no_durable_one() {
    let broker = durable_broker();
    let mut turn = broker.turn(NOW);
    let (client, worker) = (turn.open_worker_session(0), turn.open_worker_session(0));
    let mut submit = |foreground| {
        let body = b"x"[..].into();
        let submit =
            Submit { priority: None, due: None, unique: b"", reducer: b"", body, foreground };
        turn.caller(client).submit(b"f", submit).value.expect("there is room")
    };
    let (durable, watched) = (submit(false), submit(true));
    drop(turn);
    broker.commit_step(NOW).expect("the disk works");
    let mut turn = broker.turn(NOW);
    turn.caller(worker).register(b"f", None);
    for id in [durable, watched] {
        let mut caller = turn.caller(worker);
        let taken = caller.take_registered(GrabOrder::NewestFirst).value.expect("it is ready");
        assert_eq!(taken.handout.id, id);
        caller.complete(id, &News::Fail).value.expect("it is held");
    }
    let mut events = Vec::new();
    turn.take_events(0, &mut events);
    let [(_, Answer { value: Event::News { id, .. }, after })] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(*id == watched && after.is_reached(broker.released()));
}
