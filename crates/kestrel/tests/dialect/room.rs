//! Lists of items of text clients, for which a full queue has no room. Some wait, others are refused.

use broker::policy::{Rule, Rules, Setting, WhenFull};
use testkit::dialect::world::World as Inner;

use crate::world::{World, options};

const BLOCK_FOR_MS: u64 = 1000;

fn limit(world: &mut World, jobs_max: u64) {
    let settings = [
        Setting::JobsMax(Some(jobs_max)),
        Setting::WhenFull(WhenFull::Block),
        Setting::BlockFor(BLOCK_FOR_MS),
    ];
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![Rule::new(["q"], settings)]));
    world.deliver_events();
}

fn start() -> (World, usize, usize) {
    let mut world = World::new();
    limit(&mut world, 2);
    let clients = [(); 2].map(|()| world.connect_text());
    (world, clients[0], clients[1])
}

#[test]
fn each_item_of_a_list_waits_for_room() {
    let (mut world, producer, worker) = start();
    assert_eq!(world.say(producer, "put q:\n1\n2\n3\n4\n\nversion\n"), "");
    assert!(world.waits(producer), "nothing else is read");
    assert_eq!(world.say(worker, "get q\n"), ":1\n");
    assert_eq!(world.take_text(producer), "", "the last item still waits");
    assert_eq!(world.say(worker, "get q\n"), ":2\n");
    assert_eq!(world.take_text(producer), "+4\n:2.4.1\n");
    assert_eq!(world.say(worker, "get q\nget q\nget q\n"), ":3\n:4\n*\n");
}

#[test]
fn a_list_waits_in_vain_only_once() {
    let (mut world, producer, worker) = start();
    assert_eq!(world.say(producer, "put q:\n1\n2\n3\n4\n5\n\n"), "");
    world.advance(BLOCK_FOR_MS - 1);
    assert_eq!(world.take_text(producer), "");
    world.advance(1);
    assert_eq!(world.take_text(producer), "+2\n");
    // The next list waits again, and items of two lists come in their order.
    let other = world.connect_text();
    assert_eq!(world.say(producer, "put q:\n6\n\n"), "");
    assert_eq!(world.say(other, "put q:\n7\n\n"), "");
    assert_eq!(world.say(worker, "get q\n"), ":1\n");
    assert_eq!((world.take_text(producer), world.take_text(other)), ("+1\n".into(), String::new()));
    assert_eq!(world.say(worker, "get q\n"), ":2\n");
    assert_eq!(world.take_text(other), "+1\n");
    assert_eq!(world.say(worker, "get q\nget q\n"), ":6\n:7\n");
}

#[test]
fn all_items_of_a_list_wait_for_one_time() {
    let (mut world, producer, worker) = start();
    assert_eq!(world.say(producer, "put q:\n1\n2\n3\n4\n5\n\n"), "");
    for expected in [":1\n", ":2\n"] {
        world.advance(BLOCK_FOR_MS / 3);
        assert_eq!(world.say(worker, "get q\n"), expected);
        assert_eq!(world.take_text(producer), "", "the next item waits");
    }
    world.advance(BLOCK_FOR_MS - 2 * (BLOCK_FOR_MS / 3) - 1);
    assert_eq!(world.take_text(producer), "");
    world.advance(1);
    assert_eq!(world.take_text(producer), "+4\n", "the wait of the list is over");
    assert_eq!(world.say(worker, "get q\nget q\nget q\n"), ":3\n:4\n*\n");
}

#[test]
fn an_item_whose_client_is_gone_is_not_stored() {
    let (mut world, producer, worker) = start();
    assert_eq!(world.say(producer, "put q:\n1\n2\n3\n\n"), "");
    world.half_close(producer);
    assert!(world.has_ended(producer));
    assert_eq!(world.say(worker, "get q\nget q\nget q\n"), ":1\n:2\n*\n");
    let stopped = world.connect_text();
    assert_eq!(world.say(stopped, "put q:\n1\n2\n3\n\n"), "");
    world.stop(stopped);
    assert_eq!(world.take_text(stopped), "+2\n", "the client learns what is stored");
    assert!(world.has_ended(stopped));
}

#[test]
fn a_long_list_goes_on_in_slices_after_its_wait() {
    let slice = 10;
    let mut world = World::over(Inner::with_slices(slice), options());
    limit(&mut world, 1);
    let producer = world.connect_text();
    let items = "x\n".repeat(500);
    assert_eq!(world.say(producer, &format!("put q:\n{items}\nversion\n")), "");
    limit(&mut world, 1000);
    assert_eq!(world.take_text(producer), "+500\n:2.4.1\n");
    let longest = world.broker.turn(world.now).longest_slice();
    assert!(longest < 100, "{longest}");
}

#[test]
fn refused_items_of_a_long_list_take_slices_too() {
    let mut world = World::new();
    let settings = [Setting::JobsMax(Some(1)), Setting::WhenFull(WhenFull::Refuse)];
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![Rule::new(["q"], settings)]));
    let client = world.connect_text();
    let list = format!("put q:\n{}\n", "x\n".repeat(100_000));
    let (slices, received) = world.ask_in_slices(client, list.as_bytes());
    assert_eq!(received, b"+1\n");
    assert!(slices > 300, "{slices}");
}
