//! The measured values of a load.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::driver::Progress;
use crate::latency::{Latency, LatencySummary};
use crate::process;

/// The result of a load.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LoadReport {
    /// Operations that succeeded in the measured time.
    pub(crate) finished: u64,
    /// Operations that found the queue empty.
    pub(crate) missed: u64,
    /// Operations that the server refused.
    pub(crate) failed: u64,
    /// The server's reply to the first refused operation, even outside the measured time.
    pub(crate) failure: Option<String>,
    pub(crate) seconds: f64,
    /// Successful operations per second.
    pub(crate) rate: f64,
    pub(crate) latency: LatencySummary,
    /// Processor time of the server for each successful operation, in microseconds.
    pub(crate) server_cpu_us: Option<f64>,
    /// The part of one processor that the generator used. If it is near 1, the generator limited
    /// the rate.
    pub(crate) generator_cpu: f64,
    /// Successful operations in each `TIMELINE_STEP` of the measured time.
    #[serde(skip)]
    pub(crate) timeline: Vec<u32>,
    /// The distribution of latencies: quantiles, and microseconds.
    #[serde(skip)]
    pub(crate) curve: Vec<(f64, f64)>,
}

/// The time of one number in a timeline.
pub(crate) const TIMELINE_STEP: Duration = Duration::from_millis(10);

/// The counters during the measured time.
pub(crate) struct Measurement {
    pub(super) latency: Latency,
    server_pid: Option<u32>,
    finished: u64,
    missed: u64,
    failed: u64,
    failure: Option<String>,
    timeline: Vec<u32>,
    started: Instant,
    server_cpu: Duration,
    generator_cpu: Duration,
    elapsed: Duration,
}

impl Measurement {
    pub(super) fn new(server_pid: Option<u32>) -> anyhow::Result<Self> {
        let mut measurement = Self {
            latency: Latency::new(),
            server_pid,
            finished: 0,
            missed: 0,
            failed: 0,
            failure: None,
            timeline: Vec::new(),
            started: Instant::now(),
            server_cpu: Duration::ZERO,
            generator_cpu: Duration::ZERO,
            elapsed: Duration::ZERO,
        };
        // Read the numbers once now, so that an unreadable process is an error before the load
        // begins.
        measurement.server_cpu = measurement.read_server_cpu()?;
        Ok(measurement)
    }

    fn read_server_cpu(&self) -> anyhow::Result<Duration> {
        self.server_pid.map_or(Ok(Duration::ZERO), process::cpu_time)
    }

    pub(super) fn start(&mut self, now: Instant) -> anyhow::Result<()> {
        self.started = now;
        self.server_cpu = self.read_server_cpu()?;
        self.generator_cpu = process::own_cpu_time();
        Ok(())
    }

    pub(super) fn add(&mut self, progress: &Progress, now: Instant) {
        let step = ((now - self.started).as_nanos() / TIMELINE_STEP.as_nanos()) as usize;
        if step >= self.timeline.len() {
            self.timeline.resize(step + 1, 0);
        }
        self.timeline[step] += progress.finished;
        self.finished += u64::from(progress.finished);
        self.missed += u64::from(progress.missed);
        self.failed += u64::from(progress.failed);
        if let Some(failure) = &progress.failure {
            self.note_failure(failure.clone());
        }
    }

    pub(super) fn note_failure(&mut self, failure: String) {
        self.failure.get_or_insert(failure);
    }

    pub(super) fn ended(&self) -> u64 {
        self.finished + self.missed + self.failed
    }

    pub(super) fn rate(&self, now: Instant) -> f64 {
        self.finished as f64 / (now - self.started).as_secs_f64().max(1e-9)
    }

    pub(super) fn finish(&mut self, now: Instant) -> anyhow::Result<()> {
        self.elapsed = now - self.started;
        self.server_cpu = self.read_server_cpu()?.saturating_sub(self.server_cpu);
        self.generator_cpu = process::own_cpu_time().saturating_sub(self.generator_cpu);
        Ok(())
    }

    pub(super) fn report(self) -> LoadReport {
        let seconds = self.elapsed.as_secs_f64();
        let per_operation =
            |time: Duration| time.as_secs_f64() * 1e6 / (self.finished.max(1)) as f64;
        LoadReport {
            finished: self.finished,
            missed: self.missed,
            failed: self.failed,
            failure: self.failure,
            seconds,
            rate: if seconds > 0.0 { self.finished as f64 / seconds } else { 0.0 },
            latency: self.latency.summary(),
            curve: self.latency.curve(),
            timeline: self.timeline,
            server_cpu_us: self.server_pid.map(|_| per_operation(self.server_cpu)),
            generator_cpu: self.generator_cpu.as_secs_f64() / seconds.max(1e-9),
        }
    }
}
