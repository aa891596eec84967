//! Tests the positions that replies wait for, the state after a crash, and limits.

use std::sync::{Arc, Mutex};

use broker::policy::{Rule, Rules, Setting};
use broker::{
    Answer, Broker, Dialect, Event, INPUT_REPLIES_BYTES, Mailbox, Millis, Options, Outbox,
    SessionId,
};
use lineshaft_kestrel::{MemcacheSession, Server, ServerOptions};

use crate::world::{World, options};

const NOW: Millis = Millis(1_700_000_000_000);

#[derive(Default)]
struct Events(Mutex<Vec<(SessionId, Answer<Event>)>>);

impl Mailbox for Events {
    fn deliver(&self, session: SessionId, event: Answer<Event>) {
        self.0.lock().expect("no holder panics").push((session, event));
    }

    fn released(&self) {}

    fn alarm(&self, _at: Millis) {}
}

/// A broker with a log. The log writes only when a test calls `commit`.
struct Process {
    broker: Broker,
    server: Arc<Server>,
    events: Arc<Events>,
    mailbox: usize,
}

struct Client {
    session: MemcacheSession,
    outbox: Outbox,
}

impl Process {
    fn start(disk: &Arc<log::FaultDisk>) -> Self {
        let options_of_log = Options::without_threads(disk.clone(), log::Settings::default());
        let broker = Broker::open(options_of_log, NOW).expect("the disk can be read").0;
        let events = Arc::new(Events::default());
        let mailbox = broker.add_mailbox(events.clone());
        let (_, server) =
            World::over(testkit::dialect::world::World::memory(), options()).into_parts();
        Self { broker, server, events, mailbox }
    }

    fn connect(&self) -> Client {
        let mut turn = self.broker.turn(NOW);
        let session = MemcacheSession::new(self.server.clone(), &mut turn, self.mailbox);
        Client { session, outbox: Outbox::default() }
    }

    fn commit(&self) {
        self.broker.commit_step(NOW).expect("the disk works");
    }

    /// Sends bytes. Returns the output that can be sent at once.
    fn ask(&self, client: &mut Client, bytes: &str) -> String {
        let mut turn = self.broker.turn(NOW);
        let used = client.session.input(bytes.as_bytes(), &mut turn, &mut client.outbox).used;
        assert_eq!(used, bytes.len());
        drop(turn);
        self.sent(client)
    }

