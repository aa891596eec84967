//! Tests the exact texts of the statistics, and what each counter counts.

use crate::world::World;

#[track_caller]
fn check_text(world: &mut World, client: usize, sent: &str, wanted: &str) {
    let received = world.ask(client, sent.as_bytes());
    let received = String::from_utf8(received).expect("statistics are text");
    let block = format!("OK {}\r\n---\n{wanted}\r\n", wanted.len() + 4);
    assert_eq!(received, block, "{sent:?}");
}

/// The value of a key in the `stats` that `observer` requests.
fn value(world: &mut World, observer: usize, key: &str) -> u64 {
    let stats = String::from_utf8(world.ask(observer, b"stats\r\n")).expect("statistics are text");
    let prefix = format!("{key}: ");
    let line = stats.lines().find_map(|line| line.strip_prefix(&prefix));
    line.expect("the key is there").parse().expect("the value is a number")
}

#[test]
fn stats_job_follows_a_job() {
    let mut world = World::new();
    let a = world.connect();
    world.ask(a, b"use t\r\nwatch t\r\nput 7 100 60 5\r\nhello\r\n");
    world.advance(1500);
    check_text(
        &mut world,
        a,
        "stats-job 1\r\n",
        "id: 1\ntube: t\nstate: delayed\npri: 7\nage: 1\ndelay: 100\nttr: 60\ntime-left: 98\n\
         file: 0\nreserves: 0\ntimeouts: 0\nreleases: 0\nburies: 0\nkicks: 0\n",
    );
    world.ask(a, b"kick 1\r\nreserve\r\n");
    check_text(
        &mut world,
        a,
        "stats-job 1\r\n",
        "id: 1\ntube: t\nstate: reserved\npri: 7\nage: 1\ndelay: 100\nttr: 60\ntime-left: 59\n\
         file: 0\nreserves: 1\ntimeouts: 0\nreleases: 0\nburies: 0\nkicks: 1\n",
    );
    world.advance(60_000);
    world.ask(a, b"reserve\r\nrelease 1 8 0\r\nreserve\r\nbury 1 9\r\n");
    check_text(
        &mut world,
        a,
        "stats-job 1\r\n",
        "id: 1\ntube: t\nstate: buried\npri: 9\nage: 61\ndelay: 0\nttr: 60\ntime-left: 0\n\
         file: 0\nreserves: 3\ntimeouts: 1\nreleases: 1\nburies: 1\nkicks: 1\n",
    );
}

#[test]
fn stats_tube_counts_what_is_there() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    world.ask(a, b"use t\r\nwatch t\r\nput 1023 0 60 0\r\n\r\nput 1024 0 60 0\r\n\r\n");
    world.ask(a, b"put 0 9 60 0\r\n\r\nput 1 0 60 0\r\n\r\nput 5 0 60 0\r\n\r\nreserve\r\n");
    world.ask(a, b"bury 4 0\r\nreserve\r\ndelete 2\r\npause-tube t 30\r\n");
    world.ask(b, b"watch t\r\nreserve\r\n");
    world.advance(500);
    check_text(
        &mut world,
        a,
        "stats-tube t\r\n",
        "name: t\ncurrent-jobs-urgent: 1\ncurrent-jobs-ready: 1\ncurrent-jobs-reserved: 1\n\
         current-jobs-delayed: 1\ncurrent-jobs-buried: 1\ntotal-jobs: 5\ncurrent-using: 1\n\
         current-watching: 2\ncurrent-waiting: 1\ncmd-delete: 1\ncmd-pause-tube: 1\npause: 30\n\
         pause-time-left: 29\n",
    );
}

