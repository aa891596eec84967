//! One node leads, and another one takes over.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use testkit::wait;

use crate::rig::{Rig, drain, put};

const TAKEOVER_MAX: Duration = Duration::from_secs(5);
const START_MAX: Duration = Duration::from_secs(20);
/// Longer than any node waits for another one.
const LEASES: Duration = Duration::from_secs(5);

/// The delay of a job whose leader is lost. A takeover usually takes half as long.
const DELAY_S: u32 = 5;

/// The alerts, the dashboard and the guide name metrics of a node; each of them must exist.
fn check_metrics(page: &str) {
    let known: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    for file in [
        "packaging/prometheus/lineshaft.rules.yml",
        "packaging/grafana/lineshaft.json",
        "docs/operations.md",
    ] {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let named: BTreeSet<&str> = words
            .filter(|word| word.starts_with("lineshaft_cluster_") && !word.ends_with('_'))
            .map(|word| word.strip_suffix("_bucket").unwrap_or(word))
            .collect();
        assert!(named.len() > 2 && named.is_subset(&known), "{file}: {named:?}, not {known:?}");
    }
}

#[test]
fn one_node_serves_and_restarts() {
    let Some(mut rig) = Rig::new(1) else { return };
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    check_metrics(&rig.ask(0, "/metrics").unwrap().1);
    let mut client = rig.client(0);
    put(&mut client, 0..100);
    let job = client.reserve(0).unwrap().unwrap();
    client.expect(&format!("delete {}", job.id), "DELETED").unwrap();

    rig.kill(0);
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    let mut client = rig.client(0);
    put(&mut client, 100..110);
    let ended = rig.nodes[0].server.take().unwrap().terminate().unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);

    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    assert_eq!(drain(&mut rig.client(0)), (1..110).collect::<Vec<u32>>());

    // Alone, a server must not change this folder.
    rig.kill(0);
    let data = rig.nodes[0].folder.path().join("data");
    let binary = testkit::process::lineshaft_path(env!("CARGO_BIN_EXE_lineshaft"));
    let arguments = ["--data", data.to_str().unwrap()];
    let alone = testkit::process::Program::serve(binary, &arguments).run_on(0).unwrap();
    assert_eq!(alone.status.code(), Some(78), "{}", alone.stderr);
    assert!(alone.stderr.contains("belongs to a node of a cluster"), "{}", alone.stderr);
}

#[test]
fn another_node_takes_over() {
    let Some(mut rig) = Rig::new(3) else { return };
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    put(&mut rig.client(0), 0..50);
    // A new folder gets everything from the stream.
    for at in [1, 2] {
        rig.start(at);
        rig.wait_for_follower(at);
    }
    put(&mut rig.client(0), 50..100);

    // Killed: another node has everything.
    rig.kill(0);
    let second = rig.wait_for_leader(&[1, 2], TAKEOVER_MAX);
    put(&mut rig.client(second), 100..120);
    rig.start(0);
    rig.wait_for_follower(0);

    // Stopped cleanly: another node leads at once.
    let ended = rig.nodes[second].server.take().unwrap().terminate().unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    let others: Vec<usize> = (0..3).filter(|at| *at != second).collect();
    let third = rig.wait_for_leader(&others, Duration::from_secs(2));
    put(&mut rig.client(third), 120..130);
    rig.start(second);
    rig.wait_for_follower(second);

    // Paused: another node leads. The old leader acknowledges nothing more, and ends.
    let mut late = rig.client(third);
    let paused = rig.nodes[third].server.take().unwrap();
    paused.signal(Signal::STOP).unwrap();
    let others: Vec<usize> = (0..3).filter(|at| *at != third).collect();
    let fourth = rig.wait_for_leader(&others, TAKEOVER_MAX);
    put(&mut rig.client(fourth), 130..140);
    late.send(b"put 0 0 600 4\r\nlate\r\nreserve-with-timeout 0\r\n").unwrap();
    paused.signal(Signal::CONT).unwrap();
    let mut paused = paused;
    let status = paused.wait().unwrap();
    assert_eq!(status.code(), Some(76), "{}", paused.stderr());
    assert!(late.read_line().is_err(), "a deposed leader sends nothing");
    rig.start(third);
    rig.wait_for_follower(third);

    // Everybody restarts.
    for at in 0..3 {
        rig.kill(at);
    }
    for at in 0..3 {
        rig.start(at);
    }
    let last = rig.wait_for_leader(&[0, 1, 2], START_MAX);
    assert_eq!(drain(&mut rig.client(last)), (0..140).collect::<Vec<u32>>());
    wait::until("one node leads", || rig.leaders().len() == 1);

    // The last record reaches the next leader late. The time of its jobs has gone on meanwhile.
    let late = (last + 1) % 3;
    rig.kill((last + 2) % 3);
    wait::until("the follower has a link to the leader", || {
        rig.ask(late, "/health/ready").is_some_and(|(code, _)| code == 200)
    });
    let signal = |rig: &Rig, signal| rig.nodes[late].server.as_ref().unwrap().signal(signal);
    signal(&rig, Signal::STOP).unwrap();
    rig.client(last).put(0, DELAY_S, 600, b"140").unwrap();
    rig.kill(last);
    wait::let_pass(Duration::from_secs(u64::from(DELAY_S) + 1), "a delay passes in real time");
    signal(&rig, Signal::CONT).unwrap();
    rig.wait_for_leader(&[late], START_MAX);
    assert_eq!(drain(&mut rig.client(late)), [140], "it was due before this node led");
}

