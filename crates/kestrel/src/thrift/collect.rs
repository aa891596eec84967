//! The call `get`: collects items until it has enough items, or its time is over.

use std::mem;

use broker::{
    Answer, Blocked, Handout, JobBody, LeaseId, Millis, Outbox, Patience, Position, ReadMode,
    SessionId, Take, Turn,
};

use super::methods::{Failed, check_name};
use super::request::{Arguments, Method};
use super::session::{ThriftSession, Waiting};
use super::types::Written;
use super::writer::{Reply, ReplyTo};
use crate::client::AT_ONCE;
use crate::server::{ITEM_BYTES, ITEMS_AT_ONCE_MAX, ITEMS_BYTES_MAX};

/// A running `get`.
#[derive(Debug)]
pub(super) struct Collect {
    to: ReplyTo,
    queue: Box<[u8]>,
    items_max: usize,
    /// When the wait ends. `None` means that the call does not wait.
    deadline: Option<Millis>,
    /// The time limit of the open reads of this call. After this time, the broker gives unconfirmed
    /// items back. `None` means that the call finishes its items at once, without open reads.
    auto_abort_ms: Option<u64>,
    /// Some items of the queue are only in the log. So the call can wait for a load, even if it has
    /// items and no deadline.
    has_cold: bool,
    items: Vec<Collected>,
    items_bytes: usize,
    /// The position that the reply waits for.
    after: Position,
}

/// An item of the reply.
#[derive(Debug)]
struct Collected {
    /// The lease of the item. `None` if the item is already finished.
    lease: Option<LeaseId>,
    /// [`JobBody::Stored`] while the call waits: then only the queue or the log keeps the body.
    body: JobBody,
}

impl Collect {
    fn new(to: ReplyTo, arguments: &Arguments<'_>, turn: &Turn<'_>) -> Self {
        let wait_ms = u64::try_from(arguments.time_ms).ok().filter(|millis| *millis > 0);
        let auto_abort_ms = u64::try_from(arguments.auto_abort_ms).ok();
        Self {
            to,
            queue: arguments.queue.into(),
            // A negative number means no limit, as with MONITOR.
            items_max: usize::try_from(arguments.items_max)
                .map_or(ITEMS_AT_ONCE_MAX, |max| max.min(ITEMS_AT_ONCE_MAX)),
            deadline: wait_ms.map(|millis| Millis(turn.now().0 + millis)),
            auto_abort_ms: auto_abort_ms.filter(|millis| *millis > 0),
            has_cold: turn
                .real_queue_id(arguments.queue)
                .is_some_and(|queue| turn.has_cold_jobs(queue)),
            items: Vec::new(),
            items_bytes: 0,
            after: AT_ONCE,
        }
    }

    /// Number of collected items.
    pub(super) fn items_count(&self) -> u64 {
        self.items.len() as u64
    }

