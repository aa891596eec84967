//! The gates of a queue: its policy limits how many jobs it hands out in a time, and at one time.
//!
//! A *token* lets one job be handed out. A bucket of tokens fills with the rate of the policy, up to
//! its burst. Each bucket begins empty: when its queue is made, when the policy gets a rate, when the
//! server starts. So the limit also holds if the server ends and forgets its buckets.
//!
//! The gates have a mark `shut`. A hand-out shuts them if it takes the last token or the last slot.
//! Only [`Extension::settle`] opens them. Time alone does not, because between the moment of a token
//! and the queue's timer nobody may overtake the sessions that wait.

use super::extension::Extension;
use super::lanes::Lanes;
use crate::ids::{LeaseId, Millis};
use crate::policy::{Policy, Rate};

/// The part of the gates that changes with each hand-out.
#[derive(Debug)]
pub(super) struct Gates {
    bucket: Bucket,
    shut: bool,
}

/// Tokens. A token has as many parts as a rate of a thousandth of a job needs milliseconds to make
/// one token. So each millisecond adds a whole number of parts.
#[derive(Copy, Clone, Debug)]
pub(super) struct Bucket {
    pub(super) parts: u64,
    /// The moment at which the bucket had these parts.
    pub(super) at: Millis,
}

/// The number of parts of a token.
pub(super) fn token_parts(rate: Rate) -> u64 {
    1_000 * u64::from(rate.per.millis())
}

impl Bucket {
    /// The bucket at a later moment.
    pub(super) fn at(self, now: Millis, rate: Rate, burst: u32) -> Self {
        let grown = now.since(self.at).saturating_mul(rate.milli.get().into());
        let full = token_parts(rate) * u64::from(burst);
        Self { parts: self.parts.saturating_add(grown).min(full), at: now }
    }

    /// The first moment at which the bucket has a token.
    pub(super) fn next_token(self, rate: Rate) -> Millis {
        let missing = token_parts(rate).saturating_sub(self.parts);
        Millis(self.at.0.saturating_add(missing.div_ceil(rate.milli.get().into())))
    }
}

/// What the gates of a queue need to know: the moment, and the number of leased jobs of the queue.
#[derive(Copy, Clone, Debug)]
pub(crate) struct GateTerms {
    pub(crate) now: Millis,
    pub(crate) leased: u32,
    /// All buckets were empty at this moment.
    pub(crate) empty_at: Millis,
}

impl Gates {
    pub(super) fn new(now: Millis) -> Self {
        Self { bucket: Bucket { parts: 0, at: now }, shut: false }
    }

    fn bucket(&self, policy: &Policy, rate: Rate, terms: GateTerms) -> Bucket {
        let mut bucket = self.bucket;
        if bucket.at < terms.empty_at {
            bucket = Bucket { parts: 0, at: terms.empty_at };
        }
        bucket.at(terms.now, rate, policy.burst())
    }

    /// The number of jobs that the gates would let through now.
    fn openings(&self, policy: &Policy, terms: GateTerms) -> u64 {
        let slots = policy
            .queue_slots()
            .map_or(u64::MAX, |limit| u64::from(limit.get().saturating_sub(terms.leased)));
        let tokens = policy
            .queue_rate()
            .map_or(u64::MAX, |rate| self.bucket(policy, rate, terms).parts / token_parts(rate));
        slots.min(tokens)
    }
}

impl Extension {
    /// Whether the gates are shut.
    pub(crate) fn is_shut(&self) -> bool {
        self.gates.shut
    }

    /// The number of jobs that the gates would let through now if they were not shut.
    pub(crate) fn openings(&self, terms: GateTerms) -> u64 {
        self.gates.openings(self.policy(), terms)
    }

    /// Whether all slots are in use. If so, the limit of leased jobs.
    pub(crate) fn full_slots(&self, terms: GateTerms) -> Option<u32> {
        let limit = self.policy().queue_slots()?.get();
        (terms.leased >= limit).then_some(limit)
    }

    /// The first moment at which the bucket has a token.
    pub(crate) fn next_token(&self, terms: GateTerms) -> Option<Millis> {
        let rate = self.policy().queue_rate()?;
        Some(self.gates.bucket(self.policy(), rate, terms).next_token(rate))
    }

    /// The moment at which time opens the gates. `None`: they are not shut, or only the end of a
    /// lease can open them.
    pub(crate) fn gates_open(&self, terms: GateTerms) -> Option<Millis> {
        if !self.gates.shut || self.full_slots(terms).is_some() {
            return None;
        }
        Some(self.next_token(terms).unwrap_or(terms.now))
    }

    /// A job passes the gates: takes a token. Shuts the gates behind the job if no other job can
    /// pass.
    pub(crate) fn pass_gates(&mut self, terms: GateTerms) {
        if let Some(rate) = self.policy().queue_rate() {
            let mut bucket = self.gates.bucket(self.policy(), rate, terms);
            bucket.parts = bucket.parts.saturating_sub(token_parts(rate));
            self.gates.bucket = bucket;
        }
        self.gates.shut |= self.openings(terms) == 0;
    }

    /// Opens the gates if a job can pass them. Returns whether they were shut.
    pub(crate) fn settle(&mut self, terms: GateTerms) -> bool {
        let opens = self.gates.shut && self.openings(terms) > 0;
        self.gates.shut &= !opens;
        opens
    }

    /// Gives the queue another policy. Its bucket keeps its whole tokens, as far as the new burst
    /// allows. The gates can shut now, but they do not open.
    /// Leases before `first_lease` do not count for their keys if the queue had no lanes before.
    pub(super) fn change_policy(&mut self, policy: Policy, terms: GateTerms, first_lease: LeaseId) {
        let before = self.policy().queue_rate();
        let tokens = before.map_or(0, |rate| {
            self.gates.bucket(self.policy(), rate, terms).parts / token_parts(rate)
        });
        if before != policy.queue_rate() {
            let tokens = tokens.min(policy.burst().into());
            let parts = policy.queue_rate().map_or(0, |rate| tokens * token_parts(rate));
            self.gates.bucket = Bucket { parts, at: terms.now };
        } else if let Some(rate) = before {
            self.gates.bucket = self.gates.bucket(self.policy(), rate, terms);
        }
        let (rules, weights) = (policy.lane_rules(), policy.lane_weights());
        match (&mut self.lanes, rules) {
            (Some(lanes), rules) => lanes.change_rules(rules, weights, terms),
            (None, Some(rules)) => {
                let lanes = Lanes::new((rules, weights), terms.now, first_lease);
                self.lanes = Some(Box::new(lanes));
            }
            (None, None) => {}
        }
        self.set_policy(policy);
        self.gates.shut |= self.openings(terms) == 0;
    }
}
