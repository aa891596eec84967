//! Checks the invariants by a walk over all tables, for tests and the simulator. Each table checks
//! its own invariants. This module checks the invariants between the tables.

use std::collections::BTreeMap;

use super::Engine;
use super::take::Asker;
use crate::chores::Chore;
use crate::ids::{JobId, JobSlot, QueueId, SessionId};
use crate::jobs::{Counts, Job, JobList, State};
use crate::queues::Queue;
use crate::sessions::{Sessions, Waiting, Worker};
use crate::timers::TimerKey;

impl Engine {
    /// Walks all tables. Panics if the tables disagree. Takes time in proportion to the number of
    /// jobs, queues and sessions.
    pub fn check_invariants(&self) {
        self.jobs.check_invariants();
        self.queues.check_invariants();
        self.sessions.check_invariants();
        self.news_queue.check_invariants();
        self.claims.check_invariants();
        self.notes.check_invariants();
        self.kept_results.check_invariants();
        self.room.check_invariants();
        self.check_timers();
        self.check_expiry();
        self.check_queues();
        self.check_sessions();
        self.check_references();
        self.check_watchers();
        self.check_workers();
        self.check_wall();
        self.check_outlasting_keys();
    }

    /// Checks that the jobs are counted whose ends can make claims.
    fn check_outlasting_keys(&self) {
        let outlasts = |job: &&Job| {
            let policy = self.policy_of(job.queue());
            let has_key = job.death().is_none() && self.jobs.unique_key(job.id()).is_some();
            has_key && policy.is_some_and(|policy| policy.unique.outlasts_jobs())
        };
        let count = self.jobs.iter().map(|(_, job)| job).filter(outlasts).count() as u64;
        assert_eq!(self.jobs.outlasting_keys(), count, "the memory of claims is reserved");
    }

    /// Checks that each timer has the same moment in the table and in the field of its owner.
    fn check_timers(&self) {
        for (at, key) in self.timers.iter() {
            let held = match key {
                TimerKey::Queue(place) | TimerKey::QueueAgain(place) => {
                    self.queues[QueueId(place)].timer()
                }
                TimerKey::Session(place) | TimerKey::SessionAgain(place) => {
                    self.sessions[self.sessions.at(place)].timer()
                }
                TimerKey::Status => self.server_status.timer(),
                TimerKey::News => self.news_queue.timer,
                TimerKey::Walk => self.walk.and_then(|walk| walk.timer),
                TimerKey::Rescheduling => self.wall.timer(),
                TimerKey::Claims => self.claims.timer(),
                TimerKey::Room => self.room.timer(),
                TimerKey::Crons => self.crons.timer,
                TimerKey::Results => self.kept_results.timer(),
            };
            assert_eq!(held, Some(at), "a timer belongs to {key:?}");
        }
    }

    /// The places of all jobs that the log stores, for a comparison with the log. Walks all jobs.
    pub fn logged_slots(&self) -> impl Iterator<Item = JobSlot> {
        self.jobs.iter().filter(|(_, job)| job.is_logged()).map(|(slot, _)| slot)
    }

    /// Checks that a job that can expire is in a queue with an extension. A sweep looks only at
    /// queues with extensions.
    fn check_expiry(&self) {
        let mut expiring = self.jobs.iter().filter(|(_, job)| job.expires().is_some());
        assert!(expiring.all(|(_, job)| self.queues[job.queue()].extension().is_some()));
    }

