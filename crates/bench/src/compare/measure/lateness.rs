//! Measures the lateness of timers. It is the time from the due moment of a delay, a ttr or a
//! reserve timeout until the client sees the effect.
//!
//! All three kinds run at once, on separate connections. Each kind has a thread that mostly sleeps.
//! A delay or a timeout counts from the moment when its request was sent. A ttr counts from the
//! moment when its reply was read. So the lateness includes about one network round trip.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::beanstalk_client::Client;
use crate::compare::lab::Lab;
use crate::compare::lab::server::Server;
use crate::compare::plan::work::{Metric, Sample};
use crate::interrupt;
use crate::latency::Latency;
use crate::load::{self, LoadPlan};
use crate::meter::Meter;
use crate::modes::put_drivers;

const DELAY_S: u32 = 1;
const TTR_S: u32 = 2;
const TIMEOUT_S: u32 = 1;
/// All timers of a kind begin within this time. This time is shorter than `TTR_S`, so all jobs are
/// reserved before the first ttr ends, and no holder gets the job of another holder.
const SPREAD: Duration = Duration::from_millis(1200);
/// A timer that has no effect within this time counts as this late.
const NEVER: Duration = Duration::from_secs(5);
/// The puts per second that make a server busy.
const BUSY_RATE: f64 = 20_000.0;

/// Measures all three kinds of timer.
pub(crate) fn run(lab: &Lab, server: &Server, busy: bool) -> anyhow::Result<Sample> {
    let (address, timers) = (server.address, lab.sizes.timers);
    let (delay, ttr, timeout) = std::thread::scope(|scope| {
        let load = busy.then(|| scope.spawn(move || make_busy(address)));
        let delay = scope.spawn(move || delays(address, timers));
        let ttr = scope.spawn(move || ttrs(address, timers));
        let timeout = scope.spawn(move || timeouts(address, timers));
        let results = (join(delay), join(ttr), join(timeout));
        load.map_or(Ok(()), join)?;
        anyhow::Ok((results.0?, results.1?, results.2?))
    })?;
    let p99 = |latency: &Latency| latency.at(0.99).as_secs_f64() * 1e6;
    Ok(Sample::from([
        (Metric::DelayLateP99Micros, p99(&delay)),
        (Metric::TtrLateP99Micros, p99(&ttr)),
        (Metric::TimeoutLateP99Micros, p99(&timeout)),
    ]))
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, anyhow::Result<T>>) -> anyhow::Result<T> {
    thread.join().map_err(|_| anyhow::anyhow!("a measuring thread panicked"))?
}

fn make_busy(address: SocketAddr) -> anyhow::Result<()> {
    let meter = Meter::hidden();
    let report = load::run(LoadPlan {
        address,
        drivers: put_drivers("bench-busy", 20, 100),
        depth: 8,
        count: None,
        duration: SPREAD + Duration::from_secs(u64::from(TTR_S)) + Duration::from_millis(500),
        least: 0,
        warm_up: Duration::ZERO,
        rate: Some(BUSY_RATE),
        // Spinning would use the processor that the measuring threads need.
        spin: false,
        server_pid: None,
        meter: &meter,
    })?;
    anyhow::ensure!(report.failure.is_none(), "the busy load was refused: {:?}", report.failure);
    Ok(())
}

fn record(latency: &mut Latency, due: Instant) {
    latency.record(Instant::now().saturating_duration_since(due).as_nanos() as u64, 1);
}

/// Records the timers that never took effect.
fn record_missing(latency: &mut Latency, missing: usize) {
    latency.record(NEVER.as_nanos() as u64, missing as u64);
}

/// Puts delayed jobs. A waiting consumer notes when each job arrives.
fn delays(address: SocketAddr, timers: usize) -> anyhow::Result<Latency> {
    let mut consumer = Client::connect(address)?;
    consumer.enter("bench-delay")?;
    let mut producer = Client::connect(address)?;
    producer.enter("bench-delay")?;
    std::thread::scope(|scope| {
        let (sender, due) = mpsc::channel();
        let puts = scope.spawn(move || {
            for index in 0..timers {
                let sent = Instant::now();
                producer.put(DELAY_S, 120, index.to_string().as_bytes())?;
                sender.send(sent + Duration::from_secs(u64::from(DELAY_S)))?;
                std::thread::sleep(SPREAD / timers as u32);
            }
            anyhow::Ok(())
        });
        let latency = collect(&mut consumer, timers, &due);
        join(puts)?;
        latency
    })
}

