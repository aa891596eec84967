//! Requests that change something.

use std::num::NonZeroU32;
use std::sync::Arc;

use api::AccessSettings;
use api::types::Role;
use broker::policy::{DeadTarget, OnDuplicate, Pattern, Rule, RuleSetting, Rules, Setting};
use broker::{Broker, NewJob, Options};
use serde_json::json;

use crate::world::{NOW, Reply, World, request};

fn kind(reply: &Reply) -> String {
    let kind = reply.body["type"].as_str().unwrap_or("none");
    kind.rsplit('#').next().unwrap().to_owned()
}

#[test]
fn a_job_is_put_as_json_as_bytes_and_in_lines() {
    let world = World::open();
    let put = world.post(
        "/queues/mail/jobs",
        &json!({ "body": "hello", "priority": 7, "delay_s": 60, "ttr_s": 5 }),
    );
    assert_eq!(put.status, 201, "{put:?}");
    assert_eq!(put.body, json!({ "id": 1, "queue": "mail" }));
    assert_eq!(put.headers["location"], "/api/v1/jobs/1");
    let job = world.get("/jobs/1");
    for (key, wanted) in [("priority", 7), ("delay_s", 60), ("ttr_s", 5), ("body_bytes", 5)] {
        assert_eq!(job[key], wanted, "{key}");
    }
    assert_eq!(job["state"], "delayed");

    let base64 = world.post("/queues/mail/jobs", &json!({ "body_base64": "AP8=" }));
    assert_eq!(world.ask("GET", "/jobs/2/body").bytes, [0, 255], "{base64:?}");
    let raw = world.post_as("/queues/mail/jobs?priority=3", &[], b"\x00raw");
    assert_eq!((raw.status, &raw.body["id"]), (201, &json!(3)));
    assert_eq!(world.ask("GET", "/jobs/3/body").bytes, b"\x00raw");
    assert_eq!(world.get("/jobs/3")["priority"], 3);

    let lines = [("content-type", "application/x-ndjson")];
    let many = world.post_as(
        "/queues/mail/jobs",
        &lines,
        b"{\"body\":\"a\"}\n\n{\"body\":\"b\",\"delay_s\":9}\n",
    );
    assert_eq!((many.status, &*many.bytes), (200, &b"{\"id\":4}\n{\"id\":5}\n"[..]));
    assert_eq!(world.get("/jobs/5")["state"], "delayed");
    let count: Vec<u8> = b"{}\n".repeat(3_000);
    let many = world.post_as("/queues/many/jobs", &lines, &count);
    assert_eq!(many.bytes.split(|byte| *byte == b'\n').count(), 3_001);
    assert_eq!(world.get("/queues/many")["ready"], 3_000);
}

#[test]
fn the_policy_of_the_queue_has_what_a_put_leaves_out() {
    let world = World::open();
    let settings = [Setting::Ttr(Some(7)), Setting::Priority(5), Setting::Delay(3)];
    let _ = world.broker.turn(NOW).set_policies(Rules(vec![Rule::new(["mail"], settings)]));
    let put = |queue: &str, job: serde_json::Value| {
        let put = world.post(&format!("/queues/{queue}/jobs"), &job);
        let job = world.get(&format!("/jobs/{}", put.body["id"]));
        ["priority", "delay_s", "ttr_s"].map(|key| job[key].as_u64().unwrap())
    };
    assert_eq!(put("mail", json!({})), [5, 3, 7]);
    assert_eq!(put("mail", json!({ "priority": 9 })), [9, 3, 7]);
    assert_eq!(put("mail", json!({ "delay_s": 0, "ttr_s": 0 })), [5, 0, 0]);
    assert_eq!(put("other", json!({})), [1024, 0, 60]);
}

