//! Tests items that move from Kestrel's dialects to the other dialects and back. The sessions of
//! all dialects share one broker.

use std::sync::Arc;

use beanstalk::{Listener, MAX_JOB_SIZE_DEFAULT, ProcessorTime, ServerInfo};
use broker::policy::{Rule, Rules, Setting};
use testkit::conformance::gearman::packet::Packet;
use testkit::dialect::world;

use crate::world::World;

const CAN_DO: u32 = 1;
const GRAB_JOB: u32 = 9;
const SUBMIT_JOB: u32 = 7;
const SUBMIT_JOB_BG: u32 = 18;
const WORK_COMPLETE: u32 = 13;
const GET_STATUS: u32 = 15;
const PRE_SLEEP: u32 = 4;

/// Three clients of the same world: of Kestrel, of beanstalkd, and of Gearman. The beanstalkd
/// client uses and watches the queue `q`.
pub(crate) struct Clients {
    pub(crate) world: World,
    pub(crate) kestrel: usize,
    pub(crate) tube: usize,
    pub(crate) worker: usize,
}

impl Clients {
    fn new() -> Self {
        Self::with(Rules::default())
    }

    pub(crate) fn with(rules: Rules) -> Self {
        let mut world = World::new();
        let now = world.now;
        let _ = world.broker.turn(now).set_policies(rules);
        let (kestrel, tube) = (world.connect_memcache(), connect_beanstalk(&mut world));
        let worker = connect_gearman(&mut world);
        let mut clients = Self { world, kestrel, tube, worker };
        clients.beanstalk("use q\r\nwatch q\r\n", "USING q\r\nWATCHING 2\r\n");
        clients
    }

    #[track_caller]
    pub(crate) fn kestrel(&mut self, sent: &str, wanted: &str) {
        assert_eq!(self.world.say(self.kestrel, sent), wanted);
    }

    #[track_caller]
    pub(crate) fn beanstalk(&mut self, sent: &str, wanted: &str) {
        assert_eq!(self.world.say(self.tube, sent), wanted);
    }

    /// Sends a packet, and compares the reply. In `arguments` and `wanted`, bars separate the
    /// arguments.
    #[track_caller]
    pub(crate) fn gearman(&mut self, kind: u32, arguments: &str, wanted: &str) {
        let arguments: Vec<&[u8]> = arguments.split('|').map(str::as_bytes).collect();
        let sent = Packet::request(kind, &arguments).bytes();
        self.world.send(self.worker, &sent);
        self.hears(wanted);
    }

    /// Compares the packets that the Gearman client has received since the last call.
    #[track_caller]
    fn hears(&mut self, wanted: &str) {
        let mut unread = self.world.take_received(self.worker);
        let mut heard = Vec::new();
        while let Some(packet) = Packet::take(&mut unread) {
            let body = String::from_utf8_lossy(&packet.body).replace('\0', "|");
            heard.push(format!("{} {body}", packet.kind));
        }
        assert_eq!(heard.join(", "), wanted);
    }

    fn set_status(&mut self, status: broker::Status) {
        let now = self.world.now;
        let _ = self.world.broker.turn(now).set_status(status, 0);
    }
}

fn connect_beanstalk(world: &mut World) -> usize {
    let info = ServerInfo {
        pid: 4711,
        version: "lineshaft".to_owned(),
        hostname: "vm".to_owned(),
        os: "#1 SMP".to_owned(),
        platform: "x86_64".to_owned(),
        id: 1,
        started: world::START,
        processor_time: ProcessorTime::default,
        segment_bytes: 0,
    };
    let server = beanstalk::Server::new(info);
    let listener = Arc::new(Listener { server, max_job_size: MAX_JOB_SIZE_DEFAULT });
    world.connect_as(|turn, mailbox| {
        let session = beanstalk::Session::new(listener, turn, mailbox);
        (session.id(), session)
    })
}

fn connect_gearman(world: &mut World) -> usize {
    let server = gearman::Server::new(gearman::ServerOptions::for_host("vm"));
    world.connect_as(|turn, mailbox| {
        let session = gearman::Session::new(server, "127.0.0.1", turn, mailbox);
        (session.id(), session)
    })
}

