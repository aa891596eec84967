//! Rescheduling. After a step of the wall clock, the engine computes again when each job with a
//! time of the wall clock is due or expires. It does so in slices.

use crate::engine::Engine;
use crate::ids::{JobSlot, Millis};
use crate::timers::TimerKey;
use crate::wall::{Rescheduling, STEP_MS, When};

impl Engine {
    /// How far the wall clock is ahead of the engine's time, in milliseconds.
    pub fn wall_ahead_ms(&self) -> i64 {
        self.wall.ahead_ms()
    }

    /// Sets how far the wall clock is ahead of the engine's time. If this is a step of the wall
    /// clock, begins to reschedule all jobs with a time of the wall clock, and to look again at all
    /// queues that are paused by the wall clock.
    pub fn set_wall_ahead(&mut self, ahead_ms: i64) {
        if !self.wall.set_ahead(ahead_ms) {
            return;
        }
        self.arm_crons();
        if self.rules.pause_by_schedule() {
            self.walk_by_timer();
        }
        if self.jobs.go_by_wall() {
            let mut timer = self.wall.timer();
            self.timers.arm(&mut timer, self.now, TimerKey::Rescheduling);
            *self.wall.rescheduling() = Some(Rescheduling { done: None, timer });
        }
    }

    /// The time that the wall clock shows at this moment. Assumes that the present difference
    /// between the two clocks does not change.
    pub fn wall_at(&self, moment: Millis) -> Millis {
        self.wall.at(moment)
    }

    /// Reschedules jobs, as many as the slice allows.
    pub(in crate::engine) fn reschedule_slice(&mut self) {
        let Some(mut rescheduling) = self.wall.rescheduling().take() else { return };
        rescheduling.timer = None;
        loop {
            let Some((slot, wall)) = self.jobs.next_by_wall(rescheduling.done) else { return };
            if self.meter.request_is_spent() {
                self.timers.arm(&mut rescheduling.timer, self.now, TimerKey::Rescheduling);
                *self.wall.rescheduling() = Some(rescheduling);
                return;
            }
            self.reschedule(slot, wall);
            rescheduling.done = Some(slot);
        }
    }

    fn reschedule(&mut self, slot: JobSlot, wall: Millis) {
        self.meter.count(2);
        let moment = self.wall.moment_of(When::Wall(wall));
        if self.jobs[slot].expires().is_some() {
            self.jobs[slot].set_expires(moment);
            // The job may be the head of its queue, and a session may wait for it.
            self.arm_queue(self.jobs[slot].queue());
        } else {
            self.remove_from_list(slot);
            self.jobs[slot].set_due(moment);
            self.add_to_list(slot);
        }
    }

    /// Checks that jobs with a time of the wall clock have the right moments. Drift can make a
    /// moment wrong by up to twice [`STEP_MS`].
    pub(in crate::engine) fn check_wall(&self) {
        let mut last = None;
        while let Some((slot, wall)) = self.jobs.next_by_wall(last) {
            last = Some(slot);
            let job = &self.jobs[slot];
            let aimed = job.expires().unwrap_or(job.due());
            let late_ms = self.wall.moment_of(When::Wall(wall)).0.abs_diff(aimed.0);
            let is_aimed = self.wall.is_rescheduling() || late_ms < 2 * STEP_MS;
            assert!(
                is_aimed,
                "job {} goes by a wall clock that was set {late_ms} ms ago",
                job.id()
            );
        }
    }
}
