//! Tests that the replies do not depend on how the bytes are split, for random conversations and
//! for the corpora of the fuzz targets.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use testkit::dialect::fragments::check_corpus;
use testkit::dialect::scripts::{body, noise, script};

use crate::fragments::{check_cold_memcache, check_cold_text, check_memcache, check_text};

fn queue() -> impl Strategy<Value = &'static str> {
    select(vec!["q", "q", "q+c", "q+d", "r", "bad.name", "", "/"])
}

fn options() -> impl Strategy<Value = String> {
    vec(select(vec!["open", "close", "abort", "peek", "t=300", "t=0", "t=x", "", "wat"]), 0..3)
        .prop_map(|options| options.iter().fold(String::new(), |all, option| all + "/" + option))
}

/// Valid and nearly valid lines. There are only a few names and numbers, so that many lines are
/// about the same items.
fn memcache_command() -> impl Strategy<Value = Vec<u8>> {
    let verb = select(vec!["delete", "flush", "flush_expired", "dump_stats", "dump_config"]);
    let line = prop_oneof![
        6 => (queue(), -1..3_i32, body()).prop_map(|(queue, expiry, data)| {
            let head = format!("set {queue} 0 {expiry} {}\r\n", data.len());
            [head.as_bytes(), &data].concat()
        }),
        6 => (queue(), options()).prop_map(|(queue, options)| format!("get {queue}{options}").into()),
        2 => (-1..3_i32, -1..4_i32).prop_map(|(s, max)| format!("monitor q {s} {max}").into()),
        2 => (-1..3_i32).prop_map(|count| format!("confirm q {count}").into()),
        2 => (verb, queue()).prop_map(|(verb, queue)| format!("{verb} {queue}").into()),
        2 => select(vec![
            "stats", "flush_all", "flush_all_expired", "version", "status", "status up",
            "status quiescent", "status readonly", "reload", "shutdown", "quit", "nonsense", "",
            "dump_stats", "get", "set q", "add q 0 0 2",
        ])
        .prop_map(Into::into),
    ];
    line.prop_map(|line| [&line[..], b"\r\n"].concat())
}

fn text_command() -> impl Strategy<Value = Vec<u8>> {
    let items = vec(vec(select(&b"\r\0x: \xff"[..]), 1..5), 0..4);
    prop_oneof![
        5 => (queue(), select(vec!["", " 0", " 1", " 300", " x"]), items).prop_map(|(queue, expiry, items)| {
            [format!("put {queue}{expiry}:\n").as_bytes(), &items.join(&b'\n'), b"\n\n"].concat()
        }),
        6 => (
            select(vec!["get", "peek", "monitor", "confirm"]),
            queue(),
            select(vec!["", " 0", " 1", " 300", " x"])
        )
            .prop_map(|(verb, queue, number)| format!("{verb} {queue}{number}\n").into()),
        2 => (select(vec!["flush", "delete"]), queue())
            .prop_map(|(verb, queue)| format!("{verb} {queue}\n").into()),
        2 => select(vec![
            "status\n", "status up\n", "status quiescent\n", "version\n", "shutdown\n", "quit\n",
            "nonsense\n", "\n", "get q:\n\n", "put q\n",
        ])
        .prop_map(Into::into),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn memcache_conversations_get_the_same_replies_in_any_fragments(
        script in script(memcache_command(), 60),
    ) {
        check_memcache(&script);
    }

    #[test]
    fn text_conversations_get_the_same_replies_in_any_fragments(
        script in script(text_command(), 60),
    ) {
        check_text(&script);
    }

    #[test]
    fn random_bytes_get_the_same_replies_in_any_fragments(script in noise()) {
        check_memcache(&script);
        check_text(&script);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn memcache_conversations_get_the_same_replies_with_cold_items(
        script in script(memcache_command(), 60),
    ) {
        check_cold_memcache(&script);
    }

    #[test]
    fn text_conversations_get_the_same_replies_with_cold_items(
        script in script(text_command(), 60),
    ) {
        check_cold_text(&script);
    }
}

/// The corpora of the fuzz targets. The fuzz targets call the same functions as this test; see
/// `fuzz/README.md`.
#[test]
fn the_fuzz_corpora_get_the_same_replies_in_any_fragments() {
    check_corpus("kestrel_memcache", 4, check_memcache);
    check_corpus("kestrel_text", 4, check_text);
}
