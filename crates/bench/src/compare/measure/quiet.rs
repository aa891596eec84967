//! Measures a quiet client while other clients load a server that is full of jobs and queues.
//!
//! The client puts, reserves and deletes one job, sleeps for a moment, and repeats. The run
//! measures this client without load, and then during each load. The results are relative to the
//! median of all measurements without load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::heavy::{HeavyLoad, prepare};
use crate::beanstalk_client::Client;
use crate::compare::lab::Lab;
use crate::compare::lab::fill;
use crate::compare::lab::server::Server;
use crate::compare::outcome::result::median;
use crate::compare::plan::heavy::Heavy;
use crate::compare::plan::work::{Metric, Sample};
use crate::interrupt;
use crate::latency::Latency;
use crate::process::RequestThreads;

/// The pause between two rounds of the quiet client.
const REST: Duration = Duration::from_millis(2);
/// The load runs this long before the measurement begins.
const BURDEN_BEFORE: Duration = Duration::from_millis(200);

/// Fills the server, and measures all loads one after the other.
pub(crate) fn beside_all(lab: &Lab, server: &Server) -> anyhow::Result<Sample> {
    fill(lab, server)?;
    beside_each(lab, server, &Heavy::ALL)
}

/// Measures the loads that are judged on a server without a log.
pub(crate) fn in_memory(lab: &Lab, server: &Server) -> anyhow::Result<Sample> {
    beside_each(lab, server, &Heavy::IN_MEMORY)
}

fn beside_each(lab: &Lab, server: &Server, loads: &[Heavy]) -> anyhow::Result<Sample> {
    let span = lab.sizes.duration * 2;
    let mut client = connect(server)?;
    let threads = RequestThreads::of(server.pid())?;
    let mut sample = Sample::new();
    let mut alone = Vec::new();
    for &heavy in loads {
        interrupt::check()?;
        lab.meter().show(format!("a quiet client beside {heavy}"));
        let mut before = Latency::new();
        cycle(&mut client, span / 2, REST, &mut before)?;
        alone.push(before.summary().p99_us);
        let load = prepare(heavy, lab, server).with_context(|| heavy.to_string())?;
        let (beside, running) =
            beside(load, &mut client, span, &threads).with_context(|| heavy.to_string())?;
        sample.insert(Metric::QuietP99Micros(heavy), beside.summary().p99_us);
        sample.insert(Metric::QuietLongestMicros(heavy), beside.summary().max_us);
        sample.insert(Metric::QuietRunningP99Micros(heavy), running.summary().p99_us);
    }
    // After the end of a load, the server may still have work because of the load. This can slow
    // down the next measurement without load, so use the median of all measurements without load.
    alone.sort_by(f64::total_cmp);
    let alone = median(&alone).context("there is no load")?;
    sample.insert(Metric::P99Micros, alone);
    for &heavy in loads {
        let beside = sample[&Metric::QuietP99Micros(heavy)];
        sample.insert(Metric::Slowdown(heavy), beside / alone);
    }
    Ok(sample)
}

/// Connects the quiet client. It has a tube of its own.
pub(crate) fn connect(server: &Server) -> anyhow::Result<Client> {
    let mut client = Client::connect(server.address)?;
    client.enter("quiet")?;
    Ok(client)
}

/// Measures the quiet client while other threads load the server. Returns the times of its rounds,
/// and these times without waits for a processor.
fn beside(
    load: HeavyLoad,
    client: &mut Client,
    span: Duration,
    request_threads: &RequestThreads,
) -> anyhow::Result<(Latency, Latency)> {
    let HeavyLoad { loops, disconnects, held, programs } = load;
    let is_over = &AtomicBool::new(false);
    let latency = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for mut once in loops {
            threads.push(scope.spawn(move || {
                // The generator has only one processor, and the quiet client must get it first.
                rustix::process::nice(19).context("cannot be nice")?;
                while !is_over.load(Ordering::Relaxed) {
                    match once() {
                        // The end of the run closed the connection in the middle of a request.
                        Err(_) if is_over.load(Ordering::Relaxed) => break,
                        result => result?,
                    }
                }
                anyhow::Ok(())
            }));
        }
        let (mut latency, mut running) = (Latency::new(), Latency::new());
        let measured = interrupt::sleep(BURDEN_BEFORE).and_then(|()| {
            repeat(span, REST, || {
                let waited_before = request_threads.wait_time();
                let time = round(client)?;
                let waited = request_threads.wait_time().saturating_sub(waited_before);
                latency.record(time.as_nanos() as u64, 1);
                running.record(time.saturating_sub(waited).as_nanos() as u64, 1);
                Ok(())
            })
        });
        is_over.store(true, Ordering::Relaxed);
        for disconnect in disconnects {
            disconnect.cut();
        }
        for thread in threads {
            thread.join().map_err(|_| anyhow::anyhow!("a loop of requests panicked"))??;
        }
        measured.map(|()| (latency, running))
    });
    drop((held, programs));
    latency
}

/// Repeats the quiet client's round for the time `span`, with a pause after each round.
pub(crate) fn cycle(
    client: &mut Client,
    span: Duration,
    rest: Duration,
    latency: &mut Latency,
) -> anyhow::Result<()> {
    repeat(span, rest, || {
        latency.record(round(client)?.as_nanos() as u64, 1);
        Ok(())
    })
}

fn repeat(
    span: Duration,
    rest: Duration,
    mut once: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let end = Instant::now() + span;
    while Instant::now() < end {
        interrupt::check()?;
        once()?;
        std::thread::sleep(rest);
    }
    Ok(())
}

/// Puts, reserves and deletes a job. Returns the time that this took.
fn round(client: &mut Client) -> anyhow::Result<Duration> {
    let start = Instant::now();
    client.put(0, 60, b"quiet")?;
    client.send(b"reserve-with-timeout 60\r\n")?;
    let job = client.reserved()?.context("the job was not given")?;
    client.command(&format!("delete {}\r\n", job.id), "DELETED")?;
    Ok(start.elapsed())
}

/// Puts jobs into many queues, in all dialects.
fn fill(lab: &Lab, server: &Server) -> anyhow::Result<()> {
    let (jobs, queues) = (lab.sizes.heavy_jobs, lab.sizes.heavy_queues);
    lab.meter().show("a server is filled with jobs and queues".to_owned());
    let tube = |at: u64| format!("use tube-{at}\r\nput 0 0 60 1\r\nx\r\n").into_bytes();
    fill::lines(server.address, queues / 2, 2, tube)?;
    fill::lines(server.address, jobs / 2, 1, |_| b"put 0 0 60 1\r\nx\r\n".to_vec())?;
    let item = |at: u64| format!("SET items-{at} 0 0 1\r\nx\r\n").into_bytes();
    fill::lines(server.memcache, queues / 4, 1, item)?;
    let functions = (queues / 4).max(1);
    let job = |at: u64| fill::submit(&format!("function-{}", at % functions), at, "x");
    fill::packets(server.gearman, jobs / 2, job)
}
