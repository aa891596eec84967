//! Items as Kestrel has them: one queue, in order, with an expiry each, read reliably.
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

use engine::{Body, LeaseId, Millis, ReadMode, SessionId, When};

use super::{Error, Store, Wait, check_name};
use crate::{Event, Position, Refusal};

/// A handle on one queue of a [`Store`]. It holds the items that it opened. Closing or dropping it
/// puts them back. Each thread has its own handle.
///
/// The first call that adds or reads creates the queue. Its name can be that of a fan-out child
/// (`pages+index`): from then on it gets everything added to the parent (`pages`).
#[derive(Debug)]
pub struct Queue<'a> {
    store: &'a Store,
    session: SessionId,
    name: Box<[u8]>,
}

/// An open item. No other consumer gets it until it is confirmed or put back.
#[derive(Clone, Debug)]
pub struct Item {
    lease: LeaseId,
    /// Its bytes.
    pub body: Body,
}

/// The outcome of a read.
enum Outcome {
    Item(Option<LeaseId>, Body, Position),
    Nothing(Position),
}

impl<'a> Queue<'a> {
    pub(super) fn new(store: &'a Store, session: SessionId, name: &str) -> Self {
        Self { store, session, name: name.as_bytes().into() }
    }

    /// The name of the queue.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// Adds an item, which is on stable storage when this returns. It expires unread after
    /// `expires_in`.
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
            turn.add(&self.name, body.into(), expires)
        };
        self.store.put_answer(added.map(|after| ((), after)))
    }

    /// Looks at the next item. Returns `None` if there is none when the wait is over.
    pub fn peek(&mut self, wait: Wait) -> Result<Option<Body>, Error> {
        Ok(self.read(ReadMode::Peek, wait)?.map(|(_, body)| body))
    }

    /// Takes the next item for good, whatever happens to the caller.
    pub fn remove(&mut self, wait: Wait) -> Result<Option<Body>, Error> {
        Ok(self.read(ReadMode::Finish, wait)?.map(|(_, body)| body))
    }

    /// Takes the next item and holds it until it is confirmed or put back.
    pub fn open(&mut self, wait: Wait) -> Result<Option<Item>, Error> {
        let read = self.read(ReadMode::Open { limit_ms: None }, wait)?;
        Ok(read.and_then(|(lease, body)| lease.map(|lease| Item { lease, body })))
    }

    /// Finishes an item that this handle opened. [`Error::NotFound`] means that it already went
    /// back, by the policy's `open.timeout`, or that its queue was removed.
    pub fn confirm(&mut self, item: &Item) -> Result<(), Error> {
        let confirmed = self.store.turn().confirm(self.session, item.lease);
        self.wait_held(confirmed)
    }

    /// Puts an item that this handle opened back to its old place. Errors as in [`Queue::confirm`].
    pub fn give_back(&mut self, item: Item) -> Result<(), Error> {
        let returned = self.store.turn().give_back_item(self.session, item.lease);
        self.wait_held(returned)
    }

    /// Removes all items that no consumer holds.
    pub fn flush(&mut self) -> Result<(), Error> {
        let flush = self.store.turn().flush(self.session, &self.name);
        self.store.finish_clearing(self.session, flush)
    }

    /// Puts back all items that this handle opened. The queue stays.
    pub fn close(self) {}

    fn wait_held(&self, done: Result<Position, crate::NotHeld>) -> Result<(), Error> {
        let done = done.map(|after| ((), after));
        self.store.wait_released(done.map_err(|crate::NotHeld(after)| Refusal::NotFound(after)))
    }

    fn read(
        &mut self,
        how: ReadMode,
        wait: Wait,
    ) -> Result<Option<(Option<LeaseId>, Body)>, Error> {
        check_name(&self.name)?;
        let read = self.store.turn().read(self.session, &self.name, how, wait.patience());
        let outcome = match read {
            crate::Read::Item(item) => Outcome::Item(item.lease, item.body, item.after),
            crate::Read::Empty(after) => Outcome::Nothing(after),
            crate::Read::Blocked => return Err(Error::Refused),
            crate::Read::Waiting => self.wait_for(how)?,
        };
        self.store.wait_released(Ok(match outcome {
            Outcome::Item(lease, body, after) => (Some((lease, body)), after),
            Outcome::Nothing(after) => (None, after),
        }))
    }

    fn wait_for(&mut self, how: ReadMode) -> Result<Outcome, Error> {
        Ok(match self.store.event_for(self.session)? {
            Event::Granted(grant) if how == ReadMode::Finish => {
                let confirmed = self.store.turn().confirm(self.session, grant.lease);
                let after = confirmed.map_err(|crate::NotHeld(_)| Error::NotFound)?;
                Outcome::Item(None, grant.body, after)
            }
            Event::Granted(grant) => Outcome::Item(Some(grant.lease), grant.body, grant.after),
            Event::Peeked { body, after } => Outcome::Item(None, body, after),
            Event::TimedOut(after) => Outcome::Nothing(after),
            other => unreachable!("a session that reads waits for nothing else: {other:?}"),
        })
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        self.store.end(self.session);
    }
}
