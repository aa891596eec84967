//! Redrives that go on after a restart. The log writes only when a test says so.

use std::num::NonZeroU32;

use broker::policy::{DeadTarget, Rule, Rules, Setting};
use broker::{JobId, NewJob, Patience, PutRefusal, Take};
use serde_json::{Value, json};

use crate::acting::with_log;
use crate::world::{NOW, Reply, World, request};

fn commit(world: &World) {
    world.broker.commit_step(NOW).unwrap();
    world.broker.prepare_step().unwrap();
}

/// Lets this many seconds pass. The log writes all the time.
fn pass_s(world: &World, seconds: u64) {
    for _ in 0..seconds * 10 {
        world.pass(100);
        commit(world);
        // What waited for the disk goes on.
        world.pass(0);
    }
}

/// A world with this many dead letters in the queue `dead`.
fn with_letters(disk: &log::FaultDisk, count: u32) -> World {
    let world = with_log(disk);
    let target = DeadTarget::Queue(b"dead"[..].into());
    let settings = [Setting::Retries(true), Setting::RetryLimit(0), Setting::DeadQueue(target)];
    let _ = world.broker.turn(NOW).set_policies(Rules(vec![Rule::new(["mail"], settings)]));
    for _ in 0..count {
        world.put(b"mail", NewJob::default(), b"x");
        world.kill_one("mail");
    }
    commit(&world);
    world.pass(1_000);
    world
}

/// The numbers of all letters, the oldest first.
fn letters(world: &World) -> Vec<u64> {
    let mut turn = world.broker.turn(world.now());
    let session = turn.open_reader_session(0);
    let mut last = None;
    let next = std::iter::from_fn(|| {
        last = turn.caller(session).next_dead_letter(b"dead", last);
        last.map(|(_, id)| id.0)
    });
    next.collect()
}

/// Sends a request that is answered when the log has what it says. Fails if the reply comes earlier.
fn send(world: &World, method: &str, path: &str, body: &[u8]) -> Reply {
    let asked = request(method, path, &[("content-type", "application/json")], body);
    world.send_and(asked, || commit(world))
}

/// Cancels an operation.
fn cancel(world: &World, id: u64) {
    assert_eq!(send(world, "DELETE", &format!("/operations/{id}"), b"").status, 202);
}

/// Starts a redrive of the queue `dead`, and returns its number.
fn redrive(world: &World, more: &Value) -> u64 {
    let mut asked = json!({ "kind": "redrive", "queue": "dead", "rate_per_s": 10 });
    asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let started = if asked["dry_run"] == true {
        world.post("/operations", &asked)
    } else {
        send(world, "POST", "/operations", asked.to_string().as_bytes())
    };
    assert_eq!(started.status, 202, "{started:?}");
    started.body["id"].as_u64().unwrap()
}

/// Crashes the server, and starts it again.
fn crash(world: World, disk: &log::FaultDisk) -> World {
    drop(world);
    disk.crash();
    disk.restart();
    let world = with_log(disk);
    world.api.take_up_operations();
    world
}

fn numbers(world: &World, id: u64) -> (String, [u64; 4]) {
    let operation = world.get(&format!("/operations/{id}"));
    let status = operation["status"].as_str().unwrap().to_owned();
    let names = ["done", "skipped", "refused", "total"];
    (status, names.map(|name| operation[name].as_u64().unwrap()))
}

fn running(done: u64, total: u64) -> (String, [u64; 4]) {
    ("running".to_owned(), [done, 0, 0, total])
}

fn done(done: u64, skipped: u64, total: u64) -> (String, [u64; 4]) {
    ("done".to_owned(), [done, skipped, 0, total])
}

/// The ready jobs of `mail`, and the letters.
fn jobs(world: &World) -> [u64; 2] {
    let turn = world.broker.turn(world.now());
    [&b"mail"[..], b"dead"].map(|queue| turn.queue_stats(queue).unwrap_or_default().ready)
}

fn operations(world: &World) -> usize {
    world.get("/operations")["items"].as_array().unwrap().len()
}

