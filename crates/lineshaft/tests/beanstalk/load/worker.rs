//! One client of the load. It sends batches of commands, and keeps a record of the jobs of its tube
//! (its *ledger*).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;

use anyhow::{Result, anyhow, ensure};
use testkit::client::Client;
use testkit::rng::Rng;

use super::model::{Command, Job, State};

/// A client with this many jobs or more deletes more jobs than it puts.
const JOBS_MANY: usize = 150;

/// The approximate maximum of commands in a batch.
const BATCH_MAX: u64 = 12;

/// The number of commands that a fill or a drain sends at once.
const FILL_BATCH: usize = 200;

/// Why a client stopped.
pub(crate) enum Stop {
    Disconnected,
    Wrong(anyhow::Error),
}

/// One client, with the changes that the server acknowledged to it.
pub(crate) struct Worker {
    tube: String,
    rng: Rng,
    /// Jobs that exist, by id.
    pub(super) jobs: BTreeMap<u64, Job>,
    /// Jobs with an acknowledged delete.
    pub(super) ended: Vec<u64>,
    /// Commands without a reply, oldest first.
    pub(super) unanswered: VecDeque<Command>,
    /// The largest id that this client ever received.
    last_id: u64,
    bodies: u64,
    /// The number of jobs that [`Worker::fill`] has put.
    backlog: usize,
}

impl Worker {
    pub(crate) fn new(tube: String, rng: Rng) -> Worker {
        let (jobs, ended, unanswered) = (BTreeMap::new(), Vec::new(), VecDeque::new());
        Worker { tube, rng, jobs, ended, unanswered, last_id: 0, bodies: 0, backlog: 0 }
    }

    pub(crate) fn tube(&self) -> &str {
        &self.tube
    }

    pub(crate) fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// Puts this many ready jobs. Many of them have the same priority.
    pub(crate) fn fill(&mut self, server: SocketAddr, count: usize) -> Result<()> {
        let mut client = Client::on_tube(server, &self.tube)?;
        self.backlog = count;
        for first in (0..count).step_by(FILL_BATCH) {
            let puts = first..count.min(first + FILL_BATCH);
            let puts: Vec<Command> = puts.map(|number| self.put_of_backlog(number)).collect();
            client.send(&puts.iter().flat_map(Command::bytes).collect::<Vec<u8>>())?;
            for put in &puts {
                let reply = client.read_line()?;
                self.acknowledge(put, &reply).map_err(|_| anyhow!("a put was answered {reply}"))?;
            }
        }
        Ok(())
    }

    fn put_of_backlog(&mut self, number: usize) -> Command {
        let body = format!("{} backlog {number}", self.tube).into_bytes();
        let pri = 1000 * self.rng.below(4) as u32;
        Command::Put { job: Job { pri, state: State::Ready, body } }
    }

    /// Takes and deletes all ready jobs. Each recorded job must come exactly once, in order.
    pub(crate) fn drain(&mut self, server: SocketAddr) -> Result<()> {
        let mut client = Client::on_tube(server, &self.tube)?;
        let ready = self.jobs.iter().filter(|(_, job)| job.state == State::Ready);
        let mut ready: Vec<(u32, u64)> = ready.map(|(id, job)| (job.pri, *id)).collect();
        ready.sort_unstable();
        for some in ready.chunks(FILL_BATCH) {
            client.send("reserve-with-timeout 0\r\n".repeat(some.len()).as_bytes())?;
            for (_, id) in some {
                let body = &self.jobs[id].body;
                let reply = client.read_line()?;
                ensure!(reply == format!("RESERVED {id} {}", body.len()), "not job {id}: {reply}");
                ensure!(client.read_body(body.len())? == *body, "job {id} has another body");
            }
            let deletes = some.iter().flat_map(|(_, id)| Command::Delete { id: *id }.bytes());
            client.send(&deletes.collect::<Vec<u8>>())?;
            for (_, id) in some {
                ensure!(client.read_line()? == "DELETED", "job {id} is gone");
                self.now_is(*id, None);
            }
        }
        ensure!(client.reserve(0)?.is_none(), "a job that should have ended");
        Ok(())
    }

    /// The jobs to compare with the server's jobs: all jobs, except most of a backlog that no
    /// command has named since the fill.
    pub(super) fn ids_to_check(&self) -> Vec<u64> {
        let unanswered: BTreeSet<u64> = self.unanswered.iter().filter_map(Command::id).collect();
        let is_chosen = |id: &u64, job: &Job| {
            let is_old =
                job.state == State::Ready && job.pri.is_multiple_of(1000) && self.backlog > 0;
            !is_old || id.is_multiple_of(20) || unanswered.contains(id)
        };
        self.jobs.iter().filter(|(id, job)| is_chosen(id, job)).map(|(id, _)| *id).collect()
    }