#[test]
fn stats_of_a_fresh_server() {
    let mut world = World::new();
    let a = world.connect();
    world.advance(2500);
    check_text(
        &mut world,
        a,
        "stats\r\n",
        "current-jobs-urgent: 0\ncurrent-jobs-ready: 0\ncurrent-jobs-reserved: 0\n\
         current-jobs-delayed: 0\ncurrent-jobs-buried: 0\ncmd-put: 0\ncmd-peek: 0\n\
         cmd-peek-ready: 0\ncmd-peek-delayed: 0\ncmd-peek-buried: 0\ncmd-reserve: 0\n\
         cmd-reserve-with-timeout: 0\ncmd-delete: 0\ncmd-release: 0\ncmd-use: 0\ncmd-watch: 0\n\
         cmd-ignore: 0\ncmd-bury: 0\ncmd-kick: 0\ncmd-touch: 0\ncmd-stats: 1\ncmd-stats-job: 0\n\
         cmd-stats-tube: 0\ncmd-list-tubes: 0\ncmd-list-tube-used: 0\n\
         cmd-list-tubes-watched: 0\ncmd-pause-tube: 0\njob-timeouts: 0\ntotal-jobs: 0\n\
         max-job-size: 65535\ncurrent-tubes: 1\ncurrent-connections: 1\ncurrent-producers: 0\n\
         current-workers: 0\ncurrent-waiting: 0\ntotal-connections: 1\npid: 4711\n\
         version: \"lineshaft 0.1.0\"\nrusage-utime: 0.012679\nrusage-stime: 3.000001\nuptime: 2\n\
         binlog-oldest-index: 0\nbinlog-current-index: 0\nbinlog-records-migrated: 0\n\
         binlog-records-written: 0\nbinlog-max-size: 10485760\ndraining: false\nid: 000000000000feed\n\
         hostname: vm\nos: \"#1 SMP\"\nplatform: x86_64\n",
    );
}

#[test]
fn names_are_quoted_in_statistics_where_yaml_needs_it_and_never_in_lists() {
    let mut world = World::new();
    let a = world.connect();
    world.ask(a, b"use 123\r\nput 0 0 60 0\r\n\r\n");
    let job = String::from_utf8(world.ask(a, b"stats-job 1\r\n")).expect("statistics are text");
    assert!(job.contains("\ntube: \"123\"\n"), "{job}");
    let tube = String::from_utf8(world.ask(a, b"stats-tube 123\r\n")).expect("text");
    assert!(tube.contains("\nname: \"123\"\n"), "{tube}");
    check_text(&mut world, a, "list-tubes\r\n", "- default\n- 123\n");
}

