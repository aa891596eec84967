//! Tests which replies wait for the log, and the state after a crash. The log is on a simulated
//! disk, and writes only when a test calls `commit`.

use std::sync::Arc;

use broker::{Broker, Options};
use testkit::conformance::gearman::packet::Packet;
use testkit::dialect::world::START;

use crate::packets::{
    CAN_DO, GET_STATUS, GET_STATUS_UNIQUE, GRAB_JOB, SUBMIT_JOB, SUBMIT_JOB_BG, WORK_COMPLETE,
    request,
};
use crate::world::World;

fn start(disk: &Arc<log::FaultDisk>) -> World {
    let options = Options::without_threads(disk.clone(), log::Settings::default());
    World::over_unwritten(Broker::open(options, START).expect("the disk can be read").0)
}

/// Sends a packet. Returns the packets that the server can send at once.
fn ask(world: &mut World, client: usize, kind: u32, arguments: &str) -> String {
    world.send(client, &request(kind, arguments));
    sent(world, client)
}

/// The packets that the server has sent, without headers.
fn sent(world: &mut World, client: usize) -> String {
    let mut unread = world.take_received(client);
    let mut bodies = Vec::new();
    while let Some(packet) = Packet::take(&mut unread) {
        let body = String::from_utf8_lossy(&packet.body).replace('\0', "|");
        bodies.push(format!("{} {body}", packet.kind));
    }
    bodies.join(", ")
}

#[test]
fn a_background_submit_is_confirmed_when_it_is_durable_and_survives_a_crash() {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let mut world = start(&disk);
    let (client, worker) = (world.connect(), world.connect());
    ask(&mut world, worker, CAN_DO, "f");
    world.commit();
    assert_eq!(ask(&mut world, client, SUBMIT_JOB, "f||foreground"), "8 H:vm:1");
    assert_eq!(ask(&mut world, client, SUBMIT_JOB_BG, "f|u|background"), "");
    assert_eq!(ask(&mut world, worker, GRAB_JOB, ""), "11 H:vm:1|f|foreground");
    assert_eq!(ask(&mut world, worker, GRAB_JOB, ""), "", "nor is it handed out before");
    let other = world.connect();
    assert_eq!(ask(&mut world, other, GET_STATUS, "H:vm:2"), "", "nor is it told of");
    assert_eq!(ask(&mut world, other, GET_STATUS_UNIQUE, "u"), "");
    world.commit();
    assert_eq!(sent(&mut world, client), "8 H:vm:2");
    assert_eq!(sent(&mut world, worker), "11 H:vm:2|f|background");
    assert_eq!(sent(&mut world, other), "20 H:vm:2|1|1|0|0, 42 u|1|1|0|0|0");

    drop(world);
    disk.crash();
    let mut world = start(&disk);
    let (client, worker) = (world.connect(), world.connect());
    assert_eq!(ask(&mut world, client, GET_STATUS, "H:vm:1"), "20 H:vm:1|0|0|0|0");
    assert_eq!(ask(&mut world, client, GET_STATUS, "H:vm:2"), "20 H:vm:2|1|0|0|0");
    ask(&mut world, worker, CAN_DO, "f");
    assert_eq!(ask(&mut world, worker, GRAB_JOB, ""), "11 H:vm:2|f|background");
    world.commit();

    // The news that the job has ended waits until the end is durable.
    ask(&mut world, client, SUBMIT_JOB, "f|u|");
    assert_eq!(ask(&mut world, worker, WORK_COMPLETE, "H:vm:2|done"), "");
    assert_eq!(ask(&mut world, worker, GET_STATUS_UNIQUE, "u"), "", "nor is it denied before");
    assert_eq!(sent(&mut world, client), "");
    world.commit();
    assert_eq!(sent(&mut world, client), "13 H:vm:2|done");
    assert_eq!(sent(&mut world, worker), "42 u|0|0|0|0|0");
}

#[test]
fn a_function_that_was_dropped_is_denied_when_the_drop_is_durable() {
    for is_used in [false, true] {
        let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
        let mut world = start(&disk);
        let [a, b] = [world.connect(), world.connect()];
        world.say(a, "create function f\n");
        world.commit();
        assert_eq!(world.take_text(a), "OK\r\n");
        if is_used {
            // A session of another dialect uses the queue, so the queue stays.
            let mut turn = world.broker.turn(START);
            let session = turn.open_session(0);
            turn.caller(session).use_queue(b"f");
        }
        assert_eq!(world.say(a, "drop function f\n"), "");
        let denied = world.say(b, "drop function f\n");
        assert_eq!(denied, "", "a crash could bring the function back");
        world.commit();
        assert_eq!(world.take_text(a), "OK\r\n");
        assert_eq!(world.take_text(b), "ERR function not found\r\n");
        let never = world.say(b, "drop function never\n");
        assert_eq!(never, "ERR function not found\r\n");
    }
}

#[test]
fn a_list_names_no_job_that_a_crash_could_undo_and_leaves_out_none_that_could_come_back() {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let mut world = start(&disk);
    let [client, monitor] = [world.connect(), world.connect()];
    ask(&mut world, client, SUBMIT_JOB_BG, "f|u|x");
    let cases = ["show jobs\n", "show unique jobs\n", "status\n", "prioritystatus\n"];
    let with = ["H:vm:1\t0\t0\t1\n.\n", "u\n.\n", "f\t1\t0\t0\n.\n", "f\t0\t1\t0\t0\n.\n"];
    for command in cases {
        assert_eq!(world.say(monitor, command), "");
    }
    world.commit();
    assert_eq!(world.take_text(monitor), with.concat());
    world.say(client, "cancel job H:vm:1\n");
    assert_eq!(world.say(monitor, "show jobs\n"), "", "it could come back");
    world.commit();
    assert_eq!(world.take_text(monitor), ".\n");
}
