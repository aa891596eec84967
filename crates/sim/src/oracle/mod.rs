//! The oracle checks the server's replies, and does not use the server's code. It sees only the
//! bytes that clients sent and received, closed connections, crashes, the end of the run, and the
//! milestones of jobs.
//!
//! The oracle parses the protocols of beanstalkd and of Kestrel's memcache, according to their
//! documentation. It checks Gearman's jobs in runs in which all clients speak Gearman. In other runs,
//! it notes only which worker received and ended which job. It gets the policies and resolves them
//! itself. If a protocol allows several results, the oracle accepts each
//! of them. The oracle checks a job only if it is certain about the job's state.

mod gates;
mod gearman;
mod items;
mod jobs;
mod kestrel;
mod lives;
mod memcache;
mod retries;
mod rules;
mod terms;
mod unique;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use broker::policy::Rules;
use broker::{Milestone, Millis};
pub(crate) use gates::LeasedJob;
use gearman::Gearman;
use items::Items;
use jobs::Jobs;
use kestrel::Connections;
use lives::Lives;
use retries::JobRef;
pub(crate) use terms::Certain;
use terms::{Conn, Lasting, ReplyEnd};
use wire::{Reply, Request};

use crate::Checked;
use crate::protocol::Protocol;
use crate::workload::OTHER_NAME;

/// A client that holds so many jobs can get no other one at the limit of memory.
const FULL_MEMORY_LEASES: u32 = 64;

/// The record of the run so far. It contains only facts that later checks need.
#[derive(Debug)]
pub(crate) struct Oracle {
    conns: BTreeMap<Conn, Stream>,
    /// The number of bytes that the server sent, by connection. This includes closed connections.
    left: BTreeMap<Conn, u64>,
    jobs: Jobs,
    /// Only in runs in which all clients speak Gearman.
    gearman: Option<Gearman>,
    kestrel: Connections,
    items: Items,
    lives: Lives,
    sees_items: bool,
    /// True if a client sent bytes that the oracle cannot parse. If so, the oracle checks nothing
    /// more.
    is_blind: bool,
    is_stopped: bool,
}

/// One connection.
#[derive(Debug)]
struct Stream {
    protocol: Protocol,
    input: Vec<u8>,
    /// The number of bytes of a body that have not arrived yet.
    body: usize,
    output: Vec<u8>,
    /// Bytes of replies that the oracle has read.
    read: u64,
    /// Requests without a reply, each with the time of its arrival.
    pending: VecDeque<Pending>,
    used: String,
    /// The names that the client watches.
    watched: Vec<String>,
    /// The number of jobs that the client has got, and may hold.
    taken: u32,
}

impl Stream {
    /// The queues that the client watches.
    fn watched_queues(&self) -> Vec<String> {
        self.watched.iter().map(|name| real_name(name)).collect()
    }
}

/// The queue that a name stands for. In runs without other names of queues, no client uses them.
fn real_name(name: &str) -> String {
    match name.strip_prefix(OTHER_NAME) {
        Some(rest) if rest.is_empty() || rest.starts_with('+') => format!("a{rest}"),
        _ => name.to_owned(),
    }
}

#[derive(Debug)]
struct Pending {
    request: Request,
    /// The body of a put and its line end, as far as they have arrived.
    body: Vec<u8>,
    arrival: u64,
    /// True if the session did not reply in the call in which it got the request.
    waited: bool,
}

impl Oracle {
    /// `spoken` says which protocols clients speak: beanstalkd's, Gearman's, Kestrel's. If policies
    /// change although nobody speaks Kestrel's, call [`Oracle::policies_change_jobs`]. `sees_items` is
    /// false if Kestrel's clients speak other dialects than memcache, because the oracle cannot see
    /// their items.
    pub(crate) fn new(spoken: [bool; 3], sees_items: bool) -> Self {
        let mut items = Items::new(spoken == [false, false, true]);
        if spoken[1] {
            items.uniques.give_up();
        }
        Self {
            conns: BTreeMap::new(),
            left: BTreeMap::new(),
            jobs: Jobs::new(spoken == [true, false, false]),
            gearman: None,
            kestrel: Connections::default(),
            items,
            lives: Lives::default(),
            sees_items,
            is_blind: false,
            is_stopped: false,
        }
    }

