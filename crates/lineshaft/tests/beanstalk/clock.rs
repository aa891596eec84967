//! Changes the wall clock while the server runs. The server's deadlines must stay the same. The
//! original's deadlines move with the clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use testkit::client::Client;
use testkit::process::Server;

use crate::programs;
use crate::wall_clock::Rig;

/// The time of day in seconds at the beginning of a line of the server's messages, such as
/// `2026-01-31T12:34:56.789Z`.
fn logged_second(line: &str) -> Option<i64> {
    let time = line.split_once('T')?.1.get(..8)?;
    let mut numbers = time.split(':').map(str::parse::<i64>);
    let mut next = || numbers.next()?.ok();
    Some((next()? * 60 + next()?) * 60 + next()?)
}

/// Checks that the server's own clock has changed. Otherwise the test would prove nothing.
fn ensure_clock_was_set(server: &mut Server, offset_s: i64) -> Result<()> {
    const DAY_S: i64 = 86_400;
    server.signal(Signal::TERM)?;
    server.wait()?;
    let true_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() as i64 % DAY_S;
    let stderr = server.stderr();
    let logged_s = stderr.lines().last().and_then(logged_second);
    let logged_s = logged_s.with_context(|| format!("no time in {stderr:?}"))?;
    let error_s = (logged_s - true_s - offset_s).rem_euclid(DAY_S);
    ensure!(error_s.min(DAY_S - error_s) < 120, "{offset_s} s were set, {stderr:?} at {true_s} s");
    Ok(())
}

/// Checks that an event took at least this many seconds. One millisecond less is allowed, because
/// the clocks count whole milliseconds. The test needs no upper bound: the requests that wait for
/// the event give up after seconds, and an event that moved with the clock would be wrong by an
/// hour.
fn ensure_took(started: Instant, seconds: u64, what: &str) -> Result<()> {
    let took = started.elapsed();
    let least = Duration::from_millis(seconds * 1_000 - 1);
    ensure!(took >= least, "{what}: after {took:?} instead of {seconds} s");
    Ok(())
}

fn deadlines_stay(offset_s: i64) -> Result<()> {
    let Some(mut rig) = Rig::new_or_skip(&programs::lineshaft_in_memory())? else { return Ok(()) };
    let address = rig.server.address();
    let mut holder = Client::on_tube(address, "leased")?;
    let mut leased = Client::on_tube(address, "leased")?;
    let mut delayed = Client::on_tube(address, "delayed")?;
    let mut empty = Client::on_tube(address, "empty")?;

    let started = Instant::now();
    delayed.put(0, 3, 60, b"delayed")?;
    holder.put(0, 0, 3, b"leased")?;
    holder.reserve(0)?.context("the job just put")?;
    empty.send(b"reserve-with-timeout 3\r\n")?;
    rig.set_clock(offset_s)?;

    delayed.reserve(20)?.context("the delayed job")?;
    ensure_took(started, 3, "a delay")?;
    leased.reserve(20)?.context("the job taken back")?;
    ensure_took(started, 3, "a time to run")?;
    ensure!(empty.read_line()? == "TIMED_OUT", "there is no job");
    ensure_took(started, 3, "a wait")?;
    ensure_clock_was_set(&mut rig.server, offset_s)
}

#[test]
fn an_hour_forward_changes_no_deadline() -> Result<()> {
    deadlines_stay(3_600)
}

#[test]
fn an_hour_back_changes_no_deadline() -> Result<()> {
    deadlines_stay(-3_600)
}

/// Proves that the test really changes the clock: the original's deadlines move with it.
#[test]
fn an_hour_forward_ends_a_delay_of_the_original() -> Result<()> {
    let Some(program) = programs::reference() else { return Ok(()) };
    let Some(rig) = Rig::new_or_skip(&program)? else { return Ok(()) };
    let mut client = Client::on_tube(rig.server.address(), "delayed")?;
    client.put(0, 3_500, 60, b"delayed")?;
    ensure!(client.reserve(0)?.is_none(), "the delay has only begun");
    rig.set_clock(3_600)?;
    let started = Instant::now();
    while client.reserve(0)?.is_none() {
        ensure!(started.elapsed() < Duration::from_secs(20), "the delay does not end");
    }
    Ok(())
}
