//! Changes of many jobs.

use broker::NewJob;
use broker::policy::{DeadTarget, Rule, Rules, Setting};
use serde_json::{Value, json};

use crate::acting::with_log;
use crate::world::{NOW, World, request};

/// Starts an operation, and returns its number.
fn start(world: &World, asked: &Value) -> u64 {
    let started = world.post("/operations", asked);
    assert_eq!(started.status, 202, "{started:?}");
    let id = started.body["id"].as_u64().unwrap();
    assert_eq!(started.headers["location"], format!("/api/v1/operations/{id}").as_str());
    id
}

/// Runs the site until an operation has ended.
fn ended(world: &World, id: u64) -> Value {
    for _ in 0..1_000 {
        // The operation runs while the site waits.
        world.pass(1);
        let operation = world.get(&format!("/operations/{id}"));
        if operation["status"] != "running" {
            return operation;
        }
    }
    panic!("it does not end");
}

fn put_many(world: &World, queue: &[u8], count: u32, job: NewJob) {
    for _ in 0..count {
        world.put(queue, job, b"x");
    }
}

fn bury_all(world: &World, queue: &str) {
    loop {
        let taken = world.post("/take", &json!({ "queues": [queue] }));
        let Some(lease) = taken.body["lease"].as_str() else { return };
        assert_eq!(world.post(&format!("/leases/{lease}/bury"), &json!({})).status, 204);
    }
}

#[test]
fn buried_jobs_are_kicked_and_delayed_ones_stay() {
    let world = World::open();
    put_many(&world, b"mail", 200, NewJob::default());
    bury_all(&world, "mail");
    put_many(&world, b"mail", 10, NewJob { delay_s: 60, ..NewJob::default() });
    let id = start(&world, &json!({ "kind": "kick", "queue": "mail" }));
    let operation = ended(&world, id);
    for (key, wanted) in [
        ("status", json!("done")),
        ("state", json!("buried")),
        ("done", json!(200)),
        ("total", json!(200)),
        ("who", json!("anonymous")),
        ("problem", json!(null)),
    ] {
        assert_eq!(operation[key], wanted, "{key}: {operation}");
    }
    let queue = world.get("/queues/mail");
    assert_eq!((&queue["ready"], &queue["delayed"]), (&json!(200), &json!(10)));
    let delayed = json!({ "kind": "kick", "queue": "mail", "state": "delayed", "count": 4 });
    let id = start(&world, &delayed);
    assert_eq!(ended(&world, id)["done"], 4);
    assert_eq!(world.get("/queues/mail")["delayed"], 6);
    let audit = world.get("/audit");
    let detail = "operation 1: kick 200 jobs (buried) of mail";
    assert_eq!(audit["items"][1]["detail"], detail, "{audit}");
    assert_eq!(world.get("/operations")["items"][0]["id"], 2);
}

/// Gearman's functions can have such names.
#[test]
fn the_name_of_a_queue_forges_no_line_of_the_record() {
    let world = World::open();
    let long = "n".repeat(8_000);
    let detail_of = |queue: &str, asked: &Value| {
        put_many(&world, queue.as_bytes(), 1, NewJob::default());
        ended(&world, start(&world, asked));
        world.get("/audit")["items"][0]["detail"].as_str().unwrap().to_owned()
    };
    let queue = "mail\nERROR forged\u{2028}";
    let detail = detail_of(queue, &json!({ "kind": "clear", "queue": queue, "confirm": queue }));
    assert_eq!(detail, "operation 1: clear 1 jobs (all) of mail ERROR forged ");
    // A long name hides nothing behind it.
    let detail = detail_of(&long, &json!({ "kind": "move", "queue": long, "to": "mail" }));
    assert_eq!(detail, format!("operation 2: move 1 jobs (all) of {} to mail", &long[..200]));
}

