//! Limits for each key in the model. It looks at all jobs for each question, and has no index.

use broker::policy::{KeyHash, KeySource, Policy, Rate};

use super::gates::JOB;
use super::unique::Offer;
use super::{Model, Name, State};

/// The state of a key in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    credit: u128,
    /// The moment of `credit`.
    at: u64,
    is_open: bool,
}

/// The limits that count for each key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KeyLimits {
    rate: Option<Rate>,
    burst: u32,
    slots: Option<usize>,
}

pub(super) fn key_limits(policy: &Policy) -> Option<KeyLimits> {
    policy.group_key()?;
    let rate = policy.rate.filter(|_| policy.rate_key.is_some());
    let slots = policy.concurrency.filter(|_| policy.concurrency_key.is_some());
    let burst = if rate.is_some() { policy.burst() } else { 1 };
    Some(KeyLimits { rate, burst, slots: slots.map(|limit| limit.get() as usize) })
}

impl KeyLimits {
    /// The credit that a key gets in each millisecond.
    fn gain(&self) -> Option<u128> {
        let rate = self.rate?;
        Some(u128::from(rate.milli.get()) * u128::from(3_600_000 / rate.per.millis()))
    }

    fn full(&self) -> u128 {
        u128::from(self.burst) * JOB
    }
}

impl Model {
    /// The group key that a put into this queue gets.
    pub(super) fn group_key_for(&self, queue: &Name, offer: Offer<'_>) -> Option<KeyHash> {
        let by = self.queues[queue].policy.group_key()?;
        let source = KeySource { body: offer.body, gearman_unique: offer.unique, client: "" };
        let value = by.compute(source);
        (!value.is_empty()).then_some(value.hash)
    }

    /// True if the queue has limits for each key.
    pub(super) fn is_keyed(&self, name: &Name) -> bool {
        self.limits_of(name).is_some()
    }

    fn limits_of(&self, name: &Name) -> Option<KeyLimits> {
        key_limits(&self.queues[name].policy)
    }

    fn key_of(&self, id: u64) -> KeyHash {
        self.jobs[&id].group.unwrap_or_default()
    }

    /// The number of leased jobs of a key that count. Does not count this job.
    fn leased_of(&self, name: &Name, key: KeyHash, except: Option<u64>) -> usize {
        let first = self.queues[name].first_lease;
        let counts = |(id, job): &(&u64, &super::Job)| {
            let is_counted = matches!(job.state, State::Leased(lease) if lease.number >= first);
            is_counted
                && job.queue == *name
                && job.group.unwrap_or_default() == key
                && Some(**id) != except
        };
        self.jobs.iter().filter(counts).count()
    }

    fn has_ready(&self, name: &Name, key: KeyHash, except: Option<u64>) -> bool {
        self.ready_in(name).any(|id| self.key_of(id) == key && Some(id) != except)
    }

    fn credit_of(&self, name: &Name, key: KeyHash) -> u128 {
        let Some(limits) = self.limits_of(name) else { return 0 };
        let queue = &self.queues[name];
        let (credit, at) =
            queue.lanes.get(&key).map_or((0, queue.lanes_empty_at), |lane| (lane.credit, lane.at));
        let gained = limits.gain().unwrap_or(0) * u128::from(self.now - at);
        (credit + gained).min(limits.full())
    }

    fn key_has_token(&self, name: &Name, key: KeyHash) -> bool {
        self.limits_of(name).is_none_or(|limits| limits.rate.is_none())
            || self.credit_of(name, key) >= JOB
    }

    fn key_has_slot(&self, name: &Name, key: KeyHash, except: Option<u64>) -> bool {
        let slots = self.limits_of(name).and_then(|limits| limits.slots);
        slots.is_none_or(|limit| self.leased_of(name, key, except) < limit)
    }

    /// True if nothing distinguishes the key from a new one, apart from this job.
    fn is_as_new(&self, name: &Name, key: KeyHash, except: Option<u64>) -> bool {
        let Some(limits) = self.limits_of(name) else { return true };
        let is_full = limits.rate.is_none() || self.credit_of(name, key) >= limits.full();
        is_full && self.leased_of(name, key, except) == 0 && !self.has_ready(name, key, except)
    }

    /// Makes sure that the key of a job has a state. The job itself does not count yet.
    fn ensure_lane(&mut self, name: &Name, id: u64) {
        let key = self.key_of(id);
        if self.is_as_new(name, key, Some(id)) {
            self.queue_mut(name).lanes.remove(&key);
        }
        if !self.queues[name].lanes.contains_key(&key) {
            let is_open = self.key_has_slot(name, key, Some(id)) && self.key_has_token(name, key);
            let (credit, at) = (0, self.queues[name].lanes_empty_at);
            self.queue_mut(name).lanes.insert(key, Lane { credit, at, is_open });
        }
    }

    /// True if a job may be handed out, as far as its key is concerned.
    pub(super) fn key_is_open(&self, name: &Name, id: u64) -> bool {
        if !self.is_keyed(name) {
            return true;
        }
        let key = self.key_of(id);
        match self.queues[name].lanes.get(&key) {
            Some(lane) => lane.is_open || self.is_as_new(name, key, None),
            None => self.key_has_token(name, key),
        }
    }

