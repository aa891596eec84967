//! Removals of queues, including queues with many jobs.

use lineshaft_engine::policy::{Rule, Rules, Setting};
use lineshaft_engine::{
    Clearing, Engine, GrabOrder, JobId, NewJob, NotFound, Patience, ReadMode, Record, ReturnOrder,
    SessionId, State, Take,
};

use crate::dead_letters::to;
use crate::world::{SLICE_UNITS, World, grab, read, take_job};

/// A number of jobs that needs more than one slice.
const MANY: usize = 2500;

impl World {
    fn add_many(&mut self, queue: &str) {
        for body in 0..MANY {
            let body = body.to_string().as_bytes().into();
            let added = self.engine.add(None, queue.as_bytes(), body, None, &mut self.effects);
            added.expect("there is room");
        }
    }

    fn set_rule(&mut self, queue: &str, settings: impl IntoIterator<Item = Setting>) {
        let rules = Rules(vec![Rule::new([queue], settings)]);
        self.act(|engine, effects| engine.set_policies(rules, effects));
        self.pass(0);
    }

    fn begin_removal(&mut self, session: SessionId, queue: &[u8]) {
        let removal = self.act(|engine, effects| engine.remove_queue(session, queue, effects));
        assert_eq!(removal, Clearing::Waiting);
    }

    /// Does all slices of all long operations. Returns the number of slices.
    fn slices(&mut self) -> usize {
        let mut count = 1;
        while self.act(Engine::advance) {
            count += 1;
        }
        count
    }
}

#[test]
fn a_queue_of_many_jobs_is_removed_in_slices_and_hands_out_nothing_meanwhile() {
    let mut world = World::new();
    world.add_many("q");
    let (session, waiter, tube) = (world.reader(), world.reader(), world.open());
    let (_, lease) = world.open_one(session, "q");
    world.records();
    world.begin_removal(session, b"q");
    let in_one_turn = world.records().len();
    assert!(in_one_turn <= SLICE_UNITS as usize, "{in_one_turn} records in one turn");
    assert!(world.engine.item_queues().is_empty() && !world.give_back_item(session, lease));
    let old = world.engine.queue_stats(world.engine.queue_id(b"q").expect("it has jobs"));
    assert!((1500..2500).contains(&old.ready), "{}", old.ready);
    let last = JobId(MANY as u64);
    assert!(world.act(|engine, effects| take_job(engine, tube, last, effects)).is_none());
    // The removal has passed the lists that the job would move to.
    assert_eq!(world.act(|engine, effects| engine.bury_job(last, 0, effects)), Err(NotFound));
    let rescheduled = world.act(|engine, effects| engine.reschedule_job(last, 0, 1, effects));
    assert_eq!(rescheduled, Err(NotFound));
    // Jobs that are put during the removal stay. After the removal, sessions can take them.
    assert_eq!(world.get("q"), None);
    world.add("q", "new");
    world.read(waiter, "q", ReadMode::Finish, Patience::Endless);
    assert!(world.slices() >= 3, "a slice ended too many jobs");
    let events = [(waiter, "granted 2501".into()), (session, "flushed".into())];
    assert_eq!(world.events(), events);
    assert!(world.records().iter().any(|record| matches!(record, Record::QueueFacts(_))));
    assert_eq!((world.stats("q").items, world.stats("q").open), (0, 1));
    assert_eq!(world.engine.totals().item_queue_deletes, 1);
}

#[test]
fn jobs_in_all_states_and_many_hands_go_with_a_queue() {
    let mut world = World::new();
    let (asking, tube) = (world.reader(), world.open());
    world.act(|engine, effects| engine.use_queue(tube, b"q", effects));
    for number in 0..3 * MANY {
        let job = NewJob { priority: 0, delay_s: u32::from(number.is_multiple_of(3)), ttr_s: 0 };
        let put = world.engine.put(tube, job, b"x"[..].into(), &mut world.effects);
        put.expect("there is room");
    }
    let holder = world.reader();
    for number in 0..MANY {
        let open = ReadMode::Open { limit_ms: None };
        let read = read(&mut world.engine, holder, b"q", open, Patience::None, &mut world.effects);
        assert!(matches!(read, Take::Granted(_)), "read {number}");
    }
    world.act(|engine, effects| engine.use_queue(tube, b"default", effects));
    world.begin_removal(asking, b"q");
    // The leases end and the delayed jobs become due during the removal. The removal still ends all
    // these jobs.
    world.close(holder);
    world.pass(1000);
    assert_eq!(world.events(), [(asking, "flushed".into())]);
    assert!(world.engine.queue_id(b"q").is_none());
    let totals = world.engine.totals();
    assert_eq!((totals.ready, totals.delayed, totals.leased), (0, 0, 0));
}

