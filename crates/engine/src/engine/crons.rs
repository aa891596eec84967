//! Firing: at the instants of its schedule, an entry puts a job.
//!
//! The record of a job has its firing, and comes before the record of the entry's new state. If a
//! crash loses the second record, the first one has the same news: [`Crons::merged`]. So each
//! instant is handled exactly once. Only the leader calls [`Engine::advance`], so only the leader
//! fires.
//!
//! [`Crons::merged`]: crate::crons::Crons

use std::collections::BTreeSet;

use super::Engine;
use crate::crons::{
    CATCH_UP_MS_MAX, CatchUp, CronState, CronTable, CronView, Fired, LATE_MS_MAX, Overlap,
};
use crate::effects::{Effects, News, Record};
use crate::ids::{JobId, JobSlot, Millis};
use crate::jobs::{Draft, State};
use crate::limits::PUT_ENDS_MAX;
use crate::milestones::JobEnd;
use crate::policy::{Name, PRIORITY_DEFAULT, Unsent};
use crate::timers::TimerKey;
use crate::wall::When;

/// While the server takes no jobs, the engine looks at due entries this often.
const HELD_MS: u64 = 1_000;
/// In one slice, the entries put bodies of at most this many bytes, and one more body.
const SLICE_BODY_BYTES: usize = 64 << 10;

impl Engine {
    /// The entries in force.
    pub fn cron_table(&self) -> &CronTable {
        self.crons.table()
    }

