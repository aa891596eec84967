//! Tests `RELOAD`. The reply must wait until the policies are reloaded.

use crate::world::World;

#[test]
fn a_client_that_asks_for_a_reload_waits_for_it_and_is_answered_after_its_last_byte() {
    let mut world = World::new();
    let client = world.connect_memcache();
    world.send_first(client, b"RELOAD\r\nVERSION\r\n");
    assert!(world.waits(client));
    assert!(world.take_received(client).is_empty());
    world.deliver_events();
    let answer = String::from_utf8(world.take_received(client)).unwrap();
    assert!(answer.starts_with("Reloaded config.\r\nVERSION "), "{answer}");

    world.send_first(client, b"RELOAD\r\nVERSION\r\nset q 0 0");
    world.half_close(client);
    assert_eq!(world.take_received(client), b"Reloaded config.\r\nVERSION 2.4.1\r\n");
    assert!(world.has_ended(client));

    let gone = world.connect_memcache();
    world.send_first(gone, b"RELOAD\r\n");
    assert_eq!(world.forgotten_reloads(), 0);
    world.close(gone);
    assert!(world.take_received(gone).is_empty());
    assert_eq!(world.forgotten_reloads(), 1, "nobody waits for it any more");
}
