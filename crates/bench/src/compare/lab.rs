//! Carries out single measurements: starts the server of a cell, loads it, reads the figures, ends it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use tempfile::TempDir;

use super::server::{Programs, Server};
use super::work::{Cell, Metric, Peer, Sample, Shape, Work};
use super::{bare_sync, gearman, lateness, memory, restart};
use crate::args::{CompareArgs, Protocol};
use crate::driver::{Beanstalk, Driver};
use crate::load::{self, LoadPlan, LoadReport};
use crate::meter::Meter;
use crate::modes::{drivers, queue_put_drivers, queue_take_drivers};
use crate::process;
use crate::trip::{self, TripPlan};

/// Bytes in a body, unless a measurement says otherwise.
pub(super) const BODY_BYTES: usize = 100;
/// Queue of all measurements that need but one.
const QUEUE: &str = "default";
/// Upper bound of a run that ends by a count.
const COUNTED_RUN_MAX: Duration = Duration::from_mins(5);

/// How much of everything.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    pub(super) duration: Duration,
    pub(super) warm_up: Duration,
    pub(super) trip: Duration,
    /// Most jobs that are put for a take measurement; filling ends earlier when it takes long.
    pub(super) fill_jobs: u64,
    /// Jobs that are queued before Gearman's workers begin to take.
    pub(super) backlog_jobs: u64,
    pub(super) memory_jobs: u64,
    pub(super) restart_jobs: u64,
    pub(super) idle_connections: usize,
    /// Timers of each kind in a lateness measurement.
    pub(super) timers: usize,
}

impl Sizes {
    /// Sizes of a full run.
    pub(super) fn full(duration: Duration) -> Self {
        let files = process::raise_file_limit() as usize;
        Self {
            duration,
            warm_up: duration.mul_f64(0.3),
            trip: duration.mul_f64(2.0),
            fill_jobs: 3_000_000,
            backlog_jobs: 400_000,
            memory_jobs: 1_000_000,
            restart_jobs: 1_000_000,
            // A server needs some files for itself.
            idle_connections: 10_000.min(files.saturating_sub(500)),
            timers: 300,
        }
    }

    /// Sizes for a full or a quick run.
    pub(super) fn new(args: &CompareArgs) -> anyhow::Result<Self> {
        let duration = crate::modes::seconds(args.seconds)?;
        let full = Self::full(duration);
        if !args.quick {
            return Ok(full);
        }
        Ok(Self {
            duration: duration.mul_f64(0.3),
            warm_up: duration.mul_f64(0.1),
            trip: duration.mul_f64(0.5),
            fill_jobs: 500_000,
            backlog_jobs: 100_000,
            memory_jobs: 200_000,
            restart_jobs: 200_000,
            idle_connections: 3_000.min(full.idle_connections),
            timers: 100,
        })
    }
}

/// Everything a measurement needs.
#[derive(Debug)]
pub(super) struct Lab {
    pub(super) programs: Programs,
    pub(super) sizes: Sizes,
    scratch: TempDir,
    meter: Meter,
    /// Folders with full logs, for the restarts of all rounds.
    logs: BTreeMap<Peer, TempDir>,
}

impl Lab {
    /// Prepares a folder for the servers' data; it goes when the lab is dropped.
    pub(super) fn new(programs: Programs, sizes: Sizes, scratch: &PathBuf) -> anyhow::Result<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("lineshaft-bench-")
            .tempdir_in(scratch)
            .with_context(|| format!("cannot make a folder in {}", scratch.display()))?;
        Ok(Self { programs, sizes, scratch, meter: Meter::new(), logs: BTreeMap::new() })
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Measures the cells of one work once; a sample for each.
    pub(super) fn measure(&mut self, cells: &[Cell]) -> Vec<anyhow::Result<Sample>> {
        if !matches!(cells[0].work, Work::Trip | Work::Foreground) {
            return cells.iter().map(|&cell| self.measure_alone(cell)).collect();
        }
        match self.measure_trips(cells) {
            Ok(samples) => samples.into_iter().map(Ok).collect(),
            Err(error) => cells.iter().map(|_| Err(anyhow::anyhow!("{error:#}"))).collect(),
        }
    }

