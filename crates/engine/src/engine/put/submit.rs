//! Submitting, as in Gearman: a put into a queue that the request names. A submit joins an
//! unfinished job that has the same key. In the foreground, the session watches the job. In the
//! background, the job is durable.

use crate::effects::{Effects, Event, Record};
use crate::engine::Engine;
use crate::engine::put::route::{Refused, Route};
use crate::engine::put::{KnownKeys, Offer};
use crate::ids::{JobId, JobSlot, QueueId, SessionId};
use crate::jobs::{Band, Body, Draft, JobKind, State, is_body_key};
use crate::limits::{ATTACHMENTS_MAX, SAME_KEY_MAX, UNIT_BODY_BYTES, WATCHERS_MAX};
use crate::policy::{PRIORITY_DEFAULT, Unsent};
use crate::wall::When;

/// A job to submit.
#[derive(Clone, Debug)]
pub struct Submit<'a> {
    /// The priority. 0 is the most urgent. `None`: as the queue's policy says, usually 1024.
    pub priority: Option<u32>,
    /// When the job becomes ready. `None`: as the queue's policy says, usually at once.
    pub due: Option<When>,
    /// The key. The submit joins an unfinished job of the same queue with the same key. Empty: the
    /// submit joins no job. `-`: the body is the key.
    pub unique: &'a [u8],
    /// The reducer: a word for the worker. Only some workers get it.
    pub reducer: &'a [u8],
    /// The body of the job.
    pub body: Body,
    /// True for a foreground job: the session watches the job. False for a background job: the job
    /// is durable.
    pub foreground: bool,
}

impl Engine {
    /// Submits a job, or joins a job with the same key. Returns the number of the job.
    ///
    /// Besides a full queue, [`Refused::QueueFull`] has these reasons:
    ///
    /// - The queue has reached its limit of unfinished jobs for this priority band.
    /// - The job to join has the maximum number of attachments, from this session or in total.
    /// - The submit is a foreground submit, and no queue stored the job.
    pub fn submit(
        &mut self,
        session: SessionId,
        name: &[u8],
        submit: Submit<'_>,
        effects: &mut Effects,
    ) -> Result<JobId, Refused> {
        self.meter.begin_request();
        if self.alias(name).is_some() {
            let route = self.route_to(name, false, effects);
            return self.submit_along(route, session, &submit, effects);
        }
        let queue = self.queue_or_create(name);
        self.keep(queue, effects);
        if let Some(slot) = self.find_unique(queue, submit.unique, &submit.body) {
            self.join(slot, session, submit.foreground, effects)?;
            return Ok(self.jobs[slot].id());
        }
        let band = Band::of(submit.priority.unwrap_or(PRIORITY_DEFAULT));
        let full = &self.queues[queue];
        let limit = full.limits()[band as usize];
        let is_full = limit > 0 && full.counts().total() >= u64::from(limit);
        let has_policy = full.extension().is_some();
        let keys = KnownKeys::default();
        if is_full && !(has_policy && self.is_duplicate(queue, Offer::of(&submit, &keys))) {
            return Err(Refused::QueueFull);
        }
        if has_policy {
            let route = self.route_to(name, false, effects);
            return self.submit_along(route, session, &submit, effects);
        }
        let kind = if submit.foreground { JobKind::Watched } else { JobKind::Logged };
        let draft = self.draft_of(&submit);
        let slot = self.insert_job(queue, draft, kind);
        self.note(Record::Put, slot, effects);
        self.become_submitted(slot, session, &submit);
        self.list_new_job(slot, effects);
        Ok(self.jobs[slot].id())
    }

    /// An upper bound for the bytes of the body that this submit adds to the log. Usually it is the
    /// length of the submit's own body. But a background submit can join a foreground job and make
    /// the joined job durable. Then the log stores the body of the joined job. The two bodies can
    /// differ, although the keys are equal.
    pub fn submit_bytes(&self, name: &[u8], submit: &Submit<'_>) -> usize {
        let own = submit.body.len();
        if submit.foreground || submit.unique.is_empty() || self.jobs.unlogged() == 0 {
            return own;
        }
        let queue = self.queue_id(name);
        let joined = queue.and_then(|id| self.find_unique(id, submit.unique, &submit.body));
        joined.map_or(own, |slot| self.jobs[slot].body_len().max(own))
    }

    /// Submits a job along a route of several queues, or into one queue with a policy.
    fn submit_along(
        &mut self,
        route: Route,
        session: SessionId,
        submit: &Submit<'_>,
        effects: &mut Effects,
    ) -> Result<JobId, Refused> {
        let draft = self.draft_of(submit);
        let routed = self.put_along(route, &draft, (submit.unique, Some(session)), effects);
        if let Some(refused) = routed.refused {
            // One destination of an alias stored the job, and another destination refused it. The
            // client gets an error and does not watch the job. So the job must not depend on
            // watchers.
            if let Some(slot) = routed.requested {
                self.outlive_watchers(slot, effects);
            }
            return Err(refused);
        }
        match (routed.requested, routed.same, routed.first) {
            (Some(slot), ..) => self.become_submitted(slot, session, submit),
            (None, Some(same), _) if submit.foreground => {
                // Room for a job at a later destination can have ended this one, or made it a dead letter.
                let is_alive = |slot: &JobSlot| self.jobs[*slot].death().is_none();
                let same = self.jobs.find(same).filter(is_alive).ok_or(Refused::QueueFull)?;
                self.join(same, session, true, effects)?;
            }
            (None, None, Some(copy)) if submit.foreground => self.attach(copy, session),
            // No queue stored the job, so a client that waits would never get a result.
            (None, None, None) if submit.foreground => {
                let Some(ended) = routed.ended else { return Err(Refused::QueueFull) };
                let kept = self.kept_result(ended).map(|kept| kept.news.clone());
                let news = kept.ok_or(Refused::Duplicate)?;
                // An earlier request ended the job.
                effects.events.push((session, Event::News { id: ended, news, late: true }));
            }
            (None, ..) => {}
        }
        self.answer(&routed)
    }

