//! Makes single measurements: starts the server of a cell, loads it, reads the figures, and ends
//! the server.

mod bare_sync;
mod blocked_keys;
mod burst;
mod deep_queue;
mod gearman;
mod heavy;
mod lateness;
mod log_use;
mod memory;
mod memory_limit;
mod quiet;
mod restart;
mod takeover;

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use self::blocked_keys::LIMITED_QUEUE;
pub(crate) use self::blocked_keys::limits_for_each_key;
use self::restart::Stock;
use super::lab::server::Server;
use super::lab::{BODY_BYTES, Lab, QUEUE};
use super::plan::sizes::{Bounds, Span, TURNS};
use super::plan::work::{Cell, Metric, Peer, Sample, Shape, Side, Work};
use crate::args::Protocol;
use crate::driver::Beanstalk;
use crate::modes::{drivers, queue_put_drivers, queue_take_drivers};
use crate::process;
use crate::trip::{self, TripPlan};

impl Lab {
    /// Measures these cells once. They have the same kind of work. Returns a sample for each cell.
    pub(crate) fn measure(&mut self, cells: &[Cell]) -> Vec<anyhow::Result<Sample>> {
        let samples = match cells[0].work {
            Work::Trip | Work::Foreground => self.measure_trips(cells),
            work if work.is_measured_in_turn() => self.measure_in_turn(cells),
            _ => return cells.iter().map(|&cell| self.measure_alone(cell)).collect(),
        };
        match samples {
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
            Work::Restart { large } => return self.restart(cell, large),
            _ => {}
        }
        let folder = self.folder()?;
        let mut server = Server::start(&self.programs, cell.peer, folder.path())?;
        if cell.work == Work::Takeover {
            return takeover::run(&mut server);
        }
        let sample = self.measure_on(cell, &server, folder.path());
        // If the server ended, report its output, which explains more than the client's error.
        server.check_alive()?;
        sample
    }

    fn measure_on(&self, cell: Cell, server: &Server, folder: &Path) -> anyhow::Result<Sample> {
        match cell.work {
            Work::Put(shape) => self.put(cell.peer, shape, BODY_BYTES, server),
            Work::PutOf(shape, bytes) => self.put(cell.peer, shape, bytes as usize, server),
            Work::TakeOf(shape, bytes) => self.take_of(cell.peer, shape, bytes as usize, server),
            Work::Cycle(shape, jobs) => self.cycle(cell.peer, shape, jobs, server),
            Work::Take(shape) => self.take(cell.peer, shape, server),
            Work::Submit(shape) => gearman::submit(self, shape, server),
            Work::Grab(shape) => gearman::grab(self, shape, server),
            Work::Quiet => quiet::beside_all(self, server),
            Work::QuietInMemory => quiet::in_memory(self, server),
            Work::Burst => burst::run(self, server),
            Work::MemoryLimit => memory_limit::run(self, server),
            Work::Lateness { busy } => lateness::run(self, server, busy),
            Work::JobMemory => memory::jobs(self, server),
            Work::DeepQueue => deep_queue::run(self, server),
            Work::LogUse(mixture) => log_use::run(self, server, folder, mixture),
            Work::IdleConnections => memory::idle_connections(self, server),
            Work::IdleWorkers(functions) => memory::idle_workers(self, functions, server),
            Work::PutAmong(..)
            | Work::TakeAmong(..)
            | Work::PutInTurn(_)
            | Work::TakeInTurn(_)
            | Work::TakeBlocked(_)
            | Work::PutBeside(_)
            | Work::TakeBeside(_)
            | Work::PutWithSync(..)
            | Work::Trip
            | Work::Foreground
            | Work::Restart { .. }
            | Work::Takeover
            | Work::BareSync => unreachable!("measured in a way of its own"),
        }
    }

    fn put(
        &self,
        peer: Peer,
        shape: Shape,
        body_bytes: usize,
        server: &Server,
    ) -> anyhow::Result<Sample> {
        let connections = shape.connections as usize;
        let drivers = queue_put_drivers(protocol_of(peer), QUEUE, connections, body_bytes);
        self.throughput(server, drivers, shape, self.sizes.span())
    }

