//! Puts that wait for room: before each put, the owner asks whether the put must wait.

use std::collections::BTreeSet;

use crate::effects::{Effects, Event};
use crate::engine::Engine;
use crate::engine::put::{KnownKeys, Offer};
use crate::ids::{Millis, QueueId, SessionId};
use crate::jobs::Body;
use crate::limits::PUT_ENDS_MAX;
use crate::policy::{Name, WhenFull};
use crate::room::RoomWait;

impl Engine {
    /// Whether any put can have to wait for room. If not, the owner need not call
    /// [`Engine::wait_for_room`].
    #[inline]
    pub fn puts_may_wait(&self) -> bool {
        self.rules.block_puts() || !self.room.is_empty()
    }

    /// Whether a put of this session must wait, because a queue that it names is full, or because
    /// others already wait there. `name`: the queue or alias; `None` for the queue that the session
    /// uses. If so, [`Event::Room`] follows. Then the owner calls this function again, and does the put
    /// if it may. After its time, the put need not wait any more, and the queue refuses it if it is
    /// still full. The session must do nothing else meanwhile.
    ///
    /// The time of each queue counts from the moment at which the put began to wait, also if it waits
    /// for several queues. `since`: when an earlier put of the same request began to wait, if any.
    pub fn wait_for_room(
        &mut self,
        session: SessionId,
        name: Option<&[u8]>,
        (body, unique): (&Body, &[u8]),
        since: Option<Millis>,
        effects: &mut Effects,
    ) -> bool {
        let before = self.begin_try(session, effects);
        let since = before.map(|before| before.since).or(since).unwrap_or(self.now);
        let (mut queues, mut aliases) = (BTreeSet::new(), BTreeSet::new());
        let own = self.queues[self.sessions[session].used()].owned_name();
        self.collect_named(name.unwrap_or(&own), &mut queues, &mut aliases);
        // A submit to an alias joins no job of its destinations.
        let may_join = aliases.is_empty();
        // Hold the queues. Otherwise an expired job of one of them could move to another one, find no
        // room there, and leave a queue that nothing needs.
        for queue in &queues {
            self.queues[*queue].hold();
        }
        let keys = KnownKeys::default();
        let offer = Offer::of_key(body, unique, &keys);
        let waits = queues.iter().find_map(|&queue| {
            let before = before.filter(|before| before.queue == queue);
            if before.is_some_and(|before| before.until <= self.now) {
                // A reload can have changed the time, but another session may be the first by now.
                return None;
            }
            let ticket = before.map(|before| before.ticket);
            let until = self.must_wait(queue, (ticket, since), (offer, may_join), effects)?;
            let ticket = ticket.unwrap_or_else(|| self.room.deal_ticket());
            Some(RoomWait { queue, ticket, since, until, tries: false })
        });
        if let Some(wait) = waits {
            self.queues[wait.queue].hold();
            self.room.line_up(session, wait, &mut self.timers);
        }
        for queue in queues {
            self.queues[queue].release();
            self.drop_if_unwanted(queue, effects);
        }
        waits.is_some()
    }

    /// Ends the wait of a session, because its put will not be tried again, or will not wait again.
    pub fn stop_waiting_for_room(&mut self, session: SessionId, effects: &mut Effects) {
        self.begin_try(session, effects);
    }

    /// Ends the wait of a session whose put follows.
    fn begin_try(&mut self, session: SessionId, effects: &mut Effects) -> Option<RoomWait> {
        let before = self.leave_room_line(session, effects);
        self.room.let_pass(before.map(|_| session));
        before
    }

    /// Whether the room of a queue is for puts that wait, and not for a put of this client. `None`: the
    /// put does not come from a client that can wait.
    pub(in crate::engine) fn room_is_kept(
        &self,
        queue: QueueId,
        client: Option<SessionId>,
    ) -> bool {
        // Normally nobody waits. Then this reads no memory of the queue.
        !self.room.is_empty()
            && self.policy_of(queue).is_some_and(|policy| policy.when_full == WhenFull::Block)
            && self.room.keeps_out(queue, client)
    }

    /// Ends the wait of a session that has not got the event yet. Returns whether there was one. A
    /// session that has got the event keeps its place in the line until it tries.
    pub fn cancel_room_wait(&mut self, session: SessionId, effects: &mut Effects) -> bool {
        let waits = self.room.awaits_event(session);
        if waits {
            self.leave_room_line(session, effects);
        }
        waits
    }

