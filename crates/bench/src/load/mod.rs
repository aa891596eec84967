//! The loop that makes a load, with one thread, one poll and any number of connections.
//!
//! In a closed loop, every connection keeps `depth` operations in flight. Latency counts from the
//! write that sent an operation. In an open loop, `schedule` says when operations are due. Latency
//! counts from the due time. Invariant: each readiness event costs one read, one clock reading and
//! one write at any depth. This is so cheap that the generator never limits a server that has its
//! own processor.

mod connection;
mod report;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use mio::{Events, Interest, Poll, Token};

pub(crate) use report::{LoadReport, Measurement, TIMELINE_STEP};

use self::connection::Connection;
use crate::driver::Driver;
use crate::interrupt;
use crate::latency::show_micros;
use crate::meter::Meter;
use crate::schedule::Schedule;
use crate::table::show_count;

/// Maximum of bytes in one read.
const SCRATCH_BYTES: usize = 256 * 1024;
/// The longest time between two updates of the progress line, and between two checks for an
/// interrupt.
const BEAT: Duration = Duration::from_millis(200);
/// The time limit for operations in flight at the end of a run.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// If the server is slow, a run can last longer than planned by at most this time.
const EXTENSION_MAX: Duration = Duration::from_secs(10);

/// The plan of a load.
pub(crate) struct LoadPlan<'a> {
    pub(crate) address: SocketAddr,
    /// One driver for each connection.
    pub(crate) drivers: Vec<Box<dyn Driver>>,
    /// The number of operations in flight on each connection.
    pub(crate) depth: usize,
    /// The number of measured operations. The run ends at this number, or at its duration if that
    /// is earlier.
    pub(crate) count: Option<u64>,
    pub(crate) duration: Duration,
    /// The minimum of ended operations. A run continues after its duration until this number is
    /// reached, but at most for `EXTENSION_MAX`.
    pub(crate) least: u64,
    pub(crate) warm_up: Duration,
    /// The operations per second of an open loop. `None` means a closed loop.
    pub(crate) rate: Option<f64>,
    /// True if an open loop may spin on its processor. Without spinning, operations begin up to a
    /// millisecond late.
    pub(crate) spin: bool,
    /// The process of the server. Its processor time is measured.
    pub(crate) server_pid: Option<u32>,
    pub(crate) meter: &'a Meter,
}

/// Runs a plan to its end.
pub(crate) fn run(plan: LoadPlan<'_>) -> anyhow::Result<LoadReport> {
    LoadLoop::open(plan)?.run()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measure,
    Drain,
}

struct LoadLoop<'a> {
    poll: Poll,
    connections: Vec<Connection>,
    schedule: Option<Schedule>,
    spin: bool,
    /// The number of operations that were passed to connections, according to the schedule.
    dealt: u64,
    depth: usize,
    /// The number of operations that may still begin.
    allowance: u64,
    count: Option<u64>,
    duration: Duration,
    least: u64,
    warm_up: Duration,
    phase: Phase,
    began: Instant,
    /// The latest end of the current phase.
    phase_end: Instant,
    next_beat: Instant,
    ran_empty: bool,
    measurement: Measurement,
    meter: &'a Meter,
    scratch: Vec<u8>,
}

impl<'a> LoadLoop<'a> {
    fn open(plan: LoadPlan<'a>) -> anyhow::Result<Self> {
        anyhow::ensure!(
            !plan.drivers.is_empty() && plan.depth > 0,
            "a load needs a connection and a depth"
        );
        let schedule = plan.rate.map(|rate| Schedule::new(rate, plan.drivers.len()));
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(plan.drivers.len());
        for (index, driver) in plan.drivers.into_iter().enumerate() {
            interrupt::check()?;
            let mut connection = Connection::open(plan.address, driver).with_context(|| {
                format!("cannot open connection {} to {}", index + 1, plan.address)
            })?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(connection.stream(), Token(index), interest)?;
            connections.push(connection);
        }
        let now = Instant::now();
        Ok(Self {
            poll,
            connections,
            schedule,
            spin: plan.spin,
            dealt: 0,
            depth: plan.depth,
            allowance: u64::MAX,
            count: plan.count,
            duration: plan.duration,
            least: plan.least,
            warm_up: plan.warm_up,
            phase: Phase::WarmUp,
            began: now,
            phase_end: now + plan.warm_up,
            next_beat: now + BEAT,
            ran_empty: false,
            measurement: Measurement::new(plan.server_pid)?,
            meter: plan.meter,
            scratch: vec![0; SCRATCH_BYTES],
        })
    }

    fn run(mut self) -> anyhow::Result<LoadReport> {
        let mut events = Events::with_capacity(1024);
        self.began = Instant::now();
        self.phase_end = self.began + self.warm_up;
        if self.warm_up.is_zero() {
            self.start_measuring(self.began)?;
        }
        if self.schedule.is_none() {
            for index in 0..self.connections.len() {
                self.top_up(index, Instant::now())?;
            }
        }
        loop {
            let now = Instant::now();
            if self.advance(now)? {
                return Ok(self.measurement.report());
            }
            self.deal(now)?;
            self.poll.poll(&mut events, Some(self.wait(now))).or_else(|error| {
                if error.kind() == std::io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
            })?;
            for event in &events {
                self.serve(event.token().0, event.is_writable())?;
            }
        }
    }

