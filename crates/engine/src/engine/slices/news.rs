//! Sends news of a job to all its watchers. If a job has many watchers, they get the news in
//! slices.

use crate::effects::{Effects, Event, News};
use crate::engine::Engine;
use crate::ids::JobSlot;
use crate::limits::NOTIFIED_AT_ONCE_MAX;
use crate::news::PendingNews;
use crate::timers::TimerKey;

impl Engine {
    /// Sends news to all watchers of a job.
    pub(in crate::engine) fn send_news(
        &mut self,
        slot: JobSlot,
        news: &News,
        effects: &mut Effects,
    ) {
        let job = &self.jobs[slot];
        self.meter.count(1);
        if self.news_queue.is_empty() && job.watchers().len() <= NOTIFIED_AT_ONCE_MAX {
            self.meter.count(job.watchers().len());
            let event = || Event::News { id: job.id(), news: news.clone(), late: false };
            effects.events.extend(job.watchers().iter().map(|watcher| (*watcher, event())));
        } else if !job.watchers().is_empty() {
            let (id, watchers) = (job.id(), job.watchers().to_vec());
            self.queue_news(PendingNews::new(id, news.clone(), watchers), effects);
        }
    }

    /// Sends the last news to all watchers of a job. Afterwards the job has no watchers.
    pub(in crate::engine) fn send_last_news(
        &mut self,
        slot: JobSlot,
        news: &News,
        effects: &mut Effects,
    ) {
        if self.jobs[slot].watchers().is_empty() {
            return;
        }
        let id = self.jobs[slot].id();
        let watchers = self.jobs[slot].take_watchers();
        self.meter.count(1);
        let few = self.news_queue.is_empty() && watchers.len() <= NOTIFIED_AT_ONCE_MAX;
        let mut pending = PendingNews::new(id, news.clone(), watchers);
        if few {
            while self.send_to_next(&mut pending, false, effects) {}
        } else {
            self.queue_news(pending, effects);
        }
    }

    /// Adds news to the line of news, because the job has many watchers or because the line is not
    /// empty. If the line was empty, sends as much as the request allows. The news gets no slice of
    /// its own: a request or a step of a chore can end many jobs, and must stop after one slice.
    fn queue_news(&mut self, pending: PendingNews, effects: &mut Effects) {
        let is_first = self.news_queue.is_empty();
        self.news_queue.push(pending);
        if is_first {
            self.send_news_slice(false, effects);
        }
    }

    /// Whether the line has news that some watchers do not have yet. If so, a caller with more news
    /// should first call [`Engine::send_more_news`]. Otherwise the line would grow and need more
    /// and more memory.
    pub fn has_pending_news(&self) -> bool {
        !self.news_queue.is_empty()
    }

    /// Sends one slice of the news in the line. Returns true if news is left.
    pub fn send_more_news(&mut self, effects: &mut Effects) -> bool {
        self.meter.begin_request();
        self.send_news_slice(true, effects);
        self.has_pending_news()
    }

    /// Sends the news in the line until the slice of work is spent, but at least to one watcher.
    /// `late` says whether the request that caused the news is over. A timer sends the news that is
    /// left, after all other due timers.
    pub(in crate::engine) fn send_news_slice(&mut self, late: bool, effects: &mut Effects) {
        self.timers.disarm(&mut self.news_queue.timer, TimerKey::News);
        while let Some(mut pending) = self.news_queue.pop() {
            while self.send_to_next(&mut pending, late, effects) {
                if self.meter.request_is_spent() {
                    self.news_queue.put_back(pending);
                    self.timers.arm(&mut self.news_queue.timer, self.now, TimerKey::News);
                    return;
                }
            }
        }
    }

    /// Sends the news to the next watcher. Returns false if all watchers have the news.
    fn send_to_next(
        &mut self,
        pending: &mut PendingNews,
        late: bool,
        effects: &mut Effects,
    ) -> bool {
        let Some(watcher) = pending.next() else { return false };
        let (id, news) = (pending.id(), pending.news());
        self.meter.count(1);
        if news.is_end() {
            self.sessions.part(watcher, id);
        }
        effects.events.push((watcher, Event::News { id, news: news.clone(), late }));
        true
    }
}