    /// Notes that queues of jobs have policies: they can delay, bury, move or end jobs.
    pub(crate) fn policies_change_jobs(&mut self) {
        self.jobs.alone = false;
    }

    /// Notes that slices of work are short, so that an operation on many jobs takes several slices.
    /// Then jobs of closed connections, and due jobs, are certainly ready only after
    /// [`Oracle::settled`] is called.
    pub(crate) fn slices_are_short(&mut self) {
        self.items.in_slices = true;
        self.jobs.in_slices = true;
    }

    /// Checks Gearman's jobs, too. `wakes_all` is true if a job wakes all workers that sleep, and
    /// `loses_jobs` if a job can end because its workers were lost.
    pub(crate) fn judge_gearman(&mut self, wakes_all: bool, loses_jobs: bool) {
        self.gearman = Some(Gearman::new(wakes_all, loses_jobs));
    }

    pub(crate) fn judges_gearman(&self) -> bool {
        self.gearman.is_some()
    }

    /// The numbers of Gearman's jobs that may be there.
    pub(crate) fn ids_of_gearman(&self) -> Vec<u64> {
        self.gearman.as_ref().map(Gearman::ids).unwrap_or_default()
    }

    /// Notes that an operator made one of Gearman's jobs ready, if it was scheduled.
    pub(crate) fn kicked(&mut self, id: u64) {
        if let Some(gearman) = &mut self.gearman {
            gearman.kicked(id);
        }
    }

    /// Checks, after all events were delivered, that nobody waits for what has happened.
    pub(crate) fn check_all_told(&mut self, now: u64) -> Checked {
        let checked = self.gearman.as_mut().map_or(Ok(()), |gearman| gearman.check_all_told(now));
        checked.map_err(|error| format!("oracle: {error}"))
    }

    /// Notes that all unfinished operations are done.
    pub(crate) fn settled(&mut self, now: u64) {
        if let Some(gearman) = &mut self.gearman {
            gearman.settled(now);
        }
        self.items.settled();
        self.jobs.settled(now);
    }

    /// Notes that the server can lack memory. Then a request for an item can fail to create the queue,
    /// and a client that holds many jobs may have to finish some before it gets another one.
    pub(crate) fn memory_is_limited(&mut self) {
        self.items.memory_is_limited = true;
    }

    pub(crate) fn opened(&mut self, conn: Conn, protocol: Protocol) {
        if let Protocol::Kestrel(_) = protocol {
            if self.sees_items {
                self.kestrel.opened(conn);
            }
            return;
        }
        if let Some(gearman) = &mut self.gearman
            && protocol == Protocol::Gearman
        {
            gearman.opened(conn);
        }
        let stream = Stream {
            protocol,
            input: Vec::new(),
            body: 0,
            output: Vec::new(),
            read: 0,
            pending: VecDeque::new(),
            used: "default".to_owned(),
            watched: vec!["default".to_owned()],
            taken: 0,
        };
        self.conns.insert(conn, stream);
    }

    /// Notes that the server closed the connection, or noticed that the client closed it.
    pub(crate) fn closed(&mut self, conn: Conn, now: u64) {
        self.kestrel.closed(conn, &mut self.items, now);
        if let Some(gearman) = &mut self.gearman {
            gearman.closed(conn);
        }
        self.note_waits(now);
        if let Some(stream) = self.conns.remove(&conn) {
            // A long kick can continue after its client disconnected.
            if stream.pending.iter().any(|pending| matches!(pending.request, Request::Kick)) {
                self.jobs.kicks_go_on = true;
            }
            self.jobs.end_holds_of(conn, now);
        }
    }

    /// Notes that the server sent this many bytes on this connection.
    pub(crate) fn left(&mut self, conn: Conn, count: usize) {
        *self.left.entry(conn).or_default() += count as u64;
    }

