//! Items that expire: at once, in large numbers, and in front of an item that a session waits for.

use lineshaft_engine::policy::{Rule, Setting, WhenFull};
use lineshaft_engine::{
    GrabOrder, JobId, Millis, Need, Obstacle, Patience, ReadMode, Record, ReturnOrder, SessionId,
    Take, When, limits,
};

use crate::world::{SLICE_UNITS, START, World, grab, take_job};

/// A number of items that needs more than one slice.
const MANY: usize = 2500;

/// The units of a slice. This is also the maximum number of jobs that a slice ends, because each
/// job costs at least one unit.
const SLICE: u64 = SLICE_UNITS as u64;

impl World {
    fn add_many_until(&mut self, queue: &str, expires: u64) {
        for _ in 0..MANY {
            let expires = Some(When::At(Millis(START.0 + expires)));
            let body = b"1"[..].into();
            let added = self.engine.add(None, queue.as_bytes(), body, expires, &mut self.effects);
            added.expect("there is room");
        }
    }

    fn expired(&self, queue: &str) -> u64 {
        self.stats(queue).expired
    }

    /// Two sessions read: the first from `q`, the second from `r`. They wait only for the sweep. At
    /// the head of both queues, more items have expired than one request can end. Behind these
    /// items, `q` has one item that has not expired, and `r` has no such item.
    fn read_behind_many_expired(&mut self) -> [SessionId; 2] {
        for queue in ["q", "r"] {
            self.add_many_until(queue, 10);
        }
        self.add("q", "lives");
        self.engine.set_time(Millis(START.0 + 11));
        ["q", "r"].map(|queue| {
            let reader = self.reader();
            let read = self.read(reader, queue, ReadMode::Finish, Patience::UntilSwept);
            assert!(matches!(read, Take::Waiting));
            reader
        })
    }

    /// Checks that both sessions got their results and no longer wait.
    fn check_one_found_what_lives(&mut self, [finds, misses]: [SessionId; 2]) {
        let mut happened = self.events();
        happened.sort_by_key(|(session, _)| *session != finds);
        let last = 2 * MANY + 1;
        let both = [(finds, format!("granted {last}")), (misses, "none came".to_owned())];
        assert_eq!(happened, both);
    }
}

#[test]
fn an_item_that_expired_before_it_came_is_gone_with_its_add() {
    let mut world = World::new();
    world.policies([Rule::new(["p+late"], [Setting::ExpireTo(Some(b"old"[..].into()))])]);
    world.get("p+c");
    world.get("p+late");
    let past = Some(Millis(START.0 - 1));
    assert!(world.add_until("q", "1", past) && world.add_until("p", "2", past));
    assert_eq!([world.expired("q"), world.expired("p+c")], [1, 1]);
    assert_eq!((world.stats("p").items, world.stats("old").items), (0, 1));
    assert_eq!(world.act(|engine, fx| engine.flush_expired(b"q", fx)), Some(0));
    // An expired item stays while an item that has not expired is in front of it.
    world.add("q", "3");
    assert!(world.add_until("q", "4", past));
    assert_eq!(world.stats("q").items, 2);
}

#[test]
fn one_request_ends_so_many_expired_items_and_the_others_go_by_themselves() {
    let mut world = World::new();
    for queue in ["q", "r"] {
        world.add_many_until(queue, 10);
    }
    world.engine.set_time(Millis(START.0 + 11));
    let first = world.act(|engine, fx| engine.flush_expired(b"q", fx)).expect("it exists");
    assert!((SLICE / 3..=SLICE).contains(&first), "{first}");
    let second = world.act(|engine, fx| engine.flush_expired(b"q", fx)).expect("it exists");
    assert!((SLICE / 3..=SLICE).contains(&second), "{second}");
    assert_eq!((world.expired("q"), world.expired("r")), (first + second, 0));
    let worker = world.act(|engine, _| engine.open_session(0, ReturnOrder::ToTail));
    world.act(|engine, fx| engine.register(worker, b"r", None, fx));
    let grabbed = world.act(|engine, fx| grab(engine, worker, GrabOrder::NewestFirst, fx));
    assert!(grabbed.is_none() && (SLICE / 3..=SLICE).contains(&world.expired("r")));
    world.pass(0);
    assert_eq!((world.expired("q"), world.expired("r")), (MANY as u64, MANY as u64));
}

