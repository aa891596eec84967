//! Tests that run the rounds of an I/O thread one by one, in the thread of the test.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use broker::policy::{Rule, Rules, Setting, WhenFull};
use broker::{Broker, Millis, NewJob, Options};
use log::{FaultDisk, Settings};
use notation::address::Address;
use rustix::io::ioctl_fionread;
use rustls::ServerConfig;
use testkit::tls::Client;
use testkit::tls::certificates::Authority;

use super::account::Excess;
use super::{IoThread, Shared};
use crate::config::listener::Listener;
use crate::config::memory_limit::MemoryLimit;
use crate::config::protocol::Protocol;
use crate::config::{Config, Tls};
use crate::net::connection::{Connection, Held};
use crate::net::limits::{Admission, LiveLimits};
use crate::net::sessions::opener;
use crate::net::tls::Certificates;
use crate::process::clock::Clock;
use crate::process::controls::Controls;
use crate::process::reload::Reloader;
use crate::threads::mailbox::{Arrival, Inbox, OpenSession, Peer};
use crate::threads::turn_time::TurnTime;

mod cut_off_messages;
mod quiet_clients;
mod stored_bodies;

struct Rounds {
    thread: IoThread,
    inbox: Arc<Inbox>,
    listener: Arc<Listener>,
    open: Arc<OpenSession>,
}

impl Rounds {
    fn new() -> Rounds {
        Rounds::with(Broker::memory(broker::EngineSetup::default(), Millis(0)))
    }

    fn with(broker: Broker) -> Rounds {
        Rounds::configured(Protocol::Beanstalk, broker, &Config::default())
    }

    fn speaking(protocol: Protocol, broker: Broker) -> Rounds {
        Rounds::configured(protocol, broker, &Config::default())
    }

    fn configured(protocol: Protocol, broker: Broker, config: &Config) -> Rounds {
        let clock = Clock::start();
        let limits = Arc::new(LiveLimits::new(&config.limits, 1024, 128));
        let reloader =
            Reloader::new(config.clone(), None, limits.clone(), None, None, Arc::default());
        let controls =
            Controls { reloader: Arc::new(reloader), stop: Arc::default(), stopwatch: None };
        let kestrel = controls.kestrel_server(config, clock.now());
        let open = opener(protocol, config, clock.now(), &kestrel).unwrap();
        let inbox: Arc<Inbox> = Arc::default();
        let shared = Shared { broker, clock, limits, client_mix: Arc::default() };
        let address = Address::Unix("socket".into()).into();
        let listener = Arc::new(Listener::new(protocol, address, config));
        let thread = IoThread::new(shared, inbox.clone()).unwrap();
        Rounds { thread, inbox, listener, open }
    }

    /// Another I/O thread of the same server.
    fn beside(&self) -> Rounds {
        let inbox: Arc<Inbox> = Arc::default();
        let thread = IoThread::new(self.thread.shared.clone(), inbox.clone()).unwrap();
        let (listener, open) = (self.listener.clone(), self.open.clone());
        Rounds { thread, inbox, listener, open }
    }

    fn connect(&mut self) -> UnixStream {
        self.connect_with(None)
    }

    fn connect_with(&mut self, tls: Option<Arc<ServerConfig>>) -> UnixStream {
        let (client, socket) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        client.set_nonblocking(true).unwrap();
        let open = self.open.clone();
        let slot = self.thread.shared.limits.admit(Peer::Local, Protocol::Beanstalk).unwrap();
        let (socket, listener) = (socket.into(), self.listener.clone());
        let admission = Admission::Own(slot);
        self.inbox.arrive(Arrival { socket, admission, listener, open, tls });
        self.round();
        client
    }

    fn round(&mut self) {
        self.thread.sockets.look();
        self.thread.round();
    }

