//! Keeps the lease of a job while its command runs: renews the lease, and takes the job again after
//! the connection broke.

use std::time::{Duration, Instant};

use super::outage::Backoff;
use super::{Plan, Shared, say};
use crate::client::{CONNECT_TIMEOUT, Client, ClientError, Job, Stats};

/// The state of our lease of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseState {
    /// Our connection holds the lease.
    Held,
    /// The connection broke. The job may be ready at the server, so that we can take it again.
    Broken,
    /// The job is ready at the server, but we cannot take it, because the server has no
    /// `reserve-job` (new in beanstalkd 1.12). The command continues. After its end, we finish the
    /// job if no other worker took the job meanwhile.
    Unguarded,
    /// The job is no longer ours.
    Lost,
}

/// A job with its lease.
#[derive(Debug)]
pub(super) struct Lease {
    job: Job,
    queue: String,
    /// How often the job was taken, including our own take.
    reserves: u64,
    taken: Instant,
    /// Time between renewals: a third of the ttr, so that two renewals can be late.
    renewal: Duration,
    ttr: Duration,
    renewed: Instant,
    state: LeaseState,
    next_attempt: Instant,
    backoff: Backoff,
}

/// Connects and watches the queues.
pub(super) fn connect(plan: &Plan) -> Result<Client, ClientError> {
    let mut client = Client::connect_within(&plan.target, CONNECT_TIMEOUT)?;
    client.watch_only(&plan.queues)?;
    Ok(client)
}

impl Lease {
    /// The lease of a job that was just taken. `stats` are the server's statistics of the job.
    pub(super) fn new(job: Job, stats: &Stats) -> Lease {
        let now = Instant::now();
        let ttr = Duration::from_secs(stats.number("ttr").max(1));
        Lease {
            job,
            queue: stats.get("tube").unwrap_or_default().to_owned(),
            reserves: stats.number("reserves").max(1),
            taken: now,
            renewal: ttr / 3,
            ttr,
            renewed: now,
            state: LeaseState::Held,
            next_attempt: now,
            backoff: Backoff::default(),
        }
    }

    pub(super) fn job(&self) -> &Job {
        &self.job
    }

    pub(super) fn queue(&self) -> &str {
        &self.queue
    }

    /// The number of this attempt; the first is 1.
    pub(super) fn attempt(&self) -> u64 {
        self.reserves
    }

    pub(super) fn state(&self) -> LeaseState {
        self.state
    }

    /// Time until [`Lease::keep`] must be called next.
    pub(super) fn idle_time(&self) -> Duration {
        let next = match self.state {
            LeaseState::Held => self.renewed + self.renewal,
            LeaseState::Broken => self.next_attempt,
            LeaseState::Unguarded | LeaseState::Lost => return Duration::MAX,
        };
        next.saturating_duration_since(Instant::now())
    }

    /// Renews the lease if it is time. After a disconnect, reconnects and puts the new connection
    /// into `client`.
    pub(super) fn keep(&mut self, client: &mut Option<Client>, shared: &Shared) {
        let outcome = match (self.state, client.as_mut()) {
            (LeaseState::Unguarded | LeaseState::Lost, _) => return,
            (LeaseState::Held, Some(client)) => self.renew(client),
            (LeaseState::Held, None) => Err(ClientError::Closed),
            (LeaseState::Broken, _) => return self.try_again(client, shared),
        };
        if let Err(error) = outcome {
            *client = None;
            self.broke(&error, "its command continues, reconnecting");
        }
    }

    /// Makes the next attempt to connect start at once, if the connection is broken.
    pub(super) fn try_soon(&mut self) {
        self.next_attempt = Instant::now();
        self.backoff.reset();
    }

    /// Records a broken connection, and prints a message for the user. `meanwhile` is the end of
    /// the message: it says what this program does now.
    pub(super) fn broke(&mut self, error: &ClientError, meanwhile: &str) {
        self.state = LeaseState::Broken;
        self.try_soon();
        say(&format!("job {}: {error}; {meanwhile}", self.job.id));
    }

    fn renew(&mut self, client: &mut Client) -> Result<(), ClientError> {
        if self.renewed.elapsed() < self.renewal {
            return client.check_open();
        }
        self.renewed = Instant::now();
        if !client.touch(self.job.id)? {
            self.state = LeaseState::Lost;
        }
        Ok(())
    }

    fn try_again(&mut self, client: &mut Option<Client>, shared: &Shared) {
        if Instant::now() < self.next_attempt {
            return;
        }
        let connected = connect(&shared.plan).and_then(|mut fresh| {
            shared.note_connected();
            Ok((self.take_back(&mut fresh)?, fresh))
        });
        match connected {
            Ok((state, fresh)) => {
                self.state = state;
                *client = (state != LeaseState::Broken).then_some(fresh);
                if state == LeaseState::Held {
                    self.renewed = Instant::now();
                    say(&format!("job {}: reconnected and took it back", self.job.id));
                }
            }
            Err(error) if error.is_disconnect() => shared.note_outage(&error),
            // The reply is invalid: another kind of server uses this address now.
            Err(_) => self.state = LeaseState::Lost,
        }
        self.next_attempt = Instant::now() + self.backoff.next();
    }

    /// Takes the job again over a new connection, if the job still exists and is ready.
    fn take_back(&mut self, client: &mut Client) -> Result<LeaseState, ClientError> {
        let id = self.job.id;
        let Some(stats) = client.stats_job(id)? else { return Ok(LeaseState::Lost) };
        if !self.is_same(&stats, client.peek(id)?.as_ref()) {
            return Ok(LeaseState::Lost);
        }
        match stats.get("state") {
            Some("ready") => match client.reserve_job(id) {
                Ok(Some(_)) => Ok(LeaseState::Held),
                Ok(None) => Ok(LeaseState::Lost),
                Err(ClientError::Unexpected { .. }) => Ok(LeaseState::Unguarded),
                Err(error) => Err(error),
            },
            // Our old connection still holds the job, because the server has not noticed yet that
            // the connection has ended.
            Some("reserved")
                if stats.number("reserves") == self.reserves
                    && self.renewed.elapsed() < self.ttr =>
            {
                Ok(LeaseState::Broken)
            }
            _ => Ok(LeaseState::Lost),
        }
    }

    /// Finishes a job that is not leased, if no other worker took it. Returns whether it was
    /// finished.
    pub(super) fn finish_unguarded(&self, client: &mut Client) -> Result<bool, ClientError> {
        let id = self.job.id;
        let stats = client.stats_job(id)?.unwrap_or_default();
        let ours = stats.number("reserves") == self.reserves
            && self.is_same(&stats, client.peek(id)?.as_ref());
        Ok(ours && client.delete(id)?)
    }

    /// True if the server's job with this id is our job. After a restart without its jobs, a server
    /// assigns the same ids to other jobs. Without this check, a finish could delete such a job.
    fn is_same(&self, stats: &Stats, found: Option<&Job>) -> bool {
        let held_seconds = self.taken.elapsed().as_secs();
        // The server rounds ages down to whole seconds.
        let old_enough = stats.number("age") + 1 >= held_seconds;
        old_enough && stats.get("tube") == Some(self.queue.as_str()) && found == Some(&self.job)
    }
}
