//! Connections of Kestrel's memcache protocol. Reads facts about items from requests and replies.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::items::{Arrival, Delivery, Items};
use super::memcache::{self, Get, Reply, Request};
use super::real_name;
use super::terms::{Conn, ReplyEnd};
use crate::Checked;

#[derive(Debug, Default)]
pub(super) struct Connections {
    streams: BTreeMap<Conn, Stream>,
}

#[derive(Debug, Default)]
struct Stream {
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of replies that the oracle has read.
    read: u64,
    pending: VecDeque<Pending>,
    /// The connection's open items by queue, oldest first.
    opens: BTreeMap<String, VecDeque<Option<usize>>>,
    /// For these queues, the oracle cannot identify the connection's open items.
    blurred: BTreeSet<String>,
}

#[derive(Debug)]
struct Pending {
    request: Request,
    arrival: Arrival,
}

impl Connections {
    pub(super) fn opened(&mut self, conn: Conn) {
        self.streams.insert(conn, Stream::default());
    }

    pub(super) fn closed(&mut self, conn: Conn, items: &mut Items, now: u64) {
        let Some(stream) = self.streams.remove(&conn) else { return };
        items.tick += 1;
        stream.end_opens(conn, items, now);
        items.tick += 1;
        self.note_waits(items);
    }

    pub(super) fn restarted(&mut self, items: &mut Items, now: u64) {
        items.tick += 1;
        items.note_no_waits();
        for (conn, stream) in std::mem::take(&mut self.streams) {
            stream.end_opens(conn, items, now);
        }
    }

    pub(super) fn observe(
        &mut self,
        (conn, sent, answer): (Conn, &[u8], &[u8]),
        items: &mut Items,
        now: u64,
    ) -> Checked {
        let Some(stream) = self.streams.get_mut(&conn) else { return Ok(()) };
        stream.input.extend_from_slice(sent);
        stream.output.extend_from_slice(answer);
        while let Some(request) = memcache::request(&mut stream.input) {
            items.tick += 1;
            match &request {
                Request::Set { queue, expiry, body } => {
                    items.sent(conn, &real_name(queue), body, *expiry, now);
                }
                Request::Empty(queue) => items.may_vanish(&real_name(queue)),
                _ => {}
            }
            let arrival = Arrival { tick: items.tick, at: now, waited: false };
            stream.pending.push_back(Pending { request, arrival });
        }
        self.note_waits(items);
        let stream = self.streams.get_mut(&conn).expect("it was just there");
        stream.judge_replies(conn, items, now)?;
        stream.pending.iter_mut().for_each(|pending| pending.arrival.waited = true);
        items.tick += 1;
        self.note_waits(items);
        Ok(())
    }

    /// Notes the queues at which clients wait, and the queues that clients empty. The server can
    /// give an item to a waiting client, or end items, long before the reply.
    fn note_waits(&self, items: &mut Items) {
        items.note_no_waits();
        let pending = self.streams.values().flat_map(|stream| &stream.pending);
        for pending in pending.filter(|pending| pending.arrival.waited) {
            match &pending.request {
                Request::Get(get) => items.disturbed(&real_name(&get.queue)),
                Request::Monitor(queue) => items.disturbed(&real_name(queue)),
                Request::Empty(queue) => {
                    items.uniques.give_up();
                    items.disturbed(&real_name(queue));
                }
                Request::FlushAll => items.all_disturbed(),
                Request::Set { .. } | Request::Confirm { .. } | Request::Other => {}
            }
        }
    }
}

impl Stream {
    /// Notes that the connection has closed. The server gives back the connection's open items. But
    /// a request without a reply may have ended some of these items.
    fn end_opens(&self, conn: Conn, items: &mut Items, now: u64) {
        let gives_up = |queue: &str| {
            self.pending.iter().any(|pending| match &pending.request {
                Request::Get(get) => get.queue == queue && (get.closes || get.aborts),
                Request::Confirm { queue: name, .. } => name == queue,
                Request::Empty(name) => real_name(name) == real_name(queue),
                Request::FlushAll => true,
                Request::Set { .. } | Request::Monitor(_) | Request::Other => false,
            })
        };
        for pending in &self.pending {
            match &pending.request {
                Request::Empty(queue) => items.disturbed_for_good(&real_name(queue)),
                Request::FlushAll => {
                    for name in items.known_queues() {
                        items.disturbed_for_good(&name);
                    }
                }
                _ => {}
            }
        }
        for (queue, opens) in &self.opens {
            let is_unclear = self.blurred.contains(queue) || gives_up(queue);
            let queue = &real_name(queue);
            for id in opens.iter().flatten() {
                if is_unclear || !items.is_held(*id, queue, conn, now) {
                    items.doubted(*id, queue, conn);
                } else {
                    items.comes_back(*id, queue, conn);
                }
            }
        }
    }

    fn judge_replies(&mut self, conn: Conn, items: &mut Items, now: u64) -> Checked {
        loop {
            let before = self.output.len();
            let Some(reply) = memcache::reply(&mut self.output)? else { return Ok(()) };
            self.read += (before - self.output.len()) as u64;
            items.tick += 1;
            let reply_end = ReplyEnd { conn, end: self.read };
            let Some(mut pending) = self.pending.pop_front() else {
                // The server can reply with an error before the whole request has arrived.
                if self.input.is_empty() {
                    return Err(format!("{reply:?} answers nothing"));
                }
                continue;
            };
            self.judge(reply_end, &pending, &reply, items, now).map_err(|error| {
                format!("{:?}, {reply:?}: {error}", WithoutBody(&pending.request))
            })?;
            if matches!((&pending.request, &reply), (Request::Monitor(_), Reply::Item { .. })) {
                // After the server has sent this item, it looks for the next item.
                (pending.arrival.tick, pending.arrival.at) = (items.tick, now);
                self.pending.push_front(pending);
            }
        }
    }

