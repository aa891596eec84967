//! Fills a server with requests. Many requests are sent before their replies are read.

use std::net::SocketAddr;

use super::wire::{Wire, packet};
use crate::driver::packets::kind;
use crate::interrupt;

/// The number of requests that are sent before their replies are read.
const AT_ONCE: usize = 2000;

/// Sends requests whose replies have `lines_each` lines each, and reads the replies.
pub(crate) fn lines(
    address: SocketAddr,
    requests: u64,
    lines_each: usize,
    request: impl Fn(u64) -> Vec<u8>,
) -> anyhow::Result<()> {
    let mut wire = Wire::connect(address)?;
    let all: Vec<u64> = (0..requests).collect();
    for some in all.chunks(AT_ONCE) {
        interrupt::check()?;
        let bytes: Vec<u8> = some.iter().flat_map(|at| request(*at)).collect();
        wire.send(&bytes)?;
        wire.read_lines(some.len() * lines_each)?;
    }
    Ok(())
}

/// Sends Gearman packets, and reads the replies.
pub(crate) fn packets(
    address: SocketAddr,
    requests: u64,
    request: impl Fn(u64) -> Vec<u8>,
) -> anyhow::Result<()> {
    let mut wire = Wire::connect(address)?;
    let all: Vec<u64> = (0..requests).collect();
    let last = b"that was all";
    for some in all.chunks(AT_ONCE) {
        interrupt::check()?;
        let mut bytes: Vec<u8> = some.iter().flat_map(|at| request(*at)).collect();
        bytes.extend(packet(kind::ECHO_REQ, last));
        wire.send(&bytes)?;
        wire.read_to(last)?;
    }
    Ok(())
}

/// A packet that submits a background job with a key.
pub(crate) fn submit(function: &str, key: u64, body: &str) -> Vec<u8> {
    packet(kind::SUBMIT_JOB_BG, format!("{function}\0key-{key}\0{body}").as_bytes())
}
