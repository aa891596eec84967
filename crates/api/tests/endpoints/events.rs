//! Server-sent events.

use std::future::poll_fn;
use std::pin::Pin;

use api::AccessSettings;
use api::tokens::{Entry, EntryKind, TokenFile};
use api::types::Role;
use axum::body::{Body, HttpBody as _};
use broker::NewJob;
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};

use crate::world::{World, request};

/// The stream of one client.
struct Stream(Body);

/// A part of a stream: an event with its data, a comment, or the end.
#[derive(Debug, PartialEq)]
enum Part {
    Event(String, Value),
    Other(String),
    End,
}

impl Stream {
    fn open(world: &World, headers: &[(&str, &str)]) -> Stream {
        let response = world.respond(request("GET", "/events", headers, b""));
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        // The age of the connection does not cut a stream, which ends by itself.
        assert!(response.extensions().get::<http_api::LongResponse>().is_some());
        let mut stream = Stream(response.into_body());
        assert_eq!(stream.next(world), Part::Other("retry: 1000\n\n".to_owned()));
        stream
    }

    fn next(&mut self, world: &World) -> Part {
        let body = &mut self.0;
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        let frame = world.block_on(async { timeout(Duration::from_mins(10), frame).await });
        let Some(frame) = frame.expect("the stream sends something") else { return Part::End };
        let text = String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap();
        let parts = text.strip_prefix("event: ").and_then(|rest| rest.split_once("\ndata: "));
        match parts {
            Some((name, data)) => {
                let data = serde_json::from_str(data.strip_suffix("\n\n").unwrap()).unwrap();
                Part::Event(name.to_owned(), data)
            }
            None => Part::Other(text),
        }
    }

    fn event(&mut self, world: &World, wanted: &str) -> Value {
        match self.next(world) {
            Part::Event(name, data) if name == wanted => data,
            other => panic!("no {wanted}: {other:?}"),
        }
    }
}

#[test]
fn a_tick_has_the_numbers_of_this_second() {
    let world = World::new();
    let (mut one, mut other) = (Stream::open(&world, &[]), Stream::open(&world, &[]));
    world.put(b"mail", NewJob::default(), b"x");
    world.tick();
    let first = one.event(&world, "tick");
    assert_eq!((&first["totals"]["ready"], &first["puts_per_s"]), (&json!(1), &Value::Null));
    assert_eq!(first["health"]["level"], "ok");
    assert_eq!(other.event(&world, "tick"), first, "the text is made once");
    for _ in 0..4 {
        world.put(b"mail", NewJob::default(), b"x");
    }
    world.pass(2_000);
    world.tick();
    let second = one.event(&world, "tick");
    assert_eq!((&second["totals"]["ready"], &second["puts_per_s"]), (&json!(5), &json!(2.0)));
    assert_ne!(first["now_at"], second["now_at"]);
}

#[test]
fn a_silent_stream_gets_comments_and_ends_after_four_minutes() {
    let world = World::new();
    let mut stream = Stream::open(&world, &[]);
    let mut comments = 0;
    loop {
        match stream.next(&world) {
            Part::Other(text) => assert_eq!(text, ": keep-alive\n\n"),
            Part::End => break,
            part @ Part::Event(..) => panic!("{part:?}"),
        }
        comments += 1;
    }
    assert_eq!(comments, 4 * 60 / 15 - 1, "the last comment would come with the end");
    assert_eq!(stream.next(&world), Part::End);
}

#[test]
fn the_number_of_streams_is_bounded() {
    let world = World::new();
    let mut streams: Vec<Stream> = (0..16).map(|_| Stream::open(&world, &[])).collect();
    let refused = world.ask("GET", "/events");
    assert_eq!((refused.status, refused.body["title"].as_str()), (503, Some("not available now")));
    streams.pop();
    Stream::open(&world, &[]);
    assert_eq!(world.ask("HEAD", "/events").bytes, b"");
}

#[test]
fn the_stream_of_a_slow_reader_ends() {
    let world = World::open();
    let mut slow = Stream::open(&world, &[]);
    for _ in 0..65 {
        assert_eq!(world.ask("PUT", "/queues/mail").status / 100, 2);
    }
    assert_eq!(slow.next(&world), Part::End);
    let mut fast = Stream::open(&world, &[]);
    for _ in 0..65 {
        world.ask("PUT", "/queues/mail");
        assert_eq!(fast.event(&world, "audit")["action"], "PUT /api/v1/queues/mail");
    }
}

#[test]
fn operations_are_told_at_their_start_and_end_and_each_second() {
    let world = World::open();
    for _ in 0..3 {
        world.put(b"mail", NewJob::default(), b"x");
    }
    let mut stream = Stream::open(&world, &[]);
    let asked = json!({ "kind": "clear", "queue": "mail", "confirm": "mail", "rate_per_s": 1 });
    assert_eq!(world.post("/operations", &asked).status, 202);
    let started = stream.event(&world, "operation");
    assert_eq!((&started["status"], &started["total"]), (&json!("running"), &json!(3)));
    assert_eq!(stream.event(&world, "audit")["detail"], "operation 1: clear 3 jobs (all) of mail");
    world.tick();
    assert_eq!(stream.event(&world, "operation")["status"], "running");
    stream.event(&world, "tick");
    world.pass(5_000);
    assert_eq!(stream.event(&world, "operation")["status"], "done");
}

#[test]
fn changes_are_only_for_operators_and_a_removed_token_ends_its_stream() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let mut tokens = Vec::new();
    let mut entries = Vec::new();
    for (name, role) in [("ann", Role::Operator), ("bob", Role::Viewer)] {
        let (token, fingerprint) = api::tokens::new_token().unwrap();
        let name = name.to_owned();
        entries.push(Entry { kind: EntryKind::Token, name, role, fingerprint, created: None });
        tokens.push(format!("Bearer {token}"));
    }
    let write = |entries: &[Entry]| {
        std::fs::write(&path, TokenFile { entries: entries.to_vec() }.written()).unwrap();
    };
    write(&entries);
    let access = AccessSettings { tokens: Some(path.clone()), ..AccessSettings::default() };
    let world = World::with_access(access);
    world.api.read_tokens();
    let open = |token: &str| Stream::open(&world, &[("authorization", token)]);
    let (mut ann, mut bob) = (open(&tokens[0]), open(&tokens[1]));
    let put = request("PUT", "/queues/mail", &[("authorization", &tokens[0])], b"");
    assert_eq!(world.send(put).status, 201);
    let line = ann.event(&world, "audit");
    assert_eq!((&line["who"], &line["number"]), (&json!("ann"), &json!(1)));
    assert!(line["at"].as_str().unwrap().ends_with('Z'));
    // Removes the token of the viewer.
    write(&entries[..1]);
    world.api.read_tokens();
    world.tick();
    ann.event(&world, "tick");
    assert_eq!(bob.next(&world), Part::End);
}
