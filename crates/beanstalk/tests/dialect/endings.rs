//! Tests how connections end, which commands the server refuses while it drains, and which commands
//! use up ids.

use broker::INPUT_REPLIES_BYTES;

use crate::world::World;

#[track_caller]
fn check(world: &mut World, client: usize, sent: &str, wanted: &str) {
    let received = world.ask(client, sent.as_bytes());
    assert_eq!(String::from_utf8_lossy(&received), wanted, "{sent:?}");
}

#[test]
fn quit_gives_jobs_back_at_once_and_ends_the_connection() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    check(&mut world, b, "reserve\r\n", "");
    check(
        &mut world,
        a,
        "use t\r\nwatch t\r\nput 0 0 60 1\r\nx\r\nreserve\r\nquit\r\nstats\r\n",
        "USING t\r\nWATCHING 2\r\nINSERTED 1\r\nRESERVED 1 1\r\nx\r\n",
    );
    assert!(world.has_ended(a));
    let c = world.connect();
    check(&mut world, c, "reserve-job 1\r\n", "RESERVED 1 1\r\nx\r\n");
}

#[test]
fn a_half_closed_connection_is_answered_to_the_end() {
    let mut world = World::new();
    let a = world.connect();
    check(&mut world, a, "put 0 0 60 1\r\nx\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\nx\r\n");
    check(&mut world, a, "reserve\r\nreserve-with-timeout 9\r\nlist-tube-used\r\nput 0 0", "");
    world.half_close(a);
    assert_eq!(world.take_received(a), b"TIMED_OUT\r\nTIMED_OUT\r\nUSING default\r\n");
    assert!(world.has_ended(a));
    let b = world.connect();
    check(&mut world, b, "peek-ready\r\n", "FOUND 1 1\r\nx\r\n");
}

#[test]
fn a_half_closed_connection_without_requests_just_ends() {
    for left_over in ["", "\r", "list-tube-used", "put 0 0 60 3\r\nab", "put 0 0 60 70000\r\nab"] {
        let mut world = World::new();
        let a = world.connect();
        check(&mut world, a, left_over, "");
        world.half_close(a);
        assert!(world.has_ended(a), "{left_over:?}");
    }
}

#[test]
fn a_half_closed_connection_learns_of_a_deadline_instead_of_waiting() {
    let mut world = World::new();
    let a = world.connect();
    check(&mut world, a, "put 0 0 1 1\r\nx\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\nx\r\n");
    let b = world.connect();
    check(&mut world, b, "reserve\r\nreserve\r\n", "");
    world.half_close(b);
    assert_eq!(world.take_received(b), b"TIMED_OUT\r\nTIMED_OUT\r\n");
    check(&mut world, a, "reserve\r\n", "DEADLINE_SOON\r\n");
}

#[test]
fn a_held_job_wakes_the_waiting_reserve_of_its_holder() {
    let mut world = World::new();
    let a = world.connect();
    check(&mut world, a, "put 0 0 3 1\r\nx\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\nx\r\n");
    check(&mut world, a, "reserve\r\nlist-tube-used\r\n", "");
    world.advance(1999);
    assert_eq!(world.take_received(a), b"");
    world.advance(1);
    assert_eq!(world.take_received(a), b"DEADLINE_SOON\r\nUSING default\r\n");
}

/// A put gets its id when its body is complete. A refused put also uses up an id.
#[test]
fn refused_puts_use_up_ids() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    check(&mut world, a, "put 0 0 60 1\r\nabc\r\n", "EXPECTED_CRLF\r\nUNKNOWN_COMMAND\r\n");
    check(&mut world, a, "put 0 0 60 1\r\nx\r\n", "INSERTED 2\r\n");
    check(&mut world, a, "put 0 0 60 1 z\r\nput 0 0 x\r\n", "BAD_FORMAT\r\nBAD_FORMAT\r\n");
    let too_big = format!("put 0 0 60 65536\r\n{}\r\n", "z".repeat(65536));
    check(&mut world, a, &too_big, "JOB_TOO_BIG\r\n");
    check(&mut world, a, "put 0 0 60 1\r\nx\r\n", "INSERTED 3\r\n");
    check(&mut world, b, "put 0 0 60 10\r\nabc", "");
    check(&mut world, a, "put 0 0 60 1\r\nx\r\n", "INSERTED 4\r\n");
    world.close(b);
    check(&mut world, a, "put 0 0 60 1\r\nx\r\n", "INSERTED 6\r\n");
}

