//! A Gearman connection on which the test sends and reads single packets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use testkit::conformance::gearman::packet::Packet;

use crate::{World, wait_until};

pub(super) const CAN_DO: u32 = 1;
pub(super) const SUBMIT_JOB: u32 = 7;
pub(super) const GRAB_JOB: u32 = 9;
pub(super) const WORK_STATUS: u32 = 12;
pub(super) const WORK_COMPLETE: u32 = 13;
pub(super) const WORK_FAIL: u32 = 14;
pub(super) const WORK_EXCEPTION: u32 = 25;
pub(super) const WORK_DATA: u32 = 28;
pub(super) const WORK_WARNING: u32 = 29;

pub(super) struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    pub(super) fn open(world: &World) -> Connection {
        let stream = TcpStream::connect(world.server().address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Connection { stream, unread: Vec::new() }
    }

    pub(super) fn send(&mut self, kind: u32, arguments: &[&[u8]]) {
        self.stream.write_all(&Packet::request(kind, arguments).bytes()).unwrap();
    }

    /// The type and the body of the next packet.
    pub(super) fn next(&mut self) -> (u32, Vec<u8>) {
        loop {
            if let Some(packet) = Packet::take(&mut self.unread) {
                return (packet.kind, packet.body);
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the server closed the connection");
            self.unread.extend_from_slice(&bytes[..count]);
        }
    }

    /// Takes a job of this function, and waits until there is one. Returns its handle.
    pub(super) fn take(&mut self, function: &str) -> Vec<u8> {
        self.send(CAN_DO, &[function.as_bytes()]);
        let mut handle = Vec::new();
        wait_until("a job", || {
            self.send(GRAB_JOB, &[]);
            let (_, body) = self.next();
            handle = body.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
            !handle.is_empty()
        });
        handle
    }
}
