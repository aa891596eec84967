//! Gates: a queue whose policy limits its hand-outs. `queues/gates.rs` counts tokens and slots. Here
//! hand-outs ask the gates and pass them, and the queue's timer opens them.

use super::{Asker, Held};
use crate::engine::Engine;
use crate::ids::{JobSlot, Millis, QueueId};
use crate::policy::Policy;
use crate::queues::{Extension, GateTerms, Lanes, Queue};
use crate::timers::TimerKey;

impl Engine {
    fn gate_terms(&self, queue: &Queue) -> GateTerms {
        self.queues.gate_terms(queue, self.now)
    }

    /// Whether the policy of a queue limits its hand-outs.
    pub(in crate::engine) fn has_gates(&self, id: QueueId) -> bool {
        self.queues.have_gates() && self.policy_of(id).is_some_and(Policy::has_gates)
    }

    /// Whether the gates of a queue are shut.
    pub(in crate::engine) fn is_shut(&self, queue: &Queue) -> bool {
        self.queues.have_gates() && queue.extension().is_some_and(Extension::is_shut)
    }

    /// The number of ready jobs in memory that the gates of a queue let through now.
    pub(in crate::engine) fn passable(&self, queue: &Queue) -> u64 {
        self.openings(queue).min(queue.ready().len() as u64)
    }

    /// The number of jobs that the gates of a queue let through now.
    pub(in crate::engine) fn openings(&self, queue: &Queue) -> u64 {
        if !self.queues.have_gates() {
            return u64::MAX;
        }
        let terms = self.gate_terms(queue);
        let by_lanes = self.lanes(queue).map_or(u64::MAX, Lanes::openings);
        let openings = queue.extension().map_or(u64::MAX, |extension| extension.openings(terms));
        openings.min(by_lanes)
    }

    /// Why the gates of a queue let no job through to this asker. If a token or a slot is there, and
    /// the queue's timer has not opened the gates yet, a taker overtakes nobody if nobody waits.
    #[inline]
    pub(in crate::engine) fn gate(&self, queue: &Queue, asker: Asker) -> Option<Held> {
        // Normally no queue has gates. Then this reads no memory of the queue.
        if self.queues.have_gates() { self.gate_or_lanes(queue, asker) } else { None }
    }

    #[cold]
    fn gate_or_lanes(&self, queue: &Queue, asker: Asker) -> Option<Held> {
        let shut = if self.is_shut(queue) { self.shut_gate(queue, asker) } else { None };
        shut.or_else(|| self.lanes_gate(queue))
    }

    /// Why a request that names this job does not get it, although the queue is not paused. `None`:
    /// it does.
    pub(in crate::engine) fn gate_of_job(&self, slot: JobSlot) -> Option<Held> {
        let queue = &self.queues[self.jobs[slot].queue()];
        let shut = if self.is_shut(queue) { self.shut_gate(queue, Asker::Taker) } else { None };
        shut.or_else(|| self.lane_gate_of_job(queue, slot))
    }

    #[cold]
    fn shut_gate(&self, queue: &Queue, asker: Asker) -> Option<Held> {
        let extension = queue.extension()?;
        let terms = self.gate_terms(queue);
        if let Some(limit) = extension.full_slots(terms) {
            return Some(Held::Concurrency { limit });
        }
        let wait_ms = extension.next_token(terms).map_or(0, |token| token.since(self.now));
        if wait_ms > 0 {
            return Some(Held::Rate { wait_ms });
        }
        let may_pass = asker == Asker::Taker && queue.waiters().is_empty();
        (!may_pass).then_some(Held::Serving)
    }

    /// A job of this queue is handed out. Takes a token, and shuts the gates behind the job if no
    /// other job can pass.
    #[cold]
    pub(in crate::engine) fn pass_gates(&mut self, id: QueueId) {
        let terms = self.gate_terms(&self.queues[id]);
        let Some(extension) = self.queues[id].extension_mut() else { return };
        extension.pass_gates(terms);
        if extension.is_shut() {
            self.arm_queue(id);
        }
    }

    /// A lease of a job of this queue ends. If the gates are shut, the queue's timer opens them, and
    /// serves the sessions that wait.
    pub(in crate::engine) fn free_slot(&mut self, id: QueueId) {
        if self.is_shut(&self.queues[id]) {
            let now = self.now;
            self.timers.arm(self.queues[id].timer_mut(), now, TimerKey::Queue(id.0));
        }
    }

    /// Opens the gates of a queue if a job can pass them. Returns whether they were shut. The caller
    /// serves the sessions that wait.
    pub(in crate::engine) fn settle(&mut self, id: QueueId) -> bool {
        if !self.queues.have_gates() {
            return false;
        }
        let terms = self.gate_terms(&self.queues[id]);
        self.queues[id].extension_mut().is_some_and(|extension| extension.settle(terms))
    }

    /// The moment at which time opens the gates of a queue.
    pub(in crate::engine) fn gates_open(&self, queue: &Queue) -> Option<Millis> {
        let extension = queue.extension().filter(|_| self.queues.have_gates())?;
        extension.gates_open(self.gate_terms(queue)).map(|moment| moment.max(self.now))
    }

    /// The moment at which the queue's timer must open or sort lanes.
    pub(in crate::engine) fn lanes_moment(&self, queue: &Queue) -> Option<Millis> {
        let extension = queue.extension().filter(|_| self.queues.have_gates())?;
        let moment = extension.lanes()?.next_moment(self.gate_terms(queue))?;
        Some(moment.max(self.now))
    }

    /// Empties the buckets of all queues. For a follower that becomes the leader, and does not know
    /// how many tokens the old leader has left. A follower's timers do not run, so no gate with a rate is
    /// open.
    pub fn empty_buckets(&mut self) {
        self.queues.buckets_empty_at = self.now;
        // The lanes of a queue are sorted again, because none of them may be open. A walk that the
        // follower has not ended begins again: it does not return to the queues that it has visited.
        if self.queues.have_gates() {
            self.walk_by_timer();
        }
    }
}
