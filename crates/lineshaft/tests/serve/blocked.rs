//! Puts that wait for room, as docs/policies.md describes them, with an unmodified client of each
//! protocol. The scripts are in `tests/clients/policies`.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::client::Client;
use testkit::wait;

use crate::dead_letters::check;
use crate::kestrel::{Client as Kestrel, write_config};
use crate::running::{Running, command, wait_for};

const POLICIES: &str = r#"
[[policy]]
match = "short"
limits = { jobs = 1, when_full = "block", block_for = "300ms" }

[[policy]]
match = "long"
limits = { jobs = 1, when_full = "block", block_for = "1m" }

[[policy]]
match = "many"
limits = { jobs = 4000, when_full = "block", block_for = "1m" }
"#;

#[test]
fn greenstalk() {
    check(POLICIES, "beanstalk", "greenstalk_block.py");
}

#[test]
fn gear() {
    check(POLICIES, "gearman", "gear_block.py");
}

#[test]
fn pymemcache() {
    check(POLICIES, "kestrel", "pymemcache_block.py");
}

fn start(folder: &std::path::Path) -> (Running, SocketAddr) {
    write_config(folder, POLICIES);
    let mut server = Running::start(folder, &["serve", "--only", "--beanstalk=127.0.0.1:0"]);
    let address = server.address().parse().unwrap();
    (server, address)
}

/// Sends a put, and reads no reply.
fn send_put(client: &mut Client, body: &str) {
    client.send(format!("put 0 0 60 {}\r\n{body}\r\n", body.len()).as_bytes()).unwrap();
}

/// Several producers wait. Each take lets one of them go on, in their order, and the put of one that
/// has disconnected is gone.
#[test]
fn producers_go_on_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, address) = start(folder.path());
    let mut producers: Vec<Client> =
        (0..4).map(|_| Client::on_tube(address, "long").unwrap()).collect();
    let mut worker = Client::on_tube(address, "long").unwrap();
    for (number, producer) in producers.iter_mut().enumerate() {
        send_put(producer, &number.to_string());
        if number == 0 {
            assert!(producer.read_line().unwrap().starts_with("INSERTED"));
        }
        // The next one must not be faster. A command of another connection is not held back.
        let seen = (number + 1).to_string();
        wait_for("the put", || (worker.stats("stats").unwrap()["cmd-put"] == seen).then_some(()));
    }
    drop(producers.remove(2));
    for (number, expected) in ["0", "1", "3"].into_iter().enumerate() {
        let job = worker.reserve(30).unwrap().expect("each take makes room");
        assert_eq!(job.body, expected.as_bytes());
        if let Some(next) = producers.get_mut(number + 1) {
            assert!(next.read_line().unwrap().starts_with("INSERTED"));
        }
    }
    assert!(worker.reserve(0).unwrap().is_none(), "the producer of the third one has left");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
}

/// A producer that waits is refused after its time, and when the server stops.
#[test]
fn a_wait_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, address) = start(folder.path());
    let mut producer = Client::on_tube(address, "short").unwrap();
    producer.put(0, 0, 60, b"1").unwrap();
    let begin = Instant::now();
    assert_eq!(producer.try_put(0, 0, 60, b"2").unwrap(), "DRAINING");
    // The server counts whole milliseconds, rounded down, so a wait can be almost one shorter.
    assert!(begin.elapsed() >= Duration::from_millis(299), "it has waited");
    let mut other = Client::on_tube(address, "long").unwrap();
    other.put(0, 0, 60, b"1").unwrap();
    let blocked = thread::spawn(move || other.try_put(0, 0, 60, b"2"));
    wait_for("the put", || {
        let stats = producer.stats("stats").unwrap();
        (stats["cmd-put"] == "4").then_some(())
    });
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(blocked.join().unwrap().unwrap(), "DRAINING");
}

/// After the wait of an item, the other items of a long list follow.
#[test]
fn a_long_list_of_a_text_client_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), POLICIES);
    let arguments = ["serve", "--only", "--kestrel-text=127.0.0.1:0"];
    let mut server = Running::spawn(command(folder.path(), &arguments));
    let address = server.address_of("kestrel_text");
    let (mut producer, mut other) = (Kestrel::connect(&address), Kestrel::connect(&address));
    let list = format!("put many:\n{}\n", "x\n".repeat(4000));
    assert_eq!(producer.ask(&list), "+4000");
    // The first item of the list waits, until the flush makes room for all of them.
    let waiting = thread::spawn(move || producer.ask(&list));
    wait::let_pass(Duration::from_millis(200), "the producer sends its list");
    wait_for("the reply", || {
        assert_eq!(other.ask("flush many\n"), "+0");
        waiting.is_finished().then_some(())
    });
    assert_eq!(waiting.join().unwrap(), "+4000");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
}
