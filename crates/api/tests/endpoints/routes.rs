//! The document, and what all endpoints have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::types::Role;
use api::{AccessSettings, PREFIX, Problem, ProblemKind};
use axum::body::Body;
use broker::NewJob;
use broker::policy::{KeptBody, Rule, Rules, Setting};
use hyper::Request;
use origin::{Gate, Names, Reach};
use serde_json::Value;

use crate::world::World;

/// The methods of each path in the document.
pub(crate) fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let document = serde_json::to_value(api::document()).unwrap();
    let methods =
        |path: &Value| path.as_object().unwrap().keys().map(|it| it.to_uppercase()).collect();
    let paths = document["paths"].as_object().unwrap();
    paths.iter().map(|(path, item)| (path.clone(), methods(item))).collect()
}

#[test]
fn the_document_has_the_methods_of_each_route() {
    let world = World::new();
    let documented = documented();
    assert!(documented.len() >= 11, "{documented:?}");
    for (path, methods) in documented {
        let reply = world.ask("TRACE", &filled(&path));
        assert_eq!(reply.status, 405, "{path}");
        let allowed = reply.headers["allow"].to_str().unwrap().split(',').map(str::trim);
        let allowed: BTreeSet<String> =
            allowed.filter(|method| *method != "HEAD").map(str::to_owned).collect();
        assert_eq!(allowed, methods, "{path}");
    }
}

#[test]
fn the_document_in_the_repository_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let current = serde_json::to_string_pretty(&api::document()).unwrap() + "\n";
    if std::env::var_os("LINESHAFT_BLESS").is_some() {
        std::fs::write(path, &current).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == current,
        "run this test with LINESHAFT_BLESS=1 to write docs/openapi.json again"
    );
}

#[test]
fn the_document_is_served_and_each_reference_has_an_aim() {
    let world = World::new();
    let document = world.get("/openapi.json");
    assert_eq!(document["servers"][0]["url"], "/api/v1");
    let text = document.to_string();
    let references = text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap());
    let mut count = 0;
    for reference in references {
        assert!(document.pointer(reference).is_some(), "{reference}");
        count += 1;
    }
    assert!(count > 10, "{count}");
}

#[test]
fn mistakes_are_problems_with_the_path_of_the_request() {
    let world = World::new();
    for (method, path, kind) in [
        ("GET", "/nothing", ProblemKind::NotFound),
        ("GET", "/queues/nothing", ProblemKind::NotFound),
        ("GET", "/queues/nothing/jobs", ProblemKind::NotFound),
        ("GET", "/queues/default/jobs?state=taken", ProblemKind::BadRequest),
        ("GET", "/queues/default/jobs?body=xml", ProblemKind::BadRequest),
        ("GET", "/queues/default/jobs?body=text&limit=101", ProblemKind::BadRequest),
        ("GET", "/queues/default/jobs?cursor=AAAA", ProblemKind::BadCursor),
        ("GET", "/jobs/99", ProblemKind::NotFound),
        ("GET", "/jobs/99/body", ProblemKind::NotFound),
        ("GET", "/jobs/one", ProblemKind::BadRequest),
        ("POST", "/server", ProblemKind::MethodNotAllowed),
        ("GET", "/server?color=blue", ProblemKind::UnknownParameter),
        ("GET", "/policies/effective", ProblemKind::BadRequest),
        ("GET", "/policies/effective?name=%5Cq", ProblemKind::BadName),
        ("GET", "/queues?sort=color", ProblemKind::BadRequest),
        ("GET", "/queues?limit=0", ProblemKind::BadRequest),
        ("GET", "/queues?limit=501", ProblemKind::BadRequest),
        ("GET", "/queues?state=sad", ProblemKind::BadRequest),
        ("GET", "/queues?match=%5Cq", ProblemKind::BadName),
        ("GET", "/queues?cursor=AAAA", ProblemKind::BadCursor),
        ("GET", "/queues/%ff", ProblemKind::BadName),
        ("GET", "/queues/%5Cx0", ProblemKind::BadName),
    ] {
        let reply = world.ask(method, path);
        assert_eq!(reply.status, kind.status().as_u16(), "{path}: {reply:?}");
        assert_eq!(reply.headers.get_all("content-type").iter().count(), 1, "{path}");
        assert_eq!(reply.headers["content-type"], "application/problem+json", "{path}");
        let problem: Problem = serde_json::from_value(reply.body).unwrap();
        assert_eq!(problem.kind, format!("/console/help#{}", kind.name()), "{path}");
        assert_eq!(problem.status, reply.status);
        let (asked, _) = path.split_once('?').unwrap_or((path, ""));
        assert_eq!(problem.instance, Some(format!("/api/v1{asked}")));
    }
    assert_eq!(world.ask("POST", "/server").headers["allow"], "GET,HEAD");
    assert_eq!(world.ask("HEAD", "/server").status, 200);
}

