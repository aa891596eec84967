//! Connections, the clients of a queue, and leased jobs.

use std::collections::BTreeSet;

use api::AccessSettings;
use api::types::Role;
use broker::{Broker, EngineSetup, JobId, Limits, NewJob, Patience, SessionId, Take};
use serde_json::{Value, json};

use crate::world::{NOW, World};

/// A client that watches a queue.
fn worker(world: &World, queue: &[u8]) -> SessionId {
    let session = world.connect("beanstalk", "192.0.2.1:5000");
    let mut turn = world.broker.turn(world.now());
    turn.caller(session).watch(queue);
    turn.caller(session).ignore(b"default");
    session
}

/// Takes a job, or begins to wait for one.
fn take(world: &World, session: SessionId) -> Option<JobId> {
    let take =
        world.broker.turn(world.now()).caller(session).take(Patience::of_millis(60_000)).value;
    match take {
        Take::Granted(handout) => Some(handout.id),
        Take::Waiting => None,
        other => panic!("{other:?}"),
    }
}

fn id(session: SessionId) -> String {
    format!("{:x}", session.0)
}

/// The items of all pages of a list.
fn all(world: &World, path: &str, query: &str) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("{path}?{query}{cursor}"));
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next"].as_str() else { return items };
        cursor = format!("&cursor={next}");
    }
}

#[test]
fn a_connection_shows_what_it_holds_and_waits_for() {
    let world = World::new();
    for _ in 0..2 {
        world.put(b"mail", NewJob { ttr_s: 100, ..NewJob::default() }, b"x");
    }
    let session = worker(&world, b"mail");
    let jobs = [take(&world, session), take(&world, session)].map(|job| job.unwrap().0);
    world.pass(3_000);
    assert_eq!(take(&world, session), None);
    let path = format!("/connections/{}", id(session));
    let shown = world.get(&path);
    assert_eq!(shown["protocol"], "beanstalk");
    assert_eq!(shown["address"], "192.0.2.1:5000");
    assert_eq!((&shown["used"], &shown["queues"]), (&json!("default"), &json!(["mail"])));
    assert_eq!((&shown["watched"], &shown["holds"]), (&json!(1), &json!(2)));
    assert_eq!(shown["wait"], json!({"for": "job", "left_ms": 60_000}));
    let held: Vec<&Value> = shown["held"].as_array().unwrap().iter().collect();
    assert_eq!(held.len(), 2);
    for (held, job) in held.into_iter().zip(jobs) {
        let wanted = json!({"id": job, "queue": "mail", "held_ms": 3_000, "time_left_ms": 97_000});
        assert_eq!(*held, wanted);
    }
    let job = world.get(&format!("/jobs/{}", jobs[0]));
    assert_eq!(job["holder"], json!({"connection": id(session), "held_ms": 3_000}));
    let listed = world.get("/connections?protocol=beanstalk&address=192.0");
    assert_eq!(listed["items"][0]["id"], id(session));
    assert_eq!(listed["items"][0]["held"], Value::Null);
    assert_eq!(world.get("/connections?address=192.1")["items"], json!([]));
}

#[test]
fn pages_have_each_connection_once() {
    let world = World::new();
    let sessions: BTreeSet<String> =
        (0..450).map(|_| id(world.connect("gearman", "unix"))).collect();
    let listed = all(&world, "/connections", "limit=77");
    let ids: BTreeSet<String> =
        listed.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((listed.len(), ids), (450, sessions));
}

/// Gearman's functions can have such names.
#[test]
fn long_names_of_queues_end_a_page_early() {
    let world = World::new();
    let names: Vec<Vec<u8>> =
        (0..20).map(|number| [&[0xff_u8; 8_000][..], &[number]].concat()).collect();
    let sessions: BTreeSet<String> = (0..7)
        .map(|_| {
            let session = world.connect("gearman", "unix");
            let mut turn = world.broker.turn(world.now());
            for name in &names {
                turn.caller(session).watch(name);
            }
            id(session)
        })
        .collect();
    // Each connection shows `default` and 19 names. Their texts have 608 KB.
    let page = world.get("/connections?limit=500");
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert_eq!(page["items"][0]["queues"][1].as_str().unwrap().len(), 4 * 8_000 + 1);
    let listed = all(&world, "/connections", "limit=500");
    let ids: BTreeSet<String> =
        listed.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((listed.len(), ids), (7, sessions));
}

