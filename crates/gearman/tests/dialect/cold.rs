//! Tests requests that need a cold job. Another dialect or a client of Gearman puts the jobs. A load
//! ends only when a test calls `load`.

use broker::NewJob;
use testkit::dialect::world;

use crate::packets::{
    CAN_DO, CAN_DO_TIMEOUT, ECHO_REQ, ECHO_RES, ERROR, GET_STATUS, GET_STATUS_UNIQUE, GRAB_JOB,
    JOB_ASSIGN, JOB_CREATED, NO_JOB, NOOP, PRE_SLEEP, RESET_ABILITIES, STATUS_RES,
    STATUS_RES_UNIQUE, SUBMIT_JOB, SUBMIT_JOB_BG, SUBMIT_JOB_EPOCH, WORK_COMPLETE, check,
    check_text, expect, request,
};
use crate::world::{World, options, with_log};

const JOBS: u64 = 3;

/// A world with cold jobs in the function `mail`. Their workloads are `job 1` and so on.
fn cold() -> World {
    let mut world = World::over(world::World::cold(with_log()), options());
    let mut turn = world.broker.turn(world.now);
    let session = turn.open_session(0);
    for number in 1..=JOBS {
        turn.caller(session).use_queue(b"mail");
        let body = format!("job {number}").into_bytes();
        let put = turn.caller(session).put(NewJob::default(), body[..].into());
        put.value.expect("there is room");
    }
    turn.close_session(session);
    drop(turn);
    world.deliver_events();
    assert_eq!(world.broker.cold_jobs(), JOBS);
    world.hold_loads();
    world
}

/// A world with cold jobs in the function `mail`, with the keys `k1` and so on.
fn cold_keys() -> (World, usize) {
    let mut world = World::over(world::World::cold(with_log()), options());
    let client = world.connect();
    for number in 1..=JOBS {
        let submit = format!("mail|k{number}|job {number}");
        let handle = format!("H:vm:{number}");
        check(&mut world, client, (SUBMIT_JOB_BG, &submit), &[(JOB_CREATED, &handle)]);
    }
    assert_eq!(world.broker.cold_jobs(), JOBS);
    world.hold_loads();
    (world, client)
}

fn worker(world: &mut World) -> usize {
    let worker = world.connect();
    check(world, worker, (CAN_DO, "mail"), &[]);
    worker
}

/// Sends a packet, which waits for a load, and compares the replies after the load.
#[track_caller]
fn check_after_load(world: &mut World, client: usize, sent: (u32, &str), wanted: &[(u32, &str)]) {
    check(world, client, sent, &[]);
    assert!(world.waits(client), "the request needs a cold job");
    world.load();
    world.broker.turn(world.now).check_invariants();
    expect(world, client, wanted);
}

#[test]
fn a_worker_grabs_cold_jobs_in_order() {
    let mut world = cold();
    let worker = worker(&mut world);
    let kinds = [(9, 11, ""), (30, 31, "|"), (39, 31, "|")];
    for (number, (grab, assign, unique)) in (1..).zip(kinds) {
        let assigned = format!("H:vm:{number}|mail|{unique}job {number}");
        check_after_load(&mut world, worker, (grab, ""), &[(assign, &assigned)]);
        check(&mut world, worker, (WORK_COMPLETE, &format!("H:vm:{number}|")), &[]);
    }
    check(&mut world, worker, (GRAB_JOB, ""), &[(NO_JOB, "")]);
}

#[test]
fn packets_behind_a_grab_wait_with_it() {
    let mut world = cold();
    let [a, b] = [(); 2].map(|()| worker(&mut world));
    let packets = [
        request(GRAB_JOB, ""),
        request(CAN_DO_TIMEOUT, "mail|1000"),
        request(GRAB_JOB, ""),
        request(ECHO_REQ, "x"),
        b"status\n".to_vec(),
    ];
    world.send(a, &packets[..4].concat());
    check(&mut world, b, (ECHO_REQ, "y"), &[(ECHO_RES, "y")]);
    check(&mut world, b, (RESET_ABILITIES, ""), &[]);
    expect(&mut world, a, &[]);
    world.load();
    let jobs = [(JOB_ASSIGN, "H:vm:1|mail|job 1"), (JOB_ASSIGN, "H:vm:2|mail|job 2")];
    expect(&mut world, a, &[&jobs[..], &[(ECHO_RES, "x")]].concat());
    check_text(&mut world, b, "status\n", "mail\t3\t2\t1\n.\n");
}

