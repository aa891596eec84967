//! Executes each request, with checks in the original's order (spec kestrel 1.3).

use broker::{Answer, Body, Millis, Outbox, Turn, When};

use super::reply;
use super::request::{Get, Request};
use super::session::MemcacheSession;
use crate::client::{AT_ONCE, Closing, FetchMode};
use crate::listing::Listing;
use crate::monitor::Monitor;
use crate::name::{is_possible, is_usable};
use crate::session::BlockedItem;
use crate::stats::Block;
use crate::{expiry, status};

impl MemcacheSession {
    pub(crate) fn execute(
        &mut self,
        request: Request<'_>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        match request {
            Request::Set(_) | Request::Refused { .. } => unreachable!("their data is read first"),
            Request::Get(get) => self.get(&get, turn, outbox),
            Request::Monitor { queue, seconds, max } => {
                self.begin_monitor(queue, seconds, max, turn, outbox);
            }
            Request::Confirm { queue, count } => self.confirm(queue, count, outbox),
            Request::Delete(queue) => self.delete(queue, turn, outbox),
            Request::Flush(queue) => self.flush(queue, turn, outbox),
            Request::FlushAll => self.flush_all(turn, outbox),
            Request::FlushExpired(queue) => self.flush_expired(queue, turn, outbox),
            Request::FlushAllExpired => self.list(Listing::flush_expired()),
            Request::Stats => {
                turn.catch_up();
                self.list(Listing::stats());
            }
            Request::DumpStats(names) => {
                turn.catch_up();
                self.list(Listing::blocks(Block::Stats, &names));
            }
            Request::DumpConfig(names) => self.list(Listing::blocks(Block::Config, &names)),
            Request::Version => {
                let version = &self.client.server.options().version;
                outbox.reply(AT_ONCE, format!("VERSION {version}\r\n").as_bytes());
            }
            Request::Reload => {
                self.wait_for_work(reply::RELOADED);
                self.client.server.controls.reload(self.client.id, turn);
            }
            Request::Shutdown | Request::Status(Some(_)) if !self.client.may_control => {
                self.fail(AT_ONCE, reply::NOT_ALLOWED, turn, outbox);
            }
            Request::Shutdown => {
                self.client.server.controls.shut_down();
                self.client.end(turn);
            }
            Request::Status(word) => self.status(word, turn, outbox),
            Request::Quit => self.client.end(turn),
        }
    }

    /// Executes a set after all of its data has arrived.
    pub(crate) fn set(
        &mut self,
        queue: &[u8],
        expiry_s: i32,
        data: Body,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        if self.client.is_refused_writes(turn) {
            return self.fail(AT_ONCE, reply::SERVER_ERROR, turn, outbox);
        }
        if !is_usable(queue, turn) {
            return self.fail(AT_ONCE, reply::CLIENT_ERROR, turn, outbox);
        }
        let expires = expiry::of_seconds(expiry_s, turn.now());
        self.store(queue, data, expires, turn, outbox);
    }

    /// Adds an item, or waits for room.
    pub(crate) fn store(
        &mut self,
        queue: &[u8],
        body: Body,
        expires: Option<When>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        if turn.caller(self.client.id).must_wait_for_room(Some(queue), &body, b"") {
            return self.wait_for_room(BlockedItem { queue: queue.into(), body, expires });
        }
        let added = self.client.add(queue, body, expires, turn);
        outbox.reply(added.after, added.value.map_or(reply::NOT_STORED, |()| reply::STORED));
    }

    fn get(&mut self, get: &Get<'_>, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let queue = get.queue;
        if get.abort {
            let after = self.client.abort_oldest(queue, turn);
            return outbox.reply(after, reply::END);
        }
        let mut after = AT_ONCE;
        if get.close {
            after = self.client.close_oldest(queue, turn);
            if !get.open {
                return outbox.reply(after, reply::END);
            }
        }
        let takes = !get.open && !get.peek;
        if takes && self.client.open_count(queue) > 0 {
            return self.fail(after, reply::ERROR, turn, outbox);
        }
        if self.client.is_refused_reads(turn) {
            return self.fail(after, reply::SERVER_ERROR, turn, outbox);
        }
        if get.open && self.client.is_open_full(queue, turn) {
            return self.fail(after, reply::ERROR, turn, outbox);
        }
        if !is_usable(queue, turn) {
            return self.fail(after, reply::CLIENT_ERROR, turn, outbox);
        }
        let (how, counter) = if get.peek {
            (FetchMode::Peek, &self.client.counters().cmd_peek)
        } else {
            let how = if get.open { FetchMode::Open } else { FetchMode::Take };
            (how, &self.client.counters().cmd_get)
        };
        counter.add_one();
        self.fetch(queue, how, get.timeout_ms, after, turn, outbox);
    }

    fn begin_monitor(
        &mut self,
        queue: &[u8],
        seconds: i32,
        max: Option<i32>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        // COMPAT(kestrel): like the original, close the connection; the same applies to
        // FLUSH_EXPIRED. The original sends no reply. This server sends CLIENT_ERROR, and not
        // SERVER_ERROR, because clients retry after a SERVER_ERROR; case
        // mc-status-blocks-monitor-and-flush-expired.
        if self.client.is_refused_reads(turn) || !is_usable(queue, turn) {
            return self.fail(AT_ONCE, reply::CLIENT_ERROR, turn, outbox);
        }
        self.client.counters().cmd_monitor.add_one();
        let deadline = turn.now().0.saturating_add_signed(i64::from(seconds) * 1_000);
        let left = match max {
            None => Some(u64::from(turn.open_max(queue))),
            Some(max) => u64::try_from(max).ok(),
        };
        self.monitor(Monitor::new(queue, Millis(deadline), left, AT_ONCE), turn, outbox);
    }

    fn confirm(&mut self, queue: &[u8], count: i32, outbox: &mut Outbox) {
        match usize::try_from(count) {
            Ok(count @ 1..) if count <= self.client.open_count(queue) => {
                self.begin_closing(Closing::new(queue.to_vec(), count));
            }
            _ => outbox.reply(AT_ONCE, reply::ERROR),
        }
    }

    fn delete(&mut self, queue: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.client.is_refused_writes(turn) {
            return self.fail(AT_ONCE, reply::SERVER_ERROR, turn, outbox);
        }
        if !is_possible(queue) {
            return outbox.reply(AT_ONCE, reply::DELETED);
        }
        let removal = turn.caller(self.client.id).remove_queue(queue);
        self.answer_clearing(removal, reply::DELETED, outbox);
    }

    fn flush(&mut self, queue: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.client.is_refused_writes(turn) {
            return self.fail(AT_ONCE, reply::SERVER_ERROR, turn, outbox);
        }
        if !is_possible(queue) {
            return outbox.reply(AT_ONCE, reply::END);
        }
        let flush = turn.caller(self.client.id).flush(queue);
        self.answer_clearing(flush, reply::END, outbox);
    }

    fn flush_all(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.client.is_refused_writes(turn) {
            return self.fail(AT_ONCE, reply::SERVER_ERROR, turn, outbox);
        }
        let flush = turn.caller(self.client.id).flush_all();
        self.answer_clearing(flush, reply::FLUSHED_ALL, outbox);
    }

    fn flush_expired(&mut self, queue: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.client.is_refused_writes(turn) {
            return self.fail(AT_ONCE, reply::CLIENT_ERROR, turn, outbox);
        }
        let flushed = if is_possible(queue) {
            turn.caller(self.client.id).flush_expired(queue)
        } else {
            Answer::at_once(None)
        };
        let count = flushed.value.unwrap_or(0);
        outbox.reply(flushed.after, format!("{count}\r\n").as_bytes());
    }

    fn status(&mut self, word: Option<&[u8]>, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let Some(word) = word else {
            let name = status::name(turn.status());
            return outbox.reply(turn.after_facts(), format!("{name}\r\n").as_bytes());
        };
        let Ok(status) = status::parse(word) else {
            return self.fail(AT_ONCE, reply::CLIENT_ERROR, turn, outbox);
        };
        let set = turn.set_status(status, self.client.server.options().status_grace_ms);
        outbox.reply(set.after, reply::END);
    }
}
