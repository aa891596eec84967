//! Writes the engine's records to the log, and computes the positions that replies wait for. A
//! *denial* is a negative reply, such as "not found".
//!
//! `locations` stores where each job is in the log. `meta` encodes the facts of jobs.

pub(crate) mod locations;
pub(crate) mod meta;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::mem::take;
use std::sync::Arc;

use engine::policy::QueueSync;
use engine::{
    Body, Engine, JobBody, JobFacts, JobId, JobSlot, QueueFacts, QueueId, Record, Totals,
};
use log::{Log, Meta, QueueRef, Sync};

use crate::Position;
use crate::ledger::locations::{Location, Locations};
use crate::ledger::meta::OptionalFields;

/// Limit of jobs in one entry. A put creates one job in each queue of its route. If the route has
/// more queues than this, the put needs several entries. After a crash of the process, the log can
/// have some of these entries and lack the others.
const PUT_MANY_MAX: usize = 4096;

/// Writes the engine's records to the log, and computes the position that each reply waits for.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// `None` if all jobs are only in memory. Then no reply waits.
    pub(crate) log: Option<Arc<Log>>,
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
    /// Facts that are not in the log yet, because the log had no room.
    unwritten_facts: UnwrittenFacts,
    /// Whether the committer must be woken at the end of the turn.
    pub(crate) appended: bool,
    /// Whether an import adds the jobs. Such jobs can keep their old ids.
    pub(crate) imports: bool,
    asks: SyncRequests,
}

/// Facts to write as soon as the log has room.
#[derive(Debug, Default)]
struct UnwrittenFacts {
    /// The facts of these queues.
    queues: BTreeSet<QueueId>,
    policies: bool,
    status: bool,
}

/// Sync requests for queues whose policy differs from the log's setting. The ledger passes the
/// requests to the log at the end of the turn. If the ledger passed them earlier, the committer
/// could write a group with only the turn's first entries. The turn's other entries would then wait
/// for a second group.
#[derive(Debug, Default)]
struct SyncRequests {
    durable: Cell<u64>,
    written: Cell<u64>,
    sync_by_ms: Cell<Option<u64>>,
}

impl Ledger {
    /// Begins a new request.
    pub(crate) fn begin(&mut self) {
        self.latest = self.latest.max(self.last);
        self.last = Position::NONE;
    }

    /// Passes the turn's sync requests to the log.
    pub(crate) fn ask(&self, log: &Log) {
        let SyncRequests { durable, written, sync_by_ms } = &self.asks;
        match written.take() {
            0 => {}
            at => log.want_written(log::Position(at)),
        }
        if let Some(at_ms) = sync_by_ms.take() {
            log.want_sync_by(at_ms);
        }
        match durable.take() {
            0 => {}
            at => log.want_durable(log::Position(at)),
        }
    }

    /// The position for a reply that depends on an entry. `at` is the end of this entry. `asked` is
    /// the sync policy of the reply's queue. If it is `None`, the log's setting applies.
    fn rests_on(&self, at: log::Position, asked: Option<QueueSync>) -> Position {
        let Some(log) = self.log.as_ref().filter(|_| at.0 > 0) else { return Position::NONE };
        let log_is_strict = log.sync() == Sync::Always;
        let SyncRequests { durable, written, .. } = &self.asks;
        match asked {
            None if log_is_strict => Position::durable(at),
            Some(QueueSync::Always) => {
                // Most replies depend on entries that are already durable. They need no sync
                // request.
                if !log_is_strict && at > log.durable() {
                    durable.set(durable.get().max(at.0));
                }
                Position::durable(at)
            }
            None | Some(QueueSync::Every(_) | QueueSync::Never | QueueSync::Memory) => {
                if log_is_strict {
                    written.set(written.get().max(at.0));
                }
                Position::written(at)
            }
        }
    }

