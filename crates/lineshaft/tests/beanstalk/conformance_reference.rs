//! Plays the conformance cases against the original. The cases must describe the original's real
//! behaviour.

use anyhow::Result;
use testkit::conformance::lines::read_cases;
use testkit::conformance::suite;

use crate::programs;

#[test]
fn the_original_passes_every_case() -> Result<()> {
    let Some(program) = programs::reference() else { return Ok(()) };
    let server = program.start()?;
    let cases = read_cases("beanstalk", "cases.jsonl")?;
    suite::play(&cases, server.address(), |_| true).assert_all_passed("the original");
    Ok(())
}

/// Checks that the original still fails these cases. If a new Debian package fixes a defect, move
/// its case to `cases.jsonl`, whose cases the original must pass.
#[test]
fn the_original_still_has_its_defects() -> Result<()> {
    let Some(program) = programs::reference() else { return Ok(()) };
    let server = program.start()?;
    let cases = read_cases("beanstalk", "defects.jsonl")?;
    let known = ["line-of-225-bytes-is-refused-at-once", "lone-cr-is-an-ordinary-byte"];
    let outcome = suite::play(&cases, server.address(), |case| known.contains(&case.name.as_str()));
    assert_eq!(outcome.failures.len(), known.len(), "{outcome:?}");
    Ok(())
}