#[test]
fn a_clear_must_be_confirmed_and_leaves_leased_jobs() {
    let world = World::open();
    put_many(&world, b"mail", 100, NewJob::default());
    put_many(&world, b"mail", 100, NewJob { delay_s: 60, ..NewJob::default() });
    assert_eq!(world.post("/take", &json!({ "queues": ["mail"] })).status, 200);
    for confirm in [json!(null), json!("mial")] {
        let asked = json!({ "kind": "clear", "queue": "mail", "confirm": confirm });
        let refused = world.post("/operations", &asked);
        assert_eq!(refused.status, 409);
        assert!(refused.body["detail"].as_str().unwrap().contains("end 199 jobs"), "{refused:?}");
    }
    assert_eq!(world.get("/queues/mail")["ready"], 99);
    let clear = |state: Value| json!({ "kind": "clear", "queue": "mail", "state": state, "confirm": "mail" });
    let id = start(&world, &clear(json!("delayed")));
    assert_eq!(ended(&world, id)["done"], 100);
    let queue = world.get("/queues/mail");
    assert_eq!((&queue["ready"], &queue["delayed"]), (&json!(99), &json!(0)));
    let id = start(&world, &clear(json!(null)));
    assert_eq!(ended(&world, id)["done"], 99);
    let queue = world.get("/queues/mail");
    assert_eq!((&queue["ready"], &queue["leased"]), (&json!(0), &json!(1)));
}

#[test]
fn jobs_that_come_later_do_not_save_the_jobs_of_other_states() {
    let world = World::open();
    put_many(&world, b"mail", 10, NewJob::default());
    bury_all(&world, "mail");
    put_many(&world, b"mail", 5, NewJob::default());
    let id = start(&world, &json!({ "kind": "clear", "queue": "mail", "confirm": "mail" }));
    put_many(&world, b"mail", 100, NewJob::default());
    assert_eq!(ended(&world, id)["done"], 15);
    let queue = world.get("/queues/mail");
    assert_eq!((&queue["ready"], &queue["buried"]), (&json!(100), &json!(0)));
}

#[test]
fn a_cancelled_operation_leaves_the_other_jobs() {
    let world = World::open();
    put_many(&world, b"mail", 100, NewJob { delay_s: 6_000, ..NewJob::default() });
    let asked = json!({ "kind": "kick", "queue": "mail", "state": "delayed", "rate_per_s": 10 });
    let id = start(&world, &asked);
    world.pass(3_500);
    let cancelled = world.ask("DELETE", &format!("/operations/{id}"));
    assert_eq!(cancelled.status, 202);
    let operation = ended(&world, id);
    assert_eq!(operation["status"], "cancelled");
    assert_eq!(operation["done"], 40, "ten jobs in each second");
    assert_eq!(world.get("/queues/mail")["delayed"], 60);
    assert!(operation["ended_at"].is_string());
}

#[test]
fn an_operation_that_is_cancelled_while_the_disk_works_counts_its_last_jobs() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let world = with_log(&disk);
    put_many(&world, b"mail", 200, NewJob::default());
    world.broker.commit_step(NOW).unwrap();
    let asked = json!({ "kind": "clear", "queue": "mail", "confirm": "mail" });
    let id = start(&world, &asked);
    world.pass(1);
    let left = world.get("/queues/mail")["ready"].as_u64().unwrap();
    assert!((1..200).contains(&left), "the first turn waits for the disk: {left}");
    let running = world.get(&format!("/operations/{id}"));
    assert_eq!(running["done"], 0, "nothing is durable: {running}");
    assert_eq!(world.ask("DELETE", &format!("/operations/{id}")).status, 202);
    world.pass(1);
    world.broker.commit_step(NOW).unwrap();
    let operation = ended(&world, id);
    assert_eq!(
        (&operation["status"], &operation["done"]),
        (&json!("cancelled"), &json!(200 - left))
    );
    assert_eq!(world.get("/queues/mail")["ready"], left);
}

#[test]
fn wrong_operations_are_refused() {
    let world = World::open();
    for (asked, status) in [
        (json!({}), 400),
        (json!({ "kind": "sort", "queue": "default" }), 400),
        (json!({ "kind": "kick", "queue": "none" }), 404),
        (json!({ "kind": "kick", "queue": "default", "state": "ready" }), 400),
        (json!({ "kind": "clear", "queue": "default", "state": "leased" }), 400),
        (json!({ "kind": "clear", "queue": "default", "to": "other" }), 400),
        (json!({ "kind": "move", "queue": "default" }), 400),
        (json!({ "kind": "move", "queue": "default", "to": "default" }), 400),
        (json!({ "kind": "move", "queue": "default", "to": "other", "state": "leased" }), 400),
        (json!({ "kind": "move", "queue": "default", "to": "other", "ids": [] }), 400),
        (json!({ "kind": "move", "queue": "default", "to": "other", "ids": [1], "count": 1 }), 400),
        (json!({ "kind": "remove", "queue": "default", "state": "ready" }), 400),
        (json!({ "kind": "remove", "queue": "default" }), 409),
    ] {
        assert_eq!(world.post("/operations", &asked).status, status, "{asked}");
    }
    assert_eq!(world.ask("GET", "/operations/7").status, 404);
    assert_eq!(world.ask("DELETE", "/operations/x").status, 404);
    put_many(&world, b"mail", 10, NewJob { delay_s: 6_000, ..NewJob::default() });
    let slow = json!({ "kind": "kick", "queue": "mail", "state": "delayed", "rate_per_s": 1 });
    for _ in 0..8 {
        start(&world, &slow);
    }
    let refused = world.post("/operations", &slow);
    assert_eq!(refused.status, 503, "{refused:?}");
}

