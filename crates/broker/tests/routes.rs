//! Tests requests that move or copy jobs. The broker refuses such a request if the log has no room.
//! Replies wait for the entries of moves and copies.

use std::sync::Arc;

use lineshaft_broker::policy::{OnDuplicate, QueueSync, Rule, Rules, Setting, WhenFull};
use lineshaft_broker::{
    Answer, Body, Broker, Clearing, EngineSetup, Event, GrabOrder, Millis, Missing, NewJob, News,
    Options, Patience, PutRefusal, ReadMode, Submit, Take, When,
};

const NOW: Millis = Millis(1_000_000);

fn later(ms: u64) -> Millis {
    Millis(NOW.0 + ms)
}

fn open(disk: &log::FaultDisk) -> Broker {
    let disk = Arc::new(disk.clone());
    let options = Options::without_threads(disk, log::Settings::default());
    Broker::open(options, NOW).expect("the log is whole").0
}

/// Does the work that a server's threads would have done by now.
fn work(broker: &Broker, now: Millis) {
    loop {
        broker.commit_step(now).expect("the disk has the room that was promised");
        broker.prepare_step().expect("a full disk is no failure");
        if !broker.reclaim_step(now).expect("all segments can be read") {
            return;
        }
    }
}

/// Puts jobs until the log has no room.
fn fill(broker: &Broker) {
    let session = broker.turn(NOW).open_session(0);
    let mut refused = 0;
    while refused < 5 {
        let mut turn = broker.turn(NOW);
        let mut caller = turn.caller(session);
        let outcome = (0..200).try_for_each(|_| caller.add(b"bulk", body(1000), None).value);
        refused += u32::from(outcome == Err(PutRefusal::LogFull));
        drop(turn);
        work(broker, NOW);
    }
}

fn body(bytes: usize) -> Body {
    vec![b'x'; bytes].into()
}

fn name(name: &str) -> Box<[u8]> {
    name.as_bytes().into()
}

fn rules<const N: usize>(rules: [Rule; N]) -> Rules {
    let rules = Rules(rules.into());
    rules.check().expect("rules that can be obeyed");
    rules
}

#[test]
fn a_body_that_is_too_large_is_refused_as_such() {
    let broker = open(&log::FaultDisk::new(1, 64 << 20));
    let mut turn = broker.turn(NOW);
    let _ = turn.set_policies(rules([Rule::new(["f"], [Setting::ItemBytesMax(Some(9))])]));
    let client = turn.open_worker_session(0);
    for foreground in [false, true] {
        let submit = Submit {
            priority: None,
            due: None,
            unique: b"",
            reducer: b"",
            body: body(10),
            foreground,
        };
        assert_eq!(turn.caller(client).submit(b"f", submit).value, Err(PutRefusal::TooBig));
    }
}

#[test]
fn copies_of_foreground_jobs_need_room() {
    let disk = log::FaultDisk::new(1, 16 << 20);
    let broker = open(&disk);
    let copied = Setting::CopyTo([name("audit")].into());
    let _ = broker.turn(NOW).set_policies(rules([Rule::new(["f"], [copied])]));
    fill(&broker);
    let mut turn = broker.turn(NOW);
    let session = turn.open_session(0);
    for function in [b"f", b"g"] {
        turn.caller(session).register(function, None);
    }
    drop(turn);
    let submit = Submit {
        priority: Some(5),
        due: None,
        unique: b"",
        reducer: b"",
        body: body(1000),
        foreground: true,
    };
    for _ in 0..3_000 {
        let mut turn = broker.turn(NOW);
        let refused = turn.caller(session).submit(b"f", submit.clone()).value.err();
        assert_eq!(refused, Some(PutRefusal::LogFull));
        // This foreground job has no copies in other queues, so it is only in memory.
        let id = turn.caller(session).submit(b"g", submit.clone()).value.expect("it takes no room");
        turn.caller(session)
            .take_registered(GrabOrder::NewestFirst)
            .value
            .expect("it was just submitted");
        turn.caller(session)
            .complete(id, &News::Complete(body(0)))
            .value
            .expect("it was just taken");
        drop(turn);
        work(&broker, NOW);
    }
}

