//! Tests commands over all queues. Their replies must be complete and in order, although the server
//! runs these commands in slices and serves other clients between the slices.

use broker::policy::{Rule, Rules, Setting};
use testkit::dialect::world::World as Inner;

use crate::world::{World, options};

/// A small number of units, so that a slice handles only one queue.
const SLICE_UNITS: u32 = 3;

fn world() -> World {
    World::over(Inner::with_slices(SLICE_UNITS), options())
}

/// Sends lines, and calls `others` after each slice. Returns the whole output, and the number of
/// slices.
fn ask(
    world: &mut World,
    client: usize,
    lines: &str,
    mut others: impl FnMut(&mut World, usize),
) -> (String, usize) {
    let (mut more, mut text) = world.ask_for_slice(client, lines.as_bytes());
    let mut slices = 1;
    while more {
        others(world, slices);
        let (goes_on, next) = world.ask_for_slice(client, b"");
        more = goes_on;
        text.extend(next);
        slices += 1;
    }
    (String::from_utf8(text).expect("tests list text"), slices)
}

/// Creates queues that stay, and queues that a test removes. In lists, the two kinds alternate.
fn fill(world: &mut World, client: usize) {
    for number in (0..30).rev() {
        for queue in ["stays", "goes"] {
            world.say(client, &format!("set {queue}{number:02} 0 0 1\r\nx\r\n"));
        }
    }
}

fn change(world: &mut World, other: usize, slice: usize) {
    let goes = 29 - slice % 30;
    world.say(other, &format!("delete goes{goes:02}\r\nset new{slice} 0 0 1\r\nx\r\n"));
}

#[test]
fn queues_are_listed_whole_while_others_come_and_go() {
    let cases = [
        ("stats\r\n", "STAT queue_stays", "_total_items 1"),
        ("dump_stats\r\n", "queue 'stays", "' {"),
        ("dump_config\r\n", "queue 'stays", "' {"),
    ];
    for (command, before, behind) in cases {
        let mut world = world();
        let (monitor, other) = (world.connect_memcache(), world.connect_memcache());
        fill(&mut world, other);
        let lines = format!("{command}version\r\n");
        let (text, slices) =
            ask(&mut world, monitor, &lines, |world, slice| change(world, other, slice));
        assert!(slices > 20, "{slices}");
        let stayed: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix(before)?.strip_suffix(behind))
            .collect();
        let wanted: Vec<String> = (0..30).map(|number| format!("{number:02}")).collect();
        assert_eq!(stayed, wanted, "{command}");
        let (_, rest) = text.split_once("\r\nEND\r\n").expect("it has an end");
        assert!(rest.starts_with("VERSION "), "what is sent behind it waits for its end: {rest}");
    }
}

#[test]
fn the_sums_of_all_queues_stand_at_the_beginning() {
    let mut world = world();
    let client = world.connect_memcache();
    fill(&mut world, client);
    let (text, _) = ask(&mut world, client, "stats\r\n", |_, _| {});
    assert!(
        text.contains("STAT curr_items 60\r\n") && text.contains("STAT bytes 60\r\n"),
        "{text}"
    );
    assert!(text.find("STAT curr_items") < text.find("STAT queue_"), "{text}");
}

#[test]
fn named_queues_are_listed_once() {
    let mut world = world();
    let client = world.connect_memcache();
    fill(&mut world, client);
    let (text, slices) =
        ask(&mut world, client, "dump_stats stays01 goes01 stays01 none\r\n", |_, _| {});
    let blocks: Vec<&str> = text.lines().filter(|line| line.starts_with("queue ")).collect();
    assert_eq!(blocks, ["queue 'stays01' {", "queue 'goes01' {", "queue 'none' {"]);
    assert!(slices > 2 && text.ends_with("queue 'none' {\r\n  \r\n}\r\nEND\r\n"), "{text}");
}

#[test]
fn a_bounded_number_of_queues_is_listed_by_name() {
    let mut world = World::new();
    let client = world.connect_memcache();
    for command in ["dump_stats", "dump_config"] {
        let text = world.say(client, &format!("{command}{}\r\n", " q".repeat(1000)));
        assert_eq!(text.matches("queue 'q' {").count(), 1, "{command}");
        let text = world.say(client, &format!("{command}{}\r\nversion\r\n", " q".repeat(1001)));
        assert_eq!(text, "CLIENT_ERROR\r\nVERSION 2.4.1\r\n", "{command}");
    }
}

