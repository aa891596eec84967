//! Jobs of the beanstalkd protocol. The worker renews the lease of a job while its command runs. If
//! the command fails, the worker gives the job back with a delay, and finally buries it.

use std::thread;
use std::time::{Duration, Instant};

use super::lease::{Lease, LeaseState, connect};
use super::policy::{Counts, Verdict};
use super::process::{Environment, Outputs, describe};
use super::slot::{Ending, Side, TICK, Waited, count, describe_timeout, run_command, wait_for};
use super::{Plan, Shared, say};
use crate::client::{
    Client, ClientError, Job, PATIENCE, Reply, Schedule, Stats, no_answer, unexpected,
};
use crate::text;

/// The server replies to a `reserve` after at most this time. If no reply comes, the network is
/// dead.
const RESERVE_SECONDS: u64 = 60;

/// How a job ends at the server.
#[derive(Debug, Clone, Copy)]
enum JobEnd {
    Finish,
    GiveBack(Schedule),
    Bury { priority: u32 },
}

/// The connection of one slot.
#[derive(Debug, Default)]
pub(super) struct BeanstalkSide {
    client: Option<Client>,
    /// True if the last `reserve` found no job. Only `--drain` uses it.
    found_nothing: bool,
}

impl Side for BeanstalkSide {
    type Job = Job;

    fn connect(&mut self, plan: &Plan) -> Result<(), ClientError> {
        self.client = Some(connect(plan)?);
        Ok(())
    }

    fn is_connected(&self) -> bool {
        self.client.is_some()
    }

    fn hang_up(&mut self) {
        self.client = None;
    }

    fn take(&mut self, shared: &Shared) -> Result<Option<Job>, ClientError> {
        let Some(client) = self.client.as_mut() else { return Ok(None) };
        let seconds = match (shared.plan.drain, self.found_nothing) {
            (false, _) => RESERVE_SECONDS,
            (true, false) => 0,
            // Wait only a second. Other slots still work, or failed jobs wait for their next
            // attempt. So ask soon again whether a job is ready.
            (true, true) => 1,
        };
        let command = format!("reserve-with-timeout {seconds}");
        client.send(&command)?;
        let patience = Duration::from_secs(seconds) + PATIENCE;
        match wait_for(patience, shared, |tick| client.reply_within(tick))? {
            Waited::For(Reply::Reserved(job)) => {
                self.found_nothing = false;
                Ok(Some(job))
            }
            Waited::For(Reply::TimedOut | Reply::DeadlineSoon) => {
                self.found_nothing = true;
                Ok(None)
            }
            Waited::For(reply) => Err(unexpected(&command, &reply)),
            Waited::InVain => Err(no_answer()),
            Waited::Stopping => {
                // A disconnect ends the wait at the server. If the server has just sent a job, the
                // disconnect gives the job back.
                self.client = None;
                Ok(None)
            }
        }
    }

    fn work_on(&mut self, job: Job, shared: &Shared) -> anyhow::Result<()> {
        let Some(stats) = self.stats_of(&job)? else { return Ok(()) };
        let mut lease = Lease::new(job, &stats);
        let priority = u32::try_from(stats.number("pri")).unwrap_or(u32::MAX);
        let retry = shared.plan.retry;
        if retry.looks_deadly(Counts::of(&stats)) {
            if self.settle(&mut lease, JobEnd::Bury { priority }, shared) {
                count(&shared.totals.buried);
                print_of(&lease, "too many workers were lost; buried without another attempt");
            }
            return Ok(());
        }
        let started = Instant::now();
        let environment = Environment {
            job_id: lease.job().id.to_string(),
            queue: lease.queue().to_owned(),
            others: vec![("LINESHAFT_ATTEMPT", lease.attempt().to_string())],
        };
        let at_once = Schedule { priority, delay_seconds: 0 };
        let body = lease.job().body.clone();
        let ending = run_command(&environment, body, Outputs::Shown, shared, |_said| {
            lease.keep(&mut self.client, shared);
            (lease.state() != LeaseState::Lost).then(|| lease.idle_time())
        });
        if ending.is_err() {
            self.settle(&mut lease, JobEnd::GiveBack(at_once), shared);
        }
        match ending? {
            Ending::Exited(status) if status.success() => self.finish(&mut lease, started, shared),
            Ending::Exited(status) => {
                self.give_up_attempt(&mut lease, &describe(status), priority, shared);
            }
            Ending::TimedOut(timeout) => {
                self.give_up_attempt(&mut lease, &describe_timeout(timeout), priority, shared);
            }
            Ending::Interrupted => {
                // Ignore a failure: then the connection is broken, and the server gives the job
                // back itself.
                self.settle(&mut lease, JobEnd::GiveBack(at_once), shared);
                count(&shared.totals.given_back);
                print_of(&lease, "stopped and given back");
            }
            Ending::JobLost => {
                count(&shared.totals.lost);
                print_of(&lease, "lost its lease, another worker may have it; command stopped");
            }
        }
        Ok(())
    }
}