#[test]
fn a_job_of_memory_stays_one_wherever_it_goes() {
    let disk = log::FaultDisk::new(1, 16 << 20);
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    let in_memory = Setting::Sync(Some(QueueSync::Memory));
    let moved = Setting::ExpireTo(Some(name("late")));
    let _ = turn
        .set_policies(rules([Rule::new(["m"], [in_memory, Setting::AgeMax(Some(1000)), moved])]));
    let session = turn.open_session(0);
    for _ in 0..40_000 {
        turn.caller(session).add(b"m", body(1000), None).value.expect("memory is not the log");
    }
    drop(turn);
    loop {
        let more = broker.turn(later(2000)).advance();
        work(&broker, later(2000));
        if !more {
            break;
        }
    }
    let stats = broker.turn(later(2000)).item_stats(b"late").expect("it has jobs");
    assert_eq!(stats.items, 40_000);
    drop(broker);
    disk.restart();
    assert!(open(&disk).turn(NOW).item_stats(b"late").is_none_or(|stats| stats.items == 0));
}

#[test]
fn a_flush_that_moves_jobs_is_answered_when_they_are_moved_for_good() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    let settings = [Setting::ExpireTo(Some(name("old"))), Setting::ExpireSweep(Some(1))];
    let _ = turn.set_policies(rules([Rule::new(["q"], settings)]));
    let session = turn.open_reader_session(0);
    for _ in 0..5 {
        turn.caller(session)
            .add(b"q", body(3), Some(When::At(later(10))))
            .value
            .expect("there is room");
    }
    drop(turn);
    broker.turn(later(20)).advance();
    broker.commit_step(later(20)).expect("the disk works");
    let mut turn = broker.turn(later(21));
    let Answer { value, after } = turn.caller(session).flush(b"q");
    assert_eq!(value, Clearing::Done, "a few jobs go at once");
    assert!(matches!(after.missing(broker.released()), Some(Missing::Durable(_))));
}

#[test]
fn a_denial_waits_until_the_job_s_move_is_as_durable_as_its_queue() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    let weak = Setting::Sync(Some(QueueSync::Never));
    let _ = turn.set_policies(rules([
        Rule::new(["q"], [Setting::ExpireTo(Some(name("old")))]),
        Rule::new(["old"], [weak]),
    ]));
    let session = turn.open_reader_session(0);
    turn.caller(session)
        .add(b"q", body(3), Some(When::At(later(10))))
        .value
        .expect("there is room");
    drop(turn);
    broker.commit_step(NOW).expect("the disk works");
    let mut turn = broker.turn(later(20));
    let Answer { value, after } = turn.caller(session).read(b"q", ReadMode::Peek, Patience::None);
    assert!(matches!(value, Ok(Take::Nothing(_))), "it has expired");
    assert!(matches!(after.missing(broker.released()), Some(Missing::Durable(_))));
}

#[test]
fn a_kept_queue_of_a_former_process_is_removed_when_it_has_been_idle() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    let _ = turn.set_policies(rules([Rule::new(["f"], [Setting::Idle(Some(1000))])]));
    let session = turn.open_session(0);
    let _ = turn.caller(session).create_queue(b"f");
    turn.close_session(session);
    drop(turn);
    broker.close(NOW).expect("the disk works");
    drop(broker);
    disk.restart();
    let broker = open(&disk);
    let mut turn = broker.turn(later(100_000));
    while turn.advance() {}
    turn.check_invariants();
    assert!(turn.queue_stats(b"f").is_none());
}

#[test]
fn names_that_only_a_pattern_makes_aliases_leave_nothing_behind() {
    let broker = Broker::memory(EngineSetup::default(), NOW);
    let mut turn = broker.turn(NOW);
    let one = [Setting::JobsMax(Some(1)), Setting::WhenFull(WhenFull::DropOldest)];
    let _ = turn.set_policies(rules([
        Rule::new(["log.*"], [Setting::Alias([name("sink")].into())]),
        Rule::new(["sink"], one),
    ]));
    let session = turn.open_session(0);
    for number in 0..1000 {
        let added = turn.caller(session).add(format!("log.{number}").as_bytes(), body(1), None);
        added.value.expect("it drops the oldest");
    }
    assert_eq!(turn.item_queues().len(), 1);
}

#[test]
fn rules_that_expire_in_a_circle_are_refused() {
    let to = |to: &str| [Setting::ExpireTo(Some(name(to)))];
    let circle = [Rule::new(["a"], to("b")), Rule::new(["b"], to("c")), Rule::new(["c"], to("a"))];
    assert!(Rules(circle.into()).check().is_err());
    let line = [Rule::new(["a"], to("b")), Rule::new(["b"], to("c"))];
    assert!(Rules(line.into()).check().is_ok());
}

