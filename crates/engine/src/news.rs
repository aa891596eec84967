//! News that some watchers do not have yet. The news of all jobs is in one line, so that each
//! watcher gets all its news in the right order.
//!
//! The line is nearly always empty. Most jobs have only a few watchers. Then the engine sends the
//! news to all of them immediately, and adds nothing to the line.

use std::collections::VecDeque;

use crate::effects::News;
use crate::ids::{JobId, Millis, SessionId};

/// The line of news.
#[derive(Debug, Default)]
pub(crate) struct NewsQueue {
    line: VecDeque<PendingNews>,
    /// When the engine sends the next slice of news. Set only while the line is not empty. Only
    /// [`crate::timers::Timers`] changes this moment.
    pub(crate) timer: Option<Millis>,
}

/// News of one job that some watchers do not have yet.
#[derive(Debug)]
pub(crate) struct PendingNews {
    id: JobId,
    news: News,
    /// The sessions that watched the job when the news was new, once per attachment.
    watchers: Vec<SessionId>,
    /// The number of entries of `watchers` that have got the news.
    notified: usize,
}

impl PendingNews {
    pub(crate) fn new(id: JobId, news: News, watchers: Vec<SessionId>) -> Self {
        Self { id, news, watchers, notified: 0 }
    }

    /// The number of the job.
    pub(crate) fn id(&self) -> JobId {
        self.id
    }

    pub(crate) fn news(&self) -> &News {
        &self.news
    }

    /// The next watcher without the news. From now on, this watcher counts as notified. `None`: all
    /// watchers have the news.
    pub(crate) fn next(&mut self) -> Option<SessionId> {
        let watcher = self.watchers.get(self.notified)?;
        self.notified += 1;
        Some(*watcher)
    }

    /// The sessions that still watch a job that has ended, because they do not have the last news
    /// yet. Empty if the news does not end a job.
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

    /// Removes the first entry from the line.
    pub(crate) fn pop(&mut self) -> Option<PendingNews> {
        self.line.pop_front()
    }

    /// Puts news back at the front of the line, because some watchers do not have it yet.
    pub(crate) fn put_back(&mut self, news: PendingNews) {
        self.line.push_front(news);
    }

    /// Panics if the line is not empty but has no timer.
    pub(crate) fn check_invariants(&self) {
        assert_eq!(self.timer.is_some(), !self.is_empty(), "a line of news needs a timer");
    }
}
