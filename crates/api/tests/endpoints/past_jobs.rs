//! Jobs that have left their queue.

use api::types::Role;
use api::{AccessSettings, BodySettings, JsonPointer};
use broker::policy::{DeadTarget, KeptBody, OnDuplicate, Rule, Rules, Setting, UniqueWindow};
use broker::{GrabOrder, JobId, NewJob, News, Patience, Take};
use serde_json::{Value, json};

use crate::world::World;

/// Gives the queue `mail` a history.
fn keep(world: &World, body: KeptBody) {
    keep_with(world, body, []);
}

/// Gives the queue `mail` a history, and other settings.
fn keep_with(world: &World, body: KeptBody, more: impl IntoIterator<Item = Setting>) {
    world.api.begin_past_jobs();
    world.api.collect_past_jobs();
    let settings = [Setting::History(true), Setting::HistoryBody(body)].into_iter().chain(more);
    let rules = Rules(vec![Rule::new(["mail"], settings)]);
    let _ = world.broker.turn(world.now()).set_policies(rules);
    world.pass(0);
}

/// Puts a job, takes it, and finishes it some time later.
fn done(world: &World, body: &[u8]) -> u64 {
    let id = world.put(b"mail", NewJob { priority: 7, delay_s: 0, ttr_s: 90 }, body);
    world.pass(100);
    let mut turn = world.broker.turn(world.now());
    let session = turn.open_session(0);
    turn.set_peer(session, "192.0.2.1:7");
    let mut caller = turn.caller(session);
    caller.watch(b"mail");
    let Take::Granted(taken) = caller.take(Patience::None).value else { panic!("no job") };
    assert_eq!(taken.id.0, id);
    drop(turn);
    world.pass(30);
    let mut turn = world.broker.turn(world.now());
    turn.caller(session).finish(taken.id).value.unwrap();
    turn.close_session(session);
    drop(turn);
    world.api.collect_past_jobs();
    id
}

fn ids(page: &Value) -> Vec<u64> {
    let items = page["items"].as_array().unwrap();
    items.iter().map(|row| row["id"].as_u64().unwrap()).collect()
}

#[test]
fn a_job_that_has_ended_is_in_the_history() {
    let world = World::open();
    keep(&world, KeptBody::Full);
    let id = done(&world, b"to=ann");
    let job = world.get(&format!("/jobs/{id}/history"));
    let expected = json!({
        "id": id, "queue": "mail", "outcome": "done", "to": null,
        "created_at": "2023-11-14T22:13:20.000Z", "left_at": "2023-11-14T22:13:20.130Z",
        "total_ms": 130, "waited_ms": 100, "ran_ms": 30, "priority": 7, "ttr_s": 90, "takes": 1,
        "attempts": [{
            "taken_at": "2023-11-14T22:13:20.100Z", "waited_ms": 100, "ran_ms": 30,
            "outcome": "left", "worker": "192.0.2.1:7", "error": "",
        }],
        "body_bytes": 6, "kept_bytes": 6, "can_run_again": true,
    });
    assert_eq!(job, expected);
    let page = world.get("/queues/mail/history?body=text");
    assert_eq!(ids(&page), [id]);
    assert_eq!(page["items"][0]["body"], json!({ "text": "to=ann", "is_cut": false }));
    assert_eq!(
        (&page["total"], &page["next"], &page["lost"]),
        (&json!(1), &json!(null), &json!(0))
    );
    assert_eq!(page["times"]["ran"]["mean_ms"], 30.0);
    for path in ["", "/body"] {
        let gone = world.ask("GET", &format!("/jobs/{id}{path}"));
        assert_eq!((gone.status, &gone.body["type"]), (410, &json!("/console/help#job-ended")));
        assert!(gone.body["detail"].as_str().unwrap().contains("(done, 2023-11-14T22:13:20.130Z)"));
    }
    let body = world.ask("GET", &format!("/jobs/{id}/history/body"));
    assert_eq!((body.status, &body.bytes[..]), (200, &b"to=ann"[..]));
    for path in ["/jobs/999", "/jobs/999/history", "/jobs/999/history/body"] {
        assert_eq!(world.ask("GET", path).status, 404, "{path}");
    }
}

