//! Changes of many jobs.

use broker::NewJob;
use serde_json::{Value, json};

use crate::world::World;

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
fn wrong_operations_are_refused() {
    let world = World::open();
    for (asked, status) in [
        (json!({}), 400),
        (json!({ "kind": "sort", "queue": "default" }), 400),
        (json!({ "kind": "kick", "queue": "none" }), 404),
        (json!({ "kind": "kick", "queue": "default", "state": "ready" }), 400),
        (json!({ "kind": "clear", "queue": "default", "state": "leased" }), 400),
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
