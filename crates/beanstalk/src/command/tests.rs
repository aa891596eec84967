//! Tests which lines are recognised, and which errors all other lines get.

use super::*;

const UNKNOWN: Recognised<'static> = Err(Malformed::UnknownCommand);
const BAD: Recognised<'static> = Err(Malformed::BadFormat);

#[track_caller]
fn check(line: &str, wanted: Recognised<'_>) {
    assert_eq!(recognise(line.as_bytes()), wanted, "{line:?}");
}

#[test]
fn every_command_is_recognised() {
    let id = JobId(7);
    let job = NewJob { priority: 1, delay_s: 2, ttr_s: 3 };
    let put = PutHeader { job, body_bytes: 4, trailing_garbage: false };
    check("put 1 2 3 4", Ok(Command::Put(put)));
    check("use a", Ok(Command::Use(b"a")));
    check("watch a", Ok(Command::Watch(b"a")));
    check("ignore a", Ok(Command::Ignore(b"a")));
    check("reserve", Ok(Command::Reserve));
    check("reserve-with-timeout 5", Ok(Command::ReserveWithTimeout(Patience::Millis(5000))));
    check("reserve-job 7", Ok(Command::ReserveJob(id)));
    check("delete 7", Ok(Command::Delete(id)));
    check("release 7 8 9", Ok(Command::Release { id, priority: 8, delay_s: 9 }));
    check("bury 7 8", Ok(Command::Bury { id, priority: 8 }));
    check("touch 7", Ok(Command::Touch(id)));
    check("peek 7", Ok(Command::Peek(id)));
    check("peek-ready", Ok(Command::PeekReady));
    check("peek-delayed", Ok(Command::PeekDelayed));
    check("peek-buried", Ok(Command::PeekBuried));
    check("kick 7", Ok(Command::Kick { bound: 7 }));
    check("kick-job 7", Ok(Command::KickJob(id)));
    check("stats", Ok(Command::Stats));
    check("stats-job 7", Ok(Command::StatsJob(id)));
    check("stats-tube a", Ok(Command::StatsTube(b"a")));
    check("list-tubes", Ok(Command::ListTubes));
    check("list-tube-used", Ok(Command::ListTubeUsed));
    check("list-tubes-watched", Ok(Command::ListTubesWatched));
    check("pause-tube a 5", Ok(Command::PauseTube(Pause { name: b"a", seconds: 5 })));
    check("quit", Ok(Command::Quit));
}

#[test]
fn a_verb_without_its_space_is_unknown() {
    for verb in [
        "put",
        "use",
        "watch",
        "ignore",
        "delete",
        "release",
        "bury",
        "kick",
        "kick-job",
        "touch",
        "peek",
        "put\t0 0 0 0",
        "use\ta",
    ] {
        check(verb, UNKNOWN);
    }
    for line in ["", " ", "\t", "x", "p", "peek-", "peek-foo", "list-", "pause x 1", "QUIT"] {
        check(line, UNKNOWN);
    }
    check(" list-tube-used", UNKNOWN);
    check("\u{ff}\u{fe}", UNKNOWN);
}

#[test]
fn a_known_prefix_makes_a_line_ill_formed() {
    for line in [
        "stats-job",
        "stats-tube",
        "reserve-job",
        "reserve-with-timeout",
        "pause-tube",
        "reservex",
        "reserve ",
        "reserve-jobx",
        "statsx",
        "stats 1",
        "stats-foo 1",
        "list-tubesx",
        "list-tubes-watch",
        "list-tubes-watchedx",
        "list-tube-used ",
        "peek-readyx",
        "peek-ready ",
        "peek-delayed 1",
        "peek-buried\t",
    ] {
        check(line, BAD);
    }
    check("quitanything goes", Ok(Command::Quit));
}

#[test]
fn a_nul_makes_any_line_ill_formed() {
    for line in ["\0", "quit\0", "kick 1\0", "foo\0", "reserve-with-timeout 0\0"] {
        check(line, BAD);
    }
}

#[test]
fn put_judges_only_its_numbers() {
    for line in [
        "put ",
        "put 0",
        "put 0 0",
        "put 0 0 1",
        "put -1 0 1 1",
        "put 0 0 1 4294967296",
        "put 4294967296 0 1 1",
        "put 1x 0 1 1",
        "put 0x1 0 1 1",
        "put 0 0\t1 1",
    ] {
        check(line, BAD);
    }
    for (line, wanted) in [("put 0 0 0 1", false), ("put  0  0  0  1", false)].into_iter().chain([
        ("put 0 0 0 1 ", true),
        ("put 0 0 0 1 9", true),
        ("put 0 0 0 1x", true),
    ]) {
        let Ok(Command::Put(header)) = recognise(line.as_bytes()) else { panic!("{line:?}") };
        assert_eq!(header.trailing_garbage, wanted, "{line:?}");
        assert_eq!(header.job.ttr_s, 1, "{line:?}");
    }
}

#[test]
fn nothing_follows_the_last_number() {
    for line in [
        "delete 1 ",
        "delete 1 1",
        "peek 1x",
        "touch ",
        "release 1 1",
        "release 1 1 1 ",
        "release 1 1 1 1",
        "bury 1",
        "bury 1 1 1",
        "bury 1 4294967296",
        "release a 0 0",
        "kick-job 1 ",
        "kick ",
        "stats-job 1 2",
        "reserve-job x",
    ] {
        check(line, BAD);
    }
}

#[test]
fn a_name_is_the_whole_rest_of_the_line() {
    for line in ["use ", "use  a", "use a ", "watch -a", "ignore a:", "stats-tube  default"] {
        check(line, BAD);
    }
}

/// All these results were observed on beanstalkd 1.12.
#[test]
fn pause_tube_is_lax_about_spaces() {
    for line in [
        "pause-tubea 5",
        "pause-tube a 5",
        "pause-tube   a 5",
        "pause-tube a   5",
        "pause-tube a 005",
    ] {
        check(line, Ok(Command::PauseTube(Pause { name: b"a", seconds: 5 })));
    }
    check("pause-tube -x 5", Ok(Command::PauseTube(Pause { name: b"-x", seconds: 5 })));
    for line in [
        "pause-tube ",
        "pause-tube  5",
        "pause-tube a",
        "pause-tube a ",
        "pause-tube a 5 ",
        "pause-tube a 5 5",
        "pause-tube a -1",
        "pause-tube a 4294967296",
        "pause-tube a:b 1",
        "pause-tube a\t5",
        "pause-tube \ta 5",
        "pause-tube a\t5 5",
    ] {
        check(line, BAD);
    }
}
