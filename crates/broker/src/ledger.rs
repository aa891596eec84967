//! Writes the engine's records to the log, and computes the positions that replies wait for. A
//! *denial* is a negative reply, such as "not found".
//!
//! `locations` stores where each job is in the log. `meta` encodes the facts of jobs.

pub(crate) mod locations;
pub(crate) mod meta;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;

use engine::policy::QueueSync;
use engine::{
    Body, ClaimKey, Engine, JobBody, JobFacts, JobId, JobSlot, QueueFacts, QueueId, Record, Totals,
};
use log::{Log, Meta, QueueRef};

use crate::Position;
use crate::journal::stream::Stream;
use crate::journal::{FolderJournal, Journal, Mark, Placed, StreamJournal};
use crate::ledger::locations::{Location, Locations};
use crate::ledger::meta::OptionalFields;

/// Limit of jobs in one entry. A put creates one job in each queue of its route. If the route has
/// more queues than this, the put needs several entries. After a crash of the process, the log can
/// have some of these entries and lack the others.
const PUT_MANY_MAX: usize = 4096;
/// How many moves of jobs the ledger remembers for later. After a restart, further jobs move again, and
/// may then have another place in their queue. 16 thousand are about 500 KiB.
const OWED_MOVES_MAX: usize = 16 << 10;
/// How many of the records that waited for room one turn writes. Each takes up to 3 µs.
const OWED_PER_TURN: usize = 128;

/// Writes the engine's records to the log, and computes the position that each reply waits for.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// `None` if all jobs are only in memory. Then no reply waits.
    journal: Option<Box<dyn Journal>>,
    /// Whether the journal is that of a cluster's node. Most of its functions do nothing elsewhere,
    /// and are not called.
    replicates: bool,
    pub(crate) locations: Locations,
    /// For each queue, by its number: the end of the last entry about the queue or its jobs.
    queues: Vec<Position>,
    /// The latest position of all removed queues. A client can create a removed queue again, before
    /// the entries that removed its jobs are durable. A reply that the new queue is empty must wait
    /// for these entries. So denials about every queue wait for this position.
    gone: Position,
    /// The end of the last entry that ended a job. Denials about missing jobs wait for this
    /// position.
    ended: Position,
    /// The end of the last entry of the current request.
    pub(crate) last: Position,
    /// The end of the last entry of any request.
    latest: Position,
    /// The end of the last entry about policies or the status.
    facts: Position,
    /// The number of jobs that were put and have ended in the same request. The log gets no entry
    /// for such a job. Its `Put` record adds 1, and its `Finish` record subtracts 1.
    unwritten: usize,
    /// Jobs that left a queue and then ended in the same request, each with this queue and its sync
    /// policy. A job is removed from this list when the entry about its end is written.
    left: Vec<(JobSlot, QueueId, Option<QueueSync>)>,
    /// What is not in the log yet, because the log had no room. `None`: nothing, as each turn asks.
    owed: Option<Box<Owed>>,
    /// Whether the committer must be woken at the end of the turn.
    pub(crate) appended: bool,
    /// Whether an import adds the jobs. Such jobs can keep their old ids.
    pub(crate) imports: bool,
}

/// What the log gets as soon as it has room.
#[derive(Debug, Default)]
struct Owed {
    /// The facts of these queues.
    queues: BTreeSet<QueueId>,
    /// That the queues with these names have no facts any more, each with its number before its
    /// removal. The log still has the facts of each of them, so these are never more than the log's.
    dropped: BTreeMap<Box<[u8]>, QueueId>,
    /// The claims with these keys.
    claims: BTreeSet<ClaimKey>,
    /// The jobs with these ids, and their places: they moved without a request of a client. The log
    /// has only their counters.
    moves: BTreeMap<JobId, JobSlot>,
    policies: bool,
    status: bool,
    crons: bool,
    /// The states of the entries with these names.
    cron_states: BTreeSet<Box<[u8]>>,
    /// The notes with these names.
    notes: BTreeSet<Box<[u8]>>,
}

impl Owed {
    #[cold]
    fn len(&self) -> usize {
        let single = [self.policies, self.status, self.crons];
        single.into_iter().filter(|is_owed| *is_owed).count()
            + self.moves.len()
            + self.claims.len()
            + self.queues.len()
            + self.dropped.len()
            + self.cron_states.len()
            + self.notes.len()
    }

