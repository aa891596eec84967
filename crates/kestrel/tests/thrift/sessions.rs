//! Tests that a table of calls cannot express: pipelines, clients that disconnect at the worst
//! moment, and limits.

use std::sync::Arc;

use broker::policy::{Rule, Rules, Setting, WhenFull};
use broker::{INPUT_REPLIES_BYTES, Millis, When};
use lineshaft_kestrel::{MemcacheSession, Server, ServerOptions, ThriftSession};
use testkit::dialect::world::World;

use crate::calls::{about, ask, confirm, get, ids, put, shown};
use crate::world::{connect, server};
use testkit::conformance::thrift::codec::{FRAMED, Style, Value, call};

fn start() -> (World, Arc<Server>) {
    (World::memory(), server(ServerOptions::default()))
}

#[test]
fn calls_behind_a_waiting_get_are_answered_after_it() {
    let (mut world, server) = start();
    let (a, b) = (connect(&server, &mut world), connect(&server, &mut world));
    let version = call(FRAMED, "get_version", &[]);
    let calls = [get("q", 1, 60_000, 0), put("r", &[b"y"]), version].concat();
    assert_eq!(ask(&mut world, a, &calls), "");
    assert_eq!(ask(&mut world, b, &get("r", 1, 0, 0)), "get", "it is not done before its turn");
    assert_eq!(ask(&mut world, b, &put("q", &[b"x"])), "put 1");
    assert_eq!(shown(world.take_received(a)), "get x, put 1, get_version 2.4.1");
}

#[test]
fn an_item_that_came_for_a_client_that_is_gone_goes_back_at_once() {
    for auto_abort_ms in [0, 60_000] {
        let (mut world, server) = start();
        let clients = [(); 3].map(|()| connect(&server, &mut world));
        assert_eq!(ask(&mut world, clients[0], &get("q", 2, 60_000, auto_abort_ms)), "");
        assert_eq!(ask(&mut world, clients[1], &put("q", &[b"1"])), "put 1");
        // The session was granted two items. It has got the event of the first grant, but not yet
        // the event of the second grant.
        world.send_first(clients[1], &put("q", &[b"2"]));
        world.close(clients[0]);
        assert_eq!(shown(world.take_received(clients[1])), "put 1");
        assert_eq!(ask(&mut world, clients[2], &get("q", 5, 0, 0)), "get 1 2");
        assert_eq!(server.counters().connections.get(), 2);
    }
}

#[test]
fn a_client_that_shuts_its_side_while_it_waits_is_gone() {
    let (mut world, server) = start();
    let (a, b) = (connect(&server, &mut world), connect(&server, &mut world));
    ask(&mut world, a, &get("q", 2, 60_000, 0));
    ask(&mut world, b, &put("q", &[b"1"]));
    world.half_close(a);
    assert!(world.has_ended(a));
    assert_eq!(ask(&mut world, b, &get("q", 5, 0, 0)), "get 1");
}

#[test]
fn a_long_flush_is_answered_unless_the_server_stops() {
    let (mut world, server) = start();
    let items = vec![&b"x"[..]; 2500];
    let calls = |method| [about(method, "q"), call(FRAMED, "get_version", &[])].concat();
    for method in ["flush_queue", "delete_queue"] {
        let client = connect(&server, &mut world);
        ask(&mut world, client, &put("q", &items));
        world.send_first(client, &calls(method));
        world.half_close(client);
        let answers = format!("{method}, get_version 2.4.1");
        assert_eq!(shown(world.take_received(client)), answers);
        assert!(world.has_ended(client));
    }
    let client = connect(&server, &mut world);
    ask(&mut world, client, &put("q", &items));
    world.send_first(client, &calls("flush_queue"));
    world.stop(client);
    let answer = world.take_received(client);
    assert!(String::from_utf8_lossy(&answer).contains("'the server stops before it is done'"));
    assert_eq!(shown(answer), "flush_queue !6");
    assert!(world.has_ended(client));
}

