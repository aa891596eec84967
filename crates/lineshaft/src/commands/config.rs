//! `lineshaft config`: checks a configuration file, or shows the current settings.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use server::config::sources::{Effective, Mistakes, Sources};
use server::{ServeError, exit};

use crate::cli::ConfigCommand;

/// Runs one of the subcommands. It prints mistakes to standard error, one per line.
pub(crate) fn run(command: ConfigCommand) -> Result<ExitCode> {
    match command {
        ConfigCommand::Check { file } => check(file.path()),
        ConfigCommand::Show { file } => match Sources::of_process(file.path()).load() {
            Ok(effective) => {
                io::stdout().write_all(effective.show().as_bytes())?;
                Ok(ExitCode::SUCCESS)
            }
            Err(mistakes) => Ok(refuse(&mistakes)),
        },
    }
}

fn check(file: Option<PathBuf>) -> Result<ExitCode> {
    let effective = match Sources::of_process(file).load() {
        Ok(effective) => effective,
        Err(mistakes) => return Ok(refuse(&mistakes)),
    };
    if let Err(error) = effective.check_files() {
        eprintln!("{error}");
        return Ok(ExitCode::from(ServeError::from(error).exit_code()));
    }
    let mut output = io::stdout();
    if let Effective { file: Some(file), config, .. } = effective {
        writeln!(output, "{}: ok", file.display())?;
        if config.listen.is_off() {
            let what = "the server uses only sockets from a service manager";
            writeln!(output, "every listener is off: {what}")?;
        }
    } else {
        let what = "the defaults and the environment are valid";
        writeln!(output, "no configuration file here: {what}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn refuse(mistakes: &Mistakes) -> ExitCode {
    eprintln!("{mistakes}");
    ExitCode::from(exit::BAD_CONFIGURATION)
}
