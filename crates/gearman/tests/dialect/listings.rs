//! Tests that lists are complete and in order, although the server builds them in slices and serves
//! other clients between the slices.

use broker::policy::{Rule, Rules, Setting};
use broker::{Answer, Event};
use testkit::conformance::gearman::packet::Packet;

use crate::packets::{
    CAN_DO, GRAB_JOB, SUBMIT_JOB, SUBMIT_JOB_BG, WORK_COMPLETE, WORK_DATA, request,
};
use crate::world::World;

/// A small number of units, so that a list of a few rows takes many slices.
const SLICE_UNITS: u32 = 3;

/// Sends lines, and serves other clients after each slice. Returns the whole output and the number
/// of slices.
fn ask(
    world: &mut World,
    admin: usize,
    lines: &str,
    mut others: impl FnMut(&mut World, usize),
) -> (String, usize) {
    let (mut more, mut text) = world.ask_for_slice(admin, lines.as_bytes());
    let mut slices = 1;
    while more {
        others(world, slices);
        let (goes_on, next) = world.ask_for_slice(admin, b"");
        more = goes_on;
        text.extend(next);
        slices += 1;
    }
    (String::from_utf8(text).expect("tests list text"), slices)
}

/// A world with 21 functions, a client that waits for its job, and the worker that has the job.
fn waiting() -> (World, usize, usize) {
    let mut world = World::with_slices(SLICE_UNITS);
    let (client, worker) = (world.connect(), world.connect());
    world.ask(worker, &request(CAN_DO, "f"));
    for number in 0..20 {
        world.ask(worker, format!("create function f{number}\n").as_bytes());
    }
    world.ask(client, &request(SUBMIT_JOB, "f||x"));
    world.ask(worker, &request(GRAB_JOB, ""));
    (world, client, worker)
}

fn rows<'a>(text: &'a str, with: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.starts_with(with)).collect()
}

#[test]
fn functions_are_listed_whole_while_others_come_and_go() {
    for (command, numbers) in [("status", "\t0\t0\t0"), ("prioritystatus", "\t0\t0\t0\t0")] {
        let mut world = World::with_slices(SLICE_UNITS);
        let (admin, other) = (world.connect(), world.connect());
        for number in 0..30 {
            world.ask(
                other,
                format!("create function stays{number:02}\ncreate function goes{number:02}\n")
                    .as_bytes(),
            );
        }
        let lines = format!("{command}\nversion\n");
        let (text, slices) = ask(&mut world, admin, &lines, |world, slice| {
            let lines =
                format!("drop function goes{:02}\ncreate function new{slice}\n", 29 - slice % 30);
            assert!(world.ask(other, lines.as_bytes()).ends_with(b"OK\r\n"));
        });
        assert!(slices > 20, "{slices}");
        let wanted: Vec<String> =
            (0..30).map(|number| format!("stays{number:02}{numbers}")).collect();
        assert_eq!(rows(&text, "stays"), wanted, "{command}");
        let mut gone = rows(&text, "goes");
        gone.dedup();
        assert_eq!(gone.len(), rows(&text, "goes").len());
        let (_, behind) = text.split_once("\n.\n").expect("it has an end");
        assert!(behind.starts_with("OK "), "what comes behind a list waits for its end: {behind}");
    }
}

#[test]
fn jobs_are_listed_whole_while_others_come_and_go() {
    for command in ["show jobs", "show unique jobs"] {
        let mut world = World::with_slices(SLICE_UNITS);
        let (admin, client) = (world.connect(), world.connect());
        for number in 1..=40 {
            world.ask(client, &request(SUBMIT_JOB_BG, &format!("f|u{number:02}|")));
        }
        let mut even = (2..=40).rev().step_by(2);
        let (text, slices) = ask(&mut world, admin, &format!("{command}\n"), |world, slice| {
            world.ask(client, &request(SUBMIT_JOB_BG, &format!("f|v{slice}|")));
            if let Some(number) = even.next() {
                let line = format!("cancel job H:vm:{number}\n");
                assert_eq!(world.ask(client, line.as_bytes()), b"OK\r\n");
            }
        });
        assert!(slices > 10, "{slices}");
        assert!(text.ends_with("\n.\n"), "{text}");
        for number in (1..=40).step_by(2) {
            let row = match command {
                "show jobs" => format!("H:vm:{number}\t0\t0\t1"),
                _ => format!("u{number:02}"),
            };
            assert_eq!(text.lines().filter(|line| **line == row).count(), 1, "{row}");
        }
    }
}

#[test]
fn a_worker_of_many_functions_is_listed_whole() {
    let mut world = World::with_slices(SLICE_UNITS);
    let (admin, worker, last) = (world.connect(), world.connect(), world.connect());
    for number in 0..50 {
        world.ask(worker, &request(CAN_DO, &format!("f{number}")));
    }
    let (text, slices) = ask(&mut world, admin, "workers\n", |world, slice| {
        world.ask(last, &request(CAN_DO, &format!("g{slice}")));
    });
    assert!(slices > 20, "{slices}");
    let functions: Vec<String> = (0..50).rev().map(|number| format!(" f{number}")).collect();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "1 127.0.0.1 - :");
    assert_eq!(lines[1], format!("2 127.0.0.1 - :{}", functions.concat()));
    assert!(lines[2].starts_with("3 127.0.0.1 - : g"), "{text}");
    assert_eq!(lines[3..], ["."]);
}