#[test]
fn the_jobs_of_a_connection_are_read_in_short_turns() {
    let limits = Limits { slice_units: 10 };
    let broker = Broker::memory(EngineSetup { limits, ..EngineSetup::default() }, NOW);
    let world = World::over(broker, AccessSettings::default());
    let session = worker(&world, b"mail");
    for _ in 0..90 {
        // Only the slice of the request below can be long.
        world.broker.turn(world.now()).begin_slice();
        world.put(b"mail", NewJob { ttr_s: 100, ..NewJob::default() }, b"x");
        take(&world, session).unwrap();
    }
    let shown = world.get(&format!("/connections/{}", id(session)));
    let held: BTreeSet<u64> =
        shown["held"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect();
    assert_eq!(held.len(), 90);
    let longest = world.broker.turn(world.now()).longest_slice();
    assert!(longest < 90, "{longest} units");
}

#[test]
fn leased_jobs_of_a_queue_are_found_with_their_holders() {
    let world = World::new();
    for number in 0..120 {
        let queue = if number % 2 == 0 { &b"even"[..] } else { b"odd" };
        world.put(
            queue,
            NewJob { ttr_s: 100, ..NewJob::default() },
            format!("{number}").as_bytes(),
        );
    }
    // Sessions that hold nothing are between those that do.
    let mut held = BTreeSet::new();
    for number in 0..40 {
        let session = worker(&world, b"even");
        if number % 4 == 0 {
            for _ in 0..5 {
                held.insert((take(&world, session).unwrap().0, id(session)));
            }
        }
    }
    let other = worker(&world, b"odd");
    take(&world, other).unwrap();
    let listed = all(&world, "/queues/even/jobs", "state=leased&body=text&limit=7");
    let found: BTreeSet<(u64, String)> = listed
        .iter()
        .map(|job| {
            assert_eq!((&job["queue"], &job["state"]), (&json!("even"), &json!("leased")));
            assert!(job["body"]["text"].as_str().unwrap().parse::<u64>().is_ok());
            let holder = job["holder"]["connection"].as_str().unwrap().to_owned();
            (job["id"].as_u64().unwrap(), holder)
        })
        .collect();
    assert_eq!((listed.len(), found), (50, held));
    let page = world.get("/queues/odd/jobs?state=leased");
    assert_eq!((&page["total"], page["items"].as_array().unwrap().len()), (&json!(1), 1));
    assert_eq!(page["next"], Value::Null);
}

#[test]
fn the_clients_of_a_queue_are_those_that_take_its_jobs() {
    let world = World::new();
    world.put(b"mail", NewJob { ttr_s: 100, ..NewJob::default() }, b"x");
    let busy = worker(&world, b"mail");
    take(&world, busy).unwrap();
    // It holds a job, but watches the queue no more.
    world.broker.turn(world.now()).caller(busy).watch(b"other");
    let _ = world.broker.turn(world.now()).caller(busy).ignore(b"mail");
    let waiting = worker(&world, b"mail");
    assert_eq!(take(&world, waiting), None);
    worker(&world, b"other");
    let page = world.get("/queues/mail/consumers");
    let items = page["items"].as_array().unwrap();
    let of = |session| items.iter().find(|item| item["id"] == id(session)).unwrap();
    assert_eq!(items.len(), 2, "{page:#}");
    assert_eq!((&of(busy)["watches"], &of(busy)["holds"]), (&json!(false), &json!(1)));
    assert_eq!(of(busy)["time_left_ms"], 100_000);
    assert_eq!((&of(waiting)["watches"], &of(waiting)["holds"]), (&json!(true), &json!(0)));
    assert_eq!(of(waiting)["wait"]["for"], "job");
    assert_eq!(world.ask("GET", "/queues/nothing/consumers").status, 404);
}

#[test]
fn only_admins_close_connections() {
    let closing = |anonymous| {
        let world = World::with_access(AccessSettings { tokens: None, anonymous });
        let session = world.connect("beanstalk", "unix");
        (world.ask("DELETE", &format!("/connections/{}", id(session))).status, world, session)
    };
    assert_eq!(closing(Role::Operator).0, 401);
    let (status, world, session) = closing(Role::Admin);
    assert_eq!(status, 204);
    for wrong in [id(session), "ffff00000001".to_owned(), "x".to_owned()] {
        for method in ["GET", "DELETE"] {
            assert_eq!(world.ask(method, &format!("/connections/{wrong}")).status, 404);
        }
    }
}
