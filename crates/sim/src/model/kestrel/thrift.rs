//! The thrift dialect (spec kestrel 8).

use std::rc::Rc;

use broker::FailureCause;

use super::Fetch;
use super::lists::ItemList;
use super::thrift_wire::{
    self, Arguments, Call, INTERNAL_ERROR, Message, PROTOCOL_ERROR, Reply, UNKNOWN_METHOD,
    WRONG_KIND, kind,
};
use crate::model::items::{FetchMode, Read};
use crate::model::outcome::Notification;
use crate::model::policies::{QUIESCENT, READ_ONLY, UP};
use crate::model::session::{Expected, Observed};
use crate::model::{Model, Need, Place, State};
use crate::protocol::{Kestrel, Protocol};

/// A `get` returns at most this number of items.
const ITEMS_MAX: usize = 1000;

/// Bytes that an item takes in Kestrel's journal in addition to its body (spec kestrel 4.2).
const JOURNAL_BYTES_PER_ITEM: u64 = 21;

/// An unfinished `get`.
#[derive(Clone, Debug)]
pub(in crate::model) struct Collect {
    call: Call,
    queue: String,
    items_max: usize,
    /// The end of the wait. `None` means that the call does not wait.
    deadline: Option<u64>,
    /// Time after which items are given back. `None` means that items are finished at once.
    auto_abort_ms: Option<u64>,
    items: Vec<Collected>,
    need: Need,
}

/// An item, with its lease if the connection still holds the item.
#[derive(Clone, Debug)]
struct Collected {
    lease: Option<u64>,
    body: Rc<[u8]>,
}

pub(super) fn number(call: &Call, number: usize) -> Reply {
    let mut reply = Reply::result(call);
    reply.field(kind::I32, 0).u32(number as u32);
    reply
}

fn failure(call: &Call, why: &str) -> Reply {
    let text = format!("Internal error processing {}: '{why}'", call.name);
    Reply::exception(call, INTERNAL_ERROR, &text)
}

fn answer(
    call: &Call,
    reply: Reply,
    need: Need,
    observed: &mut Observed<'_>,
) -> Result<(), String> {
    if call.is_oneway {
        return Ok(());
    }
    observed.take(&Expected::bytes(reply.end(), need))
}

impl Model {
    /// Handles one call, if it has arrived completely.
    pub(in crate::model) fn read_call(
        &mut self,
        place: Place,
        observed: &mut Observed<'_>,
    ) -> Result<bool, String> {
        let bytes_max = self.setting.item_bytes_max;
        let conn = self.conn(place);
        let Some((message, len)) = thrift_wire::read(conn.buffer.make_contiguous(), bytes_max)
        else {
            return Ok(false);
        };
        conn.buffer.drain(..len);
        match message {
            Message::Broken => self.close_conn(place),
            Message::Call(call) => self.answer_call(place, &call, observed)?,
        }
        Ok(self.conns.contains_key(&place))
    }

    fn answer_call(
        &mut self,
        place: Place,
        call: &Call,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        self.tally.calls += 1;
        let name = &call.name[..];
        let writes = matches!(name, "put" | "flush_queue" | "flush_all_queues" | "delete_queue");
        let reads = matches!(name, "get" | "peek");
        let others =
            matches!(name, "confirm" | "abort" | "current_status" | "set_status" | "get_version");
        let exception = |code, text: &str| Reply::exception(call, code, text);
        let (reply, need) = match &call.arguments {
            _ if !call.is_for_server => (exception(WRONG_KIND, "a call was expected"), 0),
            _ if !writes && !reads && !others => {
                (exception(UNKNOWN_METHOD, &format!("Invalid method name: '{name}'")), 0)
            }
            None => (exception(PROTOCOL_ERROR, &format!("Malformed arguments of {name}")), 0),
            Some(_) if writes && self.writes_blocked() || reads && self.reads_blocked() => {
                (failure(call, "server status forbids it"), 0)
            }
            Some(arguments) if arguments.queue.is_empty() && (reads || name == "put") => {
                (failure(call, "illegal queue name"), 0)
            }
            Some(arguments) if name == "get" => {
                return self.get_items(place, call, arguments, observed);
            }
            Some(arguments) if name == "put" => {
                let expires = match i64::from(arguments.time_ms) {
                    0 => None,
                    millis => Some(self.now.saturating_add_signed(millis)),
                };
                let (queue, items) = (&arguments.queue, &arguments.items);
                let list = ItemList::new(queue, expires, items, Some(call));
                return self.store_list(place, list, observed);
            }
            Some(arguments) => self.result(place, call, arguments),
        };
        answer(call, reply, need, observed)
    }

