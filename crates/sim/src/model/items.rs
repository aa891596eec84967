//! Kestrel's items in the model. A read names one queue. Later requests name a held item by the
//! number of its lease. This file also has flushes and removals of queues.

use std::rc::Rc;

use broker::policy::Unsent;

use super::outcome::{News, Notification};
use super::record::Record;
use super::routes::{Refused, Routed};
use super::{Facts, Model, Name, Need, Place, State, Wait};

/// Requests of Kestrel have no priority, so the server uses this priority.
const PRIORITY: u32 = 1024;

/// How a read takes its item.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum FetchMode {
    Take,
    Open,
    Peek,
}

/// A wait for an item of one queue.
#[derive(Clone, Debug)]
pub(crate) struct ItemWait {
    pub(super) queue: Name,
    pub(super) is_look: bool,
}

/// The immediate result of a read.
#[derive(Debug)]
pub(super) enum Read {
    /// An item. `lease` is the number of its lease if the client holds the item.
    Item {
        lease: Option<u64>,
        body: Rc<[u8]>,
        need: Need,
    },
    Empty(Need),
    Waiting,
}

impl Model {
    pub(super) fn add_item(
        &mut self,
        place: Place,
        name: &str,
        body: &[u8],
        expires: Option<u64>,
    ) -> Result<Need, Refused> {
        let mut job = Self::new_job(PRIORITY, 0, 0, body);
        job.expires = expires;
        let route = self.route_to(name, true);
        let Routed { refused, need, .. } =
            self.put_along(route, (&job, Unsent::ALL), (b"", Some(place)), false);
        refused.map_or(Ok(need), Err)
    }

    pub(super) fn read(
        &mut self,
        place: Place,
        name: &str,
        how: FetchMode,
        patience_ms: u64,
    ) -> Read {
        if self.alias(name).is_some() {
            return Read::Empty(0);
        }
        let queue = self.item_queue(name);
        self.sweep(&queue);
        let serves =
            !self.reads_blocked() && !self.is_paused(&queue) && !self.is_shut_for_takers(&queue);
        if let Some(id) = self.first_ready(&queue).filter(|_| serves) {
            let body = self.jobs[&id].body.clone();
            return match how {
                FetchMode::Peek => Read::Item { lease: None, body, need: self.jobs[&id].need },
                FetchMode::Open => {
                    let lease = Some(self.open_read(place, id));
                    Read::Item { lease, body, need: self.jobs[&id].need }
                }
                FetchMode::Take => {
                    let created = self.jobs[&id].created;
                    self.pass_gates(&queue, id);
                    let queue = self.queue_mut(&queue);
                    queue.deletes += 1;
                    queue.last_read = Some(created);
                    self.keep_claim(id);
                    let need = self.end_job(id, &News::Complete([].into()));
                    Read::Item { lease: None, body, need }
                }
            };
        }
        if patience_ms == 0 {
            return Read::Empty(self.history.jobs_need(&queue));
        }
        let until = Some(self.now + patience_ms);
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.resume_sweep(&queue);
        let item = Some(ItemWait { queue, is_look: how == FetchMode::Peek });
        self.conn(place).waiting = Some(Wait { ticket, until, item });
        Read::Waiting
    }

    /// Gives an item to a client for an open read. Returns the number of the lease.
    fn open_read(&mut self, place: Place, id: u64) -> u64 {
        let (queue, created) = (self.jobs[&id].queue.clone(), self.jobs[&id].created);
        let queue = self.queue_mut(&queue);
        queue.last_read = Some(created);
        let timeout = queue.policy.open_timeout_ms;
        self.hand_out(place, id, timeout);
        self.tally.opens += 1;
        match self.jobs[&id].state {
            State::Leased(lease) => lease.number,
            _ => unreachable!("it was just handed out"),
        }
    }

    /// Gives a ready job to a waiting connection. Returns false if the connection only peeked at
    /// the job.
    pub(super) fn grant_item(&mut self, place: Place, id: u64, is_look: bool) -> bool {
        self.conn(place).waiting = None;
        let notification = if is_look {
            let job = &self.jobs[&id];
            Notification::Peeked { id, body: job.body.clone(), need: job.need }
        } else {
            let lease = self.open_read(place, id);
            let job = &self.jobs[&id];
            Notification::Granted { lease, body: job.body.clone(), need: job.need }
        };
        self.conn(place).notifications.push_back(notification);
        !is_look
    }

    /// The job that a connection holds with this lease.
    pub(super) fn held_by(&self, place: Place, lease: u64) -> Option<u64> {
        let serial = self.conns[&place].serial;
        let holds = |state| matches!(state, State::Leased(held) if held.number == lease && held.by == serial);
        self.jobs.iter().find(|(_, job)| holds(job.state)).map(|(id, _)| *id)
    }

    /// Ends the item of an open read. Returns the record that the reply depends on, or `None` if
    /// the connection no longer holds the item.
    pub(super) fn confirm(&mut self, place: Place, lease: u64) -> Option<Need> {
        let id = self.held_by(place, lease)?;
        let queue = self.jobs[&id].queue.clone();
        self.queue_mut(&queue).deletes += 1;
        self.keep_claim(id);
        Some(self.end_job(id, &News::Complete([].into())))
    }

