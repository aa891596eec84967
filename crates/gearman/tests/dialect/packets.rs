//! Numbers of packets by name, and a short form in which tests write and read packets.

use testkit::conformance::gearman::packet::Packet;

use crate::world::World;

pub(crate) const CAN_DO: u32 = 1;
pub(crate) const RESET_ABILITIES: u32 = 3;
pub(crate) const PRE_SLEEP: u32 = 4;
pub(crate) const NOOP: u32 = 6;
pub(crate) const SUBMIT_JOB: u32 = 7;
pub(crate) const JOB_CREATED: u32 = 8;
pub(crate) const GRAB_JOB: u32 = 9;
pub(crate) const NO_JOB: u32 = 10;
pub(crate) const JOB_ASSIGN: u32 = 11;
pub(crate) const WORK_STATUS: u32 = 12;
pub(crate) const WORK_COMPLETE: u32 = 13;
pub(crate) const WORK_FAIL: u32 = 14;
pub(crate) const GET_STATUS: u32 = 15;
pub(crate) const GET_STATUS_UNIQUE: u32 = 41;
pub(crate) const STATUS_RES_UNIQUE: u32 = 42;
pub(crate) const ECHO_REQ: u32 = 16;
pub(crate) const ECHO_RES: u32 = 17;
pub(crate) const SUBMIT_JOB_BG: u32 = 18;
pub(crate) const SUBMIT_JOB_SCHED: u32 = 35;
pub(crate) const SUBMIT_JOB_EPOCH: u32 = 36;
pub(crate) const ERROR: u32 = 19;
pub(crate) const STATUS_RES: u32 = 20;
pub(crate) const SUBMIT_JOB_HIGH_BG: u32 = 32;
pub(crate) const SUBMIT_JOB_LOW_BG: u32 = 34;
pub(crate) const SET_CLIENT_ID: u32 = 22;
pub(crate) const CAN_DO_TIMEOUT: u32 = 23;
pub(crate) const WORK_EXCEPTION: u32 = 25;
pub(crate) const WORK_DATA: u32 = 28;

/// The bytes of a packet. `|` separates the arguments.
pub(crate) fn request(kind: u32, arguments: &str) -> Vec<u8> {
    let arguments: Vec<&[u8]> = arguments.split('|').map(str::as_bytes).collect();
    Packet::request(kind, &arguments).bytes()
}

/// Splits the output of a connection into packets.
#[track_caller]
pub(crate) fn received(world: &mut World, connection: usize) -> Vec<(u32, String)> {
    let mut unread = world.take_received(connection);
    let mut packets = Vec::new();
    while let Some(packet) = Packet::take(&mut unread) {
        let arguments = String::from_utf8_lossy(&packet.body).replace('\0', "|");
        packets.push((packet.kind, arguments));
    }
    assert!(unread.is_empty(), "no packet: {}", unread.escape_ascii());
    packets
}

/// Sends a packet, and compares all packets that the server sends back. In the short form, a packet
/// is its kind and its arguments.
#[track_caller]
pub(crate) fn check(
    world: &mut World,
    connection: usize,
    (kind, arguments): (u32, &str),
    wanted: &[(u32, &str)],
) {
    world.send(connection, &request(kind, arguments));
    expect(world, connection, wanted);
}

/// Compares the packets that arrived since the last call.
#[track_caller]
pub(crate) fn expect(world: &mut World, connection: usize, wanted: &[(u32, &str)]) {
    let received = received(world, connection);
    let received: Vec<(u32, &str)> = received.iter().map(|(kind, a)| (*kind, &a[..])).collect();
    assert_eq!(received, wanted);
}

/// Sends a line, and compares the reply.
#[track_caller]
pub(crate) fn check_text(world: &mut World, connection: usize, line: &str, wanted: &str) {
    let received = world.ask(connection, line.as_bytes());
    assert_eq!(String::from_utf8_lossy(&received), wanted, "{line:?}");
}
