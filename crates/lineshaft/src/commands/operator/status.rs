//! `lineshaft status`: the server on one screen.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use api::types::{HealthLevel, Server, Status};
use notation::{plain, size};

use crate::cli::StatusArguments;
use crate::text::{count, counted, print_value, seconds};

/// Prints the state of the server.
pub(crate) fn run(arguments: &StatusArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.api)?;
    let server: Server = client.get("/server")?;
    if arguments.json {
        print_value(&server)?;
    } else {
        let shown = summary(&server, &client.target().to_string());
        print!("{}", plain::escaped_bytes(shown.as_bytes()));
    }
    let is_critical = server.health.level == HealthLevel::Critical;
    Ok(if is_critical { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn summary(server: &Server, address: &str) -> String {
    let mut text = format!(
        "Lineshaft {} on {}, at {address}, up {}\n\n",
        server.version,
        server.host,
        seconds(server.uptime_ms / 1000)
    );
    let level = match server.health.level {
        HealthLevel::Ok => "ok",
        HealthLevel::Warning => "warning",
        HealthLevel::Critical => "critical",
    };
    line(&mut text, "health", level);
    for reason in &server.health.reasons {
        line(&mut text, "", &reason.text);
    }
    let status = match server.status {
        Status::Up => None,
        Status::WriteAvoid => Some("clients should write elsewhere (write_avoid)"),
        Status::ReadOnly => Some("clients can only read (read_only)"),
        Status::Quiescent => Some("clients can neither read nor write (quiescent)"),
    };
    if let Some(status) = status {
        line(&mut text, "status", status);
    }
    if server.draining {
        line(&mut text, "draining", "the server refuses new jobs");
    }
    let totals = &server.totals;
    line(
        &mut text,
        "jobs",
        &format!(
            "{} ready, {} leased, {} delayed, {} buried in {}",
            count(totals.ready),
            count(totals.leased),
            count(totals.delayed),
            count(totals.buried),
            counted(totals.queues, "queue")
        ),
    );
    line(
        &mut text,
        "clients",
        &format!(
            "{} of at most {}; {} waiting for a job",
            counted(server.connections.open, "connection"),
            count(server.connections.max),
            count(totals.waiting_sessions)
        ),
    );
    let limit = server.memory.limit_bytes.map_or_else(
        || "without a limit".to_owned(),
        |limit| format!("of {}", size::rounded(limit)),
    );
    line(&mut text, "memory", &format!("{} {limit}", size::rounded(server.memory.used_bytes)));
    for (index, listener) in server.listeners.iter().enumerate() {
        let tls = if listener.tls { " with TLS" } else { "" };
        let name = if index == 0 { "listeners" } else { "" };
        line(&mut text, name, &format!("{} {}{tls}", listener.protocol, listener.address));
    }
    text
}

fn line(text: &mut String, name: &str, value: &str) {
    writeln!(text, "{name:<10} {value}").expect("writing to a string does not fail");
}
