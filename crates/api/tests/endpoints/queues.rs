//! Lists of queues.

use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use api::types::Queues;
use broker::policy::{Rule, Rules, Setting};
use broker::{Body, NewJob, Patience, ReadMode};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{spawn_blocking, yield_now};

use crate::world::World;

/// The rows of all pages of a list.
fn all_pages(world: &World, query: &str) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = world.get(&format!("/queues?limit=37&{query}{cursor}"));
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 37);
        rows.extend(items.iter().cloned());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
        assert_eq!(items.len(), 37, "only the last page is shorter");
    }
    rows
}

fn names(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["name"].as_str().unwrap()).collect()
}

/// 200 queues with different numbers of jobs.
fn world() -> World {
    let world = World::new();
    for queue in 0..200_u32 {
        let name = format!("q{queue}");
        for _ in 0..queue * 7 % 5 {
            world.put(name.as_bytes(), NewJob::default(), b"x");
        }
        for _ in 0..queue * 11 % 3 {
            world.put(name.as_bytes(), NewJob { delay_s: 60, ..NewJob::default() }, b"x");
        }
        // A client keeps the queues without jobs.
        let mut turn = world.broker.turn(world.now());
        let session = turn.open_session(0);
        let _ = turn.caller(session).watch(name.as_bytes());
    }
    world
}

#[test]
fn pages_have_each_queue_once_and_in_order() {
    let world = world();
    for sort in ["name", "ready", "leased", "delayed", "buried", "age", "in", "out", "waiters"] {
        let ascending = all_pages(&world, &format!("sort={sort}"));
        let mut descending = all_pages(&world, &format!("sort=-{sort}"));
        descending.reverse();
        assert_eq!(names(&ascending), names(&descending), "{sort}");
        let distinct: BTreeSet<&str> = names(&ascending).into_iter().collect();
        // The queue `default` always exists.
        assert_eq!((ascending.len(), distinct.len()), (201, 201), "{sort}");
        let key = |row: &Value| row[sort].as_u64().unwrap_or(0);
        let keys: Vec<(u64, &str)> =
            ascending.iter().map(|row| (key(row), row["name"].as_str().unwrap())).collect();
        assert!(keys.is_sorted(), "{sort}: {keys:?}");
    }
    let most = world.get("/queues?sort=-ready&limit=1");
    assert_eq!(most["items"][0]["ready"], 4);
    assert_eq!((&most["matched"], &most["total"]), (&json!(201), &json!(201)));
}

#[test]
fn a_cursor_works_only_with_its_order() {
    let world = world();
    let page = world.get("/queues?sort=ready&limit=5");
    let cursor = page["next"].as_str().unwrap();
    let other = world.ask("GET", &format!("/queues?sort=-ready&cursor={cursor}"));
    assert_eq!(other.status, 400);
    assert_eq!(other.body["type"], "/console/help#bad-cursor");
    // The number at which the page ended does not exist any more.
    world.pass(2_000);
    world.put(b"q0", NewJob::default(), b"x");
    assert_eq!(world.ask("GET", &format!("/queues?sort=ready&cursor={cursor}")).status, 200);
}

#[test]
fn a_cursor_behind_the_longest_name_fits_the_head_of_a_request() {
    let world = World::open();
    // Escapes make this name three times as long.
    for name in [&[0xff; 8_180][..], &[0xfe; 8_180]] {
        world.put(name, NewJob::default(), b"x");
    }
    let (mut cursor, mut names) = (String::new(), BTreeSet::new());
    loop {
        let page = world.get(&format!("/queues?limit=1{cursor}"));
        names.insert(page["items"][0]["name"].as_str().unwrap().to_owned());
        let Some(next) = page["next"].as_str() else { break };
        assert!(next.len() < 12_000, "the head of a request has at most 16 KiB: {}", next.len());
        cursor = format!("&cursor={next}");
    }
    assert_eq!(names.len(), 3, "the queue `default` always exists");
}

#[test]
fn lists_are_filtered() {
    let world = world();
    let mut turn = world.broker.turn(world.now());
    let session = turn.open_session(0);
    let _ = turn.caller(session).pause(b"q7", 60);
    drop(turn);
    world.put(b"alone/\xff", NewJob::default(), b"x");
    let of = |query: &str| all_pages(&world, query);
    assert_eq!(of("match=q1?").len(), 10);
    assert_eq!(of("match=q1*").len(), 111);
    assert_eq!(names(&of("search=19&sort=-name"))[0], "q199");
    assert_eq!(names(&of("search=%5Cxff")), ["alone/\\xff"]);
    assert_eq!(names(&of("state=paused")), ["q7"]);
    assert_eq!(names(&of("state=unwatched")), ["alone/\\xff"]);
    assert_eq!(of("match=nothing"), Vec::<Value>::new());
    let page = world.get("/queues?match=q1*&limit=5");
    assert_eq!((&page["matched"], &page["total"]), (&json!(111), &json!(202)));
}

