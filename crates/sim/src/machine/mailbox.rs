//! The mailbox in which the broker leaves events for the simulated connections.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use broker::{Answer, Event, Mailbox, Millis, SessionId};

/// The messages for one simulated I/O thread.
#[derive(Debug, Default)]
pub(crate) struct MailboxContents {
    pub(crate) events: VecDeque<(SessionId, Answer<Event>)>,
    pub(crate) alarm: Option<Millis>,
    /// True if the log has released more replies.
    pub(crate) released: bool,
}

#[derive(Debug, Default)]
pub(crate) struct SimMailbox(Mutex<MailboxContents>);

impl SimMailbox {
    pub(crate) fn open(&self) -> MutexGuard<'_, MailboxContents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mailbox for SimMailbox {
    fn deliver(&self, session: SessionId, event: Answer<Event>) {
        self.open().events.push_back((session, event));
    }

    fn released(&self) {
        self.open().released = true;
    }

    fn alarm(&self, at: Millis) {
        let mut contents = self.open();
        contents.alarm = Some(contents.alarm.map_or(at, |known| known.min(at)));
    }
}
