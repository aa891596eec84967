//! Tests whole frames byte for byte. Thrift's own library made these frames (spec kestrel 8).

use lineshaft_kestrel::ServerOptions;
use testkit::dialect::world::World;

use crate::world::{connect, server};

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

#[track_caller]
fn check(world: &mut World, client: usize, call: &str, reply: &str) {
    let got = world.ask(client, &unhex(call));
    assert_eq!(got.escape_ascii().to_string(), unhex(reply).escape_ascii().to_string());
}

#[test]
fn frames_of_the_reference_library() {
    let server = server(ServerOptions::default());
    let mut world = World::memory();
    let client = connect(&server, &mut world);

    let put = "0000002c 80010001 00000003 707574 00000001 0b0001 00000001 71 \
        0f0002 0b 00000001 00000001 78 080003 00000000 00";
    check(&mut world, client, put, "00000017 80010002 00000003 707574 00000001 080000 00000001 00");

    let get = "0000002d 80010001 00000003 676574 00000001 0b0001 00000001 71 \
        080002 00000001 080003 00000000 080004 000001f4 00";
    let reply = world.ask(client, &unhex(get));
    let (rest, id_and_ends) = reply.split_at(reply.len() - 10);
    let wanted = "0000002c 80010002 00000003 676574 00000001 0f0000 0c 00000001 \
        0b0001 00000001 78 0a0002";
    assert_eq!(rest.escape_ascii().to_string(), unhex(wanted).escape_ascii().to_string());
    assert_eq!(id_and_ends[8..], [0, 0]);

    let mut confirm = unhex(
        "0000002c 80010001 00000007 636f6e6669726d 00000001 0b0001 00000001 71 \
        0e0002 0a 00000001 0000000000000007 00",
    );
    let id_at = confirm.len() - 9;
    confirm[id_at..id_at + 8].copy_from_slice(&id_and_ends[..8]);
    let reply = "0000001b 80010002 00000007 636f6e6669726d 00000001 080000 00000001 00";
    assert_eq!(world.ask(client, &confirm), unhex(reply));

    let flush = "00000020 80010001 0000000b 666c7573685f7175657565 00000001 0b0001 00000001 71 00";
    let reply = "00000018 80010002 0000000b 666c7573685f7175657565 00000001 00";
    check(&mut world, client, flush, reply);

    // `zz` is an unknown method. The reply is an exception of type 1.
    let reply = world.ask(client, &unhex("0000000f 80010001 00000002 7a7a 00000001 00"));
    let text = "Invalid method name: 'zz'";
    let head = format!("800100 03 00000002 7a7a 00000001 0b0001 {:08x}", text.len());
    let wanted = [&unhex(&head)[..], text.as_bytes(), &unhex("080002 00000001 00")].concat();
    assert_eq!(reply[4..].escape_ascii().to_string(), wanted.escape_ascii().to_string());
}

#[test]
fn a_call_without_version_gets_a_reply_with_it() {
    let server = server(ServerOptions::default());
    let mut world = World::memory();
    let client = connect(&server, &mut world);
    let call = "0000001d 00000003 707574 01 00000009 0b0001 00000001 71 0f0002 0b 00000000 00";
    check(
        &mut world,
        client,
        call,
        "00000017 80010002 00000003 707574 00000009 080000 00000000 00",
    );
}

#[test]
fn malformed_input_ends_the_connection() {
    let texts = [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"set q 0 0 1\r\nx\r\n",
        b"\0\0\0\0\x80\x01\0\x01",
        b"\x7f\x7f\x7f\x7f\x80",
        b"\0\0\0\x04\x80\x02\0\x01",
        b"\x80\x02\0\x01",
        b"\xff\xff\xff\xff\xff",
    ];
    for bytes in texts {
        let server = server(ServerOptions::default());
        let mut world = World::memory();
        let client = connect(&server, &mut world);
        world.send(client, bytes);
        assert!(world.has_ended(client), "{}", bytes.escape_ascii());
    }
}

#[test]
fn malformed_arguments_get_an_error_and_the_connection_continues() {
    let server = server(ServerOptions::default());
    let mut world = World::memory();
    let client = connect(&server, &mut world);
    let lie = unhex("00000017 80010001 00000003 707574 00000005 0b0001 7fffffff 71");
    let reply = world.ask(client, &lie);
    assert_eq!(reply[4..8], unhex("80010003"));
    assert_eq!(reply[reply.len() - 5..], unhex("00000007 00"));
    // Bytes that are not a valid call also get an exception.
    let reply = world.ask(client, &unhex("0000000f 80010002 00000002 7a7a 00000001 00"));
    assert_eq!(reply[reply.len() - 5..], unhex("00000002 00"));
    let version = "00000018 80010001 0000000b 6765745f76657273696f6e 00000001 00";
    assert!(world.ask(client, &unhex(version)).ends_with(b"2.4.1\0"));
}
