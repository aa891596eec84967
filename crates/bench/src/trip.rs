//! Round trips: the time from a put until a waiting consumer has the job. In Gearman, a trip ends
//! when the client has the job's result.
//!
//! The run measures one put at a time on a quiet server. So one thread with blocking sockets is
//! enough. There is no poll between the reply and the reading of the clock.

mod beanstalk;
mod gearman;
mod pair;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::Serialize;

use self::pair::RoundTrip;
use crate::args::Protocol;
use crate::interrupt;
use crate::latency::{Latency, LatencySummary};
use crate::meter::Meter;

/// The plan of a run.
pub(crate) struct TripPlan<'a> {
    /// The servers. Their trips alternate, so that other work on the machine affects all servers
    /// equally.
    pub(crate) addresses: &'a [SocketAddr],
    pub(crate) protocol: Protocol,
    /// The number of pairs of a producer and a consumer at each server. The pairs have trips in
    /// turn. Each pair has a queue of its own.
    pub(crate) pairs: usize,
    /// The trips per second at each server. `None` means one trip after another, without a pause.
    pub(crate) rate: Option<f64>,
    pub(crate) duration: Duration,
    pub(crate) body_bytes: usize,
    pub(crate) meter: &'a Meter,
}

/// The result of a run for one server.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TripReport {
    pub(crate) trips: u64,
    pub(crate) latency: LatencySummary,
    /// The distribution of latencies: quantiles, and microseconds.
    #[serde(skip)]
    pub(crate) curve: Vec<(f64, f64)>,
}

/// The trips to one server.
struct Line {
    pairs: Vec<Box<dyn RoundTrip>>,
    latency: Latency,
    trips: u64,
    /// The end of the last trip to this server.
    idle_since: Instant,
}

/// Runs the plan to its end. Returns a report for each server. The first tenth of the time is
/// warm-up and is not measured.
pub(crate) fn run(plan: &TripPlan<'_>) -> anyhow::Result<Vec<TripReport>> {
    let open = |&address| Line::open(plan, address);
    let mut lines = plan.addresses.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    let lines_count = lines.len();
    // A consumer that begins to wait gets no reply. After this pause, the server has read the
    // consumer's request.
    interrupt::sleep(Duration::from_millis(20))?;
    let start = Instant::now();
    let measured_from = start + plan.duration / 10;
    for nth in 0_usize.. {
        if nth.is_multiple_of(256) {
            interrupt::check()?;
            plan.meter.show(format!("{} trips", lines[0].trips));
        }
        let rate = plan.rate.map(|rate| rate * lines_count as f64);
        let due = rate.map(|rate| start + Duration::from_secs_f64(nth as f64 / rate));
        if let Some(due) = due {
            wait_until(due);
        }
        let now = Instant::now();
        if now >= start + plan.duration {
            break;
        }
        let line = &mut lines[nth % lines_count];
        // If this server's last trip ended after the due time of this trip, the time counts from
        // the due time. Without this rule, a stall of the server would only delay the next puts,
        // and the figures would not show the stall. A delay by another server does not count.
        let began = due.filter(|&due| line.idle_since > due).unwrap_or(now);
        let arrived = line.pairs[nth / lines_count % plan.pairs].trip()?;
        line.idle_since = Instant::now();
        if began >= measured_from {
            line.latency.record((arrived - began).as_nanos() as u64, 1);
            line.trips += 1;
        }
    }
    let report = |line: Line| TripReport {
        trips: line.trips,
        latency: line.latency.summary(),
        curve: line.latency.curve(),
    };
    Ok(lines.into_iter().map(report).collect())
}

impl Line {
    fn open(plan: &TripPlan<'_>, address: SocketAddr) -> anyhow::Result<Self> {
        let pairs = (0..plan.pairs).map(|index| open_pair(plan, address, index));
        let pairs = pairs.collect::<Result<_, _>>()?;
        Ok(Self { pairs, latency: Latency::new(), trips: 0, idle_since: Instant::now() })
    }
}

fn open_pair(
    plan: &TripPlan<'_>,
    address: SocketAddr,
    index: usize,
) -> anyhow::Result<Box<dyn RoundTrip>> {
    match plan.protocol {
        Protocol::Beanstalk => {
            Ok(Box::new(beanstalk::Pair::open(address, index, plan.body_bytes)?))
        }
        Protocol::Gearman => Ok(Box::new(gearman::Pair::open(address, index, plan.body_bytes)?)),
        _ => {
            anyhow::bail!("trip speaks beanstalk or gearman")
        }
    }
}

/// Sleeps for most of the time, and spins for the remaining time. A sleep alone would end about 60
/// µs late.
fn wait_until(instant: Instant) {
    const SPIN: Duration = Duration::from_micros(200);
    let left = instant.saturating_duration_since(Instant::now());
    if let Some(most) = left.checked_sub(SPIN) {
        std::thread::sleep(most);
    }
    while Instant::now() < instant {
        std::hint::spin_loop();
    }
}
