//! Replies about all queues of items, or about many named queues. The session writes them into the
//! outbox row by row. Between slices of work, the session stores a cursor.

use std::collections::BTreeSet;

use broker::{NameCursor, Outbox, Position, SessionId, Turn};

use crate::server::Server;
use crate::stats::{Block, queue_rows, server_rows};

/// Units of work for writing the numbers of a queue. Finding the queue costs units, too, which the
/// engine counts.
const QUEUE_UNITS: usize = 8;

const END: &[u8] = b"END\r\n";

/// An operation over many queues, and its progress.
#[derive(Debug)]
pub(crate) enum Listing {
    /// `STATS`, first part: adds up the items and bytes of all queues, because the reply begins
    /// with the sums.
    Sums {
        /// The next queue to add.
        cursor: NameCursor,
        /// Items so far.
        items: u64,
        /// Bytes so far.
        bytes: u64,
    },
    /// `STATS`, second part: writes the numbers of each queue.
    Stats(NameCursor),
    /// `DUMP_STATS` or `DUMP_CONFIG`.
    Blocks {
        /// The kind of the block for each queue.
        block: Block,
        /// The queues.
        names: Names,
        /// True if no queue was printed yet.
        is_empty: bool,
    },
    /// `FLUSH_ALL_EXPIRED`.
    FlushExpired {
        /// The next queue to check.
        cursor: NameCursor,
        /// Number of items that have expired so far.
        count: u64,
        /// The position that the reply waits for.
        after: Position,
    },
}

/// The queues to print.
#[derive(Debug)]
pub(crate) enum Names {
    /// All queues of items, and all aliases.
    All(NameCursor),
    /// The queues that the request names. Each queue is listed once.
    Named(std::vec::IntoIter<Box<[u8]>>),
}

impl Names {
    /// The named queues, or all queues if none is named.
    pub(crate) fn new(named: &[&[u8]]) -> Self {
        if named.is_empty() {
            return Self::All(NameCursor::default());
        }
        // A short line can repeat a name. The repetitions must not cause thousands of copies of a
        // queue's numbers.
        let mut seen = BTreeSet::new();
        let names = named.iter().filter(|name| seen.insert(**name));
        Self::Named(names.map(|name| Box::from(*name)).collect::<Vec<_>>().into_iter())
    }
}

impl Listing {
    /// Starts a `STATS`.
    pub(crate) fn stats() -> Self {
        Self::Sums { cursor: NameCursor::default(), items: 0, bytes: 0 }
    }

    /// Starts a `DUMP_STATS` or a `DUMP_CONFIG`.
    pub(crate) fn blocks(block: Block, named: &[&[u8]]) -> Self {
        Self::Blocks { block, names: Names::new(named), is_empty: true }
    }

    /// Starts a `FLUSH_ALL_EXPIRED`.
    pub(crate) fn flush_expired() -> Self {
        Self::FlushExpired { cursor: NameCursor::default(), count: 0, after: Position::NONE }
    }

    /// Handles the next queue. Returns `None` after the last queue.
    pub(crate) fn step(
        mut self,
        session: SessionId,
        server: &Server,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> Option<Self> {
        match &mut self {
            Self::Sums { cursor, items, bytes } => {
                let Some(name) = turn.next_item_queue(cursor) else {
                    let text = server_rows(server, *items, *bytes, turn);
                    outbox.reply(turn.after_all(), &text);
                    return Some(Self::Stats(NameCursor::default()));
                };
                if let Some(stats) = turn.queue_stats(name) {
                    *items += stats.ready;
                    *bytes += stats.ready_bytes;
                }
            }
            Self::Stats(cursor) => {
                let Some(name) = turn.next_item_queue(cursor) else {
                    outbox.reply(turn.after_all(), END);
                    return None;
                };
                turn.count_work(QUEUE_UNITS);
                outbox.reply(turn.after_all(), &queue_rows(name, turn));
            }
            Self::Blocks { block, names, is_empty } => {
                let named;
                let next = match names {
                    Names::All(cursor) => turn.next_item_queue(cursor),
                    Names::Named(names) => {
                        named = names.next();
                        named.as_deref()
                    }
                };
                let Some(name) = next else {
                    // COMPAT(kestrel): the original writes a line end after the blocks even if
                    // there is no block. So a reply without a queue has an empty line; case
                    // mc-dump-stats-of-nothing.
                    let text: &[u8] = if *is_empty { b"\r\nEND\r\n" } else { END };
                    outbox.reply(turn.after_all(), text);
                    return None;
                };
                *is_empty = false;
                turn.count_work(QUEUE_UNITS);
                outbox.reply(turn.after_all(), &block.text(name, server, turn));
            }
            Self::FlushExpired { cursor, count, after } => {
                let Some(name) = turn.next_item_queue(cursor) else {
                    outbox.reply(*after, format!("{count}\r\n").as_bytes());
                    return None;
                };
                let flushed = turn.caller(session).flush_expired(name);
                *count += flushed.value.unwrap_or(0);
                *after = flushed.after.max(*after);
            }
        }
        Some(self)
    }

    /// Number of bytes of memory that the listing uses.
    pub(crate) fn buffered_bytes(&self) -> usize {
        match self {
            Self::Blocks { names: Names::Named(names), .. } => {
                names.as_slice().iter().map(|name| size_of_val(name) + name.len()).sum()
            }
            Self::Sums { .. }
            | Self::Stats(_)
            | Self::Blocks { names: Names::All(_), .. }
            | Self::FlushExpired { .. } => 0,
        }
    }
}