#[test]
fn the_names_of_children_count_as_work_of_a_list() {
    let mut world = World::over(Inner::with_slices(100), options());
    let client = world.connect_memcache();
    for parent in 0..8 {
        for child in 0..60 {
            world.say(client, &format!("get p{parent}+{child}\r\n"));
        }
        world.say(client, &format!("get p{parent}\r\n"));
    }
    let named = "p0 p1 p2 p3 p4 p5 p6 p7\r\n";
    let (text, slices) = ask(&mut world, client, &format!("dump_stats {named}"), |_, _| {});
    assert_eq!(text.matches("  children=p").count(), 8, "{text}");
    assert!(slices >= 4, "{slices}");
    // A policy needs no names of children.
    let (text, slices) = ask(&mut world, client, &format!("dump_config {named}"), |_, _| {});
    assert_eq!(text.matches("  max_items=").count(), 8, "{text}");
    assert!(slices <= 2, "{slices}");
}

#[test]
fn expired_items_are_flushed_in_all_queues_while_queues_come_and_go() {
    let mut world = world();
    let (client, other) = (world.connect_memcache(), world.connect_memcache());
    world.say(client, "reload\r\n");
    for number in 0..30 {
        // The policy for these names removes expired items slowly: one item per second and queue.
        let set = format!("set kt_sweep{number:02} 0 1 1\r\nx\r\n");
        world.say(client, &set.repeat(3));
    }
    world.advance(1_500);
    let (text, slices) =
        ask(&mut world, client, "flush_all_expired\r\nversion\r\n", |world, slice| {
            change(world, other, slice);
        });
    assert!(slices > 10, "{slices}");
    assert!(text.starts_with("30\r\nVERSION "), "{text}");
    assert!(world.say(client, "dump_stats kt_sweep07\r\n").contains("expired_items=2"));
}

#[test]
fn a_client_that_shuts_its_side_gets_its_whole_list() {
    let mut world = world();
    let client = world.connect_memcache();
    fill(&mut world, client);
    let (more, mut text) = world.ask_for_slice(client, b"stats\r\nversion\r\n");
    assert!(more);
    world.half_close(client);
    text.extend(world.take_received(client));
    let text = String::from_utf8(text).expect("text");
    assert_eq!(text.matches("_total_items 1\r\n").count(), 60);
    assert!(text.contains("\r\nEND\r\nVERSION ") && world.has_ended(client));
}

#[test]
fn a_list_that_the_servers_end_cuts_short_ends_in_an_error() {
    let mut world = world();
    let client = world.connect_memcache();
    fill(&mut world, client);
    let (mut more, mut text) = world.ask_for_slice(client, b"stats\r\n");
    while more && text.is_empty() {
        (more, text) = world.ask_for_slice(client, b"");
    }
    assert!(more, "it has begun and continues");
    world.stop(client);
    assert_eq!(world.take_received(client), b"SERVER_ERROR\r\n");
    assert!(world.has_ended(client));
}

/// The two commands can be in one turn of the broker or in two turns. The result must be the same.
#[test]
fn numbers_count_no_item_that_expired_behind_one_just_taken() {
    let mut world = World::new();
    let client = world.connect_memcache();
    world.say(client, "set q 0 0 1\r\na\r\nset q 0 1 1\r\nb\r\n");
    world.advance(3_000);
    let told = world.say(client, "get q\r\ndump_stats q\r\n");
    assert!(told.contains("  items=0\r\n") && told.contains("  expired_items=1\r\n"), "{told}");
}

#[test]
fn what_is_left_in_a_queue_is_listed_although_its_name_stands_for_another_one() {
    let mut world = World::new();
    let client = world.connect_memcache();
    world.say(client, "set old 0 0 1\r\na\r\nset new 0 0 2\r\nbb\r\nset new 0 0 2\r\ncc\r\n");
    assert_eq!(world.say(client, "get old/open\r\n"), "VALUE old 0 1\r\na\r\nEND\r\n");
    let rule = Rule::new(["old"], [Setting::SameAs(Some(b"new"[..].into()))]);
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![rule]));
    world.advance(10);
    let stats = world.say(client, "stats\r\n");
    for row in [
        "curr_items 2",
        "bytes 4",
        "queue_old_items 0",
        "queue_old_open_transactions 1",
        "queue_new_items 2",
        "queue_new_open_transactions 0",
    ] {
        assert!(stats.contains(&format!("STAT {row}\r\n")), "{row} in {stats}");
    }
    let block = world.say(client, "dump_stats old\r\n");
    assert!(
        block.contains("  items=0\r\n") && block.contains("  open_transactions=1\r\n"),
        "{block}"
    );
}
