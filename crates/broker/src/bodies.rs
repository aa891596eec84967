//! Which bodies are in memory, and which are only in the log.
//!
//! The body of a new job is in memory. When all bodies together exceed a limit, some of them leave
//! the memory: the broker drops a body if the log's file has it, too. First it drops bodies of new
//! jobs that no client will take soon, then the bodies that came into memory longest ago. If a
//! client needs a stored body, the loader (`loads`) reads it. The loader also reads the bodies of
//! the next jobs of the queue: it *loads* the queue *ahead*.
//!
//! **Invariant: the file has the entry of a stored body.** Reclaim copies entries to the end of the
//! log. If it copies the entry of a stored body, the body is in memory again until the copy is
//! written.

pub(crate) mod loads;

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use engine::policy::{Rules, parent_name};
use engine::{
    Engine, JobBody, JobId, JobSlot, Loading, QueueId, Record, SessionId, State, allocated_bytes,
};
use log::{Log, SegmentHold};

use crate::Broker;
use crate::bodies::loads::{Load, TURN_JOBS};
use crate::core::Core;

/// If a queue has more ready jobs than this, its new jobs are not taken soon.
const READY_SOON: u32 = 1024;
/// The limit of work for one call of `evict_bodies`, in steps. A new job is one step. A page of
/// locations is [`PAGE_STEPS`] steps, or one step if all its bodies are already stored.
const STEPS_MAX: usize = 1024;
const PAGE_STEPS: usize = 256;
/// A queue is loaded ahead in pieces. These are the limits of one piece: bytes of its bodies, its
/// jobs, and jobs to examine.
const AHEAD_BYTES_MIN: u64 = 32 * 1024;
const AHEAD_BYTES_MAX: u64 = 512 * 1024;
const AHEAD_JOBS: usize = 4096;
const AHEAD_LOOKS: usize = 8192;
/// The limit of bytes of bodies that come with the blocks of one load.
const BLOCKS_BYTES_MAX: u64 = 1024 * 1024;

/// Decides which bodies of jobs in the log are also in memory.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    /// The limit of bytes of bodies that are both in memory and in the log. `None`: no limit.
    bytes_max: Option<u64>,
    /// Jobs with new entries in the log, in the order of these entries: jobs that were put above
    /// the limit, and jobs that reclaim copied. Their bodies leave the memory first.
    fresh: VecDeque<Fresh>,
    /// Bytes of the bodies of `fresh`.
    fresh_bytes: u64,
    /// The page of locations where the search for old bodies (the *sweep*) continues.
    page: usize,
    /// The number of pages that must be swept because a limit has changed.
    pages_left: usize,
    /// The limits of queues during a start.
    at_start: StartLimits,
    /// The queues that are loaded ahead.
    ahead: BTreeMap<QueueId, Window>,
}

/// The limits of queues during a start. The engine gets the policies only after the jobs.
#[derive(Debug, Default)]
struct StartLimits {
    /// The policies, if any of them limits the memory of a queue.
    rules: Option<Rules>,
    /// For each queue: its limit, and the bytes of its bodies in memory. `None`: it has no limit.
    queues: HashMap<Box<[u8]>, Option<(u64, u64)>>,
}

/// A job with a new entry in the log: see [`Bodies::fresh`].
#[derive(Debug)]
struct Fresh {
    slot: JobSlot,
    id: JobId,
    body_bytes: u64,
}

/// A stored body of a job, and its place in the log.
#[derive(Copy, Clone, Debug)]
pub(crate) struct StoredBody {
    pub(crate) slot: JobSlot,
    pub(crate) id: JobId,
    pub(crate) segment: u32,
    pub(crate) entry_at: u32,
}

/// The next piece of a queue, while the loader looks for its stored bodies.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// The stored bodies, in the order in which their jobs will be taken.
    pub(crate) found: Vec<StoredBody>,
    /// These keep the files of the segments of these bodies.
    holds: BTreeMap<u32, SegmentHold>,
    /// All jobs that the loader has looked at.
    ids: Vec<JobId>,
    /// The bytes of the bodies of these jobs, and their limit.
    bytes: u64,
    bytes_max: u64,
    /// The place of the next job to look at.
    next: (u64, u64),
}

impl Ahead {
    fn is_full(&self) -> bool {
        self.found.len() >= AHEAD_JOBS
            || self.ids.len() >= AHEAD_LOOKS
            || self.bytes >= self.bytes_max
    }
}

