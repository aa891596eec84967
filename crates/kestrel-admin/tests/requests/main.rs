//! Tests Kestrel's admin commands with random requests, made of meaningful parts, and with the
//! corpus of the fuzz target.

mod script;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use script::check;

const STARTS: [&str; 8] = [
    "GET /stats.json?",
    "GET /stats.txt?",
    "HEAD /stats?",
    "POST /stats?",
    "GET /graph_data/",
    "GET /shutdown?",
    "POST /reload.txt?",
    "POST /quiesce",
];
const PARTS: [&str; 12] = [
    "period=60",
    "namespace=mon",
    "callback=f",
    "callback=%28",
    "&",
    "=",
    "counter:cmd_get",
    "gauge%3Aq/q/items",
    "%",
    "%ff",
    "%00",
    "+",
];
const HEADERS: [&str; 12] = [
    "Host: 127.0.0.1:2223",
    "Host: [::1]",
    "Host: machine:1",
    "Host: evil.example",
    "Host: 127.0.0.1.evil.example:80",
    "User-Agent: Mozilla/5.0",
    "User-Agent: curl/8",
    "Sec-Fetch-Site: cross-site",
    "Sec-Fetch-Site: same-origin",
    "Origin: http://127.0.0.1:2223",
    "Origin: null",
    "Referer: http://evil.example/",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_request_gets_an_answer_and_changes_nothing_unless_it_may(
        start in select(&STARTS[..]),
        parts in vec(select(&PARTS[..]), 0..5),
        headers in vec(select(&HEADERS[..]), 0..4),
    ) {
        let line = format!("{start}{} HTTP/1.1", parts.concat());
        check([&[line.as_str()][..], &headers].concat().join("\n").as_bytes());
    }
}

#[test]
fn the_fuzz_corpus_gets_answers() {
    for file in testkit::fuzz_corpus("http_requests", 5) {
        check(&file);
    }
}
