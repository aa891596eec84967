//! The turns of the broker that an I/O thread takes, and the effects of a turn on the thread's
//! connections. Code must not make a system call during a turn.

use std::mem;
use std::ops::Range;
use std::sync::atomic::Ordering;

use broker::Turn;
use broker::limits::UNIT_BODY_BYTES;

use super::{CloseReason, IoThread};
use crate::threads::rests::Work;
use crate::threads::turn_time::{PIECE_BYTES, SHORT_INPUT_BYTES, TurnTime};

/// An input of more than this, one piece, is much work in any case. A shorter one can be a job of a
/// few KiB, which is little work, or a hundred commands. So the time of its turn decides.
const MUCH_INPUT_BYTES: usize = PIECE_BYTES;

/// How long a client counts as busy after much work, in milliseconds. A client that sends many
/// commands at once also sends short inputs: the ends of its bursts.
pub(super) const BUSY_MS: u64 = if cfg!(test) { 60_000 } else { 1000 };

/// The input that a turn passes to the dialects.
#[derive(Copy, Clone, Debug)]
pub(super) enum Feed {
    /// Bytes that were just read. Most commands in them cost little time.
    Read,
    /// Held-back commands. Such a turn also closes sessions, which may hold many jobs. Both kinds of
    /// work can take long. So they have a separate turn, after the thread has sent the replies to
    /// new bytes.
    HeldBack {
        /// The turn continues the commands of this many connections.
        connections: usize,
        /// The round has also read short inputs. Their clients probably send the next ones soon.
        beside_short: bool,
    },
}

