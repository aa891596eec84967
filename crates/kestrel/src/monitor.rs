//! `MONITOR`: a client takes items until a deadline, or until it has a number of items (spec
//! kestrel 1.7). All items may come in one turn of the broker, and a turn must be short. So the
//! monitor ends after a limited number of items without a wait, and after a limited number of
//! bytes.

use broker::{Answer, Event, JobBody, Millis, Patience, Position, Turn};

use crate::client::{Client, FetchMode, Fetched};
use crate::server::{ITEM_BYTES, ITEMS_AT_ONCE_MAX, ITEMS_BYTES_MAX};

/// A running monitor.
#[derive(Debug)]
pub(crate) struct Monitor {
    queue: Box<[u8]>,
    deadline: Millis,
    /// The request ends after this many more items. `None` means no limit.
    left: Option<u64>,
    /// The request ends after this many more items without a wait.
    left_at_once: usize,
    /// The request ends after this many more bytes. The last item can exceed this number.
    left_bytes: usize,
    /// Before its first item, the request may have closed open reads. So all replies also wait for
    /// this position.
    after: Position,
}

/// The next step of a monitor.
#[derive(Debug)]
pub(crate) enum Next {
    /// An item. Its read is now open.
    Item(JobBody, Position),
    /// The end of the request.
    End(Position),
    /// The session waits for an event.
    Waiting,
}

impl Monitor {
    pub(crate) fn new(queue: &[u8], deadline: Millis, left: Option<u64>, after: Position) -> Self {
        let queue = queue.into();
        let (left_at_once, left_bytes) = (ITEMS_AT_ONCE_MAX, ITEMS_BYTES_MAX);
        Self { queue, deadline, left, left_at_once, left_bytes, after }
    }

    /// The queue of the items.
    pub(crate) fn queue(&self) -> &[u8] {
        &self.queue
    }

    /// Fetches the next item, or begins to wait for one.
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
        let fetched =
            client.fetch(&self.queue, FetchMode::Open, Patience::of_millis(left_ms), turn);
        self.follow(fetched)
    }

    /// Handles the event that ends the wait for the next item.
    pub(crate) fn resume(
        &mut self,
        event: Answer<Event>,
        client: &mut Client,
        turn: &mut Turn<'_>,
    ) -> Next {
        self.left_at_once = ITEMS_AT_ONCE_MAX;
        let fetched = client.resume(&self.queue, FetchMode::Open, event, turn);
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
