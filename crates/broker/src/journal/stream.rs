//! The journal of a node of a cluster: the log of its data folder, behind a gate, and the groups for
//! the stream that the nodes share.
//!
//! A leader writes each change twice, in the same order: as an entry into the log's open batch, and
//! as a fact into the group that gathers. When the group is cut, its entries become one part of the
//! log. The committer may write this part only after the stream has accepted the group. So every
//! folder of the cluster has an exact prefix of the accepted history, at all times.
//!
//! A group is cut under the broker's lock. It gets its bytes, their checksum and its chain later: from
//! the thread that takes it for the stream, without a lock, because a body can have many MiB.
//!
//! The order of locks: the broker's lock, [`Stream`], the log's open batch.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use engine::policy::QueueSync;
use engine::{Body, JobId, QueueId};
use log::{Log, Meta, QueueRef, Slot, TIME_MS_MAX};
use replica::chain::{Chain, Link};
use replica::group::{At, SealedGroup};
use replica::{Epoch, Lineage};

use crate::Position;
use crate::broker::lock;
use crate::journal::fact::FactWriter;
use crate::journal::folder::placed;
use crate::journal::state_hash::{StateHash, job_hash};
use crate::journal::{Journal, Mark, Placed};
use crate::ledger::meta;

/// A group has at most this many bytes of facts, or one fact and its names. One message of the
/// stream can carry such a group, unless a body is larger.
const GROUP_BYTES_MAX: usize = 512 << 10;
/// The end of each part has room for the fact of the node's place.
pub(crate) const PLACE_BYTES: u64 = 256;
/// Room of a FINISH, COUNT or IDS entry.
const SMALL_ENTRY_BYTES: u64 = 64;
/// An entry needs at most this many bytes besides its names, metas, options and body.
const ENTRY_BYTES: u64 = 64;
/// Ids are reserved this far ahead, and this many at a time: see the log's own limit.
const IDS_AHEAD: u64 = 2 << 20;
const ID_BLOCK: u64 = 1 << 20;
/// Counters wait this long, and at most this many of them: see the log's lazy counters.
const COUNTS_MAX_MS: u64 = 1000;
const COUNTS_MAX: usize = 10_000;
/// One turn writes at most this many counters.
const TURN_COUNTS: usize = 500;

/// A function that the broker calls when a group is ready for the stream. It must be quick.
pub type OnGroup = Arc<dyn Fn() + Send + Sync>;

/// What the node of a cluster shares with the thread that speaks to the stream.
pub struct Stream {
    log: Arc<Log>,
    gathering: Mutex<Gathering>,
    /// The number of the last group that the stream has accepted.
    acknowledged: AtomicU64,
    /// The limit of ids in that group, or in the leader's claim.
    id_limit: AtomicU64,
    leads: AtomicBool,
    /// The leader may answer until this moment, in milliseconds of the engine's time.
    answer_until_ms: AtomicU64,
    /// The folder had a place in the history of the cluster when it was opened.
    has_place: bool,
    on_group: OnceLock<OnGroup>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("at", &self.at()).finish_non_exhaustive()
    }
}

/// The group that gathers, and the groups that wait for the stream.
#[derive(Debug)]
pub(crate) struct Gathering {
    lineage: Lineage,
    /// The place after the last group that was cut or applied. But its chain is the one after the last
    /// group that was taken for the stream or applied.
    at: At,
    /// The epoch of the group that gathers.
    epoch: Epoch,
    /// The time of the group that gathers, in milliseconds of log time. It never falls.
    time_ms: u64,
    facts: FactWriter,
    /// For each queue: the last group that names it, and its number there.
    names: Vec<(u64, u32)>,
    pub(crate) state: StateHash,
    id_limit: u64,
    /// A request writes its changes now, so that only its own thread cuts the group.
    in_request: bool,
    /// The segment of the group that gathers.
    segment: u32,
    /// Groups that were cut, and that the stream does not have yet, in order.
    waiting: VecDeque<CutGroup>,
    /// The stream has a group, and has not accepted it yet: the bytes of large bodies that were copied
    /// into it.
    in_flight: Option<usize>,
    /// Groups that the stream has not accepted, each with the end of its part of the log and its
    /// limit of ids.
    pending: VecDeque<(u64, log::Position, u64)>,
    /// Groups that the stream has accepted, and that are not durable in the folder yet.
    unsynced: VecDeque<(u64, log::Position)>,
}

