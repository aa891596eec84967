//! Requests and replies of Kestrel clients: the part that is the same in all dialects.

mod lists;
mod memcache;
mod memcache_wire;
mod text;
mod text_wire;
mod thrift;
mod thrift_wire;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

pub(super) use lists::ItemList;
use thrift::Collect;

use super::items::{FetchMode, Read};
use super::outcome::Notification;
use super::session::{Expected, Observed};
use super::{Model, Need, Place};
use crate::protocol::{Kestrel, Protocol};

/// Open reads by queue, oldest first. A read stays in the list even if the item was given back.
pub(super) type OpenReads = BTreeMap<String, VecDeque<u64>>;

/// The request for which a connection waits.
#[derive(Clone, Debug)]
pub(super) enum Fetch {
    /// An item. The reply also depends on the record `need`.
    Item {
        queue: String,
        how: FetchMode,
        need: Need,
    },
    Monitor(Monitor),
    Collect(Collect),
}

/// A client that takes items as they arrive.
#[derive(Clone, Debug)]
pub(super) struct Monitor {
    queue: String,
    deadline: u64,
    /// The number of items that can still arrive. `None` means no limit.
    left: Option<u64>,
    /// All replies to this client depend on this record, too.
    need: Need,
}

impl Model {
    fn item_reply(&self, place: Place, queue: &str, body: &[u8], need: Need) -> Expected {
        match self.conns[&place].protocol {
            Protocol::Kestrel(Kestrel::Text) => text::item(body, need),
            _ => memcache::value(queue, body, need),
        }
    }

    fn empty_reply(&self, place: Place, need: Need) -> Expected {
        match self.conns[&place].protocol {
            Protocol::Kestrel(Kestrel::Text) => text::nothing(need),
            _ => memcache::line("END", need),
        }
    }

    fn note_open(&mut self, place: Place, queue: &str, lease: Option<u64>) {
        let open = &mut self.conn(place).open;
        if let Some(lease) = lease {
            open.entry(queue.to_owned()).or_default().push_back(lease);
        }
    }

    fn open_count(&self, place: Place, queue: &str) -> usize {
        self.conns[&place].open.get(queue).map_or(0, VecDeque::len)
    }

    fn forget_oldest(&mut self, place: Place, queue: &str, count: usize) -> Vec<u64> {
        let Some(open) = self.conn(place).open.get_mut(queue) else { return Vec::new() };
        open.drain(..count.min(open.len())).collect()
    }

    fn close_oldest(&mut self, place: Place, queue: &str, count: usize) -> Need {
        let leases = self.forget_oldest(place, queue, count);
        let needs = leases.into_iter().filter_map(|lease| self.confirm(place, lease));
        needs.max().unwrap_or(0)
    }

    /// Takes the next item, or waits for it. The reply also depends on `need`.
    fn fetch(
        &mut self,
        place: Place,
        queue: &str,
        how: FetchMode,
        timeout_ms: i32,
        need: Need,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let patience_ms = u64::try_from(timeout_ms).unwrap_or(0);
        match self.read(place, queue, how, patience_ms) {
            Read::Item { lease, body, need: found } => {
                self.note_open(place, queue, lease);
                observed.take(&self.item_reply(place, queue, &body, need.max(found)))
            }
            Read::Empty(missed) => observed.take(&self.empty_reply(place, need.max(missed))),
            Read::Waiting => {
                let queue = queue.to_owned();
                self.conn(place).fetch = Some(Fetch::Item { queue, how, need });
                Ok(())
            }
        }
    }

    /// Takes items until the connection must wait.
    fn go_on_monitoring(
        &mut self,
        place: Place,
        mut monitor: Monitor,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let base = monitor.need;
        loop {
            let queue = &monitor.queue;
            let left_ms = monitor.deadline.saturating_sub(self.now);
            let is_full = self.open_count(place, queue) >= self.policy(queue).open_max as usize;
            if monitor.left == Some(0) || left_ms == 0 || self.reads_blocked() || is_full {
                return observed.take(&self.empty_reply(place, base));
            }
            match self.read(place, queue, FetchMode::Open, left_ms) {
                Read::Item { lease, body, need } => {
                    self.note_open(place, queue, lease);
                    monitor.left = monitor.left.map(|left| left - 1);
                    observed.take(&self.item_reply(place, queue, &body, need.max(base)))?;
                }
                Read::Empty(need) => {
                    return observed.take(&self.empty_reply(place, need.max(base)));
                }
                Read::Waiting => {
                    self.conn(place).fetch = Some(Fetch::Monitor(monitor));
                    return Ok(());
                }
            }
        }
    }

    /// Continues a request whose item has come, or whose wait is over.
    pub(super) fn resume_fetch(
        &mut self,
        place: Place,
        notification: Notification,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let fetch =
            self.conn(place).fetch.take().ok_or("an item came although no session waited")?;
        if let Fetch::Collect(collect) = fetch {
            return self.resume_collect(place, collect, notification, observed);
        }
        let (queue, how, base) = match &fetch {
            Fetch::Item { queue, how, need } => (queue.clone(), *how, *need),
            Fetch::Monitor(monitor) => (monitor.queue.clone(), FetchMode::Open, monitor.need),
            Fetch::Collect(_) => unreachable!("it was dealt with above"),
        };
        let found: Result<(Rc<[u8]>, Need), Need> = match notification {
            Notification::Granted { lease, body, .. } if how == FetchMode::Take => {
                self.confirm(place, lease).map(|need| (body, need)).ok_or(0)
            }
            Notification::Granted { lease, body, need } => {
                self.note_open(place, &queue, Some(lease));
                Ok((body, need))
            }
            // The item can have ended in the step in which it was seen. If only the log had its body,
            // the client gets nothing. The model does not compute where bodies are.
            Notification::Peeked { id, need, .. }
                if !self.jobs.contains_key(&id)
                    && observed.is_next(&self.empty_reply(place, need)) =>
            {
                Err(need)
            }
            Notification::Peeked { body, need, .. } => Ok((body, need)),
            Notification::NoItem { need } => Err(need),
            other => return Err(format!("a fetch ends by {other:?}")),
        };
        let (body, need) = match found {
            Err(need) => return observed.take(&self.empty_reply(place, need.max(base))),
            Ok(found) => found,
        };
        observed.take(&self.item_reply(place, &queue, &body, need.max(base)))?;
        match fetch {
            Fetch::Item { .. } | Fetch::Collect(_) => Ok(()),
            Fetch::Monitor(monitor) => {
                let left = monitor.left.map(|left| left - 1);
                self.go_on_monitoring(place, Monitor { left, ..monitor }, observed)
            }
        }
    }
}
