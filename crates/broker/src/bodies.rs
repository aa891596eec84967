//! Which bodies are in memory, and which are only in the log.
//!
//! All bodies begin in memory. Above a limit, bodies leave the memory when the log has written
//! them: first those of new jobs that will not be taken soon, then those that came into memory
//! longest ago. A body that a client needs is loaded again (`loads`), and the bodies of the jobs
//! behind it are loaded ahead.
//!
//! **Invariant: the file has the entry of a stored body.** If reclaim copies the entry, the body
//! comes into memory until the copy is written.

pub(crate) mod loads;

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use engine::{
    Engine, JobBody, JobId, JobSlot, Loading, QueueId, Record, SessionId, State, allocated_bytes,
};
use log::{Log, SegmentHold};

use crate::bodies::loads::Load;
use crate::core::Core;

/// A new job is not taken soon if its queue has more ready jobs than this.
const READY_SOON: u32 = 1024;
/// The work of one turn: the number of new jobs that it looks at. A page of locations counts as
/// [`PAGE_STEPS`] of them.
const STEPS_MAX: usize = 1024;
const PAGE_STEPS: usize = 256;
/// The limits of one piece that is loaded ahead: bytes of bodies, jobs, and jobs to look at.
const AHEAD_BYTES: u64 = 512 * 1024;
const AHEAD_JOBS: usize = 4096;
const AHEAD_LOOKS: usize = 8192;

/// The bodies of all jobs in the log.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    /// The limit of memory for bodies that the log has, too. `None`: no limit.
    bytes_max: Option<u64>,
    /// Jobs put while the limit was reached, in the order of their entries.
    fresh: VecDeque<Fresh>,
    /// Bytes of the bodies of `fresh`.
    fresh_bytes: u64,
    /// The page of locations where the sweep continues.
    page: usize,
    /// For each queue that is loaded ahead: the job whose hand-out starts the next piece.
    ahead: BTreeMap<QueueId, JobId>,
}

/// A job that was put while the limit was reached.
#[derive(Debug)]
struct Fresh {
    slot: JobSlot,
    id: JobId,
    body_bytes: u64,
}

/// A stored body of a job that will be taken soon.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) slot: JobSlot,
    pub(crate) id: JobId,
    pub(crate) segment: u32,
    pub(crate) entry_at: u32,
}

impl Bodies {
    /// Sets the limit of memory in bytes.
    pub(crate) fn set_limit(&mut self, bytes_max: Option<u64>) {
        self.bytes_max = bytes_max;
    }

    /// Notes a job whose body may leave the memory as soon as its new entry is written.
    pub(crate) fn note_fresh(&mut self, slot: JobSlot, id: JobId, bytes: usize) {
        let body_bytes = bytes as u64;
        self.fresh.push_back(Fresh { slot, id, body_bytes });
        self.fresh_bytes += body_bytes;
    }

    fn is_full(&self, engine: &Engine) -> bool {
        self.bytes_max.is_some_and(|max| engine.resident_bytes() > max)
    }
}

impl Core {
    /// Whether a job from the log should keep its body in the log only.
    pub(crate) fn restores_stored(&self) -> bool {
        self.bodies.is_full(&self.engine)
    }

    /// Notes the jobs of a request that may leave the memory as soon as they are written.
    pub(crate) fn note_fresh(&mut self, record: &Record) {
        if !self.bodies.is_full(&self.engine) {
            return;
        }
        match record {
            Record::Put(slot, id) => self.note_fresh_job(*slot, *id),
            Record::PutMany(jobs) => {
                for (slot, id) in jobs {
                    self.note_fresh_job(*slot, *id);
                }
            }
            Record::Update(..)
            | Record::Moved(..)
            | Record::Rerouted(..)
            | Record::Count(..)
            | Record::QueueFacts(..)
            | Record::QueueDropped(..)
            | Record::Finish(..)
            | Record::QueueGone(..)
            | Record::Policies
            | Record::Status => {}
        }
    }

    fn note_fresh_job(&mut self, slot: JobSlot, id: JobId) {
        if self.engine.id_at(slot) == Some(id) {
            let bytes = self.engine.body(slot).len();
            self.bodies.note_fresh(slot, id, bytes);
        }
    }

    /// Takes bodies out of memory until the limit holds, up to the work of one turn.
    pub(crate) fn evict_bodies(&mut self) {
        let Some(max) = self.bodies.bytes_max else { return };
        if self.engine.resident_bytes() <= max && self.bodies.fresh.is_empty() {
            return;
        }
        let Some(log) = &self.ledger.log else { return };
        let written = log.written();
        let mut steps = STEPS_MAX;
        while steps > 0
            && let Some(&Fresh { slot, id, body_bytes }) = self.bodies.fresh.front()
        {
            let is_same = self.engine.id_at(slot) == Some(id);
            let location = self.ledger.locations.get(slot).filter(|_| is_same);
            if location.is_some_and(|location| !location.is_written(written)) {
                break;
            }
            self.bodies.fresh.pop_front();
            self.bodies.fresh_bytes -= body_bytes;
            steps -= 1;
            let is_full = self.bodies.is_full(&self.engine);
            if location.is_some() && is_full && !self.is_taken_soon(slot) {
                self.store_body(slot);
            }
        }
        // The fresh bodies leave as soon as they are written. Until then, others may stay.
        let pages = self.ledger.locations.pages();
        for _ in 0..pages {
            if steps == 0 || self.engine.resident_bytes() <= max + self.bodies.fresh_bytes {
                break;
            }
            let page = self.bodies.page % pages;
            self.bodies.page = page + 1;
            let is_stored = self.ledger.locations.is_stored_page(page);
            steps = steps.saturating_sub(if is_stored { 1 } else { PAGE_STEPS });
            for slot in self.ledger.locations.sweep(page, written) {
                self.store_body(slot);
            }
        }
    }

