//! The routes of puts: limits, children, copies and aliases, for all dialects.

use lineshaft_engine::policy::{QueueSync, Rule, Setting, WhenFull};
use lineshaft_engine::{
    GrabOrder, Held, JobId, Millis, NewJob, Patience, Record, Refused, SessionId, Submit, Take,
    limits,
};

use crate::world::{World, grab};

impl World {
    fn items(&self, queue: &str) -> u64 {
        self.engine.item_stats(queue.as_bytes()).map_or(0, |stats| stats.items)
    }

    fn put_into(&mut self, queue: &str, body: &str) -> Result<(), Refused> {
        let session = self.open();
        self.act(|engine, effects| engine.use_queue(session, queue.as_bytes(), effects));
        let body = body.as_bytes().into();
        let put = self
            .act(|engine, effects| engine.put(session, NewJob::default(), body, effects))
            .map(|_| ());
        self.close(session);
        put
    }

    fn submits(&mut self, session: SessionId, queue: &str, foreground: bool) -> bool {
        self.submit_into(session, queue, foreground).is_ok()
    }

    fn submit_into(
        &mut self,
        session: SessionId,
        queue: &str,
        foreground: bool,
    ) -> Result<JobId, Refused> {
        let submit = Submit {
            priority: None,
            due: None,
            unique: b"key",
            reducer: b"",
            body: b"work"[..].into(),
            foreground,
        };
        self.act(|engine, effects| engine.submit(session, queue.as_bytes(), submit, effects))
    }
}

#[test]
fn the_size_is_tested_before_the_put() {
    let mut world = World::new();
    world.policies([
        Rule::new(["bytes"], [Setting::BytesMax(Some(5))]),
        Rule::new(["jobs"], [Setting::JobsMax(Some(1))]),
        Rule::new(["item"], [Setting::ItemBytesMax(Some(3))]),
    ]);
    assert_eq!([(); 3].map(|()| world.add("bytes", "xxx")), [true, true, false]);
    assert_eq!([(); 2].map(|()| world.add("jobs", "xxx")), [true, false]);
    assert_eq!(world.put_into("jobs", ""), Err(Refused::QueueFull), "for all dialects");
    assert_eq!(world.put_into("item", "xxxx"), Err(Refused::TooBig));
    assert!(world.add("item", "xxx"));
    let session = world.open();
    assert_eq!(world.submit_into(session, "jobs", false), Err(Refused::QueueFull));
    for foreground in [false, true] {
        assert_eq!(world.submit_into(session, "item", foreground), Err(Refused::TooBig));
    }
    world.get("jobs");
    assert!(world.submits(session, "jobs", true));
}

#[test]
fn only_ready_jobs_count_and_one_that_comes_back_is_not_refused() {
    let mut world = World::new();
    world.policies([Rule::new(["*"], [Setting::JobsMax(Some(1))])]);
    let session = world.open();
    let first = world.put(session, 5, 0, 60);
    assert_eq!(world.taken(session), first);
    world.put(session, 5, 0, 60);
    assert!(world.release(session, first, 5, 0));
    assert_eq!(world.items("default"), 2);
}

#[test]
fn the_oldest_of_the_least_urgent_makes_room() {
    let mut world = World::new();
    let policy = [Setting::JobsMax(Some(3)), Setting::WhenFull(WhenFull::DropOldest)];
    world.policies([Rule::new(["default"], policy)]);
    let session = world.open();
    let urgent = world.put(session, 1, 0, 60);
    let low = [9, 9, 9, 0].map(|priority| world.put(session, priority, 0, 60));
    assert_eq!(low.map(|id| world.state(id).is_some()), [false, false, true, true]);
    assert!(world.state(urgent).is_some());
    assert_eq!(world.stats("default").discarded, 2);
}

