//! Pauses by policy over sockets: each protocol, a crash, and a reload that ends the pause.

use rustix::process::Signal;

use crate::kestrel::{Client, write_config};
use crate::packet::{CAN_DO, GRAB_JOB, JOB_ASSIGN, NO_JOB, NOOP, PRE_SLEEP, Peer};
use crate::running::{Running, command};

const PAUSED: &str = "[[policy]]\nmatch = \"*\"\npause = { reason = \"the database moves\" }\n";

const LISTENERS: [&str; 5] = [
    "serve",
    "--only",
    "--beanstalk=127.0.0.1:0",
    "--gearman=127.0.0.1:0",
    "--kestrel=127.0.0.1:0",
];

#[test]
fn a_paused_queue_keeps_its_jobs_over_a_crash_until_the_policy_changes() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), PAUSED);
    let mut server = Running::spawn(command(folder.path(), &LISTENERS));
    let reserve = "watch tube\r\nreserve-with-timeout 0\r\n";
    let asked = crate::ask(&server.address(), "use tube\r\nput 1 0 60 1\r\na\r\n");
    assert!(asked.contains("INSERTED 1"), "{asked}");
    assert!(crate::ask(&server.address(), reserve).contains("TIMED_OUT"));
    Peer::connect(&server.address_of("gearman")).submit_background("function", "b");
    let mut client = Client::connect(&server.address_of("kestrel"));
    assert_eq!(client.set("items", "c"), "STORED");
    assert_eq!(client.ask("get items\r\n"), "END");
    server.signal(Signal::KILL);
    server.wait();

    let mut server = Running::spawn(command(folder.path(), &LISTENERS));
    assert!(crate::ask(&server.address(), reserve).contains("TIMED_OUT"));
    let mut worker = Peer::connect(&server.address_of("gearman"));
    worker.send(CAN_DO, &["function"]);
    worker.send(GRAB_JOB, &[]);
    worker.expect(NO_JOB);
    worker.send(PRE_SLEEP, &[]);
    worker.ask("version");
    let mut client = Client::connect(&server.address_of("kestrel"));
    assert_eq!(client.ask("get items\r\n"), "END");

    write_config(folder.path(), "");
    server.signal(Signal::HUP);
    // The end of the pause wakes the worker.
    worker.expect(NOOP);
    worker.send(GRAB_JOB, &[]);
    worker.expect(JOB_ASSIGN);
    assert!(crate::ask(&server.address(), reserve).contains("RESERVED 1 1"));
    assert_eq!(client.ask("get items\r\n"), "VALUE items 0 1");
}