/// A group that was cut. It has no chain yet.
#[derive(Debug)]
struct CutGroup {
    /// The place after the group. It has the chain of an earlier group.
    at: At,
    /// The end of its part of the log.
    end: log::Position,
    facts: FactWriter,
}

impl CutGroup {
    /// The group with its bytes and their checksum, but without chains. This takes milliseconds if a
    /// body is large, so no lock may be held.
    fn sum(self) -> SealedGroup {
        let Self { at, facts, .. } = self;
        let (count, body) = (facts.written(), facts.into_bytes());
        SealedGroup {
            number: at.number,
            epoch: at.epoch,
            time_ms: at.time_ms,
            before: Chain::default(),
            after: Chain::default(),
            state: at.state,
            jobs: at.jobs,
            id_limit: at.id_limit,
            facts: count,
            body_crc: crc32fast::hash(&body),
            body,
        }
    }
}

impl Stream {
    pub(crate) fn new(
        log: Arc<Log>,
        lineage: Lineage,
        (at, has_place): (At, bool),
        state: StateHash,
    ) -> Self {
        let gathering = Gathering {
            lineage,
            at,
            epoch: at.epoch,
            time_ms: at.time_ms,
            facts: FactWriter::default(),
            names: Vec::new(),
            state,
            id_limit: at.id_limit,
            in_request: false,
            segment: 0,
            waiting: VecDeque::new(),
            in_flight: None,
            pending: VecDeque::new(),
            unsynced: VecDeque::new(),
        };
        Self {
            log,
            gathering: Mutex::new(gathering),
            acknowledged: AtomicU64::new(at.number),
            id_limit: AtomicU64::new(at.id_limit),
            leads: AtomicBool::new(false),
            answer_until_ms: AtomicU64::new(0),
            has_place,
            on_group: OnceLock::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Gathering> {
        lock(&self.gathering)
    }

    /// Sets the function that the broker calls when a group is ready for the stream. Later calls
    /// change nothing.
    pub fn set_on_group(&self, on_group: OnGroup) {
        let _ = self.on_group.set(on_group);
    }

    /// Whether this node leads. Before, it follows.
    pub fn leads(&self) -> bool {
        self.leads.load(Ordering::Acquire)
    }

    /// Whether the folder had a place in the history of the cluster when it was opened. A new folder
    /// has none.
    pub fn has_place(&self) -> bool {
        self.has_place
    }

    /// Whether the stream has accepted every change of this leader.
    pub fn is_settled(&self) -> bool {
        let gathering = self.lock();
        gathering.facts.is_empty() && gathering.pending.is_empty()
    }

    pub(crate) fn answer_until(&self, until_ms: u64) {
        self.answer_until_ms.fetch_max(until_ms, Ordering::AcqRel);
    }

    pub(crate) fn may_answer(&self, now_ms: u64) -> bool {
        now_ms < self.answer_until_ms.load(Ordering::Acquire)
    }

    /// Gathers a fact that changes nothing. The broker's lock must be held.
    pub(crate) fn gather_nothing(&self) {
        let mut gathering = self.lock();
        let now_ms = gathering.time_ms;
        gathering.gather_nothing(&self.log, now_ms);
    }

    /// The place after the last group of this node. A leader's last groups may not be accepted yet. Its
    /// chain is the one after the last group that was taken for the stream.
    pub fn at(&self) -> At {
        self.lock().at
    }

    pub(crate) fn released(&self) -> Position {
        Position::written(log::Position(self.acknowledged()))
    }

    /// The number of the last accepted group.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// The owner can use ids below this limit.
    pub(crate) fn id_limit(&self) -> u64 {
        self.id_limit.load(Ordering::Acquire)
    }

    /// The number of the last group that is durable in the folder of this node.
    pub fn durable(&self) -> u64 {
        let durable = self.log.durable();
        let mut gathering = self.lock();
        while gathering.unsynced.front().is_some_and(|(_, end)| *end <= durable) {
            gathering.unsynced.pop_front();
        }
        let behind = gathering.unsynced.front().map(|(number, _)| number - 1);
        behind.unwrap_or_else(|| self.acknowledged())
    }

    /// Writes the place of the origin, before the first group.
    pub(crate) fn write_origin(&self) {
        let mut gathering = self.lock();
        let at = gathering.at;
        self.log.keep_together(at.time_ms, PLACE_BYTES);
        gathering.segment = self.log.last_segment();
        gathering.write_place(&self.log, at);
    }

    /// The next group for the stream. `None`: there is none, or the stream has not accepted the last
    /// one yet.
    pub fn take_group(&self) -> Option<SealedGroup> {
        let cut = self.take_cut()?;
        let end = cut.end;
        // Whoever holds the broker's lock can wait for `gathering`.
        let mut group = cut.sum();
        self.lock_whole()?.seal(&self.log, end, &mut group);
        Some(group)
    }

    /// The next group for the stream, as it was cut.
    fn take_cut(&self) -> Option<CutGroup> {
        let mut gathering = self.lock_whole()?;
        if gathering.in_flight.is_some() {
            return None;
        }
        if gathering.waiting.is_empty() && !gathering.in_request {
            // If a request is in progress, the end of its turn cuts the group.
            gathering.cut(&self.log);
        }
        let cut = gathering.waiting.pop_front();
        gathering.in_flight = cut.as_ref().map(|cut| cut.facts.shared_bytes());
        cut
    }

    /// `None`: a thread has panicked in the middle of a change.
    fn lock_whole(&self) -> Option<MutexGuard<'_, Gathering>> {
        self.gathering.lock().ok()
    }

    /// The stream has accepted the group with this number, and all before it.
    pub(crate) fn accept(&self, number: u64) {
        let mut gathering = self.lock();
        let mut end = None;
        while let Some(&(pending, place, id_limit)) = gathering.pending.front()
            && pending <= number
        {
            gathering.pending.pop_front();
            gathering.unsynced.push_back((pending, place));
            end = Some((place, id_limit));
        }
        let Some((end, id_limit)) = end else { return };
        gathering.in_flight = None;
        self.id_limit.fetch_max(id_limit, Ordering::AcqRel);
        let is_idle = gathering.pending.is_empty() && gathering.facts.is_empty();
        self.log.set_gate((!is_idle).then_some(end));
        self.acknowledged.store(number, Ordering::Release);
        drop(gathering);
        self.log.wake();
    }

    /// The follower has applied the group with this number.
    pub(crate) fn note_applied(&self, number: u64) {
        self.acknowledged.store(number, Ordering::Release);
    }

    /// The node leads from now on. `epoch` is the sequence number of its claim, and `id_limit` the
    /// limit of ids in this claim.
    pub(crate) fn lead(&self, epoch: Epoch, id_limit: u64) {
        let mut gathering = self.lock();
        gathering.epoch = epoch;
        gathering.id_limit = gathering.id_limit.max(id_limit);
        drop(gathering);
        self.id_limit.fetch_max(id_limit, Ordering::AcqRel);
        self.leads.store(true, Ordering::Release);
    }

    fn end_turn(&self) {
        let mut gathering = self.lock();
        if gathering.in_flight.is_none() && gathering.waiting.is_empty() {
            gathering.cut(&self.log);
        }
        let is_ready = gathering.in_flight.is_none() && !gathering.waiting.is_empty();
        drop(gathering);
        if is_ready && let Some(on_group) = self.on_group.get() {
            on_group();
        }
    }
}

impl Gathering {
    /// The place after the last group that was cut or applied.
    pub(crate) fn at(&self) -> At {
        self.at
    }