#[test]
fn rates_are_the_changes_since_the_survey_before() {
    let world = World::new();
    world.put(b"busy", NewJob::default(), b"x");
    world.put(b"idle", NewJob::default(), b"x");
    let of = |name: &str| {
        let page = world.get("/queues");
        let items = page["items"].as_array().unwrap().clone();
        items.into_iter().find(|row| row["name"] == name).unwrap()
    };
    assert_eq!(of("busy")["puts_per_s"], json!(null), "there is nothing to compare with yet");
    for _ in 0..20 {
        world.put(b"busy", NewJob::default(), b"x");
    }
    assert_eq!(of("busy")["ready"], 1, "a survey lasts for a second");
    world.pass(2_000);
    world.put(b"new", NewJob::default(), b"x");
    assert_eq!(of("busy")["ready"], 21);
    assert_eq!(
        (&of("busy")["puts_per_s"], &of("busy")["growth_per_s"]),
        (&json!(10.0), &json!(10.0))
    );
    assert_eq!(of("idle")["puts_per_s"], json!(0.0));
    assert_eq!(of("new")["puts_per_s"], json!(null));
}

#[test]
fn many_queues_take_many_turns_and_none_is_missing() {
    let world = World::new();
    for queue in 0..20_000_u32 {
        world.put(format!("q{queue:05}").as_bytes(), NewJob::default(), b"x");
    }
    let page = world.get("/queues?sort=-name&limit=2");
    assert_eq!(names(page["items"].as_array().unwrap()), ["q19999", "q19998"]);
    assert_eq!(page["matched"], 20_001);
    let longest = world.broker.turn(world.now()).longest_slice();
    assert!(longest < 1_000, "{longest}: a turn is short");
    let before = world.broker.memory_usage().used_bytes;
    // The next survey replaces this one.
    world.pass(10_000);
    world.get("/queues");
    let after = world.broker.memory_usage().used_bytes;
    assert!(after.abs_diff(before) < 100_000, "{before} {after}");
    drop(world);
}

/// A runtime like that of a site, but with only one thread for long work. Its time stands still.
fn site_with_one_thread() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true).max_blocking_threads(1).build().unwrap()
}

/// Begins a request, and disconnects when it waits. Returns whether it waited.
async fn waits<T: Send + 'static>(request: impl Future<Output = T> + Send + 'static) -> bool {
    let request = tokio::spawn(request);
    for _ in 0..1_000 {
        yield_now().await;
    }
    request.abort();
    request.await.is_err_and(|error| error.is_cancelled())
}

/// A request for the queues that match a pattern.
fn list(world: &World, pattern: &str) -> impl Future<Output = Queues> + Send + use<> {
    let list = world.api.list_queues(&format!("match={pattern}")).unwrap();
    let api = world.api.clone();
    async move { api.queues(list).await }
}

/// A list that grows copies its rows, and the test has no clock for that. But the account shows that there is
/// room for all rows before most of them are read.
#[test]
fn the_list_of_queues_does_not_grow_while_the_queues_are_read() {
    let world = World::new();
    for queue in 0..20_000_u32 {
        world.put(format!("q{queue:05}").as_bytes(), NewJob::default(), b"x");
    }
    let before = world.broker.memory_usage().used_bytes;
    let grown = || world.broker.memory_usage().used_bytes - before;
    site_with_one_thread().block_on(async {
        let request = tokio::spawn(list(&world, "*"));
        // The walk has far more turns than this.
        for _ in 0..10 {
            yield_now().await;
        }
        let at_first = grown();
        assert!(at_first > 0 && !request.is_finished());
        assert_eq!(request.await.unwrap().matched, 20_001, "with `default`");
        // The whole list also has the names, and the places of sorted rows.
        assert!(at_first > grown() * 3 / 4, "{at_first} {}", grown());
    });
}