#[test]
fn a_get_that_does_not_wait_gets_what_stands_behind_many_expired_items() {
    let (mut world, server) = start();
    let client = connect(&server, &mut world);
    for (auto_abort_ms, items_max) in [(0, 1), (0, 5), (1000, 5)] {
        let rule = Rule::new(["q"], [Setting::AgeMax(Some(10))]);
        let _ = world.broker.turn(world.now).set_policies(Rules(vec![rule]));
        ask(&mut world, client, &put("q", &vec![&b"x"[..]; 2500]));
        world.now.0 += 11;
        ask(&mut world, client, &put("q", &[b"lives"]));
        assert_eq!(ask(&mut world, client, &get("q", items_max, 0, auto_abort_ms)), "get lives");
    }
}

#[test]
fn a_peek_tells_the_numbers_of_the_queue_that_its_name_stands_for() {
    let (mut world, server) = start();
    let client = connect(&server, &mut world);
    ask(&mut world, client, &put("old", &[b"a"]));
    assert_eq!(ask(&mut world, client, &get("old", 1, 0, 60_000)), "get a");
    ask(&mut world, client, &put("new", &[b"bb", b"cc"]));
    let rule = Rule::new(["old"], [Setting::SameAs(Some(b"new"[..].into()))]);
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![rule]));
    let peeked = ask(&mut world, client, &about("peek", "old"));
    // The body, the number of items, and the number of open reads.
    for part in ["(1, Bytes([98, 98]))", "(2, I64(2))", "(7, I32(0))"] {
        assert!(peeked.contains(part), "{part} in {peeked}");
    }
}

#[test]
fn a_name_that_is_too_long_for_a_queue_stands_for_none() {
    let (mut world, server) = start();
    let client = connect(&server, &mut world);
    ask(&mut world, client, &put("q", &[b"1"]));
    let rule = Rule::new(["x*"], [Setting::SameAs(Some(b"q"[..].into()))]);
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![rule]));
    let name = "x".repeat(1 << 20);
    for (call, reply) in [
        (put(&name, &[b"2"]), "put !6"),
        (get(&name, 1, 0, 0), "get !6"),
        (about("peek", &name), "peek !6"),
        (about("flush_queue", &name), "flush_queue"),
        (about("delete_queue", &name), "delete_queue"),
    ] {
        assert_eq!(ask(&mut world, client, &call), reply);
    }
    // To look up such a name takes thousands of units, because of the rule.
    let longest = world.broker.turn(world.now).longest_slice();
    assert!(longest < 1_000, "{longest}");
    assert_eq!(ask(&mut world, client, &get("q", 9, 0, 0)), "get 1");
    // The longest possible name stands for the queue.
    let name = &name[..8_180];
    assert_eq!(ask(&mut world, client, &put(name, &[b"2"])), "put 1");
    assert_eq!(ask(&mut world, client, &about("flush_queue", name)), "flush_queue");
    assert_eq!(ask(&mut world, client, &get("q", 9, 0, 0)), "get");
}

/// Adds many items. When they have expired, one slice of work is not enough to remove all of them.
fn add_many(world: &World, expires: Option<When>) {
    let mut turn = world.broker.turn(world.now);
    let session = turn.open_reader_session(0);
    for _ in 0..2500 {
        turn.caller(session).add(b"q", b"x"[..].into(), expires).value.expect("there is room");
    }
    turn.close_session(session);
}

#[test]
fn a_get_that_does_not_wait_holds_up_what_a_half_closed_client_sent_behind_it() {
    let (mut world, server) = start();
    let (a, b) = (connect(&server, &mut world), connect(&server, &mut world));
    let expires = Some(When::At(Millis(world.now.0 + 10)));
    add_many(&world, expires);
    world.now.0 += 11;
    world.send_first(a, &[get("q", 1, 0, 0), put("r", &[b"y"])].concat());
    world.half_close(a);
    assert_eq!(shown(world.take_received(a)), "get, put 1");
    assert!(world.has_ended(a));
    assert_eq!(ask(&mut world, b, &get("r", 1, 0, 0)), "get y");
}

#[test]
fn a_get_that_does_not_wait_keeps_nothing_from_a_client_that_goes() {
    let (mut world, server) = start();
    let client = connect(&server, &mut world);
    ask(&mut world, client, &put("q", &[b"lives"]));
    let expires = Some(When::At(Millis(world.now.0 + 10)));
    add_many(&world, expires);
    world.now.0 += 11;
    world.send_first(client, &get("q", 2, 0, 0));
    world.half_close(client);
    assert_eq!(shown(world.take_received(client)), "get lives");
    assert!(world.has_ended(client));
}

