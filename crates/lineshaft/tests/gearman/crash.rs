//! Kills a server whose background jobs are mostly cold, and starts it again. Every acknowledged
//! job must still exist, in order and with its unique key. A completed job must not come back.
//!
//! `LINESHAFT_ROUNDS` sets the number of rounds.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use testkit::process::{IO_THREADS, Program};
use testkit::{backlog, settings};

use crate::packet::{CAN_DO, JOB_CREATED, Peer, SUBMIT_JOB_BG, WORK_COMPLETE};
use crate::programs;

const ROUNDS_DEFAULT: u64 = 2;

/// The jobs of a round. The server keeps 4,096 of them in memory.
const JOBS: u64 = 20_000;
/// The jobs that a worker completes before the kill.
const COMPLETED: u64 = 3_000;
/// Requests that are sent before their replies are read.
const BATCH: u64 = 500;
/// A step through the jobs whose keys are submitted again.
const STEP: usize = 997;

#[test]
fn cold_background_jobs_survive_kill() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path().to_str().context("a text path")?;
    let listeners = ["gearman", "http"];
    let program = Program::serve_on(&listeners, programs::lineshaft_path(), &["--data", folder]);
    let program = backlog::with_little_memory(program);
    for round in 0..settings::rounds(ROUNDS_DEFAULT) {
        let threads = IO_THREADS[round as usize % IO_THREADS.len()];
        let program = program.clone().with_io_threads(threads);
        let server = program.start()?;
        let mut waiting = submit(&mut Peer::connect(&server.address().to_string()));
        backlog::wait_until_cold(&server, JOBS as usize / 2)?;
        let mut worker = worker(&server.address().to_string());
        let mut last = String::new();
        for _ in 0..COMPLETED {
            last = complete_next(&mut worker, &mut waiting);
        }
        // No reply confirms a completion. But the reply that a job is unknown waits for the log.
        assert_eq!(worker.status(&last).0, "0");
        server.kill();

        let server = program.start()?;
        let address = server.address().to_string();
        backlog::wait_until_cold(&server, JOBS as usize / 2)?;
        let mut client = Peer::connect(&address);
        for (number, handle) in waiting.iter().step_by(STEP) {
            submit_one(&mut client, *number);
            assert_eq!(client.expect(JOB_CREATED), [&handle[..]], "the job with this key exists");
        }
        let mut worker = self::worker(&address);
        while !waiting.is_empty() {
            complete_next(&mut worker, &mut waiting);
        }
        assert_eq!(worker.try_grab(), None);
        server.terminate()?;
    }
    Ok(())
}

/// Submits all jobs of a round. Returns the handle of each.
fn submit(client: &mut Peer) -> BTreeMap<u64, String> {
    let mut handles = BTreeMap::new();
    for first in (0..JOBS).step_by(BATCH as usize) {
        let batch = first..first + BATCH;
        batch.clone().for_each(|number| submit_one(client, number));
        handles.extend(batch.map(|number| (number, client.expect(JOB_CREATED).remove(0))));
    }
    handles
}

fn submit_one(client: &mut Peer, number: u64) {
    client.send(SUBMIT_JOB_BG, &["f", &format!("key-{number}"), &number.to_string()]);
}

fn worker(address: &str) -> Peer {
    let mut worker = Peer::connect(address);
    worker.send(CAN_DO, &["f"]);
    worker
}

/// Takes the next job, which must be the first of these, and completes it. Returns its handle.
fn complete_next(worker: &mut Peer, waiting: &mut BTreeMap<u64, String>) -> String {
    let job = worker.grab();
    let (number, handle) = waiting.pop_first().expect("a job waits");
    assert_eq!(job, [&handle, "f", &number.to_string()]);
    worker.send(WORK_COMPLETE, &[&handle, ""]);
    handle
}
