//! In each round, sends the replies that the log has released. Sends long replies in pieces, so
//! that no client waits while the kernel copies large bodies for other clients.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;
use std::{io, mem};

use broker::{Missing, Position};

use super::turns::BUSY_MS;
use super::{CloseReason, IoThread};
use crate::net::connection::Phase;

/// If a connection has at most this many unsent bytes, the thread sends all of them at once. One write
/// is usually enough.
const PROMPT_BYTES_MAX: usize = 16 * 1024;
/// If a connection has more unsent bytes, the thread sends a piece of this size. Then the next such
/// connection comes first.
const BULKY_PIECE_BYTES: usize = 128 * 1024;
/// After this many bytes in such pieces, a round sends no further piece. The limit exists because
/// the kernel copies each byte, which takes about 0.3 ms per MiB.
const BULKY_ROUND_BYTES: usize = 1024 * 1024;
/// The same limit while quiet clients send requests.
const BULKY_ROUND_BYTES_BESIDE_QUIET: usize = 256 * 1024;

impl IoThread {
    /// Finds connections with replies that the log has released, and adds them to `touched`.
    pub(super) fn collect_released(&mut self) {
        let released = self.shared.broker.released();
        loop {
            let reached = |held: &mut BinaryHeap<Reverse<(Missing, u32)>>| {
                let Reverse((missing, _)) = *held.peek()?;
                if released.covers(missing) { held.pop() } else { None }
            };
            let next = reached(&mut self.held_until_written)
                .or_else(|| reached(&mut self.held_until_durable));
            let Some(Reverse((_, place))) = next else { return };
            if let Some(connection) = self.connections.get(place) {
                connection.in_held = false;
                self.touch(place);
            }
        }
    }

    /// Finds connections whose stored bodies are loaded now, and adds them to `touched`.
    pub(super) fn collect_loaded(&mut self) {
        for session in self.inbox.take_loaded() {
            self.has_loaded = true;
            if let Some(&place) = self.places.get(&session) {
                self.touch(place);
                // The thread may be silent, and then sends nothing in this round.
                self.recount(place);
            }
        }
    }

    /// Whether the lists of [`IoThread::send`] contain connections.
    pub(super) fn has_more_to_send(&self) -> bool {
        !self.silent && (!self.touched.is_empty() || !self.bulky.is_empty())
    }

    /// Sends released replies.
    pub(super) fn send(&mut self) {
        self.send_short();
        self.send_bulky();
    }

    /// Sends released replies to connections with few unsent bytes, which need few writes.
    pub(super) fn send_short(&mut self) {
        if self.must_be_silent() {
            return;
        }
        let released = self.shared.broker.released();
        let mut touched = mem::take(&mut self.touched);
        // The connection that was touched last comes first. A put touches the producer first, and
        // then the consumer that waited for the job. So the consumer can begin its work earlier.
        for place in touched.drain(..).rev() {
            let Some(connection) = self.connections.get(place) else { continue };
            connection.in_touched = false;
            if connection.outbox.len() <= PROMPT_BYTES_MAX {
                self.send_to(place, released);
            } else {
                // The pieces leave after the next turn. So note the turn of these replies here.
                connection.note_asked(self.turn_began);
                connection.busy_until = self.now_ms + BUSY_MS;
                if !mem::replace(&mut connection.in_bulky, true) {
                    self.bulky.push_back(place);
                }
                self.recount(place);
            }
        }
        self.touched = touched;
    }

    /// Sends pieces of released replies to connections with many unsent bytes, which take turns.
    pub(super) fn send_bulky(&mut self) {
        if self.bulky.is_empty() || self.must_be_silent() {
            return;
        }
        let released = self.shared.broker.released();
        self.shared.client_mix.note_much_work(self.now_ms);
        let bytes_max =
            if self.is_beside_quiet() { BULKY_ROUND_BYTES_BESIDE_QUIET } else { BULKY_ROUND_BYTES };
        let mut bytes = 0;
        for _ in 0..self.bulky.len() {
            let Some(place) = self.bulky.pop_front() else { break };
            let Some(connection) = self.connections.get(place) else { continue };
            connection.in_bulky = false;
            bytes += self.send_to(place, released);
            if bytes >= bytes_max {
                break;
            }
        }
    }

    /// Updates `silent`.
    fn must_be_silent(&mut self) -> bool {
        self.silent = !self.may_answer();
        self.silent
    }

    /// Sends released replies to one connection, up to the size of a piece. Returns the number of
    /// reply bytes that were sent.
    fn send_to(&mut self, place: u32, released: Position) -> usize {
        let Some(connection) = self.connections.get(place) else { return 0 };
        if connection.phase == Phase::Lingering {
            return 0;
        }
        connection.note_asked(self.turn_began);
        let was_stuck = connection.is_stuck();
        let bytes = match connection.send(released, BULKY_PIECE_BYTES) {
            Ok(sent) => {
                if sent.progress || !was_stuck {
                    connection.progress_at = self.now_ms;
                }
                connection.sent_bytes += sent.bytes as u64;
                sent.bytes
            }
            Err(error) => {
                self.abandon(place, &error);
                return 0;
            }
        };
        // Most rounds take a turn, whose end is known. The clock is read only if none has ended yet.
        let now = *self.sent_from.get_or_insert_with(Instant::now);
        if let Some(time) = connection.take_request_time(now) {
            self.request_times.add(connection.protocol(), time);
        }
        // Check this only after the bytes in front of the body were sent.
        if connection.outbox.is_broken() {
            let error = io::Error::other("a body cannot be read from the log");
            self.abandon(place, &error);
            return bytes;
        }
        if connection.can_send(released) && !mem::replace(&mut connection.in_bulky, true) {
            self.bulky.push_back(place);
        }
        let waits_for = connection.outbox.waits_for(released);
        if let Some(missing) = waits_for.and_then(|position| position.missing(released))
            && !mem::replace(&mut connection.in_held, true)
        {
            match missing {
                Missing::Written(_) => self.held_until_written.push(Reverse((missing, place))),
                Missing::Durable(_) => self.held_until_durable.push(Reverse((missing, place))),
            }
        }
        if connection.has_work(&self.shared.broker) {
            if !mem::replace(&mut connection.in_resumed, true) {
                self.resumed.push(place);
            }
        } else if connection.is_flushed() {
            self.leave(place, CloseReason::Finished);
        }
        self.recount(place);
        self.enqueue_read(place);
        bytes
    }
}
