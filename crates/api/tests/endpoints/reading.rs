//! What the endpoints report.

use broker::policy::{Pattern, Rule, RuleSetting, Rules, Setting};
use broker::{Body, NewJob, Status};
use serde_json::json;

use crate::world::{NOW, World};

#[test]
fn the_server_reports_its_totals_and_its_health() {
    let world = World::new();
    world.put(b"a", NewJob::default(), b"hello");
    world.put(b"b", NewJob { delay_s: 10, ..NewJob::default() }, b"later");
    let server = world.get("/server");
    assert_eq!(server["version"], "1.2.3");
    assert_eq!(server["host"], "machine");
    assert_eq!(server["now_at"], "2023-11-14T22:13:20.000Z");
    assert_eq!(server["started_at"], "2023-11-14T22:13:15.000Z");
    assert_eq!(server["uptime_ms"], 5_000);
    assert_eq!(server["status"], "up");
    assert_eq!(server["health"], json!({ "level": "ok", "reasons": [] }));
    assert_eq!(server["connections"]["open"], 7);
    assert_eq!(server["connections"]["by_protocol"]["gearman"], 2);
    let totals = &server["totals"];
    assert_eq!((&totals["ready"], &totals["delayed"]), (&json!(1), &json!(1)), "{totals}");
    assert_eq!((&totals["puts"], &totals["ready_bytes"]), (&json!(2), &json!(5)), "{totals}");

    world.broker.drain();
    let _ = world.broker.turn(NOW).set_status(Status::Quiescent, 0);
    let server = world.get("/server");
    assert_eq!(server["draining"], true);
    assert_eq!(server["status"], "quiescent");
    let health = &server["health"];
    assert_eq!(health["level"], "critical", "{health}");
    let codes: Vec<&str> = health["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|reason| reason["code"].as_str().unwrap())
        .collect();
    assert_eq!(codes, ["status", "draining"]);
}

#[test]
fn a_queue_reports_its_jobs_and_clients() {
    let world = World::new();
    world.put(b"mail", NewJob { priority: 1, ..NewJob::default() }, b"urgent");
    world.put(b"mail", NewJob::default(), b"normal");
    world.put(b"mail", NewJob { delay_s: 5, ..NewJob::default() }, b"later");
    let mut turn = world.broker.turn(NOW);
    let session = turn.open_session(0);
    let _ = turn.caller(session).watch(b"mail");
    let _ = turn.caller(session).pause(b"mail", 60);
    drop(turn);
    let queue = world.get("/queues/mail");
    for (key, wanted) in [
        ("name", json!("mail")),
        ("as_of_at", json!("2023-11-14T22:13:20.000Z")),
        ("ready", json!(2)),
        ("delayed", json!(1)),
        ("leased", json!(0)),
        ("buried", json!(0)),
        ("urgent", json!(1)),
        ("bands", json!({ "high": 1, "normal": 2, "low": 0 })),
        ("ready_bytes", json!(12)),
        ("puts", json!(3)),
        ("watchers", json!(1)),
        ("pause_s", json!(60)),
        ("pause_left_ms", json!(60_000)),
        ("items", json!(null)),
        ("is_child", json!(false)),
    ] {
        assert_eq!(queue[key], wanted, "{key}: {queue}");
    }
    assert_eq!(queue["policy"].as_array().unwrap().len(), 59);
}

#[test]
fn every_name_of_a_queue_has_a_path() {
    let world = World::new();
    for (name, path) in [
        (&b"a/b"[..], "a%2Fb"),
        (b"50%", "50%25"),
        (b"a\xffb", "a%5Cxffb"),
        (b"back\\slash", "back%5C%5Cslash"),
        (b".", "%5Cx2e"),
        (b"..", "%5Cx2e."),
        (b"a?b#c d", "a%3Fb%23c%20d"),
        ("邮件".as_bytes(), "%E9%82%AE%E4%BB%B6"),
    ] {
        world.put(name, NewJob::default(), b"x");
        let queue = world.get(&format!("/queues/{path}"));
        assert_eq!(queue["ready"], 1, "{path}");
        assert_eq!(api::parse_name(queue["name"].as_str().unwrap()).unwrap(), name, "{path}");
    }
}

#[test]
fn policies_come_with_the_lines_of_their_settings() {
    let world = World::new();
    let setting = |setting, line| RuleSetting { setting, line };
    let rules = Rules(vec![
        Rule {
            patterns: vec![Pattern::new(b"*")],
            settings: vec![setting(Setting::JobsMax(Some(10)), 3)],
            line: 2,
        },
        Rule {
            patterns: vec![Pattern::new(b"mail*")],
            settings: vec![setting(Setting::JobsMax(Some(20)), 7)],
            line: 6,
        },
    ]);
    let _ = world.broker.turn(NOW).set_policies(rules);
    let policies = world.get("/policies");
    assert_eq!(
        policies["items"][1],
        json!({
            "patterns": ["mail*"],
            "line": 6,
            "settings": [{ "key": "limits.jobs", "value": "JobsMax(Some(20))", "line": 7 }],
        })
    );
    let of =
        |name: &str| world.get(&format!("/policies/effective?name={name}"))["settings"][0].clone();
    let setting = |value, line| json!({ "key": "limits.jobs", "value": value, "line": line });
    assert_eq!(of("mailbox"), setting("JobsMax(Some(20))", Some(7)));
    assert_eq!(of("other"), setting("JobsMax(Some(10))", Some(3)));
    world.put(b"mailbox", NewJob::default(), b"x");
    assert_eq!(world.get("/queues/mailbox")["policy"][0], of("mailbox"));
}

#[test]
fn a_plain_queue_with_a_plus_in_its_name_has_no_settings_of_a_parent() {
    let world = World::new();
    let rule = Rule::new(["mail"], [Setting::JobsMax(Some(20))]);
    let _ = world.broker.turn(NOW).set_policies(Rules(vec![rule]));
    let limit = || world.get("/policies/effective?name=mail%2Bx")["settings"][0]["value"].clone();
    assert_eq!(limit(), "JobsMax(Some(20))", "a Kestrel client would make a child");
    world.put(b"mail+x", NewJob::default(), b"x");
    assert_eq!(limit(), "JobsMax(None)");
    assert_eq!(world.get("/queues/mail%2Bx")["policy"][0]["value"], "JobsMax(None)");
    let mut turn = world.broker.turn(NOW);
    let session = turn.open_reader_session(0);
    turn.caller(session).add(b"mail+x", Body::from(&b"x"[..]), None).value.expect("it has room");
    drop(turn);
    assert_eq!(limit(), "JobsMax(Some(20))", "now it is a child");
}

#[test]
fn the_log_of_a_server_without_a_log_is_empty() {
    let log = World::new().get("/log");
    assert_eq!((&log["data_bytes"], &log["failure"]), (&json!(0), &json!(null)));
}
