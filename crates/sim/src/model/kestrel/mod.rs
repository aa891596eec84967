//! What Kestrel's clients say and are told in the memcache dialect (spec kestrel 1).

mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use wire::{Get, Request};

use super::items::{How, Read};
use super::outcome::Letter;
use super::policies::{QUIESCENT, READ_ONLY, UP};
use super::session::{Expected, Observed};
use super::{Model, Need, Place};

/// Open reads by queue, oldest first. Those that are held no more stay in their place.
pub(super) type OpenReads = BTreeMap<String, VecDeque<u64>>;

/// Expiries from here on are seconds since 1970.
const ABSOLUTE_FROM_S: i32 = 1_000_000;

/// What a connection waits for.
#[derive(Clone, Debug)]
pub(super) enum Fetch {
    /// An item; the reply rests on so much too.
    Item {
        queue: String,
        how: How,
        need: Need,
    },
    Monitor {
        queue: String,
        deadline: u64,
        left: Option<u64>,
    },
}

fn line(text: &str, need: Need) -> Expected {
    Expected::line(text, need)
}

fn value(queue: &str, body: &[u8], need: Need) -> Expected {
    let mut bytes = format!("VALUE {queue} 0 {}\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(b"\r\nEND\r\n");
    Expected::bytes(bytes, need)
}

impl Model {
    /// Deals with one request, if it is complete.
    pub(super) fn read_request(
        &mut self,
        place: Place,
        observed: &mut Observed<'_>,
    ) -> Result<bool, String> {
        let item_bytes_max = self.setting.item_bytes_max;
        let conn = self.conn(place);
        let Some((request, len)) = wire::read(conn.buffer.make_contiguous(), item_bytes_max) else {
            return Ok(false);
        };
        conn.buffer.drain(..len);
        self.answer_request(place, request, observed)?;
        Ok(self.conns.contains_key(&place))
    }

    /// An answer that ends the connection.
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
                return self.set(&queue, expiry, &body, observed);
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
            Request::Delete(queue) => line("DELETED", self.remove_tube(&queue)),
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
        queue: &str,
        expiry: i32,
        body: &[u8],
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let not_stored = line("NOT_STORED", 0);
        if self.is_draining {
            return observed.take(&not_stored);
        }
        // Runs in which policies refuse items have no trouble with the disk: the reply does not say
        // which of them it was.
        if self.may_refuse && self.is_refused(&not_stored, observed)? {
            return Ok(());
        }
        let expires = match expiry {
            0 => None,
            ABSOLUTE_FROM_S.. => Some(u64::from(expiry.unsigned_abs()) * 1000),
            _ => Some(self.now.saturating_add_signed(i64::from(expiry) * 1000)),
        };
        let reply = match self.add_item(queue, body, expires) {
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
                self.lose(id);
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
            Get { peek: true, .. } => How::Peek,
            Get { open: true, .. } => How::Open,
            _ => How::Take,
        };
        let patience_ms = u64::try_from(get.timeout_ms).unwrap_or(0);
        match self.read(place, queue, how, patience_ms) {
            Read::Item { lease, body, need: found } => {
                self.note_open(place, queue, lease);
                observed.take(&value(queue, &body, need.max(found)))
            }
            Read::Empty(missed) => observed.take(&line("END", need.max(missed))),
            Read::Waiting => {
                let queue = queue.clone();
                self.conn(place).fetch = Some(Fetch::Item { queue, how, need });
                Ok(())
            }
        }
    }

    fn note_open(&mut self, place: Place, queue: &str, lease: Option<u64>) {
        let open = &mut self.conn(place).open;
        if let Some(lease) = lease {
            open.entry(queue.to_owned()).or_default().push_back(lease);
        }
    }

    fn open_count(&self, place: Place, queue: &str) -> usize {
        self.conns[&place].open.get(queue).map_or(0, VecDeque::len)
    }

    fn forget_oldest(&mut self, place: Place, queue: &str, count: usize) -> Vec<u64> {
        let Some(open) = self.conn(place).open.get_mut(queue) else { return Vec::new() };
        open.drain(..count.min(open.len())).collect()
    }

    fn close_oldest(&mut self, place: Place, queue: &str, count: usize) -> Need {
        let leases = self.forget_oldest(place, queue, count);
        let needs = leases.into_iter().filter_map(|lease| self.confirm(place, lease));
        needs.max().unwrap_or(0)
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
        self.go_on_monitoring(place, queue, deadline, left, observed)
    }

    /// Items as they come, until there is something to wait for.
    fn go_on_monitoring(
        &mut self,
        place: Place,
        queue: String,
        deadline: u64,
        mut left: Option<u64>,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        loop {
            let left_ms = deadline.saturating_sub(self.now);
            let is_full = self.open_count(place, &queue) >= self.policy(&queue).open_max as usize;
            if left == Some(0) || left_ms == 0 || self.reads_blocked() || is_full {
                return observed.take(&line("END", 0));
            }
            match self.read(place, &queue, How::Open, left_ms) {
                Read::Item { lease, body, need } => {
                    self.note_open(place, &queue, lease);
                    left = left.map(|left| left - 1);
                    observed.take(&value(&queue, &body, need))?;
                }
                Read::Empty(need) => return observed.take(&line("END", need)),
                Read::Waiting => {
                    self.conn(place).fetch = Some(Fetch::Monitor { queue, deadline, left });
                    return Ok(());
                }
            }
        }
    }

    /// What a connection waited for has come, or did not.
    pub(super) fn resume_fetch(
        &mut self,
        place: Place,
        letter: Letter,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let fetch = self.conn(place).fetch.take().ok_or("an item came that nobody waited for")?;
        let (queue, how, base) = match &fetch {
            Fetch::Item { queue, how, need } => (queue.clone(), *how, *need),
            Fetch::Monitor { queue, .. } => (queue.clone(), How::Open, 0),
        };
        let found: Result<(Rc<[u8]>, Need), Need> = match letter {
            Letter::Granted { lease, body, .. } if how == How::Take => {
                self.confirm(place, lease).map(|need| (body, need)).ok_or(0)
            }
            Letter::Granted { lease, body, need } => {
                self.note_open(place, &queue, Some(lease));
                Ok((body, need))
            }
            Letter::Looked { body, need } => Ok((body, need)),
            Letter::NoneCame { need } => Err(need),
            other => return Err(format!("a fetch ends by {other:?}")),
        };
        match (found, fetch) {
            (Err(need), _) => observed.take(&line("END", need.max(base))),
            (Ok((body, need)), Fetch::Item { .. }) => {
                observed.take(&value(&queue, &body, need.max(base)))
            }
            (Ok((body, need)), Fetch::Monitor { deadline, left, .. }) => {
                observed.take(&value(&queue, &body, need))?;
                let left = left.map(|left| left - 1);
                self.go_on_monitoring(place, queue, deadline, left, observed)
            }
        }
    }
}
