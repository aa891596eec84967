//! Tests the facts of queues in the log. The log writes only when a test calls `commit_step`.

use std::sync::Arc;

use lineshaft_broker::policy::{Rule, Rules, Setting};
use lineshaft_broker::{
    Answer, Body, Broker, Clearing, Event, Millis, NewJob, Options, Patience, ReadMode, Submit,
    Take, Turn,
};

const NOW: Millis = Millis(1_000_000);

fn open(disk: &log::FaultDisk) -> Broker {
    let disk = Arc::new(disk.clone());
    let options = Options::without_threads(disk, log::Settings::default());
    Broker::open(options, NOW).expect("the log is whole").0
}

/// Closes a broker, and opens it again.
fn reopen(disk: &log::FaultDisk, broker: Broker) -> Broker {
    broker.close(NOW).expect("the disk works");
    drop(broker);
    disk.restart();
    open(disk)
}

/// Does the work of the log's threads.
fn work(broker: &Broker) {
    loop {
        broker.commit_step(NOW).expect("the disk works");
        broker.prepare_step().expect("a full disk is no failure");
        if !broker.reclaim_step(NOW).expect("all segments can be read") {
            return;
        }
    }
}

/// Fills the log, so that it has no room for a fact. Nobody prepares segments while the turn lasts,
/// so the log stays full.
fn fill(turn: &mut Turn<'_>) {
    let session = turn.open_session(0);
    while turn.caller(session).put(NewJob::default(), vec![b'x'; 60_000].into()).value.is_ok() {}
    let mut limit = 0;
    while turn.caller(session).limit_queue(b"default", [limit + 1, 0, 0]).value.is_ok() {
        limit += 1;
    }
}

#[test]
fn a_dropped_queue_stays_away_and_another_stays() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    let session = turn.open_session(0);
    for name in [&b"kept"[..], b"dropped", b"used"] {
        let _ = turn.caller(session).create_queue(name);
        turn.caller(session).limit_queue(name, [1, 2, 3]).value.expect("it exists");
    }
    turn.caller(session).use_queue(b"used");
    turn.caller(session).put(NewJob::default(), b"x"[..].into()).value.expect("there is room");
    for name in [&b"dropped"[..], b"used"] {
        let dropped = turn.caller(session).drop_queue(name).value.expect("it exists");
        assert!(matches!(dropped, Some(Clearing::Done)));
    }
    assert!(turn.queue_stats(b"dropped").is_none());
    assert_eq!(turn.queue_stats(b"used").expect("a session uses it").ready, 0);
    drop(turn);
    let broker = reopen(&disk, broker);
    let turn = broker.turn(NOW);
    let names: Vec<&[u8]> = turn.queue_names().collect();
    assert_eq!(names, [&b"default"[..], b"kept"]);
    assert_eq!(turn.queue_facts(b"kept").expect("it exists").limits, [1, 2, 3]);
}

#[test]
fn a_drop_is_reported_when_it_is_durable() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let session = broker.turn(NOW).open_session(0);
    let _ = broker.turn(NOW).caller(session).create_queue(b"dropped");
    broker.commit_step(NOW).expect("the disk works");
    let Answer { value, after } = broker.turn(NOW).caller(session).drop_queue(b"dropped");
    assert_eq!(value, Ok(Some(Clearing::Done)), "no worker holds a job of it");
    assert!(!after.is_reached(broker.released()), "{after:?}");
    broker.commit_step(NOW).expect("the disk works");
    assert!(after.is_reached(broker.released()));
}

#[test]
fn a_removal_is_reported_when_it_is_durable_also_of_a_queue_in_use() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    let (reader, user) = (turn.open_reader_session(0), turn.open_session(0));
    turn.caller(user).use_queue(b"used");
    assert!(matches!(
        turn.caller(reader).read(b"used", ReadMode::Peek, Patience::None).value,
        Ok(Take::Nothing(_))
    ));
    drop(turn);
    broker.commit_step(NOW).expect("the disk works");
    let Answer { value, after } = broker.turn(NOW).caller(reader).remove_queue(b"used");
    assert_eq!(value, Clearing::Done, "it is empty");
    assert!(!after.is_reached(broker.released()), "{after:?}");
    broker.commit_step(NOW).expect("the disk works");
    assert!(after.is_reached(broker.released()));
}

