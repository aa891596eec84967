//! Tests what replies wait for. The log is on a simulated disk and writes only when a test tells it
//! to.

use std::sync::Arc;

use broker::{Broker, Dialect, Millis, Options, Outbox};
use lineshaft_beanstalk::{Listener, MAX_JOB_SIZE_DEFAULT, Session};

use crate::world::listener;

const NOW: Millis = Millis(1_700_000_000_000);

struct Client<'a> {
    broker: &'a Broker,
    session: Session,
    outbox: Outbox,
}

impl<'a> Client<'a> {
    /// No client waits in this test, so no mailbox is needed.
    fn connect(broker: &'a Broker, listener: &Arc<Listener>) -> Self {
        let session = Session::new(listener.clone(), &mut broker.turn(NOW), 0);
        Self { broker, session, outbox: Outbox::default() }
    }

    /// Sends commands, and returns what may leave at once.
    fn ask(&mut self, commands: &str) -> String {
        let mut turn = self.broker.turn(NOW);
        let used = self.session.input(commands.as_bytes(), &mut turn, &mut self.outbox).used;
        assert_eq!(used, commands.len());
        drop(turn);
        self.sent()
    }

    fn sent(&mut self) -> String {
        let bytes = self.outbox.sendable(self.broker.released()).to_vec();
        self.outbox.advance(bytes.len());
        String::from_utf8(bytes).expect("tests put text")
    }
}

#[test]
fn a_reply_waits_for_the_facts_it_reports_and_for_nothing_else() {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let options = Options::without_threads(disk, log::Settings::default());
    let broker = Broker::open(options, NOW).expect("the disk is empty").0;
    let listener = listener(MAX_JOB_SIZE_DEFAULT);
    let connect = || Client::connect(&broker, &listener);
    let [mut producer, mut other, mut worker] = [connect(), connect(), connect()];

    assert_eq!(producer.ask("use q\r\n"), "USING q\r\n");
    assert_eq!(producer.ask("put 0 0 60 1\r\nx\r\nuse r\r\n"), "", "replies keep their order");
    // The job is there for everybody, but a crash could undo it.
    assert_eq!(worker.ask("watch q\r\n"), "WATCHING 2\r\n");
    assert_eq!(worker.ask("reserve\r\n"), "");
    assert_eq!(other.ask("use q\r\nwatch q\r\n"), "USING q\r\nWATCHING 2\r\n");
    assert_eq!(other.ask("peek 2\r\n"), "NOT_FOUND\r\n", "no job has ended");
    assert_eq!(other.ask("peek 1\r\n"), "");
    broker.commit_step(NOW).expect("the disk works");
    assert_eq!(producer.sent(), "INSERTED 1\r\nUSING r\r\n");
    assert_eq!(worker.sent(), "RESERVED 1 1\r\nx\r\n");
    assert_eq!(other.sent(), "FOUND 1 1\r\nx\r\n");

    // That the job is gone is a fact, too: the denial waits until it is durable.
    assert_eq!(worker.ask("touch 1\r\n"), "TOUCHED\r\n");
    assert_eq!(worker.ask("delete 1\r\n"), "");
    assert_eq!(other.ask("list-tube-used\r\n"), "USING q\r\n");
    assert_eq!(other.ask("peek-ready\r\n"), "");
    broker.commit_step(NOW).expect("the disk works");
    assert_eq!(worker.sent(), "DELETED\r\n");
    assert_eq!(other.sent(), "NOT_FOUND\r\n");
}

#[test]
fn numbers_and_lists_wait_for_what_they_tell() {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let options = Options::without_threads(disk, log::Settings::default());
    let broker = Broker::open(options, NOW).expect("the disk is empty").0;
    let listener = listener(MAX_JOB_SIZE_DEFAULT);
    let mut producer = Client::connect(&broker, &listener);
    assert_eq!(producer.ask("use q\r\nput 0 0 60 1\r\nx\r\n"), "USING q\r\n");
    for (command, told) in [
        ("stats\r\n", "\ncurrent-jobs-ready: 1\n"),
        ("stats-tube q\r\n", "\ncurrent-jobs-ready: 1\n"),
        ("list-tubes\r\n", "\n- q\n"),
    ] {
        let mut monitor = Client::connect(&broker, &listener);
        assert_eq!(monitor.ask(command), "", "a crash could undo what {command:?} tells");
        broker.commit_step(NOW).expect("the disk works");
        let sent = monitor.sent();
        assert!(sent.starts_with("OK ") && sent.contains(told), "{sent}");
        assert!(monitor.ask(command).contains(told), "it is durable already");
        // For the next one.
        producer.ask("delete 1\r\nput 0 0 60 1\r\nx\r\n");
    }
}

#[test]
fn a_tube_that_vanished_is_denied_when_its_end_is_durable() {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let options = Options::without_threads(disk, log::Settings::default());
    let broker = Broker::open(options, NOW).expect("the disk is empty").0;
    let listener = listener(MAX_JOB_SIZE_DEFAULT);
    let connect = || Client::connect(&broker, &listener);
    let [mut producer, mut monitor, mut late] = [connect(), connect(), connect()];
    producer.ask("use q\r\nput 0 0 60 1\r\nx\r\nuse default\r\n");
    broker.commit_step(NOW).expect("the disk works");
    assert_eq!(producer.sent(), "INSERTED 1\r\nUSING default\r\n");
    assert_eq!(producer.ask("delete 1\r\n"), "");
    assert_eq!(monitor.ask("stats-tube q\r\n"), "", "a crash could bring the tube back");
    assert_eq!(late.ask("pause-tube q 1\r\n"), "");
    broker.commit_step(NOW).expect("the disk works");
    for client in [&mut monitor, &mut late] {
        assert_eq!(client.sent(), "NOT_FOUND\r\n");
    }
    assert_eq!(monitor.ask("stats-tube never\r\n"), "NOT_FOUND\r\n");
}
