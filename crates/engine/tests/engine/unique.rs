//! Unique jobs, by the policy `unique`.

use lineshaft_engine::policy::{
    DeadTarget, OnDuplicate, QueueSync, Rule, Rules, Setting, UniqueWindow, WhenFull,
};
use lineshaft_engine::{
    Choice, Clearing, Engine, EngineSetup, GrabOrder, JobBody, JobId, Millis, MoveRefused, NewJob,
    Patience, ReadMode, Record, RedriveRefused, Refused, ReturnOrder, SessionId, State, Submit,
    Take, When,
};

use crate::apply::Follower;
use crate::world::{START, World, grab};

pub(crate) const FOREGROUND: bool = true;

pub(crate) fn by(key: &str) -> Setting {
    Setting::UniqueBy(Some(key.parse().expect("it is a key")))
}

/// A world with these rules, in which a follower gets all records.
pub(crate) fn world(rules: impl IntoIterator<Item = Rule>) -> World {
    let mut world = World::new();
    world.follower = Some(Follower::new());
    world.rules(rules);
    world
}

/// A world in which all queues have this setting and these.
pub(crate) fn all(first: Setting, more: impl IntoIterator<Item = Setting>) -> World {
    let settings = [first].into_iter().chain(more);
    world([Rule::new(["*"], settings)])
}

impl World {
    pub(crate) fn rules(&mut self, rules: impl IntoIterator<Item = Rule>) {
        let rules = Rules(rules.into_iter().collect());
        self.act(|e, fx| e.set_policies(rules, fx));
        self.pass(0);
    }

    pub(crate) fn put_body(&mut self, session: SessionId, body: &str) -> Result<JobId, Refused> {
        let body = body.as_bytes().into();
        self.act(|e, fx| e.put(session, NewJob::default(), body, fx))
    }

    pub(crate) fn submit_key(
        &mut self,
        client: SessionId,
        (unique, body): (&str, &str),
        foreground: bool,
    ) -> Result<JobId, Refused> {
        let (unique, body) = (unique.as_bytes(), body.as_bytes().into());
        let submit = Submit { priority: None, due: None, unique, reducer: b"", body, foreground };
        self.act(|e, fx| e.submit(client, b"q", submit, fx))
    }

    pub(crate) fn uses(&mut self, session: SessionId, queue: &str) {
        self.act(|e, fx| e.use_queue(session, queue.as_bytes(), fx));
    }

    fn totals(&self) -> (u64, u64, u64) {
        let totals = self.engine.totals();
        (totals.puts, totals.duplicates, totals.keyless)
    }
}

#[test]
fn a_put_of_the_same_body_is_answered_with_the_job() {
    let mut world = all(by("body"), []);
    let session = world.open();
    let first = world.put_body(session, "a").unwrap();
    world.records();
    assert_eq!(world.put_body(session, "a"), Ok(first));
    let slot = world.engine.slot(first).unwrap();
    // The reply depends on the first job, and nothing else is written.
    assert_eq!(world.records(), [Record::Known(slot, first)]);
    let other = world.put_body(session, "b").unwrap();
    assert_ne!(other, first);
    assert_eq!(world.totals(), (2, 1, 0));
    // Another queue has other jobs.
    world.uses(session, "elsewhere");
    assert!(world.put_body(session, "a").unwrap() > other);
    // An empty body is no key. Such jobs have nothing in common.
    let empty = world.put_body(session, "").unwrap();
    assert_ne!(world.put_body(session, ""), Ok(empty));
    assert_eq!(world.totals().2, 2);
}

