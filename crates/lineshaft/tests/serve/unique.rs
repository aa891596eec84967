//! Unique jobs, as docs/policies.md describes them: with an unmodified client of each protocol, and
//! over the death of the server. The scripts are in `tests/clients/policies`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::process::Signal;
use testkit::client::Client;

use crate::dead_letters::check;
use crate::kestrel::write_config;
use crate::running::{Running, wait_for};

const POLICIES: &str = r#"
[[policy]]
match = "send_mail"
unique = { by = "json:/to" }

[[policy]]
match = "refuse"
unique = { by = "body", window = "until-start", on_duplicate = "refuse" }

[[policy]]
match = ["load", "window*"]
unique = { by = "body" }

[[policy]]
match = "window*"
unique.window = "1h"

[[policy]]
match = "bump"
unique = { by = "prefix:4", on_duplicate = "bump" }

[[policy]]
match = "replace"
unique = { by = "json:/to", on_duplicate = "replace-body" }
"#;

#[test]
fn greenstalk() {
    check(POLICIES, "beanstalk", "greenstalk_unique.py");
}

#[test]
fn gear() {
    check(POLICIES, "gearman", "gear_unique.py");
}

#[test]
fn pymemcache() {
    check(POLICIES, "kestrel", "pymemcache_unique.py");
}

/// The number of different bodies that all clients put again and again.
const BODIES: usize = 40;
const CLIENTS: usize = 4;
const ROUNDS: usize = 5;

/// Puts all bodies again and again until the server is gone. Returns the ids of acknowledged puts.
fn put_until_the_end(address: SocketAddr, puts: &AtomicU64) -> Vec<(usize, u64)> {
    let mut acknowledged = Vec::new();
    let Ok(mut client) = Client::on_tube(address, "load") else { return acknowledged };
    for body in (0..BODIES).cycle() {
        match client.put(0, 0, 60, format!("body {body}").as_bytes()) {
            Ok(id) => acknowledged.push((body, id)),
            Err(_) => return acknowledged,
        }
        puts.fetch_add(1, Ordering::Relaxed);
    }
    unreachable!("the cycle has no end")
}

/// Several clients put the same bodies while the server is killed. As long as a job is not done, every
/// acknowledged put of its body has its id, also over the death of the server.
#[test]
fn no_job_is_there_twice_after_the_server_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), POLICIES);
    let start = || {
        let mut server = Running::start(folder.path(), &["serve", "--beanstalk", "127.0.0.1:0"]);
        let address: SocketAddr = server.address().parse().unwrap();
        (server, address)
    };
    let (mut server, mut address) = start();
    let mut known: BTreeMap<usize, u64> = BTreeMap::new();
    for round in 0..ROUNDS {
        let puts = AtomicU64::new(0);
        let acknowledged: Vec<(usize, u64)> = thread::scope(|scope| {
            let clients: Vec<_> =
                (0..CLIENTS).map(|_| scope.spawn(|| put_until_the_end(address, &puts))).collect();
            let enough = (BODIES * (1 + round)) as u64;
            wait_for("puts", || (puts.load(Ordering::Relaxed) >= enough).then_some(()));
            server.signal(Signal::KILL);
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        server.wait();
        for (body, id) in acknowledged {
            assert_eq!(*known.entry(body).or_insert(id), id, "round {round}, body {body}");
        }
        (server, address) = start();
        // Some jobs are done. Their bodies can be put again.
        let mut worker = Client::on_tube(address, "load").unwrap();
        for _ in 0..BODIES / 4 {
            let job = worker.reserve(0).unwrap().expect("there are more jobs");
            worker.expect(&format!("delete {}", job.id), "DELETED").unwrap();
            known.retain(|_, id| *id != job.id);
        }
    }
    let mut worker = Client::on_tube(address, "load").unwrap();
    let mut left: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    while let Some(job) = worker.reserve(0).unwrap() {
        assert_eq!(left.insert(job.body, job.id), None, "job {} is there twice", job.id);
    }
    for (body, id) in known {
        assert_eq!(left.get(format!("body {body}").as_bytes()), Some(&id), "body {body}");
    }
}

/// Jobs are done, and the server is killed again and again: a key stays taken for its window.
#[test]
fn a_job_that_is_done_is_not_made_again_in_its_window() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), POLICIES);
    let arguments = ["serve", "--beanstalk", "127.0.0.1:0"];
    let mut known: Vec<u64> = Vec::new();
    for round in 0..3 {
        let mut server = Running::start(folder.path(), &arguments);
        let address: SocketAddr = server.address().parse().unwrap();
        let mut client = Client::on_tube(address, "window").unwrap();
        let put = |client: &mut Client, body| client.put(0, 0, 60, body).unwrap();
        for (body, id) in [b"1", b"2", b"3"].into_iter().zip(&known) {
            assert_eq!(put(&mut client, body), *id, "round {round}");
        }
        assert!(client.reserve(0).unwrap().is_none(), "nothing was made again");
        let id = put(&mut client, [b"1", b"2", b"3"][round]);
        client.expect(&format!("delete {id}"), "DELETED").unwrap();
        known.push(id);
        server.signal(Signal::KILL);
        server.wait();
    }
    assert!(known.is_sorted_by(|one, other| one < other), "{known:?}");
}

#[test]
fn a_put_can_make_the_job_that_is_there_more_urgent() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), POLICIES);
    let arguments = ["serve", "--memory", "--only", "--beanstalk=127.0.0.1:0"];
    let mut server = Running::start(folder.path(), &arguments);
    let address: SocketAddr = server.address().parse().unwrap();
    let mut client = Client::on_tube(address, "bump").unwrap();
    client.put(5, 0, 60, b"other").unwrap();
    let id = client.put(9, 3600, 60, b"job 1").unwrap();
    assert_eq!(client.put(1, 0, 60, b"job 2").unwrap(), id);
    let job = client.reserve(0).unwrap().unwrap();
    assert_eq!((job.id, &job.body[..]), (id, &b"job 1"[..]));
}
