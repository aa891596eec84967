//! Jobs of Gearman functions. The command's standard output is the job's result. The command's
//! standard error becomes warnings and progress.
//!
//! The lease of a job belongs to the connection. If the connection breaks, the server gives the job
//! to another worker, and this worker cannot get it back. So this worker stops the command.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use super::process::{CapturedOutput, Environment, Outputs, describe};
use super::report::{Message, Report};
use super::slot::{Ending, Side, TICK, Waited, count, describe_timeout, run_command, wait_for};
use super::{Plan, Shared, say};
use crate::client::gearman::{Assignment, Client, Handle, Packet, Request, unexpected};
use crate::client::{CONNECT_TIMEOUT, ClientError, PATIENCE, no_answer};
use crate::text;

/// Time limit of a sleep. The grab after a sleep shows whether the network is dead.
const SLEEP: Duration = Duration::from_mins(1);

/// Time limit of a sleep with `--drain`, while other slots still work.
const DRAINING_SLEEP: Duration = Duration::from_secs(1);

/// The reason in the message when the server refuses the end of a job.
const GIVEN_AWAY: &str = "the server had dropped it or given it to another worker";

/// The connection of one slot.
#[derive(Debug, Default)]
pub(super) struct GearmanSide {
    client: Option<Client>,
    /// True if the last grab found no job. Only `--drain` uses it.
    found_nothing: bool,
}

/// A job with a running command.
#[derive(Debug)]
struct Work {
    handle: Handle,
    function: String,
    report: Report,
    /// True if the server says that the job is no longer ours.
    is_lost: bool,
}

impl Side for GearmanSide {
    type Job = Assignment;

    fn connect(&mut self, plan: &Plan) -> Result<(), ClientError> {
        let mut client = Client::connect(&plan.target, Some(CONNECT_TIMEOUT))?;
        let name = format!("lineshaft-work-{}", std::process::id());
        client.add(Request::SetClientId, &[name.as_bytes()])?;
        // The server prefers the function that was registered last. So register the first queue
        // last.
        for function in plan.queues.iter().rev() {
            client.add(Request::CanDo, &[function.as_bytes()])?;
        }
        self.client = Some(client);
        Ok(())
    }

    fn is_connected(&self) -> bool {
        self.client.is_some()
    }

    fn hang_up(&mut self) {
        self.client = None;
    }

    fn take(&mut self, shared: &Shared) -> Result<Option<Assignment>, ClientError> {
        let Some(client) = self.client.as_mut() else { return Ok(None) };
        client.add(Request::GrabJobAll, &[])?;
        client.flush()?;
        let answer = wait_for(PATIENCE, shared, |tick| {
            let packet = client.packet_within(tick)?;
            Ok(packet.filter(|packet| *packet != Packet::Noop))
        });
        let pause = match answer? {
            Waited::For(Packet::Assigned(job)) => {
                self.found_nothing = false;
                return Ok(Some(job));
            }
            // The server may have just sent a job. The disconnect gives this job back.
            Waited::Stopping => {
                self.hang_up();
                return Ok(None);
            }
            Waited::For(Packet::NoJob) if shared.plan.drain => {
                if !std::mem::replace(&mut self.found_nothing, true) {
                    return Ok(None);
                }
                DRAINING_SLEEP
            }
            Waited::For(Packet::NoJob) => SLEEP,
            Waited::For(packet) => return Err(unexpected("GRAB_JOB_ALL", &packet)),
            Waited::InVain => return Err(no_answer()),
        };
        client.add(Request::PreSleep, &[])?;
        client.flush()?;
        if let Waited::Stopping = wait_for(pause, shared, |tick| client.packet_within(tick))? {
            self.hang_up();
        }
        Ok(None)
    }

    fn work_on(&mut self, job: Assignment, shared: &Shared) -> anyhow::Result<()> {
        let started = Instant::now();
        let environment = Environment {
            job_id: job.handle.to_string(),
            queue: job.function.clone(),
            others: vec![("LINESHAFT_UNIQUE", job.unique), ("LINESHAFT_REDUCER", job.reducer)],
        };
        let mut work = Work {
            handle: job.handle,
            function: job.function,
            report: Report::default(),
            is_lost: false,
        };
        let ending = run_command(&environment, job.body, Outputs::Captured, shared, |output| {
            self.attend(&mut work, output);
            (!work.is_lost).then_some(TICK)
        });
        if ending.is_err() {
            self.hang_up();
        }
        match ending? {
            Ending::Exited(status) => {
                let failure = (!status.success()).then(|| describe(status));
                self.settle(work, failure, started, shared);
            }
            Ending::TimedOut(timeout) => {
                self.settle(work, Some(describe_timeout(timeout)), started, shared);
            }
            Ending::Interrupted => {
                self.hang_up();
                count(&shared.totals.given_back);
                work.say("stopped and given back");
            }
            Ending::JobLost => {
                // Disconnect, so that the server also ends our lease if it still counts the job as
                // ours.
                self.hang_up();
                count(&shared.totals.lost);
                work.say("dropped or given to another worker; command stopped");
            }
        }
        Ok(())
    }
}

