//! Tests that the replies of a recorded session do not depend on how the network splits the bytes.

use crate::packets::request;
use crate::world::World;

/// Packets and lines of all kinds, with short data.
fn sent(data: &str) -> Vec<u8> {
    let packets = [
        request(26, "exceptions"),
        request(1, "f"),
        b"version\r\nstatus\nmaxqueue f\n\n".to_vec(),
        request(7, &format!("f|k|{data}")),
        request(18, "f||two|three"),
        request(30, ""),
        request(39, "junk that says nothing"),
        request(9, ""),
        request(12, "H:vm:1|1|2"),
        request(28, &format!("H:vm:1|{data}")),
        request(15, "H:vm:1"),
        request(41, "k"),
        request(25, "H:vm:1|boom"),
        request(13, "H:vm:1|late"),
        request(13, "H:vm:2|"),
        request(24, ""),
        b"show nothing\r\nprioritystatus\n".to_vec(),
        request(16, data),
        request(4, ""),
        // This packet ends the connection. The server ignores the bytes after it.
        request(7, "f|k"),
        b"version\n".to_vec(),
    ];
    packets.concat()
}

fn play<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut world = World::new();
    let client = world.connect();
    let mut received = Vec::new();
    for piece in pieces {
        // Events for the session arrive at the end of a piece. Their time would depend on the
        // pieces, so deliver them only after all pieces.
        world.send_first(client, piece);
        received.extend(world.take_received(client));
    }
    world.deliver_events();
    received.extend(world.take_received(client));
    assert!(world.has_ended(client));
    received
}

#[test]
fn a_session_split_at_every_place() {
    let sent = sent("some data");
    let wanted = play([&sent[..]]);
    assert!(wanted.len() > 400, "{}", wanted.escape_ascii());
    for place in 0..=sent.len() {
        let (front, back) = sent.split_at(place);
        assert!(play([front, back]) == wanted, "in two pieces, the first of {place} bytes");
    }
    for len in 1..100 {
        assert!(play(sent.chunks(len)) == wanted, "in pieces of {len} bytes");
    }
}

#[test]
fn a_session_with_long_packets_in_pieces() {
    for data_bytes in [4_000, 8_170, 8_171, 8_172, 8_180, 20_000] {
        let sent = sent(&"x".repeat(data_bytes));
        let wanted = play([&sent[..]]);
        assert!(wanted.len() > 2 * data_bytes);
        for len in [1, 7, 100, 4_096, 8_191, 8_192, 8_193] {
            assert!(play(sent.chunks(len)) == wanted, "{data_bytes} in pieces of {len} bytes");
        }
    }
}
