//! Requests of clients: submit a job, get its status.

use broker::{
    Answer, Body, KeptResult, Millis, NotFound, Outbox, PutRefusal, Submit, Turn, When,
    WorkProgress,
};

use crate::handle::HANDLE_BYTES_MAX;
use crate::number::leading_integer;
use crate::packet::{Arguments, Header, PacketType};
use crate::reply::{self, AT_ONCE, not_submitted};
use crate::session::{Postponed, Session};

/// Gearman's three priorities, as priorities of the engine. [`broker::Band`] is the opposite
/// mapping. Normal is what a submit has that asks for no priority.
pub(crate) const HIGH: Option<u32> = Some(512);
pub(crate) const NORMAL: Option<u32> = None;
pub(crate) const LOW: Option<u32> = Some(3 << 30);

/// Longest key or reducer of a job, in bytes (spec gearman 1.2).
pub(crate) const UNIQUE_BYTES_MAX: usize = 64;

/// Longest key in a status request, in bytes.
const UNIQUE_ASKED_BYTES_MAX: usize = 63;

/// The end of the year 9999. The server replaces a later due time with this time, because a much
/// later time could look like "never".
const DUE_MAX: Millis = Millis(253_402_300_799_000);

/// Whether the client waits for the outcome of the job.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum SubmitMode {
    Foreground,
    Background,
}

impl Session {
    /// Handles the common kinds of submits. Their arguments are function, key and workload. A workload
    /// that is `large` is not among the arguments.
    pub(crate) fn submit(
        &mut self,
        priority: Option<u32>,
        manner: SubmitMode,
        arguments: &Arguments<'_>,
        large: Option<Body>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        let [function, unique, workload, ..] = *arguments;
        let submit = Submit {
            priority,
            due: None,
            unique,
            reducer: b"",
            body: large.unwrap_or_else(|| Body::from(workload)),
            foreground: manner == SubmitMode::Foreground,
        };
        self.submit_job(function, submit, turn, outbox);
    }

    /// Submits a job with a due time. If the time is in the past or is not a number, the job is
    /// ready now. If the time needs more than 64 bits, the server ignores the packet.
    pub(crate) fn submit_epoch(
        &mut self,
        arguments: &Arguments<'_>,
        large: Option<Body>,
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
            body: large.unwrap_or_else(|| Body::from(workload)),
            foreground: false,
        };
        self.submit_job(function, submit, turn, outbox);
    }

    /// Submits a job with a reducer. The server ignores the fourth argument, which no client uses.
    pub(crate) fn submit_reduce(
        &mut self,
        manner: SubmitMode,
        arguments: &Arguments<'_>,
        large: Option<Body>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        let [function, unique, reducer, _, workload, ..] = *arguments;
        let submit = Submit {
            priority: NORMAL,
            due: None,
            unique,
            reducer,
            body: large.unwrap_or_else(|| Body::from(workload)),
            foreground: manner == SubmitMode::Foreground,
        };
        self.submit_job(function, submit, turn, outbox);
    }

    /// Whether a packet can be executed now. If it has a key, the job with this key must be in memory.
    pub(crate) fn is_key_at_hand(
        &self,
        header: Header,
        arguments: &Arguments<'_>,
        turn: &mut Turn<'_>,
    ) -> bool {
        let [first, second, ..] = *arguments;
        let (function, unique) = match header.kind {
            PacketType::GetStatusUnique => (None, first),
            _ if header.is_submit() => (Some(first), second),
            _ => return true,
        };
        turn.caller(self.id).is_key_at_hand(function, unique)
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
        if self.lacks_workload {
            return reply::fail(outbox, AT_ONCE, not_submitted(PutRefusal::MemoryFull));
        }
        let Submit { body, unique, .. } = &submit;
        if turn.caller(self.id).must_wait_for_room(Some(function), body, unique) {
            self.waits_for_room = true;
            return;
        }
        let Answer { value, after } = turn.caller(self.id).submit(function, submit);
        match value {
            Ok(id) => {
                let handle = self.server.prefix.handle(id);
                reply::send(outbox, after, PacketType::JobCreated, &[&handle]);
            }
            Err(refusal) => reply::fail(outbox, after, not_submitted(refusal)),
        }
    }

    pub(crate) fn get_status(&mut self, handle: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        // COMPAT(gearmand): the server does not reply if the handle is too long; case
        // get-status-of-a-long-handle-is-not-answered.
        if handle.len() > HANDLE_BYTES_MAX {
            return;
        }
        let progress = match self.server.prefix.parse(handle) {
            Some(id) if !turn.caller(self.id).is_job_at_hand(id) => {
                self.postponed = Some(Postponed::Status(handle.into()));
                return;
            }
            Some(id) => turn.work_progress(id),
            None => Answer::at_once(Err(NotFound)),
        };
        let kept = self.server.prefix.parse(handle).and_then(|id| turn.kept_result(id));
        let [known, running, numerator, denominator, _] = figures(progress.value, kept);
        let arguments = [handle, &known, &running, &numerator, &denominator];
        reply::send(outbox, progress.after, PacketType::StatusRes, &arguments);
    }
}

/// Handles `GET_STATUS_UNIQUE`. The key can belong to a job of any function.
pub(crate) fn get_status_unique(unique: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
    // COMPAT(gearmand): the server does not reply if the key is too long. The limit is one byte
    // lower than the limit for a submit; case get-status-unique-of-a-long-key-is-not-answered.
    if unique.len() > UNIQUE_ASKED_BYTES_MAX {
        return;
    }
    let found = turn.find_key(unique);
    let progress = match found.value {
        Ok(id) => turn.work_progress(id),
        Err(NotFound) => Answer::new(Err(NotFound), found.after),
    };
    let kept = turn.kept_result_with_key(unique);
    let [known, running, numerator, denominator, clients] = figures(progress.value, kept);
    let arguments = [unique, &known, &running, &numerator, &denominator, &clients];
    reply::send(outbox, progress.after, PacketType::StatusResUnique, &arguments);
}

/// The fields of a status packet: known, running, numerator, denominator and clients. If the job is
/// unknown, all fields are zero. If its outcome is kept, it is still unknown, because clients ask until
/// a job is no longer known: but it has its last progress.
fn figures(progress: Result<WorkProgress, NotFound>, kept: Option<&KeptResult>) -> [Vec<u8>; 5] {
    let ended = || {
        let (numerator, denominator) =
            kept.map_or((0, 0), |kept| (kept.numerator, kept.denominator));
        [0, 0, numerator.into(), denominator.into(), 0]
    };
    let known = |progress: WorkProgress| {
        let WorkProgress { running, numerator, denominator, watchers } = progress;
        [1, u64::from(running), numerator.into(), denominator.into(), watchers as u64]
    };
    let numbers = progress.map_or_else(|NotFound| ended(), known);
    numbers.map(|number| number.to_string().into_bytes())
}