#[test]
fn a_list_has_pages_and_outcomes() {
    let world = World::open();
    keep(&world, KeptBody::None);
    let all: Vec<u64> = (0..5).map(|_| done(&world, b"x")).collect();
    let deleted = world.put(b"mail", NewJob::default(), b"x");
    assert_eq!(world.ask("DELETE", &format!("/jobs/{deleted}")).status, 204);
    world.api.collect_past_jobs();
    let first = world.get("/queues/mail/history?limit=4&outcome=done");
    let next = first["next"].as_str().unwrap();
    let second = world.get(&format!("/queues/mail/history?limit=4&outcome=done&cursor={next}"));
    assert_eq!(second["next"], json!(null));
    let found = [ids(&first), ids(&second)].concat();
    assert_eq!(found, all.iter().rev().copied().collect::<Vec<_>>());
    assert_eq!(ids(&world.get("/queues/mail/history?outcome=deleted")), [deleted]);
    // A cursor works only with its list.
    let other = world.ask("GET", &format!("/queues/mail/history?cursor={next}"));
    assert_eq!(other.body["type"], "/console/help#bad-cursor");
    for (query, parameter) in
        [("outcome=good", "outcome"), ("body=json", "body"), ("limit=0", "limit")]
    {
        let refused = world.ask("GET", &format!("/queues/mail/history?{query}"));
        assert_eq!((refused.status, &refused.body["parameter"]), (400, &json!(parameter)));
    }
    assert_eq!(world.ask("GET", "/queues/nowhere/history").status, 404);
    world.put(b"other", NewJob::default(), b"x");
    assert_eq!(world.get("/queues/other/history")["total"], 0);
}

#[test]
fn a_search_finds_bodies_and_errors() {
    let world = World::open();
    keep(&world, KeptBody::Full);
    let ids_of: Vec<u64> =
        (0..130).map(|number| done(&world, format!("to=ann&n={number}").as_bytes())).collect();
    let other = done(&world, b"to=bob");
    let failed = failed(&world, b"no route to bob");

    let search = |query: &str| world.get(&format!("/queues/mail/history?{query}"));
    assert_eq!(ids(&search("text=bob")), [failed, other]);
    assert_eq!(ids(&search("text=bob&outcome=done")), [other]);
    assert_eq!(ids(&search("text=route")), [failed]);
    assert_eq!(ids(&search("text=n%3D7%26")), [0; 0]);
    // The match of a page can be far behind its beginning, and a page has no more than it should.
    let found = search("text=n%3D0&limit=1");
    assert_eq!(ids(&found), [ids_of[0]]);
    assert_eq!(found["total"], 132);
    let first = search("text=n%3D1&limit=3");
    let next = first["next"].as_str().unwrap();
    let second = search(&format!("text=n%3D1&limit=500&cursor={next}"));
    // 1, 10 to 19 and 100 to 129 begin with 1.
    let both = [ids(&first), ids(&second)].concat();
    let with_one = |number: &u64| number.to_string().starts_with('1');
    let expected: Vec<u64> =
        (0..130).rev().filter(with_one).map(|number| ids_of[number as usize]).collect();
    assert_eq!((both, ids(&first).len()), (expected, 3));
    let refused = world.ask("GET", &format!("/queues/mail/history?text=ann&cursor={next}"));
    assert_eq!(refused.body["type"], "/console/help#bad-cursor");
    let long = world.ask("GET", &format!("/queues/mail/history?text={}", "x".repeat(201)));
    assert_eq!((long.status, &long.body["parameter"]), (400, &json!("text")));
}

#[test]
fn a_search_keeps_a_bounded_number_of_bytes() {
    let world = World::open();
    keep(&world, KeptBody::Full);
    let body = [b"to=ann".to_vec(), b"x".repeat(1_000_000)].concat();
    let mut all: Vec<u64> = (0..12).map(|_| done(&world, &body)).collect();
    all.reverse();
    let first = world.get("/queues/mail/history?text=ann");
    assert_eq!(ids(&first), all[..9]);
    let next = first["next"].as_str().unwrap();
    let second = world.get(&format!("/queues/mail/history?text=ann&cursor={next}"));
    assert_eq!((ids(&second), &second["next"]), (all[9..].to_vec(), &json!(null)));
}

