//! Kills a server under load, starts it again, and compares its jobs with the replies before the
//! kill. All acknowledged changes must still exist. A job with an acknowledged delete must not come
//! back.
//!
//! `LINESHAFT_ROUNDS` sets the number of rounds. `LINESHAFT_SEED` repeats the choices of a run.

use std::time::Duration;

use anyhow::{Context, Result};
use testkit::backlog::{self, wait_until_cold};
use testkit::process::{IO_THREADS, Program};
use testkit::rng::Rng;
use testkit::settings;

use crate::load::{Load, Promises};
use crate::programs;

const ROUNDS_DEFAULT: u64 = 20;
const COLD_ROUNDS_DEFAULT: u64 = 2;

/// The backlog of each client. A server keeps 4,096 jobs at the head of each queue in memory.
pub(crate) const COLD_BACKLOG: usize = 12_500;

#[test]
fn jobs_that_lineshaft_acknowledged_survive_kill() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = programs::lineshaft_durable(folder.path().to_str().context("a text path")?);
    kill_and_check(&program, settings::rounds(ROUNDS_DEFAULT), Promises::All, 0)
}

/// The server writes a change before it sends the reply. Even without a sync, written data is in
/// the kernel, so it survives when the server is killed.
#[test]
fn jobs_that_lineshaft_acknowledged_without_syncs_survive_kill() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path().to_str().context("a text path")?;
    let program = programs::lineshaft_durable(folder).with(&["--sync", "never"]);
    kill_and_check(&program, settings::rounds(5), Promises::All, 0)
}

/// A server whose limits of memory are far below the backlog: the bodies of the backlog take more
/// than ten times as much.
pub(crate) fn with_little_memory(folder: &str, sync: &str) -> Program {
    let arguments = ["--data", folder, "--sync", sync];
    let listeners = ["beanstalk", "http"];
    let program = Program::serve_on(&listeners, programs::lineshaft_path(), &arguments);
    backlog::with_little_memory(program)
}

/// Most jobs of a backlog are cold. The clients of the load find, take and delete random ones.
#[test]
fn cold_jobs_survive_kill() -> Result<()> {
    for sync in ["always", "never"] {
        let folder = tempfile::tempdir()?;
        let folder = folder.path().to_str().context("a text path")?;
        let program = with_little_memory(folder, sync);
        let rounds = settings::rounds(COLD_ROUNDS_DEFAULT);
        kill_and_check(&program, rounds, Promises::All, COLD_BACKLOG).context(sync)?;
    }
    Ok(())
}

/// Proves that the ledger is right, with the original and its log. The original keeps its promises,
/// except for plain releases. Rarely it breaks another promise, because its log has no checksums:
/// if the kill cuts off a record, a job with an incomplete body can come back. So the test has
/// three attempts. With a wrong ledger, all attempts would fail.
#[test]
fn jobs_that_the_original_acknowledged_survive_kill() -> Result<()> {
    let Some(program) = programs::reference() else { return Ok(()) };
    let attempt = || {
        let folder = tempfile::tempdir()?;
        let program = program.clone().with(&["-b".as_ref(), folder.path()]);
        kill_and_check(&program, settings::rounds(3), Promises::AllButPlainReleases, 0)
    };
    attempt().or_else(|_| attempt()).or_else(|_| attempt())
}

/// `backlog` is the number of jobs that each client puts before the first round.
fn kill_and_check(
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
        let time = Duration::from_millis(100 + rng.below(300));
        let address = server.address();
        let context = || format!("round {round}; repeat with LINESHAFT_SEED={seed}");
        acknowledged += load
            .run_until(address, time, || {
                server.kill();
                Ok(())
            })
            .with_context(context)?;
        server = start(round)?;
        load.check(server.address(), promises).with_context(context)?;
    }
    let jobs = load.jobs();
    println!("{rounds} rounds, {acknowledged} commands acknowledged, {jobs} jobs at the end");
    if backlog > 0 {
        load.drain(server.address())
            .with_context(|| format!("repeat with LINESHAFT_SEED={seed}"))?;
    }
    Ok(())
}
