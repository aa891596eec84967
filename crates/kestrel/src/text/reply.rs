//! Replies of the text dialect.

use broker::{Outbox, Position};

/// Replies with a number.
pub(crate) fn number(outbox: &mut Outbox, after: Position, number: u64) {
    outbox.reply(after, format!("+{number}\n").as_bytes());
}

/// Replies with an error.
pub(crate) fn error(outbox: &mut Outbox, after: Position, text: &[u8]) {
    outbox.reply(after, &[b"-", text, b"\n"].concat());
}
