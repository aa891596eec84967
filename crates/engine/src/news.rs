//! News of jobs that was not told to all who watch them yet: one line for all jobs, so that each
//! watcher hears it in the order in which it came.
//!
//! The line is empty nearly always: few jobs have more watchers than are told at once.

use std::collections::VecDeque;

use crate::effects::News;
use crate::ids::{JobId, Millis, SessionId};

/// The line.
#[derive(Debug, Default)]
pub(crate) struct NewsQueue {
    line: VecDeque<PendingNews>,
    /// Set as long as the line is not empty; changed by [`crate::timers::Timers`].
    pub(crate) timer: Option<Millis>,
}

/// News that was not told to all watchers yet.
#[derive(Debug)]
pub(crate) struct PendingNews {
    id: JobId,
    news: News,
    /// Those who watched the job when the news came.
    watchers: Vec<SessionId>,
    /// So many of them know.
    told: usize,
}

impl PendingNews {
    pub(crate) fn new(id: JobId, news: News, watchers: Vec<SessionId>) -> Self {
        Self { id, news, watchers, told: 0 }
    }

    /// The job.
    pub(crate) fn id(&self) -> JobId {
        self.id
    }

    pub(crate) fn news(&self) -> &News {
        &self.news
    }

    /// The next watcher, who knows from now on; `None`: all do.
    pub(crate) fn next(&mut self) -> Option<SessionId> {
        let watcher = self.watchers.get(self.told)?;
        self.told += 1;
        Some(*watcher)
    }

    /// Those who do not know yet, and watch the job until then because it has ended.
    pub(crate) fn watchers_left(&self) -> &[SessionId] {
        if self.news.is_end() { &self.watchers[self.told..] } else { &[] }
    }
}

impl NewsQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PendingNews> {
        self.line.iter()
    }

    /// Puts news at the end of the line.
    pub(crate) fn push(&mut self, untold: PendingNews) {
        self.line.push_back(untold);
    }

    /// Takes out the news that is told next.
    pub(crate) fn pop(&mut self) -> Option<PendingNews> {
        self.line.pop_front()
    }

    /// Puts news back that is told next, because some do not know it yet.
    pub(crate) fn put_back(&mut self, untold: PendingNews) {
        self.line.push_front(untold);
    }

    /// Panics if nobody comes back to what is left.
    pub(crate) fn check_invariants(&self) {
        assert_eq!(self.timer.is_some(), !self.is_empty(), "it will be told");
    }
}
