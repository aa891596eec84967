//! Tests of I/O threads with real sockets, in this process. Tests of signals, limits of file
//! descriptors and inherited sockets need a separate process. They are among the tests of the
//! program.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use broker::{Broker, Millis, Options};
use log::{Disk, FaultDisk, PosixDisk, Settings};
use testkit::wait;
pub(crate) use testkit::wait::until as eventually;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::config::protocol::Protocol;
use crate::config::{Config, Limits, Tls};
use crate::net::accept::Acceptor;
use crate::net::limits::LiveLimits;
use crate::net::listen::{Endpoint, SocketOptions, bind};
use crate::net::sessions::opener;
use crate::net::tls::Certificates;
use crate::process::clock::{Clock, ClockWatch};
use crate::process::controls::Controls;
use crate::process::reload::Reloader;
use crate::threads::io_thread::{Ended, IoThread, Shared};
use crate::threads::mailbox::{Inbox, OpenSession};
use notation::address::{Address, ListenAddress};

/// The time limit of every wait in these tests.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// I/O threads that serve clients until this value is dropped.
pub(crate) struct Serving {
    pub(crate) address: ListenAddress,
    pub(crate) broker: Broker,
    clock: Clock,
    /// The certificates, if the plan has TLS.
    pub(crate) certificates: Option<Arc<Certificates>>,
    limits: Arc<LiveLimits>,
    inboxes: Vec<Arc<Inbox>>,
    threads: Vec<JoinHandle<Ended>>,
    acceptor: Option<Accepting>,
    _folder: tempfile::TempDir,
}

/// A thread that accepts connections until this value is dropped.
struct Accepting {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Accepting {
    fn begin(
        endpoint: Endpoint,
        open: Arc<OpenSession>,
        limits: Arc<LiveLimits>,
        inboxes: Vec<Arc<Inbox>>,
    ) -> Accepting {
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let acceptor = Acceptor::new(endpoint, open, limits, inboxes).unwrap();
                tokio::select! {
                    () = acceptor.run() => {}
                    _ = stopped => {}
                }
            });
        });
        Accepting { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}

pub(crate) struct Plan {
    pub(crate) protocol: Protocol,
    pub(crate) limits: Limits,
    pub(crate) threads: usize,
    pub(crate) disk: Option<Arc<dyn Disk>>,
    pub(crate) is_unix: bool,
    pub(crate) tls: Option<Tls>,
    /// See [`Settings::one_processor`].
    pub(crate) one_processor: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        let limits = Config::default().limits;
        let protocol = Protocol::Beanstalk;
        Plan {
            protocol,
            limits,
            threads: 1,
            disk: None,
            is_unix: false,
            tls: None,
            one_processor: false,
        }
    }
}

impl Plan {
    pub(crate) fn serve(self) -> Serving {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::start();
        let broker = match self.disk {
            None => Broker::memory(broker::EngineSetup::default(), clock.now()),
            Some(disk) => {
                let (segment_bytes, one_processor) = (1 << 20, self.one_processor);
                let settings = Settings { segment_bytes, one_processor, ..Settings::default() };
                let clock = Some(Arc::new(move || clock.now()) as broker::Clock);
                let options = Options { clock, ..Options::without_threads(disk, settings) };
                Broker::open(options, Millis(0)).unwrap().0
            }
        };
        let limits = Arc::new(LiveLimits::new(&self.limits, 1024, 128));
        let shared = Shared {
            broker: broker.clone(),
            clock,
            limits: limits.clone(),
            client_mix: Arc::default(),
        };
        let inboxes: Vec<Arc<Inbox>> = (0..self.threads).map(|_| Arc::default()).collect();
        let wanted = if self.is_unix {
            Address::Unix(folder.path().join("socket"))
        } else {
            Address::Tcp { host: "127.0.0.1".into(), port: 0 }
        };
        let mut bound =
            bind(self.protocol, &wanted.into(), &SocketOptions::default()).unwrap().remove(0);
        bound.listen().unwrap();
        let address = bound.address.clone();
        let config = Config { limits: self.limits, ..Config::default() };
        let reloader =
            Reloader::new(config.clone(), None, limits.clone(), None, None, Arc::default());
        let controls =
            Controls { reloader: Arc::new(reloader), stop: Arc::default(), stopwatch: None };
        let kestrel = controls.kestrel_server(&config, clock.now());
        let open = opener(self.protocol, &config, clock.now(), &kestrel).unwrap();
        let certificates = self.tls.map(|tls| Arc::new(Certificates::load(&tls).unwrap()));
        let bound = if certificates.is_some() { bound.with_tls() } else { bound };
        let endpoint = Endpoint::new(bound, &config, certificates.as_ref());
        let threads = inboxes.iter().map(|inbox| {
            let thread = IoThread::new(shared.clone(), inbox.clone()).unwrap();
            std::thread::spawn(move || thread.run())
        });
        let threads = threads.collect();
        let acceptor = Accepting::begin(endpoint, open, limits.clone(), inboxes.clone());
        Serving {
            address,
            broker,
            clock,
            certificates,
            limits,
            inboxes,
            threads,
            acceptor: Some(acceptor),
            _folder: folder,
        }
    }
}

