//! Tests the bytes of calls and replies: frames from thrift's own library, and broken frames.

use std::borrow::Cow;

use broker::{Body, JobBody, Outbox, Position};
use proptest::prelude::*;

use super::reader::{Broken, Head, MessageKind};
use super::receiver::{Received, Receiver};
use super::request::{Arguments, Method};
use super::types::{Protocol, Type, Written};
use super::walker::Walker;
use super::writer::{Failure, Reply, ReplyTo};

const BYTES_MAX: usize = 4096;

const PUT: &str = "0000002c 80010001 00000003 707574 00000001 0b0001 00000001 71 \
    0f0002 0b 00000001 00000001 78 080003 00000000 00";
const PUT_REPLY: &str = "00000017 80010002 00000003 707574 00000001 080000 00000001 00";
const GET: &str = "0000002d 80010001 00000003 676574 00000001 0b0001 00000001 71 \
    080002 00000001 080003 00000000 080004 000001f4 00";
const GET_REPLY: &str = "0000002c 80010002 00000003 676574 00000001 0f0000 0c 00000001 \
    0b0001 00000001 78 0a0002 0000000000000007 00 00";
const CONFIRM: &str = "0000002c 80010001 00000007 636f6e6669726d 00000001 0b0001 00000001 71 \
    0e0002 0a 00000001 0000000000000007 00";
const VOID_REPLY: &str = "00000018 80010002 0000000b 666c7573685f7175657565 00000001 00";
const UNKNOWN_REPLY: &str = "0000001f 80010003 00000002 7a7a 00000001 \
    0b0001 00000002 6e6f 080002 00000001 00";

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// Returns the only message in `bytes`.
fn message(bytes: &[u8]) -> Vec<u8> {
    match Receiver::new(BYTES_MAX).receive(bytes) {
        Received::Message { message, used, .. } if used == bytes.len() => message.into_owned(),
        other => panic!("{other:?}"),
    }
}

fn sent(reply: Reply) -> Vec<u8> {
    let mut outbox = Outbox::default();
    reply.send(Position::default(), &mut outbox);
    let mut bytes = Vec::new();
    while !outbox.is_empty() {
        let piece = outbox.sendable(Position::default()).to_vec();
        outbox.advance(piece.len());
        bytes.extend(piece);
    }
    bytes
}

fn framed() -> ReplyTo {
    ReplyTo { framed: true, protocol: Protocol::Binary, sequence: 1, oneway: false }
}

/// The arguments of a call.
fn arguments_of(message: &[u8]) -> Result<Arguments<'_>, Broken> {
    let (head, _) = Head::read(message)?;
    let mut walker = Walker::of_message();
    walker.walk(message)?;
    Arguments::read(message, head.protocol, walker.places())
}

/// The items of a call.
fn items_of<'a>(arguments: &Arguments<'a>) -> Result<Vec<&'a [u8]>, Broken> {
    let Some(list) = arguments.list else { return Ok(Vec::new()) };
    let (mut reader, count) = list.of(Type::Bytes)?;
    (0..count).map(|_| reader.bytes()).collect()
}

/// The ids of open reads in a call.
fn ids_of(arguments: &Arguments<'_>) -> Result<Vec<i64>, Broken> {
    let Some(set) = arguments.set else { return Ok(Vec::new()) };
    let (mut reader, count) = set.of(Type::I64)?;
    (0..count).map(|_| reader.i64()).collect()
}

#[test]
fn calls_of_the_reference_library_are_understood() {
    let calls = [
        (PUT, Method::Put, "q", 0, 0, 0),
        (GET, Method::Get, "q", 1, 0, 500),
        (CONFIRM, Method::Confirm, "q", 0, 0, 0),
    ];
    for (frame, method, queue, items_max, time_ms, auto_abort_ms) in calls {
        let message = message(&unhex(frame));
        let (head, _) = Head::read(&message).unwrap();
        assert_eq!(
            (head.protocol, head.kind, head.sequence),
            (Protocol::Binary, MessageKind::Call, 1)
        );
        assert_eq!(Method::of_name(head.name), Some(method));
        let arguments = arguments_of(&message).unwrap();
        assert_eq!(arguments.queue, queue.as_bytes());
        assert_eq!(arguments.items_max, items_max);
        assert_eq!((arguments.time_ms, arguments.auto_abort_ms), (time_ms, auto_abort_ms));
        let items = items_of(&arguments).unwrap();
        assert_eq!(items, if method == Method::Put { vec![&b"x"[..]] } else { vec![] });
        let ids = ids_of(&arguments).unwrap();
        assert_eq!(ids, if method == Method::Confirm { vec![7] } else { vec![] });
    }
}

