//! The effects of requests on jobs (spec beanstalkd 2 and 3).

use std::rc::Rc;

use broker::policy::Unsent;
use broker::{DeathCause, FailureCause};

use super::attempts::Verdict;
use super::outcome::{News, Notification};
use super::record::Record;
use super::routes::{Refused, Routed};
use super::{
    Counts, Expected, Job, JobKind, Lease, Model, NEVER, Name, Need, Place, ReturnOrder, State,
    Wait,
};
use crate::protocol::Protocol;

/// The result of a take that gets no job.
pub(super) enum NoJob {
    TimedOut,
    DeadlineSoon,
    Waiting,
}

impl Model {
    /// Puts a job into all queues of a route. Returns the job's number, and the record that the
    /// reply depends on. If no queue stores the job, no job has the returned number.
    pub(super) fn put(
        &mut self,
        place: Place,
        queue: &Name,
        mut job: Job,
    ) -> Result<(u64, Need), Refused> {
        if job.delay > 0 {
            job.state = self.delayed(job.delay);
        }
        let route = self.route_to(queue, false);
        let routed = self.put_along(route, (&job, Unsent::NOTHING), (b"", Some(place)), false);
        self.answer_put(&routed).map(|id| (id, routed.need))
    }

    pub(super) fn answer_put(&mut self, routed: &Routed) -> Result<u64, Refused> {
        let known = routed.requested.or(routed.same).or(routed.ended);
        match (routed.refused, known.or(routed.first)) {
            (Some(refused), _) => Err(refused),
            (None, Some(id)) => Ok(id),
            (None, None) => {
                self.next_id += 1;
                Ok(self.next_id - 1)
            }
        }
    }

    fn delayed(&self, delay: u32) -> State {
        State::Delayed { due: self.now + u64::from(delay) * 1000 }
    }

    pub(super) fn new_job(pri: u32, delay: u32, ttr: u32, body: &[u8]) -> Job {
        Job {
            queue: "".into(),
            pri,
            delay,
            ttr,
            created: 0,
            since: 0,
            body: Rc::from(body),
            state: State::Ready,
            counts: Counts::default(),
            attempts: 0,
            death: None,
            order: 0,
            tags: None,
            kind: JobKind::Logged,
            key: None,
            group: None,
            expires: None,
            watchers: Vec::new(),
            progress: (0, 0),
            warnings: Vec::new(),
            need: 0,
        }
    }

    /// Records a change of a job's facts, if the job is in the log.
    pub(super) fn record(&mut self, id: u64, kind: fn(u64, super::StoredJob) -> Record) {
        let job = self.jobs.get_mut(&id).expect("a job that was just changed");
        if job.kind != JobKind::Logged {
            return;
        }
        let record = kind(id, super::StoredJob::of(job));
        let queue = job.queue.clone();
        let need = self.history.note(record, self.is_strict(&queue));
        self.job_mut(id).need = need;
        self.history.note_jobs_of(&queue, need);
    }

    /// Records a change of the counters that the log appends later.
    pub(super) fn record_counts(&mut self, id: u64) {
        let job = &self.jobs[&id];
        if job.kind == JobKind::Logged {
            self.history.note(Record::Count(id, job.counts), false);
        }
    }

    /// Handles a job that became ready. The client that has waited longest for a job of this queue
    /// gets the job. If no client waits, sleeping workers wake.
    pub(super) fn offer(&mut self, id: u64) {
        let job = self.jobs.get_mut(&id).expect("an offered job exists");
        job.since = match job.state {
            State::Delayed { due } if job.since == 0 => due,
            State::Ready | State::Buried { .. } | State::Delayed { .. } => job.since,
            State::Leased(_) => 0,
        };
        let queue = job.queue.clone();
        self.enter_lane(id);
        self.job_mut(id).state = State::Ready;
        if self.is_keyed(&queue) {
            return self.offer_by_key(&queue, id);
        }
        if self.is_paused(&queue) || self.reads_blocked() || self.is_shut(&queue) {
            return;
        }
        while let Some(waiter) = self.first_waiter(&queue).filter(|_| !self.is_expired(id)) {
            if self.head_is_expired(&queue) {
                // The next sweep serves the line in order.
                return;
            }
            if self.grant_to_waiter(waiter, id) {
                return;
            }
        }
        self.wake_sleepers(&queue, 1);
    }