    /// Makes room for an entry of this many bytes, so that all entries of a group are in one part of
    /// the log.
    fn make_room(&mut self, log: &Log, now_ms: u64, bytes: u64) {
        let has_room = log.room_left() >= bytes + PLACE_BYTES;
        if self.facts.len() as u64 + bytes > GROUP_BYTES_MAX as u64 || !has_room {
            self.cut(log);
        }
        if self.facts.is_empty() {
            // The entries of reclaim get a part of their own.
            let end = log.cut();
            if self.pending.is_empty() {
                log.set_gate(Some(end));
            }
            log.keep_together(now_ms, bytes + PLACE_BYTES);
            self.segment = log.last_segment();
        }
        self.time_ms = self.time_ms.max(now_ms);
    }

    /// Gathers a fact that changes nothing.
    fn gather_nothing(&mut self, log: &Log, now_ms: u64) {
        self.make_room(log, now_ms, SMALL_ENTRY_BYTES);
        self.facts.ids(self.id_limit);
        log.reserve_ids(now_ms, self.id_limit);
    }

    /// Ends the group that gathers, if it has facts. It gets its chain when it is taken for the stream:
    /// see [`seal`](Self::seal).
    pub(crate) fn cut(&mut self, log: &Log) {
        if self.facts.is_empty() {
            return;
        }
        let facts = std::mem::take(&mut self.facts);
        let at = self.next_at();
        let end = self.write_place(log, at);
        self.pending.push_back((at.number, end, at.id_limit));
        self.waiting.push_back(CutGroup { at, end, facts });
    }

