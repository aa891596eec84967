//! Replies of the server (spec kestrel 1.2).

use broker::{JobBody, Outbox, Position};

pub(crate) const STORED: &[u8] = b"STORED\r\n";
pub(crate) const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
pub(crate) const END: &[u8] = b"END\r\n";
pub(crate) const DELETED: &[u8] = b"DELETED\r\n";
pub(crate) const FLUSHED_ALL: &[u8] = b"Flushed all queues.\r\n";
pub(crate) const RELOADED: &[u8] = b"Reloaded config.\r\n";
pub(crate) const ERROR: &[u8] = b"ERROR\r\n";
pub(crate) const CLIENT_ERROR: &[u8] = b"CLIENT_ERROR\r\n";
/// The error if clients of this listener cannot control the server. The original has no such error,
/// so no client depends on its text.
pub(crate) const NOT_ALLOWED: &[u8] = b"CLIENT_ERROR not allowed here; see kestrel.control\r\n";
pub(crate) const SERVER_ERROR: &[u8] = b"SERVER_ERROR\r\n";

/// Replies with one item.
// COMPAT(kestrel): the reply's flags are always 0. The name in the reply does not contain the
// options of the request; cases mc-flags-not-kept, mc-open-close.
pub(crate) fn item(outbox: &mut Outbox, after: Position, queue: &[u8], body: &JobBody) {
    outbox.reply(after, b"VALUE ");
    outbox.reply(after, queue);
    let head = format!(" 0 {}\r\n", body.len());
    outbox.reply_with_body(after, head.as_bytes(), body, b"\r\nEND\r\n");
}
