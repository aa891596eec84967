//! Changes of one version only.

use broker::NewJob;
use broker::policy::{OnDuplicate, Pattern, Rule, RuleSetting, Rules, Setting};
use serde_json::json;

use crate::world::{NOW, Reply, World, request};

fn version(world: &World, path: &str) -> String {
    let reply = world.ask("GET", path);
    reply.headers.get("etag").expect("a version").to_str().unwrap().to_owned()
}

fn change(world: &World, method: &str, path: &str, version: &str, body: &str) -> Reply {
    world.send(request(method, path, &[("if-match", version)], body.as_bytes()))
}

fn is_refused(reply: &Reply) -> bool {
    let kind = reply.body["type"].as_str().unwrap_or_default();
    reply.status == 412 && kind.ends_with("#precondition-failed")
}

#[test]
fn a_job_is_changed_only_in_the_version_that_the_client_saw() {
    let world = World::open();
    let id = world.put(b"mail", NewJob::default(), b"x");
    let path = format!("/jobs/{id}");
    let changes = [
        ("POST", format!("{path}/bury"), ""),
        ("POST", format!("{path}/kick"), ""),
        ("POST", format!("{path}/set_aside"), ""),
        ("POST", format!("{path}/reschedule"), "{\"delay_s\":9}"),
        ("POST", format!("{path}/move"), "{\"to\":\"other\"}"),
        ("DELETE", path.clone(), ""),
    ];
    let mut old = "\"0123456789abcdef\"".to_owned();
    for (method, path_of_change, body) in &changes {
        let now = version(&world, &path);
        world.pass(1_500);
        assert_eq!(version(&world, &path), now, "a job that only gets older stays the same");
        assert_ne!(now, old, "{path_of_change}");
        let refused = change(&world, method, path_of_change, &old, body);
        assert!(is_refused(&refused), "{path_of_change}: {refused:?}");
        assert_eq!(version(&world, &path), now, "a refused request changes nothing");
        let done = change(&world, method, path_of_change, &format!("\"zz\", {now}"), body);
        assert_eq!(done.status, 204, "{path_of_change}: {done:?}");
        old = now;
    }
    assert_eq!(change(&world, "DELETE", &path, &old, "").status, 404, "it has ended");
    let next = world.put(b"mail", NewJob::default(), b"x");
    assert_eq!(change(&world, "DELETE", &format!("/jobs/{next}"), "*", "").status, 204);
}

#[test]
fn the_version_of_a_job_changes_with_its_death_its_due_time_and_the_length_of_its_body() {
    let world = World::open();
    let settings = [
        Setting::UniqueBy("prefix:1".parse().ok()),
        Setting::OnDuplicate(OnDuplicate::ReplaceBody),
    ];
    let _ = world.broker.turn(NOW).set_policies(Rules(vec![Rule::new(["mail"], settings)]));
    let id = world.put(b"mail", NewJob::default(), b"a");
    let path = format!("/jobs/{id}");
    let mut seen = vec![version(&world, &path)];
    let mut has_new_version = |why: &str| {
        let now = version(&world, &path);
        assert!(!seen.contains(&now), "{why}");
        seen.push(now);
    };
    assert_eq!(world.put(b"mail", NewJob::default(), b"a longer one"), id);
    has_new_version("another put gave it a body");
    for _ in 0..2 {
        let delay = json!({ "delay_s": 9 });
        assert_eq!(world.post(&format!("{path}/reschedule"), &delay).status, 204);
        has_new_version("it is due later");
        world.pass(1_000);
    }
    assert_eq!(world.post(&format!("{path}/bury"), &json!({})).status, 204);
    has_new_version("it is buried");
    assert_eq!(world.ask("POST", &format!("{path}/set_aside")).status, 204);
    has_new_version("it is a dead letter, and still buried");
}

