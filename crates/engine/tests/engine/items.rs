//! Items: open reads, expiry, waits at one queue, flushes.

use lineshaft_engine::policy::{Name, Rule, Rules, Setting};
use lineshaft_engine::{
    Clearing, Handout, JobBody, LeaseId, Millis, NewJob, Patience, ReadMode, Record, SessionId,
    State, Status, Take, When,
};

use crate::world::{START, World, read};

const OPEN: ReadMode = ReadMode::Open { limit_ms: None };

/// A body that must be in memory, as text.
pub(crate) fn resident(body: &JobBody) -> String {
    text(body.resident().expect("it is in memory"))
}

impl World {
    pub(crate) fn reader(&mut self) -> SessionId {
        self.act(|engine, _| engine.open_reader(0))
    }

    /// Adds an item. Returns whether the queue accepted it.
    pub(crate) fn add(&mut self, queue: &str, body: &str) -> bool {
        self.add_until(queue, body, None)
    }

    pub(crate) fn add_until(&mut self, queue: &str, body: &str, expires: Option<Millis>) -> bool {
        let body = body.as_bytes().into();
        let expires = expires.map(When::At);
        self.act(|engine, effects| engine.add(None, queue.as_bytes(), body, expires, effects))
            .is_ok()
    }

    fn add_for(&mut self, queue: &str, body: &str, millis: u64) {
        let expires = Millis(self.engine.now().0 + millis);
        assert!(self.add_until(queue, body, Some(expires)));
    }

    pub(crate) fn read(
        &mut self,
        session: SessionId,
        queue: &str,
        how: ReadMode,
        patience: Patience,
    ) -> Take {
        self.act(|engine, effects| read(engine, session, queue.as_bytes(), how, patience, effects))
    }

    /// Takes and finishes the next item.
    pub(crate) fn get(&mut self, queue: &str) -> Option<String> {
        let session = self.reader();
        let read = self.read(session, queue, ReadMode::Finish, Patience::None);
        self.close(session);
        match read {
            Take::Finished { body, .. } => Some(resident(&body)),
            Take::Nothing(_) => None,
            other => panic!("wanted an item or none, got {other:?}"),
        }
    }

    pub(crate) fn open_one(&mut self, session: SessionId, queue: &str) -> (String, LeaseId) {
        match self.read(session, queue, OPEN, Patience::None) {
            Take::Granted(Handout { lease, body, .. }) => (resident(&body), lease),
            other => panic!("wanted an item, got {other:?}"),
        }
    }

    pub(crate) fn give_back_item(&mut self, session: SessionId, lease: LeaseId) -> bool {
        self.act(|engine, effects| engine.give_back_item(session, lease, effects)).is_ok()
    }

    pub(crate) fn confirm(&mut self, session: SessionId, lease: LeaseId) -> bool {
        self.act(|engine, effects| engine.confirm(session, lease, effects)).is_ok()
    }

    pub(crate) fn policies<const N: usize>(&mut self, rules: [Rule; N]) {
        let rules = Rules(rules.into());
        rules.check().expect("rules that can be obeyed");
        self.act(|engine, effects| engine.set_policies(rules, effects));
    }

    pub(crate) fn stats(&self, queue: &str) -> lineshaft_engine::ItemStats {
        self.engine.item_stats(queue.as_bytes()).expect("it exists")
    }

    pub(crate) fn children(&self, queue: &str) -> Option<Vec<Name>> {
        let queue = self.engine.shown_queue_id(queue.as_bytes()).expect("it exists");
        self.engine.children_of(queue)
    }
}

fn text(body: &[u8]) -> String {
    String::from_utf8(body.into()).expect("tests put text")
}

#[test]
fn items_come_in_order_and_a_read_makes_the_queue() {
    let mut world = World::new();
    assert_eq!(world.get("q"), None);
    assert!(world.engine.item_queues().contains(&&b"q"[..]), "a read makes it");
    for body in ["1", "2", "3"] {
        assert!(world.add("q", body));
    }
    assert_eq!([world.get("q"), world.get("q")], [Some("1".into()), Some("2".into())]);
    let stats = world.stats("q");
    assert_eq!((stats.items, stats.bytes, stats.puts), (1, 1, 3));
    let session = world.reader();
    for _ in 0..2 {
        let peek = world.read(session, "q", ReadMode::Peek, Patience::None);
        assert!(matches!(peek, Take::Peeked { body, .. } if resident(&body) == "3"));
    }
}