#[test]
fn a_queue_with_limits_outlives_its_users() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    let session = turn.open_session(0);
    turn.caller(session).use_queue(b"limited");
    turn.caller(session).limit_queue(b"limited", [1, 2, 3]).value.expect("it exists");
    turn.close_session(session);
    let before = turn.queue_facts(b"limited");
    drop(turn);
    assert_eq!(reopen(&disk, broker).turn(NOW).queue_facts(b"limited"), before);
    assert!(before.expect("it is kept").kept);
}

#[test]
fn waiters_learn_of_a_burial_when_it_is_durable() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    let (client, worker) = (turn.open_worker_session(0), turn.open_session(0));
    let mut submit = |foreground| {
        let body = Body::from(&b"x"[..]);
        let submit =
            Submit { priority: None, due: None, unique: b"k", reducer: b"", body, foreground };
        turn.caller(client).submit(b"default", submit).value.expect("there is room")
    };
    let id = submit(false);
    assert_eq!(submit(true), id, "they are equal");
    drop(turn);
    broker.commit_step(NOW).expect("the disk works");
    let mut turn = broker.turn(NOW);
    let Take::Granted(_) = turn.caller(worker).take(Patience::None).value else {
        panic!("it is ready")
    };
    let buried = turn.caller(worker).bury(id, 5);
    buried.value.expect("it is held");
    let mut events = Vec::new();
    turn.take_events(0, &mut events);
    let [(_, Answer { value: Event::News { .. }, after })] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(*after, buried.after);
    assert!(!after.is_reached(broker.released()));
}

#[test]
fn queues_come_back_in_the_order_in_which_they_were_made() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let names: Vec<Vec<u8>> =
        (0..40).map(|number| format!("q{}", number * 7 % 40).into()).collect();
    let session = broker.turn(NOW).open_session(0);
    for name in &names {
        let _ = broker.turn(NOW).caller(session).create_queue(name);
    }
    let broker = reopen(&disk, broker);
    let turn = broker.turn(NOW);
    let found: Vec<&[u8]> = turn.queue_names().skip(1).collect();
    assert_eq!(found, names);
}

#[test]
fn a_removal_of_many_jobs_is_reported_when_all_of_it_is_durable() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    let reader = turn.open_reader_session(0);
    for _ in 0..2500 {
        turn.caller(reader).add(b"many", b"x"[..].into(), None).value.expect("there is room");
    }
    assert_eq!(turn.caller(reader).remove_queue(b"many").value, Clearing::Waiting);
    drop(turn);
    broker.commit_step(NOW).expect("the disk works");
    let mut events = Vec::new();
    let mut turn = broker.turn(NOW);
    while turn.advance() {}
    turn.take_events(0, &mut events);
    let [(session, Answer { value: Event::Cleared, after })] = events[..] else {
        panic!("{events:?}")
    };
    assert!(session == reader && !after.is_reached(broker.released()));
    drop(turn);
    broker.commit_step(NOW).expect("the disk works");
    assert!(after.is_reached(broker.released()));
    drop(broker);
    disk.crash();
    assert!(open(&disk).turn(NOW).queue_stats(b"many").is_none());
}

/// Puts a job into the child's parent, restarts the broker, and puts another job. Returns the
/// number of ready jobs in the child after each put.
fn child_feeds(disk: &log::FaultDisk, broker: Broker, child: &[u8]) -> [u64; 2] {
    let fed = |broker: &Broker| {
        let mut turn = broker.turn(NOW);
        let session = turn.open_session(0);
        turn.caller(session).add(b"p", b"x"[..].into(), None).value.expect("there is room");
        turn.queue_stats(child).map_or(0, |stats| stats.ready)
    };
    let before = fed(&broker);
    [before, fed(&reopen(disk, broker))]
}

