//! `lineshaft policy`: shows the policies of a queue, tries them, and compares a new file with the
//! server.

mod diff;
mod effect;
mod test;

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use server::config::sources::{Effective, Sources};
use server::exit;

use super::config::print_settings;
use crate::cli::{PolicyCommand, refuse};

/// Runs the subcommand. It prints mistakes to standard error, one per line.
pub(crate) fn run(command: PolicyCommand) -> Result<ExitCode> {
    match command {
        PolicyCommand::Show { queue, file, json } => with_file(file.path(), |effective| {
            if json {
                return print_settings(effective.policy_settings(queue.as_bytes()));
            }
            let policy = effective.show_policy(queue.as_bytes());
            Ok(io::stdout().write_all(policy.as_bytes())?)
        }),
        PolicyCommand::Test(arguments) => {
            with_file(arguments.config.clone(), |effective| test::run(effective, &arguments))
        }
        PolicyCommand::Diff(arguments) => {
            with_file(Some(arguments.file.clone()), |effective| diff::run(effective, &arguments))
        }
        PolicyCommand::Other(words) => {
            let word = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
            // The terminal must not obey a name.
            let word = word.escape_debug();
            let tip =
                format!("  tip: `lineshaft policy show {word}` shows the policies of a queue");
            Err(refuse(&format!("unrecognized subcommand '{word}'\n\n{tip}")).into())
        }
    }
}

/// Does something with a configuration, if it has no mistake.
fn with_file(
    file: Option<PathBuf>,
    act: impl FnOnce(&Effective) -> Result<()>,
) -> Result<ExitCode> {
    match Sources::of_process(file).load() {
        Ok(effective) => act(&effective).map(|()| ExitCode::SUCCESS),
        Err(mistakes) => {
            eprintln!("{mistakes}");
            Ok(ExitCode::from(exit::BAD_CONFIGURATION))
        }
    }
}