    /// Passes received bytes to the dialects, in a turn that has already reached its time limit.
    /// Returns the number of connections that it has held back.
    fn feed_batch_late(&mut self, beside_quiet: bool) -> usize {
        self.thread.sockets.look();
        self.thread.take_ready();
        self.thread.read();
        let broker = self.thread.shared.broker.clone();
        let mut turn = broker.turn(self.thread.shared.clock.now());
        self.thread.feed_batch(&mut turn, TurnTime::over(beside_quiet));
        self.thread.resumed.len()
    }

    /// The same, and then continues what was held back, in a late turn as well.
    fn feed_late(&mut self) {
        let held_back = self.feed_batch_late(false);
        let broker = self.thread.shared.broker.clone();
        let mut turn = broker.turn(self.thread.shared.clock.now());
        self.thread.feed_held_back(held_back, &mut turn, TurnTime::over(false));
    }

    fn finish(&mut self) {
        while self.thread.has_more() {
            self.round();
        }
    }
}

/// The bytes that the client has received.
fn received(client: &mut UnixStream) -> String {
    let mut bytes = vec![0; 256 * 1024];
    let count = client.read(&mut bytes).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn a_consumer_that_has_just_gone_gets_no_item() {
    let broker = Broker::memory(broker::EngineSetup::default(), Millis(0));
    let mut rounds = Rounds::speaking(Protocol::Kestrel, broker);
    let (mut consumer, mut producer) = (rounds.connect(), rounds.connect());
    // The client never reads the reply, so its end resets the connection.
    consumer.write_all(b"set other 0 0 1\r\nx\r\nget q/t=60000\r\n").unwrap();
    rounds.round();
    rounds.finish();
    drop(consumer);
    producer.write_all(b"set q 0 0 1\r\ny\r\n").unwrap();
    rounds.round();
    rounds.finish();
    assert_eq!(received(&mut producer), "STORED\r\n");
    producer.write_all(b"get q\r\n").unwrap();
    rounds.round();
    rounds.finish();
    assert_eq!(received(&mut producer), "VALUE q 0 1\r\ny\r\nEND\r\n");
}

#[test]
fn a_message_does_not_hide_a_request_that_comes_with_it() {
    let mut rounds = Rounds::new();
    let mut client = rounds.connect();
    // A new connection is read without an event.
    rounds.round();
    let inbox = rounds.inbox.clone();
    client.write_all(b"list-tube-used\r\n").unwrap();
    inbox.request_life_sign();
    let alarm = inbox.alarm();
    inbox.sleep(|| super::LONG, alarm, &mut rounds.thread.sockets);
    rounds.thread.round();
    assert_eq!(received(&mut client), "USING default\r\n");
}

#[test]
fn a_client_that_reads_no_replies_has_few_bytes_waiting() {
    let broker = Broker::memory(broker::EngineSetup::default(), Millis(0));
    let mut rounds = Rounds::speaking(Protocol::Gearman, broker);
    let mut client = rounds.connect();
    for number in 0..20_000 {
        let body = format!("f\0{number:064}\0");
        let mut packet = b"\0REQ\0\0\0\x12".to_vec();
        packet.extend((body.len() as u32).to_be_bytes());
        packet.extend(body.as_bytes());
        client.write_all(&packet).unwrap();
        if number % 100 == 0 {
            rounds.round();
            rounds.finish();
            received(&mut client);
        }
    }
    rounds.round();
    rounds.finish();
    received(&mut client);
    // Each list has 1.3 MB.
    client.write_all("show unique jobs\n".repeat(100).as_bytes()).unwrap();
    for _ in 0..1_000 {
        rounds.round();
    }
    let places: Vec<u32> = rounds.thread.places.values().copied().collect();
    assert_eq!(places.len(), 1);
    let unsent = rounds.thread.connections.get(places[0]).unwrap().outbox.len();
    assert!((1 << 20..(1 << 20) + (128 << 10)).contains(&unsent), "{unsent}");
    // A client that starts to read late still receives everything.
    let (mut lines, mut vain) = (0, 0);
    while lines < 100 * 20_001 && vain < 1_000 {
        let text = received(&mut client);
        vain = if text.is_empty() { vain + 1 } else { 0 };
        lines += text.matches('\n').count();
        rounds.round();
    }
    assert_eq!(lines, 100 * 20_001);
}

fn gearman_packet(kind: u32, contents: &[u8]) -> Vec<u8> {
    let lengths = [kind, contents.len() as u32].map(u32::to_be_bytes).concat();
    [&b"\0REQ"[..], &lengths, contents].concat()
}

#[test]
fn replies_do_not_pile_up_faster_than_a_client_reads_them() {
    const SUBMIT_JOB: u32 = 7;
    const CAN_DO: u32 = 1;
    const GRAB_JOB: u32 = 9;
    const WORK_DATA: u32 = 28;
    let largest = 64 << 10;
    let mut config = Config::default();
    config.limits.beanstalk_job_bytes = largest;
    config.limits.gearman_packet_bytes = largest;
    config.limits.kestrel_item_bytes = largest;
    config.limits.unsent_total_bytes = 1 << 20;
    let broker = Broker::memory(broker::EngineSetup::default(), Millis(0));
    let mut rounds = Rounds::configured(Protocol::Gearman, broker, &config);
    let mut clients: Vec<UnixStream> = (0..20).map(|_| rounds.connect()).collect();
    let mut worker = rounds.connect();
    // Each attachment to the job gets all of its news.
    for client in &mut clients {
        for _ in 0..50 {
            client.write_all(&gearman_packet(SUBMIT_JOB, b"f\0same\0x")).unwrap();
            rounds.round();
            rounds.finish();
            received(client);
        }
    }
    worker.write_all(&gearman_packet(CAN_DO, b"f")).unwrap();
    worker.write_all(&gearman_packet(GRAB_JOB, b"")).unwrap();
    rounds.round();
    rounds.finish();
    let assigned = received(&mut worker);
    let handle = &assigned[assigned.find("H:").unwrap()..];
    let handle = &handle[..handle.find('\0').unwrap()];
    let report = [handle.as_bytes(), b"\0", &[b'x'; 2000]].concat();
    let reports = gearman_packet(WORK_DATA, &report).repeat(8);
    let (mut unwritten, mut received_bytes, mut most) = (Vec::new(), 0, 0);
    for _ in 0..200 {
        if unwritten.is_empty() {
            unwritten.clone_from(&reports);
        }
        let written = worker.write(&unwritten).unwrap_or(0);
        unwritten.drain(..written);
        rounds.round();
        for client in &mut clients {
            received_bytes += received(client).len();
        }
        let places: Vec<u32> = rounds.thread.places.values().copied().collect();
        let unsent = |place: &u32| rounds.thread.connections.get(*place).unwrap().outbox.len();
        most = most.max(places.iter().map(unsent).sum());
    }
    assert!(most < 8 << 20, "{most} bytes wait for clients that read all the time");
    assert!(received_bytes > 20 << 20, "{received_bytes}");
}

/// Lets the client watch 10,000 tubes. From then on, each of its `reserve` commands checks all
/// these tubes.
fn watch_many(rounds: &mut Rounds, client: &mut UnixStream) {
    let mut tubes = 1;
    while tubes < 10_000 {
        let more = (tubes..10_000).take(1_000);
        let watches: Vec<String> = more.map(|tube| format!("watch {tube}\r\n")).collect();
        tubes += watches.len();
        client.write_all(watches.concat().as_bytes()).unwrap();
        let (mut replies, last) = (String::new(), format!("WATCHING {tubes}\r\n"));
        for _ in 0..100 {
            rounds.round();
            rounds.finish();
            replies += &received(client);
        }
        assert!(replies.ends_with(&last), "{replies}");
    }
}

#[test]
fn dear_commands_of_one_round_leave_turns_to_others() {
    let mut rounds = Rounds::new();
    let (mut greedy, mut other) = (rounds.connect(), rounds.connect());
    watch_many(&mut rounds, &mut greedy);
    // Each of these commands checks all watched tubes. One round reads all these commands.
    let count = 2_500;
    greedy.write_all("reserve-with-timeout 0\r\n".repeat(count).as_bytes()).unwrap();
    rounds.round();
    let mut replies = received(&mut greedy);
    assert!(rounds.thread.has_more());

    other.write_all(b"list-tube-used\r\n").unwrap();
    rounds.round();
    assert_eq!(received(&mut other), "USING default\r\n");
    replies += &received(&mut greedy);
    assert!(replies.len() < 11 * count, "all was executed before another's command");
    while rounds.thread.has_more() {
        rounds.round();
        replies += &received(&mut greedy);
    }
    assert!(replies == "TIMED_OUT\r\n".repeat(count), "{} bytes", replies.len());
}

#[test]
fn commands_that_were_held_back_wait_for_a_congested_log() {
    let clock = Clock::start();
    let disk = Arc::new(FaultDisk::new(1, 64 << 20));
    let options = Options::without_threads(disk, Settings::default());
    let broker = Broker::open(options, clock.now()).unwrap().0;
    let mut rounds = Rounds::with(broker.clone());
    let mut client = rounds.connect();
    let count = 1_000;
    client.write_all(b"list-tube-used\r\n".repeat(count).as_slice()).unwrap();
    rounds.feed_late();
    // Use up the job ids that the log has reserved. Then the thread must wait for the log.
    while !broker.congested() {
        broker.turn(clock.now()).skip_job_id();
    }
    rounds.round();
    let mut replies = received(&mut client);
    assert!(replies.len() < 15 * count, "all was executed at once");
    // A turn for another reason does not continue held-back commands.
    let _newcomer = rounds.connect();
    rounds.round();
    assert_eq!(received(&mut client), "");
    assert!(!rounds.thread.has_more(), "the thread spins");
    broker.commit_step(clock.now()).unwrap();
    assert!(rounds.inbox.has_messages(rounds.inbox.alarm()), "the thread is not woken");
    rounds.round();
    rounds.finish();
    replies += &received(&mut client);
    assert_eq!(replies, "USING default\r\n".repeat(count));
}

#[test]
fn long_requests_rest_while_the_log_has_much_to_write() {
    let clock = Clock::start();
    let disk = Arc::new(FaultDisk::new(1, 64 << 20));
    let options = Options::without_threads(disk, Settings::default());
    let broker = Broker::open(options, clock.now()).unwrap().0;
    let mut rounds = Rounds::with(broker.clone());
    let (mut greedy, mut other) = (rounds.connect(), rounds.connect());
    watch_many(&mut rounds, &mut greedy);
    let count = 2_500;
    greedy.write_all("reserve-with-timeout 0\r\n".repeat(count).as_bytes()).unwrap();
    rounds.round();
    let mut replies = received(&mut greedy);

    let others = broker.add_mailbox(Arc::new(Inbox::default()));
    let mut turn = broker.turn(clock.now());
    let session = turn.open_session(others);
    turn.caller(session).use_queue(b"elsewhere");
    while !broker.has_backlog() {
        turn.caller(session).put(NewJob::default(), vec![b'x'; 10_000].into()).value.unwrap();
    }
    drop(turn);
    assert!(!broker.congested());
    // Each round does at least one piece of work.
    rounds.round();
    replies += &received(&mut greedy);
    assert!(!rounds.thread.has_more(), "the thread spins");
    other.write_all(b"list-tube-used\r\n").unwrap();
    rounds.round();
    assert_eq!(received(&mut other), "USING default\r\n");
    assert_eq!(received(&mut greedy), "", "a turn for another reason is none for what rests");
    assert!(replies.len() < 11 * count, "nothing rested");

    broker.commit_step(clock.now()).unwrap();
    assert!(rounds.inbox.has_messages(rounds.inbox.alarm()), "the thread is not woken");
    rounds.round();
    while rounds.thread.has_more() {
        rounds.round();
        replies += &received(&mut greedy);
    }
    replies += &received(&mut greedy);
    assert!(replies == "TIMED_OUT\r\n".repeat(count), "{} bytes", replies.len());
}

#[test]
fn commands_behind_a_wait_that_ends_wait_for_a_congested_log() {
    let clock = Clock::start();
    let disk = Arc::new(FaultDisk::new(1, 64 << 20));
    let options = Options::without_threads(disk, Settings::default());
    let broker = Broker::open(options, clock.now()).unwrap().0;
    let mut rounds = Rounds::with(broker.clone());
    let mut clients: Vec<UnixStream> = (0..3).map(|_| rounds.connect()).collect();
    for client in &mut clients {
        client.write_all(b"reserve\r\nput 0 0 60 1\r\ny\r\n").unwrap();
    }
    rounds.round();
    rounds.finish();
    while !broker.congested() {
        broker.turn(clock.now()).skip_job_id();
    }
    let others = broker.add_mailbox(Arc::new(Inbox::default()));
    let mut turn = broker.turn(clock.now());
    let session = turn.open_session(others);
    for _ in &clients {
        turn.caller(session).put(NewJob::default(), b"x"[..].into()).value.unwrap();
    }
    drop(turn);
    let puts = || broker.turn(clock.now()).totals().puts;
    rounds.round();
    rounds.finish();
    assert_eq!(puts(), 3, "the end of the wait began what was sent behind it");
    broker.commit_step(clock.now()).unwrap();
    rounds.round();
    rounds.finish();
    assert_eq!(puts(), 6);
    broker.commit_step(clock.now()).unwrap();
    rounds.round();
    for client in &mut clients {
        let replies = received(client);
        assert!(replies.starts_with("RESERVED "), "{replies}");
        assert!(replies.contains("\r\nx\r\nINSERTED "), "{replies}");
    }
}

#[test]
fn events_that_arrive_while_a_thread_sends_wait_for_its_next_round() {
    let broker = Broker::memory(broker::EngineSetup::default(), Millis(0));
    let mut rounds = Rounds::with(broker.clone());
    let mut client = rounds.connect();
    client.write_all(b"reserve\r\n").unwrap();
    rounds.round();
    rounds.finish();
    let others = broker.add_mailbox(Arc::new(Inbox::default()));
    let mut turn = broker.turn(rounds.thread.shared.clock.now());
    let session = turn.open_session(others);
    turn.caller(session).put(NewJob::default(), b"x"[..].into()).value.unwrap();
    drop(turn);
    // Call the function that a round calls at its end.
    rounds.inbox.take_events(&mut rounds.thread.events);
    assert!(rounds.thread.has_more(), "the thread sleeps");
    rounds.finish();
    assert_eq!(received(&mut client), "RESERVED 1 1\r\nx\r\n");
}

#[test]
fn a_turn_that_lasts_begins_no_commands_of_further_connections() {
    let mut rounds = Rounds::new();
    let mut clients: Vec<UnixStream> = (0..10).map(|_| rounds.connect()).collect();
    let count = 100;
    for client in &mut clients {
        client.write_all("list-tube-used\r\n".repeat(count).as_bytes()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
    }
    rounds.feed_late();
    let has_replies = |rounds: &Rounds| {
        let with_replies = |connection: &&Connection| !connection.outbox.is_empty();
        rounds.thread.connections.iter().filter(with_replies).count()
    };
    assert_eq!(has_replies(&rounds), 2, "two of them have sent 4 KiB together");
    rounds.finish();
    for client in &mut clients {
        assert_eq!(received(client), "USING default\r\n".repeat(count));
    }
}

#[test]
fn short_inputs_of_a_round_come_before_long_inputs() {
    let broker = Broker::memory(broker::EngineSetup::default(), Millis(0));
    let mut rounds = Rounds::with(broker);
    let mut clients: Vec<UnixStream> = (0..10).map(|_| rounds.connect()).collect();
    let (long, short) = clients.split_at_mut(9);
    for client in &mut *long {
        client.write_all("put 0 0 60 1\r\nl\r\n".repeat(100).as_bytes()).unwrap();
    }
    short[0].write_all(b"put 0 0 60 1\r\ns\r\nreserve\r\n").unwrap();
    rounds.round();
    let reply = received(&mut short[0]);
    assert!(reply.ends_with(" 1\r\ns\r\n"), "its put was not the first: {reply:?}");
    assert!(
        received(&mut long[0]).starts_with("INSERTED"),
        "the same round goes on with the first"
    );
    rounds.finish();
    // The round after that has long inputs only.
    for client in &mut *long {
        received(client);
        client.write_all("peek 1\r\n".repeat(200).as_bytes()).unwrap();
    }
    rounds.round();
    assert!(!received(&mut long[0]).is_empty());
}

#[test]
fn a_long_input_advances_beside_short_inputs_of_each_round() {
    let broker = Broker::memory(broker::EngineSetup::default(), Millis(0));
    let mut rounds = Rounds::with(broker);
    let (mut long, mut short) = (rounds.connect(), rounds.connect());
    watch_many(&mut rounds, &mut long);
    let count = 1_000;
    long.write_all("reserve-with-timeout 0\r\n".repeat(count).as_bytes()).unwrap();
    let mut replies = String::new();
    while replies.len() < "TIMED_OUT\r\n".len() * count {
        short.write_all(b"list-tube-used\r\n").unwrap();
        rounds.round();
        assert_eq!(received(&mut short), "USING default\r\n");
        let more = received(&mut long);
        assert!(!more.is_empty(), "a round did nothing of the long input");
        replies += &more;
    }
    assert_eq!(replies, "TIMED_OUT\r\n".repeat(count));
}

#[test]
fn of_many_slow_readers_only_the_slowest_is_cut_off() {
    let mut rounds = Rounds::new();
    let _clients = [rounds.connect(), rounds.connect(), rounds.connect()];
    let places = rounds.thread.connections.all();
    for (place, stuck_bytes) in places.iter().zip([10, 30, 20]) {
        let held = Held { stuck_bytes, ..Held::default() };
        rounds.thread.account.change(Held::default(), held);
        rounds.thread.connections.get(*place).unwrap().counted = held;
    }
    rounds.thread.cut_off(30, Excess::Stuck);
    let is_cut_off = |place: &u32| rounds.thread.connections.get(*place).unwrap().in_leaving;
    assert_eq!(places.iter().map(is_cut_off).collect::<Vec<_>>(), [false, true, false]);
}

/// A configuration in which all incomplete commands together may have about 100,000 bytes.
fn few_unfinished_bytes() -> Config {
    let mut config = Config::default();
    config.limits.unfinished_bytes = 0;
    config.limits.memory = MemoryLimit::Off;
    config.limits.beanstalk_job_bytes = 100_000;
    config.limits.gearman_packet_bytes = 100_000;
    config.limits.kestrel_item_bytes = 100_000;
    config
}

#[test]
fn unfinished_commands_of_all_threads_are_bounded_together() {
    let config = few_unfinished_bytes();
    let mut rounds = Rounds::configured(
        Protocol::Beanstalk,
        Broker::memory(broker::EngineSetup::default(), Millis(0)),
        &config,
    );
    let mut clients = [rounds.connect(), rounds.connect()];
    let halves = |rounds: &mut Rounds, client: &mut UnixStream, bytes: usize| {
        client.write_all(format!("put 0 0 60 90000\r\n{}", "x".repeat(bytes)).as_bytes()).unwrap();
        rounds.round();
        rounds.finish();
    };
    halves(&mut rounds, &mut clients[0], 40_000);
    halves(&mut rounds, &mut clients[1], 10_000);
    let limits = rounds.thread.shared.limits.clone();
    assert_eq!(limits.open(), 2);
    assert!(limits.held.unfinished_bytes() >= 50_000);
    let used_bytes = rounds.thread.shared.broker.memory_usage().used_bytes;
    assert!(used_bytes >= 50_000, "{used_bytes}");
    // Another thread holds far more bytes. So that thread must disconnect its clients first.
    let other: Arc<Inbox> = Arc::default();
    limits.held.enter(&other);
    limits.held.add(900_000, 0, 0);
    clients[1].write_all(&[b'x'; 1000]).unwrap();
    rounds.round();
    rounds.finish();
    assert!(other.take_excess(), "it is asked to look");
    assert!(!rounds.inbox.take_excess(), "and no other");
    assert_eq!(limits.open(), 2, "clients stay if those of another thread hold the bytes");
    // The other thread has disconnected its clients, and now holds about as many bytes as this
    // thread.
    limits.held.add(-820_000, 0, 0);
    rounds.inbox.notify_excess();
    assert!(rounds.inbox.has_messages(rounds.inbox.alarm()), "the thread is not woken");
    rounds.round();
    rounds.finish();
    assert_eq!(limits.open(), 1, "the one that holds most is cut off, and no other");
    assert!(received(&mut clients[1]).is_empty());
    let end = clients[0].read(&mut [0; 10]).map_err(|error| error.kind());
    assert_ne!(end, Err(std::io::ErrorKind::WouldBlock), "it is still open");
    drop(clients);
    rounds.round();
    rounds.finish();
    assert_eq!(limits.held.unfinished_bytes(), 80_000);
}

#[test]
fn puts_that_wait_for_room_are_bounded_by_the_memory_and_not_as_unfinished_commands() {
    let config = few_unfinished_bytes();
    let broker = Broker::memory(broker::EngineSetup::default(), Millis(0));
    let settings = [
        Setting::JobsMax(Some(1)),
        Setting::WhenFull(WhenFull::Block),
        Setting::BlockFor(3_600_000),
    ];
    let rules = Rules(vec![Rule::new(["default"], settings)]);
    let _ = broker.turn(Millis(0)).set_policies(rules);
    let mut rounds = Rounds::configured(Protocol::Beanstalk, broker, &config);
    let say = |rounds: &mut Rounds, client: &mut UnixStream, bytes: &str| {
        client.write_all(bytes.as_bytes()).unwrap();
        rounds.round();
        rounds.finish();
        received(client)
    };
    let mut worker = rounds.connect();
    assert_eq!(say(&mut rounds, &mut worker, "put 0 0 60 1\r\nx\r\n"), "INSERTED 1\r\n");
    let (head, body) = ("put 0 0 60 60000\r\n", "x".repeat(60_000));
    let mut producers = [(); 4].map(|()| rounds.connect());
    for producer in &mut producers {
        assert_eq!(say(&mut rounds, producer, &format!("{head}{body}\r\n")), "", "it waits");
    }
    let shared = rounds.thread.shared.clone();
    let used_bytes = shared.broker.memory_usage().used_bytes;
    assert!(used_bytes > 240_000, "{used_bytes}");
    assert!(used_bytes > shared.limits.unfinished_bytes(), "they are more than commands may be");
    assert_eq!(shared.limits.held.unfinished_bytes(), 0);
    assert_eq!(shared.limits.open(), 5, "nobody is cut off");
    // The server has admitted the body of this put, but there is no memory for it when it would wait.
    let mut late = rounds.connect();
    assert_eq!(say(&mut rounds, &mut late, head), "");
    shared.broker.set_memory_limit(Some(used_bytes));
    assert_eq!(say(&mut rounds, &mut late, &format!("{body}\r\n")), "OUT_OF_MEMORY\r\n");
    shared.broker.set_memory_limit(None);
    // The first put in the line gets the room.
    assert_eq!(say(&mut rounds, &mut worker, "delete 1\r\n"), "DELETED\r\n");
    for _ in 0..3 {
        rounds.round();
    }
    let answers = producers.each_mut().map(received);
    assert!(answers[0].starts_with("INSERTED "), "{answers:?}");
    assert!(answers[1..].iter().all(String::is_empty), "{answers:?}");
}

#[test]
fn a_round_reads_little_from_clients_that_have_their_last_reply() {
    let mut rounds = Rounds::new();
    let mut clients: Vec<UnixStream> = (0..20).map(|_| rounds.connect()).collect();
    for client in &mut clients {
        client.write_all(b"quit\r\n").unwrap();
    }
    rounds.round();
    rounds.finish();
    for client in &mut clients {
        while client.write(&[b'x'; 4096]).is_ok_and(|count| count > 0) {}
    }
    let unread_bytes = |rounds: &Rounds| -> u64 {
        let connections = rounds.thread.connections.iter();
        connections.map(|connection| ioctl_fionread(connection.socket()).unwrap()).sum()
    };
    let before = unread_bytes(&rounds);
    rounds.round();
    let read = before - unread_bytes(&rounds);
    assert!((1..=super::ROUND_BYTES as u64).contains(&read), "{read} of {before} bytes");
    for client in &clients {
        client.shutdown(Shutdown::Write).unwrap();
    }
    rounds.round();
    rounds.finish();
    assert_eq!(rounds.thread.shared.limits.open(), 0);
}

#[test]
fn handshakes_take_turns_with_commands() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority").unwrap();
    let identity = authority.issue("server").unwrap();
    let settings =
        Tls { certificate: Some(identity.certificate), key: Some(identity.key), ..Tls::default() };
    let certificates = Certificates::load(&settings).unwrap();
    let mut rounds = Rounds::new();
    let mut quiet = rounds.connect();
    let mut strangers: Vec<UnixStream> =
        (0..20).map(|_| rounds.connect_with(Some(certificates.current()))).collect();
    for stranger in &mut strangers {
        let client = Client::new(&authority.file, None).unwrap();
        client.connection().unwrap().write_tls(stranger).unwrap();
    }
    let mut answered = 0;
    for _ in 0..5 {
        quiet.write_all(b"list-tube-used\r\n").unwrap();
        rounds.round();
        assert_eq!(received(&mut quiet), "USING default\r\n");
        let so_far = answered;
        answered += strangers.iter_mut().map(received).filter(|answer| !answer.is_empty()).count();
        assert!(answered <= so_far + 1, "{answered} handshakes, {so_far} before");
    }
    for _ in 0..100 {
        rounds.round();
        answered += strangers.iter_mut().map(received).filter(|answer| !answer.is_empty()).count();
    }
    assert_eq!(answered, strangers.len());
}

#[test]
fn a_reader_that_stays_too_far_behind_is_cut_off_although_it_reads() {
    let mut rounds = Rounds::new();
    let mut client = rounds.connect();
    let body = "b".repeat(60_000);
    client.write_all(format!("put 0 0 60 60000\r\n{body}\r\n").as_bytes()).unwrap();
    rounds.round();
    rounds.finish();
    client.write_all("peek 1\r\n".repeat(100).as_bytes()).unwrap();
    rounds.round();
    rounds.finish();
    let [place] = rounds.thread.connections.all()[..] else { panic!("not one") };
    let connection = rounds.thread.connections.get(place).unwrap();
    assert!(connection.is_stuck());
    // At first, the client catches up twice. Later, the server adds replies faster than the client
    // reads.
    for (unsent_bytes, falls_behind) in
        [(900, false), (800, false), (90, false), (400, false), (500, true)]
    {
        assert_eq!(connection.falls_behind(unsent_bytes, 100), falls_behind, "{unsent_bytes}");
    }
}