impl Serving {
    fn client(&self) -> Client {
        let Address::Tcp { host, port } = &self.address.address else { panic!("not a tcp socket") };
        let stream = TcpStream::connect((host.as_str(), *port)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream }
    }

    /// Number of open connections, with or without a session.
    pub(crate) fn connections(&self) -> usize {
        self.limits.open()
    }

    /// Simulates that the machine sleeps for this time. Then runs the server's check of the clocks,
    /// which notices the sleep.
    fn sleep_for(&self, time: Duration) {
        self.clock.sleep_for(time);
        ClockWatch::default().look(&self.clock, &self.broker, &self.inboxes);
    }

    /// Stops the threads. Returns why each of them ended.
    pub(crate) fn stop(&mut self) -> Vec<Ended> {
        drop(self.acceptor.take());
        for inbox in &self.inboxes {
            inbox.stop();
        }
        self.threads.drain(..).map(|thread| thread.join().unwrap()).collect()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop();
        let _ = self.broker.close(self.broker.last_time());
    }
}

struct Client {
    stream: TcpStream,
}

impl Client {
    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    fn expect(&mut self, reply: impl AsRef<[u8]>) {
        let mut got = vec![0; reply.as_ref().len()];
        self.stream.read_exact(&mut got).unwrap();
        assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(reply.as_ref()));
    }

    fn expect_end(&mut self) {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }

    /// Sends a request again and again until the server closes the connection. A reply can only be
    /// a refusal.
    fn expect_only_refusals(&mut self, request: &[u8]) {
        let mut reply = [0; b"OUT_OF_MEMORY\r\n".len()];
        while self.stream.write_all(request).is_ok() {
            match self.stream.read_exact(&mut reply) {
                Ok(()) => assert_eq!(&reply, b"OUT_OF_MEMORY\r\n"),
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("no reply, no end"),
                Err(_) => break,
            }
        }
    }

    fn end_sending(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Expects that nothing arrives for a while.
    fn expect_silence(&mut self) {
        self.stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let error = self.stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        self.stream.set_read_timeout(Some(LIMIT)).unwrap();
    }
}

pub(crate) fn put(body: &[u8]) -> Vec<u8> {
    let mut command = format!("put 0 0 60 {}\r\n", body.len()).into_bytes();
    command.extend(body);
    command.extend(b"\r\n");
    command
}

pub(crate) fn limits(change: impl FnOnce(&mut Limits)) -> Plan {
    let mut plan = Plan::default();
    change(&mut plan.limits);
    plan
}

#[test]
fn commands_are_answered_in_order() {
    let serving = Plan::default().serve();
    let mut client = serving.client();
    client.send(b"use a\r\nput 0 0 60 1\r\nx\r\nlist-tube-used\r\nwatch a\r\nreserve\r\n");
    client.expect("USING a\r\nINSERTED 1\r\nUSING a\r\nWATCHING 2\r\nRESERVED 1 1\r\nx\r\n");
}

