//! News of jobs that some watchers do not have yet. There is one line for all jobs, so that each
//! watcher gets its news in the order of the events.
//!
//! The line is nearly always empty: few jobs have more watchers than can get the news at once.

use std::collections::VecDeque;

use crate::effects::News;
use crate::ids::{JobId, Millis, SessionId};

/// The line of news.
#[derive(Debug, Default)]
pub(crate) struct NewsQueue {
    line: VecDeque<PendingNews>,
    /// Set while the line is not empty. [`crate::timers::Timers`] changes it.
    pub(crate) timer: Option<Millis>,
}

/// News that some watchers do not have yet.
#[derive(Debug)]
pub(crate) struct PendingNews {
    id: JobId,
    news: News,
    /// The sessions that watched the job when the news came.
    watchers: Vec<SessionId>,
    /// The number of watchers that have the news.
    notified: usize,
}

impl PendingNews {
    pub(crate) fn new(id: JobId, news: News, watchers: Vec<SessionId>) -> Self {
        Self { id, news, watchers, notified: 0 }
    }

    /// The job.
    pub(crate) fn id(&self) -> JobId {
        self.id
    }

    pub(crate) fn news(&self) -> &News {
        &self.news
    }

    /// The next watcher, which counts as notified from now on. `None`: all watchers have the news.
    pub(crate) fn next(&mut self) -> Option<SessionId> {
        let watcher = self.watchers.get(self.notified)?;
        self.notified += 1;
        Some(*watcher)
    }

    /// The watchers that do not have the news yet. If the job has ended, they watch it until they
    /// get the news.
    pub(crate) fn watchers_left(&self) -> &[SessionId] {
        if self.news.is_end() { &self.watchers[self.notified..] } else { &[] }
    }
}

impl NewsQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PendingNews> {
        self.line.iter()
    }

    /// Adds news at the end of the line.
    pub(crate) fn push(&mut self, news: PendingNews) {
        self.line.push_back(news);
    }

    /// Takes out the first news of the line.
    pub(crate) fn pop(&mut self) -> Option<PendingNews> {
        self.line.pop_front()
    }

    /// Puts news back to the front of the line, because some watchers do not have it yet.
    pub(crate) fn put_back(&mut self, news: PendingNews) {
        self.line.push_front(news);
    }

    /// Panics if the line is not empty but has no timer.
    pub(crate) fn check_invariants(&self) {
        assert_eq!(self.timer.is_some(), !self.is_empty(), "a line of news needs a timer");
    }
}