    /// Like [`Model::offer`], for a queue with limits for each key.
    fn offer_by_key(&mut self, queue: &Name, id: u64) {
        let opened = self.open_due_lanes(queue);
        let is_held = self.is_paused(queue)
            || self.reads_blocked()
            || self.is_shut(queue)
            || !opened && !self.key_is_open(queue, id);
        if is_held {
            return;
        }
        if opened || self.first_waiter(queue).is_some() {
            self.serve_waiters(queue);
        } else {
            self.wake_sleepers(queue, 1);
        }
    }

    pub(super) fn first_waiter(&self, queue: &Name) -> Option<Place> {
        let waiting = self.conns.iter().filter(|(_, conn)| conn.waits_for(queue));
        let ticket = |conn: &super::Conn| conn.waiting.as_ref().map(|wait| wait.ticket);
        waiting.map(|(place, conn)| (ticket(conn), *place)).min().map(|(_, place)| place)
    }

    /// Gives a job to a waiting connection. Returns false if the connection only wants to look at
    /// the job.
    pub(super) fn grant_to_waiter(&mut self, place: Place, id: u64) -> bool {
        let conn = self.conn(place);
        if let Some(item) = conn.waiting.as_ref().and_then(|wait| wait.item.clone()) {
            return self.grant_item(place, id, item.is_look);
        }
        conn.waiting = None;
        assert!(conn.notifications.is_empty(), "a connection waits for one thing");
        let reply = self.reserve_now(place, id);
        self.conn(place).notifications.push_back(Notification::Reply(reply));
        true
    }

    fn reserve_now(&mut self, place: Place, id: u64) -> Expected {
        self.hand_out(place, id, None);
        let job = &self.jobs[&id];
        Expected::with_body("RESERVED", id, &job.body, job.need)
    }

    /// Leases a job to a connection, for its ttr or for `limit_ms`.
    pub(super) fn hand_out(&mut self, place: Place, id: u64, limit_ms: Option<u64>) {
        let conn = self.conn(place);
        let loss = match conn.protocol {
            Protocol::Beanstalk | Protocol::Kestrel(_) => ReturnOrder::KeepPlace,
            Protocol::Gearman => ReturnOrder::ToTail,
        };
        let by = conn.serial;
        let number = self.next_lease;
        self.next_lease += 1;
        let limit = limit_ms.map_or(NEVER, |limit| self.now + limit);
        let job = self.jobs.get_mut(&id).expect("a job that is handed out exists");
        assert!(!matches!(job.state, State::Leased(_)), "a job has one holder");
        let was_ready = job.state == State::Ready;
        let queue = job.queue.clone();
        job.state =
            State::Leased(Lease { by, place: Some(place), number, deadline: NEVER, limit, loss });
        job.counts.reserves += 1;
        job.warnings.clear();
        self.conn(place).worker.newest = Some(number);
        self.renew_deadline(id);
        self.pass_gates(&queue, id);
        if was_ready {
            self.record_counts(id);
        } else {
            // The log must store that the job is not delayed or buried any more, because the job
            // must be ready after a restart.
            self.record(id, Record::Update);
        }
    }

    /// Takes the best ready job of the watched queues that are not paused.
    pub(super) fn take(&mut self, place: Place, seconds: Option<u32>) -> Result<Expected, NoJob> {
        let watched = self.conn(place).watched.clone();
        for queue in &watched {
            self.sweep(queue);
        }
        let is_open = |queue: &Name| !self.is_paused(queue) && !self.is_shut_for_takers(queue);
        let open: Vec<_> = watched.into_iter().filter(is_open).collect();
        let heads = open.iter().filter_map(|queue| self.first_ready(queue));
        let best = heads.map(|id| (self.key_among_queues(id), id)).min();
        if let Some((_, id)) = best.filter(|_| !self.reads_blocked()) {
            return Ok(self.reserve_now(place, id));
        }
        if self.first_deadline(place).is_some_and(|deadline| deadline <= self.now + 1000) {
            return Err(NoJob::DeadlineSoon);
        }
        if seconds == Some(0) {
            return Err(NoJob::TimedOut);
        }
        let until = seconds.map(|seconds| self.now + u64::from(seconds) * 1000);
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        for queue in self.conn(place).watched.clone() {
            self.resume_sweep(&queue);
        }
        self.conn(place).waiting = Some(Wait { ticket, until, item: None });
        Err(NoJob::Waiting)
    }

    /// The jobs of a connection, with their deadlines, in the order of the deadlines.
    pub(super) fn held(&self, place: Place) -> Vec<(u64, u64)> {
        let mut held = self.leases_of(place);
        held.sort_unstable();
        held.into_iter().map(|(deadline, _, id)| (deadline, id)).collect()
    }

