//! Plays the conformance cases against the original. The cases must describe the original's real
//! behaviour.

use anyhow::Result;
use testkit::conformance::gearman::read_cases;
use testkit::conformance::suite;

use crate::programs;

#[test]
fn the_original_passes_every_case() -> Result<()> {
    let Some(program) = programs::reference() else { return Ok(()) };
    let server = program.start()?;
    let cases = read_cases("cases.jsonl")?;
    suite::play(&cases, server.address(), |_| true).assert_all_passed("the original");
    Ok(())
}
