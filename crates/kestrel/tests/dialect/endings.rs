//! Tests long commands during which the connection ends or the server stops.

use testkit::dialect::world::World as Inner;

use crate::world::{World, options};

/// A number of items that needs more than one slice of work.
const MANY: usize = 2500;

fn world_of_many() -> World {
    let mut world = World::new();
    let stored = world.ask_once(&"set q 0 0 1\r\nx\r\n".repeat(MANY));
    assert_eq!(stored.matches("STORED").count(), MANY);
    world
}

#[test]
fn reads_that_a_client_never_closes_count_as_memory_of_its_connection() {
    let mut world = World::new();
    let client = world.connect_memcache();
    let before = world.held_bytes(client);
    let names: Vec<String> = (0..100).map(|number| format!("{number:04000}")).collect();
    for name in &names {
        let commands = format!("set {name} 0 0 1\r\nx\r\nget {name}/open\r\ndelete {name}\r\n");
        world.ask(client, commands.as_bytes());
    }
    let held = world.held_bytes(client) - before;
    assert!((400_000..500_000).contains(&held), "{held} bytes");
    for name in &names {
        assert_eq!(world.ask(client, format!("get {name}/close\r\n").as_bytes()), b"END\r\n");
    }
    assert_eq!(world.held_bytes(client), before);
}

/// The limit of queues of which a connection can have open reads.
const OPEN_QUEUES_MAX: usize = 10_000;

#[test]
fn a_memcache_connection_has_open_reads_of_a_bounded_number_of_queues() {
    let mut world = World::new();
    let client = world.connect_memcache();
    for number in 0..OPEN_QUEUES_MAX {
        let name = format!("n{number}");
        let commands = format!("set {name} 0 0 1\r\nx\r\nget {name}/open\r\ndelete {name}\r\n");
        let answers = world.say(client, &commands);
        assert!(answers.starts_with("STORED\r\nVALUE"), "{number}: {answers}");
    }
    let value = "VALUE q 0 1\r\nx\r\nEND\r\n";
    let set = "set q 0 0 1\r\nx\r\n";
    let told = world.say(client, &format!("{set}monitor q 10\r\nget q\r\n"));
    assert_eq!(told, format!("STORED\r\nEND\r\n{value}"), "only open reads are limited");
    let told = world.say(client, &format!("{set}get n0/close\r\nget q/open\r\n"));
    assert_eq!(told, format!("STORED\r\nEND\r\n{value}"), "a closed read makes room");
    let told = world.say(client, &format!("{set}get q/open\r\nget q/close\r\nget q/close\r\n"));
    assert_eq!(told, format!("STORED\r\n{value}END\r\nEND\r\n"), "the queue is not a further one");
    let told = world.say(client, "set r 0 0 1\r\nx\r\nget r/open\r\n");
    assert_eq!(told, "STORED\r\nVALUE r 0 1\r\nx\r\nEND\r\n", "the place of q is free again");
    assert_eq!(world.say(client, &format!("{set}get q/open\r\n")), "STORED\r\nERROR\r\n");
    assert!(world.has_ended(client));
    assert_eq!(world.ask_once("get q\r\n"), value);
}

#[test]
fn a_text_connection_has_open_reads_of_a_bounded_number_of_queues() {
    let mut world = World::new();
    let client = world.connect_text();
    for number in 0..OPEN_QUEUES_MAX {
        let name = format!("n{number}");
        let commands = format!("put {name}:\nx\n\nget {name}\ndelete {name}\n");
        let answers = world.say(client, &commands);
        assert!(answers.starts_with("+1\n:x\n"), "{number}: {answers}");
    }
    let refusal = "-Too many queues with open transactions.\n";
    assert_eq!(world.say(client, "put q:\nx\n\nget q\n"), format!("+1\n{refusal}"));
    assert_eq!(world.say(client, "peek q\nmonitor q 10\n"), ":x\n*\n");
    assert_eq!(world.say(client, "confirm n0 1\nget q\n"), "+1\n:x\n");
}

#[test]
fn names_in_requests_that_are_not_done_count_as_memory() {
    let name = "n".repeat(8_000);
    let memcache: fn(&mut World) -> usize = World::connect_memcache;
    for (connect, begun) in [
        (memcache, format!("set {name} 0 0 10\r\n")),
        (memcache, format!("get {name}/t=1000\r\n")),
        (memcache, format!("monitor {name} 1\r\n")),
        (World::connect_text, format!("put {name}:\n")),
        (World::connect_text, format!("{name}:\n")),
        (World::connect_text, format!("get {name} 1000\n")),
    ] {
        let mut world = World::new();
        let client = connect(&mut world);
        assert_eq!(world.say(client, &begun), "");
        let held = world.held_bytes(client);
        assert!((8_000..9_000).contains(&held), "{held} bytes for {}", &begun[..8]);
    }
}

#[test]
fn a_name_that_is_too_long_for_a_queue_takes_no_memory() {
    let mut world = World::new();
    let client = world.connect_memcache();
    assert_eq!(world.say(client, &format!("set {} 0 0 3\r\nab", "n".repeat(65_000))), "");
    let held = world.held_bytes(client);
    assert!(held < 100, "{held}");
    assert_eq!(world.say(client, "c\r\n"), "CLIENT_ERROR\r\n");
    assert!(world.has_ended(client));
}

fn items(world: &mut World) -> u64 {
    let turn = world.broker.turn(world.now);
    turn.item_stats(b"q").map_or(0, |stats| stats.items)
}