    /// All entries, with what they do.
    pub fn crons(&self) -> impl ExactSizeIterator<Item = CronView<'_>> {
        self.crons.views()
    }

    /// What the log stores of the entry of this name.
    pub fn cron_state(&self, name: &[u8]) -> Option<CronState> {
        self.crons.state(name)
    }

    /// Puts these entries in force. The caller has checked them, and must call this function at each
    /// start and takeover, because no entry fires before. A new entry, and an entry with another
    /// schedule, begins now: instants before now are not its instants.
    pub fn set_crons(&mut self, table: CronTable, effects: &mut Effects) {
        let wall = self.wall.at(self.now);
        let is_new = table != *self.crons.table();
        let before = self.crons.table().clone();
        self.crons.replace(table);
        for name in self.crons.forgotten() {
            self.set_cron_state(&name, None, effects);
        }
        for index in 0..self.crons.table().0.len() {
            self.meter.count(2);
            let entry = self.crons.entry(index);
            let (name, schedule) = (entry.name.clone(), (&entry.cron, &entry.zone));
            let known = before.0.iter().find(|entry| entry.name == name);
            let is_known = known.is_some_and(|known| (&known.cron, &known.zone) == schedule);
            let merged = self.crons.merged(&name);
            let state = match merged {
                Some(state) if is_known => state,
                Some(state) => CronState { last: state.last.max(wall), ..state },
                None => CronState { last: wall, ..CronState::default() },
            };
            if self.crons.state(&name) != Some(state) {
                self.set_cron_state(&name, Some(state), effects);
            }
            self.crons.begin(index, wall);
        }
        // The states come first. If a crash cuts the log behind some of them, the next start finds the
        // old table, so it begins the changed entries anew.
        if is_new {
            effects.records.push(Record::Crons);
        }
        self.arm_crons();
    }

    /// Restores the entries from the log, or applies those of the leader. They do not fire.
    pub fn restore_crons(&mut self, table: CronTable) {
        self.crons.replace(table);
    }

    /// Restores the state of an entry from the log, or applies that of the leader. `None`: the entry
    /// has no state any more.
    pub fn restore_cron_state(&mut self, name: &[u8], state: Option<CronState>) {
        self.crons.set_state(name, state);
    }

    /// Whether the server takes no jobs now, so that no entry can fire. Then due entries fire later,
    /// as their rule for missed instants says.
    pub fn hold_crons(&mut self, is_held: bool) {
        self.crons.is_held = is_held;
    }

    /// Whether there are entries.
    pub fn has_crons(&self) -> bool {
        !self.crons.is_empty()
    }

    fn set_cron_state(&mut self, name: &Name, state: Option<CronState>, effects: &mut Effects) {
        self.crons.set_state(name, state);
        effects.records.push(Record::CronState(name.clone()));
    }

    /// Sets the timer to the moment when the next job comes.
    pub(super) fn arm_crons(&mut self) {
        let Some((due, _)) = self.crons.first_due() else { return };
        let moment = self.wall.moment_of(When::Wall(due)).max(self.now);
        self.timers.arm(&mut self.crons.timer, moment, TimerKey::Crons);
    }

    /// Fires or skips the instants that are due, as many as the slice of work allows.
    pub(super) fn fire_crons(&mut self, effects: &mut Effects) {
        self.crons.timer = None;
        let wall = self.wall.at(self.now);
        // The entries whose states have changed. A state is written as it is at the end of the slice,
        // so its record must come after all jobs of the slice: a crash between two jobs must not lose
        // the second one.
        let mut changed = BTreeSet::new();
        let mut put_bytes = 0;
        while let Some((_, index)) = self.crons.first_due().filter(|(due, _)| *due <= wall) {
            if self.crons.is_held || self.writes_blocked() {
                let later = Millis(self.now.0.saturating_add(HELD_MS));
                self.timers.arm(&mut self.crons.timer, later, TimerKey::Crons);
                break;
            }
            // The owner checks the room for jobs before each slice, and expects no more bytes.
            if self.meter.request_is_spent() || put_bytes >= SLICE_BODY_BYTES {
                self.timers.arm(&mut self.crons.timer, self.now, TimerKey::Crons);
                break;
            }
            self.meter.count(2);
            let Some(instant) = self.crons.next_instant(index) else { break };
            let name = self.crons.entry(index).name.clone();
            let mut state = self.crons.state(&name).unwrap_or_default();
            state.last = instant;
            if self.is_missed(index, instant, wall) {
                self.crons.counts(index).missed += 1;
            } else {
                put_bytes += self.crons.entry(index).body.len();
                self.fire(index, &mut state, effects);
            }
            self.crons.set_state(&name, Some(state));
            changed.insert(name);
            self.crons.begin(index, wall);
        }
        for name in changed {
            effects.records.push(Record::CronState(name));
        }
        if self.crons.timer.is_none() {
            self.arm_crons();
        }
    }

    /// Whether an entry skips an instant because it is missed.
    fn is_missed(&self, index: usize, instant: Millis, wall: Millis) -> bool {
        let entry = self.crons.entry(index);
        let late_ms = wall.0.saturating_sub(instant.0).saturating_sub(entry.jitter_ms);
        match entry.catch_up {
            CatchUp::None => late_ms > LATE_MS_MAX,
            // Jitter can bring the job of a later instant before this one. Then this one is not late.
            CatchUp::One => late_ms > 0 && entry.next(instant).is_some_and(|(_, due)| due <= wall),
            CatchUp::All => late_ms > CATCH_UP_MS_MAX,
        }
    }

    /// Puts the job of an instant, or skips the instant because of the job before it. If the job goes to
    /// several queues, the one in the first of them counts as the job of the entry.
    fn fire(&mut self, index: usize, state: &mut CronState, effects: &mut Effects) {
        let overlap = self.crons.entry(index).overlap;
        if overlap == Overlap::Skip && state.job.is_some_and(|id| self.unfinished(id).is_some()) {
            self.crons.counts(index).overlaps += 1;
            return;
        }
        let replaced = state.job.filter(|_| overlap == Overlap::Replace);
        let entry = self.crons.entry(index);
        let (queue, fired) = (entry.queue.clone(), entry.fired(state.last));
        let draft = Draft {
            priority: PRIORITY_DEFAULT,
            due: When::At(Millis(0)),
            delay_s: 0,
            ttr_s: 0,
            unsent: Unsent::ALL,
            expires: None,
            reducer: None,
            foreground: false,
            body: entry.body.clone(),
        };
        let route = self.route_to(&queue, false, effects);
        if let Some(queue) = route.first_queue() {
            self.sweep(queue, PUT_ENDS_MAX, effects);
            let earlier = replaced.and_then(|id| self.replaceable(id));
            let keeps_out = |slot: &JobSlot| self.keeps_out(*slot, queue, &draft.body);
            if let Some(slot) = earlier.filter(keeps_out) {
                self.end_job(slot, JobEnd::Replaced, &News::Fail, effects);
            }
        }
        let routed = self.put_along(route, &draft, (b"", None), effects);
        let Some(stored) = routed.first else {
            self.crons.counts(index).refused += 1;
            return;
        };
        let job = routed.in_first_queue.map(|slot| self.jobs[slot].id());
        // The log must know of this firing by a job that it gets, even if the first queue refused one.
        self.crons.note_fresh(job.unwrap_or_else(|| self.jobs[stored].id()), fired);
        self.crons.counts(index).fired += 1;
        state.fired = Some(fired.at);
        if job.is_some() {
            state.job = job;
            if let Some(slot) = replaced.and_then(|id| self.replaceable(id)) {
                self.end_job(slot, JobEnd::Replaced, &News::Fail, effects);
            }
        }
    }

    /// The job of an earlier firing, if a newer one can replace it: no worker has it.
    fn replaceable(&self, id: JobId) -> Option<JobSlot> {
        self.unfinished(id).filter(|slot| self.jobs[*slot].state() != State::Leased)
    }

    /// The job of an earlier firing, if it still runs or will run.
    fn unfinished(&self, id: JobId) -> Option<JobSlot> {
        let slot = self.jobs.find(id)?;
        let job = &self.jobs[slot];
        (job.state() != State::Buried && job.death().is_none()).then_some(slot)
    }

    /// The firing that made this job, if it is the last one of its entry.
    pub(super) fn firing_of(&self, id: JobId) -> Option<Fired> {
        self.crons.firing_of(id)
    }
}