#[test]
fn only_clients_on_this_machine_can_read_without_a_token() {
    // Admins can read everything.
    let access = AccessSettings { anonymous: Role::Admin, ..AccessSettings::default() };
    let world = World::with_access(access);
    // The first job is in the history of the queue that it left.
    world.api.begin_past_jobs();
    let settings = [Setting::History(true), Setting::HistoryBody(KeptBody::Full)];
    let rules = Rules(vec![Rule::new(["left"], settings)]);
    let _ = world.broker.turn(world.now()).set_policies(rules);
    assert_eq!(world.put(b"left", NewJob::default(), b"x"), 1);
    let moved = world.post("/jobs/1/move", &serde_json::json!({ "to": "default" }));
    assert_eq!(moved.status, 204, "{moved:?}");
    world.api.collect_past_jobs();
    let kick = serde_json::json!({ "kind": "kick", "queue": "default" });
    assert_eq!(world.post("/operations", &kick).body["id"], 1);
    let connection = format!("/connections/{:x}", world.connect("beanstalk", "unix").0);
    for (path, methods) in documented() {
        let path = filled(&path).replace("/connections/1", &connection);
        if methods.contains("GET") {
            // A job that exists has no result.
            let status = if path.ends_with("/result") { 404 } else { 200 };
            for reach in [Reach::Loopback, Reach::Unix] {
                assert_eq!(world.ask_at(reach, "GET", &path).status, status, "{path}");
            }
        }
        let refused = world.ask_at(Reach::Network, "GET", &path);
        if path == "/me" {
            assert_eq!(refused.body["role"], "none");
        } else {
            assert_eq!(refused.status, 401, "{path}");
            assert_eq!(refused.headers["www-authenticate"], "Bearer realm=\"lineshaft\"");
            assert!(refused.body["detail"].as_str().unwrap().contains("loopback"), "{refused:?}");
        }
    }
    // Without the gate of a listener, nobody is let in.
    let request = Request::get("/api/v1/server").body(Body::empty()).unwrap();
    assert_eq!(world.send(request).status, 403);
}

/// A path of the document, with a queue and a job that exist.
pub(crate) fn filled(path: &str) -> String {
    path.replace("{queue}", "default")
        .replace("{id}", "1")
        .replace("{lease}", "none")
        .replace("{operation}", "1")
        .replace("{session}", "1")
        .replace("effective", "effective?name=a")
        .replace("/search", "/search?queue=default")
}

#[test]
fn the_page_about_the_api_has_each_endpoint_and_each_problem() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http-api.md");
    let page = std::fs::read_to_string(path).unwrap();
    for (path, methods) in documented() {
        for method in methods {
            assert!(page.contains(&format!("| `{method} {path}")), "{method} {path}");
        }
    }
    for kind in ProblemKind::ALL {
        let row = format!("| `{}` | {} |", kind.name(), kind.status().as_u16());
        assert!(page.contains(&row), "{row}");
    }
}

fn request(path: &str, headers: &[(&'static str, &'static str)]) -> Request<Body> {
    let mut request =
        Request::builder().uri(format!("{PREFIX}{path}")).body(Body::empty()).unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let gate = Gate { names: Arc::new(Names::default()), reach: Reach::Loopback };
    request.extensions_mut().insert(gate);
    request
}

#[test]
fn pages_of_other_sites_and_clients_of_proxies_are_refused() {
    let world = World::new();
    let status =
        |headers: &[(&'static str, &'static str)]| world.send(request("/server", headers)).status;
    assert_eq!(status(&[]), 200);
    assert_eq!(status(&[("sec-fetch-site", "same-origin")]), 200);
    assert_eq!(status(&[("sec-fetch-site", "cross-site")]), 403);
    assert_eq!(status(&[("origin", "http://evil.example"), ("host", "127.0.0.1:7300")]), 403);
    assert_eq!(status(&[("x-forwarded-for", "192.0.2.7")]), 401);
    assert_eq!(status(&[("forwarded", "for=192.0.2.7")]), 401);
}

#[test]
fn a_long_pattern_is_refused() {
    let world = World::new();
    let pattern = "z".repeat(257);
    assert_eq!(world.ask("GET", &format!("/queues?match={pattern}")).status, 400);
    assert_eq!(world.ask("GET", &format!("/queues?match={}", &pattern[1..])).status, 200);
}

#[test]
fn a_long_body_comes_whole() {
    let world = World::new();
    let body: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    let id = world.put(b"mail", NewJob::default(), &body);
    let reply = world.ask("GET", &format!("/jobs/{id}/body"));
    assert_eq!((reply.status, reply.bytes == body), (200, true));
}
