//! Operations and searches on jobs that are only in the log.

use std::sync::Arc;

use api::AccessSettings;
use api::types::Role;
use broker::{Broker, JobId, Need, NewJob, Options, Patience};
use serde_json::{Value, json};

use crate::acting::with_log;
use crate::world::{NOW, World, request};

/// More jobs than one request searches.
const JOBS: u64 = 20_500;
/// Enough jobs that most of them leave the memory.
const FEW_JOBS: u64 = 6_000;

/// Does the work of the broker's threads.
fn work(world: &World) {
    world.broker.commit_step(world.now()).unwrap();
    world.broker.prepare_step().unwrap();
    while world.broker.load_step(world.now()) {}
}

fn cool(world: &World) {
    work(world);
    while world.broker.reclaim_step(world.now()).unwrap() {
        work(world);
    }
    while world.broker.index_step().unwrap() {}
    while world.broker.cool_step(world.now()) {}
    assert!(world.broker.cold_jobs() > JOBS / 2, "{} jobs are cold", world.broker.cold_jobs());
}

/// An empty world whose jobs leave the memory.
fn with_segments(segment_bytes: u64) -> World {
    let disk = log::FaultDisk::new(1, 256 << 20);
    let settings = log::Settings { segment_bytes, ..log::Settings::default() };
    let options = Options::without_threads(Arc::new(disk), settings);
    let options = Options { jobs_bytes_max: Some(0), head_jobs: 100, ..options };
    let (broker, _) = Broker::open(options, NOW).unwrap();
    let access = AccessSettings { anonymous: Role::Admin, ..AccessSettings::default() };
    World::over(broker, access)
}

/// A world with jobs in `mail`, most of them only in the log, and their numbers.
fn with_few_cold_jobs() -> (World, Vec<u64>) {
    let world = with_segments(256 << 10);
    let mut ids = Vec::new();
    for number in 0..FEW_JOBS {
        ids.push(world.put(b"mail", NewJob::default(), &[b'x'; 100]));
        if number % 100 == 0 {
            work(&world);
        }
    }
    work(&world);
    while world.broker.index_step().unwrap() {}
    while world.broker.cool_step(world.now()) {}
    assert!(world.broker.cold_jobs() > FEW_JOBS / 2, "{} are cold", world.broker.cold_jobs());
    (world, ids)
}

/// A world with very many jobs in `mail`, most of them only in the log.
fn with_cold_jobs(is_buried: bool) -> World {
    let world = with_segments(1 << 20);
    let session = world.broker.turn(NOW).open_session(0);
    world.broker.turn(NOW).caller(session).watch(b"mail");
    for number in 0..JOBS {
        let body = format!("{{\"number\":{number},\"text\":\"{}\"}}", "abc ".repeat(15));
        world.put(b"mail", NewJob { ttr_s: 60, ..NewJob::default() }, body.as_bytes());
        if is_buried {
            let mut turn = world.broker.turn(NOW);
            let mut caller = turn.caller(session);
            let id = caller.take(Patience::None).value.granted().unwrap().id;
            caller.bury(id, 0).value.unwrap();
            drop(turn);
            // Buried jobs leave the memory when the log has copied them, because the jobs around them
            // have ended.
            for _ in 0..3 {
                let id = JobId(world.put(b"short", NewJob::default(), body.as_bytes()));
                world.broker.turn(NOW).caller(session).finish(id).value.unwrap();
            }
        }
        if number % 100 == 0 {
            work(&world);
        }
    }
    world.broker.turn(NOW).close_session(session);
    cool(&world);
    world
}

/// Runs an operation to its end, while a client puts jobs. Returns the operation, and the number of
/// times at which its progress had changed.
fn run(world: &World, asked: &Value) -> (Value, u64) {
    let started = world.post("/operations", asked);
    assert_eq!(started.status, 202, "{started:?}");
    let path = format!("/operations/{}", started.body["id"]);
    let (mut changes, mut last) = (0, json!(0));
    for _ in 0..20_000 {
        world.put(b"other", NewJob::default(), b"x");
        world.pass(1);
        work(world);
        let operation = world.get(&path);
        if operation["status"] != "running" {
            return (operation, changes);
        }
        changes += u64::from(operation["done"] != last);
        last = operation["done"].clone();
    }
    panic!("it does not end: {last}");
}

#[test]
fn operations_on_cold_jobs_show_progress_while_clients_put() {
    for (asked, is_buried, left) in [
        (json!({ "kind": "kick", "queue": "mail" }), true, Some("mail")),
        (json!({ "kind": "move", "queue": "mail", "to": "next" }), false, Some("next")),
        (json!({ "kind": "clear", "queue": "mail", "confirm": "mail" }), false, None),
    ] {
        let world = with_cold_jobs(is_buried);
        let (operation, changes) = run(&world, &asked);
        assert_eq!(operation["status"], "done", "{operation}");
        assert_eq!(operation["done"], JOBS, "{operation}");
        assert!(changes > 100, "{changes} changes of the progress");
        assert!(world.get("/queues/other")["ready"].as_u64().unwrap() > 100);
        if let Some(queue) = left {
            assert_eq!(world.get(&format!("/queues/{queue}"))["ready"], JOBS);
        }
        let is_left = left == Some("mail");
        assert_eq!(world.ask("GET", "/queues/mail").status == 200, is_left);
        world.broker.turn(world.now()).check_invariants();
    }
}

