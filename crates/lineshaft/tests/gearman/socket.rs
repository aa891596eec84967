//! The conformance cases against Lineshaft over sockets, in memory and with a log.

use anyhow::{Context, Result};
use testkit::gearman::case::read_cases;
use testkit::gearman::suite;

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
        let server = program.start().context(name)?;
        suite::play(&read_cases(file)?, "c", server.address(), |_| true).assert_all_passed();
    }
    Ok(())
}
