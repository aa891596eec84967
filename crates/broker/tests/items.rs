//! Tests that items, policies and the status survive crashes. The log writes only when a test calls
//! `commit_step`.

use std::sync::Arc;

use engine::limits;
use lineshaft_broker::policy::{QueueSync, Rule, Rules, Setting, WhenFull};
use lineshaft_broker::{
    Answer, Blocked, Body, Broker, Clearing, LeaseId, Millis, Options, Patience, Position,
    PutRefusal, ReadMode, SessionId, Status, Take, Turn, When,
};

const NOW: Millis = Millis(1_000_000);

fn open_at(disk: &log::FaultDisk, now: Millis) -> Broker {
    let disk = Arc::new(disk.clone());
    let options = Options::without_threads(disk, log::Settings::default());
    Broker::open(options, now).expect("the log is whole").0
}

fn new_disk() -> log::FaultDisk {
    log::FaultDisk::new(1, 64 << 20)
}

/// Simulates a power failure, with or without a sync just before it, and opens the log again.
fn crash(disk: &log::FaultDisk, broker: Broker, synced: bool, now: Millis) -> Broker {
    if synced {
        broker.commit_step(now).expect("the disk works");
    }
    drop(broker);
    disk.crash();
    open_at(disk, now)
}

type Item = (Option<LeaseId>, Body);

fn read(
    turn: &mut Turn<'_>,
    session: SessionId,
    queue: &str,
    how: ReadMode,
) -> Answer<Option<Item>> {
    let read = turn.caller(session).read(queue.as_bytes(), how, Patience::None);
    read.map(|taken| {
        let (lease, body) = taken.expect("it can be read").item()?;
        Some((lease, body.resident().expect("it is in memory").clone()))
    })
}

fn open_one(turn: &mut Turn<'_>, session: SessionId, queue: &str) -> LeaseId {
    let item = read(turn, session, queue, ReadMode::Open { limit_ms: None }).value;
    item.and_then(|(lease, _)| lease).expect("there is an item")
}

fn add(turn: &mut Turn<'_>, queue: &str, body: &str) -> Position {
    let added = try_add(turn, queue.as_bytes(), body, None);
    added.value.expect("there is room");
    added.after
}

fn try_add(
    turn: &mut Turn<'_>,
    queue: &[u8],
    body: &str,
    expires: Option<When>,
) -> Answer<Result<(), PutRefusal>> {
    let session = turn.open_session(0);
    let added = turn.caller(session).add(queue, body.as_bytes().into(), expires);
    turn.close_session(session);
    added
}

/// Takes all items of a queue.
fn drain(broker: &Broker, queue: &str, now: Millis) -> Vec<String> {
    let mut turn = broker.turn(now);
    let session = turn.open_reader_session(0);
    let mut bodies = Vec::new();
    while let Some((_, body)) = read(&mut turn, session, queue, ReadMode::Finish).value {
        bodies.push(String::from_utf8(body.to_vec()).expect("tests put text"));
    }
    turn.check_invariants();
    bodies
}

fn rules<const N: usize>(rules: [Rule; N]) -> Rules {
    let rules = Rules(rules.into());
    rules.check().expect("rules that can be obeyed");
    rules
}

#[test]
fn a_child_more_than_a_parent_may_have_is_neither_made_nor_read() {
    let broker = open_at(&new_disk(), NOW);
    let mut turn = broker.turn(NOW);
    for number in 0..limits::CHILDREN_MAX {
        add(&mut turn, &format!("p+{number}"), "1");
    }
    let refused = try_add(&mut turn, b"p+more", "1", None);
    assert_eq!(refused.value, Err(PutRefusal::QueueFull));
    let reader = turn.open_reader_session(0);
    let read = turn.caller(reader).read(b"p+more", ReadMode::Finish, Patience::Endless);
    assert!(matches!(read.value, Err(Blocked)));
    assert!(turn.item_stats(b"p+more").is_none());
    add(&mut turn, "p+0", "2");
}

