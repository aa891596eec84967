//! Housekeeping of an I/O thread. It frees memory of idle connections, disconnects slow readers,
//! and closes connections that their clients do not close. This file also has the code that ends
//! the thread.

use std::io;
use std::mem;
use std::time::{Duration, Instant};

use broker::Millis;

use super::IoThread;
use crate::net::connection::{Phase, Read};
use crate::threads::turn_time::TurnTime;

/// Time between two checks of the recently used connections.
const PERIOD_MS: u64 = 1000;
/// How long the server waits for a client to close after the last reply.
const LINGER_MS: u64 = 2000;
/// How long a stopping thread waits for the log and for slow readers.
const STOP_TIME: Duration = Duration::from_secs(5);

impl IoThread {
    pub(super) fn schedule_housekeeping(&mut self) {
        if self.housekeeping_at.is_none() {
            self.housekeeping_at = Some(Millis(self.now_ms + PERIOD_MS));
        }
    }

    /// Checks the recently used connections only, so that idle connections cost no time.
    pub(super) fn housekeep(&mut self) {
        if self.housekeeping_at.is_none_or(|at| at.0 > self.now_ms) {
            return;
        }
        self.housekeeping_at = None;
        let limits = self.shared.limits.clone();
        for place in mem::take(&mut self.recent) {
            let now_ms = self.now_ms;
            let Some(connection) = self.connections.get(place) else { continue };
            let still_ms = now_ms.saturating_sub(connection.progress_at);
            let unsent_bytes = connection.outbox.len() as u64;
            if connection.phase == Phase::Lingering {
                if still_ms >= LINGER_MS {
                    self.remove(place);
                    continue;
                }
            } else if connection.is_tls_overdue(now_ms) {
                self.abandon(place, &io::ErrorKind::TimedOut.into());
                continue;
            } else if connection.is_too_silent(now_ms) {
                tracing::debug!(connection = place, "closed: the client sent nothing for too long");
                self.abandon(place, &io::ErrorKind::TimedOut.into());
                continue;
            } else if connection.is_request_overdue(now_ms, limits.unfinished_ms()) {
                tracing::debug!(connection = place, "closed: the rest of a request did not arrive");
                self.abandon(place, &io::ErrorKind::TimedOut.into());
                continue;
            } else if connection.falls_behind(unsent_bytes, limits.unsent_bytes())
                || (connection.is_stuck() && still_ms >= limits.unsent_ms())
            {
                if let Some(count) = self.slow_readers.count() {
                    tracing::warn!(
                        connection = place,
                        unsent_bytes,
                        still_ms,
                        count,
                        "cut off a slow reader"
                    );
                }
                self.abandon(place, &io::ErrorKind::TimedOut.into());
                continue;
            }
            if mem::take(&mut connection.active)
                || connection.silence_max_ms().is_some()
                || connection.has_unsent()
                || connection.has_begun_request()
                || connection.is_without_tls_yet()
                || connection.phase == Phase::Lingering
            {
                self.recent.push(place);
            } else {
                connection.in_recent = false;
                connection.shrink();
            }
            self.recount(place);
        }
        if !self.recent.is_empty() {
            self.schedule_housekeeping();
        }
    }

    /// Sends the pending replies, and closes all connections. The sessions stay open in the broker,
    /// because their leases end with the process anyway. If this function closed a session, the
    /// broker would grant its jobs to other sessions, which also end soon. Each such grant would
    /// count as an attempt.
    pub(super) fn stop(&mut self) {
        let deadline = Instant::now() + STOP_TIME;
        self.end_waiting();
        for place in self.connections.all() {
            self.touch(place);
        }
        loop {
            self.sockets.look();
            self.now_ms = self.shared.clock.now().0;
            self.collect_released();
            // Even now, a reply can wait for its stored body. If a request has taken an item for
            // good, and this reply is not sent, the item is lost.
            self.collect_loaded();
            self.take_ready();
            self.send();
            // The loader goes on when clients have read the bodies that it has loaded.
            self.report_account();
            self.discard_pending();
            if self.connections.iter().all(|connection| !connection.has_unsent())
                || Instant::now() >= deadline
                || self.shared.broker.failure().is_some()
            {
                break;
            }
            if self.has_more_to_send() {
                continue;
            }
            // The log wakes nobody for this loop, so it looks again soon.
            self.sockets.sleep(Duration::from_millis(20));
        }
        for place in self.connections.all() {
            self.drain(place);
            self.remove(place);
        }
        self.report_account();
    }

    /// Answers clients that wait for an event that will never come.
    fn end_waiting(&mut self) {
        let broker = self.shared.broker.clone();
        let mut turn = broker.turn(self.shared.clock.now());
        // If a session's event is already in the inbox, the session gets this event first.
        self.inbox.take_events(&mut self.events);
        loop {
            self.deliver_events(&mut turn, TurnTime::begin(false));
            turn.take_events(self.mailbox, &mut self.events);
            if self.events.is_empty() {
                break;
            }
        }
        for place in self.connections.all() {
            if let Some(connection) = self.connections.get(place)
                && connection.phase == Phase::Open
                && !connection.dialect.finished()
            {
                connection.dialect.stop(&mut turn, &mut connection.outbox);
            }
        }
    }

    /// Closes the sending side, and empties the socket. If the server closed a socket with unread
    /// bytes, the kernel would discard the last replies.
    fn drain(&mut self, place: u32) {
        let mut buffer = [0; 4096];
        let Some(connection) = self.connections.get(place) else { return };
        if connection.phase == Phase::Lingering || connection.linger() {
            // The loop has a limit, because a client may never stop sending.
            for _ in 0..256 {
                match connection.read(&mut buffer) {
                    Ok(Read::Bytes(_)) => {}
                    Ok(Read::End | Read::Nothing) | Err(_) => break,
                }
            }
        }
    }
}
