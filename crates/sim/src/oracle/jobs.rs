//! The oracle's record of each job. Checks each event against this record.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::terms::{Conn, Lasting, ReplyEnd};
use crate::Checked;

/// If there are more jobs than this, the oracle does not check orders, because each check would
/// take long.
const ORDERED_JOBS_MAX: usize = 300;

#[derive(Debug)]
pub(super) struct Jobs {
    /// True if only clients of beanstalkd end, hold or move jobs.
    pub(super) alone: bool,
    /// Jobs whose put was acknowledged, and that have not ended.
    known: BTreeMap<u64, Job>,
    /// Ended jobs.
    ended: BTreeMap<u64, End>,
    queues: BTreeMap<String, Queue>,
    /// True if a `kick` has no reply yet.
    pub(super) kicks_under_way: bool,
    /// True if a client disconnected before the reply to its `kick`. The kick continues.
    pub(super) kicks_go_on: bool,
    pub(super) in_slices: bool,
    /// True if a put can make a delayed job ready earlier.
    pub(super) bumps: bool,
    pub(super) orders_judged: u64,
    pub(super) holds_judged: u64,
}

#[derive(Copy, Clone, Debug)]
struct End {
    at: u64,
    lasting: Lasting,
}

impl End {
    /// True if no crash can undo the end.
    fn is_certain(self) -> bool {
        !matches!(self.lasting, Lasting::Uncertain)
    }
}

#[derive(Debug, Default)]
struct Queue {
    /// When a client last waited for a job of the queue.
    waited: Option<u64>,
    /// The end of the queue's pause.
    paused_until: u64,
}

#[derive(Clone, Debug)]
struct Job {
    /// The digest of the body.
    body: u64,
    /// The queue of the job. Empty if the oracle does not know it, because a crash can undo a move.
    queue: String,
    /// The place of the job among the jobs of its priority. `None`: the job was moved to its queue.
    order: Option<u64>,
    pri: Option<u32>,
    ttr_ms: u64,
    state: State,
    /// When the oracle saw the last change of `state`.
    changed: u64,
    /// Whether the last logged change of the job certainly survives a crash.
    lasting: Lasting,
    /// The job's due time after the last logged change. 0 if the job was not delayed. If a restart
    /// sets the clock back, the job can be delayed until this moment again.
    due: u64,
    put: Lasting,
}

impl Job {
    /// True if a crash can undo the put itself.
    fn may_be_lost(&self) -> bool {
        matches!(self.put, Lasting::Uncertain)
    }
}

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum State {
    Ready {
        since: u64,
    },
    Delayed {
        due: u64,
    },
    Held {
        by: Conn,
        deadline: u64,
    },
    Buried,
    /// A Gearman worker received the job.
    Assigned {
        to: Conn,
    },
    Unknown,
}

impl State {
    /// The due time of a delayed job, otherwise 0.
    fn due(self) -> u64 {
        match self {
            Self::Delayed { due } => due,
            Self::Ready { .. }
            | Self::Held { .. }
            | Self::Buried
            | Self::Assigned { .. }
            | Self::Unknown => 0,
        }
    }
}

impl Jobs {
    pub(super) fn new(alone: bool) -> Self {
        Self {
            alone,
            known: BTreeMap::new(),
            ended: BTreeMap::new(),
            queues: BTreeMap::new(),
            kicks_under_way: false,
            kicks_go_on: false,
            in_slices: false,
            bumps: false,
            orders_judged: 0,
            holds_judged: 0,
        }
    }

    // --- Puts ---

