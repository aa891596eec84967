//! The oracle's record of Gearman's jobs, clients and workers: who waits for which outcome, which
//! worker has which job, and who sleeps. It knows only what came and left on the connections.

mod messages;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use messages::{News, Reply, Request, Submit};

use super::terms::{Conn, Lasting, ReplyEnd};
use crate::Checked;

/// The wall clocks of the nodes of a cluster, and the time of its leader, differ by at most this much. A
/// client gives a time of the wall clock.
const CLOCKS_MS: u64 = 25_000;

#[derive(Debug)]
pub(super) struct Gearman {
    peers: BTreeMap<Conn, Peer>,
    /// Jobs that clients or workers know, and that have not certainly ended.
    jobs: BTreeMap<u64, Job>,
    ended: BTreeMap<u64, End>,
    /// True if a job wakes all workers that sleep, not only some.
    wakes_all: bool,
    /// True if a job can end because its workers were lost too often.
    loses_jobs: bool,
    pub(super) outcomes_judged: u64,
    pub(super) sleeps_judged: u64,
    pub(super) handles_judged: u64,
}

/// A client or a worker.
#[derive(Debug, Default)]
struct Peer {
    input: Vec<u8>,
    /// How many bytes of `input` the server has read.
    used: usize,
    output: Vec<u8>,
    /// Bytes of replies so far.
    read: u64,
    /// Requests that follow one without a reply.
    pending: VecDeque<Request>,
    /// The functions of a worker, each with whether it has a time limit.
    functions: BTreeMap<String, bool>,
    sleeps: bool,
}

#[derive(Debug)]
struct Job {
    function: String,
    /// `None` if only replies named the job, and did not have it.
    unique: Option<Vec<u8>>,
    body: Vec<u8>,
    state: State,
    /// The reply that makes a job of the background durable. `None` for a job of the foreground.
    put: Option<Lasting>,
    /// True if the job may have ended, or was lost.
    may_be_gone: bool,
    /// True if a `JOB_CREATED` named the job.
    was_created: bool,
    /// Who waits for the outcome, how often, and the number of its news that were told.
    waits: BTreeMap<Conn, Wait>,
    /// What the worker has reported.
    news: Vec<News>,
    /// True if a worker may have reported other things.
    news_unclear: bool,
}

#[derive(Copy, Clone, Debug)]
struct Wait {
    count: u64,
    /// The news that were told. `None` if the client joined the job several times: then each piece of
    /// news comes several times.
    told: Option<usize>,
}

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum State {
    /// `u64::MAX`: as soon as the server has no more to do.
    Ready {
        since: u64,
    },
    Scheduled {
        due: u64,
    },
    Assigned {
        to: Conn,
    },
    Unknown,
}

/// A job that has ended.
#[derive(Debug)]
struct End {
    job: Job,
    news: News,
    /// Replies that told it. If one was sent, the job cannot come back.
    told: Vec<ReplyEnd>,
    is_certain: bool,
}

impl Gearman {
    pub(super) fn new(wakes_all: bool, loses_jobs: bool) -> Self {
        Self {
            peers: BTreeMap::new(),
            jobs: BTreeMap::new(),
            ended: BTreeMap::new(),
            wakes_all,
            loses_jobs,
            outcomes_judged: 0,
            sleeps_judged: 0,
            handles_judged: 0,
        }
    }

    pub(super) fn opened(&mut self, conn: Conn) {
        self.peers.insert(conn, Peer::default());
    }

    pub(super) fn closed(&mut self, conn: Conn) {
        self.peers.remove(&conn);
        self.lose(conn, State::Ready { since: u64::MAX }, |_| true);
        for job in self.jobs.values_mut() {
            if job.waits.remove(&conn).is_some() {
                job.note_abandoned();
            }
        }
        for end in self.ended.values_mut() {
            end.job.waits.remove(&conn);
        }
    }

    /// The worker loses its jobs of these functions. Other workers get them.
    fn lose(&mut self, conn: Conn, state: State, is_lost: impl Fn(&str) -> bool) {
        let loses_jobs = self.loses_jobs;
        for job in self.jobs.values_mut() {
            if job.state == (State::Assigned { to: conn }) && is_lost(&job.function) {
                job.state = state;
                job.may_be_gone |= loses_jobs;
                job.note_abandoned();
            }
        }
    }