    fn take(&self, peer: Peer, shape: Shape, server: &Server) -> anyhow::Result<Sample> {
        let filled = self.fill(peer, server)?;
        let protocol = protocol_of(peer);
        let span = match protocol {
            // Its takes are much faster than its puts, so a warm-up could empty the queue.
            Protocol::Nats => Span { warm_up: Duration::ZERO, ..self.sizes.span() },
            // Its consumers are not told that the queue is empty.
            Protocol::Amqp => Span { count: Some(filled / 3), ..self.sizes.span() },
            _ => self.sizes.span(),
        };
        let takes = queue_take_drivers(protocol, QUEUE, shape.connections as usize);
        self.throughput(server, takes, shape, span)
    }

    /// Takes bodies of this size until the queue is empty. Its bytes are limited, because large
    /// bodies would fill the memory of the machine.
    fn take_of(
        &self,
        peer: Peer,
        shape: Shape,
        body_bytes: usize,
        server: &Server,
    ) -> anyhow::Result<Sample> {
        let jobs = (self.sizes.fill_bytes / body_bytes as u64).min(self.sizes.fill_jobs);
        let connections = shape.connections as usize;
        let puts = queue_put_drivers(protocol_of(peer), QUEUE, connections, body_bytes);
        self.load(server, puts, 1, Bounds::exactly(jobs))?;
        let takes = queue_take_drivers(protocol_of(peer), QUEUE, connections);
        self.throughput(server, takes, shape, Span { warm_up: Duration::ZERO, ..self.sizes.span() })
    }

    /// Measures operations that each put a job and take another one, while this many jobs wait.
    fn cycle(
        &self,
        peer: Peer,
        shape: Shape,
        jobs: u64,
        server: &Server,
    ) -> anyhow::Result<Sample> {
        let puts = queue_put_drivers(protocol_of(peer), QUEUE, 50, BODY_BYTES);
        self.load(server, puts, 32, Bounds::exactly(jobs))?;
        let script = Beanstalk::cycles(BODY_BYTES);
        let cycles = drivers(shape.connections as usize, script, Beanstalk::cycle);
        self.throughput(server, cycles, shape, self.sizes.span())
    }

    /// Puts jobs for twice the time of a take measurement. These are enough jobs for most servers,
    /// because their puts are not slower than their takes. Returns the number of jobs.
    fn fill(&self, peer: Peer, server: &Server) -> anyhow::Result<u64> {
        let puts = queue_put_drivers(protocol_of(peer), QUEUE, 50, BODY_BYTES);
        let whole = self.sizes.duration + self.sizes.warm_up;
        let bounds = Bounds { duration: whole * 2, ..Bounds::exactly(self.sizes.fill_jobs) };
        Ok(self.load(server, puts, 32, bounds)?.finished)
    }

    /// Measures servers that differ little, such as the same server with one queue and with many.
    /// The speed of a machine changes more from second to second than such servers differ. So the
    /// servers are loaded in short turns, and all of them get the same conditions.
    fn measure_in_turn(&self, cells: &[Cell]) -> anyhow::Result<Vec<Sample>> {
        let (mut servers, mut holders) = (Vec::new(), Vec::new());
        for cell in cells {
            let (folder, programs) = match cell.work {
                Work::PutWithSync(_, micros) => {
                    (Self::memory_folder()?, &self.slow_programs(micros)?)
                }
                _ => (self.folder()?, &self.programs),
            };
            let server = Server::start(programs, cell.peer, folder.path())?;
            if let Work::PutAmong(_, queues) | Work::TakeAmong(_, queues) = cell.work {
                self.make_queues(queues, &server)?;
            }
            if let Work::TakeAmong(..) | Work::TakeInTurn(_) | Work::TakeBeside(_) = cell.work {
                self.fill(cell.peer, &server)?;
            }
            holders.extend(blocked_keys::fill(self, cell.work, &server)?);
            servers.push((server, folder));
        }
        let sums = self.turns(cells, &servers);
        drop(holders);
        // If the server ended, report its output, which explains more than the client's error.
        for (server, _) in &mut servers {
            server.check_alive()?;
        }
        sums
    }

