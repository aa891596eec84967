//! `lineshaft config`: checks a configuration file, or shows the current settings.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};
use server::config::sources::{Effective, Mistakes, ShownSetting, Sources};
use server::{ServeError, exit};

use crate::cli::ConfigCommand;
use crate::text::print_value;

/// Runs one of the subcommands. It prints mistakes to standard error, one per line.
pub(crate) fn run(command: ConfigCommand) -> Result<ExitCode> {
    match command {
        ConfigCommand::Check { file, json } => check(file.path(), json),
        ConfigCommand::Show { file, json } => match Sources::of_process(file.path()).load() {
            Ok(effective) => {
                if json {
                    print_settings(effective.settings())?;
                } else {
                    io::stdout().write_all(effective.show().as_bytes())?;
                }
                Ok(ExitCode::SUCCESS)
            }
            Err(mistakes) => Ok(refuse(&mistakes)),
        },
    }
}

/// Prints settings as JSON, one line for each.
pub(super) fn print_settings(settings: impl Iterator<Item = ShownSetting>) -> Result<()> {
    for setting in settings {
        print_value(&setting_value(setting))?;
    }
    Ok(())
}

/// A setting as JSON.
pub(super) fn setting_value(setting: ShownSetting) -> Value {
    let ShownSetting { patterns, key, value, origin } = setting;
    // The value in the form of the file is also JSON.
    let value: Value = serde_json::from_str(&value).unwrap_or(Value::String(value));
    let mut shown = json!({ "key": key, "value": value, "origin": origin });
    if !patterns.is_empty() {
        shown["policy"] = patterns.into();
    }
    shown
}

fn check(file: Option<PathBuf>, as_json: bool) -> Result<ExitCode> {
    let wrong = |mistakes: &[String]| print_value(&json!({ "ok": false, "mistakes": mistakes }));
    let effective = match Sources::of_process(file).load() {
        Ok(effective) => effective,
        Err(mistakes) => {
            if as_json {
                wrong(&mistakes.to_string().lines().map(str::to_owned).collect::<Vec<_>>())?;
                return Ok(ExitCode::from(exit::BAD_CONFIGURATION));
            }
            return Ok(refuse(&mistakes));
        }
    };
    if let Err(error) = effective.check_files() {
        if as_json {
            wrong(&[error.to_string()])?;
        } else {
            eprintln!("{error}");
        }
        return Ok(ExitCode::from(ServeError::from(error).exit_code()));
    }
    if as_json {
        let file = effective.file.as_ref().map(|file| file.display().to_string());
        print_value(&json!({ "ok": true, "file": file }))?;
        return Ok(ExitCode::SUCCESS);
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