#[test]
fn a_search_finds_cold_jobs_and_loads_none() {
    let world = with_cold_jobs(false);
    let cold = world.broker.cold_jobs();
    let path = "/search?queue=mail&text=%22number%22:20400,";
    let first = world.get(path);
    assert_eq!(first["items"], json!([]));
    assert_eq!(first["scanned_jobs"], 20_000, "one request searches this many jobs");
    let next = first["next"].as_str().unwrap();
    let second = world.get(&format!("{path}&cursor={next}"));
    assert_eq!((&second["next"], &second["scanned_jobs"]), (&json!(null), &json!(JOBS - 20_000)));
    let items = second["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["id"]), (1, &json!(20_401)));
    assert!(items[0]["body"]["text"].as_str().unwrap().starts_with("{\"number\":20400,"));
    // A job in the middle is only in the log.
    let found = world.get("/search?queue=mail&text=%22number%22:7777,&state=ready");
    assert_eq!(
        (&found["items"][0]["id"], &found["items"][0]["memory"]),
        (&json!(7778), &json!("cold"))
    );
    assert_eq!(world.broker.cold_jobs(), cold, "nothing was loaded");

    // The jobs that were found are changed, and the others stay.
    let found = world.get("/search?queue=mail&text=%22number%22:77&limit=500");
    let ids: Vec<u64> =
        found["items"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), 111, "77, 770 to 779, and 7700 to 7799");
    let (operation, _) =
        run(&world, &json!({ "kind": "move", "queue": "mail", "to": "chosen", "ids": ids }));
    assert_eq!((&operation["done"], &operation["skipped"]), (&json!(111), &json!(0)));
    assert_eq!(world.get("/queues/mail")["ready"], JOBS - 111);
    assert!(world.broker.cold_jobs() > JOBS / 4, "other blocks stay cold");
}

#[test]
fn lookups_that_wait_for_the_disk_are_limited_and_keep_no_job_in_memory_waiting() {
    let (world, ids) = with_few_cold_jobs();
    let at_hand = world.put(b"other", NewJob::default(), b"x");
    let cold = |sixth: usize| {
        let id = ids[ids.len() * sixth / 6];
        assert!(world.broker.turn(NOW).needs_search(JobId(id)), "job {id} is cold");
        request("GET", &format!("/jobs/{id}"), &[], b"")
    };
    let sessions = || world.broker.turn(NOW).totals().sessions;
    // Nobody reads from the disk, so these searches go on when their clients have gone.
    world.send_and_leave(cold(2));
    world.send_and_leave(cold(3));
    assert_eq!(sessions(), 2);
    // These requests only wait for the searches, so nothing of them stays.
    world.send_and_leave(cold(4));
    assert_eq!(sessions(), 2);
    assert_eq!(world.send(cold(4)).status, 502);
    assert_eq!(sessions(), 2);
    assert_eq!(world.ask("GET", &format!("/jobs/{at_hand}")).status, 200);
    assert_eq!(world.ask("GET", "/jobs/999999").status, 404, "no job has had this number");

    while world.broker.load_step(NOW) {}
    let found = world.send_and(cold(4), || while world.broker.load_step(NOW) {});
    assert_eq!(found.status, 200, "the searches before have ended");
    assert_eq!(sessions(), 0);
}

/// Takes from `mail` while nobody reads from the disk. Returns the status of the reply.
fn take_without_disk(world: &World, wait_s: u32) -> u16 {
    let json = json!({ "queues": ["mail"], "wait_s": wait_s }).to_string();
    let status = world.send_and(request("POST", "/take", &[], json.as_bytes()), || {}).status;
    assert_eq!(world.broker.turn(NOW).totals().sessions, 0, "its session has ended");
    status
}

#[test]
fn a_take_waits_only_some_seconds_for_a_job_that_is_only_in_the_log() {
    let (world, _) = with_few_cold_jobs();
    // The first jobs are in memory.
    let session = world.broker.turn(NOW).open_session(0);
    world.broker.turn(NOW).caller(session).watch(b"mail");
    loop {
        let mut turn = world.broker.turn(NOW);
        let mut caller = turn.caller(session);
        if !caller.is_at_hand(Need::Watched) {
            break;
        }
        let id = caller.take(Patience::None).value.granted().unwrap().id;
        caller.finish(id).value.unwrap();
    }
    world.broker.turn(NOW).close_session(session);
    assert_eq!(take_without_disk(&world, 0), 502);
    assert_eq!(take_without_disk(&world, 60), 502);
}

#[test]
fn a_take_waits_only_some_seconds_for_a_body_that_is_only_in_the_log() {
    let world = with_log(&log::FaultDisk::new(1, 64 << 20));
    let id = world.put(b"mail", NewJob::default(), &[b'x'; 100]);
    work(&world);
    world.broker.set_bodies_limit(Some(0));
    while world.broker.load_step(NOW) {}
    assert_eq!(world.broker.turn(NOW).log_stats().stored_jobs, 1);
    assert_eq!(take_without_disk(&world, 0), 502);
    assert_eq!(world.get(&format!("/jobs/{id}"))["state"], "ready", "it went back");
}