    /// Returns the mean of each server's turns.
    fn turns(&self, cells: &[Cell], servers: &[(Server, TempDir)]) -> anyhow::Result<Vec<Sample>> {
        let mut sums = vec![Sample::new(); cells.len()];
        for turn in 0..TURNS as usize {
            for place in 0..cells.len() {
                let which = (turn + place) % cells.len();
                let sample = self.take_turn(cells[which], &servers[which].0)?;
                for (metric, value) in sample {
                    *sums[which].entry(metric).or_default() += value / f64::from(TURNS);
                }
            }
        }
        Ok(sums)
    }

    fn take_turn(&self, cell: Cell, server: &Server) -> anyhow::Result<Sample> {
        let (shape, drivers) = match cell.work {
            Work::PutAmong(shape, queues) => {
                let script = Beanstalk::puts_with_use(BODY_BYTES, queues as usize);
                (shape, drivers(shape.connections as usize, script, Beanstalk::script))
            }
            Work::PutInTurn(shape) | Work::PutWithSync(shape, _) | Work::PutBeside(shape) => {
                let connections = shape.connections as usize;
                let protocol = protocol_of(cell.peer);
                (shape, queue_put_drivers(protocol, QUEUE, connections, BODY_BYTES))
            }
            Work::TakeAmong(shape, _) | Work::TakeInTurn(shape) | Work::TakeBeside(shape) => {
                let connections = shape.connections as usize;
                (shape, queue_take_drivers(protocol_of(cell.peer), QUEUE, connections))
            }
            Work::TakeBlocked(shape) => {
                let connections = shape.connections as usize;
                (shape, queue_take_drivers(protocol_of(cell.peer), LIMITED_QUEUE, connections))
            }
            _ => unreachable!("only these are measured in turn"),
        };
        self.throughput(server, drivers, shape, self.sizes.span() / TURNS)
    }

    /// Creates queues. Each gets a job, so that it stays.
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

    /// Measures the round trips of these cells, one trip of each cell in turn. All cells have the
    /// same kind of work. The speed of a machine changes more from second to second than servers
    /// differ. But a trip takes only a tenth of a millisecond, so the trips of one turn have nearly
    /// the same speed of the machine.
    fn measure_trips(&self, cells: &[Cell]) -> anyhow::Result<Vec<Sample>> {
        let mut servers = Vec::new();
        for cell in cells {
            let folder = self.folder()?;
            let server = Server::start(&self.programs, cell.peer, folder.path())?;
            servers.push((server, folder));
        }
        let addresses: Vec<_> = servers.iter().map(|(server, _)| server.address).collect();
        let (protocol, rate, duration) = match cells[0].work {
            Work::Foreground => (Protocol::Gearman, None, self.sizes.trip),
            // At this rate, the p99 would depend on only a few slow trips. Other work on the
            // machine could slow down exactly these trips. So measure for longer.
            _ => (Protocol::Beanstalk, Some(500.0), self.sizes.trip * 4),
        };
        let reports = trip::run(&TripPlan {
            addresses: &addresses,
            protocol,
            pairs: 1,
            rate,
            duration: duration * cells.len() as u32,
            body_bytes: BODY_BYTES,
            meter: self.meter(),
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

    fn restart(&mut self, cell: Cell, is_large: bool) -> anyhow::Result<Sample> {
        let stock = Stock::new(self, is_large);
        if !self.logs.contains_key(&cell) {
            let folder = self.folder()?;
            restart::fill(self, cell.peer, stock, folder.path())?;
            self.logs.insert(cell, folder);
        }
        restart::run(self, cell.peer, stock, self.logs[&cell].path())
    }
}

/// The protocol of a server's puts and takes.
fn protocol_of(peer: Peer) -> Protocol {
    match peer {
        Peer::Lineshaft(Side::Gearman, _) | Peer::Gearmand { .. } => Protocol::Gearman,
        Peer::Lineshaft(Side::Memcache, _) => Protocol::Memcache,
        Peer::Lineshaft(..) | Peer::Cluster | Peer::Beanstalkd(_) | Peer::BareLoop { .. } => {
            Protocol::Beanstalk
        }
        Peer::Redis => Protocol::Redis,
        Peer::Nats { .. } => Protocol::Nats,
        Peer::RabbitMq => Protocol::Amqp,
        Peer::Disk => unreachable!("the disk is not a server"),
    }
}
