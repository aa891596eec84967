//! The part of Gearman's protocol that a load needs: background submits, and workers that grab and
//! complete jobs.

use super::packets::{PacketScanner, append_request, first_argument, kind};
use super::script::{Cursor, Script};
use super::{Driver, Progress};

/// One connection that speaks Gearman's protocol.
#[derive(Debug)]
pub(crate) struct Gearman {
    work: Work,
    packets: PacketScanner,
    /// The request before the first operation. It has no reply.
    opening: Vec<u8>,
}

#[derive(Debug)]
enum Work {
    /// Sends the units of a script. Each unit has one reply: `JOB_CREATED`.
    Submit(Cursor),
    /// Grabs a job, and then completes it.
    Take,
}

impl Gearman {
    /// Submits jobs. Each unit of the script is one packet.
    pub(crate) fn submit(cursor: Cursor) -> Self {
        Self { work: Work::Submit(cursor), packets: PacketScanner::default(), opening: Vec::new() }
    }

    /// A worker of only this function.
    pub(crate) fn take(function: &str) -> Self {
        let mut opening = Vec::new();
        append_request(kind::CAN_DO, &[function.as_bytes()], &mut opening);
        Self { work: Work::Take, packets: PacketScanner::default(), opening }
    }

    /// A script of requests that submit background jobs without a unique key. Their bodies have
    /// `body_bytes` bytes.
    pub(crate) fn submits(function: &str, body_bytes: usize) -> Script {
        let body = vec![b'x'; body_bytes];
        let mut request = Vec::new();
        append_request(kind::SUBMIT_JOB_BG, &[function.as_bytes(), b"", &body], &mut request);
        Script::repeated(&request)
    }
}

impl Driver for Gearman {
    fn begin(&mut self, count: usize, output: &mut Vec<u8>) -> usize {
        output.append(&mut self.opening);
        match &mut self.work {
            Work::Submit(cursor) => cursor.append(count, output),
            Work::Take => {
                for _ in 0..count {
                    append_request(kind::GRAB_JOB, &[], output);
                }
                count
            }
        }
    }

    fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> anyhow::Result<Progress> {
        let mut progress = Progress::default();
        self.packets.scan(input, |packet, body| match packet {
            kind::JOB_CREATED => progress.finished += 1,
            kind::JOB_ASSIGN => {
                append_request(kind::WORK_COMPLETE, &[first_argument(body), b""], output);
                // A WORK_COMPLETE has no reply. But the server reads it before all later grabs. In
                // a closed loop, the driver waits for the replies to these grabs. So the
                // measurement includes the cost of the WORK_COMPLETE.
                progress.finished += 1;
            }
            kind::NO_JOB => progress.missed += 1,
            kind::NOOP => {}
            kind::ERROR => {
                let words: Vec<u8> =
                    body.iter().map(|&byte| if byte == 0 { b' ' } else { byte }).collect();
                progress.fail(&words);
            }
            other => progress.fail(format!("an unexpected packet of type {other}").as_bytes()),
        })?;
        Ok(progress)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::super::packets::append_reply;
    use super::*;

    #[test]
    fn submits_are_counted_at_any_split() {
        let mut input = Vec::new();
        append_reply(kind::JOB_CREATED, &[b"H:a:1"], &mut input);
        append_reply(kind::ERROR, &[b"JOB_QUEUE_FULL", b"Job queue is full"], &mut input);
        append_reply(kind::JOB_CREATED, &[b"H:a:2"], &mut input);
        for split in 0..input.len() {
            let cursor = Cursor::cycling(Rc::new(Gearman::submits("f", 3)), 0, 1);
            let mut driver = Gearman::submit(cursor);
            let mut output = Vec::new();
            assert_eq!(driver.begin(1, &mut output), 1);
            assert_eq!(output, b"\0REQ\0\0\0\x12\0\0\0\x06f\0\0xxx");
            let first = driver.receive(&input[..split], &mut output).expect("valid replies");
            let second = driver.receive(&input[split..], &mut output).expect("valid replies");
            assert_eq!(first.finished + second.finished, 2);
            assert_eq!(first.failed + second.failed, 1);
            let failure = first.failure.or(second.failure);
            assert_eq!(failure.as_deref(), Some("JOB_QUEUE_FULL Job queue is full"));
        }
    }

    #[test]
    fn a_worker_completes_what_it_was_given_and_counts_the_pair_once() {
        let mut input = Vec::new();
        append_reply(kind::JOB_ASSIGN, &[b"H:a:17", b"f", b"x\0y"], &mut input);
        append_reply(kind::NOOP, &[], &mut input);
        append_reply(kind::NO_JOB, &[], &mut input);
        for split in 0..input.len() {
            let mut driver = Gearman::take("f");
            let mut output = Vec::new();
            assert_eq!(driver.begin(2, &mut output), 2);
            let grabs = b"\0REQ\0\0\0\x01\0\0\0\x01f\0REQ\0\0\0\x09\0\0\0\0\0REQ\0\0\0\x09\0\0\0\0";
            assert_eq!(output, grabs);
            output.clear();
            let first = driver.receive(&input[..split], &mut output).expect("valid replies");
            let second = driver.receive(&input[split..], &mut output).expect("valid replies");
            assert_eq!(output, b"\0REQ\0\0\0\x0d\0\0\0\x07H:a:17\0");
            assert_eq!(first.ended() + second.ended(), 2);
            assert_eq!(first.finished + second.finished, 1);
            assert_eq!(first.missed + second.missed, 1);
        }
    }
}
