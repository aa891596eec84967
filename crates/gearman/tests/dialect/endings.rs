//! Tests how connections end, and which commands the server refuses while it drains.

use broker::INPUT_REPLIES_BYTES;

use crate::packets::{
    CAN_DO, ECHO_REQ, ECHO_RES, ERROR, GET_STATUS, GRAB_JOB, JOB_ASSIGN, JOB_CREATED, NO_JOB,
    RESET_ABILITIES, SET_CLIENT_ID, STATUS_RES, SUBMIT_JOB, SUBMIT_JOB_BG, SUBMIT_JOB_EPOCH,
    SUBMIT_JOB_SCHED, WORK_COMPLETE, WORK_DATA, check, check_text, expect, received, request,
};
use crate::world::{World, options};

#[test]
fn a_half_closed_connection_is_answered_to_the_end() {
    let mut world = World::new();
    let a = world.connect();
    world.send_first(a, b"version\nverbose\ngetpid");
    world.half_close(a);
    let version = env!("CARGO_PKG_VERSION");
    let wanted = format!("OK {version}\nOK ERROR\n");
    assert_eq!(String::from_utf8_lossy(&world.take_received(a)), wanted);
    assert!(world.has_ended(a));
}

#[test]
fn a_half_closed_connection_without_requests_just_ends() {
    let long = [&request(SUBMIT_JOB_BG, &format!("f||{}", "x".repeat(20_000)))[..15_000]].concat();
    for left_over in [&b""[..], b"\0", b"\0REQ\0\0\0\x10\0\0\0\x05abc", b"vers", &long] {
        let mut world = World::new();
        let a = world.connect();
        assert_eq!(world.ask(a, left_over), b"");
        world.half_close(a);
        assert!(world.has_ended(a), "{}", left_over.escape_ascii());
    }
}

