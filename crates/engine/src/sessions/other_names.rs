//! The names that a session has used for its queues, if they are not the names of the queues
//! themselves: see the policy `same_as`.
//!
//! A client expects to find the names that it has sent: in the list of the queues that it watches, and
//! with each job that a worker gets. So the session keeps them. A session without such names has no
//! [`OtherNames`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bytes::allocated_bytes;
use crate::ids::QueueId;
use crate::policy::Name;

/// The bytes of a name in a list, apart from its text: an entry in each of two trees, whose nodes are
/// not full.
const NAME_BYTES: u64 = 112;
/// The bytes that the first node of each of the two trees needs beyond this, because it is nearly empty.
const LIST_BYTES: u64 = 656;
/// The bytes of the counts of references to a text.
const TEXT_HEAD_BYTES: usize = 2 * size_of::<usize>();

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
        self.used.is_none() && self.watched.is_empty() && self.registered.is_empty()
    }
}

/// The names of the queues that a session watches, or has registered for, oldest first. A queue
/// without an entry has only its own name. A queue with entries has just these names, and its own
/// name can be one of them. No two queues have the same name. A session can have tens of thousands of
/// names, so no change looks at all of them.
#[derive(Debug, Default)]
pub(crate) struct NameList {
    by_name: BTreeMap<Arc<[u8]>, Place>,
    by_place: BTreeMap<Place, Arc<[u8]>>,
    /// The number of the last name.
    last: u64,
    /// How many more names than queues the list of the session has.
    surplus: usize,
    bytes: u64,
}

/// A queue, and the number of one of its names. A newer name has a higher number.
type Place = (QueueId, u64);

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
    /// The names of a queue, oldest first. Empty: it has only its own name.
    pub(crate) fn of(&self, queue: QueueId) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.by_place.range((queue, 0)..=(queue, u64::MAX)).map(|(_, name)| &**name)
    }

    /// The queue that the session calls by this name.
    pub(crate) fn queue(&self, name: &[u8]) -> Option<QueueId> {
        self.by_name.get(name).map(|(queue, _)| *queue)
    }

    /// How many more names than queues the list of the session has.
    pub(crate) fn surplus(&self) -> usize {
        self.surplus
    }

    /// Adds a name behind all others, unless the queue has it. `is_new`: the queue is new in the list
    /// of the session.
    pub(super) fn add(&mut self, queue: QueueId, own: &[u8], name: &[u8], is_new: bool) {
        if self.has_none(queue) {
            if own == name {
                return;
            }
            if !is_new {
                self.insert(queue, own);
            }
        }
        if self.queue(name) != Some(queue) {
            self.insert(queue, name);
        }
    }

    /// Removes a name of a queue that is in the list of the session, unless it is the only one.
    pub(super) fn remove(&mut self, queue: QueueId, own: &[u8], name: &[u8]) -> RemovedName {
        if self.has_none(queue) {
            return if own == name { RemovedName::Only } else { RemovedName::Unknown };
        }
        if self.queue(name) != Some(queue) {
            return RemovedName::Unknown;
        }
        if self.of(queue).nth(1).is_none() {
            return RemovedName::Only;
        }
        self.take_out(name);
        if self.queue(own) == Some(queue) && self.of(queue).nth(1).is_none() {
            self.take_out(own);
        }
        RemovedName::Other
    }

    /// Forgets the names of a queue that leaves the list of the session.
    pub(super) fn forget(&mut self, queue: QueueId) {
        loop {
            let first = self.of(queue).next().map(Name::from);
            let Some(name) = first else { break };
            self.take_out(&name);
        }
    }

    fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    fn has_none(&self, queue: QueueId) -> bool {
        self.of(queue).next().is_none()
    }

    fn insert(&mut self, queue: QueueId, name: &[u8]) {
        // The newest meaning of a name counts.
        self.take_out(name);
        self.surplus += usize::from(!self.has_none(queue));
        self.last += 1;
        let (place, name) = ((queue, self.last), Arc::from(name));
        self.bytes += name_bytes(&name);
        self.by_place.insert(place, Arc::clone(&name));
        self.by_name.insert(name, place);
    }

    fn take_out(&mut self, name: &[u8]) {
        let Some((name, place)) = self.by_name.remove_entry(name) else { return };
        self.by_place.remove(&place);
        self.bytes -= name_bytes(&name);
        self.surplus -= usize::from(!self.has_none(place.0));
    }

    fn bytes(&self) -> u64 {
        if self.is_empty() { 0 } else { LIST_BYTES + self.bytes }
    }
}

fn name_bytes(name: &[u8]) -> u64 {
    NAME_BYTES + allocated_bytes(TEXT_HEAD_BYTES + name.len())
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

    /// If a change looked at all names, this test would not end in its time.
    #[test]
    fn a_session_can_have_very_many_names() {
        const NAMES: u32 = 100_000;
        let name = |number: u32| format!("name {number}").into_bytes();
        let mut list = NameList::default();
        for number in 0..NAMES {
            list.add(QUEUE, b"mail", &name(number), number == 0);
            list.add(QueueId(10 + number), b"own", format!("other {number}").as_bytes(), true);
        }
        assert_eq!(list.surplus(), NAMES as usize - 1);
        assert_eq!(names(&list).len(), NAMES as usize);
        let each = list.bytes() / u64::from(2 * NAMES);
        assert!((112..200).contains(&each), "{each} bytes for a name");
        for number in 0..NAMES {
            assert_eq!(list.of(QueueId(10 + number)).count(), 1);
            list.forget(QueueId(10 + number));
            let removed = list.remove(QUEUE, b"mail", &name(number));
            let is_last = number + 1 == NAMES;
            assert_eq!(removed, if is_last { RemovedName::Only } else { RemovedName::Other });
        }
        assert_eq!(list.surplus(), 0);
        list.forget(QUEUE);
        assert_eq!((list.bytes(), list.queue(&name(0))), (0, None));
    }
}