    fn result(&mut self, place: Place, call: &Call, arguments: &Arguments) -> (Reply, Need) {
        let queue = &arguments.queue;
        let done = Reply::result(call);
        match &call.name[..] {
            "confirm" | "abort" => self.settle(call, &arguments.ids),
            "peek" => self.queue_info(place, call, queue),
            "flush_queue" => (done, self.flush(queue)),
            "flush_all_queues" => (done, self.flush_all()),
            "delete_queue" if self.alias(queue).is_some() => (done, 0),
            "delete_queue" => (done, self.remove_queue(queue)),
            "current_status" => (number(call, [3, 0, 2, 1][self.status as usize - 1]), 0),
            "set_status" => match arguments.status {
                1 => (done, self.set_status(QUIESCENT)),
                2 => (done, self.set_status(READ_ONLY)),
                3 => (done, self.set_status(UP)),
                _ => (failure(call, "invalid status"), 0),
            },
            _ => {
                let mut reply = done;
                reply.field(kind::BYTES, 0).bytes(b"2.4.1");
                (reply, 0)
            }
        }
    }

    /// Confirms items, or gives them back. Another connection may have received them, because one
    /// session holds the items of all thrift clients.
    fn settle(&mut self, call: &Call, ids: &[u64]) -> (Reply, Need) {
        let holder = self.thrift_holder();
        let (mut settled, mut need) = (0, 0);
        for lease in ids {
            let Some(id) = self.held_by(holder, *lease) else { continue };
            settled += 1;
            if call.name == "confirm" {
                need = need.max(self.confirm(holder, *lease).unwrap_or(0));
            } else {
                self.lose(id, FailureCause::Aborted);
            }
        }
        (number(call, settled), need)
    }

    fn queue_info(&mut self, place: Place, call: &Call, name: &str) -> (Reply, Need) {
        let (head, mut need) = match self.read(place, name, FetchMode::Peek, 0) {
            Read::Item { body, need, .. } => (Some(body), need),
            Read::Empty(need) => (None, need),
            Read::Waiting => unreachable!("it has no patience"),
        };
        let mut reply = Reply::result(call);
        reply.field(kind::STRUCT, 0);
        if let Some(head) = head {
            reply.field(kind::BYTES, 1).bytes(&head);
        }
        let mut numbers = [0; 6];
        if let Some((name, queue)) = self.queues.get_key_value(&*self.real_name(name))
            && self.alias(name).is_none()
        {
            need = need.max(self.history.jobs_need(name));
            let items = self.ready_in(name).count() as u64;
            let bytes = self.ready_in(name).map(|id| self.jobs[&id].body.len() as u64).sum();
            let head = self.first_ready(name).map(|id| self.jobs[&id].created);
            let counts_from = queue.last_read.filter(|_| bytes > 0).or(head);
            let is_held = |state| matches!(state, State::Leased(_));
            let open = self.jobs.values().filter(|job| job.queue == *name && is_held(job.state));
            numbers = [
                items,
                bytes,
                bytes + JOURNAL_BYTES_PER_ITEM * items,
                counts_from.map_or(0, |created| self.now.saturating_sub(created)),
                self.conns.values().filter(|conn| conn.waits_for(name)).count() as u64,
                open.count() as u64,
            ];
        }
        for (number, field) in numbers.into_iter().zip(2..) {
            match field {
                ..6 => reply.field(kind::I64, field).u64(number),
                _ => reply.field(kind::I32, field).u32(number as u32),
            };
        }
        reply.u8(0);
        (reply, need)
    }

    // --- get ---

    fn get_items(
        &mut self,
        place: Place,
        call: &Call,
        arguments: &Arguments,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let positive = |millis: i32| u64::try_from(millis).ok().filter(|millis| *millis > 0);
        let items_max = usize::try_from(arguments.items_max).unwrap_or(ITEMS_MAX);
        let collect = Collect {
            call: call.clone(),
            queue: arguments.queue.clone(),
            items_max: items_max.min(ITEMS_MAX),
            deadline: positive(arguments.time_ms).map(|millis| self.now + millis),
            auto_abort_ms: positive(arguments.auto_abort_ms),
            items: Vec::new(),
            need: 0,
        };
        self.collect(place, collect, observed)
    }