#[test]
fn a_unix_socket_serves_too() {
    let serving = Plan { is_unix: true, ..Plan::default() }.serve();
    let Address::Unix(path) = &serving.address.address else { panic!("not a unix socket") };
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(b"list-tube-used\r\nquit\r\n").unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    assert_eq!(replies, "USING default\r\n");
}

#[test]
fn commands_may_come_byte_by_byte() {
    let serving = Plan::default().serve();
    let mut client = serving.client();
    for byte in put(b"hello") {
        client.send([byte]);
        wait::let_pass(
            Duration::from_millis(1),
            "the server reads each byte alone if it arrives alone",
        );
    }
    client.expect("INSERTED 1\r\n");
}

#[test]
fn a_large_body_passes_in_both_directions() {
    let size = 20 << 20;
    let serving = limits(|limits| limits.beanstalk_job_bytes = size).serve();
    let mut client = serving.client();
    let body: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
    client.send(put(&body));
    client.expect("INSERTED 1\r\n");
    client.send("reserve\r\n");
    client.expect(format!("RESERVED 1 {size}\r\n"));
    client.expect([body.as_slice(), b"\r\n"].concat());
}

#[test]
fn a_half_closed_connection_gets_its_replies_and_then_the_end() {
    let serving = Plan::default().serve();
    let mut client = serving.client();
    client.send(put(b"x"));
    client.end_sending();
    client.expect("INSERTED 1\r\n");
    client.expect_end();
    let mut cut_short = serving.client();
    cut_short.send(b"put 0 0 60 10\r\nabc");
    cut_short.end_sending();
    cut_short.expect_end();
}

#[test]
fn a_half_close_ends_the_waiting_and_runs_what_was_sent_behind() {
    let serving = Plan::default().serve();
    let mut client = serving.client();
    client.send(b"reserve\r\nlist-tube-used\r\n");
    client.expect_silence();
    client.send(b"reserve\r\nuse x\r\n");
    client.end_sending();
    client.expect("TIMED_OUT\r\nUSING default\r\nTIMED_OUT\r\nUSING x\r\n");
    client.expect_end();
}

#[test]
fn a_broken_connection_gives_its_job_to_the_next_waiter() {
    let serving = Plan::default().serve();
    let (mut holder, mut waiter) = (serving.client(), serving.client());
    holder.send(put(b"x"));
    holder.send("reserve\r\n");
    holder.expect("INSERTED 1\r\nRESERVED 1 1\r\nx\r\n");
    waiter.send("reserve\r\n");
    waiter.expect_silence();
    drop(holder);
    waiter.expect("RESERVED 1 1\r\nx\r\n");
}

#[test]
fn a_waiting_connection_that_breaks_is_noticed() {
    let serving = Plan::default().serve();
    let mut waiter = serving.client();
    waiter.send("reserve\r\nlist-tubes\r\n");
    waiter.expect_silence();
    let waiting = || serving.broker.turn(Millis(0)).totals().waiting_sessions;
    assert_eq!(waiting(), 1);
    drop(waiter);
    eventually("the session is closed", || waiting() == 0);
}

#[test]
fn replies_before_quit_arrive_although_more_was_sent() {
    let serving = Plan::default().serve();
    for _ in 0..20 {
        let mut client = serving.client();
        client.send("list-tube-used\r\nquit\r\n");
        client.send(vec![b'x'; 100_000]);
        client.expect("USING default\r\n");
        client.expect_end();
    }
}

#[test]
fn a_put_on_one_thread_wakes_a_waiter_on_another() {
    let serving = Plan { threads: 3, ..Plan::default() }.serve();
    let mut waiters: Vec<Client> = (0..6).map(|_| serving.client()).collect();
    let mut producer = serving.client();
    for waiter in &mut waiters {
        waiter.send("reserve\r\n");
    }
    let waiting = || serving.broker.turn(Millis(0)).totals().waiting_sessions;
    eventually("all of them wait", || waiting() == 6);
    for _ in 0..6 {
        producer.send(put(b"x"));
    }
    for waiter in &mut waiters {
        let mut line = [0; 17];
        waiter.stream.read_exact(&mut line).unwrap();
        assert!(line.starts_with(b"RESERVED "), "{line:?}");
    }
}