#[test]
fn the_end_of_a_connection_gives_jobs_back_and_forgets_what_it_could_do() {
    let mut world = World::new();
    let (client, worker, monitor) = (world.connect(), world.connect(), world.connect());
    check(&mut world, worker, (CAN_DO, "f"), &[]);
    check(&mut world, client, (SUBMIT_JOB_BG, "f||x"), &[(JOB_CREATED, "H:vm:1")]);
    check(&mut world, worker, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:1|f|x")]);
    check_text(&mut world, monitor, "status\n", "f\t1\t1\t1\n.\n");
    world.half_close(worker);
    check_text(&mut world, monitor, "status\n", "f\t1\t0\t0\n.\n");
    check_text(&mut world, monitor, "show jobs\n", "H:vm:1\t1\t0\t1\n.\n");
    check_text(&mut world, monitor, "workers\n", "1 127.0.0.1 - :\n3 127.0.0.1 - :\n.\n");
}

#[test]
fn news_of_a_job_does_not_reach_a_client_that_left() {
    let mut world = World::new();
    let (first, second, worker) = (world.connect(), world.connect(), world.connect());
    check(&mut world, worker, (CAN_DO, "f"), &[]);
    check(&mut world, first, (SUBMIT_JOB, "f|k|x"), &[(JOB_CREATED, "H:vm:1")]);
    check(&mut world, second, (SUBMIT_JOB, "f|k|x"), &[(JOB_CREATED, "H:vm:1")]);
    check(&mut world, worker, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:1|f|x")]);
    // The client disconnects before it gets its event.
    world.send_first(worker, &request(WORK_COMPLETE, "H:vm:1|r"));
    world.close(first);
    expect(&mut world, second, &[(WORK_COMPLETE, "H:vm:1|r")]);
    assert!(world.take_received(first).is_empty());
}

#[test]
fn one_connection_may_be_client_and_worker() {
    let mut world = World::new();
    let a = world.connect();
    world.send(a, &request(CAN_DO, "f"));
    world.send(a, &request(SUBMIT_JOB, "f||x"));
    expect(&mut world, a, &[(JOB_CREATED, "H:vm:1")]);
    check(&mut world, a, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:1|f|x")]);
    check(&mut world, a, (WORK_DATA, "H:vm:1|d"), &[(WORK_DATA, "H:vm:1|d")]);
    check(&mut world, a, (RESET_ABILITIES, ""), &[]);
    let denial = "JOB_NOT_FOUND|Job given in work result not found";
    check(&mut world, a, (WORK_COMPLETE, "H:vm:1|r"), &[(ERROR, denial)]);
    world.send(a, &request(CAN_DO, "f"));
    check(&mut world, a, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:1|f|x")]);
    check(&mut world, a, (WORK_COMPLETE, "H:vm:1|r"), &[(WORK_COMPLETE, "H:vm:1|r")]);
}

#[test]
fn a_drained_server_refuses_submits_only() {
    let mut world = World::new();
    let (client, worker) = (world.connect(), world.connect());
    check(&mut world, worker, (CAN_DO, "f"), &[]);
    check(&mut world, client, (SUBMIT_JOB, "f|k|x"), &[(JOB_CREATED, "H:vm:1")]);
    world.broker.drain();
    let refusal = [(ERROR, "QUEUE_ERROR|Server is draining")];
    check(&mut world, client, (SUBMIT_JOB, "f|k|x"), &refusal);
    check(&mut world, client, (SUBMIT_JOB_BG, "f||x"), &refusal);
    check(&mut world, worker, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:1|f|x")]);
    check(&mut world, worker, (WORK_COMPLETE, "H:vm:1|r"), &[]);
    expect(&mut world, client, &[(WORK_COMPLETE, "H:vm:1|r")]);
    check(&mut world, worker, (GRAB_JOB, ""), &[(NO_JOB, "")]);
}

#[test]
fn a_packet_that_is_too_long_ends_the_connection_before_it_comes() {
    let mut world =
        World::with(lineshaft_gearman::ServerOptions { packet_bytes_max: 10_000, ..options() });
    let at_most = request(ECHO_REQ, &"x".repeat(9_988));
    let a = world.connect();
    assert_eq!(world.ask(a, &at_most).len(), 10_000);
    world.send(a, &request(ECHO_REQ, &"x".repeat(9_989))[..12]);
    assert!(world.has_ended(a));
    for header in [b"\0REQ\0\0\0\x0d\xff\xff\xff\xff", b"\0REQ\0\0\0\x09\xff\xff\xff\xff"] {
        let b = world.connect();
        world.send(b, header);
        assert!(world.has_ended(b));
    }
    // The limit of a function's name is lower than the limit of data.
    let c = world.connect();
    world.send(c, &request(CAN_DO, &"f".repeat(8_181))[..12]);
    assert!(world.has_ended(c));
}

#[test]
fn a_submit_is_refused_before_it_is_gathered_if_there_is_no_memory_for_it() {
    let mut world = World::new();
    let a = world.connect();
    let packet = request(SUBMIT_JOB_BG, &format!("f||{}", "x".repeat(1_000_000)));
    let used_bytes = world.broker.memory_usage().used_bytes;
    world.broker.set_memory_limit(Some(used_bytes + 500_000));
    for piece in packet.chunks(1_000) {
        assert_eq!(world.take_received(a), b"");
        world.send(a, piece);
        assert!(world.held_bytes(a) < 16, "only the other arguments");
    }
    let packets = received(&mut world, a);
    assert!(matches!(&packets[..], [(ERROR, text)] if text.starts_with("QUEUE_ERROR|")));
    assert_eq!(world.broker.memory_usage().refused, 1);
    // The server parses the next packets. It accepts packets other than submits, and submits that
    // fit.
    let echo = "x".repeat(600_000);
    check(&mut world, a, (ECHO_REQ, &echo), &[(ECHO_RES, &echo)]);
    check(&mut world, a, (SUBMIT_JOB_BG, "f||x"), &[(JOB_CREATED, "H:vm:1")]);
}

#[test]
fn every_submit_is_refused_if_there_is_no_memory_for_it() {
    let mut world = World::new();
    let client = world.connect();
    let used_bytes = world.broker.memory_usage().used_bytes;
    world.broker.set_memory_limit(Some(used_bytes + 500_000));
    let data = "x".repeat(1_000_000);
    let refusal = [(ERROR, "QUEUE_ERROR|QUEUE_ERROR")];
    for kind in [SUBMIT_JOB, SUBMIT_JOB_BG] {
        check(&mut world, client, (kind, &format!("f||{data}")), &refusal);
    }
    check(&mut world, client, (SUBMIT_JOB_EPOCH, &format!("f||4000000000|{data}")), &refusal);
    assert_eq!(world.broker.memory_usage().refused, 3);
    let totals = world.broker.turn(world.now).totals();
    assert_eq!(totals.puts, 0);
    check(&mut world, client, (SUBMIT_JOB, "f||x"), &[(JOB_CREATED, "H:vm:1")]);
    check(&mut world, client, (SUBMIT_JOB_EPOCH, "f||4000000000|x"), &[(JOB_CREATED, "H:vm:2")]);
}

#[test]
fn the_reply_to_a_wrong_submit_is_about_its_mistake_and_not_about_the_memory() {
    let data = "x".repeat(1_000_000);
    let key = "k".repeat(65);
    let late = "9".repeat(30);
    let refused = [
        (request(SUBMIT_JOB_BG, &format!("f|{key}|{data}")), Some("ARGUMENT_TOO_LARGE|")),
        (request(SUBMIT_JOB_SCHED, &format!("f||1|1|1|1|1|{data}")), Some("INVALID_COMMAND|")),
        (request(SUBMIT_JOB_EPOCH, &format!("f||{late}|{data}")), None),
        (request(SUBMIT_JOB_BG, &format!("f||{data}")), Some("QUEUE_ERROR|")),
    ];
    for piece in [1_000, 16_000, 2_000_000] {
        let mut world = World::new();
        let client = world.connect();
        let used_bytes = world.broker.memory_usage().used_bytes;
        world.broker.set_memory_limit(Some(used_bytes + 500_000));
        for (packet, reply) in &refused {
            packet.chunks(piece).for_each(|piece| world.send(client, piece));
            let packets = received(&mut world, client);
            match reply {
                Some(reply) => {
                    let is_right =
                        matches!(&packets[..], [(ERROR, text)] if text.starts_with(reply));
                    assert!(is_right, "{packets:?}, not {reply}, in pieces of {piece}");
                }
                None => assert_eq!(packets, []),
            }
        }
        for wrong in [&format!("f|{data}"), &format!("{}||{data}", "f".repeat(8_181))] {
            let client = world.connect();
            for piece in request(SUBMIT_JOB_BG, wrong).chunks(piece) {
                world.send(client, piece);
            }
            assert!(world.has_ended(client), "in pieces of {piece}");
        }
    }
}

#[test]
fn memory_follows_what_came_of_a_long_packet() {
    let mut world = World::new();
    let a = world.connect();
    let packet = request(SUBMIT_JOB_BG, &format!("f||{}", "x".repeat(1_000_000)));
    let mut sent = 0;
    for piece in packet[..900_000].chunks(1_000) {
        assert_eq!(world.ask(a, piece), b"");
        sent += piece.len();
        assert!(world.held_bytes(a) <= 2 * sent);
    }
    world.send(a, &packet[900_000..]);
    expect(&mut world, a, &[(JOB_CREATED, "H:vm:1")]);
    assert_eq!(world.held_bytes(a), 0);
    // If a kind of packet has no arguments, the server does not store the body.
    world.send(a, &request(GRAB_JOB, &"x".repeat(1_000_000))[..900_000]);
    assert_eq!(world.held_bytes(a), 0);
    // The server notices missing arguments before the whole packet has arrived.
    let b = world.connect();
    world.send(b, &request(SUBMIT_JOB_BG, &"x".repeat(1_000_000))[..9_000]);
    assert!(world.has_ended(b));
}

#[test]
fn a_response_from_a_client_has_no_effect() {
    let mut world = World::new();
    let a = world.connect();
    let mut packet = request(SUBMIT_JOB_BG, "f||x");
    packet[..4].copy_from_slice(b"\0RES");
    packet.extend(request(ECHO_REQ, "still here"));
    world.send(a, &packet);
    let refusal = (ERROR, "INVALID_MAGIC|Request magic expected");
    expect(&mut world, a, &[refusal, (ECHO_RES, "still here")]);
    check(&mut world, a, (GET_STATUS, "H:vm:1"), &[(STATUS_RES, "H:vm:1|0|0|0|0")]);
    packet[11] -= 2;
    world.send(a, &packet);
    assert!(world.has_ended(a), "its arguments are wrong");
}

#[test]
fn short_commands_with_long_answers_are_executed_in_portions_to_the_last() {
    let mut world = World::new();
    let a = world.connect();
    for number in 0..300 {
        world.ask(a, &request(CAN_DO, &format!("{number:0>150}")));
    }
    let answers = String::from_utf8_lossy(&world.ask(a, &b"status\n".repeat(50))).into_owned();
    assert_eq!(answers.matches("\n.\n").count(), 50);
    assert!(answers.len() > 50 * 40_000);
    assert!(world.longest_answer(a) < INPUT_REPLIES_BYTES + 60_000);
}

#[test]
fn short_commands_without_answers_are_executed_in_portions_to_the_last() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    let commands = request(SET_CLIENT_ID, "c").repeat(40_000);
    let (portions, _) = world.ask_in_slices(a, &commands);
    assert!(portions > 10, "{portions}");
    assert_eq!(world.held_bytes(a), 0);
    // The rest of a client's commands that comes after the end of its input is long, too.
    world.send(b, &request(SUBMIT_JOB_BG, "f||x").repeat(2500));
    world.take_received(b);
    world.send_first(a, &[&b"drop function f\n"[..], &commands, b"version\n"].concat());
    world.half_close(a);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(String::from_utf8_lossy(&world.take_received(a)), format!("OK\r\nOK {version}\n"));
    assert!(world.has_ended(a));
}

#[test]
fn a_function_of_many_jobs_is_dropped_before_the_answer() {
    let mut world = World::new();
    let (client, monitor) = (world.connect(), world.connect());
    world.send(client, &request(SUBMIT_JOB_BG, "f||x").repeat(2500));
    world.take_received(client);
    check_text(&mut world, monitor, "drop function f\nstatus\n", "OK\r\n.\n");
    check_text(&mut world, monitor, "drop function f\n", "ERR function not found\r\n");
}

#[test]
fn a_function_that_is_being_dropped_can_be_dropped_again() {
    let mut world = World::new();
    let (client, first, second) = (world.connect(), world.connect(), world.connect());
    world.send(client, &request(SUBMIT_JOB_BG, "f||x").repeat(2500));
    world.take_received(client);
    for monitor in [first, second] {
        world.send_first(monitor, b"drop function f\n");
        assert!(world.waits(monitor), "it is not gone yet");
    }
    world.deliver_events();
    for monitor in [first, second] {
        assert_eq!(String::from_utf8_lossy(&world.take_received(monitor)), "OK\r\n");
    }
    check_text(&mut world, second, "drop function f\n", "ERR function not found\r\n");
}

#[test]
fn a_half_closed_connection_gets_the_reply_to_a_long_drop_and_those_behind_it() {
    for (behind, answers) in [("", "OK\r\n"), ("status\nvers", "OK\r\n.\n")] {
        let mut world = World::new();
        let (client, monitor) = (world.connect(), world.connect());
        world.send(client, &request(SUBMIT_JOB_BG, "f||x").repeat(2500));
        world.take_received(client);
        world.send_first(monitor, format!("drop function f\n{behind}").as_bytes());
        assert!(world.waits(monitor));
        world.half_close(monitor);
        assert_eq!(String::from_utf8_lossy(&world.take_received(monitor)), answers);
        assert!(world.has_ended(monitor));
    }
}

#[test]
fn a_server_that_stops_does_not_say_that_a_function_of_many_jobs_is_dropped() {
    let mut world = World::new();
    let client = world.connect();
    world.send(client, &request(SUBMIT_JOB_BG, "f||x").repeat(2500));
    world.take_received(client);
    world.send_first(client, b"drop function f\nversion\n");
    assert!(world.waits(client));
    world.stop(client);
    let answer = "ERR the server stops before the function is dropped\r\n";
    assert_eq!(String::from_utf8_lossy(&world.take_received(client)), answer);
    assert!(world.has_ended(client));
}