#[test]
fn a_wrong_put_puts_nothing() {
    let world = World::open();
    let json = [("content-type", "application/json")];
    let lines = [("content-type", "application/x-ndjson")];
    let long = "x".repeat(100_001);
    for (path, headers, body, status, word) in [
        ("/queues/q/jobs", &json[..], "{", 400, "JSON"),
        ("/queues/q/jobs", &json, "{\"bdy\":\"\"}", 400, "bdy"),
        ("/queues/q/jobs", &json, "{\"body\":\"\",\"body_base64\":\"\"}", 400, "not both"),
        ("/queues/q/jobs", &json, "{\"body_base64\":\"*\"}", 400, "base64"),
        ("/queues/q/jobs", &json, "{\"delay_s\":4000000000}", 400, "hundred years"),
        ("/queues/q/jobs?priority=1", &json, "{}", 400, "unknown parameter"),
        ("/queues/q/jobs?priority=x", &[], "", 400, "number"),
        ("/queues/q/jobs", &lines, "{}\n{}\n[]\n", 400, "line 3"),
        ("/queues/q/jobs", &[], &long, 413, "too long"),
        ("/queues/q/jobs", &[("idempotency-key", "a b")], "", 400, "Idempotency-Key"),
    ] {
        let reply = world.post_as(path, headers, body.as_bytes());
        assert_eq!(reply.status, status, "{body:.40}: {reply:?}");
        assert!(reply.body["detail"].as_str().unwrap().contains(word), "{reply:?}");
    }
    assert_eq!(world.ask("GET", "/queues/q").status, 404, "the queue was not made");
}

#[test]
fn each_refusal_has_a_problem_of_its_own() {
    let world = World::open();
    let put = || world.post("/queues/q/jobs", &json!({}));
    let setting = RuleSetting { setting: Setting::JobsMax(Some(1)), line: 1 };
    let rule = Rule { patterns: vec![Pattern::new(b"q")], settings: vec![setting], line: 1 };
    let _ = world.broker.turn(NOW).set_policies(Rules(vec![rule]));
    assert_eq!(put().status, 201);
    let full = put();
    assert_eq!((full.status, kind(&full)), (429, "queue-full".to_owned()));
    let lines =
        world.post_as("/queues/q/jobs", &[("content-type", "application/x-ndjson")], b"{}\n");
    let line: serde_json::Value = serde_json::from_slice(&lines.bytes).unwrap();
    assert_eq!((lines.status, &line["status"]), (200, &json!(429)));

    world.broker.set_job_count_limit(Some(1));
    let refused = world.post("/queues/default/jobs", &json!({}));
    assert_eq!((refused.status, kind(&refused)), (507, "too-many-jobs".to_owned()));
    let health = &world.get("/server")["health"];
    assert!(health["reasons"].to_string().contains("job-limit"), "{health}");
    world.broker.set_job_count_limit(None);
    world.broker.set_queue_limit(Some(1));
    let refused = world.post("/queues/new/jobs", &json!({}));
    assert_eq!((refused.status, kind(&refused)), (507, "no-new-queue".to_owned()));
    world.broker.set_queue_limit(None);
    world.broker.set_memory_limit(Some(1));
    let refused = world.post("/queues/default/jobs", &json!({ "body": "x" }));
    assert_eq!((refused.status, kind(&refused)), (507, "memory-full".to_owned()));
    world.broker.set_memory_limit(None);

    let draining = |method: &str| world.ask(method, "/server/drain").status;
    assert_eq!(draining("POST"), 204);
    assert_eq!(kind(&put()), "draining");
    assert_eq!(world.get("/server")["draining"], true);
    assert_eq!(draining("DELETE"), 204);
    let status = |status: &str| {
        let json = json!({ "status": status }).to_string();
        world.send(request("PUT", "/server/status", &[], json.as_bytes())).status
    };
    assert_eq!(status("read_only"), 204);
    let refused = world.post("/queues/default/jobs", &json!({}));
    assert_eq!((refused.status, kind(&refused)), (503, "writes-blocked".to_owned()));
    assert_eq!((status("up"), status("sideways")), (204, 400));
    assert_eq!(world.post("/queues/default/jobs", &json!({})).status, 201);
    let reload = world.ask("POST", "/server/reload");
    assert_eq!((reload.status, kind(&reload)), (409, "bad-configuration".to_owned()));
    assert!(reload.body["detail"].as_str().unwrap().contains("line 7"));
}

/// A world whose log writes only when the test says so.
pub(crate) fn with_log(disk: &log::FaultDisk) -> World {
    let options = Options::without_threads(Arc::new(disk.clone()), log::Settings::default());
    let (broker, _) = Broker::open(options, NOW).unwrap();
    World::over(broker, AccessSettings { anonymous: Role::Admin, ..AccessSettings::default() })
}

