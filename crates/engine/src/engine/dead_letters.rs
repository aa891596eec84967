//! Dead letters: jobs that have failed too often, and if the policy says so, jobs that expire or make room,
//! and jobs that an operator sets aside (`set_aside.rs`). They are buried in their queue, or move to
//! another queue, with the reason. The server ends them at their last moment, or if there are too many.
//! [`Engine::redrive`] brings them back.

use std::sync::Arc;

use super::Engine;
use super::attempts::{Failure, LastWords};
use crate::claims::ClaimKey;
use crate::effects::{Effects, News, Record};
use crate::ids::{JobId, JobSlot, Millis, QueueId};
use crate::jobs::{Death, DeathCause, FailureCause, JobKind, State};
use crate::limits::{DEATH_ENDS_MAX, PUT_ENDS_MAX, QUEUE_NAME_BYTES_MAX, UNIT_BODY_BYTES};
use crate::milestones::JobEnd;
use crate::policy::{DeadTarget, Key, Name, UniqueWindow};
use crate::queues::{Extension, parent_of};

/// Why a job was not brought back. Nothing has changed.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RedriveRefused {
    /// The job does not exist.
    #[error("the job does not exist")]
    NotFound,
    /// A session holds the job.
    #[error("a worker holds the job")]
    Leased,
    /// The job is neither a dead letter nor buried.
    #[error("the job is neither a dead letter nor buried")]
    NotDead,
    /// The queue that it came from stores no jobs by now: its name is an alias, or its policy has
    /// `fanout_only`.
    #[error("the queue that the job came from stores no jobs")]
    StoresNothing,
    /// Another job has its key by now, and the policy `unique` of the queue counts.
    #[error("another job has its key; the policy `unique` of the queue allows one")]
    KeyTaken,
}

/// Why a ready job leaves its queue although no worker has failed.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Unserved {
    /// It has expired.
    Expired,
    /// A queue has no room for it.
    Dropped,
}

impl Failure<'_> {
    pub(super) fn cause(&self) -> FailureCause {
        match self {
            Self::TimedOut => FailureCause::TimedOut,
            Self::Aborted => FailureCause::Aborted,
            Self::HolderLeft { .. } => FailureCause::HolderLeft,
            Self::Released { .. } => FailureCause::Released,
            Self::Reported(_) => FailureCause::Reported,
        }
    }
}

impl From<Unserved> for DeathCause {
    fn from(why: Unserved) -> Self {
        match why {
            Unserved::Expired => Self::Expired,
            Unserved::Dropped => Self::Dropped,
        }
    }
}

impl DeathCause {
    /// Why the job leaves its queue.
    fn job_end(self) -> JobEnd {
        match self {
            Self::Failed(_) | Self::Operator => JobEnd::Dead,
            Self::Expired => JobEnd::Expired,
            Self::Dropped => JobEnd::Dropped,
        }
    }

    /// Whether a client requested what made the job a dead letter. If the log had no room, the client
    /// was refused.
    fn is_requested(self) -> bool {
        matches!(self, Self::Failed(FailureCause::Released) | Self::Operator)
    }
}

impl Engine {
    /// Makes a job without a lease a dead letter, as the policy of its queue says. Its watchers get
    /// the last news.
    pub(super) fn give_up(
        &mut self,
        slot: JobSlot,
        failure: Failure<'_>,
        last: LastWords,
        effects: &mut Effects,
    ) {
        let news = if let Failure::Reported(news) = failure { news } else { &News::Fail };
        self.set_aside(slot, DeathCause::Failed(failure.cause()), last, news, effects);
    }

    /// Ends a ready job that has expired or makes room. If the policy of its queue says so, the job becomes
    /// a dead letter instead. A dead letter that was buried in this queue is buried again.
    pub(super) fn end_or_set_aside(&mut self, slot: JobSlot, why: Unserved, effects: &mut Effects) {
        if self.has_stayed(slot) {
            return self.bury_again(slot, effects);
        }
        let job = &self.jobs[slot];
        let dead = self.policy_of(job.queue()).map(|policy| &policy.dead);
        let is_wanted = dead.is_some_and(|dead| match why {
            Unserved::Expired => dead.expired,
            Unserved::Dropped => dead.dropped,
        });
        let cause = DeathCause::from(why);
        // A dead letter never becomes another one. The clients of a watched job wait for its end.
        if !is_wanted || job.death().is_some() || job.kind() == JobKind::Watched {
            return self.end_job(slot, cause.job_end(), &News::Fail, effects);
        }
        self.set_aside(slot, cause, LastWords::default(), &News::Fail, effects);
    }

