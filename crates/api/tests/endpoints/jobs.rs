//! Jobs, one by one and in lists.

use broker::NewJob;
use serde_json::{Value, json};

use crate::world::World;

fn all_pages(world: &World, path: &str) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = world.get(&format!("{path}&limit=7{cursor}"));
        rows.extend(page["items"].as_array().unwrap().iter().cloned());
        assert_eq!((&page["is_complete"], &page["unreadable"]), (&json!(true), &json!(0)));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return rows,
        }
    }
}

fn ids(rows: &[Value]) -> Vec<u64> {
    rows.iter().map(|row| row["id"].as_u64().unwrap()).collect()
}

#[test]
fn pages_have_each_job_once_in_the_order_of_the_queue() {
    let world = World::new();
    let mut wanted = Vec::new();
    for number in 0..50_u32 {
        let job = NewJob { priority: number * 13 % 5, ..NewJob::default() };
        wanted.push((job.priority, world.put(b"mail", job, b"x")));
    }
    wanted.sort_unstable();
    let wanted: Vec<u64> = wanted.into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids(&all_pages(&world, "/queues/mail/jobs?state=ready")), wanted);
    assert_eq!(all_pages(&world, "/queues/mail/jobs?state=buried"), Vec::<Value>::new());
    let page = world.get("/queues/mail/jobs?limit=2");
    assert_eq!(page["total"], 50);
    // A cursor works only with its list.
    let cursor = page["next"].as_str().unwrap();
    world.put(b"other", NewJob::default(), b"x");
    for path in ["/queues/other/jobs?", "/queues/mail/jobs?state=delayed&"] {
        let refused = world.ask("GET", &format!("{path}cursor={cursor}"));
        assert_eq!(refused.status, 400, "{path}");
        assert_eq!(refused.body["type"], "/console/help#bad-cursor");
    }
}

#[test]
fn a_list_can_have_the_beginnings_of_bodies() {
    let world = World::new();
    world.put(b"mail", NewJob::default(), b"short \xff");
    world.put(b"mail", NewJob::default(), &[b'y'; 1000]);
    let page = world.get("/queues/mail/jobs?body=text");
    assert_eq!(page["items"][0]["body"], json!({ "text": "short \u{fffd}", "is_cut": false }));
    assert_eq!(page["items"][1]["body"], json!({ "text": "y".repeat(200), "is_cut": true }));
    assert_eq!(page["items"][1]["body_bytes"], 1000);
    assert_eq!(world.get("/queues/mail/jobs")["items"][0]["body"], json!(null));
}

#[test]
fn a_job_reports_its_facts() {
    let world = World::new();
    let job = NewJob { priority: 7, delay_s: 60, ttr_s: 90 };
    let id = world.put(b"a/\xff", job, b"hello");
    world.pass(5_000);
    let job = world.get(&format!("/jobs/{id}"));
    for (key, wanted) in [
        ("id", json!(id)),
        ("queue", json!("a/\\xff")),
        ("state", json!("delayed")),
        ("priority", json!(7)),
        ("ttr_s", json!(90)),
        ("delay_s", json!(60)),
        ("created_at", json!("2023-11-14T22:13:20.000Z")),
        ("age_ms", json!(5_000)),
        ("due_at", json!("2023-11-14T22:14:20.000Z")),
        ("time_left_ms", json!(55_000)),
        ("body_bytes", json!(5)),
        ("is_durable", json!(false)),
    ] {
        assert_eq!(job[key], wanted, "{key}: {job}");
    }
    let listed = world.get("/queues/a%2F%5Cxff/jobs?state=delayed");
    let mut listed = listed["items"][0].clone();
    assert_eq!(listed["memory"], "resident");
    listed["memory"] = json!(null);
    assert_eq!(listed, job, "both have the same facts");
}

#[test]
fn a_body_has_forms_for_people() {
    let world = World::new();
    let put = |body: &[u8]| world.put(b"mail", NewJob::default(), body);
    let (json, php, bytes) = (
        put(b"{\"a\":\"\xc2\x9b\"}"),
        put(b"O:1:\"M\":1:{s:4:\"\0*\0n\";i:7;}"),
        put(b"a\x1b\xff"),
    );
    for (id, form, wanted) in [
        (json, "json", "{\n  \"a\": \"\\u009b\"\n}"),
        (php, "php", "{\n  \"(class)\": \"M\",\n  \"n\": 7\n}"),
        (bytes, "text", "a\\x1b\\xff"),
        (bytes, "hex", "000000  61 1b ff                                         a.."),
    ] {
        let reply = world.ask("GET", &format!("/jobs/{id}/body?as={form}"));
        assert_eq!((reply.status, reply.bytes.as_slice()), (200, wanted.as_bytes()), "{form}");
        assert_eq!(reply.headers["content-type"], "text/plain; charset=utf-8");
    }
    for (id, form) in [(bytes, "json"), (json, "php"), (json, "xml")] {
        let reply = world.ask("GET", &format!("/jobs/{id}/body?as={form}"));
        assert_eq!((reply.status, &reply.body["parameter"]), (400, &"as".into()), "{form}");
    }
}

#[test]
fn a_body_is_a_file_that_a_browser_does_not_show() {
    let world = World::new();
    let id = world.put(b"mail", NewJob::default(), b"<script>\xff\x00");
    let reply = world.ask("GET", &format!("/jobs/{id}/body"));
    assert_eq!(reply.status, 200);
    assert_eq!(reply.headers["content-type"], "application/octet-stream");
    assert_eq!(reply.headers["content-disposition"], "attachment");
    assert_eq!(reply.bytes, b"<script>\xff\x00");
    let sessions = world.broker.turn(world.now()).totals().sessions;
    assert_eq!(sessions, 0, "no session is left");
}