#[test]
fn expiry_into_a_queue_over_its_limit_drops_few_jobs() {
    let mut world = World::new();
    for number in 0..100 {
        world.add("big", &number.to_string());
    }
    world.add_until("q", "1", Some(Millis(START.0 + 10)));
    let full = [Setting::JobsMax(Some(10)), Setting::WhenFull(WhenFull::DropOldest)];
    world.policies([
        Rule::new(["q"], [Setting::ExpireTo(Some(b"big"[..].into()))]),
        Rule::new(["big"], full),
    ]);
    world.pass(11);
    assert_eq!(world.stats("big").items, 100 - limits::PUT_ENDS_MAX as u64 + 1);
}

#[test]
fn a_put_ends_few_of_the_items_that_expired() {
    let mut world = World::new();
    let full = [Setting::JobsMax(Some(MANY as u64))];
    world.policies([Rule::new(["q"], full)]);
    world.add_many_until("q", 10);
    assert!(!world.add("q", "one too many"));
    world.engine.set_time(Millis(START.0 + 11));
    let few = limits::PUT_ENDS_MAX as u64;
    assert!(world.add("q", "lives"), "what expired makes room");
    assert_eq!(world.expired("q"), few);
    // The put sweeps before it adds an item. If the new item has already expired, the put sweeps a
    // second time.
    assert!(world.add_until("q", "late", Some(START)));
    assert_eq!(world.expired("q"), 3 * few);
    world.pass(0);
    assert_eq!((world.expired("q"), world.stats("q").items), (MANY as u64, 2));
}

#[test]
fn a_put_into_a_queue_over_its_limit_drops_few() {
    let mut world = World::new();
    for number in 0..100 {
        world.add("q", &number.to_string());
    }
    let full = [Setting::JobsMax(Some(10)), Setting::WhenFull(WhenFull::DropOldest)];
    world.policies([Rule::new(["q"], full)]);
    let few = limits::PUT_ENDS_MAX as u64;
    for puts in 1..=3 {
        world.add("q", "new");
        assert_eq!(world.stats("q").items, 100 - puts * (few - 1));
    }
}

#[test]
fn jobs_that_a_lowered_limit_keeps_stay_in_order() {
    let mut world = World::new();
    let (producer, taker) = (world.open(), world.open());
    let put = |world: &mut World, number: u32| {
        let priority = number * 7 % 3;
        (priority, world.put(producer, priority, 0, 60))
    };
    let mut all: Vec<(u32, JobId)> = (0..60).map(|number| put(&mut world, number)).collect();
    let full = [Setting::JobsMax(Some(10)), Setting::WhenFull(WhenFull::DropOldest)];
    world.policies([Rule::new(["default"], full)]);
    all.extend((0..60).map(|number| put(&mut world, number)));
    all.sort_unstable();
    let mut left = all.into_iter();
    let mut count = 0;
    while let Take::Granted(job) = world.take(taker, Patience::None) {
        count += 1;
        assert!(left.any(|(_, id)| id == job.id), "job {} is out of its order", job.id);
    }
    assert_eq!(count, 10, "the limit is reached");
}

#[test]
fn waiters_behind_expired_items_get_the_live_ones() {
    let mut world = World::new();
    world.policies([Rule::new(["q", "default"], [Setting::ExpireSweep(Some(1))])]);
    let (reader, taker): (SessionId, SessionId) = (world.reader(), world.open());
    for queue in ["q", "default"] {
        world.add_many_until(queue, 10);
        world.add(queue, "lives");
    }
    world.pass(20);
    let finish = ReadMode::Finish;
    let read = world.read(reader, "q", finish, Patience::Millis(30_000));
    assert!(matches!(read, Take::Waiting));
    world.take(taker, Patience::Endless);
    world.pass(0);
    assert_eq!(world.events().len(), 2, "both got what they waited for");
    let finished =
        world.records().into_iter().filter(|record| matches!(record, Record::Finish { .. }));
    assert_eq!(finished.count(), 2 * MANY);
}