    /// Whether a job is a dead letter that was buried in its own queue.
    pub(super) fn has_stayed(&self, slot: JobSlot) -> bool {
        self.jobs[slot].death().is_some_and(|death| death.origin.is_empty())
    }

    /// Whether the queue of a dead letter counted it as expired or discarded when it became one. Then its
    /// end is not another loss. Another letter, or one that has moved, is new to these counters.
    fn has_counted_death(&self, slot: JobSlot) -> bool {
        let is_counted =
            |death: &Death| matches!(death.cause, DeathCause::Expired | DeathCause::Dropped);
        self.has_stayed(slot) && self.jobs[slot].death().is_some_and(is_counted)
    }

    /// Buries a ready dead letter that was buried before, taken and given back. It stays the letter that
    /// it is, so its own bounds still hold, and nothing counts it again. Clients that have joined it
    /// meanwhile get the last news.
    pub(super) fn bury_again(&mut self, slot: JobSlot, effects: &mut Effects) {
        self.remove_from_list(slot);
        // It would expire again at once when somebody gives it back.
        self.jobs.forget_expiry(slot);
        self.jobs.deal_buried_order(slot);
        self.change_state(slot, State::Buried);
        self.note(Record::Moved, slot, effects);
        self.add_to_list(slot);
        self.send_last_news(slot, &News::Fail, effects);
    }

    /// Makes a job without a lease a dead letter, as the policy of its queue says. It is in a list, or its
    /// lease has just ended.
    pub(super) fn set_aside(
        &mut self,
        slot: JobSlot,
        cause: DeathCause,
        last: LastWords,
        news: &News,
        effects: &mut Effects,
    ) {
        let queue = self.jobs[slot].queue();
        let dead = self.policy_of(queue).map(|policy| policy.dead.clone()).unwrap_or_default();
        if dead.target == DeadTarget::Drop || dead.jobs_max == 0 {
            return self.end_job(slot, cause.job_end(), news, effects);
        }
        let mut death = Death {
            died: self.now,
            until: dead.keep_ms.map(|keep| Millis(self.now.0.saturating_add(keep))),
            cause,
            attempts: self.jobs[slot].attempts(),
            origin: Arc::default(),
            worker: last.worker,
            error: last.error,
        };
        let target = self.queue_for_dead(queue, &dead.target);
        // The owner has asked whether the server has room for a queue that an operator needs.
        let may_make_queue = !self.memory_is_full || cause == DeathCause::Operator;
        let target = target.filter(|name| may_make_queue || self.queue_id(name).is_some());
        // Make room first: a waiting client can get or see the new letter at once, so that one stays.
        let holder = target.as_ref().map_or(Some(queue), |name| self.queue_id(name));
        if let Some(holder) = holder {
            let count = match cause {
                DeathCause::Failed(_) | DeathCause::Operator => DEATH_ENDS_MAX,
                DeathCause::Expired | DeathCause::Dropped => PUT_ENDS_MAX,
            };
            self.end_oldest_dead(holder, dead.jobs_max - 1, count, effects);
        }
        if self.jobs[slot].state() != State::Leased {
            self.remove_from_list(slot);
            // It would expire again when it comes back.
            self.jobs.forget_expiry(slot);
        }
        if let Some(name) = &target {
            death.origin = self.queues[queue].name().into();
            self.move_dead(slot, name, death, effects);
        } else {
            self.ensure_extension(queue);
            self.jobs.deal_buried_order(slot);
            if self.jobs[slot].state() != State::Buried {
                self.change_state(slot, State::Buried);
            }
            self.jobs.set_death(slot, death);
            let record = if cause.is_requested() { Record::Update } else { Record::Moved };
            self.note(record, slot, effects);
            self.add_to_list(slot);
        }
        self.send_last_news(slot, news, effects);
    }

    /// The name of the queue that gets the dead letters of a queue. `None`: they stay.
    pub(super) fn queue_for_dead(&self, queue: QueueId, target: &DeadTarget) -> Option<Name> {
        let own = self.queues[queue].name();
        if own.is_empty() {
            // An empty origin means that the letter has not moved.
            return None;
        }
        let name = target.queue_for(own).filter(|name| *self.real_name(name) != *own)?;
        let is_possible = (1..=QUEUE_NAME_BYTES_MAX).contains(&name.len())
            && self.alias(&name).is_none()
            && !self.look_up_policy(&name).fanout_only;
        is_possible.then_some(name)
    }