#[test]
fn short_puts_to_a_parent_of_many_children_do_not_use_up_what_the_log_keeps_back() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mut children = 0;
    for number in 0..300 {
        let mut turn = broker.turn(NOW);
        let reader = turn.open_reader_session(0);
        let child = format!("p+{number:0>250}");
        let read = turn.caller(reader).read(child.as_bytes(), ReadMode::Peek, Patience::None);
        children += u32::from(matches!(read.value, Ok(Take::Nothing(_))));
        turn.close_session(reader);
    }
    assert!((250..=256).contains(&children), "{children}");
    work(&broker, NOW);
    fill(&broker);
    let session = broker.turn(NOW).open_session(0);
    for _ in 0..50 {
        let put = broker.turn(NOW).caller(session).add(b"p", body(1), None);
        work(&broker, NOW);
        if put.value.is_err() {
            let mut turn = broker.turn(NOW);
            let reader = turn.open_reader_session(0);
            for _ in 0..100 {
                let _ = turn.caller(reader).read(b"bulk", ReadMode::Finish, Patience::None);
            }
            turn.close_session(reader);
            drop(turn);
            work(&broker, NOW);
        }
    }
}

/// A put replaces the body of a job. After a crash, the job has the body that was acknowledged last,
/// also after reclaim has moved it.
#[test]
fn a_body_that_was_replaced_survives_a_crash() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let unique = [
        Setting::UniqueBy("prefix:1".parse().ok()),
        Setting::OnDuplicate(OnDuplicate::ReplaceBody),
    ];
    let mut turn = broker.turn(NOW);
    let _ = turn.set_policies(rules([Rule::new(["u"], unique)]));
    let session = turn.open_session(0);
    let mut caller = turn.caller(session);
    caller.use_queue(b"u");
    let put = |caller: &mut lineshaft_broker::Caller<'_>, body: &[u8]| {
        caller.put(lineshaft_broker::NewJob::default(), body.into())
    };
    let first = put(&mut caller, b"a first").value.expect("there is room");
    drop(turn);
    work(&broker, NOW);
    let mut turn = broker.turn(NOW);
    let second = put(&mut turn.caller(session), b"a second");
    assert_eq!(second.value, Ok(first));
    drop(turn);
    assert!(!second.after.is_reached(broker.released()), "the reply waits for the new body");
    work(&broker, NOW);
    assert!(second.after.is_reached(broker.released()));
    let put_last = put(&mut broker.turn(NOW).caller(session), b"a third, not acknowledged");
    assert_eq!(put_last.value, Ok(first));
    drop(broker);
    disk.crash();
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    let session = turn.open_session(0);
    let mut caller = turn.caller(session);
    let peeked = caller.peek(first).value.expect("it exists");
    assert_eq!(&**peeked.body.resident().expect("it is in memory"), b"a second");
    caller.watch(b"u");
    assert!(matches!(caller.take(Patience::None).value, Take::Granted(job) if job.id == first));
    assert!(matches!(caller.take(Patience::None).value, Take::Nothing(_)), "there is one job");
}

#[test]
fn a_put_that_waits_no_longer_takes_its_room_before_the_next_one_learns_of_it() {
    let broker = open(&log::FaultDisk::new(1, 64 << 20));
    let mut turn = broker.turn(NOW);
    let settings =
        [Setting::JobsMax(Some(1)), Setting::WhenFull(WhenFull::Block), Setting::BlockFor(1000)];
    let _ = turn.set_policies(rules([Rule::new(["q"], settings)]));
    let [worker, first, second] = [(); 3].map(|()| {
        let session = turn.open_session(0);
        turn.caller(session).use_queue(b"q");
        session
    });
    let job = NewJob { ttr_s: 60, ..NewJob::default() };
    let put = turn.caller(worker).put(job, body(1)).value.expect("the queue is empty");
    for session in [first, second] {
        assert!(turn.caller(session).must_wait_for_room(None, &body(1), b""));
    }
    turn.caller(worker).finish(put).value.expect("it is ready");
    let mut events = Vec::new();
    turn.take_events(0, &mut events);
    let [(session, Answer { value: Event::Room, .. })] = events[..] else { panic!("{events:?}") };
    assert_eq!(session, first);
    // The client of the first put sends no more.
    assert!(!turn.caller(first).cancel_room_wait(), "its event is on its way");
    turn.caller(first).stop_waiting_for_room(None, &body(1));
    turn.caller(first).put(job, body(1)).value.expect("it has its room");
    events.clear();
    turn.take_events(0, &mut events);
    assert!(events.is_empty(), "{events:?}");
    assert!(turn.caller(second).cancel_room_wait(), "it still waits");
}
