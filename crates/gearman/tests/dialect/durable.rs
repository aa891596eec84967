//! Tests what replies wait for and what a crash leaves. The log is on a simulated disk and writes
//! only when a test tells it to.

use std::sync::{Arc, Mutex};

use broker::{Broker, Dialect, Event, Mailbox, Millis, Options, Outbox, SessionId};
use lineshaft_gearman::{Server, Session};

use crate::packets::{
    CAN_DO, GET_STATUS, GET_STATUS_UNIQUE, GRAB_JOB, SUBMIT_JOB, SUBMIT_JOB_BG, WORK_COMPLETE,
    request,
};
use crate::world::options;

const NOW: Millis = Millis(1_700_000_000_000);

#[derive(Default)]
struct Events(Mutex<Vec<(SessionId, Event)>>);

impl Mailbox for Events {
    fn deliver(&self, session: SessionId, event: Event) {
        self.0.lock().expect("no holder panics").push((session, event));
    }

    fn released(&self) {}

    fn alarm(&self, _at: Millis) {}
}

struct Process {
    broker: Broker,
    server: Arc<Server>,
    events: Arc<Events>,
    mailbox: usize,
}

struct Client {
    session: Session,
    outbox: Outbox,
}

impl Process {
    fn start(disk: &Arc<log::FaultDisk>) -> Self {
        let options_of_log = Options::without_threads(disk.clone(), log::Settings::default());
        let broker = Broker::open(options_of_log, NOW).expect("the disk can be read").0;
        let events = Arc::new(Events::default());
        let mailbox = broker.add_mailbox(events.clone());
        Self { broker, server: Server::new(options()), events, mailbox }
    }

    fn connect(&self) -> Client {
        let server = self.server.clone();
        let session = Session::new(server, "127.0.0.1", &mut self.broker.turn(NOW), self.mailbox);
        Client { session, outbox: Outbox::default() }
    }

    fn commit(&self) {
        self.broker.commit_step(NOW).expect("the disk works");
    }

    /// Sends a packet, and returns what may leave at once.
    fn ask(&self, client: &mut Client, kind: u32, arguments: &str) -> String {
        let packet = request(kind, arguments);
        let mut turn = self.broker.turn(NOW);
        let used = client.session.input(&packet, &mut turn, &mut client.outbox).used;
        assert_eq!(used, packet.len());
        drop(turn);
        self.sent(client)
    }

    /// Sends a line, and returns what may leave at once.
    fn ask_text(&self, client: &mut Client, line: &str) -> String {
        let mut turn = self.broker.turn(NOW);
        client.session.input(line.as_bytes(), &mut turn, &mut client.outbox);
        drop(turn);
        self.sent_text(client)
    }

    fn sent_text(&self, client: &mut Client) -> String {
        String::from_utf8_lossy(&self.sent_bytes(client)).into_owned()
    }

    /// The output that can leave after all events, without headers.
    fn sent(&self, client: &mut Client) -> String {
        let mut unread = self.sent_bytes(client);
        let mut bodies = Vec::new();
        while let Some(packet) = testkit::conformance::gearman::packet::Packet::take(&mut unread) {
            let body = String::from_utf8_lossy(&packet.body).replace('\0', "|");
            bodies.push(format!("{} {body}", packet.kind));
        }
        bodies.join(", ")
    }

    /// The output that can leave after all events.
    fn sent_bytes(&self, client: &mut Client) -> Vec<u8> {
        let id = client.session.id();
        let mut events = self.events.0.lock().expect("no holder panics");
        let own: Vec<_> = events.extract_if(.., |(session, _)| *session == id).collect();
        drop(events);
        for (_, event) in own {
            client.session.event(event, &mut self.broker.turn(NOW), &mut client.outbox);
        }
        let bytes = client.outbox.sendable(self.broker.released()).to_vec();
        client.outbox.advance(bytes.len());
        bytes
    }
}

