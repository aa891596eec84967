//! Tests jobs that one dialect puts and another dialect takes. Sessions of both dialects share one
//! broker.

use std::sync::Arc;

use beanstalk::{Listener, MAX_JOB_SIZE_DEFAULT, ProcessorTime, ServerInfo};
use broker::Millis;
use broker::policy::{Rule, Rules, Setting};

use crate::packets::{
    CAN_DO, GET_STATUS, GRAB_JOB, JOB_ASSIGN, JOB_CREATED, NO_JOB, NOOP, PRE_SLEEP, STATUS_RES,
    SUBMIT_JOB, SUBMIT_JOB_BG, SUBMIT_JOB_HIGH_BG, SUBMIT_JOB_LOW_BG, WORK_COMPLETE, WORK_DATA,
    WORK_FAIL, WORK_STATUS, check, check_text, expect,
};
use crate::world::World;

/// Connects a client that speaks beanstalkd's protocol.
fn connect_beanstalk(world: &mut World) -> usize {
    let info = ServerInfo {
        pid: 4711,
        version: "lineshaft".to_owned(),
        hostname: "vm".to_owned(),
        os: "#1 SMP".to_owned(),
        platform: "x86_64".to_owned(),
        id: 1,
        started: Millis(0),
        processor_time: ProcessorTime::default,
        segment_bytes: 0,
    };
    let server = beanstalk::Server::new(info);
    let listener = Arc::new(Listener { server, max_job_size: MAX_JOB_SIZE_DEFAULT });
    world.connect_as(|turn, mailbox| {
        let session = beanstalk::Session::new(listener, turn, mailbox);
        (session.id(), session)
    })
}

/// Connects a Gearman worker for the function `mail`, and a beanstalkd client that uses and watches
/// the tube `mail`.
fn worker_and_tube(world: &mut World) -> (usize, usize) {
    let (worker, tube) = (world.connect(), connect_beanstalk(world));
    check(world, worker, (CAN_DO, "mail"), &[]);
    let sent = "use mail\r\nwatch mail\r\nignore default\r\n";
    check_text(world, tube, sent, "USING mail\r\nWATCHING 2\r\nWATCHING 1\r\n");
    (worker, tube)
}

/// The number with this key in the reply to `stats-job` or `stats-tube`.
#[track_caller]
fn number(world: &mut World, tube: usize, command: &str, key: &str) -> u64 {
    let stats = world.ask(tube, format!("{command}\r\n").as_bytes());
    let stats = String::from_utf8(stats).expect("statistics are text");
    let value = stats.lines().find_map(|line| line.strip_prefix(&format!("{key}: ")));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{key} in {stats}"))
}

/// Compares the counts of the queue `mail` in both dialects.
#[track_caller]
fn check_numbers(world: &mut World, tube: usize, waiting: u64, running: u64) {
    let monitor = world.connect();
    let ready = number(world, tube, "stats-tube mail", "current-jobs-ready");
    let delayed = number(world, tube, "stats-tube mail", "current-jobs-delayed");
    let reserved = number(world, tube, "stats-tube mail", "current-jobs-reserved");
    assert_eq!((ready + delayed, reserved), (waiting, running));
    let total = waiting + running;
    check_text(world, monitor, "status\n", &format!("mail\t{total}\t{running}\t1\n.\n"));
    world.close(monitor);
}