#[test]
fn each_child_gets_every_put_once_in_one_record() {
    let mut world = World::new();
    world.get("p+a");
    world.get("p+b+c");
    assert!(world.engine.queue_id(b"p").is_none(), "a child does not make its parent");
    world.records();
    assert!(world.add("p", "1"));
    let puts: Vec<usize> = world
        .records()
        .iter()
        .filter_map(|record| match record {
            Record::PutMany(slots) => Some(slots.len()),
            Record::Put(..) => Some(1),
            _ => None,
        })
        .collect();
    assert_eq!(puts, [3]);
    world.put_into("p", "2").expect("there is room");
    for queue in ["p+a", "p", "p+b+c"] {
        assert_eq!([world.get(queue), world.get(queue)], [Some("1".into()), Some("2".into())]);
        assert_eq!(world.get(queue), None);
    }
    assert!(world.add("p+a", "own"));
    assert_eq!((world.items("p"), world.items("p+a")), (0, 1));
    world.remove(b"p+a");
    world.add("p", "3");
    assert!(world.engine.item_stats(b"p+a").is_none());
    world.remove(b"p+b+c");
    assert_eq!(world.children("p"), Some(Vec::new()));
    world.remove(b"p");
    world.get("p+a");
    world.add("p", "4");
    assert_eq!(world.get("p+a").as_deref(), Some("4"));
    assert_eq!(world.children("p"), Some(vec![b"p+a"[..].into()]));
}

#[test]
fn a_tube_with_a_plus_is_plain_unless_a_policy_names_it() {
    let mut world = World::new();
    world.put_into("p+a", "1").expect("there is room");
    world.put_into("p", "2").expect("there is room");
    assert_eq!(world.items("p+a"), 1);
    world.policies([Rule::new(["p+a"], [Setting::JobsMax(Some(9))])]);
    world.put_into("p", "3").expect("there is room");
    assert_eq!((world.items("p"), world.items("p+a")), (2, 2));
    // An empty child stays in existence, so that it gets later puts.
    let session = world.open();
    world.act(|engine, effects| engine.flush(session, b"p+a", effects));
    world.put_into("p", "4").expect("there is room");
    assert_eq!(world.items("p+a"), 1);
    let is_noted = |record: &Record| matches!(record, Record::QueueFacts(_));
    world.records();
    world.act(lineshaft_engine::Engine::note_children);
    assert!(world.records().iter().any(is_noted), "the log knows it, too");
    world.remove(b"p+a");
    world.put_into("p", "5").expect("there is room");
    assert_eq!(world.items("p+a"), 0);
}

#[test]
fn a_child_without_room_loses_the_put_and_a_parent_without_room_refuses_it() {
    let mut world = World::new();
    world.policies([
        Rule::new(["p+full"], [Setting::JobsMax(Some(1))]),
        Rule::new(["p"], [Setting::JobsMax(Some(2))]),
        Rule::new(["p+roomy"], [Setting::JobsMax(None)]),
    ]);
    for child in ["p+full", "p+roomy"] {
        world.get(child);
    }
    assert_eq!(["1", "2", "3"].map(|body| world.add("p", body)), [true, true, false]);
    assert_eq!(["p", "p+full", "p+roomy"].map(|queue| world.items(queue)), [2, 1, 3]);
    assert_eq!(world.stats("p+full").discarded, 2);
}

#[test]
fn a_parent_that_only_feeds_its_children_keeps_nothing() {
    let mut world = World::new();
    world.policies([Rule::new(["p"], [Setting::FanoutOnly(true)])]);
    assert!(world.add("p", "lost"));
    world.get("p+a");
    assert!(world.add("p", "1"));
    world.put_into("p", "2").expect("accepted");
    assert_eq!((world.items("p"), world.items("p+a")), (0, 2));
    let session = world.open();
    assert!(world.submits(session, "p", true), "the child's job is watched");
    world.remove(b"p+a");
    assert_eq!(world.events().len(), 1);
    assert!(!world.submits(session, "p", true), "no worker could answer");
    assert!(world.submits(session, "p", false));
}

