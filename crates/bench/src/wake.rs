//! Measures how soon a sleeping Gearman worker wakes for a job, if thousands of other workers wake,
//! too.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::driver::packets::{
    HEADER_BYTES, append_request, first_argument, kind, kind_of, packet_bytes,
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
        sleep_again(workers)?;
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

/// Puts all workers to sleep again, after a job woke them. Most of them must still read the wake-up.
fn sleep_again(workers: &mut [TcpStream]) -> anyhow::Result<()> {
    let mut request = Vec::new();
    append_request(kind::GRAB_JOB, &[], &mut request);
    append_request(kind::PRE_SLEEP, &[], &mut request);
    append_request(kind::ECHO_REQ, &[b"asleep"], &mut request);
    for worker in &mut *workers {
        worker.write_all(&request)?;
    }
    for worker in workers {
        loop {
            // The server wakes the workers in slices, and no more of them once the job is grabbed.
            match read_packet(worker).context("a worker did not fall asleep")?.0 {
                kind::NOOP | kind::NO_JOB => {}
                kind::ECHO_RES => break,
                other => anyhow::bail!("a worker that falls asleep got a packet of type {other}"),
            }
        }
    }
    Ok(())
}

/// Reads a packet. Fails if the packet is of another type. Returns its arguments.
fn expect(stream: &mut TcpStream, kind: u32) -> anyhow::Result<Vec<u8>> {
    let (received, body) = read_packet(stream)?;
    anyhow::ensure!(received == kind, "expected a packet of type {kind}, got {received}");
    Ok(body)
}

/// Reads a packet. Returns its type and its arguments.
fn read_packet(stream: &mut TcpStream) -> anyhow::Result<(u32, Vec<u8>)> {
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header).context("no reply")?;
    let length = packet_bytes(&header)?.expect("the header is complete");
    let mut body = vec![0; length - HEADER_BYTES];
    stream.read_exact(&mut body).context("no end of a reply")?;
    Ok((kind_of(&header), body))
}