    /// Checks that the lists and counts of queues agree with the jobs. Also checks that no session
    /// waits while its queue could hand out a job.
    fn check_queues(&self) {
        let mut total = Counts::default();
        for (id, queue) in self.queues.iter() {
            let (ready, delayed) = (queue.ready().iter(), queue.delayed().iter());
            self.check_list(id, State::Ready, ready.map(|entry| entry.1));
            self.check_list(id, State::Delayed, delayed.map(|entry| entry.1));
            self.check_list(id, State::Buried, queue.buried().iter().map(|entry| entry.1));
            let counts = queue.counts();
            total.ready += counts.ready;
            total.urgent += counts.urgent;
            total.delayed += counts.delayed;
            total.leased += counts.leased;
            total.buried += counts.buried;
            total.bytes += counts.bytes;
            let cold = self.check_blocks(id, State::Ready);
            for (state, resident, counted) in [
                (State::Ready, queue.ready().len(), counts.ready),
                (State::Delayed, queue.delayed().len(), counts.delayed),
                (State::Buried, queue.buried().len(), counts.buried),
            ] {
                let jobs = resident as u64 + self.check_blocks(id, state).0;
                assert_eq!(jobs, u64::from(counted), "queue {id} counts its {state:?} jobs");
            }
            let bytes =
                queue.ready().iter().map(|(_, slot)| self.jobs[JobSlot(slot)].body_len() as u64);
            let bytes = bytes.sum::<u64>() + cold.1;
            assert_eq!(bytes, counts.bytes, "queue {id} counts its ready bytes");
            let jobs = queue.ready().iter().map(|(_, slot)| &self.jobs[JobSlot(slot)]);
            let stored = jobs.filter(|job| job.resident_body().is_none());
            let stored =
                stored.fold(cold, |(count, bytes), job| (count + 1, bytes + job.body_len() as u64));
            assert_eq!(stored, queue.stored(), "queue {id} counts its stored bodies");
            for (sum, band) in total.bands.iter_mut().zip(counts.bands) {
                *sum += band;
            }
            if let Some(moment) = self.next_moment_of(id) {
                let moment = moment.max(self.now);
                // After a step of the wall clock, the walk sets the timers of pauses by policy.
                let is_visited = self.walk.is_some_and(|walk| walk.resolves);
                assert!(
                    is_visited || queue.timer().is_some_and(|at| at <= moment),
                    "a queue is looked at in time"
                );
            }
            self.check_gates(queue);
            let is_awaited = !queue.waiters().is_empty();
            assert!(
                !is_awaited
                    || !self.may_serve_loaded(queue)
                    || self.wants_blocks(JobList { queue: id, state: queue.cold_head().1 }),
                "a session waits for a cold job of queue {id}, and nobody loads it"
            );
            assert!(
                !self.expiring_head_is_cold(queue)
                    || self.wants_blocks(JobList { queue: id, state: State::Ready }),
                "the cold head of queue {id} may expire, and nobody loads it"
            );
            let idle = queue.ready().is_empty()
                || queue.head_is_cold()
                || queue.pause().is_some()
                || self.is_paused_by_policy(queue)
                || Self::is_hidden(queue)
                || queue.removals() > 0
                || self.is_blocked(queue)
                || self.gate(queue, Asker::Line).is_some()
                || self.head_is_expired(queue)
                || self.has_unserved_waiters(queue);
            assert!(queue.waiters().is_empty() || idle, "a session waits although a job is ready");
        }
        assert_eq!(total, *self.jobs.counts());
    }

    /// Checks that shut gates are marked, and that the lanes have the ready jobs.
    fn check_gates(&self, queue: &Queue) {
        let terms = self.queues.gate_terms(queue, self.now);
        let openings = queue.extension().map_or(1, |extension| extension.openings(terms));
        assert!(self.is_shut(queue) || openings > 0, "shut gates are marked");
        if let Some(lanes) = self.lanes(queue) {
            let entrant = |slot| (self.entrant(JobSlot(slot)), JobSlot(slot));
            let ready = queue.ready().iter().map(|(_, slot)| entrant(slot));
            let delayed = queue.delayed().iter().map(|(_, slot)| entrant(slot).0);
            lanes.check(ready, delayed, terms);
        }
    }

    /// Checks the blocks of a list. Returns the number of their jobs, and the bytes of the bodies.
    fn check_blocks(&self, queue: QueueId, state: State) -> (u64, u64) {
        let mut sum = (0, 0);
        for id in self.queues[queue].blocks(state) {
            let block = &self.jobs.blocks()[id];
            assert_eq!((block.queue, block.facts.state), (queue, state));
            assert!(block.facts.jobs() > 0, "a block has jobs");
            sum.0 += u64::from(block.facts.jobs());
            sum.1 += block.facts.body_bytes;
        }
        sum
    }

    fn check_list(&self, queue: QueueId, state: State, places: impl Iterator<Item = u32>) {
        for place in places {
            let job = &self.jobs[JobSlot(place)];
            assert_eq!((job.queue(), job.state()), (queue, state), "job {}", job.id());
        }
    }

    /// Checks that the sessions agree with the leased jobs and with the lines of queues.
    fn check_sessions(&self) {
        let (mut leased, mut places_in_lines) = (0, 0);
        for (id, session) in self.sessions.iter() {
            for ((deadline, lease), slot) in session.leases().iter() {
                let job = &self.jobs[JobSlot(slot)];
                let held = job.lease().expect("a job in a session's hands has a lease");
                assert_eq!((held.holder, held.id.0, job.due()), (id, lease, deadline));
                leased += 1;
            }
            for (queue, lease, slot) in session.worker().into_iter().flat_map(Worker::held) {
                assert_eq!(self.jobs[slot].queue(), queue, "a worker's lease {lease}");
            }
            let one;
            let (ticket, lines) = match session.waiting() {
                Some(Waiting::Item { ticket, queue, .. }) => {
                    one = [queue];
                    (ticket, &one[..])
                }
                Some(Waiting::Job { ticket, .. }) => (ticket, session.watched()),
                Some(Waiting::Kick | Waiting::Clearing) | None => (0, &[][..]),
            };
            places_in_lines += lines.len();
            for queue in lines {
                let mut line = self.queues[*queue].waiters().iter();
                assert!(line.any(|entry| entry == (ticket, Sessions::place_of(id))));
            }
            if let Some(moment) = session.next_moment() {
                let moment = moment.max(self.now);
                assert!(session.timer().is_some_and(|at| at <= moment), "looked at in time");
            }
        }
        let lines: usize = self.queues.iter().map(|(_, queue)| queue.waiters().len()).sum();
        assert_eq!(lines, places_in_lines, "only those who wait stand in lines");
        if self.chores.is_empty() {
            assert_eq!(leased, self.jobs.counts().leased, "every leased job has a holder");
        }
    }

