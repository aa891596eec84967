//! `lineshaft set-aside`: makes a job a dead letter.

use std::process::ExitCode;

use anyhow::Result;
use hyper::Method;
use serde_json::{Value, json};

use crate::cli::SetAsideArguments;
use crate::text::{print_line, print_value};

/// Sets a job aside by its id. If the server refuses, the error says why.
pub(crate) fn run(arguments: &SetAsideArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.api)?;
    let id = arguments.id;
    let _: Value = client.change(&Method::POST, &format!("/jobs/{id}/set_aside"))?;
    if arguments.json {
        print_value(&json!({ "id": id, "set_aside": 1 }))?;
    } else {
        print_line(&format!("job {id} is a dead letter"))?;
    }
    Ok(ExitCode::SUCCESS)
}
