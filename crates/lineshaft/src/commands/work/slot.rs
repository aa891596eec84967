//! One slot: takes a job, runs the command, settles the job, again and again.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

use super::lease::{Lease, LeaseState, RECONNECT_MAX, RECONNECT_MIN};
use super::policy::{Counts, Verdict};
use super::process::{Environment, Running};
use super::{Shared, say};
use crate::client::{
    Client, ClientError, Job, PATIENCE, Reply, Schedule, Stats, no_answer, unexpected,
};
use crate::text;

/// How soon Ctrl-C is noticed, and a broken connection.
const TICK: Duration = Duration::from_millis(200);

/// How long one `reserve` waits. Not for ever, so that a dead network is noticed.
const RESERVE_SECONDS: u64 = 60;

/// How a command ended.
enum Ending {
    Exited(ExitStatus),
    /// Stopped because the user insisted.
    Interrupted,
    /// Stopped because the job is not ours any more.
    LeaseLost,
}

/// What we want the server to do with the job.
#[derive(Debug, Clone, Copy)]
enum LastWord {
    Finish,
    GiveBack(Schedule),
    Bury { priority: u32 },
}

/// One of `--jobs`.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    shared: &'a Shared,
    client: Option<Client>,
    /// Wait before the next attempt to connect.
    pause: Duration,
    /// With `--drain`: the last `reserve` found nothing.
    found_nothing: bool,
}

