//! Tests that the replies do not depend on how the bytes are split, for random conversations and
//! for the corpus of the fuzz target.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use testkit::dialect::fragments::{RECONNECT, SWITCH, check_corpus};
use testkit::dialect::scripts::{long_line, noise, script};

use crate::fragments::{HTTP_CLIENT, check, check_cold, check_http};

use crate::packets::request;

/// Valid and nearly valid packets. There are few names, so that many packets are about the same
/// job.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let function = select(vec!["f", "g", ""]);
    let unique = select(vec!["", "-", "k", "l"]);
    let handle = (1..12_u64).prop_map(|id| format!("H:vm:{id}"));
    let submits = select(vec![7, 18, 21, 32, 33, 34_u32]);
    let submit = (submits, function.clone(), unique.clone(), workload());
    let reduce = (37..=38_u32, function.clone(), unique.clone(), select(vec!["", "r"]));
    let due = (0..4_u64).prop_map(|seconds| (1_700_000_000 + seconds).to_string());
    prop_oneof![
        6 => submit.prop_map(|(kind, f, u, data)| with_data(kind, &format!("{f}|{u}|"), &data)),
        1 => reduce.prop_map(|(kind, f, u, r)| request(kind, &format!("{f}|{u}|{r}||x"))),
        1 => (function.clone(), due).prop_map(|(f, due)| request(36, &format!("{f}||{due}|x"))),
        2 => function.clone().prop_map(|f| request(1, f)),
        1 => function.clone().prop_map(|f| request(2, f)),
        1 => (function, 0..3000_u32).prop_map(|(f, ms)| request(23, &format!("{f}|{ms}"))),
        6 => select(vec![4, 9, 30, 39, 3_u32]).prop_map(|kind| request(kind, "")),
        6 => (select(vec![13, 25, 28, 29_u32]), handle.clone(), workload())
            .prop_map(|(kind, h, data)| with_data(kind, &format!("{h}|"), &data)),
        2 => handle.clone().prop_map(|h| request(14, &h)),
        2 => handle.clone().prop_map(|h| request(12, &format!("{h}|1|2"))),
        1 => handle.prop_map(|h| request(15, &h)),
        1 => unique.prop_map(|u| request(41, u)),
        1 => select(vec!["exceptions", "other"]).prop_map(|option| request(26, option)),
        1 => (0..50_u32, 0..4_usize).prop_map(|(kind, count)| request(kind, &"|".repeat(count))),
    ]
}

fn with_data(kind: u32, arguments: &str, data: &[u8]) -> Vec<u8> {
    let mut packet = request(kind, arguments);
    packet.extend_from_slice(data);
    let body_bytes = packet.len() as u32 - 12;
    packet[8..12].copy_from_slice(&body_bytes.to_be_bytes());
    packet
}

/// Workloads. Most are small, and some are near a limit or above it. Some contain the separator of
/// arguments.
fn workload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => vec(select(&b"\n\0xyz"[..]), 0..8),
        1 => vec(Just(0), 8_100..8_200),
        1 => (9_950..10_010_usize).prop_map(|len| vec![b'z'; len]),
    ]
}

/// Lines whose replies can have another order if jobs have left the memory: the rows of a list, and
/// the end of a drop among the ends of its jobs. The protocol promises no such order.
const UNORDERED: [&str; 4] =
    ["show jobs", "show unique jobs", "drop function f", "drop function g"];

fn line(more: &[&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let mut lines = vec![
        "status",
        "prioritystatus",
        "workers",
        "version",
        "cancel job H:vm:1",
        "cancel job H:vm:2",
        "maxqueue f 2",
        "maxqueue f",
        "maxqueue g 3 2 1",
        "create function g",
        "nonsense",
        "",
        "1 2 3 4 5 6",
    ];
    lines.extend(more);
    select(lines).prop_map(|line| format!("{line}\r\n").into_bytes())
}

/// A request of the client that speaks HTTP, usually on a new connection.
fn http() -> impl Strategy<Value = Vec<u8>> {
    let method = select(vec!["POST", "PUT", "GET", "POST", "HEAD", "post", ""]);
    let function = select(vec!["f", "g", "f/g", "", "?x"]);
    let headers = vec![
        "",
        "X-Gearman-Background: true\r\n",
        "X-Gearman-Unique: k\r\n",
        "X-Gearman-Priority: high\r\n",
        "Connection: keep-alive\r\n",
        "Nonsense\r\n",
        "Content-Length: 2\r\n",
    ];
    let len = prop_oneof![4 => Just("3".to_owned()), 1 => "[0-9x-]{0,11}"];
    (method, function, vec(select(headers), 0..3), len, workload()).prop_map(
        |(method, function, headers, len, body)| {
            let headers = headers.concat();
            let head =
                format!("{method} /{function} HTTP/1.1\r\nContent-Length: {len}\r\n{headers}\r\n");
            [&[SWITCH, HTTP_CLIENT as u8, RECONNECT], head.as_bytes(), &body].concat()
        },
    )
}

fn input() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![24 => packet(), 4 => line(&UNORDERED), 4 => http(), 1 => long_line(8_000..8_300)]
}

/// Input whose replies have the same order with and without cold jobs. A worker that sleeps while a
/// job is loaded wakes later, so no worker sleeps.
fn ordered_input() -> impl Strategy<Value = Vec<u8>> {
    let packet = packet().prop_map(|mut packet| {
        packet[7] = if packet[7] == 4 { 9 } else { packet[7] };
        packet
    });
    prop_oneof![24 => packet, 4 => line(&[]), 4 => http()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn conversations_get_the_same_replies_in_any_fragments(
        script in script(input(), 60),
    ) {
        check(&script);
    }

    #[test]
    fn random_bytes_get_the_same_replies_in_any_fragments(script in noise()) {
        check(&script);
    }

    /// The magic and the length of each header are valid here, because random bytes seldom form a
    /// valid header.
    #[test]
    fn random_packets_get_the_same_replies_in_any_fragments(
        seed in any::<u8>(),
        packets in vec((0..45_u8, vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>()], 0..30)), 0..40),
    ) {
        let mut script = vec![seed];
        for (kind, body) in packets {
            script.extend_from_slice(&[0, b'R', b'E', b'Q', 0, 0, 0, kind, 0, 0, 0]);
            script.push(body.len() as u8);
            script.extend_from_slice(&body);
        }
        check(&script);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn conversations_get_the_same_replies_with_cold_jobs(script in script(ordered_input(), 60)) {
        check_cold(&script);
    }
}

/// Runs the corpus of the fuzz target. The fuzz target makes the same check. See `fuzz/README.md`.
#[test]
fn the_fuzz_corpus_gets_the_same_replies_in_any_fragments() {
    check_corpus("gearman_session", 8, check);
}

#[test]
fn the_fuzz_corpus_of_http_gets_the_same_replies_in_any_fragments() {
    check_corpus("gearman_http", 5, check_http);
}