fn counts(world: &World, queue: &str) -> [u64; 3] {
    let queue = world.get(&format!("/queues/{queue}"));
    ["ready", "delayed", "buried"].map(|state| queue[state].as_u64().unwrap())
}

#[test]
fn operations_that_wait_leave_the_search_for_jobs_to_others() {
    let world = World::open();
    put_many(&world, b"mail", 30, NewJob::default());
    bury_all(&world, "mail");
    let list = world.get("/queues/mail/jobs?state=buried");
    let ids: Vec<u64> =
        list["items"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect();
    let slow = json!({ "kind": "kick", "queue": "mail", "ids": ids, "rate_per_s": 1 });
    // As many as searches at one time.
    for _ in 0..2 {
        start(&world, &slow);
    }
    world.pass(1_500);
    let begun = world.now();
    for id in &ids {
        world.get(&format!("/jobs/{id}"));
    }
    assert_eq!(world.now(), begun, "no request waited for the rate of an operation");
    assert!(counts(&world, "mail")[2] > 20, "the operations run");
}

#[test]
fn jobs_move_to_another_queue() {
    let world = World::open();
    put_many(&world, b"mail", 30, NewJob::default());
    bury_all(&world, "mail");
    put_many(&world, b"mail", 100, NewJob::default());
    put_many(&world, b"mail", 50, NewJob { delay_s: 60, ..NewJob::default() });
    let asked = |state: Value, count: Value| json!({ "kind": "move", "queue": "mail", "to": "post", "state": state, "count": count });
    let id = start(&world, &asked(json!("ready"), json!(70)));
    let operation = ended(&world, id);
    assert_eq!((&operation["done"], &operation["to"]), (&json!(70), &json!("post")));
    assert_eq!(counts(&world, "mail"), [30, 50, 30]);
    assert_eq!(counts(&world, "post"), [70, 0, 0]);
    let id = start(&world, &asked(json!(null), json!(null)));
    assert_eq!(ended(&world, id)["done"], 110);
    assert_eq!(counts(&world, "post"), [130, 50, 0], "buried jobs become ready");
    assert_eq!(world.ask("GET", "/queues/mail").status, 404, "nothing keeps the queue");
    let detail = "operation 1: move 70 jobs (ready) of mail to post";
    assert_eq!(world.get("/audit")["items"][1]["detail"], detail);
}

#[test]
fn a_move_stops_when_the_other_queue_is_full() {
    let world = World::open();
    put_many(&world, b"mail", 100, NewJob::default());
    let rules = Rules(vec![
        Rule::new(["post"], [Setting::JobsMax(Some(70))]),
        Rule::new(["all"], [Setting::Alias([b"post"[..].into()].into())]),
    ]);
    let _ = world.broker.turn(world.now()).set_policies(rules);
    let id = start(&world, &json!({ "kind": "move", "queue": "mail", "to": "post" }));
    let operation = ended(&world, id);
    assert_eq!((&operation["status"], &operation["done"]), (&json!("failed"), &json!(70)));
    assert_eq!(operation["problem"]["type"], "/console/help#queue-full");
    assert_eq!(counts(&world, "mail"), [30, 0, 0]);
    let to_alias = json!({ "kind": "move", "queue": "mail", "to": "all" });
    assert_eq!(world.post("/operations", &to_alias).status, 400);
}

/// A world with five buried jobs in `send_mail`, and three in `mail`.
fn with_two_queues() -> World {
    let world = World::open();
    put_many(&world, b"send_mail", 5, NewJob::default());
    put_many(&world, b"mail", 3, NewJob::default());
    bury_all(&world, "send_mail");
    bury_all(&world, "mail");
    world
}

/// From now on, `send_mail` stands for `mail`.
fn join_names(world: &World) {
    let rule = Rule::new(["send_mail"], [Setting::SameAs(Some(b"mail"[..].into()))]);
    let _ = world.broker.turn(world.now()).set_policies(Rules(vec![rule]));
    world.pass(10);
}

#[test]
fn an_operation_changes_the_queue_that_is_shown_although_its_name_stands_for_another_one() {
    let world = with_two_queues();
    join_names(&world);
    let id = start(&world, &json!({ "kind": "kick", "queue": "send_mail", "count": 1 }));
    assert_eq!(ended(&world, id)["done"], 1);
    world.pass(10);
    assert_eq!((counts(&world, "send_mail"), counts(&world, "mail")), ([0, 0, 4], [1, 0, 3]));
    let clear = json!({
        "kind": "clear", "queue": "send_mail", "state": "buried", "count": 2, "confirm": "send_mail",
    });
    let id = start(&world, &clear);
    assert_eq!(ended(&world, id)["done"], 2);
    assert_eq!((counts(&world, "send_mail"), counts(&world, "mail")), ([0, 0, 2], [1, 0, 3]));
    let id = start(&world, &json!({ "kind": "move", "queue": "send_mail", "to": "mail" }));
    let moved = ended(&world, id);
    assert_eq!((&moved["status"], &moved["done"]), (&json!("done"), &json!(2)), "{moved}");
    assert_eq!(counts(&world, "mail"), [3, 0, 3]);
    assert_eq!(world.get("/queues/send_mail")["name"], "mail", "the old queue has vanished");
}

#[test]
fn the_removal_of_a_watched_queue_leaves_the_queue_that_its_name_stands_for() {
    let world = with_two_queues();
    let worker = world.connect("beanstalk", "1.2.3.4:5");
    world.broker.turn(world.now()).caller(worker).watch(b"send_mail");
    join_names(&world);
    for left in [json!(5), json!(0)] {
        let shown = world.get("/queues/send_mail");
        assert_eq!((&shown["name"], &shown["buried"]), (&json!("send_mail"), &left));
        let removed = world.ask("DELETE", "/queues/send_mail?confirm=send_mail");
        assert_eq!(removed.status, 202, "{removed:?}");
        let id = removed.body["id"].as_u64().unwrap();
        assert_eq!(ended(&world, id)["done"], left);
        assert_eq!(counts(&world, "mail"), [0, 0, 3]);
    }
}

#[test]
fn limits_and_pauses_are_for_the_queue_that_is_shown() {
    let world = with_two_queues();
    join_names(&world);
    let limits = request("PATCH", "/queues/send_mail", &[], b"{\"limits\":[0,5,0]}");
    assert_eq!(world.send(limits).status, 204);
    assert_eq!(world.post("/queues/send_mail/pause", &json!({ "seconds": 60 })).status, 200);
    let shown = |queue: &str| {
        let shown = world.get(&format!("/queues/{queue}"));
        (shown["limits"].clone(), shown["pause_left_ms"].clone())
    };
    assert_eq!(shown("send_mail"), (json!([0, 5, 0]), json!(60_000)));
    assert_eq!(shown("mail"), (json!([0, 0, 0]), json!(0)));
    assert_eq!(world.ask("DELETE", "/queues/send_mail/pause").status, 204);
    assert_eq!(shown("send_mail").1, 0);
}

#[test]
fn chosen_jobs_are_changed_unless_they_have_changed_meanwhile() {
    let world = World::open();
    let ids: Vec<u64> = (0..200).map(|_| world.put(b"mail", NewJob::default(), b"x")).collect();
    let taken = world.post("/take", &json!({ "queues": ["mail"] }));
    assert_eq!(taken.body["job"]["id"], ids[0]);
    assert_eq!(world.ask("DELETE", &format!("/jobs/{}", ids[1])).status, 204);
    let moved = world.post(&format!("/jobs/{}/move", ids[2]), &json!({ "to": "other" }));
    assert_eq!(moved.status, 204);
    let chosen: Vec<u64> = ids[..150].iter().rev().copied().chain([ids[7]]).collect();
    let asked = json!({ "kind": "move", "queue": "mail", "to": "post", "ids": chosen });
    let id = start(&world, &asked);
    let operation = ended(&world, id);
    let seen = ["done", "skipped", "total"].map(|name| operation[name].as_u64().unwrap());
    assert_eq!(seen, [147, 3, 150]);
    assert_eq!((counts(&world, "mail")[0], counts(&world, "post")[0]), (50, 147));
    // A kick of ready jobs skips all of them, and a clear of chosen jobs needs no confirmation.
    let kick = json!({ "kind": "kick", "queue": "post", "ids": [ids[3], ids[4]] });
    let id = start(&world, &kick);
    assert_eq!(ended(&world, id)["skipped"], 2);
    let clear =
        json!({ "kind": "clear", "queue": "post", "state": "ready", "ids": [ids[3], ids[4]] });
    let id = start(&world, &clear);
    assert_eq!(ended(&world, id)["done"], 2);
    assert_eq!(counts(&world, "post")[0], 145);
}

#[test]
fn one_job_moves_to_another_queue() {
    let world = World::open();
    let id = world.put(b"mail", NewJob { delay_s: 60, ..NewJob::default() }, b"x");
    let move_to = |to: &str| world.post(&format!("/jobs/{id}/move"), &json!({ "to": to }));
    assert_eq!(move_to("a/b").status, 204);
    let job = world.get(&format!("/jobs/{id}"));
    assert_eq!((&job["queue"], &job["state"]), (&json!("a/b"), &json!("delayed")));
    assert_eq!(move_to("a/b").status, 409);
    assert_eq!(move_to("\\q").status, 400);
    assert_eq!(world.post(&format!("/jobs/{id}/kick"), &json!({})).status, 204);
    assert_eq!(world.post("/take", &json!({ "queues": ["a/b"] })).body["job"]["id"], id);
    assert_eq!(move_to("mail").body["type"], "/console/help#job-leased");
    assert_eq!(world.post("/jobs/99/move", &json!({ "to": "mail" })).status, 404);
}

#[test]
fn a_queue_is_removed_with_leased_and_new_jobs() {
    let world = World::open();
    put_many(&world, b"mail", 200, NewJob::default());
    assert_eq!(world.ask("PUT", "/queues/mail").status, 204, "it stays without jobs");
    assert_eq!(world.post("/take", &json!({ "queues": ["mail"] })).status, 200);
    for path in ["/queues/mail", "/queues/mail?confirm=mial"] {
        let refused = world.ask("DELETE", path);
        assert_eq!(refused.status, 409, "{path}");
        assert!(refused.body["detail"].as_str().unwrap().contains("end 200 jobs"), "{refused:?}");
    }
    assert_eq!(world.ask("DELETE", "/queues/none?confirm=none").status, 404);
    let removal = world.ask("DELETE", "/queues/mail?confirm=mail");
    assert_eq!((removal.status, &removal.body["kind"]), (202, &json!("remove")));
    put_many(&world, b"mail", 10, NewJob::default());
    let operation = ended(&world, removal.body["id"].as_u64().unwrap());
    assert_eq!((&operation["status"], &operation["done"]), (&json!("done"), &json!(210)));
    // The worker still watches the queue.
    let queue = world.get("/queues/mail");
    assert_eq!(
        (&queue["ready"], &queue["leased"], &queue["kept"]),
        (&json!(0), &json!(0), &json!(false))
    );
    world.put(b"other", NewJob::default(), b"x");
    let removal = world.ask("DELETE", "/queues/other?confirm=other");
    ended(&world, removal.body["id"].as_u64().unwrap());
    assert_eq!(world.ask("GET", "/queues/other").status, 404);
}

#[test]
fn dead_letters_are_counted_chosen_and_brought_back_at_a_rate() {
    let world = World::open();
    let target = DeadTarget::Queue(b"dead.{name}"[..].into());
    let settings = [Setting::Retries(true), Setting::RetryLimit(0), Setting::DeadQueue(target)];
    let rules = Rules(vec![Rule::new(["*mail"], settings)]);
    let _ = world.broker.turn(world.now()).set_policies(rules);
    put_many(&world, b"mail", 30, NewJob::default());
    for _ in 0..10 {
        world.kill_one("mail");
    }
    world.pass(60_000);
    for _ in 0..20 {
        world.kill_one("mail");
    }
    let queue = world.get("/queues/dead.mail");
    assert_eq!((&queue["ready"], &queue["dead"]), (&json!(30), &json!(30)));
    let job = &world.get("/queues/dead.mail/jobs")["items"][0];
    let dead = &job["dead"];
    assert_eq!((&dead["cause"], &dead["attempts"]), (&json!("released"), &json!(1)), "{job}");
    assert_eq!((&dead["origin"], &dead["error"]), (&json!("mail"), &json!("")), "{job}");

    let redrive = |more: Value| {
        let mut asked = json!({ "kind": "redrive", "queue": "dead.mail" });
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        asked
    };
    let counted = |more: Value| {
        let operation = ended(&world, start(&world, &redrive(more)));
        assert_eq!((&operation["status"], &operation["dry_run"]), (&json!("done"), &json!(true)));
        operation["done"].as_u64().unwrap()
    };
    assert_eq!(counted(json!({ "dry_run": true })), 30);
    assert_eq!(counted(json!({ "dry_run": true, "count": 7 })), 7);
    assert_eq!(counted(json!({ "dry_run": true, "only": { "older_than_s": 60 } })), 10);
    assert_eq!(counted(json!({ "dry_run": true, "only": { "younger_than_s": 59 } })), 20);
    assert_eq!(counted(json!({ "dry_run": true, "only": { "cause": "released" } })), 30);
    assert_eq!(counted(json!({ "dry_run": true, "only": { "cause": "timed_out" } })), 0);
    assert_eq!(counted(json!({ "dry_run": true, "only": { "origin": "post" } })), 0);
    assert_eq!(counted(json!({ "dry_run": true, "only": { "error": "no route" } })), 0);
    assert_eq!(world.get("/queues/dead.mail")["dead"], 30, "nothing has changed");

    let old = redrive(json!({ "only": { "older_than_s": 60 } }));
    let operation = ended(&world, start(&world, &old));
    assert_eq!((&operation["done"], &operation["skipped"]), (&json!(10), &json!(20)));
    assert_eq!(world.get("/queues/mail")["ready"], 10);
    // 100 jobs in a second, if the client says nothing else.
    let from = world.now();
    assert_eq!(ended(&world, start(&world, &redrive(json!({}))))["done"], 20);
    assert!(world.now().since(from) >= 200, "{}", world.now().since(from));
    assert_eq!(world.ask("GET", "/queues/dead.mail").status, 404, "nobody needs the empty queue");
    assert_eq!(counts(&world, "mail"), [30, 0, 0]);
    for wrong in [
        json!({ "kind": "kick", "queue": "mail", "dry_run": true }),
        json!({ "kind": "move", "queue": "mail", "to": "x", "only": {} }),
        json!({ "kind": "redrive", "queue": "mail", "state": "ready" }),
        json!({ "kind": "redrive", "queue": "mail", "only": { "age": "x" } }),
    ] {
        assert_eq!(world.post("/operations", &wrong).status, 400, "{wrong}");
    }
}

#[test]
fn one_dead_letter_is_brought_back_by_its_number() {
    let world = World::open();
    let settings = [Setting::Retries(true), Setting::RetryLimit(0)];
    let rules = Rules(vec![Rule::new(["mail"], settings)]);
    let _ = world.broker.turn(world.now()).set_policies(rules);
    let ids: Vec<u64> = (0..3).map(|_| world.put(b"mail", NewJob::default(), b"x")).collect();
    for _ in &ids {
        world.kill_one("mail");
    }
    let job = world.get(&format!("/jobs/{}", ids[1]));
    assert_eq!((&job["state"], &job["attempts"]), (&json!("buried"), &json!(1)), "{job}");
    assert_eq!((&job["dead"]["origin"], &job["dead"]["worker"]), (&json!(null), &json!(null)));
    let asked = json!({ "kind": "redrive", "queue": "mail", "ids": [ids[1]] });
    assert_eq!(ended(&world, start(&world, &asked))["done"], 1);
    let job = world.get(&format!("/jobs/{}", ids[1]));
    assert_eq!((&job["state"], &job["dead"]), (&json!("ready"), &json!(null)), "{job}");
    assert_eq!(counts(&world, "mail"), [1, 0, 2]);
}

#[test]
fn a_redrive_says_why_letters_stay() {
    let world = World::open();
    let settings = [
        Setting::Retries(true),
        Setting::RetryLimit(0),
        Setting::UniqueBy(Some("body".parse().unwrap())),
    ];
    let rules = Rules(vec![Rule::new(["mail"], settings)]);
    let _ = world.broker.turn(world.now()).set_policies(rules);
    let letters = [&b"a"[..], b"b", b"c"].map(|body| {
        let id = world.put(b"mail", NewJob::default(), body);
        world.kill_one("mail");
        id
    });
    let others = [&b"a"[..], b"b"].map(|body| world.put(b"mail", NewJob::default(), body));
    for dry_run in [true, false] {
        let asked = json!({ "kind": "redrive", "queue": "mail", "dry_run": dry_run });
        let operation = ended(&world, start(&world, &asked));
        let numbers = ["done", "skipped", "refused"].map(|name| operation[name].as_u64().unwrap());
        assert_eq!(numbers, [1, 2, 2], "{operation}");
        let why = operation["refusal"].as_str().unwrap();
        assert!(why.contains(&letters[0].to_string()) && why.contains("key"), "{why}");
    }
    for other in others {
        assert_eq!(world.ask("DELETE", &format!("/jobs/{other}")).status, 204);
    }
    let asked = json!({ "kind": "redrive", "queue": "mail" });
    let operation = ended(&world, start(&world, &asked));
    assert_eq!((&operation["done"], &operation["refusal"]), (&json!(2), &json!(null)));
}

#[test]
fn letters_whose_queue_would_be_one_too_many_stay() {
    let world = World::open();
    let target = DeadTarget::Queue(b"dead"[..].into());
    let settings = [Setting::Retries(true), Setting::RetryLimit(0), Setting::DeadQueue(target)];
    let rules = Rules(vec![Rule::new(["*mail"], settings)]);
    let _ = world.broker.turn(world.now()).set_policies(rules);
    for queue in ["old.mail", "mail"] {
        world.put(queue.as_bytes(), NewJob::default(), b"x");
        world.kill_one(queue);
    }
    // The queue `mail` is there, and `old.mail` is not.
    world.put(b"mail", NewJob::default(), b"x");
    world.broker.set_queue_limit(Some(1));
    for dry_run in [true, false] {
        let asked = json!({ "kind": "redrive", "queue": "dead", "dry_run": dry_run });
        let operation = ended(&world, start(&world, &asked));
        let numbers = ["done", "skipped", "refused"].map(|name| operation[name].as_u64().unwrap());
        assert_eq!(numbers, [1, 1, 1], "{operation}");
        let why = operation["refusal"].as_str().unwrap();
        assert!(why.contains("limits.queues"), "{why}");
    }
    assert_eq!(world.ask("GET", "/queues/old.mail").status, 404);
    world.broker.set_queue_limit(None);
    let asked = json!({ "kind": "redrive", "queue": "dead" });
    assert_eq!(ended(&world, start(&world, &asked))["done"], 1);
    assert_eq!(world.get("/queues/old.mail")["ready"], 1);
}

/// The numbers of jobs that a redrive has changed, skipped, and found unable to come back.
fn redriven(world: &World, more: &Value) -> [u64; 3] {
    let mut asked = json!({ "kind": "redrive", "queue": "mail" });
    asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let operation = ended(world, start(world, &asked));
    assert_eq!(operation["status"], "done", "{operation}");
    ["done", "skipped", "refused"].map(|name| operation[name].as_u64().unwrap())
}

/// Gives `mail` a policy: a job that fails is a dead letter, and its body is its unique key.
fn set_unique(world: &World, more: impl IntoIterator<Item = Setting>) {
    let key = Setting::UniqueBy(Some("body".parse().unwrap()));
    let settings = [Setting::Retries(true), Setting::RetryLimit(0), key];
    let rules = Rules(vec![Rule::new(["mail"], settings.into_iter().chain(more))]);
    let _ = world.broker.turn(world.now()).set_policies(rules);
}

#[test]
fn a_redrive_of_chosen_letters_goes_on_behind_those_that_stay() {
    let world = World::open();
    set_unique(&world, []);
    let letters = [&b"a"[..], b"b", b"c"].map(|body| {
        let id = world.put(b"mail", NewJob::default(), body);
        world.kill_one("mail");
        id
    });
    world.put(b"mail", NewJob::default(), b"a");
    for dry_run in [true, false] {
        let asked = json!({ "ids": letters, "dry_run": dry_run });
        assert_eq!(redriven(&world, &asked), [2, 1, 1], "dry run: {dry_run}");
    }
    assert_eq!(counts(&world, "mail"), [3, 0, 1]);
}

#[test]
fn a_redrive_of_buried_jobs_goes_on_behind_those_that_stay() {
    let world = World::open();
    set_unique(&world, [Setting::IgnoreBuried(true)]);
    for body in [&b"a"[..], b"b", b"c", b"d"] {
        world.put(b"mail", NewJob::default(), body);
    }
    bury_all(&world, "mail");
    world.put(b"mail", NewJob::default(), b"a");
    assert_eq!(redriven(&world, &json!({ "dry_run": true })), [3, 1, 1]);
    assert_eq!(redriven(&world, &json!({ "dry_run": true, "count": 2 })), [2, 1, 1]);
    assert_eq!(counts(&world, "mail"), [1, 0, 4], "nothing has changed");
    assert_eq!(redriven(&world, &json!({ "count": 1 })), [1, 1, 1]);
    assert_eq!(redriven(&world, &json!({})), [2, 1, 1]);
    assert_eq!(counts(&world, "mail"), [4, 0, 1]);
}

#[test]
fn many_buried_jobs_come_back() {
    let world = World::open();
    put_many(&world, b"mail", 600, NewJob::default());
    bury_all(&world, "mail");
    assert_eq!(redriven(&world, &json!({ "dry_run": true })), [600, 0, 0]);
    assert_eq!(redriven(&world, &json!({ "rate_per_s": 0 })), [600, 0, 0]);
    assert_eq!(counts(&world, "mail"), [600, 0, 0]);
}

#[test]
fn a_dry_run_brings_back_one_letter_of_each_key() {
    let world = World::open();
    set_unique(&world, []);
    for body in [&b"a"[..], b"a", b"b", b"a"] {
        world.put(b"mail", NewJob::default(), body);
        world.kill_one("mail");
    }
    for dry_run in [true, false] {
        let numbers = redriven(&world, &json!({ "dry_run": dry_run }));
        assert_eq!(numbers, [2, 2, 2], "dry run: {dry_run}");
    }
}

#[test]
fn a_letter_that_stays_counts_when_the_turn_is_durable() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let world = with_log(&disk);
    set_unique(&world, []);
    for body in [&b"a"[..], b"b"] {
        world.put(b"mail", NewJob::default(), body);
        world.kill_one("mail");
    }
    world.put(b"mail", NewJob::default(), b"a");
    world.broker.commit_step(NOW).unwrap();
    let asked = json!({ "kind": "redrive", "queue": "mail" }).to_string();
    let json = [("content-type", "application/json")];
    let started = world.send_and(request("POST", "/operations", &json, asked.as_bytes()), || {
        let stats = world.broker.turn(NOW).queue_stats(b"mail").unwrap();
        assert_eq!([stats.ready, stats.buried], [2, 1], "the turn is over, and waits for the disk");
        let operation = world.api.operation(1).unwrap();
        assert_eq!([operation.done, operation.skipped, operation.refused], [0, 0, 0]);
        world.broker.commit_step(NOW).unwrap();
    });
    assert_eq!(started.status, 202, "{started:?}");
    let id = started.body["id"].as_u64().unwrap();
    let numbers = |operation: &Value| {
        ["done", "skipped", "refused"].map(|name| operation[name].as_u64().unwrap())
    };
    // A redrive rests after each turn.
    world.pass(100);
    let operation = world.get(&format!("/operations/{id}"));
    assert_eq!(operation["status"], "running", "a restart would go on with it: {operation}");
    assert_eq!(numbers(&operation), [1, 1, 1]);
    world.broker.commit_step(NOW).unwrap();
    assert_eq!(numbers(&ended(&world, id)), [1, 1, 1]);
}

