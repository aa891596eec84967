//! The delivery rule, written without the engine: which job may be handed out now, and must one be
//! handed out? It is a slow function over a list of jobs. It keeps no sorted lists, no buckets and no
//! counts: it looks at all jobs and at all hand-outs so far.
//!
//! The specification follows the engine. It learns from the engine which job went to which session,
//! and which of the changes that are due have happened. It says whether this was right.

/// Milliseconds.
pub(super) type Moment = u64;

pub(super) const NEVER: Moment = u64::MAX;
pub(super) const QUEUES: usize = 2;
/// A session that waits is told so if it holds a job whose lease ends within this time.
const MARGIN_MS: u64 = 1000;

/// The policy of a queue.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Limits {
    pub(super) rate: Option<Rate>,
    pub(super) slots: Option<Slots>,
    pub(super) is_paused: bool,
    pub(super) share: Option<Share>,
    pub(super) aging: Option<Aging>,
}

/// A job in each `token_ms`, and up to `burst` jobs at once.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) struct Rate {
    pub(super) token_ms: u64,
    pub(super) burst: u64,
    pub(super) is_per_key: bool,
}

/// At most `limit` leased jobs.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) struct Slots {
    pub(super) limit: usize,
    pub(super) is_per_key: bool,
    /// A job keeps its slot while it is delayed, and comes first when it is ready again.
    pub(super) is_strict: bool,
}

/// How the keys share the hand-outs.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) struct Share {
    /// The key with the fewest leased jobs comes first. Otherwise the keys take turns.
    pub(super) by_leases: bool,
    /// The keys come before the priorities.
    pub(super) across_priorities: bool,
    /// The weights of the keys.
    pub(super) weights: [u32; 3],
}

/// The priority number of a ready job falls by `steps` in each `per_ms`.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) struct Aging {
    pub(super) steps: u64,
    pub(super) per_ms: u64,
}

impl Limits {
    /// Whether jobs get a key when they are put.
    fn have_keys(&self) -> bool {
        self.rate.is_some_and(|rate| rate.is_per_key)
            || self.slots.is_some_and(|slots| slots.is_per_key)
            || self.share.is_some()
    }

    pub(super) fn is_strict(&self) -> bool {
        self.slots.is_some_and(|slots| slots.is_strict)
    }

    /// What the queue must sort its jobs for. If it changes, buckets of keys are empty, and turns begin
    /// anew.
    fn order(&self) -> Limits {
        let rate = self.rate.filter(|rate| rate.is_per_key);
        let slots = self.slots.filter(|slots| slots.is_per_key || slots.is_strict);
        Limits { rate, slots, is_paused: false, share: self.share, aging: self.aging }
    }

    fn is_ordered(&self) -> bool {
        self.order() != Limits::default()
    }
}

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) struct Job {
    pub(super) queue: usize,
    /// `None`: the queue had no limit for each key when the job was put.
    pub(super) key: Option<usize>,
    pub(super) priority: u32,
    pub(super) state: State,
    pub(super) put_at: Moment,
    /// When it became ready, or becomes ready.
    pub(super) ready_at: Moment,
    /// It was handed out before.
    pub(super) has_begun: bool,
}

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum State {
    Ready,
    Delayed {
        until: Moment,
    },
    Leased {
        by: usize,
        until: Moment,
        /// Whether the lease began under a limit for each key.
        has_key_slot: bool,
    },
    Buried,
    Ended,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) limits: Limits,
    /// The end of a client's pause.
    pub(super) paused_until: Moment,
    /// Since this moment, the rate has applied. At this moment, the queue had `tokens` tokens, and
    /// each key had none.
    since: Moment,
    tokens: u64,
    /// All hand-outs since then, with their keys.
    hand_outs: Vec<(Moment, Option<usize>)>,
    /// The keys with ready jobs, in the order of their turns, and how many jobs are left in each turn.
    turns: Vec<(Option<usize>, u32)>,
}

