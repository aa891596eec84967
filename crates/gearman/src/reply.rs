//! Packets that the server sends, including errors.

use broker::{JobBody, Outbox, Position, PutRefusal};

use crate::packet::{Header, PacketType};

/// The position of a reply that does not wait for the log.
pub(crate) const AT_ONCE: Position = Position::NONE;

/// The reply to a long drop, if the server stops before the drop ends.
pub(crate) const DROP_INTERRUPTED: &[u8] =
    b"ERR the server stops before the function is dropped\r\n";

/// The code and the text of an ERROR packet. Clients compare these texts, so they must never
/// change.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Failure(&'static str, &'static str);

impl Failure {
    /// The code without the text.
    pub(crate) fn code(self) -> &'static str {
        self.0
    }
}

pub(crate) const INVALID_MAGIC: Failure = Failure("INVALID_MAGIC", "Request magic expected");
pub(crate) const INVALID_COMMAND: Failure = Failure("INVALID_COMMAND", "Command not expected");
pub(crate) const UNIQUE_TOO_LARGE: Failure =
    Failure("ARGUMENT_TOO_LARGE", "Unique value too large");
pub(crate) const HANDLE_TOO_LARGE: Failure = Failure(
    "ARGUMENT_TOO_LARGE",
    "Error occurred due to GEARMAND_JOB_HANDLE_SIZE being too small from snprintf",
);
pub(crate) const QUEUE_FULL: Failure = Failure("QUEUE_ERROR", "Job queue is full");
/// The error if the log has no room. The original sends the same error if its store refuses a job.
pub(crate) const QUEUE_ERROR: Failure = Failure("QUEUE_ERROR", "QUEUE_ERROR");
/// The error if the policy of the function refuses a job with the key of another job. The original has
/// no such policy.
pub(crate) const DUPLICATE: Failure = Failure("QUEUE_ERROR", "Job exists already");
/// The error if the server drains. The original has no such error. Clients show the text.
pub(crate) const DRAINING: Failure = Failure("QUEUE_ERROR", "Server is draining");
pub(crate) const UNKNOWN_OPTION: Failure =
    Failure("UNKNOWN_OPTION", "Server does not recognize given option");
pub(crate) const NO_SUCH_JOB: Failure = Failure("JOB_NOT_FOUND", "Job does not exist on server");
pub(crate) const NO_JOB_FOR_RESULT: Failure =
    Failure("JOB_NOT_FOUND", "Job given in work result not found");
pub(crate) const NO_JOB_FOR_EXCEPTION: Failure =
    Failure("JOB_NOT_FOUND", "An exception was received for a job that does not exist");

/// Replies with an error. The connection stays open.
pub(crate) fn fail(outbox: &mut Outbox, after: Position, failure: Failure) {
    let Failure(code, text) = failure;
    send(outbox, after, PacketType::Error, &[code.as_bytes(), text.as_bytes()]);
}

/// Sends a packet with these arguments.
pub(crate) fn send(outbox: &mut Outbox, after: Position, kind: PacketType, arguments: &[&[u8]]) {
    let separators = arguments.len().saturating_sub(1);
    outbox.reply(after, &Header::reply(kind, total_bytes(arguments) + separators));
    for (index, argument) in arguments.iter().enumerate() {
        if index > 0 {
            outbox.reply(after, b"\0");
        }
        outbox.reply(after, argument);
    }
}

/// Sends a packet with these arguments, and with `data` as the last argument.
pub(crate) fn send_data(
    outbox: &mut Outbox,
    after: Position,
    kind: PacketType,
    arguments: &[&[u8]],
    data: &JobBody,
) {
    let body_bytes = total_bytes(arguments) + arguments.len() + data.len();
    outbox.reply(after, &Header::reply(kind, body_bytes));
    for argument in arguments {
        outbox.reply(after, argument);
        outbox.reply(after, b"\0");
    }
    outbox.reply_with_body(after, b"", data, b"");
}

fn total_bytes(arguments: &[&[u8]]) -> usize {
    arguments.iter().map(|argument| argument.len()).sum()
}

/// The error for a refused job.
pub(crate) fn not_submitted(refusal: PutRefusal) -> Failure {
    match refusal {
        PutRefusal::QueueFull | PutRefusal::JobsFull | PutRefusal::TooBig => QUEUE_FULL,
        PutRefusal::Duplicate => DUPLICATE,
        PutRefusal::LogFull
        | PutRefusal::MemoryFull
        | PutRefusal::NoNewQueue
        | PutRefusal::WritesBlocked => QUEUE_ERROR,
        // The original accepts jobs during a drain, until the last job has ended. Here, all
        // dialects drain in the same way: workers finish the existing jobs, and the server refuses
        // all submits. It also refuses a submit that would join an unfinished job.
        PutRefusal::Draining => DRAINING,
    }
}

/// The part of a text that the original sees. In the original, a text ends at the first NUL.
pub(crate) fn visible(text: &[u8]) -> &[u8] {
    memchr::memchr(0, text).map_or(text, |end| &text[..end])
}
