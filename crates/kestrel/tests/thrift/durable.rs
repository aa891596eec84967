//! Tests what replies wait for and what a crash leaves. The log is on a simulated disk and writes
//! only when a test tells it to.

use std::sync::Arc;

use broker::{Broker, Dialect, Millis, Options, Outbox};
use lineshaft_kestrel::{Server, ServerOptions, ThriftSession};

use crate::calls::{confirm, get, ids, put, shown};
use crate::world::server;

const NOW: Millis = Millis(1_700_000_000_000);

struct Process {
    broker: Broker,
    server: Arc<Server>,
}

struct Client {
    session: ThriftSession,
    outbox: Outbox,
}

impl Process {
    fn start(disk: &Arc<log::FaultDisk>) -> Self {
        let options = Options::without_threads(disk.clone(), log::Settings::default());
        let broker = Broker::open(options, NOW).expect("the disk can be read").0;
        Self { broker, server: server(ServerOptions::default()) }
    }

    fn connect(&self) -> Client {
        let session = ThriftSession::new(self.server.clone(), &mut self.broker.turn(NOW), 0);
        Client { session, outbox: Outbox::default() }
    }

    fn commit(&self) {
        self.broker.commit_step(NOW).expect("the disk works");
    }

    /// Sends a call, and returns what may leave at once.
    fn ask(&self, client: &mut Client, call: &[u8]) -> Vec<u8> {
        let used = client.session.input(call, &mut self.broker.turn(NOW), &mut client.outbox).used;
        assert_eq!(used, call.len());
        self.sent(client)
    }

    /// What may leave.
    fn sent(&self, client: &mut Client) -> Vec<u8> {
        let mut sent = Vec::new();
        loop {
            let bytes = client.outbox.sendable(self.broker.released()).to_vec();
            if bytes.is_empty() {
                return sent;
            }
            client.outbox.advance(bytes.len());
            sent.extend(bytes);
        }
    }
}

#[test]
fn replies_wait_for_the_disk_and_open_reads_come_back_after_a_crash() {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let process = Process::start(&disk);
    let (mut a, mut b) = (process.connect(), process.connect());
    assert_eq!(shown(process.ask(&mut a, &put("q", &[b"1", b"2", b"3", b"4"]))), "");
    assert_eq!(shown(process.ask(&mut b, &get("q", 3, 0, 60_000))), "", "nor are they handed out");
    process.commit();
    assert_eq!(shown(process.sent(&mut a)), "put 4");
    let open = ids(process.sent(&mut b));
    assert_eq!(open.len(), 3);
    assert_eq!(shown(process.ask(&mut a, &confirm(&open[1..2]))), "");
    process.commit();
    assert_eq!(shown(process.sent(&mut a)), "confirm 1");
    // This one gets no answer before the crash.
    assert_eq!(shown(process.ask(&mut a, &put("q", &[b"5"]))), "");

    drop((process, a, b));
    disk.crash();
    let process = Process::start(&disk);
    let mut a = process.connect();
    assert_eq!(shown(process.ask(&mut a, &confirm(&open))), "confirm 0");
    process.ask(&mut a, &get("q", 3, 0, 0));
    process.commit();
    assert_eq!(shown(process.sent(&mut a)), "get 1 3 4");
}
