//! Items that expire: they become cold, and end when they are the head of their queue.

use lineshaft_broker::policy::{Rule, Rules, Setting};
use lineshaft_broker::{ReadMode, When};

use super::*;

const QUEUE: &[u8] = b"clicks";
const SOON: Millis = Millis(NOW.0 + 60_000);
const LATE: Millis = Millis(NOW.0 + 3_600_000);
/// A moment between the two.
const BETWEEN: Millis = Millis(SOON.0 + 1);

/// Adds items 0 to [`JOBS`], and makes most of them cold. Item 0 has job number 1, and so on.
fn with_cold_items(disk: &log::FaultDisk, expires: impl Fn(u64) -> Option<When>) -> Broker {
    let broker = open(disk);
    add_items(&broker, expires);
    broker
}

fn add_items(broker: &Broker, expires: impl Fn(u64) -> Option<When>) {
    broker.add_mailbox(Arc::new(Events::default()));
    let session = broker.turn(NOW).open_reader_session(0);
    for number in 0..JOBS {
        let body = [7; 100][..].into();
        let added = broker.turn(NOW).caller(session).add(QUEUE, body, expires(number));
        added.value.expect("there is room");
        if number % 100 == 0 {
            work(broker);
        }
    }
    work(broker);
    cool(broker);
}

/// Lets all work end that is due, and the loads that it needs.
fn settle(broker: &Broker, now: Millis) {
    while broker.turn(now).advance() || broker.load_step(now) {}
    broker.turn(now).check_invariants();
}

/// Reads an item for good, as a `get` without a time limit. Returns its number.
fn read(broker: &Broker, events: &Events, session: SessionId, now: Millis) -> Option<u64> {
    let how = ReadMode::Finish;
    let read = broker.turn(now).caller(session).read(QUEUE, how, Patience::UntilSwept);
    match read.value.expect("reads are allowed") {
        Take::Finished { id, .. } => return Some(id.0 - 1),
        Take::Nothing(_) => return None,
        Take::Waiting => {}
        other => panic!("wanted an item, got {other:?}"),
    }
    for millis in 0..1000 {
        // A wait that finds a cold head looks again a few milliseconds later.
        let now = Millis(now.0 + millis);
        let _ = broker.load_step(now) | broker.turn(now).advance();
        match events.0.lock().expect("no panic").pop() {
            Some((_, Event::Granted(handout))) => {
                broker.turn(now).caller(session).finish(handout.id).value.expect("it is held");
                return Some(handout.id.0 - 1);
            }
            Some((_, Event::TimedOut)) => return None,
            Some((_, event)) => panic!("wanted an item, got {event:?}"),
            None => {}
        }
    }
    panic!("the read ends");
}

/// Peeks at the next item, as a request that does not wait in the line of its queue.
fn peek(broker: &Broker, now: Millis) -> Option<u64> {
    let mailbox = broker.add_mailbox(Arc::new(Events::default()));
    let session = broker.turn(now).open_reader_session(mailbox);
    while !broker.turn(now).caller(session).is_at_hand(Need::Queue(QUEUE)) {
        broker.load_step(now);
    }
    let read = broker.turn(now).caller(session).read(QUEUE, ReadMode::Peek, Patience::None);
    match read.value.expect("reads are allowed") {
        Take::Peeked { id, .. } => Some(id.0 - 1),
        Take::Nothing(_) => None,
        other => panic!("wanted an item, got {other:?}"),
    }
}

fn read_all(broker: &Broker, now: Millis) -> Vec<u64> {
    let events = Arc::new(Events::default());
    let mailbox = broker.add_mailbox(events.clone());
    let session = broker.turn(now).open_reader_session(mailbox);
    let items = std::iter::from_fn(|| read(broker, &events, session, now)).collect();
    broker.turn(now).check_invariants();
    items
}

fn items(broker: &Broker, now: Millis) -> u64 {
    broker.turn(now).item_stats(QUEUE).expect("it exists").items
}

