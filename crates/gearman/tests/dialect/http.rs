//! Tests jobs over HTTP, with one job per request: the request, the response, and the time of the
//! response.

use lineshaft_gearman::ServerOptions;

use crate::packets::{
    CAN_DO, GRAB_JOB, JOB_ASSIGN, JOB_CREATED, NO_JOB, SUBMIT_JOB, WORK_COMPLETE, WORK_DATA,
    WORK_EXCEPTION, WORK_FAIL, WORK_STATUS, check, check_text, expect, request,
};
use crate::world::{World, options};

const WORK_WARNING: u32 = 29;

/// A response about a job.
fn answer(handle: &str, command: &str, body: &str) -> String {
    let (len, version) = (body.len(), env!("CARGO_PKG_VERSION"));
    format!(
        "HTTP/1.0 200 OK\r\nX-Gearman-Job-Handle: {handle}\r\nX-Gearman-Command: {command}\r\n\
         Content-Length: {len}\r\nServer: Lineshaft/{version}\r\n\r\n{body}"
    )
}

/// A response that is not about a job.
fn plain(status: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("HTTP/1.0 {status}\r\nServer: Lineshaft/{version}\r\nContent-Length: 0\r\n\r\n")
}

fn post(function: &str, headers: &str, body: &str) -> String {
    let len = body.len();
    format!("POST /{function} HTTP/1.1\r\nContent-Length: {len}\r\n{headers}\r\n{body}")
}

/// Expects this complete response, and the end of the connection.
#[track_caller]
fn expect_answer(world: &mut World, client: usize, wanted: &str) {
    let received = world.take_received(client);
    assert_eq!(String::from_utf8_lossy(&received), wanted);
    assert!(world.has_ended(client));
}

#[track_caller]
fn expect_nothing(world: &mut World, client: usize) {
    let received = world.take_received(client);
    assert_eq!(String::from_utf8_lossy(&received), "");
    assert!(!world.has_ended(client));
}

/// Sends a request on a new connection.
fn send(world: &mut World, sent: &str) -> usize {
    let client = world.connect_http();
    world.send(client, sent.as_bytes());
    client
}

#[track_caller]
fn check_answer(world: &mut World, sent: &str, wanted: &str) {
    let client = send(world, sent);
    expect_answer(world, client, wanted);
}

/// Connects a worker for the function `f`.
fn worker(world: &mut World) -> usize {
    let worker = world.connect();
    check(world, worker, (CAN_DO, "f"), &[]);
    worker
}

#[track_caller]
fn check_grab(world: &mut World, worker: usize, wanted: &str) {
    check(world, worker, (GRAB_JOB, ""), &[(JOB_ASSIGN, wanted)]);
}

#[test]
fn a_client_waits_for_the_outcome() {
    let mut world = World::new();
    let worker = worker(&mut world);
    let client = send(&mut world, &post("f", "", "in"));
    expect_nothing(&mut world, client);
    check_grab(&mut world, worker, "H:vm:1|f|in");
    check(&mut world, worker, (WORK_STATUS, "H:vm:1|1|2"), &[]);
    check(&mut world, worker, (WORK_DATA, "H:vm:1|some "), &[]);
    check(&mut world, worker, (WORK_WARNING, "H:vm:1|careful"), &[]);
    check(&mut world, worker, (WORK_DATA, "H:vm:1|more "), &[]);
    expect_nothing(&mut world, client);
    check(&mut world, worker, (WORK_COMPLETE, "H:vm:1|out"), &[]);
    expect_answer(&mut world, client, &answer("H:vm:1", "WORK_COMPLETE", "some more out"));
}

#[test]
fn a_failure_is_an_answer_too() {
    let mut world = World::new();
    let worker = worker(&mut world);
    for (kind, arguments) in [(WORK_FAIL, ""), (WORK_EXCEPTION, "|boom")] {
        let client = send(&mut world, "GET /f HTTP/1.0\r\n\r\n");
        let handle = if kind == WORK_FAIL { "H:vm:1" } else { "H:vm:2" };
        check_grab(&mut world, worker, &format!("{handle}|f|"));
        check(&mut world, worker, (WORK_DATA, &format!("{handle}|data")), &[]);
        check(&mut world, worker, (kind, &format!("{handle}{arguments}")), &[]);
        expect_answer(&mut world, client, &answer(handle, "WORK_FAIL", ""));
    }
}

