//! What each request does, and the order in which it is looked at (spec kestrel 1.3).

use std::mem;

use broker::{Body, Event, Flush, Millis, Outbox, Turn};

use super::reply;
use super::request::{Get, Request};
use super::session::{MemcacheSession, Waiting};
use crate::client::{AT_ONCE, Fetched, How, patience};
use crate::monitor::{Monitor, Next};
use crate::name::{is_possible, is_usable};
use crate::{expiry, stats, status};

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
                self.monitor(queue, seconds, max, turn, outbox);
            }
            Request::Confirm { queue, count } => self.confirm(queue, count, turn, outbox),
            Request::Delete(queue) => self.delete(queue, turn, outbox),
            Request::Flush(queue) => self.flush(queue, turn, outbox),
            Request::FlushAll => self.flush_all(turn, outbox),
            Request::FlushExpired(queue) => self.flush_expired(queue, turn, outbox),
            Request::FlushAllExpired => {
                let (count, after) = turn.flush_all_expired();
                outbox.reply(after, format!("{count}\r\n").as_bytes());
            }
            Request::Stats => outbox.reply(AT_ONCE, &stats::all(&self.client.server, turn)),
            Request::DumpStats(names) => outbox.reply(AT_ONCE, &stats::dump(&names, turn)),
            Request::DumpConfig(names) => {
                let server = &self.client.server;
                outbox.reply(AT_ONCE, &stats::dump_config(&names, server, turn));
            }
            Request::Version => {
                let version = &self.client.server.options().version;
                outbox.reply(AT_ONCE, format!("VERSION {version}\r\n").as_bytes());
            }
            Request::Status(word) => self.status(word, turn, outbox),
            Request::Reload => {
                self.waiting = Waiting::Reload { is_last: false };
                self.client.server.controls.reload(self.client.id, turn);
            }
            Request::Shutdown => {
                self.client.server.controls.shut_down();
                self.client.end(turn);
            }
            Request::Quit => self.client.end(turn),
        }
    }

    /// A set whose data is complete.
    pub(crate) fn set(
        &mut self,
        queue: &[u8],
        expiry_s: i32,
        data: &[u8],
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
        match self.client.add(queue, Body::from(data), expires, turn) {
            Ok(after) => outbox.reply(after, reply::STORED),
            Err(after) => outbox.reply(after, reply::NOT_STORED),
        }
    }

    fn get(&mut self, get: &Get<'_>, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let queue = get.queue;
        if get.abort {
            let after = self.client.abort_oldest(queue, turn);
            return outbox.reply(after, reply::END);
        }
        let mut after = AT_ONCE;
        if get.close {
            after = self.client.close_oldest(queue, 1, turn);
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
            (How::Peek, &self.client.counters().cmd_peek)
        } else {
            let how = if get.open { How::Open } else { How::Take };
            (how, &self.client.counters().cmd_get)
        };
        counter.add_one();
        match self.client.fetch(queue, how, patience(get.timeout_ms), turn) {
            Fetched::Item(body, found) => reply::item(outbox, found.max(after), queue, &body),
            Fetched::Nothing(missed) => outbox.reply(missed.max(after), reply::END),
            Fetched::Waiting => {
                self.waiting = Waiting::Item { queue: queue.into(), how, after };
            }
        }
    }

    fn monitor(
        &mut self,
        queue: &[u8],
        seconds: i32,
        max: Option<i32>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        // COMPAT(kestrel): as with FLUSH_EXPIRED, the original says nothing and closes. Clients retry after
        // a SERVER_ERROR, so it is none; case mc-status-blocks-monitor-and-flush-expired.
        if self.client.is_refused_reads(turn) || !is_usable(queue, turn) {
            return self.fail(AT_ONCE, reply::CLIENT_ERROR, turn, outbox);
        }
        self.client.counters().cmd_monitor.add_one();
        let deadline = turn.now().0.saturating_add_signed(i64::from(seconds) * 1_000);
        let left = match max {
            None => Some(u64::from(turn.policy(queue).open_max)),
            Some(max) => u64::try_from(max).ok(),
        };
        let mut monitor = Monitor::new(queue, Millis(deadline), left, AT_ONCE);
        let next = monitor.next(&mut self.client, turn);
        self.go_on(monitor, next, turn, outbox);
    }

    /// Sends items until there is something to wait for.
    fn go_on(
        &mut self,
        mut monitor: Monitor,
        mut next: Next,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        loop {
            match next {
                Next::Item(body, after) => reply::item(outbox, after, monitor.queue(), &body),
                Next::End(after) => return outbox.reply(after, reply::END),
                Next::Waiting => {
                    self.waiting = Waiting::Monitor(monitor);
                    return;
                }
            }
            next = monitor.next(&mut self.client, turn);
        }
    }

    fn confirm(&mut self, queue: &[u8], count: i32, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        match usize::try_from(count) {
            Ok(count @ 1..) if count <= self.client.open_count(queue) => {
                let after = self.client.close_oldest(queue, count, turn);
                outbox.reply(after, reply::END);
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
        let removal = turn.remove_queue(self.client.id, queue);
        self.answer_flush(removal, reply::DELETED, outbox);
    }

    fn flush(&mut self, queue: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.client.is_refused_writes(turn) {
            return self.fail(AT_ONCE, reply::SERVER_ERROR, turn, outbox);
        }
        if !is_possible(queue) {
            return outbox.reply(AT_ONCE, reply::END);
        }
        let flush = turn.flush(self.client.id, queue);
        self.answer_flush(flush, reply::END, outbox);
    }

    fn flush_all(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.client.is_refused_writes(turn) {
            return self.fail(AT_ONCE, reply::SERVER_ERROR, turn, outbox);
        }
        let flush = turn.flush_all(self.client.id);
        self.answer_flush(flush, reply::FLUSHED_ALL, outbox);
    }

    fn answer_flush(&mut self, flush: Flush, done: &'static [u8], outbox: &mut Outbox) {
        match flush {
            Flush::Done(after) => outbox.reply(after, done),
            Flush::Waiting => self.waiting = Waiting::Flush(done),
        }
    }

    fn flush_expired(&mut self, queue: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.client.is_refused_writes(turn) {
            return self.fail(AT_ONCE, reply::CLIENT_ERROR, turn, outbox);
        }
        let flushed = if is_possible(queue) { turn.flush_expired(queue) } else { None };
        let (count, after) = flushed.unwrap_or((0, AT_ONCE));
        outbox.reply(after, format!("{count}\r\n").as_bytes());
    }

    fn status(&mut self, word: Option<&[u8]>, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let Some(word) = word else {
            let name = status::name(turn.status());
            return outbox.reply(AT_ONCE, format!("{name}\r\n").as_bytes());
        };
        let Ok(status) = status::parse(word) else {
            return self.fail(AT_ONCE, reply::CLIENT_ERROR, turn, outbox);
        };
        let after = turn.set_status(status, self.client.server.options().status_grace_ms);
        outbox.reply(after, reply::END);
    }

    /// What the session waited for has happened.
    pub(crate) fn resume(&mut self, event: Event, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        match mem::replace(&mut self.waiting, Waiting::Nothing) {
            Waiting::Nothing => unreachable!("nothing is told to who does not wait"),
            Waiting::Item { queue, how, after } => {
                match self.client.resume(&queue, how, event, turn) {
                    Fetched::Item(body, found) => {
                        reply::item(outbox, found.max(after), &queue, &body);
                    }
                    Fetched::Nothing(missed) => outbox.reply(missed.max(after), reply::END),
                    Fetched::Waiting => unreachable!("the wait is over"),
                }
            }
            Waiting::Monitor(mut monitor) => {
                let next = monitor.resume(event, &mut self.client, turn);
                self.go_on(monitor, next, turn, outbox);
            }
            Waiting::Flush(done) => match event {
                Event::Flushed(after) => outbox.reply(after, done),
                other => unreachable!("{other:?} during a flush"),
            },
            Waiting::Reload { is_last } => match event {
                Event::Reloaded(after) => {
                    outbox.reply(after, reply::RELOADED);
                    if is_last {
                        self.client.end(turn);
                    }
                }
                other => unreachable!("{other:?} while the configuration is read"),
            },
        }
    }
}