    /// Checks one call of a session, which received the bytes `sent` and replied with `answer`. The
    /// session can leave bytes for later: `used` is the number of bytes that it read in this call.
    pub(crate) fn observe(
        &mut self,
        conn: Conn,
        (sent, used): (&[u8], usize),
        answer: &[u8],
        now: u64,
    ) -> Checked {
        self.items.passed(now);
        if !self.sees_items {
            self.items.uniques.look_at(conn, sent);
        }
        if let Some(gearman) = &mut self.gearman {
            gearman
                .observe(conn, (sent, used), answer, now)
                .map_err(|error| format!("oracle: connection {conn}: {error}"))?;
        }
        let Some(stream) = self.conns.get_mut(&conn) else {
            return self
                .kestrel
                .observe((conn, sent, answer), &mut self.items, now)
                .map_err(|error| format!("oracle: connection {conn}: {error}"));
        };
        if self.is_blind {
            return Ok(());
        }
        stream.input.extend_from_slice(sent);
        stream.output.extend_from_slice(answer);
        match stream.protocol {
            Protocol::Beanstalk => self.observe_beanstalk(conn, now),
            Protocol::Gearman => self.observe_gearman(conn, now),
            Protocol::Kestrel(_) => Ok(()),
        }
        .map_err(|error| format!("oracle: connection {conn}: {error}"))
    }

    fn observe_beanstalk(&mut self, conn: Conn, now: u64) -> Checked {
        let stream = self.conns.get_mut(&conn).expect("it was just there");
        loop {
            let mut taken = Vec::new();
            let request = wire::request(&mut stream.input, &mut stream.body, &mut taken);
            // The body of the last put, unless the put was refused before its body arrived.
            if let Some(put) = stream.pending.back_mut() {
                put.body.extend(taken);
            }
            let Some(request) = request else { break };
            if request == Request::Unclear {
                self.is_blind = true;
                return Ok(());
            }
            let body = Vec::new();
            stream.pending.push_back(Pending { request, body, arrival: now, waited: false });
        }
        self.note_waits(now);
        loop {
            let stream = self.conns.get_mut(&conn).expect("it was just there");
            let before = stream.output.len();
            let Some(reply) = wire::reply(&mut stream.output)? else { break };
            stream.read += (before - stream.output.len()) as u64;
            let reply_end = ReplyEnd { conn, end: stream.read };
            let Some(pending) = stream.pending.pop_front() else {
                return Err(format!("{reply:?} answers nothing"));
            };
            self.judge(reply_end, &pending, &reply, now)
                .map_err(|error| format!("{:?}, {reply:?}: {error}", pending.request))?;
        }
        let stream = self.conns.get_mut(&conn).expect("it was just there");
        for pending in &mut stream.pending {
            pending.waited = true;
        }
        self.note_waits(now);
        Ok(())
    }

    /// Notes the queues at which clients wait. The server can give a job to a waiting client long
    /// before the reply.
    fn note_waits(&mut self, now: u64) {
        for stream in self.conns.values() {
            let waits = stream.pending.iter().any(|pending| {
                pending.waited && matches!(pending.request, Request::Reserve { .. })
            });
            if waits {
                for queue in stream.watched_queues() {
                    self.jobs.waited_at(&queue, now);
                }
            }
        }
        let kicking = |pending: &Pending| matches!(pending.request, Request::Kick);
        self.jobs.kicks_under_way =
            self.conns.values().any(|stream| stream.pending.iter().any(kicking));
    }