#[test]
fn a_worker_completes_what_a_tube_s_producer_put() {
    let mut world = World::new();
    let (worker, tube) = worker_and_tube(&mut world);
    check(&mut world, worker, (PRE_SLEEP, ""), &[]);
    check_text(&mut world, tube, "put 5 0 60 5\r\nhello\r\n", "INSERTED 1\r\n");
    expect(&mut world, worker, &[(NOOP, "")]);
    check_numbers(&mut world, tube, 1, 0);
    check(&mut world, worker, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:1|mail|hello")]);
    check_numbers(&mut world, tube, 0, 1);
    check_text(&mut world, tube, "delete 1\r\n", "NOT_FOUND\r\n");
    check(&mut world, worker, (WORK_COMPLETE, "H:vm:1|olleh"), &[]);
    check_text(&mut world, tube, "peek 1\r\n", "NOT_FOUND\r\n");
    check_numbers(&mut world, tube, 0, 0);
    check(&mut world, worker, (GRAB_JOB, ""), &[(NO_JOB, "")]);
}

#[test]
fn a_tube_s_consumer_deletes_what_was_submitted_in_the_background() {
    let mut world = World::new();
    let (_worker, tube) = worker_and_tube(&mut world);
    let client = world.connect();
    check_text(&mut world, tube, "reserve\r\n", "");
    check(&mut world, client, (SUBMIT_JOB_BG, "mail|key|hello"), &[(JOB_CREATED, "H:vm:1")]);
    check_text(&mut world, tube, "", "RESERVED 1 5\r\nhello\r\n");
    check_numbers(&mut world, tube, 0, 1);
    check(&mut world, client, (GET_STATUS, "H:vm:1"), &[(STATUS_RES, "H:vm:1|1|1|0|0")]);
    assert_eq!(number(&mut world, tube, "stats-job 1", "ttr"), 0, "no limit");
    check_text(
        &mut world,
        tube,
        "release 1 9 0\r\nreserve\r\n",
        "RELEASED\r\nRESERVED 1 5\r\nhello\r\n",
    );
    check_text(&mut world, tube, "delete 1\r\n", "DELETED\r\n");
    check(&mut world, client, (GET_STATUS, "H:vm:1"), &[(STATUS_RES, "H:vm:1|0|0|0|0")]);
    check_numbers(&mut world, tube, 0, 0);
}

#[test]
fn a_foreground_client_gets_the_outcome_from_a_tube_s_consumer() {
    let mut world = World::new();
    let (_worker, tube) = worker_and_tube(&mut world);
    let client = world.connect();
    check(&mut world, client, (SUBMIT_JOB, "mail||x"), &[(JOB_CREATED, "H:vm:1")]);
    check_text(&mut world, tube, "reserve\r\ndelete 1\r\n", "RESERVED 1 1\r\nx\r\nDELETED\r\n");
    expect(&mut world, client, &[(WORK_COMPLETE, "H:vm:1|")]);
    check(&mut world, client, (SUBMIT_JOB, "mail||y"), &[(JOB_CREATED, "H:vm:2")]);
    check_text(&mut world, tube, "reserve\r\nbury 2 1\r\n", "RESERVED 2 1\r\ny\r\nBURIED\r\n");
    expect(&mut world, client, &[(WORK_FAIL, "H:vm:2")]);
    check_text(&mut world, tube, "peek 2\r\n", "NOT_FOUND\r\n");
    check_numbers(&mut world, tube, 0, 0);
}

#[test]
fn a_tube_s_job_that_a_worker_fails_is_buried() {
    let mut world = World::new();
    let (worker, tube) = worker_and_tube(&mut world);
    check_text(&mut world, tube, "put 5 0 60 1\r\nx\r\n", "INSERTED 1\r\n");
    check(&mut world, worker, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:1|mail|x")]);
    check(&mut world, worker, (WORK_FAIL, "H:vm:1"), &[]);
    check_text(&mut world, tube, "peek-buried\r\n", "FOUND 1 1\r\nx\r\n");
    check_numbers(&mut world, tube, 0, 0);
    check(&mut world, worker, (PRE_SLEEP, ""), &[]);
    check_text(&mut world, tube, "kick 1\r\n", "KICKED 1\r\n");
    expect(&mut world, worker, &[(NOOP, "")]);
}

/// The ttr of a put applies to every holder of the job. News from the worker restarts the ttr.
#[test]
fn a_silent_worker_loses_a_tube_s_job_after_its_ttr() {
    let mut world = World::new();
    let (worker, tube) = worker_and_tube(&mut world);
    check_text(&mut world, tube, "put 5 0 10 1\r\nx\r\n", "INSERTED 1\r\n");
    check(&mut world, worker, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:1|mail|x")]);
    world.advance(9_000);
    check(&mut world, worker, (WORK_DATA, "H:vm:1|on it"), &[]);
    world.advance(9_000);
    check_numbers(&mut world, tube, 0, 1);
    world.advance(1_000);
    check_numbers(&mut world, tube, 1, 0);
    assert_eq!(number(&mut world, tube, "stats-job 1", "timeouts"), 1);
}

#[test]
fn a_lost_worker_gives_a_tube_s_job_back() {
    let mut world = World::new();
    let (worker, tube) = worker_and_tube(&mut world);
    check_text(
        &mut world,
        tube,
        "put 5 0 10 1\r\nx\r\nreserve-with-timeout 0\r\nrelease 1 5 0\r\n",
        "INSERTED 1\r\nRESERVED 1 1\r\nx\r\nRELEASED\r\n",
    );
    check(&mut world, worker, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:1|mail|x")]);
    check_text(&mut world, tube, "reserve\r\n", "");
    world.close(worker);
    check_text(&mut world, tube, "", "RESERVED 1 1\r\nx\r\n");
}

#[test]
fn priorities_are_read_in_both_directions() {
    let mut world = World::new();
    let (_worker, tube) = worker_and_tube(&mut world);
    let client = world.connect();
    for (id, (submit, pri)) in
        [(SUBMIT_JOB_HIGH_BG, 512), (SUBMIT_JOB_BG, 1024), (SUBMIT_JOB_LOW_BG, 3_221_225_472)]
            .into_iter()
            .enumerate()
    {
        let id = id + 1;
        check(&mut world, client, (submit, "mail||"), &[(JOB_CREATED, &format!("H:vm:{id}"))]);
        assert_eq!(number(&mut world, tube, &format!("stats-job {id}"), "pri"), pri);
    }
    let puts = "put 1023 0 1 0\r\n\r\nput 4000000000 9 1 0\r\n\r\nput 2000000000 0 1 0\r\n\r\n";
    check_text(&mut world, tube, puts, "INSERTED 4\r\nINSERTED 5\r\nINSERTED 6\r\n");
    check_text(&mut world, client, "prioritystatus\n", "mail\t2\t2\t2\t1\n.\n");
    check_numbers(&mut world, tube, 6, 0);
}

#[test]
fn a_tube_is_a_function_once_a_worker_can_do_it() {
    let mut world = World::new();
    let (client, tube) = (world.connect(), connect_beanstalk(&mut world));
    check_text(
        &mut world,
        tube,
        "use plain\r\nput 1 0 9 0\r\n\r\n",
        "USING plain\r\nINSERTED 1\r\n",
    );
    check_text(&mut world, client, "status\n", ".\n");
    check_text(&mut world, client, "drop function plain\n", "ERR function not found\r\n");
    check_text(&mut world, client, "create function made\n", "OK\r\n");
    check_text(
        &mut world,
        tube,
        "list-tubes\r\n",
        "OK 29\r\n---\n- default\n- plain\n- made\n\r\n",
    );
    check(&mut world, client, (CAN_DO, "plain"), &[]);
    check(&mut world, client, (CAN_DO, "default"), &[]);
    check_text(
        &mut world,
        client,
        "status\n",
        "default\t0\t0\t1\nplain\t1\t0\t1\nmade\t0\t0\t0\n.\n",
    );
    // Only jobs from Gearman have a key. A job of a tube has no key, but it has a handle.
    check(&mut world, client, (GET_STATUS, "H:vm:1"), &[(STATUS_RES, "H:vm:1|1|0|0|0")]);
    check_text(&mut world, client, "show jobs\nshow unique jobs\n", ".\n.\n");
    check_text(&mut world, client, "cancel job H:vm:1\n", "OK\r\n");
    check_text(&mut world, tube, "peek 1\r\n", "NOT_FOUND\r\n");
}

#[test]
fn progress_of_a_tube_s_job_does_not_make_it_a_submitted_one() {
    let mut world = World::new();
    let (worker, tube) = worker_and_tube(&mut world);
    check_text(&mut world, tube, "put 5 0 60 1\r\nx\r\n", "INSERTED 1\r\n");
    check(&mut world, worker, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:1|mail|x")]);
    check(&mut world, worker, (WORK_STATUS, "H:vm:1|1|2"), &[]);
    check(&mut world, worker, (GET_STATUS, "H:vm:1"), &[(STATUS_RES, "H:vm:1|1|1|1|2")]);
    check_text(&mut world, worker, "show jobs\n", ".\n");
    check(&mut world, worker, (WORK_FAIL, "H:vm:1"), &[]);
    check_text(&mut world, tube, "peek-buried\r\n", "FOUND 1 1\r\nx\r\n");
}

#[test]
fn a_function_that_is_dropped_ends_a_tube_s_jobs_too() {
    let mut world = World::new();
    let (worker, tube) = worker_and_tube(&mut world);
    check_text(
        &mut world,
        tube,
        "put 5 0 60 1\r\nx\r\nput 5 60 60 1\r\ny\r\n",
        "INSERTED 1\r\nINSERTED 2\r\n",
    );
    let refused = "ERR there are still connected workers or executing clients\r\n";
    check_text(&mut world, worker, "drop function mail\n", refused);
    world.close(worker);
    let other = world.connect();
    check_text(&mut world, other, "drop function MAIL\n", "OK\r\n");
    check_text(&mut world, tube, "peek 1\r\npeek 2\r\n", "NOT_FOUND\r\nNOT_FOUND\r\n");
    check_text(&mut world, other, "status\n", ".\n");
    check_text(
        &mut world,
        tube,
        "list-tube-used\r\nput 5 0 60 1\r\nz\r\n",
        "USING mail\r\nINSERTED 3\r\n",
    );
}

/// A worker is connected for the queue that still has the old name. No worker is connected for the tube
/// that the name stands for now.
#[test]
fn a_drop_under_another_name_judges_and_removes_the_same_queue() {
    let mut world = World::new();
    let (admin, worker) = (world.connect(), world.connect());
    let tube = connect_beanstalk(&mut world);
    check(&mut world, worker, (CAN_DO, "old"), &[]);
    check_text(&mut world, tube, "use new\r\nput 1 0 9 0\r\n\r\n", "USING new\r\nINSERTED 1\r\n");
    let rule = Rule::new(["old"], [Setting::SameAs(Some(b"new"[..].into()))]);
    let _ = world.broker.turn(world.now).set_policies(Rules(vec![rule]));
    for name in ["old", "OLD"] {
        let line = format!("drop function {name}\n");
        check_text(&mut world, admin, &line, "ERR function not found\r\n");
    }
    check_text(&mut world, tube, "peek 1\r\n", "FOUND 1 0\r\n\r\n");
    check_text(&mut world, admin, "create function new\n", "OK\r\n");
    check_text(&mut world, admin, "drop function OLD\n", "OK\r\n");
    check_text(&mut world, tube, "peek 1\r\n", "NOT_FOUND\r\n");
    check_text(&mut world, admin, "status\n", "old\t0\t0\t1\n.\n");
}
