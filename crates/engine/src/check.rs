//! The invariants of the engine, checked by walking all of it: for tests and the simulator.

use crate::engine::Engine;
use crate::ids::{JobSlot, QueueId};
use crate::job::State;
use crate::queue::Counts;
use crate::session::Waiting;
use crate::timers::TimerKey;

impl Engine {
    /// Walks everything and panics where the parts disagree. Takes time in proportion to all jobs.
    pub fn check_invariants(&self) {
        self.check_jobs();
        self.check_queues();
        self.check_sessions();
        for ((at, key), _) in self.timers.iter() {
            let held = match key {
                TimerKey::Queue(place) => self.queues.get(place).map(|queue| queue.timer),
                TimerKey::Session(place) => self.sessions.get(place).map(|session| session.timer),
            };
            assert_eq!(held, Some(Some(at)), "a timer belongs to {key:?}");
        }
    }

    fn check_jobs(&self) {
        let mut counts = Counts::default();
        for (place, job) in self.jobs.iter() {
            assert_eq!(self.ids.get(job.id.0), Some(place), "job {} is in the index", job.id);
            assert!(job.id.0 < self.next_id && job.order() < self.next_id);
            counts.add(job.state, job.priority);
            assert_eq!(job.lease().is_some(), job.state == State::Leased);
        }
        assert_eq!(self.ids.len(), self.jobs.len());
        assert_eq!(counts, self.counts);
    }

    fn check_queues(&self) {
        let mut total = Counts::default();
        assert_eq!(self.names.len(), self.queues.len());
        assert_eq!(self.by_age.len(), self.queues.len());
        for (place, queue) in self.queues.iter() {
            assert_eq!(self.queue_id(&queue.name).map(|id| id.0), Some(place));
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
            for (sum, band) in total.bands.iter_mut().zip(counts.bands) {
                *sum += band;
            }
            let supplies = queue.workers > 0 && !queue.ready.is_empty();
            assert_eq!(self.supplying.contains(&QueueId(place)), supplies);
            if let Some(moment) = queue.next_moment() {
                assert!(queue.timer.is_some_and(|at| at <= moment), "a queue is looked at in time");
            }
            let idle = queue.ready.is_empty() || queue.pause.is_some();
            assert!(queue.waiters.is_empty() || idle, "somebody waits for a job that is ready");
        }
        assert_eq!(total, self.counts);
    }

    fn check_list(&self, queue: u32, state: State, count: u64, places: impl Iterator<Item = u32>) {
        let mut seen = 0;
        for place in places {
            let job = self.job(JobSlot(place));
            assert_eq!((job.queue.0, job.state), (queue, state), "job {}", job.id);
            seen += 1;
        }
        assert_eq!(seen, count, "queue {queue} counts its {state:?} jobs");
    }

    fn check_sessions(&self) {
        let (mut waiting, mut leased) = (0, 0);
        for (place, session) in self.sessions.iter() {
            let id = self.session_at(place);
            for ((deadline, lease), slot) in session.leases.iter() {
                let job = self.job(JobSlot(slot));
                let held = job.lease().expect("a job in a session's hands has a lease");
                assert_eq!((held.holder, held.id.0, job.due), (id, lease, deadline));
                leased += 1;
            }
            if let Some(Waiting::Job { ticket, .. }) = session.waiting {
                waiting += 1;
                for queue in &session.watched {
                    let mut line = self.queue(*queue).waiters.iter();
                    assert!(line.any(|entry| entry == (ticket, place)));
                }
            }
            if let Some(moment) = session.next_moment() {
                assert!(session.timer.is_some_and(|at| at <= moment), "looked at in time");
            }
        }
        assert_eq!(waiting, self.waiting_sessions);
        let lines: usize = self.queues.iter().map(|(_, queue)| queue.waiters.len()).sum();
        assert!(lines as u64 >= waiting);
        if self.chores.is_empty() {
            assert_eq!(leased, self.counts.leased, "every leased job has a holder");
        }
    }
}