impl GearmanSide {
    /// Sends the command's output to the job's client, and checks whether the job is still ours.
    fn attend(&mut self, work: &mut Work, output: CapturedOutput) {
        let messages = work.report.take_output(output);
        let Some(client) = self.client.as_mut() else { return };
        let outcome = work.send_messages(messages, client).and_then(|()| {
            while let Some(packet) = client.packet_if_there()? {
                work.is_lost |= matches!(packet, Packet::Error { .. });
            }
            Ok(())
        });
        if let Err(error) = outcome {
            work.is_lost = true;
            work.say(&format!("{error}; stopping its command"));
            self.hang_up();
        }
    }

    /// Reports the end of the job, and checks that the server accepted it. `failure` has the reason
    /// if the job failed.
    fn settle(
        &mut self,
        mut work: Work,
        failure: Option<String>,
        started: Instant,
        shared: &Shared,
    ) {
        let last = work.report.end_of_line();
        let is_done = failure.is_none();
        let end = failure.map_or_else(|| "done".to_owned(), |failure| format!("{failure}; failed"));
        let outcome = match self.client.as_mut() {
            Some(client) if !work.is_lost => work
                .send_messages(last.into_iter().collect(), client)
                .and_then(|()| work.report_end(is_done, client)),
            _ => Ok(Err(GIVEN_AWAY)),
        };
        let reason = match outcome {
            Ok(Ok(())) => {
                let totals = &shared.totals;
                count(if is_done { &totals.done } else { &totals.failed });
                if !is_done {
                    work.say(&end);
                } else if shared.plan.verbose {
                    work.say(&format!("done in {}", text::elapsed(started.elapsed())));
                }
                return;
            }
            Ok(Err(reason)) => reason,
            Err(error) if error.is_disconnect() => "could not report it to the server",
            Err(error) => return shared.fail(error.into()),
        };
        // Disconnect, so that the server also ends our lease if it still counts the job as ours.
        self.hang_up();
        count(&shared.totals.lost);
        work.say(&format!("{end}, but {reason}: it may run once more"));
    }
}

impl Work {
    /// Sends messages to the job's client. Also prints warnings on the worker's own terminal.
    fn send_messages(
        &self,
        messages: Vec<Message>,
        client: &mut Client,
    ) -> Result<(), ClientError> {
        let handle = self.handle.bytes();
        for message in messages {
            match message {
                Message::Data(data) => client.add(Request::WorkData, &[handle, &data])?,
                Message::Warning(line) => {
                    // The write fails if the terminal is gone. The job must continue.
                    let _ = io::stderr().write_all(&line);
                    client.add(Request::WorkWarning, &[handle, &line])?;
                }
                Message::Progress(done, of) => {
                    let [done, of] = [done, of].map(|number| number.to_string());
                    let arguments = [handle, done.as_bytes(), of.as_bytes()];
                    client.add(Request::WorkStatus, &arguments)?;
                }
            }
        }
        client.flush()
    }

    /// Reports the end of the job. `Ok(Err(_))` means that the server refused the report.
    fn report_end(
        &mut self,
        is_done: bool,
        client: &mut Client,
    ) -> Result<Result<(), &'static str>, ClientError> {
        let handle = self.handle.bytes();
        if is_done {
            let result = std::mem::take(&mut self.report).into_result();
            client.add(Request::WorkComplete, &[handle, &result])?;
        } else {
            client.add(Request::WorkFail, &[handle])?;
        }
        let errors = client.errors_so_far()?;
        Ok(match errors.first().map(String::as_str) {
            None => Ok(()),
            Some("JOB_NOT_FOUND") => Err(GIVEN_AWAY),
            Some(_) => Err("the server refused that"),
        })
    }

    fn say(&self, what: &str) {
        say(&format!("job {} of {}: {what}", self.handle, self.function));
    }
}
