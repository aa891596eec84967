//! Events that happen in the model because time passes.

use std::collections::BTreeSet;

use broker::FailureCause;

use super::outcome::Notification;
use super::{Expected, Job, Model, NEVER, Name, Need, Place, State, Wait};

/// The queue or connection of a due event. Queues come before connections.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Owner {
    Queue(Place, Name),
    Conn(Place),
}

impl Model {
    /// Advances the time, and handles all due events, earliest first. Within one millisecond,
    /// queues come first, by place, and then sessions, by place.
    pub(crate) fn advance(&mut self, now: u64) {
        assert!(now >= self.now, "time does not go back");
        self.now = now;
        let before = self.history.len();
        while let Some((_, owner)) = self.first_due() {
            match owner {
                Owner::Queue(_, name) => self.look_at_queue(&name),
                Owner::Conn(place) => self.look_at_conn(place),
            }
        }
        self.end_room_waits();
        self.do_a_chore();
        self.offer_room();
        self.history.unwrite_changes_of_ended(before);
    }

    /// The earliest due moment, and its owner.
    fn first_due(&self) -> Option<(u64, Owner)> {
        let owner = |name: &Name| Owner::Queue(self.queues[name].place, name.clone());
        let timers = self.queues.iter().filter_map(|(name, queue)| {
            let pause = queue.pause.map(|pause| pause.until);
            let turns = queue.phase.map(|phase| phase.turns);
            let [expiry, dead, idle] = self.ends_of_queue(name);
            let moments = [self.gate_moment(name), expiry, dead, idle, pause, turns];
            Some((moments.into_iter().flatten().min()?, owner(name)))
        });
        let delayed = self.jobs.values().filter_map(|job| match job.state {
            State::Delayed { due } if due <= self.now => Some((due, owner(&job.queue))),
            _ => None,
        });
        let queues = timers.chain(delayed);
        let conns = self.conns.keys();
        let conns =
            conns.filter_map(|place| Some((self.conn_moment(*place)?, Owner::Conn(*place))));
        queues.chain(conns).filter(|(moment, _)| *moment <= self.now).min()
    }

    /// The moments at which the timer of a queue ends a job that has expired, a dead letter, and the
    /// queue itself, because it is idle.
    fn ends_of_queue(&self, name: &Name) -> [Option<u64>; 3] {
        [self.expiry_moment(name), self.dead_moment(name), self.idle_moment(name)]
    }

    /// The moment at which the head of a queue expires, or at which the timer may end it.
    pub(super) fn expiry_moment(&self, name: &Name) -> Option<u64> {
        // Jobs expire only in queues that have a value of `extra_since`.
        let queue = &self.queues[name];
        let head = queue.extra_since.and_then(|_| self.first_ready(name));
        let last = head.and_then(|id| self.ends_after(id))?;
        Some((last + 1).max(queue.sweep_rests_until))
    }

    /// The moment of a connection's next timed event.
    fn conn_moment(&self, place: Place) -> Option<u64> {
        let deadline = self.first_deadline(place).filter(|deadline| *deadline != NEVER);
        let until = self.conns[&place].waiting.as_ref().and_then(|wait| wait.until);
        [deadline, self.margin_moment(place), until].into_iter().flatten().min()
    }

    /// The moment at which a client that waits for a job gets `DEADLINE_SOON`. This moment is a
    /// second before the deadline of a job that the client holds.
    fn margin_moment(&self, place: Place) -> Option<u64> {
        let waits = |wait: &Wait| wait.item.is_none();
        self.conns[&place].waiting.as_ref().filter(|wait| waits(wait))?;
        let deadline = self.first_deadline(place).filter(|deadline| *deadline != NEVER)?;
        Some(deadline - 1000)
    }

