//! The loop of a slot, for all protocols. A slot takes a job, runs the command, reports the job's
//! end to the server (it *settles* the job), and repeats.

use std::io;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

use super::outage::Backoff;
use super::process::{CapturedOutput, Environment, Outputs, Running};
use super::{Plan, Shared};
use crate::client::ClientError;
use crate::text;

/// A slot checks this often for Ctrl-C and for a broken connection.
pub(super) const TICK: Duration = Duration::from_millis(200);

/// A slot's connection to the server, which takes and settles jobs. Each protocol implements this
/// trait.
pub(super) trait Side: Default + Send {
    /// A taken job.
    type Job;

    /// Connects, and prepares the connection for takes.
    fn connect(&mut self, plan: &Plan) -> Result<(), ClientError>;

    /// True if there is a connection. It may be broken, if the slot has not noticed it yet.
    fn is_connected(&self) -> bool;

    /// Closes the connection. The server then makes the jobs of this connection ready again.
    fn hang_up(&mut self);

    /// Waits for a job. `None` means that no job came for a while, or that the work stops.
    fn take(&mut self, shared: &Shared) -> Result<Option<Self::Job>, ClientError>;

    /// Runs the command for a taken job. An error ends the whole work.
    fn work_on(&mut self, job: Self::Job, shared: &Shared) -> anyhow::Result<()>;
}

/// Takes and runs jobs until the work stops or, with `--drain`, no job is left.
pub(super) fn serve<S: Side>(mut side: S, shared: &Shared) {
    // A new connection does not reset this, because the server may accept connections, but fail
    // again when the slot reports the end of a job.
    let mut backoff = Backoff::default();
    while !shared.is_stopping() {
        let requested_at = Instant::now();
        let taken = connected(&mut side, shared).and_then(|()| side.take(shared));
        match taken {
            Ok(Some(job)) => {
                shared.busy.fetch_add(1, Ordering::SeqCst);
                if let Err(error) = side.work_on(job, shared) {
                    shared.fail(error);
                }
                shared.busy.fetch_sub(1, Ordering::SeqCst);
                if side.is_connected() {
                    backoff.reset();
                } else {
                    // The job's end did not reach the server. The server will hand out the job
                    // again, and the report can fail again. So wait.
                    rest(backoff.next(), shared);
                }
            }
            Ok(None) if shared.plan.drain && shared.is_drained(requested_at) => return,
            Ok(None) => backoff.reset(),
            Err(error) if error.is_disconnect() => {
                side.hang_up();
                shared.note_outage(&error);
                shared.give_up_when_due();
                rest(backoff.next(), shared);
            }
            Err(error) => shared.fail(error.into()),
        }
    }
}

fn connected<S: Side>(side: &mut S, shared: &Shared) -> Result<(), ClientError> {
    if !side.is_connected() {
        side.connect(&shared.plan)?;
        shared.note_connected();
    }
    Ok(())
}

/// Waits for this time, or until the work stops.
pub(super) fn rest(time: Duration, shared: &Shared) {
    let wake = Instant::now() + time;
    while !shared.is_stopping() && Instant::now() < wake {
        thread::sleep(TICK.min(wake.saturating_duration_since(Instant::now())));
    }
}

/// How a wait for the server ended.
pub(super) enum Waited<T> {
    /// The server sent this.
    For(T),
    /// The server sent nothing in time.
    InVain,
    /// The work stops.
    Stopping,
}

/// Waits until the server sends something, at most for `time`, or until the work stops. `receive`
/// waits at most for the time that it gets.
pub(super) fn wait_for<T>(
    time: Duration,
    shared: &Shared,
    mut receive: impl FnMut(Duration) -> Result<Option<T>, ClientError>,
) -> Result<Waited<T>, ClientError> {
    let ends = Instant::now() + time;
    loop {
        let received = receive(TICK)?;
        if shared.is_stopping() {
            return Ok(Waited::Stopping);
        }
        match received {
            Some(received) => return Ok(Waited::For(received)),
            None if Instant::now() > ends => return Ok(Waited::InVain),
            None => {}
        }
    }
}

/// How a command ended.
pub(super) enum Ending {
    Exited(ExitStatus),
    /// We stopped it, because it ran longer than this.
    TimedOut(Duration),
    /// We stopped it, because the user pressed Ctrl-C twice.
    Interrupted,
    /// We stopped it, because the job is no longer ours.
    JobLost,
}

/// Runs the command for a job to its end, and stops it if necessary.
///
/// `attend` gets the command's output, and renews the job's lease. It returns the time until it
/// must be called again, or `None` if the job is no longer ours.
pub(super) fn run_command(
    environment: &Environment,
    body: Vec<u8>,
    outputs: Outputs,
    shared: &Shared,
    attend: impl FnMut(CapturedOutput) -> Option<Duration>,
) -> anyhow::Result<Ending> {
    let command = &shared.plan.command;
    // Count the command before its start, so that the Ctrl-C handler never sees too few running
    // commands.
    shared.running.fetch_add(1, Ordering::SeqCst);
    let ending = Running::start(command, environment, body, outputs)
        .map_err(|error| anyhow!("cannot run `{}`: {error}", command[0].display()))
        .and_then(|mut running| {
            supervise(&mut running, shared, attend).context("cannot wait for the command")
        });
    shared.running.fetch_sub(1, Ordering::SeqCst);
    ending
}

fn supervise(
    running: &mut Running,
    shared: &Shared,
    mut attend: impl FnMut(CapturedOutput) -> Option<Duration>,
) -> io::Result<Ending> {
    let started = Instant::now();
    let mut idle = Duration::ZERO;
    let mut stopped: Option<(Ending, Instant)> = None;
    loop {
        let mut output = CapturedOutput::default();
        let tick = TICK.min(idle).max(Duration::from_millis(1));
        let status = running.listen(tick, &mut output)?;
        let attended = attend(output);
        if let Some(status) = status {
            return Ok(stopped.map_or(Ending::Exited(status), |(ending, _)| ending));
        }
        idle = attended.unwrap_or(Duration::MAX);
        if let Some((_, kill_at)) = &stopped {
            if Instant::now() >= *kill_at || shared.interrupts.count() > 2 {
                running.kill();
            }
            continue;
        }
        let reason = if attended.is_none() {
            Ending::JobLost
        } else if shared.insists() {
            Ending::Interrupted
        } else if let Some(timeout) = shared.plan.timeout.filter(|time| started.elapsed() >= *time)
        {
            Ending::TimedOut(timeout)
        } else {
            continue;
        };
        running.terminate();
        stopped = Some((reason, Instant::now() + shared.plan.grace));
    }
}

/// The text for a message about a command that was stopped at the time limit.
pub(super) fn describe_timeout(timeout: Duration) -> String {
    format!("stopped after {} (--timeout)", text::seconds(timeout.as_secs()))
}

/// Adds one to a counter of jobs.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