#[derive(Clone, Debug)]
pub(super) struct Specification {
    pub(super) now: Moment,
    /// All jobs, in the order of their puts.
    pub(super) jobs: Vec<Job>,
    pub(super) queues: [Queue; QUEUES],
    /// The sessions that wait for a job of any queue. The first one has waited longest.
    pub(super) line: Vec<usize>,
    /// The workers that sleep until a job wakes them.
    pub(super) sleeping: Vec<usize>,
    /// The workers that were woken, and have not looked for a job since.
    pub(super) woken: Vec<usize>,
    /// Each job wakes one sleeping worker. Otherwise it wakes all of them.
    pub(super) wakes_one: bool,
    pub(super) ttr_ms: u64,
}

impl Specification {
    pub(super) fn new(now: Moment, limits: [Limits; QUEUES], ttr_ms: u64) -> Self {
        let queues = limits.map(|limits| Queue { limits, since: now, ..Queue::default() });
        Self {
            now,
            jobs: Vec::new(),
            queues,
            line: Vec::new(),
            sleeping: Vec::new(),
            woken: Vec::new(),
            wakes_one: false,
            ttr_ms,
        }
    }

    // --- The rule ---

    /// The job that this queue hands out next. `None`: it must hand out none now.
    pub(super) fn next_of(&self, queue: usize) -> Option<usize> {
        if self.is_paused(queue) {
            return None;
        }
        let ready = self.ready_of(queue).into_iter();
        let heads = ready.filter(|&job| self.has_room(job) && !self.is_passed(job));
        heads.min_by_key(|&job| (self.level(job), self.place_of_key(job), self.order(job)))
    }

    /// The job that a session gets now, because it asks for a job of any queue. There the priorities
    /// count as they are shown, and do not fall below 0.
    pub(super) fn next(&self) -> Option<usize> {
        let next = (0..QUEUES).filter_map(|queue| self.next_of(queue));
        next.min_by_key(|&job| {
            let Job { queue, priority, ready_at, .. } = self.jobs[job];
            let aged = |Aging { steps, per_ms }| (self.now - ready_at) * steps / per_ms;
            let aged = self.queues[queue].limits.aging.map_or(0, aged);
            (u64::from(priority).saturating_sub(aged), job)
        })
    }

    /// The ready jobs of a queue, the most urgent first.
    fn ready_of(&self, queue: usize) -> Vec<usize> {
        let is_ready = |job: &Job| job.queue == queue && job.state == State::Ready;
        let jobs = (0..self.jobs.len()).filter(|&job| is_ready(&self.jobs[job]));
        let mut jobs: Vec<usize> = jobs.collect();
        jobs.sort_by_key(|&job| (self.jobs[job].priority, job));
        jobs
    }

    /// The more urgent priority comes first. Of two jobs with the same priority, the one that was put
    /// first comes first. With aging, each job becomes more urgent equally fast.
    fn order(&self, job: usize) -> (u64, usize) {
        let Job { queue, priority, ready_at, .. } = self.jobs[job];
        let priority = u64::from(priority);
        let aging = self.queues[queue].limits.aging;
        (aging.map_or(priority, |aging| priority * aging.per_ms + ready_at * aging.steps), job)
    }

    /// Whether the policy has the same key for both jobs. Without a key, all jobs are of one.
    fn is_of_key(&self, job: usize, other: usize) -> bool {
        !self.queues[self.jobs[job].queue].limits.have_keys()
            || self.jobs[job].key == self.jobs[other].key
    }

    /// Only jobs of the same level share the hand-outs.
    fn level(&self, job: usize) -> u64 {
        let Limits { share, aging, .. } = self.queues[self.jobs[job].queue].limits;
        match (share, aging) {
            (None, _) => 0,
            (Some(share), _) if share.across_priorities => 0,
            (Some(_), Some(aging)) => self.order(job).0 / aging.per_ms,
            (Some(_), None) => self.order(job).0,
        }
    }

    /// The place of the key of this job among the keys that share the hand-outs.
    fn place_of_key(&self, job: usize) -> u64 {
        let Job { queue, key, .. } = self.jobs[job];
        let Queue { limits, turns, .. } = &self.queues[queue];
        let Some(share) = limits.share else { return 0 };
        if share.by_leases {
            let slots = Slots { limit: 0, is_per_key: true, is_strict: false };
            // Enough digits for small weights.
            return self.leased(queue, key, slots) as u64 * 1000 / u64::from(weight(share, key));
        }
        turns.iter().position(|(turn, _)| *turn == key).expect("it has a ready job") as u64
    }

