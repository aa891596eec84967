//! Requests of clients: submit a job, ask for its status.

use broker::{Body, Denied, Millis, Outbox, Position, Submit, Turn, When, WorkProgress};

use crate::handle::HANDLE_BYTES_MAX;
use crate::number::leading_integer;
use crate::packet::{Arguments, PacketType};
use crate::reply::{self, AT_ONCE, not_submitted};
use crate::session::Session;

/// Gearman's three priorities on the scale of all dialects. [`broker::Band`] maps them back.
pub(crate) const HIGH: u32 = 512;
pub(crate) const NORMAL: u32 = 1024;
pub(crate) const LOW: u32 = 3 << 30;

/// Longest key or reducer of a job (spec gearman 1.2).
pub(crate) const UNIQUE_BYTES_MAX: usize = 64;

/// Longest key in a status request.
const UNIQUE_ASKED_BYTES_MAX: usize = 63;

/// The end of the year 9999. A later time is capped to this, so that it cannot be taken for
/// "never".
const DUE_MAX: Millis = Millis(253_402_300_799_000);

/// Whether the client waits for the outcome.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum SubmitMode {
    Foreground,
    Background,
}

impl Session {
    /// Handles the plain kinds, whose arguments are function, key and workload.
    pub(crate) fn submit(
        &mut self,
        priority: u32,
        manner: SubmitMode,
        arguments: &Arguments<'_>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        let [function, unique, workload, ..] = *arguments;
        let submit = Submit {
            priority,
            due: None,
            unique,
            reducer: b"",
            body: Body::from(workload),
            foreground: manner == SubmitMode::Foreground,
        };
        self.submit_job(function, submit, turn, outbox);
    }

    /// A time in the past, or an unreadable one, means now. A time beyond 64 bits gets no reply and
    /// no job.
    pub(crate) fn submit_epoch(
        &mut self,
        arguments: &Arguments<'_>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        let [function, unique, seconds, workload, ..] = *arguments;
        let Ok(seconds) = i64::try_from(leading_integer(seconds)) else { return };
        let wall = Millis(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)).min(DUE_MAX);
        let submit = Submit {
            priority: NORMAL,
            due: Some(When::Wall(wall)),
            unique,
            reducer: b"",
            body: Body::from(workload),
            foreground: false,
        };
        self.submit_job(function, submit, turn, outbox);
    }

    /// The fourth argument, which no client uses, is ignored.
    pub(crate) fn submit_reduce(
        &mut self,
        manner: SubmitMode,
        arguments: &Arguments<'_>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        let [function, unique, reducer, _, workload, ..] = *arguments;
        let submit = Submit {
            priority: NORMAL,
            due: None,
            unique,
            reducer,
            body: Body::from(workload),
            foreground: manner == SubmitMode::Foreground,
        };
        self.submit_job(function, submit, turn, outbox);
    }

    fn submit_job(
        &mut self,
        function: &[u8],
        submit: Submit<'_>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        if submit.unique.len() > UNIQUE_BYTES_MAX || submit.reducer.len() > UNIQUE_BYTES_MAX {
            return reply::fail(outbox, AT_ONCE, reply::UNIQUE_TOO_LARGE);
        }
        match turn.submit(self.id, function, submit) {
            Ok((id, after)) => {
                let handle = self.server.prefix.handle(id);
                reply::send(outbox, after, PacketType::JobCreated, &[&handle]);
            }
            Err(refusal) => {
                let (after, failure) = not_submitted(refusal);
                reply::fail(outbox, after, failure);
            }
        }
    }

    pub(crate) fn get_status(&mut self, handle: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        // COMPAT(gearmand): no reply to a handle that is too long; case
        // get-status-of-a-long-handle-is-not-answered.
        if handle.len() > HANDLE_BYTES_MAX {
            return;
        }
        let work_progress = match self.server.prefix.parse(handle) {
            Some(id) => turn.work_progress(id).map_err(|Denied(after)| after),
            None => Err(AT_ONCE),
        };
        let (after, [known, running, numerator, denominator, _]) = figures(work_progress);
        let arguments = [handle, &known, &running, &numerator, &denominator];
        reply::send(outbox, after, PacketType::StatusRes, &arguments);
    }
}

/// `GET_STATUS_UNIQUE`: any job with this key, whatever its function.
pub(crate) fn get_status_unique(unique: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
    // COMPAT(gearmand): no reply, although the key of a submit can be one byte longer; case
    // get-status-unique-of-a-long-key-is-not-answered.
    if unique.len() > UNIQUE_ASKED_BYTES_MAX {
        return;
    }
    let work_progress = turn.find_key(unique).and_then(|id| turn.work_progress(id));
    let work_progress = work_progress.map_err(|Denied(after)| after);
    let (after, [known, running, numerator, denominator, clients]) = figures(work_progress);
    let arguments = [unique, &known, &running, &numerator, &denominator, &clients];
    reply::send(outbox, after, PacketType::StatusResUnique, &arguments);
}

/// The fields of a status packet: known, running, numerator, denominator and clients. All zeros, at
/// the given position, if the job is unknown.
fn figures(work_progress: Result<(WorkProgress, Position), Position>) -> (Position, [Vec<u8>; 5]) {
    let text = |number: u64| number.to_string().into_bytes();
    match work_progress {
        Ok((WorkProgress { running, numerator, denominator, watchers }, after)) => {
            let running = u64::from(running);
            let numbers = [1, running, numerator.into(), denominator.into(), watchers as u64];
            (after, numbers.map(text))
        }
        Err(after) => (after, [0; 5].map(text)),
    }
}