#[test]
fn open_reads_are_there_again_in_their_order_after_a_crash() {
    let disk = new_disk();
    let broker = open_at(&disk, NOW);
    let mut turn = broker.turn(NOW);
    let session = turn.open_reader_session(0);
    for body in ["1", "2", "3", "4"] {
        add(&mut turn, "q", body);
    }
    let leases = [(); 3].map(|()| open_one(&mut turn, session, "q"));
    turn.caller(session).confirm(leases[1]).value.expect("it is held");
    turn.caller(session).give_back_item(leases[2]).value.expect("it is held");
    drop(turn);
    let broker = crash(&disk, broker, true, NOW);
    assert!(broker.turn(NOW).item_queues().contains(&&b"q"[..]));
    assert_eq!(drain(&broker, "q", NOW), ["1", "3", "4"]);
}

#[test]
fn a_read_item_is_reported_when_its_end_is_durable() {
    let disk = new_disk();
    let broker = open_at(&disk, NOW);
    let mut turn = broker.turn(NOW);
    let session = turn.open_reader_session(0);
    let added = add(&mut turn, "q", "1");
    let item = read(&mut turn, session, "q", ReadMode::Finish);
    assert!(item.value.is_some());
    assert!(added.is_reached(item.after) && !item.after.is_reached(added));
    assert!(!item.after.is_reached(broker.released()));
    drop(turn);
    let broker = crash(&disk, broker, true, NOW);
    assert!(drain(&broker, "q", NOW).is_empty());
}

#[test]
fn every_crash_leaves_a_put_to_all_children_or_to_none() {
    let calls = {
        let disk = new_disk();
        feed_children(&disk);
        disk.calls()
    };
    let mut partial = 0;
    for call in 1..=calls {
        let disk = new_disk();
        disk.crash_at(call);
        feed_children(&disk);
        disk.crash();
        let broker = open_at(&disk, NOW);
        let counts = ["p", "p+a", "p+b"].map(|queue| drain(&broker, queue, NOW));
        assert_eq!(counts[0], counts[1], "crash at call {call}");
        assert_eq!(counts[0], counts[2], "crash at call {call}");
        partial += usize::from((1..10).contains(&counts[0].len()));
    }
    assert!(partial > 0, "some crashes happen in between");
}

/// Puts ten items into a parent with two children until the disk fails. Each item is in its own
/// group.
fn feed_children(disk: &log::FaultDisk) {
    let options = Options::without_threads(Arc::new(disk.clone()), log::Settings::default());
    let Ok((broker, _)) = Broker::open(options, NOW) else { return };
    let mut turn = broker.turn(NOW);
    let session = turn.open_reader_session(0);
    for child in ["p+a", "p+b"] {
        let _ = read(&mut turn, session, child, ReadMode::Peek);
    }
    drop(turn);
    for body in 0..10 {
        let before = broker.turn(NOW).log_stats().records_written;
        let added = try_add(&mut broker.turn(NOW), b"p", &body.to_string(), None);
        let Answer { value: Ok(()), after } = added else { return };
        let written = broker.turn(NOW).log_stats().records_written - before;
        assert!(written == 1 || body == 0, "{written} entries for one put");
        if broker.commit_step(NOW).is_err() || broker.prepare_step().is_err() {
            return;
        }
        assert!(after.is_reached(broker.released()));
    }
}

#[test]
fn children_are_children_still_after_a_crash_and_the_parent_need_not_be_there() {
    let disk = new_disk();
    let broker = open_at(&disk, NOW);
    assert!(drain(&broker, "p+a", NOW).is_empty());
    let broker = crash(&disk, broker, true, NOW);
    let mut turn = broker.turn(NOW);
    assert!(turn.item_stats(b"p").is_none());
    let created = turn.item_stats(b"p+a").expect("it is kept").created;
    assert_eq!(created, NOW);
    add(&mut turn, "p", "1");
    drop(turn);
    assert_eq!(drain(&broker, "p+a", NOW), ["1"]);
    let session = broker.turn(NOW).open_reader_session(0);
    assert!(broker.turn(NOW).caller(session).remove_queue(b"p+a").value == Clearing::Done);
    let broker = crash(&disk, broker, true, NOW);
    let mut turn = broker.turn(NOW);
    add(&mut turn, "p", "2");
    assert!(turn.item_stats(b"p+a").is_none());
}