#[test]
fn a_search_tells_nothing_that_is_hidden() {
    let masks = vec![JsonPointer::parse("/pin").unwrap()];
    let world = World::with_bodies(BodySettings { masks, ..BodySettings::default() });
    keep(&world, KeptBody::Full);
    let id = done(&world, br#"{"user":"ann","pin":"1234"}"#);
    assert_eq!(ids(&world.get("/queues/mail/history?text=ann")), [id]);
    assert_eq!(ids(&world.get("/queues/mail/history?text=1234")), [0; 0]);
    let world = World::with_bodies(BodySettings { shown_to: None, ..BodySettings::default() });
    keep(&world, KeptBody::Full);
    done(&world, b"to=ann");
    assert_eq!(world.ask("GET", "/queues/mail/history?text=ann").status, 403);
    assert_eq!(world.ask("GET", "/queues/mail/history").status, 200);
}

#[test]
fn a_copy_has_the_body_and_the_priority() {
    let world = World::open();
    keep(&world, KeptBody::Full);
    let id = done(&world, b"to=ann");
    let reply = world.ask("POST", &format!("/jobs/{id}/run_again"));
    assert_eq!((reply.status, &reply.body["queue"]), (201, &json!("mail")), "{reply:?}");
    let copy = reply.body["id"].as_u64().unwrap();
    let job = world.get(&format!("/jobs/{copy}"));
    assert_eq!((&job["priority"], &job["ttr_s"]), (&json!(7), &json!(90)));
    assert_eq!(world.ask("GET", &format!("/jobs/{copy}/body")).bytes, b"to=ann");
    assert_eq!(world.ask("POST", "/jobs/999/run_again").status, 404);
    keep(&world, KeptBody::Prefix(2));
    assert_eq!(world.ask("DELETE", &format!("/jobs/{copy}")).status, 204);
    let part = done(&world, b"to=bob");
    let refused = world.ask("POST", &format!("/jobs/{part}/run_again"));
    assert_eq!((refused.status, &refused.body["type"]), (409, &json!("/console/help#wrong-state")));
    assert_eq!(world.ask("GET", &format!("/jobs/{part}/history/body")).bytes, b"to");
}

#[test]
fn a_copy_never_touches_another_job() {
    let answers = [
        OnDuplicate::ReturnExisting,
        OnDuplicate::Refuse,
        OnDuplicate::Bump,
        OnDuplicate::ReplaceBody,
    ];
    for on_duplicate in answers {
        let world = World::open();
        let key = Setting::UniqueBy(Some("prefix:2".parse().unwrap()));
        keep_with(&world, KeptBody::Full, [key, Setting::OnDuplicate(on_duplicate)]);
        let id = done(&world, b"to=ann");
        let other = NewJob { priority: 9, delay_s: 60, ttr_s: 90 };
        let other = world.put(b"mail", other, b"to=bob");
        let before = world.get(&format!("/jobs/{other}"));
        let refused = world.ask("POST", &format!("/jobs/{id}/run_again"));
        let kind = "/console/help#duplicate";
        assert_eq!((refused.status, &refused.body["type"]), (409, &json!(kind)));
        assert_eq!(world.get(&format!("/jobs/{other}")), before, "{on_duplicate:?}");
        assert_eq!(world.ask("GET", &format!("/jobs/{other}/body")).bytes, b"to=bob");
        assert_eq!(world.ask("DELETE", &format!("/jobs/{other}")).status, 204);
        let copied = world.ask("POST", &format!("/jobs/{id}/run_again"));
        assert_eq!(copied.status, 201, "no job has its key any more");
    }
}

#[test]
fn a_job_that_keeps_its_key_cannot_run_again() {
    let world = World::open();
    let key = Setting::UniqueBy(Some("body".parse().unwrap()));
    let hour = Setting::UniqueWindow(UniqueWindow::For(3_600_000));
    keep_with(&world, KeptBody::Full, [key, hour]);
    let id = done(&world, b"to=ann");
    let run_again = || world.ask("POST", &format!("/jobs/{id}/run_again")).status;
    assert_eq!(run_again(), 409);
    world.pass(3_600_000);
    assert_eq!(run_again(), 201);
}

#[test]
fn bodies_obey_their_rules() {
    let masks = vec![JsonPointer::parse("/pin").unwrap()];
    let world = World::with_bodies(BodySettings { masks, ..BodySettings::default() });
    keep(&world, KeptBody::Full);
    let id = done(&world, br#"{"pin":1}"#);
    let body = world.ask("GET", &format!("/jobs/{id}/history/body"));
    assert_eq!(body.bytes, br#"{"pin":"***"}"#);
    let page = world.get("/queues/mail/history?body=text");
    assert_eq!(page["items"][0]["body"]["text"], r#"{"pin":"***"}"#);
    // A part of JSON cannot be masked, so it is not shown.
    keep(&world, KeptBody::Prefix(7));
    let id = done(&world, br#"{"pin":1}"#);
    assert_eq!(world.ask("GET", &format!("/jobs/{id}/history/body")).status, 403);
    let page = world.get("/queues/mail/history?body=text&limit=1");
    assert_eq!(page["items"][0]["body"], json!({ "text": "", "is_cut": true }));

    let hidden = BodySettings { shown_to: Some(Role::Admin), ..BodySettings::default() };
    let world = World::with_anonymous(Role::Operator, hidden);
    keep(&world, KeptBody::Full);
    let id = done(&world, b"secret");
    assert_eq!(world.ask("GET", &format!("/jobs/{id}/history/body")).status, 401);
    assert_eq!(world.get("/queues/mail/history?body=text")["items"][0]["body"], json!(null));
    // Who must not see the body can still let it run again.
    assert_eq!(world.ask("POST", &format!("/jobs/{id}/run_again")).status, 201);
}

/// Puts a job whose worker reports an exception, and that then ends.
fn failed(world: &World, exception: &[u8]) -> u64 {
    let id = fail(world, exception);
    end(world, id);
    id
}

/// Ends a job, and adds this to the history.
fn end(world: &World, id: u64) {
    assert_eq!(world.ask("DELETE", &format!("/jobs/{id}")).status, 204);
    world.api.collect_past_jobs();
}

/// Puts a job whose worker reports an exception.
fn fail(world: &World, exception: &[u8]) -> u64 {
    fail_with(world, None, &News::Exception(exception.into()))
}

/// Puts a job whose worker can send a warning, and fails then.
fn fail_with(world: &World, warning: Option<&[u8]>, last: &News) -> u64 {
    let id = world.put(b"mail", NewJob::default(), b"x");
    let mut turn = world.broker.turn(world.now());
    let session = turn.open_session(0);
    let mut caller = turn.caller(session);
    caller.register(b"mail", None);
    let taken = caller.take_registered(GrabOrder::NewestFirst).value.map(|job| job.handout.id);
    assert_eq!(taken, Some(JobId(id)));
    if let Some(warning) = warning {
        caller.report(JobId(id), &News::Warning(warning.into())).value.unwrap();
    }
    caller.fail(JobId(id), last).value.unwrap();
    turn.close_session(session);
    drop(turn);
    id
}

#[test]
fn errors_of_workers_obey_the_rules_of_bodies() {
    let error_of = |world: &World, id: u64| {
        let one = world.get(&format!("/jobs/{id}/history"))["attempts"][0]["error"].clone();
        let list = world.get("/queues/mail/history?limit=1");
        assert_eq!(list["items"][0]["attempts"][0]["error"], one);
        one
    };
    let masks = vec![JsonPointer::parse("/pin").unwrap()];
    let world = World::with_bodies(BodySettings { masks, ..BodySettings::default() });
    keep(&world, KeptBody::None);
    let id = failed(&world, br#"{"pin":1,"to":"ann"}"#);
    assert_eq!(error_of(&world, id), r#"{"pin":"***","to":"ann"}"#);
    let id = failed(&world, br#"{"pin":1"#);
    assert_eq!(error_of(&world, id), Value::Null);
    let id = failed(&world, b"no route");
    assert_eq!(error_of(&world, id), "no route");
    // The server keeps the end of long warnings. It does not begin like JSON, and has the value of a mask.
    let warning = format!(r#"{{"text":"{}","pin":4711}}"#, "x".repeat(1_200));
    let id = fail_with(&world, Some(warning.as_bytes()), &News::Fail);
    end(&world, id);
    assert_eq!(error_of(&world, id), Value::Null);
    for (text, count) in [("route", 1), ("ann", 1), ("4711", 0)] {
        let page = world.get(&format!("/queues/mail/history?text={text}"));
        assert_eq!(ids(&page).len(), count, "{text}");
    }

    let hidden = BodySettings { shown_to: Some(Role::Admin), ..BodySettings::default() };
    let world = World::with_anonymous(Role::Operator, hidden);
    keep(&world, KeptBody::None);
    let id = failed(&world, b"no card 1234");
    assert_eq!(error_of(&world, id), Value::Null);
    let id = failed(&world, b"");
    assert_eq!(error_of(&world, id), "", "there is nothing to hide");
}

#[test]
fn errors_of_dead_letters_obey_the_rules_of_bodies() {
    let error_of = |world: &World, exception: &[u8]| {
        let settings =
            [Setting::Retries(true), Setting::RetryLimit(0), Setting::DeadQueue(DeadTarget::Bury)];
        let rules = Rules(vec![Rule::new(["mail"], settings)]);
        let _ = world.broker.turn(world.now()).set_policies(rules);
        let id = fail(world, exception);
        let one = world.get(&format!("/jobs/{id}"))["dead"]["error"].clone();
        let list = world.get("/queues/mail/jobs?state=buried");
        let found = world.get("/search?queue=mail&state=buried");
        for page in [list, found] {
            assert_eq!(page["items"][0]["dead"]["error"], one, "{page}");
        }
        assert_eq!(world.ask("DELETE", &format!("/jobs/{id}")).status, 204);
        one
    };
    let masks = vec![JsonPointer::parse("/pin").unwrap()];
    let world = World::with_bodies(BodySettings { masks, ..BodySettings::default() });
    assert_eq!(error_of(&world, br#"{"pin":1,"to":"ann"}"#), r#"{"pin":"***","to":"ann"}"#);
    assert_eq!(error_of(&world, br#"{"pin":1"#), Value::Null);
    assert_eq!(error_of(&world, b"no route"), "no route");
    let cut = br#"{"to":"ann","pin":1,"more":""#.iter().chain(&[b'x'; 1024]).copied();
    assert_eq!(error_of(&world, &cut.collect::<Vec<u8>>()), Value::Null);
    fail(&world, br#"{"pin":71,"to":"ann"}"#);
    for (text, count) in [("ann", 1), ("71", 0)] {
        let asked = json!({
            "kind": "redrive", "queue": "mail", "dry_run": true, "only": { "error": text },
        });
        let id = world.post("/operations", &asked).body["id"].clone();
        world.pass(1_000);
        assert_eq!(world.get(&format!("/operations/{id}"))["done"], count, "{text}");
    }

    let hidden = BodySettings { shown_to: Some(Role::Admin), ..BodySettings::default() };
    let world = World::with_anonymous(Role::Operator, hidden);
    assert_eq!(error_of(&world, b"no card 1234"), Value::Null);
    // The number of jobs that a filter finds would tell whether the text is there.
    let asked = json!({
        "kind": "redrive", "queue": "mail", "dry_run": true, "only": { "error": "1234" },
    });
    assert_eq!(world.post("/operations", &asked).status, 401);
}

#[test]
fn keys_of_dead_letters_obey_the_rules_of_bodies() {
    let masks = vec![JsonPointer::parse("/card").unwrap()];
    let world = World::with_bodies(BodySettings { masks, ..BodySettings::default() });
    for (by, key, count) in [
        ("json:/card/pin", "4711", 0),
        ("json:/cardholder", "ann", 1),
        ("regex:holder\":\"([a-z]*)", "ann", 1),
        // Nobody can tell from a pattern whether it matches a masked value.
        ("regex:pin\":([0-9]+)", "4711", 1),
    ] {
        let by = Setting::UniqueBy(Some(by.parse().unwrap()));
        let settings = [Setting::Retries(true), Setting::RetryLimit(0), by];
        let rules = Rules(vec![Rule::new(["mail"], settings)]);
        let _ = world.broker.turn(world.now()).set_policies(rules);
        let body = br#"{"card":{"pin":4711},"cardholder":"ann"}"#;
        world.put(b"mail", NewJob::default(), body);
        world.kill_one("mail");
        let asked = json!({
            "kind": "redrive", "queue": "mail", "dry_run": true, "only": { "key": key },
        });
        let id = world.post("/operations", &asked).body["id"].clone();
        world.pass(1_000);
        let operation = world.get(&format!("/operations/{id}"));
        assert_eq!((&operation["status"], &operation["done"]), (&json!("done"), &json!(count)));
    }

    let hidden = BodySettings { shown_to: Some(Role::Admin), ..BodySettings::default() };
    let world = World::with_anonymous(Role::Operator, hidden);
    world.put(b"mail", NewJob::default(), b"4711");
    let asked = |only: Value| {
        let asked = json!({ "kind": "redrive", "queue": "mail", "dry_run": true, "only": only });
        world.post("/operations", &asked).status
    };
    assert_eq!(asked(json!({ "key": "4711" })), 401);
    assert_eq!(asked(json!({ "cause": "released" })), 202);
}

#[test]
fn each_entry_of_a_job_has_an_address() {
    let world = World::open();
    let settings = [Setting::History(true), Setting::HistoryBody(KeptBody::Full)];
    let rules = Rules(vec![Rule::new(["a/b", "c"], settings)]);
    world.api.begin_past_jobs();
    let _ = world.broker.turn(world.now()).set_policies(rules);
    let id = world.put(b"a/b", NewJob::default(), b"x");
    for (queue, to) in [("a/b", "c"), ("c", "a/b"), ("a/b", "d")] {
        world.pass(1_000);
        let moved = world.post(&format!("/jobs/{id}/move"), &json!({ "to": to }));
        assert_eq!(moved.status, 204, "{queue}: {moved:?}");
    }
    world.api.collect_past_jobs();
    let look = |query: &str| {
        let job = world.get(&format!("/jobs/{id}/history{query}"));
        (job["queue"].as_str().unwrap().to_owned(), job["to"].as_str().unwrap().to_owned())
    };
    let entry = |queue: &str, to: &str| (queue.to_owned(), to.to_owned());
    assert_eq!(look(""), entry("a/b", "d"));
    assert_eq!(look("?queue=c"), entry("c", "a/b"));
    let list = world.get("/queues/a%2Fb/history");
    let rows: Vec<_> = list["items"].as_array().unwrap().iter().collect();
    for (row, wanted) in rows.into_iter().zip([entry("a/b", "d"), entry("a/b", "c")]) {
        let left_at = row["left_at"].as_str().unwrap();
        assert_eq!(look(&format!("?queue=a/b&left_at={left_at}")), wanted);
        let body = world.ask("GET", &format!("/jobs/{id}/history/body?left_at={left_at}&as=text"));
        assert_eq!((body.status, &body.bytes[..]), (200, &b"x"[..]));
    }
    // A copy goes to the queue of the entry.
    let copied = world.ask("POST", &format!("/jobs/{id}/run_again?queue=c"));
    assert_eq!((copied.status, &copied.body["queue"]), (201, &json!("c")));
    for (query, status) in [("queue=d", 404), ("left_at=now", 400), ("queue=%5Cq", 400)] {
        let refused = world.ask("GET", &format!("/jobs/{id}/history?{query}"));
        assert_eq!(refused.status, status, "{query}");
    }
}

#[test]
fn a_name_that_stands_for_another_queue_has_the_history_of_that_queue() {
    let world = World::open();
    world.api.begin_past_jobs();
    let rules = Rules(vec![Rule::new(["old"], [Setting::History(true)])]);
    let _ = world.broker.turn(world.now()).set_policies(rules);
    let before = world.put(b"old", NewJob::default(), b"x");
    assert_eq!(world.ask("DELETE", &format!("/jobs/{before}")).status, 204);
    world.api.collect_past_jobs();
    let same_as = Setting::SameAs(Some(b"mail"[..].into()));
    let keep = Rule::new(["mail"], [Setting::History(true)]);
    let rules = Rules(vec![keep, Rule::new(["old", "post"], [same_as])]);
    let _ = world.broker.turn(world.now()).set_policies(rules);
    world.pass(10);
    let check = |name: &str, id: u64, queue: &str| {
        let page = world.get(&format!("/queues/{name}/history"));
        assert_eq!((ids(&page), &page["total"]), (vec![id], &json!(1)), "{name}");
        let job = world.get(&format!("/jobs/{id}/history?queue={name}"));
        assert_eq!(job["queue"], queue);
    };
    // The queue `mail` vanishes with its job.
    let id = done(&world, b"x");
    check("post", id, "mail");
    check("old", before, "old");
    // Now it exists again.
    world.put(b"mail", NewJob::default(), b"x");
    check("post", id, "mail");
    check("old", before, "old");
}

#[test]
fn a_job_that_ended_elsewhere_is_not_said_to_have_ended_when_it_left() {
    let world = World::open();
    keep(&world, KeptBody::None);
    let id = world.put(b"mail", NewJob::default(), b"x");
    let moved = world.post(&format!("/jobs/{id}/move"), &json!({ "to": "other" }));
    assert_eq!(moved.status, 204, "{moved:?}");
    world.api.collect_past_jobs();
    assert_eq!(world.ask("GET", &format!("/jobs/{id}")).status, 200);
    assert_eq!(world.ask("DELETE", &format!("/jobs/{id}")).status, 204);
    let gone = world.ask("GET", &format!("/jobs/{id}"));
    assert_eq!(gone.status, 410);
    let detail = gone.body["detail"].as_str().unwrap();
    assert!(
        detail.contains("has ended; it left the queue `mail` before (moved, 2023-"),
        "{detail}"
    );
}

#[test]
fn jobs_that_nobody_took_have_no_waits() {
    let world = World::open();
    keep(&world, KeptBody::None);
    let deleted = world.put(b"mail", NewJob::default(), b"x");
    assert_eq!(world.ask("DELETE", &format!("/jobs/{deleted}")).status, 204);
    world.api.collect_past_jobs();
    let page = world.get("/queues/mail/history");
    let (job, times) = (&page["items"][0], &page["times"]);
    assert_eq!((&job["waited_ms"], &job["ran_ms"]), (&Value::Null, &Value::Null));
    assert_eq!((&times["waited"], &times["ran"]), (&Value::Null, &Value::Null));
    done(&world, b"x");
    let times = &world.get("/queues/mail/history")["times"];
    assert_eq!(
        (&times["waited"]["mean_ms"], &times["ran"]["mean_ms"]),
        (&json!(100.0), &json!(30.0))
    );
}

#[test]
fn a_job_is_found_for_as_long_as_its_policy_says() {
    let world = World::open();
    keep_with(&world, KeptBody::None, [Setting::HistoryKeep(60_000)]);
    let id = done(&world, b"x");
    world.pass(60_000);
    assert_eq!(world.ask("GET", &format!("/jobs/{id}")).status, 410);
    world.pass(1);
    for path in [format!("/jobs/{id}"), format!("/jobs/{id}/history")] {
        assert_eq!(world.ask("GET", &path).status, 404, "{path}");
    }
    world.put(b"mail", NewJob::default(), b"x");
    let page = world.get("/queues/mail/history");
    assert_eq!((&page["total"], ids(&page).len(), &page["times"]), (&json!(0), 0, &Value::Null));
}

#[test]
fn viewers_read_and_operators_put_copies() {
    let access = AccessSettings { anonymous: Role::Viewer, ..AccessSettings::default() };
    let world = World::with_access(access);
    keep(&world, KeptBody::Full);
    let id = done(&world, b"x");
    assert_eq!(world.ask("GET", &format!("/jobs/{id}/history")).status, 200);
    assert_eq!(world.ask("POST", &format!("/jobs/{id}/run_again")).status, 401);
}

#[test]
fn the_memory_of_the_history_is_counted() {
    let world = World::open();
    keep(&world, KeptBody::Full);
    let used = |world: &World| world.get("/server")["memory"]["used_bytes"].as_u64().unwrap();
    let before = used(&world);
    done(&world, &vec![b'x'; 90_000]);
    let after = used(&world);
    assert!(after >= before + 90_000, "{before} {after}");
}