#[test]
fn copies_are_made_if_the_put_is_taken_and_they_have_room() {
    let mut world = World::new();
    world.policies([
        Rule::new(
            ["q"],
            [
                Setting::JobsMax(Some(2)),
                Setting::CopyTo([b"audit"[..].into(), b"small"[..].into()].into()),
            ],
        ),
        Rule::new(["small"], [Setting::JobsMax(Some(1))]),
    ]);
    let taken = ["1", "2", "3"].map(|body| world.put_into("q", body).is_ok());
    assert_eq!(taken, [true, true, false]);
    assert_eq!(["q", "audit", "small"].map(|queue| world.items(queue)), [2, 2, 1]);
    let session = world.open();
    world.act(|engine, _| engine.watch(session, b"audit"));
    assert!(matches!(world.take(session, Patience::None), Take::Granted(_)));
}

#[test]
fn an_alias_puts_into_all_of_its_destinations_and_is_empty() {
    let mut world = World::new();
    world.policies([
        Rule::new(["both"], [Setting::Alias([b"x"[..].into(), b"nested"[..].into()].into())]),
        Rule::new(["nested"], [Setting::Alias([b"y"[..].into(), b"x"[..].into()].into())]),
        Rule::new(["x"], [Setting::JobsMax(Some(2))]),
    ]);
    assert_eq!(["1", "2", "3"].map(|body| world.add("both", body)), [true, true, false]);
    assert_eq!((world.items("x"), world.items("y")), (2, 3), "all are tried, each once");
    assert_eq!(world.get("both"), None);
    assert!(world.engine.queue_id(b"both").is_none());
    let stats = world.engine.alias_stats(b"both").expect("it is one");
    assert_eq!((stats.puts, stats.put_bytes, stats.destinations.len()), (3, 3, 2));
    assert_eq!(world.engine.item_queues(), [&b"both"[..], b"nested", b"x", b"y"]);
    assert_eq!(world.put_into("both", "4"), Err(Refused::QueueFull));
    let session = world.open();
    assert!(world.submits(session, "nested", true) == (world.items("x") < 2));
    world.policies([]);
    assert!(world.engine.alias_stats(b"both").is_none());
    assert!(world.add("both", "own"));
    assert_eq!(world.get("both").as_deref(), Some("own"));
}

/// A rule that makes a queue refuse all jobs.
fn full(queue: &str) -> Rule {
    Rule::new([queue], [Setting::JobsMax(Some(0))])
}

fn copying<const N: usize>(queue: &str, to: [&str; N]) -> Rule {
    let to = to.map(|name| Box::<[u8]>::from(name.as_bytes()));
    Rule::new([queue], [Setting::CopyTo(to.into())])
}

fn alias<const N: usize>(name: &str, of: [&str; N]) -> Rule {
    let of = of.map(|name| Box::<[u8]>::from(name.as_bytes()));
    Rule::new([name], [Setting::Alias(of.into())])
}

#[test]
fn a_parent_that_only_feeds_its_children_refuses_what_is_too_big_for_it() {
    let mut world = World::new();
    world.policies([
        Rule::new(["p", "copy"], [Setting::FanoutOnly(true), Setting::ItemBytesMax(Some(3))]),
        Rule::new(["p+a"], [Setting::ItemBytesMax(None)]),
        copying("q", ["copy"]),
    ]);
    world.get("p+a");
    world.get("copy+a");
    assert!(world.add("p", "fit") && !world.add("p", "long"));
    assert_eq!(world.put_into("p", "long"), Err(Refused::TooBig));
    assert_eq!(world.items("p+a"), 3, "its children are fed all the same");
    assert!(world.add("q", "fit") && world.add("q", "long"));
    assert_eq!((world.items("copy+a"), world.stats("copy").discarded), (1, 1));
}