    /// Handles all events of the client. Returns the output that can then be sent.
    fn sent(&self, client: &mut Client) -> String {
        let id = client.session.id();
        let mut events = self.events.0.lock().expect("no holder panics");
        let own: Vec<_> = events.extract_if(.., |(session, _)| *session == id).collect();
        drop(events);
        for (_, event) in own {
            client.session.event(event, &mut self.broker.turn(NOW), &mut client.outbox);
        }
        let bytes = client.outbox.sendable(self.broker.released()).to_vec();
        client.outbox.advance(bytes.len());
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn value(data: &str) -> String {
    format!("VALUE q 0 {}\r\n{data}\r\nEND\r\n", data.len())
}

#[test]
fn replies_wait_until_their_facts_are_durable() {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let process = Process::start(&disk);
    let (mut producer, mut consumer) = (process.connect(), process.connect());
    assert_eq!(process.ask(&mut consumer, "get q/open/t=5000\r\n"), "");
    assert_eq!(process.ask(&mut producer, "set q 0 0 1\r\nx\r\n"), "");
    assert_eq!(process.sent(&mut consumer), "", "nor is it handed out before");
    process.commit();
    assert_eq!(process.sent(&mut producer), "STORED\r\n");
    assert_eq!(process.sent(&mut consumer), value("x"));
    // The reply waits until the end of the item is durable. The reply to a `get` without `open`
    // waits for the same reason.
    assert_eq!(process.ask(&mut consumer, "get q/close\r\n"), "");
    process.commit();
    assert_eq!(process.sent(&mut consumer), "END\r\n");
    assert_eq!(process.ask(&mut producer, "set q 0 0 1\r\ny\r\nget q\r\ndelete q\r\n"), "");
    process.commit();
    assert_eq!(process.sent(&mut producer), format!("STORED\r\n{}DELETED\r\n", value("y")));
}

#[test]
fn open_reads_are_back_in_their_order_after_a_crash() {
    let disk = Arc::new(log::FaultDisk::new(2, 64 << 20));
    let process = Process::start(&disk);
    let mut client = process.connect();
    for data in ["1", "2", "3", "4"] {
        process.ask(&mut client, &format!("set q 0 0 1\r\n{data}\r\n"));
    }
    process.ask(&mut client, "get q/open\r\nget q/open\r\nget q/open\r\nget q/close\r\n");
    process.commit();
    let taken = [value("1"), value("2"), value("3"), "END\r\n".to_owned()].concat();
    assert_eq!(process.sent(&mut client), ["STORED\r\n".repeat(4), taken].concat());
    drop((process, client));
    disk.crash();
    let process = Process::start(&disk);
    let mut client = process.connect();
    process.ask(&mut client, "get q\r\nget q\r\nget q\r\nget q\r\n");
    process.commit();
    assert_eq!(
        process.sent(&mut client),
        [value("2"), value("3"), value("4"), "END\r\n".to_owned()].concat()
    );
}

#[test]
fn children_and_the_status_survive_a_crash() {
    let disk = Arc::new(log::FaultDisk::new(3, 64 << 20));
    let process = Process::start(&disk);
    let mut client = process.connect();
    process.ask(&mut client, "get q+c\r\nset q 0 0 1\r\nx\r\nstatus readonly\r\n");
    process.commit();
    assert_eq!(process.sent(&mut client), "END\r\nSTORED\r\nEND\r\n");
    drop((process, client));
    disk.crash();
    let process = Process::start(&disk);
    let mut client = process.connect();
    assert_eq!(process.ask(&mut client, "status\r\n"), "READONLY\r\n");
    process.ask(&mut client, "get q+c\r\nstatus up\r\nset q 0 0 1\r\ny\r\nget q+c\r\n");
    process.commit();
    let item = |data| format!("VALUE q+c 0 1\r\n{data}\r\nEND\r\n");
    let wanted = format!("{}END\r\nSTORED\r\n{}", item("x"), item("y"));
    assert_eq!(process.sent(&mut client), wanted);
}

#[test]
fn a_shutdown_command_ends_the_connection() {
    let mut world = World::new();
    let client = world.connect_memcache();
    assert_eq!(world.say(client, "shutdown\r\nversion\r\n"), "");
    assert!(world.has_ended(client));
    assert_eq!(world.shutdowns(), 1);
    let client = world.connect_text();
    assert_eq!(world.say(client, "shutdown\nversion\n"), "+0\n:2.4.1\n");
    assert_eq!(world.shutdowns(), 2);
}

#[test]
fn connections_beyond_a_limit_are_refused_writes_or_reads_for_their_life() {
    let limits =
        ServerOptions { refuse_writes_above: Some(1), refuse_reads_above: Some(2), ..options() };
    let mut world = World::over(testkit::dialect::world::World::memory(), limits);
    let first = world.connect_memcache();
    assert_eq!(world.say(first, "set q 0 0 1\r\nx\r\n"), "STORED\r\n");
    let (second, third) = (world.connect_memcache(), world.connect_text());
    assert_eq!(world.say(third, "put q:\nx\n\n"), "-Server not available for operation setItem\n");
    assert_eq!(world.say(third, "get q\n"), "-Server not available for operation getItem\n");
    assert_eq!(world.say(second, "get q/peek\r\n"), value("x"));
    world.close(first);
    world.close(third);
    assert_eq!(world.say(second, "delete q\r\n"), "SERVER_ERROR\r\n");
    assert!(world.has_ended(second));
    assert_eq!(world.ask_once("delete q\r\n"), "DELETED\r\n");
}

#[test]
fn an_open_read_that_runs_out_while_its_holder_waits_goes_back() {
    let mut world = World::new();
    let short = Rules(vec![Rule::new(["q"], [Setting::OpenTimeout(Some(1_500))])]);
    let _ = world.broker.turn(world.now).set_policies(short);
    let (holder, other) = (world.connect_memcache(), world.connect_memcache());
    world.say(other, "set q 0 0 1\r\nx\r\nset q 0 0 1\r\ny\r\n");
    assert_eq!(world.say(holder, "get q/open\r\n"), value("x"));
    assert_eq!(world.say(holder, "get elsewhere/t=3000\r\n"), "");
    world.advance(1_499);
    assert_eq!(world.say(other, "get q/peek\r\n"), value("y"));
    world.advance(2);
    assert_eq!(world.say(other, "get q/open\r\n"), value("x"));
    world.advance(1_499);
    assert_eq!(world.say(holder, ""), "END\r\n");
    // The first close means the read that has timed out. So it does not finish an item.
    assert_eq!(world.say(holder, "get q/open\r\nget q/close\r\n"), value("y") + "END\r\n");
    assert_eq!(world.say(holder, "get q/close\r\nget q/close\r\n"), "END\r\nEND\r\n");
    world.close(other);
    assert_eq!(world.say(holder, "get q\r\nget q\r\n"), value("x") + "END\r\n");
}

#[test]
fn data_beyond_the_limit_ends_the_connection_and_nothing_is_reserved_for_it() {
    let mut world = World::new();
    let client = world.connect_memcache();
    assert_eq!(world.say(client, "set q 0 0 67108864\r\nx"), "");
    assert!(world.held_bytes(client) < 100);
    let client = world.connect_memcache();
    assert_eq!(world.say(client, "set q 0 0 67108865\r\nx"), "CLIENT_ERROR\r\n");
    assert!(world.has_ended(client));
    let client = world.connect_memcache();
    assert_eq!(world.say(client, &"x".repeat(64 * 1024)), "CLIENT_ERROR\r\n");
    assert!(world.has_ended(client));
    let client = world.connect_text();
    assert_eq!(world.say(client, &"x".repeat(64 * 1024)), "-Line too long.\n");
    assert!(world.has_ended(client));
}

#[test]
fn short_commands_with_long_answers_are_executed_in_portions_to_the_last() {
    let mut world = World::new();
    let client = world.connect_memcache();
    for number in 0..100 {
        world.say(client, &format!("set {number:0>200} 0 0 1\r\nx\r\n"));
    }
    for command in ["stats", "dump_stats", "dump_config"] {
        let answers = world.say(client, &format!("{command}\r\n").repeat(20));
        assert_eq!(answers.matches("END\r\n").count(), 20);
        assert!(answers.len() > 20 * 20_000, "{command}");
    }
    assert!(world.longest_answer(client) < INPUT_REPLIES_BYTES + 500_000);
    let text = world.connect_text();
    world.say(text, &format!("put q:\n{}\n\n", "x".repeat(10_000)));
    assert_eq!(world.say(text, &"peek q\n".repeat(50)).matches(":x").count(), 50);
    assert!(world.longest_answer(text) < INPUT_REPLIES_BYTES + 20_000);
}

#[test]
fn a_monitor_ends_when_its_items_are_many_bytes() {
    let mut world = World::new();
    let many = Rules(vec![Rule::new(["q"], [Setting::OpenMax(1_000_000)])]);
    let _ = world.broker.turn(world.now).set_policies(many);
    let (memcache, text) = (world.connect_memcache(), world.connect_text());
    let large = "x".repeat(1 << 20);
    for _ in 0..20 {
        world.say(text, &format!("put q:\n{large}\n\n"));
    }
    let items = world.say(memcache, "monitor q 1000\r\n");
    assert_eq!((items.matches("VALUE").count(), items.matches("END").count()), (8, 8 + 1));
    assert_eq!(world.say(text, "monitor q 1000\n").matches(":x").count(), 8);
    assert!(!world.waits(memcache) && !world.waits(text));
}

#[test]
fn a_long_list_is_stored_in_slices_and_answered_at_its_end() {
    let mut world = World::new();
    let client = world.connect_text();
    let list = format!("put q:\n{}\n", "x\n".repeat(100_000));
    assert_eq!(world.say(client, &format!("{list}flush q\n")), "+100000\n+0\n");
    let longest = world.broker.turn(world.now).longest_slice();
    assert!(longest < 5_000, "{longest}");
    assert_eq!(world.ask_once("get q\r\n"), "END\r\n");
}

#[test]
fn a_long_list_is_read_in_slices() {
    let mut world = World::new();
    let client = world.connect_text();
    let list = format!("put q:\n{}", "x\n".repeat(100_000));
    let (slices, _) = world.ask_in_slices(client, list.as_bytes());
    assert!(slices > 5, "{slices}");
    assert_eq!(world.say(client, "\n"), "+100000\n");
}

#[test]
fn a_large_item_of_a_list_is_copied_in_slices() {
    let mut world = World::new();
    let client = world.connect_text();
    let large = "x".repeat(8 << 20);
    world.send(client, format!("put q:\n{large}\ny\n").as_bytes());
    let (mut more, mut received) = world.ask_for_slice(client, b"\n");
    let mut slices = 1;
    while more {
        assert!(received.is_empty());
        (more, received) = world.ask_for_slice(client, b"");
        slices += 1;
    }
    assert_eq!(received, b"+2\n");
    assert!(slices > 5, "{slices}");
    assert_eq!(
        world.ask_once("get q\r\n"),
        format!("VALUE q 0 {}\r\n{large}\r\nEND\r\n", large.len())
    );
    assert_eq!(world.ask_once("get q\r\n"), "VALUE q 0 1\r\ny\r\nEND\r\n");
}

#[test]
fn the_bytes_of_a_list_are_counted_alike_however_they_are_cut() {
    let options = ServerOptions { item_bytes_max: 8, ..options() };
    let mut world = World::over(testkit::dialect::world::World::memory(), options);
    for (list, answer) in [
        ("put q:\r\nabc\r\ndef\r\n\r\n", "+2\n"),
        ("put q:\r\nabc\r\ndefg\r\n\r\n", "-Too many bytes in one list.\n"),
    ] {
        for piece in 1..=list.len() {
            let client = world.connect_text();
            for bytes in list.as_bytes().chunks(piece) {
                world.send(client, bytes);
            }
            let said = world.take_received(client);
            assert_eq!(String::from_utf8_lossy(&said), answer, "{piece}");
        }
    }
}

#[test]
fn a_monitor_ends_when_its_items_are_many() {
    let mut world = World::new();
    let many = Rules(vec![Rule::new(["q"], [Setting::OpenMax(1_000_000)])]);
    let _ = world.broker.turn(world.now).set_policies(many);
    let (memcache, text) = (world.connect_memcache(), world.connect_text());
    world.say(text, &format!("put q:\n{}\n", "x\n".repeat(2_500)));
    assert_eq!(world.say(memcache, "monitor q 1000\r\n").matches("VALUE").count(), 1_000);
    assert_eq!(world.say(text, "monitor q 1000\n").matches(":x").count(), 1_000);
    assert!(!world.waits(memcache) && !world.waits(text));
}

#[test]
fn a_queue_of_many_items_is_deleted_before_the_answer() {
    let mut world = World::new();
    let (text, memcache) = (world.connect_text(), world.connect_memcache());
    let many = format!("put q:\n{}\n", "x\n".repeat(5000));
    assert_eq!(world.say(text, &format!("{many}delete q\npeek q\n")), "+5000\n+0\n*\n");
    assert_eq!(world.say(text, &many), "+5000\n");
    assert_eq!(world.say(memcache, "delete q\r\nget q\r\n"), "DELETED\r\nEND\r\n");
}

#[test]
fn a_queue_has_no_more_children_than_it_may() {
    let mut world = World::new();
    let client = world.connect_memcache();
    for child in 0..256 {
        assert_eq!(world.say(client, &format!("get p+{child}\r\n")), "END\r\n");
    }
    assert_eq!(world.say(client, "get p+0\r\nget p\r\n"), "END\r\nEND\r\n");
    for refused in ["get p+more\r\n", "set p+more 0 0 1\r\nx\r\n"] {
        let client = world.connect_memcache();
        assert_eq!(world.say(client, refused), "CLIENT_ERROR\r\n");
    }
}

#[test]
fn an_alias_may_have_a_name_that_no_queue_is_made_with() {
    let mut world = World::new();
    let alias = Rule::new(["ops.alerts"], [Setting::Alias([Box::from(&b"q"[..])].into())]);
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![alias]));
    assert_eq!(world.ask_once("set ops.alerts 0 0 1\r\nx\r\n"), "STORED\r\n");
    assert_eq!(world.ask_once("get ops.alerts\r\nget q\r\n"), "END\r\n".to_owned() + &value("x"));
    assert_eq!(world.ask_once("set ops.other 0 0 1\r\nx\r\n"), "CLIENT_ERROR\r\n");
}