/// How a queue is loaded ahead.
#[derive(Debug)]
struct Window {
    /// When this job is handed out, the loader loads the next piece.
    next: Option<JobId>,
    /// The size of the last piece in bytes. Each piece is twice as large as the piece before it. So
    /// a client that takes only a few jobs causes only small reads.
    bytes: u64,
}

impl Bodies {
    /// Sets the limit of memory in bytes. Returns whether it is another one than before.
    pub(crate) fn set_limit(&mut self, bytes_max: Option<u64>) -> bool {
        std::mem::replace(&mut self.bytes_max, bytes_max) != bytes_max
    }

    /// Sets the policies for the start. `None`: the start has ended.
    pub(crate) fn set_start_rules(&mut self, rules: Option<Rules>) {
        let rules = rules.filter(Rules::limit_memory);
        self.at_start = StartLimits { rules, queues: HashMap::new() };
    }

    /// Adds a job to `fresh`. Its body can leave the memory as soon as its new entry is written.
    pub(crate) fn note_fresh(&mut self, slot: JobSlot, id: JobId, bytes: usize) {
        let body_bytes = bytes as u64;
        self.fresh.push_back(Fresh { slot, id, body_bytes });
        self.fresh_bytes += body_bytes;
    }

    fn is_full(&self, engine: &Engine) -> bool {
        self.bytes_max.is_some_and(|max| engine.resident_bytes() > max)
    }
}

impl StartLimits {
    /// Counts a body of a queue. Returns whether it should not be in memory.
    fn is_exceeded_by(&mut self, name: &[u8], state: State, bytes: u64) -> bool {
        let Some(rules) = &self.rules else { return false };
        if !self.queues.contains_key(name) {
            let max = rules.resolve(name, parent_name(name)).memory_max;
            self.queues.insert(name.into(), max.map(|max| (max, 0)));
        }
        let Some(Some((max, used))) = self.queues.get_mut(name) else { return false };
        let is_exceeded = state != State::Ready || *used + bytes > *max;
        *used += if is_exceeded { 0 } else { bytes };
        is_exceeded
    }
}

/// # Loads
impl Broker {
    /// Sets the limit of bodies that are being loaded for sessions, and of loaded bodies that
    /// clients have not read yet: see [`Broker::report_unread_bodies`]. At the limit, sessions that
    /// need other bodies wait. One body can exceed the limit. At first, there is no limit.
    pub fn set_loads_limit(&self, bytes_max: u64) {
        self.shared.loads.set_limit(bytes_max);
    }

    /// Tells how many bytes of loaded bodies the clients of a mailbox have not read yet. The owner
    /// of the mailbox counts [`Outbox::loaded_len`](crate::Outbox::loaded_len), without slow
    /// readers, which must not hold up others. From the first report on, it must report each
    /// change, and report after each call of [`Mailbox::loaded`](crate::Mailbox::loaded).
    pub fn report_unread_bodies(&self, mailbox: usize, bytes: u64) {
        self.shared.loads.report_unread(mailbox as u32, bytes);
    }

    /// Whether sessions wait for more bodies than may be loaded now: see
    /// [`Broker::set_loads_limit`].
    pub fn has_many_loads(&self) -> bool {
        self.shared.loads.are_many()
    }
}

impl Core {
    /// Whether a job that recovery restores should have its body only in the log.
    pub(crate) fn restores_stored(&mut self, queue: &[u8], state: State, bytes: usize) -> bool {
        self.bodies.is_full(&self.engine)
            || self.bodies.at_start.is_exceeded_by(queue, state, bytes as u64)
    }

    /// Adds jobs of a record to `Bodies::fresh`. If the limit of memory is reached, these are the
    /// jobs that a request has put. Jobs whose queue has exceeded its own limit are added also if
    /// they have changed in another way.
    pub(crate) fn note_fresh(&mut self, record: &Record) {
        let is_full = self.bodies.is_full(&self.engine);
        let limits_queues = self.limits_queues();
        if !is_full && !limits_queues {
            return;
        }
        match record {
            Record::Put(slot, id) | Record::Replaced(slot, id) => {
                self.note_fresh_job(*slot, *id, is_full);
            }
            Record::PutMany(jobs) => {
                for (slot, id) in jobs {
                    self.note_fresh_job(*slot, *id, is_full);
                }
            }
            Record::Update(slot, id)
            | Record::Moved(slot, id)
            | Record::Taken(slot, id)
            | Record::Rerouted { slot, id, .. }
            | Record::Count(slot, id) => self.note_fresh_job(*slot, *id, false),
            Record::Policies => self.trim_bodies(),
            Record::QueueFacts(..)
            | Record::QueueDropped(..)
            | Record::Finish { .. }
            | Record::QueueGone(..)
            | Record::Known(..)
            | Record::KnownEnded
            | Record::Claim(_)
            | Record::Crons
            | Record::CronState(_)
            | Record::Note(_)
            | Record::Status => {}
        }
    }

