//! Gates in the model: a queue whose policy limits how many jobs it hands out in a time, and at one
//! time.

use broker::policy::{Policy, Rate};

use super::lanes::key_limits;
use super::{Model, Name, State};

/// The gates of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gates {
    /// Millionths of a job that the queue may still hand out, times 3.6: so a rate for each hour adds
    /// a whole number in each millisecond.
    credit: u128,
    /// The moment of `credit`.
    at: u64,
    /// True if the queue hands out nothing until its timer has looked at it.
    shut: bool,
}

/// The credit for one job.
pub(super) const JOB: u128 = 3_600_000_000;

/// The rate of all jobs of a queue together.
fn queue_rate(policy: &Policy) -> Option<Rate> {
    policy.rate.filter(|_| policy.rate_key.is_none())
}

/// The limit of all leased jobs of a queue together.
fn queue_slots(policy: &Policy) -> Option<std::num::NonZeroU32> {
    policy.concurrency.filter(|_| policy.concurrency_key.is_none() && !policy.is_strict())
}

impl Gates {
    pub(super) fn new(now: u64) -> Self {
        Self { credit: 0, at: now, shut: false }
    }
}

impl Model {
    /// The credit that a queue gets in each millisecond.
    fn gain(&self, name: &Name) -> Option<u128> {
        let rate = queue_rate(&self.queues[name].policy)?;
        let units_per_hour = 3_600_000 / rate.per.millis();
        Some(u128::from(rate.milli.get()) * u128::from(units_per_hour))
    }

    fn credit(&self, name: &Name) -> u128 {
        let queue = &self.queues[name];
        let gained = self.gain(name).unwrap_or(0) * u128::from(self.now - queue.gates.at);
        (queue.gates.credit + gained).min(u128::from(queue.policy.burst()) * JOB)
    }

    fn leased_in(&self, name: &Name) -> usize {
        let leased =
            |job: &&super::Job| matches!(job.state, State::Leased(_)) && job.queue == *name;
        self.jobs.values().filter(leased).count()
    }

    fn has_slot(&self, name: &Name) -> bool {
        let limit = queue_slots(&self.queues[name].policy);
        limit.is_none_or(|limit| self.leased_in(name) < limit.get() as usize)
    }

    fn has_token(&self, name: &Name) -> bool {
        queue_rate(&self.queues[name].policy).is_none() || self.credit(name) >= JOB
    }

    /// True if the policy limits the hand-outs of the queue.
    pub(super) fn has_gates(&self, name: &Name) -> bool {
        self.queues[name].policy.has_gates()
    }

    /// The number of jobs that the queue may hand out now.
    pub(super) fn openings(&self, name: &Name) -> usize {
        let policy = &self.queues[name].policy;
        let slots = queue_slots(policy).map_or(usize::MAX, |limit| {
            (limit.get() as usize).saturating_sub(self.leased_in(name))
        });
        let tokens = queue_rate(policy).map_or(usize::MAX, |_| (self.credit(name) / JOB) as usize);
        let keys = if self.is_keyed(name) { self.open_keys(name) } else { usize::MAX };
        slots.min(tokens).min(keys)
    }

    /// True if the queue gives no job to those who wait in its line.
    pub(super) fn is_shut(&self, name: &Name) -> bool {
        self.queues[name].gates.shut || self.has_no_open_key(name)
    }

    /// True if the queue gives no job to a request that takes one at once. A request does not
    /// overtake those who wait.
    pub(super) fn is_shut_for_takers(&self, name: &Name) -> bool {
        self.gates_are_shut_for_takers(name) || self.has_no_open_key(name)
    }

    fn has_no_open_key(&self, name: &Name) -> bool {
        self.is_keyed(name) && self.first_eligible(name).is_none()
    }

