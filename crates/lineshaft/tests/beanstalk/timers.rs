//! Deadlines of very many idle connections: the original forgets about half of them.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use testkit::client::Client;
use testkit::process::Program;

use crate::programs;

const HOLDERS: usize = 200;

const TTR: Duration = Duration::from_secs(2);

/// How much later the last job may be back: generous, because other tests run beside this one.
const LATE_MAX: Duration = Duration::from_secs(10);

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
    // All at once: none may come back before the last one is held.
    for holder in &mut holders {
        holder.send(b"reserve-with-timeout 10\r\n")?;
    }
    for holder in &mut holders {
        let line = holder.read_line()?;
        ensure!(line.starts_with("RESERVED "), "a job for each: {line}");
    }
    let held = Instant::now();
    loop {
        let stats = observer.stats("stats-tube short")?;
        if stats["current-jobs-ready"] == HOLDERS.to_string() {
            ensure!(stats["current-jobs-reserved"] == "0", "both ready and held: {stats:?}");
            break;
        }
        ensure!(held.elapsed() < TTR + LATE_MAX, "not all are back: {stats:?}");
        sleep(Duration::from_millis(20));
    }
    // On a busy machine one may have been taken a second time.
    let timeouts: usize = observer.stats("stats")?["job-timeouts"].parse()?;
    ensure!(timeouts >= HOLDERS, "{timeouts} timeouts of {HOLDERS}");
    drop(holders);
    Ok(())
}