#[test]
fn a_queue_gets_copies_if_that_one_has_room_which_it_is_copied_from() {
    let mut world = World::new();
    world.policies([
        alias("a", ["x", "y"]),
        full("x"),
        copying("x", ["of_x"]),
        Rule::new(["y"], [Setting::FanoutOnly(true)]),
        copying("y", ["z"]),
        full("p+full"),
        copying("p+full", ["of_full"]),
        copying("p+roomy", ["of_roomy"]),
        Rule::new(["p+roomy"], [Setting::JobsMax(None)]),
        full("p"),
    ]);
    assert!(!world.add("a", "1"));
    assert_eq!((world.items("z"), world.items("of_x")), (1, 0));
    for child in ["p+full", "p+roomy"] {
        world.get(child);
    }
    assert!(!world.add("p", "1"));
    assert_eq!((world.items("of_full"), world.items("of_roomy")), (0, 1));
}

#[test]
fn a_queue_that_an_alias_names_is_requested_even_if_another_one_feeds_it() {
    let mut world = World::new();
    world.policies([
        alias("a", ["x", "q"]),
        alias("b", ["p", "p+c"]),
        full("q"),
        full("p+c"),
        copying("x", ["q", "z"]),
    ]);
    world.get("p+c");
    assert!(!world.add("a", "1") && !world.add("b", "1"), "one of those asked for is full");
    assert_eq!(["x", "z", "p"].map(|queue| world.items(queue)), [1, 1, 1]);
    world.policies([alias("a", ["x", "q"]), full("x"), copying("x", ["q", "z"])]);
    assert!(!world.add("a", "2"));
    assert_eq!(["q", "z"].map(|queue| world.items(queue)), [1, 1], "asked for, and only a copy");
}

#[test]
fn an_alias_hides_a_queue_of_its_name() {
    let mut world = World::new();
    world.add("both", "hidden");
    let alias = || Rule::new(["both"], [Setting::Alias([b"x"[..].into()].into())]);
    world.policies([alias()]);
    world.add("both", "1");
    assert_eq!((world.get("both"), world.get("x").as_deref()), (None, Some("1")));
    let session = world.open();
    world.act(|engine, effects| engine.flush(session, b"both", effects));
    world.act(|engine, effects| engine.flush_all(session, effects));
    world.remove(b"both");
    world.policies([]);
    assert_eq!(world.get("both").as_deref(), Some("hidden"));
}

#[test]
fn an_alias_hides_a_queue_of_its_name_from_watchers_and_workers() {
    let mut world = World::new();
    let (producer, watcher, worker) = (world.open(), world.open(), world.open());
    world.act(|engine, effects| engine.use_queue(producer, b"both", effects));
    let id = world.put(producer, 0, 0, 60);
    world.put(producer, 0, 1, 60);
    world.act(|engine, _| engine.watch(watcher, b"both"));
    world.act(|engine, effects| engine.register(worker, b"both", None, effects));
    world.policies([Rule::new(["both"], [Setting::Alias([b"x"[..].into()].into())])]);
    let grabbed = world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx));
    assert!(grabbed.is_none() && world.act(|engine, _| engine.sleep(worker)));
    assert!(matches!(world.take(watcher, Patience::Endless), Take::Waiting));
    world.pass(1000);
    assert!(world.events().is_empty(), "nor does a job that becomes ready go to them");
    let queue = world.engine.queue_id(b"both").expect("it has jobs");
    assert_eq!(world.engine.held_back(queue), Some(Held::Alias));
    world.policies([]);
    let served = [(watcher, format!("granted {id}")), (worker, "work to do".into())];
    assert_eq!(world.events(), served);
}

#[test]
fn an_alias_counts_its_puts_although_a_queue_has_its_name() {
    let mut world = World::new();
    world.put_into("q", "own").expect("there are no policies");
    world.policies([alias("q", ["x"]), Rule::new(["q", "other"], [])]);
    world.put_into("q", "for x").expect("there is room");
    assert_eq!(world.engine.alias_stats(b"q").map(|stats| stats.puts), Some(1));
    assert_eq!(world.engine.item_queues(), [b"q"]);
    world.policies([alias("q", ["x"]), alias("q", [])]);
    assert!(world.engine.item_queues().is_empty(), "a later policy ends the alias");
}

