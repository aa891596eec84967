//! Telling news of a job to all who watch it, in slices when they are many.

use crate::effects::{Effects, Event, News};
use crate::engine::Engine;
use crate::ids::JobSlot;
use crate::limits::TOLD_AT_ONCE_MAX;
use crate::news::PendingNews;
use crate::timers::TimerKey;

impl Engine {
    /// Tells all watchers of a job.
    pub(in crate::engine) fn tell(&mut self, slot: JobSlot, news: &News, effects: &mut Effects) {
        let job = &self.jobs[slot];
        self.meter.count(1);
        if self.untold.is_empty() && job.watchers().len() <= TOLD_AT_ONCE_MAX {
            self.meter.count(job.watchers().len());
            let event = || Event::News { id: job.id(), news: news.clone(), late: false };
            effects.events.extend(job.watchers().iter().map(|watcher| (*watcher, event())));
        } else if !job.watchers().is_empty() {
            let (id, watchers) = (job.id(), job.watchers().to_vec());
            self.queue_news(PendingNews::new(id, news.clone(), watchers), effects);
        }
    }

    /// The last news for all watchers; they watch this job no more.
    pub(in crate::engine) fn tell_end(
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
        let few = self.untold.is_empty() && watchers.len() <= TOLD_AT_ONCE_MAX;
        let mut untold = PendingNews::new(id, news.clone(), watchers);
        if few {
            while self.tell_next(&mut untold, false, effects) {}
        } else {
            self.queue_news(untold, effects);
        }
    }

    /// Begins with news that is for many, or comes behind such.
    fn queue_news(&mut self, untold: PendingNews, effects: &mut Effects) {
        self.meter.begin_request();
        let is_first = self.untold.is_empty();
        self.untold.push(untold);
        if is_first {
            self.tell_slice(false, effects);
        }
    }

    /// Whether news waits to be told. Whoever told it should help with it before it tells more, which would
    /// wait, too, and take memory.
    pub fn has_pending_news(&self) -> bool {
        !self.untold.is_empty()
    }

    /// Tells a slice of what waits to be told; true if more is left.
    pub fn tell_more(&mut self, effects: &mut Effects) -> bool {
        self.meter.begin_request();
        self.tell_slice(true, effects);
        self.has_pending_news()
    }

    /// Tells a slice. What is told `late` is told after the request that it came from. The rest is told by
    /// a timer, behind all others that are due.
    pub(in crate::engine) fn tell_slice(&mut self, late: bool, effects: &mut Effects) {
        self.timers.disarm(&mut self.untold.timer, TimerKey::News);
        while let Some(mut untold) = self.untold.pop() {
            while self.tell_next(&mut untold, late, effects) {
                if self.meter.request_is_spent() {
                    self.untold.put_back(untold);
                    self.timers.arm(&mut self.untold.timer, self.now, TimerKey::News);
                    return;
                }
            }
        }
    }

    /// Tells the next watcher; false if all know.
    fn tell_next(&mut self, untold: &mut PendingNews, late: bool, effects: &mut Effects) -> bool {
        let Some(watcher) = untold.next() else { return false };
        let (id, news) = (untold.id(), untold.news());
        self.meter.count(1);
        if news.is_end() {
            self.sessions.part(watcher, id);
        }
        effects.events.push((watcher, Event::News { id, news: news.clone(), late }));
        true
    }
}
