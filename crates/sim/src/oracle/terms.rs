//! Types that all records of the oracle share: connections, replies, and the certainty of changes.

/// A connection. Its number is unique in the run, over all processes.
pub(super) type Conn = u64;

/// The end of a reply: the number of bytes sent to its connection so far, including this reply.
#[derive(Copy, Clone, Debug)]
pub(super) struct ReplyEnd {
    pub(super) conn: Conn,
    pub(super) end: u64,
}

/// Whether a change certainly survives a crash.
#[derive(Copy, Clone, Debug)]
pub(super) enum Lasting {
    /// The change certainly survives if the server sent this reply.
    IfSent(ReplyEnd),
    Certain,
    /// A crash can undo the change.
    Uncertain,
}

/// Which changes are certain after the end of a process.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Certain {
    /// All changes, because the server stopped cleanly.
    All,
    /// All changes whose replies the server sent.
    Sent,
    /// Nothing is certain.
    Nothing,
}