#[test]
fn a_drained_server_refuses_puts_only() {
    let mut world = World::new();
    let a = world.connect();
    check(&mut world, a, "put 0 0 60 1\r\nx\r\nput 0 0 60 5\r\nhe", "INSERTED 1\r\n");
    world.broker.drain();
    check(&mut world, a, "llo\r\n", "DRAINING\r\n");
    check(&mut world, a, "put 0 0 60 5\r\nhello world\r\n", "EXPECTED_CRLF\r\nUNKNOWN_COMMAND\r\n");
    let too_big = format!("put 0 0 60 65536\r\n{}\r\n", "z".repeat(65536));
    check(&mut world, a, &too_big, "JOB_TOO_BIG\r\n");
    check(&mut world, a, "use t\r\nreserve\r\n", "USING t\r\nRESERVED 1 1\r\nx\r\n");
    check(&mut world, a, "release 1 0 0\r\n", "RELEASED\r\n");
    let b = world.connect();
    let stats = String::from_utf8(world.ask(b, b"stats\r\n")).expect("statistics are text");
    assert!(stats.contains("\ndraining: true\n") && stats.contains("\ncmd-put: 4\n"), "{stats}");
}

/// A kick of many jobs runs in slices. The server replies at the end. All later commands wait until
/// then.
#[test]
fn a_long_kick_holds_back_what_is_behind_it() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    let puts = "put 0 100 60 0\r\n\r\n".repeat(2500);
    assert!(world.ask(a, puts.as_bytes()).ends_with(b"INSERTED 2500\r\n"));
    world.send_first(a, b"kick 3000\r\nkick 1\r\n");
    assert!(world.waits(a));
    assert_eq!(world.take_received(a), b"");
    check(&mut world, b, "list-tube-used\r\n", "USING default\r\n");
    assert_eq!(world.take_received(a), b"KICKED 2500\r\nKICKED 0\r\n");
}

#[test]
fn a_server_that_stops_does_not_say_that_a_long_kick_is_done() {
    let mut world = World::new();
    let a = world.connect();
    let puts = "put 0 100 60 0\r\n\r\n".repeat(2500);
    assert!(world.ask(a, puts.as_bytes()).ends_with(b"INSERTED 2500\r\n"));
    world.send_first(a, b"kick 3000\r\nkick 1\r\n");
    world.stop(a);
    assert_eq!(world.take_received(a), b"INTERNAL_ERROR\r\n");
    assert!(world.has_ended(a));
}

#[test]
fn short_commands_with_long_answers_are_executed_in_portions_to_the_last() {
    let mut world = World::new();
    let a = world.connect();
    for number in 0..300 {
        world.ask(a, format!("watch {number:0>150}\r\n").as_bytes());
    }
    let lists = "list-tubes-watched\r\n".repeat(50);
    let answers = |bytes: Vec<u8>| bytes.windows(4).filter(|four| four == b"OK 4").count();
    assert_eq!(answers(world.ask(a, lists.as_bytes())), 50);
    assert!(world.longest_answer(a) < INPUT_REPLIES_BYTES + 50_000);
    // If the input ends in the middle of a command, the server ignores that command.
    check(&mut world, a, &format!("reserve\r\n{lists}list-tube"), "");
    world.half_close(a);
    assert_eq!(answers(world.take_received(a)), 50);
    assert!(world.has_ended(a));
    assert!(world.longest_answer(a) < INPUT_REPLIES_BYTES + 50_000);
}

#[test]
fn a_connection_watches_a_bounded_number_of_tubes() {
    let mut world = World::new();
    let a = world.connect();
    for number in 2..=10_000 {
        check(&mut world, a, &format!("watch t{number}\r\n"), &format!("WATCHING {number}\r\n"));
    }
    check(&mut world, a, "watch more\r\nwatch t2\r\n", "OUT_OF_MEMORY\r\nWATCHING 10000\r\n");
    check(&mut world, a, "ignore t2\r\nwatch more\r\n", "WATCHING 9999\r\nWATCHING 10000\r\n");
    check(&mut world, a, "watch t2\r\nuse t2\r\n", "OUT_OF_MEMORY\r\nUSING t2\r\n");
    // The server serves other clients between commands that check many queues, even after a client
    // has closed its sending side.
    check(&mut world, a, &"watch t2\r\n".repeat(50), &"OUT_OF_MEMORY\r\n".repeat(50));
    let many = "reserve-with-timeout 0\r\n".repeat(50);
    check(&mut world, a, &many, &"TIMED_OUT\r\n".repeat(50));
    check(&mut world, a, &format!("reserve\r\n{many}"), "");
    world.half_close(a);
    assert_eq!(world.take_received(a), "TIMED_OUT\r\n".repeat(51).as_bytes());
    assert!(world.has_ended(a) && world.longest_answer(a) < 60);
}