#[test]
fn a_reply_is_bounded_and_nothing_is_lost() {
    let (mut world, server) = start();
    let client = connect(&server, &mut world);
    let large = vec![b'x'; 3 << 20];
    assert_eq!(ask(&mut world, client, &put("q", &[&large[..]; 7])), "put 7");
    let calls = [get("q", i32::MAX, 1_000, 0), get("q", i32::MAX, 0, 5_000)].concat();
    let three = " 3145728 bytes".repeat(3);
    assert_eq!(ask(&mut world, client, &calls), format!("get{three}, get{three}"));
    assert_eq!(ask(&mut world, client, &get("q", 7, 0, 0)), "get 3145728 bytes");
}

#[test]
fn calls_with_long_replies_are_executed_in_portions_to_the_last() {
    let (mut world, server) = start();
    let client = connect(&server, &mut world);
    ask(&mut world, client, &put("q", &[&[b'x'; 10_000][..]]));
    let replies = ask(&mut world, client, &about("peek", "q").repeat(50));
    assert_eq!(replies.matches("peek").count(), 50);
    assert!(world.longest_answer(client) < INPUT_REPLIES_BYTES + 20_000);
}

#[test]
fn a_long_list_is_dealt_with_in_slices_and_answered_at_its_end() {
    let (mut world, server) = start();
    let client = connect(&server, &mut world);
    let items = vec![&b"x"[..]; 100_000];
    assert_eq!(ask(&mut world, client, &put("q", &items)), "put 100000");
    for child in ["q+1", "q+2", "q+3"] {
        ask(&mut world, client, &get(child, 1, 0, 0));
    }
    assert_eq!(ask(&mut world, client, &put("q", &items)), "put 100000");
    assert_eq!(ask(&mut world, client, &confirm(&vec![1; 100_000])), "confirm 0");
    let longest = world.broker.turn(world.now).longest_slice();
    assert!(longest < 5_000, "{longest}");
}

#[test]
fn ids_of_reads_that_are_not_open_take_slices_too() {
    let (mut world, server) = start();
    let client = connect(&server, &mut world);
    for method in ["confirm", "abort"] {
        let ids = Value::Numbers(vec![1; 100_000]);
        let call = call(FRAMED, method, &[(1, Value::Bytes(b"q".to_vec())), (2, ids)]);
        let (slices, received) = world.ask_in_slices(client, &call);
        assert_eq!(shown(received), format!("{method} 0"));
        assert!(slices > 300, "{slices}");
    }
}

#[test]
fn a_get_has_a_bounded_number_of_items() {
    let (mut world, server) = start();
    let client = connect(&server, &mut world);
    ask(&mut world, client, &put("q", &vec![&b"x"[..]; 2_500]));
    for count in [1_000, 1_000, 500] {
        let items = ask(&mut world, client, &get("q", 100_000, 0, 0));
        assert_eq!(items.matches('x').count(), count, "{items}");
    }
}

#[test]
fn a_get_that_waits_counts_its_name_and_its_items_as_memory() {
    let (mut world, server) = start();
    let client = connect(&server, &mut world);
    let name = "n".repeat(8_000);
    assert_eq!(ask(&mut world, client, &put(&name, &[&b"x"[..]; 100])), "put 100");
    assert_eq!(ask(&mut world, client, &get(&name, 101, 1_000, 0)), "");
    let held = world.held_bytes(client);
    assert!((9_000..16_000).contains(&held), "{held}");
}

