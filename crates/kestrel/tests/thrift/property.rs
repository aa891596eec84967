//! Tests that the replies do not depend on how the bytes are split, for random conversations and
//! for the corpus of the fuzz target.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use testkit::dialect::fragments::{SWITCH, check_corpus};
use testkit::dialect::scripts::{noise, script};

use crate::fragments::{check_cold_script, check_script};
use testkit::conformance::thrift::codec::{CALL, ONEWAY, STYLES, Style, Value, message};

/// Numbers of items, times and limits.
const NUMBERS: [i32; 9] = [-1, 0, 0, 1, 2, 3, 100, 1_000, i32::MAX];

/// Valid and nearly valid calls. There are only a few names, so that many calls are about the same
/// items.
fn calls(limits_ms: Vec<i32>) -> impl Strategy<Value = Vec<u8>> {
    let queue = || {
        let names = ["q", "r", "r+c", "kt_max1", "kt_open2", "kt_alias", "kt_dest1", "a/b", ""];
        select(names.to_vec()).prop_map(|name| (1, Value::Bytes(name.into())))
    };
    let item = prop_oneof![
        20 => vec(any::<u8>(), 0..4),
        1 => (9_000..10_100_usize).prop_map(|len| vec![b'z'; len]),
    ];
    let items = vec(item, 0..4).prop_map(|items| (2, Value::Strings(items)));
    let small =
        |number: i16| select(&NUMBERS[..]).prop_map(move |value| (number, Value::I32(value)));
    let ids = vec(0..40_i64, 0..5).prop_map(|ids| (2, Value::Numbers(ids)));
    let call = prop_oneof![
        5 => (queue(), items, small(3)).prop_map(|(q, items, e)| ("put", vec![q, items, e])),
        5 => (queue(), small(2), small(3), select(limits_ms))
            .prop_map(|(q, max, time, abort)| ("get", vec![q, max, time, (4, Value::I32(abort))])),
        2 => (select(vec!["confirm", "abort"]), queue(), ids)
            .prop_map(|(method, q, ids)| (method, vec![q, ids])),
        2 => (select(vec!["peek", "flush_queue", "delete_queue", "zz"]), queue())
            .prop_map(|(method, q)| (method, vec![q])),
        1 => select(vec!["flush_all_queues", "current_status", "get_version", "get"])
            .prop_map(|method| (method, vec![])),
        1 => select(vec![0, 1, 2, 3, 3, 3])
            .prop_map(|status| ("set_status", vec![(1, Value::I32(status))])),
    ];
    let kind = select(vec![CALL, CALL, CALL, CALL, ONEWAY, 2]);
    (styles(), kind, call, any::<i32>()).prop_map(|(style, kind, (method, arguments), sequence)| {
        message(style, kind, method, sequence, &arguments)
    })
}

fn styles() -> impl Strategy<Value = Style> {
    select(STYLES.to_vec())
}

/// Calls. A few of them have one wrong byte.
fn input(limits_ms: &[i32]) -> impl Strategy<Value = Vec<u8>> {
    let broken = (calls(limits_ms.into()), any::<prop::sample::Index>(), any::<u8>());
    let broken = broken.prop_map(|(mut call, place, byte)| {
        let place = place.index(call.len());
        call[place] = byte;
        call
    });
    prop_oneof![30 => calls(limits_ms.into()), 1 => broken]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_conversation_in_fragments(script in script(input(&NUMBERS), 40)) {
        check_script(&script);
    }

    #[test]
    fn any_bytes_at_all(script in noise()) {
        check_script(&script);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A read of a cold item for good needs a number of a lease, and a read of other items does not.
    /// So either no read of a script is open, or all are, and the scripts show the same numbers.
    #[test]
    fn a_conversation_with_cold_items(
        script in prop_oneof![script(input(&[-1, 0]), 40), script(input(&[1_000, i32::MAX]), 40)],
    ) {
        check_cold_script(&script);
    }
}

/// After the first item, the call waits for the load of the next one, and finds that it has expired.
#[test]
fn a_get_ends_behind_a_cold_item_that_has_expired() {
    let queue = || (1, Value::Bytes("r".into()));
    let put = |expiry_ms| {
        let item = (2, Value::Strings(vec![b"an item".to_vec()]));
        message(STYLES[0], CALL, "put", 7, &[queue(), item, (3, Value::I32(expiry_ms))])
    };
    let numbers = [(2, Value::I32(-1)), (3, Value::I32(-1)), (4, Value::I32(1_000))];
    let get = message(STYLES[0], CALL, "get", 8, &[vec![queue()], numbers.to_vec()].concat());
    // An action between two calls makes two blocks of their items.
    let pause = vec![SWITCH, 0];
    check_cold_script(&[vec![0], put(100), pause.clone(), put(1), pause, get].concat());
}

/// The corpus of the fuzz target. The fuzz target calls the same function as this test; see
/// `fuzz/README.md`.
#[test]
fn the_fuzz_corpus_gets_the_same_replies_in_any_fragments() {
    check_corpus("kestrel_thrift", 8, check_script);
}