impl IoThread {
    /// Takes a turn for all new work except held-back commands. One turn is enough for all
    /// connections, because the thread sends replies only after the turn.
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
        let now = self.shared.clock.now();
        let mut turn = broker.turn(now);
        let beside_quiet = self.is_beside_quiet();
        let time = match feed {
            Feed::Read => TurnTime::begin(beside_quiet),
            Feed::HeldBack { beside_short, .. } => {
                TurnTime::begin_later(beside_quiet || beside_short)
            }
        };
        turn.use_short_slices(beside_quiet);
        if is_alarm_due {
            turn.set_alarm_again();
        }
        self.open_sessions(&mut turn);
        let has_long_inputs = match feed {
            Feed::Read => self.feed_batch(&mut turn, time),
            Feed::HeldBack { connections, .. } => {
                self.feed_held_back(connections, &mut turn, time);
                true
            }
        };
        // Turns of other threads put events into this thread's inbox. Those turns are over, because
        // only one turn runs at a time. So their events are older than the events of this turn, and
        // come first.
        self.inbox.take_events(&mut self.events);
        self.deliver_events(&mut turn, time);
        let leaving = match feed {
            Feed::Read => Vec::new(),
            Feed::HeldBack { .. } => self.close_sessions(&mut turn, time),
        };
        self.deliver_own_events(&mut turn, time);
        let rests = turn.rests();
        let serves_quiet = mem::take(&mut self.serves_quiet);
        let hurries = beside_quiet && serves_quiet && turn.has_appended();
        drop(turn);
        if hurries {
            // The quiet client would wait for two syncs: that of the busy clients, and its own.
            broker.hurry();
        }
        // If a quiet client has come, this ends the fill of a group. Its entries are in the group already.
        broker.note_quiet_clients(self.shared.client_mix.has_quiet(self.now_ms));
        // The beginning of the turn has done a slice of the work that was due then. More was due.
        if is_alarm_due && self.inbox.alarm().is_some_and(|at| at <= now) {
            self.shared.client_mix.note_much_work(self.now_ms);
        }
        let turn_time = time.elapsed();
        // A turn can also be long because many quiet clients sent short inputs. That is not the work of
        // a busy one.
        if has_long_inputs && time.is_long(turn_time) {
            self.shared.client_mix.note_much_work(self.now_ms);
        }
        self.turn_began = time.began_at();
        self.sent_from = Some(self.turn_began + turn_time);
        let work = match (beside_quiet, has_long_inputs) {
            (true, true) => Work::BusyBesideQuiet,
            (true, false) => Work::OtherBesideQuiet,
            (false, _) => Work::Alike,
        };
        self.rests.add(work, turn_time * rests, self.turn_began + turn_time);
        let turn_ns = turn_time.as_nanos() as u64;
        self.shared.limits.turns_ns.fetch_add(turn_ns, Ordering::Relaxed);
        for (place, reason) in leaving {
            self.part(place, reason);
        }
        for place in mem::take(&mut self.opened) {
            match self.connections.get(place) {
                // The thread has watched the socket since the handshake began.
                Some(connection) if connection.is_tls() => self.enqueue_read(place),
                _ => self.watch(place),
            }
        }
    }

    fn open_sessions(&mut self, turn: &mut Turn<'_>) {
        for place in mem::take(&mut self.opening) {
            let Some(connection) = self.connections.get(place) else { continue };
            let Some(session) = connection.open_session(turn, self.mailbox) else { continue };
            self.places.insert(session, place);
            self.opened.push(place);
            // `touch` schedules the housekeeping, which checks how long the client has been silent.
            if connection.silence_max_ms().is_some() || connection.dialect.is_mid_request() {
                self.touch(place);
            }
        }
    }

    /// Whether turns, slices, pieces and reads are short now: see [`ClientMix::is_beside_quiet`].
    ///
    /// [`ClientMix::is_beside_quiet`]: crate::threads::client_mix::ClientMix::is_beside_quiet
    pub(super) fn is_beside_quiet(&self) -> bool {
        self.shared.client_mix.is_beside_quiet(self.now_ms)
    }

    /// Notes whether a quiet client has sent a request, and whether an input is much work in any
    /// case. A client is *busy* for a second after each long input, long request or long reply, and
    /// *quiet* otherwise. Returns the number of short inputs.
    fn look_at_inputs(&mut self) -> usize {
        let (mut short_inputs, mut any_quiet, mut has_much_input) = (0, false, false);
        for (place, range) in &self.batch {
            let Some(connection) = self.connections.get(*place) else { continue };
            if !is_short(range) {
                has_much_input |= range.len() > MUCH_INPUT_BYTES;
                continue;
            }
            short_inputs += 1;
            // The end of input is an empty range, and no request.
            any_quiet |= !range.is_empty() && connection.busy_until <= self.now_ms;
        }
        self.serves_quiet = any_quiet;
        if any_quiet {
            self.shared.client_mix.note_quiet(self.now_ms);
        }
        if has_much_input {
            self.shared.client_mix.note_much_work(self.now_ms);
        }
        short_inputs
    }

    /// If the round has read both short and long inputs, holds back the long inputs, and returns
    /// true. Then the replies to short inputs do not wait for the commands of clients that send many
    /// at once.
    pub(super) fn let_short_inputs_first(&mut self) -> bool {
        let short_inputs = self.look_at_inputs();
        if short_inputs == 0 || short_inputs == self.batch.len() {
            return false;
        }
        let mut batch = mem::take(&mut self.batch);
        batch.retain(|(place, range)| {
            if is_short(range) {
                return true;
            }
            if let Some(connection) = self.connections.get(*place) {
                connection.hold_back(&self.buffer[range.clone()]);
                if !mem::replace(&mut connection.in_resumed, true) {
                    self.resumed.push(*place);
                }
            }
            self.recount(*place);
            false
        });
        self.batch = batch;
        true
    }

    /// Passes the bytes that were read to the dialects. Returns whether there was a long input.
    pub(super) fn feed_batch(&mut self, turn: &mut Turn<'_>, time: TurnTime) -> bool {
        let mut batch = mem::take(&mut self.batch);
        let (mut bytes, mut is_late, mut has_long_inputs) = (0, false, false);
        for (place, range) in batch.drain(..) {
            bytes += range.len();
            has_long_inputs |= !is_short(&range);
            // Reading the clock costs time. So read it only after each piece or slice. Most batches
            // end before that.
            if bytes > time.piece_bytes() || turn.slice_is_spent() {
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
        has_long_inputs
    }

    /// Continues held-back commands, with one slice per connection. Begins with the connection that
    /// has waited longest.
    pub(super) fn feed_held_back(
        &mut self,
        connections: usize,
        turn: &mut Turn<'_>,
        time: TurnTime,
    ) {
        let mut resumed = mem::take(&mut self.resumed);
        let mut done = 0;
        for &place in resumed.iter().take(connections) {
            // At least one connection always continues.
            if done > 0 && time.is_over() {
                break;
            }
            if let Some(connection) = self.connections.get(place) {
                connection.in_resumed = false;
                connection.feed(&[], turn, time);
                if connection.is_mid_work() {
                    connection.busy_until = self.now_ms + BUSY_MS;
                    self.shared.client_mix.note_much_work(self.now_ms);
                }
                self.touch(place);
            }
            done += 1;
        }
        resumed.drain(..done);
        self.resumed = resumed;
    }

    /// Delivers the events of this turn to sessions of this thread directly, without the inbox. So
    /// a waiting consumer gets its job in the turn of the put.
    pub(super) fn deliver_own_events(&mut self, turn: &mut Turn<'_>, time: TurnTime) {
        loop {
            turn.take_events(self.mailbox, &mut self.events);
            if self.events.is_empty() || time.is_over() {
                return;
            }
            self.deliver_events(turn, time);
        }
    }

    /// Delivers events. If the turn has lasted too long, stops after one slice of work. The
    /// remaining events wait for the next turn.
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
            // If the session is closed, drop the event. If the event granted a job, the broker gave
            // the job back when the session was closed.
            let Some(&place) = self.places.get(&session) else { continue };
            let Some(connection) = self.connections.get(place) else { continue };
            // The connection is broken, and its session closes soon. A dialect that gets a job here could
            // finish it, although the client never sees it.
            if connection.in_leaving {
                continue;
            }
            let unsent_before = connection.outbox.len();
            connection.dialect.event(event, turn, &mut connection.outbox);
            // The engine does not count replies as work, and most events only cause replies. So
            // count each event here, and the bytes that it may have copied.
            let bytes = connection.outbox.len().saturating_sub(unsent_before);
            turn.count_work(1 + bytes / UNIT_BODY_BYTES);
            connection.go_on_after_event(self.now_ms);
            self.touch(place);
        }
    }

    /// Closes sessions in the order in which they ended. If the turn has lasted too long, stops
    /// after one slice of work. Returns the connections whose sessions were closed.
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

    /// Closes the socket of a connection whose session was closed.
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

pub(super) fn is_short(range: &Range<usize>) -> bool {
    range.len() <= SHORT_INPUT_BYTES
}