    /// A key that gets its first ready job comes behind the others. A key without ready jobs has no
    /// turn.
    fn note_turns(&mut self) {
        for queue in 0..QUEUES {
            let Some(share) = self.queues[queue].limits.share else { continue };
            let keys: Vec<_> =
                self.ready_of(queue).into_iter().map(|job| self.jobs[job].key).collect();
            let turns = &mut self.queues[queue].turns;
            turns.retain(|(key, _)| keys.contains(key));
            for key in keys {
                if !turns.iter().any(|(known, _)| *known == key) {
                    turns.push((key, weight(share, key)));
                }
            }
        }
    }

    /// This key has got a job of its turn.
    fn use_turn(&mut self, queue: usize, key: Option<usize>) {
        let Queue { limits, turns, .. } = &mut self.queues[queue];
        let (Some(share), Some(place)) =
            (limits.share, turns.iter().position(|(turn, _)| *turn == key))
        else {
            return;
        };
        turns[place].1 -= 1;
        if turns[place].1 == 0 {
            turns.remove(place);
            turns.push((key, weight(share, key)));
        }
    }

    fn is_paused(&self, queue: usize) -> bool {
        self.queues[queue].limits.is_paused || self.queues[queue].paused_until > self.now
    }

    /// Whether the limits allow to hand out this job now.
    fn has_room(&self, job: usize) -> bool {
        let Job { queue, key, .. } = self.jobs[job];
        let slots = self.queues[queue].limits.slots;
        slots.is_none_or(|slots| self.leased(queue, key, slots) < slots.limit)
            && self.has_token(job)
    }

    fn has_token(&self, job: usize) -> bool {
        let Job { queue, key, .. } = self.jobs[job];
        let rate = self.queues[queue].limits.rate;
        rate.is_none_or(|rate| self.fill_ms(queue, key, rate) >= rate.token_ms as i64)
    }

    /// Whether a client that names this job gets it now. A pause does not hold it back.
    pub(super) fn is_given_by_number(&self, job: usize) -> bool {
        let Job { queue, key, state, has_begun, .. } = self.jobs[job];
        let strict = self.queues[queue].limits.slots.filter(|slots| slots.is_strict);
        let is_delayed = matches!(state, State::Delayed { .. });
        if !is_delayed && !matches!(state, State::Ready | State::Buried) {
            return false;
        }
        match strict {
            // It has a slot already.
            Some(slots) if is_delayed && has_begun => {
                let slots_of_leases = Slots { is_strict: false, ..slots };
                self.leased(queue, key, slots_of_leases) < slots.limit && self.has_token(job)
            }
            Some(_) => self.has_room(job) && !self.is_passed(job),
            None => self.has_room(job),
        }
    }

    /// Whether a ready job of the same key comes before this one.
    fn is_passed(&self, job: usize) -> bool {
        let Job { queue, .. } = self.jobs[job];
        let is_strict = self.queues[queue].limits.is_strict();
        let place = |job: usize| (is_strict && !self.jobs[job].has_begun, self.order(job));
        let mut others =
            self.ready_of(queue).into_iter().filter(|&other| self.is_of_key(job, other));
        others.any(|other| place(other) < place(job))
    }

    /// The number of leased jobs that share the slots of this key, or of the queue.
    fn leased(&self, queue: usize, key: Option<usize>, slots: Slots) -> usize {
        let of_queue = self.jobs.iter().filter(|job| job.queue == queue);
        let has_slot = |job: &Job| match job.state {
            State::Leased { has_key_slot, .. } => has_key_slot || !slots.is_per_key,
            State::Delayed { .. } => slots.is_strict && job.has_begun,
            State::Ready | State::Buried | State::Ended => false,
        };
        let counts = |job: &&Job| has_slot(job) && (!slots.is_per_key || job.key == key);
        of_queue.filter(counts).count()
    }