#[test]
fn dead_letters_are_chosen_by_their_keys() {
    let world = World::open();
    let key = |text: &str| Some(text.parse().unwrap());
    let target = DeadTarget::Queue(b"dead"[..].into());
    let settings = [
        Setting::Retries(true),
        Setting::RetryLimit(0),
        Setting::DeadQueue(target),
        Setting::UniqueBy(key("until:-")),
        Setting::FairKey(key("until:+")),
    ];
    let _ = world.broker.turn(world.now()).set_policies(Rules(vec![Rule::new(["mail"], settings)]));
    for body in [&b"1-acme+x"[..], b"2-acme+y", b"3-other+z", b"no key"] {
        world.put(b"mail", NewJob::default(), body);
        world.kill_one("mail");
    }
    let found = |more: Value| {
        let mut asked = json!({ "queue": "dead" });
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        redriven(&world, &asked)[0]
    };
    let count = |text: &str| found(json!({ "dry_run": true, "only": { "key": text } }));
    assert_eq!(["1", "2-acme", "2-acme+y", "acme", ""].map(count), [1, 1, 0, 0, 1]);
    let long = "x".repeat(64 << 10);
    assert_eq!(count(&long), 0);
    let longer = json!({ "kind": "redrive", "queue": "dead", "only": { "key": long + "x" } });
    assert_eq!(world.post("/operations", &longer).status, 400, "each letter would hash it");
    assert_eq!(found(json!({ "only": { "key": "3" } })), 1);
    assert_eq!((counts(&world, "mail")[0], counts(&world, "dead")[0]), (1, 3));
}
