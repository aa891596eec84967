//! Puts that make no job, because the queues have a job that answers them. An owner that takes no new
//! job now can still take these.

use std::collections::BTreeSet;

use crate::engine::Engine;
use crate::engine::put::{KnownKeys, Offer};
use crate::ids::SessionId;
use crate::jobs::Body;
use crate::policy::Name;

impl Engine {
    /// Whether a put of this session would make no job in any queue: each queue on its route has a job
    /// with its key, or stores no jobs. `name`: the queue or alias; `None` for the queue that the session
    /// uses. Returns false for a few puts that make no job. Returns true for a put that makes one only
    /// if the put ends the job with its key to make room.
    pub fn put_makes_no_job(&self, session: SessionId, name: Option<&[u8]>, body: &Body) -> bool {
        let name = name.unwrap_or_else(|| self.queues[self.sessions[session].used()].name());
        self.makes_no_job(name, Offer::of_key(body, b"", &KnownKeys::default()))
    }

    /// Like [`Engine::put_makes_no_job`], for a submit. It makes no job either if it joins one.
    pub fn submit_makes_no_job(&self, name: &[u8], submit: &super::Submit<'_>) -> bool {
        let keys = KnownKeys::default();
        self.joins(name, submit) || self.makes_no_job(name, Offer::of(submit, &keys))
    }

    fn joins(&self, name: &[u8], submit: &super::Submit<'_>) -> bool {
        let queue = self.queue_id(name).filter(|_| self.alias(name).is_none());
        let joined = queue.and_then(|queue| self.find_unique(queue, submit.unique, &submit.body));
        joined.is_some()
    }

    fn makes_no_job(&self, name: &[u8], offer: Offer<'_>) -> bool {
        let is_alone = !self.feeds_others(name);
        self.store_nothing(name, Offer { is_alone, ..offer }, &mut BTreeSet::new())
    }

    /// Whether a queue and its children, or all destinations of an alias, would make no job. Then they
    /// make no copy either, because a job that is there already has its copies. `seen`: the queues and
    /// aliases that are checked already.
    fn store_nothing(&self, name: &[u8], offer: Offer<'_>, seen: &mut BTreeSet<Name>) -> bool {
        let name = &*self.real_name(name);
        if !seen.insert(name.into()) {
            return true;
        }
        self.meter.count(1);
        if let Some(destinations) = self.alias(name) {
            return destinations.iter().all(|name| self.store_nothing(name, offer, seen));
        }
        let policy = self.look_up_policy(name);
        let makes_none = if policy.fanout_only {
            policy.copy_to.is_empty()
        } else if policy.may_keep_replaced() {
            false
        } else if let Some(queue) = self.queue_id(name) {
            self.is_duplicate(queue, offer)
        } else {
            // The queue is gone, but the window of a key can go on.
            let key = policy.unique.by.as_ref().and_then(|by| self.compute_key(by, offer));
            key.is_some_and(|key| self.claim_of(name, &policy.unique, key).is_some())
        };
        // Only the queues that a request names can have a job that lives for its watchers.
        let offer = Offer { is_watched: false, ..offer };
        let mut children = self.queues.children(name).into_iter().flatten();
        makes_none
            && children.all(|child| self.store_nothing(self.queues[*child].name(), offer, seen))
    }
}
