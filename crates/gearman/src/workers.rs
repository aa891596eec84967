//! Requests of workers: register functions, take a job, report its outcome.

use broker::limits::UNIT_BODY_BYTES;
use broker::{Answer, Assignment, Body, JobId, Need, News, Outbox, Refusal, Turn};

use crate::handle::HANDLE_BYTES_MAX;
use crate::number::{leading_integer, wrapped};
use crate::packet::{Arguments, PacketType};
use crate::reply::{self, AT_ONCE, Failure};
use crate::session::{Postponed, Session};

/// The server stores this many bytes of a client id, and ignores further bytes.
const CLIENT_ID_BYTES_MAX: usize = 127;

/// Length of the longest accepted text of a time limit, in bytes.
const LIMIT_BYTES_MAX: usize = 20;

/// The server parses this many bytes of a denominator, and ignores further bytes. Clients get the
/// whole text.
// COMPAT(gearmand): case work-status-denominator-is-read-up-to-ten-characters.
const DENOMINATOR_BYTES_READ: usize = 10;

impl Session {
    pub(crate) fn can_do(&mut self, function: &[u8], turn: &mut Turn<'_>) {
        self.register(function, None, turn);
    }

    /// Registers a function, if the limits allow it. `CAN_DO` has no reply, so only the metrics
    /// show a refused registration.
    fn register(&mut self, function: &[u8], limit_ms: Option<u64>, turn: &mut Turn<'_>) {
        if turn.caller(self.id).admits_worker(function) {
            turn.caller(self.id).register(function, limit_ms);
        }
    }

    /// Registers a function with a time limit. Ignores the packet if the limit has more than 20
    /// digits, or is too large for any clock. In this case, the server does not register the
    /// function without a limit, because the worker has requested a limit.
    pub(crate) fn can_do_timeout(
        &mut self,
        function: &[u8],
        milliseconds: &[u8],
        turn: &mut Turn<'_>,
    ) {
        if milliseconds.len() > LIMIT_BYTES_MAX {
            return;
        }
        if let Ok(limit_ms) = u64::try_from(leading_integer(milliseconds).max(0)) {
            self.register(function, Some(limit_ms).filter(|limit_ms| *limit_ms > 0), turn);
        }
    }

    pub(crate) fn set_client_id(&mut self, client_id: &[u8]) {
        let kept = &client_id[..client_id.len().min(CLIENT_ID_BYTES_MAX)];
        self.server.set_client_id(self.number, kept);
    }

    pub(crate) fn pre_sleep(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let mut caller = turn.caller(self.id);
        if !caller.is_at_hand(Need::Sleep) {
            self.postponed = Some(Postponed::Sleep);
            return;
        }
        let sleeps = caller.sleep();
        if !sleeps {
            reply::send(outbox, AT_ONCE, PacketType::Noop, &[]);
        }
    }

    pub(crate) fn grab(&mut self, kind: PacketType, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let order = self.server.grab_order();
        let mut caller = turn.caller(self.id);
        if !caller.is_at_hand(Need::Registered) {
            self.postponed = Some(Postponed::Grab(kind));
            return;
        }
        let Answer { value, after } = caller.take_registered(order);
        let Some(Assignment { handout, queue, tags }) = value else {
            return reply::send(outbox, after, PacketType::NoJob, &[]);
        };
        let handle = &self.server.prefix.handle(handout.id)[..];
        let (assign, arguments): (_, &[&[u8]]) = match kind {
            PacketType::GrabJobAll if !tags.reducer.is_empty() => {
                (PacketType::JobAssignAll, &[handle, queue, tags.unique, tags.reducer])
            }
            PacketType::GrabJobAll | PacketType::GrabJobUniq => {
                (PacketType::JobAssignUniq, &[handle, queue, tags.unique])
            }
            _ => (PacketType::JobAssign, &[handle, queue]),
        };
        reply::send_data(outbox, after, assign, arguments, &handout.body);
    }

    pub(crate) fn work_data(
        &mut self,
        handle: &[u8],
        data: &[u8],
        large: Option<Body>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        self.for_job(handle, reply::NO_SUCH_JOB, outbox, |id| {
            let news = News::Data(body_of(data, large, turn));
            turn.caller(self.id).report(id, &news)
        });
    }

    pub(crate) fn work_warning(
        &mut self,
        handle: &[u8],
        data: &[u8],
        large: Option<Body>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        self.for_job(handle, reply::NO_SUCH_JOB, outbox, |id| {
            let news = News::Warning(body_of(data, large, turn));
            turn.caller(self.id).report(id, &news)
        });
    }

    /// Reports the progress of a job. Clients get the worker's text unchanged. The server parses
    /// the numbers in the text for status requests.
    pub(crate) fn work_status(
        &mut self,
        arguments: &Arguments<'_>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        let [handle, numerator, denominator, ..] = *arguments;
        let read = &denominator[..denominator.len().min(DENOMINATOR_BYTES_READ)];
        let progress = (wrapped(numerator), wrapped(read));
        let words = Body::from([numerator, denominator].join(&0));
        self.for_job(handle, reply::NO_JOB_FOR_RESULT, outbox, |id| {
            turn.caller(self.id).progress(id, progress, &words)
        });
    }

    pub(crate) fn work_complete(
        &mut self,
        handle: &[u8],
        result: &[u8],
        large: Option<Body>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        self.for_job(handle, reply::NO_JOB_FOR_RESULT, outbox, |id| {
            let news = News::Complete(body_of(result, large, turn));
            turn.caller(self.id).complete(id, &news)
        });
    }

    pub(crate) fn work_fail(&mut self, handle: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if handle.len() > HANDLE_BYTES_MAX {
            return reply::fail(outbox, AT_ONCE, reply::HANDLE_TOO_LARGE);
        }
        self.for_job(handle, reply::NO_JOB_FOR_RESULT, outbox, |id| {
            turn.caller(self.id).fail(id, &News::Fail)
        });
    }

    /// Reports an exception, which ends the job. So a later `WORK_FAIL` does not find the job.
    pub(crate) fn work_exception(
        &mut self,
        handle: &[u8],
        data: &[u8],
        large: Option<Body>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        self.for_job(handle, reply::NO_JOB_FOR_EXCEPTION, outbox, |id| {
            let news = News::Exception(body_of(data, large, turn));
            turn.caller(self.id).fail(id, &news)
        });
    }

    /// Applies `act` to the job with this handle. Replies only if `act` is refused.
    fn for_job<E: Into<Refusal>>(
        &self,
        handle: &[u8],
        denial: Failure,
        outbox: &mut Outbox,
        act: impl FnOnce(JobId) -> Answer<Result<(), E>>,
    ) {
        let Some(id) = self.server.prefix.parse(handle) else {
            return reply::fail(outbox, AT_ONCE, denial);
        };
        let Answer { value, after } = act(id);
        match value.map_err(Into::into) {
            Ok(()) => {}
            Err(Refusal::NotFound) => reply::fail(outbox, after, denial),
            // This happens only if a failed job must be buried and the log has no room. Then the
            // worker still holds the job.
            Err(Refusal::LogFull | Refusal::MemoryFull) => {
                reply::fail(outbox, after, reply::QUEUE_ERROR);
            }
        }
    }
}

/// The last argument of a packet as a body. If it is `large`, it is not in `data`, and nothing copies
/// it. Otherwise the copy counts as work.
fn body_of(data: &[u8], large: Option<Body>, turn: &mut Turn<'_>) -> Body {
    large.unwrap_or_else(|| {
        turn.count_work(data.len() / UNIT_BODY_BYTES);
        Body::from(data)
    })
}
