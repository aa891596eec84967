//! The Lineshaft program of this build, with only listeners of Kestrel's protocols.

use std::path::PathBuf;

use anyhow::{Context, Result};
use testkit::process::{self, Program, Server};

/// `lineshaft serve` with these listeners and this configuration, in memory and with a log. The
/// names are for failure messages.
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
