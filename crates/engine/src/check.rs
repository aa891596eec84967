//! The invariants of the engine, checked by walking all of it: for tests and the simulator.

use std::collections::BTreeMap;

use crate::bytes::{
    EXTRA_BYTES, JOIN_BYTES, KEPT_BYTES, REGISTRATION_BYTES, SESSION_BYTES, WATCH_BYTES,
    queue_bytes,
};
use crate::chores::Chore;
use crate::engine::Engine;
use crate::ids::{JobId, JobSlot, LeaseId, QueueId, SessionId};
use crate::jobs::{Counts, State};
use crate::policy::parent_name;
use crate::session::Waiting;
use crate::timers::TimerKey;

impl Engine {
    /// Walks everything and panics where the parts disagree. Takes time in proportion to all jobs.
    pub fn check_invariants(&self) {
        self.jobs.check_invariants();
        self.check_expiry();
        self.check_queues();
        self.check_sessions();
        self.check_references();
        self.check_watchers();
        self.check_workers();
        self.check_wall();
        assert_eq!(self.memory_bytes, self.recounted_bytes(), "the account of queues and sessions");
        for (at, key) in self.timers.iter() {
            let held = match key {
                TimerKey::Queue(place) | TimerKey::QueueAgain(place) => {
                    self.queues.get(place).map(|queue| queue.timer)
                }
                TimerKey::Session(place) | TimerKey::SessionAgain(place) => {
                    self.sessions.get(place).map(|session| session.timer)
                }
                TimerKey::Status => Some(self.special.standing.changes_at),
                TimerKey::News => Some(self.untold.timer),
                TimerKey::Walk => Some(self.special.walk.and_then(|walk| walk.timer)),
                TimerKey::Aiming => Some(self.wall.timer()),
            };
            assert_eq!(held, Some(Some(at)), "a timer belongs to {key:?}");
        }
    }

    /// What queues and sessions take, counted anew.
    fn recounted_bytes(&self) -> u64 {
        let queues = self.queues.iter().map(|(_, queue)| {
            let kept_bytes = if queue.kept { KEPT_BYTES } else { 0 };
            let extra_bytes = if queue.extra.is_some() { EXTRA_BYTES } else { 0 };
            queue_bytes(&queue.name) + kept_bytes + extra_bytes
        });
        let sessions = self.sessions.iter().map(|(_, session)| {
            let joins: u64 = session.watching.values().map(|count| u64::from(*count)).sum();
            let registrations = session.worker.as_ref().map_or(0, |worker| worker.queues().count());
            SESSION_BYTES
                + session.watched.len() as u64 * WATCH_BYTES
                + joins * JOIN_BYTES
                + registrations as u64 * REGISTRATION_BYTES
        });
        queues.chain(sessions).sum::<u64>()
    }

    /// The places of all logged jobs, to be compared with what the log knows. Walks all jobs.
    pub fn logged_slots(&self) -> impl Iterator<Item = JobSlot> {
        self.jobs.iter().filter(|(_, job)| job.is_logged()).map(|(slot, _)| slot)
    }

    /// Jobs that expire are where somebody looks for them.
    fn check_expiry(&self) {
        let mut expiring = self.jobs.iter().filter(|(_, job)| job.expires().is_some());
        assert!(expiring.all(|(_, job)| self.queue(job.queue()).extra.is_some()));
    }

    fn check_queues(&self) {
        let mut total = Counts::default();
        assert_eq!(self.names.len(), self.queues.len());
        assert_eq!(self.by_age.len(), self.queues.len());
        let mut cased = 0;
        for (place, queue) in self.queues.iter() {
            assert_eq!(self.queue_id(&queue.name).map(|id| id.0), Some(place));
            if let Some(key) = self.cased_place(&queue.name, queue.age_rank) {
                assert_eq!(self.cased.get(&key), Some(&QueueId(place)));
                cased += 1;
            }
            assert!(queue.is_wanted(), "queue {place} has no reason to exist");
            let counts = queue.counts;
            let (ready, delayed) = (queue.ready.iter(), queue.delayed.iter());
            self.check_list(place, State::Ready, counts.ready, ready.map(|entry| entry.1));
            self.check_list(place, State::Delayed, counts.delayed, delayed.map(|entry| entry.1));
            let buried = queue.buried.iter().map(|entry| entry.1);
            self.check_list(place, State::Buried, counts.buried, buried);
            total.ready += counts.ready;
            total.urgent += counts.urgent;
            total.delayed += counts.delayed;
            total.leased += counts.leased;
            total.buried += counts.buried;
            total.bytes += counts.bytes;
            let bytes =
                queue.ready.iter().map(|(_, slot)| self.jobs[JobSlot(slot)].body().len() as u64);
            assert_eq!(bytes.sum::<u64>(), counts.bytes, "queue {place} counts its ready bytes");
            for (sum, band) in total.bands.iter_mut().zip(counts.bands) {
                *sum += band;
            }
            let supplies = queue.workers > 0 && !queue.ready.is_empty();
            assert_eq!(self.supplying.contains(&QueueId(place)), supplies);
            if let Some(moment) = self.next_moment_of(queue) {
                let moment = moment.max(self.now);
                assert!(queue.timer.is_some_and(|at| at <= moment), "a queue is looked at in time");
            }
            let idle = queue.ready.is_empty()
                || queue.pause.is_some()
                || queue.removals > 0
                || self.is_blocked(queue)
                || self.head_is_expired(queue)
                || self.owes(queue);
            assert!(queue.waiters.is_empty() || idle, "somebody waits for a job that is ready");
        }
        assert_eq!(total, *self.jobs.counts());
        assert_eq!(cased, self.cased.len(), "only names of queues");
        self.check_extras();
    }