    /// Adds a job to `Bodies::fresh` if its queue has exceeded its own limit, or if `is_full`.
    fn note_fresh_job(&mut self, slot: JobSlot, id: JobId, is_full: bool) {
        if self.engine.id_at(slot) == Some(id)
            && self.engine.is_resident(slot)
            && (is_full || self.engine.exceeds_memory(slot))
        {
            let bytes = self.engine.body_len(slot);
            self.bodies.note_fresh(slot, id, bytes);
        }
    }

    /// Whether a queue has its own limit of memory. Without a log, all bodies must stay in memory.
    fn limits_queues(&self) -> bool {
        self.engine.limits_memory() && self.ledger.log().is_some()
    }

    /// Sweeps all pages soon, because a limit has changed.
    pub(crate) fn trim_bodies(&mut self) {
        // The first sweep of a page spares its recent bodies.
        self.bodies.pages_left = 2 * self.ledger.locations.pages();
        self.loads.wish_trim();
    }

    /// Whether pages must be swept because a limit has changed.
    pub(crate) fn is_trimming(&self) -> bool {
        self.bodies.pages_left > 0
    }

    /// Removes bodies from memory until they are within the limit, in at most `STEPS_MAX` steps.
    pub(crate) fn evict_bodies(&mut self) {
        let is_full = self.bodies.is_full(&self.engine);
        if !is_full && self.bodies.fresh.is_empty() && self.bodies.pages_left == 0 {
            return;
        }
        let Some(log) = self.ledger.log() else { return };
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
            let is_there = location.is_some();
            if is_there
                && (is_full && !self.is_taken_soon(slot) || self.engine.exceeds_memory(slot))
            {
                self.store_body(slot);
            }
        }
        // The fresh bodies will leave as soon as they are written. So other bodies with this number
        // of bytes in all can stay.
        let max = self.bodies.bytes_max.map_or(u64::MAX, |max| max + self.bodies.fresh_bytes);
        let pages = self.ledger.locations.pages();
        for _ in 0..pages {
            let is_full = self.engine.resident_bytes() > max;
            if steps == 0 || !is_full && self.bodies.pages_left == 0 {
                break;
            }
            self.bodies.pages_left = self.bodies.pages_left.saturating_sub(1);
            let page = self.bodies.page % pages;
            self.bodies.page = page + 1;
            let is_stored = self.ledger.locations.is_stored_page(page);
            steps = steps.saturating_sub(if is_stored { 1 } else { PAGE_STEPS });
            for slot in self.ledger.locations.sweep(page, written) {
                if is_full || self.engine.exceeds_memory(slot) {
                    self.store_body(slot);
                }
            }
        }
    }

    fn is_taken_soon(&self, slot: JobSlot) -> bool {
        match self.engine.state_of(slot) {
            State::Ready => self.engine.count(self.engine.list_of(slot)) <= READY_SOON,
            State::Leased => true,
            State::Delayed | State::Buried => false,
        }
    }

    fn store_body(&mut self, slot: JobSlot) {
        if self.engine.store_body(slot) {
            self.ledger.locations.set_stored(slot, true);
        }
    }

    /// If the body of a job is only in the log, begins to load it for a session. `queue` is the
    /// queue to load ahead afterwards. Must be called before the log gets the entry for the job's
    /// end, because the ledger removes the location of an ended job.
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
        let log = self.ledger.log().expect("there is a log");
        let segment = location.log_slot.segment;
        self.loads.add(Load {
            loading: loading.clone(),
            stored: StoredBody { slot, id, segment, entry_at: location.entry_at },
            _hold: log.hold(segment),
            queue,
            session: self.engine.mailbox(session).map(|mailbox| (mailbox, session)),
        });
        *body = JobBody::Loading(loading);
    }

    /// Must be called when a job was handed out. If `Bodies::ahead` has this job, the loader loads
    /// the next piece of the queue.
    pub(crate) fn note_handout(&mut self, queue: QueueId, id: JobId) {
        if let Some(window) = self.bodies.ahead.get_mut(&queue)
            && window.next == Some(id)
        {
            window.next = None;
            self.loads.add_queue(queue);
        }
    }

    /// Begins the next piece of a queue.
    pub(crate) fn begin_ahead(&mut self, queue: QueueId) -> Ahead {
        let first = Window { next: None, bytes: AHEAD_BYTES_MIN / 2 };
        let window = self.bodies.ahead.entry(queue).or_insert(first);
        window.bytes = (window.bytes * 2).min(AHEAD_BYTES_MAX);
        let window_bytes = window.bytes;
        Ahead { bytes_max: self.bytes_ahead(queue).min(window_bytes), ..Ahead::default() }
    }

    /// Looks for stored bodies of a piece, at [`TURN_JOBS`] jobs. Returns whether the piece goes on
    /// behind them: then the next turn calls this again.
    pub(crate) fn look_ahead(&mut self, queue: QueueId, piece: &mut Ahead, log: &Log) -> bool {
        let looked = piece.ids.len();
        // Jobs that follow each other are mostly in one segment.
        let mut held = None;
        let jobs = self.engine.ready_jobs_from(queue, piece.next).take(TURN_JOBS);
        for ((priority, order), slot) in jobs {
            let id = self.engine.id_of(slot);
            piece.ids.push(id);
            piece.next = (priority, order.saturating_add(1));
            // Bodies that are in memory already count, too.
            piece.bytes += allocated_bytes(self.engine.body_len(slot) + size_of::<usize>());
            if let Some(location) = self.ledger.locations.get(slot)
                && location.is_stored()
            {
                let segment = location.log_slot.segment;
                if held != Some(segment) {
                    if let Entry::Vacant(place) = piece.holds.entry(segment) {
                        let Some(hold) = log.hold(segment) else { continue };
                        place.insert(hold);
                    }
                    held = Some(segment);
                }
                piece.found.push(StoredBody { slot, id, segment, entry_at: location.entry_at });
            }
            if piece.is_full() {
                break;
            }
        }
        let goes_on = piece.ids.len() == looked + TURN_JOBS && !piece.is_full();
        if !goes_on {
            self.end_ahead(queue, piece);
        }
        goes_on
    }

    /// Decides when the piece behind this one is loaded.
    fn end_ahead(&mut self, queue: QueueId, piece: &Ahead) {
        // If all bodies are there, the next stored body that a client takes begins a new window.
        if piece.found.is_empty() {
            self.bodies.ahead.remove(&queue);
            return;
        }
        // A consumer that takes the middle job of this piece needs the next piece soon.
        let middle = piece.ids.get(piece.ids.len() / 2).copied();
        let is_ready = |id: &JobId| {
            self.engine.slot(*id).is_ok_and(|slot| self.engine.state_of(slot) == State::Ready)
        };
        let next = middle.filter(is_ready);
        if let Some(window) = self.bodies.ahead.get_mut(&queue) {
            window.next = next;
        }
        if next.is_none() {
            // It was taken between two turns of this look.
            self.loads.add_queue(queue);
        }
    }

    /// The limit of bytes of bodies to load ahead for a queue at a time. Bodies beyond a limit of
    /// memory would leave the memory again at once. So this is at most half of each limit.
    pub(crate) fn bytes_ahead(&self, queue: QueueId) -> u64 {
        let limits = [self.bodies.bytes_max, self.engine.memory_max(queue)];
        let halves = limits.into_iter().flatten().map(|max| max / 2);
        halves.fold(BLOCKS_BYTES_MAX, u64::min)
    }

    /// Keeps a loaded body in memory. Drops the body if its job has ended, or if the job's entry has
    /// moved.
    pub(crate) fn take_loaded(&mut self, stored: StoredBody, body: engine::Body) {
        let StoredBody { slot, id, segment, entry_at } = stored;
        if self.engine.id_at(slot) != Some(id) {
            return;
        }
        let is_there = self.ledger.locations.get(slot).is_some_and(|location| {
            location.is_stored()
                && (location.log_slot.segment, location.entry_at) == (segment, entry_at)
        });
        if is_there && self.engine.body_len(slot) == body.len() {
            self.engine.load_body(slot, body);
            self.ledger.locations.set_stored(slot, false);
        }
    }

    /// Buries a job whose body cannot be read, if this session holds the job. If the job was not
    /// buried, the server would hand it out again and again.
    pub(crate) fn bury_unreadable(&mut self, session: SessionId, id: JobId) {
        let Ok(slot) = self.engine.slot(id) else { return };
        let priority = self.engine.facts(slot).priority;
        if self.engine.bury(session, id, priority, &mut self.effects).is_ok() {
            self.apply_effects();
        }
    }
}
