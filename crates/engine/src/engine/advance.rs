//! Changes that happen at a moment, without a request: due jobs, deadlines, timeouts of waits, ends
//! of pauses, gates that open.

use super::Engine;
use super::attempts::Failure;
use super::cold::LOAD_REST_MS;
use super::need::Need;
use crate::effects::{Effects, Event};
use crate::ids::{Millis, QueueId, SessionId, sooner};
use crate::jobs::State;
use crate::limits::HELD_CHORES_REST_MS;
use crate::sessions::{Sessions, Waiting};
use crate::timers::TimerKey;

impl Engine {
    /// The moment at which the caller should call [`Engine::advance`] next. Sometimes there is no
    /// work at this moment, because a timer can be too early.
    pub fn next_deadline(&self) -> Option<Millis> {
        let timer = self.timers.next();
        if self.chores.is_empty() {
            return timer;
        }
        let rest = if self.chores.is_held() { HELD_CHORES_REST_MS } else { 0 };
        let chore = Millis(self.now.0.saturating_add(rest)).max(self.chores.all_rest_until());
        Some(timer.map_or(chore, |timer| timer.min(chore)))
    }

    /// Does one slice of the work that is due by now. Returns true if more work is due. The caller
    /// can serve other connections before the next call.
    pub fn advance(&mut self, effects: &mut Effects) -> bool {
        self.meter.begin_slice();
        self.crons.begin_slice();
        if self.chores.comes_first && self.chores.may_continue(self.now) {
            self.do_a_chore(effects);
            self.meter.begin_request();
        }
        self.chores.comes_first = false;
        while !self.meter.request_is_spent() {
            let Some(key) = self.timers.pop_due(self.now) else { break };
            self.meter.count(1);
            match key {
                TimerKey::Queue(place) if self.was_too_early(QueueId(place)) => {}
                TimerKey::Queue(place) | TimerKey::QueueAgain(place) => {
                    self.look_at_queue(place, effects);
                }
                TimerKey::Session(place) | TimerKey::SessionAgain(place) => {
                    self.look_at_session(place, effects);
                }
                TimerKey::Status => self.enforce_status(effects),
                TimerKey::News => self.send_news_slice(true, effects),
                TimerKey::Walk => self.walk_slice(effects),
                TimerKey::Rescheduling => self.reschedule_slice(),
                TimerKey::Claims => self.end_claims(effects),
                TimerKey::Room => self.end_room_waits(effects),
                TimerKey::Crons => self.fire_crons(effects),
                TimerKey::Results => self.end_results(),
            }
        }
        if self.meter.request_is_spent() {
            // Timers have spent the slice. The next slice begins with a chore, so that timers
            // cannot stop all chores.
            self.chores.comes_first = true;
        } else if self.chores.may_continue(self.now) {
            self.do_a_chore(effects);
        }
        self.next_deadline().is_some_and(|at| at <= self.now)
    }

    /// If the timer of a queue was set for something that is gone by now, sets it to the next moment. So
    /// several queues change in the order of their moments, whatever their timers were set to before.
    fn was_too_early(&mut self, id: QueueId) -> bool {
        let set_to = self.queues[id].timer_mut().take();
        let is_due = self.next_moment_of(id).is_some_and(|next| set_to >= Some(next));
        if !is_due {
            self.arm_queue(id);
        }
        !is_due
    }

    /// Makes as many due changes of a queue as the slice of work allows.
    fn look_at_queue(&mut self, place: u32, effects: &mut Effects) {
        let id = QueueId(place);
        let now = self.now;
        *self.queues[id].timer_mut() = None;
        let sorted = self.sort_lanes(id);
        // Keep the queue in existence in this function, even if its last job ends.
        self.queues[id].hold();
        if self.queues[id].extension().is_some() {
            self.sweep_in_time(id, effects);
            self.end_due_dead(id, effects);
        }
        let pause_ends = self.queues[id].pause().is_some_and(|pause| pause.until <= now);
        if pause_ends {
            self.queues[id].set_pause(None);
        }
        let gates = self.queues.have_gates() && (self.settle(id) | self.open_due_lanes(id));
        let opens = gates | self.look_at_window(id) | sorted;
        let may_owe = pause_ends || opens || self.has_unserved_waiters(&self.queues[id]);
        if may_owe {
            self.serve_waiters(id, effects);
        }
        while !self.meter.request_is_spent() {
            let Some(slot) = self.queues[id].pop_due(now) else { break };
            if self.queues.have_gates() {
                self.leave_lane(slot);
            }
            self.came_due = now;
            self.change_state(slot, State::Ready);
            self.deliver_or_list(slot, effects);
        }
        if self.queues[id].cold().is_some() {
            self.look_at_delayed_blocks(id, effects);
        }
        self.queues[id].release();
        self.arm_queue_behind(id);
        if self.queues[id].extension().is_some() {
            if self.queues[id].is_wanted() {
                self.remove_if_idle(id, effects);
            } else {
                self.drop_if_unwanted(id, effects);
            }
        }
    }

