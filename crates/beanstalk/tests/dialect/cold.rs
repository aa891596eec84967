//! Tests commands that need a cold job. A load ends only when a test calls `load`, so other clients
//! can act during the load.

use broker::limits::FULL_MEMORY_LEASES;
use lineshaft_beanstalk::MAX_JOB_SIZE_DEFAULT;
use testkit::dialect::world;

use crate::world::{World, with_log};

const JOBS: u64 = 5;

/// A world with jobs of different priorities, and two clients.
fn filled(world: world::World) -> (World, [usize; 2]) {
    let mut world = World::over(world, MAX_JOB_SIZE_DEFAULT);
    let clients = [(); 2].map(|()| world.connect());
    for number in 1..=JOBS {
        let put = format!("put {} 0 60 5\r\nbody{number}\r\n", 10 * number);
        assert_eq!(world.say(clients[0], &put), format!("INSERTED {number}\r\n"));
    }
    let interrupted = world.connect();
    world.say(interrupted, "put 0 0 60 5\r\nbo");
    world.close(interrupted);
    (world, clients)
}

/// A world in which these jobs are cold.
fn cold() -> (World, [usize; 2]) {
    let (mut world, clients) = filled(world::World::cold(with_log()));
    assert_eq!(world.broker.cold_jobs(), JOBS);
    world.hold_loads();
    (world, clients)
}

/// Loads the jobs that clients need, and returns the replies of this client.
fn after_load(world: &mut World, client: usize) -> String {
    world.load();
    world.broker.turn(world.now).check_invariants();
    world.take_text(client)
}

#[test]
fn commands_behind_a_command_that_needs_a_cold_job_wait_with_it() {
    let commands = [
        ("reserve", "RESERVED 1 5\r\nbody1\r\n"),
        ("reserve-with-timeout 0", "RESERVED 1 5\r\nbody1\r\n"),
        ("reserve-with-timeout 7", "RESERVED 1 5\r\nbody1\r\n"),
        ("reserve-job 3", "RESERVED 3 5\r\nbody3\r\n"),
        ("peek-ready", "FOUND 1 5\r\nbody1\r\n"),
        ("peek 3", "FOUND 3 5\r\nbody3\r\n"),
        ("delete 3", "DELETED\r\n"),
        ("kick-job 3", "NOT_FOUND\r\n"),
        ("stats-job 3", "OK "),
        // The number of an interrupted put, which no job has.
        ("delete 6", "NOT_FOUND\r\n"),
        ("reserve-job 6", "NOT_FOUND\r\n"),
        ("stats-job 6", "NOT_FOUND\r\n"),
    ];
    for (command, reply) in commands {
        let (mut resident, clients) = filled(world::World::sealing(with_log()));
        let (mut cold, _) = cold();
        let sent = format!(
            "{command}\r\nput 1 0 60 1\r\nx\r\npeek-ready\r\nstats-tube default\r\ndelete 7\r\n"
        );
        let wanted = resident.say(clients[0], &sent);
        assert!(wanted.starts_with(reply), "{command}: {wanted}");
        assert_eq!(cold.say(clients[0], &sent), "", "{command}");
        assert!(cold.waits(clients[0]));
        assert_eq!(cold.say(clients[1], "list-tube-used\r\n"), "USING default\r\n");
        assert_eq!(after_load(&mut cold, clients[0]), wanted, "{command}");
    }
}

#[test]
fn commands_about_jobs_that_somebody_holds_do_not_wait() {
    let (mut world, [a, b]) = cold();
    for command in ["bury 3 0", "touch 3", "release 3 0 0", "peek-delayed", "peek-buried"] {
        assert_eq!(world.say(a, &format!("{command}\r\n")), "NOT_FOUND\r\n");
    }
    assert_eq!(world.say(a, "kick 9\r\n"), "KICKED 0\r\n");
    world.say(a, "reserve\r\n");
    assert_eq!(after_load(&mut world, a), "RESERVED 1 5\r\nbody1\r\n");
    assert_eq!(world.broker.cold_jobs(), JOBS - 1);
    assert_eq!(world.say(b, "reserve-with-timeout 0\r\n"), "");
    // A kicked job differs from its entry in the log, so it stays in memory.
    let sent = "bury 1 0\r\nkick 9\r\ndelete 1\r\n";
    assert_eq!(world.say(a, sent), "BURIED\r\nKICKED 1\r\nDELETED\r\n");
    assert_eq!(after_load(&mut world, b), "RESERVED 2 5\r\nbody2\r\n");
}

#[test]
fn a_put_during_a_load_can_be_the_next_job() {
    for (priority, next) in [(0, "RESERVED 7 1\r\nx\r\n"), (99, "RESERVED 1 5\r\nbody1\r\n")] {
        let (mut world, [a, b]) = cold();
        assert_eq!(world.say(a, "reserve\r\n"), "");
        let put = format!("put {priority} 0 60 1\r\nx\r\n");
        assert_eq!(world.say(b, &put), "INSERTED 7\r\n");
        assert_eq!(after_load(&mut world, a), next);
    }
}

#[test]
fn a_job_that_others_take_during_a_load_is_not_handed_out_twice() {
    let (mut world, [a, b]) = cold();
    assert_eq!(world.say(b, "delete 1\r\ndelete 2\r\n"), "");
    assert_eq!(world.say(a, "reserve-job 1\r\nreserve\r\nreserve-job 2\r\n"), "");
    let got = after_load(&mut world, a);
    assert_eq!(world.take_text(b), "DELETED\r\nDELETED\r\n");
    assert!(got.starts_with("NOT_FOUND\r\nRESERVED "), "{got}");
    let others = world.connect();
    world.say(others, &"reserve-with-timeout 0\r\n".repeat(5));
    let left = after_load(&mut world, others);
    assert_eq!(left.matches("TIMED_OUT").count(), 3, "{got}, {left}");
}