    /// Removes one of them.
    fn pop(&mut self) -> Option<Record> {
        if take(&mut self.policies) {
            return Some(Record::Policies);
        }
        if take(&mut self.status) {
            return Some(Record::Status);
        }
        if take(&mut self.crons) {
            return Some(Record::Crons);
        }
        let job = self.moves.pop_first().map(|(id, slot)| Record::Update(slot, id));
        job.or_else(|| self.claims.pop_first().map(Record::Claim))
            .or_else(|| self.queues.pop_first().map(Record::QueueFacts))
            .or_else(|| {
                self.dropped.pop_first().map(|(name, queue)| Record::QueueDropped(queue, name))
            })
            .or_else(|| self.cron_states.pop_first().map(Record::CronState))
            .or_else(|| self.notes.pop_first().map(Record::Note))
    }
}

impl Ledger {
    /// From now on, writes all changes to this log.
    pub(crate) fn set_log(&mut self, log: Arc<Log>) {
        self.journal = Some(Box::new(FolderJournal::new(log)));
    }

    /// From now on, writes all changes to the log and to the groups of a cluster's stream.
    pub(crate) fn set_stream(&mut self, stream: Arc<Stream>) {
        self.journal = Some(Box::new(StreamJournal::new(stream)));
        self.replicates = true;
    }

    /// The log of the data folder. `None` if all jobs are only in memory.
    pub(crate) fn log(&self) -> Option<&Arc<Log>> {
        self.journal.as_ref().map(|journal| journal.log())
    }

    /// Whether the log has room for an update of a job or for a fact.
    fn admits_update(&self) -> bool {
        self.log().is_some_and(|log| log.admits_update())
    }

    /// Whether the log has facts of the queue of this name.
    fn has_queue_fact(&self, name: &[u8]) -> bool {
        let (key, _) = meta::queue_fact(name, QueueFacts::default());
        self.log().is_some_and(|log| log.fact_value(&key).is_some())
    }

    /// Whether a change without a client, such as the loss of a lease, is always written whole. If
    /// not, the log can store only the job's counters when it has no room.
    fn writes_whole(&self) -> bool {
        self.replicates
    }

    /// Begins a new request.
    pub(crate) fn begin(&mut self) {
        self.latest = self.latest.max(self.last);
        self.last = Position::NONE;
        if let Some(journal) = self.replicating() {
            journal.begin_request();
        }
    }

    /// Ends a request.
    pub(crate) fn end(&mut self) {
        if let Some(journal) = self.replicating() {
            journal.end_request();
        }
    }

    /// Ends a turn: see [`Journal::end_turn`].
    pub(crate) fn end_turn(&mut self, engine: &Engine) {
        let appended = take(&mut self.appended);
        if self.replicates {
            self.write_due_counts(engine);
        }
        if let Some(journal) = &mut self.journal {
            journal.end_turn(engine.now().0, engine.next_number(), appended);
        }
    }

    fn write_due_counts(&mut self, engine: &Engine) {
        let Some(journal) = &mut self.journal else { return };
        for id in journal.take_due_counts(engine.now().0) {
            let Ok(slot) = engine.slot(id) else { continue };
            let Some(location) = self.locations.get(slot) else { continue };
            let counters = meta::counters_bytes(&engine.facts(slot).counters);
            journal.count_now(engine.now().0, id, location.log_slot, &counters);
        }
    }

    /// The journal of a cluster's node. `None`: the server is alone.
    fn replicating(&mut self) -> Option<&mut Box<dyn Journal>> {
        self.journal.as_mut().filter(|_| self.replicates)
    }

    /// The position for a reply that depends on an entry: see [`Journal::rests_on`].
    fn rests_on(&self, mark: Mark, asked: Option<QueueSync>) -> Position {
        match &self.journal {
            Some(journal) if mark > Mark::default() => journal.rests_on(mark, asked),
            Some(_) | None => Position::NONE,
        }
    }

    /// See [`Journal::cut`].
    pub(crate) fn cut(&mut self) {
        if let Some(journal) = self.replicating() {
            journal.cut();
        }
    }

