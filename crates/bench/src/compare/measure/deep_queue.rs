//! Measures a queue with very many jobs: the memory of each further job, and the rates of puts and
//! takes compared with those of a short queue on the same server. At the end, all jobs are taken.
//!
//! A job is in memory until its segment of the log is full. These jobs use more memory than all
//! others. So memory is read when a segment has just begun.

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::beanstalk_client::Client;
use crate::compare::lab::Lab;
use crate::compare::lab::server::Server;
use crate::compare::outcome::result::median;
use crate::compare::plan::sizes::TURNS;
use crate::compare::plan::work::{Metric, Sample};
use crate::{interrupt, process};

const QUEUE: &str = "deep";
/// A queue that is short while the deep queue is drained.
const SHORT_QUEUE: &str = "short";
/// The deep queue is drained in this many parts, with takes from the short queue between them.
const DRAIN_PARTS: u64 = 10;
/// The jobs of one put to fill the queue.
const FILL_JOBS: u64 = 200_000;
/// The jobs of one put to find the beginning of a segment.
const STEP_JOBS: u64 = 10_000;
/// The number of cold jobs must not change for this time. In this time, the server also returns
/// memory to the system.
const STEADY: Duration = Duration::from_secs(3);
/// The time limit for jobs to become cold.
const COLD_MAX: Duration = Duration::from_mins(3);
const LOOK: Duration = Duration::from_millis(200);

/// Measures the rates of a short queue, fills the queue, and measures its memory and its rates.
pub(crate) fn run(lab: &Lab, server: &Server) -> anyhow::Result<Sample> {
    let [short_put, short_take] = rates(lab, server)?;
    let mut queue = Filling { lab, server, jobs: 0, highest: 0 };
    queue.fill(lab.sizes.deep_jobs / 4)?;
    let (first_jobs, first_bytes) = queue.memory_at_segment_start()?;
    queue.fill(lab.sizes.deep_jobs)?;
    let (jobs, bytes) = queue.memory_at_segment_start()?;
    let [deep_put, deep_take] = rates(lab, server)?;
    let mut client = Client::connect(server.address)?;
    let found = client.jobs_in(QUEUE, "ready")?;
    anyhow::ensure!(found == jobs, "{found} of {jobs} jobs were there at the end");
    let drained = queue.drain()?;
    let found = client.jobs_in(QUEUE, "ready")?;
    anyhow::ensure!(found == 0, "{found} jobs were left after the drain");
    Ok(Sample::from([
        (Metric::BytesPerTailJob, (bytes - first_bytes) / (jobs - first_jobs) as f64),
        (Metric::ResidentBytes, queue.highest as f64),
        (Metric::PutRate { deep: false }, short_put),
        (Metric::PutRate { deep: true }, deep_put),
        (Metric::TakeRate { deep: false }, short_take),
        (Metric::TakeRate { deep: true }, deep_take),
        (Metric::DeepPutRatio, deep_put / short_put),
        (Metric::DeepTakeRatio, deep_take / short_take),
        (Metric::DeepDrainRatio, drained),
    ]))
}

/// A queue that is being filled.
struct Filling<'a> {
    lab: &'a Lab,
    server: &'a Server,
    jobs: u64,
    /// The highest resident memory so far.
    highest: u64,
}

impl Filling<'_> {
    /// Puts jobs until the queue has this many.
    fn fill(&mut self, jobs: u64) -> anyhow::Result<()> {
        while self.jobs < jobs {
            self.put(FILL_JOBS.min(jobs - self.jobs))?;
        }
        Ok(())
    }

    fn put(&mut self, count: u64) -> anyhow::Result<u64> {
        self.lab.put_jobs(self.server, QUEUE, count)?;
        self.jobs += count;
        let resident = process::resident_bytes(self.server.pid())?;
        self.highest = self.highest.max(resident);
        Ok(resident)
    }

    /// Takes all jobs, in parts. Returns the median of the ratios of each part's rate to that of the
    /// short queue just before and after.
    fn drain(&mut self) -> anyhow::Result<f64> {
        let mut ratios = Vec::new();
        let mut before = short_take_rate(self.lab, self.server)?;
        for parts in (1..=DRAIN_PARTS).rev() {
            let count = self.jobs / parts;
            let rate = count as f64 / self.lab.take_jobs(self.server, QUEUE, count)?;
            self.jobs -= count;
            self.highest = self.highest.max(process::resident_bytes(self.server.pid())?);
            let after = short_take_rate(self.lab, self.server)?;
            ratios.push(rate / f64::midpoint(before, after));
            before = after;
        }
        ratios.sort_by(f64::total_cmp);
        median(&ratios).context("there is a part")
    }

    /// Puts jobs until the log begins a segment, and waits until no more jobs become cold. Returns
    /// the number of jobs and the resident bytes.
    fn memory_at_segment_start(&mut self) -> anyhow::Result<(u64, f64)> {
        let segments = || self.server.metrics(["lineshaft_log_segments"]);
        let before = segments()?;
        while segments()? <= before {
            self.put(STEP_JOBS)?;
        }
        wait_until_cold(self.server)?;
        let resident = process::resident_bytes(self.server.pid())?;
        Ok((self.jobs, resident as f64))
    }
}

/// The rates of puts and of takes. After each put, as many jobs are taken.
fn rates(lab: &Lab, server: &Server) -> anyhow::Result<[f64; 2]> {
    let count = lab.sizes.backlog_jobs / 4;
    let mut seconds = [0.0; 2];
    for turn in 0..=TURNS {
        let put = lab.put_jobs(server, QUEUE, count)?;
        let take = lab.take_jobs(server, QUEUE, count)?;
        // The first turn warms the server up.
        if turn > 0 {
            seconds[0] += put;
            seconds[1] += take;
        }
    }
    Ok(seconds.map(|seconds| count as f64 * f64::from(TURNS) / seconds))
}

/// Puts jobs into the short queue, takes them, and returns the rate of the takes.
fn short_take_rate(lab: &Lab, server: &Server) -> anyhow::Result<f64> {
    let count = lab.sizes.backlog_jobs / 4;
    lab.put_jobs(server, SHORT_QUEUE, count)?;
    Ok(count as f64 / lab.take_jobs(server, SHORT_QUEUE, count)?)
}

/// Waits until the number of cold jobs does not change any more.
pub(crate) fn wait_until_cold(server: &Server) -> anyhow::Result<()> {
    let cold = || Ok::<_, anyhow::Error>(server.metrics(["lineshaft_cold_jobs"])?[0] as u64);
    let give_up = Instant::now() + COLD_MAX;
    let (mut last, mut since) = (cold()?, Instant::now());
    while since.elapsed() < STEADY {
        interrupt::check()?;
        anyhow::ensure!(Instant::now() < give_up, "jobs become cold all the time");
        std::thread::sleep(LOOK);
        let now = cold()?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(())
}
