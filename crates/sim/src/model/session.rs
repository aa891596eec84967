//! The model's side of a connection. It parses bytes into commands, and compares the server's
//! replies with the model's replies.

use std::collections::{BTreeMap, VecDeque};

use super::outcome::Notification;
use super::work::Worker;
use super::{Blocked, Conn, Model, Need, OpenReads, Place};
use crate::protocol::{Kestrel, Protocol};

/// The kind of the next bytes on a beanstalkd connection.
#[derive(Debug)]
pub(super) enum Reading {
    Line,
    Body {
        pri: u32,
        delay: u32,
        ttr: u32,
        size: usize,
    },
    /// A body that is too big. The session skips this many bytes.
    Skip(u64),
}

/// An expected reply, and the record that it depends on.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    text: Text,
    need: Need,
}

#[derive(Clone, Debug)]
enum Text {
    Exact(Vec<u8>),
    /// The lines of an `OK` reply. The value `*` stands for any number.
    Lines(String),
    /// These lines in any order, and then a line with a dot. The line can be missing if its value is
    /// true.
    AnyOrder(Vec<(String, bool)>),
}

impl Expected {
    pub(super) fn line(text: &str, need: Need) -> Self {
        Self { text: Text::Exact(format!("{text}\r\n").into_bytes()), need }
    }

    pub(super) fn bytes(bytes: Vec<u8>, need: Need) -> Self {
        Self { text: Text::Exact(bytes), need }
    }

    pub(super) fn in_any_order(lines: Vec<(String, bool)>) -> Self {
        Self { text: Text::AnyOrder(lines), need: 0 }
    }

    pub(super) fn lines(text: String, need: Need) -> Self {
        Self { text: Text::Lines(text), need }
    }

    pub(super) fn with_body(word: &str, id: u64, body: &[u8], need: Need) -> Self {
        let mut text = format!("{word} {id} {}\r\n", body.len()).into_bytes();
        text.extend_from_slice(body);
        text.extend_from_slice(b"\r\n");
        Self { text: Text::Exact(text), need }
    }
}

/// The real server's output for one batch of input.
pub(crate) struct Observed<'a> {
    bytes: &'a [u8],
    /// Returns how often a job was buried up to the end of the batch. Returns `None` if the job
    /// does not exist.
    buries: &'a dyn Fn(u64) -> Option<u32>,
    /// The length of each reply that was recognized, and the record that it depends on.
    pub(crate) replies: Vec<(usize, Need)>,
}

impl<'a> Observed<'a> {
    pub(crate) fn new(bytes: &'a [u8], buries: &'a dyn Fn(u64) -> Option<u32>) -> Self {
        Self { bytes, buries, replies: Vec::new() }
    }

    /// True if a job that had been buried `before` times was buried again.
    pub(super) fn was_buried(&self, id: u64, before: u32) -> bool {
        (self.buries)(id).is_some_and(|buries| buries > before)
    }

    pub(super) fn is_next(&self, expected: &Expected) -> bool {
        matches!(&expected.text, Text::Exact(text) if self.bytes.starts_with(text))
    }

    /// Checks that the next reply is the expected reply.
    pub(super) fn take(&mut self, expected: &Expected) -> Result<(), String> {
        let len = match &expected.text {
            Text::Exact(text) if self.bytes.starts_with(text) => text.len(),
            Text::Exact(text) => return Err(mismatch(text, self.bytes)),
            Text::Lines(text) => matching_lines(text, self.bytes)
                .ok_or_else(|| mismatch(text.as_bytes(), self.bytes))?,
            Text::AnyOrder(lines) => matching_in_any_order(lines, self.bytes)
                .ok_or_else(|| mismatch(format!("{lines:?}").as_bytes(), self.bytes))?,
        };
        self.bytes = &self.bytes[len..];
        self.replies.push((len, expected.need));
        Ok(())
    }

    /// Checks that the server sent no further reply.
    pub(crate) fn end(&self) -> Result<(), String> {
        if self.bytes.is_empty() { Ok(()) } else { Err(mismatch(b"", self.bytes)) }
    }
}

/// Error messages show this many bytes of a reply.
const MISMATCH_BYTES_MAX: usize = 2000;

fn mismatch(expected: &[u8], seen: &[u8]) -> String {
    let expected = &expected[..expected.len().min(MISMATCH_BYTES_MAX)];
    let seen = &seen[..seen.len().min(expected.len() + 200)];
    format!(
        "expected the reply \"{}\"\n     but it begins with \"{}\"",
        expected.escape_ascii(),
        seen.escape_ascii()
    )
}

