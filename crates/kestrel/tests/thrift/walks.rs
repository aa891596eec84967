//! Tests that a long call is read in slices of work, however many values it has.

use lineshaft_kestrel::ServerOptions;
use testkit::conformance::thrift::codec::{Form, REPLY, STYLES, Style, Value, call, take_reply};
use testkit::dialect::world::World;

use crate::world::{connect, server};

/// The length of the arguments of a long call.
const LONG_BYTES: usize = 1 << 20;

/// The bytes of a long call that one slice reads at most.
const SLICE_BYTES_MAX: usize = 64 << 10;

/// The most units of a slice: those of the engine, and one step beyond them.
const SLICE_UNITS_MAX: u64 = 1_000;

/// A call of `get_version`, with these bytes as its arguments.
fn call_with(style: Style, arguments: &[u8]) -> Vec<u8> {
    let mut bytes = call(Style { framed: false, ..style }, "get_version", &[]);
    let end = bytes.pop().expect("arguments have an end mark");
    bytes.extend_from_slice(arguments);
    bytes.push(end);
    if style.framed {
        let frame_bytes = bytes.len() as u32;
        bytes.splice(0..0, frame_bytes.to_be_bytes());
    }
    bytes
}

/// A list of very many empty strings, as an argument whose head is these bytes.
fn empty_strings(form: Form, head: &[u8]) -> Vec<u8> {
    let mut bytes = head.to_vec();
    if form == Form::Compact {
        // 1 << 20 as a number of variable size.
        bytes.extend([0xf8, 0x80, 0x80, 0x40]);
    } else {
        bytes.push(11);
        bytes.extend((LONG_BYTES as u32 / 4).to_be_bytes());
    }
    bytes.resize(bytes.len() + LONG_BYTES, 0);
    bytes
}

/// Long arguments whose values are as short as possible: unknown arguments, an unknown list, and the
/// list that `put` takes.
fn long_arguments(form: Form) -> [Vec<u8>; 3] {
    let (unknown, unknown_list, list) = match form {
        Form::Compact => (vec![0x11; LONG_BYTES], &b"\x99"[..], &b"\x29"[..]),
        Form::Strict | Form::Old => {
            ([2, 0, 9, 1].repeat(LONG_BYTES / 4), &b"\x0f\0\x09"[..], &b"\x0f\0\x02"[..])
        }
    };
    [unknown, empty_strings(form, unknown_list), empty_strings(form, list)]
}

#[test]
fn a_call_with_very_many_values_is_read_in_slices() {
    for style in STYLES {
        for arguments in long_arguments(style.form) {
            let server = server(ServerOptions::default());
            let mut world = World::memory();
            let client = connect(&server, &mut world);
            let (slices, mut received) = world.ask_in_slices(client, &call_with(style, &arguments));
            assert!(slices >= LONG_BYTES / SLICE_BYTES_MAX, "{style:?}: {slices}");
            let longest = world.broker.turn(world.now).longest_slice();
            assert!(longest < SLICE_UNITS_MAX, "{style:?}: {longest}");
            let reply = take_reply(style, &mut received).expect("it is complete");
            assert_eq!((reply.kind, &reply.name[..]), (REPLY, &b"get_version"[..]));
        }
    }
}

#[test]
fn the_last_of_several_arguments_with_one_number_counts() {
    for style in STYLES {
        let server = server(ServerOptions::default());
        let mut world = World::memory();
        let client = connect(&server, &mut world);
        let name = |queue: &str| (1, Value::Bytes(queue.into()));
        let items = |item: &[u8]| (2, Value::Strings(vec![item.to_vec()]));
        // The numbers of arguments need not ascend.
        let put = [name("a"), items(b"1"), name("q"), items(b"2"), (9, Value::I32(1))];
        let get = [(2, Value::I32(5)), name("q")];
        for (method, arguments, wanted) in [("put", &put[..], None), ("get", &get[..], Some(b"2"))]
        {
            let mut received = world.ask(client, &call(style, method, arguments));
            let reply = take_reply(style, &mut received).expect("it is complete");
            let Some(wanted) = wanted else { continue };
            let Some((0, Value::Structs(items))) = reply.fields.first() else {
                panic!("{reply:?}")
            };
            assert_eq!(items.len(), 1, "{style:?}");
            assert_eq!(items[0][0], (1, Value::Bytes(wanted.to_vec())));
        }
    }
}

#[test]
fn a_large_item_is_copied_in_slices() {
    for style in STYLES {
        let server = server(ServerOptions::default());
        let mut world = World::memory();
        let client = connect(&server, &mut world);
        let large = vec![b'x'; 8 << 20];
        let arguments = [
            (1, Value::Bytes(b"q".to_vec())),
            (2, Value::Strings(vec![large.clone(), b"y".to_vec()])),
        ];
        let put = call(style, "put", &arguments);
        let (end, beginning) = put.split_last().expect("a call has bytes");
        world.send(client, beginning);
        let (mut more, mut received) = world.ask_for_slice(client, &[*end]);
        let mut slices = 1;
        while more {
            assert!(received.is_empty());
            (more, received) = world.ask_for_slice(client, b"");
            slices += 1;
        }
        let reply = take_reply(style, &mut received).expect("it is complete");
        assert_eq!(reply.fields, [(0, Value::I32(2))]);
        assert!(slices > 5, "{style:?}: {slices}");
        let mut received =
            world.ask(client, &call(style, "get", &[arguments[0].clone(), (2, Value::I32(1))]));
        let reply = take_reply(style, &mut received).expect("it is complete");
        let Some((0, Value::Structs(items))) = reply.fields.first() else { panic!("no items") };
        assert_eq!(items[0][0], (1, Value::Bytes(large)));
    }
}