#[test]
fn a_job_is_due_on_time_although_the_machine_has_slept() {
    let serving = Plan { threads: 2, ..Plan::default() }.serve();
    let (mut producer, mut waiter) = (serving.client(), serving.client());
    waiter.send("reserve\r\n");
    producer.send("put 0 3600 60 1\r\nx\r\n");
    producer.expect("INSERTED 1\r\n");
    let reason = "the threads have looked after their connections: only the job's timer is left";
    wait::let_pass(Duration::from_millis(2500), reason);
    // After this sleep, one second of the job's delay is left.
    serving.sleep_for(Duration::from_millis(3_600_000 - 3500));
    waiter.expect("RESERVED 1 1\r\nx\r\n");
}

#[test]
fn timers_run_while_all_connections_are_idle() {
    let serving = Plan { threads: 2, ..Plan::default() }.serve();
    let (mut holder, mut waiter) = (serving.client(), serving.client());
    let started = Instant::now();
    holder.send("put 0 0 1 1\r\nx\r\nreserve\r\n");
    holder.expect("INSERTED 1\r\nRESERVED 1 1\r\nx\r\n");
    waiter.send("reserve\r\n");
    waiter.expect("RESERVED 1 1\r\nx\r\n");
    // The server's clock counts whole milliseconds. So the wait can be one millisecond too short.
    // The wait has no upper limit, because a slow machine can be late.
    let waited = started.elapsed();
    assert!(waited >= Duration::from_millis(999), "{waited:?}");
}

#[test]
fn a_server_without_work_for_long_serves_the_next_client() {
    let serving = Plan { threads: 2, ..Plan::default() }.serve();
    wait::let_pass(Duration::from_millis(300), "timers that were set for no purpose fire");
    for _ in 0..2 {
        let mut client = serving.client();
        client.send("list-tube-used\r\n");
        client.expect("USING default\r\n");
    }
}

#[test]
fn a_timer_for_nothing_does_not_lose_the_next_one() {
    let serving = Plan::default().serve();
    let (mut client, mut hasty) = (serving.client(), serving.client());
    client.send("put 0 2 60 1\r\nx\r\n");
    client.expect("INSERTED 1\r\n");
    // The first deadline ends with its connection. The second deadline must still apply.
    hasty.send("reserve-with-timeout 1\r\n");
    hasty.expect_silence();
    drop(hasty);
    client.send("reserve-with-timeout 10\r\n");
    client.expect("RESERVED 1 1\r\nx\r\n");
}

#[test]
fn many_large_replies_reach_a_reader_that_comes_late() {
    let serving = Plan::default().serve();
    let mut client = serving.client();
    let body = vec![b'b'; 60_000];
    client.send(put(&body));
    client.expect("INSERTED 1\r\n");
    let count = 500;
    client.send("peek 1\r\n".repeat(count) + "use last\r\n");
    wait::let_pass(
        Duration::from_millis(200),
        "replies fill the buffers of a reader that comes late",
    );
    for _ in 0..count {
        client.expect("FOUND 1 60000\r\n");
        client.expect([body.as_slice(), b"\r\n"].concat());
    }
    client.expect("USING last\r\n");
}

#[test]
fn a_reader_that_takes_nothing_is_cut_off_and_delays_no_other_client() {
    let serving = limits(|limits| limits.unsent_time = Duration::from_secs(1)).serve();
    let (mut stuck, mut other) = (serving.client(), serving.client());
    stuck.send(put(&vec![b'b'; 60_000]));
    stuck.expect("INSERTED 1\r\n");
    stuck.send("peek 1\r\n".repeat(1000));
    let sessions = || serving.broker.turn(Millis(0)).totals().sessions;
    let mut answered = 0;
    eventually("the stuck reader is cut off", || {
        other.send("list-tube-used\r\n");
        other.expect("USING default\r\n");
        answered += 1;
        sessions() == 1
    });
    // If the other client had to wait until the stuck client is disconnected, it would have only
    // one answer by then.
    assert!(answered > 1, "the other waited until the stuck reader was cut off");
    let mut rest = Vec::new();
    let _ = stuck.stream.read_to_end(&mut rest);
    assert!(rest.len() < 60_000 * 1000, "all replies came");
}