    /// See [`Journal::cut_before_copies`].
    pub(crate) fn cut_before_copies(&mut self, engine: &Engine) {
        if let Some(journal) = self.replicating() {
            journal.cut_before_copies(engine.came_due().0);
        }
    }

    /// See [`Journal::mark_of`].
    pub(crate) fn mark_of(&self, end: log::Position) -> Mark {
        self.journal.as_ref().map_or(Mark::default(), |journal| journal.mark_of(end))
    }

    /// See [`Journal::follows`].
    pub(crate) fn follows(&self) -> bool {
        self.replicates && self.journal.as_ref().is_some_and(|journal| journal.follows())
    }

    /// See [`Journal::memory_bytes`].
    pub(crate) fn journal_bytes(&self) -> u64 {
        let replicating = self.journal.as_ref().filter(|_| self.replicates);
        replicating.map_or(0, |journal| journal.memory_bytes())
    }

    /// Whether records are written. If not, nothing needs to be done for them.
    pub(crate) fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// Whether the journal needs [`Ledger::left_memory`] and [`Ledger::came_back`].
    pub(crate) fn keeps_state(&self) -> bool {
        self.replicates
    }

    /// See [`Journal::left_memory`].
    pub(crate) fn left_memory(&mut self, id: JobId) {
        if let Some(journal) = self.replicating() {
            journal.left_memory(id);
        }
    }

    /// See [`Journal::came_back`].
    pub(crate) fn came_back(&mut self, id: JobId, hash: u64) {
        if let Some(journal) = self.replicating() {
            journal.came_back(id, hash);
        }
    }

    /// A queue vanished, and another queue can get its number.
    pub(crate) fn note_gone(&mut self, queue: QueueId) {
        self.gone = self.after_queue(queue);
        if let Some(journal) = &mut self.journal {
            journal.forget_queue(queue);
        }
    }

    /// See [`Journal::want_sync`].
    fn want_sync(&mut self, now_ms: u64, asked: Option<QueueSync>) {
        if let (Some(journal), Some(QueueSync::Every(_))) = (&mut self.journal, asked) {
            journal.want_sync(now_ms, asked);
        }
    }

    /// The number of records that the log had no room for.
    pub(crate) fn owed(&self) -> usize {
        self.owed.as_ref().map_or(0, |owed| owed.len())
    }

    fn owed_mut(&mut self) -> &mut Owed {
        self.owed.get_or_insert_default()
    }

    /// Writes some of the records that the log had no room for, if it has room now. Returns their
    /// number.
    pub(crate) fn write_owed(&mut self, engine: &Engine) -> usize {
        let mut written = 0;
        while written < OWED_PER_TURN
            && self.admits_update()
            && let Some(owed) = &mut self.owed
        {
            let Some(record) = owed.pop() else {
                self.owed = None;
                break;
            };
            written += 1;
            if self.can_write_owed(&record, engine) {
                self.write(record, engine);
            }
        }
        written
    }

    fn can_write_owed(&self, record: &Record, engine: &Engine) -> bool {
        match record {
            // The job may be only in memory by now.
            Record::Update(slot, id) => {
                is_live(engine, *slot, *id) && self.locations.get(*slot).is_some()
            }
            // The queue may have been removed, and another queue may have its number now.
            Record::QueueFacts(queue) => {
                engine.has_queue(*queue) && engine.queue_facts(*queue).kept
            }
            // A client may have made the queue again. Then its facts are written or owed.
            Record::QueueDropped(_, name) => {
                engine.own_queue_id(name).is_none_or(|queue| !engine.queue_facts(queue).kept)
            }
            _ => true,
        }
    }