#[test]
fn a_queue_is_not_created_while_the_log_has_no_room_for_it() {
    let world = with_log(&log::FaultDisk::new(1, 64 << 20));
    let mut turn = world.broker.turn(NOW);
    let session = turn.open_session(0);
    let mut caller = turn.caller(session);
    // Nothing prepares segments meanwhile, so the log stays full.
    while caller.put(NewJob::default(), vec![b'x'; 60_000].into()).value.is_ok() {}
    let mut limit = 0;
    while caller.limit_queue(b"default", [limit + 1, 0, 0]).value.is_ok() {
        limit += 1;
    }
    drop(turn);
    let refused = world.ask("PUT", "/queues/new");
    assert_eq!((refused.status, &*kind(&refused)), (507, "log-full"));
    assert_eq!(world.ask("GET", "/queues/new").status, 404);
}

#[test]
fn a_change_is_answered_only_when_it_is_durable() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let world = with_log(&disk);
    let commit = || world.broker.commit_step(NOW).unwrap();
    let send = |method: &str, path: &str, body: &[u8]| {
        let asked = request(method, path, &[], body);
        world.send_and(asked, || {
            commit();
        })
    };
    let put = send("POST", "/queues/mail/jobs", b"x");
    assert_eq!(put.status, 201);
    assert_eq!(world.get("/jobs/1")["is_durable"], true);
    assert_eq!(send("POST", "/jobs/1/bury", b"").status, 204);
    assert_eq!(send("POST", "/jobs/1/reschedule", b"{\"delay_s\":5}").status, 204);
    assert_eq!(send("POST", "/jobs/1/kick", b"").status, 204);
    assert_eq!(send("DELETE", "/jobs/1", b"").status, 204);

    // The disk fails while the request waits: the client learns that nobody knows the outcome.
    let asked = request("POST", "/queues/mail/jobs", &[], b"y");
    let failed = world.send_and(asked, || {
        disk.fail_at(disk.calls() + 1);
        let _ = world.broker.commit_step(NOW);
    });
    assert_eq!((failed.status, kind(&failed)), (500, "log-failed".to_owned()));
}

#[test]
fn a_change_is_recorded_although_its_client_leaves() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let world = with_log(&disk);
    world.put(b"mail", NewJob::default(), b"x");
    world.broker.commit_step(NOW).unwrap();
    world.send_and_leave(request("DELETE", "/jobs/1", &[("x-reason", "old")], b""));
    world.send_and_leave(request("POST", "/queues/mail/jobs", &[], b"usual work of programs"));
    world.broker.commit_step(NOW).unwrap();
    assert_eq!(world.ask("GET", "/jobs/1").status, 404);
    let audit = world.get("/audit");
    let lines = audit["items"].as_array().unwrap();
    assert_eq!(lines.len(), 1, "{audit}");
    for (key, wanted) in [("action", "DELETE /api/v1/jobs/1"), ("reason", "old")] {
        assert_eq!(lines[0][key], wanted, "{audit}");
    }
    assert_eq!(lines[0]["status"], 499);
}

#[test]
fn refused_requests_do_not_push_out_the_lines_about_changes() {
    let world = World::open();
    let _ = world.ask("PUT", "/queues/kept");
    for _ in 0..300 {
        assert_eq!(world.ask("DELETE", "/jobs/7").status, 404);
        // Each refused request gets a line.
        world.pass(60_000);
    }
    let mut lines = Vec::new();
    let mut page = world.get("/audit?limit=500");
    loop {
        lines.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        page = world.get(&format!("/audit?limit=500&cursor={next}"));
    }
    assert_eq!(lines.len(), 201);
    assert_eq!(lines[200]["action"], "PUT /api/v1/queues/kept");
    let numbers: Vec<u64> = lines.iter().map(|line| line["number"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|one, next| one > next), "newest first: {numbers:?}");
}

