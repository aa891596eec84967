//! Outcomes of jobs in the model (spec gearman 4.6): the clients that wait for outcomes, the news
//! of jobs, and their ends.

use std::rc::Rc;

use super::chores::Chore;
use super::record::Record;
use super::session::Expected;
use super::{JobKind, Model, NEVER, Need, Place, State};

/// An event for a session.
#[derive(Debug)]
pub(super) enum Notification {
    Reply(Expected),
    WorkToDo,
    /// A put that waited for room can be tried again.
    Room,
    News {
        id: u64,
        news: News,
        need: Need,
        /// News of the same batch can come in any order.
        batch: Option<u64>,
    },
    /// An item for a client that waited for an item.
    Granted {
        lease: u64,
        body: Rc<[u8]>,
        need: Need,
    },
    /// The item of a peek, for a client that waited for it.
    Peeked {
        id: u64,
        body: Rc<[u8]>,
        need: Need,
    },
    /// The wait for an item is over.
    NoItem {
        need: Need,
    },
}

/// News for the clients that wait for a job's outcome.
#[derive(Clone, Debug)]
pub(super) enum News {
    Data(Rc<[u8]>),
    Warning(Rc<[u8]>),
    Progress(Rc<[u8]>),
    Complete(Rc<[u8]>),
    Fail,
    Exception(Rc<[u8]>),
}

/// Places from this number on are for closed connections that jobs still list as waiters.
const GONE: Place = 1 << 31;

impl Model {
    pub(super) fn attach(&mut self, place: Place, id: u64) {
        self.job_mut(id).watchers.push(place);
        self.owe_outcome(place, id);
    }

    /// Ends all waits of a closed connection for outcomes, in slices.
    pub(super) fn detach(&mut self, place: Place) {
        // Another connection may get the place before all slices are done.
        let gone = GONE + self.next_ticket as Place;
        self.next_ticket += 1;
        let mut watched = Vec::new();
        for (id, job) in &mut self.jobs {
            if job.watchers.contains(&place) {
                // A connection can be a watcher of one job several times.
                job.watchers
                    .iter_mut()
                    .filter(|watcher| **watcher == place)
                    .for_each(|watcher| *watcher = gone);
                watched.push(*id);
            }
        }
        self.begin(Chore::Detach(gone, watched));
    }

    /// Removes a watcher of a job. If no client waits for the job any more, the job ends, except
    /// while a worker runs it.
    pub(super) fn detach_from(&mut self, gone: Place, id: u64) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.watchers.retain(|watcher| *watcher != gone);
        if self.is_abandoned(id) && !matches!(self.jobs[&id].state, State::Leased(_)) {
            self.remove_job(id);
        }
    }

    pub(super) fn is_abandoned(&self, id: u64) -> bool {
        let job = &self.jobs[&id];
        job.kind == JobKind::Watched && job.watchers.is_empty()
    }

    /// Sends news from the worker to the waiting clients. If the put set a ttr for the job, the
    /// news restarts the ttr.
    pub(super) fn report(&mut self, id: u64, news: &News) {
        if let News::Warning(warning) = news
            && self.retries(id)
        {
            self.job_mut(id).warnings.extend_from_slice(warning);
        }
        for place in self.jobs[&id].watchers.clone() {
            self.send_news(place, id, news, 0);
        }
        if self.jobs[&id].ttr > 0 {
            self.renew_deadline(id);
        }
    }

    pub(super) fn progress(&mut self, id: u64, progress: (u32, u32), words: Rc<[u8]>) {
        self.job_mut(id).progress = progress;
        self.report(id, &News::Progress(words));
    }

    fn send_news(&mut self, place: Place, id: u64, news: &News, need: Need) {
        if place >= GONE {
            return;
        }
        let (news, batch) = (news.clone(), self.batch);
        self.conn(place).notifications.push_back(Notification::News { id, news, need, batch });
    }

    /// Sends the last news of a job to all waiting clients. The news depends on the record `need`.
    pub(super) fn send_last_news(
        &mut self,
        watchers: Vec<Place>,
        id: u64,
        news: &News,
        need: Need,
    ) {
        for place in watchers {
            self.send_news(place, id, news, need);
        }
    }

    /// Ends a job, and sends the news to the waiting clients. Returns the record that the news
    /// depends on.
    pub(super) fn end_job(&mut self, id: u64, news: &News) -> Need {
        self.keep_result(id, news);
        let watchers = std::mem::take(&mut self.job_mut(id).watchers);
        let need = self.remove_job(id);
        self.send_last_news(watchers, id, news, need);
        need
    }

    pub(super) fn remove_job(&mut self, id: u64) -> Need {
        let job = self.jobs.remove(&id).expect("it was just looked at");
        self.hide_older_result(id, job.tags.as_ref());
        let mut need = 0;
        if job.kind == JobKind::Logged {
            need = self.history.note(Record::Finish(id), self.is_strict(&job.queue));
            self.history.note_jobs_of(&job.queue, need);
            self.history.note_key(job.tags.as_ref(), need);
        }
        self.drop_queue_if_unwanted(&job.queue);
        need
    }

    /// Restarts the ttr. The deadline cannot exceed the `limit` of the lease.
    pub(super) fn renew_deadline(&mut self, id: u64) {
        let now = self.now;
        let job = self.job_mut(id);
        let until = if job.ttr == 0 { NEVER } else { now + u64::from(job.ttr) * 1000 };
        if let State::Leased(lease) = &mut job.state {
            lease.deadline = until.min(lease.limit);
        }
    }
}