impl BeanstalkSide {
    /// Returns the server's statistics of the job. Returns `None` if the connection broke, or the
    /// job no longer exists.
    fn stats_of(&mut self, job: &Job) -> anyhow::Result<Option<Stats>> {
        let Some(client) = self.client.as_mut() else { return Ok(None) };
        match client.stats_job(job.id) {
            Ok(stats) => Ok(stats),
            Err(error) if error.is_disconnect() => {
                self.client = None;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn finish(&mut self, lease: &mut Lease, started: Instant, shared: &Shared) {
        if self.settle(lease, JobEnd::Finish, shared) {
            count(&shared.totals.done);
            if shared.plan.verbose {
                print_of(lease, &format!("done in {}", text::elapsed(started.elapsed())));
            }
        } else {
            count(&shared.totals.lost);
            let reason = why_unreported(lease);
            print_of(lease, &format!("done, but {reason}: it may run once more"));
        }
    }

    fn give_up_attempt(
        &mut self,
        lease: &mut Lease,
        failure: &str,
        priority: u32,
        shared: &Shared,
    ) {
        let retry = shared.plan.retry;
        let attempt = lease.attempt();
        // The number of the attempt can be above the limit, after a kick or after attempts by other
        // workers.
        let of = match retry.attempts_max {
            0 => String::new(),
            max if attempt > u64::from(max) => format!(", past the limit of {max}"),
            max => format!(" of {max}"),
        };
        let failed = format!("{failure}, attempt {attempt}{of}");
        let (end, counter, next) = match retry.after_failure(attempt) {
            Verdict::Bury => {
                (JobEnd::Bury { priority }, &shared.totals.buried, "buried".to_owned())
            }
            Verdict::Retry { delay_seconds } => {
                let next = format!("next attempt in {}", text::seconds(delay_seconds.into()));
                let end = JobEnd::GiveBack(Schedule { priority, delay_seconds });
                (end, &shared.totals.given_back, next)
            }
        };
        if self.settle(lease, end, shared) {
            if let JobEnd::GiveBack(Schedule { delay_seconds: delay_seconds @ 1.., .. }) = end {
                shared.expect_retry_in(Duration::from_secs(delay_seconds.into()) + TICK);
            }
            count(counter);
            print_of(lease, &format!("{failed}; {next}"));
        } else {
            count(&shared.totals.lost);
            print_of(lease, &format!("{failed}; {}", why_unreported(lease)));
        }
    }

    /// Reports the end of a job to the server, over a new connection if necessary. Returns false if
    /// the job is no longer ours. Also returns false if the work stops while the server is
    /// unreachable.
    fn settle(&mut self, lease: &mut Lease, end: JobEnd, shared: &Shared) -> bool {
        lease.try_soon();
        loop {
            match (lease.state(), self.client.as_mut()) {
                (LeaseState::Held, Some(client)) => match end.send_to(client, lease.job().id) {
                    Ok(settled) => return settled,
                    Err(error) if error.is_disconnect() => {
                        self.client = None;
                        lease.broke(&error, "reconnecting to settle it");
                    }
                    Err(error) => {
                        shared.fail(error.into());
                        return false;
                    }
                },
                (LeaseState::Unguarded, Some(client)) => {
                    let finish = matches!(end, JobEnd::Finish);
                    return finish && lease.finish_unguarded(client).unwrap_or(false);
                }
                (LeaseState::Unguarded, None) | (LeaseState::Lost, _) => return false,
                (_, _) if shared.insists() => return false,
                (LeaseState::Held | LeaseState::Broken, _) => {
                    lease.keep(&mut self.client, shared);
                    if lease.state() == LeaseState::Broken {
                        shared.give_up_when_due();
                        // No command runs any more, so a worker that stops need not wait for the
                        // server.
                        if shared.is_stopping() {
                            return false;
                        }
                        thread::sleep(TICK.min(lease.idle_time()));
                    }
                }
            }
        }
    }
}

impl JobEnd {
    fn send_to(self, client: &mut Client, id: u64) -> Result<bool, ClientError> {
        match self {
            JobEnd::Finish => client.delete(id),
            JobEnd::GiveBack(schedule) => client.release(id, schedule),
            JobEnd::Bury { priority } => client.bury(id, priority),
        }
    }
}

fn print_of(lease: &Lease, what: &str) {
    say(&format!("job {} of {}: {what}", lease.job().id, lease.queue()));
}

/// Why the server did not accept the end of the job.
fn why_unreported(lease: &Lease) -> &'static str {
    match lease.state() {
        LeaseState::Broken => "could not report it to the server",
        LeaseState::Held | LeaseState::Unguarded | LeaseState::Lost => "its lease was already lost",
    }
}
