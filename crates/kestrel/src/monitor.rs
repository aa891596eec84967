//! A client that takes items as they come, until a moment or a number of them (spec kestrel 1.7), or until
//! they are many, or many bytes: they may all come in one turn of the broker.

use broker::{Body, Event, Millis, Patience, Position, Turn};

use crate::client::{Client, Fetched, How};
use crate::server::{ITEM_BYTES, ITEMS_AT_ONCE_MAX, ITEMS_BYTES_MAX};

/// A monitor that is on its way.
#[derive(Debug)]
pub(crate) struct Monitor {
    queue: Box<[u8]>,
    deadline: Millis,
    /// Items that may still come; `None`: as many as there are.
    left: Option<u64>,
    /// Items that may still come before it waits for one.
    left_at_once: usize,
    /// Bytes that may still come; the last item may reach beyond.
    left_bytes: usize,
    /// Whatever is said waits for this: reads were closed before.
    after: Position,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Next {
    /// An item, which is an open read from now on.
    Item(Body, Position),
    /// No more.
    End(Position),
    /// An event will come.
    Waiting,
}

impl Monitor {
    pub(crate) fn new(queue: &[u8], deadline: Millis, left: Option<u64>, after: Position) -> Self {
        let queue = queue.into();
        let (left_at_once, left_bytes) = (ITEMS_AT_ONCE_MAX, ITEMS_BYTES_MAX);
        Self { queue, deadline, left, left_at_once, left_bytes, after }
    }

    /// Where the items come from.
    pub(crate) fn queue(&self) -> &[u8] {
        &self.queue
    }

    /// Looks for the next item.
    pub(crate) fn next(&mut self, client: &mut Client, turn: &mut Turn<'_>) -> Next {
        let left_ms = self.deadline.0.saturating_sub(turn.now().0);
        let is_over = self.left == Some(0)
            || self.left_at_once == 0
            || self.left_bytes == 0
            || left_ms == 0
            || client.is_refused_reads(turn)
            || client.is_open_full(&self.queue, turn);
        if is_over {
            return Next::End(self.after);
        }
        client.counters().cmd_monitor_get.add_one();
        let fetched = client.fetch(&self.queue, How::Open, Patience::Millis(left_ms), turn);
        self.follow(fetched)
    }

    /// The wait for the next item is over.
    pub(crate) fn resume(
        &mut self,
        event: Event,
        client: &mut Client,
        turn: &mut Turn<'_>,
    ) -> Next {
        self.left_at_once = ITEMS_AT_ONCE_MAX;
        let fetched = client.resume(&self.queue, How::Open, event, turn);
        self.follow(fetched)
    }

    fn follow(&mut self, fetched: Fetched) -> Next {
        match fetched {
            Fetched::Item(body, after) => {
                self.left = self.left.map(|left| left - 1);
                self.left_at_once -= 1;
                self.left_bytes = self.left_bytes.saturating_sub(body.len() + ITEM_BYTES);
                Next::Item(body, after.max(self.after))
            }
            Fetched::Nothing(after) => Next::End(after.max(self.after)),
            Fetched::Waiting => Next::Waiting,
        }
    }
}