#[test]
fn a_background_submit_is_confirmed_when_it_is_durable_and_survives_a_crash() {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let process = Process::start(&disk);
    let (mut client, mut worker) = (process.connect(), process.connect());
    process.ask(&mut worker, CAN_DO, "f");
    process.commit();
    assert_eq!(process.ask(&mut client, SUBMIT_JOB, "f||foreground"), "8 H:vm:1");
    assert_eq!(process.ask(&mut client, SUBMIT_JOB_BG, "f|u|background"), "");
    assert_eq!(process.ask(&mut worker, GRAB_JOB, ""), "11 H:vm:1|f|foreground");
    assert_eq!(process.ask(&mut worker, GRAB_JOB, ""), "", "nor is it handed out before");
    let mut other = process.connect();
    assert_eq!(process.ask(&mut other, GET_STATUS, "H:vm:2"), "", "nor is it told of");
    assert_eq!(process.ask(&mut other, GET_STATUS_UNIQUE, "u"), "");
    process.commit();
    assert_eq!(process.sent(&mut client), "8 H:vm:2");
    assert_eq!(process.sent(&mut worker), "11 H:vm:2|f|background");
    assert_eq!(process.sent(&mut other), "20 H:vm:2|1|1|0|0, 42 u|1|1|0|0|0");

    drop((process, client, worker, other));
    disk.crash();
    let process = Process::start(&disk);
    let (mut client, mut worker) = (process.connect(), process.connect());
    assert_eq!(process.ask(&mut client, GET_STATUS, "H:vm:1"), "20 H:vm:1|0|0|0|0");
    assert_eq!(process.ask(&mut client, GET_STATUS, "H:vm:2"), "20 H:vm:2|1|0|0|0");
    process.ask(&mut worker, CAN_DO, "f");
    assert_eq!(process.ask(&mut worker, GRAB_JOB, ""), "11 H:vm:2|f|background");
    process.commit();

    // The news of its end waits until the end is durable.
    process.ask(&mut client, SUBMIT_JOB, "f|u|");
    assert_eq!(process.ask(&mut worker, WORK_COMPLETE, "H:vm:2|done"), "");
    assert_eq!(process.ask(&mut worker, GET_STATUS_UNIQUE, "u"), "", "nor is it denied before");
    assert_eq!(process.sent(&mut client), "");
    process.commit();
    assert_eq!(process.sent(&mut client), "13 H:vm:2|done");
    assert_eq!(process.sent(&mut worker), "42 u|0|0|0|0|0");
}

#[test]
fn a_function_that_was_dropped_is_denied_when_the_drop_is_durable() {
    for is_used in [false, true] {
        let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
        let process = Process::start(&disk);
        let [mut a, mut b] = [process.connect(), process.connect()];
        process.ask_text(&mut a, "create function f\n");
        process.commit();
        assert_eq!(process.sent_text(&mut a), "OK\r\n");
        if is_used {
            // Another dialect's session keeps the queue itself.
            let mut turn = process.broker.turn(NOW);
            let session = turn.open_session(process.mailbox);
            turn.use_queue(session, b"f");
        }
        assert_eq!(process.ask_text(&mut a, "drop function f\n"), "");
        let denied = process.ask_text(&mut b, "drop function f\n");
        assert_eq!(denied, "", "a crash could bring the function back");
        process.commit();
        assert_eq!(process.sent_text(&mut a), "OK\r\n");
        assert_eq!(process.sent_text(&mut b), "ERR function not found\r\n");
        let never = process.ask_text(&mut b, "drop function never\n");
        assert_eq!(never, "ERR function not found\r\n");
    }
}

#[test]
fn a_list_names_no_job_that_a_crash_could_undo_and_leaves_out_none_that_could_come_back() {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let process = Process::start(&disk);
    let [mut client, mut monitor] = [process.connect(), process.connect()];
    process.ask(&mut client, SUBMIT_JOB_BG, "f|u|x");
    let cases = ["show jobs\n", "show unique jobs\n", "status\n", "prioritystatus\n"];
    let with = ["H:vm:1\t0\t0\t1\n.\n", "u\n.\n", "f\t1\t0\t0\n.\n", "f\t0\t1\t0\t0\n.\n"];
    for command in cases {
        assert_eq!(process.ask_text(&mut monitor, command), "");
    }
    process.commit();
    assert_eq!(process.sent_text(&mut monitor), with.concat());
    process.ask_text(&mut client, "cancel job H:vm:1\n");
    assert_eq!(process.ask_text(&mut monitor, "show jobs\n"), "", "it could come back");
    process.commit();
    assert_eq!(process.sent_text(&mut monitor), ".\n");
}