    /// Whether a put of this session would not make a job in a queue that it names, because another
    /// job has its key there.
    pub fn put_is_duplicate(&self, session: SessionId, body: &Body) -> bool {
        let mut queues = BTreeSet::new();
        let used = self.queues[self.sessions[session].used()].name();
        self.collect_named(used, &mut queues, &mut BTreeSet::new());
        let keys = KnownKeys::default();
        let offer = Offer::of_key(body, b"", &keys);
        queues.into_iter().any(|queue| {
            let stores = self.policy_of(queue).is_some_and(|policy| !policy.fanout_only);
            stores && self.is_duplicate(queue, offer)
        })
    }

    /// The existing queues that a put with this name asks for.
    fn collect_named(
        &self,
        name: &[u8],
        queues: &mut BTreeSet<QueueId>,
        aliases: &mut BTreeSet<Name>,
    ) {
        self.meter.count(1);
        let Some(destinations) = self.alias(name) else {
            queues.extend(self.queue_id(name));
            return;
        };
        if aliases.insert(self.real_name(name).into()) {
            for destination in destinations {
                self.collect_named(&destination, queues, aliases);
            }
        }
    }

    /// Until when a put that waits since this moment must wait for room in this queue, which the caller
    /// holds. `None`: it need not wait. `ticket`: its place in the line of this queue, if it has one.
    /// `may_join`: if the put is a submit, it can join a job with its key.
    fn must_wait(
        &mut self,
        queue: QueueId,
        (ticket, since): (Option<u64>, Millis),
        (offer, may_join): (Offer<'_>, bool),
        effects: &mut Effects,
    ) -> Option<Millis> {
        let policy = self.policy_of(queue)?;
        if policy.when_full != WhenFull::Block || policy.fanout_only {
            return None;
        }
        let block_for = policy.block_for_ms;
        self.sweep(queue, PUT_ENDS_MAX, effects);
        let ticket = ticket.unwrap_or(u64::MAX);
        let has_room = !self.is_full(queue) && !self.room.has_earlier(queue, ticket);
        let until = Millis(since.0.saturating_add(block_for));
        let (body, unique) = (offer.body, offer.unique);
        if has_room || until <= self.now || self.check_size(queue, body.len()).is_err() {
            return None;
        }
        // A put that stores nothing needs no room.
        let joins =
            may_join && !unique.is_empty() && self.find_unique(queue, unique, body).is_some();
        (!joins && !self.is_duplicate(queue, offer)).then_some(until)
    }

    /// Lets the sessions try their puts whose queues have room now. The caller must call this function
    /// after each request.
    pub fn offer_room(&mut self, effects: &mut Effects) {
        while let Some(queue) = self.room.pop_changed() {
            self.meter.count(1);
            let blocks = self.policy_of(queue).is_some_and(|policy| {
                let stores = !policy.fanout_only && policy.alias.is_empty();
                stores && policy.when_full == WhenFull::Block
            });
            if (!blocks || !self.is_full(queue))
                && let Some(session) = self.room.let_first_try(queue)
            {
                effects.events.push((session, Event::Room));
            }
        }
    }

    /// Whether sessions wait for room, so that [`Engine::offer_room`] may have work.
    pub fn has_room_lines(&self) -> bool {
        !self.room.is_empty()
    }

    /// Notes that a queue may have room now.
    #[inline]
    pub(in crate::engine) fn note_room(&mut self, queue: QueueId) {
        if !self.room.is_empty() {
            self.room.note(queue);
        }
    }

    /// Ends the wait of a session, because it tries its put, or closes.
    pub(in crate::engine) fn leave_room_line(
        &mut self,
        session: SessionId,
        effects: &mut Effects,
    ) -> Option<RoomWait> {
        if self.room.is_empty() {
            return None;
        }
        let (wait, was_in_line) = self.room.take(session)?;
        self.meter.count(1);
        if was_in_line {
            self.queues[wait.queue].release();
            self.drop_if_unwanted(wait.queue, effects);
        }
        Some(wait)
    }

    /// Ends the waits whose time is over, as many as the slice allows.
    pub(in crate::engine) fn end_room_waits(&mut self, effects: &mut Effects) {
        self.room.take_timer();
        while !self.meter.request_is_spent()
            && let Some((queue, session)) = self.room.end_one(self.now)
        {
            self.meter.count(1);
            if let Some(session) = session {
                effects.events.push((session, Event::Room));
            }
            self.queues[queue].release();
            self.drop_if_unwanted(queue, effects);
        }
        self.room.arm(&mut self.timers);
    }
}
