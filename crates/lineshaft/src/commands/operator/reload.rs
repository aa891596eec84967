//! `lineshaft reload`: the server reads its configuration again.

use std::process::ExitCode;

use anyhow::Result;
use api::types::Reloaded;
use hyper::Method;

use crate::cli::ReloadArguments;

/// Reloads, and prints the keys that have changed.
pub(crate) fn run(arguments: &ReloadArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.api)?;
    let reloaded: Reloaded = client.change(&Method::POST, "/server/reload")?;
    if arguments.json {
        println!("{}", serde_json::to_string(&reloaded)?);
    } else if reloaded.changed.is_empty() {
        println!("no setting has changed");
    } else {
        println!("changed: {}", reloaded.changed.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}
