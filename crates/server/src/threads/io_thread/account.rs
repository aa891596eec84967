//! The memory account of a thread's connections. The thread updates it with each change. If all
//! connections of the process together use too much memory, the thread disconnects its largest
//! connections.

use std::{io, mem};

use super::{IoThread, Waiting};
use crate::net::connection::{Connection, Held};

/// Memory of a connection besides its buffers and its session in the broker. This is the connection
/// itself, its dialect, and its entries in the thread's tables.
/// 180 bytes is for a session of beanstalkd's protocol; those of the others take a little more.
const CONNECTION_BYTES: u64 = size_of::<Connection>() as u64 + 180;
/// Above a limit, the threads close connections until the sum is below this part of the limit. If
/// they stopped at the limit itself, the next bytes would exceed it again.
const KEPT_SHARE: (u64, u64) = (7, 8);

/// Memory of one thread's connections.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// The sum over all connections of the thread.
    held: Held,
    connections: u64,
    /// The part of the process's sums that this thread has added: memory, and number of
    /// connections.
    reported: (Held, u64),
}

impl Account {
    pub(super) fn opened(&mut self) {
        self.connections += 1;
    }

    pub(super) fn closed(&mut self, counted: Held) {
        self.connections -= 1;
        self.change(counted, Held::default());
    }

    pub(super) fn change(&mut self, before: Held, now: Held) {
        let moved = |sum: u64, before: u64, now: u64| sum + now - before;
        let held = &mut self.held;
        held.unfinished_bytes =
            moved(held.unfinished_bytes, before.unfinished_bytes, now.unfinished_bytes);
        held.blocked_bytes = moved(held.blocked_bytes, before.blocked_bytes, now.blocked_bytes);
        held.unsent_bytes = moved(held.unsent_bytes, before.unsent_bytes, now.unsent_bytes);
        held.stuck_bytes = moved(held.stuck_bytes, before.stuck_bytes, now.stuck_bytes);
        held.loaded_bytes = moved(held.loaded_bytes, before.loaded_bytes, now.loaded_bytes);
        held.tls_bytes = moved(held.tls_bytes, before.tls_bytes, now.tls_bytes);
    }

    fn bytes((held, connections): (Held, u64)) -> u64 {
        let commands_bytes = held.unfinished_bytes + held.blocked_bytes;
        let buffers_bytes = commands_bytes + held.unsent_bytes + held.tls_bytes;
        buffers_bytes + connections * CONNECTION_BYTES
    }
}

/// What all connections together hold too much of.
#[derive(Copy, Clone, Debug)]
pub(super) enum Excess {
    /// Incomplete commands.
    Unfinished,
    /// Unsent replies of slow readers.
    Stuck,
}

impl Excess {
    pub(super) const COUNT: usize = 2;

    fn bytes(self, held: Held) -> u64 {
        match self {
            Excess::Unfinished => held.unfinished_bytes,
            Excess::Stuck => held.stuck_bytes,
        }
    }

    fn message(self) -> &'static str {
        match self {
            Excess::Unfinished => "cut off an unfinished command",
            Excess::Stuck => "cut off the slowest of many readers",
        }
    }
}

impl IoThread {
    /// Updates the account after a change of one connection.
    pub(super) fn recount(&mut self, place: u32) {
        let Some(connection) = self.connections.get(place) else { return };
        let held = connection.held();
        if held != connection.counted {
            let before = mem::replace(&mut connection.counted, held);
            self.account.change(before, held);
        }
    }

    /// Reports changes to the sums of the process. If all connections together use too much memory,
    /// disconnects the largest connections of this thread.
    pub(super) fn enforce_limits(&mut self) {
        self.report_account();
        let limits = self.shared.limits.clone();
        let (unfinished, stuck) = (limits.unfinished_bytes(), limits.unsent_total_bytes());
        if limits.held.unfinished_bytes() > unfinished {
            self.cut_share(Excess::Unfinished, unfinished);
        }
        if limits.held.stuck_bytes() > stuck {
            self.cut_share(Excess::Stuck, stuck);
        }
    }