#[test]
fn news_of_a_job_does_not_stand_in_the_middle_of_a_list() {
    let (mut world, client, worker) = waiting();
    let (text, slices) = ask(&mut world, client, "status\nversion\n", |world, slice| {
        if slice == 1 {
            world.ask(worker, &request(WORK_COMPLETE, "H:vm:1|done"));
        }
    });
    assert!(slices > 5);
    let (list, mut behind) = {
        let at = text.find("\n.\n").expect("it has an end") + 3;
        (&text[..at], text.as_bytes()[at..].to_vec())
    };
    assert_eq!(list.lines().count(), 22, "{list}");
    let packet = Packet::take(&mut behind).expect("the news");
    assert_eq!((packet.kind, &packet.body[..]), (WORK_COMPLETE, &b"H:vm:1\0done"[..]));
    assert!(behind.starts_with(b"OK "), "then comes what was sent behind");
}

#[test]
fn a_bounded_number_of_news_waits_for_the_end_of_a_list() {
    const MOST: usize = 4096;
    for reports in [MOST, MOST + 1] {
        let (mut world, client, worker) = waiting();
        let (more, _) = world.ask_for_slice(client, b"status\n");
        assert!(more);
        for _ in 0..reports {
            world.ask(worker, &request(WORK_DATA, "H:vm:1|x"));
        }
        if reports > MOST {
            assert!(world.has_ended(client), "it reads its list too slowly");
            continue;
        }
        // The list of events can have twice the room, and the data has a block of its own.
        let held = world.held_bytes(client);
        assert!(held >= MOST * (2 * size_of::<Answer<Event>>() + 16), "{held} bytes");
        let (_, mut received) = world.ask_in_slices(client, b"");
        let list_end = received.windows(3).position(|three| three == b"\n.\n");
        received.drain(..list_end.expect("it has an end") + 3);
        for _ in 0..reports {
            assert_eq!(Packet::take(&mut received).expect("the news").kind, WORK_DATA);
        }
        assert_eq!(world.held_bytes(client), 0);
    }
}

#[test]
fn a_client_that_shuts_its_side_gets_its_whole_list() {
    let mut world = World::with_slices(SLICE_UNITS);
    let admin = world.connect();
    for number in 0..20 {
        world.ask(admin, format!("create function f{number}\n").as_bytes());
    }
    let (more, mut text) = world.ask_for_slice(admin, b"status\nversion\n");
    assert!(more && world.waits(admin));
    world.half_close(admin);
    text.extend(world.take_received(admin));
    assert_eq!(text.split(|byte| *byte == b'\n').count(), 23);
    assert!(world.has_ended(admin));
}

#[test]
fn a_list_that_the_servers_end_cuts_short_has_no_last_line() {
    let mut world = World::with_slices(SLICE_UNITS);
    let admin = world.connect();
    for number in 0..20 {
        world.ask(admin, format!("create function f{number}\n").as_bytes());
    }
    let (more, text) = world.ask_for_slice(admin, b"status\n");
    assert!(more && text.starts_with(b"f0\t"));
    world.stop(admin);
    assert!(world.has_ended(admin), "nothing comes any more");
}

#[test]
fn a_list_goes_on_only_as_its_rows_are_sent() {
    let mut world = World::new();
    let (admin, client) = (world.connect(), world.connect());
    let unique = "u".repeat(60);
    for number in 0..3000 {
        world.ask(client, &request(SUBMIT_JOB_BG, &format!("f|{unique}{number:04}|")));
    }
    // This client requests lists and does not read them. For such a client, the server must store
    // only a part of one list.
    let text = world.ask(admin, "show unique jobs\n".repeat(5).as_bytes());
    assert_eq!(text.split(|byte| *byte == b'\n').count(), 5 * 3001 + 1);
    let longest = world.longest_answer(admin);
    assert!(longest < broker::INPUT_REPLIES_BYTES + 100, "{longest}");
    assert_eq!(world.held_bytes(admin), 0);
}

#[test]
fn a_function_is_dropped_by_its_name_or_the_oldest_that_differs_in_case() {
    let mut world = World::new();
    let admin = world.connect();
    let mut say = |line: &str| {
        String::from_utf8(world.ask(admin, format!("{line}\n").as_bytes())).expect("text")
    };
    for name in ["SendMail", "sendmail", "sendMAIL", "other"] {
        assert_eq!(say(&format!("create function {name}")), "OK\r\n");
    }
    let names = |status: String| {
        let names = status.lines().filter_map(|line| line.split_once('\t'));
        names.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(say("drop function sendmail"), "OK\r\n", "this very one");
    assert_eq!(names(say("status")), ["SendMail", "sendMAIL", "other"]);
    assert_eq!(say("drop function SENDmail"), "OK\r\n", "the oldest alike");
    assert_eq!(names(say("status")), ["sendMAIL", "other"]);
    assert_eq!(say("drop function OTHER"), "OK\r\n");
    assert_eq!(say("drop function sendmail"), "OK\r\n");
    assert_eq!(say("drop function sendmail"), "ERR function not found\r\n");
    assert_eq!(say("drop function Default"), "ERR function not found\r\n", "no client uses it");
}

#[test]
fn a_function_is_dropped_by_a_name_that_stands_for_it() {
    let mut world = World::new();
    let admin = world.connect();
    let rule = Rule::new(["send_mail"], [Setting::SameAs(Some(b"mail"[..].into()))]);
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![rule]));
    let mut say = |line: &str| world.say(admin, &format!("{line}\n"));
    for name in ["MAIL", "mail"] {
        assert_eq!(say(&format!("create function {name}")), "OK\r\n");
    }
    assert_eq!(say("drop function send_mail"), "OK\r\n");
    assert_eq!(say("status"), "MAIL\t0\t0\t0\n.\n", "it is not the oldest alike");
}