#[test]
fn an_item_that_a_limit_took_back_is_not_in_the_reply() {
    for auto_abort_ms in [0, 60_000] {
        let (mut world, server) = start();
        let rule = Rule::new(["q"], [Setting::OpenTimeout(Some(500))]);
        let _ = world.broker.turn(world.now).set_policies(Rules(vec![rule]));
        let clients = [(); 2].map(|()| connect(&server, &mut world));
        ask(&mut world, clients[1], &put("q", &[b"1"]));
        assert_eq!(ask(&mut world, clients[0], &get("q", 2, 1_000, auto_abort_ms)), "");
        world.advance(600);
        // The time limit gave the item back, and the waiting session got it again. So its call
        // still has one item.
        assert_eq!(shown(world.take_received(clients[0])), "");
        assert_eq!(ask(&mut world, clients[1], &about("delete_queue", "q")), "delete_queue");
        assert_eq!(shown(world.take_received(clients[0])), "get");
    }
}

#[test]
fn an_ended_read_does_not_count_as_open_after_a_limit_took_an_item_back() {
    let (mut world, server) = start();
    let timeout = Setting::OpenTimeout(Some(500));
    let rule = Rule::new(["q"], [timeout.clone()]);
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![rule]));
    let clients = [(); 2].map(|()| connect(&server, &mut world));
    ask(&mut world, clients[1], &put("q", &[b"1"]));
    let ended = ids(world.ask(clients[0], &get("q", 1, 0, 60_000)));
    assert_eq!(ask(&mut world, clients[0], &confirm(&ended)), "confirm 1");
    assert_eq!(ask(&mut world, clients[0], &get("q", 2, 2_000, 60_000)), "");
    ask(&mut world, clients[1], &put("q", &[b"2"]));
    let rule = Rule::new(["q"], [timeout, Setting::OpenMax(2)]);
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![rule]));
    world.advance(600);
    // The time limit gave the item back, and the waiting session got it again. So the session holds
    // only this item. The limit is two items, so the call can wait for its second item.
    assert_eq!(shown(world.take_received(clients[0])), "");
    ask(&mut world, clients[1], &put("q", &[b"3"]));
    assert_eq!(shown(world.take_received(clients[0])), "get 2 3");
}

#[test]
fn all_of_kestrels_dialects_see_the_same_items() {
    let (mut world, server) = start();
    let thrift = connect(&server, &mut world);
    let memcache = world.connect_as(|turn, mailbox| {
        let session = MemcacheSession::new(server.clone(), turn, mailbox);
        (session.id(), session)
    });
    ask(&mut world, thrift, &put("q", &[b"1"]));
    assert_eq!(world.ask(memcache, b"get q\r\n"), b"VALUE q 0 1\r\n1\r\nEND\r\n");
    assert_eq!(ask(&mut world, thrift, &get("q", 1, 60_000, 0)), "");
    assert_eq!(world.ask(memcache, b"set q 0 0 1\r\n2\r\n"), b"STORED\r\n");
    assert_eq!(shown(world.take_received(thrift)), "get 2");
    // While a read is open, other sessions cannot get its item. After the read is confirmed, the
    // item no longer exists.
    world.send(memcache, b"set q 0 0 1\r\n3\r\n");
    let open = ids(world.ask(thrift, &get("q", 1, 0, 60_000)));
    world.take_received(memcache);
    assert_eq!(world.ask(memcache, b"get q\r\n"), b"END\r\n");
    assert_eq!(ask(&mut world, thrift, &confirm(&open)), "confirm 1");
}

#[test]
fn calls_are_counted_with_those_of_the_other_ports() {
    let (mut world, server) = start();
    let client = connect(&server, &mut world);
    let calls = [
        put("q", &[b"1", b"2", b"3"]),
        about("peek", "q"),
        about("peek", "other"),
        get("q", 2, 0, 0),
        get("q", 2, 0, 0),
        confirm(&[5]),
    ];
    world.ask(client, &calls.concat());
    let alias = Rule::new(["alias"], [Setting::Alias(Box::new([Box::from(&b"q"[..])]))]);
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![alias]));
    assert_eq!(ask(&mut world, client, &get("alias", 1, 0, 0)), "get");
    let counters = server.counters();
    assert_eq!(counters.cmd_set.get(), 3);
    assert_eq!(counters.cmd_get.get(), 0);
    assert_eq!(counters.cmd_peek.get(), 2);
    assert_eq!((counters.cmd_monitor.get(), counters.cmd_monitor_get.get()), (3, 5));
    assert_eq!((counters.get_hits.get(), counters.get_misses.get()), (4, 2));
    let bytes_read = calls.concat().len() + get("alias", 1, 0, 0).len();
    assert_eq!(counters.bytes_read.get(), bytes_read as u64);
    assert_eq!(counters.connections_total.get(), 1);
    world.close(client);
    assert_eq!(counters.connections.get(), 0);
}

