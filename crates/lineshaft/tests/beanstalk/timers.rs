//! Deadlines of very many idle connections: the original forgets about half of them.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use testkit::client::Client;
use testkit::process::Program;

use crate::programs;

const HOLDERS: usize = 200;

#[test]
fn lineshaft_in_memory_takes_every_job_back_on_time() -> Result<()> {
    silent_holders_lose_their_jobs(&programs::lineshaft_in_memory())
}

#[test]
fn lineshaft_with_a_log_takes_every_job_back_on_time() -> Result<()> {
    silent_holders_lose_their_jobs(&programs::lineshaft_durable("data"))
}

fn silent_holders_lose_their_jobs(program: &Program) -> Result<()> {
    let server = program.start()?;
    let mut observer = Client::on_tube(server.address(), "short")?;
    let mut holders = Vec::new();
    for _ in 0..HOLDERS {
        observer.put(0, 0, 1, b"held for a second")?;
        let mut holder = Client::on_tube(server.address(), "short")?;
        ensure!(holder.reserve(1)?.is_some(), "the job just put can be had");
        holders.push(holder);
    }
    // A second for the ttr, and as much again for a busy machine.
    sleep(Duration::from_secs(2));
    let stats = observer.stats("stats-tube short")?;
    ensure!(stats["current-jobs-reserved"] == "0", "still held: {stats:?}");
    ensure!(stats["current-jobs-ready"] == HOLDERS.to_string(), "not all are back: {stats:?}");
    let stats = observer.stats("stats")?;
    ensure!(stats["job-timeouts"] == HOLDERS.to_string(), "timeouts: {}", stats["job-timeouts"]);
    drop(holders);
    Ok(())
}