    /// Begins the next phase if the current one has ended. Returns true at the end of the run.
    fn advance(&mut self, now: Instant) -> anyhow::Result<bool> {
        if now >= self.next_beat {
            interrupt::check()?;
            self.next_beat = now + BEAT;
            self.show(now);
        }
        match self.phase {
            Phase::WarmUp if now >= self.phase_end => self.start_measuring(now)?,
            Phase::Measure => {
                let ended = self.measurement.ended();
                let counted = self.count.is_some_and(|count| ended >= count);
                let timed = now >= self.phase_end
                    && (ended >= self.least || now >= self.phase_end + EXTENSION_MAX);
                if counted || timed || self.ran_empty {
                    self.measurement.finish(now)?;
                    self.allowance = 0;
                    self.phase = Phase::Drain;
                    self.phase_end = now + DRAIN_MAX;
                }
            }
            Phase::WarmUp | Phase::Drain => {}
        }
        // Requests that complete jobs have no reply, and are not counted as in flight. So a
        // connection with unsent requests is not idle.
        let is_idle =
            |connection: &Connection| connection.in_flight() == 0 && !connection.has_output();
        let idle = || self.connections.iter().all(is_idle);
        Ok(self.phase == Phase::Drain && (now >= self.phase_end || idle()))
    }

    fn start_measuring(&mut self, now: Instant) -> anyhow::Result<()> {
        if let Some(count) = self.count {
            let in_flight: usize = self.connections.iter().map(Connection::in_flight).sum();
            self.allowance = count.saturating_sub(in_flight as u64);
        }
        self.phase = Phase::Measure;
        self.phase_end = now + self.duration;
        self.measurement.start(now)
    }

    /// Open loop: assigns due operations to their connections.
    fn deal(&mut self, now: Instant) -> anyhow::Result<()> {
        let Some(schedule) = self.schedule else { return Ok(()) };
        let due = schedule.due_total((now - self.began).as_nanos() as u64);
        let touched = (due - self.dealt).min(self.connections.len() as u64);
        let first = self.dealt;
        self.dealt = due;
        for index in first..first + touched {
            self.top_up((index % self.connections.len() as u64) as usize, now)?;
        }
        Ok(())
    }

    /// How long the next poll may wait for events.
    fn wait(&self, now: Instant) -> Duration {
        let until = |instant: Instant| instant.saturating_duration_since(now);
        let mut wait = until(self.next_beat);
        if now < self.phase_end {
            wait = wait.min(until(self.phase_end));
        }
        if self.phase == Phase::Drain {
            // Check often whether the phase is over, because the number of operations in flight can
            // become 0 without an event.
            wait = wait.min(Duration::from_millis(1));
        } else if let Some(schedule) = self.schedule {
            let due = self.began + Duration::from_nanos(schedule.due_ns_of(self.dealt));
            // The poll rounds its timeout up to whole milliseconds, so shorter waits spin.
            let near = until(due);
            wait = wait.min(if self.spin && near < Duration::from_millis(1) {
                Duration::ZERO
            } else {
                near
            });
        }
        wait
    }

    /// Reads the bytes that arrived on a connection, begins further operations, and sends.
    fn serve(&mut self, index: usize, writable: bool) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        let progress = connection.read(&mut self.scratch)?;
        let now = Instant::now();
        let ended = progress.ended();
        if ended > 0 {
            let measuring = self.phase == Phase::Measure;
            let latency = measuring.then_some(&mut self.measurement.latency);
            match self.schedule {
                Some(schedule) => {
                    connection.end_scheduled(ended, index, schedule, self.began, now, latency);
                }
                None => connection.end_closed(ended, now, latency),
            }
            self.ran_empty |= progress.missed > 0;
            if measuring {
                self.measurement.add(&progress, now);
            } else if let Some(failure) = progress.failure {
                self.measurement.note_failure(failure);
            }
        }
        if ended > 0 || writable || connection.has_output() {
            self.top_up(index, now)?;
        }
        Ok(())
    }

    /// Begins as many operations as the depth, the schedule and the allowance permit. Then sends.
    fn top_up(&mut self, index: usize, now: Instant) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        let mut room = self.depth.saturating_sub(connection.in_flight()) as u64;
        if let Some(schedule) = self.schedule {
            room = room.min(schedule.share(self.dealt, index) - connection.begun());
        }
        if room > 0 && self.allowance > 0 && !self.ran_empty {
            let begun = connection.begin(room.min(self.allowance) as usize, now);
            if self.allowance != u64::MAX {
                self.allowance -= begun as u64;
            }
        }
        connection.flush()
    }

    fn show(&self, now: Instant) {
        let seconds = (now - self.began).as_secs_f64();
        let text = match self.phase {
            Phase::WarmUp => "warming up".to_owned(),
            Phase::Drain => "waiting for the last replies".to_owned(),
            Phase::Measure => format!(
                "{}/s  p50 {}  p99 {}  {} done",
                show_count(self.measurement.rate(now)),
                show_micros(self.measurement.latency.at(0.5).as_secs_f64() * 1e6),
                show_micros(self.measurement.latency.at(0.99).as_secs_f64() * 1e6),
                show_count(self.measurement.ended() as f64),
            ),
        };
        self.meter
            .show(format!("{text}  ({seconds:.0} s, {} connections)", self.connections.len()));
    }
}

#[cfg(test)]
mod tests;
