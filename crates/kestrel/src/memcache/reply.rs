//! What the server sends (spec kestrel 1.2).

use broker::{Body, Outbox, Position};

pub(crate) const STORED: &[u8] = b"STORED\r\n";
pub(crate) const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
pub(crate) const END: &[u8] = b"END\r\n";
pub(crate) const DELETED: &[u8] = b"DELETED\r\n";
pub(crate) const FLUSHED_ALL: &[u8] = b"Flushed all queues.\r\n";
pub(crate) const RELOADED: &[u8] = b"Reloaded config.\r\n";
pub(crate) const ERROR: &[u8] = b"ERROR\r\n";
pub(crate) const CLIENT_ERROR: &[u8] = b"CLIENT_ERROR\r\n";
pub(crate) const SERVER_ERROR: &[u8] = b"SERVER_ERROR\r\n";

/// A block with one item. Flags are not kept: they are always 0.
pub(crate) fn item(outbox: &mut Outbox, after: Position, queue: &[u8], body: &Body) {
    let len = body.len().to_string();
    let head = [b"VALUE ", queue, b" 0 ", len.as_bytes(), b"\r\n"].concat();
    outbox.reply_with_body(after, &head, body, b"\r\nEND\r\n");
}
