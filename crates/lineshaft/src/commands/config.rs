//! `lineshaft config`: checks a configuration, or shows the one in force.

use std::path::PathBuf;
use std::process::ExitCode;

use server::config_sources::{Effective, Mistakes, Sources};
use server::exit;

use crate::cli::ConfigCommand;

/// Runs one of the subcommands. Mistakes go to the error output, one a line.
pub(crate) fn run(command: ConfigCommand) -> ExitCode {
    match command {
        ConfigCommand::Check { file } => check(file),
        ConfigCommand::Show { config } => match Sources::of_process(config).load() {
            Ok(effective) => {
                print!("{}", effective.show());
                ExitCode::SUCCESS
            }
            Err(mistakes) => refuse(&mistakes),
        },
    }
}

fn check(file: Option<PathBuf>) -> ExitCode {
    let effective = match Sources::of_process(file).load() {
        Ok(effective) => effective,
        Err(mistakes) => return refuse(&mistakes),
    };
    if let Err(error) = effective.check_files() {
        eprintln!("{error}");
        return ExitCode::from(exit::BAD_CONFIGURATION);
    }
    match effective {
        Effective { file: Some(file), config, .. } => {
            println!("{}: ok", file.display());
            if config.listen.is_off() {
                println!(
                    "every listener is off: only sockets that a service manager hands over are served"
                );
            }
        }
        _ => println!("no configuration file here: the defaults and the environment are ok"),
    }
    ExitCode::SUCCESS
}

fn refuse(mistakes: &Mistakes) -> ExitCode {
    eprintln!("{mistakes}");
    ExitCode::from(exit::BAD_CONFIGURATION)
}