/// The length of an `OK` reply at the front of `seen`. `None` if its lines differ from the expected
/// lines.
fn matching_lines(expected: &str, seen: &[u8]) -> Option<usize> {
    let head_end = seen.windows(2).position(|pair| pair == b"\r\n")?;
    let head = std::str::from_utf8(&seen[..head_end]).ok()?;
    let len: usize = head.strip_prefix("OK ")?.parse().ok()?;
    let text = std::str::from_utf8(seen.get(head_end + 2..head_end + 2 + len)?).ok()?;
    let end = head_end + 2 + len;
    let ends_well = seen.get(end..end + 2)? == b"\r\n" && text.ends_with('\n');
    let same = |expected: &str, seen: &str| match expected.strip_suffix('*') {
        Some(key) => seen.strip_prefix(key).is_some_and(|value| value.parse::<u64>().is_ok()),
        None => seen == expected,
    };
    let same_lines = text.lines().count() == expected.lines().count()
        && expected.lines().zip(text.lines()).all(|(expected, seen)| same(expected, seen));
    (ends_well && same_lines).then_some(end + 2)
}

/// The length of a list at the front of `seen`. `None` if its lines differ from the expected lines.
fn matching_in_any_order(expected: &[(String, bool)], seen: &[u8]) -> Option<usize> {
    let end = if seen.starts_with(b".\n") {
        0
    } else {
        seen.windows(3).position(|bytes| bytes == b"\n.\n")? + 1
    };
    // How often each line must appear, and how often it can appear.
    let mut counts: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for (line, can_miss) in expected {
        let (min, max) = counts.entry(line).or_default();
        *min += u32::from(!can_miss);
        *max += 1;
    }
    for line in std::str::from_utf8(&seen[..end]).ok()?.lines() {
        let (min, max) = counts.get_mut(line)?;
        *max = max.checked_sub(1)?;
        *min = min.saturating_sub(1);
    }
    counts.values().all(|(min, _)| *min == 0).then_some(end + 2)
}

impl Model {
    pub(crate) fn open_conn(&mut self, place: Place, protocol: Protocol) {
        let default = self.create_queue("default");
        if protocol == Protocol::Beanstalk {
            self.count("connections");
        }
        let is_reader = matches!(protocol, Protocol::Kestrel(_));
        let serial = self.next_serial;
        self.next_serial += 1;
        let conn = Conn {
            serial,
            protocol,
            buffer: VecDeque::new(),
            reading: Reading::Line,
            used: default.clone(),
            used_as: "default".to_owned(),
            watched_as: if is_reader {
                Vec::new()
            } else {
                vec![(default.clone(), "default".to_owned())]
            },
            watched: if is_reader { Vec::new() } else { vec![default] },
            waiting: None,
            blocked: None,
            is_kicking: false,
            notifications: VecDeque::new(),
            is_producer: false,
            is_worker: false,
            input_ended: false,
            worker: Worker::default(),
            wants_exceptions: self.setting.exceptions,
            outcomes_due: BTreeMap::new(),
            open: OpenReads::new(),
            fetch: None,
        };
        self.free_conn_places.retain(|free| *free != place);
        let before = self.conns.insert(place, conn);
        assert!(before.is_none(), "a session's place is its own while it is open");
    }

    /// The session received bytes. Checks that the server's replies are the model's replies.
    pub(crate) fn input(
        &mut self,
        place: Place,
        bytes: &[u8],
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        self.conn(place).buffer.extend(bytes);
        while self.is_reading(place) && self.step(place, observed)? {
            self.offer_room();
        }
        self.end_if_drained(place);
        self.offer_room();
        Ok(())
    }

    fn is_reading(&self, place: Place) -> bool {
        self.conns.get(&place).is_some_and(Conn::is_idle)
    }

    /// Handles one request, or one part of a request. Returns false if no request has arrived
    /// completely.
    fn step(&mut self, place: Place, observed: &mut Observed<'_>) -> Result<bool, String> {
        match self.conns[&place].protocol {
            Protocol::Beanstalk => self.read_command(place, observed),
            Protocol::Gearman => self.read_message(place, observed),
            Protocol::Kestrel(Kestrel::Memcache) => self.read_memcache(place, observed),
            Protocol::Kestrel(Kestrel::Text) => self.read_text(place, observed),
            Protocol::Kestrel(Kestrel::Thrift) => self.read_call(place, observed),
        }
    }

    /// True if the server has refused a request because the log has no room.
    pub(super) fn is_refused(
        &mut self,
        refusal: &Expected,
        observed: &mut Observed<'_>,
    ) -> Result<bool, String> {
        let is_refused = observed.is_next(refusal);
        if is_refused {
            if !self.may_refuse {
                return Err(format!("{refusal:?} although the disk has room"));
            }
            self.refusals += 1;
            observed.take(refusal)?;
        }
        Ok(is_refused)
    }