#[test]
fn a_background_job_is_answered_at_once() {
    let mut world = World::new();
    let headers = "X-Gearman-Background: true\r\n";
    let created = answer("H:vm:1", "JOB_CREATED", "");
    check_answer(&mut world, &post("f", headers, "in"), &created);
    let worker = worker(&mut world);
    check_grab(&mut world, worker, "H:vm:1|f|in");
}

#[test]
fn head_has_no_body_and_runs_a_job() {
    let mut world = World::new();
    let worker = worker(&mut world);
    let client = send(&mut world, "HEAD /f HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
    check_grab(&mut world, worker, "H:vm:1|f|");
    check(&mut world, worker, (WORK_COMPLETE, "H:vm:1|out"), &[]);
    let wanted = answer("H:vm:1", "x", "out").replace("X-Gearman-Command: x\r\n", "");
    expect_answer(&mut world, client, wanted.strip_suffix("out").unwrap());
}

#[test]
fn a_request_without_a_function() {
    let mut world = World::new();
    for method in ["GET", "POST", "PUT"] {
        let sent = format!("{method} // HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
        check_answer(&mut world, &sent, &plain("404 NOT_FOUND"));
    }
    check_answer(&mut world, "HEAD / HTTP/1.0\r\n\r\n", &plain("200 OK"));
}

#[test]
fn a_page_of_another_site_submits_nothing() {
    let mut world = World::new();
    let host = "Host: 127.0.0.1:8080\r\n";
    for mark in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\nContent-Type: text/plain\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Referer: http://evil.example/page\r\n",
    ] {
        let posted = post("f", &format!("{host}{mark}"), "in");
        check_answer(&mut world, &posted, &plain("403 Forbidden"));
    }
    // DNS rebinding: the name in `Host` is the name of the page's site.
    let rebound =
        post("f", "Host: evil.example:8080\r\nOrigin: http://evil.example:8080\r\n", "in");
    check_answer(&mut world, &rebound, &plain("403 Forbidden"));
    let picture = format!("GET /f HTTP/1.1\r\n{host}User-Agent: Mozilla/5.0\r\n\r\n");
    check_answer(&mut world, &picture, &plain("403 Forbidden"));
    assert_eq!(world.broker.turn(world.now).totals().puts, 0);
    let own = format!("{host}Origin: http://127.0.0.1:8080\r\nUser-Agent: Mozilla/5.0\r\n");
    let client = send(&mut world, &post("f", &own, "in"));
    expect_nothing(&mut world, client);
    assert_eq!(world.broker.turn(world.now).totals().puts, 1);
}

#[test]
fn a_connection_may_be_older_than_its_request() {
    let mut world = World::new();
    let client = send(&mut world, "");
    world.advance(11_000);
    world.send(
        client,
        b"POST /f HTTP/1.1\r\nX-Gearman-Background: true\r\nContent-Length: 1\r\n\r\nx",
    );
    let answer = world.take_text(client);
    assert!(answer.contains("X-Gearman-Command: JOB_CREATED"), "{answer}");
}

#[test]
fn a_head_that_takes_too_long_is_not_waited_for() {
    let mut world = World::new();
    let client = send(&mut world, "POST /f HTTP/1.1\r\n");
    world.advance(9_000);
    world.send(client, b"Content-");
    expect_nothing(&mut world, client);
    world.advance(2_000);
    world.send(client, b"L");
    expect_answer(&mut world, client, &plain("408 Request Timeout"));
    let mut patient = send(&mut world, "POST /f HTTP/1.1\r\nContent-Length: 2\r\n\r\ni");
    world.advance(60_000);
    world.send(patient, b"n");
    expect_nothing(&mut world, patient);
    patient = send(&mut world, "GET /f HTTP/1.1\r\n\r\n");
    world.advance(60_000);
    expect_nothing(&mut world, patient);
}

#[test]
fn a_malformed_request_ends_the_connection() {
    let mut world = World::new();
    let long = format!("GET /{} HTTP/1.0\r\n\r\n", "f".repeat(8192));
    for sent in
        ["\r\n", "GET /f\r\n\r\n", "\0REQ\n\n", "POST /f HTTP/1.1\r\nContent-Length : 2\r\n\r\nin"]
    {
        check_answer(&mut world, sent, &plain("400 Bad Request"));
    }
    check_answer(&mut world, "TRACE /f HTTP/1.1\r\n\r\n", &plain("501 Not Implemented"));
    check_answer(&mut world, &long, &plain("431 Request Header Fields Too Large"));
    // The longest name of a function that fits into a head.
    let longest = format!("GET {} HTTP/1.0\n\n", "f".repeat(8192 - 15));
    assert_eq!(longest.len(), 8192);
    let client = send(&mut world, &longest);
    expect_nothing(&mut world, client);
    world.close(client);
    let turn = world.broker.turn(world.now);
    assert_eq!((turn.totals().sessions, turn.totals().ready), (0, 0));
}

#[test]
fn equal_workloads_share_a_job_unless_a_key_says_otherwise() {
    let mut world = World::new();
    let worker = worker(&mut world);
    let first = send(&mut world, &post("f", "", "same"));
    let second = send(&mut world, &post("f", "", "same"));
    let keyed = send(&mut world, &post("f", "X-Gearman-Unique: k\r\n", "same"));
    let packets = world.connect();
    check(&mut world, packets, (SUBMIT_JOB, "f|k|else"), &[(JOB_CREATED, "H:vm:2")]);
    let alone = send(&mut world, &post("f", "X-Gearman-Unique:\r\n", "same"));
    for handle in ["H:vm:1", "H:vm:2", "H:vm:3"] {
        check_grab(&mut world, worker, &format!("{handle}|f|same"));
        check(&mut world, worker, (WORK_COMPLETE, &format!("{handle}|out")), &[]);
    }
    check(&mut world, worker, (GRAB_JOB, ""), &[(NO_JOB, "")]);
    expect_answer(&mut world, first, &answer("H:vm:1", "WORK_COMPLETE", "out"));
    expect_answer(&mut world, second, &answer("H:vm:1", "WORK_COMPLETE", "out"));
    expect_answer(&mut world, keyed, &answer("H:vm:2", "WORK_COMPLETE", "out"));
    expect_answer(&mut world, alone, &answer("H:vm:3", "WORK_COMPLETE", "out"));
    expect(&mut world, packets, &[(WORK_COMPLETE, "H:vm:2|out")]);
}

#[test]
fn priorities() {
    let mut world = World::new();
    for (priority, body) in [("LOW", "1"), ("other", "2"), ("high", "3")] {
        let headers = format!("X-Gearman-Background: TRUE\r\nX-Gearman-Priority: {priority}\r\n");
        let handle = format!("H:vm:{body}");
        let created = answer(&handle, "JOB_CREATED", "");
        check_answer(&mut world, &post("f", &headers, body), &created);
    }
    let worker = worker(&mut world);
    check_text(&mut world, worker, "prioritystatus\n", "f\t1\t1\t1\t1\n.\n");
    for grabbed in ["H:vm:3|f|3", "H:vm:2|f|2", "H:vm:1|f|1"] {
        check_grab(&mut world, worker, grabbed);
    }
}

#[test]
fn a_client_that_leaves_ends_the_job_that_no_other_client_waits_for() {
    for half in [false, true] {
        let mut world = World::new();
        let client = send(&mut world, &post("f", "", "in"));
        let other = send(&mut world, &post("f", "", "other"));
        check_answer(
            &mut world,
            &post("f", "X-Gearman-Background: true\r\n", "other"),
            &answer("H:vm:2", "JOB_CREATED", ""),
        );
        for client in [client, other] {
            if half {
                world.half_close(client);
            } else {
                world.close(client);
            }
            expect_answer(&mut world, client, "");
        }
        let worker = worker(&mut world);
        check_grab(&mut world, worker, "H:vm:2|f|other");
        check(&mut world, worker, (GRAB_JOB, ""), &[(NO_JOB, "")]);
    }
}

#[test]
fn refusals() {
    let mut world = World::new();
    let error = |code| answer(code, "ERROR", "");
    let unique = format!("X-Gearman-Unique: {}\r\n", "u".repeat(65));
    check_answer(&mut world, &post("f", &unique, "in"), &error("ARGUMENT_TOO_LARGE"));
    let chunked = "POST /f HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nin\r\n0\r\n\r\n";
    check_answer(&mut world, chunked, &plain("411 Length Required"));
    let admin = world.connect();
    world.send(admin, b"create function f\nmaxqueue f 1\n");
    let waiting = send(&mut world, &post("f", "", "1"));
    check_answer(&mut world, &post("f", "", "2"), &error("QUEUE_ERROR"));
    world.broker.drain();
    check_answer(&mut world, &post("g", "", "3"), &error("QUEUE_ERROR"));
    expect_nothing(&mut world, waiting);
}

#[test]
fn a_job_is_refused_if_there_is_no_memory_for_it() {
    let mut world = World::new();
    let used_bytes = world.broker.memory_usage().used_bytes;
    world.broker.set_memory_limit(Some(used_bytes + 500_000));
    let data = "x".repeat(1_000_000);
    for headers in ["", "X-Gearman-Background: true\r\n"] {
        let refused = answer("QUEUE_ERROR", "ERROR", "");
        check_answer(&mut world, &post("f", headers, &data), &refused);
    }
    assert_eq!(world.broker.memory_usage().refused, 2);
    let waiting = send(&mut world, &post("f", "", "x"));
    expect_nothing(&mut world, waiting);
    assert_eq!(world.broker.turn(world.now).totals().puts, 1);
}

#[test]
fn a_job_without_memory_for_it_is_refused_before_its_body_comes() {
    let mut world = World::new();
    let used_bytes = world.broker.memory_usage().used_bytes;
    world.broker.set_memory_limit(Some(used_bytes + 500_000));
    let head = "POST /f HTTP/1.1\r\nContent-Length: 600000\r\nX-Gearman-Background: true\r\n\r\n";
    check_answer(&mut world, head, &answer("QUEUE_ERROR", "ERROR", ""));
    assert_eq!(world.broker.memory_usage().refused, 1);
}

#[test]
fn a_large_body_arrives_whole_however_it_is_cut() {
    let body: String = (0..200_000).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    for piece_bytes in [1_000, 4_096, 150_000] {
        let mut world = World::new();
        let worker = worker(&mut world);
        let client = world.connect_http();
        for piece in post("f", "", &body).as_bytes().chunks(piece_bytes) {
            world.send(client, piece);
        }
        check_grab(&mut world, worker, &format!("H:vm:1|f|{body}"));
    }
}

#[test]
fn bodies_and_results_are_bounded() {
    let mut world = World::with(ServerOptions { packet_bytes_max: 10_000, ..options() });
    let worker = worker(&mut world);
    let too_large = plain("413 Request Entity Too Large");
    // A packet that submits the same job also needs a header, the function, the key and two
    // separators.
    check_answer(&mut world, &post("f", "", &"x".repeat(10_000 - 15)), &too_large);
    check_answer(
        &mut world,
        "PUT /f HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        &too_large,
    );
    let body = "x".repeat(10_000 - 16);
    let client = send(&mut world, &post("f", "", &body));
    check_grab(&mut world, worker, &format!("H:vm:1|f|{body}"));
    check(&mut world, worker, (WORK_DATA, &format!("H:vm:1|{}", "d".repeat(6_000))), &[]);
    expect_nothing(&mut world, client);
    check(&mut world, worker, (WORK_COMPLETE, &format!("H:vm:1|{}", "r".repeat(4_001))), &[]);
    expect_answer(&mut world, client, "");
}

#[test]
fn memory_that_holds_data_for_an_answer_is_counted() {
    let mut world = World::new();
    let worker = worker(&mut world);
    let client = send(&mut world, &post("f", "", "in"));
    check_grab(&mut world, worker, "H:vm:1|f|in");
    assert_eq!(world.held_bytes(client), 0);
    check(&mut world, worker, (WORK_DATA, &format!("H:vm:1|{}", "d".repeat(6_000))), &[]);
    let held = world.held_bytes(client);
    assert!((6_000..=12_000).contains(&held), "{held}");
}

#[test]
fn data_of_all_sizes_comes_before_the_result() {
    let mut world = World::new();
    let worker = worker(&mut world);
    let posted = post("f", "X-Gearman-Unique: k\r\n", "in");
    let clients = [send(&mut world, &posted), send(&mut world, &posted)];
    check_grab(&mut world, worker, "H:vm:1|f|in");
    let mut wanted = String::new();
    let sizes = [1, 100_000, 15_000, 15_000, 15_000, 16_384, 2];
    for (letter, data_bytes) in ["a", "b", "c", "d", "e", "f", "g"].into_iter().zip(sizes) {
        let data = letter.repeat(data_bytes);
        check(&mut world, worker, (WORK_DATA, &format!("H:vm:1|{data}")), &[]);
        wanted.push_str(&data);
    }
    for client in clients {
        expect_nothing(&mut world, client);
        let held = world.held_bytes(client);
        assert!((wanted.len()..wanted.len() + 100_000).contains(&held), "{held}");
    }
    check(&mut world, worker, (WORK_COMPLETE, "H:vm:1|out"), &[]);
    wanted.push_str("out");
    for client in clients {
        expect_answer(&mut world, client, &answer("H:vm:1", "WORK_COMPLETE", &wanted));
    }
}

#[test]
fn data_that_no_packet_could_hold_ends_the_connection() {
    let mut world = World::with(ServerOptions { packet_bytes_max: 50_000, ..options() });
    let worker = worker(&mut world);
    let client = send(&mut world, &post("f", "", "in"));
    check_grab(&mut world, worker, "H:vm:1|f|in");
    for data_bytes in [40_000, 10_000] {
        let data = "d".repeat(data_bytes);
        check(&mut world, worker, (WORK_DATA, &format!("H:vm:1|{data}")), &[]);
        expect_nothing(&mut world, client);
    }
    check(&mut world, worker, (WORK_DATA, "H:vm:1|d"), &[]);
    expect_answer(&mut world, client, "");
    assert_eq!(world.held_bytes(client), 0);
}

#[test]
fn memory_follows_what_came_of_a_workload() {
    let mut world = World::new();
    let client = world.connect_http();
    world.send(client, b"POST /f HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n");
    for sent in 1..50 {
        world.send(client, &[b'x'; 1000]);
        assert!(world.held_bytes(client) <= 2 * sent * 1000);
    }
    world.half_close(client);
    expect_answer(&mut world, client, "");
}

#[test]
fn names_in_a_request_that_is_not_done_count_as_memory() {
    let mut world = World::new();
    let (function, key) = ("f".repeat(4_000), "k".repeat(2_000));
    let head = format!(
        "POST /{function} HTTP/1.1\r\nX-Gearman-Unique: {key}\r\nContent-Length: 9\r\n\r\n"
    );
    let client = send(&mut world, &head);
    expect_nothing(&mut world, client);
    let held = world.held_bytes(client);
    assert!((6_000..7_000).contains(&held), "{held}");
}

/// Sends a request in pieces, and completes the submitted job. Returns the complete response.
fn play<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut world = World::new();
    let worker = worker(&mut world);
    let client = world.connect_http();
    for piece in pieces {
        world.send(client, piece);
    }
    world.send(worker, &request(GRAB_JOB, ""));
    world.send(worker, &request(WORK_COMPLETE, "H:vm:1|out"));
    let received = world.take_received(client);
    assert!(world.has_ended(client), "{}", received.escape_ascii());
    [received, world.take_received(worker)].concat()
}

#[test]
fn a_request_split_at_every_place() {
    let with_leave = post("f", "Expect: 100-continue\r\n", "in") + "GET /g HTTP/1.1\r\n\r\n";
    let refused = "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc".to_owned();
    let background = post("f", "x-gearman-background:true\r\n", "a\r\n\r\nb");
    for sent in [with_leave, refused, background] {
        let wanted = play([sent.as_bytes()]);
        assert!(wanted.len() > 60, "{}", wanted.escape_ascii());
        for place in 0..=sent.len() {
            let (front, back) = sent.as_bytes().split_at(place);
            assert!(play([front, back]) == wanted, "in two pieces, the first of {place} bytes");
        }
        for len in 1..20 {
            assert!(play(sent.as_bytes().chunks(len)) == wanted, "in pieces of {len} bytes");
        }
    }
}

#[test]
fn leave_to_send_is_given() {
    let mut world = World::new();
    let client =
        send(&mut world, "POST /f HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(world.take_received(client), b"HTTP/1.1 100 Continue\r\n\r\n");
    world.send(client, b"in");
    expect_nothing(&mut world, client);
    let worker = worker(&mut world);
    check_grab(&mut world, worker, "H:vm:1|f|in");
}