    /// Like [`Model::is_shut_for_takers`], whatever the keys of the jobs are.
    pub(super) fn gates_are_shut_for_takers(&self, name: &Name) -> bool {
        let passes = self.has_slot(name) && self.has_token(name);
        self.queues[name].gates.shut && !(passes && self.first_waiter(name).is_none())
    }

    /// Counts a hand-out. If it leaves the queue, its job is not leased.
    pub(super) fn pass_gates(&mut self, name: &Name, id: u64) {
        if !self.has_gates(name) {
            return;
        }
        self.pass_lane(id);
        if queue_rate(&self.queues[name].policy).is_some() {
            let (credit, now) = (self.credit(name), self.now);
            let gates = &mut self.queue_mut(name).gates;
            assert!(credit >= JOB, "a job passes without a token");
            (gates.credit, gates.at) = (credit - JOB, now);
        }
        self.shut_if_none_passes(name);
    }

    fn shut_if_none_passes(&mut self, name: &Name) {
        let shut = !self.has_slot(name) || !self.has_token(name);
        self.queue_mut(name).gates.shut |= shut;
    }

    /// Opens the gates, if a job can pass. Returns true if they were shut.
    pub(super) fn open_gates(&mut self, name: &Name) -> bool {
        let is_shut = self.queues[name].gates.shut;
        let opens = is_shut && self.has_slot(name) && self.has_token(name);
        self.queue_mut(name).gates.shut &= !opens;
        opens
    }

    /// The moment at which time opens the gates.
    pub(super) fn gate_moment(&self, name: &Name) -> Option<u64> {
        if !self.queues[name].gates.shut || !self.has_slot(name) {
            return self.lane_moment(name);
        }
        let missing = JOB.saturating_sub(self.credit(name));
        let wait = self.gain(name).map_or(0, |gain| missing.div_ceil(gain));
        [Some(self.now + wait as u64), self.lane_moment(name)].into_iter().flatten().min()
    }

    /// A new process knows nothing of the hand-outs before it, so all buckets are empty.
    pub(super) fn empty_buckets(&mut self) {
        let now = self.now;
        for queue in self.queues.values_mut() {
            queue.gates = Gates { credit: 0, at: now, shut: false };
        }
        for name in self.queues_by_place() {
            self.reset_lanes(&name, true);
            self.shut_if_none_passes(&name);
        }
    }

    /// Gives a queue another policy. Whole tokens stay, as far as the new burst allows.
    pub(super) fn change_gates(
        &mut self,
        name: &Name,
        policy: std::rc::Rc<broker::policy::Policy>,
    ) {
        let now = self.now;
        let before = queue_rate(&self.queues[name].policy);
        let limits_before = key_limits(&self.queues[name].policy);
        let limits = key_limits(&policy);
        let keys = |policy: &Policy| {
            let is_keyed = key_limits(policy).is_some_and(|limits| limits.is_keyed);
            let weights = policy.fair.key.as_ref().map(|_| policy.fair.weights.clone());
            let weights = weights.filter(|weights| !weights.is_empty());
            is_keyed.then(|| (policy.group_key().cloned(), weights))
        };
        let keys_change = keys(&self.queues[name].policy) != keys(&policy);
        let rate = queue_rate(&policy);
        let mut credit = if before.is_some() { self.credit(name) } else { 0 };
        if before != rate {
            let jobs = (credit / JOB).min(u128::from(policy.burst()));
            credit = if rate.is_some() { jobs * JOB } else { 0 };
        }
        let queue = self.queue_mut(name);
        queue.policy = policy;
        (queue.gates.credit, queue.gates.at) = (credit, now);
        if limits != limits_before || limits.is_some() && keys_change {
            let is_keyed = limits.is_some_and(|limits| limits.is_keyed);
            // A lease counts for the key that it began with.
            let forgets = limits_before.is_none_or(|before| before.is_keyed != is_keyed);
            self.reset_lanes(name, forgets);
        }
        self.shut_if_none_passes(name);
    }
}
