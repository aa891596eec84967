//! Items as Kestrel knows them: read from one queue by its name, held by the number of the lease.

use super::Refused;
use super::{Engine, NotFound};
use super::{Handout, Patience};
use crate::effects::{Effects, Event, News};
use crate::ids::{JobId, JobSlot, LeaseId, Millis, QueueId, SessionId};
use crate::jobs::{Body, Draft, Lease};
use crate::policy::Name;
use crate::queues::Extension;
use crate::sessions::{NEVER, Waiting, Wish};
use crate::wall::When;

/// What a producer of items does not say.
const PRIORITY: u32 = 1024;

/// What a read is to do with the item.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum ReadMode {
    /// Take it, and be done with it.
    Finish,
    /// Take it and hold it, until it is confirmed or put back. It goes back by itself after the
    /// limit, or after the policy's `open.timeout` if that is sooner.
    Open {
        /// Milliseconds from now; `None` for no limit.
        limit_ms: Option<u64>,
    },
    /// Look at it.
    Peek,
}

/// What a read leads to at once.
#[derive(Clone, Debug)]
pub enum Read {
    /// An item was looked at, or is held from now on.
    Item {
        /// Its place.
        job: JobSlot,
        /// Its number.
        id: JobId,
        /// The number of the hand-out, if it is held.
        lease: Option<LeaseId>,
        /// Its bytes.
        body: Body,
    },
    /// An item was taken and is finished.
    Finished {
        /// Its number.
        id: JobId,
        /// Its bytes.
        body: Body,
    },
    /// There is none, and the session does not wait. `None`: an alias, which never has one.
    Empty(Option<QueueId>),
    /// The session waits; a [`Event`] will come.
    Waiting,
}

/// Numbers of a queue as Kestrel counts them. Counters count since the queue exists, in this process.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ItemStats {
    /// Items that wait for a taker.
    pub items: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Items added.
    pub puts: u64,
    /// Bytes of the bodies of the items added.
    pub put_bytes: u64,
    /// Reads that found an item.
    pub hits: u64,
    /// Reads that found none, or waited for one in vain.
    pub misses: u64,
    /// Items that expired.
    pub expired: u64,
    /// Items that were dropped to make room for others, or because there was none.
    pub discarded: u64,
    /// Milliseconds since the item that was read last was put; before the first one, since the next
    /// one was put. 0 if there is no item.
    pub age_ms: u64,
    /// Sessions that wait for an item.
    pub waiters: u64,
    /// Open reads.
    pub open: u64,
    /// Reads opened.
    pub transactions: u64,
    /// Open reads that were given back.
    pub cancelled: u64,
    /// Flushes.
    pub flushes: u64,
    /// Names of the fan-out children, sorted; `None`: it never had one.
    pub children: Option<Vec<Name>>,
    /// When it was made.
    pub created: Millis,
    /// The most items that its policy lets it have.
    pub items_max: Option<u64>,
    /// The most bytes.
    pub bytes_max: Option<u64>,
}

/// Numbers of an alias.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AliasStats {
    /// Items added through it.
    pub puts: u64,
    /// Bytes of their bodies.
    pub put_bytes: u64,
    /// Where they go.
    pub destinations: Vec<Name>,
}

impl Engine {
    /// Adds an item to the queue of this name, and to all that it feeds. Makes, marks and keeps the
    /// queue. To be asked only if [`Engine::admits_child`].
    pub fn add(
        &mut self,
        name: &[u8],
        body: Body,
        expires: Option<When>,
        effects: &mut Effects,
    ) -> Result<(), Refused> {
        self.meter.begin_request();
        let draft = Draft {
            priority: PRIORITY,
            due: When::At(Millis(0)),
            delay_s: 0,
            ttr_s: 0,
            expires,
            reducer: None,
            foreground: false,
            body,
        };
        if self.alias(name).is_none() {
            let queue = self.item_queue(name, effects);
            if self.queues[queue].extension().is_some_and(Extension::is_single) {
                return self.put_routed(queue, draft, effects).map(|_| ());
            }
        }
        let route = self.route_to(name, true, effects);
        let routed = self.put_along(route, &draft, effects);
        routed.refused.map_or(Ok(()), Err)
    }

