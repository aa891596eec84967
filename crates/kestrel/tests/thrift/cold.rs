//! Tests calls that need cold items, and items whose bodies leave the memory. A load ends only when a
//! test calls `load`, so other clients can act during the load.

use std::sync::Arc;

use broker::Broker;
use broker::policy::{Rule, Rules, Setting};
use lineshaft_kestrel::{Server, ServerOptions};
use testkit::conformance::thrift::codec::{FRAMED, call};
use testkit::dialect::world::{START, World};

use crate::calls::{about, ask, confirm, get, ids, put, shown};
use crate::world::{connect, server, with_log};

/// A world with the items `a` to `e`, which are cold.
fn cold() -> (World, Arc<Server>, [usize; 2]) {
    let (mut world, server) = (World::cold(with_log()), server(ServerOptions::default()));
    let clients = [(); 2].map(|()| connect(&server, &mut world));
    let items: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];
    assert_eq!(ask(&mut world, clients[0], &put("q", &items)), "put 5");
    assert_eq!(world.broker.cold_jobs(), 5);
    world.hold_loads();
    (world, server, clients)
}

fn after_load(world: &mut World, client: usize) -> String {
    world.load();
    // A flush continues after a load, or a moment later.
    world.advance(100);
    world.load();
    world.broker.turn(world.now).check_invariants();
    shown(world.take_received(client))
}

#[test]
fn calls_behind_one_that_needs_cold_items_wait_with_it() {
    let calls = [
        (get("q", 1, 0, 0), "get a"),
        (get("q", 3, 0, 0), "get a b c"),
        (get("q", 9, 0, 0), "get a b c d e"),
        (get("q", 9, 0, 60_000), "get a b c d e"),
        (get("q", 2, 500, 60_000), "get a b"),
        (get("q", 9, 50, 0), "get a b c d e"),
        (about("flush_queue", "q"), "flush_queue"),
        (about("delete_queue", "q"), "delete_queue"),
        (call(FRAMED, "flush_all_queues", &[]), "flush_all_queues"),
    ];
    for (call, reply) in calls {
        let (mut world, _, [a, b]) = cold();
        let behind = [call, put("r", &[b"x"])].concat();
        assert_eq!(ask(&mut world, a, &behind), "");
        assert!(world.waits(a));
        assert_eq!(ask(&mut world, b, &put("s", &[b"y"])), "put 1");
        assert_eq!(after_load(&mut world, a), format!("{reply}, put 1"));
    }
}

/// The items take two loads. The queue that has the name itself has no cold item.
#[test]
fn a_get_waits_for_all_items_of_the_queue_that_its_name_stands_for() {
    let (mut world, server) = (World::cold(with_log()), server(ServerOptions::default()));
    let [a, b] = [(); 2].map(|()| connect(&server, &mut world));
    assert_eq!(ask(&mut world, a, &put("old", &[b"x"])), "put 1");
    assert_eq!(ask(&mut world, b, &get("old", 1, 0, 60_000)), "get x");
    for _ in 0..20 {
        assert_eq!(ask(&mut world, a, &put("new", &[b"y"])), "put 1");
    }
    let rule = Rule::new(["old"], [Setting::SameAs(Some(b"new"[..].into()))]);
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![rule]));
    world.advance(10);
    assert_eq!(world.broker.cold_jobs(), 20);
    world.hold_loads();
    assert_eq!(ask(&mut world, a, &get("old", 40, 0, 0)), "");
    assert_eq!(after_load(&mut world, a), format!("get{}", " y".repeat(20)));
}

#[test]
fn a_peek_waits_for_the_item_and_leaves_it() {
    let (mut world, _, [a, b]) = cold();
    assert_eq!(ask(&mut world, a, &[about("peek", "q"), put("r", &[b"x"])].concat()), "");
    assert_eq!(ask(&mut world, b, &about("peek", "none")).matches("peek").count(), 1);
    let peeked = after_load(&mut world, a);
    assert!(peeked.starts_with("peek ") && peeked.ends_with(", put 1"), "{peeked}");
    assert!(peeked.contains("I64(5)") && peeked.contains("[97]"), "{peeked}");
    assert_eq!(ask(&mut world, b, &get("q", 9, 0, 0)), "");
    assert_eq!(after_load(&mut world, b), "get a b c d e");
}

