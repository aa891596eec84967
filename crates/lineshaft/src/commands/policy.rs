//! `lineshaft policy`: shows the policies of a queue.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use anyhow::Result;
use server::config::sources::Sources;
use server::exit;

use super::config::print_settings;
use crate::cli::{PolicyCommand, refuse};

/// Runs the subcommand. It prints mistakes to standard error, one per line.
pub(crate) fn run(command: PolicyCommand) -> Result<ExitCode> {
    let (queue, file, json) = match command {
        PolicyCommand::Show { queue, file, json } => (queue, file, json),
        PolicyCommand::Other(words) => {
            let word = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
            // The terminal must not obey a name.
            let word = word.escape_debug();
            let tip =
                format!("  tip: `lineshaft policy show {word}` shows the policies of a queue");
            return Err(refuse(&format!("unrecognized subcommand '{word}'\n\n{tip}")).into());
        }
    };
    match Sources::of_process(file.path()).load() {
        Ok(effective) if json => {
            print_settings(effective.policy_settings(queue.as_bytes()))?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(effective) => {
            let policy = effective.show_policy(queue.as_bytes());
            io::stdout().write_all(policy.as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(mistakes) => {
            eprintln!("{mistakes}");
            Ok(ExitCode::from(exit::BAD_CONFIGURATION))
        }
    }
}