#[test]
fn a_request_with_the_same_key_changes_nothing_again() {
    let world = World::open();
    let send =
        |key: &str, path: &str, body: &[u8]| world.post_as(path, &[("idempotency-key", key)], body);
    let first = send("k", "/queues/q/jobs", b"x");
    let again = send("k", "/queues/q/jobs", b"x");
    assert_eq!((first.status, &first.body["id"]), (201, &json!(1)));
    assert!(!first.headers.contains_key("idempotency-replayed"));
    assert_eq!((again.status, &again.body["id"]), (201, &json!(1)));
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(again.headers["location"], first.headers["location"]);
    assert_eq!(world.get("/queues/q")["ready"], 1);
    for (path, body) in [("/queues/q/jobs", &b"y"[..]), ("/queues/r/jobs", b"x")] {
        let other = send("k", path, body);
        assert_eq!((other.status, kind(&other)), (422, "idempotency-mismatch".to_owned()));
    }
    assert_eq!(send("l", "/queues/q/jobs", b"x").body["id"], 2);

    // A refused request changed nothing, so it can be sent again.
    world.broker.drain();
    assert_eq!(send("m", "/queues/q/jobs", b"x").status, 503);
    world.broker.end_drain();
    assert_eq!(send("m", "/queues/q/jobs", b"x").status, 201);

    world.pass(3_600_000);
    assert_eq!(send("k", "/queues/q/jobs", b"x").body["id"], 4, "an hour is over");
}

#[test]
fn a_put_that_is_sent_again_gets_its_reply_although_the_memory_is_full() {
    let world = World::open();
    let send =
        |key: &str, body: &[u8]| world.post_as("/queues/q/jobs", &[("idempotency-key", key)], body);
    let first = send("k", b"x");
    assert_eq!(first.status, 201, "{first:?}");
    world.broker.set_memory_limit(Some(1));
    let again = send("k", b"x");
    assert_eq!((again.status, &again.body), (201, &first.body), "{again:?}");
    assert_eq!(again.headers["idempotency-replayed"], "true");
    let other = send("k", b"y");
    assert_eq!((other.status, kind(&other)), (422, "idempotency-mismatch".to_owned()));
    let new = send("l", b"x");
    assert_eq!((new.status, kind(&new)), (507, "memory-full".to_owned()));
}

#[test]
fn a_put_needs_the_room_of_its_body_once() {
    let world = World::open();
    let put = |body: &[u8]| world.post_as("/queues/default/jobs", &[], body).status;
    assert_eq!(put(b"x"), 201);
    let used = world.broker.memory_usage().used_bytes;
    world.broker.set_memory_limit(Some(used + 100_000));
    let body = vec![b'x'; 60_000];
    assert_eq!(put(&body), 201);
    assert_eq!(put(&body), 507, "the first one has the room");
}

#[test]
fn keys_are_in_the_account_of_memory_and_take_a_part_of_the_limit() {
    let world = World::open();
    let used = || world.broker.memory_usage().used_bytes;
    // The job ends, so that only its key stays. The memory of the first job may stay, too.
    let send = |number: u32| {
        let key = format!("{number:0>200}");
        let put = world.post_as("/queues/default/jobs", &[("idempotency-key", &key)], b"x");
        let is_kept = put.headers.contains_key("idempotency-replayed");
        if !is_kept {
            let ended = world.ask("DELETE", &format!("/jobs/{}", put.body["id"]));
            assert_eq!(ended.status, 204);
        }
        is_kept
    };
    assert!(!send(0));
    let before = used();
    (1..=1_000).for_each(|number| assert!(!send(number)));
    let grown = used() - before;
    assert!((410_000..600_000).contains(&grown), "{grown}");
    assert!(send(1), "it is kept");
    // The keys have a sixteenth of the memory.
    world.broker.set_memory_limit(Some(16 * 400_000));
    assert!(!send(1_001));
    let grown = used() - before;
    assert!((350_000..410_000).contains(&grown), "{grown}");
    assert!(send(1_000) && !send(1), "the oldest keys are forgotten");
    world.pass(3_600_000);
    world.tick();
    assert!(used() < before + 50_000, "an hour is over: {}", used());
}