/// Tests which counters a command changes. A row has the sent bytes, the key of a counter, and its
/// growth, as observed on beanstalkd 1.12.
#[test]
fn counters_count_what_the_original_counts() {
    let too_big = format!("put 0 0 60 65536\r\n{}\r\n", "z".repeat(65536));
    for (sent, key, growth) in [
        ("put 0 9 60 1\r\nx\r\n", "cmd-put", 1),
        (&too_big, "cmd-put", 1),
        ("put 0 0 60 1\r\nxyz\r\n", "cmd-put", 1),
        ("put 0 0 60 1 z\r\n", "cmd-put", 1),
        ("put 0 0 60 x\r\n", "cmd-put", 0),
        ("use a\r\n", "cmd-use", 1),
        ("use :\r\nuse -a\r\n", "cmd-use", 0),
        ("watch a\r\n", "cmd-watch", 1),
        ("watch a:\r\n", "cmd-watch", 0),
        ("ignore default\r\n", "cmd-ignore", 1),
        ("reserve-with-timeout 0\r\n", "cmd-reserve-with-timeout", 1),
        ("reserve-with-timeout 99999999999999999999\r\n", "cmd-reserve-with-timeout", 0),
        ("reserve-with-timeout 0\r\n", "cmd-reserve", 0),
        ("reserve\r\n", "cmd-reserve", 1),
        ("reserve x\r\n", "cmd-reserve", 0),
        ("delete 99\r\ndelete x\r\n", "cmd-delete", 1),
        ("release 99 0 0\r\nrelease 1\r\n", "cmd-release", 1),
        ("bury 99 0\r\nbury 1\r\n", "cmd-bury", 1),
        ("touch 99\r\ntouch x\r\n", "cmd-touch", 1),
        ("kick 5x\r\nkick x\r\n", "cmd-kick", 1),
        ("kick-job 99\r\n", "cmd-kick", 0),
        ("peek 99\r\npeek x\r\n", "cmd-peek", 1),
        ("peek-ready\r\npeek-ready x\r\n", "cmd-peek-ready", 1),
        ("peek-delayed\r\n", "cmd-peek-delayed", 1),
        ("peek-buried\r\n", "cmd-peek-buried", 1),
        ("stats\r\n", "cmd-stats", 2),
        ("stats-job 99\r\nstats-job x\r\n", "cmd-stats-job", 1),
        ("stats-tube no\r\nstats-tube :\r\n", "cmd-stats-tube", 1),
        ("list-tubes\r\nlist-tubes x\r\n", "cmd-list-tubes", 1),
        ("list-tube-used\r\n", "cmd-list-tube-used", 1),
        ("list-tubes-watched\r\n", "cmd-list-tubes-watched", 1),
        ("pause-tube no 5\r\npause-tube -x 5\r\n", "cmd-pause-tube", 2),
        ("pause-tube no -1\r\npause-tube a:b 1\r\n", "cmd-pause-tube", 0),
        ("put 0 9 60 1\r\nx\r\nput 0 0 60 1\r\nxyz\r\n", "total-jobs", 1),
        ("put 0 9 60 1\r\nx\r\nput 0 9 60 1\r\nx\r\n", "current-producers", 1),
        ("put 0 0 60 1\r\nxyz\r\n", "current-producers", 1),
        (&too_big, "current-producers", 0),
        ("put 0 0 60 1 z\r\n", "current-producers", 0),
        ("reserve-with-timeout 0\r\nreserve-with-timeout 0\r\n", "current-workers", 1),
        ("reserve\r\n", "current-workers", 1),
        ("reserve-job 99\r\n", "current-workers", 0),
        ("put 0 0 60 0\r\n\r\nreserve-job 1\r\n", "current-workers", 1),
        ("reserve\r\n", "current-waiting", 1),
        ("nonsense\r\n\r\nstats x\r\n", "cmd-stats", 1),
    ] {
        let mut world = World::new();
        let (client, observer) = (world.connect(), world.connect());
        let before = value(&mut world, observer, key);
        world.ask(client, sent.as_bytes());
        let after = value(&mut world, observer, key);
        let shown = &sent[..sent.len().min(60)];
        assert_eq!(after - before, growth, "{key} after {shown:?}");
    }
}

#[test]
fn counts_of_connections_fall_when_they_end() {
    let mut world = World::new();
    let (observer, a, b) = (world.connect(), world.connect(), world.connect());
    world.ask(a, b"put 0 0 60 1\r\nx\r\nreserve\r\nreserve\r\n");
    world.ask(b, b"put 0 0 60 1\r\nx\r\nput 0 0 60 9\r\nxy");
    let keys = ["current-connections", "current-producers", "current-workers", "current-waiting"];
    let counts = |world: &mut World| keys.map(|key| value(world, observer, key));
    assert_eq!(counts(&mut world), [3, 2, 1, 0]);
    world.ask(a, b"quit\r\n");
    assert_eq!(counts(&mut world), [2, 1, 0, 0]);
    world.half_close(b);
    assert_eq!(counts(&mut world), [1, 0, 0, 0]);
    assert_eq!(value(&mut world, observer, "total-connections"), 3);
}

#[test]
fn a_ttr_that_ran_out_is_counted() {
    let mut world = World::new();
    let (a, observer) = (world.connect(), world.connect());
    world.ask(a, b"put 0 0 1 1\r\nx\r\nreserve\r\n");
    world.advance(1000);
    assert_eq!(value(&mut world, observer, "job-timeouts"), 1);
    assert_eq!(value(&mut world, observer, "current-jobs-ready"), 1);
}
