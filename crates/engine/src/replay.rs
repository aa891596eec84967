//! Bringing jobs back from the log before the first session opens.

use std::num::NonZeroU64;

use crate::engine::Engine;
use crate::ids::JobSlot;
use crate::job::{Aside, Body, Job, JobFacts, Kind, Outcome, State, Tags, expiry};
use crate::queue::QueueFacts;

/// A job that the log gave twice, or an id that was to be new: the log is not one that this
/// program wrote.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the log holds job {0} twice")]
pub struct Duplicate(pub u64);

impl Engine {
    /// Enters a job as the log kept it. Delayed jobs whose time has passed are ready.
    pub fn restore(
        &mut self,
        queue: &[u8],
        facts: &JobFacts,
        tags: Option<Tags<'_>>,
        body: Body,
    ) -> Result<JobSlot, Duplicate> {
        if self.ids.get(facts.id.0).is_some() {
            return Err(Duplicate(facts.id.0));
        }
        let queue = self.queue_or_create(queue);
        if facts.expires.is_some() {
            self.ensure_extra(queue);
        }
        let overdue = facts.state == State::Delayed && facts.due <= self.now;
        let outcome = tags.map(|Tags { unique, reducer }| {
            let (unique, reducer) = (unique.into(), reducer.into());
            Box::new(Outcome { submitted: true, unique, reducer, ..Outcome::default() })
        });
        let aside = Aside {
            delay_s: facts.delay_s,
            counters: facts.counters,
            order: NonZeroU64::new(facts.order).filter(|order| order.get() != facts.id.0),
            buried_order: facts.buried_order,
            expires: facts.expires.map(expiry),
            lease: None,
            outcome,
        };
        let slot = self.add_job(Job {
            id: facts.id,
            created: facts.created,
            due: facts.due,
            body,
            aside: (aside != Aside::default()).then(|| Box::new(aside)),
            queue,
            priority: facts.priority,
            ttr_s: facts.ttr_s,
            state: if overdue || facts.state == State::Leased { State::Ready } else { facts.state },
            kind: Kind::Logged,
        });
        if facts.state != State::Buried {
            self.add_unique(slot);
        }
        self.next_id = self.next_id.max(facts.id.0 + 1).max(facts.order + 1);
        self.next_lease = self.next_lease.max(self.next_id);
        self.next_buried = self.next_buried.max(facts.buried_order + 1);
        self.enlist(slot);
        Ok(slot)
    }

    /// Enters a queue as the log kept it.
    pub fn restore_queue(&mut self, name: &[u8], facts: QueueFacts) {
        let id = self.queue_or_create(name);
        let queue = self.queue_mut(id);
        queue.kept |= facts.kept;
        queue.limits = facts.limits;
        if facts.items {
            self.ensure_extra(id).created = facts.created;
            self.mark(id);
        }
        if facts.child {
            self.link_child(id);
            self.forget_unnoted(id);
        }
        self.arm_queue(id);
    }

    /// Numbers below this were given out before.
    pub fn raise_numbers(&mut self, next: u64) {
        self.next_id = self.next_id.max(next);
        self.next_lease = self.next_lease.max(next);
    }
}