#[test]
fn a_long_flush_is_answered_after_the_last_byte_with_what_is_behind_it() {
    for (flush, answer) in [
        ("flush_all\r\n", "Flushed all queues.\r\n"),
        ("flush q\r\n", "END\r\n"),
        ("delete q\r\n", "DELETED\r\n"),
    ] {
        let mut world = world_of_many();
        let client = world.connect_memcache();
        world.send_first(client, format!("{flush}version\r\nunfinished").as_bytes());
        world.half_close(client);
        let answer = format!("{answer}VERSION 2.4.1\r\n");
        assert_eq!(String::from_utf8_lossy(&world.take_received(client)), answer);
        assert!(world.has_ended(client));
        assert_eq!(items(&mut world), 0);
    }
    let mut world = world_of_many();
    let client = world.connect_text();
    world.send_first(client, b"flush q\nversion\nget q 1000\nversion\n");
    world.half_close(client);
    // The session does not execute the command after `get q 1000`. That request waits for an item,
    // and the client has closed its sending side, which counts as a disconnect.
    assert_eq!(world.take_received(client), b"+0\n:2.4.1\n");
    assert!(world.has_ended(client));
}

#[test]
fn a_long_list_behind_a_flush_is_stored_although_its_client_shuts_its_side() {
    let mut world = world_of_many();
    let client = world.connect_text();
    let list = format!("put r:\n{}\n", "x\n".repeat(50_000));
    world.send_first(client, format!("flush q\n{list}version\nunfinished").as_bytes());
    world.half_close(client);
    assert_eq!(world.take_text(client), "+0\n+50000\n:2.4.1\n");
    assert!(world.has_ended(client));
}

#[test]
fn a_long_flush_goes_on_when_its_client_is_gone() {
    let mut world = world_of_many();
    let client = world.connect_memcache();
    world.send_first(client, b"flush_all\r\n");
    assert!(world.waits(client));
    world.close(client);
    assert_eq!(items(&mut world), 0);
}

#[test]
fn a_server_that_stops_does_not_say_that_a_flush_is_done() {
    let memcache: fn(&mut World) -> usize = World::connect_memcache;
    for (connect, requests, answer) in [
        (memcache, "flush q\r\nversion\r\n", "SERVER_ERROR\r\n"),
        (memcache, "reload\r\nversion\r\n", "SERVER_ERROR\r\n"),
        (World::connect_text, "delete q\nquit\n", "-The server stops before it is done.\n"),
        (memcache, "get r/t=1000\r\nquit\r\n", "END\r\n"),
    ] {
        let mut world = world_of_many();
        let client = connect(&mut world);
        world.send_first(client, requests.as_bytes());
        world.stop(client);
        assert_eq!(String::from_utf8_lossy(&world.take_received(client)), answer);
    }
}

#[test]
fn a_server_that_stops_says_how_much_of_a_list_is_stored() {
    let mut world = World::over(Inner::with_slices(10), options());
    let client = world.connect_text();
    let list = format!("put q:\n{}\nversion\n", "x\n".repeat(500));
    assert_eq!(world.ask_for_slice(client, list.as_bytes()), (true, Vec::new()));
    let stored = items(&mut world);
    assert!((1..500).contains(&stored), "{stored}");
    world.stop(client);
    assert_eq!(world.take_text(client), format!("+{stored}\n"));
    assert!(world.has_ended(client));
    assert_eq!(items(&mut world), stored);
}

#[test]
fn a_get_that_does_not_wait_gets_what_stands_behind_many_expired_items() {
    for half_closes in [false, true] {
        let mut world = World::new();
        let (memcache, text) = (world.connect_memcache(), world.connect_text());
        for queue in ["q", "r"] {
            world.say(text, &format!("put {queue} 10:\n{}\n", "x\n".repeat(MANY)));
        }
        world.say(text, "put q:\nlives\n\n");
        world.now.0 += 11;
        world.send_first(memcache, b"get q\r\nget r\r\n");
        if half_closes {
            world.half_close(memcache);
        }
        world.deliver_events();
        let answers = String::from_utf8(world.take_received(memcache)).unwrap();
        assert_eq!(answers, "VALUE q 0 5\r\nlives\r\nEND\r\nEND\r\n");
        assert_eq!(world.has_ended(memcache), half_closes);
    }
}

#[test]
fn data_is_refused_before_it_is_gathered_if_there_is_no_memory_for_it() {
    let mut world = World::new();
    let client = world.connect_memcache();
    let used_bytes = world.broker.memory_usage().used_bytes;
    world.broker.set_memory_limit(Some(used_bytes + 500_000));
    assert_eq!(world.say(client, "set q 0 0 1000000\r\n"), "");
    let data = "x".repeat(1_000_000) + "\r";
    for piece in data.as_bytes().chunks(1_000) {
        assert_eq!(world.ask(client, piece), b"");
        assert_eq!(world.held_bytes(client), 0);
    }
    assert_eq!(world.say(client, "\nset q 0 0 1\r\nx\r\n"), "NOT_STORED\r\nSTORED\r\n");
    assert_eq!(world.broker.memory_usage().refused, 1);
    // All other errors have the same reply as without the memory limit.
    let broken = format!("set q x 0 1000000\r\n{}\r\n", "x".repeat(1_000_000));
    assert_eq!(world.say(client, &broken), "CLIENT_ERROR\r\n");
}

#[test]
fn a_list_of_text_is_refused_if_there_is_no_memory_for_it() {
    let mut world = World::new();
    let client = world.connect_text();
    let used_bytes = world.broker.memory_usage().used_bytes;
    world.broker.set_memory_limit(Some(used_bytes + 500_000));
    let long = format!("put q:\n{}\n\n", "x".repeat(1_000_000));
    assert_eq!(world.say(client, &long), "+0\n");
    assert_eq!(world.broker.memory_usage().refused, 1);
    assert_eq!(world.say(client, "put q:\nx\n\n"), "+1\n");
    assert_eq!(world.say(client, "get q\n"), ":x\n");
}