    /// What stands beside the queues agrees with what stands in them.
    fn check_extras(&self) {
        let special = &self.special;
        let (mut extras, mut marked, mut children) = (0, 0, 0);
        for (place, queue) in self.queues.iter() {
            let Some(extra) = &queue.extra else { continue };
            let name = &queue.name[..];
            extras += 1;
            if extra.items {
                assert_eq!(special.item_queues.get(name), Some(&QueueId(place)));
                assert!(queue.kept, "a queue of items is kept");
                marked += 1;
            }
            if extra.child {
                let parent = parent_name(name).expect("a child's name has a plus");
                assert!(special.families[parent].contains(&QueueId(place)));
                children += 1;
            }
            assert!(extra.parent || !special.families.contains_key(name));
        }
        assert_eq!(extras, special.extras);
        assert_eq!(marked, special.item_queues.len());
        let linked: usize = special.families.values().map(std::collections::BTreeSet::len).sum();
        assert_eq!(children, linked);
        assert!(special.families.values().all(|family| !family.is_empty()));
        for family in special.families.keys() {
            let parent = self.queue_id(family);
            assert!(parent.is_none_or(|parent| self.queue(parent).extra.is_some()));
        }
    }

    fn check_list(&self, queue: u32, state: State, count: u32, places: impl Iterator<Item = u32>) {
        let mut seen = 0;
        for place in places {
            let job = &self.jobs[JobSlot(place)];
            assert_eq!((job.queue().0, job.state()), (queue, state), "job {}", job.id());
            seen += 1;
        }
        assert_eq!(seen, count, "queue {queue} counts its {state:?} jobs");
    }

    fn check_sessions(&self) {
        let (mut waiting, mut leased, mut places_in_lines) = (0, 0, 0);
        for (place, session) in self.sessions.iter() {
            let id = self.session_at(place);
            for ((deadline, lease), slot) in session.leases.iter() {
                let job = &self.jobs[JobSlot(slot)];
                let held = job.lease().expect("a job in a session's hands has a lease");
                assert_eq!((held.holder, held.id.0, job.due()), (id, lease, deadline));
                leased += 1;
            }
            if let Some(reader) = &session.reader {
                assert_eq!(reader.open.len(), session.leases.len());
                for ((_, lease), slot) in session.leases.iter() {
                    assert_eq!(reader.open.get(&LeaseId(lease)), Some(&JobSlot(slot)));
                }
            }
            if let Some(worker) = &session.worker {
                assert_eq!(worker.held().len(), session.leases.len());
                for (queue, lease, slot) in worker.held() {
                    let job = &self.jobs[slot];
                    let held = job.lease().expect("a job in a worker's hands has a lease");
                    assert_eq!((held.holder, held.id, job.queue()), (id, lease, queue));
                }
            }
            if let Some(Waiting::Item { ticket, queue, .. }) = session.waiting {
                waiting += 1;
                places_in_lines += 1;
                let mut line = self.queue(queue).waiters.iter();
                assert!(line.any(|entry| entry == (ticket, place)));
            }
            if let Some(Waiting::Job { ticket, .. }) = session.waiting {
                waiting += 1;
                places_in_lines += session.watched.len();
                for queue in &session.watched {
                    let mut line = self.queue(*queue).waiters.iter();
                    assert!(line.any(|entry| entry == (ticket, place)));
                }
            }
            if let Some(moment) = session.next_moment() {
                let moment = moment.max(self.now);
                assert!(session.timer.is_some_and(|at| at <= moment), "looked at in time");
            }
        }
        assert_eq!(waiting, self.waiting_sessions);
        let lines: usize = self.queues.iter().map(|(_, queue)| queue.waiters.len()).sum();
        assert_eq!(lines, places_in_lines, "only those who wait stand in lines");
        if self.chores.is_empty() {
            assert_eq!(leased, self.jobs.counts().leased, "every leased job has a holder");
        }
    }

