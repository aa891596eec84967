//! Dead letters: jobs that have failed too often, and jobs that expire or make room.

use broker::limits::{DEAD_ERROR_BYTES_MAX, DEATH_ENDS_MAX, PUT_ENDS_MAX};
use broker::policy::DeadTarget;
use broker::{Death, DeathCause, FailureCause, Millis};

use super::outcome::News;
use super::policies::{parent_of, text};
use super::record::Record;
use super::{JobKind, Model, Name, Need, Place, State};

/// Why a ready job leaves its queue although no worker has failed.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Unserved {
    Expired,
    Dropped,
}

impl Model {
    /// Makes a job that has failed too often, or that an operator sets aside, a dead letter.
    /// Returns the record of this change.
    pub(super) fn give_up(
        &mut self,
        id: u64,
        news: &News,
        cause: DeathCause,
        worker: Option<Place>,
    ) -> Need {
        let queue = self.jobs[&id].queue.clone();
        let dead = self.queues[&queue].policy.dead.clone();
        let watchers = std::mem::take(&mut self.job_mut(id).watchers);
        if dead.target == DeadTarget::Drop || dead.jobs_max == 0 {
            self.keep_result(id, news);
            let need = self.remove_job(id);
            self.send_last_news(watchers, id, news, need);
            return need;
        }
        let has_failed = matches!(cause, DeathCause::Failed(_));
        let warnings = &self.jobs[&id].warnings;
        let error = match news {
            _ if !has_failed => &[][..],
            News::Exception(error) => &error[..error.len().min(DEAD_ERROR_BYTES_MAX)],
            _ => &warnings[warnings.len().saturating_sub(DEAD_ERROR_BYTES_MAX)..],
        };
        let mut death = Death {
            died: Millis(self.now),
            until: dead.keep_ms.map(|keep| Millis(self.now + keep)),
            cause,
            attempts: self.jobs[&id].attempts,
            origin: b""[..].into(),
            worker: worker.map(|place| place.to_string().into_bytes()).unwrap_or_default().into(),
            error: error.into(),
        };
        let is_requested =
            matches!(cause, DeathCause::Failed(FailureCause::Released) | DeathCause::Operator);
        let record = if is_requested { Record::Update } else { Record::Moved };
        let target = dead.target.queue_for(queue.as_bytes()).map(|name| text(&name));
        let target = target.filter(|name| {
            *self.real_name(name) != *queue
                && self.alias(name).is_none()
                && !self.policy(name).fanout_only
        });
        let holder = target.as_deref().map_or(Some(queue.clone()), |name| self.queue_named(name));
        if let Some(holder) = holder {
            let count = match cause {
                DeathCause::Failed(_) | DeathCause::Operator => DEATH_ENDS_MAX,
                DeathCause::Expired | DeathCause::Dropped => PUT_ENDS_MAX,
            };
            self.end_oldest_dead(&holder, dead.jobs_max - 1, count);
        }
        let need;
        if let Some(name) = target {
            death.origin = queue.as_bytes().into();
            let to = self.queue_like(&queue, &name);
            self.ensure_extra(&to);
            let now = self.now;
            let job = self.job_mut(id);
            (job.since, job.state) = (now, State::Ready);
            let created = job.created;
            let before = self.history.len();
            self.relocate(id, &to, (created, Some(death)), record);
            need = if self.history.len() > before { before + 1 } else { 0 };
        } else {
            self.ensure_extra(&queue);
            let order = self.next_buried;
            self.next_buried += 1;
            let job = self.job_mut(id);
            (job.state, job.death) = (State::Buried { order }, Some(death));
            if !has_failed {
                job.expires = None;
                if !is_requested {
                    self.set_aside.push(id);
                }
            }
            self.record(id, record);
            need = self.jobs[&id].need;
        }
        self.send_last_news(watchers, id, news, need);
        need
    }

    /// Ends a ready job, because it has expired or makes room. If the policy says so, it becomes a dead
    /// letter instead.
    pub(super) fn end_or_set_aside(&mut self, id: u64, why: Unserved) {
        if self.has_stayed(id) {
            return self.bury_again(id);
        }
        let job = &self.jobs[&id];
        let dead = &self.queues[&job.queue].policy.dead;
        let (is_wanted, cause) = match why {
            Unserved::Expired => (dead.expired, DeathCause::Expired),
            Unserved::Dropped => (dead.dropped, DeathCause::Dropped),
        };
        if is_wanted && job.death.is_none() && job.kind != JobKind::Watched {
            self.tally.letters += 1;
            self.give_up(id, &News::Fail, cause, None);
        } else {
            self.end_job(id, &News::Fail);
        }
    }

    /// True if a job is a dead letter that was buried in its own queue.
    pub(super) fn has_stayed(&self, id: u64) -> bool {
        self.jobs[&id].death.as_ref().is_some_and(|death| death.origin.is_empty())
    }

    /// Buries a ready dead letter again, as the letter that it is.
    fn bury_again(&mut self, id: u64) {
        let order = self.next_buried;
        self.next_buried += 1;
        let job = self.job_mut(id);
        (job.state, job.expires) = (State::Buried { order }, None);
        let watchers = std::mem::take(&mut job.watchers);
        self.set_aside.push(id);
        self.record(id, Record::Moved);
        let need = self.jobs[&id].need;
        self.send_last_news(watchers, id, &News::Fail, need);
    }

    /// The queue of this name. If the other queue is a queue of items, this one is one, too.
    pub(super) fn queue_like(&mut self, other: &Name, name: &str) -> Name {
        let is_items = self.queues[other].facts.is_items && parent_of(name).is_none();
        if is_items { self.item_queue(name) } else { self.create_queue(name) }
    }

    /// The dead letters of a queue that no client holds, in the order of their ends.
    fn dead_in(&self, queue: &Name) -> Vec<(u64, u64)> {
        let mut dead: Vec<(u64, u64)> = Vec::new();
        for (id, job) in self.jobs.iter().filter(|(_, job)| job.queue == *queue) {
            if let Some(death) = &job.death
                && !matches!(job.state, State::Leased(_))
            {
                dead.push((death.until.map_or(u64::MAX, |until| until.0), *id));
            }
        }
        dead.sort_unstable();
        dead
    }

    fn end_oldest_dead(&mut self, queue: &Name, max: u64, count: usize) {
        for _ in 0..count {
            let dead = self.dead_in(queue);
            if dead.len() as u64 <= max {
                break;
            }
            self.guarded(queue, |model| model.end_job(dead[0].1, &News::Fail));
        }
    }

    /// The moment at which the server ends a dead letter of a queue.
    pub(super) fn dead_moment(&self, queue: &Name) -> Option<u64> {
        let (until, _) = *self.dead_in(queue).first()?;
        Some(until.checked_add(1)?.max(self.queues[queue].sweep_rests_until))
    }

    pub(super) fn end_due_dead(&mut self, queue: &Name) {
        let now = self.now;
        if self.queues[queue].sweep_rests_until > now {
            return;
        }
        for (_, id) in self.dead_in(queue).into_iter().take_while(|(until, _)| *until < now) {
            self.end_job(id, &News::Fail);
        }
    }
}
