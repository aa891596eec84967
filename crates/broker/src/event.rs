//! Events of the broker for sessions, and the mailboxes through which the owner of a session gets
//! them.

use engine::{Handout, JobBody, JobId, Millis, News, SessionId};

use crate::Answer;

/// An event for a session, such as the outcome of a request that began to wait. A session waits for
/// at most one outcome at a time. News of jobs and wake-ups can come in addition.
///
/// The engine has its own type for events. Such an event also has the slot of its job. The broker
/// needs the slot to find the position for the event's [`Answer`]. Dialects do not need the slot.
#[derive(Clone, Debug)]
pub enum Event {
    /// A job for a waiting take, or an item for a waiting read. Even if the read takes its item for
    /// good, the session only holds the item now. Then the dialect must confirm the lease, and the
    /// reply must wait for the position of the answer to `confirm`.
    Granted(Handout),
    /// The wait for a job or an item is over.
    TimedOut,
    /// A job that the waiting session holds is close to its deadline.
    DeadlineSoon,
    /// There may be a job for a sleeping worker.
    WorkToDo,
    /// News of a job that the session watches. If the job is durable, a reply about its end waits
    /// until that end is durable, too.
    News {
        /// The job.
        id: JobId,
        /// What happened.
        news: News,
    },
    /// A long kick is done. It made this number of jobs ready.
    Kicked(u64),
    /// The item for a waiting peek.
    Peeked(JobBody),
    /// The job that the session needs is in memory now, or does not exist: see
    /// [`crate::Caller::is_at_hand`].
    Loaded,
    /// The put of the session waited for room, and must be tried again: see
    /// [`crate::Caller::must_wait_for_room`].
    Room,
    /// The job that the session needs cannot be read from the log. The connection must end, because
    /// no reply would be true.
    Unreadable,
    /// A long flush, or the removal of a queue, is done.
    Cleared,
    /// The reload that the session requested is done.
    Reloaded,
}

/// The mailbox for the events of one owner's sessions. The owner is, for example, an I/O thread or
/// a test.
///
/// The broker can call these functions while it is locked. So a function should only store the
/// event and wake the owner.
pub trait Mailbox: Send + Sync {
    /// Delivers an event for a session that was opened with this mailbox.
    fn deliver(&self, session: SessionId, event: Answer<Event>);

    /// A body that this session waits for was loaded, or cannot be loaded. The owner must look at
    /// the session's outbox again.
    fn loaded(&self, _session: SessionId) {}

    /// The log has released more positions, so waiting replies can be sent.
    fn released(&self);

    /// The log has failed and releases nothing more: see [`crate::Broker::failure`].
    fn failed(&self) {
        self.released();
    }

    /// At the moment `at`, the owner must take a turn and call [`crate::Turn::advance`] or
    /// [`crate::Turn::set_alarm_again`]. A new alarm replaces the last alarm. Only the first
    /// mailbox gets alarms.
    fn alarm(&self, at: Millis);
}