#[test]
fn replies_are_those_that_the_reference_library_expects() {
    let mut reply = Reply::result(framed(), b"put");
    reply.field(0, Written::I32);
    reply.i32(1);
    assert_eq!(sent(reply), unhex(PUT_REPLY));

    for body in [b"x".to_vec(), vec![b'x'; 20_000]] {
        let mut reply = Reply::result(framed(), b"get");
        reply.field(0, Written::List);
        reply.list_of_structs(1);
        reply.structure(|reply| {
            reply.field(1, Written::Bytes);
            reply.body(JobBody::Resident(Body::from(&body[..])));
            reply.field(2, Written::I64);
            reply.i64(7);
        });
        let mut wanted = unhex(GET_REPLY);
        let extra_bytes = body.len() - 1;
        let place = wanted.iter().position(|byte| *byte == b'x').unwrap();
        wanted.splice(place..=place, body.iter().copied());
        for length in [0..4, place - 4..place] {
            let lengthened = unhex(GET_REPLY)[length.clone()].try_into().unwrap();
            let lengthened = u32::from_be_bytes(lengthened) + extra_bytes as u32;
            wanted[length].copy_from_slice(&lengthened.to_be_bytes());
        }
        assert!(sent(reply) == wanted, "with a body of {} bytes", body.len());
    }

    assert_eq!(sent(Reply::result(framed(), b"flush_queue")), unhex(VOID_REPLY));
    let failure = Reply::failure(framed(), b"zz", Failure::UnknownMethod, "no");
    assert_eq!(sent(failure), unhex(UNKNOWN_REPLY));
}

#[test]
fn a_call_of_the_old_style_is_answered_like_a_new_one() {
    let old = unhex("00000017 00000005 7065656b5f 01 00000009 0b0001 00000001 71 00");
    let message = message(&old[..]);
    let (head, _) = Head::read(&message).unwrap();
    assert_eq!((head.name, head.kind, head.sequence), (&b"peek_"[..], MessageKind::Call, 9));
    assert_eq!(arguments_of(&message).unwrap().queue, b"q");
}

#[test]
fn unknown_values_are_ignored() {
    // The unknown argument is a struct with a map, a list of sets, and values of fixed size. The
    // queue follows it.
    let unknown = "0c0009 \
        0d0001 0b 0f 00000001 00000001 6b 08 00000002 00000001 00000002 \
        0f0002 0e 00000002 03 00000003 010203 02 00000000 \
        020003 01 030004 7f 060005 7fff 080006 7fffffff 0a0007 7fffffffffffffff \
        040008 3ff0000000000000 100009 000102030405060708090a0b0c0d0e0f 00";
    let call = format!("80010001 00000001 78 00000000 {unknown} 0b0001 00000002 7171 00");
    let bytes = unhex(&call);
    assert_eq!(arguments_of(&bytes).unwrap().queue, b"qq");
    // The message has no frame, so the walker must find its end.
    assert_eq!(message(&bytes), bytes);

    let compact = "822100 0178 9c \
        1b 01 8a 016b 19 25 02 04 \
        19 2a 23 010203 01 \
        11 12 13 7f 14 feff03 15 feffffff0f 16 feffffffffffffffff01 \
        17 3ff0000000000000 1d 000102030405060708090a0b0c0d0e0f 00 \
        08 02 02 7171 00";
    let bytes = unhex(compact);
    assert!(matches!(Head::read(&bytes), Ok((head, _)) if head.protocol == Protocol::Compact));
    assert!(matches!(Receiver::new(BYTES_MAX).receive(&bytes), Received::Message { .. }));
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| {
        let call = "80010001 00000001 78 00000000";
        unhex(&format!("{call} {} {} 00", "0c0009".repeat(depth), "00".repeat(depth)))
    };
    assert!(matches!(Receiver::new(BYTES_MAX).receive(&nested(50)), Received::Message { .. }));
    assert_eq!(Receiver::new(BYTES_MAX).receive(&nested(200)), Received::Broken);
    let message = nested(200);
    assert_eq!(arguments_of(&message).unwrap_err(), Broken::Malformed);
}

#[test]
fn a_false_length_allocates_nothing() {
    // These lengths of frames are too long, or 0.
    for lie in ["7fffffff 80010001", "00001001 80010001", "00000000 80010001", "81000000 00"] {
        assert_eq!(Receiver::new(BYTES_MAX).receive(&unhex(lie)), Received::Broken, "{lie}");
    }
    // This length is allowed, but memory must grow only with the received bytes.
    let mut receiver = Receiver::new(64 << 20);
    assert_eq!(receiver.receive(&unhex("03000000 80010001")), Received::More(8));
    assert!(receiver.buffered_bytes() <= 8);
    // These lengths in a message are false: of a string, a list, a list of lists, a name.
    for lie in [
        "0b0001 7fffffff 71",
        "0b0001 ffffffff 71",
        "0f0002 0b 7fffffff 00",
        "0f0002 0f 7fffffff 00",
        "0d0002 0b0b 7fffffff 00",
        "0e0002 0a 20000000 00",
        "ff0001 00",
        "0f0002 63 00000001 00",
    ] {
        let call = unhex(&format!("80010001 00000003 707574 00000001 {lie}"));
        assert!(arguments_of(&call).is_err(), "{lie}");
        let mut receiver = Receiver::new(BYTES_MAX);
        let received = receiver.receive(&call);
        assert!(matches!(received, Received::More(_) | Received::Broken), "{lie}: {received:?}");
        assert!(receiver.buffered_bytes() <= call.len());
    }
    let head = Head::read(&unhex("80010001 7fffffff 70")).map(|(head, _)| head.sequence);
    assert_eq!(head, Err(Broken::Malformed));
}

