//! Measures memory: the size of a job, the memory that the server frees after deletes, and the size
//! of an idle connection.

use std::net::TcpStream;
use std::rc::Rc;
use std::time::Duration;

use crate::compare::lab::Lab;
use crate::compare::lab::server::Server;
use crate::compare::plan::sizes::Bounds;
use crate::compare::plan::work::{Metric, Sample};
use crate::driver::{Beanstalk, Cursor, Driver, IdSink};
use crate::idle::{self, Greeting};
use crate::{interrupt, process, wake};

const CONNECTIONS: usize = 50;
const BODY_BYTES: usize = 100;
/// The time limit for a server to return memory to the system after the last job was deleted.
const GIVE_BACK: Duration = Duration::from_secs(3);

/// Puts jobs and deletes them in random order. Reads the server's memory before, between and after.
pub(crate) fn jobs(lab: &Lab, server: &Server) -> anyhow::Result<Sample> {
    let count = lab.sizes.memory_jobs;
    let ids = IdSink::default();
    // Load the server before the first reading, so that the memory for connections and their
    // buffers is already in use.
    lab.load(server, put_drivers(&ids), 32, Bounds::exactly(1000))?;
    delete_all(lab, server, &ids)?;
    interrupt::sleep(Duration::from_millis(500))?;
    let before = process::resident_bytes(server.pid())?;
    lab.load(server, put_drivers(&ids), 32, Bounds::exactly(count))?;
    interrupt::sleep(Duration::from_millis(500))?;
    let full = process::resident_bytes(server.pid())?;
    delete_all(lab, server, &ids)?;
    interrupt::sleep(GIVE_BACK)?;
    let after = process::resident_bytes(server.pid())?;
    let held = full.saturating_sub(before) as f64;
    anyhow::ensure!(held > 0.0, "the server's memory did not grow");
    Ok(Sample::from([
        (Metric::BytesPerJob, held / count as f64),
        (Metric::GivenBack, full.saturating_sub(after) as f64 / held),
    ]))
}

fn put_drivers(ids: &IdSink) -> Vec<Box<dyn Driver>> {
    let script = Rc::new(Beanstalk::puts(BODY_BYTES));
    (0..CONNECTIONS)
        .map(|index| {
            let cursor = Cursor::cycling(Rc::clone(&script), index, CONNECTIONS);
            Box::new(Beanstalk::put("default", cursor).with_ids(Rc::clone(ids))) as Box<dyn Driver>
        })
        .collect()
}

/// Deletes all jobs whose ids were collected. The order is random, but the same in every run.
fn delete_all(lab: &Lab, server: &Server, ids: &IdSink) -> anyhow::Result<()> {
    let mut ids = std::mem::take(&mut *ids.borrow_mut());
    shuffle(&mut ids);
    let script = Rc::new(Beanstalk::deletes(&ids));
    let drivers = (0..CONNECTIONS)
        .map(|index| {
            let cursor = Cursor::once(Rc::clone(&script), index, CONNECTIONS);
            Box::new(Beanstalk::script(cursor)) as Box<dyn Driver>
        })
        .collect();
    lab.load(server, drivers, 32, Bounds::exactly(ids.len() as u64))?;
    Ok(())
}

/// The Fisher-Yates shuffle, with a fixed xorshift sequence.
fn shuffle(ids: &mut [u64]) {
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    for last in (1..ids.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ids.swap(last, (state % (last as u64 + 1)) as usize);
    }
}

/// Measures the memory of idle connections.
pub(crate) fn idle_connections(lab: &Lab, server: &Server) -> anyhow::Result<Sample> {
    Ok(open_idle(lab, server, &Greeting::beanstalk())?.0)
}

/// Sleeping Gearman workers, all registered for the same functions. Measures their memory, the time
/// to register all of them, and the time until a job wakes one of them.
pub(crate) fn idle_workers(lab: &Lab, functions: u32, server: &Server) -> anyhow::Result<Sample> {
    let functions = functions as usize;
    let greeting = Greeting::gearman_worker(functions);
    let (mut sample, mut workers) = open_idle(lab, server, &greeting)?;
    let latency = wake::measure(server.address, &mut workers, functions)?.summary();
    sample.insert(Metric::P50Micros, latency.p50_us);
    sample.insert(Metric::P99Micros, latency.p99_us);
    Ok(sample)
}

fn open_idle(
    lab: &Lab,
    server: &Server,
    greeting: &Greeting,
) -> anyhow::Result<(Sample, Vec<TcpStream>)> {
    let (address, pid) = (server.address, Some(server.pid()));
    let connections = lab.sizes.idle_connections;
    let (report, streams) = idle::run(address, greeting, connections, pid, lab.meter())?;
    let bytes = report.bytes_per_connection.expect("the process number was given");
    let figures = [(Metric::BytesPerConnection, bytes), (Metric::Seconds, report.opened_in_s)];
    Ok((Sample::from(figures), streams))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffling_keeps_every_id() {
        let mut ids: Vec<u64> = (1..=1000).collect();
        shuffle(&mut ids);
        assert_ne!(ids[..10], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        ids.sort_unstable();
        assert!(ids.iter().copied().eq(1..=1000));
    }
}
