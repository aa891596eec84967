//! `lineshaft reload`: the server reads its configuration again.

use std::process::ExitCode;

use anyhow::Result;
use api::types::Reloaded;
use hyper::Method;

use crate::cli::ReloadArguments;
use crate::text::{print_line, print_value};

/// Reloads, and prints the keys that have changed.
pub(crate) fn run(arguments: &ReloadArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.api)?;
    let reloaded: Reloaded = client.change(&Method::POST, "/server/reload")?;
    if arguments.json {
        print_value(&reloaded)?;
    } else if reloaded.changed.is_empty() {
        print_line("no setting has changed")?;
    } else {
        print_line(&format!("changed: {}", reloaded.changed.join(", ")))?;
    }
    Ok(ExitCode::SUCCESS)
}