#[test]
fn a_queue_that_a_rule_made_a_child_is_one_after_a_restart() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    let session = turn.open_session(0);
    let _ = turn.caller(session).create_queue(b"p+c");
    let _ = turn.set_policies(Rules(vec![Rule::new(["p+c"], [Setting::JobsMax(Some(1000))])]));
    let _ = turn.set_policies(Rules::default());
    drop(turn);
    assert_eq!(child_feeds(&disk, broker, b"p+c"), [1, 2]);
}

#[test]
fn a_child_that_a_rule_names_is_one_again_after_its_removal() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    let _ = turn.set_policies(Rules(vec![Rule::new(["p+c"], [Setting::JobsMax(Some(1000))])]));
    let (user, reader) = (turn.open_session(0), turn.open_reader_session(0));
    turn.caller(user).use_queue(b"p+c");
    assert_eq!(turn.caller(reader).remove_queue(b"p+c").value, Clearing::Done);
    drop(turn);
    assert_eq!(child_feeds(&disk, broker, b"p+c"), [1, 2]);
}

#[test]
fn a_child_made_while_the_log_had_no_room_is_logged_later() {
    let disk = log::FaultDisk::new(1, 16 << 20);
    let broker = open(&disk);
    let reader = broker.turn(NOW).open_reader_session(0);
    let mut refused = 0;
    while refused < 5 {
        let mut turn = broker.turn(NOW);
        let body = || vec![b'x'; 1000].into();
        let put = (0..200).try_for_each(|_| turn.caller(reader).add(b"bulk", body(), None).value);
        refused += u32::from(put.is_err());
        drop(turn);
        work(&broker);
    }
    let mut turn = broker.turn(NOW);
    let mut limit = 0;
    while turn.caller(reader).limit_queue(b"bulk", [limit + 1, 0, 0]).value.is_ok() {
        limit += 1;
    }
    let _ = turn.caller(reader).read(b"p+c", ReadMode::Peek, Patience::None);
    let _ = turn.caller(reader).flush(b"bulk");
    drop(turn);
    while broker.turn(NOW).advance() {
        work(&broker);
    }
    work(&broker);
    assert_eq!(child_feeds(&disk, broker, b"p+c"), [1, 2]);
}

#[test]
fn a_removal_writes_nothing_while_the_log_has_no_room() {
    let broker = open(&log::FaultDisk::new(1, 64 << 20));
    let mut turn = broker.turn(NOW);
    let (reader, user) = (turn.open_reader_session(0), turn.open_session(0));
    let _ = turn.caller(user).create_queue(b"kept");
    turn.caller(user).use_queue(b"used");
    fill(&mut turn);
    let before = turn.after_all();
    for number in 0..100 {
        // The log had no room for the facts of this queue either.
        let name = format!("q{number}").into_bytes();
        let _ = turn.caller(reader).read(&name, ReadMode::Peek, Patience::None);
        assert!(turn.queue_facts(&name).is_some_and(|facts| facts.kept));
        assert_eq!(turn.caller(reader).remove_queue(&name).value, Clearing::Done);
        let dropped = turn.caller(reader).drop_queue(b"used").value;
        assert_eq!(dropped, Ok(Some(Clearing::Done)));
    }
    assert_eq!(turn.caller(reader).remove_queue(b"kept").value, Clearing::Done);
    assert_eq!(turn.after_all(), before);
    assert!(turn.queue_facts(b"kept").is_none());
}

#[test]
fn a_removal_for_which_there_was_no_room_is_written_later() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    let reader = turn.open_reader_session(0);
    for name in [&b"again"[..], b"gone"] {
        let _ = turn.caller(reader).read(name, ReadMode::Peek, Patience::None);
    }
    fill(&mut turn);
    for name in [&b"again"[..], b"gone"] {
        assert_eq!(turn.caller(reader).remove_queue(name).value, Clearing::Done);
    }
    // The removal that is written later must not end this new queue.
    let _ = turn.caller(reader).read(b"again", ReadMode::Peek, Patience::None);
    drop(turn);
    work(&broker);
    let broker = reopen(&disk, broker);
    let turn = broker.turn(NOW);
    let names: Vec<&[u8]> = turn.queue_names().collect();
    assert_eq!(names, [&b"default"[..], b"again"]);
}