    /// Must be called after an entry was appended. Requests a sync if the queue's policy `asked`
    /// requires an earlier sync than the log's setting.
    fn want_sync(&self, now_ms: u64, asked: Option<QueueSync>) {
        let Some(QueueSync::Every(millis)) = asked else { return };
        let is_later = match self.log.as_ref().map(|log| log.sync()) {
            None | Some(Sync::Always) => false,
            Some(Sync::Never) => true,
            Some(Sync::Every(period)) => period.as_millis() > u128::from(millis),
        };
        if is_later {
            let by_ms = now_ms.saturating_add(millis);
            let sooner = self.asks.sync_by_ms.get().is_none_or(|at_ms| by_ms < at_ms);
            self.asks.sync_by_ms.set(if sooner { Some(by_ms) } else { self.asks.sync_by_ms.get() });
        }
    }

    /// Writes the facts for which the log had no room before. Does nothing if the log still has no
    /// room.
    pub(crate) fn write_owed(&mut self, engine: &Engine) {
        let UnwrittenFacts { queues, policies, status } = &self.unwritten_facts;
        let owes = *policies || *status || !queues.is_empty();
        if !owes || !self.log.as_ref().is_some_and(|log| log.admits_update()) {
            return;
        }
        let UnwrittenFacts { queues, policies, status } = take(&mut self.unwritten_facts);
        for queue in queues {
            // The queue may have been removed, and another queue may have its number now.
            if engine.has_queue(queue) && engine.queue_facts(queue).kept {
                self.write(Record::QueueFacts(queue), engine);
            }
        }
        if policies {
            self.write(Record::Policies, engine);
        }
        if status {
            self.write(Record::Status, engine);
        }
    }

    pub(crate) fn write(&mut self, record: Record, engine: &Engine) {
        let Some(log) = &self.log else { return };
        // Entries with counters do not wake the committer, because no reply waits for them. A take
        // changes counters, and a finish often follows soon. The finish would have to wait for the
        // sync of the counters.
        self.appended |= !matches!(record, Record::Count(..) | Record::QueueGone(_));
        match record {
            Record::Put(slot, id) if !is_live(engine, slot, id) => self.unwritten += 1,
            // The job ended later in the same request, so its earlier changes need no entry.
            Record::Update(slot, id) | Record::Moved(slot, id) | Record::Count(slot, id)
                if !is_live(engine, slot, id) => {}
            Record::Rerouted { slot, id, from, sync, .. } if !is_live(engine, slot, id) => {
                self.left.push((slot, from, sync));
            }
            Record::Put(slot, _) => self.write_put(slot, engine),
            Record::PutMany(slots) => self.write_many(&slots, engine),
            Record::Moved(slot, _) | Record::Rerouted { slot, is_requested: false, .. }
                if !log.admits_update() =>
            {
                self.write_count(slot, engine);
            }
            Record::Update(slot, _) | Record::Moved(slot, _) => self.write_update(slot, engine),
            Record::Rerouted { slot, from, sync, .. } => {
                self.write_update(slot, engine);
                // Denials about the job's old queue wait for this entry. The policy of the old
                // queue (`sync`) says whether they also wait for a sync.
                if let Some(location) = self.locations.get(slot) {
                    self.want_sync(engine.now().0, sync);
                    self.note(from, self.rests_on(location.after, sync));
                }
            }
            Record::Count(slot, _) => self.write_count(slot, engine),
            Record::Finish(slot, queue, asked) => self.write_finish(slot, queue, asked, engine),
            // Policies and the status are already in force. They are written when the log has room.
            Record::Policies if !log.admits_update() => self.unwritten_facts.policies = true,
            Record::Status if !log.admits_update() => self.unwritten_facts.status = true,
            // The queue was removed in the same request.
            Record::QueueFacts(queue) if !engine.has_queue(queue) => {}
            // A put or a registration can cause this record, because it can set the queue's `kept`.
            // Such a request must not fail only because the log has no room for the fact. So the
            // fact is written later. A request that sets limits does not come here, because it is
            // refused if the log has no room.
            Record::QueueFacts(queue) if !log.admits_update() => {
                self.unwritten_facts.queues.insert(queue);
            }
            Record::QueueFacts(queue) => {
                let (key, value) =
                    meta::queue_fact(engine.queue_name(queue), engine.queue_facts(queue));
                let after = log.fact(engine.now().0, &key, &value);
                self.note_queue(queue, after, engine);
            }
            Record::QueueDropped(queue, name) => {
                let (key, nothing) = meta::queue_fact(&name, QueueFacts::default());
                let after = log.fact(engine.now().0, &key, &nothing);
                self.note(queue, self.rests_on(after, None));
            }
            Record::QueueGone(queue) => {
                self.gone = self.after_queue(queue);
                log.forget_queue(queue.0);
            }
            Record::Policies => {
                self.write_fact(meta::POLICIES_KEY, &engine.policies().encode(), engine);
            }
            Record::Status => self.write_fact(meta::STATUS_KEY, &[engine.status() as u8], engine),
        }
    }

