//! Checks two promises: every foreground submit gets exactly one end, and no worker sleeps while a
//! job is ready for it. The checks do not use the engine's rules. So they also find an error that
//! is both in the engine and in the model.

use std::collections::{BTreeMap, BTreeSet};

use super::{Model, Place};

impl Model {
    /// Called when the server accepts a foreground submit. The connection must receive one end of
    /// this job.
    pub(super) fn owe_outcome(&mut self, place: Place, id: u64) {
        *self.conn(place).outcomes_due.entry(id).or_default() += 1;
    }

    /// Checks news of a job for a connection: the job's end, or an update.
    pub(super) fn check_news(&mut self, place: Place, id: u64, is_end: bool) -> Result<(), String> {
        let due = self.conn(place).outcomes_due.entry(id).or_default();
        if *due == 0 {
            return Err(format!("news of job {id}, whose end was told as often as it was due"));
        }
        *due -= u64::from(is_end);
        self.tally.ends += u64::from(is_end);
        Ok(())
    }

    /// Called at the end of the run. Checks that no client still waits for the end of a job.
    pub(crate) fn check_outcomes(&self) -> Result<(), String> {
        for (place, conn) in &self.conns {
            if let Some((id, _)) = conn.outcomes_due.iter().find(|(_, due)| **due > 0) {
                return Err(format!("the session at {place} was never told the end of job {id}"));
            }
        }
        Ok(())
    }

    pub(crate) fn check_sleepers(&self) -> Result<(), String> {
        match self.conns.keys().find(|place| self.misses_work(**place)) {
            Some(place) => Err(format!("the model's worker at {place} sleeps through a job")),
            None => Ok(()),
        }
    }

    /// The protocol does not define in which order jobs of several queues expire in one turn. The
    /// model copies the observed order numbers, if they are a permutation of the model's order
    /// numbers.
    pub(crate) fn adopt_orders(&mut self, seen: impl Fn(u64) -> Option<u64>) {
        let rerouted: BTreeSet<u64> = std::mem::take(&mut self.rerouted).into_iter().collect();
        let jobs = rerouted.iter().filter_map(|id| Some((*id, self.jobs.get(id)?.order)));
        let mine: BTreeMap<u64, u64> = jobs.collect();
        let theirs: BTreeMap<u64, u64> =
            mine.keys().filter_map(|id| Some((*id, seen(*id)?))).collect();
        let numbers = |orders: &BTreeMap<u64, u64>| orders.values().copied().collect();
        let same: [BTreeSet<u64>; 2] = [numbers(&mine), numbers(&theirs)];
        if same[0] == same[1] {
            for (id, order) in theirs {
                self.history.reorder(id, mine[&id], order);
                self.job_mut(id).order = order;
            }
        }
    }
}