    fn is_taken_soon(&self, slot: JobSlot) -> bool {
        match self.engine.state_of(slot) {
            State::Ready => self.engine.ready_count(self.engine.queue_of(slot)) <= READY_SOON,
            State::Leased => true,
            State::Delayed | State::Buried => false,
        }
    }

    fn store_body(&mut self, slot: JobSlot) {
        if self.engine.store_body(slot) {
            self.ledger.locations.set_stored(slot, true);
        }
    }

    /// Begins to load the body of a job for a session, if it is only in the log. `queue` is the
    /// job's queue, which is then loaded ahead. Must be called before the end of the job is
    /// logged.
    pub(crate) fn fetch(
        &self,
        (slot, id): (JobSlot, JobId),
        queue: Option<QueueId>,
        session: SessionId,
        body: &mut JobBody,
    ) {
        let JobBody::Stored(len) = *body else { return };
        let loading = Arc::new(Loading::new(len));
        let location = self.ledger.locations.get(slot).expect("the log has a stored body");
        let log = self.ledger.log.as_ref().expect("there is a log");
        let segment = location.log_slot.segment;
        self.loads.add(Load {
            loading: loading.clone(),
            segment,
            entry_at: location.entry_at,
            _hold: log.hold(segment),
            queue,
            session: self.engine.mailbox(session).map(|mailbox| (mailbox, session)),
            id,
        });
        *body = JobBody::Loading(loading);
    }

    /// Notes that a job was handed out. If it is the one that the reading ahead waits for, the next
    /// piece of the queue is loaded.
    pub(crate) fn note_handout(&mut self, queue: QueueId, id: JobId) {
        if !self.bodies.ahead.is_empty() && self.bodies.ahead.get(&queue) == Some(&id) {
            self.bodies.ahead.remove(&queue);
            self.loads.add_queue(queue);
        }
    }

    /// The next stored bodies of a queue, in the order in which its jobs are taken, and holds of
    /// their segments.
    pub(crate) fn next_stored(&self, queue: QueueId, log: &Log) -> (Vec<Ahead>, Vec<SegmentHold>) {
        let (mut found, mut holds) = (Vec::new(), BTreeMap::new());
        // What is loaded must fit, or the sweep would take it away at once.
        let half = self.bodies.bytes_max.map_or(u64::MAX, |max| max / 2);
        let (mut bytes, bytes_max) = (0, half.min(AHEAD_BYTES));
        for slot in self.engine.ready_jobs(queue).take(AHEAD_LOOKS) {
            let Some(location) = self.ledger.locations.get(slot) else { continue };
            if !location.is_stored() {
                continue;
            }
            let segment = location.log_slot.segment;
            if let Entry::Vacant(held) = holds.entry(segment) {
                let Some(hold) = log.hold(segment) else { continue };
                held.insert(hold);
            }
            let (id, entry_at) = (self.engine.id_of(slot), location.entry_at);
            found.push(Ahead { slot, id, segment, entry_at });
            bytes += allocated_bytes(self.engine.body(slot).len() + size_of::<usize>());
            if found.len() >= AHEAD_JOBS || bytes >= bytes_max {
                break;
            }
        }
        (found, holds.into_values().collect())
    }

    /// Notes at which job the next piece of a queue is loaded.
    pub(crate) fn set_ahead(&mut self, queue: QueueId, job: JobId) {
        self.bodies.ahead.insert(queue, job);
    }

    /// Takes over a body that was loaded ahead, unless its job ended or moved meanwhile.
    pub(crate) fn take_loaded(&mut self, ahead: &Ahead, body: engine::Body) {
        if self.engine.id_at(ahead.slot) != Some(ahead.id) {
            return;
        }
        let is_there = self.ledger.locations.get(ahead.slot).is_some_and(|location| {
            location.is_stored()
                && (location.log_slot.segment, location.entry_at) == (ahead.segment, ahead.entry_at)
        });
        if is_there && self.engine.body(ahead.slot).len() == body.len() {
            self.engine.load_body(ahead.slot, body);
            self.ledger.locations.set_stored(ahead.slot, false);
        }
    }

    /// Sets a job aside whose body cannot be read, if this session holds it. Otherwise it would be
    /// handed out again and again.
    pub(crate) fn bury_unreadable(&mut self, session: SessionId, id: JobId) {
        let Ok(slot) = self.engine.slot(id) else { return };
        let priority = self.engine.facts(slot).priority;
        if self.engine.bury(session, id, priority, &mut self.effects).is_ok() {
            self.apply_effects();
        }
    }
}