#[test]
fn an_expiry_outlives_a_crash_and_what_moved_is_in_one_queue() {
    let disk = new_disk();
    let broker = open_at(&disk, NOW);
    let mut turn = broker.turn(NOW);
    let _ =
        turn.set_policies(rules([Rule::new(["q"], [Setting::ExpireTo(Some(b"old"[..].into()))])]));
    for (body, millis) in [("1", 10), ("2", 20)] {
        let expires = Some(When::At(Millis(NOW.0 + millis)));
        try_add(&mut turn, b"q", body, expires).value.expect("there is room");
    }
    drop(turn);
    let broker = crash(&disk, broker, true, NOW);
    let later = Millis(NOW.0 + 11);
    let turn = broker.turn(later);
    assert_eq!(turn.item_stats(b"old").map(|stats| stats.items), Some(1));
    assert_eq!(turn.item_stats(b"q").map(|stats| stats.items), Some(1));
    drop(turn);
    let broker = crash(&disk, broker, true, later);
    assert_eq!(drain(&broker, "q", later), ["2"]);
    assert_eq!(drain(&broker, "old", later), ["1"]);
}

#[test]
fn an_unlogged_expiry_happens_again_after_a_restart() {
    let disk = new_disk();
    let broker = open_at(&disk, NOW);
    let expires = Some(When::At(Millis(NOW.0 + 10)));
    try_add(&mut broker.turn(NOW), b"q", "1", expires).value.expect("there is room");
    broker.commit_step(NOW).expect("the disk works");
    let later = Millis(NOW.0 + 11);
    assert_eq!(broker.turn(later).item_stats(b"q").map(|stats| stats.expired), Some(1));
    let broker = crash(&disk, broker, false, later);
    assert!(drain(&broker, "q", later).is_empty());
}

#[test]
fn policies_and_the_status_are_in_force_again_before_anything_else() {
    let disk = new_disk();
    let broker = open_at(&disk, NOW);
    let policies = rules([
        Rule::new(["q*"], [Setting::JobsMax(Some(1))]),
        Rule::new(["alias"], [Setting::Alias([b"q1"[..].into()].into())]),
    ]);
    let mut turn = broker.turn(NOW);
    assert!(turn.set_policies(policies.clone()).after != Position::NONE);
    let set = turn.set_status(Status::ReadOnly, 0);
    assert!(set.after != Position::NONE);
    drop(turn);
    let broker = crash(&disk, broker, true, NOW);
    let mut turn = broker.turn(NOW);
    assert_eq!((turn.policies(), turn.status()), (&policies, Status::ReadOnly));
    assert!(turn.writes_blocked() && try_add(&mut turn, b"q1", "", None).value.is_err());
    assert_eq!(turn.set_policies(policies).after, Position::NONE, "nothing new");
    let _ = turn.set_status(Status::Up, 0);
    add(&mut turn, "alias", "1");
    assert!(try_add(&mut turn, b"q1", "", None).value.is_err(), "it is full");
    drop(turn);
    let broker = crash(&disk, broker, true, NOW);
    assert_eq!(broker.turn(NOW).status(), Status::Up);
    assert_eq!(drain(&broker, "q1", NOW), ["1"]);
}

