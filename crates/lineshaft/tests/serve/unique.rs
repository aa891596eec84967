//! Unique jobs, as docs/policies.md describes them: with an unmodified client of each protocol, and
//! over the death of the server. The scripts are in `tests/clients/policies`.

use std::collections::{BTreeMap, BTreeSet};
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

/// The number of different bodies that all clients put again and again. The queue `window_load` gets
/// as many new ones in each round, because its keys stay taken.
const BODIES: usize = 40;
const CLIENTS: usize = 4;
const WORKERS: usize = 2;
const ROUNDS: usize = 5;
/// Longer than any pause of the machine.
const TTR_S: u32 = 3600;

/// Bodies with the ids of their jobs.
type Ids = Vec<(usize, u64)>;

/// What the server acknowledged until it was killed.
struct Acknowledged {
    load: Ids,
    window: Ids,
    /// Jobs of `window_load` that are done.
    deleted: Ids,
}

impl Acknowledged {
    /// Clients put into both queues, and workers of `window_load` delete, until all have done enough.
    /// Then the server is killed.
    fn until_the_kill(server: &mut Running, address: SocketAddr, round: usize) -> Acknowledged {
        let [puts, window_puts, deletes] = [const { AtomicU64::new(0) }; 3];
        // The new bodies come first, so that workers have jobs.
        let new_first = || (0..BODIES * (1 + round)).rev();
        let join = |threads: Vec<thread::ScopedJoinHandle<'_, Ids>>| {
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        };
        thread::scope(|scope| {
            let load = |_| scope.spawn(|| put_to_the_end(address, "load", 0..BODIES, &puts));
            let load = (0..CLIENTS).map(load).collect();
            let window = |_| {
                scope.spawn(|| put_to_the_end(address, "window_load", new_first(), &window_puts))
            };
            let window = (0..CLIENTS).map(window).collect();
            let worker = |_| scope.spawn(|| delete_to_the_end(address, "window_load", &deletes));
            let workers = (0..WORKERS).map(worker).collect();
            let enough = (BODIES * (1 + round)) as u64;
            wait_for("puts and deletes", || {
                let [puts, window_puts, deletes] =
                    [&puts, &window_puts, &deletes].map(|count| count.load(Ordering::Relaxed));
                let is_enough = puts.min(window_puts) >= enough && deletes >= BODIES as u64 / 4;
                is_enough.then_some(())
            });
            server.signal(Signal::KILL);
            Acknowledged { load: join(load), window: join(window), deleted: join(workers) }
        })
    }
}

fn body_text(body: usize) -> Vec<u8> {
    format!("body {body}").into_bytes()
}

fn body_number(text: &[u8]) -> usize {
    str::from_utf8(text).unwrap().strip_prefix("body ").unwrap().parse().unwrap()
}

/// Puts these bodies again and again until the server is gone. Returns the acknowledged puts.
fn put_to_the_end(
    address: SocketAddr,
    tube: &str,
    bodies: impl Iterator<Item = usize> + Clone,
    puts: &AtomicU64,
) -> Ids {
    let mut acknowledged = Vec::new();
    let Ok(mut client) = Client::on_tube(address, tube) else { return acknowledged };
    for body in bodies.cycle() {
        match client.put(0, 0, TTR_S, &body_text(body)) {
            Ok(id) => acknowledged.push((body, id)),
            Err(_) => return acknowledged,
        }
        puts.fetch_add(1, Ordering::Relaxed);
    }
    unreachable!("the cycle has no end")
}

/// Takes and deletes jobs until the server is gone. Returns the acknowledged deletes.
fn delete_to_the_end(address: SocketAddr, tube: &str, deletes: &AtomicU64) -> Ids {
    let mut acknowledged = Vec::new();
    let Ok(mut worker) = Client::on_tube(address, tube) else { return acknowledged };
    while let Ok(job) = worker.reserve(1) {
        let Some(job) = job else { continue };
        let Ok(reply) = worker.command(&format!("delete {}", job.id)) else { break };
        assert_eq!(reply, "DELETED");
        acknowledged.push((body_number(&job.body), job.id));
        deletes.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}

/// Several clients put the same bodies while the server is killed. As long as a job is not done, every
/// acknowledged put of its body has its id, also over the death of the server. If the window is a time,
/// this is also so after workers have deleted the job.
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
    let mut in_window: BTreeMap<usize, u64> = BTreeMap::new();
    let mut deleted: BTreeSet<u64> = BTreeSet::new();
    for round in 0..ROUNDS {
        let acknowledged = Acknowledged::until_the_kill(&mut server, address, round);
        server.wait();
        for (body, id) in acknowledged.load {
            assert_eq!(*known.entry(body).or_insert(id), id, "round {round}, body {body}");
        }
        for (body, id) in acknowledged.window.iter().chain(&acknowledged.deleted) {
            assert_eq!(in_window.entry(*body).or_insert(*id), id, "round {round}, body {body}");
        }
        for (_, id) in acknowledged.deleted {
            assert!(deleted.insert(id), "round {round}, job {id} came back");
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
    let left = jobs_left(address, "load");
    for (body, id) in known {
        assert_eq!(left.get(&body), Some(&id), "body {body}");
    }
    let mut client = Client::on_tube(address, "window_load").unwrap();
    for (body, id) in &in_window {
        assert_eq!(client.put(0, 0, TTR_S, &body_text(*body)).unwrap(), *id, "body {body}");
    }
    let left = jobs_left(address, "window_load");
    assert!(left.values().all(|id| !deleted.contains(id)), "{left:?} {deleted:?}");
}

/// Takes all ready jobs of a queue. No body is there twice.
fn jobs_left(address: SocketAddr, tube: &str) -> BTreeMap<usize, u64> {
    let mut worker = Client::on_tube(address, tube).unwrap();
    let mut left = BTreeMap::new();
    while let Some(job) = worker.reserve(0).unwrap() {
        let other = left.insert(body_number(&job.body), job.id);
        assert_eq!(other, None, "job {} is there twice", job.id);
    }
    left
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
