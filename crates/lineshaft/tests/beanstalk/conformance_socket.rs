//! Plays the conformance cases against Lineshaft over sockets: with and without a log, with one and
//! with several I/O threads.

use anyhow::Result;
use testkit::conformance::lines::{Case, read_cases};
use testkit::conformance::suite;
use testkit::process::{IO_THREADS, Program};

use crate::programs;

#[test]
fn lineshaft_in_memory_passes_every_case() -> Result<()> {
    play("cases.jsonl", &programs::lineshaft_in_memory(), |_| true)
}

#[test]
fn lineshaft_with_a_log_passes_every_case() -> Result<()> {
    play("cases.jsonl", &programs::lineshaft_durable("data"), |case| !case.has_tag("memory"))
}

#[test]
fn lineshaft_in_memory_does_right_where_the_original_errs() -> Result<()> {
    play("defects.jsonl", &programs::lineshaft_in_memory(), |_| true)
}

#[test]
fn lineshaft_with_a_log_does_right_where_the_original_errs() -> Result<()> {
    play("defects.jsonl", &programs::lineshaft_durable("data"), |_| true)
}

fn play(file: &str, program: &Program, choose: fn(&Case) -> bool) -> Result<()> {
    let cases = read_cases("beanstalk", file)?;
    for threads in IO_THREADS {
        let server = program.clone().with_io_threads(threads).start()?;
        let outcome = suite::play(&cases, server.address(), choose);
        outcome.assert_all_passed(&format!("with {threads} I/O threads"));
    }
    Ok(())
}