    pub(crate) fn write(&mut self, record: Record, engine: &Engine) {
        if self.journal.is_none() {
            return;
        }
        // Entries with counters do not wake the committer, because no reply waits for them. A take
        // changes counters, and a finish often follows soon. The finish would have to wait for the
        // sync of the counters.
        self.appended |= !matches!(
            record,
            Record::Count(..) | Record::QueueGone(_) | Record::Known(..) | Record::KnownEnded
        );
        match record {
            Record::Put(slot, id) if !is_live(engine, slot, id) => self.unwritten += 1,
            // The job ended later in the same request, so its earlier changes need no entry.
            Record::Update(slot, id)
            | Record::Moved(slot, id)
            | Record::Taken(slot, id)
            | Record::Replaced(slot, id)
            | Record::Count(slot, id)
                if !is_live(engine, slot, id) => {}
            Record::Rerouted { slot, id, from, sync, .. } if !is_live(engine, slot, id) => {
                self.left.push((slot, from, sync));
            }
            Record::Put(slot, _) => self.write_put(slot, engine),
            Record::PutMany(slots) => self.write_many(&slots, engine),
            Record::Replaced(slot, _) => self.write_replaced(slot, engine),
            Record::Moved(slot, id) | Record::Rerouted { slot, id, is_requested: false, .. }
                if !self.admits_update() && !self.writes_whole() =>
            {
                self.write_count(slot, engine);
                let moves = &mut self.owed_mut().moves;
                if moves.len() < OWED_MOVES_MAX {
                    moves.insert(id, slot);
                }
            }
            Record::Taken(slot, _) if !self.admits_update() => self.write_count(slot, engine),
            Record::Update(slot, _) | Record::Moved(slot, _) | Record::Taken(slot, _) => {
                self.write_update(slot, engine);
            }
            Record::Rerouted { slot, from, sync, .. } => {
                self.write_update(slot, engine);
                // Denials about the job's old queue wait for this entry. The policy of the old
                // queue (`sync`) says whether they also wait for a sync.
                if let Some(after) = self.locations.get(slot).map(|location| location.after) {
                    self.want_sync(engine.now().0, sync);
                    self.note(from, self.rests_on(after, sync));
                }
            }
            Record::Count(slot, _) => self.write_count(slot, engine),
            Record::Finish { slot, id, queue, sync } => {
                self.write_finish((slot, id), queue, sync, engine);
            }
            // Policies and the status are already in force. They are written when the log has room.
            Record::Policies if !self.admits_update() => self.owed_mut().policies = true,
            Record::Status if !self.admits_update() => self.owed_mut().status = true,
            Record::Crons if !self.admits_update() => self.owed_mut().crons = true,
            Record::CronState(name) if !self.admits_update() => {
                self.owed_mut().cron_states.insert(name);
            }
            Record::Note(name) if !self.admits_update() => {
                self.owed_mut().notes.insert(name);
            }
            // The queue was removed in the same request.
            Record::QueueFacts(queue) if !engine.has_queue(queue) => {}
            // A put or a registration can cause this record, because it can set the queue's `kept`.
            // Such a request must not fail only because the log has no room for the fact. So the
            // fact is written later. A request that creates a queue or sets limits does not come
            // here, because it is refused if the log has no room.
            Record::QueueFacts(queue) if !self.admits_update() => {
                self.owed_mut().queues.insert(queue);
            }
            Record::QueueFacts(queue) => {
                let (key, value) =
                    meta::queue_fact(engine.queue_name(queue), engine.queue_facts(queue));
                let after = self.append_fact(&key, &value, engine);
                self.note_queue(queue, after, engine);
            }
            // A removal ends jobs, so it makes room and cannot demand it. Until this is written, a
            // restart can bring the queue back, without jobs.
            Record::QueueDropped(queue, name) if !self.admits_update() => {
                if self.has_queue_fact(&name) {
                    self.owed_mut().dropped.insert(name, queue);
                }
            }
            Record::QueueDropped(queue, name) => {
                let (key, nothing) = meta::queue_fact(&name, QueueFacts::default());
                let after = self.append_fact(&key, &nothing, engine);
                self.note(queue, self.rests_on(after, None));
            }
            Record::QueueGone(queue) => self.note_gone(queue),
            Record::Known(slot, id) => {
                let is_live = is_live(engine, slot, id);
                let after = if is_live { self.after_job(engine, slot) } else { self.ended };
                self.last = self.last.max(after);
            }
            Record::KnownEnded => self.last = self.last.max(self.ended),
            // The end of a job needs no room, so its claim cannot demand it.
            Record::Claim(key) if !self.admits_update() => {
                self.owed_mut().claims.insert(key);
            }
            Record::Claim(key) => {
                let claim = engine.claim(key);
                let (key, value) = meta::claim_fact(key, claim);
                let mark = self.append_fact(&key, &value, engine);
                if claim.is_some() {
                    self.ended = self.ended.max(self.rests_on(mark, None));
                }
            }
            Record::Policies => {
                self.write_fact(meta::POLICIES_KEY, &engine.policies().encode(), engine);
            }
            Record::Crons => {
                self.write_fact(meta::CRONS_KEY, &engine.cron_table().encode(), engine);
            }
            Record::CronState(name) => {
                let state = engine.cron_state(&name).map_or_else(Vec::new, |state| state.encode());
                self.write_fact(&meta::cron_key(&name), &state, engine);
            }
            Record::Note(name) => {
                let value = engine.note_of(&name).unwrap_or_default();
                self.write_fact(&meta::note_key(&name), value, engine);
            }
            Record::Status => self.write_fact(meta::STATUS_KEY, &[engine.status() as u8], engine),
        }
    }