    /// Works until something stops it.
    pub(crate) fn run(
        &mut self,
        server: SocketAddr,
        acknowledged: &mut u64,
    ) -> Result<Infallible, Stop> {
        let mut client = Client::on_tube(server, &self.tube).map_err(|_| Stop::Disconnected)?;
        loop {
            let batch = self.batch();
            let bytes: Vec<u8> = batch.iter().flat_map(Command::bytes).collect();
            self.unanswered.extend(batch);
            client.send(&bytes).map_err(|_| Stop::Disconnected)?;
            while let Some(command) = self.unanswered.front() {
                let reply = client.read_line().map_err(|_| Stop::Disconnected)?;
                self.acknowledge(&command.clone(), &reply)?;
                if reply.starts_with("RESERVED") {
                    read_body(&mut client, &reply)?;
                }
                *acknowledged += 1;
                self.unanswered.pop_front();
            }
        }
    }

    fn acknowledge(&mut self, command: &Command, reply: &str) -> Result<(), Stop> {
        let mut words = reply.split(' ');
        if words.next() != Some(command.reply()) {
            return Err(Stop::Wrong(anyhow!("{command:?} was answered {reply}")));
        }
        if let Command::Put { job } = command {
            let id = words.next().and_then(|id| id.parse::<u64>().ok());
            let id = id.ok_or_else(|| Stop::Wrong(anyhow!("no id in {reply}")))?;
            if id <= self.last_id {
                return Err(Stop::Wrong(anyhow!("the id {id} was given out a second time")));
            }
            self.last_id = id;
            self.jobs.insert(id, job.clone());
            return Ok(());
        }
        let id = command.id().expect("every other command speaks of a job");
        self.now_is(id, command.applied_to(&self.jobs[&id]));
        Ok(())
    }

    /// Records the state of a job. `None` means that the job has ended.
    pub(super) fn now_is(&mut self, id: u64, job: Option<Job>) {
        if let Some(job) = job {
            self.jobs.insert(id, job);
        } else {
            self.jobs.remove(&id);
            self.ended.push(id);
        }
    }

    /// Chooses the next commands. A batch changes each job at most once. A take and the command
    /// that ends its lease count as one change together.
    fn batch(&mut self) -> Vec<Command> {
        let mut free: Vec<u64> = self.jobs.keys().copied().collect();
        let mut batch = Vec::new();
        for _ in 0..=self.rng.below(BATCH_MAX) {
            let many = self.rng.below(JOBS_MANY as u64 * 2) + self.backlog as u64;
            let put = many >= free.len() as u64;
            if put || free.is_empty() {
                batch.push(self.put());
            } else {
                let chosen = self.rng.below(free.len() as u64) as usize;
                let id = free.swap_remove(chosen);
                self.change(id, &mut batch);
            }
        }
        batch
    }

    fn put(&mut self) -> Command {
        self.bodies += 1;
        let filler_bytes = if self.rng.one_in(50) { 40_000 } else { self.rng.below(400) };
        let letter = b'a' + self.rng.below(26) as u8;
        let mut body = format!("{} {} ", self.tube, self.bodies).into_bytes();
        body.resize(body.len() + filler_bytes as usize, letter);
        let state = if self.rng.one_in(5) { State::Delayed } else { State::Ready };
        let pri = self.rng.below(1 << 32) as u32;
        Command::Put { job: Job { pri, state, body } }
    }

    fn change(&mut self, id: u64, batch: &mut Vec<Command>) {
        let pri = self.rng.below(1 << 32) as u32;
        if self.jobs[&id].state != State::Ready {
            let kick = self.rng.one_in(2);
            batch.push(if kick { Command::KickJob { id } } else { Command::Delete { id } });
            return;
        }
        batch.push(Command::Take { id });
        batch.push(match self.rng.below(6) {
            0..3 => Command::Delete { id },
            3 => Command::Release { id, pri, delayed: false },
            4 => Command::Release { id, pri, delayed: true },
            _ => Command::Bury { id, pri },
        });
    }
}

/// Skips the body after a `RESERVED <id> <bytes>` line.
fn read_body(client: &mut Client, reply: &str) -> Result<(), Stop> {
    let length = reply.rsplit(' ').next().and_then(|length| length.parse().ok());
    let length = length.ok_or_else(|| Stop::Wrong(anyhow!("no length in {reply}")))?;
    client.read_body(length).map(drop).map_err(|_| Stop::Disconnected)
}