#[test]
fn lines_use_their_key_if_one_of_them_is_put() {
    let world = World::open();
    let send = |key: &str| {
        let headers = [("idempotency-key", key), ("content-type", "application/x-ndjson")];
        let reply = world.post_as("/queues/q/jobs", &headers, b"{}\n{}\n");
        let lines = reply.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines = lines.map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap());
        let statuses: Vec<serde_json::Value> = lines.map(|line| line["status"].clone()).collect();
        (statuses, reply.headers.contains_key("idempotency-replayed"))
    };
    world.broker.drain();
    assert_eq!(send("k"), (vec![json!(503), json!(503)], false));
    world.broker.end_drain();
    for is_replayed in [false, true] {
        assert_eq!(send("k"), (vec![json!(null), json!(null)], is_replayed));
    }
    assert_eq!(world.get("/queues/q")["ready"], 2);
    world.broker.set_job_count_limit(Some(3));
    for is_replayed in [false, true] {
        assert_eq!(send("l"), (vec![json!(null), json!(507)], is_replayed));
    }
    assert_eq!(world.get("/queues/q")["ready"], 3);
}

#[test]
fn a_worker_takes_a_job_and_ends_its_lease() {
    let world = World::open();
    let take = || world.post("/take", &json!({ "queues": ["mail", "other"] }));
    assert_eq!(take().status, 204);
    for body in [&b"one"[..], b"two", b"\xff", b"four"] {
        world.put(b"mail", NewJob { ttr_s: 10, ..NewJob::default() }, body);
    }
    let after = |taken: &Reply, end: &str, json: serde_json::Value| {
        let lease = taken.body["lease"].as_str().unwrap();
        world.post(&format!("/leases/{lease}/{end}"), &json).status
    };
    let taken = take();
    assert_eq!((taken.status, &taken.body["body"]), (200, &json!("one")), "{taken:?}");
    assert_eq!(taken.body["job"]["state"], "leased");
    assert_eq!(taken.body["time_left_ms"], 10_000);
    assert_eq!(world.get("/queues/mail")["leased"], 1);
    assert_eq!(after(&taken, "finish", json!({})), 204);
    assert_eq!(after(&taken, "finish", json!({})), 404, "the lease has ended");
    assert_eq!(world.ask("GET", "/jobs/1").status, 404);

    let taken = take();
    assert_eq!(after(&taken, "give_back", json!({ "priority": 2_000, "delay_s": 3 })), 204);
    let job = world.get("/jobs/2");
    assert_eq!((&job["state"], &job["priority"]), (&json!("delayed"), &json!(2_000)));

    let taken = take();
    assert_eq!((&taken.body["body"], &taken.body["body_base64"]), (&json!(null), &json!("/w==")));
    assert_eq!(after(&taken, "bury", json!({ "priority": 9 })), 204);
    assert_eq!(world.get("/jobs/3")["state"], "buried");

    let taken = take();
    world.pass(9_000);
    assert_eq!(after(&taken, "touch", json!({})), 200);
    world.pass(9_000);
    world.tick();
    assert_eq!(world.get("/jobs/4")["state"], "leased", "the time began again");
    assert_eq!(after(&taken, "finish", json!({})), 204);
    for (wrong, parameter) in [
        (json!({ "queues": [] }), "queues"),
        (json!({ "queues": ["a"], "wait_s": 61 }), "wait_s"),
        (json!({ "queues": ["a"], "timeout_s": 0 }), "timeout_s"),
    ] {
        let reply = world.post("/take", &wrong);
        assert_eq!((reply.status, &reply.body["parameter"]), (400, &json!(parameter)));
    }
}

#[test]
fn a_job_goes_back_when_its_lease_is_over() {
    let world = World::open();
    world.put(b"mail", NewJob { ttr_s: 10, ..NewJob::default() }, b"with");
    let take = |more: serde_json::Value| {
        let mut asked = json!({ "queues": ["mail"] });
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let taken = world.post("/take", &asked);
        taken.body["lease"].as_str().unwrap().to_owned()
    };
    let lease = take(json!({}));
    world.pass(10_000);
    assert_eq!(world.get("/jobs/1")["state"], "ready");
    // The worker comes too late, also if nobody else has the job.
    assert_eq!(world.post(&format!("/leases/{lease}/finish"), &json!({})).status, 404);
    world.tick();
    assert_eq!(world.get("/server")["totals"]["sessions"], 0, "the session has ended");

    let lease = take(json!({ "timeout_s": 3 }));
    let other = take_other(&world);
    world.pass(3_000);
    world.tick();
    assert_eq!(world.get("/jobs/1")["state"], "ready", "the client's limit is shorter");
    assert_eq!(world.post(&format!("/leases/{lease}/touch"), &json!({})).status, 404);
    assert_eq!(other, 204);

    world.put(b"mail", NewJob { ttr_s: 0, priority: 1, ..NewJob::default() }, b"without");
    take(json!({}));
    world.pass(59_000);
    world.tick();
    assert_eq!(world.get("/jobs/2")["state"], "leased");
    world.pass(1_000);
    world.tick();
    assert_eq!(world.get("/jobs/2")["state"], "ready");
}

