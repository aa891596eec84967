//! Observers: spans for traces, and milestones for the history of queues. The requests check one
//! flag, so a server without observers does nothing here.

use super::Engine;
use super::attempts::Failure;
use crate::effects::News;
use crate::ids::{JobId, JobSlot, LeaseId, Millis, QueueId, SessionId};
use crate::jobs::{Body, is_body_key};
use crate::kept_results::KeptResult;
use crate::limits::DEAD_ERROR_BYTES_MAX;
use crate::milestones::{AttemptEnd, Departure, JobEnd, Milestone, MilestoneKind};
use crate::policy::{History, KeptBody, Name};
use crate::sessions::Session;
use crate::spans::{LeaseEnd, Span, SpanKind};

/// A beginning of a body that is not longer than this is copied, so that the whole body can leave memory.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// The body or its beginning. `None`: the policy keeps nothing of it.
fn part_of(body: &Body, kept: KeptBody) -> Option<Body> {
    if kept == KeptBody::None {
        return None;
    }
    let bytes = kept.bytes_of(body.len());
    let is_copied = bytes < body.len() && bytes <= COPIED_BYTES_MAX;
    Some(if is_copied { Body::from(&body[..bytes]) } else { body.clone() })
}

impl Engine {
    /// Notes spans from now on: see [`Span`].
    pub fn note_spans(&mut self) {
        self.spans.switch_on();
        self.look_for_observers();
    }

    /// Takes the spans that ended since the last call, and the number of those that were dropped
    /// because the caller called too late.
    pub fn take_spans(&mut self) -> (Vec<Span>, u64) {
        self.spans.take()
    }

    /// Notes milestones from now on, of the jobs of queues whose policy keeps a history: see
    /// [`Milestone`].
    pub fn note_milestones(&mut self) {
        self.milestones.set_read();
        self.look_for_observers();
    }

    /// Whether [`Engine::take_milestones`] would return something.
    pub fn has_milestones(&self) -> bool {
        !self.milestones.is_empty()
    }

    /// Takes the milestones since the last call, and the number of those that were dropped because
    /// the caller called too late.
    pub fn take_milestones(&mut self) -> (Vec<Milestone>, u64) {
        self.milestones.take()
    }

    /// Must be called when an observer begins, and when the rules change.
    pub(super) fn look_for_observers(&mut self) {
        let keeps_history = self.milestones.is_read() && self.rules.keep_history();
        let keeps_results = self.rules.keep_results();
        if !keeps_results {
            self.kept_results.drop_all(self.now, &mut self.timers);
        }
        let has_results = keeps_results || !self.kept_results.is_empty();
        self.is_observed = self.spans.is_on() || keeps_history || has_results;
    }

    /// Bytes of memory of what the observers have not taken yet, and of kept results.
    #[cold]
    pub(super) fn observed_bytes(&self) -> u64 {
        self.spans.bytes() + self.milestones.bytes() + self.kept_results.bytes()
    }

    /// What the policy of a queue keeps of its jobs. `None`: nothing, or nobody reads milestones.
    fn history_of(&self, queue: QueueId) -> Option<History> {
        if !self.milestones.is_read() {
            return None;
        }
        self.policy_of(queue).map(|policy| policy.history).filter(|history| history.is_on)
    }

    /// Whether somebody keeps the history of a job.
    pub fn keeps_history(&self, slot: JobSlot) -> bool {
        self.is_observed && self.history_of(self.jobs[slot].queue()).is_some()
    }

    /// Observes that a job was handed out, to the holder of a lease or for good.
    #[cold]
    pub(super) fn observe_hand_out(
        &mut self,
        slot: JobSlot,
        holder: Option<(LeaseId, SessionId)>,
        waits_since: Millis,
    ) {
        if self.spans.is_on() {
            self.note_span(SpanKind::Wait, slot, holder.map(|(lease, _)| lease), waits_since);
        }
        if self.keeps_history(slot) && !self.milestones.drops() {
            let session = holder.and_then(|(_, session)| self.sessions.find(session));
            let worker = session.map(Session::peer).unwrap_or_default().into();
            let waited_ms = self.now.since(waits_since);
            self.note_milestone(slot, MilestoneKind::Taken { waited_ms, worker });
        }
    }

    /// Observes that a lease ended, which began this long ago.
    #[cold]
    pub(super) fn observe_lease_end(
        &mut self,
        slot: JobSlot,
        lease: LeaseId,
        leased_ms: u64,
        end: LeaseEnd,
    ) {
        if self.spans.is_on() {
            let taken = Millis(self.now.0.saturating_sub(leased_ms));
            self.note_span(SpanKind::Lease(end), slot, Some(lease), taken);
        }
        match end {
            LeaseEnd::Buried if self.keeps_history(slot) => {
                let error = self.warnings.get(lease).into();
                let what = MilestoneKind::Returned { how: AttemptEnd::Buried, error };
                self.note_milestone(slot, what);
            }
            // The end of the job ends the attempt, and `observe_failure` has the reason of a failure.
            LeaseEnd::Buried
            | LeaseEnd::JobEnded
            | LeaseEnd::GivenBack
            | LeaseEnd::Lost
            | LeaseEnd::Failed => {}
        }
    }

