//! `get`: collects items until there are enough, or the time is over.

use broker::{Body, Grant, LeaseId, Millis, Outbox, Patience, Position, Read, ReadHow};
use broker::{SessionId, Turn};

use super::methods::{Failed, check_name};
use super::request::{Arguments, Method};
use super::session::{AT_ONCE, ThriftSession, Waiting};
use super::types::Written;
use super::writer::{Reply, ReplyTo};

/// A reply ends short when it is this long; one item may reach beyond.
const REPLY_BYTES_MAX: usize = 8 << 20;

/// What an item costs beside its bytes, in the reply and in memory.
const ITEM_BYTES: usize = 64;

/// A `get` on its way.
#[derive(Debug)]
pub(super) struct Collect {
    to: ReplyTo,
    queue: Box<[u8]>,
    items_max: usize,
    /// When to wait no longer; `None`: not at all.
    deadline: Option<Millis>,
    /// After how long unconfirmed items go back; `None`: they are gone at once.
    auto_abort_ms: Option<u64>,
    items: Vec<Collected>,
    items_bytes: usize,
    /// What the reply waits for.
    after: Position,
}

/// An item that the reply will hold.
#[derive(Debug)]
struct Collected {
    /// `None`: it is gone already.
    lease: Option<LeaseId>,
    body: Body,
}

impl Collect {
    fn new(to: ReplyTo, arguments: &Arguments<'_>, turn: &Turn<'_>) -> Self {
        let wait_ms = u64::try_from(arguments.third).ok().filter(|millis| *millis > 0);
        let auto_abort_ms = u64::try_from(arguments.auto_abort_ms).ok();
        Self {
            to,
            queue: arguments.queue.into(),
            // Less than none is no limit, as with MONITOR.
            items_max: usize::try_from(arguments.items_max).unwrap_or(usize::MAX),
            deadline: wait_ms.map(|millis| Millis(turn.now().0 + millis)),
            auto_abort_ms: auto_abort_ms.filter(|millis| *millis > 0),
            items: Vec::new(),
            items_bytes: 0,
            after: AT_ONCE,
        }
    }

    fn is_full(&self) -> bool {
        self.items.len() >= self.items_max || self.items_bytes >= REPLY_BYTES_MAX
    }

    fn patience(&self, now: Millis) -> Patience {
        match self.deadline {
            Some(deadline) if deadline > now => Patience::Millis(deadline.0 - now.0),
            Some(_) | None => Patience::None,
        }
    }

    /// Items that are to be gone at once are held, too, as long as the client may still go away
    /// before the reply.
    fn how(&self) -> ReadHow {
        let is_last = self.items.len() + 1 >= self.items_max;
        if self.auto_abort_ms.is_none() && (is_last || self.deadline.is_none()) {
            ReadHow::Finish
        } else {
            ReadHow::Open { limit_ms: None }
        }
    }

    fn add(&mut self, lease: Option<LeaseId>, body: Body, after: Position) {
        self.items_bytes += body.len() + ITEM_BYTES;
        self.items.push(Collected { lease, body });
        self.after = self.after.max(after);
    }

    /// The client is gone before the reply: everything goes back.
    pub(super) fn put_back(self, session: &ThriftSession, turn: &mut Turn<'_>) {
        let holder = session.holder_of(&self, turn);
        for lease in self.items.into_iter().filter_map(|item| item.lease) {
            session.server.counters().cmd_get_open_dropped.add_one();
            // Its own time may have come before.
            let _ = turn.put_back(holder, lease);
        }
    }
}

impl ThriftSession {
    /// The session that holds open reads for all connections.
    pub(super) fn holder(&self, turn: &mut Turn<'_>) -> SessionId {
        self.server.thrift_holder.session(turn, self.mailbox)
    }

    /// The session that holds what this `get` collects.
    fn holder_of(&self, collect: &Collect, turn: &mut Turn<'_>) -> SessionId {
        if collect.auto_abort_ms.is_some() { self.holder(turn) } else { self.id }
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

    /// Takes what is there, and then waits or answers.
    fn collect(&mut self, mut collect: Collect, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let holder = self.holder_of(&collect, turn);
        let open_max = turn.policy(&collect.queue).open_max;
        while !collect.is_full() && !self.is_at_limit(&collect.queue, open_max, turn) {
            let counters = self.server.counters();
            counters.cmd_monitor_get.add_one();
            let (how, patience) = (collect.how(), collect.patience(turn.now()));
            match turn.read_for(self.id, holder, &collect.queue, how, patience) {
                Read::Item(item) => {
                    counters.get_hits.add_one();
                    self.take(&mut collect, item.lease, item.body, item.after, turn);
                }
                Read::Empty(after) => {
                    counters.get_misses.add_one();
                    collect.after = collect.after.max(after);
                    break;
                }
                Read::Blocked => break,
                Read::Waiting => {
                    self.waiting = Waiting::Item(collect);
                    return;
                }
            }
        }
        self.answer_get(collect, turn, outbox);
    }

    fn is_at_limit(&mut self, queue: &[u8], open_max: u32, turn: &mut Turn<'_>) -> bool {
        let holder = self.holder(turn);
        self.open_reads.is_full(queue, open_max, holder, turn)
    }

    fn take(
        &mut self,
        collect: &mut Collect,
        lease: Option<LeaseId>,
        body: Body,
        after: Position,
        turn: &mut Turn<'_>,
    ) {
        collect.add(lease, body, after);
        if let Some(lease) = lease.filter(|_| collect.auto_abort_ms.is_some()) {
            let holder = self.holder(turn);
            self.open_reads.add(&collect.queue, lease, holder, turn);
        }
    }

    /// An item came.
    pub(super) fn granted(
        &mut self,
        mut collect: Collect,
        grant: Grant,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        self.server.counters().get_hits.add_one();
        self.take(&mut collect, Some(grant.lease), grant.body, grant.after, turn);
        self.collect(collect, turn, outbox);
    }

    /// No more items come.
    pub(super) fn timed_out(
        &mut self,
        mut collect: Collect,
        after: Position,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        self.server.counters().get_misses.add_one();
        collect.after = collect.after.max(after);
        self.answer_get(collect, turn, outbox);
    }

    fn answer_get(&mut self, mut collect: Collect, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let holder = self.holder_of(&collect, turn);
        let Collect { auto_abort_ms, after, items, .. } = &mut collect;
        // What a limit of its queue has taken back meanwhile, or the end of the queue, is not the
        // client's any more.
        items.retain(|item| match (item.lease, *auto_abort_ms) {
            (None, _) => true,
            (Some(lease), Some(limit)) => turn.set_lease_limit(holder, lease, Some(limit)).is_ok(),
            (Some(lease), None) => {
                let ended = turn.confirm(holder, lease);
                *after = (*after).max(ended.unwrap_or_else(|denial| denial.0));
                ended.is_ok()
            }
        });
        let mut reply = Reply::result(collect.to, Method::Get.name().as_bytes());
        reply.field(0, Written::List);
        reply.list_of_structs(collect.items.len());
        for item in collect.items {
            let lease = item.lease.filter(|_| collect.auto_abort_ms.is_some());
            reply.structure(|reply| {
                reply.field(1, Written::Bytes);
                reply.body(item.body);
                reply.field(2, Written::I64);
                reply.i64(lease.map_or(0, |lease| lease.0 as i64));
            });
        }
        reply.send(collect.after, outbox);
    }
}