#[test]
fn a_connection_too_many_may_neither_write_nor_read() {
    let options = ServerOptions {
        refuse_writes_above: Some(1),
        refuse_reads_above: Some(2),
        ..ServerOptions::default()
    };
    let (mut world, server) = (World::memory(), server(options));
    let clients = [(); 3].map(|()| connect(&server, &mut world));
    let calls = [put("q", &[b"1"]), get("q", 1, 0, 0), about("peek", "q")].concat();
    assert_eq!(ask(&mut world, clients[2], &calls), "put !6, get !6, peek !6");
    assert_eq!(
        ask(&mut world, clients[1], &calls[..calls.len()]).split(',').next(),
        Some("put !6")
    );
    assert_eq!(ask(&mut world, clients[0], &put("q", &[b"1"])), "put 1");
    assert_eq!(ask(&mut world, clients[1], &get("q", 1, 0, 0)), "get 1");
}

#[test]
fn reads_that_were_confirmed_do_not_count_as_open() {
    let (mut world, server) = start();
    let rule = Rule::new(["q"], [Setting::OpenMax(2)]);
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![rule]));
    let client = connect(&server, &mut world);
    ask(&mut world, client, &put("q", &[b"1", b"2", b"3", b"4"]));
    let open = ids(world.ask(client, &get("q", 1, 0, 60_000)));
    assert_eq!(ask(&mut world, client, &confirm(&open)), "confirm 1");
    assert_eq!(ask(&mut world, client, &get("q", 2, 0, 60_000)), "get 2 3");
    assert_eq!(ask(&mut world, client, &get("q", 2, 0, 60_000)), "get");
}

#[test]
fn open_reads_count_as_memory_of_their_connection_until_they_have_ended() {
    let (mut world, server) = start();
    let client = connect(&server, &mut world);
    let mut open = Vec::new();
    for number in 0..200 {
        let name = format!("{number:04000}");
        assert_eq!(ask(&mut world, client, &put(&name, &[b"x"])), "put 1");
        open.extend(ids(world.ask(client, &get(&name, 1, 0, 60_000))));
    }
    let held = world.held_bytes(client);
    assert!((800_000..900_000).contains(&held), "{held} bytes");
    assert_eq!(ask(&mut world, client, &confirm(&open)), "confirm 200");
    // Each further read lets the connection check some of the others.
    for _ in 0..200 {
        ask(&mut world, client, &put("q", &[b"x"]));
        let read = ids(world.ask(client, &get("q", 1, 0, 60_000)));
        assert_eq!(ask(&mut world, client, &confirm(&read)), "confirm 1");
    }
    let held = world.held_bytes(client);
    assert!(held < 300_000, "{held} bytes");
}

/// Puts this many items into a queue with this limit of open reads, and opens 20,000 reads. Returns
/// the world, the connection, and the ids of its open reads.
fn with_open_reads(open_max: u32, items: usize) -> (World, usize, Vec<i64>) {
    let (mut world, server) = start();
    let rule = Rule::new(["q"], [Setting::OpenMax(open_max)]);
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![rule]));
    let client = connect(&server, &mut world);
    let put_items = put("q", &vec![&b"x"[..]; items]);
    assert_eq!(ask(&mut world, client, &put_items), format!("put {items}"));
    let mut open = Vec::new();
    for _ in 0..200 {
        open.extend(ids(world.ask(client, &get("q", 100, 0, 60_000))));
    }
    assert_eq!(open.len(), 20_000);
    (world, client, open)
}

#[test]
fn the_room_of_a_list_of_open_reads_counts_as_memory_until_it_is_given_back() {
    let (mut world, client, open) = with_open_reads(1_000_000, 50_000);
    let before = world.held_bytes(client);
    assert_eq!(ask(&mut world, client, &confirm(&open)), "confirm 20000");
    // Each further read lets the connection check two of the others.
    for batch in 0..30 {
        let open = ids(world.ask(client, &get("q", 1_000, 0, 60_000)));
        assert_eq!(ask(&mut world, client, &confirm(&open)), "confirm 1000");
        // The list keeps its room while it needs more than a quarter of it.
        assert!(batch > 0 || world.held_bytes(client) >= before);
    }
    let held = world.held_bytes(client);
    assert!(held < before / 4, "{held} of {before} bytes");
}