#[test]
fn jobs_that_come_from_other_queues_during_a_removal_stay() {
    let mut world = World::new();
    world.set_rule("default", [Setting::Retries(true), Setting::RetryLimit(0), to("q")]);
    let (asking, client) = (world.reader(), world.open());
    let ids = [(); 2].map(|()| world.put(client, u32::MAX, 0, 60));
    assert_eq!(world.taken(client), ids[0]);
    world.add_many("q");
    world.begin_removal(asking, b"q");
    // One job becomes a dead letter, and the other one is moved. Both were put before the removal.
    assert!(world.release(client, ids[0], u32::MAX, 0));
    world.act(|engine, effects| engine.move_job(ids[1], b"q", effects)).expect("there is room");
    world.slices();
    assert_eq!(world.events(), [(asking, "flushed".into())]);
    assert_eq!(ids.map(|id| world.state(id)), [Some(State::Ready); 2]);
    assert_eq!(world.stats("q").items, 2);
    world.remove(b"q");
    assert_eq!(ids.map(|id| world.state(id)), [None; 2]);
}

#[test]
fn jobs_that_go_back_to_the_tail_during_a_removal_go_with_the_queue() {
    let mut world = World::new();
    let (asking, worker) = (world.reader(), world.engine.open_session(0, ReturnOrder::ToTail));
    world.add_many("q");
    world.act(|engine, effects| engine.register(worker, b"q", None, effects));
    for number in 0..MANY {
        let job = grab(&mut world.engine, worker, GrabOrder::NewestFirst, &mut world.effects);
        assert!(job.is_some(), "grab {number}");
    }
    world.begin_removal(asking, b"q");
    world.close(worker);
    world.pass(1000);
    assert_eq!(world.events(), [(asking, "flushed".into())]);
    let totals = world.engine.totals();
    assert_eq!((totals.ready, totals.leased), (0, 0));
}

#[test]
fn jobs_that_are_buried_during_the_removal_of_their_queue_go_with_it() {
    let mut world = World::new();
    world.set_rule("q", [Setting::AgeMax(Some(1000)), Setting::DeadExpired(true)]);
    world.add_many("q");
    let session = world.reader();
    world.begin_removal(session, b"q");
    // All jobs that are left expire. The queue's timer makes dead letters of some of them, before the
    // removal comes to these.
    world.pass(2000);
    assert_eq!(world.events(), [(session, "flushed".into())]);
    let totals = world.engine.totals();
    assert_eq!((totals.ready, totals.buried), (0, 0));
    assert!(world.engine.queue_id(b"q").is_none());
}

#[test]
fn a_removal_continues_without_its_client() {
    let mut world = World::new();
    world.add_many("q");
    let (first, second) = (world.reader(), world.reader());
    world.begin_removal(first, b"q");
    world.begin_removal(second, b"q");
    world.close(first);
    world.slices();
    assert_eq!(world.events(), [(second, "flushed".into())]);
    assert!(world.engine.queue_id(b"q").is_none());
    let dropped = world.records().into_iter().filter(|r| matches!(r, Record::QueueDropped(..)));
    assert!(dropped.count() > 0);
    assert_eq!(world.act(|e, fx| e.drop_queue(second, b"q", fx)), Err(NotFound));
}

#[test]
fn a_child_gets_no_puts_of_its_parent_while_it_is_removed() {
    let mut world = World::new();
    world.get("p+a");
    world.add_many("p");
    let session = world.reader();
    world.begin_removal(session, b"p+a");
    world.add("p", "late");
    world.slices();
    assert!(world.engine.queue_id(b"p+a").is_none());
    assert_eq!(world.stats("p").items, MANY as u64 + 1);
}

#[test]
fn a_removed_queue_takes_everything_with_it() {
    let mut world = World::new();
    for body in ["1", "2", "3"] {
        world.add("q", body);
    }
    let (holder, waiter, taker) = (world.reader(), world.reader(), world.open());
    world.act(|engine, effects| engine.use_queue(taker, b"q", effects));
    let (_, lease) = world.open_one(holder, "q");
    let delayed = world.put(taker, 0, 10, 1);
    for _ in 0..2 {
        world.get("q");
    }
    world.read(waiter, "q", ReadMode::Finish, Patience::Endless);
    world.act(|engine, effects| engine.use_queue(taker, b"default", effects));
    world.remove(b"q");
    assert_eq!(world.events(), [(waiter, "none came".into())]);
    assert!(!world.give_back_item(holder, lease));
    assert_eq!(world.state(delayed), None);
    assert!(world.engine.queue_id(b"q").is_none());
    assert_eq!(world.engine.totals().item_queue_deletes, 1);
    world.remove(b"q");
}

#[test]
fn a_queue_may_be_removed_while_a_session_s_many_reads_go_back() {
    let mut world = World::new();
    let session = world.reader();
    for body in 0..2500 {
        world.add("q", &body.to_string());
        world.open_one(session, "q");
    }
    world.act(|engine, effects| engine.close_session(session, effects));
    while world.stats("q").open == 2500 {
        assert!(world.act(Engine::advance));
    }
    assert!(world.stats("q").open > 1000);
    let other = world.open();
    let removal = world.act(|engine, effects| engine.remove_queue(other, b"q", effects));
    assert_eq!(removal, Clearing::Waiting);
    world.add("r", "another job in their places");
    world.pass(10);
    assert_eq!(world.engine.totals().ready, 1);
}
