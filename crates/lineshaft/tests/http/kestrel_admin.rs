//! Tests Kestrel's admin commands over sockets. The names of statistics are the same as in Kestrel,
//! so that monitoring finds them, and the numbers agree with `STATS`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use serde_json::Value;

use crate::request::{Answer, Peer, get};
use crate::running::{Running, command};

struct Kestrel {
    server: Running,
    memcache: String,
    admin: String,
}

impl Kestrel {
    fn start(folder: &Path, arguments: &[&str]) -> Kestrel {
        let listeners = ["--kestrel", "127.0.0.1:0", "--kestrel-admin", "127.0.0.1:0"];
        let usual = ["serve", "--memory", "--beanstalk", "off"];
        let starting = command(folder, &[&usual[..], &listeners, arguments].concat());
        let mut server = Running::spawn(starting);
        let (memcache, admin) = (server.address_of("kestrel "), server.address_of("kestrel_admin"));
        Kestrel { server, memcache, admin }
    }

    fn get(&self, path: &str) -> Answer {
        get(&self.admin, path)
    }

    fn post(&self, path: &str) -> Answer {
        Peer::connect(&self.admin).ask("POST", path)
    }

    fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(
            (answer.status, answer.headers["content-type"].as_str()),
            (200, "application/json")
        );
        serde_json::from_str(&answer.body).unwrap()
    }
}

/// A memcache client.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(kestrel: &Kestrel) -> Client {
        Client(BufReader::new(TcpStream::connect(&kestrel.memcache).unwrap()))
    }

    fn expect(&mut self, request: &str, reply: &str) {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut found = vec![0; reply.len()];
        self.0.read_exact(&mut found).unwrap();
        assert_eq!(String::from_utf8_lossy(&found), reply, "{request}");
    }

    fn stats(&mut self) -> BTreeMap<String, String> {
        self.0.get_mut().write_all(b"STATS\r\n").unwrap();
        let mut stats = BTreeMap::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            let Some((key, value)) =
                line.trim_end().strip_prefix("STAT ").and_then(|row| row.split_once(' '))
            else {
                return stats;
            };
            stats.insert(key.to_owned(), value.to_owned());
        }
    }
}

/// Sets three items, takes one, tries one get without success, and opens one item. Also creates a
/// fan-out child.
fn work(client: &mut Client) {
    client.expect("get jobs+copy\r\n", "END\r\n");
    for item in ["a", "b", "c"] {
        client.expect(&format!("set jobs 0 0 1\r\n{item}\r\n"), "STORED\r\n");
    }
    client.expect("get jobs\r\n", "VALUE jobs 0 1\r\na\r\nEND\r\n");
    client.expect("get jobs/open\r\n", "VALUE jobs 0 1\r\nb\r\nEND\r\n");
    client.expect("get jobs/peek\r\n", "VALUE jobs 0 1\r\nc\r\nEND\r\n");
}

#[test]
fn the_numbers_agree_with_stats() {
    let folder = tempfile::tempdir().unwrap();
    let kestrel = Kestrel::start(folder.path(), &[]);
    let mut client = Client::connect(&kestrel);
    work(&mut client);
    let stats = client.stats();
    let shown = kestrel.json("/stats.json");
    let agree = |section: &str, name: &str, key: &str| {
        assert_eq!(shown[section][name].to_string(), stats[key], "{section}/{name}");
    };
    let counters = [
        "cmd_get",
        "cmd_set",
        "cmd_peek",
        "get_hits",
        "get_misses",
        "total_items",
        "total_connections",
        "queue_creates",
        "queue_deletes",
        "queue_expires",
    ];
    for name in counters {
        agree("counters", name, name);
    }
    for (gauge, key) in
        [("items", "curr_items"), ("bytes", "bytes"), ("connections", "curr_connections")]
    {
        agree("gauges", gauge, key);
    }
    agree("gauges", "q/jobs/items", "queue_jobs_items");
    agree("gauges", "q/jobs/bytes", "queue_jobs_bytes");
    agree("gauges", "q/jobs/open_transactions", "queue_jobs_open_transactions");
    agree("gauges", "q/jobs+copy/items", "queue_jobs+copy_items");
    agree("counters", "q/jobs/total_items", "queue_jobs_total_items");
    agree("counters", "q/jobs/transactions", "queue_jobs_transactions");
    assert_eq!(shown["counters"]["q/jobs/put_bytes"], 3);
    assert_eq!(shown["counters"]["q/jobs/get_items_hit"], 3);
    assert_eq!(shown["counters"]["q/jobs+copy/get_items_miss"], 1);
    let measured = |name: &str| shown["metrics"][name]["count"].clone();
    assert_eq!(measured("set_latency_usec"), 3);
    assert_eq!(measured("get_hit_latency_usec"), 3);
    assert_eq!(measured("get_miss_latency_usec"), 1);
    assert_eq!(measured("get_timeout_msec"), 0);
    assert_eq!(shown["gauges"]["q/jobs/max_items"], 2_147_483_647);
    assert_eq!(shown["labels"]["version"].as_str().unwrap(), stats["version"]);
}