    /// Gives a group its chain, also in its part of the log. The groups before it have theirs.
    fn seal(&mut self, log: &Log, end: log::Position, group: &mut SealedGroup) {
        group.before = self.at.chain;
        group.after = chain_after(&At { chain: group.before, ..group.at() }, group);
        self.at.chain = group.after;
        log.amend_fact(end, meta::CLUSTER_KEY, &encode_place(self.lineage, &group.at()));
    }

    /// The place after the group that gathers, or that was applied. It still has the chain of an
    /// earlier group.
    fn next_at(&self) -> At {
        At {
            epoch: self.epoch,
            number: self.at.number + 1,
            chain: self.at.chain,
            state: self.state.sum(),
            jobs: self.state.count(),
            id_limit: self.id_limit,
            time_ms: self.time_ms,
        }
    }

    /// Writes the node's new place as the last entry of the part, and ends the part.
    fn write_place(&mut self, log: &Log, at: At) -> log::Position {
        log.fact(at.time_ms, meta::CLUSTER_KEY, &encode_place(self.lineage, &at));
        self.at = at;
        let end = log.cut();
        // Recovery finds a part as a whole or not at all, but not two parts.
        assert_eq!(end.segment(), self.segment, "all entries of a group are in one part");
        end
    }

    /// Begins to apply a group of the leader: its entries need at most this many bytes.
    pub(crate) fn begin_apply(&mut self, log: &Log, group: &SealedGroup, bytes: u64) {
        log.set_gate(Some(log.cut()));
        log.keep_together(group.time_ms, bytes + PLACE_BYTES);
        self.segment = log.last_segment();
        (self.epoch, self.time_ms) = (group.epoch, group.time_ms);
        self.id_limit = group.id_limit;
    }

    /// Compares the state hash and the chain with the leader's. If they are equal, lets the committer
    /// write the group. If not, the group stays behind the gate, and the node must stop.
    pub(crate) fn end_apply(&mut self, log: &Log, group: &SealedGroup) -> bool {
        let next = self.next_at();
        let at = At { chain: chain_after(&next, group), ..next };
        if (at.state, at.jobs, at.chain) != (group.state, group.jobs, group.after) {
            return false;
        }
        let end = self.write_place(log, at);
        self.unsynced.push_back((group.number, end));
        log.set_gate(None);
        true
    }

    /// Writes a fact to the log.
    pub(crate) fn write_fact(&mut self, log: &Log, now_ms: u64, key: &[u8], value: &[u8]) {
        if key != meta::CLOCK_KEY {
            // The log has the old value until it gets the new one.
            let before = log.fact_value(key);
            self.state.fact(key, before.as_deref(), value);
        }
        log.fact(now_ms, key, value);
    }

    /// Another queue may get this queue's number.
    pub(crate) fn forget_queue(&mut self, queue: QueueId) {
        if let Some(name) = self.names.get_mut(queue.0 as usize) {
            *name = (0, 0);
        }
    }