#[test]
fn a_reader_that_is_too_far_behind_is_cut_off_sooner() {
    let serving = limits(|limits| {
        limits.unsent_bytes = 100_000;
        // In addition to the limit, the server allows one body of the largest size.
        limits.gearman_packet_bytes = 8192;
        limits.kestrel_item_bytes = 8192;
    })
    .serve();
    let mut stuck = serving.client();
    stuck.send(put(&vec![b'b'; 60_000]));
    stuck.expect("INSERTED 1\r\n");
    stuck.send("peek 1\r\n".repeat(1000));
    let sessions = || serving.broker.turn(Millis(0)).totals().sessions;
    eventually("it is cut off", || sessions() == 0);
}

#[test]
fn of_many_slow_readers_one_is_cut_off() {
    let serving = limits(|limits| {
        limits.unsent_total_bytes = 3 << 19;
        limits.gearman_packet_bytes = 8192;
        limits.kestrel_item_bytes = 8192;
    })
    .serve();
    let (mut first, mut second) = (serving.client(), serving.client());
    first.send(put(&vec![b'b'; 60_000]));
    first.expect("INSERTED 1\r\n");
    let sessions = || serving.broker.turn(Millis(0)).totals().sessions;
    for reader in [&mut first, &mut second] {
        reader.send("peek 1\r\n".repeat(1000));
    }
    eventually("one is cut off", || {
        let is_cut_off = sessions() == 1;
        assert!(sessions() > 0, "both are cut off");
        is_cut_off
    });
}

#[test]
fn the_sender_of_the_largest_unfinished_command_is_cut_off() {
    let serving = limits(|limits| {
        limits.unfinished_bytes = 0;
        // The server always allows one incomplete body.
        limits.gearman_packet_bytes = 8192;
        limits.kestrel_item_bytes = 8192;
    })
    .serve();
    let (mut small, mut large) = (serving.client(), serving.client());
    let head = |bytes: usize| format!("put 0 0 60 {bytes}\r\n").into_bytes();
    large.send([head(65_535), vec![b'x'; 65_000]].concat());
    small.send([head(20_000), vec![b'x'; 19_000]].concat());
    let sessions = || serving.broker.turn(Millis(0)).totals().sessions;
    // One open session alone does not prove the disconnect, because at first the server has
    // accepted only one client. So also wait for the received bytes. The test cannot first wait for
    // two sessions, because the server may disconnect `large` before the test sees both.
    eventually("the larger one is cut off", || {
        let has_come = serving.broker.memory_usage().used_bytes > 10_000;
        has_come && sessions() == 1
    });
    small.send([vec![b'x'; 1000], b"\r\n".to_vec()].concat());
    small.expect("INSERTED ");
    assert_eq!(sessions(), 1);
    let mut next = serving.client();
    next.send([head(65_535), vec![b'x'; 65_000]].concat());
    let mut last = serving.client();
    last.send([head(20_000), vec![b'x'; 19_000]].concat());
    eventually("the larger one is cut off", || sessions() == 2);
    last.send([vec![b'x'; 1000], b"\r\n".to_vec()].concat());
    last.expect("INSERTED ");
}

#[test]
fn commands_that_were_held_back_behind_long_replies_are_all_answered() {
    let serving = Plan::default().serve();
    for ends_while_waiting in [false, true] {
        let mut client = serving.client();
        for number in 0..300 {
            client.send(format!("watch {number:0>150}\r\n"));
            client.expect(format!("WATCHING {}\r\n", number + 2));
        }
        // This input fits into one piece. Its replies have several megabytes, so the server must
        // stop in the middle of the piece.
        let lists = "list-tubes-watched\r\n".repeat(195);
        if ends_while_waiting {
            client.send("reserve\r\n");
        }
        client.send(lists);
        client.stream.shutdown(Shutdown::Write).unwrap();
        let mut replies = String::new();
        client.stream.read_to_string(&mut replies).unwrap();
        assert_eq!(replies.matches("OK 4").count(), 195);
    }
}