    /// Whose requests must wait now, because clients read their replies more slowly than these
    /// requests make further ones. One report of a worker can become a thousand replies. Those of
    /// quiet clients wait only if twice as much is unsent.
    pub(super) fn waiting_for_readers(&self) -> Waiting {
        let limits = &self.shared.limits;
        let (flowing, most) = (limits.held.flowing_bytes(), limits.unsent_total_bytes());
        match flowing {
            _ if flowing > most.saturating_mul(2) => Waiting::All,
            _ if flowing > most => Waiting::Busy,
            _ => Waiting::Nobody,
        }
    }

    pub(super) fn report_account(&mut self) {
        let now = (self.account.held, self.account.connections);
        let before = mem::replace(&mut self.account.reported, now);
        if now != before {
            let difference = |now: u64, before: u64| now.cast_signed() - before.cast_signed();
            let flowing = |held: Held| held.unsent_bytes - held.stuck_bytes;
            self.shared.limits.held.add(
                difference(now.0.unfinished_bytes, before.0.unfinished_bytes),
                difference(now.0.stuck_bytes, before.0.stuck_bytes),
                difference(flowing(now.0), flowing(before.0)),
            );
            let bytes = difference(Account::bytes(now), Account::bytes(before));
            self.shared.broker.add_outside_bytes(bytes);
        }
        // The loader has counted the bodies that were loaded since the last report.
        let loaded_bytes = now.0.loaded_bytes;
        if mem::take(&mut self.has_loaded) || loaded_bytes != before.0.loaded_bytes {
            self.shared.broker.report_unread_bodies(self.mailbox, loaded_bytes);
        }
    }

    /// Called when all connections together hold more than `most` bytes. This thread frees its
    /// share of the excess. It frees nothing if its connections hold less than half of the average
    /// per thread. If the sum is still too large, this thread wakes the other threads, which do the
    /// same.
    fn cut_share(&mut self, excess: Excess, most: u64) {
        let limits = self.shared.limits.clone();
        let all_bytes = excess.bytes(limits.held.all());
        let own_bytes = excess.bytes(self.account.held);
        // At least one thread holds the average or more, and passes this check.
        let threads = limits.held.threads() as u64;
        if own_bytes.saturating_mul(2 * threads) >= all_bytes {
            let kept_bytes = most / KEPT_SHARE.1 * KEPT_SHARE.0;
            let excess_bytes = all_bytes.saturating_sub(kept_bytes);
            self.cut_off(share(excess_bytes, own_bytes, all_bytes), excess);
            // Report at once. Otherwise other threads would disconnect clients although this thread
            // has already freed the memory.
            self.report_account();
        }
        if excess.bytes(limits.held.all()) > most {
            limits.held.notify_excess(&self.inbox);
        }
    }

    /// Disconnects the largest connections of this thread until this many bytes are freed.
    pub(super) fn cut_off(&mut self, excess_bytes: u64, excess: Excess) {
        let mut holders: Vec<(u64, u32)> = Vec::new();
        for place in self.connections.all() {
            if let Some(connection) = self.connections.get(place) {
                holders.push((excess.bytes(connection.counted), place));
            }
        }
        holders.sort_unstable();
        let (mut left_bytes, mut clients, mut freed_bytes) = (excess_bytes, 0, 0);
        while left_bytes > 0
            && let Some((held_bytes, place)) = holders.pop()
            && held_bytes > 0
        {
            self.abandon(place, &io::ErrorKind::OutOfMemory.into());
            left_bytes = left_bytes.saturating_sub(held_bytes);
            freed_bytes += held_bytes;
            clients += 1;
        }
        // Thousands of clients can go in one round, and each message takes a system call.
        if let Some(count) = self.cut_offs[excess as usize].count_more(clients) {
            tracing::warn!(count, freed_bytes, "{}", excess.message());
        }
    }
}

/// The bytes that this thread must free. They are proportional to the bytes that its connections
/// hold.
fn share(excess_bytes: u64, own_bytes: u64, all_bytes: u64) -> u64 {
    let share = u128::from(excess_bytes) * u128::from(own_bytes) / u128::from(all_bytes.max(1));
    share as u64
}