#[test]
fn a_redrive_goes_on_with_its_number_and_its_counts() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let world = with_letters(&disk, 100);
    let other = redrive(&world, &json!({ "dry_run": true }));
    pass_s(&world, 1);
    let id = redrive(&world, &json!({}));
    assert_eq!(id, other + 1);
    let before = world.get(&format!("/operations/{id}"));
    pass_s(&world, 3);
    let (_, [some, ..]) = numbers(&world, id);
    assert_eq!(numbers(&world, id), running(some, 100));
    assert!((20..=40).contains(&some), "{some}");
    // The next ten come back, but this is not durable.
    for _ in 0..15 {
        world.pass(100);
    }
    assert_eq!(jobs(&world), [some + 10, 90 - some]);

    let world = crash(world, &disk);
    let after = world.get(&format!("/operations/{id}"));
    for key in ["id", "kind", "queue", "state", "who", "total", "status"] {
        assert_eq!(before[key], after[key], "{key}");
    }
    assert_eq!(numbers(&world, id), running(some, 100));
    assert_eq!((operations(&world), jobs(&world)), (1, [some, 100 - some]));
    world.tick();
    pass_s(&world, 2);
    let (_, [more, ..]) = numbers(&world, id);
    assert!((some + 10..=some + 30).contains(&more), "it keeps its rate: {more}");

    let world = crash(world, &disk);
    world.tick();
    pass_s(&world, 10);
    assert_eq!(numbers(&world, id), done(100, 0, 100));
    assert_eq!(jobs(&world), [100, 0]);
    let id = redrive(&world, &json!({ "queue": "mail", "dry_run": true }));
    assert_eq!(id, other + 2, "numbers go on");

    let world = crash(world, &disk);
    assert_eq!(operations(&world), 0);
    assert_eq!(world.broker.turn(NOW).notes().count(), 0);
}

#[test]
fn a_redrive_of_some_letters_brings_back_no_more_of_them() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let mut world = with_letters(&disk, 60);
    let id = redrive(&world, &json!({ "count": 30 }));
    for _ in 0..3 {
        pass_s(&world, 1);
        world = crash(world, &disk);
        world.tick();
    }
    pass_s(&world, 5);
    assert_eq!(numbers(&world, id), done(30, 0, 30));
    assert_eq!(jobs(&world), [30, 30]);
}

#[test]
fn letters_that_died_after_the_start_stay() {
    for choose in [false, true] {
        let disk = log::FaultDisk::new(1, 64 << 20);
        let world = with_letters(&disk, 20);
        let chosen = json!({ "ids": letters(&world) });
        let id = redrive(&world, &if choose { chosen } else { json!({}) });
        pass_s(&world, 1);
        let (_, [some, ..]) = numbers(&world, id);
        assert!((10..20).contains(&some), "{some}");
        // One that came back dies again. It was redriven already.
        world.kill_one("mail");
        commit(&world);
        let world = crash(world, &disk);
        world.tick();
        pass_s(&world, 3);
        let (status, [came_back, ..]) = numbers(&world, id);
        assert_eq!((status.as_str(), came_back), ("done", 20), "chosen: {choose}");
        assert_eq!(jobs(&world), [19, 1], "chosen: {choose}");
    }
}

#[test]
fn chosen_letters_that_were_skipped_stay_counted() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let world = with_letters(&disk, 20);
    // Some of the first letters come back before, and there are no jobs with some numbers. One number
    // comes twice.
    let letters = letters(&world);
    let first = redrive(&world, &json!({ "ids": letters[..5] }));
    pass_s(&world, 2);
    assert_eq!(numbers(&world, first), done(5, 0, 5));
    let ids = [&letters[..], &[1000], &(1000..1010).collect::<Vec<u64>>()].concat();
    let id = redrive(&world, &json!({ "ids": ids }));
    pass_s(&world, 1);
    assert_eq!(numbers(&world, id).1[1], 5, "it has looked at them");
    let world = crash(world, &disk);
    world.tick();
    pass_s(&world, 5);
    assert_eq!(numbers(&world, id), done(15, 15, 30));
    assert_eq!(jobs(&world), [20, 0]);
}