    /// One call of a session: what its client sent, how much of that the session has read by now, and
    /// its answer.
    pub(super) fn observe(
        &mut self,
        conn: Conn,
        (sent, used): (&[u8], usize),
        answer: &[u8],
        now: u64,
    ) -> Checked {
        let Some(peer) = self.peers.get_mut(&conn) else { return Ok(()) };
        peer.input.extend_from_slice(sent);
        peer.output.extend_from_slice(answer);
        peer.used += used;
        let mut read = peer.input.drain(..peer.used).collect();
        while let Some(request) = messages::request(&mut read) {
            peer.pending.push_back(request);
        }
        peer.used = 0;
        // What was read of a message that is not whole yet.
        let unread = std::mem::replace(&mut peer.input, read);
        peer.used = peer.input.len();
        peer.input.extend(unread);
        loop {
            self.act(conn)?;
            let Some(peer) = self.peers.get_mut(&conn) else { return Ok(()) };
            let before = peer.output.len();
            let Some(reply) = messages::reply(&mut peer.output) else { return Ok(()) };
            peer.read += (before - peer.output.len()) as u64;
            let end = ReplyEnd { conn, end: peer.read };
            self.judge(end, reply, now)?;
        }
    }

    /// Requests take effect up to the first one that waits for a reply.
    fn act(&mut self, conn: Conn) -> Checked {
        loop {
            let Some(peer) = self.peers.get_mut(&conn) else { return Ok(()) };
            let waits = |request: &Request| matches!(request, Request::Submit(_) | Request::Grab);
            if peer.pending.front().is_some_and(waits) {
                return Ok(());
            }
            let Some(request) = peer.pending.pop_front() else { return Ok(()) };
            match request {
                Request::CanDo { function, is_limited } => {
                    peer.functions.insert(function, is_limited);
                }
                Request::CantDo(function) => {
                    peer.functions.remove(&function);
                    // The request can take several slices, with other requests in between.
                    self.lose(conn, State::Unknown, |lost| lost == function);
                }
                Request::Reset => {
                    let functions = std::mem::take(&mut peer.functions);
                    self.lose(conn, State::Unknown, |lost| functions.contains_key(lost));
                }
                Request::Sleep => peer.sleeps = true,
                Request::Report { id, news } => self.reported(conn, id, news),
                Request::Cancel(id) => {
                    if let Some(job) = self.jobs.get_mut(&id) {
                        job.doubt();
                    }
                }
                Request::Drop(name) => {
                    let alike = |job: &&mut Job| job.function.eq_ignore_ascii_case(&name);
                    self.jobs.values_mut().filter(alike).for_each(Job::doubt);
                }
                Request::Submit(_) | Request::Grab | Request::Other => {}
            }
        }
    }