    /// The queue's number in the group that gathers.
    fn queue(&mut self, queue: QueueRef<'_>) -> u32 {
        let index = queue.number as usize;
        if index >= self.names.len() {
            self.names.resize(index + 1, (0, 0));
        }
        // Numbers of groups begin with 1.
        let group = self.at.number + 1;
        if self.names[index].0 != group {
            self.names[index] = (group, self.facts.name(queue.name));
        }
        self.names[index].1
    }
}

/// The chain after a group with this body. `at` is the place after it, with the chain before it.
fn chain_after(at: &At, group: &SealedGroup) -> Chain {
    at.chain.then(&Link {
        epoch: at.epoch,
        number: at.number,
        time_ms: at.time_ms,
        state: at.state,
        jobs: at.jobs,
        id_limit: at.id_limit,
        body_bytes: group.body.len() as u64,
        body_crc: group.body_crc,
    })
}

/// Writes each change to the log and to the group that gathers.
#[derive(Debug)]
pub(crate) struct StreamJournal {
    stream: Arc<Stream>,
    slots: Vec<Slot>,
    /// Jobs with counters that are not in the log yet.
    counts: BTreeSet<JobId>,
    /// When the first of these jobs got its counters.
    counted_ms: u64,
}

impl StreamJournal {
    pub(crate) fn new(stream: Arc<Stream>) -> Self {
        Self { stream, slots: Vec::new(), counts: BTreeSet::new(), counted_ms: 0 }
    }

    /// The group that gathers, with room for an entry of this many bytes.
    fn gather(&self, now_ms: u64, bytes: u64) -> MutexGuard<'_, Gathering> {
        let mut gathering = self.stream.lock();
        gathering.make_room(&self.stream.log, now_ms, bytes);
        gathering
    }
}

/// The bytes of an entry that uses this queue, with the entry that names the queue.
fn entry_bytes(queue: QueueRef<'_>, meta: &Meta<'_>, body: &[u8]) -> u64 {
    queue.name.len() as u64 + log::put_bytes(1, meta.options.len(), body.len()) + ENTRY_BYTES
}

fn hash(queue: QueueRef<'_>, meta: &Meta<'_>, body_len: usize) -> u64 {
    let (facts, tags) = meta::facts(meta, None).expect("this program wrote the meta");
    job_hash(queue.name, &facts, tags, body_len)
}

impl Journal for StreamJournal {
    fn log(&self) -> &Arc<Log> {
        &self.stream.log
    }

    fn put(&mut self, now_ms: u64, queue: QueueRef<'_>, meta: &Meta<'_>, body: &Body) -> Placed {
        let mut gathering = self.gather(now_ms, entry_bytes(queue, meta, body));
        let (slot, end) = self.stream.log.put(now_ms, queue, meta, body);
        let number = gathering.queue(queue);
        gathering.facts.put([(number, meta)].into_iter(), body);
        gathering.state.put(JobId(meta.id), hash(queue, meta, body.len()));
        let bytes = log::put_bytes(1, meta.options.len(), body.len());
        Placed { mark: gathering.mark(), ..placed(slot, end, bytes) }
    }

    fn import(&mut self, _: u64, _: QueueRef<'_>, _: &Meta<'_>, _: &Body) -> Placed {
        unreachable!("an import into the folder of a cluster is refused")
    }

    fn put_many(
        &mut self,
        now_ms: u64,
        jobs: &[(QueueRef<'_>, Meta<'_>)],
        body: &Body,
        found: &mut Vec<Placed>,
    ) {
        let each = jobs.iter().map(|(queue, meta)| entry_bytes(*queue, meta, b""));
        let bytes = each.sum::<u64>() + body.len() as u64;
        let mut gathering = self.stream.lock();
        gathering.make_room(&self.stream.log, now_ms, bytes);
        self.slots.clear();
        let end = self.stream.log.put_many(now_ms, jobs, body, &mut self.slots);
        let numbers: Vec<u32> = jobs.iter().map(|(queue, _)| gathering.queue(*queue)).collect();
        gathering.facts.put(numbers.into_iter().zip(jobs.iter().map(|(_, meta)| meta)), body);
        for (queue, meta) in jobs {
            gathering.state.put(JobId(meta.id), hash(*queue, meta, body.len()));
        }
        let options_bytes = jobs.iter().map(|(_, meta)| meta.options.len()).sum();
        let bytes = log::put_bytes(jobs.len(), options_bytes, body.len());
        let mark = gathering.mark();
        found.extend(self.slots.iter().map(|slot| Placed { mark, ..placed(*slot, end, bytes) }));
    }