    /// Appends a fact, and returns its mark.
    fn append_fact(&mut self, key: &[u8], value: &[u8], engine: &Engine) -> Mark {
        let journal = self.journal.as_mut();
        journal.map_or(Mark::default(), |journal| journal.fact(engine.now().0, key, value))
    }

    fn write_put(&mut self, slot: JobSlot, engine: &Engine) {
        let Some(journal) = &mut self.journal else { return };
        let facts = engine.facts(slot);
        let (number, queue) = queue_ref(engine, slot);
        let options = OptionalFields::of(&facts, engine.tags(slot));
        let (now_ms, meta) = (engine.now().0, options.meta(&facts));
        let body = resident_body(engine, slot);
        let placed = if self.imports {
            journal.import(now_ms, queue, &meta, &body)
        } else {
            journal.put(now_ms, queue, &meta, &body)
        };
        self.locations.set(slot, Location::of(placed));
        self.note_queue(number, placed.mark, engine);
    }

    fn write_replaced(&mut self, slot: JobSlot, engine: &Engine) {
        let Some(journal) = &mut self.journal else { return };
        let facts = engine.facts(slot);
        let (number, queue) = queue_ref(engine, slot);
        let options = OptionalFields::of(&facts, engine.tags(slot));
        let (now_ms, meta) = (engine.now().0, options.meta(&facts));
        let body = resident_body(engine, slot);
        let old = self.locations.remove(slot).expect("a logged job has its location");
        let placed = journal.replace(now_ms, old.log_slot, queue, &meta, &body);
        self.locations.set(slot, Location::of(placed));
        self.note_queue(number, placed.mark, engine);
    }

    fn write_update(&mut self, slot: JobSlot, engine: &Engine) {
        let Some(journal) = &mut self.journal else { return };
        let facts = engine.facts(slot);
        let (number, queue) = queue_ref(engine, slot);
        let options = OptionalFields::of(&facts, engine.tags(slot));
        let location = self.locations.get_mut(slot).expect("a logged job has its location");
        let body_len = engine.body_len(slot);
        let meta = options.meta(&facts);
        location.after = journal.update(engine.now().0, location.log_slot, queue, &meta, body_len);
        let after = location.after;
        self.locations.set_changed(slot, true);
        self.note_queue(number, after, engine);
    }

    fn write_count(&mut self, slot: JobSlot, engine: &Engine) {
        let Some(journal) = &mut self.journal else { return };
        let location = self.locations.get(slot).expect("a logged job has its location");
        let facts = engine.facts(slot);
        let counters = meta::counters_bytes(&facts.counters);
        journal.count(engine.now().0, facts.id, location.log_slot, &counters);
        self.locations.set_changed(slot, true);
    }

    fn write_finish(
        &mut self,
        (slot, id): (JobSlot, JobId),
        queue: QueueId,
        asked: Option<QueueSync>,
        engine: &Engine,
    ) {
        let Some(journal) = &mut self.journal else { return };
        if let Some(owed) = &mut self.owed {
            owed.moves.remove(&id);
        }
        let Some(location) = self.locations.remove(slot) else {
            assert!(self.unwritten > 0, "a logged job has its location");
            self.unwritten -= 1;
            self.left.retain(|(left, ..)| *left != slot);
            return;
        };
        let end = journal.finish(engine.now().0, id, location.log_slot);
        self.want_sync(engine.now().0, asked);
        let after = self.rests_on(end, asked);
        self.ended = self.ended.max(after);
        self.note(queue, after);
        self.note_left(slot, end, engine);
    }

