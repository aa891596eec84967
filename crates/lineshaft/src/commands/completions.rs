//! `lineshaft completions` and `lineshaft man`: files for shells and for `man`, made from the command
//! line.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::commands::complete;

/// The name of the program in scripts and man pages.
const PROGRAM: &str = "lineshaft";

/// Prints the completion script for a shell.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), PROGRAM, &mut script);
    script.extend_from_slice(complete::script(shell).as_bytes());
    io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes `lineshaft.1`, and `lineshaft-COMMAND.1` for each command.
pub(crate) fn man(folder: &Path) -> Result<ExitCode> {
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("cannot write man pages into {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
