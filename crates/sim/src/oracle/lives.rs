//! Checks the milestones of jobs, from which the server makes their history.
//!
//! A job is taken, then it comes back or leaves its queue. After its end, it has no more milestones.
//! A policy decides which queues have milestones. So after a change of policies, the oracle does not
//! know whether somebody holds a job.

use std::collections::BTreeMap;

use broker::{JobEnd, Milestone, MilestoneKind, Millis};

/// What the last milestone of a job says.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Stage {
    Taken,
    Returned,
    Ended,
}

/// The jobs with milestones in this process.
#[derive(Debug, Default)]
pub(super) struct Lives {
    stages: BTreeMap<u64, Stage>,
    last_at: Millis,
}

impl Lives {
    /// Checks the next milestone.
    pub(super) fn check(&mut self, milestone: &Milestone, now: Millis) -> Result<(), String> {
        let Milestone { job, at, what } = milestone;
        let before = self.stages.get(&job.0).copied();
        let wrong = |why: &str| {
            Err(format!("oracle: job {} has {what:?} at {at:?}, after {before:?}: {why}", job.0))
        };
        if *at < self.last_at || *at > now {
            return wrong("milestones are in the order of their moments");
        }
        self.last_at = *at;
        if before == Some(Stage::Ended) {
            return wrong("it has ended");
        }
        let stage = match what {
            MilestoneKind::Taken { .. } if before == Some(Stage::Taken) => {
                return wrong("somebody holds it");
            }
            MilestoneKind::Taken { .. } => Some(Stage::Taken),
            MilestoneKind::Returned { .. } if before == Some(Stage::Returned) => {
                return wrong("nobody holds it");
            }
            MilestoneKind::Returned { .. } => Some(Stage::Returned),
            MilestoneKind::Left(left) => {
                if left.why == JobEnd::Done && before == Some(Stage::Returned) {
                    return wrong("only its holder can finish it");
                }
                // A read for good is no take.
                if left.takes == 0 && before == Some(Stage::Returned) {
                    return wrong("somebody took it");
                }
                // The next queue can be one without milestones.
                left.to.is_none().then_some(Stage::Ended)
            }
        };
        match stage {
            Some(stage) => self.stages.insert(job.0, stage),
            None => self.stages.remove(&job.0),
        };
        Ok(())
    }

    /// From now on, other queues have milestones.
    pub(super) fn policies_changed(&mut self) {
        self.stages.retain(|_, stage| *stage == Stage::Ended);
    }
}

#[cfg(test)]
mod tests {
    use broker::policy::History;
    use broker::{AttemptEnd, Departure, JobId};

    use super::*;

    fn taken() -> MilestoneKind {
        MilestoneKind::Taken { waited_ms: 0, worker: Box::default() }
    }

    fn returned() -> MilestoneKind {
        MilestoneKind::Returned { how: AttemptEnd::Buried, error: Box::default() }
    }

    fn left(why: JobEnd, takes: u32, to: Option<&str>) -> MilestoneKind {
        MilestoneKind::Left(Box::new(Departure {
            queue: Box::default(),
            history: History::default(),
            why,
            to: to.map(|to| to.as_bytes().into()),
            created: Millis(0),
            priority: 0,
            ttr_s: 0,
            takes,
            body_len: 0,
            body: None,
        }))
    }

    fn judge(lives: &mut Lives, all: Vec<MilestoneKind>) -> Result<(), String> {
        let milestones =
            all.into_iter().map(|what| Milestone { job: JobId(1), at: Millis(5), what });
        milestones.into_iter().try_for_each(|milestone| lives.check(&milestone, Millis(5)))
    }

    #[test]
    fn a_life_goes_on_until_its_end() {
        let life = vec![
            taken(),
            returned(),
            left(JobEnd::Dead, 1, Some("dead")),
            taken(),
            left(JobEnd::Done, 2, None),
        ];
        judge(&mut Lives::default(), life).unwrap();
        for (wrong, why) in [
            (vec![taken(), taken()], "somebody holds it"),
            (vec![returned(), returned()], "nobody holds it"),
            (vec![returned(), left(JobEnd::Done, 1, None)], "only its holder"),
            (vec![returned(), left(JobEnd::Deleted, 0, None)], "somebody took it"),
            (vec![left(JobEnd::Expired, 0, None), taken()], "it has ended"),
        ] {
            let error = judge(&mut Lives::default(), wrong).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_change_of_policies_hides_what_happens() {
        let mut lives = Lives::default();
        judge(&mut lives, vec![taken()]).unwrap();
        lives.policies_changed();
        judge(&mut lives, vec![taken(), left(JobEnd::Done, 2, None)]).unwrap();
        lives.policies_changed();
        judge(&mut lives, vec![taken()]).unwrap_err();
    }

    #[test]
    fn moments_never_go_back() {
        let mut lives = Lives::default();
        let at = |at| Milestone { job: JobId(at), at: Millis(at), what: taken() };
        lives.check(&at(5), Millis(9)).unwrap();
        lives.check(&at(4), Millis(9)).unwrap_err();
        lives.check(&at(10), Millis(9)).unwrap_err();
    }
}
