//! Tests the format of the metrics. They must agree with beanstalkd's statistics.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::client::Client;
use testkit::tools;

use crate::Site;
use crate::exposition::Page;
use crate::packet::{ERROR, Peer, SUBMIT_JOB_BG};

fn page(site: &Site) -> Page {
    let answer = site.get("/metrics");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    Page::read(&answer.body)
}

fn client(site: &Site) -> Client {
    Client::connect(site.beanstalk.parse().unwrap()).unwrap()
}

/// Creates one job in each state, and causes each counted event once.
fn work(client: &mut Client) {
    client.expect("use mail", "USING mail").unwrap();
    client.expect("watch mail", "WATCHING 2").unwrap();
    let buried = client.put(0, 0, 60, b"buried").unwrap();
    assert_eq!(client.reserve(0).unwrap().unwrap().id, buried);
    client.expect(&format!("bury {buried} 0"), "BURIED").unwrap();
    let done = client.put(0, 0, 60, b"done").unwrap();
    assert_eq!(client.reserve(0).unwrap().unwrap().id, done);
    client.expect(&format!("release {done} 0 0"), "RELEASED").unwrap();
    assert_eq!(client.reserve(0).unwrap().unwrap().id, done);
    client.expect(&format!("delete {done}"), "DELETED").unwrap();
    client.put(0, 0, 60, b"reserved").unwrap();
    assert!(client.reserve(0).unwrap().is_some());
    client.put(0, 3600, 60, b"delayed").unwrap();
    for _ in 0..3 {
        client.put(0, 0, 60, b"ready").unwrap();
    }
}

#[test]
fn the_numbers_agree_with_the_statistics_of_beanstalk() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--data", "d"]);
    let mut client = client(&site);
    work(&mut client);
    let (page, stats, tube) =
        (page(&site), client.stats("stats").unwrap(), client.stats("stats-tube mail").unwrap());
    for state in ["ready", "reserved", "delayed", "buried"] {
        let key = format!("current-jobs-{state}");
        let label = format!("state=\"{state}\"");
        assert_eq!(page.sum("lineshaft_jobs", &label).to_string(), stats[&key], "{key}");
        let series = format!("lineshaft_jobs{{queue=\"mail\",{label}}}");
        assert_eq!(page.value(&series).to_string(), tube[&key], "{series}");
    }
    let agree =
        |series: &str, stats: &str| assert_eq!(page.value(series).to_string(), stats, "{series}");
    agree("lineshaft_puts_total", &stats["total-jobs"]);
    agree("lineshaft_queue_puts_total{queue=\"mail\"}", &tube["total-jobs"]);
    agree("lineshaft_queue_finishes_total{queue=\"mail\"}", &tube["cmd-delete"]);
    agree("lineshaft_deletes_total", &stats["cmd-delete"]);
    agree("lineshaft_releases_total", &stats["cmd-release"]);
    agree("lineshaft_buries_total", &stats["cmd-bury"]);
    agree("lineshaft_timeouts_total", &stats["job-timeouts"]);
    agree("lineshaft_queues", &stats["current-tubes"]);
    agree("lineshaft_connections", &stats["current-connections"]);
    agree("lineshaft_log_records_total", &stats["binlog-records-written"]);
    agree("lineshaft_reserves_total", "4");
    agree("lineshaft_ready", "1");
    agree("lineshaft_log_full", "0");
    agree("lineshaft_queue_head_age_seconds{queue=\"default\"}", "0");
    assert!(page.value("lineshaft_log_bytes") > 0.0);
    assert!(page.value("lineshaft_log_live_bytes") > 0.0);
    assert!(page.value("lineshaft_log_segments") >= 1.0);
    assert!(page.value("process_resident_memory_bytes") > 1e6);
    let version = env!("CARGO_PKG_VERSION");
    agree(&format!("lineshaft_build_info{{version=\"{version}\"}}"), "1");
}

#[test]
fn any_name_of_a_queue_makes_a_label() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--memory", "--gearman", "127.0.0.1:0"];
    let mut site = Site::start(folder.path(), &arguments);
    let mut peer = Peer::connect(&site.server.address_of("gearman"));
    for function in ["a\"b", "back\\slash", "two\nlines", "{x=\"y\"} 1", "naïve", "other"] {
        peer.submit_background(function, "");
    }
    let page = page(&site);
    for label in ["a\\\"b", "back\\\\\\\\slash", "two\\nlines", "{x=\\\"y\\\"} 1", "naïve", "other"]
    {
        let series = format!("lineshaft_jobs{{queue=\"{label}\",state=\"ready\"}}");
        assert!((page.value(&series) - 1.0).abs() < f64::EPSILON, "{series}");
    }
}

/// One place for each list: the queue with the most jobs, the oldest, and the fastest.
#[test]
fn the_queues_with_the_most_work_have_metrics_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let limit = [("LINESHAFT_METRICS_MAX_QUEUES", "3")];
    let site = Site::start_with(folder.path(), &["--memory"], &limit);
    let mut client = client(&site);
    for number in 0..100 {
        client.expect(&format!("use q{number}"), &format!("USING q{number}")).unwrap();
        for _ in 0..=number % 60 {
            client.put(0, 0, 60, b"x").unwrap();
        }
    }
    let page = page(&site);
    let ready =
        |queue: &str| page.get(&format!("lineshaft_jobs{{queue=\"{queue}\",state=\"ready\"}}"));
    assert_eq!(ready("q59"), Some(60.0), "it has the most jobs");
    assert_eq!(ready("default"), None, "it has none");
    let shown = page.sum("lineshaft_jobs", "") - ready("other").unwrap();
    let all: f64 = (0..100).map(|number| f64::from(number % 60 + 1)).sum();
    assert!((shown + ready("other").unwrap() - all).abs() < f64::EPSILON);
    let labels = (0..100).filter(|number| ready(&format!("q{number}")).is_some()).count();
    assert!((1..=3).contains(&labels), "{labels}");
}