#[test]
fn a_read_that_is_finished_at_once_is_one_record() {
    let mut world = World::new();
    world.add("q", "1");
    world.records();
    world.get("q");
    assert!(matches!(world.records()[..], [Record::Finish { .. }]));
}

#[test]
fn open_reads_go_back_to_their_places_and_are_known_by_their_lease_only() {
    let mut world = World::new();
    for body in ["1", "2", "3"] {
        world.add("q", body);
    }
    let session = world.reader();
    let other = world.reader();
    let (one, first) = world.open_one(session, "q");
    let (two, second) = world.open_one(session, "q");
    assert_eq!((&one[..], &two[..]), ("1", "2"));
    assert_eq!(world.stats("q").open, 2);
    assert!(!world.confirm(other, first), "not in these hands");
    assert!(world.give_back_item(session, second) && !world.give_back_item(session, second));
    assert!(!world.confirm(session, second));
    assert!(world.give_back_item(session, first));
    let (again, third) = world.open_one(session, "q");
    assert_eq!(again, "1");
    assert!(world.confirm(session, third) && !world.engine.holds(session, third));
    world.open_one(session, "q");
    world.close(session);
    assert_eq!([world.get("q"), world.get("q")], [Some("2".into()), Some("3".into())]);
    assert_eq!(world.stats("q").cancelled, 3);
}

#[test]
fn an_open_read_ends_by_its_limit_or_that_of_the_policy() {
    let mut world = World::new();
    world.policies([Rule::new(["q"], [Setting::OpenTimeout(Some(5000))])]);
    world.add("q", "1");
    let session = world.reader();
    let (_, lease) = world.open_one(session, "q");
    let holder = world.reader();
    let hand = |world: &mut World, lease, limit_ms| {
        world.act(|engine, _| engine.hand_over(session, lease, holder, limit_ms)).expect("held");
        assert!(!world.engine.holds(session, lease) && world.engine.holds(holder, lease));
    };
    hand(&mut world, lease, Some(1000));
    world.pass(999);
    assert!(world.engine.holds(holder, lease));
    world.pass(1);
    assert!(!world.engine.holds(holder, lease));
    let (_, lease) = world.open_one(session, "q");
    hand(&mut world, lease, None);
    world.close(session);
    world.pass(4999);
    assert!(world.engine.holds(holder, lease), "it outlives the session that opened it");
    world.pass(1);
    assert!(!world.engine.holds(holder, lease));
    assert_eq!(world.get("q").as_deref(), Some("1"));
}

#[test]
fn readers_wait_in_one_line_with_takers_and_a_look_passes_the_job_on() {
    let mut world = World::new();
    let looks = world.reader();
    let takes = world.open();
    let reads = world.reader();
    world.act(|engine, _| engine.watch(takes, b"q"));
    world.read(looks, "q", ReadMode::Peek, Patience::Endless);
    assert!(matches!(world.take(takes, Patience::Endless), Take::Waiting));
    world.read(reads, "q", ReadMode::Finish, Patience::Millis(100));
    world.add("q", "1");
    let happened: Vec<SessionId> = world.events().into_iter().map(|(who, _)| who).collect();
    assert_eq!(happened, [looks, takes]);
    world.pass(99);
    assert!(world.events().is_empty());
    world.pass(1);
    assert_eq!(world.events(), [(reads, "none came".into())]);
}

#[test]
fn only_open_reads_are_transactions_whether_they_wait_or_not() {
    let mut world = World::new();
    let session = world.reader();
    for how in [ReadMode::Finish, OPEN, ReadMode::Peek] {
        world.read(session, "q", how, Patience::Endless);
        world.add("q", "1");
        world.read(session, "q", how, Patience::None);
        world.add("q", "2");
        world.read(session, "q", how, Patience::None);
    }
    assert_eq!(world.events().len(), 3);
    assert_eq!(world.stats("q").transactions, 2);
}

#[test]
fn expired_items_go_when_their_moment_is_past_and_they_are_the_head() {
    let mut world = World::new();
    world.add_for("q", "short", 10);
    world.add("q", "long");
    world.add_for("q", "behind", 10);
    world.pass(10);
    assert_eq!(world.stats("q").items, 3, "not before its moment is past");
    world.pass(1);
    assert_eq!((world.stats("q").items, world.stats("q").expired), (2, 1), "the head only");
    assert_eq!(world.get("q").as_deref(), Some("long"));
    assert_eq!(world.get("q"), None);
    assert_eq!(world.stats("q").expired, 2);
}