/// Reserves jobs on many connections that then stay silent. An observer notes when each job is
/// ready again.
fn ttrs(address: SocketAddr, timers: usize) -> anyhow::Result<Latency> {
    let mut observer = Client::connect(address)?;
    observer.enter("bench-ttr")?;
    for index in 0..timers {
        observer.put(0, TTR_S, index.to_string().as_bytes())?;
    }
    let mut holders = Vec::with_capacity(timers);
    for _ in 0..timers {
        let mut holder = Client::connect(address)?;
        holder.enter("bench-ttr")?;
        holders.push(holder);
    }
    let (sender, due) = mpsc::channel();
    for holder in &mut holders {
        holder.send(b"reserve\r\n")?;
        holder.reserved()?.context("a ready job was not given")?;
        sender.send(Instant::now() + Duration::from_secs(u64::from(TTR_S)))?;
        std::thread::sleep(SPREAD / timers as u32);
    }
    // The holders reserved in the order of ids, which is also the order of the numbers in the
    // bodies.
    collect(&mut observer, timers, &due)
}

/// Takes ready jobs until all have arrived, or no more arrive in time. The body of a job is its
/// number. `due` has the due times in the order of these numbers.
fn collect(
    consumer: &mut Client,
    timers: usize,
    due: &mpsc::Receiver<Instant>,
) -> anyhow::Result<Latency> {
    let mut latency = Latency::new();
    let mut known = Vec::with_capacity(timers);
    for came in 0..timers {
        interrupt::check()?;
        consumer.send(format!("reserve-with-timeout {}\r\n", NEVER.as_secs()).as_bytes())?;
        let Some(job) = consumer.reserved()? else {
            record_missing(&mut latency, timers - came);
            break;
        };
        let now = Instant::now();
        let number: usize = std::str::from_utf8(&job.body)?.parse()?;
        while known.len() <= number {
            known.push(due.recv_timeout(NEVER)?);
        }
        latency.record(now.saturating_duration_since(known[number]).as_nanos() as u64, 1);
        consumer.command(&format!("delete {}\r\n", job.id), "DELETED")?;
    }
    Ok(latency)
}

/// Lets reserves on many connections time out.
fn timeouts(address: SocketAddr, timers: usize) -> anyhow::Result<Latency> {
    let mut poll = Poll::new()?;
    let mut waiters = Vec::with_capacity(timers);
    for index in 0..timers {
        let mut client = Client::connect(address)?;
        client.enter("bench-timeout")?;
        let mut stream = client.into_nonblocking()?;
        poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
        waiters.push(Waiter { stream, due: None });
    }
    let request = format!("reserve-with-timeout {TIMEOUT_S}\r\n");
    let timeout = Duration::from_secs(u64::from(TIMEOUT_S));
    let start = Instant::now();
    let end = start + SPREAD + timeout + NEVER;
    let (mut sent, mut came) = (0, 0);
    let mut latency = Latency::new();
    let mut events = Events::with_capacity(256);
    while came < timers && Instant::now() < end {
        interrupt::check()?;
        while sent < timers && Instant::now() >= start + SPREAD / timers as u32 * sent as u32 {
            waiters[sent].due = Some(Instant::now() + timeout);
            waiters[sent].stream.write_all(request.as_bytes())?;
            sent += 1;
        }
        poll.poll(&mut events, Some(Duration::from_millis(if sent < timers { 1 } else { 100 })))?;
        for event in &events {
            let waiter = &mut waiters[event.token().0];
            if waiter.timed_out()? {
                record(&mut latency, waiter.due.take().context("a reply before the request")?);
                came += 1;
            }
        }
    }
    record_missing(&mut latency, timers - came);
    Ok(latency)
}

struct Waiter {
    stream: TcpStream,
    due: Option<Instant>,
}

impl Waiter {
    /// True if the whole reply has arrived. The reply is so short that it arrives in one piece.
    fn timed_out(&mut self) -> anyhow::Result<bool> {
        let mut reply = [0; 64];
        match self.stream.read(&mut reply) {
            Ok(length) => {
                let reply = String::from_utf8_lossy(&reply[..length]);
                anyhow::ensure!(reply == "TIMED_OUT\r\n", "expected TIMED_OUT, got {reply:?}");
                Ok(true)
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
