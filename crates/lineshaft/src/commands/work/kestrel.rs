//! Items of Kestrel's queues. The worker opens an item, and closes it when the command is done.
//!
//! An open item belongs to the connection. If the connection breaks, or the worker is killed, the
//! server gives the item to another worker. So this worker then stops the command.

use std::time::{Duration, Instant};

use super::process::{Environment, Outputs, describe};
use super::slot::{
    Ending, Side, TICK, Waited, count, describe_timeout, rest, run_command, wait_for,
};
use super::{Plan, Shared, say};
use crate::client::kestrel::{Client, Reply, check_name, unexpected};
use crate::client::{CONNECT_TIMEOUT, ClientError, PATIENCE, no_answer};
use crate::text;

/// Time limit of one read. A read can wait for only one queue.
const READ_MS: u64 = 30_000;
/// Time limit of one read if the worker must look at several queues, or ends when all are empty.
const SHORT_READ_MS: u64 = 250;
/// The wait after a failed command. Its item is the next one again.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// The connection of one slot.
#[derive(Debug, Default)]
pub(super) struct KestrelSide {
    client: Option<Client>,
    /// Reads that found no item, one after the other.
    empty_reads: usize,
}

/// An open item.
#[derive(Debug)]
pub(super) struct Item {
    queue: String,
    body: Vec<u8>,
}

impl Side for KestrelSide {
    type Job = Item;

    fn connect(&mut self, plan: &Plan) -> Result<(), ClientError> {
        for queue in &plan.queues {
            check_name(queue)?;
        }
        self.client = Some(Client::connect(&plan.target, Some(CONNECT_TIMEOUT))?);
        Ok(())
    }

    fn is_connected(&self) -> bool {
        self.client.is_some()
    }

    fn hang_up(&mut self) {
        self.client = None;
    }

    fn take(&mut self, shared: &Shared) -> Result<Option<Item>, ClientError> {
        let queues = &shared.plan.queues;
        // After an item, the first queue comes first again. Only when all are empty, a read waits.
        let queue = &queues[self.empty_reads % queues.len()];
        let wait_ms = if self.empty_reads < queues.len() {
            0
        } else if shared.plan.drain || queues.len() > 1 {
            SHORT_READ_MS
        } else {
            READ_MS
        };
        let options = if wait_ms == 0 { "open".to_owned() } else { format!("open/t={wait_ms}") };
        let Some(client) = self.client.as_mut() else { return Ok(None) };
        client.send_get(queue, &options)?;
        let patience = Duration::from_millis(wait_ms) + PATIENCE;
        match wait_for(patience, shared, |tick| client.reply_within(tick))? {
            Waited::For(Reply::Value(body)) => {
                self.empty_reads = 0;
                Ok(Some(Item { queue: queue.clone(), body }))
            }
            Waited::For(Reply::End) => {
                self.empty_reads += 1;
                // With `--drain`, no item means that all queues are empty.
                if self.empty_reads < queues.len() { self.take(shared) } else { Ok(None) }
            }
            Waited::For(reply) => Err(unexpected(&format!("get {queue}/{options}"), &reply)),
            Waited::InVain => Err(no_answer()),
            Waited::Stopping => {
                // A disconnect ends the wait at the server. If the server has just sent an item, the
                // disconnect gives the item back.
                self.client = None;
                Ok(None)
            }
        }
    }

    fn work_on(&mut self, item: Item, shared: &Shared) -> anyhow::Result<()> {
        let started = Instant::now();
        let Item { queue, body } = item;
        let environment =
            Environment { job_id: String::new(), queue: queue.clone(), others: Vec::new() };
        let ending = run_command(&environment, body, Outputs::Shown, shared, |_said| {
            let is_open = self.client.as_mut().is_some_and(|client| client.check_open().is_ok());
            is_open.then_some(TICK)
        });
        if ending.is_err() {
            self.hang_up();
        }
        match ending? {
            Ending::Exited(status) if status.success() => self.finish(&queue, started, shared),
            Ending::Exited(status) => self.give_back(&queue, &describe(status), shared),
            Ending::TimedOut(timeout) => self.give_back(&queue, &describe_timeout(timeout), shared),
            Ending::Interrupted => {
                self.hang_up();
                count(&shared.totals.given_back);
                say(&format!("item of {queue}: stopped and given back"));
            }
            Ending::JobLost => {
                self.hang_up();
                count(&shared.totals.lost);
                say(&format!("item of {queue}: the connection broke; command stopped"));
            }
        }
        Ok(())
    }
}

impl KestrelSide {
    fn finish(&mut self, queue: &str, started: Instant, shared: &Shared) {
        match self.end(|client| client.close(queue)) {
            Ok(()) => {
                count(&shared.totals.done);
                if shared.plan.verbose {
                    say(&format!("item of {queue}: done in {}", text::elapsed(started.elapsed())));
                }
            }
            Err(error) => {
                self.hang_up();
                count(&shared.totals.lost);
                say(&format!("item of {queue}: done, but {error}: it may run once more"));
            }
        }
    }

    /// Gives the item back after a failure. It is the next item of the queue again, so this waits
    /// before the next read.
    fn give_back(&mut self, queue: &str, failure: &str, shared: &Shared) {
        // A broken connection gives the item back, too.
        if self.end(|client| client.abort(queue)).is_err() {
            self.hang_up();
        }
        count(&shared.totals.given_back);
        say(&format!("item of {queue}: {failure}; given back"));
        rest(FAILURE_PAUSE, shared);
    }

    fn end(
        &mut self,
        end: impl FnOnce(&mut Client) -> Result<(), ClientError>,
    ) -> Result<(), ClientError> {
        self.client.as_mut().map_or(Err(ClientError::Closed), end)
    }
}