    /// What the rate allows to hand out now, as the time that it takes to make so many tokens. In each
    /// span of time that ends now, no more jobs may be handed out than `burst` and those of the rate.
    fn fill_ms(&self, queue: usize, key: Option<usize>, rate: Rate) -> i64 {
        let Queue { since, tokens, hand_outs, .. } = &self.queues[queue];
        let shares = hand_outs.iter().filter(|(_, other)| !rate.is_per_key || *other == key);
        let moments: Vec<Moment> = shares.map(|(moment, _)| *moment).collect();
        let left = |from: Moment, tokens: u64| {
            let used = moments.iter().filter(|moment| **moment >= from).count() as u64;
            (self.now - from) as i64 + (tokens * rate.token_ms) as i64
                - (used * rate.token_ms) as i64
        };
        let spans = moments.iter().map(|from| left(*from, rate.burst));
        let tokens = if rate.is_per_key { 0 } else { *tokens };
        let full = (rate.burst * rate.token_ms) as i64;
        spans.chain([left(*since, tokens), full]).min().expect("there is a span")
    }

    // --- What happens later ---

    /// The jobs whose delay or lease is over, but whose timer may not have looked yet.
    pub(super) fn due_jobs(&self) -> Vec<usize> {
        let is_due = |job: &usize| match self.jobs[*job].state {
            State::Delayed { until } | State::Leased { until, .. } => until <= self.now,
            State::Ready | State::Buried | State::Ended => false,
        };
        (0..self.jobs.len()).filter(is_due).collect()
    }

    /// Whether the queue can hand out this job next, if some of the changes that are due happen first.
    pub(super) fn can_be_next(&self, job: usize) -> bool {
        self.after_some_changes(|then| then.next_of(then.jobs[job].queue) == Some(job))
    }

    /// The same for a client that names this job.
    pub(super) fn can_be_named(&self, job: usize) -> bool {
        self.after_some_changes(|then| then.is_given_by_number(job))
    }

    fn after_some_changes(&self, is_right: impl Fn(&Self) -> bool) -> bool {
        let due = self.due_jobs();
        (0..1_u32 << due.len()).any(|chosen| {
            let mut then = self.clone();
            let chosen = due.iter().enumerate().filter(|(bit, _)| chosen & 1 << bit != 0);
            chosen.for_each(|(_, job)| then.becomes_ready(*job));
            is_right(&then)
        })
    }

    /// Whether a client can name this job to get it, apart from limits.
    pub(super) fn is_free(&self, job: usize) -> bool {
        matches!(self.jobs[job].state, State::Ready | State::Delayed { .. } | State::Buried)
    }

    /// The number of waiting sessions that must get a job now.
    pub(super) fn owed(&self) -> usize {
        let mut then = self.clone();
        while let (Some(&session), Some(job)) = (then.line.first(), then.next()) {
            then.hand_out(job, session);
        }
        self.line.len() - then.line.len()
    }

    /// Whether a worker must be woken now.
    pub(super) fn owes_wake(&self) -> bool {
        let is_told = self.wakes_one && !self.woken.is_empty();
        !self.sleeping.is_empty() && !is_told && self.next().is_some()
    }

    /// Whether a session holds a job whose lease ends soon.
    pub(super) fn is_warned(&self, session: usize) -> bool {
        self.ends_of_leases(session).any(|until| until.saturating_sub(MARGIN_MS) <= self.now)
    }

    fn ends_of_leases(&self, session: usize) -> impl Iterator<Item = Moment> {
        self.jobs.iter().filter_map(move |job| match job.state {
            State::Leased { by, until, .. } if by == session && until != NEVER => Some(until),
            _ => None,
        })
    }

    /// The next moment at which the answer can change without a request.
    pub(super) fn next_moment(&self) -> Option<Moment> {
        let jobs = self.jobs.iter().filter_map(|job| match job.state {
            State::Delayed { until } | State::Leased { until, .. } => Some(until),
            State::Ready | State::Buried | State::Ended => None,
        });
        let waits = self.line.iter().flat_map(|session| self.ends_of_leases(*session));
        let warnings = waits.map(|until| until.saturating_sub(MARGIN_MS));
        let pauses = self.queues.iter().map(|queue| queue.paused_until);
        let mut tokens = Vec::new();
        for (queue, key) in self.buckets() {
            let Some(rate) = self.queues[queue].limits.rate else { continue };
            let fill_ms = self.fill_ms(queue, key, rate) as u64;
            if fill_ms < rate.burst * rate.token_ms {
                tokens.push(self.now + rate.token_ms - fill_ms % rate.token_ms);
            }
        }
        let all = jobs.chain(warnings).chain(pauses).chain(tokens);
        all.filter(|moment| *moment > self.now && *moment != NEVER).min()
    }