#[test]
fn buried_jobs_of_a_redrive_come_back_after_a_restart() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let world = with_log(&disk);
    {
        let mut turn = world.broker.turn(NOW);
        let session = turn.open_session(0);
        for _ in 0..30 {
            let mut caller = turn.caller(session);
            caller.use_queue(b"dead");
            caller.watch(b"dead");
            caller.put(NewJob::default(), b"x"[..].into()).value.unwrap();
            let Take::Granted(job) = caller.take(Patience::None).value else { panic!("no job") };
            caller.bury(job.id, 0).value.unwrap();
        }
        turn.close_session(session);
    }
    commit(&world);
    let id = redrive(&world, &json!({}));
    pass_s(&world, 1);
    let state = world.get(&format!("/operations/{id}"))["state"].clone();
    let world = crash(world, &disk);
    assert_eq!(world.get(&format!("/operations/{id}"))["state"], state);
    world.tick();
    pass_s(&world, 4);
    assert_eq!(numbers(&world, id), done(30, 0, 30));
    assert_eq!(jobs(&world), [0, 30]);
}

#[test]
fn a_cancelled_redrive_stays_cancelled() {
    for waits in [false, true] {
        let disk = log::FaultDisk::new(1, 64 << 20);
        let world = with_letters(&disk, 50);
        let id = redrive(&world, &json!({}));
        pass_s(&world, 2);
        cancel(&world, id);
        if waits {
            pass_s(&world, 1);
            assert_eq!(numbers(&world, id).0, "cancelled");
        }
        // Otherwise, the reply comes before the operation has ended.
        let left = jobs(&world);
        assert_ne!(left[1], 0);
        let world = crash(world, &disk);
        world.tick();
        pass_s(&world, 5);
        assert_eq!((operations(&world), jobs(&world)), (0, left), "waits: {waits}");
        assert_eq!(world.broker.turn(NOW).notes().count(), 0);
    }
}

#[test]
fn a_redrive_that_is_taken_up_can_be_cancelled() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let world = with_letters(&disk, 50);
    let id = redrive(&world, &json!({}));
    pass_s(&world, 2);
    let world = crash(world, &disk);
    let left = jobs(&world);
    cancel(&world, id);
    world.tick();
    pass_s(&world, 2);
    assert_eq!(numbers(&world, id).0, "cancelled");
    assert_eq!((jobs(&world), world.broker.turn(NOW).notes().count()), (left, 0));
}

#[test]
fn only_redrives_that_change_something_go_on() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let world = with_letters(&disk, 50);
    redrive(&world, &json!({ "dry_run": true }));
    let moved = json!({ "kind": "move", "queue": "dead", "to": "other", "rate_per_s": 10 });
    assert_eq!(world.post("/operations", &moved).status, 202);
    pass_s(&world, 2);
    assert_eq!(world.broker.turn(NOW).notes().count(), 0);
    let world = crash(world, &disk);
    assert_eq!(operations(&world), 0);
}

#[test]
fn a_redrive_that_can_never_be_remembered_is_a_wrong_request() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let world = with_letters(&disk, 100);
    let long_ids: Vec<u64> = (0..10_000).map(|at| u64::MAX - at).collect();
    for (parameter, value) in
        [("only", json!({ "error": "x".repeat(300_000) })), ("ids", json!(long_ids))]
    {
        let asked = json!({ "kind": "redrive", "queue": "dead", parameter: value });
        let refused = world.post("/operations", &asked);
        assert_eq!(refused.status, 400, "{refused:?}");
        assert_eq!(refused.body["parameter"], parameter);
        assert!(refused.body["detail"].as_str().unwrap().contains("192 KiB"), "{refused:?}");
        assert_eq!((operations(&world), world.broker.turn(NOW).notes().count()), (0, 0));
    }
    // As many as can run have room.
    for _ in 0..8 {
        redrive(&world, &json!({}));
    }
    assert_eq!(world.broker.turn(NOW).notes().count(), 16);
}

