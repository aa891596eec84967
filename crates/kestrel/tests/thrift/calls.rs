//! Calls and their replies, for tests that are not in the form of cases.

use testkit::dialect::world::World;

use testkit::conformance::thrift::codec::{FRAMED, Reply, Value, call, take_reply};

pub(crate) fn put(queue: &str, items: &[&[u8]]) -> Vec<u8> {
    let items = items.iter().map(|item| item.to_vec()).collect();
    call(FRAMED, "put", &[(1, name(queue)), (2, Value::Strings(items))])
}

pub(crate) fn get(queue: &str, items_max: i32, timeout_ms: i32, auto_abort_ms: i32) -> Vec<u8> {
    let numbers = [(2, items_max), (3, timeout_ms), (4, auto_abort_ms)];
    let numbers = numbers.map(|(number, value)| (number, Value::I32(value)));
    call(FRAMED, "get", &[&[(1, name(queue))][..], &numbers].concat())
}

pub(crate) fn confirm(ids: &[i64]) -> Vec<u8> {
    call(FRAMED, "confirm", &[(1, name("")), (2, Value::Numbers(ids.to_vec()))])
}

/// A call that has a queue as its only argument.
pub(crate) fn about(method: &str, queue: &str) -> Vec<u8> {
    call(FRAMED, method, &[(1, name(queue))])
}

fn name(queue: &str) -> Value {
    Value::Bytes(queue.into())
}

/// Shows the received replies in short form: `put 1`, `get x y`, `confirm 1`, `flush_queue`, `put
/// !6`.
pub(crate) fn shown(mut bytes: Vec<u8>) -> String {
    let mut replies = Vec::new();
    while let Some(reply) = take_reply(FRAMED, &mut bytes) {
        replies.push(shown_reply(&reply));
    }
    assert!(bytes.is_empty(), "{} is no reply", bytes.escape_ascii());
    replies.join(", ")
}

fn shown_reply(reply: &Reply) -> String {
    let mut words = vec![String::from_utf8_lossy(&reply.name).into_owned()];
    match &reply.fields[..] {
        [] => {}
        [(1, Value::Bytes(_)), (2, Value::I32(code))] => words.push(format!("!{code}")),
        [(0, Value::I32(number))] => words.push(number.to_string()),
        [(0, Value::Bytes(text))] => words.push(text.escape_ascii().to_string()),
        [(0, Value::Structs(items))] => words.extend(items.iter().map(|item| match &item[0] {
            (1, Value::Bytes(data)) if data.len() < 40 => data.escape_ascii().to_string(),
            (1, Value::Bytes(data)) => format!("{} bytes", data.len()),
            other => panic!("{other:?}"),
        })),
        [(0, Value::Struct(info))] => words.push(format!("{info:?}")),
        other => panic!("{other:?}"),
    }
    words.join(" ")
}

/// The ids of the open reads in the reply to a `get`.
pub(crate) fn ids(mut bytes: Vec<u8>) -> Vec<i64> {
    let reply = take_reply(FRAMED, &mut bytes).expect("it is complete");
    let Some((0, Value::Structs(items))) = reply.fields.into_iter().next() else {
        panic!("it holds no items")
    };
    let id = |item: Vec<(i16, Value)>| match item[1] {
        (2, Value::I64(id)) => id,
        ref other => panic!("{other:?}"),
    };
    items.into_iter().map(id).collect()
}

/// Sends a call. Returns the replies so far in short form.
pub(crate) fn ask(world: &mut World, client: usize, call: &[u8]) -> String {
    shown(world.ask(client, call))
}