    /// Number of bytes of memory for the call while it waits.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.queue.len() + self.items.capacity() * size_of::<Collected>()
    }

    /// True if the call waits for new items. False if it waits only until expired items are
    /// removed.
    pub(super) fn is_patient(&self) -> bool {
        self.deadline.is_some()
    }

    /// Where to reply that the call failed, if it has no item yet and does not wait for one. A reply
    /// that there is no item would be wrong, because the call waits for a load.
    pub(super) fn fails_early(&self) -> Option<ReplyTo> {
        (!self.is_patient() && self.items.is_empty()).then_some(self.to)
    }

    fn is_full(&self) -> bool {
        self.items.len() >= self.items_max || self.items_bytes >= ITEMS_BYTES_MAX
    }

    /// Removes items whose lease has ended, because a limit of the queue ended it, or because the
    /// queue was removed.
    fn drop_lost(&mut self, holder: SessionId, turn: &mut Turn<'_>) {
        let caller = turn.caller(holder);
        self.items.retain(|item| item.lease.is_none_or(|lease| caller.holds(lease)));
        self.items_bytes = self.items.iter().map(Collected::cost_bytes).sum();
    }

    /// How long the call waits for the next item. Before its first item, a call without a deadline
    /// waits until expired items are removed. Such a call finishes each item at once. If it waited
    /// after its first item, and the client disconnected during the wait, the item would be lost.
    /// So after its first item, it must reply without a wait.
    fn patience(&self, now: Millis) -> Patience {
        match self.deadline {
            Some(deadline) => Patience::of_millis(deadline.0.saturating_sub(now.0)),
            None if self.items.is_empty() || self.has_cold => Patience::UntilSwept,
            None => Patience::None,
        }
    }

    /// How the call reads its items. If the call replies in this turn, it finishes its items at
    /// once. Otherwise the connection's session holds the items until the reply, because the client
    /// may disconnect before the reply.
    fn how(&self) -> ReadMode {
        let is_answered_now = self.items_max == 1 || self.deadline.is_none() && !self.has_cold;
        if self.auto_abort_ms.is_none() && is_answered_now {
            ReadMode::Finish
        } else {
            ReadMode::Open { limit_ms: None }
        }
    }

    fn add(&mut self, lease: Option<LeaseId>, body: JobBody, after: Position) {
        let item = Collected { lease, body };
        self.items_bytes += item.cost_bytes();
        self.items.push(item);
        self.after = self.after.max(after);
    }

    /// Lets the bodies go while the call waits. The engine counts those in its memory. If the call kept
    /// them, too, they would count twice, or stay in memory after the engine has dropped them.
    fn let_bodies_go(&mut self) {
        // Earlier waits let the bodies of the first items go.
        for item in self.items.iter_mut().rev() {
            if item.lease.is_none() || matches!(item.body, JobBody::Stored(_)) {
                break;
            }
            item.body = JobBody::Stored(item.body.len() as u32);
        }
    }

    /// Gets the bodies again that [`Collect::let_bodies_go`] let go, and removes those items of them
    /// whose lease has ended. Must be called before the items are finished: a finished item has no body.
    fn get_bodies_again(&mut self, holder: SessionId, turn: &mut Turn<'_>) {
        self.items.retain_mut(|item| {
            if !matches!(item.body, JobBody::Stored(_)) {
                return true;
            }
            turn.count_work(1);
            let body = item.lease.and_then(|lease| turn.caller(holder).open_body(lease));
            let Some(body) = body else { return false };
            item.body = body;
            true
        });
    }
}

impl Collected {
    fn cost_bytes(&self) -> usize {
        self.body.len() + ITEM_BYTES
    }
}

impl ThriftSession {
    /// The session that holds the open reads of all thrift connections after the reply. Before the
    /// reply, the connection's own session holds the items of the call. So if the connection ends
    /// before the reply, the broker gives the items back.
    pub(super) fn holder(&self, turn: &mut Turn<'_>) -> SessionId {
        self.server.thrift_holder.session(turn, self.mailbox)
    }

    pub(super) fn get(
        &mut self,
        to: ReplyTo,
        arguments: &Arguments<'_>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> Result<(), Failed> {
        self.check_reads(turn)?;
        check_name(arguments.queue, turn)?;
        self.server.counters().cmd_monitor.add_one();
        self.collect(Collect::new(to, arguments, turn), turn, outbox);
        Ok(())
    }

    /// Takes the available items. Then waits or replies.
    fn collect(&mut self, mut collect: Collect, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let open_max = turn.open_max(&collect.queue);
        // One check looks at thousands of open reads. If it frees only a few, a check before each item
        // would look at up to a million of them in this step.
        let mut has_checked = false;
        while self.may_take(&mut collect, open_max, &mut has_checked, turn) {
            let counters = self.server.counters();
            counters.cmd_monitor_get.add_one();
            let (how, patience) = (collect.how(), collect.patience(turn.now()));
            let Answer { value, after } = turn.caller(self.id).read(&collect.queue, how, patience);
            match value {
                Ok(Take::Waiting) => {
                    collect.let_bodies_go();
                    self.waiting = Waiting::Item(collect);
                    return;
                }
                Ok(taken) => {
                    let Some((lease, body)) = taken.item() else {
                        self.server.count_miss(&collect.queue, turn);
                        collect.after = collect.after.max(after);
                        break;
                    };
                    counters.get_hits.add_one();
                    collect.add(lease, body, after);
                }
                Err(Blocked) => break,
            }
        }
        self.answer_get(collect, turn, outbox);
    }

