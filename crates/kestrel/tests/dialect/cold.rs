//! Tests requests that need a cold item. A load ends only when a test calls `load`, so other clients
//! can act during the load.

use testkit::dialect::world;

use crate::world::{World, options, with_log};

const ITEMS: u64 = 4;

/// A world with items `a` to `d` in `q`, and a client of each protocol.
fn filled(world: world::World) -> (World, [usize; 2]) {
    let mut world = World::over(world, options());
    let clients = [world.connect_memcache(), world.connect_text()];
    for item in ["a", "b", "c", "d"] {
        let set = format!("set q 0 0 1\r\n{item}\r\n");
        assert_eq!(world.say(clients[0], &set), "STORED\r\n");
    }
    (world, clients)
}

/// A world in which these items are cold.
fn cold() -> (World, [usize; 2]) {
    let (mut world, clients) = filled(world::World::cold(with_log()));
    assert_eq!(world.broker.cold_jobs(), ITEMS);
    world.hold_loads();
    (world, clients)
}

/// Loads the items that clients need, and returns the replies of this client.
fn after_load(world: &mut World, client: usize) -> String {
    world.load();
    // A flush continues after a load, or a moment later.
    world.advance(100);
    world.load();
    world.broker.turn(world.now).check_invariants();
    world.take_text(client)
}

fn value(item: &str) -> String {
    format!("VALUE q 0 1\r\n{item}\r\nEND\r\n")
}

#[test]
fn requests_behind_one_that_needs_a_cold_item_wait_with_it() {
    let a = value("a");
    let memcache = [
        ("get q", &a[..]),
        ("get q/t=500", &a),
        ("get q/peek", &a),
        ("get q/open", &a),
        ("get q/close/open", &a),
        ("get q/peek/t=500", &a),
        ("monitor q 1 2", "VALUE q 0 1\r\na\r\nEND\r\nVALUE q 0 1\r\nb\r\nEND\r\n"),
        ("flush q", "END\r\n"),
        ("flush_all", "Flushed all queues.\r\n"),
        ("delete q", "DELETED\r\n"),
    ];
    let text = [
        ("get q", ":a\n"),
        ("get q 500", ":a\n"),
        ("peek q", ":a\n"),
        ("flush q", "+"),
        ("delete q", "+"),
    ];
    let rest = "set q 0 0 1\r\nx\r\nget q/peek\r\nget q/abort\r\n";
    let memcache = memcache.map(|(request, reply)| (0, format!("{request}\r\n{rest}"), reply));
    let rest = "put q:\nx\n\npeek q\n";
    let text = text.map(|(request, reply)| (1, format!("{request}\n{rest}"), reply));
    for (client, sent, reply) in memcache.into_iter().chain(text) {
        let (mut resident, clients) = filled(world::World::sealing(with_log()));
        let (mut cold, _) = cold();
        let wanted = resident.say(clients[client], &sent);
        assert!(wanted.starts_with(reply), "{sent:?}: {wanted}");
        assert_eq!(cold.say(clients[client], &sent), "", "{sent:?}");
        assert!(cold.waits(clients[client]));
        assert_eq!(cold.ask_once("get other\r\n"), "END\r\n");
        assert_eq!(after_load(&mut cold, clients[client]), wanted, "{sent:?}");
    }
}

#[test]
fn statistics_count_cold_items_without_a_load() {
    let (mut world, [a, _]) = cold();
    let stats = world.say(a, "dump_stats q\r\n");
    for line in ["items=4", "bytes=4", "total_items=4", "mem_items=0", "waiters=0"] {
        assert!(stats.contains(&format!("  {line}\r\n")), "{line} in {stats}");
    }
    let stats = world.say(a, "stats\r\n");
    assert!(stats.contains("STAT curr_items 4\r\n"), "{stats}");
}

#[test]
fn a_get_whose_time_ends_during_a_load_gets_the_item() {
    let (mut world, [a, b]) = cold();
    assert_eq!(world.say(a, "get q/t=100\r\n"), "");
    assert_eq!(world.say(b, "get q\n"), "");
    world.advance(5_000);
    assert_eq!(world.take_text(a), "");
    assert_eq!(after_load(&mut world, a), value("a"));
    assert_eq!(world.take_text(b), ":b\n");
}

#[test]
fn an_item_that_is_set_during_a_load_comes_behind_the_cold_items() {
    let (mut world, [a, b]) = cold();
    assert_eq!(world.say(a, "get q\r\n"), "");
    assert_eq!(world.say(b, "put q:\nx\n\n"), "+1\n");
    assert_eq!(after_load(&mut world, a), value("a"));
    for item in ["b", "c", "d", "x"] {
        world.say(b, "get q\n");
        assert_eq!(after_load(&mut world, b), format!(":{item}\n"));
    }
    assert_eq!(world.say(b, "get q\n"), "*\n");
}