    /// Stores the position `end` for each queue that the ended job left in this request. In the
    /// log, only the entry of the job's end removes the job from these queues. So denials about
    /// these queues wait for this entry.
    fn note_left(&mut self, slot: JobSlot, end: Mark, engine: &Engine) {
        if self.left.is_empty() {
            return;
        }
        for (_, from, asked) in
            self.left.extract_if(.., |(left, ..)| *left == slot).collect::<Vec<_>>()
        {
            self.want_sync(engine.now().0, asked);
            let after = self.rests_on(end, asked);
            self.note(from, after);
            if !engine.has_queue(from) {
                self.gone = self.gone.max(after);
            }
        }
    }

    /// Writes how far the wall clock is ahead of the log's time. Returns whether the log had room.
    /// No reply waits for this entry.
    pub(crate) fn write_clock(&mut self, offset_ms: i64, engine: &Engine) -> bool {
        if self.journal.is_none() {
            return true;
        }
        if !self.admits_update() {
            return false;
        }
        self.append_fact(meta::CLOCK_KEY, &offset_ms.to_le_bytes(), engine);
        self.appended = true;
        true
    }

    fn write_fact(&mut self, key: &[u8], value: &[u8], engine: &Engine) {
        let mark = self.append_fact(key, value, engine);
        self.facts = self.rests_on(mark, None);
        self.last = self.last.max(self.facts);
    }

    /// Writes one entry for jobs that share a body.
    fn write_many(&mut self, put: &[(JobSlot, JobId)], engine: &Engine) {
        if self.journal.is_none() {
            return;
        }
        let live = put.iter().filter(|(slot, id)| is_live(engine, *slot, *id));
        let slots: Vec<JobSlot> = live.map(|(slot, _)| *slot).collect();
        self.unwritten += put.len() - slots.len();
        let mut placed: Vec<Placed> = Vec::with_capacity(slots.len());
        for slots in slots.chunks(PUT_MANY_MAX) {
            let facts: Vec<JobFacts> = slots.iter().map(|slot| engine.facts(*slot)).collect();
            let options: Vec<OptionalFields> = facts
                .iter()
                .zip(slots)
                .map(|(facts, slot)| OptionalFields::of(facts, engine.tags(*slot)))
                .collect();
            let jobs: Vec<(QueueRef<'_>, Meta<'_>)> = slots
                .iter()
                .zip(facts.iter().zip(&options))
                .map(|(slot, (facts, options))| (queue_ref(engine, *slot).1, options.meta(facts)))
                .collect();
            let body = resident_body(engine, slots[0]);
            placed.clear();
            if let Some(journal) = &mut self.journal {
                journal.put_many(engine.now().0, &jobs, &body, &mut placed);
            }
            for (&slot, &placed) in slots.iter().zip(&placed) {
                self.locations.set(slot, Location::of(placed));
                self.note_queue(engine.queue_of(slot), placed.mark, engine);
            }
        }
    }

    /// Panics if the number of locations cannot be the number of logged jobs. Also panics if
    /// `unwritten` is not 0 or `left` is not empty. This costs almost nothing, so it is called at
    /// the end of each turn.
    pub(crate) fn check_counts(&self, engine: &Engine) {
        if self.journal.is_none() {
            return;
        }
        let Totals { ready, leased, delayed, buried, unlogged, .. } = engine.totals();
        // The engine does not count how many of the buried jobs are in the log.
        // Cold jobs are in the log, but have no location.
        let logged_max = ready + leased + delayed + buried - unlogged - engine.cold_jobs();
        let logged = logged_max.saturating_sub(buried)..=logged_max;
        let locations = self.locations.count();
        assert!(logged.contains(&locations), "{locations} locations for {logged:?} jobs");
        assert!(self.unwritten == 0 && self.left.is_empty(), "what a request writes is written");
    }

