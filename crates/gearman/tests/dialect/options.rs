//! Tests the effects of the server's options (spec gearman 14).

use lineshaft_gearman::ServerOptions;

use crate::packets::{
    CAN_DO, CAN_DO_TIMEOUT, ERROR, GRAB_JOB, JOB_ASSIGN, JOB_CREATED, NO_JOB, NOOP, PRE_SLEEP,
    SUBMIT_JOB, SUBMIT_JOB_BG, WORK_COMPLETE, WORK_EXCEPTION, WORK_FAIL, check, check_text, expect,
    received, request,
};
use crate::world::{World, options};

/// The functions of nine jobs, in the order in which one worker gets the jobs.
fn order_of_nine(round_robin: bool) -> String {
    let mut world = World::with(ServerOptions { round_robin, ..options() });
    let (client, worker) = (world.connect(), world.connect());
    for function in ["a", "b", "c"] {
        world.send(worker, &request(CAN_DO, function));
        world.send(client, &request(SUBMIT_JOB_BG, &format!("{function}||")).repeat(3));
    }
    world.send(worker, &request(GRAB_JOB, "").repeat(9));
    let jobs = received(&mut world, worker).into_iter();
    jobs.map(|(_, job)| job.split('|').nth(1).expect("a function").to_owned()).collect()
}

#[test]
fn functions_take_turns_or_the_newest_comes_first() {
    assert_eq!(order_of_nine(false), "cccbbbaaa");
    assert_eq!(order_of_nine(true), "cbacbacba");
}

#[test]
fn one_job_wakes_one_worker() {
    let mut world = World::new();
    world.broker.turn(world.now).set_wake_max(1);
    let client = world.connect();
    let workers = [world.connect(), world.connect(), world.connect()];
    for worker in workers {
        world.send(worker, &request(CAN_DO, "f"));
        check(&mut world, worker, (PRE_SLEEP, ""), &[]);
    }
    for woken in 0..4 {
        world.send(client, &request(SUBMIT_JOB_BG, "f||"));
        for (index, worker) in workers.into_iter().enumerate() {
            let wanted: &[_] = if index == woken { &[(NOOP, "")] } else { &[] };
            expect(&mut world, worker, wanted);
        }
    }
}

#[test]
fn a_job_fails_when_its_attempts_are_used_up() {
    let mut world = World::new();
    world.broker.turn(world.now).set_attempts_max(2);
    let (client, monitor) = (world.connect(), world.connect());
    check(&mut world, client, (SUBMIT_JOB, "f||x"), &[(JOB_CREATED, "H:vm:1")]);
    let first = world.connect();
    world.send(first, &request(CAN_DO, "f"));
    check(&mut world, first, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:1|f|x")]);
    world.close(first);
    check_text(&mut world, monitor, "show jobs\n", "H:vm:1\t1\t0\t0\n.\n");
    // The second attempt ends by its time limit.
    let second = world.connect();
    world.send(second, &request(CAN_DO_TIMEOUT, "f|1000"));
    check(&mut world, second, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:1|f|x")]);
    world.advance(999);
    expect(&mut world, client, &[]);
    world.advance(1);
    expect(&mut world, client, &[(WORK_FAIL, "H:vm:1")]);
    let denial = "JOB_NOT_FOUND|Job given in work result not found";
    check(&mut world, second, (WORK_COMPLETE, "H:vm:1|r"), &[(ERROR, denial)]);
    check(&mut world, second, (GRAB_JOB, ""), &[(NO_JOB, "")]);
}

#[test]
fn all_clients_get_exceptions() {
    let mut world = World::with(ServerOptions { exceptions: true, ..options() });
    let (client, worker) = (world.connect(), world.connect());
    check(&mut world, client, (SUBMIT_JOB, "f||x"), &[(JOB_CREATED, "H:vm:1")]);
    world.send(worker, &request(CAN_DO, "f"));
    check(&mut world, worker, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:1|f|x")]);
    check(&mut world, worker, (WORK_EXCEPTION, "H:vm:1|boom"), &[]);
    expect(&mut world, client, &[(WORK_EXCEPTION, "H:vm:1|boom")]);
}

#[test]
fn handles_begin_with_the_prefix() {
    let mut world = World::with(ServerOptions { handle_prefix: "PFX".to_owned(), ..options() });
    let client = world.connect();
    check(&mut world, client, (SUBMIT_JOB_BG, "f||x"), &[(JOB_CREATED, "PFX:1")]);
    check_text(&mut world, client, "cancel job H:vm:1\n", "ERR UNKNOWN_JOB\r\n");
    check_text(&mut world, client, "cancel job PFX:1\n", "OK\r\n");
}

#[test]
fn the_server_reports_its_configured_facts() {
    let mut world = World::with(ServerOptions {
        version: "1.2.3".to_owned(),
        verbosity: "INFO".to_owned(),
        ..options()
    });
    let client = world.connect();
    check_text(&mut world, client, "version\ngetpid\nverbose\n", "OK 1.2.3\nOK 4711\nOK INFO\n");
}
