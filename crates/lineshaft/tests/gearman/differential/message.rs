//! Reads a server's messages one by one, and changes them so that they can be compared. Each handle
//! becomes a number: the first handle becomes 0, the next new handle 1, and so on.

use testkit::conformance::gearman::packet::{HEADER_BYTES, Packet};
use testkit::conformance::text::latin1_text;

/// Numbers of the packet types whose content the comparison uses.
pub(crate) mod kind {
    pub(crate) const CAN_DO: u32 = 1;
    pub(crate) const CANT_DO: u32 = 2;
    pub(crate) const RESET_ABILITIES: u32 = 3;
    pub(crate) const PRE_SLEEP: u32 = 4;
    pub(crate) const NOOP: u32 = 6;
    pub(crate) const SUBMIT_JOB: u32 = 7;
    pub(crate) const JOB_CREATED: u32 = 8;
    pub(crate) const GRAB_JOB: u32 = 9;
    pub(crate) const JOB_ASSIGN: u32 = 11;
    pub(crate) const WORK_STATUS: u32 = 12;
    pub(crate) const WORK_COMPLETE: u32 = 13;
    pub(crate) const WORK_FAIL: u32 = 14;
    pub(crate) const GET_STATUS: u32 = 15;
    pub(crate) const ECHO_REQ: u32 = 16;
    pub(crate) const ECHO_RES: u32 = 17;
    pub(crate) const SUBMIT_JOB_BG: u32 = 18;
    pub(crate) const STATUS_RES: u32 = 20;
    pub(crate) const SUBMIT_JOB_HIGH: u32 = 21;
    pub(crate) const SET_CLIENT_ID: u32 = 22;
    pub(crate) const CAN_DO_TIMEOUT: u32 = 23;
    pub(crate) const WORK_EXCEPTION: u32 = 25;
    pub(crate) const OPTION_REQ: u32 = 26;
    pub(crate) const WORK_DATA: u32 = 28;
    pub(crate) const WORK_WARNING: u32 = 29;
    pub(crate) const GRAB_JOB_UNIQ: u32 = 30;
    pub(crate) const JOB_ASSIGN_UNIQ: u32 = 31;
    pub(crate) const SUBMIT_JOB_HIGH_BG: u32 = 32;
    pub(crate) const SUBMIT_JOB_LOW: u32 = 33;
    pub(crate) const SUBMIT_JOB_LOW_BG: u32 = 34;
    pub(crate) const SUBMIT_JOB_EPOCH: u32 = 36;
    pub(crate) const SUBMIT_REDUCE_JOB: u32 = 37;
    pub(crate) const SUBMIT_REDUCE_JOB_BACKGROUND: u32 = 38;
    pub(crate) const GRAB_JOB_ALL: u32 = 39;
    pub(crate) const JOB_ASSIGN_ALL: u32 = 40;
    pub(crate) const GET_STATUS_UNIQUE: u32 = 41;
}

/// A packet, or a line of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// The packet's type. `None` for a line.
    pub(crate) kind: Option<u32>,
    /// The order number of the first job in the message.
    pub(crate) job: Option<usize>,
    /// The whole message without the parts that cannot be compared.
    pub(crate) text: String,
}

/// The handles, in the order in which the server assigned them.
#[derive(Debug, Default)]
pub(crate) struct Handles(Vec<String>);

impl Handles {
    /// The handle of the job with this order number.
    pub(crate) fn handle(&self, order_number: usize) -> &str {
        &self.0[order_number]
    }

    /// The number of handles.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    fn order_number(&self, handle: &str) -> Option<usize> {
        self.0.iter().position(|known| known == handle)
    }

    /// Converts a packet so that it can be compared.
    pub(crate) fn message(&mut self, packet: &Packet) -> Message {
        let mut body = latin1_text(&packet.body);
        if packet.kind == kind::JOB_CREATED && self.order_number(&body).is_none() {
            self.0.push(body.clone());
        }
        if packet.kind == kind::WORK_FAIL {
            // For an exception, the original puts a NUL byte after the handle.
            body = body.trim_end_matches('\0').to_owned();
        }
        let names_a_job = matches!(
            packet.kind,
            kind::JOB_CREATED
                | kind::STATUS_RES
                | kind::JOB_ASSIGN
                | kind::JOB_ASSIGN_UNIQ
                | kind::JOB_ASSIGN_ALL
                | kind::WORK_STATUS
                | kind::WORK_COMPLETE
                | kind::WORK_FAIL
                | kind::WORK_EXCEPTION
                | kind::WORK_DATA
                | kind::WORK_WARNING
        );
        let (first, rest) = body.split_once('\0').unwrap_or((&body, ""));
        let job = if names_a_job { self.order_number(first) } else { None };
        let first = job.map_or_else(|| first.to_owned(), |number| format!("#{number}"));
        let text = format!("packet {} {} {}", packet.kind, first, rest.replace('\0', "|"));
        Message { kind: Some(packet.kind), job, text: text.trim_end().to_owned() }
    }

    /// Converts a line so that it can be compared. Returns `None` if it cannot be compared.
    pub(crate) fn line(&self, line: &str) -> Option<Message> {
        let mut text = line.to_owned();
        if let Some((handle, rest)) = line.split_once('\t')
            && let Some(number) = self.order_number(handle)
        {
            text = format!("#{number}\t{rest}");
        }
        if let Some((_descriptor, rest)) = line.split_once(" 127.0.0.1 ") {
            // A connection without a name is the harness's own connection, or only checked that the
            // server runs.
            if rest.starts_with("- :") {
                return None;
            }
            text = format!("<descriptor> 127.0.0.1 {rest}");
        }
        Some(Message { kind: None, job: None, text })
    }
}

/// A whole message from the front of the unread bytes.
#[derive(Debug)]
pub(crate) enum Heard {
    Packet(Packet),
    /// A line without its line feed.
    Line(String),
}

/// Removes one whole message from the front. Returns `None` if the message is incomplete.
pub(crate) fn take(unread: &mut Vec<u8>) -> Option<Heard> {
    if *unread.first()? == 0 {
        assert!(unread.len() < HEADER_BYTES || unread[1..4] == *b"RES", "a server sent a request");
        return Packet::take(unread).map(Heard::Packet);
    }
    let end = unread.iter().position(|byte| *byte == b'\n')?;
    let line = latin1_text(&unread[..end]);
    unread.drain(..=end);
    Some(Heard::Line(line))
}
