//! Measures how much of the server's memory an idle connection needs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;

use crate::driver::packets::{append_reply, append_request, kind};
use crate::meter::Meter;
use crate::{interrupt, process};

/// The default number of functions of an idle Gearman worker.
pub(crate) const FUNCTIONS: usize = 10;
/// The pause before the server's memory is read. In this pause, the server gives back what it needed
/// only while connections were new.
const SETTLE: Duration = Duration::from_secs(3);

/// The only request of each idle connection, and the expected reply.
#[derive(Debug)]
pub(crate) struct Greeting {
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Greeting {
    /// A beanstalkd request that changes nothing, so that only the connection is measured.
    pub(crate) fn beanstalk() -> Self {
        Self { request: b"list-tube-used\r\n".into(), reply: b"USING default\r\n".into() }
    }

    /// The requests of a Gearman worker that registers for functions, finds no job, and sleeps.
    pub(crate) fn gearman_worker(functions: usize) -> Self {
        let (mut request, mut reply) = (Vec::new(), Vec::new());
        for function in 0..functions {
            append_request(kind::CAN_DO, &[function_name(function).as_bytes()], &mut request);
        }
        append_request(kind::GRAB_JOB, &[], &mut request);
        append_reply(kind::NO_JOB, &[], &mut reply);
        append_request(kind::PRE_SLEEP, &[], &mut request);
        // The server sends no reply when a worker falls asleep. The reply to an echo shows that the
        // server has read the requests before it.
        append_request(kind::ECHO_REQ, &[b"asleep"], &mut request);
        append_reply(kind::ECHO_RES, &[b"asleep"], &mut reply);
        Self { request, reply }
    }
}

/// The name of a function of idle workers.
pub(crate) fn function_name(index: usize) -> String {
    format!("bench-idle-{index}")
}

/// The result of an idle run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct IdleReport {
    pub(crate) connections: usize,
    /// The time from the first connection to the reply on the last one. The connections are opened
    /// one after another.
    pub(crate) opened_in_s: f64,
    pub(crate) resident_before: Option<u64>,
    pub(crate) resident_after: Option<u64>,
    pub(crate) bytes_per_connection: Option<f64>,
}

/// Opens connections that send one request each, and reads the server's memory. The returned
/// connections stay open until the caller drops them.
pub(crate) fn run(
    address: SocketAddr,
    greeting: &Greeting,
    connections: usize,
    server_pid: Option<u32>,
    meter: &Meter,
) -> anyhow::Result<(IdleReport, Vec<TcpStream>)> {
    let limit = process::raise_file_limit();
    anyhow::ensure!(
        (connections as u64) + 64 <= limit,
        "{connections} connections exceed the limit of {limit} open files; raise it with ulimit -n"
    );
    // Open one connection before the server's memory is read for the first time, because some
    // servers allocate memory at the first connection.
    let _first = open(address, greeting)?;
    interrupt::sleep(SETTLE)?;
    let resident_before = server_pid.map(process::resident_bytes).transpose()?;
    let mut streams = Vec::with_capacity(connections);
    let began = Instant::now();
    for index in 0..connections {
        if index.is_multiple_of(256) {
            interrupt::check()?;
            meter.show(format!("{index} connections"));
        }
        let stream =
            open(address, greeting).with_context(|| format!("connection {} failed", index + 1))?;
        streams.push(stream);
    }
    let opened_in_s = began.elapsed().as_secs_f64();
    interrupt::sleep(SETTLE)?;
    let resident_after = server_pid.map(process::resident_bytes).transpose()?;
    meter.show(format!("{connections} connections are idle"));
    let bytes_per_connection = resident_before
        .zip(resident_after)
        .map(|(before, after)| after.saturating_sub(before) as f64 / connections as f64);
    let report = IdleReport {
        connections,
        opened_in_s,
        resident_before,
        resident_after,
        bytes_per_connection,
    };
    Ok((report, streams))
}

fn open(address: SocketAddr, greeting: &Greeting) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(&greeting.request)?;
    let mut reply = vec![0; greeting.reply.len()];
    stream.read_exact(&mut reply)?;
    anyhow::ensure!(
        reply == greeting.reply,
        "unexpected reply {:?}",
        String::from_utf8_lossy(&reply)
    );
    Ok(stream)
}