    /// The ids of a connection's jobs, in the order in which the connection took them.
    pub(super) fn held_as_taken(&self, place: Place) -> Vec<u64> {
        let mut held = self.leases_of(place);
        held.sort_unstable_by_key(|(_, lease, _)| *lease);
        held.into_iter().map(|(_, _, id)| id).collect()
    }

    /// The deadline, the lease number and the id of each job of a connection.
    fn leases_of(&self, place: Place) -> Vec<(u64, u64, u64)> {
        let Some(serial) = self.conns.get(&place).map(|conn| conn.serial) else {
            return Vec::new();
        };
        let jobs = self.jobs.iter();
        jobs.filter_map(|(id, job)| match job.state {
            State::Leased(lease) if lease.by == serial => Some((lease.deadline, lease.number, *id)),
            _ => None,
        })
        .collect()
    }

    /// True if a connection holds no job, and can only wait for outcomes.
    pub(crate) fn only_waits(&self, place: Place) -> bool {
        self.conns[&place].protocol == Protocol::Gearman && self.held(place).is_empty()
    }

    /// A delayed or buried job, if there is one.
    pub(crate) fn first_set_aside(&self) -> Option<u64> {
        let is_aside = |state| matches!(state, State::Delayed { .. } | State::Buried { .. });
        self.jobs.iter().find(|(_, job)| is_aside(job.state)).map(|(id, _)| *id)
    }

    pub(super) fn first_deadline(&self, place: Place) -> Option<u64> {
        self.held(place).first().map(|(deadline, _)| *deadline)
    }

    pub(super) fn is_holder(&self, place: Place, id: u64) -> bool {
        let state = self.jobs.get(&id).map(|job| job.state);
        let serial = self.conns[&place].serial;
        matches!(state, Some(State::Leased(lease)) if lease.by == serial)
    }

    /// The record that the reply "not found" for this job depends on.
    pub(super) fn denial(&self, id: u64) -> Need {
        self.jobs.get(&id).map_or_else(|| self.history.end_of(id), |job| job.need)
    }

    pub(super) fn reserve_job(&mut self, place: Place, id: u64) -> Result<Expected, Need> {
        match self.jobs.get(&id).map(|job| job.state) {
            None | Some(State::Leased(_)) => Err(self.denial(id)),
            Some(_) if self.reads_blocked() => Err(self.denial(id)),
            Some(State::Ready) if self.is_expired(id) && !self.is_buried_when_expired(id) => {
                let queue = self.jobs[&id].queue.clone();
                self.guarded(&queue, |model| {
                    model.expire(id);
                    if !model.is_paused(&queue) {
                        model.serve_waiters(&queue);
                    }
                });
                self.drop_queue_if_unwanted(&queue);
                Err(self.denial(id))
            }
            Some(_) if self.is_held_by_gates(id) => Err(self.denial(id)),
            Some(_) => Ok(self.reserve_now(place, id)),
        }
    }

    /// True if the limits of a queue keep a client from taking this job by its number.
    fn is_held_by_gates(&self, id: u64) -> bool {
        let queue = &self.jobs[&id].queue;
        self.gates_are_shut_for_takers(queue) || !self.key_lets_take(queue, id)
    }

    pub(super) fn delete(&mut self, place: Place, id: u64) -> Result<Need, Need> {
        let state = self.jobs.get(&id).map(|job| job.state);
        let serial = self.conn(place).serial;
        let held_by_other = matches!(state, Some(State::Leased(lease)) if lease.by != serial);
        if state.is_none() || held_by_other {
            return Err(self.denial(id));
        }
        let queue = self.jobs[&id].queue.clone();
        self.queues.get_mut(&queue).expect("a job's queue exists").deletes += 1;
        self.keep_claim(id);
        Ok(self.end_job(id, &News::Complete([].into())))
    }