#[test]
fn an_item_is_reserved_and_deleted() {
    let mut clients = Clients::new();
    clients.kestrel("set q 0 0 3\r\nabc\r\n", "STORED\r\n");
    clients.beanstalk("reserve-with-timeout 0\r\n", "RESERVED 1 3\r\nabc\r\n");
    clients.kestrel("get q\r\n", "END\r\n");
    clients.beanstalk("release 1 1024 0\r\n", "RELEASED\r\n");
    clients.kestrel("get q/peek\r\n", "VALUE q 0 3\r\nabc\r\nEND\r\n");
    clients.beanstalk("reserve-with-timeout 0\r\n", "RESERVED 1 3\r\nabc\r\n");
    clients.beanstalk("delete 1\r\n", "DELETED\r\n");
    clients.kestrel("get q\r\n", "END\r\n");
}

#[test]
fn a_waiting_reserve_gets_an_item_and_a_waiting_get_gets_a_job() {
    let mut clients = Clients::new();
    clients.beanstalk("reserve\r\n", "");
    clients.kestrel("set q 0 0 1\r\na\r\n", "STORED\r\n");
    assert_eq!(clients.world.take_received(clients.tube), b"RESERVED 1 1\r\na\r\n");
    clients.beanstalk("delete 1\r\n", "DELETED\r\n");
    clients.kestrel("get q/t=1000\r\n", "");
    clients.beanstalk("put 7 0 60 1\r\nb\r\n", "INSERTED 2\r\n");
    assert_eq!(clients.world.take_received(clients.kestrel), b"VALUE q 0 1\r\nb\r\nEND\r\n");
    clients.beanstalk("stats-job 2\r\n", "NOT_FOUND\r\n");
}

#[test]
fn an_open_read_of_a_job_ends_it_or_gives_it_back() {
    let mut clients = Clients::new();
    clients.beanstalk("put 5 0 60 1\r\na\r\nput 9 0 60 1\r\nb\r\n", "INSERTED 1\r\nINSERTED 2\r\n");
    clients.kestrel("get q/open\r\n", "VALUE q 0 1\r\na\r\nEND\r\n");
    clients.beanstalk("delete 1\r\n", "NOT_FOUND\r\n");
    clients.kestrel("get q/abort\r\n", "END\r\n");
    clients.beanstalk("reserve-with-timeout 0\r\n", "RESERVED 1 1\r\na\r\n");
    clients.beanstalk("bury 1 5\r\n", "BURIED\r\n");
    clients.kestrel("get q/open\r\n", "VALUE q 0 1\r\nb\r\nEND\r\n");
    clients.kestrel("get q/close\r\n", "END\r\n");
    clients.beanstalk("stats-job 2\r\n", "NOT_FOUND\r\n");
    clients.kestrel("get q\r\n", "END\r\n");
    clients.beanstalk("kick 1\r\n", "KICKED 1\r\n");
    clients.kestrel("get q\r\n", "VALUE q 0 1\r\na\r\nEND\r\n");
}

/// A put's ttr also applies to an open read of the job. The read itself has no time limit.
#[test]
fn an_open_read_of_a_job_ends_with_the_ttr_of_the_job() {
    let mut clients = Clients::new();
    clients.beanstalk("put 5 0 10 1\r\na\r\n", "INSERTED 1\r\n");
    clients.kestrel("get q/open\r\n", "VALUE q 0 1\r\na\r\nEND\r\n");
    clients.world.advance(9_999);
    clients.beanstalk("peek-ready\r\n", "NOT_FOUND\r\n");
    clients.world.advance(1);
    clients.beanstalk("peek-ready\r\n", "FOUND 1 1\r\na\r\n");
    clients.kestrel("get q/close\r\n", "END\r\n");
    clients.beanstalk("peek-ready\r\n", "FOUND 1 1\r\na\r\n");
}

#[test]
fn a_gearman_worker_completes_an_item() {
    let mut clients = Clients::new();
    clients.gearman(CAN_DO, "q", "");
    clients.gearman(PRE_SLEEP, "", "");
    clients.kestrel("set q 0 0 3\r\nabc\r\n", "STORED\r\n");
    clients.hears("6 ");
    clients.gearman(GRAB_JOB, "", "11 H:vm:1|q|abc");
    clients.kestrel("get q\r\n", "END\r\n");
    clients.gearman(WORK_COMPLETE, "H:vm:1|done", "");
    clients.gearman(GET_STATUS, "H:vm:1", "20 H:vm:1|0|0|0|0");
    clients.gearman(GRAB_JOB, "", "10 ");
}

