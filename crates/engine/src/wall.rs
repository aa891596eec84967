//! Times of the wall clock that clients give: when a job is due, or when it expires.
//!
//! The engine's time never goes back. The wall clock can be set at any moment. Whoever owns the clock says how far
//! the wall clock is ahead. When that changes, jobs with such a time get another moment, in slices.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::engine::Engine;
use crate::ids::{JobSlot, Millis};
use crate::job::{Job, State, expiry};
use crate::timers::TimerKey;

/// The wall clock was set if it moved by this much against the engine's time. Less is left to drift.
const STEP_MS: u64 = 1000;

/// What the memory account has for a time: an entry of a tree whose nodes are not full.
pub(crate) const WALL_TIME_BYTES: u64 = 32;

/// When a job is due, or when it expires.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum When {
    /// At this moment, wherever the wall clock is set.
    At(Millis),
    /// When the wall clock shows this.
    Wall(Millis),
}

/// What the engine knows of the wall clock, and the jobs that go by it.
#[derive(Debug, Default)]
pub(crate) struct WallTimes {
    /// How far the wall clock is ahead of the engine's time.
    ahead_ms: i64,
    /// The same when jobs were aimed last.
    aimed_ms: i64,
    /// **Invariant**: each of these jobs expires at its time; or has no expiry, is delayed, and is due then.
    times: BTreeMap<JobSlot, Millis>,
    aiming: Option<Aiming>,
}

/// Jobs are aimed anew.
#[derive(Copy, Clone, Debug)]
struct Aiming {
    /// The last one that was.
    done: Option<JobSlot>,
    timer: Option<Millis>,
}

impl When {
    /// The time of the wall clock, if it is one.
    pub(crate) fn wall(self) -> Option<Millis> {
        match self {
            Self::At(_) => None,
            Self::Wall(wall) => Some(wall),
        }
    }
}

impl WallTimes {
    pub(crate) fn aiming_timer(&self) -> Option<Millis> {
        self.aiming.and_then(|aiming| aiming.timer)
    }

    /// What the memory account has for all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.times.len() as u64 * WALL_TIME_BYTES
    }
}

/// Whether the job may go by the wall clock. Most do not, and need no look at the table.
pub(crate) fn may_go_by_wall(job: &Job) -> bool {
    job.state == State::Delayed || job.expires().is_some()
}

impl Engine {
    /// How far the wall clock is ahead of the engine's time, in milliseconds.
    pub fn wall_ahead_ms(&self) -> i64 {
        self.wall.ahead_ms
    }

    /// The wall clock is so far ahead of the engine's time from now on. If it was set, jobs that go by it get
    /// another moment, by and by.
    pub fn set_wall_ahead(&mut self, ahead_ms: i64) {
        self.wall.ahead_ms = ahead_ms;
        if ahead_ms.abs_diff(self.wall.aimed_ms) < STEP_MS {
            return;
        }
        self.wall.aimed_ms = ahead_ms;
        if self.wall.times.is_empty() {
            return;
        }
        let mut timer = self.wall.aiming_timer();
        self.timers.arm(&mut timer, self.now, TimerKey::Aiming);
        self.wall.aiming = Some(Aiming { done: None, timer });
    }

    /// What the wall clock shows at this moment, as far as it can be told now.
    pub fn wall_at(&self, moment: Millis) -> Millis {
        Millis(moment.0.saturating_add_signed(self.wall.ahead_ms))
    }

    /// The moment of something, as far as it can be told now.
    pub(crate) fn moment_of(&self, when: When) -> Millis {
        match when {
            When::At(moment) => moment,
            When::Wall(wall) => {
                let moment = wall.0.saturating_add_signed(self.wall.ahead_ms.saturating_neg());
                // The end of time is never.
                Millis(moment.min(i64::MAX as u64))
            }
        }
    }

    /// The time of the wall clock at which a job expires, or is due.
    pub(crate) fn wall_time(&self, slot: JobSlot) -> Option<Millis> {
        if may_go_by_wall(self.job(slot)) { self.wall.times.get(&slot).copied() } else { None }
    }

    /// A job goes by the wall clock.
    pub(crate) fn go_by_wall(&mut self, slot: JobSlot, wall: Millis) {
        if self.wall.times.insert(slot, wall).is_none() {
            self.memory_bytes += WALL_TIME_BYTES;
        }
    }

    /// A job does not go by the wall clock any more, if it did.
    pub(crate) fn leave_wall(&mut self, slot: JobSlot) {
        if self.wall.times.remove(&slot).is_some() {
            self.memory_bytes -= WALL_TIME_BYTES;
        }
    }

    /// Aims as many jobs anew as the slice allows.
    pub(crate) fn aim_slice(&mut self) {
        let Some(mut aiming) = self.wall.aiming.take() else { return };
        aiming.timer = None;
        loop {
            let rest = (aiming.done.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
            let Some((&slot, &wall)) = self.wall.times.range(rest).next() else { return };
            if self.meter.request_is_spent() {
                self.timers.arm(&mut aiming.timer, self.now, TimerKey::Aiming);
                self.wall.aiming = Some(aiming);
                return;
            }
            self.aim(slot, wall);
            aiming.done = Some(slot);
        }
    }

    fn aim(&mut self, slot: JobSlot, wall: Millis) {
        self.meter.count(2);
        let moment = self.moment_of(When::Wall(wall));
        if self.job(slot).expires().is_some() {
            self.job_mut(slot).aside().expires = Some(expiry(moment));
            // It may be the head of its queue, and somebody may wait for it.
            self.arm_queue(self.job(slot).queue);
        } else {
            self.delist(slot);
            self.job_mut(slot).due = moment;
            self.enlist(slot);
        }
    }

    /// Jobs that go by the wall clock are where it wants them.
    pub(crate) fn check_wall(&self) {
        for (&slot, &wall) in &self.wall.times {
            let job = self.job(slot);
            assert!(may_go_by_wall(job), "job {} has no moment that the wall clock tells", job.id);
            let late_ms =
                self.moment_of(When::Wall(wall)).0.abs_diff(job.expires().unwrap_or(job.due).0);
            let is_aimed = self.wall.aiming.is_some() || late_ms < 2 * STEP_MS;
            assert!(is_aimed, "job {} goes by a wall clock that was set {late_ms} ms ago", job.id);
        }
    }
}
