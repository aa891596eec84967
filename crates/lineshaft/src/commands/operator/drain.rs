//! `lineshaft drain`: the server refuses new jobs, or accepts them again.

use std::process::ExitCode;

use anyhow::Result;
use hyper::Method;
use serde_json::{Value, json};

use crate::cli::DrainArguments;
use crate::text::{print_line, print_value};

/// Begins or ends the drain.
pub(crate) fn run(arguments: &DrainArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.api)?;
    let method = if arguments.end { Method::DELETE } else { Method::POST };
    let _: Value = client.change(&method, "/server/drain")?;
    if arguments.json {
        print_value(&json!({ "draining": !arguments.end }))?;
    } else if arguments.end {
        print_line(&format!("{} accepts new jobs again", client.target()))?;
    } else {
        let server = client.target();
        print_line(&format!("{server} refuses new jobs; `lineshaft drain --end` ends this"))?;
    }
    Ok(ExitCode::SUCCESS)
}