#[test]
fn requests_that_have_gone_leave_one_long_list_at_most() {
    let world = World::new();
    for queue in 0..7_000_u32 {
        world.put(format!("q{queue}").as_bytes(), NewJob::default(), b"x");
    }
    let top = world.api.top_queues(4);
    let used_bytes = || world.broker.memory_usage().used_bytes;
    site_with_one_thread().block_on(async {
        assert!(!top.clone().names().await.is_empty());
        let before = used_bytes();
        let (release, released) = mpsc::channel::<()>();
        let busy = spawn_blocking(move || released.recv());
        for _ in 0..5 {
            for _ in 0..3 {
                assert!(waits(top.clone().names()).await);
                assert!(waits(list(&world, "*")).await);
            }
            // A request that looks at the queues now makes a new survey.
            tokio::time::advance(Duration::from_mins(1)).await;
        }
        assert_eq!(Arc::strong_count(&top), 2, "only the first request still waits for the thread");
        let after = used_bytes();
        assert!(after.abs_diff(before) < 100_000, "{before} {after}: they left no more surveys");
        drop(release);
        busy.await.unwrap().expect_err("nothing was sent");
        assert!(!top.clone().names().await.is_empty());
        assert_eq!(list(&world, "*").await.matched, 7_001);
    });
}

#[test]
fn hard_patterns_and_long_names_do_not_keep_other_requests_waiting() {
    let needs_thread = |world: &World, pattern: &str| {
        let request = list(world, pattern);
        site_with_one_thread().block_on(async {
            let (_release, released) = mpsc::channel::<()>();
            drop(spawn_blocking(move || released.recv()));
            waits(request).await
        })
    };
    let world = World::new();
    for queue in 0..1_000_u32 {
        world.put(format!("q{queue}").as_bytes(), NewJob::default(), b"x");
    }
    assert!(!needs_thread(&world, "q*9*"));
    assert!(needs_thread(&world, &"*a".repeat(127)));
    let world = World::new();
    for queue in 0..200_u32 {
        let name = format!("{}{queue:03}", "a".repeat(8_170));
        world.put(name.as_bytes(), NewJob::default(), b"x");
    }
    assert!(needs_thread(&world, "q*"));
    // At each place of a name, only the end of the part differs.
    let pattern = format!("*{}b*", "a".repeat(250));
    assert_eq!(world.get(&format!("/queues?match={pattern}"))["matched"], 0);
}

#[test]
fn the_queues_with_the_most_work_are_chosen_and_stay_for_a_while() {
    let world = World::new();
    for (queue, jobs) in [("a", 1), ("b", 9), ("c", 5), ("d", 3)] {
        for _ in 0..jobs {
            world.put(queue.as_bytes(), NewJob::default(), b"x");
        }
        world.pass(10);
    }
    let (top, none) = (world.api.top_queues(4), world.api.top_queues(0));
    let names = |world: &World| {
        let names = world.block_on(top.clone().names()).into_iter();
        let mut names: Vec<String> =
            names.map(|name| String::from_utf8(name.into_vec()).unwrap()).collect();
        names.sort();
        names
    };
    // `b` has the most jobs, and `a` is the oldest. There are no rates yet.
    assert_eq!(names(&world), ["a", "b"]);
    world.pass(2_000);
    for _ in 0..20 {
        world.put(b"d", NewJob::default(), b"x");
    }
    // `d` is now the longest and the fastest. `b` was chosen a short time ago.
    assert_eq!(names(&world), ["a", "b", "d"]);
    world.pass(9 * 60_000);
    assert_eq!(names(&world), ["a", "b", "d"]);
    world.pass(2 * 60_000);
    assert_eq!(names(&world), ["a", "d"]);
    assert!(world.block_on(none.names()).is_empty());
}

#[test]
fn a_queue_has_its_own_numbers_although_its_name_stands_for_another_one() {
    let world = World::new();
    let mut turn = world.broker.turn(world.now());
    let session = turn.open_reader_session(0);
    let mut caller = turn.caller(session);
    for queue in [&b"old"[..], b"new"] {
        caller.add(queue, Body::from(&b"x"[..]), None).value.expect("nothing limits it");
    }
    let open = ReadMode::Open { limit_ms: None };
    let read = caller.read(b"old", open, Patience::None).value.expect("nothing blocks it");
    assert!(read.granted().is_some());
    let rule = Rule::new(["old"], [Setting::SameAs(Some(b"new"[..].into()))]);
    let _ = turn.set_policies(Rules(vec![rule]));
    drop(turn);
    let open_reads = |queue: &str| {
        let shown = world.get(&format!("/queues/{queue}"));
        shown["items"]["open_reads"].clone()
    };
    assert_eq!((open_reads("old"), open_reads("new")), (json!(1), json!(0)));
}