#[test]
fn jobs_of_a_queue_in_memory_are_not_logged() {
    let mut world = World::new();
    let memory = Setting::Sync(Some(QueueSync::Memory));
    world.policies([
        Rule::new(["m", "p+m"], [memory, Setting::ExpireTo(Some(b"old"[..].into()))]),
        Rule::new(["m"], [Setting::AgeMax(Some(10))]),
    ]);
    world.get("p+m");
    world.get("p");
    world.get("m");
    world.records();
    world.add("m", "1");
    assert!(world.records().is_empty());
    world.add("p", "1");
    assert!(matches!(world.records()[..], [Record::Put(..)]), "each job its own way");
    world.get("p+m");
    assert!(world.records().is_empty());
    world.pass(11);
    let records = world.records();
    // In the new queue, the job is still only in memory. The log may have no room for the job's
    // body, because no request has checked the room.
    assert!(matches!(records[..], [Record::QueueFacts(_)]), "{records:?}");
    let session = world.open();
    world.act(|engine, effects| engine.use_queue(session, b"m", effects));
    let id = world.put(session, 0, 0, 60);
    world.close(session);
    assert!(world.state(id).is_some(), "it outlives its session");
    assert!(world.records().is_empty());
}

#[test]
fn a_queue_of_the_way_does_not_vanish_when_what_expires_into_it_is_refused() {
    let mut world = World::new();
    let name = |name: &str| Box::<[u8]>::from(name.as_bytes());
    let few = [Setting::AgeMax(Some(100)), Setting::ExpireSweep(Some(1))];
    world.policies([
        Rule::new(["from", "alias/work"], few),
        Rule::new(
            ["from"],
            [Setting::CopyTo([name("to")].into()), Setting::ExpireTo(Some(name("to")))],
        ),
        Rule::new(["alias/work"], [Setting::ExpireTo(Some(name("to")))]),
        Rule::new(["alias"], [Setting::Alias([name("alias/work"), name("to")].into())]),
        Rule::new(["to"], [Setting::ItemBytesMax(Some(2))]),
    ]);
    for queue in ["from", "alias/work"] {
        for _ in 0..2 {
            world.put_into(queue, "long").expect("there is room");
        }
    }
    world.engine.set_time(Millis(world.engine.now().0 + 200));
    world.put_into("from", "1").expect("there is room");
    let session = world.open();
    assert!(!world.submits(session, "alias", false), "what it submits is long, too");
    world.engine.set_time(Millis(world.engine.now().0 + 200));
    assert!(world.add("alias", "2"));
    assert_eq!(world.items("to"), 2);
}

#[test]
fn clients_give_a_parent_so_many_children_and_operators_any_number() {
    let mut world = World::new();
    world.policies([Rule::new(["p+named"], [])]);
    for child in 0..limits::CHILDREN_MAX {
        let added = world.engine.add(
            None,
            format!("p+{child}").as_bytes(),
            b"1"[..].into(),
            None,
            &mut world.effects,
        );
        added.expect("there is room");
    }
    assert!(!world.engine.admits_child(b"p+more"));
    for there in [&b"p+0"[..], b"p+named", b"p"] {
        assert!(world.engine.admits_child(there));
    }
    assert!(world.add("p+0", "1") && world.add("p+named", "1") && world.add("p", "1"));
    world.remove(b"p+0");
    assert!(world.engine.admits_child(b"p+more") && world.add("p+more", "1"));
    let mut count = 0;
    let mut name = format!("long+{count:0>8000}");
    while world.engine.admits_child(name.as_bytes()) {
        assert!(world.add(&name, "1"));
        count += 1;
        name = format!("long+{count:0>8000}");
    }
    assert_eq!(count, limits::CHILD_NAMES_BYTES_MAX / 8005);
}