#[test]
fn gearman_jobs_are_read_and_their_clients_hear_of_the_end() {
    let mut clients = Clients::new();
    clients.gearman(SUBMIT_JOB_BG, "q||background", "8 H:vm:1");
    clients.gearman(SUBMIT_JOB, "q||foreground", "8 H:vm:2");
    clients.kestrel("get q/open\r\n", "VALUE q 0 10\r\nbackground\r\nEND\r\n");
    clients.gearman(GET_STATUS, "H:vm:1", "20 H:vm:1|1|1|0|0");
    clients.kestrel("get q/close/open\r\n", "VALUE q 0 10\r\nforeground\r\nEND\r\n");
    clients.gearman(GET_STATUS, "H:vm:1", "20 H:vm:1|0|0|0|0");
    clients.kestrel("get q/close\r\n", "END\r\n");
    clients.hears("13 H:vm:2|");
    clients.gearman(SUBMIT_JOB, "q||again", "8 H:vm:3");
    clients.kestrel("get q\r\n", "VALUE q 0 5\r\nagain\r\nEND\r\n");
    clients.hears("13 H:vm:3|");
    clients.gearman(SUBMIT_JOB, "q||flushed", "8 H:vm:4");
    clients.kestrel("flush q\r\n", "END\r\n");
    clients.hears("14 H:vm:4");
}

#[test]
fn children_are_consumed_by_workers_of_other_dialects_at_once() {
    let mut clients = Clients::new();
    clients.kestrel("get q+tube\r\nget q+work\r\n", "END\r\nEND\r\n");
    clients.beanstalk("watch q+tube\r\nignore q\r\n", "WATCHING 3\r\nWATCHING 2\r\n");
    clients.gearman(CAN_DO, "q+work", "");
    clients.kestrel("set q 0 0 1\r\na\r\n", "STORED\r\n");
    // Puts of the other dialects are also copied to the children.
    clients.beanstalk("put 1024 0 60 1\r\nb\r\n", "INSERTED 6\r\n");
    clients.beanstalk("reserve-with-timeout 0\r\n", "RESERVED 1 1\r\na\r\n");
    clients.gearman(GRAB_JOB, "", "11 H:vm:2|q+work|a");
    clients.beanstalk("delete 1\r\n", "DELETED\r\n");
    clients.gearman(WORK_COMPLETE, "H:vm:2|", "");
    clients.beanstalk("reserve-with-timeout 0\r\n", "RESERVED 4 1\r\nb\r\n");
    clients.gearman(GRAB_JOB, "", "11 H:vm:5|q+work|b");
    clients.kestrel("get q\r\n", "VALUE q 0 1\r\na\r\nEND\r\n");
    clients.kestrel("get q\r\n", "VALUE q 0 1\r\nb\r\nEND\r\n");
}

/// A queue of beanstalkd or Gearman is not a child, even if its name has a `+`.
#[test]
fn only_a_queue_of_items_is_a_child() {
    let mut clients = Clients::new();
    clients.beanstalk("watch q+tube\r\nignore q\r\n", "WATCHING 3\r\nWATCHING 2\r\n");
    clients.kestrel("set q 0 0 1\r\na\r\n", "STORED\r\n");
    clients.beanstalk("reserve-with-timeout 0\r\n", "TIMED_OUT\r\n");
}

#[test]
fn each_dialect_says_that_a_queue_is_full_in_its_own_words() {
    let limits = [Setting::JobsMax(Some(1)), Setting::ItemBytesMax(Some(5))];
    let mut clients = Clients::with(Rules(vec![Rule::new(["q"], limits)]));
    clients.kestrel("set q 0 0 6\r\nabcdef\r\n", "NOT_STORED\r\n");
    clients.beanstalk("put 0 0 60 6\r\nabcdef\r\n", "JOB_TOO_BIG\r\n");
    clients.gearman(SUBMIT_JOB_BG, "q||abcdef", "19 QUEUE_ERROR|Job queue is full");
    clients.kestrel("set q 0 0 5\r\nabcde\r\n", "STORED\r\n");
    clients.kestrel("set q 0 0 1\r\na\r\n", "NOT_STORED\r\n");
    clients.beanstalk("put 0 0 60 1\r\na\r\n", "DRAINING\r\n");
    clients.gearman(SUBMIT_JOB_BG, "q||a", "19 QUEUE_ERROR|Job queue is full");
    // An item that is given back counts towards the limit, but the queue never refuses such an
    // item.
    clients
        .kestrel("get q/open\r\nset q 0 0 1\r\na\r\n", "VALUE q 0 5\r\nabcde\r\nEND\r\nSTORED\r\n");
    clients.kestrel("get q/abort\r\n", "END\r\n");
    clients.beanstalk("put 0 0 60 1\r\na\r\n", "DRAINING\r\n");
}

