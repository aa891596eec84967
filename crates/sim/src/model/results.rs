//! Kept results in the model: the outcomes of submitted jobs that have ended. A run has too few jobs for
//! the bounds of the engine.

use std::collections::BTreeMap;
use std::rc::Rc;

use broker::policy::{Rules, Setting};

use super::outcome::{News, Notification};
use super::routes::Refused;
use super::{Model, Need, Place, Tags};

#[derive(Debug)]
struct Kept {
    until: u64,
    progress: (u32, u32),
    news: News,
}

/// The outcomes by the job, and the last job with each key.
#[derive(Debug, Default)]
pub(super) struct Results {
    by_job: BTreeMap<u64, Kept>,
    by_key: BTreeMap<Rc<[u8]>, u64>,
}

fn keep_results(rules: &Rules) -> bool {
    let mut settings = rules.0.iter().flat_map(|rule| &rule.settings);
    settings.any(|asked| matches!(asked.setting, Setting::ResultKeep(Some(_))))
}

impl Model {
    /// Keeps the outcome of a job that ends now, if the policy of its queue says so.
    pub(super) fn keep_result(&mut self, id: u64, news: &News) {
        if !keep_results(&self.rules) {
            return;
        }
        let job = &self.jobs[&id];
        let keep_ms = self.queues[&job.queue].policy.result_keep_ms;
        let (Some(tags), Some(keep_ms)) = (&job.tags, keep_ms) else { return };
        if !tags.unique.is_empty() && *tags.unique != *b"-" {
            self.results.by_key.insert(tags.unique.clone(), id);
        }
        let (until, progress) = (self.now.saturating_add(keep_ms), job.progress);
        self.results.by_job.insert(id, Kept { until, progress, news: news.clone() });
    }

    /// A job has ended. An earlier job with its key is no longer the last one with this key.
    pub(super) fn hide_older_result(&mut self, id: u64, tags: Option<&Tags>) {
        let Some(tags) = tags else { return };
        if self.results.by_key.get(&tags.unique).is_some_and(|last| *last != id) {
            self.results.by_key.remove(&tags.unique);
        }
    }

    /// The rules have changed.
    pub(super) fn drop_results(&mut self) {
        if !keep_results(&self.rules) {
            self.results = Results::default();
        }
    }

    fn kept_result(&self, id: u64) -> Option<&Kept> {
        self.results.by_job.get(&id).filter(|kept| kept.until > self.now)
    }

    /// The last progress of a job that has ended. Zero if it is not kept.
    pub(super) fn kept_progress(&self, id: Option<u64>) -> (u32, u32) {
        id.and_then(|id| self.kept_result(id)).map_or((0, 0), |kept| kept.progress)
    }

    /// The last job with this key that has ended with a kept result.
    pub(super) fn ended_with_key(&self, unique: &[u8]) -> Option<u64> {
        self.results.by_key.get(unique).copied()
    }

    /// Sends the outcome of a job that has ended to a client that submitted it again.
    pub(super) fn send_kept_result(
        &mut self,
        place: Place,
        id: u64,
        need: Need,
    ) -> Result<(), Refused> {
        let kept = self.kept_result(id).ok_or(Refused::Duplicate)?;
        let (news, batch) = (kept.news.clone(), None);
        self.tally.kept_results += 1;
        self.owe_outcome(place, id);
        self.conn(place).notifications.push_back(Notification::News { id, news, need, batch });
        Ok(())
    }
}
