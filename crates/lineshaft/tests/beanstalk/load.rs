//! Clients that send commands, each with a ledger. For each reply, a client records in its ledger
//! the change that the server acknowledged. The test compares these records with the jobs of a
//! restarted server.
//!
//! Every client has a tube of its own, so it can record the exact state of every job in its tube.
//! Clients send commands in batches. If a command got no reply before the server ended, it may or
//! may not have taken effect. All jobs without such a command must be exactly as recorded.

mod check;
mod model;
mod worker;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{ScopedJoinHandle, scope};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::rng::Rng;
use testkit::wait;

pub(crate) use check::Promises;
use worker::Worker;

/// Number of clients that work at the same time.
const WORKERS: usize = 8;

/// All clients, with the changes that the server acknowledged to them.
pub(crate) struct Load {
    workers: Vec<Worker>,
}

impl Load {
    /// Creates clients whose choices depend on the seed.
    pub(crate) fn new(seed: u64) -> Load {
        let mut rng = Rng::new(seed);
        let worker = |number| Worker::new(format!("ledger-{number}"), Rng::new(rng.next_u64()));
        Load { workers: (0..WORKERS).map(worker).collect() }
    }

    /// Puts this many jobs into the tube of each client.
    pub(crate) fn fill(&mut self, server: SocketAddr, jobs: usize) -> Result<()> {
        self.workers.iter_mut().try_for_each(|worker| worker.fill(server, jobs))
    }

    /// Takes and deletes all ready jobs, and compares them with the records.
    pub(crate) fn drain(&mut self, server: SocketAddr) -> Result<()> {
        self.workers.iter_mut().try_for_each(|worker| {
            worker.drain(server).with_context(|| format!("tube {}", worker.tube()))
        })
    }

    /// Works on the server for `time`, then calls `end_it`, which must end the server. Returns the
    /// number of acknowledged commands.
    pub(crate) fn run_until(
        &mut self,
        server: SocketAddr,
        time: Duration,
        end_it: impl FnOnce() -> Result<()>,
    ) -> Result<u64> {
        let ending = AtomicBool::new(false);
        scope(|scope| {
            let work = |worker| {
                let ending = &ending;
                scope.spawn(move || run_worker(worker, server, ending))
            };
            let threads: Vec<_> = self.workers.iter_mut().map(work).collect();
            wait::let_pass(time, "the end comes at a random moment");
            ending.store(true, Ordering::SeqCst);
            end_it()?;
            let join = |thread: ScopedJoinHandle<'_, Result<u64>>| {
                thread.join().expect("a client reports errors instead of panicking")
            };
            threads.into_iter().map(join).sum()
        })
    }

    /// Compares the records with the server's jobs. Also records which of the unanswered commands
    /// took effect.
    pub(crate) fn check(&mut self, server: SocketAddr, promises: Promises) -> Result<()> {
        let mut strays = check::find_strays(server, &self.workers)?;
        for worker in &mut self.workers {
            check::check_worker(worker, server, promises, &mut strays)
                .with_context(|| format!("tube {}", worker.tube()))?;
        }
        ensure!(strays.is_empty(), "jobs that no client put: {strays:?}");
        Ok(())
    }

    /// The number of jobs that must exist.
    pub(crate) fn jobs(&self) -> usize {
        self.workers.iter().map(Worker::job_count).sum()
    }
}

/// Works until the server ends. The server must not end before `ending` is set. After `ending` is
/// set, the server can refuse changes that it can no longer store. A refusal acknowledges nothing.
fn run_worker(worker: &mut Worker, server: SocketAddr, ending: &AtomicBool) -> Result<u64> {
    let mut acknowledged = 0;
    let outcome = worker.run(server, &mut acknowledged);
    match outcome {
        Err(_) if ending.load(Ordering::SeqCst) => Ok(acknowledged),
        Err(worker::Stop::Disconnected) => anyhow::bail!("the server disconnected"),
        Err(worker::Stop::Wrong(error)) => Err(error),
        Ok(never) => match never {},
    }
}