    fn look_at_queue(&mut self, name: &Name) {
        let now = self.now;
        self.guarded(name, |model| {
            model.sweep_in_time(name);
            model.end_due_dead(name);
            let queue = model.queue_mut(name);
            let unpauses = queue.pause.is_some_and(|pause| pause.until <= now);
            if unpauses {
                queue.pause = None;
            }
            let opens =
                model.open_gates(name) | model.look_at_pause(name) | model.open_due_lanes(name);
            if unpauses || opens && !model.is_paused(name) {
                model.serve_waiters(name);
            }
            let is_due = |job: &Job| {
                matches!(job.state, State::Delayed { due } if due <= now) && job.queue == *name
            };
            let key = |job: &Job| if let State::Delayed { due } = job.state { due } else { 0 };
            let due = model.jobs.iter().filter(|(_, job)| is_due(job));
            let mut due: Vec<(u64, u64)> = due.map(|(id, job)| (key(job), *id)).collect();
            due.sort_unstable();
            for (_, id) in due {
                model.offer(id);
            }
        });
        if self.queues[name].extra_since.is_some() {
            self.drop_queue_if_unwanted(name);
            self.remove_if_idle(name);
        }
    }

    fn look_at_conn(&mut self, place: Place) {
        let now = self.now;
        for (deadline, id) in self.held(place) {
            if deadline <= now {
                self.time_out(id);
            }
        }
        let Some(wait) = self.conns[&place].waiting.clone() else { return };
        let is_over = wait.until.is_some_and(|until| until <= now);
        if let Some(item) = wait.item {
            if is_over && self.head_is_expired(&item.queue) {
                // The job of a lease that has just ended. The client may still get the job behind it.
                let rest_ends = self.queues[&item.queue].sweep_rests_until;
                if let Some(wait) = &mut self.conn(place).waiting {
                    wait.until = Some(rest_ends.max(now));
                }
            } else if is_over {
                let need = self.history.jobs_need(&item.queue);
                let conn = self.conn(place);
                conn.waiting = None;
                conn.notifications.push_back(Notification::NoItem { need });
            }
            return;
        }
        let soon = self.first_deadline(place).is_some_and(|deadline| deadline <= now + 1000);
        let reply = if soon {
            Expected::line("DEADLINE_SOON", 0)
        } else if is_over {
            Expected::line("TIMED_OUT", self.denial_of_watched(place))
        } else {
            return;
        };
        let conn = self.conn(place);
        conn.waiting = None;
        conn.notifications.push_back(Notification::Reply(reply));
    }

    /// Ends a lease because its ttr is over.
    fn time_out(&mut self, id: u64) {
        self.timeouts += 1;
        self.job_mut(id).counts.timeouts += 1;
        self.lose(id, FailureCause::TimedOut);
    }

    /// The record that the answer "no job" depends on.
    pub(super) fn denial_of_watched(&self, place: Place) -> Need {
        let watched = &self.conns[&place].watched;
        watched.iter().map(|queue| self.history.jobs_need(queue)).max().unwrap_or(0)
    }

    /// The next moment after `after` at which time causes an event.
    pub(crate) fn next_moment(&self, after: u64) -> Option<u64> {
        let serials: BTreeSet<_> = self.conns.values().map(|conn| conn.serial).collect();
        let jobs = self.jobs.values().filter_map(|job| match job.state {
            State::Delayed { due } => Some(due),
            // A closed connection has no deadlines any more. A chore gives its jobs back.
            State::Leased(lease) => {
                (serials.contains(&lease.by) && lease.deadline != NEVER).then_some(lease.deadline)
            }
            State::Ready | State::Buried { .. } => None,
        });
        let pauses = self.queues.values().filter_map(|queue| queue.pause).map(|pause| pause.until);
        let ends = self.queues.keys().flat_map(|name| self.ends_of_queue(name)).flatten();
        let gates = self.queues.keys().filter_map(|name| self.gate_moment(name));
        let windows = self.queues.values().filter_map(|queue| queue.phase).map(|phase| phase.turns);
        let waits = self.conns.values().filter_map(|conn| conn.waiting.as_ref()?.until);
        let margins = self.conns.keys().filter_map(|place| self.margin_moment(*place));
        let moments = jobs.chain(pauses).chain(ends).chain(gates).chain(windows);
        let moments = moments.chain(waits).chain(margins).chain(self.room_moments());
        moments.filter(|moment| *moment > after).min()
    }
}
