//! The names that a session has used for its queues, if they are not the names of the queues
//! themselves: see the policy `same_as`.
//!
//! A client expects to find the names that it has sent: in the list of the queues that it watches, and
//! with each job that a worker gets. So the session keeps them. A session without such names has no
//! [`OtherNames`].

use crate::bytes::allocated_bytes;
use crate::ids::QueueId;
use crate::policy::Name;

/// The bytes of a name, apart from its text.
const NAME_BYTES: u64 = size_of::<(QueueId, Name)>() as u64;

/// The names of one session.
#[derive(Debug, Default)]
pub(crate) struct OtherNames {
    /// The name of the queue that the session puts into. `None`: it is the queue's own name.
    pub(crate) used: Option<Name>,
    pub(crate) watched: NameList,
    pub(crate) registered: NameList,
}

impl OtherNames {
    pub(super) fn bytes(&self) -> u64 {
        let used = self.used.as_ref().map_or(0, |name| allocated_bytes(name.len()));
        size_of::<Self>() as u64 + used + self.watched.bytes() + self.registered.bytes()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used.is_none() && self.watched.names.is_empty() && self.registered.names.is_empty()
    }
}

/// The names of the queues that a session watches, or has registered for, oldest first. A queue
/// without an entry has only its own name. A queue with entries has just these names, and its own
/// name can be one of them.
#[derive(Debug, Default)]
pub(crate) struct NameList {
    names: Vec<(QueueId, Name)>,
    /// How many more names than queues the list of the session has.
    surplus: usize,
}

/// What became of a name that a session no longer uses.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum RemovedName {
    /// The session has not used this name for the queue.
    Unknown,
    /// The session uses other names for the queue.
    Other,
    /// It was the only name, and it is still there: the caller removes the queue from its list.
    Only,
}

impl NameList {
    /// The names of a queue. Empty: it has only its own name.
    pub(crate) fn of(&self, queue: QueueId) -> impl Iterator<Item = &[u8]> {
        self.names.iter().filter(move |(of, _)| *of == queue).map(|(_, name)| &**name)
    }

    /// The queue that the session calls by this name.
    pub(crate) fn queue(&self, name: &[u8]) -> Option<QueueId> {
        self.names.iter().find(|(_, known)| **known == *name).map(|(queue, _)| *queue)
    }

    /// How many more names than queues the list of the session has.
    pub(crate) fn surplus(&self) -> usize {
        self.surplus
    }

    /// Adds a name behind all others, unless the queue has it. `is_new`: the queue is new in the list
    /// of the session.
    pub(super) fn add(&mut self, queue: QueueId, own: &[u8], name: &[u8], is_new: bool) {
        let mut names: Vec<Name> = self.of(queue).map(Name::from).collect();
        if names.is_empty() && !is_new {
            names.push(own.into());
        }
        if !names.iter().any(|known| **known == *name) {
            names.push(name.into());
            self.set(queue, own, names);
        }
    }

    /// Removes a name of a queue that is in the list of the session, unless it is the only one.
    pub(super) fn remove(&mut self, queue: QueueId, own: &[u8], name: &[u8]) -> RemovedName {
        let mut names: Vec<Name> = self.of(queue).map(Name::from).collect();
        if names.is_empty() {
            names.push(own.into());
        }
        let count = names.len();
        if !names.iter().any(|known| **known == *name) {
            return RemovedName::Unknown;
        }
        if count == 1 {
            return RemovedName::Only;
        }
        names.retain(|known| **known != *name);
        self.set(queue, own, names);
        RemovedName::Other
    }

    /// Forgets the names of a queue that leaves the list of the session.
    pub(super) fn forget(&mut self, queue: QueueId) {
        self.surplus -= self.of(queue).count().saturating_sub(1);
        self.names.retain(|(of, _)| *of != queue);
    }

    fn set(&mut self, queue: QueueId, own: &[u8], names: Vec<Name>) {
        self.forget(queue);
        if names.len() > 1 || names.iter().any(|name| **name != *own) {
            self.surplus += names.len() - 1;
            self.names.extend(names.into_iter().map(|name| (queue, name)));
        }
    }

    fn bytes(&self) -> u64 {
        self.names.iter().map(|(_, name)| NAME_BYTES + allocated_bytes(name.len())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: QueueId = QueueId(3);

    fn names(list: &NameList) -> Vec<&[u8]> {
        list.of(QUEUE).collect()
    }

    #[test]
    fn a_queue_has_the_names_that_its_session_has_used() {
        let mut list = NameList::default();
        list.add(QUEUE, b"mail", b"mail", true);
        assert_eq!(list.of(QUEUE).count(), 0, "it has only its own name");
        list.add(QUEUE, b"mail", b"send", false);
        list.add(QUEUE, b"mail", b"send", false);
        assert_eq!(names(&list), [b"mail", b"send"]);
        assert_eq!(list.surplus(), 1);
        assert_eq!(list.queue(b"send"), Some(QUEUE));
        assert_eq!(list.remove(QUEUE, b"mail", b"none"), RemovedName::Unknown);
        assert_eq!(list.remove(QUEUE, b"mail", b"send"), RemovedName::Other);
        assert_eq!((list.of(QUEUE).count(), list.bytes()), (0, 0));
        assert_eq!(list.remove(QUEUE, b"mail", b"mail"), RemovedName::Only);
        list.add(QUEUE, b"mail", b"send", true);
        assert_eq!(names(&list), [b"send"]);
        assert_eq!(list.surplus(), 0);
        assert_eq!(list.remove(QUEUE, b"mail", b"mail"), RemovedName::Unknown);
        assert_eq!(list.remove(QUEUE, b"mail", b"send"), RemovedName::Only);
        list.forget(QUEUE);
        assert!(list.queue(b"send").is_none());
    }
}