    /// A worker says something about a job.
    fn reported(&mut self, conn: Conn, id: u64, news: News) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        match job.state {
            State::Assigned { to } if to == conn => {
                if news.is_end() {
                    self.ends(id, news);
                } else {
                    job.news.push(news);
                }
            }
            State::Unknown => {
                job.news_unclear = true;
                job.may_be_gone |= news.is_end();
            }
            // It is not the worker's job.
            State::Assigned { .. } | State::Ready { .. } | State::Scheduled { .. } => {}
        }
    }

    fn ends(&mut self, id: u64, news: News) {
        if let Some(job) = self.jobs.remove(&id) {
            self.ended.insert(id, End { job, news, told: Vec::new(), is_certain: true });
        }
    }

    fn judge(&mut self, end: ReplyEnd, reply: Reply, now: u64) -> Checked {
        let Some(peer) = self.peers.get_mut(&end.conn) else { return Ok(()) };
        match reply {
            Reply::Created(_) | Reply::Refused => {
                let Some(Request::Submit(submit)) = peer.pending.pop_front() else {
                    return Err(format!("{reply:?} answers no submit"));
                };
                match reply {
                    Reply::Created(id) => self.created(end, id, submit, now),
                    _ => Ok(()),
                }
            }
            Reply::Assigned { .. } | Reply::NoJob => {
                peer.sleeps = false;
                if peer.pending.pop_front() != Some(Request::Grab) {
                    return Err(format!("{reply:?} answers nothing"));
                }
                match reply {
                    Reply::Assigned { id, function, unique, body } => {
                        self.assigned(end.conn, id, (function, unique, body), now)
                    }
                    _ => Ok(()),
                }
            }
            Reply::Wake => {
                peer.sleeps = false;
                Ok(())
            }
            Reply::Told { id, news } => self.told(end, id, &news),
            Reply::Other => Ok(()),
        }
    }

    fn created(&mut self, end: ReplyEnd, id: u64, submit: Submit, now: u64) -> Checked {
        if self.ended.get(&id).is_some_and(|end| end.is_certain) {
            return Err(format!("job {id} is created, but it was ended before"));
        }
        // An end that was lost.
        let lost = self.ended.remove(&id).map(|end| end.job);
        if let Some(lost) = lost {
            self.jobs.insert(id, lost);
        }
        let can_join = submit.can_join();
        let Submit { function, unique, body, is_foreground, due } = submit;
        let job = self.jobs.entry(id).or_insert_with(|| Job {
            function: function.clone(),
            unique: Some(unique.clone()),
            body: body.clone(),
            state: match due {
                Some(due) if due + CLOCKS_MS > now => State::Scheduled { due },
                _ => State::Ready { since: now },
            },
            put: None,
            may_be_gone: false,
            was_created: false,
            waits: BTreeMap::new(),
            news: Vec::new(),
            news_unclear: false,
        });
        let known = job.unique.get_or_insert_with(|| unique.clone());
        if job.function != function || *known != unique {
            return Err(format!("the handle of job {id} names another job: {job:?}"));
        }
        if std::mem::replace(&mut job.was_created, true) && !can_join {
            return Err(format!("the number {id} was dealt before"));
        }
        self.handles_judged += 1;
        if is_foreground {
            let told = Some(job.news.len());
            let wait = job.waits.entry(end.conn).or_insert(Wait { count: 0, told });
            wait.count += 1;
            wait.told = wait.told.filter(|_| wait.count == 1);
        } else if !matches!(job.put, Some(Lasting::Certain)) {
            job.put.get_or_insert(Lasting::IfSent(end));
            // The server has the job now.
            job.may_be_gone &= job.state == State::Unknown;
        }
        Ok(())
    }

    fn assigned(
        &mut self,
        conn: Conn,
        id: u64,
        (function, unique, body): (String, Option<Vec<u8>>, Vec<u8>),
        now: u64,
    ) -> Checked {
        if let Some(end) = self.ended.remove(&id) {
            if end.is_certain {
                return Err(format!("job {id} was ended before"));
            }
            self.jobs.insert(id, end.job);
        }
        let is_limited = self.peers[&conn].functions.get(&function).copied();
        let is_limited = is_limited.ok_or_else(|| format!("{function} was not registered"))?;
        let job = self.jobs.entry(id).or_insert_with(|| Job {
            function: function.clone(),
            unique: unique.clone(),
            body: body.clone(),
            state: State::Unknown,
            put: None,
            may_be_gone: true,
            was_created: false,
            waits: BTreeMap::new(),
            news: Vec::new(),
            news_unclear: true,
        });
        let differs = |unique| job.unique.as_ref().is_some_and(|known| *known != unique);
        if job.function != function || job.body != body || unique.is_some_and(differs) {
            return Err(format!("the handle of job {id} names another job: {job:?}"));
        }
        self.handles_judged += 1;
        match job.state {
            State::Scheduled { due } if now + CLOCKS_MS < due => {
                return Err(format!("job {id} is due in {} ms", due - now));
            }
            State::Assigned { to } if to != conn => {
                return Err(format!("connection {to} holds job {id}"));
            }
            _ => {}
        }
        job.news_unclear |= is_limited;
        // The worker can lose the job at any time.
        job.may_be_gone |= is_limited && self.loses_jobs;
        job.state = if is_limited { State::Unknown } else { State::Assigned { to: conn } };
        Ok(())
    }

    /// A client gets news of a job.
    fn told(&mut self, end: ReplyEnd, id: u64, news: &News) -> Checked {
        if news.is_end() {
            // The job can have ended without a word of its worker.
            self.ends(id, news.clone());
        }
        let ended = self.ended.get_mut(&id);
        let (job, last, told) = match ended {
            Some(End { job, news, told, .. }) => (job, Some(&*news), Some(told)),
            None => match self.jobs.get_mut(&id) {
                Some(job) => (job, None, None),
                None => return Err(format!("news of job {id}, which nobody knows")),
            },
        };
        let Some(wait) = job.waits.get_mut(&end.conn) else {
            return Err(format!("news of job {id}, but the client does not wait for it: {news:?}"));
        };
        if news.is_end() {
            let told_all = wait.told.is_none_or(|told| told >= job.news.len());
            if !job.news_unclear && !told_all {
                return Err(format!("job {id} has ended before all of its news were told"));
            }
            if last.is_some_and(|last| !last.is_told_by(news)) {
                return Err(format!("job {id} has another outcome: {last:?}, told {news:?}"));
            }
            wait.count -= 1;
            if wait.count == 0 {
                job.waits.remove(&end.conn);
            }
            if let Some(told) = told {
                told.push(end);
            }
            self.outcomes_judged += 1;
            return Ok(());
        }
        if let Some(told) = &mut wait.told
            && !job.news_unclear
        {
            if job.news.get(*told) != Some(news) {
                return Err(format!("job {id} has other news: {:?}, told {news:?}", job.news));
            }
            *told += 1;
        }
        Ok(())
    }

    /// The server has done everything that is due now.
    pub(super) fn settled(&mut self, now: u64) {
        for job in self.jobs.values_mut() {
            match job.state {
                State::Ready { since: u64::MAX } => job.state = State::Ready { since: now },
                State::Scheduled { due } if due + CLOCKS_MS <= now => {
                    job.state = State::Ready { since: now };
                }
                _ => {}
            }
        }
    }

    /// Checks, after all events were delivered, that nobody misses anything: each client has the
    /// outcomes of jobs that have ended, and no worker sleeps although there is a job for it.
    pub(super) fn check_all_told(&mut self, now: u64) -> Checked {
        for (id, end) in &self.ended {
            if let Some((conn, _)) = end.job.waits.first_key_value() {
                return Err(format!("connection {conn} was never told the end of job {id}"));
            }
        }
        for (conn, peer) in self.peers.iter().filter(|(_, peer)| peer.sleeps && self.wakes_all) {
            self.sleeps_judged += 1;
            let missed = self.jobs.iter().find(|(_, job)| {
                let is_ready = matches!(job.state, State::Ready { since } if since <= now);
                is_ready && !job.may_be_gone && peer.functions.contains_key(&job.function)
            });
            if let Some((id, job)) = missed {
                return Err(format!("connection {conn} sleeps through job {id}: {job:?}"));
            }
        }
        Ok(())
    }

    /// Another process begins. `is_certain` says which replies certainly remain true.
    pub(super) fn restarted(&mut self, all: bool, was_sent: impl Fn(ReplyEnd) -> bool) {
        self.peers.clear();
        for (id, end) in std::mem::take(&mut self.ended) {
            let is_told = end.told.iter().any(|told| was_sent(*told));
            if all || is_told || end.is_certain && end.job.put.is_none() {
                let End { mut job, news, told, .. } = end;
                job.waits.clear();
                self.ended.insert(id, End { job, news, told, is_certain: true });
            } else {
                self.jobs.insert(id, Job { may_be_gone: true, state: State::Unknown, ..end.job });
            }
        }
        // A job of the foreground ends with its clients.
        self.jobs.retain(|_, job| job.put.is_some());
        for job in self.jobs.values_mut() {
            job.waits.clear();
            job.news.clear();
            let is_certain = match job.put {
                Some(Lasting::Certain) => true,
                Some(Lasting::IfSent(end)) => all || was_sent(end),
                Some(Lasting::Uncertain) | None => all,
            };
            job.put = Some(if is_certain { Lasting::Certain } else { Lasting::Uncertain });
            job.may_be_gone |= !is_certain;
            job.news_unclear |= !is_certain;
            if let State::Assigned { .. } = job.state {
                job.state = State::Ready { since: u64::MAX };
            } else if let State::Ready { since } = &mut job.state {
                *since = u64::MAX;
            }
        }
    }

    pub(super) fn kicked(&mut self, id: u64) {
        if let Some(job) = self.jobs.get_mut(&id)
            && let State::Scheduled { .. } = job.state
        {
            job.state = State::Ready { since: u64::MAX };
        }
    }

    /// The numbers of all jobs that may be there.
    pub(super) fn ids(&self) -> Vec<u64> {
        self.jobs.keys().copied().collect()
    }

    /// Called after all jobs were taken and ended.
    pub(super) fn check_all_ended(&self) -> Checked {
        match self.jobs.iter().find(|(_, job)| job.put.is_some() && !job.may_be_gone) {
            Some((id, job)) => Err(format!(
                "job {id} was acknowledged; in the end it is neither there nor ended: {job:?}"
            )),
            None => Ok(()),
        }
    }
}

impl Job {
    /// A job of the foreground ends when nobody waits for it, but not while a worker has it.
    fn note_abandoned(&mut self) {
        if self.put.is_none() && self.waits.is_empty() {
            self.doubt();
        }
    }

    /// From now on, the job may end at any time.
    fn doubt(&mut self) {
        self.may_be_gone = true;
        self.news_unclear = true;
        self.state = State::Unknown;
    }
}
