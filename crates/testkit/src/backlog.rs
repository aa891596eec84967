//! Servers with more jobs than memory: their settings, and the wait until jobs are cold.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::{Program, Server};
use crate::wait;

const COLD_WAIT: Duration = Duration::from_secs(30);

/// The same `lineshaft serve` with limits of memory so low that a few thousand jobs exceed them.
#[must_use]
pub fn with_little_memory(program: Program) -> Program {
    program
        .with_environment("LINESHAFT_DATA_SEGMENT_SIZE", "256KiB")
        .with_environment("LINESHAFT_MEMORY_JOBS", "64KiB")
        .with_environment("LINESHAFT_MEMORY_BODIES", "64KiB")
}

/// Waits until the server has more than `least` cold jobs. The server must have an HTTP listener.
pub fn wait_until_cold(server: &Server, least: usize) -> Result<()> {
    let found = wait::for_some(COLD_WAIT, || cold_jobs(server).filter(|cold| *cold > least));
    found.with_context(|| format!("{:?} jobs are cold, not {least}", cold_jobs(server)))?;
    Ok(())
}

/// The number of cold jobs, from the server's metrics.
fn cold_jobs(server: &Server) -> Option<usize> {
    let mut stream = TcpStream::connect(server.address_of("http")).ok()?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .ok()?;
    let mut page = String::new();
    stream.read_to_string(&mut page).ok()?;
    page.lines().find_map(|line| line.strip_prefix("lineshaft_cold_jobs "))?.parse().ok()
}
