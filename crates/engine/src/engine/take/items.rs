//! Items: jobs that sessions read from one queue by its name. This file also has the counts of
//! reads and the statistics of these queues.

use crate::effects::{Effects, Handout, News};
use crate::engine::{Engine, Take};
use crate::ids::{JobSlot, Millis, QueueId, SessionId};
use crate::milestones::JobEnd;
use crate::policy::Name;

/// Statistics of a queue, as in Kestrel. The counters start at 0 when the process makes the queue.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ItemStats {
    /// Items that are ready.
    pub items: u64,
    /// Bytes of the bodies of ready items.
    pub bytes: u64,
    /// Ready items whose body is only in the log.
    pub stored_items: u64,
    /// Bytes of the bodies of all `stored_items`.
    pub stored_bytes: u64,
    /// Items added.
    pub puts: u64,
    /// Bytes of the bodies of the items added.
    pub put_bytes: u64,
    /// Reads that found an item.
    pub hits: u64,
    /// Reads that found no item, at once or after a wait.
    pub misses: u64,
    /// Items that expired.
    pub expired: u64,
    /// Dropped items: old items that ended to make room for new items, and new items without room.
    pub discarded: u64,
    /// Milliseconds since the put of the item that was read last. If no item was read yet,
    /// milliseconds since the put of the next item. 0 if the queue has no ready item.
    pub age_ms: u64,
    /// Sessions that wait for an item.
    pub waiters: u64,
    /// Open reads at present.
    pub open: u64,
    /// Open reads since the process made the queue, including ended reads.
    pub transactions: u64,
    /// Open reads that were given back.
    pub cancelled: u64,
    /// Flushes of the queue.
    pub flushes: u64,
    /// When the queue was made.
    pub created: Millis,
    /// The maximum number of items, by the policy.
    pub items_max: Option<u64>,
    /// The maximum number of bytes, by the policy.
    pub bytes_max: Option<u64>,
}

/// Statistics of an alias.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AliasStats {
    /// Items that were put into the alias.
    pub puts: u64,
    /// Bytes of the bodies of all `puts`.
    pub put_bytes: u64,
    /// The queues and aliases to which the alias sends its puts.
    pub destinations: Vec<Name>,
}

impl Engine {
    /// Hands a job to a session as an open read. The job must be in no list.
    pub(in crate::engine) fn open_read(
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

    pub(in crate::engine) fn hand_to_reader(
        &mut self,
        slot: JobSlot,
        holder: SessionId,
        limit_ms: Option<u64>,
        effects: &mut Effects,
    ) -> Handout {
        let limit_ms = self.read_limit(self.jobs[slot].queue(), limit_ms);
        self.note_read(slot);
        self.lease(slot, holder, limit_ms, effects)
    }

    /// Takes and finishes an item in one step. So the log needs only one record.
    pub(in crate::engine) fn read_out(&mut self, slot: JobSlot, effects: &mut Effects) -> Take {
        self.note_read(slot);
        let job = &self.jobs[slot];
        let (id, body) = (job.id(), job.body());
        let waits_since = self.waits_since(slot);
        self.hand_out(slot, None, waits_since);
        self.finish_job(slot, JobEnd::Done, &News::done(), effects);
        Take::Finished { job: slot, id, body }
    }

    fn note_read(&mut self, slot: JobSlot) {
        let job = &self.jobs[slot];
        let (queue, created) = (job.queue(), job.created());
        if let Some(extension) = self.queues[queue].extension_mut() {
            extension.last_read = Some(created);
        }
    }

    pub(in crate::engine) fn count_hit(&mut self, queue: QueueId) {
        if let Some(extension) = self.queues[queue].extension_mut() {
            extension.hits += 1;
        }
    }

    /// Counts a read that found no item, at once or after a wait.
    pub(in crate::engine) fn count_miss(&mut self, queue: QueueId) {
        if let Some(extension) = self.queues[queue].extension_mut() {
            extension.misses += 1;
        }
    }

    /// The time limit of an open read: the client's limit, or the policy's `open.timeout`,
    /// whichever is shorter.
    pub(in crate::engine) fn read_limit(
        &self,
        queue: QueueId,
        limit_ms: Option<u64>,
    ) -> Option<u64> {
        let timeout = self.policy_of(queue).and_then(|policy| policy.open_timeout_ms);
        [limit_ms, timeout].into_iter().flatten().min()
    }

    // --- Statistics ---

    /// Names of the queues of items and of the aliases, sorted.
    pub fn item_queues(&self) -> Vec<&[u8]> {
        let queues = self.queues.items_behind(None).map(|(name, _)| name);
        let mut names: Vec<&[u8]> = queues.chain(self.rules.aliases_behind(None)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Statistics of the queue of items that a listing shows under this name: see
    /// [`Engine::shown_queue_id`].
    pub fn item_stats(&self, name: &[u8]) -> Option<ItemStats> {
        self.shown_queue_id(name).map(|queue| self.item_stats_of(queue))
    }

    /// Statistics of a queue of items.
    pub fn item_stats_of(&self, queue: QueueId) -> ItemStats {
        let queue = &self.queues[queue];
        let head = self.head_created(queue);
        let stats = ItemStats {
            items: u64::from(queue.counts().ready),
            bytes: queue.counts().bytes,
            stored_items: queue.stored().0,
            stored_bytes: queue.stored().1,
            puts: queue.puts(),
            age_ms: head.map_or(0, |created| self.now.since(created)),
            waiters: queue.waiters().len() as u64,
            open: u64::from(queue.counts().leased),
            ..ItemStats::default()
        };
        let Some(extension) = queue.extension() else { return stats };
        let age = extension.last_read.filter(|_| queue.counts().bytes > 0);
        ItemStats {
            put_bytes: extension.put_bytes,
            hits: extension.hits,
            misses: extension.misses,
            expired: extension.expired,
            discarded: extension.discarded,
            age_ms: age.map_or(stats.age_ms, |created| self.now.since(created)),
            transactions: extension.transactions,
            cancelled: extension.cancelled,
            flushes: extension.flushes,
            created: extension.created,
            items_max: extension.policy().jobs_max,
            bytes_max: extension.policy().bytes_max,
            ..stats
        }
    }

    /// Names of the fan-out children of a queue, sorted. `None`: the queue never had a child. They
    /// are not in [`ItemStats`], because most readers of the numbers do not need them, and each name
    /// is a unit of work.
    pub fn children_of(&self, queue: QueueId) -> Option<Vec<Name>> {
        let queue = &self.queues[queue];
        queue.extension().filter(|extension| extension.parent())?;
        let children = self.queues.children(queue.name()).into_iter().flatten();
        let mut names: Vec<Name> =
            children.map(|child| self.queues[*child].name().into()).collect();
        self.meter.count(names.len());
        names.sort_unstable();
        Some(names)
    }

    /// Statistics of an alias. `None`: the name is not an alias.
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