    /// Makes the same checks as `check_counts`. Also panics if a logged job has no location, or if
    /// a location has no logged job.
    pub(crate) fn check_invariants(&self, engine: &Engine) {
        if self.journal.is_none() {
            return;
        }
        self.check_counts(engine);
        let is_logged = |slot| engine.id_at(slot).is_some() && engine.is_durable(slot);
        assert!(self.locations.slots().all(is_logged), "only a logged job has a location");
        assert_eq!(self.locations.slots().count(), engine.logged_slots().count());
        assert_eq!(self.locations.slots().count() as u64, self.locations.count());
        let is_stored = |slot: &JobSlot| self.locations.get(*slot).is_some_and(Location::is_stored);
        let stored = self.locations.slots().filter(is_stored).count() as u64;
        assert_eq!(stored, self.locations.stored());
        let is_changed =
            |slot: &JobSlot| self.locations.get(*slot).is_some_and(Location::is_changed);
        let changed = self.locations.slots().filter(is_changed).count() as u64;
        assert_eq!(changed, self.locations.changed());
        for slot in self.locations.slots() {
            assert_eq!(is_stored(&slot), !engine.is_resident(slot), "where the body of a job is");
        }
    }

    /// Stores that the last entry about an existing queue ends at `after`.
    fn note_queue(&mut self, queue: QueueId, after: Mark, engine: &Engine) {
        let asked = engine.queue_sync(queue);
        self.want_sync(engine.now().0, asked);
        self.note(queue, self.rests_on(after, asked));
    }

    /// Stores that denials about a queue wait for `after`.
    fn note(&mut self, queue: QueueId, after: Position) {
        self.last = self.last.max(after);
        let index = queue.0 as usize;
        if index >= self.queues.len() {
            self.queues.resize(index + 1, Position::NONE);
        }
        self.queues[index] = self.queues[index].max(after);
    }

    /// The position for a reply about this job.
    pub(crate) fn after_job(&self, engine: &Engine, slot: JobSlot) -> Position {
        let Some(location) = self.locations.get(slot) else { return Position::NONE };
        self.rests_on(location.after, engine.queue_sync(engine.queue_of(slot)))
    }

    /// The position for a denial about a missing job.
    pub(crate) fn after_ended(&self) -> Position {
        self.ended
    }

    /// The position for a denial about a missing queue.
    pub(crate) fn after_gone(&self) -> Position {
        self.gone
    }

    /// The position for the reply to the removal of a queue.
    pub(crate) fn after_removal(&self) -> Position {
        self.gone.max(self.ended)
    }

    /// The position for an answer that can depend on any entry so far.
    pub(crate) fn after_all(&self) -> Position {
        self.latest.max(self.last)
    }

    /// The position for an answer about the policies or the status.
    pub(crate) fn after_facts(&self) -> Position {
        self.facts
    }

    /// The position for a denial about this queue.
    pub(crate) fn after_queue(&self, queue: QueueId) -> Position {
        let last = self.queues.get(queue.0 as usize).copied().unwrap_or_default();
        // If a client creates a removed queue again, the new queue may get another number. So
        // denials about every queue wait for `gone`. They wait at most until the current group is
        // written.
        last.max(self.gone)
    }

    /// The position for a denial about all of these queues.
    pub(crate) fn after_queues(&self, queues: &[QueueId]) -> Position {
        queues.iter().fold(Position::NONE, |last, queue| last.max(self.after_queue(*queue)))
    }
}

/// Whether the job of a record still exists. It may have ended in the same request, and another job
/// may have its slot now.
fn is_live(engine: &Engine, slot: JobSlot, id: JobId) -> bool {
    engine.id_at(slot) == Some(id)
}

/// The body of a job that was just put.
fn resident_body(engine: &Engine, slot: JobSlot) -> Body {
    match engine.body(slot) {
        JobBody::Resident(body) => body,
        JobBody::Stored(_) | JobBody::Loading(_) => {
            unreachable!("a job that is not in the log yet has its body in memory")
        }
    }
}

/// The queue of a job: its number, and its reference for the log.
pub(crate) fn queue_ref(engine: &Engine, slot: JobSlot) -> (QueueId, QueueRef<'_>) {
    let queue = engine.queue_of(slot);
    (queue, QueueRef { number: queue.0, name: engine.queue_name(queue) })
}
