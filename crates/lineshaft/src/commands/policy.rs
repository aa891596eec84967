//! `lineshaft policy`: shows what is asked of a queue.

use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use server::config_sources::Sources;
use server::exit;

use crate::cli::PolicyCommand;

/// Runs one of the subcommands. Mistakes go to the error output, one a line.
pub(crate) fn run(command: PolicyCommand) -> ExitCode {
    let PolicyCommand::Show { queue, config } = command;
    match Sources::of_process(config).load() {
        Ok(effective) => {
            print!("{}", effective.show_policy(queue.as_bytes()));
            ExitCode::SUCCESS
        }
        Err(mistakes) => {
            eprintln!("{mistakes}");
            ExitCode::from(exit::BAD_CONFIGURATION)
        }
    }
}