    pub(super) fn inserted(
        &mut self,
        reply_end: ReplyEnd,
        (id, body): (u64, &[u8]),
        queue: &str,
        (pri, delay, ttr): (u32, u32, u32),
        now: u64,
    ) -> Checked {
        let ended = self.ended.remove(&id);
        let ended = ended.is_some_and(End::is_certain);
        let lives = self.known.remove(&id).is_some_and(|job| !job.may_be_lost());
        if (ended || lives) && self.alone {
            return Err(format!("the number {id} was dealt before"));
        }
        let job = Job {
            body: digest(body),
            queue: queue.to_owned(),
            order: Some(id),
            pri: Some(pri),
            ttr_ms: u64::from(ttr.max(1)) * 1000,
            state: entering(delay, now),
            changed: now,
            lasting: Lasting::IfSent(reply_end),
            due: entering(delay, now).due(),
            put: Lasting::IfSent(reply_end),
        };
        self.known.insert(id, job);
        Ok(())
    }

    /// Like `inserted`, if the reply can name the job of another put.
    pub(super) fn inserted_or_there(
        &mut self,
        reply_end: ReplyEnd,
        job: (u64, &[u8]),
        queue: &str,
        parameters: (u32, u32, u32),
        now: u64,
    ) -> Checked {
        let (id, _) = job;
        let is_known = self.known.get(&id).is_some_and(|job| !job.may_be_lost());
        if is_known || self.ended.contains_key(&id) {
            return Ok(());
        }
        self.inserted(reply_end, job, queue, parameters, now)?;
        // The reply of the other put can come later, or never.
        self.doubt(id);
        if let Some(job) = self.known.get_mut(&id) {
            job.ttr_ms = 0;
        }
        Ok(())
    }

    /// A client got the body of a job. It must be the one that was put.
    pub(super) fn check_body(&self, id: u64, body: &[u8]) -> Checked {
        match self.known.get(&id) {
            // If the put was lost, its number can go to another job.
            Some(job) if self.alone && !job.may_be_lost() && job.body != digest(body) => {
                Err("the job was put with another body".into())
            }
            _ => Ok(()),
        }
    }

    // --- Hand-outs ---

    pub(super) fn waited_at(&mut self, queue: &str, now: u64) {
        self.queues.entry(queue.to_owned()).or_default().waited = Some(now);
    }

    pub(super) fn paused(&mut self, queue: &str, seconds: u32, now: u64) {
        let queue = self.queues.entry(queue.to_owned()).or_default();
        queue.paused_until = now + u64::from(seconds) * 1000;
    }

    /// True if every client that watches the queue could certainly take the job now.
    fn is_surely_ready(&self, job: &Job, now: u64) -> bool {
        let since = match job.state {
            State::Ready { since } => since,
            State::Delayed { due } if !self.kicks_under_way && !self.kicks_go_on => {
                if self.in_slices {
                    return false;
                }
                due + 1
            }
            _ => return false,
        };
        if !self.alone || job.may_be_lost() || since > now {
            return false;
        }
        self.queues.get(&job.queue).is_none_or(|queue| {
            // If a client waited at the end of a pause, it may have got the job.
            let since = since.max(queue.paused_until);
            queue.paused_until < now && queue.waited.is_none_or(|waited| waited < since)
        })
    }