    fn judge(
        &mut self,
        reply_end: ReplyEnd,
        pending: &Pending,
        reply: &Reply,
        items: &mut Items,
        now: u64,
    ) -> Checked {
        let arrival = pending.arrival;
        match (&pending.request, reply) {
            (Request::Set { queue, expiry, body }, Reply::Line(line)) => match line.as_str() {
                "STORED" => {
                    let queue = &real_name(queue);
                    return items.stored(reply_end, (queue, *expiry, body), arrival, now);
                }
                _ => items.refused(body),
            },
            (Request::Get(get), reply) => {
                return self.judge_get(reply_end, get, arrival, reply, items, now);
            }
            (Request::Monitor(queue), Reply::Item { queue: named, body }) => {
                check_name(queue, named)?;
                let real = &real_name(queue);
                items.was_used(real, arrival);
                let (opens, peeks) = (true, false);
                let delivery =
                    Delivery { reply_end, queue: real, body, opens, peeks, arrival, now };
                let id = items.delivered(&delivery)?;
                self.note_open(queue, id);
            }
            (Request::Confirm { queue, count }, Reply::Line(line)) if line == "END" => {
                for _ in 0..*count {
                    self.confirm_oldest(queue, reply_end, items, now);
                }
            }
            (Request::Empty(queue), Reply::Line(line)) => {
                let queue = &real_name(queue);
                items.may_vanish(queue);
                if line == "DELETED" || line == "END" {
                    items.emptied(Some(queue), reply_end, arrival, line == "DELETED");
                }
            }
            (Request::FlushAll, Reply::Line(line)) if line.starts_with("Flushed") => {
                items.emptied(None, reply_end, arrival, false);
            }
            _ => {}
        }
        Ok(())
    }

    fn judge_get(
        &mut self,
        reply_end: ReplyEnd,
        get: &Get,
        arrival: Arrival,
        reply: &Reply,
        items: &mut Items,
        now: u64,
    ) -> Checked {
        let queue = &get.queue;
        let real = &real_name(queue);
        let is_error = matches!(reply, Reply::Line(line) if line != "END");
        if is_error {
            // The server closes the connection, but may have ended an open read first.
            self.blurred.insert(queue.clone());
            return Ok(());
        }
        if get.aborts {
            self.end_oldest(queue, reply_end.conn, items, now, |items, id| {
                items.given_back(id, real, reply_end.conn);
            });
            return Ok(());
        }
        if get.closes {
            self.confirm_oldest(queue, reply_end, items, now);
        }
        if get.fetches() {
            items.was_used(real, arrival);
        }
        match reply {
            Reply::Item { queue: named, body } => {
                check_name(queue, named)?;
                let (opens, peeks) = (get.opens, get.peeks);
                let delivery =
                    Delivery { reply_end, queue: real, body, opens, peeks, arrival, now };
                let id = items.delivered(&delivery)?;
                if opens {
                    self.note_open(queue, id);
                }
                Ok(())
            }
            Reply::Line(_) if get.fetches() && !arrival.waited => items.check_nothing_ready(real),
            Reply::Line(_) => Ok(()),
        }
    }

    fn note_open(&mut self, queue: &str, id: Option<usize>) {
        let real = real_name(queue);
        let is_known = |opens: &VecDeque<_>| id.is_some() && opens.contains(&id);
        for (name, opens) in &self.opens {
            // The server gave the item back, and the client opened it again, perhaps by another
            // name of the queue. So there were two reads, and the oracle cannot decide which of
            // them the next close ends.
            if is_known(opens) && real_name(name) == real {
                self.blurred.extend([name.clone(), queue.to_owned()]);
            }
        }
        self.opens.entry(queue.to_owned()).or_default().push_back(id);
    }

    fn confirm_oldest(&mut self, queue: &str, reply_end: ReplyEnd, items: &mut Items, now: u64) {
        self.end_oldest(queue, reply_end.conn, items, now, |items, id| {
            items.confirmed(id, &real_name(queue), reply_end);
        });
    }

    /// Ends the oldest open read, if the oracle can decide which read is the oldest.
    fn end_oldest(
        &mut self,
        queue: &str,
        conn: Conn,
        items: &mut Items,
        now: u64,
        end: impl FnOnce(&mut Items, usize),
    ) {
        let Some(opens) = self.opens.get_mut(queue) else { return };
        let real = &real_name(queue);
        // The removal of a queue ends open reads, and so does a timeout. If the oracle does not
        // know the item of a read (`None`), the read is certainly open only if this queue never had
        // a removal or a timeout.
        let is_held = |id: &Option<usize>| match id {
            Some(id) => items.is_held(*id, real, conn, now),
            None => items.are_holds_kept(real),
        };
        let is_clear = opens.iter().all(is_held);
        if !is_clear || self.blurred.contains(queue) {
            self.blurred.insert(queue.to_owned());
            opens.iter().flatten().for_each(|id| items.doubted(*id, real, conn));
            return;
        }
        if let Some(Some(id)) = opens.pop_front() {
            end(items, id);
        }
    }
}

fn check_name(asked: &str, named: &str) -> Checked {
    if asked == named { Ok(()) } else { Err(format!("{asked} was asked, not {named}")) }
}

/// A request without its body.
struct WithoutBody<'a>(&'a Request);

impl std::fmt::Debug for WithoutBody<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Request::Set { queue, expiry, body } => {
                write!(f, "set {queue} {expiry} of {} bytes", body.len())
            }
            request => write!(f, "{request:?}"),
        }
    }
}
