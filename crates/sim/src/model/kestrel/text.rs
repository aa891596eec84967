//! The text dialect (spec kestrel 6).

use super::Monitor;
use super::lists::ItemList;
use super::text_wire::{self, Request};
use crate::model::items::FetchMode;
use crate::model::policies::{QUIESCENT, READ_ONLY, UP};
use crate::model::session::{Expected, Observed};
use crate::model::{Model, Need, Place};

/// The reply with an item.
pub(super) fn item(body: &[u8], need: Need) -> Expected {
    Expected::bytes([b":", body, b"\n"].concat(), need)
}

/// The reply if there is no item.
pub(super) fn nothing(need: Need) -> Expected {
    Expected::bytes(b"*\n".to_vec(), need)
}

pub(super) fn number(number: usize, need: Need) -> Expected {
    Expected::bytes(format!("+{number}\n").into_bytes(), need)
}

fn error(text: &str, need: Need) -> Expected {
    Expected::bytes(format!("-{text}\n").into_bytes(), need)
}

fn unavailable(operation: &str, need: Need) -> Expected {
    error(&format!("Server not available for operation {operation}"), need)
}

impl Model {
    /// Handles one request, if it has arrived completely.
    pub(in crate::model) fn read_text(
        &mut self,
        place: Place,
        observed: &mut Observed<'_>,
    ) -> Result<bool, String> {
        let list_bytes_max = self.setting.item_bytes_max;
        let conn = self.conn(place);
        let bytes = conn.buffer.make_contiguous();
        let Some((request, len)) = text_wire::read(bytes, list_bytes_max) else {
            return Ok(false);
        };
        conn.buffer.drain(..len);
        self.answer_text(place, request, observed)?;
        Ok(self.conns.contains_key(&place))
    }

    fn answer_text(
        &mut self,
        place: Place,
        request: Request,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        self.tally.texts += 1;
        let reply = match request {
            Request::Put { .. } if self.writes_blocked() => unavailable("setItem", 0),
            Request::Put { queue, expiry_ms, items } => {
                let expires = expiry_ms.map(|ms| self.now.saturating_add_signed(i64::from(ms)));
                let list = ItemList::new(&queue, expires, &items, None);
                return self.store_list(place, list, observed);
            }
            Request::Get { queue, timeout_ms } => {
                return self.read_on(place, &queue, FetchMode::Open, timeout_ms, observed);
            }
            Request::Peek { queue, timeout_ms } => {
                return self.read_on(place, &queue, FetchMode::Peek, timeout_ms, observed);
            }
            Request::Monitor { queue, timeout_ms } => {
                let need = self.close_oldest(place, &queue, usize::MAX);
                if self.reads_blocked() {
                    return observed.take(&unavailable("monitorUntil", need));
                }
                let deadline = self.now.saturating_add_signed(i64::from(timeout_ms));
                let monitor = Monitor { queue, deadline, left: None, need };
                return self.go_on_monitoring(place, monitor, observed);
            }
            Request::Confirm { queue, count } => match usize::try_from(count) {
                Ok(count @ 1..) if count <= self.open_count(place, &queue) => {
                    let need = self.close_oldest(place, &queue, count);
                    number(count, need)
                }
                _ => error("Not that many transactions open.", 0),
            },
            Request::Delete(_) if self.writes_blocked() => unavailable("delete", 0),
            Request::Delete(queue) if self.alias(&queue).is_some() => number(0, 0),
            Request::Delete(queue) => number(0, self.remove_queue(&queue)),
            Request::Flush(_) if self.writes_blocked() => unavailable("flush", 0),
            Request::Flush(queue) => number(0, self.flush(&queue)),
            Request::Version => Expected::bytes(b":2.4.1\n".to_vec(), 0),
            Request::Status(None) => {
                let word = ["UP", "WRITEAVOID", "READONLY", "QUIESCENT"][self.status as usize - 1];
                item(word.as_bytes(), 0)
            }
            Request::Status(Some(word)) => match &word.to_ascii_lowercase()[..] {
                "up" => number(0, self.set_status(UP)),
                "readonly" => number(0, self.set_status(READ_ONLY)),
                "quiescent" => number(0, self.set_status(QUIESCENT)),
                "down" => error("Status forbidden.", 0),
                _ => error("Unknown status.", 0),
            },
            Request::Quit => {
                self.close_conn(place);
                return Ok(());
            }
            Request::Wrong(text) => error(&text, 0),
            Request::TooLong(text) => {
                observed.take(&error(text, 0))?;
                self.close_conn(place);
                return Ok(());
            }
        };
        observed.take(&reply)
    }

    /// Ends all open reads of the connection in a queue, and reads the next item.
    fn read_on(
        &mut self,
        place: Place,
        queue: &str,
        how: FetchMode,
        timeout_ms: i32,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let need = self.close_oldest(place, queue, usize::MAX);
        if self.reads_blocked() {
            return observed.take(&unavailable("getItem", need));
        }
        self.fetch(place, queue, how, timeout_ms, need, observed)
    }
}