    fn measure_alone(&mut self, cell: Cell) -> anyhow::Result<Sample> {
        match cell.work {
            Work::BareSync => {
                let folder = self.folder()?;
                process::pin(self.programs.server_cpu)?;
                let sample = bare_sync::run(folder.path(), BODY_BYTES, self.sizes.duration);
                process::pin(self.programs.generator_cpu)?;
                return sample;
            }
            Work::Restart => return self.restart(cell.peer),
            _ => {}
        }
        let folder = self.folder()?;
        let mut server = Server::start(&self.programs, cell.peer, folder.path())?;
        let sample = self.measure_on(cell, &server);
        // A server that died says why; that helps more than what its client saw.
        server.check_alive()?;
        sample
    }

    fn measure_on(&self, cell: Cell, server: &Server) -> anyhow::Result<Sample> {
        match cell.work {
            Work::Put(shape) => self.put(cell.peer, shape, server),
            Work::Take(shape) => self.take(cell.peer, shape, server),
            Work::PutWithUse(shape, queues) => self.put_with_use(shape, queues, server),
            Work::TakeAmong(shape, queues) => {
                self.make_queues(queues, server)?;
                self.take(cell.peer, shape, server)
            }
            Work::Submit(shape) => gearman::submit(self, shape, server),
            Work::Grab(shape) => gearman::grab(self, shape, server),
            Work::Lateness { busy } => lateness::run(self, server, busy),
            Work::JobMemory => memory::jobs(self, server),
            Work::IdleConnections => memory::idle_connections(self, server),
            Work::IdleWorkers(functions) => memory::idle_workers(self, functions, server),
            Work::Trip | Work::Foreground | Work::Restart | Work::BareSync => {
                unreachable!("measured in a way of its own")
            }
        }
    }

    fn put(&self, peer: Peer, shape: Shape, server: &Server) -> anyhow::Result<Sample> {
        let connections = shape.connections as usize;
        let drivers = queue_put_drivers(protocol_of(peer), QUEUE, connections, BODY_BYTES);
        self.throughput(server, drivers, shape, self.sizes.warm_up)
    }

    fn take(&self, peer: Peer, shape: Shape, server: &Server) -> anyhow::Result<Sample> {
        let protocol = protocol_of(peer);
        let puts = queue_put_drivers(protocol, QUEUE, 50, BODY_BYTES);
        let takes = queue_take_drivers(protocol, QUEUE, shape.connections as usize);
        // Twice the time that the taking will last: putting is never slower than taking.
        let whole = self.sizes.duration + self.sizes.warm_up;
        let bounds = Bounds { duration: whole * 2, ..Bounds::exactly(self.sizes.fill_jobs) };
        self.load(server, puts, 32, bounds)?;
        self.throughput(server, takes, shape, self.sizes.warm_up)
    }

    fn put_with_use(&self, shape: Shape, queues: u32, server: &Server) -> anyhow::Result<Sample> {
        self.make_queues(queues, server)?;
        let script = Beanstalk::puts_with_use(BODY_BYTES, queues as usize);
        self.throughput(
            server,
            drivers(shape.connections as usize, script, Beanstalk::script),
            shape,
            self.sizes.warm_up,
        )
    }

    /// Makes queues that stay, by a job in each.
    fn make_queues(&self, queues: u32, server: &Server) -> anyhow::Result<()> {
        let script = Beanstalk::puts_with_use(BODY_BYTES, queues as usize);
        self.load(
            server,
            drivers(1, script, Beanstalk::script),
            32,
            Bounds::exactly(u64::from(queues)),
        )?;
        Ok(())
    }