#[test]
fn a_redrive_goes_on_at_the_next_leader() {
    const JOBS: u32 = 150;
    let Some(mut rig) = Rig::new(2) else { return };
    let token = rig.token("operator");
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    rig.start(1);
    rig.wait_for_follower(1);
    let mut client = rig.client(0);
    put(&mut client, 0..JOBS);
    while let Some(job) = client.reserve(0).unwrap() {
        client.expect(&format!("bury {} 0", job.id), "BURIED").unwrap();
    }
    let body = r#"{"kind":"redrive","queue":"default","rate_per_s":30}"#;
    let head =
        format!("{token}Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let (code, started) =
        rig.request(0, "POST", "/api/v1/operations", &format!("{head}\r\n{body}"));
    assert_eq!(code, 202, "{started}");
    let operation = |rig: &Rig, at| {
        let (code, text) = rig.request(at, "GET", "/api/v1/operations/1", &token);
        assert_eq!(code, 200, "{text}");
        let operation: serde_json::Value = serde_json::from_str(&text).unwrap();
        (operation["status"].as_str().unwrap().to_owned(), operation["done"].as_u64().unwrap())
    };
    wait::until("the first jobs come back", || operation(&rig, 0).1 > 0);
    let before = operation(&rig, 0);
    rig.kill(0);
    rig.wait_for_leader(&[1], TAKEOVER_MAX);
    let after = operation(&rig, 1);
    assert!(after.1 >= before.1, "{before:?}, {after:?}");
    assert_eq!((before.0.as_str(), after.0.as_str()), ("running", "running"));
    wait::until("it ends", || operation(&rig, 1).0 != "running");
    assert_eq!(operation(&rig, 1), ("done".to_owned(), JOBS.into()));
    assert_eq!(drain(&mut rig.client(1)), (0..JOBS).collect::<Vec<u32>>());
}

#[test]
fn no_node_leads_over_servers_that_do_not_flush() {
    let Some(mut rig) = Rig::with_flush(1, "") else { return };
    rig.start(0);
    let said = |rig: &Rig| rig.nodes[0].server.as_ref().unwrap().stderr();
    wait::until("the node refuses", || said(&rig).contains("this node does not begin to lead: "));
    let why = said(&rig);
    assert!(why.contains("acknowledges records before they are on disk"), "{why}");
    wait::let_pass(LEASES, "a node that is allowed to would lead by now");
    assert_eq!(rig.leaders(), BTreeSet::new(), "{}", rig.states());
    assert_eq!(rig.ask(0, "/health/ready").unwrap().0, 503);
}
