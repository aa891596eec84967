//! Lanes: the policy orders the jobs of a queue by keys. `queues/lanes.rs` keeps the lanes. Here the
//! lists of jobs, leases and hand-outs tell them what happens, and lanes open.

use super::{Asker, Held};
use crate::effects::Effects;
use crate::engine::Engine;
use crate::ids::{JobSlot, LeaseId, QueueId};
use crate::jobs::State;
use crate::policy::KeyHash;
use crate::queues::{Closed, Cold, Entrant, Extension, Lanes, Queue, ReadyKey, Sorting};

impl Engine {
    /// The lanes of a queue, if its policy needs them.
    pub(in crate::engine) fn lanes<'a>(&self, queue: &'a Queue) -> Option<&'a Lanes> {
        if !self.queues.have_gates() {
            return None;
        }
        queue.extension().and_then(Extension::lanes).filter(|lanes| lanes.are_wanted())
    }

    /// The key of the lane of a job, whose queue has lanes.
    fn lane_key(&self, slot: JobSlot) -> KeyHash {
        let job = &self.jobs[slot];
        let lanes = self.queues[job.queue()].extension().and_then(Extension::lanes);
        let is_keyed = lanes.is_some_and(Lanes::are_keyed);
        if is_keyed { self.jobs.group_key(job.id()) } else { KeyHash::default() }
    }

    /// What the lane of a job needs to know of it.
    pub(in crate::engine) fn entrant(&self, slot: JobSlot) -> Entrant {
        let job = &self.jobs[slot];
        Entrant {
            key: self.lane_key(slot),
            place: job.ready_key(),
            ready_since: self.waits_since(slot),
            has_begun: job.counters().takes > 0,
        }
    }

    /// The next job of a queue with lanes, and its place among the next jobs of several queues.
    pub(in crate::engine) fn next_of_lanes(&self, lanes: &Lanes) -> Option<(ReadyKey, JobSlot)> {
        let slot = lanes.next()?;
        let job = &self.jobs[slot];
        let priority = match lanes.aging() {
            Some(aging) => aging.priority_after(job.priority(), self.now.since(job.ready_since())),
            None => job.priority(),
        };
        Some(((priority, job.order()), slot))
    }

    /// A job has entered the list of its queue for the job's state. The queue has an extension.
    pub(in crate::engine) fn enter_lane(&mut self, slot: JobSlot) {
        let job = &self.jobs[slot];
        let (queue, state, place) = (job.queue(), job.state(), job.delayed_key());
        if self.lanes(&self.queues[queue]).is_none() {
            return;
        }
        let job = self.entrant(slot);
        self.queues.change_lanes(queue, self.now, |lanes, terms| match state {
            State::Ready => lanes.enter(job, slot, terms),
            State::Delayed => lanes.enter_delayed(job, place, terms),
            State::Leased | State::Buried => {}
        });
    }

    /// A job has left the list of its queue for the job's state.
    pub(in crate::engine) fn leave_lane(&mut self, slot: JobSlot) {
        let job = &self.jobs[slot];
        let (queue, state, place) = (job.queue(), job.state(), job.delayed_key());
        if self.lanes(&self.queues[queue]).is_none() {
            return;
        }
        let job = self.entrant(slot);
        self.queues.change_lanes(queue, self.now, |lanes, terms| match state {
            State::Ready => lanes.leave(job, terms),
            State::Delayed => lanes.leave_delayed(job, place, terms),
            State::Leased | State::Buried => {}
        });
    }

    /// A job is handed out, and leased if `is_leased`.
    pub(in crate::engine) fn pass_lane(&mut self, slot: JobSlot, is_leased: bool) {
        let queue = self.jobs[slot].queue();
        if self.lanes(&self.queues[queue]).is_none() {
            return;
        }
        let key = self.lane_key(slot);
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
        let key = self.lane_key(slot);
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
                    let next = self.queues[id].ready().first_from(from);
                    let next = next.map(|(_, slot)| (self.entrant(JobSlot(slot)), JobSlot(slot)));
                    self.queues.change_lanes(id, self.now, |lanes, terms| match next {
                        Some((job, slot)) => lanes.sort_ready(job, slot, terms),
                        None => lanes.end_ready(),
                    });
                }
                Some(Sorting::FromDelayed(from)) => {
                    let next = self.queues[id].delayed().first_from(from);
                    let next = next.map(|(place, slot)| (self.entrant(JobSlot(slot)), place));
                    self.queues.change_lanes(id, self.now, |lanes, terms| match next {
                        Some((job, place)) => lanes.sort_delayed(job, place, terms),
                        None => lanes.end_delayed(),
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

    /// Whether the lanes of a queue do not have all its jobs yet. With a strict order, a cold job can
    /// hold back others.
    fn lanes_lack_jobs(&self, queue: &Queue, lanes: &Lanes) -> bool {
        let terms = self.queues.gate_terms(queue, self.now);
        !lanes.are_certain(terms)
            || lanes.are_strict() && queue.cold().is_some_and(Cold::has_waiting)
    }

    /// Why the lanes of a queue let no job through to this asker.
    pub(in crate::engine) fn lanes_gate(&self, queue: &Queue) -> Option<Held> {
        let lanes = self.lanes(queue)?;
        if self.lanes_lack_jobs(queue, lanes) {
            return Some(Held::Sorting);
        }
        if lanes.next().is_some() {
            return None;
        }
        let (_, first) = queue.ready().first()?;
        Some(self.lane_gate(queue, JobSlot(first)).unwrap_or(Held::Serving))
    }

    /// Why the lane of a job is closed. `None`: it is open.
    pub(in crate::engine) fn lane_gate(&self, queue: &Queue, slot: JobSlot) -> Option<Held> {
        let lanes = self.lanes(queue)?;
        if self.lanes_lack_jobs(queue, lanes) {
            return Some(Held::Sorting);
        }
        let terms = self.queues.gate_terms(queue, self.now);
        Some(self.held_by_lane(lanes, lanes.closed(self.lane_key(slot), terms)?))
    }

    /// Why a request that names this job does not get it, as far as its lane is concerned.
    pub(in crate::engine) fn lane_gate_of_job(&self, queue: &Queue, slot: JobSlot) -> Option<Held> {
        let lanes = self.lanes(queue)?;
        if self.lanes_lack_jobs(queue, lanes) {
            return Some(Held::Sorting);
        }
        let terms = self.queues.gate_terms(queue, self.now);
        let is_delayed = self.jobs[slot].state() == State::Delayed;
        let closed = lanes.closed_to(self.entrant(slot), is_delayed, terms)?;
        Some(self.held_by_lane(lanes, closed))
    }

    fn held_by_lane(&self, lanes: &Lanes, closed: Closed) -> Held {
        match closed {
            Closed::Slots(limit) if lanes.are_keyed() => Held::KeyConcurrency { limit },
            Closed::Slots(limit) => Held::Concurrency { limit },
            Closed::NoToken(moment) if lanes.are_keyed() => {
                Held::KeyRate { wait_ms: moment.since(self.now) }
            }
            Closed::NoToken(moment) => Held::Rate { wait_ms: moment.since(self.now) },
            Closed::Order => Held::Order,
            Closed::Opens => Held::Serving,
        }
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
