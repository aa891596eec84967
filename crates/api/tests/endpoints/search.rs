//! Searches for jobs.

use broker::NewJob;
use serde_json::{Value, json};

use crate::world::World;

fn ids(page: &Value) -> Vec<u64> {
    page["items"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect()
}

#[test]
fn a_search_finds_jobs_by_text_age_priority_and_state() {
    let world = World::open();
    let old = world.put(b"mail", NewJob { priority: 5, ..NewJob::default() }, b"to: anna");
    world.pass(10_000);
    let bert = world.put(b"mail", NewJob { priority: 7, ..NewJob::default() }, b"to: bert \xff");
    let late =
        world.put(b"mail", NewJob { priority: 7, delay_s: 60, ..NewJob::default() }, b"to: anna?");
    world.put(b"other", NewJob::default(), b"to: anna");
    for (query, found) in [
        ("", vec![old, bert, late]),
        ("&text=anna", vec![old, late]),
        ("&text=Anna", vec![]),
        ("&text=anna%3F", vec![late]),
        ("&text=anna&state=ready", vec![old]),
        ("&state=buried", vec![]),
        ("&older_ms=10000", vec![old]),
        ("&younger_ms=9999", vec![bert, late]),
        ("&priority_min=6", vec![bert, late]),
        ("&priority_max=5&text=to", vec![old]),
    ] {
        let page = world.get(&format!("/search?queue=mail{query}"));
        assert_eq!((ids(&page), &page["next"]), (found, &json!(null)), "{query}");
    }
    let page = world.get("/search?queue=mail&text=bert");
    assert_eq!((&page["total"], &page["scanned_jobs"]), (&json!(3), &json!(3)));
    assert_eq!(page["scanned_bytes"], 8 + 10 + 9);
    assert_eq!(page["items"][0]["body"], json!({ "text": "to: bert \u{fffd}", "is_cut": false }));
    for (path, status) in [
        ("/search", 400),
        ("/search?queue=none", 404),
        ("/search?queue=mail&state=leased", 400),
        ("/search?queue=mail&older_ms=soon", 400),
        ("/search?queue=mail&text=", 200),
    ] {
        assert_eq!(world.ask("GET", path).status, status, "{path}");
    }
    // Each of these characters has three bytes.
    for (count, status) in [(200, 200), (201, 400)] {
        let long = format!("/search?queue=mail&text={}", "%E9%82%AE".repeat(count));
        assert_eq!(world.ask("GET", &long).status, status);
    }
}

#[test]
fn pages_of_a_search_have_each_job_once() {
    let world = World::open();
    let mut wanted = Vec::new();
    for number in 0..1_000_u32 {
        let delay_s = if number % 4 == 3 { 60 } else { 0 };
        let job = NewJob { priority: number % 3, delay_s, ..NewJob::default() };
        let id = world.put(b"mail", job, format!("number {number};").as_bytes());
        if number % 10 == 7 {
            wanted.push(id);
        }
    }
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/search?queue=mail&text=7;&limit=9{cursor}"));
        assert!(ids(&page).len() <= 9);
        found.extend(ids(&page));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
        let refused = world.ask("GET", &format!("/search?queue=mail&text=8;&limit=9{cursor}"));
        assert_eq!(refused.status, 400, "a cursor works only with its search");
    }
    found.sort_unstable();
    assert_eq!(found, wanted);
}

#[test]
fn one_request_searches_a_bounded_number_of_bytes() {
    let world = World::open();
    let body = [b"x".repeat(3 << 20), b"end".to_vec()].concat();
    let ids_of_all: Vec<u64> =
        (0..25).map(|_| world.put(b"mail", NewJob::default(), &body)).collect();
    let (mut found, mut cursor, mut requests) = (Vec::new(), String::new(), 0);
    loop {
        let page = world.get(&format!("/search?queue=mail&text=end{cursor}"));
        assert!(page["scanned_bytes"].as_u64().unwrap() <= 32 << 20);
        let text = page["items"][0]["body"]["text"].as_str().unwrap();
        assert!(text.len() == 63 && text.ends_with("xend"), "the part around the text: {text}");
        found.extend(ids(&page));
        requests += 1;
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!((found, requests), (ids_of_all, 3));
}

#[test]
fn no_request_searches_a_body_that_is_too_long() {
    let world = World::open();
    let body = [b"to=ann".to_vec(), vec![b'x'; 32 << 20]].concat();
    let id = world.put(b"mail", NewJob::default(), &body);
    let page = world.get("/search?queue=mail&text=ann");
    assert_eq!(
        (ids(&page).len(), &page["unsearched"], &page["scanned_bytes"]),
        (0, &json!(1), &json!(0))
    );
    assert_eq!(ids(&world.get("/search?queue=mail")), [id]);
}
