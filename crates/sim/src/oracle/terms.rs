//! Terms of all records of the oracle: connections, replies, and changes that last.

/// A connection, numbered over all lives of the server.
pub(super) type Conn = u64;

/// The end of a reply within all bytes to its connection.
#[derive(Copy, Clone, Debug)]
pub(super) struct ReplyEnd {
    pub(super) conn: Conn,
    pub(super) end: u64,
}

/// Whether a change is certain to last.
#[derive(Copy, Clone, Debug)]
pub(super) enum Lasting {
    /// It is certain if this reply leaves the server.
    IfSent(ReplyEnd),
    Certain,
    /// A crash may have undone it.
    Uncertain,
}

/// The changes that clients know for certain after the end of a process.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Certain {
    /// All changes: the server ended on request.
    All,
    /// All changes whose replies left the server.
    Sent,
    /// Nothing is certain.
    Nothing,
}
