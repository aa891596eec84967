//! An operator buries or reschedules one job that no session holds. No worker gets the job for this. So
//! it counts as no take and as no failed attempt, and no limit of the queue holds it back.

use super::{Engine, NotFound};
use crate::effects::{Effects, News, Record};
use crate::ids::{JobId, JobSlot};
use crate::jobs::State;
use crate::milestones::JobEnd;

impl Engine {
    /// Buries a ready or delayed job, or moves a buried job behind all other buried jobs. The job gets
    /// this priority. Its watchers get the news that it failed. If it exists only for them, it ends.
    pub fn bury_job(
        &mut self,
        id: JobId,
        priority: u32,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        self.meter.begin_request();
        let slot = self.changeable_by_hand(id)?;
        self.tally.buries += 1;
        self.send_last_news(slot, &News::Fail, effects);
        if self.jobs[slot].is_abandoned() {
            self.remove_job(slot, JobEnd::Abandoned, effects);
            return Ok(());
        }
        self.remove_from_list(slot);
        let due = self.jobs[slot].due();
        self.set_urgency(slot, (priority, due), None);
        self.jobs.deal_buried_order(slot);
        self.jobs[slot].count(|counters| &mut counters.buries);
        self.jobs.recharge(slot);
        if self.jobs[slot].state() != State::Buried {
            self.change_state(slot, State::Buried);
        }
        self.note(Record::Update, slot, effects);
        self.add_to_list(slot);
        Ok(())
    }

    /// Gives a job this priority, and makes it ready, or delayed if `delay_s` is not 0. The job keeps its
    /// place among the jobs of its priority. A ready job that stays ready keeps its age.
    pub fn reschedule_job(
        &mut self,
        id: JobId,
        priority: u32,
        delay_s: u32,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        self.meter.begin_request();
        let slot = self.changeable_by_hand(id)?;
        let state = self.jobs[slot].state();
        let (next, due) = if delay_s > 0 {
            (State::Delayed, self.now.plus_seconds(delay_s))
        } else if state == State::Ready {
            (State::Ready, self.jobs[slot].due())
        } else {
            (State::Ready, self.now)
        };
        self.remove_from_list(slot);
        self.set_urgency(slot, (priority, due), None);
        self.jobs[slot].set_delay_s(delay_s);
        self.jobs.recharge(slot);
        if next != state {
            self.change_state(slot, next);
        }
        self.note(Record::Update, slot, effects);
        self.enlist(slot, effects);
        Ok(())
    }

    /// The place of a job that an operator can change: no session holds it, and it does not end with its
    /// queue. A removal has looked at some lists of its queue already, and the job could move to one of
    /// these.
    fn changeable_by_hand(&self, id: JobId) -> Result<JobSlot, NotFound> {
        let slot = self.slot(id)?;
        let job = &self.jobs[slot];
        let is_held = job.state() == State::Leased;
        if is_held || self.is_being_removed(job.queue()) {
            return Err(NotFound);
        }
        Ok(slot)
    }
}
