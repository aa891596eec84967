//! Pauses by policy over sockets: each protocol, a crash, and a reload that ends the pause.

use rustix::process::Signal;

use crate::kestrel::{Client, write_config};
use crate::packet::{CAN_DO, GRAB_JOB, JOB_ASSIGN, NO_JOB, NOOP, PRE_SLEEP, Peer};
use crate::running::{Running, command};

const PAUSED: &str = "[[policy]]\nmatch = \"*\"\npause = { reason = \"the database moves\" }\n";

/// Each minute begins a pause of more than a minute, so the queue is always paused. The queue of the
/// second policy is paused in the first millisecond of a leap day.
const ALWAYS: &str = "[[policy]]\nmatch = \"*\"\n\
    pause = { cron = \"* * * * *\", for = \"90s\", tz = \"Asia/Tokyo\", reason = \"at night\" }\n";
const SELDOM: &str = "[[policy]]\nmatch = \"free\"\n\
    pause = { cron = \"0 0 29 2 *\", for = \"1ms\", reason = \"a leap day\" }\n";

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

#[test]
fn a_schedule_pauses_queues_for_each_protocol_and_over_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), &(ALWAYS.to_owned() + SELDOM));
    let check = |server: &mut Running| {
        let mut reserve = |tube: &str| {
            let asked = format!("watch {tube}\r\nreserve-with-timeout 0\r\n");
            crate::ask(&server.address(), &asked)
        };
        assert!(reserve("tube").contains("TIMED_OUT"));
        assert!(reserve("free").contains("RESERVED"));
        let mut worker = Peer::connect(&server.address_of("gearman"));
        worker.send(CAN_DO, &["function"]);
        worker.send(GRAB_JOB, &[]);
        worker.expect(NO_JOB);
        let mut client = Client::connect(&server.address_of("kestrel"));
        assert_eq!(client.ask("get items\r\n"), "END");
        assert_eq!(client.ask("get free\r\n"), "VALUE free 0 1");
    };
    let mut server = Running::spawn(command(folder.path(), &LISTENERS));
    crate::ask(&server.address(), "use tube\r\nput 1 0 60 1\r\na\r\n");
    Peer::connect(&server.address_of("gearman")).submit_background("function", "b");
    let mut client = Client::connect(&server.address_of("kestrel"));
    assert_eq!(client.set("items", "c"), "STORED");
    for _ in 0..4 {
        assert_eq!(client.set("free", "d"), "STORED");
    }
    check(&mut server);
    server.signal(Signal::KILL);
    server.wait();

    let mut server = Running::spawn(command(folder.path(), &LISTENERS));
    check(&mut server);
    // A waiter gets its job when a reload ends the pause.
    let mut worker = Peer::connect(&server.address_of("gearman"));
    worker.send(CAN_DO, &["function"]);
    worker.send(PRE_SLEEP, &[]);
    worker.ask("version");
    write_config(folder.path(), SELDOM);
    server.signal(Signal::HUP);
    worker.expect(NOOP);
}