#[test]
fn open_reads_of_cold_items_are_confirmed_by_their_numbers() {
    let (mut world, _, [a, b]) = cold();
    world.send(a, &get("q", 3, 0, 60_000));
    world.load();
    let reads = ids(world.take_received(a));
    assert_eq!(reads.len(), 3);
    assert_eq!(ask(&mut world, b, &confirm(&reads[1..])), "confirm 2");
    world.advance(61_000);
    assert_eq!(ask(&mut world, b, &get("q", 9, 0, 0)), "");
    assert_eq!(after_load(&mut world, b), "get a d e");
}

#[test]
fn a_client_that_leaves_during_a_load_leaves_the_items() {
    let calls =
        [get("q", 1, 0, 0), get("q", 9, 500, 0), get("q", 9, 0, 60_000), about("peek", "q")];
    let (mut world, server, [_, b]) = cold();
    for call in calls {
        let client = connect(&server, &mut world);
        assert_eq!(ask(&mut world, client, &call), "");
        world.close(client);
    }
    world.load();
    assert_eq!(ask(&mut world, b, &get("q", 9, 0, 0)), "");
    assert_eq!(after_load(&mut world, b), "get a b c d e");
}

#[test]
fn a_peek_of_a_client_that_sends_no_more_is_answered() {
    let (mut world, _, [a, _]) = cold();
    assert_eq!(ask(&mut world, a, &about("peek", "q")), "");
    world.half_close(a);
    assert!(after_load(&mut world, a).starts_with("peek "));
    assert!(world.has_ended(a));
}

#[test]
fn a_get_during_a_load_fails_when_the_server_stops() {
    let (mut world, _, [a, _]) = cold();
    let calls = [put("r", &[b"x"]), get("q", 3, 0, 0)].concat();
    assert_eq!(ask(&mut world, a, &calls), "put 1");
    world.stop(a);
    assert_eq!(shown(world.take_received(a)), "get !6");
    assert!(world.has_ended(a));
    assert_eq!(world.broker.turn(world.now).totals().ready, 6);
}

#[test]
fn the_items_of_a_get_that_waits_count_as_memory_after_their_bodies_left_the_queue() {
    for auto_abort_ms in [0, 60_000] {
        let broker = Broker::open(with_log(), START).expect("the disk is empty").0;
        let (mut world, server) = (World::over(broker), server(ServerOptions::default()));
        world.hold_loads();
        let clients = [(); 2].map(|()| connect(&server, &mut world));
        let item = [b'x'; 10_000];
        assert_eq!(ask(&mut world, clients[0], &put("q", &[&item[..]; 80])), "put 80");
        assert_eq!(ask(&mut world, clients[1], &get("q", 90, 1_000, auto_abort_ms)), "");
        // The session is granted these items while it waits.
        assert_eq!(ask(&mut world, clients[0], &put("q", &[&item[..]; 5])), "put 5");
        let before = world.broker.memory_usage().used_bytes;
        world.broker.set_bodies_limit(Some(0));
        // The first search for bodies at the end of a turn spares new ones.
        for _ in 0..3 {
            drop(world.broker.turn(world.now));
        }
        let after = world.broker.memory_usage().used_bytes;
        assert!(after + 800_000 <= before, "{before}, then {after}");
        // The call keeps the items' leases, but no bodies. It gets them again for its reply.
        let held = world.held_bytes(clients[1]);
        assert!((1_000..10_000).contains(&held), "{held}");
        world.advance(1_000);
        world.load();
        let all = format!("get{}", " 10000 bytes".repeat(85));
        assert_eq!(shown(world.take_received(clients[1])), all);
    }
}