    /// Handles the oldest event that the session received.
    pub(crate) fn event(
        &mut self,
        place: Place,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let first = self.first_letter(place, observed);
        let notification = self.conn(place).notifications.remove(first);
        match notification.ok_or("an event came that nothing asked for")? {
            Notification::Reply(reply) => observed.take(&reply)?,
            Notification::WorkToDo => observed.take(&Self::noop())?,
            Notification::Room => self.try_again(place, observed)?,
            Notification::News { id, news, need, .. } => {
                let reply = self.news_packet(place, id, &news, need);
                self.check_news(place, id, news.is_end())?;
                observed.take(&reply)?;
            }
            notification => self.resume_fetch(place, notification, observed)?,
        }
        self.offer_room();
        self.end_if_drained(place);
        self.offer_room();
        Ok(())
    }

    /// The index of the next notification to deliver. Notifications of a batch can come in any
    /// order. If a batch is next, this is the index of the notification that the server sent.
    fn first_letter(&self, place: Place, observed: &Observed<'_>) -> usize {
        let notifications = &self.conns[&place].notifications;
        let batch_of = |notification: &Notification| match notification {
            Notification::News { batch, .. } => *batch,
            _ => None,
        };
        let Some(first) = notifications.front().and_then(batch_of) else { return 0 };
        let same =
            notifications.iter().take_while(|notification| batch_of(notification) == Some(first));
        let is_next = |notification: &Notification| match notification {
            Notification::News { id, news, need, .. } => {
                observed.is_next(&self.news_packet(place, *id, news, *need))
            }
            _ => false,
        };
        same.into_iter().position(is_next).unwrap_or(0)
    }

    /// The number of a session's events that are not delivered yet.
    pub(crate) fn letters_to(&self, place: Place) -> usize {
        self.conns[&place].notifications.len()
    }

    /// Handles the end of the client's input: the client sends no more bytes.
    pub(crate) fn end_of_input(
        &mut self,
        place: Place,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let denial = self.denial_of_watched(place);
        let conn = self.conn(place);
        conn.input_ended = true;
        if conn.protocol != Protocol::Beanstalk {
            self.close_conn(place);
            return Ok(());
        }
        if conn.waiting.take().is_some() {
            observed.take(&Expected::line("TIMED_OUT", denial))?;
        } else if self.cancel_room_wait(place) {
            self.conn(place).blocked = None;
            self.next_id += 1;
            observed.take(&Expected::line("DRAINING", 0))?;
            self.offer_room();
        } else if self.conns[&place].is_idle() {
            // The remaining bytes are the beginning of a request that will never be complete.
            self.close_conn(place);
            return Ok(());
        }
        self.end_if_drained(place);
        Ok(())
    }

    /// Closes a connection if its client sends no more, and its session has no more work.
    fn end_if_drained(&mut self, place: Place) {
        let Some(conn) = self.conns.get(&place) else { return };
        // Bytes in the buffer are an incomplete request, or requests that the session reads later.
        // In both cases, the connection stays open for now.
        let is_drained = conn.buffer.is_empty();
        if conn.input_ended && conn.is_idle() && is_drained {
            self.close_conn(place);
        }
    }

    /// True if the connection is open.
    pub(crate) fn is_open(&self, place: Place) -> bool {
        self.conns.contains_key(&place)
    }

    /// Closes a connection. Gives back its jobs, and ends foreground jobs for which no other client
    /// waits.
    pub(crate) fn close_conn(&mut self, place: Place) {
        let mut held = self.held_as_taken(place);
        let Some(conn) = self.conns.get(&place) else { return };
        if let Some(Blocked::Put(..)) = conn.blocked {
            self.next_id += 1;
        }
        let queues = conn.worker.queues();
        self.leave_line(place);
        self.unregister(place, &queues);
        self.detach(place);
        let conn = self.conns.remove(&place).expect("it was just looked at");
        self.free_conn_places.push(place);
        // The connection's queues must exist until its jobs are given back.
        self.guards.push(conn.used.clone());
        self.guards.extend(conn.watched.iter().cloned());
        if let Reading::Body { .. } = conn.reading {
            self.next_id += 1;
        }
        if conn.protocol == Protocol::Gearman {
            held.reverse();
        }
        self.give_back(held);
        for queue in std::iter::once(&conn.used).chain(&conn.watched) {
            let guard = self.guards.iter().position(|guard| guard == queue);
            self.guards.swap_remove(guard.expect("it was put there"));
            self.drop_queue_if_unwanted(queue);
        }
    }
}

impl Conn {
    /// True if the session does not wait, and has no undelivered events.
    pub(crate) fn is_idle(&self) -> bool {
        let waits = self.waiting.is_some() || !self.notifications.is_empty() || self.is_kicking;
        self.blocked.is_none() && (self.protocol == Protocol::Gearman || !waits)
    }

    pub(super) fn take_line(&mut self) -> Option<Vec<u8>> {
        let bytes = self.buffer.make_contiguous();
        let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let line: Vec<u8> = self.buffer.drain(..end).collect();
        self.buffer.drain(..2);
        Some(line)
    }
}
