//! Names that stand for another queue, in all dialects.

use lineshaft_engine::policy::{Rule, Rules, RulesError, Setting};
use lineshaft_engine::{
    Effects, Engine, EngineSetup, GrabOrder, JobId, Millis, MoveRefused, NewJob, News, Patience,
    ReadMode, Refused, SessionId, State, Submit, Take,
};

use crate::world::{SLICE_UNITS, START, World, grab};

fn same_as(pattern: &str, target: &str) -> Rule {
    Rule::new([pattern], [Setting::SameAs(Some(target.as_bytes().into()))])
}

fn put(world: &mut World, session: SessionId, queue: &str) -> JobId {
    world.act(|engine, fx| engine.use_queue(session, queue.as_bytes(), fx));
    let job = NewJob { ttr_s: 60, ..NewJob::default() };
    world.act(|engine, fx| engine.put(session, job, b"body"[..].into(), fx)).expect("it has room")
}

fn watch(world: &mut World, session: SessionId, queue: &str) -> usize {
    world.act(|engine, fx| {
        engine.forget_watched_name(session, queue.as_bytes(), fx);
        engine.watch(session, queue.as_bytes())
    })
}

fn ignore(world: &mut World, session: SessionId, queue: &str) -> Option<usize> {
    world.act(|engine, fx| engine.ignore(session, queue.as_bytes(), fx))
}

