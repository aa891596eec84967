//! Side-by-side comparison.
use crate::args::CompareArgs;
pub(crate) fn run(_args: &CompareArgs) -> anyhow::Result<()> {
    Ok(())
}
