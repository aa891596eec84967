//! Measures how soon a sleeping Gearman worker wakes for a job, if thousands of other workers wake,
//! too.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::driver::packets::{
    HEADER_BYTES, append_reply, append_request, first_argument, kind, kind_of, packet_bytes,
};
use crate::idle::function_name;
use crate::interrupt;
use crate::latency::Latency;

/// The number of jobs. Each job is submitted when all workers sleep.
const JOBS: usize = 20;

/// Submits jobs to functions for which all `workers` are registered. For each job, measures how
/// soon one worker wakes: a different worker for each job. The measured worker finishes the job.
/// Then all workers sleep again.
pub(crate) fn measure(
    address: SocketAddr,
    workers: &mut [TcpStream],
    functions: usize,
) -> anyhow::Result<Latency> {
    let mut client = TcpStream::connect(address)?;
    client.set_nodelay(true)?;
    client.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut latency = Latency::new();
    for job in 0..JOBS {
        interrupt::check()?;
        let chosen = job * workers.len() / JOBS;
        let function = function_name(job % functions);
        let mut submit = Vec::new();
        append_request(kind::SUBMIT_JOB, &[function.as_bytes(), b"", b"x"], &mut submit);
        let began = Instant::now();
        client.write_all(&submit)?;
        expect(&mut workers[chosen], kind::NOOP)?;
        let nanoseconds = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        latency.record(nanoseconds, 1);
        finish(&mut workers[chosen], &mut client)?;
        sleep_again(workers, chosen)?;
    }
    Ok(latency)
}

/// Grabs the submitted job and completes it.
fn finish(worker: &mut TcpStream, client: &mut TcpStream) -> anyhow::Result<()> {
    let mut request = Vec::new();
    append_request(kind::GRAB_JOB, &[], &mut request);
    worker.write_all(&request)?;
    let assigned = expect(worker, kind::JOB_ASSIGN)?;
    request.clear();
    append_request(kind::WORK_COMPLETE, &[first_argument(&assigned), b""], &mut request);
    worker.write_all(&request)?;
    expect(client, kind::JOB_CREATED)?;
    expect(client, kind::WORK_COMPLETE)?;
    Ok(())
}

/// Puts all workers to sleep again, after a job woke all of them. All workers except the `chosen`
/// one must still read the wake-up.
fn sleep_again(workers: &mut [TcpStream], chosen: usize) -> anyhow::Result<()> {
    let mut request = Vec::new();
    append_request(kind::GRAB_JOB, &[], &mut request);
    append_request(kind::PRE_SLEEP, &[], &mut request);
    append_request(kind::ECHO_REQ, &[b"asleep"], &mut request);
    for worker in &mut *workers {
        worker.write_all(&request)?;
    }
    let mut reply = Vec::new();
    append_reply(kind::NOOP, &[], &mut reply);
    append_reply(kind::NO_JOB, &[], &mut reply);
    append_reply(kind::ECHO_RES, &[b"asleep"], &mut reply);
    for (index, worker) in workers.iter_mut().enumerate() {
        let expected = &reply[if index == chosen { HEADER_BYTES } else { 0 }..];
        let mut received = vec![0; expected.len()];
        worker.read_exact(&mut received).context("a worker did not fall asleep")?;
        anyhow::ensure!(received == expected, "worker {index} was not told what all were told");
    }
    Ok(())
}

/// Reads a packet. Fails if the packet is of another type. Returns its arguments.
fn expect(stream: &mut TcpStream, kind: u32) -> anyhow::Result<Vec<u8>> {
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header).context("no reply")?;
    let length = packet_bytes(&header)?.expect("the header is complete");
    let mut body = vec![0; length - HEADER_BYTES];
    stream.read_exact(&mut body).context("no end of a reply")?;
    let received = kind_of(&header);
    anyhow::ensure!(received == kind, "expected a packet of type {kind}, got {received}");
    Ok(body)
}