    pub(super) fn release(
        &mut self,
        place: Place,
        id: u64,
        pri: u32,
        delay: u32,
    ) -> Result<Need, Need> {
        if !self.is_holder(place, id) {
            return Err(self.denial(id));
        }
        let due = self.now + u64::from(delay) * 1000;
        let queue = self.jobs[&id].queue.clone();
        let job = self.jobs.get_mut(&id).expect("it is held");
        (job.pri, job.delay) = (pri, delay);
        job.counts.releases += 1;
        if self.is_abandoned(id) {
            return Ok(self.remove_job(id));
        }
        let due = match self.judge(id, |retries| retries.counts_release) {
            Verdict::Original => due,
            // The longer delay wins.
            Verdict::Retry(wait) => due.max(self.now + wait),
            Verdict::GiveUp => {
                let cause = DeathCause::Failed(FailureCause::Released);
                return Ok(self.give_up(id, &News::Fail, cause, Some(place)));
            }
        };
        let is_ready = due == self.now;
        self.job_mut(id).since = if is_ready { self.now } else { 0 };
        self.job_mut(id).state = if is_ready { State::Ready } else { State::Delayed { due } };
        self.record(id, Record::Update);
        let need = self.jobs[&id].need;
        if is_ready {
            self.offer(id);
        } else {
            self.keep_slot(&queue, id);
        }
        Ok(need)
    }

    pub(super) fn bury(&mut self, place: Place, id: u64, pri: u32) -> Result<Need, Need> {
        self.bury_with(place, id, pri, &News::Fail)
    }

    /// Buries a job, and sends this last news to the clients that wait for it.
    pub(super) fn bury_with(
        &mut self,
        place: Place,
        id: u64,
        pri: u32,
        news: &News,
    ) -> Result<Need, Need> {
        if !self.is_holder(place, id) {
            return Err(self.denial(id));
        }
        let watchers = std::mem::take(&mut self.job_mut(id).watchers);
        if self.jobs[&id].kind == JobKind::Watched {
            self.remove_job(id);
        } else {
            let order = self.next_buried;
            self.next_buried += 1;
            let job = self.job_mut(id);
            job.pri = pri;
            job.counts.buries += 1;
            job.state = State::Buried { order };
            self.record(id, Record::Update);
        }
        let need = self.jobs.get(&id).map_or(0, |job| job.need);
        self.send_last_news(watchers, id, news, need);
        Ok(need)
    }

    pub(super) fn touch(&mut self, place: Place, id: u64) -> Result<Need, Need> {
        if !self.is_holder(place, id) {
            return Err(self.denial(id));
        }
        self.renew_deadline(id);
        Ok(self.jobs[&id].need)
    }

    pub(super) fn kick_job(&mut self, id: u64) -> Result<Need, Need> {
        match self.jobs.get_mut(&id) {
            Some(job) if matches!(job.state, State::Delayed { .. } | State::Buried { .. }) => {
                job.counts.kicks += 1;
                // A dead letter of another queue stays one.
                if job.is_buried() && job.death.as_ref().is_none_or(|it| it.origin.is_empty()) {
                    job.revive();
                }
                job.since = self.now;
                job.state = State::Ready;
                self.record(id, Record::Update);
                let need = self.jobs[&id].need;
                self.offer(id);
                Ok(need)
            }
            _ => Err(self.denial(id)),
        }
    }
}

impl Job {
    /// The job can fail as often as a new job, and is no dead letter. A dead letter no longer expires at the
    /// moment that its client gave.
    pub(super) fn revive(&mut self) {
        self.attempts = 0;
        if self.death.take().is_some() {
            self.expires = None;
        }
    }

    /// The key that orders ready jobs. The smallest key is handed out first.
    pub(super) fn key(&self) -> (u32, u64) {
        (self.pri, self.order)
    }

    /// True if the job is delayed, and was handed out before. With a strict order, it keeps its slot.
    pub(super) fn keeps_slot(&self) -> bool {
        matches!(self.state, State::Delayed { .. }) && self.counts.reserves > 0
    }

    /// True if the job is buried. A submit does not join a buried job.
    pub(super) fn is_buried(&self) -> bool {
        matches!(self.state, State::Buried { .. })
    }

    /// True if the server can keep the submitted job only in the log. The server decides which of
    /// these jobs leave the memory.
    pub(super) fn can_be_cold(&self) -> bool {
        let is_bare = self.watchers.is_empty() && self.progress == (0, 0);
        let body_is_key = self.tags.as_ref().is_some_and(|tags| *tags.unique == *b"-");
        let is_leased = matches!(self.state, State::Leased(_));
        let stays = body_is_key || self.death.is_some() || self.key.is_some();
        self.kind == JobKind::Logged && is_bare && !stays && !is_leased
    }
}

impl super::Conn {
    pub(super) fn waits_for(&self, queue: &Name) -> bool {
        self.waiting.as_ref().is_some_and(|wait| match &wait.item {
            Some(item) => item.queue == *queue,
            None => self.watched.contains(queue),
        })
    }
}