#[test]
fn a_thrift_connection_has_open_reads_of_a_bounded_number_of_queues() {
    let (mut world, server) = start();
    let client = connect(&server, &mut world);
    let mut open = Vec::new();
    for number in 0..10_000 {
        let name = format!("n{number}");
        assert_eq!(ask(&mut world, client, &put(&name, &[b"x"])), "put 1");
        open.extend(ids(world.ask(client, &get(&name, 1, 0, 60_000))));
    }
    assert_eq!(open.len(), 10_000);
    assert_eq!(ask(&mut world, client, &put("q", &[b"1", b"2", b"3"])), "put 3");
    assert_eq!(ask(&mut world, client, &get("q", 1, 0, 60_000)), "get");
    assert_eq!(ask(&mut world, client, &get("q", 1, 0, 0)), "get 1", "only open reads are limited");
    let longest = world.broker.turn(world.now).longest_slice();
    assert!(longest < 1_000, "{longest}");
    assert_eq!(ask(&mut world, client, &confirm(&open)), "confirm 10000");
    assert_eq!(ask(&mut world, client, &get("q", 5, 0, 60_000)), "get 2 3");
}

#[test]
fn a_connection_with_very_many_open_reads_checks_few_of_them_at_once() {
    let (world, ..) = with_open_reads(1_000_000, 20_000);
    let longest = world.broker.turn(world.now).longest_slice();
    assert!(longest < 5_000, "{longest}");
}

#[test]
fn a_get_at_the_limit_of_open_reads_checks_them_once() {
    let (mut world, client, open) = with_open_reads(20_000, 21_000);
    let ended: Vec<i64> = open.into_iter().step_by(1_000).collect();
    assert_eq!(ask(&mut world, client, &confirm(&ended)), "confirm 20");
    // Each get checks a part of the open reads, and takes as many items as it found ended reads.
    let mut taken = 0;
    for _ in 0..10 {
        taken += ids(world.ask(client, &get("q", 1_000, 0, 60_000))).len();
    }
    assert_eq!(taken, 20);
    let longest = world.broker.turn(world.now).longest_slice();
    assert!(longest < 6_000, "{longest}");
}

#[test]
fn a_peek_at_an_alias_shows_nothing_of_the_queue_that_it_hides() {
    let (mut world, server) = start();
    let client = connect(&server, &mut world);
    let nothing = ask(&mut world, client, &about("peek", "empty"));
    ask(&mut world, client, &put("hidden", &[b"1"]));
    let alias = Rule::new(["hidden"], [Setting::Alias(Box::new([Box::from(&b"q"[..])]))]);
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![alias]));
    assert_eq!(ask(&mut world, client, &about("peek", "hidden")), nothing);
}

#[test]
fn a_connection_without_control_sets_no_status() {
    let (mut world, server) = start();
    let client = world.connect_as(|turn, mailbox| {
        let session = ThriftSession::new(server.clone(), turn, mailbox).without_control();
        (session.id(), session)
    });
    let set_status = call(FRAMED, "set_status", &[(1, Value::I32(1))]);
    let calls = [set_status, call(FRAMED, "current_status", &[])].concat();
    assert_eq!(ask(&mut world, client, &calls), "set_status !6, current_status 3");
}

#[test]
fn items_for_which_there_is_no_memory_do_not_count_as_put() {
    let (mut world, server) = start();
    let client = connect(&server, &mut world);
    let used_bytes = world.broker.memory_usage().used_bytes;
    world.broker.set_memory_limit(Some(used_bytes + 500_000));
    let long = vec![b'x'; 1_000_000];
    assert_eq!(ask(&mut world, client, &put("q", &[&long])), "put 0");
    assert_eq!(world.broker.memory_usage().refused, 1);
    assert_eq!(ask(&mut world, client, &put("q", &[b"x", b"y"])), "put 2");
    assert_eq!(ask(&mut world, client, &get("q", 10, 0, 0)), "get x y");
}