#[test]
fn many_leases_whose_time_is_over_end_soon_and_let_other_requests_come_between() {
    let world = World::open();
    for _ in 0..1_000 {
        world.put(b"mail", NewJob::default(), b"x");
        let taken = world.post("/take", &json!({ "queues": ["mail"], "timeout_s": 1 }));
        assert_eq!(taken.status, 200, "{taken:?}");
    }
    let leased = || world.broker.turn(world.now()).queue_stats(b"mail").unwrap().leased;
    world.pass(1_000);
    assert_eq!(leased(), 1_000);
    world.tick();
    assert!(leased() > 500, "{}: they do not all end at once", leased());
    for _ in 0..100 {
        world.pass(1);
    }
    assert_eq!(leased(), 0);
    assert_eq!(world.get("/server")["totals"]["sessions"], 0);
}

#[test]
fn a_lease_whose_time_is_over_is_a_failed_attempt_and_no_lost_worker() {
    let world = World::open();
    let settings = [Setting::Retries(true), Setting::RetryDisconnect(false)];
    let rules = Rules(vec![Rule::new(["mail"], settings)]);
    let _ = world.broker.turn(NOW).set_policies(rules);
    for (ttr_s, asked) in [
        (60, json!({ "queues": ["mail"], "timeout_s": 3 })),
        (0, json!({ "queues": ["mail"], "timeout_s": 3 })),
        (3, json!({ "queues": ["mail"] })),
    ] {
        let id = world.put(b"mail", NewJob { ttr_s, priority: 1, ..NewJob::default() }, b"x");
        assert_eq!(world.post("/take", &asked).body["job"]["id"], id);
        world.pass(3_000);
        world.tick();
        let job = world.get(&format!("/jobs/{id}"));
        assert_eq!(
            (&job["counters"]["timeouts"], &job["attempts"]),
            (&json!(1), &json!(1)),
            "{job}"
        );
        assert_eq!(world.get("/server")["totals"]["sessions"], 0);
        assert_eq!(world.ask("DELETE", &format!("/jobs/{id}")).status, 204);
    }
}

fn take_other(world: &World) -> u16 {
    world.post("/take", &json!({ "queues": ["mail"] })).status
}

#[test]
fn a_worker_waits_for_a_job() {
    let world = World::open();
    let json = json!({ "queues": ["mail"], "wait_s": 60 }).to_string();
    let asked = request("POST", "/take", &[], json.as_bytes());
    let taken = world.send_and(asked, || {
        world.put(b"mail", NewJob::default(), b"late");
    });
    assert_eq!((taken.status, &taken.body["body"]), (200, &json!("late")));
    let json = json!({ "queues": ["other"], "wait_s": 60 }).to_string();
    let asked = request("POST", "/take", &[], json.as_bytes());
    let nothing = world.send_and(asked, || {
        let mut turn = world.broker.turn(broker::Millis(world.now().0 + 60_000));
        while turn.advance() {}
    });
    assert_eq!(nothing.status, 204);
}