#[test]
fn a_queue_is_changed_only_in_the_version_that_the_client_saw() {
    let world = World::open();
    assert_eq!(world.ask("PUT", "/queues/mail").status, 201);
    let first = version(&world, "/queues/mail");
    world.put(b"mail", NewJob::default(), b"x");
    assert_eq!(version(&world, "/queues/mail"), first, "jobs come and go");
    let limits = "{\"limits\":[0,5,0]}";
    assert_eq!(change(&world, "PATCH", "/queues/mail", &first, limits).status, 204);
    let limited = version(&world, "/queues/mail");
    assert_ne!(limited, first);
    for (method, path, body) in [
        ("PATCH", "/queues/mail", limits),
        ("POST", "/queues/mail/pause", "{\"seconds\":5}"),
        ("DELETE", "/queues/mail/pause", ""),
        ("DELETE", "/queues/mail?confirm=mail", ""),
    ] {
        assert!(is_refused(&change(&world, method, path, &first, body)), "{method} {path}");
    }
    assert_eq!(world.get("/queues/mail")["pause_left_ms"], 0);
    let paused = change(&world, "POST", "/queues/mail/pause", &limited, "{\"seconds\":5}");
    assert_eq!(paused.status, 200, "{paused:?}");
    let paused = version(&world, "/queues/mail");
    assert_ne!(paused, limited);
    let setting = RuleSetting { setting: Setting::JobsMax(Some(1)), line: 1 };
    let rule = Rule { patterns: vec![Pattern::new(b"mail")], settings: vec![setting], line: 1 };
    let _ = world.broker.turn(NOW).set_policies(Rules(vec![rule]));
    assert_ne!(version(&world, "/queues/mail"), paused, "its policy is another");
    let removed = change(&world, "DELETE", "/queues/mail?confirm=mail", "*", "");
    assert_eq!(removed.status, 202, "{removed:?}");
    assert_eq!(change(&world, "PATCH", "/queues/none", "*", limits).status, 404);
}

#[test]
fn a_queue_has_one_version_under_all_of_its_names() {
    let world = World::open();
    let rule = Rule::new(["send_mail"], [Setting::SameAs(Some(b"mail"[..].into()))]);
    let _ = world.broker.turn(NOW).set_policies(Rules(vec![rule]));
    world.put(b"mail", NewJob::default(), b"x");
    let seen = version(&world, "/queues/send_mail");
    assert_eq!(version(&world, "/queues/mail"), seen);
    let limits = "{\"limits\":[0,5,0]}";
    assert_eq!(change(&world, "PATCH", "/queues/send_mail", &seen, limits).status, 204);
    let limited = version(&world, "/queues/send_mail");
    let path = "/queues/send_mail?confirm=send_mail";
    assert!(is_refused(&change(&world, "DELETE", path, &seen, "")));
    let removed = change(&world, "DELETE", path, &limited, "");
    assert_eq!(removed.status, 202, "{removed:?}");
}

#[test]
fn a_change_without_versions_refuses_a_condition() {
    let world = World::open();
    let refused = change(&world, "POST", "/server/drain", "*", "");
    assert_eq!((refused.status, &refused.body["parameter"]), (400, &json!("If-Match")));
    assert_eq!(world.get("/server")["draining"], false);
    let refused = change(&world, "PUT", "/queues/mail", "*", "");
    assert_eq!((refused.status, &refused.body["parameter"]), (400, &json!("If-Match")));
    assert_eq!(world.ask("GET", "/queues/mail").status, 404);
}

#[test]
fn documents_are_sent_once() {
    let world = World::open();
    for path in ["/policies", "/policies/effective?name=a", "/openapi.json"] {
        let first = version(&world, path);
        let weak = format!("W/{first}");
        for known in [first.as_str(), weak.as_str(), "*"] {
            let again = world.send(request("GET", path, &[("if-none-match", known)], b""));
            assert_eq!((again.status, again.bytes.len()), (304, 0), "{path} {known}");
            assert_eq!(again.headers["etag"], first.as_str());
        }
        let other = world.send(request("GET", path, &[("if-none-match", "\"x\"")], b""));
        assert_eq!(other.status, 200);
    }
}