#[test]
fn a_job_that_has_expired_is_not_taken_by_its_number() {
    let mut world = World::new();
    let session = world.open();
    world.act(|engine, fx| engine.use_queue(session, b"q", fx));
    let ids = [(); 3].map(|()| world.put(session, 0, 0, 60));
    world.act(|engine, fx| engine.use_queue(session, b"default", fx));
    world.engine.set_time(Millis(START.0 + 200));
    world.policies([
        Rule::new(["q"], [Setting::AgeMax(Some(100)), Setting::ExpireTo(Some(b"old"[..].into()))]),
        Rule::new(["old"], [Setting::JobsMax(Some(1))]),
    ]);
    let take = |world: &mut World, id| world.act(|engine, fx| take_job(engine, session, id, fx));
    // The second job moves to the queue in `expire_to`. There it has not expired.
    assert!(take(&mut world, ids[1]).is_none());
    assert_eq!((world.expired("q"), world.stats("old").items), (1, 1));
    assert!(take(&mut world, ids[1]).is_some());
    for id in [ids[0], ids[2]] {
        assert!(take(&mut world, id).is_none());
    }
    assert!(world.engine.queue_id(b"q").is_none(), "the last one went, and the queue with it");
}

#[test]
fn a_policy_that_lets_no_sweep_remove_anything_lets_one() {
    let mut world = World::new();
    world.policies([Rule::new(["q"], [Setting::ExpireSweep(Some(0))])]);
    for _ in 0..3 {
        world.add_until("q", "1", Some(Millis(START.0 + 10)));
    }
    world.pass(11);
    assert_eq!(world.expired("q"), 1);
    assert!(world.engine.next_deadline() > Some(world.engine.now()), "it rests");
    world.pass(1000);
    assert_eq!(world.expired("q"), 2);
}

#[test]
fn a_sweep_rests_for_no_request_that_cannot_reach_its_queue_in_a_slice() {
    let mut world = World::new();
    world.policies([Rule::new(["q"], [Setting::ExpireSweep(Some(1))])]);
    for _ in 0..3 {
        world.add_until("q", "1", Some(Millis(START.0 + 10)));
    }
    world.pass(11);
    let worker = world.open();
    // A search looks at each of these tubes, because each has a job.
    for tube in 0..=SLICE_UNITS {
        let name = format!("tube-{tube}");
        world.act(|engine, _| engine.watch(worker, name.as_bytes()));
        world.add(&name, "1");
        world.engine.pause(name.as_bytes(), 1000, &mut world.effects).expect("it exists");
    }
    world.act(|engine, _| engine.watch(worker, b"q"));
    for expired in 1..3 {
        assert_eq!(world.expired("q"), expired);
        world.engine.begin_slice();
        let obstacle = world.act(|engine, fx| engine.clear_way(worker, Need::Watched, fx));
        assert_eq!(obstacle, Some(Obstacle::Expired));
        world.pass(0);
    }
    assert_eq!(world.expired("q"), 3);
    assert_eq!(world.act(|engine, fx| engine.clear_way(worker, Need::Watched, fx)), None);
}

#[test]
fn a_take_that_does_not_wait_gets_the_job_behind_many_that_are_too_old() {
    let mut world = World::new();
    // Only the policy lets these jobs expire.
    world.policies([Rule::new(["q"], [Setting::AgeMax(Some(500))])]);
    for _ in 0..MANY {
        let added = world.engine.add(None, b"q", b"1"[..].into(), None, &mut world.effects);
        added.expect("there is room");
    }
    let worker = world.open();
    world.act(|engine, _| engine.watch(worker, b"q"));
    world.engine.set_time(Millis(START.0 + 600));
    world.add("q", "young");
    world.engine.begin_slice();
    assert!(world.engine.needs_sweeps());
    let mut slices = 1;
    while world.act(|engine, fx| engine.clear_way(worker, Need::Watched, fx)).is_some() {
        slices += 1;
        world.engine.begin_slice();
    }
    assert!(slices > 1, "they are more than one slice can end");
    assert_eq!(world.taken(worker), JobId(MANY as u64 + 1));
}

#[test]
fn a_read_of_an_alias_does_not_sweep_the_queue_that_the_alias_hides() {
    let mut world = World::new();
    for _ in 0..3 {
        world.add_until("q", "1", Some(Millis(START.0 + 10)));
    }
    let sweeps = Rule::new(["q"], [Setting::ExpireSweep(Some(1))]);
    let alias = Rule::new(["q"], [Setting::Alias([b"r"[..].into()].into())]);
    world.policies([sweeps, alias]);
    world.pass(11);
    let reader = world.reader();
    assert_eq!(world.act(|engine, fx| engine.clear_way(reader, Need::Queue(b"q"), fx)), None);
    assert_eq!(world.expired("q"), 1, "the timer ends one in a second");
}

