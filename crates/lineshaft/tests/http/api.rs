//! Tests the HTTP API of a whole server. The crate `api` tests each endpoint.

use std::os::unix::net::UnixStream;

use serde_json::Value;

use crate::Site;
use crate::packet::Peer as Client;
use crate::request::{Answer, Peer};
use crate::running::Running;

fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap()
}

#[test]
fn the_api_reports_the_server_and_its_queues() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &[]);
    let server = site.get("/api/v1/server");
    assert_eq!(server.status, 200, "{server:?}");
    assert_eq!(server.headers["content-type"], "application/json");
    assert_eq!(server.headers["cache-control"], "no-store");
    assert_eq!(server.headers["x-content-type-options"], "nosniff");
    let server = json(&server);
    assert_eq!(server["health"]["level"], "ok");
    let listeners = server["listeners"].as_array().unwrap();
    assert!(
        listeners
            .iter()
            .any(|one| one["protocol"] == "beanstalk" && one["address"] == site.beanstalk.as_str()),
        "{listeners:?}"
    );

    let mut client = Client::connect(&site.beanstalk);
    assert!(client.ask("use a/b").starts_with("USING"));
    assert!(client.ask("put 0 0 60 5\r\nhello").starts_with("INSERTED"));
    let queue = json(&site.get("/api/v1/queues/a%2Fb"));
    assert_eq!((&queue["name"], &queue["ready"]), (&"a/b".into(), &1.into()));
    let jobs = json(&site.get("/api/v1/queues/a%2Fb/jobs?body=text"));
    let job = &jobs["items"][0];
    assert_eq!((&job["body"]["text"], &job["is_durable"]), (&"hello".into(), &true.into()));
    let path = format!("/api/v1/jobs/{}", job["id"]);
    assert_eq!(json(&site.get(&path))["queue"], "a/b");
    assert_eq!(site.get(&format!("{path}/body")).body, "hello");
    let list = json(&site.get("/api/v1/queues?sort=-ready"));
    assert_eq!(list["items"][0]["name"], "a/b");
    assert!(json(&site.get("/api/v1/log"))["live_bytes"].as_u64().unwrap() > 0);
    let missing = site.get("/api/v1/queues/nothing");
    assert_eq!(missing.status, 404);
    assert_eq!(missing.headers["content-type"], "application/problem+json");
    assert_eq!(json(&missing)["instance"], "/api/v1/queues/nothing");
    let document = json(&site.get("/api/v1/openapi.json"));
    assert!(document["paths"]["/queues/{queue}"]["get"].is_object());
}

#[test]
fn only_listeners_of_this_machine_serve_the_api() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--memory", "--beanstalk", "unix:b", "--http", "unix:h"];
    let _server = Running::start(folder.path(), &arguments);
    let stream = UnixStream::connect(folder.path().join("h")).unwrap();
    assert_eq!(Peer::over(stream).ask("GET", "/api/v1/server").status, 200);

    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--memory", "--beanstalk", "unix:b", "--http", "0.0.0.0:0"];
    let mut open = Running::start(folder.path(), &arguments);
    let address = open.address_of("http").replace("0.0.0.0", "127.0.0.1");
    let refused = Peer::connect(&address).ask("GET", "/api/v1/server");
    assert_eq!(refused.status, 401, "{refused:?}");
    assert!(refused.body.contains("loopback"), "{refused:?}");
    assert_eq!(Peer::connect(&address).ask("GET", "/health/live").status, 200);
}

#[test]
fn a_page_with_a_foreign_name_gets_no_data() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--memory"]);
    let mut peer = Peer::connect(&site.http);
    peer.send(b"GET /api/v1/server HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_eq!(peer.answer(true).status, 403);
}