    fn judge(
        &mut self,
        reply_end: ReplyEnd,
        pending: &Pending,
        reply: &Reply,
        now: u64,
    ) -> Checked {
        let stream = self.conns.get_mut(&reply_end.conn).expect("it was just there");
        let jobs = &mut self.jobs;
        let word = reply.word.as_str();
        let must_finish = self.items.memory_is_limited && stream.taken >= FULL_MEMORY_LEASES;
        stream.taken += u32::from(word == "RESERVED");
        match (&pending.request, word) {
            (Request::Use(name), "USING") => stream.used = real_name(name),
            (Request::Watch(name), "WATCHING") if !stream.watched.contains(name) => {
                stream.watched.push(name.clone());
            }
            (Request::Ignore(name), "WATCHING") => stream.watched.retain(|known| known != name),
            (Request::Put { pri, delay, ttr }, "INSERTED") => {
                let queue = stream.used.clone();
                let body = pending.body.strip_suffix(b"\r\n").ok_or("the body is not whole")?;
                let parameters = (*pri, *delay, *ttr);
                if self.items.ever_unique() {
                    self.items.uniques.answered(
                        reply.id,
                        (&queue, body),
                        pending.arrival,
                        now,
                        |id| jobs.is_there(id),
                    )?;
                    jobs.bumps |= self.items.ever_bumps();
                    let job = (reply.id, body);
                    return jobs.inserted_or_there(reply_end, job, &queue, parameters, now);
                }
                return jobs.inserted(reply_end, (reply.id, body), &queue, parameters, now);
            }
            (Request::Reserve { .. }, "RESERVED") => {
                self.items.drained(None, &reply.body)?;
                jobs.check_body(reply.id, &reply.body)?;
                if !pending.waited {
                    let watched = stream.watched_queues();
                    jobs.check_order(reply.id, &watched, now)?;
                    if let [queue] = &watched[..] {
                        self.items.gates.handed_out(queue, now)?;
                        // A kick revives dead letters, and its reply can come later, or never.
                        let is_kicking = jobs.kicks_under_way || jobs.kicks_go_on;
                        if is_kicking {
                            self.items.retries.forget_all(queue);
                        } else if jobs.queue_of(reply.id) == Some(queue) {
                            self.items.retries.handed_out(JobRef::Job(reply.id), queue)?;
                        }
                    }
                }
                return jobs.reserved(
                    reply_end.conn,
                    reply.id,
                    pending.arrival,
                    pending.waited,
                    now,
                );
            }
            (Request::Reserve { .. }, "TIMED_OUT" | "OUT_OF_MEMORY") if must_finish => {}
            (Request::Reserve { timeout: Some(0) }, "TIMED_OUT") if !pending.waited => {
                return jobs.check_nothing_ready(&stream.watched_queues(), now);
            }
            (Request::ReserveJob(id), "RESERVED") => {
                self.items.retries.exempt(*id);
                jobs.check_body(*id, &reply.body)?;
                return jobs.reserved_by_id(reply_end.conn, *id, now);
            }
            (Request::Delete(id), "DELETED") => return jobs.deleted(reply_end, *id, now),
            (Request::Release { id, pri, delay }, "RELEASED") => {
                jobs.released(reply_end, *id, (*pri, *delay), now)?;
                if self.items.ever_retries() {
                    // The job can be a dead letter now, or be delayed for longer.
                    jobs.doubt(*id);
                }
                return Ok(());
            }
            (Request::Bury { id, pri }, "BURIED") => return jobs.buried(reply_end, *id, *pri, now),
            (Request::Touch(id), "TOUCHED") => return jobs.touched(reply_end.conn, *id, now),
            (Request::KickJob(id), "KICKED") => {
                self.items.retries.forget(*id);
                return jobs.kicked_one(reply_end, *id, now);
            }
            (Request::Kick, "KICKED") => {
                self.items.retries.forget_all(&stream.used);
                jobs.kicked(Some(&stream.used), Lasting::IfSent(reply_end));
            }
            (Request::Pause { name, seconds }, "PAUSED") => {
                jobs.paused(&real_name(name), *seconds, now);
            }
            (Request::Look(id), "FOUND") => {
                jobs.check_body(*id, &reply.body)?;
                return jobs.seen(*id);
            }
            (Request::Look(id), "OK") => return jobs.seen(*id),
            (Request::Look(id) | Request::KickJob(id), "NOT_FOUND") => {
                let is_look = matches!(pending.request, Request::Look(_));
                return if is_look { jobs.not_seen(*id) } else { Ok(()) };
            }
            // The server never refuses a request that frees memory.
            (Request::Reserve { .. } | Request::Delete(_) | Request::Touch(_), "OUT_OF_MEMORY") => {
                return Err("it needs no room".into());
            }
            // A full disk may have stopped the request in the middle, so the job's state is
            // unknown.
            (
                Request::Release { id, .. } | Request::Bury { id, .. } | Request::KickJob(id),
                "OUT_OF_MEMORY",
            ) => {
                self.items.retries.forget(*id);
                jobs.doubt(*id);
            }
            _ => {}
        }
        Ok(())
    }

