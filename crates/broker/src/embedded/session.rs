//! Jobs, as in beanstalkd. They have priorities and deadlines, and a session takes them from
//! several queues at once.

use engine::{Handout, JobId, NewJob, SessionId, State};

use super::{Error, Store, Wait, check_name};
use crate::{Answer, Event, Kick, Take, Turn};

/// A user of a store. A session holds the jobs that it took. Dropping the session gives these jobs
/// back.
#[derive(Debug)]
pub struct Session<'a> {
    pub(super) store: &'a Store,
    pub(super) id: SessionId,
    pub(super) watched: Watched,
}

/// The queues that a session watches now. If the next `take` names the same queues, and the policies
/// are the same, `take` need not change what the session watches.
#[derive(Debug)]
pub(super) struct Watched {
    names: Vec<Vec<u8>>,
    /// See [`Turn::policy_changes`].
    policy_changes: u64,
}

impl Default for Watched {
    /// What a new session watches. The name `default` always stands for its own queue.
    fn default() -> Self {
        Self { names: vec![b"default".to_vec()], policy_changes: 0 }
    }
}

/// A job that a [`Session`] holds, or has looked at.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its id, to finish it or give it back.
    pub id: JobId,
    /// Its bytes.
    pub body: crate::Body,
}

impl Session<'_> {
    /// Puts a job into a queue. When this returns, the job is on stable storage.
    pub fn put(&mut self, queue: &str, job: NewJob, body: &[u8]) -> Result<JobId, Error> {
        let queue = check_name(queue.as_bytes())?;
        self.store.wait_while_congested();
        let put = {
            let mut turn = self.store.turn();
            turn.caller(self.id).use_queue(queue);
            turn.caller(self.id).put(job, body.into())
        };
        Ok(self.store.wait_released(put)??)
    }

    /// Takes and holds the most urgent job of these queues. Returns `None` if the wait is over. The
    /// wait is also over when a job of this session is within a second of its deadline.
    pub fn take(&mut self, queues: &[&str], wait: Wait) -> Result<Option<Job>, Error> {
        for queue in queues {
            check_name(queue.as_bytes())?;
        }
        let take = {
            let mut turn = self.store.turn();
            watch_only(&mut turn, self.id, &mut self.watched, queues);
            turn.caller(self.id).take(wait.patience())
        };
        let Answer { value, after } = take;
        let taken = match value {
            Take::Waiting => self.store.event_for(self.id)?.map(|event| match event {
                Event::Granted(handout) => Some(handout),
                Event::TimedOut | Event::DeadlineSoon => None,
                other => unreachable!("a session that takes waits for nothing else: {other:?}"),
            }),
            taken => Answer::new(taken.granted(), after),
        };
        let handout = self.store.wait_released(taken)?;
        let loaded = |handout: Handout| {
            Ok(Job { id: handout.id, body: self.store.wait_loaded(&handout.body)? })
        };
        handout.map(loaded).transpose()
    }

    /// Finishes a job that this session holds, or that no session holds.
    pub fn finish(&mut self, id: JobId) -> Result<(), Error> {
        let finished = self.store.turn().caller(self.id).finish(id);
        Ok(self.store.wait_released(finished)??)
    }

    /// Gives back a job that this session holds: ready at once, or after `delay_s` seconds.
    pub fn give_back(&mut self, id: JobId, priority: u32, delay_s: u32) -> Result<(), Error> {
        let given = self.store.turn().caller(self.id).give_back(id, priority, delay_s);
        Ok(self.store.wait_released(given)??)
    }

    /// Buries a job that this session holds, until a kick.
    pub fn bury(&mut self, id: JobId, priority: u32) -> Result<(), Error> {
        let buried = self.store.turn().caller(self.id).bury(id, priority);
        Ok(self.store.wait_released(buried)??)
    }

    /// Restarts the ttr of a held job.
    pub fn touch(&mut self, id: JobId) -> Result<(), Error> {
        let touched = self.store.turn().caller(self.id).touch(id);
        Ok(self.store.wait_released(touched)??)
    }

    /// Makes up to `max` buried jobs of a queue ready, or delayed jobs if none is buried. Returns
    /// the number of these jobs.
    pub fn kick(&mut self, queue: &str, max: u64) -> Result<u64, Error> {
        let queue = check_name(queue.as_bytes())?;
        let kick = {
            let mut turn = self.store.turn();
            turn.caller(self.id).use_queue(queue);
            turn.caller(self.id).kick(max)
        };
        match self.store.wait_released(kick)?? {
            Kick::Done(count) => Ok(count),
            Kick::Waiting => {
                let kicked = self.store.event_for(self.id)?.map(|event| match event {
                    Event::Kicked(count) => count,
                    other => unreachable!("a session that kicks waits for nothing else: {other:?}"),
                });
                self.store.wait_released(kicked)
            }
        }
    }

    /// Looks at the first job of a queue in this state: the next ready job, the delayed job with
    /// the earliest due time, or the job that was buried first.
    pub fn peek(&mut self, queue: &str, state: State) -> Result<Job, Error> {
        let queue = check_name(queue.as_bytes())?;
        let peeked = {
            let mut turn = self.store.turn();
            turn.caller(self.id).use_queue(queue);
            turn.caller(self.id).peek_used(state)
        };
        self.store.wait_peeked(peeked)
    }
}

/// Makes a session watch only these queues, or `default` if the list is empty.
fn watch_only(turn: &mut Turn<'_>, session: SessionId, now: &mut Watched, wanted: &[&str]) {
    let wanted = if wanted.is_empty() { &["default"] } else { wanted };
    let policy_changes = turn.policy_changes();
    let names = now.names.iter().map(Vec::as_slice);
    let are_same = names.eq(wanted.iter().map(|queue| queue.as_bytes()));
    if are_same && now.policy_changes == policy_changes {
        return;
    }
    // A name that the session has watched before can stand for another queue now.
    for queue in wanted {
        turn.caller(session).watch(queue.as_bytes());
    }
    for queue in now.names.drain(..) {
        if !wanted.iter().any(|wanted| wanted.as_bytes() == queue) {
            turn.caller(session).ignore(&queue);
        }
    }
    now.names.extend(wanted.iter().map(|queue| queue.as_bytes().to_vec()));
    now.policy_changes = policy_changes;
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.store.end(self.id);
    }
}
