//! What a quiet client feels while somebody makes heavy requests to a server that is full of jobs and queues.
//!
//! The client puts, reserves and deletes one job, rests for a moment, and does so again. How long that takes is
//! measured alone and beside each kind of heavy request, in turn.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::heavy::{Heavy, Loop, packet};
use super::lab::Lab;
use super::server::Server;
use super::wire::Wire;
use super::work::{Metric, Sample};
use crate::beanstalk_client::Client;
use crate::interrupt;
use crate::latency::Latency;

/// Between two rounds of the quiet client.
const REST: Duration = Duration::from_millis(2);
/// Requests that are sent before their replies are read while the server is filled.
const FILL_AT_ONCE: usize = 2000;
/// The loop of heavy requests runs for so long before anything is measured.
const HEAVY_BEFORE: Duration = Duration::from_millis(200);

/// Fills the server, and measures all kinds in turn.
pub(super) fn run(lab: &Lab, server: &Server) -> anyhow::Result<Sample> {
    fill(lab, server)?;
    let span = lab.sizes.duration * 2;
    let mut client = Client::connect(server.address)?;
    client.enter("quiet")?;
    let mut sample = Sample::new();
    cycle(&mut client, span / 4)?;
    for heavy in Heavy::ALL {
        interrupt::check()?;
        lab.meter().show(format!("a quiet client beside {}", heavy.name()));
        let alone = p99(&cycle(&mut client, span)?);
        let prepared = heavy.prepare(server).with_context(|| heavy.name())?;
        let beside = p99(&beside(prepared, &mut client, span).with_context(|| heavy.name())?);
        sample.insert(Metric::QuietP99Micros(heavy), beside);
        sample.insert(Metric::Slowdown(heavy), beside / alone);
    }
    Ok(sample)
}

fn p99(latency: &Latency) -> f64 {
    latency.at(0.99).as_secs_f64() * 1e6
}

/// Measures while another thread makes heavy requests.
fn beside(heavy: Loop, client: &mut Client, span: Duration) -> anyhow::Result<Latency> {
    let Loop { mut once, cutters } = heavy;
    let is_over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let heavy = scope.spawn(move || {
            // The generator has one processor, and the quiet client is the one that is measured.
            rustix::process::nice(19).context("cannot be nice")?;
            while !is_over.load(Ordering::Relaxed) {
                match once() {
                    // The connection was cut in the middle.
                    Err(_) if is_over.load(Ordering::Relaxed) => break,
                    result => result?,
                }
            }
            anyhow::Ok(())
        });
        let latency = interrupt::sleep(HEAVY_BEFORE).and_then(|()| cycle(client, span));
        is_over.store(true, Ordering::Relaxed);
        for cutter in cutters {
            cutter.cut();
        }
        heavy.join().map_err(|_| anyhow::anyhow!("the loop of heavy requests panicked"))??;
        latency
    })
}

/// The quiet client.
fn cycle(client: &mut Client, span: Duration) -> anyhow::Result<Latency> {
    let mut latency = Latency::new();
    let end = Instant::now() + span;
    while Instant::now() < end {
        interrupt::check()?;
        let start = Instant::now();
        client.put(0, 60, b"quiet")?;
        client.send(b"reserve-with-timeout 60\r\n")?;
        let job = client.reserved()?.context("the job was not given")?;
        client.command(&format!("delete {}\r\n", job.id), "DELETED")?;
        latency.record(start.elapsed().as_nanos() as u64, 1);
        std::thread::sleep(REST);
    }
    Ok(latency)
}

/// Puts jobs into many queues, of all dialects.
fn fill(lab: &Lab, server: &Server) -> anyhow::Result<()> {
    let (jobs, queues) = (lab.sizes.heavy_jobs, lab.sizes.heavy_queues);
    lab.meter().show("a server is filled with jobs and queues".to_owned());
    let tube = |at: u64| format!("use tube-{at}\r\nput 0 0 60 1\r\nx\r\n").into_bytes();
    lines(server.address, queues / 2, 2, tube)?;
    lines(server.address, jobs / 2, 1, |_| b"put 0 0 60 1\r\nx\r\n".to_vec())?;
    let item = |at: u64| format!("SET items-{at} 0 0 1\r\nx\r\n").into_bytes();
    lines(server.memcache, queues / 4, 1, item)?;
    submits(server.gearman, jobs / 2, queues / 4)
}

/// Requests that are each answered with so many lines.
fn lines(
    address: SocketAddr,
    requests: u64,
    lines_each: usize,
    request: impl Fn(u64) -> Vec<u8>,
) -> anyhow::Result<()> {
    let mut wire = Wire::connect(address)?;
    let all: Vec<u64> = (0..requests).collect();
    for some in all.chunks(FILL_AT_ONCE) {
        interrupt::check()?;
        let bytes: Vec<u8> = some.iter().flat_map(|at| request(*at)).collect();
        wire.send(&bytes)?;
        wire.read_lines(some.len() * lines_each)?;
    }
    Ok(())
}

/// Background jobs with keys, over so many functions.
fn submits(address: SocketAddr, jobs: u64, functions: u64) -> anyhow::Result<()> {
    const SUBMIT_JOB_BG: u32 = 18;
    const ECHO_REQ: u32 = 16;
    let mut wire = Wire::connect(address)?;
    let all: Vec<u64> = (0..jobs).collect();
    let last = b"that was all";
    for some in all.chunks(FILL_AT_ONCE) {
        interrupt::check()?;
        let submit = |at: &u64| {
            let body = format!("function-{}\0key-{at}\0x", at % functions.max(1));
            packet(SUBMIT_JOB_BG, body.as_bytes())
        };
        let mut bytes: Vec<u8> = some.iter().flat_map(submit).collect();
        bytes.extend(packet(ECHO_REQ, last));
        wire.send(&bytes)?;
        wire.read_to(last)?;
    }
    Ok(())
}