    /// Other nodes end the job, and put it again, with the same id. A group becomes true as a whole.
    fn replace(
        &mut self,
        now_ms: u64,
        old: Slot,
        queue: QueueRef<'_>,
        meta: &Meta<'_>,
        body: &Body,
    ) -> Placed {
        let id = JobId(meta.id);
        self.counts.remove(&id);
        let bytes = entry_bytes(queue, meta, body) + SMALL_ENTRY_BYTES;
        let mut gathering = self.gather(now_ms, bytes);
        let (slot, end) = self.stream.log.replace(now_ms, old, queue, meta, body);
        gathering.facts.finish(meta.id);
        gathering.state.finish(id);
        let number = gathering.queue(queue);
        gathering.facts.put([(number, meta)].into_iter(), body);
        gathering.state.put(id, hash(queue, meta, body.len()));
        let bytes = log::put_bytes(1, meta.options.len(), body.len()) + log::TARGET_BYTES;
        Placed { mark: gathering.mark(), ..placed(slot, end, bytes) }
    }

    fn update(
        &mut self,
        now_ms: u64,
        slot: Slot,
        queue: QueueRef<'_>,
        meta: &Meta<'_>,
        body_len: usize,
    ) -> Mark {
        self.counts.remove(&JobId(meta.id));
        let mut gathering = self.gather(now_ms, entry_bytes(queue, meta, b""));
        self.stream.log.update(now_ms, slot, queue, meta);
        let number = gathering.queue(queue);
        gathering.facts.update(number, meta);
        gathering.state.update(JobId(meta.id), hash(queue, meta, body_len));
        gathering.mark()
    }

    fn count(&mut self, now_ms: u64, id: JobId, _: Slot, _: &[u8]) {
        if self.counts.is_empty() {
            self.counted_ms = now_ms;
        }
        self.counts.insert(id);
    }

    fn take_due_counts(&mut self, now_ms: u64) -> BTreeSet<JobId> {
        let is_due = self.counts.len() >= COUNTS_MAX || now_ms >= self.counted_ms + COUNTS_MAX_MS;
        if !is_due || self.counts.is_empty() {
            return BTreeSet::new();
        }
        match self.counts.iter().nth(TURN_COUNTS).copied() {
            Some(next) => {
                let later = self.counts.split_off(&next);
                std::mem::replace(&mut self.counts, later)
            }
            None => std::mem::take(&mut self.counts),
        }
    }

    fn count_now(&mut self, now_ms: u64, id: JobId, slot: Slot, counters: &[u8]) {
        let mut gathering = self.gather(now_ms, SMALL_ENTRY_BYTES);
        self.stream.log.count_now(now_ms, slot, counters);
        gathering.facts.count(id.0, counters);
    }

    fn finish(&mut self, now_ms: u64, id: JobId, slot: Slot) -> Mark {
        self.counts.remove(&id);
        let mut gathering = self.gather(now_ms, SMALL_ENTRY_BYTES);
        self.stream.log.finish(now_ms, slot);
        gathering.facts.finish(id.0);
        gathering.state.finish(id);
        gathering.mark()
    }

    fn fact(&mut self, now_ms: u64, key: &[u8], value: &[u8]) -> Mark {
        let bytes = (key.len() + value.len()) as u64 + ENTRY_BYTES;
        let mut gathering = self.gather(now_ms, bytes);
        gathering.facts.fact(key, value);
        gathering.write_fact(&self.stream.log, now_ms, key, value);
        gathering.mark()
    }