#[test]
fn a_list_of_other_values_is_malformed_unless_it_is_empty() {
    for (list, is_fine) in [
        ("0f0002 08 00000001 00000000 00", false),
        ("0f0002 08 00000000 00", true),
        ("0f0002 00 00000000 00", true),
        ("0e0002 0b 00000001 00000000 00", false),
        // The argument must be a list. A set is an unknown argument.
        ("0e0002 0a 00000001 0000000000000000 00", true),
    ] {
        let call = unhex(&format!("80010001 00000003 707574 00000001 {list}"));
        let arguments = arguments_of(&call).unwrap();
        let fits = items_of(&arguments).is_ok() && ids_of(&arguments).is_ok();
        assert_eq!(fits, is_fine, "{list}");
    }
}

/// Splits `bytes` into pieces of these lengths. Returns all messages, and whether more messages can
/// follow.
fn cut(bytes: &[u8], lengths: &[usize]) -> (Vec<(Vec<u8>, bool)>, bool) {
    let mut receiver = Receiver::new(300);
    let (mut messages, mut unread, mut rest) = (Vec::new(), Vec::new(), bytes);
    let mut lengths = lengths.iter().copied().cycle();
    while !rest.is_empty() {
        let (piece, others) = rest.split_at(lengths.next().unwrap_or(usize::MAX).min(rest.len()));
        rest = others;
        unread.extend_from_slice(piece);
        loop {
            match receiver.receive(&unread) {
                Received::Message { message, framed, used, .. } => {
                    messages.push((message.into_owned(), framed));
                    unread.drain(..used);
                }
                Received::More(used) => {
                    unread.drain(..used);
                    break;
                }
                Received::Broken => return (messages, false),
            }
            assert!(receiver.buffered_bytes() <= 300);
        }
    }
    (messages, true)
}

fn piece_of_a_stream() -> impl Strategy<Value = Vec<u8>> {
    let frames = [PUT, GET, CONFIRM].map(unhex);
    let bare = frames.clone().map(|frame| frame[4..].to_vec());
    let compact = [
        unhex("822101 03676574 18 0171 15 02 15 00 15 e807 00"),
        unhex("822101 03707574 18 0171 19 28 0178 0179 00"),
    ];
    let old = unhex("00000003 676574 01 00000001 0b0001 00000001 71 00");
    let framed_old = [unhex("00000015"), old.clone()].concat();
    let mut whole: Vec<Vec<u8>> = frames.into_iter().chain(bare).chain(compact).collect();
    whole.extend([old, framed_old]);
    prop_oneof![
        20 => prop::sample::select(whole.clone()),
        // This changes one byte of a message.
        2 => (prop::sample::select(whole), any::<prop::sample::Index>(), any::<u8>())
            .prop_map(|(mut bytes, place, byte)| {
                let place = place.index(bytes.len());
                bytes[place] = byte;
                bytes
            }),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #[test]
    fn a_stream_is_cut_into_the_same_messages_however_it_comes(
        pieces in prop::collection::vec(piece_of_a_stream(), 0..12),
        lengths in prop::collection::vec(1..30usize, 1..8),
    ) {
        let bytes = pieces.concat();
        let wanted = cut(&bytes, &[usize::MAX]);
        prop_assert_eq!(&cut(&bytes, &[1]), &wanted);
        prop_assert_eq!(&cut(&bytes, &lengths), &wanted);
        for (message, _) in &wanted.0 {
            if let Ok(items) = arguments_of(message).map(|arguments| items_of(&arguments)) {
                let bytes: usize = items.into_iter().flatten().map(<[u8]>::len).sum();
                prop_assert!(bytes <= message.len());
            }
        }
    }
}

#[test]
fn messages_follow_each_other_with_and_without_frames() {
    let framed = unhex(GET);
    let bare = framed[4..].to_vec();
    let stream = [&framed[..], &bare, &framed].concat();
    let mut receiver = Receiver::new(BYTES_MAX);
    let mut rest = &stream[..];
    for wanted in [true, false, true] {
        let received = receiver.receive(rest);
        let Received::Message { message, framed, used, .. } = received else {
            panic!("{received:?}")
        };
        assert!(matches!(message, Cow::Borrowed(_)), "it is not copied");
        assert_eq!((&message[..], framed), (&bare[..], wanted));
        rest = &rest[used..];
    }
    assert!(rest.is_empty());
}
