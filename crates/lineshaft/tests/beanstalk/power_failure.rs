//! Simulates a power failure under load. The data folder is on a file system of its own. The test
//! makes this file system drop all data that was not flushed. Then the test kills the server,
//! mounts the file system again, and starts a new server. It compares the new server's jobs with
//! the changes that the old server acknowledged.
//!
//! The test is skipped if it has no permission to mount. `LINESHAFT_ROUNDS` sets the number of
//! rounds.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::backlog::wait_until_cold;
use testkit::client::Client;
use testkit::power::PowerDisk;
use testkit::process::{IO_THREADS, Program};
use testkit::rng::Rng;
use testkit::{settings, wait};

use crate::crash::{COLD_BACKLOG, with_little_memory};
use crate::load::{Load, Promises};
use crate::programs;

const ROUNDS_DEFAULT: u64 = 5;

#[test]
fn jobs_that_lineshaft_acknowledged_survive_a_power_failure() -> Result<()> {
    let Some(disk) = PowerDisk::new_or_skip()? else { return Ok(()) };
    let data = disk.folder().join("data");
    let program = programs::lineshaft_durable(data.to_str().context("a text path")?);
    cut_and_check(&disk, &program, settings::rounds(ROUNDS_DEFAULT), Promises::All, 0)
}

/// Most jobs of a backlog are only in the log, and so are most bodies.
#[test]
fn cold_jobs_survive_a_power_failure() -> Result<()> {
    let Some(disk) = PowerDisk::new_or_skip()? else { return Ok(()) };
    let data = disk.folder().join("data");
    let program = with_little_memory(data.to_str().context("a text path")?, "always");
    cut_and_check(&disk, &program, settings::rounds(2), Promises::All, COLD_BACKLOG)
}

/// The value of `--sync` in the next test.
const PERIOD: Duration = Duration::from_millis(50);

/// A power failure can also lose jobs that were acknowledged during the last sync. On a busy
/// machine, a sync can take this long.
const SYNC_MAX: Duration = Duration::from_secs(1);

/// The test puts jobs for this time before the power fails. It is far longer than the loss that
/// `--sync` allows.
const PUTTING: Duration = Duration::from_millis(2_500);

#[test]
fn an_interval_loses_no_more_than_its_last_moments() -> Result<()> {
    let Some(disk) = PowerDisk::new_or_skip()? else { return Ok(()) };
    let data = disk.folder().join("data");
    let data = data.to_str().context("a text path")?;
    let period = format!("{}ms", PERIOD.as_millis());
    let program = programs::lineshaft_durable(data).with(&["--sync", &period]);
    for round in 1..=settings::rounds(2) {
        let server = program.start()?;
        let address = server.address();
        let (acknowledged, end) = std::thread::scope(|scope| -> Result<_> {
            let putter = scope.spawn(move || put_until_the_end(address));
            wait::let_pass(PUTTING, "the promise is about a span of real time");
            let end = Instant::now();
            disk.cut_power()?;
            server.kill();
            Ok((putter.join().expect("it fails politely"), end))
        })?;
        disk.mount_again()?;
        let server = program.start()?;
        let mut client = Client::connect(server.address())?;
        let mut is_there = Vec::new();
        for (id, _) in &acknowledged {
            is_there.push(client.peek(&format!("peek {id}"))?.is_some());
        }
        let kept = is_there.iter().take_while(|is_there| **is_there).count();
        ensure!(
            !is_there[kept..].contains(&true),
            "round {round}: a later job is there without an earlier one"
        );
        let lost = acknowledged.get(kept).map(|(_, at)| end.saturating_duration_since(*at));
        println!("round {round}: {kept} of {} jobs are there, lost: {lost:?}", acknowledged.len());
        ensure!(kept > 0, "round {round}: nothing is there of {PUTTING:?}");
        ensure!(
            lost.is_none_or(|lost| lost <= PERIOD + SYNC_MAX),
            "round {round}: the last {lost:?} are lost"
        );
        server.kill();
    }
    Ok(())
}

/// Puts jobs until the server ends. Returns each job's id, and when the put was acknowledged.
fn put_until_the_end(server: SocketAddr) -> Vec<(u64, Instant)> {
    let mut acknowledged = Vec::new();
    let Ok(mut client) = Client::on_tube(server, "stamped") else { return acknowledged };
    while let Ok(id) = client.put(0, 0, 60, b"acknowledged") {
        acknowledged.push((id, Instant::now()));
    }
    acknowledged
}

/// Proves that the simulated power failure loses unflushed data. With this option, the original
/// flushes only once per hour.
#[test]
fn the_rig_loses_what_was_not_flushed() -> Result<()> {
    let Some(disk) = PowerDisk::new_or_skip()? else { return Ok(()) };
    let Some(program) = programs::reference() else { return Ok(()) };
    let program = program.with(&["-f", "3600000", "-b"]).with(&[disk.folder()]);
    let outcome = cut_and_check(&disk, &program, 1, Promises::AllButPlainReleases, 0);
    let message = format!("{:#}", outcome.expect_err("something must be lost"));
    assert!(message.contains("found nothing"), "{message}");
    Ok(())
}

/// `backlog` is the number of jobs that each client puts before the first round.
fn cut_and_check(
    disk: &PowerDisk,
    program: &Program,
    rounds: u64,
    promises: Promises,
    backlog: usize,
) -> Result<()> {
    let seed = settings::seed();
    let mut rng = Rng::new(seed);
    let mut load = Load::new(seed);
    let mut acknowledged = 0;
    let start = |round: u64| {
        let threads = IO_THREADS[round as usize % IO_THREADS.len()];
        program.clone().with_io_threads(threads).start()
    };
    let mut server = start(0)?;
    load.fill(server.address(), backlog)?;
    for round in 1..=rounds {
        if backlog > 0 {
            wait_until_cold(&server, load.jobs() / 2)?;
        }
        let time = Duration::from_millis(200 + rng.below(600));
        let context = || format!("round {round}; repeat with LINESHAFT_SEED={seed}");
        let address = server.address();
        acknowledged += load
            .run_until(address, time, || {
                disk.cut_power()?;
                server.kill();
                Ok(())
            })
            .with_context(context)?;
        disk.mount_again()?;
        server = start(round)?;
        load.check(server.address(), promises).with_context(context)?;
    }
    let jobs = load.jobs();
    println!(
        "{rounds} power failures, {acknowledged} commands acknowledged, {jobs} jobs at the end"
    );
    Ok(())
}