    /// True if the call can take another item. At a limit, first removes ended reads from the
    /// counts, unless this step `has_checked` the open reads already.
    fn may_take(
        &mut self,
        collect: &mut Collect,
        open_max: u32,
        has_checked: &mut bool,
        turn: &mut Turn<'_>,
    ) -> bool {
        let holder = self.holder(turn);
        if collect.is_full() || self.is_open_full(collect, open_max) {
            collect.drop_lost(self.id, turn);
        }
        if !collect.is_full()
            && self.is_open_full(collect, open_max)
            && !mem::replace(has_checked, true)
        {
            self.open_reads.forget_ended(&collect.queue, holder, turn);
        }
        !collect.is_full() && !self.is_open_full(collect, open_max)
    }

    /// True if the connection has reached this queue's limit of open reads, or the limit of queues
    /// with open reads. The latter does not concern a call without open reads.
    fn is_open_full(&self, collect: &Collect, open_max: u32) -> bool {
        let opens = collect.auto_abort_ms.is_some();
        let new = if opens { collect.items.len() } else { 0 };
        let open = self.open_reads.count(&collect.queue);
        open + new >= open_max as usize || opens && open == 0 && self.open_reads.is_full_of_queues()
    }

    /// Handles an item that the call waited for.
    pub(super) fn granted(
        &mut self,
        mut collect: Collect,
        handout: Handout,
        after: Position,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        self.server.counters().get_hits.add_one();
        collect.add(Some(handout.lease), handout.body, after);
        self.collect(collect, turn, outbox);
    }

    /// Handles the end of the time to wait.
    pub(super) fn timed_out(
        &mut self,
        mut collect: Collect,
        after: Position,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        self.server.count_miss(&collect.queue, turn);
        collect.after = collect.after.max(after);
        self.answer_get(collect, turn, outbox);
    }

    fn answer_get(&mut self, mut collect: Collect, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        collect.get_bodies_again(self.id, turn);
        match collect.auto_abort_ms {
            None => self.finish_items(&mut collect, turn),
            Some(limit_ms) => self.hand_over_items(&mut collect, limit_ms, turn),
        }
        let mut reply = Reply::result(collect.to, Method::Get.name().as_bytes());
        reply.field(0, Written::List);
        reply.list_of_structs(collect.items.len());
        for item in collect.items {
            reply.structure(|reply| {
                reply.field(1, Written::Bytes);
                reply.body(item.body);
                reply.field(2, Written::I64);
                reply.i64(item.lease.map_or(0, |lease| lease.0 as i64));
            });
        }
        reply.send(collect.after, outbox);
    }

    /// Finishes the items of a call without open reads.
    fn finish_items(&self, collect: &mut Collect, turn: &mut Turn<'_>) {
        let Collect { items, after, .. } = collect;
        items.retain_mut(|item| {
            let Some(lease) = item.lease.take() else { return true };
            let finished = turn.caller(self.id).confirm(lease);
            *after = (*after).max(finished.after);
            finished.value.is_ok()
        });
    }

    /// Gives the open reads to the common holder. They stay open after the connection ends, for at
    /// most `limit_ms`.
    fn hand_over_items(&mut self, collect: &mut Collect, limit_ms: u64, turn: &mut Turn<'_>) {
        let holder = self.holder(turn);
        collect.items.retain(|item| {
            let handed = item.lease.filter(|lease| {
                turn.caller(self.id).hand_over(*lease, holder, Some(limit_ms)).value.is_ok()
            });
            if let Some(lease) = handed {
                self.open_reads.add(&collect.queue, lease, holder, turn);
            }
            handed.is_some()
        });
    }
}