    /// Checks that the reference counts of queues agree with the sessions and requests that keep
    /// queues in existence.
    fn check_references(&self) {
        let mut wanted: BTreeMap<QueueId, [u32; 4]> = BTreeMap::new();
        for (_, session) in self.sessions.iter() {
            wanted.entry(session.used()).or_default()[0] += 1;
            for queue in session.watched() {
                wanted.entry(*queue).or_default()[1] += 1;
            }
            for queue in session.worker().into_iter().flat_map(Worker::queues) {
                wanted.entry(queue).or_default()[2] += 1;
            }
        }
        for queue in self.room.queues() {
            wanted.entry(queue).or_default()[0] += 1;
        }
        for chore in self.chores.iter() {
            match chore {
                Chore::Remove { work, .. } => wanted.entry(work.queue()).or_default()[3] += 1,
                Chore::Leave { watched } => {
                    for queue in watched {
                        wanted.entry(*queue).or_default()[1] += 1;
                    }
                }
                Chore::Return(_)
                | Chore::ReturnHeld(_)
                | Chore::Close { .. }
                | Chore::Detach { .. }
                | Chore::Flush { .. }
                | Chore::Kick { .. } => {}
            }
        }
        for (id, queue) in self.queues.iter() {
            let found = [queue.users(), queue.watchers(), queue.workers(), queue.removals()];
            let wanted = wanted.remove(&id).unwrap_or_default();
            assert_eq!(found, wanted, "users, watchers, workers and removals of queue {id}");
        }
        assert!(wanted.is_empty(), "what is referred to exists");
    }

    /// Checks that jobs and sessions agree on the watchers of each job.
    fn check_watchers(&self) {
        let mut watched: BTreeMap<(SessionId, JobId), u32> = BTreeMap::new();
        for (_, job) in self.jobs.iter() {
            for watcher in job.watchers() {
                *watched.entry((*watcher, job.id())).or_default() += 1;
            }
        }
        // After the end of a job, a session stays a watcher until it gets the last news of the job.
        for pending in self.news_queue.iter() {
            for watcher in pending.watchers_left() {
                *watched.entry((*watcher, pending.id())).or_default() += 1;
            }
        }
        for (id, session) in self.sessions.iter() {
            for (job, count) in session.watching() {
                let found = watched.remove(&(id, *job));
                assert_eq!(found, Some(*count), "a session watches job {job}");
            }
        }
        for (session, job) in watched.into_keys() {
            let leaves = self.chores.iter().any(|chore| match chore {
                Chore::Detach { watcher, watching } => {
                    *watcher == session && watching.contains_key(&job)
                }
                Chore::Return(_)
                | Chore::ReturnHeld(_)
                | Chore::Close { .. }
                | Chore::Leave { .. }
                | Chore::Flush { .. }
                | Chore::Remove { .. }
                | Chore::Kick { .. } => false,
            });
            let has_ended = self.news_queue.iter().any(|pending| pending.id() == job);
            assert!(leaves || has_ended, "job {job} is watched by one who knows");
        }
    }

    /// Checks that workers and queues agree on the sleepers of each queue. Also checks that no
    /// worker sleeps while it has work.
    fn check_workers(&self) {
        let mut listed = 0;
        for (id, session) in self.sessions.iter() {
            let Some(worker) = session.worker() else { continue };
            for (queue, ticket) in worker.listed() {
                let mut sleepers = self.queues[queue].sleepers().iter();
                assert!(
                    sleepers.any(|entry| entry == (ticket, Sessions::place_of(id))),
                    "a sleeper can be woken"
                );
                listed += 1;
            }
            let has_work = |queue: QueueId| {
                let queue = &self.queues[queue];
                // An expired head wakes no sleeper. After the expired head has ended, the next job
                // wakes sleepers.
                self.head(queue).is_some()
                    && queue.pause().is_none()
                    // The queue's timer opens the gates next, and wakes sleepers.
                    && !self.is_shut(queue)
                    && !self.has_unserved_waiters(queue)
            };
            if self.wake_max == 0 && worker.is_asleep() {
                assert!(!worker.queues().any(has_work), "a worker sleeps although there is work");
                assert!(worker.listed().count() == worker.len(), "it can be woken");
            }
        }
        let sleepers: usize = self.queues.iter().map(|(_, queue)| queue.sleepers().len()).sum();
        assert_eq!(sleepers, listed, "only workers can be woken");
    }
}