#[test]
fn the_key_is_held_until_the_job_is_done() {
    let mut world = all(by("body"), []);
    let session = world.open();
    let job = NewJob { delay_s: 5, ..NewJob::default() };
    let id = world.act(|e, fx| e.put(session, job, b"a"[..].into(), fx)).unwrap();
    assert_eq!(world.state(id), Some(State::Delayed));
    assert_eq!(world.put_body(session, "a"), Ok(id), "delayed");
    world.pass(5000);
    assert_eq!(world.put_body(session, "a"), Ok(id), "ready");
    assert_eq!(world.taken(session), id);
    assert_eq!(world.put_body(session, "a"), Ok(id), "leased");
    assert!(world.release(session, id, 0, 0));
    assert_eq!(world.put_body(session, "a"), Ok(id), "given back");
    world.taken(session);
    assert!(world.bury(session, id));
    assert_eq!(world.put_body(session, "a"), Ok(id), "buried");
    world.act(|e, fx| e.kick_job(id, fx)).unwrap();
    assert_eq!(world.put_body(session, "a"), Ok(id), "kicked");
    assert!(world.finish(session, id));
    assert_ne!(world.put_body(session, "a"), Ok(id), "done");
}

#[test]
fn the_key_is_held_until_the_job_starts() {
    let mut world = all(by("body"), [Setting::UniqueWindow(UniqueWindow::UntilStart)]);
    let session = world.open();
    let first = world.put_body(session, "a").unwrap();
    assert_eq!(world.put_body(session, "a"), Ok(first));
    world.taken(session);
    let second = world.put_body(session, "a").unwrap();
    assert_ne!(second, first);
    assert_eq!(world.put_body(session, "a"), Ok(second));
    // Both wait again. The newer one stands in.
    world.release(session, first, 0, 0);
    assert_eq!(world.put_body(session, "a"), Ok(second));
    for _ in 0..2 {
        let id = world.taken(session);
        world.bury(session, id);
    }
    assert!(world.put_body(session, "a").unwrap() > second, "a buried job is not queued");
}

#[test]
fn buried_jobs_can_lose_their_keys() {
    let mut world = all(by("body"), [Setting::IgnoreBuried(true)]);
    let session = world.open();
    let first = world.put_body(session, "a").unwrap();
    world.taken(session);
    world.bury(session, first);
    let second = world.put_body(session, "a").unwrap();
    assert_ne!(second, first);
    // A redrive asks again. A kick does not.
    assert_eq!(world.act(|e, fx| e.redrive(first, fx)), Err(RedriveRefused::KeyTaken));
    assert_eq!(world.state(first), Some(State::Buried));
    world.act(|e, fx| e.kick_job(first, fx)).unwrap();
    assert_eq!(world.put_body(session, "a"), Ok(second));
    world.finish(session, second);
    assert_eq!(world.put_body(session, "a"), Ok(first));
}

#[test]
fn duplicates_can_be_refused() {
    let mut world = all(by("prefix:2"), [Setting::OnDuplicate(OnDuplicate::Refuse)]);
    let session = world.open();
    let id = world.put_body(session, "ab1").unwrap();
    assert_eq!(world.put_body(session, "ab2"), Err(Refused::Duplicate));
    assert!(!world.add("default", "ab3"), "for all dialects");
    assert!(world.put_body(session, "ac").is_ok());
    world.finish(session, id);
    assert!(world.put_body(session, "ab2").is_ok());
    let client = world.open();
    assert!(world.submit_key(client, ("", "ab"), FOREGROUND).is_ok());
    assert_eq!(world.submit_key(client, ("", "ab"), FOREGROUND), Err(Refused::Duplicate));
}

#[test]
fn a_full_queue_has_the_job_already() {
    let limits = [Setting::JobsMax(Some(1)), Setting::ItemBytesMax(Some(3))];
    let mut world = all(by("prefix:1"), limits);
    let session = world.open();
    let id = world.put_body(session, "a").unwrap();
    assert_eq!(world.put_body(session, "b"), Err(Refused::QueueFull));
    assert_eq!(world.put_body(session, "ab"), Ok(id));
    assert_eq!(world.put_body(session, "abcd"), Err(Refused::TooBig));
    // Gearman's own limit of a function.
    world.rules([Rule::new(["*"], [by("prefix:1")])]);
    let client = world.open();
    let id = world.submit_key(client, ("", "a"), !FOREGROUND).unwrap();
    world.act(|e, fx| e.limit_queue(b"q", [1; 3], fx)).expect("it exists");
    assert_eq!(world.submit_key(client, ("", "b"), !FOREGROUND), Err(Refused::QueueFull));
    assert_eq!(world.submit_key(client, ("", "a2"), !FOREGROUND), Ok(id));
}

