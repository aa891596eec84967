//! Leases. Every lease begins, is renewed, moves to another session, and ends in this file.

use crate::effects::{Effects, Handout, Record};
use crate::engine::{Engine, NotFound};
use crate::ids::{JobId, JobSlot, LeaseId, Millis, SessionId};
use crate::jobs::{Lease, State};
use crate::sessions::NEVER;
use crate::spans::LeaseEnd;

impl Engine {
    /// Leases a job to a session. The job must be in no list. Every lease begins here. The job's
    /// ttr gives one moment, and the holder's limit gives another moment. The earlier moment is the
    /// deadline.
    pub(in crate::engine) fn lease(
        &mut self,
        slot: JobSlot,
        session: SessionId,
        limit_ms: Option<u64>,
        effects: &mut Effects,
    ) -> Handout {
        let waits_since = self.waits_since(slot);
        self.change_state(slot, State::Leased);
        let until = limit_ms.map_or(NEVER, |limit| Millis(self.now.0.saturating_add(limit)));
        let lease = Lease { id: self.sessions.deal_lease(), holder: session, until };
        let deadline = self.deadline(self.jobs[slot].ttr_s()).min(until);
        self.jobs[slot].count(|counters| &mut counters.takes);
        self.hand_out(slot, Some((lease.id, session)), waits_since);
        let job = &mut self.jobs[slot];
        job.set_due(deadline);
        job.set_lease(Some(lease));
        job.set_taken(self.now);
        let queue = job.queue();
        let handout = Handout { job: slot, id: job.id(), lease: lease.id, body: job.body() };
        self.jobs.recharge(slot);
        self.sessions[session].hold(queue, lease.id, deadline, slot);
        self.arm_session(session);
        let is_durable = self.rules.have_durable_leases()
            && self.policy_of(queue).is_some_and(|policy| policy.durable_leases);
        self.note(if is_durable { Record::Taken } else { Record::Count }, slot, effects);
        handout
    }

    /// The moment from which a job waits for a session. A buried job does not wait. It still has the
    /// deadline of its lease, and would be ready now if a client kicked it.
    #[inline]
    pub(in crate::engine) fn waits_since(&self, slot: JobSlot) -> Millis {
        let job = &self.jobs[slot];
        if job.state() == State::Buried { self.now } else { job.ready_since() }
    }

    /// Counts a hand-out of a job. Every hand-out is here: with a lease, or without one if the job ends
    /// at the same time.
    #[inline]
    pub(in crate::engine) fn hand_out(
        &mut self,
        slot: JobSlot,
        holder: Option<(LeaseId, SessionId)>,
        waits_since: Millis,
    ) {
        self.tally.takes += 1;
        if self.queues.have_gates() {
            self.pass_gates(self.jobs[slot].queue());
            self.pass_lane(slot, holder.is_some());
        }
        self.tally.times.waits_ms.add(self.now.since(waits_since));
        if self.is_observed {
            self.observe_hand_out(slot, holder, waits_since);
        }
    }

    /// Ends the lease of a job. Every lease ends here. The caller sets the job's state.
    pub(in crate::engine) fn end_lease(&mut self, slot: JobSlot, end: LeaseEnd) {
        let job = &mut self.jobs[slot];
        let lease = job.lease().expect("a leased job has a lease");
        let (deadline, queue) = (job.due(), job.queue());
        let leased_ms = job.leased_for_ms(self.now);
        self.tally.times.leases_ms.add(leased_ms);
        job.set_lease(None);
        if self.is_observed {
            self.observe_lease_end(slot, lease.id, leased_ms, end);
        }
        if let Some(session) = self.sessions.find_mut(lease.holder) {
            session.let_go(queue, lease.id, deadline, slot);
        }
        if self.queues.have_gates() {
            self.free_slot(queue);
            self.free_lane(slot, lease.id);
        }
    }

    /// The deadline of a job that a session takes or touches now.
    pub(in crate::engine) fn deadline(&self, ttr_s: u32) -> Millis {
        if ttr_s == 0 { NEVER } else { self.now.plus_seconds(ttr_s) }
    }

    /// Restarts the ttr of a job that this session holds.
    pub fn touch(&mut self, session: SessionId, id: JobId) -> Result<JobSlot, NotFound> {
        let slot = self.held(session, id)?;
        self.renew_deadline(slot);
        Ok(slot)
    }

    /// Restarts the ttr of a leased job. The deadline is at most the holder's limit.
    pub(in crate::engine) fn renew_deadline(&mut self, slot: JobSlot) {
        let job = &self.jobs[slot];
        let lease = job.lease().expect("a held job has a lease");
        let (before, deadline) = (job.due(), self.deadline(job.ttr_s()).min(lease.until));
        self.jobs[slot].set_due(deadline);
        self.sessions[lease.holder].move_deadline(lease.id, before, deadline, slot);
        self.arm_session(lease.holder);
    }

    /// The place of the job that this session holds by this lease.
    pub fn held_by(&self, holder: SessionId, lease: LeaseId) -> Result<JobSlot, NotFound> {
        self.sessions.find(holder).and_then(|session| session.held_by(lease)).ok_or(NotFound)
    }

    /// Whether this session holds a job by this lease.
    pub fn holds(&self, holder: SessionId, lease: LeaseId) -> bool {
        self.held_by(holder, lease).is_ok()
    }

    /// Hands an open read over to another session. The item is given back automatically after
    /// `limit_ms` milliseconds from now, or after the policy's `open.timeout`, whichever is
    /// shorter.
    pub fn hand_over(
        &mut self,
        holder: SessionId,
        lease: LeaseId,
        to: SessionId,
        limit_ms: Option<u64>,
    ) -> Result<(), NotFound> {
        let slot = self.held_by(holder, lease)?;
        self.meter.count(1);
        let job = &self.jobs[slot];
        let (queue, deadline) = (job.queue(), job.due());
        self.sessions[holder].let_go(queue, lease, deadline, slot);
        self.arm_session(holder);
        let limit_ms = self.read_limit(queue, limit_ms);
        let until = limit_ms.map_or(NEVER, |limit| Millis(self.now.0.saturating_add(limit)));
        self.jobs[slot].set_lease(Some(Lease { id: lease, holder: to, until }));
        self.sessions[to].hold(queue, lease, deadline, slot);
        self.renew_deadline(slot);
        Ok(())
    }
}