#[test]
fn jobs_of_other_dialects_expire_by_the_age_of_a_policy() {
    let mut clients = Clients::with(Rules(vec![Rule::new(["q"], [Setting::AgeMax(Some(1_000))])]));
    clients.beanstalk("put 0 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    clients.gearman(SUBMIT_JOB, "q||b", "8 H:vm:2");
    clients.world.advance(1_000);
    clients.beanstalk("peek-ready\r\n", "FOUND 1 1\r\na\r\n");
    clients.world.advance(1);
    clients.beanstalk("reserve-with-timeout 0\r\n", "TIMED_OUT\r\n");
    clients.hears("14 H:vm:2");
}

#[test]
fn an_expired_item_is_not_reserved_or_grabbed() {
    let mut clients = Clients::new();
    clients.gearman(CAN_DO, "q", "");
    clients.kestrel("set q 0 1 1\r\na\r\nset q 0 0 1\r\nb\r\n", "STORED\r\nSTORED\r\n");
    clients.world.advance(1_001);
    clients.beanstalk("reserve-with-timeout 0\r\n", "RESERVED 2 1\r\nb\r\n");
    clients.kestrel("set q 0 1 1\r\nc\r\n", "STORED\r\n");
    clients.world.advance(1_001);
    clients.gearman(GRAB_JOB, "", "10 ");
}

#[test]
fn the_status_holds_for_all_dialects() {
    let mut clients = Clients::new();
    clients.kestrel("set q 0 0 1\r\na\r\n", "STORED\r\n");
    clients.gearman(CAN_DO, "q", "");
    clients.set_status(broker::Status::ReadOnly);
    clients.beanstalk("put 0 0 60 1\r\na\r\n", "DRAINING\r\n");
    clients.gearman(SUBMIT_JOB_BG, "q||a", "19 QUEUE_ERROR|QUEUE_ERROR");
    clients.beanstalk("reserve-with-timeout 0\r\n", "RESERVED 1 1\r\na\r\n");
    clients.beanstalk("release 1 1024 0\r\n", "RELEASED\r\n");
    clients.set_status(broker::Status::Quiescent);
    clients.beanstalk("reserve-with-timeout 0\r\n", "TIMED_OUT\r\n");
    clients.beanstalk("reserve-job 1\r\n", "NOT_FOUND\r\n");
    clients.gearman(GRAB_JOB, "", "10 ");
    clients.gearman(PRE_SLEEP, "", "");
    clients.set_status(broker::Status::Up);
    clients.world.deliver_events();
    clients.hears("6 ");
    clients.gearman(GRAB_JOB, "", "11 H:vm:1|q|a");
}

#[test]
fn an_alias_and_a_copy_are_fed_by_every_dialect() {
    let name = |name: &str| Box::from(name.as_bytes());
    let rules = Rules(vec![
        Rule::new(["q"], [Setting::Alias([name("one"), name("two")].into())]),
        Rule::new(["two"], [Setting::CopyTo([name("audit")].into())]),
    ]);
    let mut clients = Clients::with(rules);
    clients.beanstalk("put 0 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    clients.beanstalk("reserve-with-timeout 0\r\n", "TIMED_OUT\r\n");
    for queue in ["one", "two", "audit"] {
        let block = format!("VALUE {queue} 0 1\r\na\r\nEND\r\n");
        clients.kestrel(&format!("get {queue}\r\n"), &block);
    }
    clients.gearman(SUBMIT_JOB_BG, "q||b", "8 H:vm:4");
    clients.kestrel("get audit\r\n", "VALUE audit 0 1\r\nb\r\nEND\r\n");
}

#[test]
fn a_removed_queue_ends_jobs_of_all_dialects() {
    let mut clients = Clients::new();
    clients.beanstalk("put 5 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    clients.beanstalk("reserve-with-timeout 0\r\n", "RESERVED 1 1\r\na\r\n");
    clients.gearman(SUBMIT_JOB, "q||b", "8 H:vm:2");
    clients.beanstalk("put 5 9 60 1\r\nc\r\n", "INSERTED 3\r\n");
    clients.kestrel("delete q\r\n", "DELETED\r\n");
    clients.hears("14 H:vm:2");
    clients.beanstalk("delete 1\r\n", "NOT_FOUND\r\n");
    clients.beanstalk("delete 3\r\n", "NOT_FOUND\r\n");
    // The tube still exists, because a client uses it. A registration of a Gearman worker would
    // have the same effect.
    clients.beanstalk("put 5 0 60 1\r\nd\r\n", "INSERTED 4\r\n");
    clients.kestrel("get q\r\n", "VALUE q 0 1\r\nd\r\nEND\r\n");
}
