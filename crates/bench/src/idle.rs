//! Idle connections: how much of the server's memory each of them holds.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use crate::meter::Meter;
use crate::{interrupt, process};

/// A request that leaves nothing behind, so that only the connection is measured; and its reply.
const REQUEST: &[u8] = b"list-tube-used\r\n";
const REPLY: &[u8] = b"USING default\r\n";
/// How long the server gets to settle before its memory is read.
const SETTLE: Duration = Duration::from_millis(500);

/// Result of an idle run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct IdleReport {
    pub(crate) connections: usize,
    pub(crate) resident_before: Option<u64>,
    pub(crate) resident_after: Option<u64>,
    pub(crate) bytes_per_connection: Option<f64>,
}

/// Opens connections that each send one request, reads the server's memory, and holds them for `hold`.
pub(crate) fn run(
    address: SocketAddr,
    connections: usize,
    server_pid: Option<u32>,
    hold: Duration,
    meter: &Meter,
) -> anyhow::Result<IdleReport> {
    let limit = process::raise_file_limit();
    anyhow::ensure!(
        (connections as u64) + 64 <= limit,
        "{connections} connections do not fit the limit of {limit} open files; raise it with ulimit -n"
    );
    // The first connection pays for what a server sets up once.
    let _first = open(address)?;
    interrupt::sleep(SETTLE)?;
    let resident_before = server_pid.map(process::resident_bytes).transpose()?;
    let mut streams = Vec::with_capacity(connections);
    for index in 0..connections {
        if index.is_multiple_of(256) {
            interrupt::check()?;
            meter.show(format!("{index} connections"));
        }
        streams.push(open(address).with_context(|| format!("connection {} failed", index + 1))?);
    }
    interrupt::sleep(SETTLE)?;
    let resident_after = server_pid.map(process::resident_bytes).transpose()?;
    meter.show(format!("{connections} connections are idle"));
    interrupt::sleep(hold)?;
    let bytes_per_connection = resident_before
        .zip(resident_after)
        .map(|(before, after)| after.saturating_sub(before) as f64 / connections as f64);
    Ok(IdleReport { connections, resident_before, resident_after, bytes_per_connection })
}

fn open(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(REQUEST)?;
    let mut reply = [0; REPLY.len()];
    stream.read_exact(&mut reply)?;
    anyhow::ensure!(reply == REPLY, "unexpected reply {:?}", String::from_utf8_lossy(&reply));
    Ok(stream)
}