fn watched(world: &World, session: SessionId) -> Vec<String> {
    let names = world.engine.watched_names(session);
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

fn ready(world: &World, queue: &str) -> u64 {
    let queue = world.engine.queue_id(queue.as_bytes());
    queue.map_or(0, |queue| world.engine.queue_stats(queue).ready)
}

fn names(world: &World) -> Vec<String> {
    let name = |queue| String::from_utf8_lossy(world.engine.queue_name(queue)).into_owned();
    world.engine.queue_ids().map(name).collect()
}

fn submit(world: &mut World, session: SessionId, queue: &str) -> Result<JobId, Refused> {
    let submit = Submit {
        priority: None,
        due: None,
        unique: b"key",
        reducer: b"",
        body: b"work"[..].into(),
        foreground: true,
    };
    world.act(|engine, fx| engine.submit(session, queue.as_bytes(), submit, fx))
}

/// Makes so many queues that new policies come only in later slices to those that follow.
fn fill(world: &mut World) {
    let session = world.open();
    for number in 0..3 * SLICE_UNITS {
        world.engine.watch(session, format!("q{number}").as_bytes());
    }
}

#[test]
fn a_worker_of_one_protocol_gets_what_a_client_of_another_put_under_another_name() {
    let mut world = World::new();
    world.policies([same_as("send_*", "mail")]);
    let (producer, worker) = (world.open(), world.open());
    world.act(|engine, fx| engine.register(worker, b"send_mail", None, fx));
    assert!(world.act(|engine, _| engine.sleep(worker)), "there is no job");
    let id = put(&mut world, producer, "mail");
    assert_eq!(world.events(), [(worker, "work to do".into())]);
    let got = world.act(|engine, fx| grab(engine, worker, GrabOrder::NewestFirst, fx));
    let got = got.expect("the queue has a job");
    assert_eq!(got.id, id);
    let queue = world.engine.queue_of(got.job);
    assert_eq!(world.engine.queue_name(queue), b"mail");
    assert_eq!(world.engine.registered_name(worker, queue), b"send_mail");
    assert!(world.add("send_mail", "item"));
    assert_eq!(world.get("mail").as_deref(), Some("item"));
    assert!(world.add("mail", "item"));
    assert_eq!(world.get("send_later").as_deref(), Some("item"));
    assert_eq!(names(&world), ["default", "mail"]);
    let client = world.open();
    let joined = submit(&mut world, client, "send_mail");
    assert_eq!(submit(&mut world, client, "mail"), joined, "one queue has one job with a key");
}

#[test]
fn the_policy_is_that_of_the_queue() {
    let mut world = World::new();
    world.policies([
        Rule::new(["mail"], [Setting::JobsMax(Some(1))]),
        Rule::new(["send_mail"], [Setting::JobsMax(Some(5))]),
        same_as("send_mail", "mail"),
    ]);
    assert!(world.add("send_mail", "one"));
    assert!(!world.add("send_mail", "two"), "`mail` is full");
    assert_eq!(world.engine.policy(b"send_mail").jobs_max, Some(1));
    let rules = world.engine.policies();
    assert_eq!(rules.resolve(b"send_mail", None).same_as.as_deref(), Some(&b"mail"[..]));
}

#[test]
fn a_session_has_the_names_that_it_has_used() {
    let mut world = World::new();
    world.policies([same_as("send_*", "mail")]);
    let session = world.open();
    put(&mut world, session, "send_mail");
    assert_eq!(world.engine.used_name(session), b"send_mail");
    assert_eq!(watch(&mut world, session, "send_mail"), 2);
    assert_eq!(watch(&mut world, session, "send_mail"), 2);
    assert_eq!(watch(&mut world, session, "mail"), 3);
    assert_eq!(watched(&world, session), ["default", "send_mail", "mail"]);
    let mail = world.engine.queue_id(b"mail").expect("it has a job");
    assert_eq!(world.engine.queue_stats(mail).watchers, 1, "it is one queue");
    assert!(world.engine.watches(session, b"mail") && !world.engine.watches(session, b"send_x"));
    assert_eq!(ignore(&mut world, session, "default"), Some(2));
    assert_eq!(ignore(&mut world, session, "send_x"), Some(2), "it has not used this name");
    assert_eq!(ignore(&mut world, session, "mail"), Some(1));
    assert_eq!(ignore(&mut world, session, "send_mail"), None, "it is the last one");
    assert!(matches!(world.take(session, Patience::None), Take::Granted(_)));
    assert_eq!(watch(&mut world, session, "default"), 2);
    assert_eq!(ignore(&mut world, session, "send_mail"), Some(1));
    assert_eq!(world.engine.queue_stats(mail).watchers, 0);
    world.close(session);
}

#[test]
fn a_worker_can_register_under_several_names() {
    let mut world = World::new();
    world.policies([same_as("send_*", "mail")]);
    let worker = world.open();
    for name in ["mail", "send_a", "send_b", "send_a"] {
        world.act(|engine, fx| engine.register(worker, name.as_bytes(), None, fx));
    }
    let mail = world.engine.queue_id(b"mail").expect("it has a worker");
    assert_eq!(world.engine.registered(worker, b"send_b"), (3, true));
    assert_eq!(world.engine.registered(worker, b"send_c"), (3, false));
    assert_eq!(world.engine.registered_name(worker, mail), b"send_a", "the newest one");
    assert_eq!(world.engine.queue_stats(mail).workers, 1);
    for (name, left) in [("send_a", 2), ("send_c", 2), ("mail", 1)] {
        world.act(|engine, fx| engine.unregister(worker, name.as_bytes(), fx));
        assert_eq!(world.engine.registered(worker, b"send_b"), (left, true));
    }
    world.act(|engine, fx| engine.unregister(worker, b"send_b", fx));
    assert_eq!(world.engine.registered(worker, b"send_b"), (0, false));
    world.act(|engine, fx| engine.register(worker, b"send_a", None, fx));
    world.act(|engine, fx| engine.unregister_all(worker, fx));
    assert_eq!(world.engine.queue_stats(mail).workers, 0);
}

#[test]
fn the_jobs_of_a_queue_move_when_its_name_stands_for_another_one() {
    let mut world = World::new();
    let (session, worker) = (world.open(), world.open());
    let ids = [(); 3].map(|()| put(&mut world, session, "old"));
    watch(&mut world, worker, "old");
    let held = world.taken(worker);
    assert_eq!(held, ids[0]);
    let late = NewJob { delay_s: 5, ttr_s: 60, ..NewJob::default() };
    let late = world.act(|e, fx| e.put(session, late, b"body"[..].into(), fx)).expect("has room");
    world.policies([
        same_as("old", "new"),
        // A limit of the queue is no reason to lose them.
        Rule::new(["new"], [Setting::JobsMax(Some(1))]),
    ]);
    world.pass(10);
    assert_eq!(ready(&world, "new"), 2);
    let old = world.engine.own_queue_id(b"old").expect("a job of it is leased");
    assert_eq!(world.engine.queue_stats(old).ready, 0);
    assert_eq!(world.engine.shown_queue_id(b"old"), Some(old), "operators see what is left");
    assert!(world.release(worker, held, 0, 0));
    world.pass(6000);
    assert_eq!(ready(&world, "new"), 4);
    assert_eq!([ids[1], late].map(|id| world.state(id)), [Some(State::Ready); 2]);
    // The sessions still use and watch the old queue, but nothing is put into it.
    let job = NewJob { ttr_s: 60, ..NewJob::default() };
    let put_again = world.act(|e, fx| e.put(session, job, b"body"[..].into(), fx));
    assert_eq!(put_again, Err(Refused::QueueFull), "the limit of the new queue");
    assert_eq!(watch(&mut world, worker, "old"), 2, "by its name it is the new one now");
    assert_eq!(world.taken(worker), held);
    world.act(|engine, fx| engine.use_queue(session, b"old", fx));
    world.pass(10);
    assert_eq!(world.engine.own_queue_id(b"old"), None);
    assert_eq!(world.act(|e, fx| e.move_job(late, b"old", fx)), Err(MoveRefused::SameQueue));
    world.policies([]);
    assert_eq!(world.engine.queue_id(b"old"), None);
    assert_eq!(watch(&mut world, worker, "old"), 2);
    put(&mut world, session, "old");
    assert_eq!([ready(&world, "old"), ready(&world, "new")], [1, 3]);
    assert_eq!(watched(&world, worker), ["default", "old"]);
}

#[test]
fn an_item_keeps_its_expiry_when_its_queue_stands_for_another_one() {
    let mut world = World::new();
    let at = |millis| Some(Millis(START.0 + millis));
    assert!(world.add("old", "endless"));
    assert!(world.add_until("old", "short", at(10)) && world.add_until("old", "long", at(1000)));
    world.pass(20);
    assert_eq!(world.stats("old").items, 3, "the short one is not the head");
    world.policies([
        same_as("old", "new"),
        Rule::new(["new"], [Setting::ExpireTo(Some(b"late"[..].into()))]),
    ]);
    world.pass(10);
    assert_eq!(
        [world.get("new").as_deref(), world.get("late").as_deref()],
        [Some("endless"), Some("short")]
    );
    world.pass(1000);
    assert_eq!(world.get("old"), None, "its time is over");
    assert_eq!([world.get("late").as_deref(), world.get("late").as_deref()], [Some("long"), None]);
}

#[test]
fn jobs_move_to_the_first_queue_of_an_alias_that_their_queue_stands_for() {
    let mut world = World::new();
    let alias = |name: &str, to: [&str; 2]| {
        Rule::new([name], [Setting::Alias(to.map(|to| to.as_bytes().into()).into())])
    };
    let (session, worker) = (world.open(), world.open());
    let id = put(&mut world, session, "old");
    watch(&mut world, worker, "a");
    world.policies([
        alias("both", ["more", "b"]),
        alias("more", ["other", "c"]),
        same_as("other", "a"),
        same_as("old", "both"),
    ]);
    world.pass(10);
    assert_eq!(world.engine.own_queue_id(b"both"), None, "an alias has no jobs");
    assert_eq!(["a", "b", "c"].map(|queue| ready(&world, queue)), [1, 0, 0]);
    assert_eq!(world.taken(worker), id);
}

#[test]
fn no_job_is_lost_while_a_reload_turns_a_same_as_round() {
    let alias = Rule::new(["both"], [Setting::Alias([b"new"[..].into()].into())]);
    for turned in [vec![same_as("old", "new")], vec![same_as("old", "both"), alias]] {
        let mut world = World::new();
        let (session, worker) = (world.open(), world.open());
        let ids = [(); 3].map(|()| put(&mut world, session, "old"));
        fill(&mut world);
        watch(&mut world, worker, "new");
        world.policies([same_as("new", "old")]);
        world.pass(10);
        world.act(|engine, fx| engine.set_policies(Rules(turned), fx));
        world.engine.set_time(Millis(world.engine.now().0 + 1));
        world.act(Engine::advance);
        let new = world.engine.own_queue_id(b"new").expect("it is watched");
        assert_eq!(world.engine.queue_stats(new).ready, 3, "the jobs have moved");
        world.engine.set_time(Millis(world.engine.now().0 + 1));
        assert_eq!(world.taken(worker), ids[0], "the policies come to the new queue now");
        world.pass(10);
        assert_eq!(ready(&world, "new"), 2);
    }
}

#[test]
fn a_session_that_comes_while_a_reload_goes_on_gets_the_jobs_of_the_new_queue() {
    let mut world = World::new();
    let (session, watcher, worker) = (world.open(), world.open(), world.open());
    let reader = world.reader();
    fill(&mut world);
    let register = |world: &mut World| {
        world.act(|engine, fx| engine.register(worker, b"old_b", None, fx));
    };
    watch(&mut world, watcher, "old_a");
    register(&mut world);
    assert_eq!(world.get("old_c"), None);
    world.policies([same_as("old_*", "new")]);
    // The new policies have not come to the old queues yet.
    assert_eq!(watch(&mut world, watcher, "old_a"), 2);
    register(&mut world);
    let read = world.read(reader, "old_c", ReadMode::Finish, Patience::Endless);
    assert!(matches!(read, Take::Waiting));
    world.pass(10);
    let ids = [(); 3].map(|()| put(&mut world, session, "old_a"));
    assert_eq!(world.events(), [(reader, format!("granted {}", ids[0]))]);
    assert_eq!(world.taken(watcher), ids[1]);
    let got = world.act(|engine, fx| grab(engine, worker, GrabOrder::NewestFirst, fx));
    assert_eq!(got.map(|got| got.id), Some(ids[2]));
}

#[test]
fn statistics_show_what_is_left_in_a_queue_whose_name_stands_for_another_one() {
    let mut world = World::new();
    let reader = world.reader();
    assert!(world.add("old", "a") && world.add("new", "bb") && world.add("new", "cc"));
    let (_, lease) = world.open_one(reader, "old");
    world.policies([same_as("old", "new")]);
    world.pass(10);
    let numbers = |world: &World, queue: &str| {
        let stats = world.stats(queue);
        (stats.items, stats.bytes, stats.open)
    };
    assert_eq!(world.engine.item_queues(), [&b"new"[..], b"old"]);
    assert_eq!([numbers(&world, "old"), numbers(&world, "new")], [(0, 0, 1), (2, 4, 0)]);
    assert!(world.confirm(reader, lease));
    world.pass(10);
    assert_eq!(world.engine.item_queues(), [&b"new"[..]]);
    assert_eq!(numbers(&world, "old"), (2, 4, 0), "now the name is only another one");
}

#[test]
fn a_leased_job_is_retried_although_its_queue_stands_for_another_one() {
    let mut world = World::new();
    let (client, worker) = (world.open(), world.open());
    let retries = || Rule::new(["*"], [Setting::Retries(true), Setting::RetryLimit(5)]);
    world.policies([retries()]);
    let submit = Submit {
        priority: None,
        due: None,
        unique: b"key",
        reducer: b"",
        body: b"work"[..].into(),
        foreground: false,
    };
    let id = world.act(|engine, fx| engine.submit(client, b"old", submit, fx)).expect("has room");
    world.act(|engine, fx| engine.register(worker, b"old", None, fx));
    world.act(|engine, fx| grab(engine, worker, GrabOrder::NewestFirst, fx)).expect("a job");
    world.policies([retries(), same_as("old", "new")]);
    world.act(|engine, fx| engine.fail(worker, id, &News::Fail, fx)).expect("it holds the job");
    world.pass(60_000);
    assert_eq!(ready(&world, "new"), 1, "it comes back in its new queue");
}

#[test]
fn a_kept_queue_vanishes_when_its_name_stands_for_another_one() {
    let mut world = World::new();
    assert!(world.add("old+x", "a") && world.add("old", "b"));
    world.policies([same_as("old", "new")]);
    world.pass(10);
    assert_eq!(names(&world), ["default", "new+x", "new"]);
    let items = [(); 3].map(|()| world.get("old+x"));
    assert_eq!(items.each_ref().map(Option::as_deref), [Some("a"), Some("b"), None]);
    assert_eq!(world.get("new").as_deref(), Some("b"));
}

#[test]
fn the_children_of_a_name_are_those_of_its_queue() {
    let mut world = World::new();
    world.policies([same_as("old", "new"), same_as("old+y", "copies")]);
    assert!(world.add("old+x", "for the child"));
    assert_eq!(world.get("new+x").as_deref(), Some("for the child"));
    assert!(world.add("old", "for all"));
    assert_eq!(world.get("old+x").as_deref(), Some("for all"));
    assert!(world.add("old+y", "own"));
    assert_eq!(world.get("copies").as_deref(), Some("own"), "a rule says otherwise");
    assert_eq!(names(&world), ["default", "new+x", "new", "copies"]);
    let children = world.children("old").expect("the queue has a child");
    assert_eq!(children.join(&b","[..]), b"new+x");
}

#[test]
fn circles_and_chains_are_refused() {
    let check = |rules: &[Rule]| Rules(rules.to_vec()).check();
    let chain = |name: &str| Err(RulesError::StandsForAnother { line: 0, name: name.into() });
    let none = Rule::new(["mail"], [Setting::SameAs(None)]);
    let expiring = |to: &str| Rule::new(["mail"], [Setting::ExpireTo(Some(to.as_bytes().into()))]);
    let copying = |to: &str| Rule::new(["mail"], [Setting::CopyTo([to.as_bytes().into()].into())]);
    assert_eq!(check(&[same_as("a", "b"), same_as("b", "c")]), chain("b"));
    assert_eq!(check(&[same_as("a", "a")]), chain("a"));
    assert_eq!(check(&[same_as("*", "mail")]), chain("mail"));
    assert_eq!(check(&[same_as("*", "mail"), none]), Ok(()));
    assert_eq!(check(&[same_as("a", "b+x"), same_as("b", "c")]), chain("b+x"));
    assert_eq!(check(&[same_as("a", "default")]), Ok(()));
    assert!(matches!(check(&[same_as("a", "")]), Err(RulesError::Name { key: "same_as", .. })));
    let send = same_as("send", "mail");
    assert!(matches!(
        check(&[send.clone(), expiring("send")]),
        Err(RulesError::ExpiresToItself { .. })
    ));
    assert!(matches!(check(&[send.clone(), copying("send")]), Err(RulesError::Circle { .. })));
    assert_eq!(check(&[send, copying("audit")]), Ok(()));
}

#[test]
fn default_always_has_its_name() {
    let mut world = World::new();
    world.policies([same_as("*", "mail"), Rule::new(["mail"], [Setting::SameAs(None)])]);
    let session = world.open();
    let id = world.put(session, 0, 0, 60);
    assert_eq!(world.taken(session), id);
    assert_eq!(ready(&world, "mail"), 0);
}

#[test]
fn a_restart_restores_the_queues_that_there_were() {
    let rules = Rules(vec![same_as("old", "new")]);
    let decoded = Rules::decode(&rules.encode());
    assert_eq!(decoded.as_ref(), Some(&rules));
    let mut before = World::new();
    let session = before.open();
    let id = put(&mut before, session, "old");
    let facts = before.engine.job_status(id).expect("it exists").facts;
    let mut engine = Engine::new(EngineSetup::default(), START, 1);
    engine.restore_policies(rules);
    let body = b"body"[..].into();
    let body = lineshaft_engine::JobBody::Resident(body);
    engine.restore(b"old", &facts, None, body).expect("it is possible");
    assert!(engine.own_queue_id(b"old").is_some(), "the log names the queue");
    let mut effects = Effects::default();
    engine.set_time(Millis(START.0 + 10));
    while engine.advance(&mut effects) {}
    engine.check_invariants();
    assert_eq!(engine.own_queue_id(b"old"), None);
    let new = engine.queue_id(b"old").expect("it stands for the new one");
    assert_eq!((engine.queue_name(new), engine.queue_stats(new).ready), (&b"new"[..], 1));
}
