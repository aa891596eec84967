//! `lineshaft why`: the first thing that keeps the jobs of a queue from being handed out.

use std::process::ExitCode;

use anyhow::Result;
use api::types::Why;

use crate::cli::WhyArguments;
use crate::client::segment;

/// Prints the reason.
pub(crate) fn run(arguments: &WhyArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.api)?;
    let why: Why = client.get(&format!("/queues/{}/why", segment(&arguments.queue)))?;
    if arguments.json {
        println!("{}", serde_json::to_string(&why)?);
    } else {
        println!("{}", why.text);
    }
    Ok(ExitCode::SUCCESS)
}
