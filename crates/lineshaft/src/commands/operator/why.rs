//! `lineshaft why`: the first thing that keeps the jobs of a queue from being handed out, and whether
//! puts are refused.

use std::process::ExitCode;

use anyhow::Result;
use api::types::Why;

use crate::cli::WhyArguments;
use crate::client::segment;
use crate::text::{print_line, print_value};

/// Prints the reason.
pub(crate) fn run(arguments: &WhyArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.api)?;
    let why: Why = client.get(&format!("/queues/{}/why", segment(&arguments.queue)))?;
    if arguments.json {
        print_value(&why)?;
    } else {
        print_line(&why.text)?;
        if let Some(refusal) = &why.put_refusal {
            print_line(&format!("puts are refused: {refusal}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