    fn forget_queue(&mut self, queue: QueueId) {
        self.stream.log.forget_queue(queue.0);
        self.stream.lock().forget_queue(queue);
    }

    fn mark_of(&self, _: log::Position) -> Mark {
        // The log has only what the stream has accepted.
        Mark::default()
    }

    fn begin_request(&mut self) {
        self.stream.lock().in_request = true;
    }

    fn end_request(&mut self) {
        self.stream.lock().in_request = false;
    }

    fn follows(&self) -> bool {
        !self.stream.leads()
    }

    fn memory_bytes(&self) -> u64 {
        let gathering = self.stream.lock();
        gathering.state.bytes() + gathering.in_flight.unwrap_or(0) as u64
    }

    /// Every reply waits for the stream, whatever the policy of its queue.
    fn rests_on(&self, mark: Mark, _: Option<QueueSync>) -> Position {
        Position::written(log::Position(mark.0))
    }

    fn want_sync(&mut self, _: u64, _: Option<QueueSync>) {}

    fn cut(&mut self) {
        self.stream.lock().cut(&self.stream.log);
    }

    fn cut_before_copies(&mut self, due_ms: u64) {
        let mut gathering = self.stream.lock();
        // Whoever reads a copy in the folder must have the time at which the job was due. So a group
        // with this time comes before the copy, and the next leaders begin with this time, too.
        if self.stream.leads() && gathering.at.time_ms < due_ms {
            if gathering.facts.is_empty() {
                gathering.gather_nothing(&self.stream.log, due_ms);
            }
            gathering.time_ms = gathering.time_ms.max(due_ms);
        }
        gathering.cut(&self.stream.log);
    }

    fn end_turn(&mut self, now_ms: u64, next_number: u64, appended: bool) {
        if self.stream.leads() {
            if next_number + IDS_AHEAD > self.stream.lock().id_limit {
                let limit = next_number + IDS_AHEAD + ID_BLOCK;
                let mut gathering = self.gather(now_ms, SMALL_ENTRY_BYTES);
                gathering.id_limit = limit;
                gathering.facts.ids(limit);
                self.stream.log.reserve_ids(now_ms, limit);
            }
            self.stream.end_turn();
        }
        // Behind the gate, there is nothing to write.
        if appended && !self.stream.log.is_gated() {
            self.stream.log.wake();
        }
    }

    fn left_memory(&mut self, id: JobId) {
        self.stream.lock().state.forget(id);
    }

    fn came_back(&mut self, id: JobId, hash: u64) {
        self.stream.lock().state.remember(id, hash);
    }
}

impl Gathering {
    /// The mark of everything in the group that gathers.
    fn mark(&self) -> Mark {
        Mark(self.at.number + 1)
    }
}

/// The value of the fact of the node's place.
fn encode_place(lineage: Lineage, at: &At) -> Vec<u8> {
    let mut value = lineage.0.to_vec();
    value.extend_from_slice(&replica::record::FORMAT.to_le_bytes());
    for word in [at.epoch, at.number, at.chain.0, at.state, at.jobs, at.time_ms, at.id_limit] {
        value.extend_from_slice(&word.to_le_bytes());
    }
    value
}

/// Decodes the fact of the node's place. `None`: it is damaged, or a newer version wrote it. A
/// start continues at its time, so it has the bounds of a group's time.
pub(crate) fn decode_place(value: &[u8]) -> Option<(Lineage, At)> {
    let (lineage, rest) = value.split_first_chunk::<16>()?;
    let (format, rest) = rest.split_first_chunk::<2>()?;
    let (words, []) = rest.as_chunks::<8>() else { return None };
    let &[epoch, number, chain, state, jobs, time_ms, id_limit] = words else { return None };
    let [epoch, number, chain, state, jobs, time_ms, id_limit] =
        [epoch, number, chain, state, jobs, time_ms, id_limit].map(u64::from_le_bytes);
    let at = At { epoch, number, chain: Chain(chain), state, jobs, time_ms, id_limit };
    let is_known = u16::from_le_bytes(*format) == replica::record::FORMAT;
    (is_known && time_ms <= TIME_MS_MAX).then_some((Lineage(*lineage), at))
}
