//! The bare loop's part of Gearman: background jobs, which nobody takes, and the foreground job of a
//! function with one worker, with its result. A function has at most one foreground job at a time,
//! whose handle is the name of the function.

use anyhow::Context;
use mio::Token;

use super::{BareLoop, Connection};
use crate::driver::packets::{HEADER_BYTES, append_reply, first_argument, kind, kind_of};

/// The packet `JOB_CREATED` of each background job. A constant, because `append_reply` allocates,
/// and that would be a part of the measured time.
const CREATED: &[u8] = b"\0RES\0\0\0\x08\0\0\0\x06H:bg:1";

/// A function with one worker.
#[derive(Default)]
pub(super) struct Function {
    worker: Option<Token>,
    job: Option<Job>,
}

struct Job {
    client: Token,
    body: Vec<u8>,
    is_assigned: bool,
}

impl BareLoop {
    /// Answers all complete packets. Returns their length.
    pub(super) fn packets(&mut self, token: Token, input: &[u8]) -> anyhow::Result<usize> {
        let mut at = 0;
        while let Some(size) = input[at..].get(HEADER_BYTES - 4..HEADER_BYTES) {
            let size = u32::from_be_bytes(size.try_into().context("a size has four bytes")?);
            let Some(packet) = input[at..].get(..HEADER_BYTES + size as usize) else { break };
            self.packet(token, packet)?;
            at += packet.len();
        }
        Ok(at)
    }

    fn packet(&mut self, token: Token, packet: &[u8]) -> anyhow::Result<()> {
        let body = &packet[HEADER_BYTES..];
        match kind_of(packet) {
            kind::CAN_DO => {
                self.functions.entry(body.to_vec()).or_default().worker = Some(token);
                self.connection(token)?.queue = body.to_vec();
            }
            kind::PRE_SLEEP => {}
            kind::SUBMIT_JOB_BG => {
                let (_, job_body) = submitted(body)?;
                self.store.put(packet, job_body);
                self.connection(token)?.output.extend_from_slice(CREATED);
            }
            kind::SUBMIT_JOB => {
                let (name, job_body) = submitted(body)?;
                let function = self.functions.get_mut(name).context("a function with a worker")?;
                let worker = function.worker.context("a function with a worker")?;
                let job = Job { client: token, body: job_body.to_vec(), is_assigned: false };
                function.job = Some(job);
                self.reply(token, kind::JOB_CREATED, &[name])?;
                self.reply(worker, kind::NOOP, &[])?;
            }
            kind::GRAB_JOB => {
                let name = self.connection(token)?.queue.clone();
                let job = self.functions.get_mut(&name).and_then(|function| function.job.as_mut());
                match job.filter(|job| !job.is_assigned) {
                    None => self.reply(token, kind::NO_JOB, &[])?,
                    Some(job) => {
                        job.is_assigned = true;
                        let body = job.body.clone();
                        self.reply(token, kind::JOB_ASSIGN, &[&name, &name, &body])?;
                    }
                }
            }
            kind::WORK_COMPLETE => {
                let name = first_argument(body);
                let job = self.functions.get_mut(name).and_then(|function| function.job.take());
                let client = job.context("a completed job was assigned")?.client;
                self.reply(client, kind::WORK_COMPLETE, &[body])?;
            }
            kind => anyhow::bail!("unknown packet of type {kind}"),
        }
        Ok(())
    }

    fn connection(&mut self, token: Token) -> anyhow::Result<&mut Connection> {
        self.connections.get_mut(&token).context("the connection has ended")
    }

    fn reply(&mut self, token: Token, kind: u32, arguments: &[&[u8]]) -> anyhow::Result<()> {
        append_reply(kind, arguments, &mut self.connection(token)?.output);
        self.answered.push(token);
        Ok(())
    }
}

/// The function and the body of a submitted job.
fn submitted(body: &[u8]) -> anyhow::Result<(&[u8], &[u8])> {
    let name = first_argument(body);
    let rest = body.get(name.len() + 1..).context("a submit without a unique key")?;
    let unique = first_argument(rest);
    let job_body = rest.get(unique.len() + 1..).context("a submit without a body")?;
    Ok((name, job_body))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::fs::FileExt;
    use std::time::Duration;

    use super::super::tests::serving;
    use super::*;
    use crate::args::Protocol;
    use crate::driver::packets::{append_request, packet_bytes};
    use crate::meter::Meter;
    use crate::trip::{self, TripPlan};

    #[test]
    fn it_logs_a_background_job_before_it_answers() {
        let folder = tempfile::tempdir().expect("a folder");
        let address = serving(true, Some(folder.path()));
        let mut client = TcpStream::connect(address).expect("it serves");
        let mut request = Vec::new();
        append_request(kind::SUBMIT_JOB_BG, &[b"function", b"", b"body"], &mut request);
        client.write_all(&request).expect("it is open");
        let mut reply = vec![0; CREATED.len()];
        client.read_exact(&mut reply).expect("a reply");
        assert_eq!(kind_of(&reply), kind::JOB_CREATED);
        assert_eq!(packet_bytes(&reply).expect("a packet"), Some(CREATED.len()));
        let file = File::open(folder.path().join("bare-loop")).expect("it has a log");
        let mut log = vec![0; request.len()];
        file.read_exact_at(&mut log, 0).expect("the log is filled");
        assert_eq!(log, request);
    }

    #[test]
    fn it_passes_a_job_to_a_sleeping_worker_and_the_result_to_the_client() {
        let address = serving(false, None);
        let reports = trip::run(&TripPlan {
            addresses: &[address],
            protocol: Protocol::Gearman,
            pairs: 1,
            rate: Some(200.0),
            duration: Duration::from_millis(100),
            body_bytes: 100,
            meter: &Meter::new(),
        });
        let reports = reports.expect("all trips end");
        assert!(reports[0].latency.p50_us > 0.0, "{reports:?}");
    }
}
