//! The sizes of a comparison, and the bounds of a single load.

use std::time::Duration;

use crate::args::CompareArgs;
use crate::process;

/// The memory limit of the servers that have a limit, in bytes.
pub(crate) const MEMORY_LIMIT: u64 = 1 << 30;

/// The limit for the records of jobs, in bytes, on a server that measures cold jobs. It is small, so
/// that nearly all jobs of a deep queue are cold.
pub(crate) const COLD_RECORDS_BYTES: u64 = 32 << 20;
/// The limit for the body of a put, on servers of beanstalkd's protocol.
pub(crate) const JOB_BYTES_MAX: u32 = 2 << 20;

/// The limit for the bodies of jobs on the same server.
pub(crate) const COLD_BODIES_BYTES: u64 = 32 << 20;

/// The number of turns of each server when servers are loaded in turn. Each turn takes the usual
/// time divided by this number.
pub(crate) const TURNS: u32 = 5;

/// The time limit of a run that ends by a count.
const COUNTED_RUN_MAX: Duration = Duration::from_mins(30);

/// The sizes of a run.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    pub(crate) duration: Duration,
    pub(crate) warm_up: Duration,
    pub(crate) trip: Duration,
    /// The limit of jobs that are put for a take measurement. The filling also has a time limit.
    pub(crate) fill_jobs: u64,
    /// The length of the queue when Gearman's workers begin to take jobs.
    pub(crate) backlog_jobs: u64,
    pub(crate) memory_jobs: u64,
    /// The number of keys whose limit is reached, and the number of jobs with these keys.
    pub(crate) blocked_keys: u64,
    pub(crate) blocked_jobs: u64,
    /// The number of jobs and queues of a server that gets heavy requests.
    pub(crate) heavy_jobs: u64,
    pub(crate) heavy_queues: u64,
    /// The number of jobs that become ready at one moment.
    pub(crate) burst_jobs: u64,
    pub(crate) restart_jobs: u64,
    pub(crate) large_restart_jobs: u64,
    /// The number of jobs in a deep queue.
    pub(crate) deep_jobs: u64,
    /// The largest number of jobs among which the cost of an operation is measured.
    pub(crate) cost_jobs: u64,
    /// The bytes of all bodies that are put for a take measurement with a size of its own.
    pub(crate) fill_bytes: u64,
    /// The number of jobs that stay in the log while other jobs come and go.
    pub(crate) log_jobs: u64,
    /// The number of jobs that come and go.
    pub(crate) log_traffic: u64,
    pub(crate) idle_connections: usize,
    /// The number of idle connections during the measurement of a quiet client.
    pub(crate) idle_beside: usize,
    /// The number of timers of each kind in a lateness measurement.
    pub(crate) timers: usize,
}

impl Sizes {
    /// The sizes of a full run.
    pub(crate) fn full(duration: Duration) -> Self {
        let files = process::raise_file_limit() as usize;
        Self {
            duration,
            warm_up: duration.mul_f64(0.3),
            trip: duration.mul_f64(2.0),
            fill_jobs: 3_000_000,
            backlog_jobs: 400_000,
            memory_jobs: 1_000_000,
            blocked_keys: 100_000,
            blocked_jobs: 1_000_000,
            heavy_jobs: 1_000_000,
            heavy_queues: 100_000,
            burst_jobs: 1_000_000,
            restart_jobs: 1_000_000,
            large_restart_jobs: 10_000_000,
            deep_jobs: 10_000_000,
            cost_jobs: 1_000_000,
            fill_bytes: 2 << 30,
            log_jobs: 2_000_000,
            log_traffic: 5_000_000,
            // A server needs some files of its own.
            idle_connections: 10_000.min(files.saturating_sub(500)),
            idle_beside: 19_000.min(files.saturating_sub(500)),
            timers: 300,
        }
    }

    /// The span of a throughput measurement.
    pub(crate) fn span(&self) -> Span {
        Span { warm_up: self.warm_up, duration: self.duration, count: None }
    }

    /// The sizes of a full or a quick run.
    pub(crate) fn new(args: &CompareArgs) -> anyhow::Result<Self> {
        let duration = crate::modes::seconds(args.seconds)?;
        let full = Self::full(duration);
        let mut sizes = if args.quick { Self::quick(&full) } else { full };
        sizes.deep_jobs = args.deep_jobs.unwrap_or(sizes.deep_jobs);
        sizes.cost_jobs = args.cost_jobs.unwrap_or(sizes.cost_jobs);
        Ok(sizes)
    }

    fn quick(full: &Self) -> Self {
        let duration = full.duration;
        Self {
            duration: duration.mul_f64(0.3),
            warm_up: duration.mul_f64(0.1),
            trip: duration.mul_f64(0.5),
            fill_jobs: 500_000,
            backlog_jobs: 100_000,
            memory_jobs: 200_000,
            blocked_keys: 10_000,
            blocked_jobs: 100_000,
            heavy_jobs: 100_000,
            heavy_queues: 20_000,
            burst_jobs: 200_000,
            restart_jobs: 200_000,
            large_restart_jobs: 1_000_000,
            deep_jobs: 2_000_000,
            cost_jobs: 100_000,
            fill_bytes: 256 << 20,
            log_jobs: 500_000,
            log_traffic: 1_500_000,
            idle_connections: 3_000.min(full.idle_connections),
            idle_beside: 3_000.min(full.idle_beside),
            timers: 100,
        }
    }
}

/// The span of a throughput measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The time at the beginning, which is not measured.
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    /// The measurement ends after this number of operations, if that is earlier.
    pub(crate) count: Option<u64>,
}

impl std::ops::Div<u32> for Span {
    type Output = Self;

    fn div(self, parts: u32) -> Self {
        Self { warm_up: self.warm_up / parts, duration: self.duration / parts, ..self }
    }
}

/// The start and the end of the measurement of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) count: Option<u64>,
    pub(crate) duration: Duration,
    pub(crate) least: u64,
    pub(crate) warm_up: Duration,
}

impl Bounds {
    /// The bounds of a load of exactly `count` operations.
    pub(crate) fn exactly(count: u64) -> Self {
        Self { count: Some(count), duration: COUNTED_RUN_MAX, least: 0, warm_up: Duration::ZERO }
    }
}