#[test]
fn items_of_a_queue_in_memory_end_with_the_process_and_wait_for_nothing() {
    let disk = new_disk();
    let broker = open_at(&disk, NOW);
    let mut turn = broker.turn(NOW);
    let memory = Setting::Sync(Some(QueueSync::Memory));
    let _ = turn.set_policies(rules([Rule::new(["m", "p+m"], [memory])]));
    let session = turn.open_reader_session(0);
    let _ = read(&mut turn, session, "p+m", ReadMode::Peek);
    let _ = read(&mut turn, session, "m", ReadMode::Peek);
    assert_eq!(add(&mut turn, "m", "1"), Position::NONE);
    assert!(add(&mut turn, "p", "2") != Position::NONE);
    let item = read(&mut turn, session, "p+m", ReadMode::Finish);
    assert!(item.value.is_some(), "it was fed");
    assert_eq!(item.after, Position::NONE);
    let lease = open_one(&mut turn, session, "m");
    assert_eq!(turn.caller(session).confirm(lease), Answer::at_once(Ok(())));
    add(&mut turn, "m", "3");
    drop(turn);
    let broker = crash(&disk, broker, true, NOW);
    assert!(drain(&broker, "m", NOW).is_empty());
    assert_eq!(drain(&broker, "p", NOW), ["2"]);
}

#[test]
fn queues_may_be_more_or_less_durable_than_the_log() {
    use std::time::Duration;
    let strict = Setting::Sync(Some(QueueSync::Always));
    let weak = Setting::Sync(Some(QueueSync::Never));
    let timed = Setting::Sync(Some(QueueSync::Every(200)));
    for sync in [log::Sync::Always, log::Sync::Never, log::Sync::Every(Duration::from_secs(9))] {
        let disk = new_disk();
        let settings = log::Settings { sync, ..log::Settings::default() };
        let options = Options::without_threads(Arc::new(disk.clone()), settings);
        let broker = Broker::open(options, NOW).expect("the disk is empty").0;
        let queues = ["strict", "weak", "timed"].into_iter().zip([
            strict.clone(),
            weak.clone(),
            timed.clone(),
        ]);
        let policies = queues.map(|(name, setting)| Rule::new([name], [setting]));
        let _ = broker.turn(NOW).set_policies(Rules(policies.collect()));
        let later = Millis(NOW.0 + 1000);
        while broker.commit_step(later).expect("the disk works").wrote {}
        broker.commit_step(Millis(NOW.0 + 20_000)).expect("the disk works");
        let now = Millis(NOW.0 + 30_000);

        let weak = add(&mut broker.turn(now), "weak", "1");
        assert!(!weak.is_reached(broker.released()), "{sync:?}");
        let done = broker.commit_step(now).expect("the disk works");
        assert_eq!(done.synced, sync == log::Sync::Always, "no request needs more");
        assert!(weak.is_reached(broker.released()), "{sync:?}");

        let strict = add(&mut broker.turn(now), "strict", "2");
        let done = broker.commit_step(now).expect("the disk works");
        assert!(done.synced && strict.is_reached(broker.released()), "{sync:?}");

        add(&mut broker.turn(now), "timed", "3");
        let done = broker.commit_step(now).expect("the disk works");
        assert_eq!(done.synced, sync == log::Sync::Always);
        let early = broker.commit_step(Millis(now.0 + 199)).expect("the disk works");
        assert!(!early.synced, "{sync:?}");
        let late = broker.commit_step(Millis(now.0 + 200)).expect("the disk works");
        assert_eq!(late.synced, sync != log::Sync::Always);

        let mut turn = broker.turn(now);
        let session = turn.open_reader_session(0);
        let item = read(&mut turn, session, "strict", ReadMode::Finish);
        let none = read(&mut turn, session, "strict", ReadMode::Finish);
        assert!(item.value.is_some() && none.value.is_none());
        drop(turn);
        assert!(!none.after.is_reached(broker.released()));
        let done = broker.commit_step(now).expect("the disk works");
        assert!(done.synced && item.after.is_reached(broker.released()), "{sync:?}");
    }
}

#[test]
fn a_reply_that_need_only_be_written_does_not_wait_for_the_sync() {
    let disk = new_disk();
    let broker = open_at(&disk, NOW);
    let weak = Setting::Sync(Some(QueueSync::Never));
    let _ = broker.turn(NOW).set_policies(rules([Rule::new(["weak"], [weak])]));
    add(&mut broker.turn(NOW), "weak", "1");
    broker.commit_step(NOW).expect("the disk works");
    let weak = add(&mut broker.turn(NOW), "weak", "2");
    let strict = add(&mut broker.turn(NOW), "strict", "3");
    // The next call of the disk is a write. The call after the write is a sync, which fails.
    disk.fail_at(disk.calls() + 2);
    broker.commit_step(NOW).expect_err("the sync fails");
    assert!(weak.is_reached(broker.released()) && !strict.is_reached(broker.released()));
}

