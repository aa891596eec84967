//! The optional parts of a queue: a policy, the mark of a queue of items, fan-out children.
//!
//! A queue gets an [`Extension`] when it first needs an optional part. The extension exists as long
//! as the queue. A plain queue has no extension, so a request only checks whether the queue has
//! one.

use super::cold::Cold;
use super::gates::Gates;
use super::lanes::Lanes;
use crate::ids::Millis;
use crate::policy::{PausePhase, PausePolicy, Policy, parent_name};
use crate::wall::STEP_MS;

/// The optional parts of a queue.
#[derive(Debug)]
pub(crate) struct Extension {
    policy: Policy,
    window: PauseWindow,
    /// A client of Kestrel made or used the queue.
    items: bool,
    /// The queue is a fan-out child.
    child: bool,
    /// The queue has fan-out children, or had children before.
    parent: bool,
    /// The rules in force give the queue other bounds, by which puts end the oldest jobs. These bounds
    /// apply when all jobs are loaded.
    pub(crate) bounds_wait: bool,
    /// See [`Extension::pass_gates`].
    pub(super) gates: Gates,
    /// The jobs by their keys. `None`: the policy has no limits for each key.
    pub(super) lanes: Option<Box<Lanes>>,
    /// The cold jobs. `None`: the queue has none.
    pub(super) cold: Option<Box<Cold>>,
    /// The last removal of the queue that took more than one slice ends the jobs with smaller order
    /// numbers.
    removal_end: u64,
    /// See [`Extension::note_listed`].
    old_jobs_listed: u64,
    pub(crate) created: Millis,
    /// The queue's timer does not sweep expired jobs before this moment.
    pub(crate) sweep_rests_until: Millis,
    /// The time of the put of the job that a session read last.
    pub(crate) last_read: Option<Millis>,
    pub(crate) put_bytes: u64,
    /// `hits` counts reads that found an item, `misses` counts reads that found no item.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) expired: u64,
    pub(crate) discarded: u64,
    pub(crate) transactions: u64,
    pub(crate) cancelled: u64,
    pub(crate) flushes: u64,
}

/// What the engine knows of the pause that a policy makes by the wall clock.
#[derive(Copy, Clone, Debug)]
struct PauseWindow {
    /// The engine knows the phase of the pause from this time of the wall clock until the end of
    /// the phase.
    from: Millis,
    phase: PausePhase,
}

/// The name of the parent, if a queue of this name can be a child.
pub(crate) fn parent_of(name: &[u8]) -> Option<&[u8]> {
    parent_name(name).filter(|parent| !parent.is_empty())
}

impl PauseWindow {
    fn new(policy: &PausePolicy, wall: Millis) -> Self {
        Self { from: wall, phase: policy.phase(wall) }
    }

    fn holds_back(&self, wall: Millis) -> bool {
        // Two clocks that drift are no reason to look again.
        let is_known = wall.0.saturating_add(2 * STEP_MS) >= self.from.0
            && self.phase.until.is_none_or(|until| wall < until);
        self.phase.is_paused || !is_known
    }
}

impl Extension {
    pub(super) fn new(created: Millis) -> Self {
        Self {
            policy: Policy::default(),
            window: PauseWindow::new(&PausePolicy::default(), Millis(0)),
            items: false,
            child: false,
            parent: false,
            bounds_wait: false,
            gates: Gates::new(created),
            lanes: None,
            cold: None,
            removal_end: 0,
            old_jobs_listed: 0,
            created,
            sweep_rests_until: Millis(0),
            last_read: None,
            put_bytes: 0,
            hits: 0,
            misses: 0,
            expired: 0,
            discarded: 0,
            transactions: 0,
            cancelled: 0,
            flushes: 0,
        }
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(crate) fn items(&self) -> bool {
        self.items
    }

    pub(crate) fn child(&self) -> bool {
        self.child
    }

    pub(crate) fn parent(&self) -> bool {
        self.parent
    }

    /// Whether the policy lets the queue hand out no jobs at this time of the wall clock. If the
    /// engine has not looked at the queue since the phase of the pause ended, or since the wall
    /// clock was set, it may be in a pause: so it hands out none until then, and then serves those
    /// who wait first.
    pub(crate) fn is_paused(&self, wall: impl FnOnce() -> Millis) -> bool {
        let pause = &self.policy.pause;
        pause.is_on && (!pause.has_windows() || self.window.holds_back(wall()))
    }

    /// When the pause by the policy begins or ends next, by the wall clock.
    pub(crate) fn pause_turns(&self) -> Option<Millis> {
        self.window.phase.until.filter(|_| self.policy.pause.has_windows())
    }

    /// Computes the phase of the pause by the policy. Returns whether the queue can hand out jobs
    /// that it held back before.
    pub(crate) fn look_at_window(&mut self, wall: Millis) -> bool {
        if !self.policy.pause.has_windows() {
            return false;
        }
        let held_back = self.window.holds_back(wall);
        self.window = PauseWindow::new(&self.policy.pause, wall);
        held_back && !self.window.holds_back(wall)
    }

    /// Whether a put to this queue goes to this queue only.
    pub(crate) fn is_single(&self) -> bool {
        !self.parent
            && self.policy.same_as.is_none()
            && !self.policy.fanout_only
            && self.policy.copy_to.is_empty()
            && self.policy.alias.is_empty()
    }

    /// The jobs by their keys, or what is left of them after a change of the policy.
    pub(crate) fn lanes(&self) -> Option<&Lanes> {
        self.lanes.as_deref()
    }

    /// A removal in progress ends the jobs with smaller order numbers.
    pub(crate) fn removal_end(&self) -> u64 {
        self.removal_end
    }

    pub(crate) fn set_removal_end(&mut self, end: u64) {
        self.removal_end = end;
    }

    /// Notes that a job with this order number comes to a list of the queue during a removal. If it
    /// is a job that the removal must end, the removal may have passed its new place.
    pub(crate) fn note_listed(&mut self, order: u64) {
        self.old_jobs_listed += u64::from(order < self.removal_end);
    }

    /// How often a job that a removal must end came to a list of the queue during the removal.
    pub(crate) fn old_jobs_listed(&self) -> u64 {
        self.old_jobs_listed
    }

    pub(super) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    pub(super) fn set_items(&mut self, items: bool) -> bool {
        std::mem::replace(&mut self.items, items)
    }

    pub(super) fn set_child(&mut self, child: bool) -> bool {
        std::mem::replace(&mut self.child, child)
    }

    pub(super) fn set_parent(&mut self) {
        self.parent = true;
    }
}