#[test]
fn a_read_that_does_not_wait_gets_the_live_item_behind_many_expired_ones() {
    let mut world = World::new();
    let readers = world.read_behind_many_expired();
    world.pass(0);
    world.check_one_found_what_lives(readers);
    let stats = (world.stats("q").hits, world.stats("r").misses);
    assert_eq!(stats, (1, 1));
}

#[test]
fn a_waiter_is_served_when_the_last_expired_item_in_front_is_deleted() {
    // In the first run, the timer serves the reader. In the second run, requests of other sessions
    // serve the reader.
    for others_ask in [false, true] {
        let mut world = World::new();
        let (deleter, reader, late) = (world.open(), world.reader(), world.reader());
        world.add_many_until("q", 10);
        world.add("q", "lives");
        world.engine.set_time(Millis(START.0 + 11));
        let read = world.read(reader, "q", ReadMode::Finish, Patience::Millis(30_000));
        assert!(matches!(read, Take::Waiting));
        for expired in world.expired("q") + 1..=MANY as u64 {
            assert!(world.finish(deleter, JobId(expired)));
        }
        let lives = MANY + 1;
        if others_ask {
            world.act(|engine, _| engine.watch(deleter, b"q"));
            assert!(matches!(world.take(deleter, Patience::None), Take::Nothing(_)));
            let read = world.read(late, "q", ReadMode::Finish, Patience::UntilSwept);
            assert!(matches!(read, Take::Nothing(_)));
        } else {
            world.pass(0);
        }
        assert_eq!(world.events(), [(reader, format!("granted {lives}"))]);
    }
}

#[test]
fn a_new_item_does_not_overtake_one_that_stands_behind_expired_ones() {
    let mut world = World::new();
    let reader = world.reader();
    world.add_many_until("q", 10);
    world.add("q", "first");
    world.engine.set_time(Millis(START.0 + 11));
    let read = world.read(reader, "q", ReadMode::Finish, Patience::Millis(30_000));
    assert!(matches!(read, Take::Waiting));
    assert!(world.add("q", "second"));
    assert!(world.events().is_empty(), "expired items are in front");
    world.pass(0);
    assert_eq!(world.events(), [(reader, format!("granted {}", MANY + 1))]);
    assert_eq!(world.get("q").as_deref(), Some("second"));
}

#[test]
fn a_read_without_patience_waits_as_long_as_sweeps_are_held() {
    let mut world = World::new();
    let readers = world.read_behind_many_expired();
    world.engine.hold_chores(true);
    for millis in [0, 1, limits::HELD_CHORES_REST_MS] {
        world.pass(millis);
        assert!(world.events().is_empty(), "what lives could be there still");
    }
    world.engine.hold_chores(false);
    world.pass(limits::HELD_CHORES_REST_MS);
    world.check_one_found_what_lives(readers);
}

#[test]
fn a_job_ages_from_when_it_was_made_ready() {
    let mut world = World::new();
    world.policies([Rule::new(["q"], [Setting::AgeMax(Some(500))])]);
    let producer = world.open();
    world.act(|engine, fx| engine.use_queue(producer, b"q", fx));
    let kicked = world.put(producer, 0, 60, 60);
    world.put(producer, 0, 1, 60);
    world.pass(900);
    world.act(|engine, fx| engine.kick_job(kicked, fx)).expect("it is delayed");
    world.pass(500);
    assert_eq!(world.expired("q"), 0, "one was kicked 500 ms ago, one came due 400 ms ago");
    world.pass(1);
    assert_eq!(world.expired("q"), 1, "the kicked one");
    world.pass(100);
    assert_eq!(world.expired("q"), 2, "and the one that came due");
}

#[test]
fn queues_whose_heads_expire_together_change_in_their_own_order() {
    let mut world = World::new();
    let expire_to = Setting::ExpireTo(Some(b"old"[..].into()));
    world.policies([Rule::new(["first", "second"], [expire_to])]);
    let at = |millis| Some(Millis(START.0 + millis));
    assert!(world.add_until("first", "1", at(20)));
    // The timer of the second queue is set to the end of an item that is read before.
    assert!(world.add_until("second", "read", at(10)));
    assert!(world.add_until("second", "2", at(20)));
    assert_eq!(world.get("second").as_deref(), Some("read"));
    world.pass(21);
    assert_eq!([(); 2].map(|()| world.get("old")), ["1", "2"].map(|body| Some(body.to_owned())));
}