    /// Moves a dead letter to its queue, where it is ready. It keeps its age, and no limit of the
    /// queue refuses it.
    fn move_dead(&mut self, slot: JobSlot, to: &[u8], death: Death, effects: &mut Effects) {
        let from = self.jobs[slot].queue();
        let to = self.queue_like(from, to, effects);
        self.ensure_extension(to);
        self.jobs[slot].set_due(self.now);
        if self.jobs[slot].state() != State::Ready {
            self.change_state(slot, State::Ready);
        }
        let created = self.jobs[slot].created();
        if self.is_observed {
            self.observe_departure(slot, death.cause.job_end(), Some(to));
        }
        self.jobs.forget_expiry(slot);
        self.relocate(slot, to, created, death.cause.is_requested(), effects);
        self.jobs.set_death(slot, death);
        self.enlist(slot, effects);
        self.drop_if_unwanted(from, effects);
    }

    /// The queue of this name. If the other queue is a queue of items, this one becomes one, too, but
    /// never a child.
    fn queue_like(&mut self, other: QueueId, name: &[u8], effects: &mut Effects) -> QueueId {
        let items = self.queues[other].extension().is_some_and(Extension::items);
        if items && parent_of(name).is_none() {
            self.item_queue(name, effects)
        } else {
            self.queue_or_create(name)
        }
    }

    /// Ends dead letters of a queue until it has at most `max`, but not more than `count`. The queue
    /// stays in existence, because it gets another one.
    fn end_oldest_dead(&mut self, queue: QueueId, max: u64, count: usize, effects: &mut Effects) {
        self.queues[queue].hold();
        for _ in 0..count {
            if self.jobs.dead_count(queue) <= max {
                break;
            }
            let Some((_, id)) = self.jobs.next_dead(queue, None) else { break };
            let Ok(slot) = self.slot(id) else { break };
            if !self.has_counted_death(slot)
                && let Some(extension) = self.queues[queue].extension_mut()
            {
                extension.discarded += 1;
            }
            self.end_job(slot, JobEnd::Dropped, &News::Fail, effects);
        }
        self.queues[queue].release();
        self.arm_queue(queue);
    }

    /// The moment at which the queue's timer must end a dead letter.
    pub(super) fn next_dead_end(&self, queue: QueueId, extension: &Extension) -> Option<Millis> {
        let (until, _) = self.jobs.next_dead(queue, None)?;
        let moment = Millis(until.0.checked_add(1)?);
        Some(moment.max(extension.sweep_rests_until))
    }

    /// Ends the dead letters of a queue whose last moment is over, as many as the slice of work
    /// allows. Like a sweep, it rests while the log has too many unwritten bytes.
    pub(super) fn end_due_dead(&mut self, queue: QueueId, effects: &mut Effects) {
        while !self.meter.request_is_spent()
            && let Some(extension) = self.queues[queue].extension()
            && extension.sweep_rests_until <= self.now
            && let Some((until, id)) = self.jobs.next_dead(queue, None)
            && until < self.now
            && let Some(slot) = self.jobs.find(id)
        {
            if !self.has_counted_death(slot)
                && let Some(extension) = self.queues[queue].extension_mut()
            {
                extension.expired += 1;
            }
            self.end_job(slot, JobEnd::Expired, &News::Fail, effects);
        }
    }

    /// Brings a dead letter back: it is ready in the queue that it came from, and can fail as often as
    /// a new job. Also makes a buried job ready that is no dead letter. No limit applies, because the
    /// job comes back.
    pub fn redrive(&mut self, id: JobId, effects: &mut Effects) -> Result<(), RedriveRefused> {
        self.meter.begin_request();
        self.check_redrive(id)?;
        let slot = self.slot(id).map_err(|_| RedriveRefused::NotFound)?;
        let job = &self.jobs[slot];
        let (state, from) = (job.state(), job.queue());
        let origin = job.death().map(|death| death.origin.clone());
        match (state, origin) {
            (State::Leased, _) | (State::Ready | State::Delayed, None) => {}
            (State::Buried, None) => {
                self.remove_from_list(slot);
                self.kick_delisted(slot, effects);
            }
            (State::Delayed | State::Buried, Some(origin)) if origin.is_empty() => {
                self.remove_from_list(slot);
                self.jobs.revive(slot);
                self.kick_delisted(slot, effects);
            }
            (State::Ready, Some(origin)) if origin.is_empty() => {
                self.remove_from_list(slot);
                self.jobs.revive(slot);
                // From now on, it can expire, so its age is new.
                self.jobs[slot].set_due(self.now);
                self.note(Record::Update, slot, effects);
                self.add_to_list(slot);
            }
            (State::Ready | State::Delayed | State::Buried, Some(origin)) => {
                self.remove_from_list(slot);
                let to = self.queue_like(from, &origin, effects);
                self.jobs[slot].set_due(self.now);
                if state != State::Ready {
                    self.change_state(slot, State::Ready);
                }
                let created = self.jobs[slot].created();
                if self.is_observed {
                    self.observe_departure(slot, JobEnd::Moved, Some(to));
                }
                self.relocate(slot, to, created, true, effects);
                self.enlist(slot, effects);
                self.drop_if_unwanted(from, effects);
            }
        }
        Ok(())
    }