    /// The queues, each with the keys of its jobs and hand-outs.
    fn buckets(&self) -> Vec<(usize, Option<usize>)> {
        let of_jobs = self.jobs.iter().map(|job| (job.queue, job.key));
        let mut all: Vec<_> = of_jobs.chain((0..QUEUES).map(|queue| (queue, None))).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The first moment at which the engine must act without a request: a delay or a lease ends, a
    /// waiting session gets a job or a warning, or a worker is woken.
    pub(super) fn must_act_at(&self) -> Option<Moment> {
        let mut then = self.clone();
        loop {
            let is_warned = then.line.iter().any(|session| then.is_warned(*session));
            if !then.due_jobs().is_empty() || is_warned || then.owed() > 0 || then.owes_wake() {
                return Some(then.now);
            }
            then.now = then.next_moment()?;
        }
    }

    // --- What happened ---

    pub(super) fn put(&mut self, queue: usize, key: usize, priority: u32, delay_ms: u64) {
        let key = self.queues[queue].limits.have_keys().then_some(key);
        let (state, now) = (State::Ready, self.now);
        let (put_at, ready_at, has_begun) = (now, now, false);
        self.jobs.push(Job { queue, key, priority, state, put_at, ready_at, has_begun });
        self.return_after(self.jobs.len() - 1, delay_ms);
    }

    /// The job is ready after this time.
    pub(super) fn return_after(&mut self, job: usize, delay_ms: u64) {
        let until = self.now + delay_ms;
        self.jobs[job].ready_at = until;
        self.jobs[job].state = if delay_ms == 0 { State::Ready } else { State::Delayed { until } };
        self.note_turns();
    }

    /// The delay or the lease of a job is over.
    pub(super) fn becomes_ready(&mut self, job: usize) {
        // A job that was lost has waited since its put.
        if matches!(self.jobs[job].state, State::Leased { .. }) {
            self.jobs[job].ready_at = self.jobs[job].put_at;
        }
        self.jobs[job].state = State::Ready;
        self.note_turns();
    }

    /// The job is buried or ends.
    pub(super) fn set_aside(&mut self, job: usize, state: State) {
        self.jobs[job].state = state;
        self.note_turns();
    }

    /// This session gets this job. It waits no longer.
    pub(super) fn hand_out(&mut self, job: usize, session: usize) {
        let Job { queue, key, .. } = self.jobs[job];
        let until = if self.ttr_ms == 0 { NEVER } else { self.now + self.ttr_ms };
        let has_key_slot = self.queues[queue].limits.is_ordered();
        if self.due_jobs().contains(&job) {
            self.becomes_ready(job);
        }
        self.jobs[job].state = State::Leased { by: session, until, has_key_slot };
        self.jobs[job].has_begun = true;
        self.note_turns();
        self.use_turn(queue, key);
        self.queues[queue].hand_outs.push((self.now, key));
        self.line.retain(|waiting| *waiting != session);
    }

    /// The connection of a session is lost. Its leases end, one after another.
    pub(super) fn lose(&mut self, session: usize) {
        for list in [&mut self.line, &mut self.sleeping, &mut self.woken] {
            list.retain(|other| *other != session);
        }
        let now = self.now;
        for job in &mut self.jobs {
            if let State::Leased { by, until, .. } = &mut job.state
                && *by == session
            {
                *until = now;
            }
        }
    }

    /// Other policies apply.
    pub(super) fn reload(&mut self, limits: [Limits; QUEUES]) {
        for (queue, limits) in limits.into_iter().enumerate() {
            let before = self.queues[queue].limits;
            let of_queue = |limits: Limits| limits.rate.filter(|rate| !rate.is_per_key);
            let is_sorted = before.order() == limits.order();
            let is_same = match limits.rate {
                Some(rate) if rate.is_per_key => is_sorted,
                Some(_) | None => before.rate == limits.rate,
            };
            if !is_same {
                // A queue keeps its whole tokens. A key keeps none.
                let whole = |rate: Rate| self.fill_ms(queue, None, rate) as u64 / rate.token_ms;
                let tokens = of_queue(before).map_or(0, whole);
                let burst = of_queue(limits).map_or(0, |rate| rate.burst);
                let queue = &mut self.queues[queue];
                (queue.since, queue.tokens) = (self.now, tokens.min(burst));
                queue.hand_outs.clear();
            }
            self.queues[queue].limits = limits;
            if !limits.is_ordered() || before.have_keys() != limits.have_keys() {
                self.forget_key_slots(queue);
            }
            if !is_sorted {
                self.queues[queue].turns.clear();
            }
        }
        self.note_turns();
    }

    /// If a limit for each key comes back later, the leases of now do not count, and neither do they
    /// for other keys.
    fn forget_key_slots(&mut self, queue: usize) {
        for job in self.jobs.iter_mut().filter(|job| job.queue == queue) {
            if let State::Leased { has_key_slot, .. } = &mut job.state {
                *has_key_slot = false;
            }
        }
    }

    // --- Equal states ---

    /// What decides about the future, without names: two states with the same text behave alike.
    pub(super) fn state_text(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        let (mut keys, mut sessions) = (Vec::new(), Vec::new());
        let after = |moment: Moment| match moment {
            NEVER => "never".into(),
            moment => (moment as i64 - self.now as i64).max(-1).to_string(),
        };
        for job in self.jobs.iter().filter(|job| job.state != State::Ended) {
            let key = job.key.map(|key| name(key, &mut keys));
            let _ = write!(text, "{} {key:?} {} ", job.queue, job.priority);
            let limits = self.queues[job.queue].limits;
            if limits.aging.is_some() {
                let [ready, put] = [job.ready_at, job.put_at].map(|at| at as i64 - self.now as i64);
                let _ = write!(text, "{ready} {put} ");
            }
            if limits.is_strict() {
                let _ = write!(text, "{} ", job.has_begun);
            }
            let _ = match job.state {
                State::Delayed { until } => write!(text, "delayed {}", after(until)),
                State::Leased { by, until, has_key_slot } => {
                    let by = name(by, &mut sessions);
                    write!(text, "leased {by} {} {has_key_slot}", after(until))
                }
                State::Ready | State::Buried | State::Ended => write!(text, "{:?}", job.state),
            };
            text.push(';');
        }
        for (what, list) in
            [("waits", &self.line), ("sleeps", &self.sleeping), ("woken", &self.woken)]
        {
            for session in list {
                let _ = write!(text, "{what} {};", name(*session, &mut sessions));
            }
        }
        for (at, queue) in self.queues.iter().enumerate() {
            let _ = write!(text, "{:?} {};", queue.limits, after(queue.paused_until.max(self.now)));
            for (key, left) in &queue.turns {
                let _ = write!(text, "turn {:?} {left};", key.map(|key| name(key, &mut keys)));
            }
            if let Some(share) = queue.limits.share {
                let _ = write!(
                    text,
                    "{:?}",
                    keys.iter().map(|key| share.weights[*key]).collect::<Vec<_>>()
                );
            }
            let Some(rate) = queue.limits.rate else { continue };
            let fill = |key: Option<usize>| self.fill_ms(at, key, rate);
            let known: Vec<i64> = keys.iter().map(|key| fill(Some(*key))).collect();
            let used = queue.hand_outs.iter().filter_map(|(_, key)| *key);
            let mut others: Vec<usize> = used.filter(|key| !keys.contains(key)).collect();
            others.sort_unstable();
            others.dedup();
            let mut others: Vec<i64> = others.into_iter().map(|key| fill(Some(key))).collect();
            others.sort_unstable();
            let _ = write!(text, "{} {known:?} {others:?};", fill(None));
        }
        text
    }
}

fn weight(share: Share, key: Option<usize>) -> u32 {
    key.map_or(1, |key| share.weights[key])
}

/// The place of a number among those that came before it.
fn name(number: usize, known: &mut Vec<usize>) -> usize {
    known.iter().position(|other| *other == number).unwrap_or_else(|| {
        known.push(number);
        known.len() - 1
    })
}
