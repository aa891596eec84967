//! Heavy requests in beanstalkd's protocol.

use std::net::SocketAddr;
use std::time::Duration;

use super::HeavyLoad;
use crate::compare::lab::wire::Wire;
use crate::compare::plan::heavy::{EXPIRED_AGE, EXPIRED_TUBE};

/// The number of tubes that one `reserve` looks at.
const WATCHED_TUBES: u32 = 5_000;
/// The number of jobs that one request kicks, or that are given back when one connection closes.
const BATCH_JOBS: usize = 1000;
/// The number of jobs that expire together.
const EXPIRED_JOBS: usize = 2000;
/// The pause before a batch of kicks. Without this pause, the disk would write all the time, and
/// the measurement would show only the disk.
const KICK_REST: Duration = Duration::from_millis(10);

pub(crate) fn reserve_over_tubes(address: SocketAddr) -> anyhow::Result<HeavyLoad> {
    let mut wire = Wire::connect(address)?;
    let disconnects = vec![wire.disconnect()?];
    let watch = |tube: u32| format!("watch empty-{tube}\r\n").into_bytes();
    wire.send(&(0..WATCHED_TUBES).flat_map(watch).collect::<Vec<u8>>())?;
    wire.read_lines(WATCHED_TUBES as usize)?;
    wire.send(b"ignore default\r\n")?;
    wire.read_lines(1)?;
    let once = move || {
        wire.send(&b"reserve-with-timeout 0\r\n".repeat(20))?;
        wire.read_lines(20)
    };
    Ok(HeavyLoad::of(once, disconnects))
}

/// Puts jobs, lets them expire, and reserves. The reserves find all expired jobs at the head.
pub(crate) fn reserve_over_expired(address: SocketAddr) -> anyhow::Result<HeavyLoad> {
    // Each reserve removes as many expired jobs as a slice of work allows.
    const RESERVES: usize = 4;
    let mut wire = Wire::connect(address)?;
    let disconnects = vec![wire.disconnect()?];
    let enter = format!("use {EXPIRED_TUBE}\r\nwatch {EXPIRED_TUBE}\r\nignore default\r\n");
    wire.send(enter.as_bytes())?;
    wire.read_lines(3)?;
    let puts = b"put 0 0 60 1\r\nx\r\n".repeat(EXPIRED_JOBS);
    let reserves = b"reserve-with-timeout 0\r\n".repeat(RESERVES);
    let once = move || {
        wire.send(&puts)?;
        wire.read_lines(EXPIRED_JOBS)?;
        std::thread::sleep(EXPIRED_AGE * 2);
        wire.send(&reserves)?;
        wire.read_lines(RESERVES)
    };
    Ok(HeavyLoad::of(once, disconnects))
}

/// A load that puts delayed jobs and kicks them. The ready jobs accumulate.
pub(crate) fn kick(address: SocketAddr) -> anyhow::Result<HeavyLoad> {
    let mut wire = Wire::connect(address)?;
    let disconnects = vec![wire.disconnect()?];
    wire.send(b"use heavy-kick\r\n")?;
    wire.read_lines(1)?;
    let mut requests = b"put 0 1000 60 1\r\nx\r\n".repeat(BATCH_JOBS);
    requests.extend(format!("kick {BATCH_JOBS}\r\n").bytes());
    let once = move || {
        std::thread::sleep(KICK_REST);
        wire.send(&requests)?;
        wire.read_lines(BATCH_JOBS + 1)
    };
    Ok(HeavyLoad::of(once, disconnects))
}

/// A load that reserves jobs and then closes the connection.
pub(crate) fn closes(address: SocketAddr) -> anyhow::Result<HeavyLoad> {
    let mut wire = Wire::connect(address)?;
    wire.send(b"use heavy-close\r\n")?;
    wire.read_lines(1)?;
    wire.send(&b"put 0 0 600 1\r\nx\r\n".repeat(2 * BATCH_JOBS))?;
    wire.read_lines(2 * BATCH_JOBS)?;
    let mut requests = b"watch heavy-close\r\nignore default\r\n".to_vec();
    requests.extend(b"reserve-with-timeout 1\r\n".repeat(BATCH_JOBS));
    let once = move || {
        let mut wire = Wire::connect(address)?;
        wire.send(&requests)?;
        wire.read_lines(2 + 2 * BATCH_JOBS)
    };
    Ok(HeavyLoad::of(once, Vec::new()))
}
