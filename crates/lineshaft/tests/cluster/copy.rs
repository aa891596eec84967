//! A node that is new, or too far behind, fetches a copy of another node's folder.

use std::time::{Duration, Instant};

use testkit::client::Client;
use testkit::wait;

use crate::rig::{Rig, Special};

const START_MAX: Duration = Duration::from_secs(20);
const TRIM_MAX: Duration = Duration::from_mins(1);
const BODY_BYTES: usize = 60_000;
/// A copy is sent in many segments, so that its progress can be seen.
const SMALL_SEGMENTS: &str = "segment_size = \"256KiB\"\nsync = \"100ms\"\n";

fn body(number: u32) -> Vec<u8> {
    let mut body = format!("{number:08}").into_bytes();
    body.resize(BODY_BYTES, b'x');
    body
}

fn put(client: &mut Client, numbers: std::ops::Range<u32>) {
    for number in numbers {
        client.put(0, 0, 600, &body(number)).unwrap();
    }
}

/// Takes and deletes all ready jobs. Returns their numbers.
fn drain(client: &mut Client) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Some(job) = client.reserve(0).unwrap() {
        assert_eq!(job.body.len(), BODY_BYTES);
        numbers.push(std::str::from_utf8(&job.body[..8]).unwrap().parse().unwrap());
        client.expect(&format!("delete {}", job.id), "DELETED").unwrap();
    }
    numbers
}

fn rig(cluster: &'static str, jobs: u32) -> Option<Rig> {
    let bodies = (0..jobs).map(body).collect();
    Rig::with(3, Special { data: SMALL_SEGMENTS, cluster, bodies, ..Special::default() })
}

/// Ends all nodes but this one, which must lead then. Returns the numbers of all jobs.
fn drain_at(rig: &mut Rig, at: usize) -> Vec<u32> {
    for other in (0..3).filter(|other| *other != at) {
        if rig.nodes[other].server.is_some() {
            rig.kill(other);
        }
    }
    rig.wait_for_leader(&[at], START_MAX);
    drain(&mut rig.client(at))
}

#[test]
fn a_new_node_fetches_the_jobs_of_the_origin() {
    let Some(mut rig) = rig("", 40) else { return };
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    put(&mut rig.client(0), 40..50);
    rig.start(1);
    let said = rig.wait_for_copy(1);
    assert!(said.contains("the folder of node node-0"), "{said}");
    rig.wait_for_follower(1);
    put(&mut rig.client(0), 50..60);
    // A follower sends the next copy.
    rig.start(2);
    let said = rig.wait_for_copy(2);
    assert!(said.contains("the folder of node node-1"), "{said}");
    rig.wait_for_follower(2);
    put(&mut rig.client(0), 60..65);
    assert_eq!(rig.metric(2, "lineshaft_cluster_copy_total_bytes"), Some(0.0));
    assert_eq!(drain_at(&mut rig, 2), (0..65).collect::<Vec<u32>>());
}

#[test]
fn a_node_that_was_away_for_long_fetches_a_copy() {
    let Some(mut rig) = rig("stream_keep = \"1MiB\"\nstream_max = \"64MiB\"\n", 0) else { return };
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    for at in [1, 2] {
        rig.start(at);
        rig.wait_for_follower(at);
    }
    put(&mut rig.client(0), 0..5);
    wait::until("the follower has the jobs", || {
        rig.metric(2, "lineshaft_cluster_group") == rig.metric(0, "lineshaft_cluster_group")
    });
    rig.kill(2);
    // A stream that is half full does not wait for a node that is away.
    let first = rig.first_record();
    put(&mut rig.client(0), 5..700);
    let trimmed = || (rig.first_record() > first).then_some(());
    wait::for_some(TRIM_MAX, trimmed).expect("the stream is trimmed");
    rig.start(2);
    let said = rig.wait_for_copy(2);
    assert!(said.contains("the folder of node node-1"), "{said}");
    rig.wait_for_follower(2);
    put(&mut rig.client(0), 700..705);
    assert_eq!(drain_at(&mut rig, 2), (0..705).collect::<Vec<u32>>());
}

/// Waits until this node has so many bytes of a copy, and still fetches it.
fn wait_for_bytes(rig: &Rig, at: usize, from: &str, bytes: f64) {
    wait::until("a part of the copy has arrived", || {
        let copies = |text: &str| text.contains(&format!("fetches a copy of {from}"));
        rig.ask(at, "/health/live").is_some_and(|(_, text)| copies(&text))
            && rig.metric(at, "lineshaft_cluster_copy_bytes").is_some_and(|here| here >= bytes)
    });
}

#[test]
fn a_copy_ends_well_if_the_sender_and_the_receiver_are_killed() {
    // Each copy takes twelve seconds.
    let Some(mut rig) = rig("copy_rate = \"2MiB\"\n", 400) else { return };
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    rig.start(1);
    rig.wait_for_copy(1);
    rig.wait_for_follower(1);

    rig.start(2);
    wait_for_bytes(&rig, 2, "node-1", 1e6);
    let total = rig.metric(2, "lineshaft_cluster_copy_total_bytes").unwrap();
    assert!(total > f64::from(400 * BODY_BYTES as u32), "{total}");
    // Meanwhile the leader serves, and the new node passes its clients on.
    let begun = Instant::now();
    put(&mut rig.client(0), 400..410);
    put(&mut rig.client(2), 410..420);
    eprintln!("20 puts took {} ms during a copy", begun.elapsed().as_millis());
    wait_for_bytes(&rig, 2, "node-1", 1e6);
    let (code, text) = rig.ask(2, "/health/ready").unwrap();
    assert_eq!(code, 200, "{text}");

    // The sender is gone, so the leader sends the copy.
    rig.kill(1);
    wait_for_bytes(&rig, 2, "node-0", 1e6);
    put(&mut rig.client(0), 420..425);
    rig.kill(2);
    rig.start(2);
    wait_for_bytes(&rig, 2, "node-0", 2e6);
    rig.kill(2);
    rig.start(1);
    rig.wait_for_follower(1);
    rig.start(2);
    let said = rig.wait_for_copy(2);
    assert!(said.contains("the folder of node node-1"), "{said}");
    rig.wait_for_follower(2);
    put(&mut rig.client(0), 425..430);
    assert_eq!(drain_at(&mut rig, 2), (0..430).collect::<Vec<u32>>());
}

#[test]
fn a_node_that_differs_is_not_replaced() {
    let Some(mut rig) = rig("", 2) else { return };
    rig.make_origin(1, &[body(7)]);
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    let ended = rig.program(1).run().unwrap();
    assert_eq!(ended.status.code(), Some(65), "{}", ended.stderr);
    assert!(ended.stderr.contains("an operator has looked at it"), "{}", ended.stderr);
    let names = std::fs::read_dir(rig.nodes[1].folder.path().join("data")).unwrap();
    let mut names = names.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert!(names.all(|name| !name.starts_with("copy-")), "nothing was fetched");
}