#[test]
fn a_client_that_closes_during_a_load_leaves_the_jobs() {
    let (mut world, [a, b]) = cold();
    for sent in ["reserve\r\nreserve\r\n", "reserve-job 2\r\n", "delete 3\r\nput 0 0 1 1\r\nx"] {
        let client = world.connect();
        assert_eq!(world.say(client, sent), "");
        world.close(client);
    }
    world.close(a);
    world.load();
    let turn = world.broker.turn(world.now);
    assert_eq!((turn.totals().ready, turn.totals().sessions), (JOBS, 1));
    turn.check_invariants();
    drop(turn);
    world.say(b, "reserve\r\n");
    assert_eq!(after_load(&mut world, b), "RESERVED 1 5\r\nbody1\r\n");
}

#[test]
fn a_client_that_sends_no_more_gets_the_replies_to_all_its_commands() {
    let (mut world, [a, b]) = cold();
    assert_eq!(world.say(a, "reserve\r\ndelete 1\r\nreserve-job 4\r\ndelete 4\r\n"), "");
    world.half_close(a);
    assert!(!world.has_ended(a));
    let wanted = "RESERVED 1 5\r\nbody1\r\nDELETED\r\nRESERVED 4 5\r\nbody4\r\nDELETED\r\n";
    assert_eq!(after_load(&mut world, a), wanted);
    assert!(world.has_ended(a));
    // A reserve of such a client does not wait for a job, only for the load.
    world.say(b, "delete 2\r\ndelete 3\r\n");
    after_load(&mut world, b);
    let c = world.connect();
    assert_eq!(world.say(b, "reserve\r\n"), "");
    assert_eq!(world.say(c, "reserve\r\n"), "");
    world.half_close(c);
    assert_eq!(after_load(&mut world, b), "RESERVED 5 5\r\nbody5\r\n");
    assert_eq!(world.take_text(c), "TIMED_OUT\r\n");
    assert!(world.has_ended(c));
}

#[test]
fn a_wait_whose_time_ends_during_a_load_gets_the_job() {
    let (mut world, [a, _]) = cold();
    assert_eq!(world.say(a, "reserve-with-timeout 1\r\n"), "");
    world.advance(2_000);
    assert_eq!(world.take_text(a), "");
    assert_eq!(after_load(&mut world, a), "RESERVED 1 5\r\nbody1\r\n");
}

#[test]
fn a_pause_during_a_load_keeps_the_job() {
    let (mut world, [a, b]) = cold();
    assert_eq!(world.say(a, "reserve\r\n"), "");
    assert_eq!(world.say(b, "pause-tube default 10\r\n"), "PAUSED\r\n");
    assert_eq!(after_load(&mut world, a), "");
    world.advance(9_000);
    assert_eq!(after_load(&mut world, a), "");
    world.advance(2_000);
    assert_eq!(after_load(&mut world, a), "RESERVED 1 5\r\nbody1\r\n");
}

#[test]
fn at_the_limit_of_memory_a_client_that_holds_many_jobs_must_finish_one_first() {
    let (mut world, [a, b]) = cold();
    let held = FULL_MEMORY_LEASES - 1;
    world.say(a, "use other\r\nwatch other\r\nignore default\r\n");
    let puts = world.say(a, &"put 0 0 60 1\r\nx\r\n".repeat(held));
    assert_eq!(puts.matches("INSERTED").count(), held);
    for _ in 0..held {
        let taken = world.say(a, "reserve-with-timeout 0\r\n") + &after_load(&mut world, a);
        assert!(taken.starts_with("RESERVED "), "{taken}");
    }
    world.say(a, "watch default\r\nignore other\r\n");
    world.broker.set_memory_limit(Some(1));
    assert_eq!(world.say(a, "reserve\r\n"), "");
    assert_eq!(after_load(&mut world, a), "RESERVED 1 5\r\nbody1\r\n");
    let sent = "reserve-with-timeout 0\r\nreserve-with-timeout 9\r\nreserve\r\n";
    let replies = "TIMED_OUT\r\nOUT_OF_MEMORY\r\nOUT_OF_MEMORY\r\n";
    assert_eq!(world.say(a, sent), replies);
    assert_eq!(world.say(a, "reserve-job 3\r\n"), "");
    assert_eq!(after_load(&mut world, a), "OUT_OF_MEMORY\r\n");
    // No job has the number of the interrupted put.
    assert_eq!(world.say(a, "reserve-job 6\r\n"), "");
    assert_eq!(after_load(&mut world, a), "NOT_FOUND\r\n");
    assert_eq!(world.say(a, "reserve-job 1\r\n"), "NOT_FOUND\r\n", "it is leased");
    assert_eq!(world.say(b, "reserve\r\n"), "", "a client without a job gets one");
    assert_eq!(after_load(&mut world, b), "RESERVED 2 5\r\nbody2\r\n");
    let deleted = world.say(a, "delete 1\r\nreserve\r\n");
    let taken = after_load(&mut world, a);
    assert_eq!(deleted + &taken, "DELETED\r\nRESERVED 3 5\r\nbody3\r\n");
}
