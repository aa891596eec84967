//! Lanes: limits for each key of a queue. `queues/lanes.rs` keeps the lanes. Here the lists of ready
//! jobs, leases and hand-outs tell them what happens, and lanes open.

use super::{Asker, Held};
use crate::effects::Effects;
use crate::engine::Engine;
use crate::ids::{JobSlot, LeaseId, QueueId};
use crate::policy::KeyHash;
use crate::queues::{Closed, Extension, Lanes, Queue, Sorting};

impl Engine {
    /// The lanes of a queue, if its policy has limits for each key.
    pub(in crate::engine) fn lanes<'a>(&self, queue: &'a Queue) -> Option<&'a Lanes> {
        if !self.queues.have_gates() {
            return None;
        }
        queue.extension().and_then(Extension::lanes).filter(|lanes| lanes.are_wanted())
    }

    fn group_key(&self, slot: JobSlot) -> KeyHash {
        self.jobs.group_key(self.jobs[slot].id())
    }

    /// A job has entered the list of ready jobs of its queue, which has an extension.
    pub(in crate::engine) fn enter_lane(&mut self, slot: JobSlot) {
        let job = &self.jobs[slot];
        let (queue, place) = (job.queue(), job.ready_key());
        if self.lanes(&self.queues[queue]).is_none() {
            return;
        }
        let key = self.group_key(slot);
        self.queues.change_lanes(queue, self.now, |lanes, terms| {
            lanes.enter(key, place, slot, terms);
        });
    }

    /// A job has left the list of ready jobs of its queue, which has an extension.
    pub(in crate::engine) fn leave_lane(&mut self, slot: JobSlot) {
        let job = &self.jobs[slot];
        let (queue, place) = (job.queue(), job.ready_key());
        if self.lanes(&self.queues[queue]).is_some() {
            let key = self.group_key(slot);
            self.queues.change_lanes(queue, self.now, |lanes, terms| {
                lanes.leave(key, place, terms);
            });
        }
    }

    /// A job is handed out, and leased if `is_leased`.
    pub(in crate::engine) fn pass_lane(&mut self, slot: JobSlot, is_leased: bool) {
        let queue = self.jobs[slot].queue();
        if self.lanes(&self.queues[queue]).is_none() {
            return;
        }
        let key = self.group_key(slot);
        let changed = self.queues.change_lanes(queue, self.now, |lanes, terms| {
            lanes.hand_out(key, is_leased, terms);
        });
        if changed.is_some() {
            self.arm_queue(queue);
        }
    }

    /// A lease of a job ends. If its lane can open now, the queue's timer opens it.
    pub(in crate::engine) fn free_lane(&mut self, slot: JobSlot, lease: LeaseId) {
        let queue = self.jobs[slot].queue();
        if self.lanes(&self.queues[queue]).is_none() {
            return;
        }
        let key = self.group_key(slot);
        let changed = self.queues.change_lanes(queue, self.now, |lanes, terms| {
            lanes.end_lease(key, lease, terms);
        });
        if changed.is_some() {
            self.arm_queue(queue);
        }
    }

    /// Opens the lanes of a queue that can open, as many as the slice of work allows. Returns whether
    /// one of them has jobs. The caller serves the sessions that wait.
    pub(in crate::engine) fn open_due_lanes(&mut self, id: QueueId) -> bool {
        let terms = self.queues.gate_terms(&self.queues[id], self.now);
        if !self.lanes(&self.queues[id]).is_some_and(|lanes| lanes.have_due(terms)) {
            return false;
        }
        let mut opened = false;
        loop {
            let next = self.queues.change_lanes(id, self.now, Lanes::open_next);
            let Some(opens) = next.flatten() else { break };
            opened |= opens;
            self.meter.count(1);
            if self.meter.request_is_spent() {
                break;
            }
        }
        self.arm_queue(id);
        opened
    }

    /// Opens the lanes of a queue that can open, and serves the sessions that wait.
    pub(in crate::engine) fn open_lanes(&mut self, id: QueueId, effects: &mut Effects) {
        if self.open_due_lanes(id) {
            self.serve_waiters(id, effects);
        }
    }

    /// Sorts the ready jobs of a queue into lanes, or drops its lanes, as far as the slice of work
    /// allows. Returns whether the sorting has ended now.
    pub(in crate::engine) fn sort_lanes(&mut self, id: QueueId) -> bool {
        let needs_sorting = |lanes: &Lanes| lanes.need_sorting();
        if !self.queues.have_gates()
            || !self.queues[id].extension().and_then(Extension::lanes).is_some_and(needs_sorting)
        {
            return false;
        }
        while !self.meter.request_is_spent() {
            self.meter.count(1);
            match self.queues.change_lanes(id, self.now, Lanes::sort) {
                None | Some(Sorting::Done) => return true,
                Some(Sorting::Went) => {}
                Some(Sorting::Gone) => {
                    let first_lease = self.sessions.next_lease();
                    if !self.queues.replace_lanes(id, self.now, first_lease) {
                        return true;
                    }
                }
                Some(Sorting::From(from)) => {
                    let ready = self.queues[id].ready();
                    let Some((place, slot)) = ready.first_from(from) else {
                        self.queues.change_lanes(id, self.now, |lanes, _| lanes.sorted_up_to(None));
                        continue;
                    };
                    let (slot, behind) = (JobSlot(slot), (place.0, place.1 + 1));
                    let key = self.group_key(slot);
                    self.queues.change_lanes(id, self.now, |lanes, terms| {
                        lanes.enter_sorted(key, place, slot, terms);
                        lanes.sorted_up_to(Some(behind));
                    });
                }
            }
        }
        // The last step can spend the slice.
        self.queues[id]
            .extension()
            .and_then(Extension::lanes)
            .is_none_or(|lanes| !needs_sorting(lanes))
    }

    /// Why the lanes of a queue let no job through to this asker.
    pub(in crate::engine) fn lanes_gate(&self, queue: &Queue) -> Option<Held> {
        let lanes = self.lanes(queue)?;
        let terms = self.queues.gate_terms(queue, self.now);
        if !lanes.are_certain(terms) {
            return Some(Held::Sorting);
        }
        if lanes.next().is_some() {
            return None;
        }
        let (_, first) = queue.ready().first()?;
        Some(self.lane_gate(queue, JobSlot(first)).unwrap_or(Held::Serving))
    }

    /// Why a job may not be handed out, by the limits for its key. `None`: it may.
    pub(in crate::engine) fn lane_gate(&self, queue: &Queue, slot: JobSlot) -> Option<Held> {
        let lanes = self.lanes(queue)?;
        let terms = self.queues.gate_terms(queue, self.now);
        if !lanes.are_certain(terms) {
            return Some(Held::Sorting);
        }
        Some(match lanes.closed(self.group_key(slot), terms)? {
            Closed::Slots(limit) => Held::KeyConcurrency { limit },
            Closed::NoToken(moment) => Held::KeyRate { wait_ms: moment.since(self.now) },
            Closed::Opens => Held::Serving,
        })
    }

    /// Adds a ready job to its queue, which has lanes, and serves the sessions that wait.
    pub(in crate::engine) fn deliver_by_lanes(&mut self, slot: JobSlot, effects: &mut Effects) {
        let id = self.jobs[slot].queue();
        self.add_to_list(slot);
        if self.open_due_lanes(id) {
            return self.serve_waiters(id, effects);
        }
        let queue = &self.queues[id];
        let is_held = self.shut(queue, Asker::Line).is_some()
            || queue.head_is_cold()
            || self.lane_gate(queue, slot).is_some();
        if is_held {
            return;
        }
        if !queue.waiters().is_empty() {
            self.serve_waiters(id, effects);
        } else if queue.workers() > 0 && !queue.sleepers().is_empty() {
            self.wake_sleepers(id, 1, effects);
        }
    }
}
