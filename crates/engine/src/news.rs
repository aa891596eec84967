//! News of a job for all who watch it, told in slices when they are many.
//!
//! News is kept in one line for all jobs, so that each watcher hears it in the order in which it came.
//! The line is empty nearly always: few jobs have more watchers than are told at once.

use std::collections::VecDeque;

use crate::bytes::JOIN_BYTES;
use crate::effects::{Effects, Happening, News};
use crate::engine::Engine;
use crate::ids::{JobId, JobSlot, Millis, SessionId};
use crate::limits::TOLD_AT_ONCE_MAX;
use crate::timers::TimerKey;

/// The line.
#[derive(Debug, Default)]
pub(crate) struct UntoldNews {
    pub(crate) line: VecDeque<Untold>,
    /// Set as long as the line is not empty.
    pub(crate) timer: Option<Millis>,
}

/// News that was not told to all watchers yet.
#[derive(Debug)]
pub(crate) struct Untold {
    pub(crate) id: JobId,
    news: News,
    /// Those who watched the job when the news came.
    watchers: Vec<SessionId>,
    /// So many of them know.
    told: usize,
}

impl Untold {
    /// Those who do not know yet, and watch the job until then because it has ended.
    pub(crate) fn watchers_left(&self) -> &[SessionId] {
        if self.news.is_end() { &self.watchers[self.told..] } else { &[] }
    }
}

impl Engine {
    /// Tells all watchers of a job.
    pub(crate) fn tell(&mut self, slot: JobSlot, news: &News, effects: &mut Effects) {
        let job = &self.jobs[slot];
        self.meter.count(1);
        if self.untold.line.is_empty() && job.watchers().len() <= TOLD_AT_ONCE_MAX {
            self.meter.count(job.watchers().len());
            let happening = || Happening::News { id: job.id(), news: news.clone(), late: false };
            effects.happenings.extend(job.watchers().iter().map(|watcher| (*watcher, happening())));
        } else if !job.watchers().is_empty() {
            let (id, watchers) = (job.id(), job.watchers().to_vec());
            self.announce(Untold { id, news: news.clone(), watchers, told: 0 }, effects);
        }
    }

    /// The last news for all watchers; they watch this job no more.
    pub(crate) fn tell_end(&mut self, slot: JobSlot, news: &News, effects: &mut Effects) {
        if self.jobs[slot].watchers().is_empty() {
            return;
        }
        let id = self.jobs[slot].id();
        let watchers = self.jobs[slot].take_watchers();
        self.meter.count(1);
        let few = self.untold.line.is_empty() && watchers.len() <= TOLD_AT_ONCE_MAX;
        let mut untold = Untold { id, news: news.clone(), watchers, told: 0 };
        if few {
            while self.tell_next(&mut untold, false, effects) {}
        } else {
            self.announce(untold, effects);
        }
    }

    /// Begins with news that is for many, or comes behind such.
    fn announce(&mut self, untold: Untold, effects: &mut Effects) {
        self.meter.begin_request();
        self.untold.line.push_back(untold);
        if self.untold.line.len() == 1 {
            self.tell_slice(false, effects);
        }
    }

    /// Whether news waits to be told. Whoever told it should help with it before it tells more, which would
    /// wait, too, and take memory.
    pub fn has_untold_news(&self) -> bool {
        !self.untold.line.is_empty()
    }

    /// Tells a slice of what waits to be told; true if more is left.
    pub fn tell_more(&mut self, effects: &mut Effects) -> bool {
        self.meter.begin_request();
        self.tell_slice(true, effects);
        self.has_untold_news()
    }

    /// Tells a slice. What is told `late` is told after the request that it came from. The rest is told by
    /// a timer, behind all others that are due.
    pub(crate) fn tell_slice(&mut self, late: bool, effects: &mut Effects) {
        self.timers.disarm(&mut self.untold.timer, TimerKey::News);
        while let Some(mut untold) = self.untold.line.pop_front() {
            while self.tell_next(&mut untold, late, effects) {
                if self.meter.request_is_spent() {
                    self.untold.line.push_front(untold);
                    self.timers.arm(&mut self.untold.timer, self.now, TimerKey::News);
                    return;
                }
            }
        }
    }

    /// Tells the next watcher; false if all know.
    fn tell_next(&mut self, untold: &mut Untold, late: bool, effects: &mut Effects) -> bool {
        let Some(&watcher) = untold.watchers.get(untold.told) else { return false };
        let id = untold.id;
        untold.told += 1;
        self.meter.count(1);
        if untold.news.is_end() {
            let gone = self.session_mut(watcher).and_then(|session| session.watching.remove(&id));
            self.memory_bytes -= u64::from(gone.unwrap_or(0)) * JOIN_BYTES;
        }
        effects.happenings.push((watcher, Happening::News { id, news: untold.news.clone(), late }));
        true
    }
}
