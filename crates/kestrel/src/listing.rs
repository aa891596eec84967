//! Answers that go over all queues of items, or over many that are named: row by row straight into the
//! outbox, from a cursor that the session keeps from one slice of work to the next.

use std::collections::BTreeSet;

use broker::{NameCursor, Outbox, Position, Turn};

use crate::server::Server;
use crate::stats::{Block, queue_rows, server_rows};

/// Units of work that it takes to write the numbers of a queue, beside finding it.
const QUEUE_UNITS: usize = 8;

const END: &[u8] = b"END\r\n";

/// Something that goes over queues, and how far it has come.
#[derive(Debug)]
pub(crate) enum Listing {
    /// `STATS`: items and bytes of all queues stand at its beginning, so that they are added up first.
    Sums {
        /// The next queue to be added.
        cursor: NameCursor,
        /// Items so far.
        items: u64,
        /// Bytes so far.
        bytes: u64,
    },
    /// The queues of `STATS`.
    Stats(NameCursor),
    /// `DUMP_STATS` or `DUMP_CONFIG`.
    Blocks {
        /// What is told of each queue.
        block: Block,
        /// The queues.
        names: Names,
        /// There was none yet.
        is_empty: bool,
    },
    /// `FLUSH_ALL_EXPIRED`.
    FlushExpired {
        /// The next queue to be looked at.
        cursor: NameCursor,
        /// Items that ended so far.
        count: u64,
        /// What the answer waits for.
        after: Position,
    },
}

/// The queues that are told of.
#[derive(Debug)]
pub(crate) enum Names {
    /// All queues of items, and aliases.
    All(NameCursor),
    /// Those that the request names, each once.
    Named(std::vec::IntoIter<Box<[u8]>>),
}

impl Names {
    /// All, if none is named.
    pub(crate) fn new(named: &[&[u8]]) -> Self {
        if named.is_empty() {
            return Self::All(NameCursor::default());
        }
        // A short line must not have a long queue's numbers printed thousands of times.
        let mut seen = BTreeSet::new();
        let names = named.iter().filter(|name| seen.insert(**name));
        Self::Named(names.map(|name| Box::from(*name)).collect::<Vec<_>>().into_iter())
    }
}

impl Listing {
    /// `STATS`.
    pub(crate) fn stats() -> Self {
        Self::Sums { cursor: NameCursor::default(), items: 0, bytes: 0 }
    }

    /// `DUMP_STATS` or `DUMP_CONFIG`.
    pub(crate) fn blocks(block: Block, named: &[&[u8]]) -> Self {
        Self::Blocks { block, names: Names::new(named), is_empty: true }
    }

    /// `FLUSH_ALL_EXPIRED`.
    pub(crate) fn flush_expired() -> Self {
        Self::FlushExpired { cursor: NameCursor::default(), count: 0, after: Position::NONE }
    }

    /// Deals with the next queue. `None`: that was the end.
    pub(crate) fn step(
        mut self,
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
                    // COMPAT(kestrel): the blocks are joined as if there were one at least, so that
                    // nothing is an empty line; case mc-dump-stats-of-nothing.
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
                if let Some((flushed, rests_on)) = turn.flush_expired(name) {
                    *count += flushed;
                    *after = rests_on.max(*after);
                }
            }
        }
        Some(self)
    }

    /// Bytes of memory that it holds.
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