    /// Reads the next item of the queue of this name for a session of [`Engine::open_reader`]. The
    /// queue is made, marked and kept. Only for names that [`Engine::admits_child`] allows.
    /// With [`Patience::UntilSwept`] the session waits only if more items have expired in front
    /// than one request can end. The wait lasts until they are gone.
    pub fn read(
        &mut self,
        session: SessionId,
        name: &[u8],
        how: ReadMode,
        patience: Patience,
        effects: &mut Effects,
    ) -> Read {
        debug_assert!(!self.is_waiting(session));
        self.meter.begin_request();
        self.meter.count(1);
        if self.alias(name).is_some() {
            return Read::Empty(None);
        }
        let id = self.item_queue(name, effects);
        self.sweep_head(id, effects);
        if let Some(slot) = self.next_item(id) {
            self.count_hit(id);
            return match how {
                ReadMode::Peek => {
                    let job = &self.jobs[slot];
                    Read::Item { job: slot, id: job.id(), lease: None, body: job.body().clone() }
                }
                ReadMode::Open { limit_ms } => {
                    self.remove_from_list(slot);
                    let Handout { job, id, lease, body } =
                        self.open_read(slot, session, limit_ms, effects);
                    Read::Item { job, id, lease: Some(lease), body }
                }
                ReadMode::Finish => self.read_out(slot, effects),
            };
        }
        let until = match patience {
            // More had expired in front than one request may end: those go before anything else.
            Patience::UntilSwept if self.head_is_expired(&self.queues[id]) => self.now,
            Patience::None | Patience::UntilSwept | Patience::Millis(0) => {
                self.count_miss(id);
                return Read::Empty(Some(id));
            }
            Patience::Millis(millis) => Millis(self.now.0.saturating_add(millis)),
            Patience::Endless => NEVER,
        };
        let wish = match how {
            ReadMode::Peek => Wish::Peek,
            ReadMode::Finish => Wish::Finish,
            ReadMode::Open { limit_ms } => Wish::Hold { limit_ms },
        };
        let ticket = self.line_up(session, &[id]);
        self.sessions.begin_wait(session, Waiting::Item { ticket, until, queue: id, wish });
        self.arm_session(session);
        Read::Waiting
    }

    /// The item that a read gets now.
    fn next_item(&self, id: QueueId) -> Option<JobSlot> {
        let queue = &self.queues[id];
        if self.is_blocked(queue) || !queue.can_serve(self.now) || self.head_is_expired(queue) {
            return None;
        }
        queue.ready().first().map(|(_, slot)| JobSlot(slot))
    }

    /// Hands a job that is in no list to a session that holds by lease.
    fn open_read(
        &mut self,
        slot: JobSlot,
        holder: SessionId,
        limit_ms: Option<u64>,
        effects: &mut Effects,
    ) -> Handout {
        let queue = self.jobs[slot].queue();
        if let Some(extension) = self.queues[queue].extension_mut() {
            extension.transactions += 1;
        }
        self.hand_to_reader(slot, holder, limit_ms, effects)
    }

    fn hand_to_reader(
        &mut self,
        slot: JobSlot,
        holder: SessionId,
        limit_ms: Option<u64>,
        effects: &mut Effects,
    ) -> Handout {
        let limit_ms = self.read_limit(self.jobs[slot].queue(), limit_ms);
        self.note_read(slot);
        self.hand_out(slot, holder, limit_ms, effects)
    }

    /// Takes and finishes in one step, so that one record will do.
    fn read_out(&mut self, slot: JobSlot, effects: &mut Effects) -> Read {
        self.note_read(slot);
        let job = &self.jobs[slot];
        let (id, body) = (job.id(), job.body().clone());
        let queue = job.queue();
        self.queues[queue].count_finish();
        self.tally.takes += 1;
        self.end_job(slot, &News::Complete(Body::from(Vec::new())), effects);
        Read::Finished { id, body }
    }

    fn note_read(&mut self, slot: JobSlot) {
        let job = &self.jobs[slot];
        let (queue, created) = (job.queue(), job.created());
        if let Some(extension) = self.queues[queue].extension_mut() {
            extension.last_read = Some(created);
        }
    }

    fn count_hit(&mut self, queue: QueueId) {
        if let Some(extension) = self.queues[queue].extension_mut() {
            extension.hits += 1;
        }
    }

    /// A read found nothing, at once or in the end.
    pub(crate) fn count_miss(&mut self, queue: QueueId) {
        if let Some(extension) = self.queues[queue].extension_mut() {
            extension.misses += 1;
        }
    }

    /// How long an open read lasts.
    fn read_limit(&self, queue: QueueId, limit_ms: Option<u64>) -> Option<u64> {
        let timeout = self.policy_of(queue).and_then(|policy| policy.open_timeout_ms);
        [limit_ms, timeout].into_iter().flatten().min()
    }

    /// Gives a session that waits for an item of one queue what it wished for. `false`: it only
    /// looked, and the job is still to be had.
    pub(crate) fn grant_wish(
        &mut self,
        slot: JobSlot,
        waiter: SessionId,
        wish: Wish,
        effects: &mut Effects,
    ) -> bool {
        self.stop_waiting(waiter);
        self.count_hit(self.jobs[slot].queue());
        let Handout { job, id, lease, body } = match wish {
            Wish::Peek => {
                let body = self.jobs[slot].body().clone();
                effects.events.push((waiter, Event::Peeked { job: slot, body }));
                return false;
            }
            Wish::Finish => self.hand_to_reader(slot, waiter, None, effects),
            Wish::Hold { limit_ms } => self.open_read(slot, waiter, limit_ms, effects),
        };
        effects.events.push((waiter, Event::Granted { job, id, lease, body }));
        true
    }

