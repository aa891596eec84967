//! Tests of the commands as a whole, in simulated time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use broker::policy::{Rule, Rules, Setting};
use broker::{Body, Patience, ReadMode, Take, Turn};
use hdrhistogram::Histogram;
use origin::{Names, Reach};

use super::*;
use crate::{history, snapshot};

/// Counts the actions that requests caused.
#[derive(Debug, Default)]
struct Seen {
    reloads: AtomicU64,
    stops: AtomicU64,
}

impl Controls for Arc<Seen> {
    fn reload(&self) -> Work {
        let seen = self.clone();
        Box::pin(async move {
            seen.reloads.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn shut_down(&self) {
        self.stops.fetch_add(1, Ordering::Relaxed);
    }
}

struct World {
    admin: KestrelAdmin,
    gate: Gate,
    now_ms: Arc<AtomicU64>,
    gets: Arc<AtomicU64>,
    seen: Arc<Seen>,
    broker: Broker,
}

const START_MS: u64 = 1_700_000_000_000;

impl World {
    fn new() -> World {
        let permissions =
            Permissions { by_get: false, stop_locally: true, stop_from_elsewhere: false };
        World::with(permissions, Reach::Loopback)
    }

    fn with(permissions: Permissions, reach: Reach) -> World {
        let broker = Broker::memory(broker::EngineSetup::default(), Millis(START_MS));
        World::over(broker, permissions, reach)
    }

    fn over(broker: Broker, permissions: Permissions, reach: Reach) -> World {
        let now_ms = Arc::new(AtomicU64::new(START_MS));
        let gets = Arc::new(AtomicU64::new(0));
        let seen = Arc::new(Seen::default());
        let (time, counted) = (now_ms.clone(), gets.clone());
        let served = move || {
            let gets = counted.load(Ordering::Relaxed);
            let mut measured = Histogram::new(2).unwrap();
            measured.record_n(7, gets).unwrap();
            Served {
                connections: 2,
                counters: vec![("cmd_get", gets)],
                metrics: vec![("get_hit_latency_usec", Arc::new(measured))],
            }
        };
        let process =
            || ProcessFacts { resident_bytes: 4096, processors: 2, ..ProcessFacts::default() };
        let info = ServerInfo {
            version: "2.4.1".to_owned(),
            build: "lineshaft".to_owned(),
            host: "machine".to_owned(),
            started: Millis(START_MS),
        };
        let admin = KestrelAdmin::new(AdminSetup {
            broker: broker.clone(),
            clock: Arc::new(move || Millis(time.load(Ordering::Relaxed))),
            info,
            permissions,
            served: Box::new(served),
            process: Box::new(process),
            controls: Box::new(seen.clone()),
        });
        let names = Arc::new(Names::new(["machine".to_owned()], Vec::new()));
        World { admin, gate: Gate { names, reach }, now_ms, gets, seen, broker }
    }

    /// Advances the time by this many seconds, with a tick each second.
    fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.now_ms.fetch_add(1_000, Ordering::Relaxed);
            self.admin.tick();
        }
    }

    fn ask_with(&self, mut request: Head) -> (u16, String, String) {
        request.extensions_mut().insert(self.gate.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(self.admin.reply(&request).answer());
        assert!(answer.headers().contains_key("x-ostrich-version"));
        let status = answer.status().as_u16();
        let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
        let body = answer.into_body();
        (status, kind, String::from_utf8(body.to_vec()).unwrap())
    }

    fn ask(&self, path: &str) -> (u16, String) {
        let (status, _, body) = self.ask_with(Head::get(path).body(()).unwrap());
        (status, body)
    }

    fn json(&self, path: &str) -> Value {
        let (status, kind, body) = self.ask_with(Head::get(path).body(()).unwrap());
        assert_eq!((status, kind.as_str()), (200, "application/json"), "{body}");
        assert!(body.ends_with('\n'), "{body}");
        serde_json::from_str(&body).unwrap()
    }
}

fn names(section: &Value) -> BTreeSet<&str> {
    section.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn simple_commands_answer_in_both_forms() {
    let world = World::new();
    let answer = |status: u16, body: &str| (status, body.to_owned());
    assert_eq!(world.ask("/ping"), answer(200, "{\"response\":\"pong\"}\n"));
    assert_eq!(world.ask("/ping.json"), answer(200, "{\"response\":\"pong\"}\n"));
    assert_eq!(world.ask("/ping.txt"), answer(200, "pong\n"));
    assert_eq!(world.ask("/ping?callback=f"), answer(200, "f({\"response\":\"pong\"})\n"));
    assert_eq!(
        world.ask("/ping?callback"),
        answer(200, "ostrichCallback({\"response\":\"pong\"})\n")
    );
    assert_eq!(world.ask("/ping?callback=true"), world.ask("/ping?callback="));
    for missing in [
        "/status",
        "/config_reload",
        "/health",
        "/threads",
        "/gc",
        "/logging?name=a&level=b",
        "/ping/x",
        "/stats.xml",
    ] {
        assert_eq!(world.ask(missing), answer(404, "no such command\n"), "{missing}");
    }
    let (status, text) = world.ask("/stats?period=often");
    assert_eq!(status, 500);
    assert!(text.starts_with("error processing command: "), "{text}");
    assert_eq!(world.ask("/ping?callback=a(b)").0, 500);
    for page in ["/", "/report/", "/graph/"] {
        let (status, kind, _) = world.ask_with(Head::get(page).body(()).unwrap());
        assert_eq!((status, kind.as_str()), (200, "text/html; charset=utf-8"));
    }
}

#[test]
fn clients_can_stop_and_reload_the_server_on_purpose() {
    let world = World::new();
    let post = |path: &str| world.ask_with(Head::post(path).body(()).unwrap());
    assert_eq!(post("/reload").2, "{\"response\":\"ok\"}\n");
    assert_eq!(post("/shutdown.txt").2, "ok\n");
    assert_eq!(post("/quiesce").2, "{\"response\":\"ok\"}\n");
    for (name, value) in [
        ("Sec-Fetch-Site", "cross-site"),
        ("Host", "evil.example:2223"),
        ("Origin", "http://evil.example"),
    ] {
        for path in ["/shutdown", "/quiesce", "/reload.txt"] {
            let foreign = Head::post(path).header(name, value).body(()).unwrap();
            assert_eq!(world.ask_with(foreign).0, 403, "{name}");
        }
    }
    for path in ["/shutdown", "/quiesce.txt", "/reload"] {
        assert_eq!(world.ask(path).0, 405, "{path}");
        assert_eq!(world.ask_with(Head::head(path).body(()).unwrap()).0, 405);
        assert_eq!(world.ask_with(Head::delete(path).body(()).unwrap()).0, 405);
    }
    assert_eq!(world.seen.reloads.load(Ordering::Relaxed), 1);
    assert_eq!(world.seen.stops.load(Ordering::Relaxed), 2);
}

#[test]
fn get_changes_something_where_it_is_allowed_and_not_for_browsers() {
    let permissions = Permissions { by_get: true, stop_locally: true, stop_from_elsewhere: true };
    let world = World::with(permissions, Reach::Network);
    assert_eq!(world.ask("/shutdown.txt"), (200, "ok\n".to_owned()));
    assert_eq!(world.ask("/reload.txt"), (200, "ok\n".to_owned()));
    assert_eq!(world.ask_with(Head::head("/shutdown").body(()).unwrap()).0, 405);
    // A browser sends this request if a page of another site has a picture with this address and
    // `referrerpolicy="no-referrer"`. Other machines can reach the listener.
    let picture = Head::get("/shutdown").header("Host", "192.0.2.1:2223");
    let picture = picture.header("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)");
    assert_eq!(world.ask_with(picture.body(()).unwrap()).0, 403);
    assert_eq!(world.seen.stops.load(Ordering::Relaxed), 1);
}

#[test]
fn the_server_is_not_stopped_from_where_it_should_not_be() {
    let permissions = |stop_locally, stop_from_elsewhere| Permissions {
        by_get: false,
        stop_locally,
        stop_from_elsewhere,
    };
    for (permissions, reach, may_stop) in [
        (permissions(true, false), Reach::Loopback, true),
        (permissions(true, false), Reach::Unix, true),
        (permissions(true, false), Reach::Network, false),
        (permissions(true, true), Reach::Network, true),
        (permissions(false, false), Reach::Loopback, false),
    ] {
        let world = World::with(permissions, reach);
        for path in ["/shutdown", "/quiesce"] {
            let (status, _, text) = world.ask_with(Head::post(path).body(()).unwrap());
            assert_eq!(status, if may_stop { 200 } else { 403 }, "{permissions:?} {reach:?}");
            assert!(may_stop || text.contains("kestrel.control"), "{text}");
        }
        assert_eq!(world.seen.stops.load(Ordering::Relaxed), if may_stop { 2 } else { 0 });
        let reload = world.ask_with(Head::post("/reload").body(()).unwrap());
        assert_eq!(reload.0, 200, "that stops nothing");
    }
}

#[test]
fn a_script_of_another_site_learns_nothing() {
    let world = World::new();
    let ask = |site: Option<&str>| {
        let mut request = Head::get("/stats.json?callback=f").header("Host", "127.0.0.1:2223");
        if let Some(site) = site {
            request = request.header("Sec-Fetch-Site", site);
        }
        world.ask_with(request.body(()).unwrap())
    };
    for site in ["cross-site", "same-site"] {
        let (status, _, text) = ask(Some(site));
        assert_eq!(status, 403);
        assert!(!text.contains("counters"), "{text}");
    }
    // If a browser does not report the page's site, the content type of the response is not a
    // script. So the browser does not run the response.
    let (status, kind, text) = ask(None);
    assert_eq!((status, kind.as_str(), &text[..2]), (200, "application/json", "f("));
    let (status, kind, _) = ask(Some("same-origin"));
    assert_eq!((status, kind.as_str()), (200, "text/javascript; charset=utf-8"));
}

#[test]
fn a_page_of_another_site_uses_up_and_forgets_nothing() {
    for reach in [Reach::Loopback, Reach::Network] {
        let permissions =
            Permissions { by_get: true, stop_locally: true, stop_from_elsewhere: false };
        let world = World::with(permissions, reach);
        let page = |path: &str, name: &str, value: &str| {
            let request = Head::get(path).header("Host", "127.0.0.1:2223");
            world.ask_with(request.header(name, value).body(()).unwrap()).0
        };
        let marks = [
            ("Origin", "http://evil.example"),
            ("Sec-Fetch-Site", "cross-site"),
            ("Referer", "http://evil.example/"),
        ];
        for (name, value) in marks {
            assert_eq!(page("/graph_data", name, value), 403);
            assert_eq!(page("/stats.txt", name, value), 200, "a link is no harm");
        }
        assert!(world.admin.history().series.is_none(), "nothing begins for a page");

        world.json("/stats?namespace=mon");
        world.json("/stats?period=60");
        world.gets.store(5, Ordering::Relaxed);
        world.pass(60);
        for (name, value) in marks {
            for parameters in ["namespace=mon", "period=60", "period=60&callback=f"] {
                assert_eq!(page(&format!("/stats.json?{parameters}"), name, value), 403);
            }
            for number in 1..100 {
                assert_eq!(page(&format!("/stats.json?namespace={number}"), name, value), 403);
                assert_eq!(page(&format!("/stats.json?period={number}"), name, value), 403);
            }
        }
        // At a listener that other machines can reach, a browser can fetch a picture without any of
        // these headers.
        let browser = ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)");
        assert_eq!(page("/stats.json?namespace=mon", browser.0, browser.1), 403);
        assert_eq!(page("/stats.json?period=60", browser.0, browser.1), 403);
        assert_eq!(page("/stats.json", browser.0, browser.1), 200);
        assert_eq!(world.json("/stats?namespace=mon")["counters"]["cmd_get"], 5);
        assert_eq!(world.json("/stats?period=60")["counters"]["cmd_get"], 5);
    }
}

#[test]
fn statistics_have_the_names_that_monitoring_knows() {
    let world = World::new();
    world.gets.store(3, Ordering::Relaxed);
    let stats = world.json("/stats.json");
    assert_eq!(names(&stats), ["counters", "gauges", "labels", "metrics"].into());
    assert_eq!(stats["counters"]["cmd_get"], 3);
    for counter in ["total_items", "queue_creates", "queue_deletes", "queue_expires"] {
        assert_eq!(stats["counters"][counter], 0, "{counter}");
    }
    let gauges = &stats["gauges"];
    assert_eq!(
        (&gauges["connections"], &gauges["items"], &gauges["bytes"]),
        (&json!(2), &json!(0), &json!(0))
    );
    assert_eq!((&gauges["status/readable"], &gauges["status/writeable"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&gauges["reserved_memory_ratio"], &gauges["jvm_heap_used"]),
        (&json!(0), &json!(4096))
    );
    assert_eq!(stats["labels"], json!({ "status": "Up", "version": "2.4.1" }));
    let metrics = [
        "set_latency_usec",
        "get_hit_latency_usec",
        "get_miss_latency_usec",
        "get_timeout_msec",
        "delivery_latency_msec",
        "fsync_delay_usec",
        "item_fsync_delay_usec",
    ];
    assert_eq!(names(&stats["metrics"]), metrics.into());
    assert_eq!(stats["metrics"]["set_latency_usec"], json!({ "count": 0 }));
    let measured = &stats["metrics"]["get_hit_latency_usec"];
    assert_eq!(
        (&measured["count"], &measured["sum"], &measured["p99"]),
        (&json!(3), &json!(21), &json!(7))
    );
    assert_eq!(measured.as_object().unwrap().len(), 13);
    let text = world.ask("/stats.txt").1;
    assert!(text.starts_with("counters:\n  cmd_get: 3\n"), "{text}");
    assert!(text.contains("\nlabels:\n  status: Up\n  version: 2.4.1\nmetrics:\n"), "{text}");
}

#[test]
fn periods_are_latched_and_namespaces_are_kept_apart() {
    let world = World::new();
    let count = |query: &str| {
        let stats = world.json(&format!("/stats.json{query}"));
        (
            stats["counters"]["cmd_get"].clone(),
            stats["metrics"]["get_hit_latency_usec"]["count"].clone(),
        )
    };
    let both = |number: u64| (json!(number), json!(number));
    assert_eq!(count("?period=60"), both(0));
    world.gets.store(5, Ordering::Relaxed);
    world.pass(59);
    assert_eq!(count("?period=60").0, 0);
    world.pass(1);
    world.gets.store(7, Ordering::Relaxed);
    assert_eq!(count("?period=60"), both(5));
    assert_eq!(count("?period=60&filtered=1"), both(5));
    world.pass(59);
    assert_eq!(count("?period=60"), both(5));
    world.pass(1);
    assert_eq!(count("?period=60"), both(2));
    assert_eq!(count(""), both(7));
    assert_eq!(count("?reset=1"), both(7));
    assert_eq!(count("?namespace=a"), both(7));
    world.gets.store(8, Ordering::Relaxed);
    assert_eq!(count("?namespace=a"), both(1));
    assert_eq!(count("?namespace=b"), both(8));
    assert_eq!(count("?namespace=a").0, 0);
}

#[test]
fn unrequested_numbers_are_not_recorded() {
    let world = World::new();
    let is_empty = || world.admin.history().series.is_none();
    world.pass(100);
    world.ask("/ping");
    world.ask("/server_info");
    assert!(is_empty());
    world.ask("/stats");
    assert!(!is_empty());
    world.pass(3_600);
    assert!(!is_empty());
    world.pass(1);
    assert!(is_empty());
    world.ask("/graph_data");
    assert!(!is_empty());
}

fn add_item(turn: &mut Turn<'_>, queue: &str) {
    let session = turn.open_reader_session(0);
    let added = turn.caller(session).add(queue.as_bytes(), Body::from(&b"item"[..]), None);
    added.value.expect("nothing limits the queue");
    turn.close_session(session);
}

#[test]
fn queues_have_numbers_of_their_own_which_are_latched_alike() {
    let world = World::new();
    let add = |queue: &str| {
        let now = Millis(world.now_ms.load(Ordering::Relaxed));
        let mut turn = world.broker.turn(now);
        add_item(&mut turn, queue);
    };
    world.json("/stats?period=60");
    add("old");
    world.pass(60);
    add("old");
    add("new");
    let all = world.json("/stats");
    assert_eq!(all["counters"]["q/old/put_items"], 2);
    assert_eq!(all["counters"]["q/old/put_bytes"], 8);
    assert_eq!(all["gauges"]["q/old/items"], 2);
    assert_eq!(all["gauges"]["q/old/create_time"], START_MS / 1_000);
    assert_eq!(all["gauges"]["q/old/age_msec"], 60_000);
    assert_eq!(all["gauges"]["q/old/max_bytes"], i64::MAX);
    assert_eq!(all["metrics"]["q/old/queue_size"], json!({ "count": 0 }));
    assert_eq!((&all["gauges"]["items"], &all["gauges"]["bytes"]), (&json!(3), &json!(12)));
    let minute = world.json("/stats?period=60");
    assert_eq!(minute["counters"]["q/old/put_items"], 1);
    assert_eq!(minute["counters"]["q/new/put_items"], 0);
    assert_eq!(minute["gauges"]["q/new/items"], 1);
    world.pass(60);
    let minute = world.json("/stats?period=60");
    assert_eq!(minute["counters"]["q/old/put_items"], 1);
    assert_eq!(minute["counters"]["q/new/put_items"], 1);
    let series = world.json("/graph_data/counter:q/new/put_items");
    assert_eq!(series["counter:q/new/put_items"][59][1], 1);
    let text = world.ask("/stats.txt").1;
    let rows: Vec<&str> = text.lines().skip(1).take_while(|line| line.starts_with(' ')).collect();
    assert!(rows.is_sorted() && rows.contains(&"  q/new/put_items: 1"), "{rows:?}");
}

#[test]
fn a_queue_counts_once_although_the_name_of_another_one_stands_for_it() {
    let world = World::new();
    let mut turn = world.broker.turn(Millis(START_MS));
    add_item(&mut turn, "old");
    add_item(&mut turn, "new");
    let session = turn.open_reader_session(0);
    let open = ReadMode::Open { limit_ms: None };
    let read = turn.caller(session).read(b"old", open, Patience::None).value;
    assert!(matches!(read, Ok(Take::Granted(_))), "{read:?}");
    let rule = Rule::new(["old"], [Setting::SameAs(Some(b"new"[..].into()))]);
    let _ = turn.set_policies(Rules(vec![rule]));
    drop(turn);
    let stats = world.json("/stats");
    let gauges = &stats["gauges"];
    assert_eq!((&gauges["items"], &gauges["bytes"]), (&json!(1), &json!(4)));
    for (number, of_old, of_new) in [("items", 0, 1), ("open_transactions", 1, 0)] {
        assert_eq!(gauges[format!("q/old/{number}")], of_old, "{number}");
        assert_eq!(gauges[format!("q/new/{number}")], of_new, "{number}");
    }
}

#[test]
fn queues_are_read_in_slices() {
    let mut setup = broker::EngineSetup::default();
    setup.limits.slice_units = 10;
    let broker = Broker::memory(setup, Millis(START_MS));
    let permissions = Permissions { by_get: false, stop_locally: true, stop_from_elsewhere: false };
    let world = World::over(broker, permissions, Reach::Loopback);
    let mut turn = world.broker.turn(Millis(START_MS));
    for number in 0..50 {
        add_item(&mut turn, &format!("q{number}"));
    }
    // Work before the first slice is in no slice.
    turn.begin_slice();
    drop(turn);
    assert_eq!(world.json("/stats")["gauges"]["items"], 50);
    let longest = world.broker.turn(Millis(START_MS)).longest_slice();
    assert!((1..20).contains(&longest), "{longest}");
}

#[test]
fn an_answer_has_a_bounded_number_of_queues_and_says_so() {
    let world = World::new();
    let mut turn = world.broker.turn(Millis(START_MS));
    for number in 0..snapshot::QUEUES_MAX {
        add_item(&mut turn, &format!("q{number:05}"));
    }
    drop(turn);
    assert_eq!(world.json("/stats")["labels"]["incomplete"], Value::Null);
    let mut turn = world.broker.turn(Millis(START_MS));
    add_item(&mut turn, "one-more");
    drop(turn);
    let stats = world.json("/stats");
    assert_eq!(stats["labels"]["incomplete"], "only the first 100 queues");
    assert_eq!(stats["counters"]["q/one-more/put_items"], 1);
    assert_eq!(stats["counters"]["q/q00099/put_items"], Value::Null, "the last by name");
}

#[test]
fn a_queue_that_comes_back_into_an_answer_does_not_seem_to_grow() {
    let world = World::new();
    let mut turn = world.broker.turn(Millis(START_MS));
    for number in 0..snapshot::QUEUES_MAX {
        add_item(&mut turn, &format!("q{number:05}"));
    }
    add_item(&mut turn, "a1");
    add_item(&mut turn, "a2");
    drop(turn);
    let path = "/stats?namespace=mine";
    let shown =
        |stats: &Value, queue: &str| stats["counters"][format!("q/{queue}/put_items")].clone();
    let first = world.json(path);
    assert_eq!((shown(&first, "q00097"), shown(&first, "q00098")), (json!(1), Value::Null));
    let mut turn = world.broker.turn(Millis(START_MS));
    let session = turn.open_reader_session(0);
    for queue in [b"a1", b"a2"] {
        let _ = turn.caller(session).remove_queue(queue);
    }
    turn.close_session(session);
    add_item(&mut turn, "new");
    add_item(&mut turn, "q00000");
    drop(turn);
    let second = world.json(path);
    let changes = ["new", "q00000", "q00097", "q00098"].map(|queue| shown(&second, queue));
    assert_eq!(changes, [1, 1, 0, 0].map(|change| json!(change)));
    add_item(&mut world.broker.turn(Millis(START_MS)), "q00098");
    assert_eq!(shown(&world.json(path), "q00098"), 1);
}

#[test]
fn long_names_do_not_make_an_answer_long() {
    let world = World::new();
    let mut turn = world.broker.turn(Millis(START_MS));
    for number in 0..20 {
        // JSON writes each of these control characters as six bytes.
        add_item(&mut turn, &format!("{number:02}{}", "\u{1}".repeat(8_170)));
    }
    add_item(&mut turn, "short");
    drop(turn);
    let stats = world.json("/stats");
    assert!(stats.to_string().len() < 10_000, "{}", stats.to_string().len());
    assert_eq!(stats["labels"]["incomplete"], "without 20 queues with long names");
    assert_eq!(stats["counters"]["q/short/put_items"], 1);
    // Many names that are not as long are too long together.
    let mut turn = world.broker.turn(Millis(START_MS));
    for number in 0..70 {
        add_item(&mut turn, &format!("a{number:02}{}", "\u{1}".repeat(166)));
    }
    drop(turn);
    let stats = world.json("/stats");
    let incomplete = "only the first 85 queues, without 20 with long names";
    assert_eq!(stats["labels"]["incomplete"], incomplete);
    assert!(stats.to_string().len() < 4_000_000, "{}", stats.to_string().len());
}

#[test]
fn long_names_do_not_make_the_list_of_series_long() {
    let world = World::new();
    let mut turn = world.broker.turn(Millis(START_MS));
    for number in 0..60 {
        add_item(&mut turn, &format!("{number:02}{}", "\u{1}".repeat(166)));
    }
    drop(turn);
    let (status, text) = world.ask("/graph_data");
    assert_eq!(status, 200);
    assert!((1_000_000..1_100_000).contains(&text.len()), "{}", text.len());
}

#[test]
fn history_is_in_the_account_and_the_oldest_namespace_makes_room() {
    let world = World::new();
    let mut turn = world.broker.turn(Millis(START_MS));
    for number in 0..snapshot::QUEUES_MAX {
        add_item(&mut turn, &format!("q{number:05}"));
    }
    drop(turn);
    let used_bytes = || world.broker.memory_usage().used_bytes;
    let before = used_bytes();
    world.json("/stats");
    let with_series = used_bytes();
    let values_bytes = 100 * 20 * 60 * 8;
    assert!(with_series > before + values_bytes, "a value a minute for each number");
    world.json("/stats?namespace=first");
    world.pass(1);
    world.json("/stats?namespace=second");
    let each = used_bytes() - with_series;
    assert!((2 * 9_600..80_000).contains(&each), "{each} bytes for two who ask");

    world.gets.store(5, Ordering::Relaxed);
    for number in 0..20 {
        world.pass(1);
        assert_eq!(
            world.json("/stats?namespace=second")["counters"]["cmd_get"],
            5 * u64::from(number == 0)
        );
        world.json(&format!("/stats?namespace={number}"));
        world.json(&format!("/stats?period={}", 1_000 + number));
        assert!(used_bytes() <= before + history::BYTES_MAX);
    }
    assert!(
        used_bytes() > before + history::BYTES_MAX * 9 / 10,
        "no more is forgotten than must be"
    );
    assert_eq!(world.json("/stats?namespace=first")["counters"]["cmd_get"], 5, "since the start");
    assert_eq!(world.json("/stats?namespace=19")["counters"]["cmd_get"], 0);
    // Periods and series end when requests stop.
    world.pass(11_000);
    assert!(used_bytes() < with_series, "{}", used_bytes());
}

#[test]
fn there_are_series_of_the_last_hour_and_facts_about_the_server() {
    let world = World::new();
    assert_eq!(world.json("/graph_data/counter:cmd_get")["counter:cmd_get"][59][1], 0);
    world.gets.store(4, Ordering::Relaxed);
    world.pass(61);
    let keys = world.json("/graph_data");
    let keys = keys["keys"].as_array().unwrap();
    assert!(
        keys.contains(&json!("counter:cmd_get")) && keys.contains(&json!("gauge:status/readable"))
    );
    let series = world.json("/graph_data/counter:cmd_get");
    let points = series["counter:cmd_get"].as_array().unwrap();
    assert_eq!(points.len(), 60);
    assert_eq!(points[59], json!([START_MS / 1_000 + 60, 4]));
    assert_eq!(points[58], json!([START_MS / 1_000, 0]));
    assert_eq!(world.json("/graph_data/gauge:status/readable")["gauge:status/readable"][59][1], 1);
    assert_eq!(world.ask("/graph_data/counter:nothing").0, 404);

    let info = world.json("/server_info");
    assert_eq!((&info["name"], &info["version"]), (&json!("kestrel"), &json!("2.4.1")));
    assert_eq!(
        (&info["start_time"], &info["uptime"]),
        (&json!("Tue Nov 14 22:13:20 UTC 2023"), &json!(61_000))
    );
    assert_eq!(info.as_object().unwrap().len(), 8);
    assert!(world.ask("/server_info.txt").1.contains("\nname: kestrel\n"));
}

/// The clock was wrong when the log began. Since then, the broker's clock is an hour behind.
#[test]
fn dates_are_those_of_the_wall_clock() {
    let world = World::new();
    let hour_ms = 3_600_000;
    let start = Millis(START_MS);
    assert!(world.broker.turn(start).set_wall(start, Millis(START_MS + hour_ms)));
    world.json("/graph_data");
    world.pass(61);
    let series = world.json("/graph_data/counter:cmd_get");
    let points = &series["counter:cmd_get"];
    let latest_s = (START_MS + hour_ms) / 1_000 + 60;
    assert_eq!((&points[59][0], &points[0][0]), (&json!(latest_s), &json!(latest_s - 59 * 60)));
    let info = world.json("/server_info");
    assert_eq!(info["start_time"], "Tue Nov 14 23:13:20 UTC 2023");
    assert_eq!(info["uptime"], 61_000);
    let stats = world.json("/stats");
    assert_eq!(stats["gauges"]["jvm_start_time"], START_MS + hour_ms);
    assert_eq!(stats["gauges"]["jvm_uptime"], 61_000);
}
