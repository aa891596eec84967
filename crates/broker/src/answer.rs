//! The broker's answers. An answer is a value and a position. A reply that is made from the value
//! waits for the position.

pub use engine::NotFound;

use crate::Position;

/// The answer to a request, or an event for a session, with the position that it depends on.
///
/// A reply that is made from the value must not be sent before [`crate::Broker::released`] has
/// reached `after`. [`crate::Outbox::reply`] ensures this. Negative replies wait, too. For example,
/// a client can act on the reply "not found". So the end of the job must be durable before the
/// client gets this reply.
///
/// Some requests can begin to wait. Then the value is [`crate::Take::Waiting`] or a similar value.
/// The dialect sends its reply later, when the session gets an [`crate::Event`].
#[must_use = "the reply waits for the position"]
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Answer<T> {
    /// The content of the reply.
    pub value: T,
    /// When the reply can be sent.
    pub after: Position,
}

impl<T> Answer<T> {
    /// An answer that depends on everything up to this position.
    pub fn new(value: T, after: Position) -> Self {
        Self { value, after }
    }

    /// An answer that depends on nothing in the log.
    pub fn at_once(value: T) -> Self {
        Self { value, after: Position::NONE }
    }

    /// The same answer with a converted value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Answer<U> {
        Answer { value: change(self.value), after: self.after }
    }
}

/// Why a change was refused. Nothing has changed.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The job or queue does not exist, or the job has the wrong state or holder.
    #[error("not found")]
    NotFound,
    /// The log has no room for the change. Finishing jobs makes room.
    #[error("the log has no room")]
    LogFull,
    /// The limit of memory is reached, and the session holds many jobs. It must finish some before it
    /// takes another one.
    #[error("the limit of memory is reached")]
    MemoryFull,
}

impl From<NotFound> for Refusal {
    fn from(NotFound: NotFound) -> Self {
        Self::NotFound
    }
}

/// The server's status refuses reads, or the queue cannot be created: see
/// [`crate::Turn::admits_child`].
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("this queue cannot be read now")]
pub struct Blocked;