#[test]
fn a_name_with_a_carriage_return_is_refused_in_all_dialects() {
    let mut world = World::new();
    assert_eq!(world.ask_once("set a\rb 0 0 1\r\nx\r\n"), "CLIENT_ERROR\r\n");
    assert_eq!(world.ask_once("get a\rb\r\n"), "CLIENT_ERROR\r\n");
    let text = world.connect_text();
    assert_eq!(world.say(text, "put a\rb:\nx\n\n"), "-Illegal queue name.\n");
}

#[test]
fn a_name_that_is_given_again_is_not_printed_again() {
    let mut world = World::new();
    let client = world.connect_memcache();
    world.say(client, "set q 0 0 1\r\nx\r\n");
    let once = world.say(client, "dump_stats q none\r\n");
    assert_eq!(world.say(client, "dump_stats q none q q none\r\n"), once);
    let once = world.say(client, "dump_config q none\r\n");
    assert_eq!(world.say(client, "dump_config q none q\r\n"), once);
}

#[test]
fn statistics_count_what_was_done() {
    let mut world = World::new();
    let client = world.connect_memcache();
    world.say(client, "set q 0 0 1\r\nx\r\nget q/peek\r\nget q/open\r\nget q/close\r\nget q\r\n");
    world.say(client, "monitor q 1 1\r\n");
    world.advance(1_000);
    world.take_received(client);
    let other = world.connect_text();
    world.say(other, "put q:\n1\n2\n\nget q\nget q\n");
    let stats = world.say(client, "stats\r\n");
    let number = |key: &str| {
        let line = stats.lines().find(|line| line.starts_with(&format!("STAT {key} ")));
        let value = line.and_then(|line| line.rsplit(' ').next());
        value
            .and_then(|value| value.parse::<u64>().ok())
            .unwrap_or_else(|| panic!("{key}: {stats}"))
    };
    let wanted = [
        ("uptime", 1),
        ("time", 1_700_000_001),
        ("curr_items", 0),
        ("total_items", 3),
        ("curr_connections", 2),
        ("total_connections", 2),
        ("cmd_set", 3),
        ("cmd_get", 4),
        ("cmd_peek", 1),
        ("get_hits", 4),
        ("get_misses", 2),
        ("queue_q_total_items", 3),
        ("queue_q_open_transactions", 1),
        ("queue_q_transactions", 3),
        ("queue_q_canceled_transactions", 0),
    ];
    for (key, value) in wanted {
        assert_eq!(number(key), value, "{key}");
    }
    let counters = world.server().counters();
    assert_eq!(counters.cmd_monitor.get(), 1);
    assert_eq!(counters.cmd_monitor_get.get(), 1);
}