    /// What keeps queues in existence agrees with those who do.
    fn check_references(&self) {
        let mut wanted: BTreeMap<QueueId, [u32; 4]> = BTreeMap::new();
        for (_, session) in self.sessions.iter() {
            wanted.entry(session.used).or_default()[0] += 1;
            for queue in &session.watched {
                wanted.entry(*queue).or_default()[1] += 1;
            }
            for queue in session.worker.iter().flat_map(|worker| worker.queues()) {
                wanted.entry(queue).or_default()[2] += 1;
            }
        }
        for chore in &self.chores {
            match chore {
                Chore::Remove { work, .. } => wanted.entry(work.queue()).or_default()[3] += 1,
                Chore::Leave { watched } => {
                    for queue in watched {
                        wanted.entry(*queue).or_default()[1] += 1;
                    }
                }
                Chore::Return { .. }
                | Chore::Unload(_)
                | Chore::Close { .. }
                | Chore::Detach { .. }
                | Chore::Flush { .. }
                | Chore::Kick { .. } => {}
            }
        }
        for (place, queue) in self.queues.iter() {
            let found = [queue.users, queue.watchers, queue.workers, queue.removals];
            let wanted = wanted.remove(&QueueId(place)).unwrap_or_default();
            assert_eq!(found, wanted, "users, watchers, workers and removals of queue {place}");
        }
        assert!(wanted.is_empty(), "what is referred to exists");
    }

    /// Jobs and sessions agree on who watches what.
    fn check_watchers(&self) {
        let mut watched: BTreeMap<(SessionId, JobId), u32> = BTreeMap::new();
        for (_, job) in self.jobs.iter() {
            for watcher in job.watchers() {
                *watched.entry((*watcher, job.id())).or_default() += 1;
            }
        }
        // Jobs that have ended are watched until everybody knows.
        for untold in &self.untold.line {
            for watcher in untold.watchers_left() {
                *watched.entry((*watcher, untold.id)).or_default() += 1;
            }
        }
        assert_eq!(self.untold.timer.is_some(), self.has_untold_news(), "it will be told");
        for (place, session) in self.sessions.iter() {
            for (job, count) in &session.watching {
                let found = watched.remove(&(self.session_at(place), *job));
                assert_eq!(found, Some(*count), "a session watches job {job}");
            }
        }
        for (session, job) in watched.into_keys() {
            let leaves = self.chores.iter().any(|chore| match chore {
                Chore::Detach { watcher, watching } => {
                    *watcher == session && watching.contains_key(&job)
                }
                Chore::Return { .. }
                | Chore::Unload(_)
                | Chore::Close { .. }
                | Chore::Leave { .. }
                | Chore::Flush { .. }
                | Chore::Remove { .. }
                | Chore::Kick { .. } => false,
            });
            let has_ended = self.untold.line.iter().any(|untold| untold.id == job);
            assert!(leaves || has_ended, "job {job} is watched by one who knows");
        }
    }

    /// Workers and queues agree on who sleeps where, and nobody sleeps through a job.
    fn check_workers(&self) {
        let mut listed = 0;
        for (place, session) in self.sessions.iter() {
            let Some(worker) = &session.worker else { continue };
            worker.check();
            for (queue, ticket) in worker.listed() {
                let mut sleepers = self.queue(queue).sleepers.iter();
                assert!(sleepers.any(|entry| entry == (ticket, place)), "a sleeper can be woken");
                listed += 1;
            }
            let has_work = |queue: QueueId| {
                let queue = self.queue(queue);
                // Of one that has expired nobody is told; what stands behind it is, when it goes.
                queue.can_serve(self.now)
                    && queue.pause.is_none()
                    && !self.head_is_expired(queue)
                    && !self.is_blocked(queue)
                    && !self.owes(queue)
            };
            if self.wake_max == 0 && worker.is_asleep() {
                assert!(!worker.queues().any(has_work), "somebody sleeps although there is work");
                assert!(worker.listed().count() == worker.queues().count(), "it can be woken");
            }
        }
        let sleepers: usize = self.queues.iter().map(|(_, queue)| queue.sleepers.len()).sum();
        assert_eq!(sleepers, listed, "only workers can be woken");
    }
}
