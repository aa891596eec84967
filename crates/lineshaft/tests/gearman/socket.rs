//! Plays the conformance cases against Lineshaft over sockets: in memory and with a log, with one
//! and with several I/O threads.

use anyhow::{Context, Result};
use testkit::conformance::gearman::read_cases;
use testkit::conformance::suite;
use testkit::process::IO_THREADS;

use crate::programs;

#[test]
fn lineshaft_passes_every_case() -> Result<()> {
    check("cases.jsonl")
}

#[test]
fn lineshaft_does_right_where_the_original_errs() -> Result<()> {
    check("defects.jsonl")
}

fn check(file: &str) -> Result<()> {
    for (name, program) in programs::lineshaft() {
        for threads in IO_THREADS {
            let server = program.clone().with_io_threads(threads).start().context(name)?;
            suite::play(&read_cases(file)?, server.address(), |_| true).assert_all_passed(name);
        }
    }
    Ok(())
}