    /// Loads a server for the usual time, after `warm_up`.
    pub(super) fn throughput(
        &self,
        server: &Server,
        drivers: Vec<Box<dyn Driver>>,
        shape: Shape,
        warm_up: Duration,
    ) -> anyhow::Result<Sample> {
        // A server that syncs each write needs seconds to answer 500 connections once: measure it twice round.
        let least = 2 * u64::from(shape.connections) * u64::from(shape.depth);
        let duration = self.sizes.duration;
        let bounds = Bounds { count: None, duration, least, warm_up };
        let (start, before) = (Instant::now(), self.foreign_time(server)?);
        let report = self.load(server, drivers, shape.depth as usize, bounds)?;
        let foreign = self.foreign_time(server)?.saturating_sub(before);
        anyhow::ensure!(
            report.finished > 0,
            "nothing was measured: the queue was empty before the warm-up ended"
        );
        Ok(Sample::from([
            (Metric::OperationsPerSecond, report.rate),
            (
                Metric::CpuMicrosPerOperation,
                report.server_cpu_us.expect("the process number was given"),
            ),
            (Metric::GeneratorShare, report.generator_cpu),
            (Metric::ForeignShare, foreign.as_secs_f64() / start.elapsed().as_secs_f64()),
            (Metric::P50Micros, report.latency.p50_us),
            (Metric::P99Micros, report.latency.p99_us),
        ]))
    }

    /// Time that the server's processor gave to others.
    fn foreign_time(&self, server: &Server) -> anyhow::Result<Duration> {
        let busy = process::processor_busy(self.programs.server_cpu)?;
        Ok(busy.saturating_sub(process::cpu_time(server.pid())?))
    }

    /// Measures the round trips of all these cells, which are of one kind of work, trip by trip in turn: at a tenth
    /// of a millisecond, a machine differs more from one second to the next than servers do from each other.
    fn measure_trips(&self, cells: &[Cell]) -> anyhow::Result<Vec<Sample>> {
        let mut servers = Vec::new();
        for cell in cells {
            let folder = self.folder()?;
            let server = Server::start(&self.programs, cell.peer, folder.path())?;
            servers.push((server, folder));
        }
        let addresses: Vec<_> = servers.iter().map(|(server, _)| server.address).collect();
        let (protocol, rate) = match cells[0].work {
            Work::Foreground => (Protocol::Gearman, None),
            _ => (Protocol::Beanstalk, Some(500.0)),
        };
        let reports = trip::run(&TripPlan {
            addresses: &addresses,
            protocol,
            pairs: 1,
            rate,
            duration: self.sizes.trip * cells.len() as u32,
            body_bytes: BODY_BYTES,
            meter: &self.meter,
        });
        for (server, _) in &mut servers {
            server.check_alive()?;
        }
        let sample = |report: trip::TripReport| {
            Sample::from([
                (Metric::P50Micros, report.latency.p50_us),
                (Metric::P99Micros, report.latency.p99_us),
            ])
        };
        Ok(reports?.into_iter().map(sample).collect())
    }

    fn restart(&mut self, peer: Peer) -> anyhow::Result<Sample> {
        if !self.logs.contains_key(&peer) {
            let folder = self.folder()?;
            restart::fill(self, peer, folder.path())?;
            self.logs.insert(peer, folder);
        }
        restart::run(self, peer, self.logs[&peer].path())
    }

    /// Runs a load; a refused operation is an error.
    pub(super) fn load(
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

    fn folder(&self) -> anyhow::Result<TempDir> {
        Ok(tempfile::tempdir_in(self.scratch.path())?)
    }
}

/// What a server is spoken to in when jobs are put and taken.
fn protocol_of(peer: Peer) -> Protocol {
    match peer {
        Peer::Redis => Protocol::Redis,
        Peer::LineshaftMemcache => Protocol::Memcache,
        _ => Protocol::Beanstalk,
    }
}

/// When a load begins to be measured and when it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) count: Option<u64>,
    pub(super) duration: Duration,
    pub(super) least: u64,
    pub(super) warm_up: Duration,
}

impl Bounds {
    /// Exactly `count` operations.
    pub(super) fn exactly(count: u64) -> Self {
        Self { count: Some(count), duration: COUNTED_RUN_MAX, least: 0, warm_up: Duration::ZERO }
    }
}