#[test]
fn times_are_counted_for_each_job_and_request() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--data", "d", "--gearman", "127.0.0.1:0"]);
    let mut client = client(&site);
    work(&mut client);
    let page = page(&site);
    let is = |series: &str, value: f64| {
        assert!((page.value(series) - value).abs() < f64::EPSILON, "{series}: {page:#?}");
    };
    // Each of the four hand-outs waited. The bury, the release and the delete ended three leases.
    is("lineshaft_wait_seconds_count", 4.0);
    is("lineshaft_lease_seconds_count", 3.0);
    let requests = "lineshaft_request_seconds_count{protocol=\"beanstalk\"}";
    assert!(page.value(requests) >= 14.0, "{page:#?}");
    is("lineshaft_request_seconds_count{protocol=\"gearman\"}", 0.0);
    assert!(page.value("lineshaft_log_sync_seconds_count") >= 6.0);
    assert!(page.value("lineshaft_log_sync_seconds_sum") > 0.0);
    assert!(page.value("lineshaft_log_group_entries_count") >= 6.0);
    // A durable reply waits for its sync, so requests take at least as long as syncs.
    let sum = "lineshaft_request_seconds_sum{protocol=\"beanstalk\"}";
    assert!(page.value(sum) > page.value("lineshaft_log_sync_seconds_sum") / 2.0);
}

#[test]
fn refused_jobs_are_counted_by_reason() {
    let folder = tempfile::tempdir().unwrap();
    let mut site = Site::start(folder.path(), &["--memory", "--gearman", "127.0.0.1:0"]);
    let mut peer = Peer::connect(&site.server.address_of("gearman"));
    // The limit applies only to a function that exists.
    peer.submit_background("f", "1");
    assert_eq!(peer.ask("maxqueue f 1"), "OK\r\n");
    for _ in 0..2 {
        peer.send(SUBMIT_JOB_BG, &["f", "", "2"]);
        peer.expect(ERROR);
    }
    let page = page(&site);
    let refused =
        |reason: &str| page.value(&format!("lineshaft_put_refusals_total{{reason=\"{reason}\"}}"));
    let reasons = ["queue_full", "too_big", "log_full", "memory_full", "queue_limit", "draining"];
    assert_eq!(reasons.map(refused).map(|count| count as u64), [2, 0, 0, 0, 0, 0]);
}

/// A file of the folder `packaging`.
fn packaged(path: &str) -> String {
    let packaging = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");
    std::fs::read_to_string(Path::new(packaging).join(path)).unwrap()
}

/// The metrics of this product that a text names. A part of a histogram counts as its metric.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let metrics = words.filter(|word| word.starts_with("lineshaft_"));
    let whole = |name: &str| {
        let mut parts = ["_bucket", "_sum", "_count"].iter();
        parts.find_map(|part| name.strip_suffix(part)).unwrap_or(name).to_owned()
    };
    metrics.map(whole).collect()
}

#[test]
fn alerts_and_the_dashboard_name_only_metrics_that_exist() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--data", "d"]);
    let page = page(&site);
    let known: BTreeSet<String> = page.names().map(str::to_owned).collect();
    // Only the node of a cluster has these. The tests of the cluster look at them.
    let is_known =
        |metric: &str| metric.starts_with("lineshaft_cluster_") || known.contains(metric);
    let rules = named(&packaged("prometheus/lineshaft.rules.yml"));
    let dashboard: Value = serde_json::from_str(&packaged("grafana/lineshaft.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(rules.len() > 9 && queries.len() > 15, "{rules:?} {queries:?}");
    for query in &queries {
        assert!(!named(query).is_empty(), "no metric of this product: {query}");
    }
    for metric in rules.into_iter().chain(queries.iter().flat_map(|query| named(query))) {
        assert!(is_known(&metric), "there is no {metric}");
    }
    // Grafana places panels on a grid of 24 columns, and numbers them.
    let mut ids = BTreeSet::new();
    for panel in panels {
        let place = &panel["gridPos"];
        assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24, "{panel}");
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        assert!(!panel["title"].as_str().unwrap().is_empty());
    }
}

#[test]
fn prometheus_accepts_the_metrics_and_the_alerts() {
    let Some(promtool) = tools::find_or_skip("promtool") else { return };
    let run = |arguments: &[&str], input: &str| {
        let mut child = Command::new(&promtool)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/prometheus");
    run(&["check", "rules", &format!("{rules}/lineshaft.rules.yml")], "");
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--data", "d"]);
    work(&mut client(&site));
    run(&["check", "metrics"], &site.get("/metrics").body);
    // The alerts of `packaging/prometheus/lineshaft.test.yml` fire at the right moments.
    run(&["test", "rules", &format!("{rules}/lineshaft.test.yml")], "");
}

#[test]
fn every_metric_is_in_the_guide() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--memory"]);
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for name in page(&site).names() {
        assert!(guide.contains(&format!("`{name}`")), "docs/operations.md lacks {name}");
    }
}
