//! Limits and orders for each key in the model. It looks at all jobs for each question, and has no index.

use std::collections::BTreeMap;

use broker::policy::{Aging, FairMode, KeyHash, KeySource, Policy, Rate};

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
    /// The key with the lowest number has the turn, if keys take turns.
    turn: u64,
    /// The jobs that are left of the turn.
    left: u32,
}

/// The limits that count for each key, or for the whole queue if its order is strict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KeyLimits {
    pub(super) is_keyed: bool,
    is_strict: bool,
    rate: Option<Rate>,
    burst: u32,
    slots: Option<usize>,
    /// The mode, and whether the keys come before the priorities.
    fair: Option<(FairMode, bool)>,
    aging: Option<Aging>,
}

pub(super) fn key_limits(policy: &Policy) -> Option<KeyLimits> {
    let is_strict = policy.is_strict();
    let is_whole = is_strict && policy.concurrency_key.is_none();
    let is_keyed = policy.group_key().is_some() && !is_whole;
    if !is_keyed && !is_strict && policy.aging.is_none() {
        return None;
    }
    let fair = Some((policy.fair.mode, policy.fair.across_priorities))
        .filter(|_| is_keyed && policy.fair.key.is_some());
    let aging = policy.aging;
    let rate = policy.rate.filter(|_| policy.rate_key.is_some());
    let slots = policy.concurrency.filter(|_| is_strict || policy.concurrency_key.is_some());
    let slots = slots.map(|limit| limit.get() as usize);
    let burst = if rate.is_some() { policy.burst() } else { 1 };
    Some(KeyLimits { is_keyed, is_strict, rate, burst, slots, fair, aging })
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
        // The address of a connection is its number: see `World::connect`.
        let client = offer.client.map_or_else(String::new, |place| place.to_string());
        let source = KeySource { body: offer.body, gearman_unique: offer.unique, client: &client };
        let value = by.compute(source);
        (!value.is_empty()).then_some(value.hash)
    }

    /// True if the queue has limits for each key, or a strict order.
    pub(super) fn is_keyed(&self, name: &Name) -> bool {
        self.limits_of(name).is_some()
    }

    fn limits_of(&self, name: &Name) -> Option<KeyLimits> {
        key_limits(&self.queues[name].policy)
    }

    /// The key that counts for a job of this queue with this group key.
    fn lane_key(&self, name: &Name, group: Option<KeyHash>) -> KeyHash {
        let is_keyed = self.limits_of(name).is_some_and(|limits| limits.is_keyed);
        group.filter(|_| is_keyed).unwrap_or_default()
    }

    fn key_of(&self, id: u64) -> KeyHash {
        let job = &self.jobs[&id];
        self.lane_key(&job.queue, job.group)
    }

    /// True if the order of the jobs of the queue is strict.
    pub(super) fn has_strict_order(&self, name: &Name) -> bool {
        self.limits_of(name).is_some_and(|limits| limits.is_strict)
    }

    /// Leases with smaller numbers do not count. Without keys, all leases count in the one lane.
    fn first_counted_lease(&self, name: &Name) -> u64 {
        let is_keyed = self.limits_of(name).is_some_and(|limits| limits.is_keyed);
        if is_keyed { self.queues[name].first_lease } else { 0 }
    }

    /// The number of leased jobs of a key that count. Does not count this job.
    fn leased_of(&self, name: &Name, key: KeyHash, except: Option<u64>) -> usize {
        let first = self.first_counted_lease(name);
        let counts = |(id, job): &(&u64, &super::Job)| {
            let is_counted = matches!(job.state, State::Leased(lease) if lease.number >= first);
            is_counted
                && job.queue == *name
                && self.lane_key(name, job.group) == key
                && Some(**id) != except
        };
        self.jobs.iter().filter(counts).count()
    }

    /// The number of delayed jobs of a key that keep their slots. Does not count this job.
    fn delayed_of(&self, name: &Name, key: KeyHash, except: Option<u64>) -> usize {
        if !self.has_strict_order(name) {
            return 0;
        }
        let counts = |(id, job): &(&u64, &super::Job)| {
            job.keeps_slot()
                && job.queue == *name
                && self.lane_key(name, job.group) == key
                && Some(**id) != except
                && !self.unplaced.contains(id)
        };
        self.jobs.iter().filter(counts).count()
    }

    fn slots_of(&self, name: &Name, key: KeyHash, except: Option<u64>) -> usize {
        self.leased_of(name, key, except) + self.delayed_of(name, key, except)
    }

    /// How urgent a ready job is, for ever: the lowest number comes first. A delayed job is as urgent as
    /// it will be when it is due, and a buried job as if it was kicked now.
    fn urgency(&self, name: &Name, id: u64) -> u128 {
        let job = &self.jobs[&id];
        let since = match job.state {
            State::Delayed { due } => due,
            State::Buried { .. } => self.now,
            State::Ready | State::Leased(_) => job.since,
        };
        match self.limits_of(name).and_then(|limits| limits.aging) {
            Some(Aging { steps, per_ms }) => {
                u128::from(job.pri) * u128::from(per_ms.get())
                    + u128::from(job.created.max(since)) * u128::from(steps.get())
            }
            None => job.pri.into(),
        }
    }

    /// The place of a ready job among the ready jobs of its key.
    fn place_in_lane(&self, name: &Name, id: u64) -> (bool, u128, u64) {
        let job = &self.jobs[&id];
        let is_behind = self.has_strict_order(name) && job.counts.reserves == 0;
        (is_behind, self.urgency(name, id), job.order)
    }

    /// The place of a key with this first job among the keys.
    fn rank(&self, name: &Name, id: u64) -> (u128, u128, u64) {
        let (urgency, order) = (self.urgency(name, id), self.jobs[&id].order);
        let limits = self.limits_of(name).expect("a queue with keys");
        let Some((mode, across)) = limits.fair else { return (urgency, 0, order) };
        let level = match limits.aging {
            _ if across => 0,
            Some(aging) => urgency / u128::from(aging.per_ms.get()),
            None => urgency,
        };
        let key = self.key_of(id);
        let share = match mode {
            FairMode::RoundRobin => self.queues[name].lanes[&key].turn.into(),
            FairMode::InFlight => {
                // A common multiple of all weights of the simulation.
                (self.leased_of(name, key, None) as u128) * 6 / u128::from(self.weight(name, key))
            }
        };
        (level, share, order)
    }

    /// The weight of a key.
    fn weight(&self, name: &Name, key: KeyHash) -> u32 {
        let policy = &self.queues[name].policy;
        let Some(by) = policy.group_key() else { return 1 };
        let hash = |text: &str| {
            let body = text.as_bytes();
            let source = KeySource { body, gearman_unique: body, client: text };
            by.compute(source).hash
        };
        let mut weights = policy.fair.weights.iter();
        weights.find(|(text, _)| hash(text) == key).map_or(1, |(_, weight)| weight.get())
    }

    /// The key comes behind all others.
    fn begin_turn(&mut self, name: &Name, key: KeyHash) {
        let left = self.weight(name, key);
        let queue = self.queue_mut(name);
        queue.next_turn += 1;
        let turn = queue.next_turn;
        if let Some(lane) = queue.lanes.get_mut(&key) {
            (lane.turn, lane.left) = (turn, left);
        }
    }

    /// A ready job has left the list of ready jobs, and entered it again.
    pub(super) fn reenter_lane(&mut self, name: &Name, id: u64) {
        let key = self.key_of(id);
        if self.is_keyed(name) && !self.has_ready(name, key, Some(id)) {
            self.begin_turn(name, key);
        }
    }

    /// The place of the next job of a queue among the next jobs of several queues.
    pub(super) fn key_among_queues(&self, id: u64) -> (u32, u64) {
        let job = &self.jobs[&id];
        let Some(Aging { steps, per_ms }) =
            self.limits_of(&job.queue).and_then(|limits| limits.aging)
        else {
            return job.key();
        };
        let waited = self.now - job.created.max(job.since);
        let fallen = waited * u64::from(steps.get()) / u64::from(per_ms.get());
        (job.pri.saturating_sub(fallen.min(u32::MAX.into()) as u32), job.order)
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
        slots.is_none_or(|limit| self.slots_of(name, key, except) < limit)
    }

    /// True if nothing distinguishes the key from a new one, apart from this job.
    fn is_as_new(&self, name: &Name, key: KeyHash, except: Option<u64>) -> bool {
        let Some(limits) = self.limits_of(name) else { return true };
        let is_full = limits.rate.is_none() || self.credit_of(name, key) >= limits.full();
        is_full && self.slots_of(name, key, except) == 0 && !self.has_ready(name, key, except)
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
            self.queue_mut(name).lanes.insert(key, Lane { credit, at, is_open, turn: 0, left: 0 });
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

    /// True if a client that names a job can have it, as far as its key is concerned.
    pub(super) fn key_lets_take(&self, name: &Name, id: u64) -> bool {
        if !self.has_strict_order(name) {
            return self.key_is_open(name, id);
        }
        let key = self.key_of(id);
        if self.jobs[&id].keeps_slot() {
            let slots = self.limits_of(name).and_then(|limits| limits.slots);
            let has_slot = slots.is_none_or(|limit| self.leased_of(name, key, None) < limit);
            return has_slot && self.key_has_token(name, key);
        }
        let place = self.place_in_lane(name, id);
        let comes_before =
            |other: u64| self.key_of(other) == key && self.place_in_lane(name, other) < place;
        self.key_is_open(name, id) && !self.ready_in(name).any(comes_before)
    }

    /// The ready jobs whose keys are open.
    fn eligible(&self, name: &Name) -> Vec<u64> {
        let open = |id: &u64| {
            let lane = self.queues[name].lanes.get(&self.key_of(*id));
            lane.is_some_and(|lane| lane.is_open)
        };
        self.ready_in(name).filter(open).collect()
    }

    /// The best first job of a key that is open.
    pub(super) fn first_eligible(&self, name: &Name) -> Option<u64> {
        let mut firsts: BTreeMap<KeyHash, u64> = BTreeMap::new();
        for id in self.eligible(name) {
            let first = firsts.entry(self.key_of(id)).or_insert(id);
            if self.place_in_lane(name, id) < self.place_in_lane(name, *first) {
                *first = id;
            }
        }
        firsts.into_values().min_by_key(|id| self.rank(name, *id))
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
            self.reenter_lane(&name, id);
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
        if self.has_ready(&name, key, Some(id)) {
            let lane = self.queue_mut(&name).lanes.get_mut(&key).expect("it was just made");
            lane.left = lane.left.saturating_sub(1);
            if lane.left == 0 {
                self.begin_turn(&name, key);
            }
        }
        let passes = self.key_has_slot(&name, key, None) && self.key_has_token(&name, key);
        let lane = self.queue_mut(&name).lanes.get_mut(&key).expect("it was just made");
        lane.is_open &= passes;
    }

    /// A job of a queue is delayed now. Its lease may not have counted, or it came from another queue.
    pub(super) fn keep_slot(&mut self, name: &Name, id: u64) {
        if self.has_strict_order(name) && self.jobs[&id].keeps_slot() {
            self.ensure_lane(name, id);
            let key = self.key_of(id);
            let has_slot = self.key_has_slot(name, key, None);
            let lane = self.queue_mut(name).lanes.get_mut(&key).expect("it was just made");
            lane.is_open &= has_slot;
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
        let (first, is_strict) = (self.first_counted_lease(name), self.has_strict_order(name));
        let is_here = |job: &super::Job| {
            let counts = match job.state {
                State::Ready => true,
                State::Leased(lease) => lease.number >= first,
                State::Delayed { .. } => is_strict && job.keeps_slot(),
                State::Buried { .. } => false,
            };
            job.queue == *name && counts
        };
        let here = self.jobs.iter().filter(|(_, job)| is_here(job));
        let keys: Vec<KeyHash> = here.map(|(_, job)| self.lane_key(name, job.group)).collect();
        for key in keys {
            let is_open = self.key_has_slot(name, key, None) && self.key_has_token(name, key);
            let lane = Lane { credit: 0, at: now, is_open, turn: 0, left: 0 };
            self.queue_mut(name).lanes.insert(key, lane);
        }
        let mut ready: Vec<_> = self.ready_keys(name).collect();
        ready.sort_unstable();
        for (_, id) in ready {
            let key = self.key_of(id);
            if self.queues[name].lanes[&key].turn == 0 {
                self.begin_turn(name, key);
            }
        }
    }
}