#[test]
fn a_job_that_is_put_expired_goes_to_no_waiter() {
    let mut world = World::new();
    let session = world.reader();
    world.read(session, "q", ReadMode::Finish, Patience::Endless);
    assert!(world.add_until("q", "old", Some(Millis(START.0 - 1))));
    world.pass(0);
    assert!(world.events().is_empty());
    assert_eq!(world.stats("q").items, 0);
    world.add("q", "new");
    assert_eq!(world.events().len(), 1);
}

#[test]
fn an_open_read_does_not_expire_before_it_is_given_back() {
    let mut world = World::new();
    world.add_for("q", "1", 10);
    let session = world.reader();
    let (_, lease) = world.open_one(session, "q");
    world.pass(100);
    assert!(world.engine.holds(session, lease));
    world.give_back_item(session, lease);
    assert_eq!(world.get("q"), None);
}

#[test]
fn a_policy_s_age_applies_to_existing_jobs_of_all_dialects() {
    let mut world = World::new();
    let session = world.open();
    let id = world.put(session, 0, 0, 60);
    world.pass(100);
    world.policies([Rule::new(["*"], [Setting::AgeMax(Some(100))])]);
    world.pass(0);
    assert!(world.state(id).is_some());
    world.pass(1);
    assert_eq!(world.state(id), None);
    let id = world.put(session, 0, 0, 60);
    world.pass(101);
    assert!(matches!(world.take(session, Patience::None), Take::Nothing(_)));
    assert_eq!(world.state(id), None);
}

#[test]
fn expired_jobs_go_to_the_queue_that_the_policy_names() {
    let mut world = World::new();
    world.policies([
        Rule::new(["q"], [Setting::ExpireTo(Some(b"old"[..].into()))]),
        Rule::new(["old"], [Setting::JobsMax(Some(2))]),
    ]);
    let session = world.reader();
    world.read(session, "old", OPEN, Patience::Endless);
    for body in ["1", "2", "3", "4"] {
        world.add_for("q", body, 10);
    }
    world.records();
    world.pass(11);
    assert_eq!(world.events().len(), 1, "the waiting session gets the first");
    assert!(matches!(world.records()[..], [Record::QueueFacts(_) | Record::Rerouted { .. }, ..]));
    assert_eq!([world.get("old"), world.get("old")], [Some("2".into()), Some("3".into())]);
    assert_eq!(world.get("old"), None, "it had room for two");
    let stats = world.stats("q");
    assert_eq!((stats.items, stats.expired, stats.discarded), (0, 4, 1));
}

#[test]
fn a_sweep_removes_no_more_than_it_may_and_nothing_expired_is_read() {
    let mut world = World::new();
    world.policies([Rule::new(["q"], [Setting::ExpireSweep(Some(2))])]);
    for body in 0..7 {
        world.add_for("q", &body.to_string(), 10);
    }
    world.pass(11);
    assert_eq!(world.stats("q").items, 5);
    let flushed = world.act(|engine, effects| engine.flush_expired(b"q", effects));
    assert_eq!(flushed, Some(2));
    world.pass(999);
    assert_eq!(world.stats("q").items, 3);
    world.pass(1);
    assert_eq!(world.stats("q").items, 1);
    assert_eq!(world.get("q"), None);
    assert_eq!(world.act(|engine, effects| engine.flush_expired(b"none", effects)), None);
}

#[test]
fn expiry_rests_while_the_records_cannot_be_written() {
    let mut world = World::new();
    world.add_for("q", "1", 10);
    world.act(|engine, _| engine.hold_chores(true));
    world.pass(11);
    assert_eq!(world.stats("q").items, 1);
    assert_eq!(world.engine.next_deadline(), Some(Millis(START.0 + 16)));
    world.act(|engine, _| engine.hold_chores(false));
    world.pass(5);
    assert_eq!(world.stats("q").items, 0);
}

