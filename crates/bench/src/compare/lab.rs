//! The resources of measurements: the programs, the sizes and the folders. Also runs a load on a
//! server.

mod brokers;
mod cluster;
pub(crate) mod fill;
mod port;
pub(crate) mod server;
pub(crate) mod slow_sync;
pub(crate) mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use tempfile::TempDir;

use self::server::{Programs, Server};
use self::slow_sync::{MEMORY_FOLDER, SlowSync};
use super::plan::sizes::{Bounds, Sizes, Span};
use super::plan::work::{Cell, Metric, Sample, Shape};
use crate::driver::Driver;
use crate::load::{self, LoadPlan, LoadReport};
use crate::meter::Meter;
use crate::modes::{put_drivers, take_drivers};
use crate::process;

/// The queue of all measurements that need only one queue.
pub(crate) const QUEUE: &str = "default";

/// Bytes in a body. Some measurements use another number.
pub(crate) const BODY_BYTES: usize = 100;

/// The resources of the measurements.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) programs: Programs,
    pub(crate) sizes: Sizes,
    scratch: TempDir,
    meter: Meter,
    /// Folders whose logs have many jobs. The restarts of all rounds use these folders.
    pub(crate) logs: BTreeMap<Cell, TempDir>,
}

impl Lab {
    /// Creates a folder for the servers' data. Dropping the lab removes the folder.
    pub(crate) fn new(programs: Programs, sizes: Sizes, scratch: &PathBuf) -> anyhow::Result<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("lineshaft-bench-")
            .tempdir_in(scratch)
            .with_context(|| format!("cannot make a folder in {}", scratch.display()))?;
        Ok(Self { programs, sizes, scratch, meter: Meter::new(), logs: BTreeMap::new() })
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Loads a server for the time of `span`.
    pub(crate) fn throughput(
        &self,
        server: &Server,
        drivers: Vec<Box<dyn Driver>>,
        shape: Shape,
        span: Span,
    ) -> anyhow::Result<Sample> {
        // A server that syncs each write needs seconds to answer 500 connections once. So the run
        // continues until there are at least two operations per connection and depth.
        let least = 2 * u64::from(shape.connections) * u64::from(shape.depth);
        let Span { warm_up, duration, count } = span;
        let bounds = Bounds { count, duration, least, warm_up };
        let before = self.foreign_time(server)?;
        let start = Instant::now();
        let watched_before = server.lock_and_processor()?;
        let report = self.load(server, drivers, shape.depth as usize, bounds)?;
        let watched = server.lock_and_processor()?;
        let elapsed = start.elapsed();
        let foreign = self.foreign_time(server)?;
        anyhow::ensure!(
            report.finished > 0,
            "nothing was measured: the queue was empty before the warm-up ended"
        );
        let mut sample = Sample::from([
            (Metric::OperationsPerSecond, report.rate),
            (
                Metric::CpuMicrosPerOperation,
                report.server_cpu_us.expect("the process number was given"),
            ),
            (Metric::GeneratorShare, report.generator_cpu),
            (Metric::P50Micros, report.latency.p50_us),
            (Metric::P99Micros, report.latency.p99_us),
        ]);
        if let (Some(before), Some(after)) = (before, foreign) {
            let share = after.saturating_sub(before).as_secs_f64() / elapsed.as_secs_f64();
            sample.insert(Metric::ForeignShare, share);
        }
        if let (Some(before), Some(after)) = (watched_before, watched) {
            let share = (after.0 - before.0) / (after.1 - before.1);
            sample.insert(Metric::LockShare, share);
        }
        Ok(sample)
    }

    /// The time that the server's processor spent on other programs. `None` if the server has
    /// several processors.
    fn foreign_time(&self, server: &Server) -> anyhow::Result<Option<Duration>> {
        if server.has_both_processors {
            return Ok(None);
        }
        let busy = process::processor_busy(self.programs.server_cpu)?;
        Ok(Some(busy.saturating_sub(process::cpu_time(server.pid())?)))
    }

    /// Runs a load. Fails if the server refuses an operation.
    pub(crate) fn load(
        &self,
        server: &Server,
        drivers: Vec<Box<dyn Driver>>,
        depth: usize,
        bounds: Bounds,
    ) -> anyhow::Result<LoadReport> {
        let report = load::run(LoadPlan {
            address: server.address,
            drivers,
            depth,
            count: bounds.count,
            duration: bounds.duration,
            least: bounds.least,
            warm_up: bounds.warm_up,
            rate: None,
            spin: false,
            server_pid: Some(server.pid()),
            meter: &self.meter,
        })?;
        if let Some(failure) = &report.failure {
            anyhow::bail!(
                "the server refused {} operations, the first with: {failure}",
                report.failed
            );
        }
        Ok(report)
    }

    /// Puts this many jobs into a queue. Returns the time in seconds.
    pub(crate) fn put_jobs(&self, server: &Server, queue: &str, count: u64) -> anyhow::Result<f64> {
        self.exactly(server, put_drivers(queue, 50, BODY_BYTES), count)
    }

    /// Takes and deletes this many jobs of a queue, which must have as many. Returns the time in
    /// seconds.
    pub(crate) fn take_jobs(
        &self,
        server: &Server,
        queue: &str,
        count: u64,
    ) -> anyhow::Result<f64> {
        self.exactly(server, take_drivers(queue, 50), count)
    }

    fn exactly(
        &self,
        server: &Server,
        drivers: Vec<Box<dyn Driver>>,
        count: u64,
    ) -> anyhow::Result<f64> {
        let report = self.load(server, drivers, 32, Bounds::exactly(count))?;
        let finished = report.finished;
        anyhow::ensure!(finished == count, "only {finished} of {count} operations succeeded");
        Ok(report.seconds)
    }

    /// Creates a folder in memory, for the data of a server with slow syncs.
    pub(crate) fn memory_folder() -> anyhow::Result<TempDir> {
        let builder = tempfile::Builder::new().prefix("lineshaft-bench-").tempdir_in(MEMORY_FOLDER);
        builder.with_context(|| format!("slow syncs need a folder in {MEMORY_FOLDER}"))
    }

    /// The programs, with this time for each sync.
    pub(crate) fn slow_programs(&self, micros: u32) -> anyhow::Result<Programs> {
        let slow_sync = Some(SlowSync::build(self.scratch.path(), micros)?);
        Ok(Programs { slow_sync, ..self.programs.clone() })
    }

    /// Creates a folder for the data of a server.
    pub(crate) fn folder(&self) -> anyhow::Result<TempDir> {
        Ok(tempfile::tempdir_in(self.scratch.path())?)
    }
}