    /// Makes as many due changes of a session as the slice of work allows.
    fn look_at_session(&mut self, place: u32, effects: &mut Effects) {
        let id = self.sessions.at(place);
        let now = self.now;
        *self.sessions[id].timer_mut() = None;
        while !self.meter.request_is_spent() {
            let Some(slot) = self.sessions[id].first_overdue(now) else { break };
            self.fail_attempt(slot, Failure::TimedOut, effects);
        }
        // If the session waited for a job, it may have got a job whose lease has just ended. Then
        // the session no longer waits.
        let session = &self.sessions[id];
        if let Some(Waiting::Job { until, .. }) = session.waiting() {
            let soon = session.margin_begins().is_some_and(|margin| margin <= now);
            let is_over = until <= now;
            if is_over
                && !soon
                && let Some(list) = self.missing(id, Need::Watched)
            {
                // The end of the load serves the session.
                self.want_blocks(list);
                self.sessions[id].wait_until(Millis(now.0.saturating_add(LOAD_REST_MS)));
            } else if soon || is_over {
                self.stop_waiting(id);
                let news = if soon { Event::DeadlineSoon } else { Event::TimedOut };
                effects.events.push((id, news));
            }
        }
        self.end_item_wait(id, effects);
        self.arm_session_behind(id);
    }

    /// Ends the wait of a session for an item if the time limit of the wait is over. In two cases
    /// the wait continues. In the first case, the queue serves its waiters in slices, and this
    /// session may still get an item. In the second case, the head has expired, and the sweep of
    /// the expired jobs continues later.
    fn end_item_wait(&mut self, id: SessionId, effects: &mut Effects) {
        let now = self.now;
        let Some(Waiting::Item { until, queue, .. }) = self.sessions[id].waiting() else { return };
        if until > now {
            return;
        }
        let serving = self.queues[queue].pause().filter(|pause| pause.is_serving());
        if let Some(pause) = serving
            && pause.until > now
        {
            self.sessions[id].wait_until(pause.until);
            return;
        }
        if self.head_is_expired(&self.queues[queue]) {
            let rest_ends = self.sweep_rest_ends(&self.queues[queue]);
            self.sessions[id].wait_until(rest_ends.unwrap_or(now));
            return;
        }
        if self.may_serve_loaded(&self.queues[queue]) {
            // The end of the load serves the session.
            self.want_head(queue);
            self.sessions[id].wait_until(Millis(now.0.saturating_add(LOAD_REST_MS)));
            return;
        }
        self.count_miss(queue);
        self.stop_waiting(id);
        effects.events.push((id, Event::NoItem(Some(queue))));
    }

    /// Sets the timer of a queue to the moment of its next change.
    pub(super) fn arm_queue(&mut self, id: QueueId) {
        let Some(moment) = self.next_moment_of(id) else { return };
        self.timers.arm(self.queues[id].timer_mut(), moment, TimerKey::Queue(id.0));
    }

    /// The next moment at which a queue changes without a request.
    pub(super) fn next_moment_of(&self, id: QueueId) -> Option<Millis> {
        let queue = &self.queues[id];
        let plain = queue.next_moment();
        let Some(extension) = queue.extension() else { return plain };
        let owed = self.has_unserved_waiters(queue).then_some(self.now);
        let mut next =
            sooner(sooner(plain, owed), sooner(self.next_expiry(queue), queue.idle_ends()));
        if self.jobs.have_dead_letters() {
            next = sooner(next, self.next_dead_end(id, extension));
        }
        if self.queues.have_gates() {
            next = sooner(next, sooner(self.gates_open(queue), self.lanes_moment(queue)));
        }
        sooner(next, self.pause_turns(extension))
    }

    /// Sets the timer of a session to the moment of its next change.
    pub(super) fn arm_session(&mut self, id: SessionId) {
        let session = &mut self.sessions[id];
        let Some(moment) = session.next_moment() else { return };
        let key = TimerKey::Session(Sessions::place_of(id));
        self.timers.arm(session.timer_mut(), moment, key);
    }

    /// Sets the timer of a queue that the engine has just looked at. If the slice is spent and the
    /// queue has more work now, the queue continues after all other due timers.
    fn arm_queue_behind(&mut self, id: QueueId) {
        let now = self.now;
        let moment = self.next_moment_of(id);
        if !self.meter.request_is_spent() || moment.is_none_or(|moment| moment > now) {
            return self.arm_queue(id);
        }
        self.timers.arm_behind(self.queues[id].timer_mut(), now, TimerKey::Queue(id.0));
    }

    /// Sets the timer of a session that the engine has just looked at. If the session has more work
    /// now, the session continues after all other due timers.
    fn arm_session_behind(&mut self, id: SessionId) {
        let now = self.now;
        let session = &mut self.sessions[id];
        if session.next_moment().is_none_or(|moment| moment > now) {
            return self.arm_session(id);
        }
        let key = TimerKey::Session(Sessions::place_of(id));
        self.timers.arm_behind(session.timer_mut(), now, key);
    }
}
