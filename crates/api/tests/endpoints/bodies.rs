//! Who sees the bodies of jobs, and which values in them are not shown.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use api::types::Role;
use api::{BodySettings, JsonPointer};
use axum::body::HttpBody as _;
use broker::NewJob;
use serde_json::json;

use crate::world::{World, request};

fn put_secret(world: &World) -> u64 {
    world.put(b"mail", NewJob::default(), br#"{"to":"ann","card":{"number":4711}}"#)
}

#[test]
fn a_server_can_show_no_bodies() {
    let world = World::with_bodies(BodySettings { shown_to: None, ..BodySettings::default() });
    let id = put_secret(&world);
    for path in [format!("/jobs/{id}/body"), "/search?queue=mail&text=ann".to_owned()] {
        let reply = world.ask("GET", &path);
        assert_eq!(reply.status, 403, "{path}: {reply:?}");
        assert!(reply.body["detail"].as_str().unwrap().contains("http.bodies"), "{reply:?}");
    }
    assert_eq!(world.post("/take", &json!({ "queues": ["mail"] })).status, 403);
    // Everything else works, without bodies.
    for path in ["/queues/mail/jobs?body=text", "/search?queue=mail&older_ms=0"] {
        let page = world.get(path);
        assert_eq!(page["items"][0]["id"], id, "{path}");
        assert_eq!(page["items"][0]["body"], json!(null), "{path}");
    }
    assert_eq!(world.get(&format!("/jobs/{id}"))["body_bytes"], 35);
}

#[test]
fn bodies_can_need_a_role() {
    let settings = BodySettings { shown_to: Some(Role::Operator), ..BodySettings::default() };
    let world = World::with_bodies(settings);
    let id = put_secret(&world);
    let path = format!("/jobs/{id}/body");
    assert_eq!(world.ask("GET", &path).status, 200, "an admin is also an operator");
    let settings = BodySettings { shown_to: Some(Role::Operator), ..BodySettings::default() };
    let world = World::with_anonymous(Role::Viewer, settings);
    put_secret(&world);
    let refused = world.ask("GET", &path);
    assert_eq!((refused.status, &refused.body["needs"]), (401, &json!("operator")));
}

#[test]
fn a_body_is_one_part_so_that_all_of_it_counts_as_unread() {
    let masks = vec![JsonPointer::parse("/card").unwrap()];
    let world = World::with_bodies(BodySettings { masks, ..BodySettings::default() });
    let first_part = |body: &str| {
        let id = world.put(b"mail", NewJob::default(), body.as_bytes());
        let response = world.respond(request("GET", &format!("/jobs/{id}/body"), &[], b""));
        let mut body = response.into_body();
        let part = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Some(Ok(part))) = part else { panic!("no part: {part:?}") };
        part.into_data().unwrap().len()
    };
    let text = "x".repeat(200_000);
    let begin = r#"{"card":"***","text":""#;
    assert_eq!(
        first_part(&format!("{{\"card\":4711,\"text\":\"{text}\"}}")),
        begin.len() + 200_002
    );
    // The response keeps the bytes of a job in memory when the job is gone.
    assert_eq!(first_part(&text), 200_000);
}

#[test]
fn masked_values_are_neither_shown_nor_found() {
    let masks = vec![JsonPointer::parse("/card").unwrap()];
    let world = World::with_bodies(BodySettings { masks, ..BodySettings::default() });
    let id = put_secret(&world);
    let shown = r#"{"to":"ann","card":"***"}"#;
    assert_eq!(world.ask("GET", &format!("/jobs/{id}/body")).bytes, shown.as_bytes());
    let list = world.get("/queues/mail/jobs?body=text");
    assert_eq!(list["items"][0]["body"], json!({ "text": shown, "is_cut": false }));
    let found = |text: &str| {
        let page = world.get(&format!("/search?queue=mail&text={text}"));
        page["items"].as_array().unwrap().clone()
    };
    assert!(found("4711").is_empty());
    assert_eq!(found("ann")[0]["body"]["text"], shown);
    let all = world.get("/search?queue=mail");
    assert_eq!(all["items"][0]["body"]["text"], shown);

    // This JSON is not valid, so the server cannot know what to mask.
    let broken = world.put(b"mail", NewJob::default(), br#"{"card":1"#);
    assert_eq!(world.ask("GET", &format!("/jobs/{broken}/body")).status, 403);
    let list = world.get("/queues/mail/jobs?body=text");
    assert_eq!(list["items"][1]["body"], json!({ "text": "", "is_cut": true }));
    assert!(found("card%22:1").is_empty());
    // A search says that it has not searched the hidden body, whatever the body contains.
    for text in ["card%22:1", "nothing", "ann"] {
        let page = world.get(&format!("/search?queue=mail&text={text}"));
        assert_eq!(page["unsearched"], 1, "{text}: {page}");
    }
    let plain = world.put(b"mail", NewJob::default(), b"to=ann");
    assert_eq!(world.ask("GET", &format!("/jobs/{plain}/body")).bytes, b"to=ann");

    // A worker needs the whole body.
    let taken = world.post("/take", &json!({ "queues": ["mail"] }));
    assert!(taken.body["body"].as_str().unwrap().contains("4711"), "{taken:?}");
    let list = world.get("/queues/mail/jobs?state=leased&body=text");
    assert_eq!(list["items"][0]["body"]["text"], shown);
}
