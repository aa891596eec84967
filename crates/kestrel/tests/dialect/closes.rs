//! Tests of requests that close very many open reads.

use broker::policy::{Rule, Rules, Setting};

use crate::world::World;

/// A number of open reads whose end takes many slices of work.
const MANY: usize = 20_000;

/// The number of reads that a client opens at once.
const AT_ONCE: usize = 100;

fn start() -> World {
    let world = World::new();
    let many = Rules(vec![Rule::new(["q"], [Setting::OpenMax(1_000_000)])]);
    let _ = world.broker.turn(world.now).set_policies(many);
    world
}

fn put(world: &mut World, producer: usize, count: usize) {
    let list = format!("put q:\n{}\n", "x\n".repeat(count));
    assert_eq!(world.say(producer, &list), format!("+{count}\n"));
}

/// Opens many reads on a new memcache connection.
fn open_by_memcache(world: &mut World) -> usize {
    let (producer, client) = (world.connect_text(), world.connect_memcache());
    put(world, producer, MANY);
    for _ in 0..MANY / AT_ONCE {
        let items = world.say(client, &format!("monitor q 1000 {AT_ONCE}\r\n"));
        assert_eq!(items.matches("VALUE").count(), AT_ONCE);
    }
    client
}

/// Opens many reads on a new text connection. A second request would close those of the first one, so
/// all come from one monitor.
fn open_by_text(world: &mut World) -> usize {
    let (producer, client) = (world.connect_text(), world.connect_text());
    assert_eq!(world.say(client, "monitor q 1000\n"), "");
    for _ in 0..MANY / AT_ONCE {
        put(world, producer, AT_ONCE);
        assert_eq!(world.take_text(client).matches(":x").count(), AT_ONCE);
    }
    world.advance(1000);
    assert_eq!(world.take_text(client), "*\n");
    client
}

fn open_reads(world: &World) -> u64 {
    let turn = world.broker.turn(world.now);
    turn.item_stats(b"q").map_or(0, |stats| stats.open)
}

#[test]
fn very_many_open_reads_are_closed_in_slices_and_answered_at_their_end() {
    let memcache: fn(&mut World) -> usize = open_by_memcache;
    for (open, request, answer) in [
        (memcache, "confirm q 20000\r\n", "END\r\n"),
        (open_by_text, "confirm q 20000\n", "+20000\n"),
        (open_by_text, "get q\n", "*\n"),
        (open_by_text, "peek q\n", "*\n"),
        (open_by_text, "monitor q 0\n", "*\n"),
    ] {
        let mut world = start();
        let client = open(&mut world);
        assert_eq!(open_reads(&world), MANY as u64);
        let (slices, received) = world.ask_in_slices(client, request.as_bytes());
        assert_eq!(String::from_utf8_lossy(&received), answer);
        assert!(slices > 50, "{request}: {slices}");
        let longest = world.broker.turn(world.now).longest_slice();
        assert!(longest < 5_000, "{request}: {longest}");
        assert_eq!(open_reads(&world), 0);
        assert_eq!(world.held_bytes(client), 0);
    }
}

#[test]
fn the_other_reads_stay_open_and_are_closed_in_their_order() {
    let mut world = start();
    let client = open_by_memcache(&mut world);
    let before = world.held_bytes(client);
    assert_eq!(world.say(client, "confirm q 19990\r\nconfirm q 11\r\n"), "END\r\nERROR\r\n");
    assert_eq!(open_reads(&world), 10);
    assert!(world.held_bytes(client) < before / 100);
    assert_eq!(world.say(client, "get q/abort\r\nget q/close\r\n"), "END\r\nEND\r\n");
    assert_eq!(open_reads(&world), 8);
    assert_eq!(world.say(client, "confirm q 8\r\n"), "END\r\n");
    assert_eq!(world.held_bytes(client), 0);
    assert_eq!(world.ask_once("get q\r\nget q\r\n"), "VALUE q 0 1\r\nx\r\nEND\r\nEND\r\n");
}

#[test]
fn the_room_of_a_long_list_counts_as_memory_until_the_list_gives_it_back() {
    let mut world = start();
    let client = open_by_memcache(&mut world);
    let before = world.held_bytes(client);
    // The list keeps its room while it needs more than a quarter of it.
    assert_eq!(world.say(client, "confirm q 11000\r\n"), "END\r\n");
    assert_eq!(world.held_bytes(client), before);
    assert_eq!(world.say(client, "confirm q 8900\r\n"), "END\r\n");
    assert!(world.held_bytes(client) < before / 50);
}

#[test]
fn a_server_that_stops_does_not_say_that_all_reads_are_closed() {
    let memcache: fn(&mut World) -> usize = open_by_memcache;
    for (open, request, answer) in [
        (memcache, "confirm q 20000\r\n", "SERVER_ERROR\r\n"),
        (open_by_text, "confirm q 20000\n", "-The server stops before it is done.\n"),
    ] {
        let mut world = start();
        let client = open(&mut world);
        assert_eq!(world.ask_for_slice(client, request.as_bytes()), (true, Vec::new()));
        world.stop(client);
        assert_eq!(world.take_text(client), answer);
        assert!(world.has_ended(client));
    }
}