    fn write_put(&mut self, slot: JobSlot, engine: &Engine) {
        let Some(log) = &self.log else { return };
        let facts = engine.facts(slot);
        let (number, queue) = queue_ref(engine, slot);
        let options = OptionalFields::of(&facts, engine.tags(slot));
        let meta = options.meta(&facts);
        let put = if self.imports { Log::import } else { Log::put };
        let body = resident_body(engine, slot);
        let (log_slot, after) = put(log, engine.now().0, queue, &meta, &body);
        // The log writes an imported job as a copy. The entry of a copy has a target: the slot that
        // it replaces. An imported job replaces nothing, so its target is empty.
        let target_bytes = if self.imports { log::TARGET_BYTES } else { 0 };
        let bytes = log::put_bytes(1, meta.options.len(), body.len()) + target_bytes;
        let entry_at = entry_start(after, bytes);
        self.locations.set(slot, Location::new(log_slot, entry_at, after, false));
        self.note_queue(number, after, engine);
    }

    fn write_update(&mut self, slot: JobSlot, engine: &Engine) {
        let Some(log) = &self.log else { return };
        let facts = engine.facts(slot);
        let (number, queue) = queue_ref(engine, slot);
        let options = OptionalFields::of(&facts, engine.tags(slot));
        let location = self.locations.get_mut(slot).expect("a logged job has its location");
        location.after =
            log.update(engine.now().0, location.log_slot, queue, &options.meta(&facts));
        let after = location.after;
        self.note_queue(number, after, engine);
    }

    fn write_count(&self, slot: JobSlot, engine: &Engine) {
        let Some(log) = &self.log else { return };
        let location = self.locations.get(slot).expect("a logged job has its location");
        let counters = meta::counters_bytes(&engine.facts(slot).counters);
        log.count(engine.now().0, location.log_slot, &counters);
    }

    fn write_finish(
        &mut self,
        slot: JobSlot,
        queue: QueueId,
        asked: Option<QueueSync>,
        engine: &Engine,
    ) {
        let Some(log) = &self.log else { return };
        let Some(location) = self.locations.remove(slot) else {
            assert!(self.unwritten > 0, "a logged job has its location");
            self.unwritten -= 1;
            self.left.retain(|(left, ..)| *left != slot);
            return;
        };
        let end = log.finish(engine.now().0, location.log_slot);
        self.want_sync(engine.now().0, asked);
        let after = self.rests_on(end, asked);
        self.ended = self.ended.max(after);
        self.note(queue, after);
        self.note_left(slot, end, engine);
    }

    /// Stores the position `end` for each queue that the ended job left in this request. In the
    /// log, only the entry of the job's end removes the job from these queues. So denials about
    /// these queues wait for this entry.
    fn note_left(&mut self, slot: JobSlot, end: log::Position, engine: &Engine) {
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
        let Some(log) = &self.log else { return true };
        if !log.admits_update() {
            return false;
        }
        log.fact(engine.now().0, meta::CLOCK_KEY, &offset_ms.to_le_bytes());
        self.appended = true;
        true
    }

