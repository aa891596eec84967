//! Tests deadlines of very many idle connections. The original misses about half of these
//! deadlines.

use std::time::Duration;

use anyhow::{Result, ensure};
use testkit::client::Client;
use testkit::process::Program;
use testkit::wait;

use crate::programs;

const HOLDERS: usize = 200;

const TTR: Duration = Duration::from_secs(2);

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
    let connect = |_| Client::on_tube(server.address(), "short");
    let mut holders: Vec<Client> = (0..HOLDERS).map(connect).collect::<Result<_>>()?;
    for _ in 0..HOLDERS {
        observer.put(0, 0, TTR.as_secs() as u32, b"held for a moment")?;
    }
    // Send all requests before the first reply is read. So no lease ends before the last lease
    // begins.
    for holder in &mut holders {
        holder.send(b"reserve-with-timeout 10\r\n")?;
    }
    for holder in &mut holders {
        let line = holder.read_line()?;
        ensure!(line.starts_with("RESERVED "), "a job for each: {line}");
    }
    wait::until_ok("all are back", || {
        let stats = observer.stats("stats-tube short")?;
        let all_are_back = stats["current-jobs-ready"] == HOLDERS.to_string();
        let none_is_held = stats["current-jobs-reserved"] == "0";
        ensure!(none_is_held || !all_are_back, "both ready and held: {stats:?}");
        Ok(all_are_back)
    })?;
    // On a busy machine, a job may have been taken a second time.
    let timeouts: usize = observer.stats("stats")?["job-timeouts"].parse()?;
    ensure!(timeouts >= HOLDERS, "{timeouts} timeouts of {HOLDERS}");
    drop(holders);
    Ok(())
}
