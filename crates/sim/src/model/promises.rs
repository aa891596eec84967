//! Checks two promises: every foreground submit gets exactly one end, and no worker sleeps while a
//! job is ready for it. The checks do not use the engine's rules. So they also find an error that
//! is both in the engine and in the model.

use std::collections::{BTreeMap, BTreeSet};

use super::{Model, Place, State};

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
    /// numbers. `seen` returns the order number of a job, and its number among the buried jobs.
    pub(crate) fn adopt_orders(&mut self, seen: impl Fn(u64) -> Option<(u64, u64)>) {
        let rerouted = std::mem::take(&mut self.rerouted).into_iter();
        let jobs = rerouted.filter_map(|id| Some((id, self.jobs.get(&id)?.order)));
        let adopted = permuted(jobs.collect(), |id| Some(seen(id)?.0));
        for (id, mine, order) in adopted {
            self.history.reorder(id, mine, order);
            self.job_mut(id).order = order;
        }
        let buried = std::mem::take(&mut self.set_aside).into_iter();
        let jobs = buried.filter_map(|id| match self.jobs.get(&id)?.state {
            State::Buried { order } => Some((id, order)),
            State::Ready | State::Delayed { .. } | State::Leased(_) => None,
        });
        let adopted = permuted(jobs.collect(), |id| Some(seen(id)?.1));
        for (id, mine, order) in adopted {
            self.history.rebury(id, mine, order);
            self.job_mut(id).state = State::Buried { order };
        }
    }
}

/// The model's number and the observed number of each job, if the observed numbers are a permutation of
/// the model's numbers.
fn permuted(mine: BTreeMap<u64, u64>, seen: impl Fn(u64) -> Option<u64>) -> Vec<(u64, u64, u64)> {
    let pairs = mine.into_iter().map(|(id, mine)| Some((id, mine, seen(id)?)));
    let pairs: Vec<(u64, u64, u64)> = pairs.collect::<Option<_>>().unwrap_or_default();
    let ours: BTreeSet<u64> = pairs.iter().map(|(_, mine, _)| *mine).collect();
    let theirs: BTreeSet<u64> = pairs.iter().map(|(_, _, theirs)| *theirs).collect();
    if ours == theirs { pairs } else { Vec::new() }
}
