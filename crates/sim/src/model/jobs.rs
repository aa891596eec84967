//! What commands do to jobs (spec beanstalkd 2 and 3).

use std::rc::Rc;

use super::history::Record;
use super::{Counts, Expected, Job, Model, Name, Need, Pause, Place, State, Wait};

/// A take that found no job.
pub(super) enum NoJob {
    TimedOut,
    DeadlineSoon,
    Waiting,
}

impl Model {
    pub(super) fn put(&mut self, tube: &Name, mut job: Job) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.puts += 1;
        self.tubes.get_mut(tube).expect("a used tube exists").puts += 1;
        job.tube = tube.clone();
        job.created = self.now;
        let delay = job.delay;
        self.jobs.insert(id, job);
        if delay > 0 {
            self.jobs.get_mut(&id).expect("just put").state = self.delayed(delay);
        }
        self.record(id, Record::Put);
        if delay == 0 {
            self.offer(id);
        }
        id
    }

    fn delayed(&self, delay: u32) -> State {
        State::Delayed { due: self.now + u64::from(delay) * 1000 }
    }

    pub(super) fn new_job(pri: u32, delay: u32, ttr: u32, body: &[u8]) -> Job {
        Job {
            tube: "".into(),
            pri,
            delay,
            ttr,
            created: 0,
            body: Rc::from(body),
            state: State::Ready,
            counts: Counts::default(),
            need: 0,
        }
    }

    /// Notes that a job's facts changed.
    fn record(&mut self, id: u64, kind: fn(u64, super::Image) -> Record) {
        let job = self.jobs.get_mut(&id).expect("a job that was just changed");
        job.need = self.history.note(kind(id, super::Image::of(job)));
        self.history.note_tube(&job.tube, job.need);
    }

    /// Notes that only a job's lazily kept counters changed.
    fn record_counts(&mut self, id: u64) {
        let job = &self.jobs[&id];
        self.history.note(Record::Count(id, job.counts));
    }

    /// A job became ready: it goes to whoever waits longest for its tube.
    pub(super) fn offer(&mut self, id: u64) {
        let job = self.jobs.get_mut(&id).expect("an offered job exists");
        job.state = State::Ready;
        let tube = job.tube.clone();
        if !self.is_paused(&tube)
            && let Some(waiter) = self.first_waiter(&tube)
        {
            self.grant_to_waiter(waiter, id);
        }
    }

    pub(super) fn first_waiter(&self, tube: &Name) -> Option<Place> {
        let waiting = self.conns.iter().filter(|(_, conn)| conn.watched.contains(tube));
        let tickets = waiting.filter_map(|(place, conn)| Some((conn.waiting?.ticket, *place)));
        tickets.min().map(|(_, place)| place)
    }

    fn grant_to_waiter(&mut self, place: Place, id: u64) {
        let conn = self.conn(place);
        conn.waiting = None;
        assert!(conn.event.is_none(), "a connection waits for one thing");
        let reply = self.reserve_now(place, id);
        self.conn(place).event = Some(reply);
    }

    /// Hands a job out; the reply that tells it.
    pub(super) fn reserve_now(&mut self, place: Place, id: u64) -> Expected {
        let by = self.conn(place).serial;
        let lease = self.next_lease;
        self.next_lease += 1;
        let now = self.now;
        let job = self.jobs.get_mut(&id).expect("a job that is handed out exists");
        assert!(!matches!(job.state, State::Reserved { .. }), "a job has one holder");
        let was_ready = job.state == State::Ready;
        job.state = State::Reserved { by, lease, deadline: now + u64::from(job.ttr) * 1000 };
        job.counts.reserves += 1;
        if was_ready {
            self.record_counts(id);
        } else {
            // From now on it is a ready job that somebody holds, also after a restart.
            self.record(id, Record::Update);
        }
        let job = &self.jobs[&id];
        Expected::with_body("RESERVED", id, &job.body, job.need)
    }

    /// The best ready job over the watched tubes that are not paused.
    pub(super) fn take(&mut self, place: Place, seconds: Option<u32>) -> Result<Expected, NoJob> {
        let watched = self.conn(place).watched.clone();
        let open: Vec<_> = watched.into_iter().filter(|tube| !self.is_paused(tube)).collect();
        let ready = self.jobs.iter().filter(|(_, job)| job.state == State::Ready);
        let best =
            ready.filter(|(_, job)| open.contains(&job.tube)).map(|(id, job)| (job.pri, *id));
        if let Some((_, id)) = best.min() {
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
        self.conn(place).waiting = Some(Wait { ticket, until });
        Err(NoJob::Waiting)
    }

    /// The ids that a connection holds with their deadlines, in the order in which they end.
    pub(super) fn held(&self, place: Place) -> Vec<(u64, u64)> {
        let mut held = self.leases_of(place);
        held.sort_unstable();
        held.into_iter().map(|(deadline, _, id)| (deadline, id)).collect()
    }

    /// The ids that a connection holds, in the order in which it reserved them.
    pub(super) fn held_as_taken(&self, place: Place) -> Vec<u64> {
        let mut held = self.leases_of(place);
        held.sort_unstable_by_key(|(_, lease, _)| *lease);
        held.into_iter().map(|(_, _, id)| id).collect()
    }

    /// Deadline, lease number and id of all that a connection holds.
    fn leases_of(&self, place: Place) -> Vec<(u64, u64, u64)> {
        let Some(serial) = self.conns.get(&place).map(|conn| conn.serial) else {
            return Vec::new();
        };
        let jobs = self.jobs.iter();
        jobs.filter_map(|(id, job)| match job.state {
            State::Reserved { by, deadline, lease } if by == serial => Some((deadline, lease, *id)),
            _ => None,
        })
        .collect()
    }

    pub(super) fn first_deadline(&self, place: Place) -> Option<u64> {
        self.held(place).first().map(|(deadline, _)| *deadline)
    }

    fn is_holder(&self, place: Place, id: u64) -> bool {
        let state = self.jobs.get(&id).map(|job| job.state);
        let serial = self.conns[&place].serial;
        matches!(state, Some(State::Reserved { by, .. }) if by == serial)
    }

    /// What a denial about this job rests on.
    pub(super) fn denial(&self, id: u64) -> Need {
        self.jobs.get(&id).map_or_else(|| self.history.end_of(id), |job| job.need)
    }

    pub(super) fn reserve_job(&mut self, place: Place, id: u64) -> Result<Expected, Need> {
        match self.jobs.get(&id).map(|job| job.state) {
            None | Some(State::Reserved { .. }) => Err(self.denial(id)),
            Some(_) => Ok(self.reserve_now(place, id)),
        }
    }

    pub(super) fn delete(&mut self, place: Place, id: u64) -> Result<Need, Need> {
        let state = self.jobs.get(&id).map(|job| job.state);
        let serial = self.conn(place).serial;
        let held_by_other = matches!(state, Some(State::Reserved { by, .. }) if by != serial);
        if state.is_none() || held_by_other {
            return Err(self.denial(id));
        }
        let job = self.jobs.remove(&id).expect("it was just looked at");
        self.tubes.get_mut(&job.tube).expect("a job's tube exists").deletes += 1;
        let need = self.history.note(Record::Finish(id));
        self.history.note_tube(&job.tube, need);
        self.drop_tube_if_unwanted(&job.tube);
        Ok(need)
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
        let delayed = self.delayed(delay);
        let job = self.jobs.get_mut(&id).expect("it is held");
        (job.pri, job.delay) = (pri, delay);
        job.counts.releases += 1;
        job.state = if delay > 0 { delayed } else { State::Ready };
        self.record(id, Record::Update);
        let need = self.jobs[&id].need;
        if delay == 0 {
            self.offer(id);
        }
        Ok(need)
    }

    pub(super) fn bury(&mut self, place: Place, id: u64, pri: u32) -> Result<Need, Need> {
        if !self.is_holder(place, id) {
            return Err(self.denial(id));
        }
        let order = self.next_buried;
        self.next_buried += 1;
        let job = self.jobs.get_mut(&id).expect("it is held");
        job.pri = pri;
        job.counts.buries += 1;
        job.state = State::Buried { order };
        self.record(id, Record::Update);
        Ok(self.jobs[&id].need)
    }

    pub(super) fn touch(&mut self, place: Place, id: u64) -> Result<Need, Need> {
        if !self.is_holder(place, id) {
            return Err(self.denial(id));
        }
        let now = self.now;
        let job = self.jobs.get_mut(&id).expect("it is held");
        let until = now + u64::from(job.ttr) * 1000;
        if let State::Reserved { deadline, .. } = &mut job.state {
            *deadline = until;
        }
        Ok(job.need)
    }

    pub(super) fn kick_job(&mut self, id: u64) -> Result<Need, Need> {
        match self.jobs.get_mut(&id) {
            Some(job) if matches!(job.state, State::Delayed { .. } | State::Buried { .. }) => {
                job.counts.kicks += 1;
                job.state = State::Ready;
                self.record(id, Record::Update);
                let need = self.jobs[&id].need;
                self.offer(id);
                Ok(need)
            }
            _ => Err(self.denial(id)),
        }
    }

    pub(super) fn pause(&mut self, name: &str, seconds: u32) -> bool {
        let Some((name, _)) = self.tubes.get_key_value(name) else { return false };
        let name = name.clone();
        let until = self.now + u64::from(seconds) * 1000;
        let tube = self.tubes.get_mut(&name).expect("it was just found");
        tube.pauses += 1;
        tube.pause = (seconds > 0).then_some(Pause { until, seconds });
        if seconds == 0 {
            self.serve_waiters(&name);
        }
        true
    }

    /// A tube may hand out again.
    pub(super) fn serve_waiters(&mut self, tube: &Name) {
        while let Some(waiter) = self.first_waiter(tube) {
            let ready = self.jobs.iter().filter(|(_, job)| job.state == State::Ready);
            let best = ready.filter(|(_, job)| job.tube == *tube).map(|(id, job)| (job.pri, *id));
            let Some((_, id)) = best.min() else { return };
            self.grant_to_waiter(waiter, id);
        }
    }
}
