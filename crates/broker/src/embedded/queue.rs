//! Items, as in Kestrel. Consumers read a queue in order. If a consumer fails, another consumer
//! gets its item. Each item can expire.
//!
//! ```
//! use std::time::Duration;
//! use lineshaft_broker::embedded::{Store, Wait};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::in_memory();
//! let mut queue = store.queue("pages");
//! queue.add(b"https://example.org/", Some(Duration::from_secs(60)))?;
//! let item = queue.open(Wait::No)?.expect("just added");
//! // If this consumer fails or ends here, the next one gets the item.
//! queue.confirm(&item)?;
//! assert!(queue.remove(Wait::No)?.is_none());
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use engine::{Body, JobBody, LeaseId, Millis, ReadMode, SessionId, When};

use super::{Error, Store, Wait, check_name};
use crate::{Answer, Blocked, Event, Take};

/// A handle on one queue of a [`Store`]. The handle holds the items that it opened. Closing or
/// dropping the handle puts these items back. Each thread needs its own handle.
///
/// The first call that adds or reads creates the queue. A queue named `pages+index` is a child of
/// the queue `pages`. From its creation on, the child gets a copy of each item that is added to
/// `pages`.
#[derive(Debug)]
pub struct Queue<'a> {
    store: &'a Store,
    session: SessionId,
    name: Box<[u8]>,
}

/// An open item. Until it is confirmed or put back, no other consumer gets it.
#[derive(Clone, Debug)]
pub struct Item {
    lease: LeaseId,
    /// The bytes of the item.
    pub body: Body,
}

/// The result of a read: an item's body, and its lease if the item is open.
type Found = Option<(Option<LeaseId>, Body)>;

/// Like `Found`, but the body may still have to be loaded.
type Taken = Option<(Option<LeaseId>, JobBody)>;

impl<'a> Queue<'a> {
    pub(super) fn new(store: &'a Store, session: SessionId, name: &str) -> Self {
        Self { store, session, name: name.as_bytes().into() }
    }

    /// The name of the queue.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// Adds an item. When this returns, the item is on stable storage. If no consumer reads the
    /// item, it expires after `expires_in`.
    pub fn add(&mut self, body: &[u8], expires_in: Option<Duration>) -> Result<(), Error> {
        check_name(&self.name)?;
        self.store.wait_while_congested();
        let added = {
            let mut turn = self.store.turn();
            let now = turn.now().0;
            let expires = expires_in.map(|time| {
                let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                When::At(Millis(now.saturating_add(millis)))
            });
            turn.caller(self.session).add(&self.name, body.into(), expires)
        };
        Ok(self.store.wait_released(added)??)
    }

    /// Looks at the next item. Returns `None` if the queue is still empty when the wait is over.
    pub fn peek(&mut self, wait: Wait) -> Result<Option<Body>, Error> {
        Ok(self.read(ReadMode::Peek, wait)?.map(|(_, body)| body))
    }

    /// Takes the next item for good. The item does not come back, even if the caller fails.
    pub fn remove(&mut self, wait: Wait) -> Result<Option<Body>, Error> {
        Ok(self.read(ReadMode::Finish, wait)?.map(|(_, body)| body))
    }

    /// Takes the next item and holds it until it is confirmed or put back.
    pub fn open(&mut self, wait: Wait) -> Result<Option<Item>, Error> {
        let read = self.read(ReadMode::Open { limit_ms: None }, wait)?;
        Ok(read.and_then(|(lease, body)| lease.map(|lease| Item { lease, body })))
    }

    /// Finishes an item that this handle opened. [`Error::NotFound`] means that the item was
    /// already given back after the policy's `open.timeout`, or that its queue was removed.
    pub fn confirm(&mut self, item: &Item) -> Result<(), Error> {
        let confirmed = self.store.turn().caller(self.session).confirm(item.lease);
        Ok(self.store.wait_released(confirmed)??)
    }

    /// Gives back an item that this handle opened. The item returns to its old place. The errors
    /// are those of [`Queue::confirm`].
    pub fn give_back(&mut self, item: Item) -> Result<(), Error> {
        let returned = self.store.turn().caller(self.session).give_back_item(item.lease);
        Ok(self.store.wait_released(returned)??)
    }

    /// Removes all items that no consumer holds.
    pub fn flush(&mut self) -> Result<(), Error> {
        let flush = self.store.turn().caller(self.session).flush(&self.name);
        self.store.finish_clearing(self.session, flush)
    }

    /// Puts back all items that this handle opened. The queue stays.
    pub fn close(self) {}

    fn read(&mut self, how: ReadMode, wait: Wait) -> Result<Found, Error> {
        check_name(&self.name)?;
        let Answer { value, after } =
            self.store.turn().caller(self.session).read(&self.name, how, wait.patience());
        let read = match value.map_err(|Blocked| Error::Refused)? {
            Take::Waiting => self.wait_for(how)?,
            taken => Answer::new(taken.item(), after),
        };
        let found = self.store.wait_released(read)?;
        let loaded = |(lease, body)| Ok((lease, self.store.wait_loaded(&body)?));
        found.map(loaded).transpose()
    }

    fn wait_for(&mut self, how: ReadMode) -> Result<Answer<Taken>, Error> {
        let Answer { value, after } = self.store.event_for(self.session)?;
        Ok(match value {
            Event::Granted(handout) if how == ReadMode::Finish => {
                let confirmed = self.store.turn().caller(self.session).confirm(handout.lease);
                confirmed.value?;
                Answer::new(Some((None, handout.body)), confirmed.after)
            }
            Event::Granted(handout) => {
                Answer::new(Some((Some(handout.lease), handout.body)), after)
            }
            Event::Peeked(body) => Answer::new(Some((None, body)), after),
            Event::TimedOut => Answer::new(None, after),
            other => unreachable!("a session that reads waits for nothing else: {other:?}"),
        })
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        self.store.end(self.session);
    }
}
