//! Plays the conformance cases against the original. They must describe what it really does.

use anyhow::Result;
use testkit::gearman::case::read_cases;
use testkit::gearman::suite;

use crate::programs;

#[test]
fn the_original_passes_every_case() -> Result<()> {
    let Some(program) = programs::reference() else { return Ok(()) };
    let server = program.start()?;
    let cases = read_cases("cases.jsonl")?;
    suite::play(&cases, "c", server.address(), |_| true).assert_all_passed();
    Ok(())
}