    fn draft_of(&self, submit: &Submit<'_>) -> Draft {
        Draft {
            priority: submit.priority.unwrap_or(PRIORITY_DEFAULT),
            due: submit.due.unwrap_or(When::At(self.now)),
            delay_s: 0,
            ttr_s: 0,
            unsent: Unsent {
                ttr: true,
                priority: submit.priority.is_none(),
                delay: submit.due.is_none(),
            },
            expires: None,
            reducer: Some(submit.reducer.into()),
            foreground: submit.foreground,
            body: submit.body.clone(),
        }
    }

    /// Gives the job in the requested queue the key of the submit. After a foreground submit, the
    /// session also becomes a watcher of this job. The copies in other queues get no key and no
    /// watcher.
    fn become_submitted(&mut self, slot: JobSlot, session: SessionId, submit: &Submit<'_>) {
        self.jobs.set_unique(slot, submit.unique);
        if submit.foreground {
            self.attach(slot, session);
        }
    }

    fn join(
        &mut self,
        slot: JobSlot,
        session: SessionId,
        foreground: bool,
        effects: &mut Effects,
    ) -> Result<(), Refused> {
        if !foreground {
            self.outlive_watchers(slot, effects);
            return Ok(());
        }
        let attached = self.sessions[session].watching().get(&self.jobs[slot].id());
        let has_enough = self.jobs[slot].watchers().len() >= WATCHERS_MAX;
        if has_enough || attached.is_some_and(|count| *count >= ATTACHMENTS_MAX) {
            return Err(Refused::QueueFull);
        }
        self.attach(slot, session);
        Ok(())
    }

    /// Makes a job independent of its watchers. Afterwards it does not end when its last watcher
    /// leaves. A job that only the memory has also gets into the log, if the policy of its queue says
    /// so by now.
    pub(in crate::engine) fn outlive_watchers(&mut self, slot: JobSlot, effects: &mut Effects) {
        if self.jobs[slot].is_logged() {
            return;
        }
        let kind = self.kind_in(self.jobs[slot].queue());
        if self.jobs[slot].kind() != kind {
            self.jobs.set_kind(slot, kind);
            self.note(Record::Put, slot, effects);
        }
    }

    /// The oldest unfinished job with this key in any queue. The search looks at no more than
    /// [`SAME_KEY_MAX`] jobs. If there are more jobs with this key, the search can miss the oldest
    /// job.
    pub fn find_key(&self, unique: &[u8]) -> Option<JobId> {
        let found = self.same_keys(unique).filter_map(|(_, slot)| slot);
        found.filter(|slot| self.jobs[*slot].unique() == unique).map(|slot| self.id_of(slot)).min()
    }

    /// The jobs that [`Engine::find_key`] compares.
    fn same_keys(&self, unique: &[u8]) -> impl Iterator<Item = (JobId, Option<JobSlot>)> {
        self.jobs.with_key(unique).take(SAME_KEY_MAX).inspect(|_| self.meter.count(1))
    }

    /// A cold job that must be in memory before a submit with this key into this queue, because it
    /// may be the job to join. `None` as the queue: before [`Engine::find_key`], because it may be the
    /// job to find. Only the hash of its key is known.
    pub fn cold_with_key(&self, queue: Option<&[u8]>, unique: &[u8]) -> Option<JobId> {
        // The body of a job is not its key if the job can be cold.
        if !self.jobs.have_cold_keys() || is_body_key(unique) {
            return None;
        }
        let (id, slot) = if let Some(name) = queue {
            let mut same = self.unique_in(self.queue_id(name)?, unique, b"");
            same.find(|(_, slot)| slot.is_none_or(|slot| self.can_join(slot, unique, b"")))?
        } else {
            let same = self.same_keys(unique);
            same.filter(|(_, slot)| slot.is_none_or(|slot| self.jobs[slot].unique() == unique))
                .min_by_key(|(id, _)| *id)?
        };
        slot.is_none().then_some(id)
    }

    /// The oldest job that a submit with this key can join.
    pub(in crate::engine) fn find_unique(
        &self,
        queue: QueueId,
        unique: &[u8],
        body: &[u8],
    ) -> Option<JobSlot> {
        if is_body_key(unique) {
            // The search hashes the body, and compares it with the body of the job that it finds.
            self.meter.count(body.len() / UNIT_BODY_BYTES);
        }
        let mut found = self.unique_in(queue, unique, body).filter_map(|(_, slot)| slot);
        found.find(|slot| self.can_join(*slot, unique, body))
    }

    /// The jobs of a queue that a submit with this key can perhaps join, oldest first.
    fn unique_in(
        &self,
        queue: QueueId,
        unique: &[u8],
        body: &[u8],
    ) -> impl Iterator<Item = (JobId, Option<JobSlot>)> {
        let jobs = self.jobs.with_key_in(queue, unique, body).inspect(|_| self.meter.count(1));
        // The key of a job that could not be read may be of an earlier queue with this number.
        jobs.filter(move |(_, slot)| slot.is_none_or(|slot| self.jobs[slot].queue() == queue))
    }

    fn can_join(&self, slot: JobSlot, unique: &[u8], body: &[u8]) -> bool {
        // An expired job still exists until a request or a timer ends it. A submit must not join such
        // a job.
        let ends = self.jobs[slot].state() != State::Leased && self.is_expired(slot);
        !ends && self.jobs.is_same(slot, unique, body)
    }
}