#[test]
fn operators_change_single_jobs() {
    let world = World::open();
    let id = world.put(b"mail", NewJob { delay_s: 60, ..NewJob::default() }, b"x");
    let path = |end: &str| format!("/jobs/{id}{end}");
    let state = || world.get(&path(""))["state"].as_str().unwrap().to_owned();
    assert_eq!(world.ask("POST", &path("/kick")).status, 204);
    assert_eq!(state(), "ready");
    let again = world.ask("POST", &path("/kick"));
    assert_eq!((again.status, kind(&again)), (409, "wrong-state".to_owned()));
    assert_eq!(world.post(&path("/bury"), &json!({ "priority": 4 })).status, 204);
    assert_eq!((state().as_str(), &world.get(&path(""))["priority"]), ("buried", &json!(4)));
    assert_eq!(world.post(&path("/reschedule"), &json!({ "delay_s": 5 })).status, 204);
    let job = world.get(&path(""));
    assert_eq!((&job["state"], &job["priority"]), (&json!("delayed"), &json!(4)));
    assert_eq!(world.post(&path("/reschedule"), &json!({})).status, 204);
    assert_eq!(state(), "ready");

    let taken = world.post("/take", &json!({ "queues": ["mail"] }));
    assert_eq!(taken.status, 200);
    for (method, end) in
        [("DELETE", ""), ("POST", "/kick"), ("POST", "/bury"), ("POST", "/reschedule")]
    {
        let refused = world.ask(method, &path(end));
        assert_eq!((refused.status, kind(&refused)), (409, "job-leased".to_owned()), "{end}");
    }
    assert_eq!(world.ask("DELETE", &path("?force=true")).status, 204);
    assert_eq!(world.ask("GET", &path("")).status, 404);
    assert_eq!(world.ask("DELETE", &path("")).status, 404);
    let id = world.put(b"mail", NewJob::default(), b"x");
    assert_eq!(world.ask("DELETE", &format!("/jobs/{id}")).status, 204);
}

#[test]
fn a_change_of_one_job_counts_as_no_attempt_and_no_limit_holds_it_back() {
    let world = World::open();
    // The first failure makes a dead letter.
    let settings =
        [Setting::Retries(true), Setting::RetryLimit(0), Setting::Concurrency(NonZeroU32::new(1))];
    let rules = Rules(vec![Rule::new(["mail"], settings)]);
    let _ = world.broker.turn(NOW).set_policies(rules);
    world.put(b"mail", NewJob::default(), b"x");
    let id = world.put(b"mail", NewJob::default(), b"x");
    assert_eq!(world.post("/take", &json!({ "queues": ["mail"] })).status, 200);
    let change = |end: &str, asked: &serde_json::Value| {
        let changed = world.post(&format!("/jobs/{id}{end}"), asked);
        assert_eq!(changed.status, 204, "{changed:?}");
        let job = world.get(&format!("/jobs/{id}"));
        assert_eq!((&job["counters"]["takes"], &job["attempts"]), (&json!(0), &json!(0)), "{job}");
        job
    };
    assert_eq!(change("/reschedule", &json!({ "priority": 3 }))["state"], "ready");
    let delayed = change("/reschedule", &json!({ "delay_s": 5 }));
    let left_ms = &delayed["time_left_ms"];
    assert_eq!((&delayed["priority"], left_ms), (&json!(3), &json!(5_000)), "{delayed}");
    assert_eq!(change("/bury", &json!({}))["state"], "buried");
}

#[test]
fn operators_change_queues() {
    let world = World::open();
    let put = |path: &str| world.ask("PUT", path).status;
    assert_eq!((put("/queues/new"), put("/queues/new")), (201, 204));
    let patch = |limits: serde_json::Value| {
        let json = json!({ "limits": limits }).to_string();
        world.send(request("PATCH", "/queues/new", &[], json.as_bytes())).status
    };
    assert_eq!((patch(json!([0, 0, 1])), patch(json!([1]))), (204, 400));
    assert_eq!(world.get("/queues/new")["limits"], json!([0, 0, 1]));
    let pause = world.post("/queues/new/pause", &json!({ "seconds": 60 }));
    assert_eq!((pause.status, &pause.body["survives_restart"]), (200, &json!(false)));
    assert_eq!(world.get("/queues/new")["pause_left_ms"], 60_000);
    assert_eq!(world.ask("DELETE", "/queues/new/pause").status, 204);
    assert_eq!(world.get("/queues/new")["pause_left_ms"], 0);
    assert_eq!(world.post("/queues/new/pause", &json!({ "seconds": 0 })).status, 400);
    assert_eq!(world.post("/queues/none/pause", &json!({ "seconds": 1 })).status, 404);
    assert_eq!(world.ask("DELETE", "/queues/none/pause").status, 404);
}