    fn surely_ready<'a>(
        &'a self,
        watched: &'a [String],
        now: u64,
    ) -> impl Iterator<Item = (&'a u64, &'a Job)> {
        let few = self.known.len() <= ORDERED_JOBS_MAX;
        let jobs = self.known.iter().filter(move |_| few);
        jobs.filter(move |(_, job)| watched.contains(&job.queue) && self.is_surely_ready(job, now))
    }

    /// Called for a job that was handed out at once. Checks that no other job was certainly ready
    /// and had to come first.
    pub(super) fn check_order(&mut self, id: u64, watched: &[String], now: u64) -> Checked {
        let Some(taken) = self.known.get(&id) else { return Ok(()) };
        let Some(pri) = taken.pri else { return Ok(()) };
        let mut judged = 0;
        for (other_id, other) in self.surely_ready(watched, now) {
            let Some(other_pri) = other.pri else { continue };
            judged += 1;
            if other_pri < pri {
                return Err(format!("job {other_id} of priority {other_pri} comes before {pri}"));
            }
            // In one queue, the job that was put first comes first. It has the smaller number.
            let is_before = other.order.zip(taken.order).is_some_and(|(other, it)| other < it);
            if other_pri == pri && other.queue == taken.queue && is_before {
                return Err(format!("job {other_id} was put before, with the same priority"));
            }
        }
        self.orders_judged += judged;
        Ok(())
    }

    pub(super) fn check_nothing_ready(&self, watched: &[String], now: u64) -> Checked {
        match self.surely_ready(watched, now).next() {
            Some((id, _)) => Err(format!("job {id} was ready")),
            None => Ok(()),
        }
    }

    /// A client received a job. `arrival` is the moment when the client's request arrived. If the
    /// client waited, the server can have handed out the job at any time since `arrival`.
    pub(super) fn reserved(
        &mut self,
        conn: Conn,
        id: u64,
        arrival: u64,
        waited: bool,
        now: u64,
    ) -> Checked {
        // If the client waited, the server may have handed out the job before a change that this
        // record already has. So only a change before the request's arrival certainly came before
        // the hand-out.
        let certain_before = if waited { arrival } else { now + 1 };
        if self.ended.get(&id).is_some_and(|end| end.is_certain() && end.at < certain_before) {
            return Err("the job was ended before".into());
        }
        let kicks = self.kicks_under_way || self.kicks_go_on;
        let Some(job) = self.known.get_mut(&id) else { return Ok(()) };
        let wrong = match job.state {
            State::Delayed { due } if now < due && !kicks && !self.bumps => {
                Some(format!("the job is due in {} ms", due - now))
            }
            State::Buried if !kicks => Some("the job is buried".into()),
            State::Held { by, deadline } if now < deadline => {
                Some(format!("connection {by} holds it for {} ms", deadline - now))
            }
            _ => None,
        };
        if let Some(wrong) = wrong {
            if job.changed < certain_before {
                return Err(wrong);
            }
            // This reply is about an older hand-out, and came late.
            job.state = State::Unknown;
            return Ok(());
        }
        self.holds_judged += 1;
        let was_kicked = match job.state {
            State::Delayed { due } => now < due,
            State::Buried => true,
            State::Unknown => kicks,
            State::Ready { .. } | State::Held { .. } | State::Assigned { .. } => false,
        };
        if was_kicked {
            // A kick without a reply made the job ready, so a crash can undo this kick.
            job.lasting = Lasting::Uncertain;
        }
        let deadline = if waited { arrival } else { now } + job.ttr_ms;
        job.state = State::Held { by: conn, deadline };
        job.changed = now;
        Ok(())
    }

    /// A client took a job by its number. The job can have any state except leased.
    pub(super) fn reserved_by_id(&mut self, conn: Conn, id: u64, now: u64) -> Checked {
        self.check_not_held_by_others(None, id, now)?;
        if let Some(job) = self.known.get_mut(&id) {
            self.holds_judged += 1;
            if !matches!(job.state, State::Ready { .. }) {
                // The log may still have the job as buried or delayed.
                job.lasting = Lasting::Uncertain;
            }
            job.state = State::Held { by: conn, deadline: now + job.ttr_ms };
            job.changed = now;
        }
        Ok(())
    }

    /// A Gearman worker received a job.
    pub(super) fn assigned(&mut self, id: u64, conn: Conn) -> Checked {
        if let Some(job) = self.known.get_mut(&id) {
            job.state = State::Assigned { to: conn };
        }
        match self.ended.get(&id) {
            Some(end) if end.is_certain() => Err(format!("job {id} was ended before")),
            _ => Ok(()),
        }
    }

    pub(super) fn completed(&mut self, id: u64, conn: Conn) {
        let is_its = |job: &Job| job.state == State::Assigned { to: conn };
        if self.known.get(&id).is_some_and(is_its) {
            self.known.remove(&id);
        }
    }

    // --- Requests of holders ---

    /// Checks that no connection except `but` certainly holds the job.
    fn check_not_held_by_others(&self, but: Option<Conn>, id: u64, now: u64) -> Checked {
        if self.ended.get(&id).is_some_and(|end| end.is_certain()) {
            return Err("the job was ended before".into());
        }
        match self.known.get(&id).map(|job| job.state) {
            Some(State::Held { by, deadline }) if Some(by) != but && now < deadline => {
                Err(format!("connection {by} holds it for {} ms", deadline - now))
            }
            _ => Ok(()),
        }
    }

    /// Called for an operation that only a job's holder can do. Checks that the client may hold the
    /// job.
    fn check_holder(&self, conn: Conn, id: u64, now: u64) -> Checked {
        self.check_not_held_by_others(Some(conn), id, now)?;
        match self.known.get(&id).map(|job| job.state) {
            Some(State::Ready { .. } | State::Buried) if self.alone => {
                Err("no connection holds the job".into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn deleted(&mut self, reply_end: ReplyEnd, id: u64, now: u64) -> Checked {
        self.check_not_held_by_others(Some(reply_end.conn), id, now)?;
        self.known.remove(&id);
        self.ended.insert(id, End { at: now, lasting: Lasting::IfSent(reply_end) });
        Ok(())
    }

    pub(super) fn released(
        &mut self,
        reply_end: ReplyEnd,
        id: u64,
        (pri, delay): (u32, u32),
        now: u64,
    ) -> Checked {
        self.check_holder(reply_end.conn, id, now)?;
        self.change(reply_end, id, Some(pri), entering(delay, now), now);
        Ok(())
    }

    pub(super) fn buried(&mut self, reply_end: ReplyEnd, id: u64, pri: u32, now: u64) -> Checked {
        self.check_holder(reply_end.conn, id, now)?;
        self.change(reply_end, id, Some(pri), State::Buried, now);
        Ok(())
    }

    pub(super) fn touched(&mut self, conn: Conn, id: u64, now: u64) -> Checked {
        self.check_holder(conn, id, now)?;
        if let Some(job) = self.known.get_mut(&id) {
            job.state = State::Held { by: conn, deadline: now + job.ttr_ms };
            job.changed = now;
        }
        Ok(())
    }

    fn change(&mut self, reply_end: ReplyEnd, id: u64, pri: Option<u32>, state: State, now: u64) {
        if let Some(job) = self.known.get_mut(&id) {
            job.pri = pri.or(job.pri);
            job.state = state;
            job.due = state.due();
            job.changed = now;
            job.lasting = Lasting::IfSent(reply_end);
        }
    }

    // --- Kicks ---

    pub(super) fn kicked_one(&mut self, reply_end: ReplyEnd, id: u64, now: u64) -> Checked {
        self.check_not_held_by_others(None, id, now)?;
        self.change(reply_end, id, None, State::Ready { since: now }, now);
        Ok(())
    }

    /// A client kicked some jobs of a queue, or of any queue. The reply does not name the jobs.
    pub(super) fn kicked(&mut self, queue: Option<&str>, lasting: Lasting) {
        for job in self.known.values_mut() {
            let may_be_meant =
                matches!(job.state, State::Buried | State::Delayed { .. } | State::Unknown);
            let is_in = |queue| job.queue == queue || job.queue.is_empty();
            if may_be_meant && (queue.is_none_or(is_in) || !self.alone) {
                job.state = State::Unknown;
                job.lasting = lasting;
            }
        }
    }

    // --- Moves ---

    /// An operator moved a job to another queue.
    pub(super) fn moved(&mut self, id: u64, queue: &str, now: u64) {
        let Some(job) = self.known.get_mut(&id) else { return };
        queue.clone_into(&mut job.queue);
        job.order = None;
        // The move can become undone in a crash.
        job.lasting = Lasting::Uncertain;
        job.changed = now;
        job.state = match job.state {
            State::Delayed { due } => State::Delayed { due },
            State::Ready { .. } | State::Buried => State::Ready { since: now },
            // The reply to the hand-out or to the end of the lease has not come yet.
            State::Held { .. } | State::Assigned { .. } | State::Unknown => State::Unknown,
        };
    }

    /// An operator buried or rescheduled a job. A crash can undo this.
    pub(super) fn changed_by_hand(&mut self, id: u64, now: u64) {
        self.doubt(id);
        if let Some(job) = self.known.get_mut(&id) {
            job.lasting = Lasting::Uncertain;
            job.changed = now;
        }
    }

    /// The queue of a job, if the oracle knows it.
    pub(super) fn queue_of(&self, id: u64) -> Option<&str> {
        self.known.get(&id).map(|job| job.queue.as_str())
    }

    // --- Looks ---

    /// True if the job was acknowledged, and no client has ended it. A rule or an operator may have.
    pub(super) fn is_there(&self, id: u64) -> bool {
        self.known.get(&id).is_some_and(|job| !job.may_be_lost())
    }

    pub(super) fn seen(&self, id: u64) -> Checked {
        match self.ended.get(&id) {
            Some(end) if end.is_certain() => Err("the job was ended before".into()),
            _ => Ok(()),
        }
    }

    pub(super) fn not_seen(&self, id: u64) -> Checked {
        match self.known.get(&id) {
            Some(job) if self.alone && !job.may_be_lost() => {
                Err("the job was acknowledged and not ended".into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn doubt(&mut self, id: u64) {
        if let Some(job) = self.known.get_mut(&id) {
            job.state = State::Unknown;
            job.pri = None;
        }
    }

    // --- Ends ---

    /// Notes that all jobs of closed connections are ready again.
    pub(super) fn settled(&mut self, now: u64) {
        for job in self.known.values_mut() {
            if let State::Ready { since } = &mut job.state
                && *since == u64::MAX
            {
                *since = now;
            }
        }
    }

    pub(super) fn end_holds_of(&mut self, conn: Conn, now: u64) {
        let since = if self.in_slices { u64::MAX } else { now };
        for job in self.known.values_mut() {
            if matches!(job.state, State::Held { by, .. } if by == conn) {
                // If the deadline is over, another client may hold the job now.
                job.state = match job.state {
                    State::Held { deadline, .. } if now < deadline => State::Ready { since },
                    _ => State::Unknown,
                };
            }
        }
    }

    /// Another process begins. `was_sent` says which replies certainly remain true.
    pub(super) fn restarted(&mut self, now: u64, was_sent: impl Fn(ReplyEnd) -> bool) {
        let after = |lasting: Lasting| match lasting {
            Lasting::IfSent(reply_end) if was_sent(reply_end) => Lasting::Certain,
            Lasting::IfSent(_) => Lasting::Uncertain,
            lasting => lasting,
        };
        for job in self.known.values_mut() {
            job.put = after(job.put);
            job.lasting = after(job.lasting);
            job.changed = now;
            if job.order.is_none() {
                job.queue.clear();
            }
            match &mut job.state {
                _ if matches!(job.lasting, Lasting::Uncertain) => {
                    (job.state, job.pri) = (State::Unknown, None);
                }
                State::Ready { since } => *since = now.max(job.due),
                // The holder may have given the job back with a delay, and the job may be delayed
                // again.
                State::Held { .. } | State::Assigned { .. } => job.state = State::Unknown,
                _ => {}
            }
        }
        for end in self.ended.values_mut() {
            end.lasting = after(end.lasting);
        }
        for queue in self.queues.values_mut() {
            queue.waited = None;
        }
        if self.kicks_under_way || self.kicks_go_on {
            // No reply reported how many jobs these kicks made ready.
            self.kicked(None, Lasting::Uncertain);
        }
        (self.kicks_under_way, self.kicks_go_on) = (false, false);
    }

    pub(super) fn check_all_ended(&self) -> Checked {
        match self.known.iter().find(|(_, job)| self.alone && !job.may_be_lost()) {
            Some((id, job)) => Err(format!(
                "job {id} was acknowledged; in the end it is neither there nor ended: {job:?}"
            )),
            None => Ok(()),
        }
    }
}

fn digest(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}

fn entering(delay: u32, now: u64) -> State {
    match delay {
        0 => State::Ready { since: now },
        _ => State::Delayed { due: now + u64::from(delay) * 1000 },
    }
}