#[test]
fn a_submit_joins_no_job_that_has_expired() {
    let mut world = World::new();
    world.policies([Rule::new(["a"], [Setting::AgeMax(Some(10)), Setting::ExpireSweep(Some(1))])]);
    let client = world.open();
    assert!(world.submits(client, "a", false));
    let id = world.engine.find_key(b"key").expect("it waits");
    // The job has expired. No request or timer has looked at it since then.
    world.engine.set_time(Millis(world.engine.now().0 + 11));
    assert!(world.submits(client, "a", false));
    assert!(world.engine.find_key(b"key").is_some_and(|new| new > id), "the old one has ended");
    let session = world.open();
    world.act(|engine, _| engine.watch(session, b"a"));
    assert!(matches!(world.take(session, Patience::None), Take::Granted(_)), "a worker must do it");
    world.pass(11);
    assert!(world.submits(client, "a", true));
    let held = world.engine.find_key(b"key").expect("it is held");
    assert_eq!(world.work_progress(held).watchers, 1, "it may end well");
}

#[test]
fn a_job_that_goes_to_another_queue_is_joined_there() {
    let mut world = World::new();
    world.policies([Rule::new(
        ["a"],
        [Setting::AgeMax(Some(10)), Setting::ExpireTo(Some(b"b"[..].into()))],
    )]);
    let client = world.open();
    assert!(world.submits(client, "a", false));
    let id = world.engine.find_key(b"key").expect("it waits");
    world.pass(11);
    assert!(world.submits(client, "b", true));
    assert_eq!(world.work_progress(id).watchers, 1, "it was joined");
    assert!(world.submits(client, "a", true));
    assert_eq!(world.work_progress(id).watchers, 1, "it is not there any more");
}

#[test]
fn a_session_ends_with_the_last_job_of_a_queue_that_only_it_keeps() {
    let mut world = World::new();
    world.policies([
        Rule::new(["a"], [Setting::Alias([b"b"[..].into()].into())]),
        Rule::new(["c"], [Setting::CopyTo([b"d"[..].into()].into())]),
    ]);
    world.engine.set_attempts_max(1);
    // If `client_goes`, the job ends because its client disconnects during the lease. Otherwise it
    // ends because its attempts are used up.
    for (asked, gets, client_goes) in [("a", "b", true), ("a", "b", false), ("c", "d", false)] {
        let client = world.open();
        assert!(world.submits(client, asked, true));
        let tube_user = world.open();
        world.act(|engine, effects| engine.use_queue(tube_user, gets.as_bytes(), effects));
        world.act(|engine, _| engine.watch(tube_user, gets.as_bytes()));
        assert!(matches!(world.take(tube_user, Patience::None), Take::Granted(_)));
        if client_goes {
            world.close(client);
        }
        world.close(tube_user);
        assert!(world.engine.queue_id(gets.as_bytes()).is_none());
    }
}

#[test]
fn a_put_to_many_queues_computes_its_key_once() {
    const CHILDREN: u64 = 50;
    /// More units than any queue of this put costs without a key.
    const QUEUE_UNITS: u64 = 40;
    /// The units of the key: to read JSON counts four times.
    const KEY_UNITS: u64 = 4 * 64 * 1024 / limits::UNIT_BODY_BYTES as u64;
    let mut world = World::new();
    let key = "json:/a".parse().expect("it is a key");
    world.policies([Rule::new(["orders"], [Setting::UniqueBy(Some(key))])]);
    for child in 0..CHILDREN {
        world.get(&format!("orders+{child}"));
    }
    let body = [r#"{"a":1}"#, &" ".repeat(64 * 1024 - 7)].concat();
    for _ in ["new", "a duplicate"] {
        let before = world.engine.work_done();
        let added =
            world.engine.add(None, b"orders", body.as_bytes().into(), None, &mut world.effects);
        assert_eq!(added, Ok(()));
        let cost = world.engine.work_done() - before;
        assert!(cost < KEY_UNITS + (CHILDREN + 1) * QUEUE_UNITS, "{cost}");
        assert_eq!(world.stats("orders").items, 1);
    }
    assert_eq!(world.engine.totals().duplicates, CHILDREN + 1);
}
