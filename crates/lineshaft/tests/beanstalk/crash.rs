//! Kills a server under load, starts it again, and compares its jobs with the replies before the
//! kill. All acknowledged changes must still exist. A job with an acknowledged delete must not come
//! back.
//!
//! `LINESHAFT_ROUNDS` sets the number of rounds. `LINESHAFT_SEED` repeats the choices of a run.

use std::time::Duration;

use anyhow::{Context, Result};
use testkit::process::{IO_THREADS, Program};
use testkit::rng::Rng;
use testkit::settings;

use crate::load::{Load, Promises};
use crate::programs;

const ROUNDS_DEFAULT: u64 = 20;

#[test]
fn jobs_that_lineshaft_acknowledged_survive_kill() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = programs::lineshaft_durable(folder.path().to_str().context("a text path")?);
    kill_and_check(&program, settings::rounds(ROUNDS_DEFAULT), Promises::All)
}

/// The server writes a change before it sends the reply. Even without a sync, written data is in
/// the kernel, so it survives when the server is killed.
#[test]
fn jobs_that_lineshaft_acknowledged_without_syncs_survive_kill() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path().to_str().context("a text path")?;
    let program = programs::lineshaft_durable(folder).with(&["--sync", "never"]);
    kill_and_check(&program, settings::rounds(5), Promises::All)
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
        kill_and_check(&program, settings::rounds(3), Promises::AllButPlainReleases)
    };
    attempt().or_else(|_| attempt()).or_else(|_| attempt())
}

fn kill_and_check(program: &Program, rounds: u64, promises: Promises) -> Result<()> {
    let seed = settings::seed();
    let mut rng = Rng::new(seed);
    let mut load = Load::new(seed);
    let mut acknowledged = 0;
    let start = |round: u64| {
        let threads = IO_THREADS[round as usize % IO_THREADS.len()];
        program.clone().with_io_threads(threads).start()
    };
    let mut server = start(0)?;
    for round in 1..=rounds {
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
    Ok(())
}