impl<'a> Slot<'a> {
    /// `client` has to watch the queues already.
    pub(super) fn new(shared: &'a Shared, client: Option<Client>) -> Slot<'a> {
        Slot { shared, client, pause: RECONNECT_MIN, found_nothing: false }
    }

    /// Works until there is nothing more to do.
    pub(super) fn serve(mut self) {
        while !self.shared.is_stopping() {
            let asked = Instant::now();
            match self.take() {
                Ok(Some(job)) => {
                    self.shared.busy.fetch_add(1, Ordering::SeqCst);
                    if let Err(error) = self.work_on(job) {
                        self.shared.fail(error);
                    }
                    self.shared.busy.fetch_sub(1, Ordering::SeqCst);
                }
                Ok(None) if self.shared.plan.drain && self.shared.is_drained(asked) => return,
                Ok(None) => {}
                Err(error) if error.is_disconnect() => self.pause_after(&error),
                Err(error) => self.shared.fail(error.into()),
            }
        }
    }

    /// Waits for a job. `None`: there was none in a while, or it is time to stop.
    fn take(&mut self) -> Result<Option<Job>, ClientError> {
        if self.client.is_none() {
            self.client = Some(self.connect()?);
        }
        let client = self.client.as_mut().expect("it was filled above");
        let seconds = match (self.shared.plan.drain, self.found_nothing) {
            (false, _) => RESERVE_SECONDS,
            (true, false) => 0,
            // Others still work, or failed jobs wait for their next attempt.
            (true, true) => 1,
        };
        let command = format!("reserve-with-timeout {seconds}");
        client.send(&command)?;
        let patience_ends = Instant::now() + Duration::from_secs(seconds) + PATIENCE;
        loop {
            let reply = client.reply_within(TICK)?;
            if self.shared.is_stopping() {
                // Ends the wait at the server, and gives back a job that was on its way.
                self.client = None;
                return Ok(None);
            }
            match reply {
                Some(Reply::Reserved(job)) => {
                    self.found_nothing = false;
                    return Ok(Some(job));
                }
                Some(Reply::TimedOut | Reply::DeadlineSoon) => {
                    self.found_nothing = true;
                    return Ok(None);
                }
                Some(reply) => return Err(unexpected(&command, &reply)),
                None if Instant::now() > patience_ends => return Err(no_answer()),
                None => {}
            }
        }
    }

    fn connect(&mut self) -> Result<Client, ClientError> {
        let client = self.shared.connect()?;
        self.pause = RECONNECT_MIN;
        Ok(client)
    }

    fn pause_after(&mut self, error: &ClientError) {
        self.client = None;
        self.shared.note_outage(error);
        self.shared.give_up_when_due();
        let wake = Instant::now() + self.pause;
        while !self.shared.is_stopping() && Instant::now() < wake {
            thread::sleep(TICK.min(wake.saturating_duration_since(Instant::now())));
        }
        self.pause = (self.pause * 2).min(RECONNECT_MAX);
    }

    /// Runs the command for a job that was just taken. An error ends the whole work.
    fn work_on(&mut self, job: Job) -> anyhow::Result<()> {
        let Some(stats) = self.stats_of(&job)? else { return Ok(()) };
        let mut lease = Lease::new(job, &stats);
        let priority = u32::try_from(stats.number("pri")).unwrap_or(u32::MAX);
        let retry = self.shared.plan.retry;
        if retry.looks_deadly(Counts::of(&stats)) {
            if self.tell(&mut lease, LastWord::Bury { priority }) {
                count(&self.shared.totals.buried);
                say_of(&lease, "its workers vanished too often; buried without being run");
            }
            return Ok(());
        }
        let started = Instant::now();
        let environment = Environment {
            job_id: lease.job().id,
            queue: lease.queue().to_owned(),
            attempt: lease.attempt(),
        };
        let at_once = Schedule { priority, delay_seconds: 0 };
        let command = &self.shared.plan.command;
        // Before it runs, so that Ctrl-C in the next moment finds that something does.
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        let mut running = match Running::start(command, &environment, lease.job().body.clone()) {
            Ok(running) => running,
            Err(error) => {
                self.shared.running.fetch_sub(1, Ordering::SeqCst);
                self.tell(&mut lease, LastWord::GiveBack(at_once));
                let program = command[0].display();
                return Err(anyhow!("cannot run `{program}`: {error}"));
            }
        };
        let ending = self.supervise(&mut running, &mut lease);
        self.shared.running.fetch_sub(1, Ordering::SeqCst);
        match ending.context("cannot wait for the command")? {
            Ending::Exited(status) if status.success() => self.finish(&mut lease, started),
            Ending::Exited(status) => self.give_up_attempt(&mut lease, status, priority),
            Ending::Interrupted => {
                // When this fails the connection is gone, which gives the job back as well.
                self.tell(&mut lease, LastWord::GiveBack(at_once));
                count(&self.shared.totals.given_back);
                say_of(&lease, "stopped and given back");
            }
            Ending::LeaseLost => {
                count(&self.shared.totals.lost);
                say_of(&lease, "its lease was lost, another worker may have it; command stopped");
            }
        }
        Ok(())
    }

    /// What the server knows of the job; `None` when it is not ours any more.
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

    /// Keeps the lease until the command has ended, and ends it when it must.
    fn supervise(&mut self, running: &mut Running, lease: &mut Lease) -> io::Result<Ending> {
        let plan = &self.shared.plan;
        let mut stopped: Option<(Ending, Instant)> = None;
        loop {
            let tick = TICK.min(lease.idle_time()).max(Duration::from_millis(1));
            if let Some(status) = running.wait(tick)? {
                return Ok(stopped.map_or(Ending::Exited(status), |(ending, _)| ending));
            }
            lease.keep(&mut self.client, self.shared);
            if let Some((_, kill_at)) = &stopped {
                if Instant::now() >= *kill_at || self.shared.interrupts.count() > 2 {
                    running.kill();
                }
                continue;
            }
            let reason = if lease.state() == LeaseState::Lost {
                Ending::LeaseLost
            } else if self.shared.insists() {
                Ending::Interrupted
            } else {
                continue;
            };
            running.terminate();
            stopped = Some((reason, Instant::now() + plan.grace));
        }
    }

    fn finish(&mut self, lease: &mut Lease, started: Instant) {
        if self.tell(lease, LastWord::Finish) {
            count(&self.shared.totals.done);
            if self.shared.plan.verbose {
                say_of(lease, &format!("done in {}", text::elapsed(started.elapsed())));
            }
        } else {
            count(&self.shared.totals.lost);
            let reason = why_untold(lease);
            say_of(lease, &format!("done, but {reason}: it may be done once more"));
        }
    }

    fn give_up_attempt(&mut self, lease: &mut Lease, status: ExitStatus, priority: u32) {
        let retry = self.shared.plan.retry;
        let attempt = lease.attempt();
        // A job that was kicked, or that others have tried, may be past the limit.
        let of = match retry.attempts_max {
            0 => String::new(),
            max if attempt > u64::from(max) => format!(", past the limit of {max}"),
            max => format!(" of {max}"),
        };
        let failed = format!("{}, attempt {attempt}{of}", describe(status));
        let (word, counter, next) = match retry.after_failure(attempt) {
            Verdict::Bury => {
                (LastWord::Bury { priority }, &self.shared.totals.buried, "buried".to_owned())
            }
            Verdict::Retry { delay_seconds } => {
                let next = format!("next one in {}", text::seconds(delay_seconds.into()));
                let word = LastWord::GiveBack(Schedule { priority, delay_seconds });
                (word, &self.shared.totals.given_back, next)
            }
        };
        if self.tell(lease, word) {
            if let LastWord::GiveBack(Schedule { delay_seconds: delay_seconds @ 1.., .. }) = word {
                self.shared.expect_retry_in(Duration::from_secs(delay_seconds.into()) + TICK);
            }
            count(counter);
            say_of(lease, &format!("{failed}; {next}"));
        } else {
            count(&self.shared.totals.lost);
            say_of(lease, &format!("{failed}; {}", why_untold(lease)));
        }
    }

    /// Has the server do the last thing about a job, over a new connection if need be. `false`: the
    /// job is not ours any more, or the work ends while the server is away.
    fn tell(&mut self, lease: &mut Lease, word: LastWord) -> bool {
        lease.try_soon();
        loop {
            match (lease.state(), self.client.as_mut()) {
                (LeaseState::Held, Some(client)) => match word.say_to(client, lease.job().id) {
                    Ok(told) => return told,
                    Err(error) if error.is_disconnect() => {
                        self.client = None;
                        lease.broke(&error, "connecting anew to settle it");
                    }
                    Err(error) => {
                        self.shared.fail(error.into());
                        return false;
                    }
                },
                (LeaseState::Unguarded, Some(client)) => {
                    let finish = matches!(word, LastWord::Finish);
                    return finish && lease.finish_unguarded(client).unwrap_or(false);
                }
                (LeaseState::Unguarded, None) | (LeaseState::Lost, _) => return false,
                (_, _) if self.shared.insists() => return false,
                (LeaseState::Held | LeaseState::Broken, _) => {
                    lease.keep(&mut self.client, self.shared);
                    if lease.state() == LeaseState::Broken {
                        self.shared.give_up_when_due();
                        // No command runs here any more that would be worth waiting for.
                        if self.shared.is_stopping() {
                            return false;
                        }
                        thread::sleep(TICK.min(lease.idle_time()));
                    }
                }
            }
        }
    }
}

impl LastWord {
    fn say_to(self, client: &mut Client, id: u64) -> Result<bool, ClientError> {
        match self {
            LastWord::Finish => client.delete(id),
            LastWord::GiveBack(schedule) => client.release(id, schedule),
            LastWord::Bury { priority } => client.bury(id, priority),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn say_of(lease: &Lease, what: &str) {
    say(&format!("job {} of {}: {what}", lease.job().id, lease.queue()));
}

/// Why the server did not hear of the job's end.
fn why_untold(lease: &Lease) -> &'static str {
    match lease.state() {
        LeaseState::Broken => "the server could not be told",
        LeaseState::Held | LeaseState::Unguarded | LeaseState::Lost => "its lease was lost before",
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}