#[test]
fn a_foreground_submit_gets_the_result_of_the_job() {
    let mut world = all(by("json:/id"), []);
    let (producer, client, worker) = (world.open(), world.open(), world.open());
    world.uses(producer, "q");
    let id = world.put_body(producer, r#"{"id":7}"#).unwrap();
    assert_eq!(world.submit_key(client, ("k", r#"{"id":7,"x":1}"#), FOREGROUND), Ok(id));
    world.act(|e, _| e.watch(worker, b"q"));
    assert_eq!(world.taken(worker), id);
    world.events();
    world.finish(worker, id);
    let events = world.events();
    assert!(matches!(&events[..], [(to, news)] if *to == client && news.contains("Complete")));
}

#[test]
fn a_job_that_stands_in_for_a_put_lasts_as_long() {
    let mut world = all(by("prefix:1"), []);
    let (client, producer) = (world.open(), world.open());
    world.uses(producer, "q");
    let id = world.submit_key(client, ("", "a"), FOREGROUND).unwrap();
    let slot = world.engine.slot(id).unwrap();
    assert!(!world.engine.is_durable(slot));
    assert_eq!(world.put_body(producer, "a2"), Ok(id));
    assert!(world.engine.is_durable(slot));
    world.close(client);
    assert_eq!(world.state(id), Some(State::Ready), "the put is kept");
    // The log has no room for a larger body than that of the put.
    let client = world.open();
    let long = world.submit_key(client, ("", "b long"), FOREGROUND).unwrap();
    let short = world.put_body(producer, "b").unwrap();
    assert_ne!(short, long);
    // The same for jobs that only the memory has.
    let memory = Setting::Sync(Some(QueueSync::Memory));
    world.rules([Rule::new(["*"], [by("body"), memory])]);
    let lost = world.put_body(producer, "m").unwrap();
    assert_eq!(world.put_body(producer, "m"), Ok(lost));
    world.rules([Rule::new(["*"], [by("body")])]);
    assert_eq!(world.put_body(producer, "m"), Ok(lost));
    assert!(world.engine.is_durable(world.engine.slot(lost).unwrap()));
}

#[test]
fn a_dead_letter_gives_its_key_up_and_returns_only_if_it_is_free() {
    for target in [DeadTarget::Bury, DeadTarget::Queue(b"dead"[..].into())] {
        let dead =
            [Setting::Retries(true), Setting::RetryLimit(0), Setting::DeadQueue(target.clone())];
        let mut world = world([
            Rule::new(["default"], [by("body")].into_iter().chain(dead)),
            Rule::new(["dead"], [by("body")]),
        ]);
        let session = world.open();
        let first = world.put_body(session, "a").unwrap();
        world.taken(session);
        world.release(session, first, 0, 0);
        let second = world.put_body(session, "a").unwrap();
        assert_ne!(second, first, "{target:?}");
        let refused = world.act(|e, fx| e.redrive(first, fx));
        assert_eq!(refused, Err(RedriveRefused::KeyTaken), "{target:?}");
        world.finish(session, second);
        world.act(|e, fx| e.redrive(first, fx)).unwrap();
        assert_eq!(world.put_body(session, "a"), Ok(first), "{target:?}");
    }
}

#[test]
fn a_retried_job_keeps_its_key() {
    let retries = [Setting::Retries(true), Setting::RetryLimit(3)];
    let mut world = all(by("body"), retries);
    let session = world.open();
    let id = world.put_body(session, "a").unwrap();
    world.taken(session);
    world.release(session, id, 0, 0);
    assert_eq!(world.state(id), Some(State::Delayed));
    assert_eq!(world.put_body(session, "a"), Ok(id));
}

#[test]
fn a_move_asks_for_the_key() {
    let mut world = all(by("body"), []);
    let session = world.open();
    let first = world.put_body(session, "a").unwrap();
    world.uses(session, "other");
    let second = world.put_body(session, "a").unwrap();
    let refused = world.act(|e, fx| e.move_job(second, b"default", fx));
    assert_eq!(refused, Err(MoveRefused::NoRoom(Refused::Duplicate)));
    world.finish(session, first);
    world.act(|e, fx| e.move_job(second, b"default", fx)).unwrap();
    world.uses(session, "default");
    assert_eq!(world.put_body(session, "a"), Ok(second));
    world.uses(session, "other");
    assert_ne!(world.put_body(session, "a"), Ok(second));
}

#[test]
fn each_queue_of_a_route_looks_for_itself() {
    let copies = Setting::CopyTo([b"audit"[..].into()].into());
    let mut world = world([Rule::new(["p*"], [by("body")]), Rule::new(["p"], [copies])]);
    assert!(world.add("p+c", "own") && world.add("p", "a") && world.add("p", "a"));
    let items = |world: &World, queue: &str| {
        world.engine.item_stats(queue.as_bytes()).map_or(0, |stats| stats.items)
    };
    let counts = |world: &World| ["p", "p+c", "audit"].map(|queue| items(world, queue));
    assert_eq!(counts(&world), [1, 2, 1]);
    // The child has done its own. It gets the item again, although the parent still has it.
    let reader = world.open();
    for _ in 0..2 {
        let read = world.act(|e, fx| {
            let choice = Choice::Queue(b"p+c", ReadMode::Finish);
            e.take(reader, choice, Patience::None, fx)
        });
        assert!(read.item().is_some());
    }
    assert!(world.add("p", "a"));
    assert_eq!(counts(&world), [1, 1, 1], "no copy of what is no new job");
}

#[test]
fn an_expired_item_has_no_key() {
    let mut world = all(by("body"), []);
    let at = When::At(Millis(START.0 + 100));
    let head = world.act(|e, fx| e.add(None, b"q", b"head"[..].into(), None, fx));
    let short = world.act(|e, fx| e.add(None, b"q", b"a"[..].into(), Some(at), fx));
    assert_eq!((head, short), (Ok(()), Ok(())));
    assert!(world.add("q", "a"));
    assert_eq!(world.engine.totals().ready, 2);
    world.engine.set_time(Millis(START.0 + 101));
    assert!(world.add("q", "a"));
    assert_eq!(world.engine.totals().ready, 3);
}

#[test]
fn keys_survive_a_restart_and_a_change_of_the_policy() {
    let mut world = all(by("body"), []);
    let session = world.open();
    let id = world.put_body(session, "a").unwrap();
    let facts = world.engine.facts(world.engine.slot(id).unwrap());
    assert!(facts.key.is_some());
    let mut engine = Engine::new(EngineSetup::default(), START, 1);
    // The body may be only in the log.
    engine.restore(b"default", &facts, None, JobBody::Stored(1)).unwrap();
    engine.restore_policies(world.engine.policies().clone());
    engine.check_invariants();
    let again = engine.open_session(0, ReturnOrder::KeepPlace);
    let put = engine.put(again, NewJob::default(), b"a"[..].into(), &mut world.effects);
    assert_eq!(put, Ok(id));
    assert_eq!(engine.facts(engine.slot(id).unwrap()), facts);
    // Without the policy, the key is only a fact.
    world.effects.records.clear();
    world.rules([]);
    let free = world.put_body(session, "a").unwrap();
    assert_ne!(free, id);
    world.rules([Rule::new(["*"], [by("body")])]);
    assert_eq!(world.put_body(session, "a"), Ok(id), "the other one got no key");
    world.rules([Rule::new(["*"], [by("prefix:1")])]);
    assert!(world.put_body(session, "a").unwrap() > free, "another expression, another key");
}

#[test]
fn jobs_with_keys_stay_in_memory() {
    let mut world = all(by("body"), []);
    let session = world.open();
    let id = world.put_body(session, "a").unwrap();
    assert!(!world.engine.may_be_cold(world.engine.slot(id).unwrap()));
    let empty = world.put_body(session, "").unwrap();
    assert!(world.engine.may_be_cold(world.engine.slot(empty).unwrap()));
}

#[test]
fn a_put_during_a_removal_is_no_duplicate_of_what_ends() {
    let mut world = all(by("prefix:4"), []);
    let session = world.open();
    let count = u64::from(crate::world::SLICE_UNITS) * 2;
    for number in 0..count {
        assert!(world.add("q", &format!("{number:04}")));
    }
    let clearing = world.act(|e, fx| e.remove_queue(session, b"q", fx));
    assert_eq!(clearing, Clearing::Waiting);
    let last = format!("{:04}", count - 1);
    let next = world.engine.next_number();
    assert!(world.add("q", &last) && world.add("q", &last));
    for _ in 0..10 {
        world.pass(1);
    }
    assert_eq!(world.engine.totals().ready, 1);
    assert!(world.engine.slot(JobId(next)).is_ok());
}

#[test]
fn a_job_that_moves_into_a_queue_during_its_removal_has_its_key_there() {
    let mut world = all(by("prefix:4"), []);
    let session = world.open();
    let moved = world.put_body(session, "main 1").unwrap();
    for number in 0..crate::world::SLICE_UNITS * 2 {
        assert!(world.add("q", &format!("{number:04}")));
    }
    let clearing = world.act(|e, fx| e.remove_queue(session, b"q", fx));
    assert_eq!(clearing, Clearing::Waiting);
    world.act(|e, fx| e.move_job(moved, b"q", fx)).unwrap();
    let client = world.open();
    world.uses(client, "q");
    assert_eq!(world.put_body(client, "main 2"), Ok(moved));
}

#[test]
fn a_gearman_key_can_be_the_key() {
    let mut world = all(by("gm:unique"), []);
    let (client, worker) = (world.open(), world.open());
    let id = world.submit_key(client, ("k", "1"), !FOREGROUND).unwrap();
    // Gearman itself joins no buried job.
    world.act(|e, fx| e.register(worker, b"q", None, fx));
    let order = GrabOrder::NewestFirst;
    world.act(|e, fx| grab(e, worker, order, fx)).expect("it is ready");
    world.bury(worker, id);
    assert_eq!(world.submit_key(client, ("k", "2"), !FOREGROUND), Ok(id));
    assert_ne!(world.submit_key(client, ("", "1"), !FOREGROUND), Ok(id));
}

fn for_a_second() -> [Setting; 1] {
    [Setting::UniqueWindow(UniqueWindow::For(1000))]
}

#[test]
fn a_window_counts_from_the_put_and_goes_on_when_the_job_is_done() {
    let mut world = all(by("body"), for_a_second());
    let session = world.open();
    world.uses(session, "q");
    let id = world.put_body(session, "a").unwrap();
    world.pass(400);
    assert_eq!(world.put_body(session, "a"), Ok(id), "ready");
    assert!(world.finish(session, id));
    world.records();
    assert_eq!(world.put_body(session, "a"), Ok(id), "done");
    assert_eq!(world.records(), [Record::KnownEnded]);
    assert_ne!(world.put_body(session, "b"), Ok(id), "another key");
    world.uses(session, "elsewhere");
    assert_ne!(world.put_body(session, "a"), Ok(id), "another queue");
    world.uses(session, "q");
    world.pass(599);
    assert_eq!(world.put_body(session, "a"), Ok(id), "the last millisecond");
    let memory = world.engine.memory_bytes();
    world.pass(1);
    assert!(world.engine.memory_bytes() < memory, "the claim is gone");
    let next = world.put_body(session, "a").unwrap();
    assert_ne!(next, id);
    // A job that is not done gives its key up, too.
    world.pass(1000);
    let third = world.put_body(session, "a").unwrap();
    assert_ne!(third, next);
    assert_eq!(world.put_body(session, "a"), Ok(third));
    assert_eq!(world.engine.claims().count(), 0);
}

#[test]
fn the_end_of_a_job_whose_key_stays_takes_no_memory() {
    let mut world = all(by("body"), for_a_second());
    let session = world.open();
    let empty = world.engine.memory_bytes();
    let ids = ["a", "b", "c"].map(|body| world.put_body(session, body).unwrap());
    let full = world.engine.memory_bytes();
    let records = world.engine.record_bytes();
    for (ended, id) in ids.into_iter().enumerate() {
        let before = world.engine.memory_bytes();
        assert!(world.finish(session, id));
        assert_eq!(world.engine.claims().count(), ended + 1);
        assert!(world.engine.memory_bytes() < before);
    }
    world.pass(1000);
    assert_eq!(world.engine.memory_bytes(), empty);
    // A reload changes what the ends of the jobs can leave.
    for body in ["a", "b", "c"] {
        world.put_body(session, body).unwrap();
    }
    assert_eq!(world.engine.memory_bytes(), full);
    assert_eq!(world.engine.record_bytes(), records);
    world.rules([Rule::new(["*"], [by("body")])]);
    assert!(world.engine.memory_bytes() < full);
    assert_eq!(world.engine.record_bytes(), records, "no upkeep could lower this part");
    world.rules([Rule::new(["*"], [by("body")].into_iter().chain(for_a_second()))]);
    assert_eq!(world.engine.memory_bytes(), full);
}

#[test]
fn a_claim_is_written_before_the_end_and_removed_after_its_window() {
    let mut world = all(by("body"), for_a_second());
    let session = world.open();
    let id = world.put_body(session, "a").unwrap();
    world.records();
    assert!(world.finish(session, id));
    let [Record::Claim(key), Record::Finish { .. }] = world.records()[..] else {
        panic!("a claim, and then the end")
    };
    let claim = world.engine.claim(key).expect("it has begun");
    assert_eq!((claim.id, claim.until), (id, Millis(START.0 + 1000)));
    // A restart finds the claim, and not the job.
    let mut engine = Engine::new(EngineSetup::default(), START, id.0 + 1);
    engine.restore_policies(world.engine.policies().clone());
    engine.apply_claim(key, Some(claim));
    engine.check_invariants();
    let again = engine.open_session(0, ReturnOrder::KeepPlace);
    let put = engine.put(again, NewJob::default(), b"a"[..].into(), &mut world.effects);
    assert_eq!(put, Ok(id));
    assert_eq!(engine.next_deadline(), Some(claim.until));
    world.records();
    world.pass(1000);
    assert_eq!(world.records(), [Record::Claim(key)]);
    assert_eq!(world.engine.claim(key), None);
    // A queue that is only in memory writes no claims.
    let memory = Setting::Sync(Some(QueueSync::Memory));
    world.rules([Rule::new(["*"], [by("body"), memory].into_iter().chain(for_a_second()))]);
    let id = world.put_body(session, "a").unwrap();
    world.records();
    assert!(world.finish(session, id));
    world.pass(500);
    assert_eq!(world.put_body(session, "a"), Ok(id));
    world.pass(500);
    assert_eq!(world.records(), [Record::KnownEnded]);
}

#[test]
fn a_job_that_is_not_done_leaves_no_claim() {
    let limits = [Setting::JobsMax(Some(1)), Setting::WhenFull(WhenFull::DropOldest)];
    let retries =
        [Setting::Retries(true), Setting::RetryLimit(0), Setting::DeadQueue(DeadTarget::Drop)];
    let more = for_a_second().into_iter().chain(limits).chain(retries);
    let mut world = all(by("body"), more);
    let session = world.open();
    let dropped = world.put_body(session, "a").unwrap();
    world.put_body(session, "b").unwrap();
    assert_eq!(world.state(dropped), None);
    let again = world.put_body(session, "a").unwrap();
    assert_ne!(again, dropped);
    let dead = world.taken(session);
    world.release(session, dead, 0, 0);
    assert_ne!(world.put_body(session, "a"), Ok(again), "a dead letter");
    let cancelled = world.engine.next_number() - 1;
    world.act(|e, fx| e.cancel(JobId(cancelled), fx)).unwrap();
    assert_eq!(world.engine.claims().count(), 0);
}

#[test]
fn a_foreground_submit_is_refused_if_the_job_is_done_already() {
    let mut world = all(by("body"), for_a_second());
    let (client, worker) = (world.open(), world.open());
    let id = world.submit_key(client, ("", "a"), !FOREGROUND).unwrap();
    world.act(|e, fx| e.finish(worker, id, fx)).unwrap();
    // Nobody has the result any more.
    assert_eq!(world.submit_key(client, ("", "a"), FOREGROUND), Err(Refused::Duplicate));
    assert_eq!(world.submit_key(client, ("", "a"), !FOREGROUND), Ok(id));
    world.rules([Rule::new(
        ["*"],
        [by("body"), Setting::OnDuplicate(OnDuplicate::Refuse)].into_iter().chain(for_a_second()),
    )]);
    assert_eq!(world.submit_key(client, ("", "a"), !FOREGROUND), Err(Refused::Duplicate));
}

#[test]
fn a_redrive_and_a_move_ask_for_claims() {
    let dead = [Setting::Retries(true), Setting::RetryLimit(0)];
    let mut world = all(by("body"), for_a_second().into_iter().chain(dead));
    let session = world.open();
    let first = world.put_body(session, "a").unwrap();
    world.taken(session);
    world.release(session, first, 0, 0);
    let second = world.put_body(session, "a").unwrap();
    world.finish(session, second);
    assert_eq!(world.act(|e, fx| e.redrive(first, fx)), Err(RedriveRefused::KeyTaken));
    world.uses(session, "other");
    let third = world.put_body(session, "a").unwrap();
    let refused = world.act(|e, fx| e.move_job(third, b"default", fx));
    assert_eq!(refused, Err(MoveRefused::NoRoom(Refused::Duplicate)));
    world.pass(1000);
    world.act(|e, fx| e.redrive(first, fx)).unwrap();
}

#[test]
fn the_window_of_a_key_outlasts_its_queue_for_a_redrive_and_a_move_too() {
    let to_dead = Setting::DeadQueue(DeadTarget::Queue(b"dead"[..].into()));
    let dead = [Setting::Retries(true), Setting::RetryLimit(0), to_dead];
    let rules = for_a_second().into_iter().chain(dead).chain([by("body")]);
    let mut world = World::new();
    world.rules([Rule::new(["q"], rules)]);
    let session = world.open();
    world.act(|e, _| e.watch(session, b"q"));
    world.uses(session, "q");
    let first = world.put_body(session, "a").unwrap();
    world.taken(session);
    world.release(session, first, 0, 0);
    let second = world.put_body(session, "a").unwrap();
    world.finish(session, second);
    world.uses(session, "other");
    world.act(|e, fx| e.ignore(session, b"q", fx));
    assert_eq!(world.engine.queue_id(b"q"), None, "nothing needs it");
    assert_eq!(world.act(|e, fx| e.redrive(first, fx)), Err(RedriveRefused::KeyTaken));
    world.pass(1000);
    world.act(|e, fx| e.redrive(first, fx)).unwrap();
}

fn bumping() -> [Setting; 1] {
    [Setting::OnDuplicate(OnDuplicate::Bump)]
}

impl World {
    pub(crate) fn put_with(
        &mut self,
        session: SessionId,
        body: &str,
        priority: u32,
        delay_s: u32,
    ) -> JobId {
        let job = NewJob { priority, delay_s, ..NewJob::default() };
        self.act(|e, fx| e.put(session, job, body.as_bytes().into(), fx)).expect("it is taken")
    }

    pub(crate) fn facts(&self, id: JobId) -> (u32, State) {
        let facts = self.engine.job_status(id).expect("it exists").facts;
        (facts.priority, facts.state)
    }
}

#[test]
fn a_bump_makes_a_waiting_job_as_urgent_as_the_put() {
    let mut world = all(by("prefix:1"), bumping());
    let session = world.open();
    let other = world.put_with(session, "b", 5, 0);
    let id = world.put_with(session, "a1", 7, 0);
    world.records();
    assert_eq!(world.put_with(session, "a2", 9, 0), id);
    assert_eq!(world.facts(id), (7, State::Ready), "a less urgent put changes nothing");
    let slot = world.engine.slot(id).unwrap();
    assert_eq!(world.records(), [Record::Known(slot, id)]);
    assert_eq!(world.put_with(session, "a2", 3, 0), id);
    assert_eq!(world.records(), [Record::Moved(slot, id), Record::Known(slot, id)]);
    assert_eq!(world.taken(session), id);
    assert_eq!(world.engine.body(slot).len(), 2, "it has its own body");
    // A worker has it, so nothing changes any more.
    assert_eq!(world.put_with(session, "a3", 1, 0), id);
    assert_eq!(world.facts(id).0, 3);
    assert!(world.bury(session, id));
    let buried = world.facts(id);
    assert_eq!(world.put_with(session, "a3", 0, 0), id);
    assert_eq!(world.facts(id), buried);
    assert_eq!(world.taken(session), other);
}

#[test]
fn a_bump_brings_a_delayed_job_forward() {
    let mut world = all(by("prefix:1"), bumping());
    let (session, worker) = (world.open(), world.open());
    let id = world.put_with(session, "a", 7, 10);
    assert_eq!(world.put_with(session, "a", 8, 20), id);
    assert_eq!(world.put_with(session, "a", 6, 5), id);
    assert_eq!(world.facts(id), (6, State::Delayed));
    world.pass(4999);
    assert_eq!(world.facts(id).1, State::Delayed);
    world.pass(1);
    assert_eq!(world.facts(id).1, State::Ready);
    // A put without a delay makes the job ready, and a client that waits gets it.
    let id = world.put_with(session, "b", 7, 10);
    assert!(world.finish(session, JobId(1)));
    assert!(matches!(world.take(worker, Patience::Endless), Take::Waiting));
    world.events();
    assert_eq!(world.put_with(session, "b", 7, 0), id);
    assert_eq!(world.facts(id).1, State::Leased);
    assert_eq!(world.events().len(), 1);
}

#[test]
fn a_bump_uses_the_defaults_of_the_queue() {
    let defaults = [Setting::Priority(100), Setting::Delay(5)];
    let mut world = all(by("prefix:1"), bumping().into_iter().chain(defaults));
    let session = world.open();
    let id = world.put_with(session, "a", 200, 60);
    assert!(world.add("default", "a2"), "an item has no priority and no delay");
    assert_eq!(world.facts(id), (100, State::Delayed));
    world.pass(5000);
    assert_eq!(world.facts(id).1, State::Ready);
}

#[test]
fn a_reader_that_waits_gets_a_bumped_item() {
    let mut world = all(by("prefix:1"), bumping());
    let (session, reader) = (world.open(), world.open());
    world.uses(session, "q");
    let id = world.put_with(session, "a", 7, 10);
    let waiting = world.act(|e, fx| {
        let choice = Choice::Queue(b"q", ReadMode::Finish);
        e.take(reader, choice, Patience::Endless, fx)
    });
    assert!(matches!(waiting, Take::Waiting));
    assert_eq!(world.put_with(session, "a", 7, 0), id);
    assert_eq!(world.state(id), Some(State::Leased));
    assert_eq!(world.events().len(), 1);
}

#[test]
fn a_put_can_ask_whether_it_would_be_a_duplicate() {
    let alias = Rule::new(["all"], [Setting::Alias([b"other"[..].into(), b"q"[..].into()].into())]);
    let hour = [by("body"), Setting::UniqueWindow(UniqueWindow::For(3_600_000))];
    let mut world = world([alias, Rule::new(["q"], hour)]);
    let session = world.open();
    let asks = |world: &mut World, queue: &str, body: &str| {
        world.uses(session, queue);
        world.engine.put_is_duplicate(session, &body.as_bytes().into())
    };
    assert!(!asks(&mut world, "q", "a"));
    let id = world.put_body(session, "a").unwrap();
    world.records();
    assert!(asks(&mut world, "q", "a") && asks(&mut world, "all", "a"));
    assert!(!asks(&mut world, "q", "b") && !asks(&mut world, "other", "a"));
    // The key stays after the end of the job, until the window ends.
    assert!(world.finish(session, id));
    assert!(asks(&mut world, "q", "a"));
    world.pass(3_600_000);
    assert!(!asks(&mut world, "q", "a"));
}