    /// Observes that an attempt failed. The lease still exists.
    #[cold]
    pub(super) fn observe_failure(&mut self, slot: JobSlot, failure: Failure<'_>) {
        if !self.keeps_history(slot) {
            return;
        }
        let error = if let Failure::Reported(News::Exception(error)) = failure {
            error[..error.len().min(DEAD_ERROR_BYTES_MAX)].into()
        } else {
            let lease = self.jobs[slot].lease();
            lease.map(|lease| self.warnings.get(lease.id)).unwrap_or_default().into()
        };
        let how = AttemptEnd::Failed(failure.cause());
        self.note_milestone(slot, MilestoneKind::Returned { how, error });
    }

    /// Observes that a job leaves its queue: it ends, or moves to another queue.
    #[cold]
    pub(super) fn observe_departure(&mut self, slot: JobSlot, why: JobEnd, to: Option<QueueId>) {
        if why == JobEnd::Followed {
            return;
        }
        let job = &self.jobs[slot];
        let Some(history) = self.history_of(job.queue()) else { return };
        if self.milestones.drops() {
            return;
        }
        let body = job.body().resident().and_then(|body| part_of(body, history.body));
        let name_of = |queue: QueueId| -> Name { self.queues[queue].name().into() };
        let left = Departure {
            queue: name_of(job.queue()),
            history,
            why,
            to: to.map(name_of),
            created: job.created(),
            priority: job.priority(),
            ttr_s: job.ttr_s(),
            takes: job.counters().takes,
            body_len: job.body_len(),
            body,
        };
        self.note_milestone(slot, MilestoneKind::Left(Box::new(left)));
    }

    /// Keeps the outcome of a submitted job that ends with this news, if the policy of its queue says so.
    #[cold]
    pub(super) fn keep_result(&mut self, slot: JobSlot, news: &News) {
        let job = &self.jobs[slot];
        if !job.is_submitted() || !self.rules.keep_results() {
            return;
        }
        let keep_ms = self.policy_of(job.queue()).and_then(|policy| policy.result_keep_ms);
        let Some(keep_ms) = keep_ms else { return };
        let (numerator, denominator) = job.progress();
        // A client cannot ask with a body as the key.
        let unique = if is_body_key(job.unique()) { b"" } else { job.unique() };
        let kept = KeptResult {
            until: Millis(self.now.0.saturating_add(keep_ms)),
            numerator,
            denominator,
            news: news.clone(),
            unique: unique.into(),
        };
        let removed = self.kept_results.insert(job.id(), kept, self.now, &mut self.timers);
        self.meter.count(removed);
    }

    /// A job ends, with or without an outcome. The outcome of an earlier job with its key must not pass
    /// for its own.
    #[cold]
    pub(super) fn hide_older_result(&mut self, slot: JobSlot) {
        let job = &self.jobs[slot];
        self.kept_results.ended(job.unique(), job.id());
    }

    /// Removes outcomes that must leave the memory, as many as the slice allows.
    pub(super) fn end_results(&mut self) {
        self.kept_results.take_timer();
        while !self.meter.request_is_spent() && self.kept_results.remove_one(self.now) {
            self.meter.count(1);
        }
        self.kept_results.arm(&mut self.timers, self.now);
        self.look_for_observers();
    }

    /// Limits the memory of kept outcomes. If they take more, those that end first leave the memory in
    /// slices.
    pub fn set_results_limit(&mut self, bytes_max: usize) {
        self.kept_results.set_bytes_max(bytes_max, self.now, &mut self.timers);
    }

    /// The outcome of a job that has ended. `None`: the policy of its queue keeps none, or its time is
    /// over.
    pub fn kept_result(&self, id: JobId) -> Option<&KeptResult> {
        self.kept_results.get(id, self.now)
    }

    /// The outcome of the last job with this key that has ended.
    pub fn kept_result_with_key(&self, unique: &[u8]) -> Option<&KeptResult> {
        self.kept_results.with_key(unique, self.now)
    }

    fn note_milestone(&mut self, slot: JobSlot, what: MilestoneKind) {
        let job = self.jobs[slot].id();
        self.milestones.note(Milestone { job, at: self.now, what });
    }

    /// Notes a span of a job that began at `from` and ends now.
    fn note_span(&mut self, kind: SpanKind, slot: JobSlot, lease: Option<LeaseId>, from: Millis) {
        let job = &self.jobs[slot];
        self.spans.note(Span {
            kind,
            job: job.id(),
            lease,
            queue: self.queues[job.queue()].name().into(),
            from,
            to: self.now,
            takes: job.counters().takes,
            body: job.body(),
        });
    }
}
