//! Tests the format of the metrics. They must agree with beanstalkd's statistics.

use testkit::client::Client;

use crate::Site;
use crate::exposition::Page;
use crate::packet::Peer;

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

#[test]
fn queues_beyond_the_limit_are_summed_up() {
    let folder = tempfile::tempdir().unwrap();
    let limit = [("LINESHAFT_METRICS_MAX_QUEUES", "3")];
    let site = Site::start_with(folder.path(), &["--memory"], &limit);
    let mut client = client(&site);
    for number in 0..100 {
        client.expect(&format!("use q{number}"), &format!("USING q{number}")).unwrap();
        client.put(0, 0, 60, b"x").unwrap();
    }
    let page = page(&site);
    let ready =
        |queue: &str| page.get(&format!("lineshaft_jobs{{queue=\"{queue}\",state=\"ready\"}}"));
    assert_eq!(ready("default"), Some(0.0));
    assert_eq!((ready("q0"), ready("q1"), ready("q2")), (Some(1.0), Some(1.0), None));
    assert_eq!(ready("other"), Some(98.0));
}

#[test]
fn the_alerts_speak_of_metrics_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--memory"]);
    let page = page(&site);
    let known: Vec<&str> = page.names().collect();
    let rules =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/prometheus/lineshaft.rules.yml");
    let rules = std::fs::read_to_string(rules).unwrap();
    let words = rules.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let metrics: Vec<&str> = words.filter(|word| word.starts_with("lineshaft_")).collect();
    assert!(metrics.len() > 5, "{metrics:?}");
    for metric in metrics {
        assert!(known.contains(&metric), "there is no {metric}");
    }
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