    /// The ready jobs whose keys are open.
    fn eligible(&self, name: &Name) -> Vec<u64> {
        let open = |id: &u64| {
            let lane = self.queues[name].lanes.get(&self.key_of(*id));
            lane.is_some_and(|lane| lane.is_open)
        };
        self.ready_in(name).filter(open).collect()
    }

    /// The best ready job whose key is open.
    pub(super) fn first_eligible(&self, name: &Name) -> Option<u64> {
        self.eligible(name).into_iter().min_by_key(|id| self.jobs[id].key())
    }

    /// The number of keys that have a job to hand out.
    pub(super) fn open_keys(&self, name: &Name) -> usize {
        let keys = self.eligible(name).into_iter().map(|id| self.key_of(id));
        keys.collect::<std::collections::BTreeSet<KeyHash>>().len()
    }

    /// A job is about to become ready in a queue.
    pub(super) fn enter_lane(&mut self, id: u64) {
        let name = self.jobs[&id].queue.clone();
        if self.is_keyed(&name) {
            self.ensure_lane(&name, id);
        }
    }

    /// A job is handed out. If its session holds it, it is leased already.
    pub(super) fn pass_lane(&mut self, id: u64) {
        let name = self.jobs[&id].queue.clone();
        let Some(limits) = self.limits_of(&name) else { return };
        self.ensure_lane(&name, id);
        let (key, now) = (self.key_of(id), self.now);
        if limits.rate.is_some() {
            let credit = self.credit_of(&name, key);
            assert!(credit >= JOB, "a job passes without a token of its key");
            let lane = self.queue_mut(&name).lanes.get_mut(&key).expect("it was just made");
            (lane.credit, lane.at) = (credit - JOB, now);
        }
        let passes = self.key_has_slot(&name, key, None) && self.key_has_token(&name, key);
        let lane = self.queue_mut(&name).lanes.get_mut(&key).expect("it was just made");
        lane.is_open &= passes;
    }

    /// A lease of this job ends. The queue's timer then opens the lane.
    pub(super) fn free_lane(&mut self, name: &Name, key: KeyHash) {
        if !self.is_keyed(name) {
            return;
        }
        let now = self.now;
        let queue = self.queue_mut(name);
        if queue.lanes.get(&key).is_some_and(|lane| !lane.is_open) {
            queue.timer = Some(queue.timer.map_or(now, |timer| timer.min(now)));
        }
    }

    /// Opens the keys that can open. Returns true if one of them has a job to hand out.
    pub(super) fn open_due_lanes(&mut self, name: &Name) -> bool {
        let mut opened = false;
        let keys: Vec<KeyHash> = self.queues[name].lanes.keys().copied().collect();
        for key in keys {
            let can = self.key_has_slot(name, key, None) && self.key_has_token(name, key);
            let lane = self.queue_mut(name).lanes.get_mut(&key).expect("one of its keys");
            if can && !lane.is_open {
                lane.is_open = true;
                opened |= self.has_ready(name, key, None);
            }
        }
        opened
    }

    /// Opens the keys that can open, and serves those who wait.
    pub(super) fn open_lanes(&mut self, name: &Name) {
        if self.open_due_lanes(name) && !self.is_paused(name) {
            self.serve_waiters(name);
        }
    }

    /// The moment at which time opens a key.
    pub(super) fn lane_moment(&self, name: &Name) -> Option<u64> {
        let limits = self.limits_of(name)?;
        let moments = self.queues[name].lanes.iter().filter_map(|(key, lane)| {
            if lane.is_open || !self.key_has_slot(name, *key, None) {
                return None;
            }
            let missing = JOB.saturating_sub(self.credit_of(name, *key));
            let wait = limits.gain().map_or(0, |gain| missing.div_ceil(gain));
            Some(self.now + wait as u64)
        });
        moments.min()
    }

    /// Other limits apply, or another process began. All buckets are empty.
    pub(super) fn reset_lanes(&mut self, name: &Name, forgets_leases: bool) {
        let (now, next_lease) = (self.now, self.next_lease);
        let queue = self.queue_mut(name);
        queue.lanes.clear();
        queue.lanes_empty_at = now;
        if forgets_leases {
            queue.first_lease = next_lease;
        }
        if !self.is_keyed(name) {
            return;
        }
        let first = self.queues[name].first_lease;
        let is_here = |job: &super::Job| {
            let counts = match job.state {
                State::Ready => true,
                State::Leased(lease) => lease.number >= first,
                State::Delayed { .. } | State::Buried { .. } => false,
            };
            job.queue == *name && counts
        };
        let here = self.jobs.iter().filter(|(_, job)| is_here(job));
        let keys: Vec<KeyHash> = here.map(|(_, job)| job.group.unwrap_or_default()).collect();
        for key in keys {
            let is_open = self.key_has_slot(name, key, None) && self.key_has_token(name, key);
            self.queue_mut(name).lanes.insert(key, Lane { credit: 0, at: now, is_open });
        }
    }
}
