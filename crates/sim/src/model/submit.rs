//! Submits in the model. Each submit names its queue, and can join an equal job (spec gearman 4.6).

use std::rc::Rc;

use broker::policy::Unsent;

use super::record::Record;
use super::routes::Refused;
use super::{JobKind, Model, Name, Need, Place, State, StoredJob, Tags};

pub(super) const HIGH: u32 = 512;
pub(super) const NORMAL: u32 = 1024;
pub(super) const LOW: u32 = 3 << 30;

/// The content of a submit.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) pri: u32,
    /// The due time in milliseconds of the server's clock.
    pub(super) due: u64,
    /// What the client did not send.
    pub(super) unsent: Unsent,
    pub(super) unique: Vec<u8>,
    pub(super) reducer: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) is_foreground: bool,
}

/// The band of a priority: one for each of Gearman's three priorities.
pub(super) fn band(pri: u32) -> usize {
    match pri {
        0..1024 => 0,
        1024..=0x8000_0000 => 1,
        _ => 2,
    }
}

/// The value that equal jobs have in common. `None` if no submit can join the job.
fn key<'a>(unique: &'a [u8], body: &'a [u8]) -> Option<&'a [u8]> {
    let key = if unique == b"-" { body } else { unique };
    (!key.is_empty()).then_some(key)
}

impl Model {
    /// The oldest unfinished job that this submission can join. There can be several such jobs: a
    /// submit does not join a buried job, so it makes a second job. Then a kick can make the buried
    /// job ready again.
    pub(super) fn joinable(&self, queue: &Name, submission: &Submission) -> Option<u64> {
        let wanted = key(&submission.unique, &submission.body)?;
        let same = |id: u64, job: &super::Job| {
            let unique = job.tags.as_ref().map_or(&[][..], |tags| &tags.unique);
            // Only ready jobs expire.
            let is_expired = job.state == State::Ready && self.is_expired(id);
            !job.is_buried()
                && !is_expired
                && job.queue == *queue
                && unique == submission.unique
                && key(unique, &job.body) == Some(wanted)
        };
        self.jobs.iter().find(|(id, job)| same(**id, job)).map(|(id, _)| *id)
    }

    pub(super) fn join(&mut self, place: Place, id: u64, is_foreground: bool) {
        self.tally.joins += 1;
        if is_foreground {
            self.attach(place, id);
        } else {
            self.outlive_watchers(id);
        }
    }

    pub(super) fn outlive_watchers(&mut self, id: u64) {
        let kind = self.kind_in(&self.jobs[&id].queue.clone());
        if self.jobs[&id].kind != JobKind::Logged && self.jobs[&id].kind != kind {
            self.job_mut(id).kind = kind;
            self.record(id, Record::Put);
        }
    }

    /// True if the queue has so many unfinished jobs, of all priorities, that it refuses a job of
    /// this priority's band.
    pub(super) fn is_queue_full(&self, queue: &Name, pri: u32) -> bool {
        let limit = self.queues[queue].facts.limits[band(pri)];
        let jobs = self.jobs.values().filter(|job| job.queue == *queue).count();
        limit > 0 && jobs >= limit as usize
    }

    /// Submits a new job. Returns its number, and the record that the reply depends on. Fails
    /// if a requested queue refuses the job. Also fails for a foreground job that
    /// no queue stores, because its client would never get an outcome. For a background job that no
    /// queue stores, returns a number that no job has.
    pub(super) fn submit_new(
        &mut self,
        place: Place,
        name: &str,
        submission: Submission,
    ) -> Result<(u64, Need), Refused> {
        let Submission { pri, due, unsent, unique, reducer, body, is_foreground } = submission;
        let mut job = Self::new_job(pri, 0, 0, &body);
        job.tags = Some(Tags { unique: Rc::from([]), reducer: Rc::from(reducer.clone()) });
        if due > self.now {
            job.state = State::Delayed { due };
        }
        let route = self.route_to(name, false);
        let routed = self.put_along(route, (&job, unsent), (&unique, Some(place)), is_foreground);
        if let Some(refused) = routed.refused {
            if let Some(id) = routed.requested {
                self.outlive_watchers(id);
            }
            return Err(refused);
        }
        match (routed.requested, routed.same, routed.first) {
            (Some(id), ..) => {
                let job = self.job_mut(id);
                job.tags = Some(Tags { unique: Rc::from(unique), reducer: Rc::from(reducer) });
                // The record was made without the tags.
                let image = StoredJob::of(&self.jobs[&id]);
                self.history.amend(routed.need, id, &image);
                if is_foreground {
                    self.attach(place, id);
                }
            }
            (None, Some(same), _) if is_foreground => {
                // Room for a job at a later destination can have ended it, or made it a dead letter.
                let is_alive = self.jobs.get(&same).is_some_and(|job| job.death.is_none());
                if !is_alive {
                    return Err(Refused::QueueFull);
                }
                self.attach(place, same);
            }
            (None, None, Some(copy)) if is_foreground => self.attach(place, copy),
            (None, None, None) if is_foreground => {
                let ended = routed.ended.ok_or(Refused::QueueFull)?;
                self.send_kept_result(place, ended, routed.need)?;
            }
            (None, ..) => {}
        }
        let id = self.answer_put(&routed)?;
        let own = self.jobs.get(&id).map_or(0, |job| job.need);
        Ok((id, own.max(routed.need)))
    }

    /// The oldest unfinished job with this key, in any queue.
    pub(super) fn find_key(&self, unique: &[u8]) -> Option<u64> {
        let same = |job: &super::Job| {
            !job.is_buried() && job.tags.as_ref().is_some_and(|tags| *tags.unique == *unique)
        };
        if unique.is_empty() || unique == b"-" {
            return None;
        }
        self.jobs.iter().find(|(_, job)| same(job)).map(|(id, _)| *id)
    }
}
