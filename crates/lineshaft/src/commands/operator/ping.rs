//! `lineshaft ping`: checks that the server answers, and how fast.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::cli::PingArguments;
use crate::text::{print_line, print_value};

/// Prints the round-trip time.
pub(crate) fn run(arguments: &PingArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.api)?;
    let time = client.round_trip()?;
    let ms = time.as_secs_f64() * 1e3;
    if arguments.json {
        print_value(&json!({ "address": client.target().to_string(), "round_trip_ms": ms }))?;
    } else {
        print_line(&format!("{} answers in {ms:.2} ms", client.target()))?;
    }
    Ok(ExitCode::SUCCESS)
}
