//! `lineshaft sessions`: lists the people who are signed in to the web console, or ends a session.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Result;
use api::types::{Session, Sessions};
use hyper::Method;
use notation::plain;
use serde_json::{Value, json};

use crate::cli::SessionsArguments;
use crate::text::{json_line, print_line, print_value};

/// Prints the sessions, or ends one.
pub(crate) fn run(arguments: &SessionsArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.api)?;
    if let Some(id) = arguments.end {
        let _: Value = client.change(&Method::DELETE, &format!("/sessions/{id}"))?;
        if arguments.json {
            print_value(&json!({ "ended": id }))?;
        } else {
            print_line(&format!("session {id} has ended"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let sessions: Sessions = client.get("/sessions")?;
    let mut output = io::stdout().lock();
    if arguments.json {
        for session in &sessions.items {
            writeln!(output, "{}", json_line(session)?)?;
        }
    } else if sessions.items.is_empty() {
        writeln!(output, "nobody is signed in")?;
    } else {
        writeln!(output, "{:>6}  {:<24} {:<9} {:<24}  FROM", "ID", "NAME", "ROLE", "SIGNED IN")?;
        for Session { id, name, role, address, began_at, .. } in &sessions.items {
            let line = format!("{id:>6}  {name:<24} {:<9} {began_at:<24}  {address}", role.name());
            writeln!(output, "{}", plain::escaped(&line))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
