//! Lineshaft from this build, with listeners for Kestrel's protocols only.

use std::path::PathBuf;

use anyhow::{Context, Result};
use testkit::process::{self, Program, Server};

/// Starts `lineshaft serve` with these listeners and this configuration, once in memory and once
/// with a log. The names are for failure messages.
pub(crate) fn start_both(
    listeners: &[&'static str],
    configuration: &str,
) -> Result<Vec<(&'static str, Server)>> {
    let programs = Program::serve_both_ways(listeners, lineshaft_path()).into_iter();
    let start = |(name, program): (&'static str, Program)| {
        let server = program.with_configuration(configuration).start().context(name)?;
        Ok((name, server))
    };
    programs.map(start).collect()
}

pub(crate) fn lineshaft_path() -> PathBuf {
    process::lineshaft_path(env!("CARGO_BIN_EXE_lineshaft"))
}