#[test]
fn a_job_that_moved_and_ended_in_one_turn_leaves_nothing_behind() {
    let disk = new_disk();
    let broker = open_at(&disk, NOW);
    let drop_oldest = Setting::WhenFull(lineshaft_broker::policy::WhenFull::DropOldest);
    let memory = Setting::Sync(Some(QueueSync::Memory));
    let _ = broker.turn(NOW).set_policies(rules([
        Rule::new(["q", "m"], [Setting::ExpireTo(Some(b"old"[..].into()))]),
        Rule::new(["m"], [memory]),
        Rule::new(["old"], [Setting::JobsMax(Some(1)), drop_oldest]),
    ]));
    let expires = Some(When::At(Millis(NOW.0 + 10)));
    for queue in [&b"q"[..], b"m"] {
        for body in ["1", "2", "3"] {
            try_add(&mut broker.turn(NOW), queue, body, expires).value.expect("there is room");
        }
    }
    let mut turn = broker.turn(NOW);
    let session = turn.open_reader_session(0);
    let limit = ReadMode::Open { limit_ms: Some(11) };
    read(&mut turn, session, "q", limit).value.expect("it is there");
    drop(turn);
    broker.commit_step(NOW).expect("the disk works");
    let later = Millis(NOW.0 + 11);
    while broker.turn(later).advance() {}
    broker.turn(later).check_invariants();
    let broker = crash(&disk, broker, true, later);
    assert_eq!(drain(&broker, "old", later).len(), 1);
    assert!(drain(&broker, "q", later).is_empty());
}

#[test]
fn a_queue_is_empty_when_the_end_of_what_left_it_is_durable() {
    let disk = new_disk();
    let broker = open_at(&disk, NOW);
    let later = Millis(NOW.0 + 20);
    let _ = broker.turn(NOW).set_policies(rules([
        Rule::new(["1", "2"], [Setting::ExpireTo(Some(b"old"[..].into()))]),
        Rule::new(["old"], [Setting::JobsMax(Some(1)), Setting::WhenFull(WhenFull::DropOldest)]),
    ]));
    for queue in [b"1", b"2"] {
        let expires = Some(When::At(Millis(NOW.0 + 10)));
        try_add(&mut broker.turn(NOW), queue, "x", expires).value.expect("there is room");
    }
    broker.commit_step(NOW).expect("the disk works");
    // Two items move to a queue that has room for only one item. The item that arrives last
    // replaces the other item.
    while broker.turn(later).advance() {}
    let mut turn = broker.turn(later);
    let session = turn.open_reader_session(0);
    for queue in [b"1", b"2"] {
        let Answer { value, after } =
            turn.caller(session).read(queue, ReadMode::Peek, Patience::None);
        assert!(matches!(value, Ok(Take::Nothing(_))), "it expired");
        assert!(!after.is_reached(broker.released()), "a crash could bring it back");
    }
}

#[test]
fn a_server_that_is_emptied_takes_no_new_items_and_gives_out_the_old_ones() {
    let disk = new_disk();
    let broker = open_at(&disk, NOW);
    add(&mut broker.turn(NOW), "q", "old");
    broker.drain();
    let mut turn = broker.turn(NOW);
    let session = turn.open_reader_session(0);
    let refused = try_add(&mut turn, b"q", "new", None);
    assert_eq!(refused.value, Err(PutRefusal::Draining));
    let lease = open_one(&mut turn, session, "q");
    turn.caller(session).confirm(lease).value.expect("it is held");
    assert!(turn.caller(session).flush(b"q").value == Clearing::Done);
    assert!(turn.caller(session).remove_queue(b"q").value == Clearing::Done);
}