#[test]
fn every_name_of_the_guide_is_shown_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let kestrel = Kestrel::start(folder.path(), &[]);
    work(&mut Client::connect(&kestrel));
    let shown = kestrel.json("/stats?period=60");
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kestrel-admin.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let names = |heading: &str, section: &str| -> BTreeSet<String> {
        let (_, rest) = guide.split_once(heading).unwrap();
        let part = rest.split("\n###").next().unwrap();
        let rows = part.lines().filter(|line| line.starts_with(&format!("| {section}")));
        rows.flat_map(|row| row.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
    };
    for section in ["counters", "gauges", "labels", "metrics"] {
        let keys: Vec<&String> = shown[section].as_object().unwrap().keys().collect();
        let own = keys.iter().filter(|key| !key.starts_with("q/"));
        let own: BTreeSet<String> = own.map(|key| (*key).clone()).collect();
        assert_eq!(own, names("### Of the server", section), "{section}");
        let of_queue = keys.iter().filter_map(|key| key.strip_prefix("q/jobs/"));
        let of_queue: BTreeSet<String> = of_queue.map(str::to_owned).collect();
        let known = names("### Of a queue", section);
        assert_eq!(of_queue, known, "{section} of a queue");
    }
}

#[test]
fn scripts_of_the_original_find_what_they_look_for() {
    let folder = tempfile::tempdir().unwrap();
    let kestrel = Kestrel::start(folder.path(), &[]);
    let ping = kestrel.get("/ping");
    assert_eq!((ping.status, ping.body.as_str()), (200, "{\"response\":\"pong\"}\n"));
    assert!(ping.headers.contains_key("x-ostrich-version"));
    assert_eq!(kestrel.get("/ping.txt").body, "pong\n");
    assert_eq!(kestrel.get("/ping?callback=f").body, "f({\"response\":\"pong\"})\n");
    assert_eq!(kestrel.get("/nothing").body, "no such command\n");
    assert_eq!(kestrel.get("/stats?period=x").status, 500);
    let text = kestrel.get("/stats.txt");
    assert_eq!(text.headers["content-type"], "text/plain; charset=utf-8");
    assert!(text.body.starts_with("counters:\n  bytes_read: "), "{}", text.body);
    let looked = Peer::connect(&kestrel.admin).ask("HEAD", "/stats.json");
    assert_eq!((looked.status, looked.body.as_str()), (200, ""));
    let info = kestrel.json("/server_info");
    assert_eq!(info["name"], "kestrel");
    let keys = kestrel.json("/graph_data");
    assert!(keys["keys"].as_array().unwrap().contains(&"counter:cmd_get".into()));
    assert_eq!(
        kestrel.json("/graph_data/counter:cmd_get")["counter:cmd_get"].as_array().unwrap().len(),
        60
    );
}

#[test]
fn the_server_is_reloaded_and_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lineshaft.toml");
    std::fs::write(&file, "").unwrap();
    let mut kestrel = Kestrel::start(folder.path(), &[]);
    let mut client = Client::connect(&kestrel);
    client.expect("set jobs 0 0 1\r\na\r\n", "STORED\r\n");
    std::fs::write(&file, "[[policy]]\nmatch = \"jobs\"\nlimits.jobs = 1\n").unwrap();
    assert_eq!(kestrel.post("/reload").body, "{\"response\":\"ok\"}\n");
    assert_eq!(kestrel.json("/stats")["gauges"]["q/jobs/max_items"], 1);
    client.expect("set jobs 0 0 1\r\nb\r\n", "NOT_STORED\r\n");
    assert_eq!(kestrel.post("/shutdown.txt").body, "ok\n");
    assert_eq!(kestrel.server.wait().code(), Some(0));
}