#[test]
fn beyond_the_limit_a_client_waits_until_another_goes() {
    let serving = limits(|limits| limits.connections = Some(2)).serve();
    let mut clients: Vec<Client> = (0..3).map(|_| serving.client()).collect();
    for client in &mut clients {
        client.send("list-tube-used\r\n");
    }
    clients[0].expect("USING default\r\n");
    clients[1].expect("USING default\r\n");
    clients[2].expect_silence();
    drop(clients.remove(0));
    clients[1].expect("USING default\r\n");
}

#[test]
fn a_stop_sends_the_replies_that_the_log_still_holds_back() {
    for _ in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(PosixDisk::new(folder.path()).unwrap());
        let mut serving = Plan { disk: Some(disk), ..Plan::default() }.serve();
        let mut client = serving.client();
        client.send(put(b"x").repeat(100));
        let puts = || serving.broker.turn(Millis(0)).totals().puts;
        eventually("the puts are under way", || puts() > 0);
        let executed = puts();
        assert_eq!(serving.stop(), [Ended::Stopped]);
        let mut replies = String::new();
        client.stream.read_to_string(&mut replies).unwrap();
        assert!(replies.matches("INSERTED ").count() as u64 >= executed, "{replies}");
    }
}

#[test]
fn a_stop_answers_kestrels_clients_that_wait() {
    // These are two thrift calls, each in a frame: `put("q", ["x"])` and `get("q", 2, 60000)`.
    let put = b"\0\0\0\x25\x80\x01\0\x01\0\0\0\x03put\0\0\0\x01\x0b\0\x01\0\0\0\x01q\x0f\0\x02\x0b\0\0\0\x01\0\0\0\x01x\0";
    let get = b"\0\0\0\x26\x80\x01\0\x01\0\0\0\x03get\0\0\0\x02\x0b\0\x01\0\0\0\x01q\x08\0\x02\0\0\0\x02\x08\0\x03\0\0\xea\x60\0";
    let cases = [
        (Protocol::Kestrel, b"get q/open/t=60000\r\nversion\r\n".to_vec(), &b"END\r\n"[..]),
        (Protocol::Kestrel, b"monitor q 60\r\n".to_vec(), b"END\r\n"),
        (Protocol::KestrelText, b"get q 60000\n".to_vec(), b"*\n"),
        (
            Protocol::KestrelThrift,
            [&put[..], get].concat(),
            b"\0\0\0\x01x\x0a\0\x02\0\0\0\0\0\0\0\0\0\0",
        ),
    ];
    for (protocol, sent, wanted) in cases {
        let mut serving = Plan { protocol, ..Plan::default() }.serve();
        let mut client = serving.client();
        client.send(sent);
        let waits = || {
            let turn = serving.broker.turn(Millis(0));
            turn.item_stats(b"q").is_some_and(|stats| stats.waiters == 1)
        };
        eventually("it waits", waits);
        assert_eq!(serving.stop(), [Ended::Stopped]);
        let mut replies = Vec::new();
        client.stream.read_to_end(&mut replies).unwrap();
        assert!(replies.ends_with(wanted), "{protocol:?}: {}", replies.escape_ascii());
    }
}

#[test]
fn a_failed_log_ends_the_threads_without_a_false_reply() {
    let disk = FaultDisk::new(1, 64 << 20);
    let plan = Plan { disk: Some(Arc::new(disk.clone())), threads: 2, ..Plan::default() };
    let mut serving = plan.serve();
    let mut client = serving.client();
    client.send(put(b"x"));
    client.expect("INSERTED 1\r\n");
    // All calls of the disk fail from now on. If only one call failed, it could be a call that
    // prepares a segment. The log retries such a call.
    disk.crash();
    client.expect_only_refusals(&put(b"y"));
    let threads = std::mem::take(&mut serving.threads);
    for thread in threads {
        assert_eq!(thread.join().unwrap(), Ended::LogFailed);
    }
    assert!(serving.broker.failure().is_some());
}