    /// Moves an open read to another connection, for at most `limit_ms` from now.
    pub(super) fn hand_over(&mut self, id: u64, to: Place, limit_ms: u64) {
        let timeout = self.queues[&self.jobs[&id].queue].policy.open_timeout_ms;
        let until = self.now + timeout.unwrap_or(limit_ms).min(limit_ms);
        let serial = self.conns[&to].serial;
        if let State::Leased(lease) = &mut self.job_mut(id).state {
            (lease.by, lease.place, lease.limit) = (serial, None, until);
        }
        self.renew_deadline(id);
    }

    // --- Queues ---

    /// Ends all items of a queue, except items that a session holds. Returns the record that the
    /// reply depends on.
    pub(super) fn flush(&mut self, name: &str) -> Need {
        let before = self.history.len();
        // If an alias has the same name, requests cannot reach the queue.
        let is_hidden = self.alias(name).is_some();
        if let Some(name) = self.queue_named(name).filter(|_| !is_hidden) {
            let mut left = self.ready_count(&name);
            self.guarded(&name, |model| {
                while left > 0
                    && let Some(id) = model.first_ready(&name)
                {
                    left -= 1;
                    if model.is_expired(id) {
                        model.expire(id);
                    } else {
                        model.end_job(id, &News::Fail);
                    }
                }
            });
            self.drop_queue_if_unwanted(&name);
        }
        self.history.end_since(before)
    }

    fn ready_count(&self, name: &Name) -> usize {
        let ready = |job: &super::Job| job.state == State::Ready && job.queue == *name;
        self.jobs.values().filter(|job| ready(job)).count()
    }

    /// Like `flush`, for all queues of items, in the order of their names.
    pub(super) fn flush_all(&mut self) -> Need {
        let mut last: Option<Name> = None;
        let mut need = 0;
        loop {
            let items = self.queues.iter().filter(|(_, queue)| queue.facts.is_items);
            let next = items
                .map(|(name, _)| name)
                .find(|name| last.as_ref().is_none_or(|last| *name > last));
            let Some(next) = next.cloned() else { return need };
            need = need.max(self.flush(&next));
            last = Some(next);
        }
    }

    pub(super) fn flush_expired(&mut self, name: &str) -> (u64, Need) {
        let Some(name) = self.queue_named(name) else { return (0, 0) };
        let swept = self.sweep_some(&name, self.sweep_max(&name));
        self.drop_queue_if_unwanted(&name);
        swept
    }

    pub(super) fn flush_all_expired(&mut self) -> (u64, Need) {
        let items: Vec<Name> = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.facts.is_items)
            .map(|(name, _)| name.clone())
            .collect();
        let sweep = |name| self.sweep_some(name, self.sweep_max(name));
        let swept: Vec<(u64, Need)> = items.iter().map(sweep).collect();
        let count = swept.iter().map(|(count, _)| count).sum();
        (count, swept.into_iter().map(|(_, need)| need).max().unwrap_or(0))
    }

    /// Removes a queue with all its jobs, including leased jobs. Returns the record that the reply
    /// depends on.
    pub(super) fn remove_queue(&mut self, name: &str) -> Need {
        let Some(name) = self.queue_named(name) else { return 0 };
        let (record, is_strict) = (self.remove(&name), self.setting.is_strict);
        self.history.note(record, is_strict)
    }

    /// Ends all jobs of a queue. The queue stays only if clients use it. Returns the record of this.
    pub(super) fn remove(&mut self, name: &Name) -> Record {
        self.guarded(name, |model| {
            let held = model
                .jobs
                .iter()
                .filter(|(_, job)| job.queue == *name && matches!(job.state, State::Leased(_)));
            let held: Vec<u64> = held.map(|(id, _)| *id).collect();
            model.batch = Some(model.next_id);
            for id in held {
                model.end_job(id, &News::Fail);
            }
            model.batch = None;
            for place in model.readers_of(name) {
                let conn = model.conn(place);
                conn.waiting = None;
                conn.notifications.push_back(Notification::NoItem { need: 0 });
            }
            let mut ids: Vec<_> = model
                .jobs
                .iter()
                .filter(|(_, job)| job.queue == *name)
                .map(|(id, job)| match job.state {
                    State::Buried { order } => (0, order, 0, *id),
                    State::Delayed { due } => (1, due, *id, *id),
                    State::Ready => (2, u64::from(job.pri), job.order, *id),
                    State::Leased(_) => unreachable!("what was held has ended"),
                })
                .collect();
            ids.sort_unstable();
            for (.., id) in ids {
                model.end_job(id, &News::Fail);
            }
        });
        // If workers are registered for the queue, it stays in existence until a client drops it
        // again.
        let kept = self.workers_of(name) > 0 && &**name != "default";
        let facts = Facts { kept, ..Facts::default() };
        self.queue_mut(name).facts = facts;
        // If the queue stays, a rule that makes it a child applies to it again.
        if self.is_wanted(name) {
            self.resolve(name);
        }
        let record = Record::Queue(name.clone(), self.queues[name].facts);
        self.drop_queue_if_unwanted(name);
        record
    }
}