#[test]
fn a_get_passes_over_whole_blocks_that_have_expired() {
    let at = |number| if number < JOBS - 500 { SOON } else { LATE };
    for is_killed in [false, true] {
        let disk = log::FaultDisk::new(51, 64 << 20);
        let mut broker = with_cold_items(&disk, |number| Some(When::At(at(number))));
        if is_killed {
            drop(broker);
            disk.restart();
            broker = open_at(&disk, 100, BETWEEN);
            assert!(broker.cold_jobs() > JOBS / 3, "a start leaves items cold");
        }
        assert_eq!(peek(&broker, BETWEEN), Some(JOBS - 500));
        let last: Vec<u64> = (JOBS - 500..JOBS).collect();
        assert_eq!(read_all(&broker, BETWEEN), last);
        assert_eq!((peek(&broker, BETWEEN), items(&broker, BETWEEN)), (None, 0));
    }
}

#[test]
fn cold_items_end_in_time_although_nobody_reads_them() {
    for is_killed in [false, true] {
        let disk = log::FaultDisk::new(52, 64 << 20);
        let mut broker = with_cold_items(&disk, |_| Some(When::At(SOON)));
        if is_killed {
            drop(broker);
            disk.restart();
            broker = open(&disk);
            broker.add_mailbox(Arc::new(Events::default()));
        }
        settle(&broker, SOON);
        assert_eq!(items(&broker, SOON), JOBS);
        settle(&broker, BETWEEN);
        assert_eq!((items(&broker, BETWEEN), broker.cold_jobs()), (0, 0));
        if !is_killed {
            assert_eq!(broker.turn(BETWEEN).item_stats(QUEUE).expect("exists").expired, JOBS);
        }
    }
}

#[test]
fn an_expired_item_counts_until_it_is_the_head() {
    let disk = log::FaultDisk::new(53, 64 << 20);
    let broker =
        with_cold_items(&disk, |number| Some(When::At(if number == 0 { LATE } else { SOON })));
    settle(&broker, BETWEEN);
    assert_eq!(items(&broker, BETWEEN), JOBS);
    assert!(broker.cold_jobs() > JOBS / 3, "nobody needs them");
    assert_eq!(read_all(&broker, BETWEEN), [0]);
    assert_eq!(items(&broker, BETWEEN), 0);
}

#[test]
fn cold_items_follow_the_wall_clock() {
    let disk = log::FaultDisk::new(54, 64 << 20);
    let broker = open(&disk);
    let wall = |moment: Millis| Millis(moment.0 + 5_000_000);
    broker.turn(NOW).set_wall(NOW, wall(NOW));
    add_items(&broker, |_| Some(When::Wall(wall(SOON))));
    let cold = broker.cold_jobs();
    // The wall clock is set back by a minute, so the items expire a minute later.
    let minute = 60_000;
    broker.turn(NOW).set_wall(NOW, Millis(wall(NOW).0 - minute));
    settle(&broker, NOW);
    settle(&broker, BETWEEN);
    assert_eq!(items(&broker, BETWEEN), JOBS);
    // The log has the moments before the step. Items that come into memory can become cold again.
    while broker.cool_step(BETWEEN) {}
    assert_eq!(broker.cold_jobs(), cold);
    let later = Millis(BETWEEN.0 + minute);
    let before = Millis(later.0 - 1);
    settle(&broker, before);
    assert_eq!(items(&broker, before), JOBS);
    settle(&broker, later);
    assert_eq!(items(&broker, later), 0);
}

#[test]
fn cold_items_that_expire_move_to_another_queue_in_order() {
    let disk = log::FaultDisk::new(55, 64 << 20);
    let broker = open(&disk);
    let rule = Rule::new(["clicks"], [Setting::ExpireTo(Some(b"late"[..].into()))]);
    let _ = broker.turn(NOW).set_policies(Rules(vec![rule]));
    add_items(&broker, |_| Some(When::At(SOON)));
    settle(&broker, BETWEEN);
    assert_eq!(items(&broker, BETWEEN), 0);
    let session = broker.turn(BETWEEN).open_session(0);
    broker.turn(BETWEEN).caller(session).watch(b"late");
    let moved: Vec<u64> = std::iter::from_fn(|| take_at(&broker, session, BETWEEN))
        .inspect(|id| {
            broker.turn(BETWEEN).caller(session).finish(*id).value.expect("the session holds it");
        })
        .map(|id| id.0 - 1)
        .collect();
    assert!(moved.into_iter().eq(0..JOBS));
    broker.turn(BETWEEN).check_invariants();
}