/// With one processor and without quiet clients, a group fills for up to three syncs while a thread has work.
#[test]
fn with_one_processor_a_group_fills_only_while_a_thread_has_work_and_no_client_is_quiet() {
    const SYNC: Duration = Duration::from_millis(100);
    const PUTS: usize = 150;
    let disk = FaultDisk::new(1, 64 << 20);
    let plan = Plan { disk: Some(Arc::new(disk.clone())), one_processor: true, ..Plan::default() };
    let serving = plan.serve();
    disk.set_sync_time(SYNC);
    let mut busy = serving.client();
    // It is busy from its first request on, because this is long. It pauses before each burst, so the log
    // learns not to wait for it.
    let mut waits_for_fill = || {
        busy.expect_silence();
        let begin = Instant::now();
        busy.send(put(b"x").repeat(PUTS));
        let (mut replies, mut part) = (0, [0; 4096]);
        while replies < PUTS {
            let count = busy.stream.read(&mut part).unwrap();
            replies += part[..count].split(|byte| *byte == b'\n').count() - 1;
        }
        // The log can need two groups for a burst, because turns are short beside a quiet client. During a fill,
        // it needs about three syncs.
        begin.elapsed() > SYNC * 5 / 2
    };
    // A busy machine can spoil some of the bursts.
    let mut mostly_waits = || (0..8).filter(|_| waits_for_fill()).take(3).count() == 3;
    assert!(!mostly_waits(), "no thread has work");
    serving.broker.begin_work();
    assert!(mostly_waits(), "another thread has work");
    let mut quiet = serving.client();
    quiet.send("list-tube-used\r\n");
    quiet.expect("USING default\r\n");
    assert!(!mostly_waits(), "a client is quiet");
}

#[test]
fn only_beside_busy_clients_a_quiet_one_does_not_wait_for_the_sync_of_others() {
    let disk = FaultDisk::new(1, 64 << 20);
    let plan = Plan { disk: Some(Arc::new(disk.clone())), ..Plan::default() };
    let serving = plan.serve();
    let (mut busy, mut quiet) = (serving.client(), serving.client());
    // The number of syncs that the second committer has begun, and whether a sync of the first one waits for
    // the next of them.
    let (seconds, waits) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(true)));
    let (tell, first_syncs) = mpsc::channel();
    let (same_seconds, same_waits) = (Arc::clone(&seconds), Arc::clone(&waits));
    disk.set_during_sync(move || match thread::current().name() {
        Some("log-commit") => {
            let before = same_seconds.load(Ordering::SeqCst);
            // Nobody listens at the end.
            let _ = tell.send(());
            eventually("the second committer syncs", || {
                !same_waits.load(Ordering::SeqCst) || same_seconds.load(Ordering::SeqCst) > before
            });
        }
        Some("log-commit-2") => {
            same_seconds.fetch_add(1, Ordering::SeqCst);
        }
        _ => {}
    });
    busy.send(put(b"x"));
    first_syncs.recv_timeout(LIMIT).unwrap();
    quiet.send(put(b"x"));
    quiet.expect_silence();
    assert_eq!(seconds.load(Ordering::SeqCst), 0, "both clients are quiet");
    waits.store(false, Ordering::SeqCst);
    busy.expect("INSERTED 1\r\n");
    quiet.expect("INSERTED 2\r\n");
    let long = put(&vec![b'x'; 40_000]);
    busy.send(long.clone());
    busy.expect("INSERTED 3\r\n");
    while first_syncs.try_recv().is_ok() {}
    waits.store(true, Ordering::SeqCst);
    busy.send(long);
    first_syncs.recv_timeout(LIMIT).unwrap();
    quiet.send(put(b"x"));
    quiet.expect("INSERTED 5\r\n");
    busy.expect("INSERTED 4\r\n");
    waits.store(false, Ordering::SeqCst);
    assert!(seconds.load(Ordering::SeqCst) > 0);
}
