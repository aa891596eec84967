//! Heavy requests in Gearman's protocol.

use std::net::SocketAddr;

use super::HeavyLoad;
use crate::compare::lab::wire::{Wire, packet};
use crate::driver::packets::kind;

/// The number of connections that wait for one job, and the number of submits with which each
/// connection joined the job. The second number is the maximum for one connection.
const WATCHERS: (usize, u32) = (8, 1000);
/// The number of functions of one worker: the server's maximum.
const FUNCTIONS: u32 = 10_000;
/// The number of workers with many functions in a list of workers.
const LISTED_WORKERS: usize = 8;
/// The number of jobs that one worker holds.
const HELD_JOBS: usize = 10_000;
/// The number of grabs that are sent before their replies are read.
const HELD_AT_ONCE: usize = 1000;
/// The body of an echo. The reply to it shows that the server has handled all requests before it.
const ECHO: &[u8] = b"that was all";

const CANT_DO: u32 = 2;
const RESET_ABILITIES: u32 = 3;
const WORK_DATA: u32 = 28;

/// Connects, and registers for many functions that have no jobs.
fn register(address: SocketAddr) -> anyhow::Result<Wire> {
    let mut wire = Wire::connect(address)?;
    wire.send(&registrations())?;
    wire.send(&echo())?;
    wire.read_to(ECHO)?;
    Ok(wire)
}

fn registrations() -> Vec<u8> {
    let register = |function| packet(kind::CAN_DO, format!("heavy-function-{function}").as_bytes());
    (0..FUNCTIONS).flat_map(register).collect()
}

fn echo() -> Vec<u8> {
    packet(kind::ECHO_REQ, ECHO)
}

/// Opens workers for requests that list all workers.
pub(crate) fn many_registrations(address: SocketAddr) -> anyhow::Result<HeavyLoad> {
    let mut load = HeavyLoad::default();
    for _ in 0..LISTED_WORKERS {
        load.held.push(register(address)?.into_stream());
    }
    Ok(load)
}

/// Sends requests repeatedly, each time with an echo after them.
fn again(mut wire: Wire, mut requests: Vec<u8>) -> anyhow::Result<HeavyLoad> {
    let disconnects = vec![wire.disconnect()?];
    requests.extend(echo());
    let once = move || {
        wire.send(&requests)?;
        wire.read_to(ECHO)
    };
    Ok(HeavyLoad::of(once, disconnects))
}

/// A load: a worker that holds many jobs unregisters their function, and registers it again.
pub(crate) fn cannot_do(address: SocketAddr) -> anyhow::Result<HeavyLoad> {
    const FUNCTION: &[u8] = b"heavy-held";
    let mut wire = Wire::connect(address)?;
    wire.send(&packet(kind::CAN_DO, FUNCTION))?;
    let pair = [packet(kind::SUBMIT_JOB_BG, b"heavy-held\0\0x"), packet(kind::GRAB_JOB, b"")];
    let mut batch = pair.concat().repeat(HELD_AT_ONCE);
    batch.extend(echo());
    for _ in 0..HELD_JOBS / HELD_AT_ONCE {
        wire.send(&batch)?;
        wire.read_to(ECHO)?;
    }
    let forth_and_back = [packet(CANT_DO, FUNCTION), packet(kind::CAN_DO, FUNCTION)].concat();
    again(wire, forth_and_back.repeat(100))
}

/// A load: a worker removes its many registrations, and registers again.
pub(crate) fn reset_abilities(address: SocketAddr) -> anyhow::Result<HeavyLoad> {
    let wire = register(address)?;
    again(wire, [packet(RESET_ABILITIES, b""), registrations()].concat())
}

/// A load: a worker with many functions looks for a job, finds none, and sleeps.
pub(crate) fn grab_and_sleep(address: SocketAddr) -> anyhow::Result<HeavyLoad> {
    let wire = register(address)?;
    again(wire, [packet(kind::GRAB_JOB, b""), packet(kind::PRE_SLEEP, b"")].concat().repeat(20))
}

/// A load: a worker sends data to many clients that have joined one job.
pub(crate) fn news_to_many(address: SocketAddr) -> anyhow::Result<HeavyLoad> {
    let (connections, joins) = WATCHERS;
    let mut disconnects = Vec::new();
    let submit = packet(kind::SUBMIT_JOB, b"heavy-news\0key\0");
    for _ in 0..connections {
        let mut wire = Wire::connect(address)?;
        disconnects.push(wire.disconnect()?);
        wire.send(&submit.repeat(joins as usize))?;
        // The end of the run closes this connection, which ends the thread.
        std::thread::spawn(move || wire.drain());
    }
    let mut worker = Wire::connect(address)?;
    worker.send(&packet(kind::CAN_DO, b"heavy-news"))?;
    worker.send(&packet(kind::GRAB_JOB, b""))?;
    let handle = worker.read_handle()?;
    let data = packet(WORK_DATA, &[&handle[..], b"\0some data"].concat());
    let mut load = again(worker, data)?;
    load.disconnects.append(&mut disconnects);
    Ok(load)
}
