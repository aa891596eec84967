//! Tests that lists of tubes are complete and in order, although the server builds them in slices
//! and serves other clients between the slices.

use crate::world::World;

/// A small number of units, so that a list of a few tubes takes many slices.
const SLICE_UNITS: u32 = 3;

/// A world with these tubes. Each tube has one job.
fn world_with(tubes: impl Iterator<Item = String>) -> (World, usize) {
    let mut world = World::with_slices(SLICE_UNITS);
    let client = world.connect();
    for tube in tubes {
        world.ask(client, format!("use {tube}\r\nput 0 0 60 1\r\nx\r\n").as_bytes());
    }
    world.ask(client, b"use default\r\n");
    (world, client)
}

#[test]
fn tubes_are_listed_whole_while_others_come_and_go() {
    let both = |number| [format!("stays{number:02}"), format!("goes{number:02}")];
    let (mut world, client) = world_with((0..30).flat_map(both));
    let monitor = world.connect();
    let (mut more, mut text) = world.ask_for_slice(monitor, b"list-tubes\r\nlist-tube-used\r\n");
    let mut slices = 1;
    while more {
        assert!(text.is_empty() || slices > 10, "it begins with its length");
        // Delete the only job of a tube, so that the tube vanishes. The id of the job is even, so
        // all tubes whose job has an odd id stay.
        let lines = format!(
            "delete {}\r\nuse new{slices}\r\nput 0 0 60 1\r\nx\r\nuse default\r\n",
            60 - slices % 30 * 2
        );
        world.ask(client, lines.as_bytes());
        let (goes_on, next) = world.ask_for_slice(monitor, b"");
        more = goes_on;
        text.extend(next);
        slices += 1;
    }
    assert!(slices > 20, "{slices}");
    let text = String::from_utf8(text).expect("names are text");
    let (head, rest) = text.split_once("\r\n").expect("a line");
    let bytes: usize = head.strip_prefix("OK ").expect("the length").parse().expect("a number");
    let (list, behind) = rest.split_at(bytes);
    assert_eq!(behind, "\r\nUSING default\r\n", "what is sent behind a list waits for its end");
    let names: Vec<&str> = list.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    assert_eq!(names[0], "default");
    let stayed: Vec<&str> =
        names.iter().copied().filter(|name| name.starts_with("stays")).collect();
    let wanted: Vec<String> = (0..30).map(|number| format!("stays{number:02}")).collect();
    assert_eq!(stayed, wanted);
    let mut each = names.clone();
    each.sort_unstable();
    each.dedup();
    assert_eq!(each.len(), names.len(), "none appears twice");
}

#[test]
fn a_long_list_gathers_in_memory_that_is_counted() {
    let name = "x".repeat(190);
    let (mut world, _) = world_with((0..1000).map(|number| format!("{name}{number:04}")));
    let monitor = world.connect();
    let (mut more, mut text) = world.ask_for_slice(monitor, b"list-tubes\r\n");
    let mut held_max = 0;
    while more {
        held_max = held_max.max(world.held_bytes(monitor));
        let (goes_on, next) = world.ask_for_slice(monitor, b"");
        more = goes_on;
        text.extend(next);
    }
    assert!((190_000..400_000).contains(&held_max), "{held_max}");
    assert_eq!(world.held_bytes(monitor), 0);
    assert_eq!(text.split(|byte| *byte == b'\n').count(), 1005);
}

#[test]
fn a_client_that_shuts_its_side_gets_its_whole_list() {
    let (mut world, _) = world_with((0..20).map(|number| format!("t{number}")));
    let monitor = world.connect();
    let (more, text) = world.ask_for_slice(monitor, b"list-tubes\r\nlist-tube-used\r\n");
    assert!(more && text.is_empty());
    world.half_close(monitor);
    let text = String::from_utf8(world.take_received(monitor)).expect("text");
    assert_eq!(text.lines().filter(|line| line.starts_with("- t")).count(), 20);
    assert!(text.ends_with("\r\nUSING default\r\n") && world.has_ended(monitor));
}

#[test]
fn a_list_that_the_servers_end_cuts_short_is_an_error() {
    let (mut world, _) = world_with((0..20).map(|number| format!("t{number}")));
    let monitor = world.connect();
    assert!(world.ask_for_slice(monitor, b"list-tubes\r\n").0);
    world.stop(monitor);
    assert_eq!(world.take_received(monitor), b"INTERNAL_ERROR\r\n");
    assert!(world.has_ended(monitor));
}