    fn write_fact(&mut self, key: &[u8], value: &[u8], engine: &Engine) {
        let Some(log) = &self.log else { return };
        self.facts = self.rests_on(log.fact(engine.now().0, key, value), None);
        self.last = self.last.max(self.facts);
    }

    /// Writes one entry for jobs that share a body.
    fn write_many(&mut self, put: &[(JobSlot, JobId)], engine: &Engine) {
        let Some(log) = self.log.clone() else { return };
        let live = put.iter().filter(|(slot, id)| is_live(engine, *slot, *id));
        let slots: Vec<JobSlot> = live.map(|(slot, _)| *slot).collect();
        self.unwritten += put.len() - slots.len();
        let mut log_slots = Vec::with_capacity(slots.len());
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
            let options_bytes = jobs.iter().map(|(_, meta)| meta.options.len()).sum();
            let bytes = log::put_bytes(jobs.len(), options_bytes, body.len());
            log_slots.clear();
            let after = log.put_many(engine.now().0, &jobs, &body, &mut log_slots);
            let entry_at = entry_start(after, bytes);
            for (&slot, &log_slot) in slots.iter().zip(&log_slots) {
                self.locations.set(slot, Location::new(log_slot, entry_at, after, false));
                self.note_queue(engine.queue_of(slot), after, engine);
            }
        }
    }

    /// Panics if the number of locations cannot be the number of logged jobs. Also panics if
    /// `unwritten` is not 0 or `left` is not empty. This costs almost nothing, so it is called at
    /// the end of each turn.
    pub(crate) fn check_counts(&self, engine: &Engine) {
        if self.log.is_none() {
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
        if self.log.is_none() {
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
        for slot in self.locations.slots() {
            assert_eq!(is_stored(&slot), !engine.is_resident(slot), "where the body of a job is");
        }
    }

    /// Stores that the last entry about an existing queue ends at `after`.
    fn note_queue(&mut self, queue: QueueId, after: log::Position, engine: &Engine) {
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

/// The offset where an entry of this many bytes begins.
fn entry_start(end: log::Position, bytes: u64) -> u32 {
    (end.offset() - bytes) as u32
}

/// The queue of a job: its number, and its reference for the log.
pub(crate) fn queue_ref(engine: &Engine, slot: JobSlot) -> (QueueId, QueueRef<'_>) {
    let queue = engine.queue_of(slot);
    (queue, QueueRef { number: queue.0, name: engine.queue_name(queue) })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::policy::{QueueSync, Rule, Rules, Setting};
    use engine::{Millis, NewJob, State};

    use crate::{Broker, Options};

    const NOW: Millis = Millis(1_000_000);

    #[test]
    fn only_what_is_not_durable_yet_is_asked_of_the_log() {
        let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
        let log = log::Settings { sync: log::Sync::Never, ..log::Settings::default() };
        let options = Options::without_threads(disk, log);
        let broker = Broker::open(options, NOW).expect("the disk is empty").0;
        let mut turn = broker.turn(NOW);
        let strict = Setting::Sync(Some(QueueSync::Always));
        let _ = turn.set_policies(Rules(vec![Rule::new(["q"], [strict])]));
        let session = turn.open_session(0);
        turn.caller(session).use_queue(b"q");
        turn.caller(session).put(NewJob::default(), b"x"[..].into()).value.expect("there is room");
        let asked = |turn: &crate::Turn<'_>| turn.core.ledger.asks.durable.get();
        assert!(asked(&turn) > 0, "the put must become durable");
        drop(turn);
        broker.commit_step(NOW).expect("the disk works");
        let mut turn = broker.turn(NOW);
        let peeked = turn.caller(session).peek_used(State::Ready);
        assert!(peeked.after.is_reached(broker.released()) && asked(&turn) == 0, "it is");
    }
}
