//! The memcache dialect (spec kestrel 1).

use broker::FailureCause;

use super::Monitor;
use super::memcache_wire::{self, Get, Request};
use crate::model::items::FetchMode;
use crate::model::policies::{QUIESCENT, READ_ONLY, UP};
use crate::model::rooms::Blocked;
use crate::model::session::{Expected, Observed};
use crate::model::{Model, Need, Place};

/// An expiry from this number on is in seconds since 1970.
const ABSOLUTE_FROM_S: i32 = 1_000_000;

pub(super) fn line(text: &str, need: Need) -> Expected {
    Expected::line(text, need)
}

/// The reply with an item.
pub(super) fn value(queue: &str, body: &[u8], need: Need) -> Expected {
    let mut bytes = format!("VALUE {queue} 0 {}\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(b"\r\nEND\r\n");
    Expected::bytes(bytes, need)
}

impl Model {
    /// Handles one request, if it has arrived completely.
    pub(in crate::model) fn read_memcache(
        &mut self,
        place: Place,
        observed: &mut Observed<'_>,
    ) -> Result<bool, String> {
        let item_bytes_max = self.setting.item_bytes_max;
        let conn = self.conn(place);
        let Some((request, len)) =
            memcache_wire::read(conn.buffer.make_contiguous(), item_bytes_max)
        else {
            return Ok(false);
        };
        conn.buffer.drain(..len);
        self.answer_request(place, request, observed)?;
        Ok(self.conns.contains_key(&place))
    }

    /// Replies with an error, and closes the connection.
    fn fail(
        &mut self,
        place: Place,
        error: &str,
        need: Need,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        observed.take(&line(error, need))?;
        self.close_conn(place);
        Ok(())
    }

    fn answer_request(
        &mut self,
        place: Place,
        request: Request,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let writes = matches!(
            request,
            Request::Set { .. }
                | Request::Delete(_)
                | Request::Flush(_)
                | Request::FlushAll
                | Request::FlushExpired(_)
        );
        if writes && self.writes_blocked() {
            let is_sweep = matches!(request, Request::FlushExpired(_));
            let error = if is_sweep { "CLIENT_ERROR" } else { "SERVER_ERROR" };
            return self.fail(place, error, 0, observed);
        }
        let reply = match request {
            Request::Wrong { ends: true } => {
                return self.fail(place, "CLIENT_ERROR", 0, observed);
            }
            Request::Wrong { ends: false } => line("CLIENT_ERROR", 0),
            Request::Set { queue, expiry, body } => {
                return self.set(place, &queue, expiry, &body, observed);
            }
            Request::Get(get) => return self.get(place, &get, observed),
            Request::Monitor { queue, seconds, max } => {
                return self.monitor(place, queue, seconds, max, observed);
            }
            Request::Confirm { queue, count } => {
                let open = self.open_count(place, &queue);
                match usize::try_from(count) {
                    Ok(count @ 1..) if count <= open => {
                        line("END", self.close_oldest(place, &queue, count))
                    }
                    _ => line("ERROR", 0),
                }
            }
            Request::Delete(queue) if self.alias(&queue).is_some() => line("DELETED", 0),
            Request::Delete(queue) => line("DELETED", self.remove_queue(&queue)),
            Request::Flush(queue) => line("END", self.flush(&queue)),
            Request::FlushAll => line("Flushed all queues.", self.flush_all()),
            Request::FlushExpired(queue) => {
                let (count, need) = self.flush_expired(&queue);
                line(&count.to_string(), need)
            }
            Request::FlushAllExpired => {
                let (count, need) = self.flush_all_expired();
                line(&count.to_string(), need)
            }
            Request::Version => line("VERSION 2.4.1", 0),
            Request::Status(None) => {
                line(["UP", "WRITEAVOID", "READONLY", "QUIESCENT"][self.status as usize - 1], 0)
            }
            Request::Status(Some(word)) => match &word.to_ascii_lowercase()[..] {
                "up" => line("END", self.set_status(UP)),
                "readonly" => line("END", self.set_status(READ_ONLY)),
                "quiescent" => line("END", self.set_status(QUIESCENT)),
                _ => return self.fail(place, "CLIENT_ERROR", 0, observed),
            },
            Request::Quit => {
                self.close_conn(place);
                return Ok(());
            }
        };
        observed.take(&reply)
    }

    fn set(
        &mut self,
        place: Place,
        queue: &str,
        expiry: i32,
        body: &[u8],
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let expires = match expiry {
            0 => None,
            ABSOLUTE_FROM_S.. => Some(u64::from(expiry.unsigned_abs()) * 1000),
            _ => Some(self.now.saturating_add_signed(i64::from(expiry) * 1000)),
        };
        self.store(place, queue, (expires, body), observed)
    }

    pub(in crate::model) fn store(
        &mut self,
        place: Place,
        queue: &str,
        (expires, body): (Option<u64>, &[u8]),
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let before = self.leave_line(place);
        let not_stored = line("NOT_STORED", 0);
        // The status can change while the item waits for room.
        if self.is_draining || self.writes_blocked() {
            return observed.take(&not_stored);
        }
        // The same reply reports a refusal by a policy and by a full disk. So in runs with policies
        // that refuse items, the disk has no faults.
        if self.may_refuse && self.is_refused(&not_stored, observed)? {
            return Ok(());
        }
        if self.must_wait(place, before.as_ref(), queue, (body, b"")) {
            let (queue, body) = (queue.to_owned(), body.to_vec());
            self.conn(place).blocked = Some(Blocked::Set { queue, expires, body });
            return Ok(());
        }
        let reply = match self.add_item(place, queue, body, expires) {
            Ok(need) => line("STORED", need),
            Err(_) => not_stored,
        };
        observed.take(&reply)
    }

    fn get(&mut self, place: Place, get: &Get, observed: &mut Observed<'_>) -> Result<(), String> {
        let queue = &get.queue;
        if get.abort {
            if let Some(lease) = self.forget_oldest(place, queue, 1).first()
                && let Some(id) = self.held_by(place, *lease)
            {
                self.lose(id, FailureCause::Aborted);
            }
            return observed.take(&line("END", 0));
        }
        let mut need = 0;
        if get.close {
            need = self.close_oldest(place, queue, 1);
            if !get.open {
                return observed.take(&line("END", need));
            }
        }
        let open = self.open_count(place, queue);
        if !get.open && !get.peek && open > 0 {
            return self.fail(place, "ERROR", need, observed);
        }
        if self.reads_blocked() {
            return self.fail(place, "SERVER_ERROR", need, observed);
        }
        if get.open && open >= self.policy(queue).open_max as usize {
            return self.fail(place, "ERROR", need, observed);
        }
        let how = match get {
            Get { peek: true, .. } => FetchMode::Peek,
            Get { open: true, .. } => FetchMode::Open,
            _ => FetchMode::Take,
        };
        self.fetch(place, queue, how, get.timeout_ms, need, observed)
    }

    fn monitor(
        &mut self,
        place: Place,
        queue: String,
        seconds: i32,
        max: Option<i32>,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        if self.reads_blocked() {
            return self.fail(place, "CLIENT_ERROR", 0, observed);
        }
        let deadline = self.now.saturating_add_signed(i64::from(seconds) * 1000);
        let left = match max {
            None => Some(u64::from(self.policy(&queue).open_max)),
            Some(max) => u64::try_from(max).ok(),
        };
        self.go_on_monitoring(place, Monitor { queue, deadline, left, need: 0 }, observed)
    }
}