#[test]
fn redrives_that_are_too_long_together_wait_for_each_other() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let world = with_letters(&disk, 10);
    let ids: Vec<u64> = (0..6_000).map(|at| u64::MAX - at).collect();
    let first = redrive(&world, &json!({ "ids": ids }));
    let asked = json!({ "kind": "redrive", "queue": "dead", "ids": ids });
    let refused = world.post("/operations", &asked);
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.body["type"].as_str().unwrap().contains("too-many-operations"), "{refused:?}");
    assert_eq!((operations(&world), world.broker.turn(NOW).notes().count()), (1, 2));
    cancel(&world, first);
    pass_s(&world, 1);
    redrive(&world, &json!({ "ids": ids }));
}

#[test]
fn a_note_in_another_form_does_not_stop_the_start() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let world = with_letters(&disk, 10);
    let id = redrive(&world, &json!({ "ids": letters(&world)[..1] }));
    let begun = {
        let turn = world.broker.turn(NOW);
        let found = turn.notes().find(|(name, _)| *name == b"operation/1");
        found.expect("the redrive has a note").1.to_vec()
    };
    cancel(&world, id);
    let too_many = format!("0 0 {}", u64::MAX);
    for (name, value) in [
        (&b"operation/7"[..], &b"{\"new\":1}"[..]),
        (&b"operation/8"[..], &begun[..]),
        (&b"operation/8/progress"[..], too_many.as_bytes()),
        (&b"operation/+8"[..], &begun[..]),
        (&b"operation/18446744073709551615"[..], &begun[..]),
    ] {
        world.broker.turn(NOW).set_note(name, value).value.unwrap();
    }
    let _ = world.broker.turn(NOW).set_note(b"operation/9/progress", b"1 2 3");
    let _ = world.broker.turn(NOW).set_note(b"other", b"1");
    commit(&world);
    let world = crash(world, &disk);
    world.tick();
    pass_s(&world, 1);
    assert_eq!(operations(&world), 0);
    let turn = world.broker.turn(NOW);
    let names: Vec<&[u8]> = turn.notes().map(|(name, _)| name).collect();
    // Those of no operation stay.
    assert_eq!(names, [&b"operation/+8"[..], b"operation/18446744073709551615", b"other"]);
    drop(turn);
    assert_eq!(redrive(&world, &json!({ "rate_per_s": 0 })), 10, "no number comes twice");
}

#[test]
fn a_redrive_chooses_the_same_letters_after_a_restart() {
    for (only, wanted) in [
        (json!({ "older_than_s": 60 }), 20),
        (json!({ "younger_than_s": 60 }), 40),
        (json!({ "origin": "post" }), 15),
        (json!({ "key": "blue" }), 15),
        (json!({ "origin": "mail", "key": "red", "younger_than_s": 60 }), 25),
    ] {
        let disk = log::FaultDisk::new(1, 64 << 20);
        let world = with_letters(&disk, 20);
        let settings = [
            Setting::Retries(true),
            Setting::RetryLimit(0),
            Setting::DeadQueue(DeadTarget::Queue(b"dead"[..].into())),
            Setting::Concurrency(NonZeroU32::new(100)),
            Setting::ConcurrencyKey(Some("body".parse().unwrap())),
        ];
        let rules = Rules(vec![Rule::new(["mail", "post"], settings)]);
        let _ = world.broker.turn(world.now()).set_policies(rules);
        commit(&world);
        // The first letters are old.
        world.pass(100_000);
        for (queue, body, count) in [("mail", "red", 25), ("post", "blue", 15)] {
            for _ in 0..count {
                world.put(queue.as_bytes(), NewJob::default(), body.as_bytes());
                world.kill_one(queue);
            }
        }
        commit(&world);
        let id = redrive(&world, &json!({ "only": only }));
        let world = crash(world, &disk);
        assert!(jobs(&world)[1] > 60 - wanted, "some are left: {only}");
        // The age of a letter is its age when the client asked.
        world.pass(200_000);
        world.tick();
        pass_s(&world, 6);
        let (status, [came_back, ..]) = numbers(&world, id);
        assert_eq!((status.as_str(), came_back), ("done", wanted), "{only}");
        assert_eq!(jobs(&world)[1], 60 - wanted, "{only}");
    }
}