#[test]
fn changes_of_operators_are_recorded_and_the_work_of_programs_is_not() {
    let world = World::open();
    world.put(b"mail", NewJob::default(), b"x");
    world.post_as("/queues/mail/pause", &[("x-reason", "deploy")], b"{\"seconds\":5}");
    world.post("/queues/mail/jobs", &json!({}));
    world.post("/take", &json!({ "queues": ["mail"] }));
    world.post("/take", &json!({ "queues": [] }));
    let audit = world.get("/audit");
    let lines: Vec<(&str, &str, u64)> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            let reason = line["reason"].as_str().unwrap_or_default();
            (line["action"].as_str().unwrap(), reason, line["status"].as_u64().unwrap())
        })
        .collect();
    let wanted =
        [("POST /api/v1/take", "", 400), ("POST /api/v1/queues/mail/pause", "deploy", 200)];
    assert_eq!(lines, wanted);
}

#[test]
fn a_duplicate_is_a_conflict_or_the_job_that_is_there() {
    let world = World::open();
    let rules = |answer| {
        let settings = [Setting::UniqueBy("body".parse().ok()), Setting::OnDuplicate(answer)];
        Rules(vec![Rule::new(["mail"], settings)])
    };
    let put = |body: &str| world.post("/queues/mail/jobs", &json!({ "body": body }));
    let _ = world.broker.turn(NOW).set_policies(rules(OnDuplicate::Refuse));
    let first = put("a");
    assert_eq!(first.status, 201, "{first:?}");
    let refused = put("a");
    assert_eq!((refused.status, kind(&refused)), (409, "duplicate".to_owned()), "{refused:?}");
    assert_eq!(put("b").status, 201);
    let _ = world.broker.turn(NOW).set_policies(rules(OnDuplicate::ReturnExisting));
    let same = put("a");
    assert_eq!((same.status, &same.body["id"]), (201, &first.body["id"]));
}

#[test]
fn an_operator_sets_a_job_aside() {
    let world = World::open();
    let target = DeadTarget::Queue(b"dead.{name}"[..].into());
    let rules = Rules(vec![
        Rule::new(["mail"], [Setting::DeadQueue(target)]),
        Rule::new(["drops"], [Setting::DeadQueue(DeadTarget::Drop)]),
    ]);
    let _ = world.broker.turn(NOW).set_policies(rules);
    let set_aside = |id: u64| {
        let reply = world.ask("POST", &format!("/jobs/{id}/set_aside"));
        (reply.status, kind(&reply))
    };
    let done = (204, "none".to_owned());
    let refused = (409, "wrong-state".to_owned());

    let id = world.put(b"mail", NewJob { delay_s: 60, ..NewJob::default() }, b"x");
    assert_eq!(set_aside(id), done);
    let job = world.get(&format!("/jobs/{id}"));
    assert_eq!((&job["queue"], &job["state"]), (&json!("dead.mail"), &json!("ready")));
    let dead = &job["dead"];
    assert_eq!((&dead["cause"], &dead["origin"]), (&json!("operator"), &json!("mail")));
    assert_eq!(world.get("/queues/dead.mail")["dead"], 1);
    assert_eq!(set_aside(id), refused, "it is a dead letter already");

    // Without a policy, a letter is buried in its queue.
    let here = world.put(b"other", NewJob::default(), b"x");
    assert_eq!(set_aside(here), done);
    let job = world.get(&format!("/jobs/{here}"));
    assert_eq!((&job["state"], &job["dead"]["origin"]), (&json!("buried"), &json!(null)));

    let dropped = world.put(b"drops", NewJob::default(), b"x");
    assert_eq!(set_aside(dropped), refused, "its queue keeps no letters");
    assert_eq!(world.get(&format!("/jobs/{dropped}"))["queue"], "drops");
    assert_eq!(world.post("/take", &json!({ "queues": ["drops"] })).status, 200);
    assert_eq!(set_aside(dropped), (409, "job-leased".to_owned()));
    assert_eq!(set_aside(99).0, 404);

    // A redrive finds it by its cause.
    let redriven = |cause: &str| {
        let only = json!({ "cause": cause });
        let asked = json!({ "kind": "redrive", "queue": "dead.mail", "only": only });
        assert_eq!(world.post("/operations", &asked).status, 202);
    };
    redriven("expired");
    world.pass(100);
    assert_eq!(world.get(&format!("/jobs/{id}"))["queue"], "dead.mail");
    redriven("operator");
    world.pass(100);
    let job = world.get(&format!("/jobs/{id}"));
    assert_eq!((&job["queue"], &job["dead"]), (&json!("mail"), &json!(null)));
}