#[test]
fn a_client_that_leaves_during_a_load_leaves_the_items() {
    let requests = ["get q\r\n", "get q/open/t=500\r\n", "get q/peek\r\n", "monitor q 5\r\n"];
    for leaves in [world::World::close, world::World::half_close] {
        let (mut world, [_, b]) = cold();
        for request in requests {
            let client = world.connect_memcache();
            assert_eq!(world.say(client, request), "");
            leaves(&mut world, client);
        }
        world.load();
        // A get that does not wait for items is answered, although the client sends nothing more.
        let left = world.broker.turn(world.now).totals().ready;
        world.say(b, "peek q\n");
        let next = ["", ":a\n", ":b\n", ":c\n", ":d\n"];
        assert_eq!(after_load(&mut world, b), next[(ITEMS - left + 1) as usize]);
        assert!(left == ITEMS || left == ITEMS - 1, "{left} items are left");
    }
}

#[test]
fn a_flush_during_a_load_ends_the_items_that_no_client_has() {
    let (mut world, [a, b]) = cold();
    assert_eq!(world.say(a, "get q/open\r\n"), "");
    assert_eq!(world.say(b, "flush q\n"), "");
    let opened = after_load(&mut world, a);
    assert_eq!(world.take_text(b), "+0\n");
    assert!(opened == value("a") || opened == "END\r\n", "{opened}");
    assert_eq!(world.say(b, "get q\n"), "*\n");
    world.say(a, "get q/abort\r\n");
    after_load(&mut world, a);
    world.send(b, b"get q\n");
    let next = after_load(&mut world, b);
    assert_eq!(next, if opened == "END\r\n" { "*\n" } else { ":a\n" });
}

#[test]
fn a_get_during_a_load_is_not_told_that_the_queue_is_empty_when_the_server_stops() {
    for (client, request, reply) in [
        (0, "get q\r\n", "SERVER_ERROR\r\n"),
        (1, "get q\n", "-The server stops before it is done.\n"),
    ] {
        let (mut world, clients) = cold();
        assert_eq!(world.say(clients[client], request), "");
        world.stop(clients[client]);
        assert_eq!(world.take_text(clients[client]), reply);
        assert!(world.has_ended(clients[client]));
        assert_eq!(world.broker.turn(world.now).totals().ready, ITEMS);
    }
}

/// A world with items of which the first two expire after a second, and a client of each protocol.
fn expiring(world: world::World) -> (World, [usize; 2]) {
    let mut world = World::over(world, options());
    let clients = [world.connect_memcache(), world.connect_text()];
    for (item, seconds) in [("a", 1), ("b", 1), ("c", 0), ("d", 100)] {
        let set = format!("set q 0 {seconds} 1\r\n{item}\r\n");
        assert_eq!(world.say(clients[0], &set), "STORED\r\n");
    }
    (world, clients)
}

#[test]
fn a_cold_item_that_has_expired_is_never_handed_out() {
    let c = value("c");
    for (client, request, reply) in [
        (0, "get q\r\n", &c[..]),
        (0, "get q/t=500\r\n", &c),
        (0, "get q/peek\r\n", &c),
        (0, "get q/open\r\n", &c),
        (0, "monitor q 1 2\r\n", "VALUE q 0 1\r\nc\r\nEND\r\nVALUE q 0 1\r\nd\r\nEND\r\nEND\r\n"),
        (1, "get q\n", ":c\n"),
        (1, "peek q\n", ":c\n"),
        (1, "flush q\n", "+0\n"),
    ] {
        let (mut world, clients) = expiring(world::World::cold(with_log()));
        // The head stays in memory, because it expires.
        assert_eq!(world.broker.cold_jobs(), ITEMS - 1);
        world.hold_loads();
        world.advance(2_000);
        let stats = world.say(clients[0], "dump_stats q\r\n");
        assert!(stats.contains("  items=3\r\n"), "`b` is not in memory yet: {stats}");
        assert_eq!(world.say(clients[client], request), "", "{request:?}");
        assert_eq!(after_load(&mut world, clients[client]), reply, "{request:?}");
    }
}

#[test]
fn cold_items_that_have_expired_end_without_a_request() {
    for flushes in [false, true] {
        let (mut world, [a, _]) = expiring(world::World::cold(with_log()));
        world.hold_loads();
        world.advance(2_000);
        if flushes {
            // It reports only the items that it has ended at once.
            assert_eq!(world.say(a, "flush_all_expired\r\n"), "0\r\n");
        }
        world.load();
        world.advance(100);
        let stats = world.say(a, "dump_stats q\r\n");
        for line in ["items=2", "bytes=2", "expired_items=2"] {
            assert!(stats.contains(&format!("  {line}\r\n")), "{line} in {stats}");
        }
        world.broker.turn(world.now).check_invariants();
    }
}