    /// Says why [`Engine::redrive`] would not bring a job back now.
    pub fn check_redrive(&self, id: JobId) -> Result<(), RedriveRefused> {
        let slot = self.slot(id).map_err(|_| RedriveRefused::NotFound)?;
        let job = &self.jobs[slot];
        let death = job.death();
        match job.state() {
            State::Leased => return Err(RedriveRefused::Leased),
            State::Ready | State::Delayed if death.is_none() => {
                return Err(RedriveRefused::NotDead);
            }
            State::Ready | State::Delayed | State::Buried => {}
        }
        let origin = self.origin_of_dead(slot);
        if self.key_is_taken(slot, origin.unwrap_or(self.queues[job.queue()].name())) {
            return Err(RedriveRefused::KeyTaken);
        }
        if let Some(origin) = origin
            && (self.alias(origin).is_some() || self.look_up_policy(origin).fanout_only)
        {
            return Err(RedriveRefused::StoresNothing);
        }
        Ok(())
    }

    /// The name of the queue that a redrive would bring a dead letter to. `None`: it is no dead letter,
    /// or has stayed in its queue.
    pub fn origin_after_redrive(&self, id: JobId) -> Option<&[u8]> {
        self.origin_of_dead(self.slot(id).ok()?)
    }

    /// The key that a job would have after a redrive, in the queue that it would come to, if the policy
    /// of this queue counts it. Of several dead letters with one key, only one can come back.
    pub fn key_after_redrive(&self, id: JobId) -> Option<ClaimKey> {
        let slot = self.slot(id).ok()?;
        let key = self.jobs.unique_key(id)?;
        let job = &self.jobs[slot];
        let name = self.origin_of_dead(slot).unwrap_or(self.queues[job.queue()].name());
        let name = &*self.real_name(name);
        let policy = self.look_up_policy(name);
        let unique = &policy.unique;
        let is_counted = match unique.window {
            UniqueWindow::UntilDone | UniqueWindow::UntilStart => true,
            UniqueWindow::For(millis) => job.created().0.saturating_add(millis) > self.now.0,
        };
        (unique.by.is_some() && is_counted).then(|| ClaimKey::new(name, key))
    }

    /// Whether a key of a job has these bytes, by the policy of the queue that a redrive would bring it
    /// to: its unique key, or the key that the limits count for. Only keys that are shown count.
    pub fn has_key(&self, id: JobId, bytes: &[u8], is_shown: impl Fn(&Key) -> bool) -> bool {
        let Ok(slot) = self.slot(id) else { return false };
        let queue = self.queues[self.jobs[slot].queue()].name();
        let policy = self.look_up_policy(self.origin_of_dead(slot).unwrap_or(queue));
        let hash = |key: &Key| {
            self.meter.count(bytes.len() / UNIT_BODY_BYTES);
            key.hash_of(bytes)
        };
        let unique = policy.unique.by.as_ref().filter(|&key| is_shown(key)).map(hash);
        let group = policy.group_key().filter(|&key| is_shown(key)).map(hash);
        unique.is_some() && unique == self.jobs.unique_key(id)
            || group.is_some_and(|group| group == self.jobs.group_key(id))
    }

    /// The queue that a dead letter came from. `None`: it is no dead letter, or has stayed.
    fn origin_of_dead(&self, slot: JobSlot) -> Option<&[u8]> {
        self.jobs[slot].death().map(|death| &*death.origin).filter(|origin| !origin.is_empty())
    }

    /// The next dead letter of a queue in the order of their ends, after this one, or the first one.
    /// Skips those that sessions hold.
    pub fn next_dead_letter(
        &self,
        queue: QueueId,
        after: Option<(Millis, JobId)>,
    ) -> Option<(Millis, JobId)> {
        self.jobs.next_dead(queue, after)
    }
}
