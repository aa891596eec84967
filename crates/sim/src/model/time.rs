//! What happens by itself in the model when time has moved on.

use std::collections::BTreeSet;

use super::outcome::Letter;
use super::{Expected, Model, NEVER, Need, Place, State};

impl Model {
    /// Moves time on, and does what is due by then.
    pub(crate) fn advance(&mut self, now: u64) {
        assert!(now >= self.now, "time does not go back");
        self.now = now;
        for name in self.tubes_by_place() {
            let tube = self.tubes.get_mut(&name).expect("a tube of this moment");
            if tube.pause.is_some_and(|pause| pause.until <= now) {
                tube.pause = None;
                self.serve_waiters(&name);
            }
            let mut due: Vec<(u64, u64)> = self
                .jobs
                .iter()
                .filter_map(|(id, job)| match job.state {
                    State::Delayed { due } if due <= now && job.tube == name => Some((due, *id)),
                    _ => None,
                })
                .collect();
            due.sort_unstable();
            for (_, id) in due {
                self.offer(id);
            }
        }
        let places: Vec<Place> = self.conns.keys().copied().collect();
        for place in places {
            self.look_at_conn(place);
        }
        self.do_a_chore();
    }

    fn look_at_conn(&mut self, place: Place) {
        let now = self.now;
        for (deadline, id) in self.held(place) {
            if deadline <= now {
                self.time_out(id);
            }
        }
        let Some(wait) = self.conns[&place].waiting else { return };
        let soon = self.first_deadline(place).is_some_and(|deadline| deadline <= now + 1000);
        let reply = if soon {
            Expected::line("DEADLINE_SOON", 0)
        } else if wait.until.is_some_and(|until| until <= now) {
            Expected::line("TIMED_OUT", self.denial_of_watched(place))
        } else {
            return;
        };
        let conn = self.conn(place);
        conn.waiting = None;
        conn.letters.push_back(Letter::Reply(reply));
    }

    /// The ttr of a job is over.
    fn time_out(&mut self, id: u64) {
        self.timeouts += 1;
        self.job_mut(id).counts.timeouts += 1;
        self.lose(id);
    }

    /// What "there is no job for you" rests on.
    pub(super) fn denial_of_watched(&self, place: Place) -> Need {
        let watched = &self.conns[&place].watched;
        watched.iter().map(|tube| self.history.tube_need(tube)).max().unwrap_or(0)
    }

    /// The next moment after `after` at which something happens by itself.
    pub(crate) fn next_moment(&self, after: u64) -> Option<u64> {
        let serials: BTreeSet<_> = self.conns.values().map(|conn| conn.serial).collect();
        let jobs = self.jobs.values().filter_map(|job| match job.state {
            State::Delayed { due } => Some(due),
            // A holder that is gone has no deadlines any more, only a chore that gives back.
            State::Reserved(lease) => {
                (serials.contains(&lease.by) && lease.deadline != NEVER).then_some(lease.deadline)
            }
            State::Ready | State::Buried { .. } => None,
        });
        let pauses = self.tubes.values().filter_map(|tube| tube.pause).map(|pause| pause.until);
        let waits = self.conns.values().filter_map(|conn| conn.waiting?.until);
        let margins = self
            .conns
            .iter()
            .filter(|(_, conn)| conn.waiting.is_some())
            .filter_map(|(place, _)| self.first_deadline(*place))
            .filter(|deadline| *deadline != NEVER)
            .map(|deadline| deadline - 1000);
        jobs.chain(pauses).chain(waits).chain(margins).filter(|moment| *moment > after).min()
    }
}