#[test]
fn a_worker_does_not_sleep_beside_a_cold_job() {
    let mut world = cold();
    let [a, b] = [(); 2].map(|()| worker(&mut world));
    check_after_load(&mut world, a, (PRE_SLEEP, ""), &[(NOOP, "")]);
    check_after_load(&mut world, a, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:1|mail|job 1")]);
    // A worker that sleeps before it registers wakes, too.
    let c = world.connect();
    check(&mut world, c, (PRE_SLEEP, ""), &[]);
    check(&mut world, c, (CAN_DO, "mail"), &[]);
    world.load();
    expect(&mut world, c, &[(NOOP, "")]);
    // While two workers wait for one load, each job is handed out once.
    for worker in [b, c] {
        check(&mut world, worker, (GRAB_JOB, ""), &[]);
    }
    world.load();
    expect(&mut world, b, &[(JOB_ASSIGN, "H:vm:2|mail|job 2")]);
    expect(&mut world, c, &[(JOB_ASSIGN, "H:vm:3|mail|job 3")]);
}

#[test]
fn a_cold_job_has_a_status_and_can_be_cancelled() {
    let mut world = cold();
    let [client, worker] = [world.connect(), worker(&mut world)];
    check_after_load(&mut world, client, (GET_STATUS, "H:vm:2"), &[(STATUS_RES, "H:vm:2|1|0|0|0")]);
    check(&mut world, client, (GET_STATUS, "H:vm:9"), &[(STATUS_RES, "H:vm:9|0|0|0|0")]);
    check_text(&mut world, client, "cancel job H:vm:1\nstatus\nshow jobs\n", "");
    world.load();
    assert_eq!(world.take_text(client), "OK\r\nmail\t2\t0\t1\n.\n.\n");
    check_after_load(&mut world, worker, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:2|mail|job 2")]);
}

#[test]
fn a_worker_that_sends_no_more_during_a_load_gives_its_job_back() {
    let mut world = cold();
    let [a, b] = [(); 2].map(|()| worker(&mut world));
    check(&mut world, a, (GRAB_JOB, ""), &[]);
    world.half_close(a);
    let c = worker(&mut world);
    check(&mut world, c, (GRAB_JOB, ""), &[]);
    world.close(c);
    world.load();
    expect(&mut world, a, &[(JOB_ASSIGN, "H:vm:1|mail|job 1")]);
    assert!(world.has_ended(a));
    assert_eq!(world.broker.turn(world.now).totals().ready, JOBS);
    // A job that a worker loses is queued behind the others.
    for number in [2, 3, 1] {
        let assigned = format!("H:vm:{number}|mail|job {number}");
        world.send(b, &request(GRAB_JOB, ""));
        world.load();
        expect(&mut world, b, &[(JOB_ASSIGN, &assigned)]);
    }
}

#[test]
fn cold_jobs_count_for_the_limit_of_a_function_and_end_with_it() {
    let mut world = cold();
    let client = world.connect();
    check_text(&mut world, client, "maxqueue mail 3\n", "OK\r\n");
    world.send(client, &request(SUBMIT_JOB_BG, "mail||x"));
    expect(&mut world, client, &[(ERROR, "QUEUE_ERROR|Job queue is full")]);
    check_text(&mut world, client, "drop function mail\nstatus\n", "");
    world.load();
    world.advance(100);
    world.load();
    assert_eq!(world.take_text(client), "OK\r\n.\n");
    assert_eq!(world.broker.turn(world.now).totals().ready, 0);
}

#[test]
fn a_submit_waits_for_the_cold_job_with_its_key() {
    for (kind, watchers) in [(SUBMIT_JOB_BG, 0), (SUBMIT_JOB, 1), (SUBMIT_JOB_EPOCH, 0)] {
        let (mut world, client) = cold_keys();
        let fields = if kind == SUBMIT_JOB_EPOCH { "mail|k2|0|new" } else { "mail|k2|new" };
        let packets = [request(kind, fields), request(ECHO_REQ, "x")].concat();
        world.send(client, &packets);
        expect(&mut world, client, &[]);
        assert!(world.waits(client));
        // Other keys and other functions do not wait.
        let other = world.connect();
        check(&mut world, other, (SUBMIT_JOB_BG, "mail|k9|new"), &[(JOB_CREATED, "H:vm:4")]);
        check(&mut world, other, (SUBMIT_JOB_BG, "post|k2|new"), &[(JOB_CREATED, "H:vm:5")]);
        check(&mut world, other, (SUBMIT_JOB_BG, "mail|-|k2"), &[(JOB_CREATED, "H:vm:6")]);
        world.load();
        expect(&mut world, client, &[(JOB_CREATED, "H:vm:2"), (ECHO_RES, "x")]);
        let status = format!("k2|1|0|0|0|{watchers}");
        world.send(client, &request(GET_STATUS_UNIQUE, "k2"));
        world.load();
        expect(&mut world, client, &[(STATUS_RES_UNIQUE, &status)]);
        let worker = worker(&mut world);
        check(&mut world, worker, (GRAB_JOB, ""), &[]);
        world.load();
        expect(&mut world, worker, &[(JOB_ASSIGN, "H:vm:1|mail|job 1")]);
        world.broker.turn(world.now).check_invariants();
    }
}

#[test]
fn a_long_submit_that_waits_is_counted() {
    let (mut world, client) = cold_keys();
    let packet = request(SUBMIT_JOB_BG, &format!("mail|k1|{}", "x".repeat(20_000)));
    world.send(client, &packet);
    assert!(world.waits(client));
    assert!(world.held_bytes(client) > 20_000);
    world.load();
    expect(&mut world, client, &[(JOB_CREATED, "H:vm:1")]);
    assert!(world.held_bytes(client) < 1000);
}

#[test]
fn a_status_by_key_waits_for_the_cold_job() {
    let (mut world, client) = cold_keys();
    let known = [(STATUS_RES_UNIQUE, "k3|1|0|0|0|0")];
    check_after_load(&mut world, client, (GET_STATUS_UNIQUE, "k3"), &known);
    let unknown = [(STATUS_RES_UNIQUE, "k4|0|0|0|0|0")];
    check(&mut world, client, (GET_STATUS_UNIQUE, "k4"), &unknown);
}

#[test]
fn a_cold_job_frees_its_key_when_it_ends() {
    let (mut world, client) = cold_keys();
    check_text(&mut world, client, "cancel job H:vm:2\n", "");
    world.load();
    assert_eq!(world.take_text(client), "OK\r\n");
    check(&mut world, client, (SUBMIT_JOB_BG, "mail|k2|new"), &[(JOB_CREATED, "H:vm:4")]);
    check_text(&mut world, client, "drop function mail\n", "");
    world.load();
    world.advance(100);
    world.load();
    assert_eq!(world.take_text(client), "OK\r\n");
    check(&mut world, client, (SUBMIT_JOB_BG, "mail|k1|new"), &[(JOB_CREATED, "H:vm:5")]);
    world.broker.turn(world.now).check_invariants();
}

#[test]
fn lists_of_jobs_have_only_those_in_memory() {
    let (mut world, client) = cold_keys();
    check_text(&mut world, client, "show jobs\nshow unique jobs\n", ".\n.\n");
    check_text(&mut world, client, "status\n", "mail\t3\t0\t0\n.\n");
    check_after_load(&mut world, client, (SUBMIT_JOB, "mail|k2|new"), &[(JOB_CREATED, "H:vm:2")]);
    // A client waits for the job, so it stays in memory.
    check_text(&mut world, client, "show jobs\n", "H:vm:2\t0\t0\t1\n.\n");
    check_text(&mut world, client, "show unique jobs\n", "k2\n.\n");
}

#[test]
fn a_submit_by_http_joins_a_cold_job() {
    for leaves in [false, true] {
        let (mut world, client) = cold_keys();
        let http = world.connect_http();
        let head = "POST /mail HTTP/1.1\r\nX-Gearman-Unique: k2\r\nX-Gearman-Background: true\r\n";
        let sent = format!("{head}Content-Length: 3\r\n\r\nnew");
        assert_eq!(world.say(http, &sent), "");
        if leaves {
            world.half_close(http);
        }
        world.load();
        let reply = world.take_text(http);
        assert!(reply.contains("X-Gearman-Job-Handle: H:vm:2\r\n"), "{reply}");
        assert!(world.has_ended(http));
        check_text(&mut world, client, "status\n", "mail\t3\t0\t0\n.\n");
        world.broker.turn(world.now).check_invariants();
    }
}
