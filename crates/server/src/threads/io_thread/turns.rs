//! The turns that an I/O thread takes of the broker, and their effects on its connections. Between
//! the beginning and the end of a turn, nothing may make a system call.

use std::mem;
use std::sync::atomic::Ordering;

use broker::Turn;

use super::{CloseReason, IoThread};
use crate::net::connection::{PIECE_BYTES, TurnTime};

/// The input of a turn for the dialects.
#[derive(Copy, Clone, Debug)]
pub(super) enum Feed {
    /// Bytes that were just read; most of them cost little.
    Read,
    /// Held-back commands of this many connections, and the closes of sessions, which may hold many
    /// jobs. Both can take long. They get their own turn, so that replies to new bytes are sent
    /// before.
    HeldBack(usize),
}

impl IoThread {
    /// Lets the broker do all new work except held-back commands, and handles the effects on this
    /// thread. All of this is one turn, because nothing is sent before the end of a turn.
    pub(super) fn take_turn_if_wanted(&mut self) {
        let is_wanted = self.is_alarm_due()
            || !self.opening.is_empty()
            || !self.batch.is_empty()
            || !self.events.is_empty();
        if is_wanted {
            self.take_turn(Feed::Read);
        }
    }

    pub(super) fn take_turn(&mut self, feed: Feed) {
        let broker = self.shared.broker.clone();
        let is_alarm_due = self.is_alarm_due();
        if is_alarm_due {
            self.inbox.clear_alarm();
        }
        let mut turn = broker.turn(self.shared.clock.now());
        let time = match feed {
            Feed::Read => TurnTime::begin(),
            Feed::HeldBack(_) => TurnTime::begin_later(),
        };
        if is_alarm_due {
            turn.set_alarm_again();
        }
        self.open_sessions(&mut turn);
        match feed {
            Feed::Read => self.feed_batch(&mut turn, time),
            Feed::HeldBack(connections) => self.feed_held_back(connections, &mut turn, time),
        }
        // Other turns put events into mailboxes. No other turn runs now, so the mailbox has all of
        // them, and they are older than the events of this turn.
        self.inbox.take_events(&mut self.events);
        self.deliver_events(&mut turn, time);
        let leaving = match feed {
            Feed::Read => Vec::new(),
            Feed::HeldBack(_) => self.close_sessions(&mut turn, time),
        };
        self.deliver_own_events(&mut turn, time);
        drop(turn);
        let turn_ns = time.elapsed().as_nanos() as u64;
        self.shared.limits.turns_ns.fetch_add(turn_ns, Ordering::Relaxed);
        for (place, reason) in leaving {
            self.part(place, reason);
        }
        // New connections: their first bytes have often arrived already.
        for place in mem::take(&mut self.ready) {
            if let Some(connection) = self.connections.get(place) {
                connection.learn_readiness();
                self.enqueue_read(place);
            }
        }
    }

    fn open_sessions(&mut self, turn: &mut Turn<'_>) {
        for place in mem::take(&mut self.opening) {
            let Some(connection) = self.connections.get(place) else { continue };
            let Some(session) = connection.open_session(turn, self.mailbox) else { continue };
            self.places.insert(session, place);
            self.ready.push(place);
            // Housekeeping checks the time limit of silence.
            if connection.silence_max_ms.is_some() || connection.dialect.is_mid_request() {
                self.touch(place);
            }
        }
    }

    /// Passes the read bytes to the dialects.
    pub(super) fn feed_batch(&mut self, turn: &mut Turn<'_>, time: TurnTime) {
        let mut batch = mem::take(&mut self.batch);
        let (mut bytes, mut is_late) = (0, false);
        for (place, range) in batch.drain(..) {
            bytes += range.len();
            // Most batches end before this check is worth its cost.
            if bytes > PIECE_BYTES || turn.slice_is_spent() {
                (bytes, is_late) = (range.len(), is_late || time.is_over());
            }
            let Some(connection) = self.connections.get(place) else { continue };
            if is_late {
                connection.hold_back(&self.buffer[range]);
            } else {
                connection.feed(&self.buffer[range], turn, time);
            }
            self.touch(place);
        }
        self.batch = batch;
    }

    /// Continues held-back commands, the longest waiting first, with one slice each.
    pub(super) fn feed_held_back(
        &mut self,
        connections: usize,
        turn: &mut Turn<'_>,
        time: TurnTime,
    ) {
        let mut resumed = mem::take(&mut self.resumed);
        let mut done = 0;
        for &place in resumed.iter().take(connections) {
            // The first one always continues.
            if done > 0 && time.is_over() {
                break;
            }
            if let Some(connection) = self.connections.get(place) {
                connection.in_resumed = false;
                connection.feed(&[], turn, time);
                self.touch(place);
            }
            done += 1;
        }
        resumed.drain(..done);
        self.resumed = resumed;
    }

    /// Delivers events to sessions of this thread directly, not through the mailbox: a waiting
    /// consumer gets its job in the turn of the put.
    pub(super) fn deliver_own_events(&mut self, turn: &mut Turn<'_>, time: TurnTime) {
        loop {
            turn.take_events(self.mailbox, &mut self.events);
            if self.events.is_empty() || time.is_over() {
                return;
            }
            self.deliver_events(turn, time);
        }
    }

    /// Delivers events. If the turn has lasted too long, delivers one slice, and the others in the
    /// next turn.
    pub(super) fn deliver_events(&mut self, turn: &mut Turn<'_>, time: TurnTime) {
        turn.begin_slice();
        while let Some((session, event)) = self.events.pop_front() {
            if turn.slice_is_spent() {
                if time.is_over() {
                    self.events.push_front((session, event));
                    return;
                }
                turn.begin_slice();
            }
            // A session that was closed meanwhile needs no events; its granted job went back with
            // it.
            let Some(&place) = self.places.get(&session) else { continue };
            let Some(connection) = self.connections.get(place) else { continue };
            // Most events only cause replies, which the engine does not count.
            turn.count_work(1);
            connection.dialect.event(event, turn, &mut connection.outbox);
            connection.go_on_after_event(self.now_ms);
            self.touch(place);
        }
    }

    /// Closes sessions in order. If the turn has lasted too long, closes one slice. Returns those
    /// closed.
    fn close_sessions(&mut self, turn: &mut Turn<'_>, time: TurnTime) -> Vec<(u32, CloseReason)> {
        turn.begin_slice();
        let mut closed = 0;
        for &(place, _) in &self.leaving {
            if turn.slice_is_spent() {
                if time.is_over() {
                    break;
                }
                turn.begin_slice();
            }
            closed += 1;
            if let Some(connection) = self.connections.get(place) {
                connection.dialect.close(turn);
                if let Some(session) = connection.session {
                    self.places.remove(&session);
                }
            }
        }
        self.leaving.drain(..closed).collect()
    }

    /// Ends the socket after its session was closed.
    fn part(&mut self, place: u32, reason: CloseReason) {
        let now_ms = self.now_ms;
        let Some(connection) = self.connections.get(place) else { return };
        tracing::debug!(connection = place, ?reason, "close");
        if reason == CloseReason::Finished && connection.linger() {
            connection.progress_at = now_ms;
            self.touch(place);
            self.enqueue_read(place);
        } else {
            self.remove(place);
        }
    }
}