/// Puts jobs until the disk has no room for one, and makes other changes until it has none for them.
/// Returns these jobs.
fn fill_disk(world: &World) -> Vec<JobId> {
    let mut jobs = Vec::new();
    let (mut limit, mut refusals) = (0, 0);
    // After each refusal, the log may prepare another segment.
    while refusals < 5 {
        let mut turn = world.broker.turn(world.now());
        let session = turn.open_reader_session(0);
        let mut caller = turn.caller(session);
        caller.use_queue(b"filler");
        refusals += 1;
        while let Ok(id) = caller.put(NewJob::default(), vec![b'x'; 60_000].into()).value {
            jobs.push(id);
            refusals = 0;
        }
        while caller.limit_queue(b"filler", [limit + 1, 0, 0]).value.is_ok() {
            limit += 1;
        }
        turn.close_session(session);
        drop(turn);
        commit(world);
    }
    assert_is_full(world);
    jobs
}

/// Ends these jobs, and lets the log use their room.
fn make_room(world: &World, jobs: &[JobId]) {
    for jobs in jobs.chunks(100) {
        let mut turn = world.broker.turn(world.now());
        let session = turn.open_reader_session(0);
        for id in jobs {
            turn.caller(session).cancel(*id).value.expect("no worker holds it");
        }
        turn.close_session(session);
        drop(turn);
        commit(world);
        while world.broker.reclaim_step(NOW).unwrap() {
            commit(world);
        }
    }
    // What had no room before is written with the next change.
    world.put(b"filler", NewJob::default(), b"x");
    commit(world);
}

fn assert_is_full(world: &World) {
    let mut turn = world.broker.turn(world.now());
    let session = turn.open_reader_session(0);
    let put = turn.caller(session).put(NewJob::default(), vec![b'x'; 60_000].into()).value;
    assert_eq!(put, Err(PutRefusal::LogFull));
    turn.close_session(session);
}

#[test]
fn a_redrive_ends_or_is_cancelled_while_the_log_is_full() {
    for is_cancelled in [false, true] {
        let disk = log::FaultDisk::new(1, 64 << 20);
        let world = with_letters(&disk, 50);
        let id = redrive(&world, &json!({}));
        pass_s(&world, 1);
        let filler = fill_disk(&world);
        if is_cancelled {
            // The reply does not wait for the room.
            assert_eq!(world.ask("DELETE", &format!("/operations/{id}")).status, 202);
        }
        pass_s(&world, 6);
        assert_is_full(&world);
        assert_eq!(numbers(&world, id).0, if is_cancelled { "cancelled" } else { "failed" });
        let problem = world.get(&format!("/operations/{id}"))["problem"]["type"].clone();
        assert_eq!(problem == "/console/help#log-full", !is_cancelled, "{problem}");
        let left = jobs(&world);
        assert_ne!(left[1], 0);
        make_room(&world, &filler);
        let world = crash(world, &disk);
        world.tick();
        pass_s(&world, 2);
        assert_eq!((operations(&world), jobs(&world)), (0, left), "cancelled: {is_cancelled}");
        assert_eq!(world.broker.turn(NOW).notes().count(), 0);
    }
}

#[test]
fn a_redrive_that_broke_off_has_failed_and_does_not_go_on() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let world = with_letters(&disk, 50);
    let id = redrive(&world, &json!({}));
    pass_s(&world, 1);
    world.break_next_task();
    pass_s(&world, 2);
    assert_eq!(numbers(&world, id).0, "failed");
    let problem = world.get(&format!("/operations/{id}"))["problem"].clone();
    assert_eq!(problem["detail"], "the operation broke off");
    let left = jobs(&world);
    assert_ne!(left[1], 0);
    let world = crash(world, &disk);
    world.tick();
    pass_s(&world, 2);
    assert_eq!((operations(&world), jobs(&world)), (0, left));
    assert_eq!(world.broker.turn(NOW).notes().count(), 0);
}
