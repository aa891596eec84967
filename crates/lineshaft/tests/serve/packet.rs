//! A Gearman connection that sends and reads raw packets.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use testkit::conformance::gearman::packet::{Packet, RESPONSE};

pub(crate) const CAN_DO: u32 = 1;
pub(crate) const PRE_SLEEP: u32 = 4;
pub(crate) const NOOP: u32 = 6;
pub(crate) const SUBMIT_JOB: u32 = 7;
pub(crate) const JOB_CREATED: u32 = 8;
pub(crate) const GRAB_JOB: u32 = 9;
pub(crate) const NO_JOB: u32 = 10;
pub(crate) const JOB_ASSIGN: u32 = 11;
pub(crate) const WORK_COMPLETE: u32 = 13;
pub(crate) const WORK_FAIL: u32 = 14;
pub(crate) const GET_STATUS: u32 = 15;
pub(crate) const ECHO_REQ: u32 = 16;
pub(crate) const ECHO_RES: u32 = 17;
pub(crate) const SUBMIT_JOB_BG: u32 = 18;
pub(crate) const ERROR: u32 = 19;
pub(crate) const STATUS_RES: u32 = 20;
pub(crate) const SUBMIT_JOB_HIGH_BG: u32 = 32;
pub(crate) const SUBMIT_JOB_EPOCH: u32 = 36;

/// A connection to a Gearman server.
pub(crate) struct Peer {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Peer {
    pub(crate) fn connect(address: &str) -> Peer {
        let stream = TcpStream::connect(address).unwrap();
        // Requests without replies would otherwise wait for the server's acknowledgements.
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Peer { stream, unread: Vec::new() }
    }

    pub(crate) fn send(&mut self, kind: u32, arguments: &[&str]) {
        let arguments: Vec<&[u8]> = arguments.iter().map(|text| text.as_bytes()).collect();
        self.stream.write_all(&Packet::request(kind, &arguments).bytes()).unwrap();
    }

    /// Reads one packet. It must be of this kind. Returns its arguments.
    pub(crate) fn expect(&mut self, kind: u32) -> Vec<String> {
        let (found, arguments) = self.read();
        assert_eq!(found, kind, "{arguments:?}");
        arguments
    }

    fn read(&mut self) -> (u32, Vec<String>) {
        loop {
            if let Some(packet) = Packet::take(&mut self.unread) {
                assert_eq!(packet.magic, RESPONSE);
                let body = String::from_utf8(packet.body).unwrap();
                return (packet.kind, body.split('\0').map(str::to_owned).collect());
            }
            self.receive();
        }
    }

    fn receive(&mut self) {
        let mut bytes = [0; 4096];
        let count = loop {
            match self.stream.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.unwrap(),
            }
        };
        assert!(count > 0, "the server closed the connection");
        self.unread.extend_from_slice(&bytes[..count]);
    }

    /// Sends a line of text and reads one line.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                return String::from_utf8(self.unread.drain(..=end).collect()).unwrap();
            }
            self.receive();
        }
    }

    /// Submits a job in the background and returns its handle.
    pub(crate) fn submit_background(&mut self, function: &str, workload: &str) -> String {
        self.send(SUBMIT_JOB_BG, &[function, "", workload]);
        self.expect(JOB_CREATED).remove(0)
    }

    /// Takes a job. Returns `None` if there is no job.
    pub(crate) fn try_grab(&mut self) -> Option<Vec<String>> {
        self.send(GRAB_JOB, &[]);
        let (kind, arguments) = self.read();
        (kind == JOB_ASSIGN).then_some(arguments)
    }

    /// Takes a job, which must exist. Returns its handle, function and workload.
    pub(crate) fn grab(&mut self) -> Vec<String> {
        self.send(GRAB_JOB, &[]);
        self.expect(JOB_ASSIGN)
    }

    /// The status of a job: whether it exists, and whether it runs.
    pub(crate) fn status(&mut self, handle: &str) -> (String, String) {
        self.send(GET_STATUS, &[handle]);
        let [_, known, running, ..] = &self.expect(STATUS_RES)[..] else { panic!("too short") };
        (known.clone(), running.clone())
    }

    /// Checks that the server closes the connection without another byte.
    pub(crate) fn expect_end(&mut self) {
        assert!(self.unread.is_empty(), "{:?}", self.unread);
        assert_eq!(self.stream.read(&mut [0; 100]).unwrap(), 0);
    }
}