    fn observe_gearman(&mut self, conn: Conn, now: u64) -> Checked {
        let stream = self.conns.get_mut(&conn).expect("it was just there");
        while let Some((kind, id, _)) = wire::packet(&mut stream.input) {
            if let (wire::WORK_COMPLETE, Some(id)) = (kind, id) {
                self.jobs.completed(id, conn);
            }
        }
        while let Some((kind, id, body)) = wire::packet(&mut stream.output) {
            let mut parts = body.splitn(3, |byte| *byte == 0).skip(1);
            let function = parts.next();
            if let (
                wire::JOB_ASSIGN | wire::JOB_ASSIGN_UNIQ | wire::JOB_ASSIGN_ALL,
                Some(function),
            ) = (kind, function)
            {
                let queue = real_name(&String::from_utf8_lossy(function));
                self.items.gates.handed_out(&queue, now)?;
            }
            if let (wire::JOB_ASSIGN, Some(function), Some(workload)) =
                (kind, function, parts.next())
            {
                let queue = real_name(&String::from_utf8_lossy(function));
                self.items.drained(Some(&queue), workload)?;
            }
            if let (wire::JOB_ASSIGN | wire::JOB_ASSIGN_UNIQ | wire::JOB_ASSIGN_ALL, Some(id)) =
                (kind, id)
            {
                self.jobs.assigned(id, conn)?;
            }
        }
        Ok(())
    }

    /// Notes that an operator moved a job to another queue.
    pub(crate) fn moved(&mut self, id: u64, queue: &str, now: u64) {
        self.note_waits(now);
        self.items.uniques.give_up();
        self.items.retries.forget(id);
        self.items.gates.moved(id);
        self.jobs.moved(id, queue, now);
    }

    /// Notes that an operator made a job a dead letter. It can be in another queue now.
    pub(crate) fn set_aside(&mut self, id: u64, now: u64) {
        self.note_waits(now);
        self.items.uniques.give_up();
        self.items.retries.forget(id);
        self.items.gates.moved(id);
        self.jobs.doubt(id);
    }

    /// Notes that an operator buried or rescheduled a job.
    pub(crate) fn changed_by_hand(&mut self, id: u64, now: u64) {
        self.note_waits(now);
        self.items.uniques.give_up();
        // It can be a dead letter that was buried in its queue, and then it stays one.
        self.items.retries.exempt(id);
        self.jobs.changed_by_hand(id, now);
    }

    /// Notes that an operator brought a dead letter or a buried job back.
    pub(crate) fn redriven(&mut self, id: u64, now: u64) {
        self.note_waits(now);
        self.items.retries.forget(id);
        self.jobs.doubt(id);
    }

    /// Notes that the server stopped cleanly. So every change with a reply is durable.
    pub(crate) fn stopped_cleanly(&mut self) {
        self.is_stopped = true;
    }

    /// Notes that another process begins. `left` says which replies certainly remain true.
    pub(crate) fn restarted(&mut self, left: Certain, now: u64) {
        let is_stopped = std::mem::take(&mut self.is_stopped);
        let left = if is_stopped { Certain::All } else { left };
        let lasting = std::mem::take(&mut self.left);
        self.lives = Lives::default();
        self.conns.clear();
        let was_sent = |reply_end: ReplyEnd| {
            lasting.get(&reply_end.conn).is_some_and(|left| *left >= reply_end.end)
        };
        if let Some(gearman) = &mut self.gearman {
            let is_true = |end| left == Certain::Sent && was_sent(end);
            gearman.restarted(left == Certain::All, is_true);
        }
        self.kestrel.restarted(&mut self.items, now);
        self.items.restarted(left, |reply_end| match left {
            Certain::All => true,
            Certain::Sent => was_sent(reply_end),
            Certain::Nothing => false,
        });
        match left {
            Certain::All => self.jobs.restarted(now, |_| true),
            Certain::Sent => self.jobs.restarted(now, was_sent),
            Certain::Nothing => self.jobs.restarted(now, |_| false),
        }
    }

    /// Notes that other policies are in force from now on.
    pub(crate) fn policies_changed(&mut self, rules: &Rules) {
        self.items.policies_changed(rules);
        self.lives.policies_changed();
    }

    /// Checks the next milestones. The caller must take them before each change of policies.
    pub(crate) fn check_milestones(&mut self, milestones: &[Milestone], now: u64) -> Checked {
        milestones.iter().try_for_each(|milestone| self.lives.check(milestone, Millis(now)))
    }