    /// The place of a job that this session holds by this lease.
    fn held_by(&self, holder: SessionId, lease: LeaseId) -> Result<JobSlot, NotFound> {
        self.sessions.find(holder).and_then(|session| session.held_by(lease)).ok_or(NotFound)
    }

    /// Whether this session holds a job by this lease.
    pub fn holds(&self, holder: SessionId, lease: LeaseId) -> bool {
        self.held_by(holder, lease).is_ok()
    }

    /// Ends the item of an open read.
    pub fn confirm(
        &mut self,
        holder: SessionId,
        lease: LeaseId,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let slot = self.held_by(holder, lease)?;
        self.queues[self.jobs[slot].queue()].count_finish();
        self.end_job(slot, &News::Complete(Body::from(Vec::new())), effects);
        Ok(())
    }

    /// Puts the item of an open read back to its place at the head. It may end there, if nobody
    /// wants it any more.
    pub fn put_back(
        &mut self,
        holder: SessionId,
        lease: LeaseId,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let slot = self.held_by(holder, lease)?;
        self.lose_lease(slot, effects);
        Ok(())
    }

    /// An open read is held by another session from now on. It goes back by itself after so many
    /// milliseconds from now, or after the policy's `open.timeout` from now if that is sooner.
    pub fn hand_over(
        &mut self,
        holder: SessionId,
        lease: LeaseId,
        to: SessionId,
        limit_ms: Option<u64>,
    ) -> Result<(), NotFound> {
        let slot = self.held_by(holder, lease)?;
        self.meter.count(1);
        let job = &self.jobs[slot];
        let (queue, deadline) = (job.queue(), job.due());
        self.sessions[holder].let_go(queue, lease, deadline, slot);
        self.arm_session(holder);
        let limit_ms = self.read_limit(queue, limit_ms);
        let until = limit_ms.map_or(NEVER, |limit| Millis(self.now.0.saturating_add(limit)));
        self.jobs[slot].set_lease(Some(Lease { id: lease, holder: to, until }));
        self.sessions[to].hold(queue, lease, deadline, slot);
        self.renew_deadline(slot);
        Ok(())
    }

    // --- Numbers ---

    /// Names of the queues of items, and of the aliases, sorted.
    pub fn item_queues(&self) -> Vec<&[u8]> {
        let queues = self.queues.items_behind(None).map(|(name, _)| name);
        let mut names: Vec<&[u8]> = queues.chain(self.rules.aliases_behind(None)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Numbers of a queue.
    pub fn item_stats(&self, name: &[u8]) -> Option<ItemStats> {
        let queue = &self.queues[self.queue_id(name)?];
        let head = queue.ready().first().map(|(_, slot)| self.jobs[JobSlot(slot)].created());
        let stats = ItemStats {
            items: u64::from(queue.counts().ready),
            bytes: queue.counts().bytes,
            puts: queue.puts(),
            age_ms: head.map_or(0, |created| self.now.since(created)),
            waiters: queue.waiters().len() as u64,
            open: u64::from(queue.counts().leased),
            ..ItemStats::default()
        };
        let Some(extension) = queue.extension() else { return Some(stats) };
        let age = extension.last_read.filter(|_| queue.counts().bytes > 0);
        let children = self.queues.children(name).into_iter().flatten();
        let mut children: Vec<Name> =
            children.map(|child| self.queues[*child].name().into()).collect();
        children.sort_unstable();
        Some(ItemStats {
            put_bytes: extension.put_bytes,
            hits: extension.hits,
            misses: extension.misses,
            expired: extension.expired,
            discarded: extension.discarded,
            age_ms: age.map_or(stats.age_ms, |created| self.now.since(created)),
            transactions: extension.transactions,
            cancelled: extension.cancelled,
            flushes: extension.flushes,
            children: extension.parent().then_some(children),
            created: extension.created,
            items_max: extension.policy().jobs_max,
            bytes_max: extension.policy().bytes_max,
            ..stats
        })
    }

    /// Numbers of an alias; `None`: the name is not one.
    pub fn alias_stats(&self, name: &[u8]) -> Option<AliasStats> {
        let destinations = self.alias(name)?;
        let counts = self.rules.alias_counts(name);
        Some(AliasStats {
            puts: counts.puts,
            put_bytes: counts.put_bytes,
            destinations: destinations.into_vec(),
        })
    }
}