    /// Takes the available items, and then waits or replies.
    fn collect(
        &mut self,
        place: Place,
        mut collect: Collect,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let open_max = self.policy(&collect.queue).open_max as usize;
        while self.has_room(place, &mut collect, open_max) && !self.reads_blocked() {
            let is_answered_now = collect.items_max == 1 || collect.deadline.is_none();
            let is_for_good = collect.auto_abort_ms.is_none() && is_answered_now;
            let how = if is_for_good { FetchMode::Take } else { FetchMode::Open };
            let patience_ms = collect.deadline.map_or(0, |until| until.saturating_sub(self.now));
            match self.read(place, &collect.queue, how, patience_ms) {
                Read::Item { lease, body, need } => {
                    collect.items.push(Collected { lease, body });
                    collect.need = collect.need.max(need);
                    // Each item is a step of its own. The room that it leaves is offered at once.
                    self.offer_room();
                }
                Read::Empty(need) => {
                    collect.need = collect.need.max(need);
                    break;
                }
                Read::Waiting => {
                    self.conn(place).fetch = Some(Fetch::Collect(collect));
                    return Ok(());
                }
            }
        }
        self.answer_get(place, collect, observed)
    }

    /// True if the reply can have another item. First removes the items whose lease has ended from
    /// the reply. Open reads whose lease has ended do not count.
    fn has_room(&mut self, place: Place, collect: &mut Collect, open_max: usize) -> bool {
        let holder = self.thrift_holder();
        let holds = |by, lease| self.held_by(by, lease).is_some();
        collect.items.retain(|item| item.lease.is_none_or(|lease| holds(place, lease)));
        let opened = self.conns[&place].open.get(&collect.queue).into_iter().flatten();
        let open = opened.filter(|lease| holds(holder, **lease)).count();
        let new = if collect.auto_abort_ms.is_some() { collect.items.len() } else { 0 };
        collect.items.len() < collect.items_max && open + new < open_max
    }

    /// Continues a `get` whose item has come, or whose wait is over.
    pub(super) fn resume_collect(
        &mut self,
        place: Place,
        mut collect: Collect,
        notification: Notification,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        match notification {
            Notification::Granted { lease, body, need } => {
                collect.items.push(Collected { lease: Some(lease), body });
                collect.need = collect.need.max(need);
                self.collect(place, collect, observed)
            }
            Notification::NoItem { need } => {
                collect.need = collect.need.max(need);
                self.answer_get(place, collect, observed)
            }
            other => Err(format!("a get ends by {other:?}")),
        }
    }

    fn answer_get(
        &mut self,
        place: Place,
        collect: Collect,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let Collect { call, queue, auto_abort_ms, items, mut need, .. } = collect;
        let holder = self.thrift_holder();
        let mut sent = Vec::new();
        for Collected { lease, body } in items {
            match (lease, auto_abort_ms) {
                (None, _) => sent.push((0, body)),
                (Some(lease), None) => {
                    if let Some(ended) = self.confirm(place, lease) {
                        need = need.max(ended);
                        sent.push((0, body));
                        self.offer_room();
                    }
                }
                (Some(lease), Some(limit_ms)) => {
                    if let Some(id) = self.held_by(place, lease) {
                        self.hand_over(id, holder, limit_ms);
                        self.note_open(place, &queue, Some(lease));
                        sent.push((lease, body));
                    }
                }
            }
        }
        let mut reply = Reply::result(&call);
        reply.field(kind::LIST, 0).u8(kind::STRUCT).u32(sent.len() as u32);
        for (lease, body) in sent {
            reply.field(kind::BYTES, 1).bytes(&body);
            reply.field(kind::I64, 2).u64(lease).u8(0);
        }
        answer(&call, reply, need, observed)
    }

    /// The session that holds the items of thrift clients. The first call that needs this session
    /// opens it. It exists until the process ends.
    fn thrift_holder(&mut self) -> Place {
        if let Some(holder) = self.thrift_holder {
            return holder;
        }
        let next = self.conns.len() as Place;
        let place = self.free_conn_places.last().copied().unwrap_or(next);
        self.open_conn(place, Protocol::Kestrel(Kestrel::Thrift));
        self.thrift_holder = Some(place);
        place
    }

    /// The moment when the server will have given back all items that thrift clients hold.
    pub(crate) fn last_auto_abort(&self) -> Option<u64> {
        self.held(self.thrift_holder?).last().map(|(deadline, _)| *deadline)
    }
}