    /// Notes that another process began at this moment, with these rules. `knows_time`: the moments
    /// of this process follow those of the process before it.
    pub(crate) fn began(&mut self, rules: &Rules, opened: u64, knows_time: bool) {
        self.items.uniques.began(rules);
        self.items.retries.began(rules);
        if knows_time {
            self.items.gates.began(rules, opened);
        } else {
            self.items.gates.forget(rules, opened);
        }
    }

    /// True if the server limits the leased jobs of some queue.
    pub(crate) fn limits_slots(&self) -> bool {
        self.items.gates.limits_slots()
    }

    /// Checks the number of leased jobs of a queue after a turn.
    pub(crate) fn check_leased(&mut self, queue: &str, leased: u32) -> Checked {
        let checked = self.items.gates.check_leased(queue, leased);
        checked.map_err(|error| format!("oracle: {error}"))
    }

    /// True if the server limits the leased jobs of some key.
    pub(crate) fn limits_keys(&self) -> bool {
        self.items.gates.limits_keys()
    }

    /// Checks the leased jobs of each key after a turn. `next_id` is above the numbers of all jobs.
    pub(crate) fn check_leased_keys(&mut self, leased: &[LeasedJob<'_>], next_id: u64) -> Checked {
        let checked = self.items.gates.check_keys(leased, next_id);
        checked.map_err(|error| format!("oracle: {error}"))
    }

    /// Called after all jobs were taken and ended. Checks that no acknowledged job is missing.
    pub(crate) fn check_all_ended(&mut self) -> Checked {
        self.items.check_all_drained().map_err(|error| format!("oracle: {error}"))?;
        if let Some(gearman) = &self.gearman {
            gearman.check_all_ended().map_err(|error| format!("oracle: {error}"))?;
        }
        if self.is_blind {
            return Ok(());
        }
        self.jobs.check_all_ended().map_err(|error| format!("oracle: {error}"))
    }

    /// The number of checks so far, of each kind.
    pub(crate) fn judged(&self) -> Judgements {
        let count = |of: fn(&Gearman) -> u64| self.gearman.as_ref().map_or(0, of);
        Judgements {
            outcomes: count(|gearman| gearman.outcomes_judged),
            sleeps: count(|gearman| gearman.sleeps_judged),
            handles: count(|gearman| gearman.handles_judged),
            orders: self.jobs.orders_judged,
            holds: self.jobs.holds_judged,
            item_orders: self.items.orders_judged,
            item_holds: self.items.holds_judged,
            items_kept: self.items.copies_judged,
            limits: self.items.limits_judged,
            rates: self.items.gates.rates_judged,
            slots: self.items.gates.slots_judged,
            keys: self.items.gates.keys_judged,
            pauses: self.items.gates.pauses_judged,
            duplicates: self.items.uniques.judged,
            retries: self.items.retries.judged,
        }
    }
}

/// The number of checks that the oracle made, of each kind.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Judgements {
    /// Pairs of jobs whose order the protocol defines.
    pub orders: u64,
    /// Hand-outs of jobs.
    pub holds: u64,
    /// Pairs of items whose order the protocol defines.
    pub item_orders: u64,
    /// Hand-outs of items.
    pub item_holds: u64,
    /// Items and copies of items that had to exist at the end.
    pub items_kept: u64,
    /// Puts into queues with a limit.
    pub limits: u64,
    /// Hand-outs of queues with a rate.
    pub rates: u64,
    /// How often a queue with a limit of leased jobs had some.
    pub slots: u64,
    /// How often a leased job counted for the limit of its key.
    pub keys: u64,
    /// Hand-outs of queues that a schedule pauses at other times.
    pub pauses: u64,
    /// Puts with the key of another put, within the window of the policy.
    pub duplicates: u64,
    /// Hand-outs of jobs that were handed out before, in queues with a limit of retries.
    pub retries: u64,
    /// Outcomes of Gearman's jobs that clients were told.
    pub outcomes: u64,
    /// Sleeping workers whose jobs were looked for.
    pub sleeps: u64,
    /// Handles that had to name the same job as before.
    pub handles: u64,
}
