//! Claims: the keys of unique jobs that have ended, as long as the window of their policy lasts.
//!
//! A job has its key itself while it exists. So a claim is made only when a job is done, and only if
//! the window counts from the put. It lasts until a moment that is fixed then.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use crate::ids::{JobId, Millis};
use crate::policy::KeyHash;
use crate::timers::{TimerKey, Timers};

/// The bytes of a claim: its entries in two trees with nodes that are half full, and the log's own
/// entry for the fact. They count from the put of the job on, so that its end takes no memory.
pub(crate) const CLAIM_BYTES: u64 = 400;

/// The name of a claim: a hash of the queue's name and of the key. The queue itself can be gone.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct ClaimKey(pub KeyHash);

/// A job that has ended, whose key is still taken.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Claim {
    /// The job.
    pub id: JobId,
    /// From this moment on, the key is free.
    pub until: Millis,
    /// Whether the log has the claim.
    pub is_logged: bool,
}

impl ClaimKey {
    /// The name of the claim on a key in the queue of this name.
    pub fn new(queue: &[u8], key: KeyHash) -> ClaimKey {
        let digest = Sha256::new().chain_update(key).chain_update(queue).finalize();
        let mut hash = KeyHash::default();
        hash.copy_from_slice(&digest[..size_of::<KeyHash>()]);
        ClaimKey(hash)
    }
}

/// All claims: see the module.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    by_key: BTreeMap<ClaimKey, Claim>,
    by_end: BTreeSet<(Millis, ClaimKey)>,
    timer: Option<Millis>,
}

impl Claims {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClaimKey, Claim)> {
        self.by_key.iter().map(|(key, claim)| (*key, *claim))
    }

    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.by_key.len() as u64 * CLAIM_BYTES
    }

    pub(crate) fn get(&self, key: ClaimKey) -> Option<Claim> {
        self.by_key.get(&key).copied()
    }

    pub(crate) fn insert(&mut self, key: ClaimKey, claim: Claim, timers: &mut Timers) {
        self.remove(key);
        self.by_key.insert(key, claim);
        self.by_end.insert((claim.until, key));
        self.arm(timers);
    }

    pub(crate) fn remove(&mut self, key: ClaimKey) {
        if let Some(claim) = self.by_key.remove(&key) {
            self.by_end.remove(&(claim.until, key));
        }
    }

    /// Removes the first claim that has ended by now.
    pub(crate) fn pop_ended(&mut self, now: Millis) -> Option<(ClaimKey, Claim)> {
        let (_, key) = *self.by_end.first().filter(|(until, _)| *until <= now)?;
        let claim = self.by_key.get(&key).copied()?;
        self.remove(key);
        Some((key, claim))
    }

    /// The timer is due. The caller removes claims next, and then calls [`Claims::arm`].
    pub(crate) fn take_timer(&mut self) {
        self.timer = None;
    }

    /// Sets the timer to the end of the first claim.
    pub(crate) fn arm(&mut self, timers: &mut Timers) {
        if let Some((until, _)) = self.by_end.first() {
            timers.arm(&mut self.timer, *until, TimerKey::Claims);
        }
    }

    pub(crate) fn timer(&self) -> Option<Millis> {
        self.timer
    }

    pub(crate) fn check_invariants(&self) {
        let ends = self.by_key.iter().map(|(key, claim)| (claim.until, *key));
        assert!(ends.collect::<BTreeSet<_>>() == self.by_end, "each claim has its end");
        let first = self.by_end.first().map(|(until, _)| *until);
        let is_armed = first.is_none_or(|first| self.timer.is_some_and(|timer| timer <= first));
        assert!(is_armed, "the timer is not later than the first end");
    }
}
