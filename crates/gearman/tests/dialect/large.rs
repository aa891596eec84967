//! Tests large packets of workers and large echoes. The server passes their data on without a copy
//! if it arrives in pieces. It counts a copy as work.

use lineshaft_gearman::ServerOptions;

use crate::packets::{
    CAN_DO, ECHO_REQ, ECHO_RES, ERROR, GRAB_JOB, JOB_ASSIGN, JOB_CREATED, SUBMIT_JOB,
    WORK_COMPLETE, WORK_DATA, WORK_EXCEPTION, check, expect, request,
};
use crate::world::{World, options};

const WORK_WARNING: u32 = 29;

const DATA_BYTES: usize = 1_000_000;

/// A copy of the data takes at least this many units of work.
const COPY_UNITS: u64 = DATA_BYTES as u64 / 4096;

/// The server passes its input to a session in pieces of this size.
const PIECE_BYTES: usize = 4096;

/// All other work of a packet takes at most this many units.
const OTHER_UNITS: u64 = COPY_UNITS / 4;

const REPORTS: [u32; 4] = [WORK_DATA, WORK_WARNING, WORK_EXCEPTION, WORK_COMPLETE];

/// A world with a client that waits for the job `H:vm:1`, and a worker that has this job.
fn working() -> (World, usize, usize) {
    let mut world = World::with(ServerOptions { exceptions: true, ..options() });
    let (client, worker) = (world.connect(), world.connect());
    check(&mut world, client, (SUBMIT_JOB, "f||in"), &[(JOB_CREATED, "H:vm:1")]);
    check(&mut world, worker, (CAN_DO, "f"), &[]);
    check(&mut world, worker, (GRAB_JOB, ""), &[(JOB_ASSIGN, "H:vm:1|f|in")]);
    (world, client, worker)
}

fn longest_slice(world: &World) -> u64 {
    world.broker.turn(world.now).longest_slice()
}

fn send_in_pieces(world: &mut World, connection: usize, packet: &[u8]) {
    for piece in packet.chunks(PIECE_BYTES) {
        world.send(connection, piece);
    }
}

#[test]
fn large_data_of_a_worker_is_not_copied() {
    let report = format!("H:vm:1|{}", "x".repeat(DATA_BYTES));
    for kind in REPORTS {
        let (mut world, client, worker) = working();
        send_in_pieces(&mut world, worker, &request(kind, &report));
        expect(&mut world, client, &[(kind, &report)]);
        expect(&mut world, worker, &[]);
        let units = longest_slice(&world);
        assert!(units < OTHER_UNITS, "{units} units for a packet of kind {kind}");
        assert_eq!(world.held_bytes(worker), 0);
    }
}

#[test]
fn a_large_echo_is_not_copied() {
    let mut world = World::new();
    let client = world.connect();
    let data = "x".repeat(DATA_BYTES);
    send_in_pieces(&mut world, client, &request(ECHO_REQ, &data));
    expect(&mut world, client, &[(ECHO_RES, &data)]);
    let units = longest_slice(&world);
    assert!(units < OTHER_UNITS, "{units} units");
    // The next packet is read from its beginning.
    check(&mut world, client, (ECHO_REQ, "x"), &[(ECHO_RES, "x")]);
}

#[test]
fn a_copy_counts_as_work() {
    // Data that arrives in one piece with its packet is copied.
    let report = format!("H:vm:1|{}", "x".repeat(DATA_BYTES));
    for kind in REPORTS {
        let (mut world, client, worker) = working();
        check(&mut world, worker, (kind, &report), &[]);
        expect(&mut world, client, &[(kind, &report)]);
        assert!(longest_slice(&world) >= COPY_UNITS, "packet of kind {kind}");
    }
    let mut world = World::new();
    let client = world.connect();
    let data = "x".repeat(DATA_BYTES);
    check(&mut world, client, (ECHO_REQ, &data), &[(ECHO_RES, &data)]);
    assert!(longest_slice(&world) >= COPY_UNITS);
}

#[test]
fn data_for_no_job_is_not_copied() {
    let packet = format!("x|{}", "x".repeat(DATA_BYTES));
    for kind in REPORTS {
        let (mut world, client, worker) = working();
        let text = match kind {
            WORK_COMPLETE => "Job given in work result not found",
            WORK_EXCEPTION => "An exception was received for a job that does not exist",
            _ => "Job does not exist on server",
        };
        let refusal = format!("JOB_NOT_FOUND|{text}");
        check(&mut world, worker, (kind, &packet), &[(ERROR, &refusal)]);
        send_in_pieces(&mut world, worker, &request(kind, &packet));
        expect(&mut world, worker, &[(ERROR, &refusal)]);
        expect(&mut world, client, &[]);
        let units = longest_slice(&world);
        assert!(units < OTHER_UNITS, "{units} units for a packet of kind {kind}");
    }
}