#[test]
fn a_flush_ends_what_is_there_but_open_reads_come_back() {
    let mut world = World::new();
    for body in 0..2500 {
        world.add("q", &body.to_string());
        world.add("r", &body.to_string());
    }
    let session = world.reader();
    let (_, lease) = world.open_one(session, "q");
    let flush = world.act(|engine, effects| engine.flush(session, b"q", effects));
    assert_eq!(flush, Clearing::Waiting);
    while world.act(lineshaft_engine::Engine::advance) {}
    assert_eq!(world.events(), [(session, "flushed".into())]);
    assert_eq!((world.stats("q").items, world.stats("r").items), (0, 2500));
    assert!(world.give_back_item(session, lease));
    assert_eq!(world.get("q").as_deref(), Some("0"));
    let flush = world.act(|engine, effects| engine.flush_all(session, effects));
    assert_eq!(flush, Clearing::Waiting);
    while world.act(lineshaft_engine::Engine::advance) {}
    assert_eq!(world.events().len(), 1);
    assert_eq!((world.stats("q").flushes, world.stats("r").items), (2, 0));
    let flush = world.act(|engine, effects| engine.flush(session, b"none", effects));
    assert_eq!(flush, Clearing::Done);
    assert!(world.engine.item_stats(b"none").is_none());
}

#[test]
fn a_flush_continues_without_its_client() {
    let mut world = World::new();
    for body in 0..2500 {
        world.add("q", &body.to_string());
        world.add("r", &body.to_string());
    }
    let session = world.reader();
    let flush = world.act(|engine, effects| engine.flush_all(session, effects));
    assert_eq!(flush, Clearing::Waiting);
    world.close(session);
    world.pass(0);
    assert_eq!((world.stats("q").items, world.stats("r").items), (0, 0));
    assert!(world.events().is_empty());
}

#[test]
fn an_idle_queue_vanishes_when_it_is_empty_and_has_no_waiters() {
    let mut world = World::new();
    world.policies([Rule::new(["q"], [Setting::Idle(Some(1000))])]);
    world.add("q", "1");
    world.pass(2000);
    let session = world.reader();
    let (_, lease) = world.open_one(session, "q");
    world.pass(10);
    assert!(world.confirm(session, lease));
    world.pass(0);
    assert!(world.engine.item_stats(b"q").is_none());
    world.read(session, "q", OPEN, Patience::Millis(3000));
    world.pass(2999);
    assert!(world.engine.item_stats(b"q").is_some(), "a session waits");
    world.pass(1);
    world.pass(0);
    assert!(world.engine.item_stats(b"q").is_none());
    assert_eq!(world.engine.totals().idle_queue_deletes, 2);
}

#[test]
fn a_status_that_refuses_reads_lets_waiters_wait() {
    let mut world = World::new();
    let (producer, taker, reader) = (world.open(), world.open(), world.reader());
    world.take(taker, Patience::Endless);
    world.read(reader, "default", ReadMode::Finish, Patience::Millis(100));
    world.act(|engine, effects| engine.set_status(Status::Quiescent, 50, effects));
    assert_eq!(world.engine.status(), Status::Quiescent);
    assert!(!world.engine.reads_blocked(), "the grace is not over");
    world.act(|engine, effects| engine.set_status(Status::Quiescent, 0, effects));
    assert!(!world.engine.reads_blocked(), "as strict, so ignored");
    world.pass(50);
    assert!(world.engine.reads_blocked() && world.engine.writes_blocked());
    world.put(producer, 0, 0, 0);
    assert!(world.events().is_empty());
    world.pass(50);
    assert_eq!(world.events(), [(reader, "none came".into())]);
    world.act(|engine, effects| engine.set_status(Status::ReadOnly, 1000, effects));
    assert!(!world.engine.reads_blocked() && world.engine.writes_blocked());
    assert_eq!(world.events().len(), 1, "the taker has it");
}

#[test]
fn items_cross_between_dialects() {
    let mut world = World::new();
    let tube = world.open();
    world.act(|engine, effects| engine.use_queue(tube, b"q", effects));
    world.act(|engine, _| engine.watch(tube, b"q"));
    let urgent = world.put(tube, 1, 0, 60);
    world.add("q", "item");
    assert_eq!(world.taken(tube), urgent);
    let id = world.taken(tube);
    assert_eq!(world.engine.job_status(id).expect("held").facts.priority, 1024);
    world.release(tube, urgent, 5, 0);
    world.finish(tube, id);
    assert_eq!(world.get("q").as_deref(), Some("body"));
    assert_eq!(world.state(urgent), None::<State>);
    let job = NewJob { delay_s: 1, ..NewJob::default() };
    let put = world.act(|engine, effects| engine.put(tube, job, b"late"[..].into(), effects));
    put.expect("there is room");
    assert_eq!(world.get("q"), None);
    world.pass(1000);
    assert_eq!(world.get("q").as_deref(), Some("late"));
}