#[test]
fn the_items_of_a_put_wait_for_room() {
    let (mut world, server) = start();
    let blocks =
        [Setting::JobsMax(Some(2)), Setting::WhenFull(WhenFull::Block), Setting::BlockFor(1000)];
    let rules = Rules(vec![Rule::new(["q"], blocks)]);
    let _ = world.broker.turn(world.now).set_policies(rules);
    let [producer, worker] = [(); 2].map(|()| connect(&server, &mut world));
    let version = call(FRAMED, "get_version", &[]);
    let calls = [put("q", &[b"1", b"2", b"3", b"4"]), version].concat();
    assert_eq!(ask(&mut world, producer, &calls), "");
    assert_eq!(ask(&mut world, worker, &get("q", 1, 0, 0)), "get 1");
    assert_eq!(shown(world.take_received(producer)), "");
    assert_eq!(ask(&mut world, worker, &get("q", 1, 0, 0)), "get 2");
    assert_eq!(shown(world.take_received(producer)), "put 4, get_version 2.4.1");
    // The call ends at the first item that waits in vain.
    assert_eq!(ask(&mut world, producer, &put("q", &[b"5", b"6"])), "");
    world.advance(1000);
    assert_eq!(shown(world.take_received(producer)), "put 0");
    // All items together wait for one time.
    assert_eq!(ask(&mut world, producer, &put("q", &[b"5", b"6"])), "");
    world.advance(999);
    assert_eq!(ask(&mut world, worker, &get("q", 1, 0, 0)), "get 3");
    assert_eq!(shown(world.take_received(producer)), "", "the next item waits");
    world.advance(1);
    assert_eq!(shown(world.take_received(producer)), "put 1");
    assert_eq!(ask(&mut world, worker, &get("q", 9, 0, 0)), "get 4 5");
    // An item is not stored if its client is gone, or if the server stops.
    for stops in [false, true] {
        let client = connect(&server, &mut world);
        assert_eq!(ask(&mut world, client, &put("q", &[b"7", b"8", b"9"])), "");
        let reply = if stops {
            world.stop(client);
            "put 2"
        } else {
            world.half_close(client);
            ""
        };
        assert_eq!(shown(world.take_received(client)), reply);
        assert!(world.has_ended(client));
        assert_eq!(ask(&mut world, worker, &get("q", 9, 0, 0)), "get 7 8");
    }
}

#[test]
fn a_put_that_waits_counts_its_bytes_and_not_the_room_of_its_buffer() {
    let (mut world, server) = start();
    let blocks = [Setting::JobsMax(Some(1)), Setting::WhenFull(WhenFull::Block)];
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![Rule::new(["q"], blocks)]));
    let client = connect(&server, &mut world);
    assert_eq!(ask(&mut world, client, &put("q", &[b"1"])), "put 1");
    // Without a frame, the length of the message is not known before its end.
    let items = Value::Strings(vec![vec![b'x'; 600_000]]);
    let arguments = [(1, Value::Bytes(b"q".to_vec())), (2, items)];
    let put = call(Style { framed: false, ..FRAMED }, "put", &arguments);
    assert_eq!(world.ask(client, &put), b"");
    assert!(world.waits(client));
    let held = world.held_bytes(client);
    assert!((1_200_000..1_300_000).contains(&held), "{held}");
}

#[test]
fn a_put_that_waits_counts_the_copy_of_its_name_beside_its_message() {
    let (mut world, server) = start();
    let name = "n".repeat(8_000);
    let blocks = [Setting::JobsMax(Some(1)), Setting::WhenFull(WhenFull::Block)];
    let rule = Rule::new([name.as_str()], blocks);
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![rule]));
    let client = connect(&server, &mut world);
    assert_eq!(ask(&mut world, client, &put(&name, &[b"1"])), "put 1");
    assert_eq!(ask(&mut world, client, &put(&name, &[b"2"])), "");
    assert!(world.waits(client));
    let held = world.held_bytes(client);
    assert!((16_000..20_000).contains(&held), "{held}");
}
