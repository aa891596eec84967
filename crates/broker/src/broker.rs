//! Opening and closing the broker, its lock, and its threads.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use engine::policy::Rules;
use engine::{EngineSetup, Millis, Status};
use log::{Begin, Committer, Disk, Failure, Log, OpenError, RecoveryReport, Restored, Settings};

use crate::admission::memory::{Memory, MemoryLimit};
use crate::admission::queue_limit::{QueueLimit, QueueUsage};
use crate::core::{Core, Mover};
use crate::ledger::locations::Location;
use crate::ledger::meta;
use crate::reclaimer::{Reclaimer, Step};
use crate::wall::Start;
use crate::{Mailbox, Position, Turn};

/// The log counts as full when it refuses a body of this length. Shorter bodies may still fit.
/// Longer bodies are rare: by default, the beanstalkd protocol refuses them.
const USUAL_BODY_BYTES_MAX: usize = 64 * 1024;

/// If fewer ids than this are left, the server reads nothing from clients, because one round of all
/// threads may need this many. The log raises its limit much earlier, so this happens only during a
/// very long sync.
const NUMBERS_MARGIN: u64 = 1 << 18;

/// A clock: milliseconds that never go back.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// Options of a durable broker.
#[derive(Clone)]
pub struct Options {
    /// The disk for the log.
    pub disk: Arc<dyn Disk>,
    /// The settings of the log.
    pub log: Settings,
    /// The setup of the engine.
    pub engine: EngineSetup,
    /// The clock of the threads that write, sync and reclaim, moved by [`Broker::clock_step_ms`].
    /// Without a clock there are no threads: the owner calls [`Broker::commit_step`],
    /// [`Broker::prepare_step`] and [`Broker::reclaim_step`] itself, as the simulator does.
    pub clock: Option<Clock>,
}

impl Options {
    /// Options without threads, with an engine for tests.
    pub fn without_threads(disk: Arc<dyn Disk>, log: Settings) -> Self {
        Self { disk, log, engine: EngineSetup::default(), clock: None }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("disk", &self.disk)
            .field("log", &self.log)
            .field("engine", &self.engine)
            .field("threads", &self.clock.is_some())
            .finish()
    }
}

/// Why a broker could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The log could not be opened.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// The log was opened, but has content that this version does not know.
    #[error(transparent)]
    Meta(#[from] meta::UnknownMeta),
    /// The log's content is contradictory.
    #[error(transparent)]
    Restore(#[from] engine::RestoreError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// The durable queue, shared by all its users. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Broker {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    core: Mutex<Core>,
    log: Option<Arc<Log>>,
    mailboxes: RwLock<Vec<Arc<dyn Mailbox>>>,
    draining: AtomicBool,
    pub(crate) memory: MemoryLimit,
    pub(crate) queue_limit: QueueLimit,
    /// The next id of the engine, after the last turn.
    next_number: AtomicU64,
    /// How far the first moment was ahead of the owner's clock.
    clock_step_ms: AtomicI64,
    /// How long the server was stopped before the start, by the wall clock.
    stopped_ms: i64,
    has_threads: AtomicBool,
    threads: Mutex<Threads>,
    /// Why the reclaim thread stopped, if it did.
    reclaim_error: Mutex<Option<Arc<log::ReclaimError>>>,
}

#[derive(Debug, Default)]
struct Threads {
    committer: Option<Committer>,
    reclaimer: Option<Reclaimer>,
    closed: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("log", &self.log).finish_non_exhaustive()
    }
}

/// Takes a lock whose data is never left half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Broker {
    /// A broker without a log: everything is in memory.
    pub fn memory(setup: EngineSetup, now: Millis) -> Self {
        Self::with(Core::new(setup, now), None, 0)
    }

    /// Opens the log, and restores every job in it. `wall` is the wall clock; 0 means unknown, and
    /// time continues where the log ends. The first moment is [`Broker::last_time`].
    pub fn open(options: Options, wall: Millis) -> Result<(Self, RecoveryReport), BrokerError> {
        let core = RefCell::new(Core::new(options.engine, Millis(0)));
        let mut stopped_ms = 0;
        let mut broken = None;
        let mut begin = |begin: Begin<'_>| {
            let last = Millis(begin.last_time_ms);
            let start = Start::new(wall, last, begin.fact(meta::CLOCK_KEY));
            let mut core = core.borrow_mut();
            core.engine.set_time(start.now);
            core.engine.set_wall_ahead(start.ahead_ms);
            core.logged_ahead_ms = start.logged_ms;
            stopped_ms = start.stopped_ms;
            start.now.0
        };
        let mut restore = |restored: Restored<'_>| {
            if broken.is_none() {
                broken = core.borrow_mut().restore(restored).err();
            }
        };
        let (log, report) = Log::open_at(options.disk, options.log, &mut begin, &mut restore)?;
        if let Some(error) = broken {
            return Err(error);
        }
        let mut core = core.into_inner();
        core.engine.raise_numbers(report.next_id)?;
        let log = Arc::new(log);
        core.ledger.log = Some(log.clone());
        core.log_wall_clock();
        let broker = Self::with(core, Some(log), stopped_ms);
        if let Some(clock) = options.clock {
            let step_ms = broker.last_time().ahead_of(clock());
            broker.shared.clock_step_ms.store(step_ms, Ordering::Relaxed);
            let clock = Arc::new(move || Millis(clock().0.saturating_add_signed(step_ms)));
            broker.start_threads(clock).map_err(BrokerError::Thread)?;
        }
        Ok((broker, report))
    }

    fn with(core: Core, log: Option<Arc<Log>>, stopped_ms: i64) -> Self {
        let inside_bytes = core.memory_bytes();
        let broker = Self {
            shared: Arc::new(Shared {
                core: Mutex::new(core),
                log,
                mailboxes: RwLock::default(),
                draining: AtomicBool::new(false),
                memory: MemoryLimit::default(),
                queue_limit: QueueLimit::default(),
                next_number: AtomicU64::new(0),
                clock_step_ms: AtomicI64::new(0),
                stopped_ms,
                has_threads: AtomicBool::new(false),
                threads: Mutex::default(),
                reclaim_error: Mutex::default(),
            }),
        };
        broker.shared.memory.note_inside(inside_bytes);
        broker
    }

    fn start_threads(&self, clock: Clock) -> std::io::Result<()> {
        let Some(log) = &self.shared.log else { return Ok(()) };
        let mut threads = lock(&self.shared.threads);
        let shared = Arc::downgrade(&self.shared);
        let on_progress = Arc::new(move || {
            if let Some(shared) = shared.upgrade() {
                shared.notify_mailboxes();
            }
        });
        let millis = clock.clone();
        let now_ms = Arc::new(move || millis().0);
        self.shared.has_threads.store(true, Ordering::Relaxed);
        threads.committer = Some(Committer::spawn(log.clone(), now_ms, on_progress)?);
        let shared = Arc::downgrade(&self.shared);
        let step = move || shared.upgrade().map(|shared| shared.reclaim_if_wanted(clock()));
        threads.reclaimer = Some(Reclaimer::spawn(step)?);
        Ok(())
    }

    /// Registers a mailbox for events. Its number is for [`Turn::open_session`].
    pub fn add_mailbox(&self, mailbox: Arc<dyn Mailbox>) -> usize {
        let mut mailboxes = self.shared.mailboxes.write().unwrap_or_else(PoisonError::into_inner);
        mailboxes.push(mailbox);
        mailboxes.len() - 1
    }

    /// Locks the broker for one batch of requests at this moment. Moments never go back. Due work
    /// is done first, up to one slice.
    pub fn turn(&self, now: Millis) -> Turn<'_> {
        self.shared.turn(now)
    }

    /// The released position: replies that wait for positions up to this one can be sent.
    pub fn released(&self) -> Position {
        self.shared.log.as_ref().map_or(Position::NONE, |log| Position::released(log))
    }

    /// Whether the owner should read nothing from clients before the next [`Mailbox::released`].
    /// Then the log is behind: more requests would only cost memory and latency, or use ids that
    /// the log has not reserved yet.
    pub fn congested(&self) -> bool {
        let next_number = self.shared.next_number.load(Ordering::Relaxed);
        self.shared.log.as_ref().is_some_and(|log| {
            log.open_batch_bytes() >= log.open_batch_bytes_max()
                || next_number + NUMBERS_MARGIN > log.id_limit()
                || log.lags()
        })
    }

    /// Whether requests that are held back should wait until the next [`Mailbox::released`]. The
    /// log then has so much to write that other clients would notice the delay. In any case, a
    /// caller can do one piece of work between two releases.
    pub fn has_backlog(&self) -> bool {
        self.shared.log.as_ref().is_some_and(|log| log.has_backlog())
    }

    /// Why the log failed, if it did. Then nothing that was not durable before may be acknowledged,
    /// and the process must end.
    pub fn failure(&self) -> Option<Failure> {
        self.shared.log.as_ref().and_then(|log| log.failure())
    }

    /// Whether puts are refused because the disk is full, or the log has reached its limit. Small
    /// ones may still fit.
    pub fn is_full(&self) -> bool {
        let full = |log: &Arc<Log>| log.usage().short && !log.admits_put(USUAL_BODY_BYTES_MAX);
        self.shared.log.as_ref().is_some_and(full)
    }

    /// The first error of the log with its oldest file, if any. If the file cannot be read, its
    /// jobs are written again from memory; otherwise the log's size is no longer bounded. The
    /// broker continues, but an operator should check.
    pub fn reclaim_error(&self) -> Option<Arc<log::ReclaimError>> {
        lock(&self.shared.reclaim_error).clone()
    }

    /// From now on, refuses puts that would exceed this many bytes; `None` means no limit. Existing
    /// jobs stay, and can be taken and finished.
    pub fn set_memory_limit(&self, limit_bytes: Option<u64>) {
        self.shared.memory.set(limit_bytes);
    }

    /// Adds memory of connections and their buffers to the account; negative if freed. It counts
    /// like the memory of jobs.
    pub fn add_outside_bytes(&self, bytes: i64) {
        self.shared.memory.add_outside(bytes);
    }

    /// The memory in use, and its limit.
    pub fn memory_usage(&self) -> Memory {
        self.shared.memory.memory()
    }

    /// Limits the number of queues that clients can create; `None` means no limit. Queues from
    /// policies and the log are always created.
    pub fn set_queue_limit(&self, most: Option<usize>) {
        self.shared.queue_limit.set(most);
    }

    /// The limit of queues, and the number of refusals.
    pub fn queue_usage(&self) -> QueueUsage {
        self.shared.queue_limit.usage()
    }

    /// From now on, refuses puts, so that the server drains.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::Relaxed);
    }

    /// Whether puts are refused.
    pub fn draining(&self) -> bool {
        self.shared.draining()
    }

    /// The newest moment that the broker has seen, including before a restart. A clock must not
    /// start earlier.
    pub fn last_time(&self) -> Millis {
        self.shared.lock_core().engine.now()
    }

    /// How many milliseconds the first moment was ahead of [`Options::clock`] when the log was
    /// opened; negative if behind. An owner that takes turns by that clock must add this difference
    /// to it. The broker's own threads do so.
    pub fn clock_step_ms(&self) -> i64 {
        self.shared.clock_step_ms.load(Ordering::Relaxed)
    }

    /// How long the server was stopped before the start, by the wall clock. If negative, or more
    /// than [`STOP_MS_MAX`](crate::STOP_MS_MAX), the clock is wrong or was wrong before, and time
    /// continued where the log ends.
    pub fn stopped_ms(&self) -> i64 {
        self.shared.stopped_ms
    }

    /// Writes and syncs the open batch. For an owner without threads.
    pub fn commit_step(&self, now: Millis) -> Result<log::Committed, Failure> {
        match &self.shared.log {
            Some(log) => {
                let committed = log.commit_step(now.0)?;
                self.shared.notify_mailboxes();
                Ok(committed)
            }
            None => Ok(log::Committed::default()),
        }
    }

    /// Prepares and frees segments. For an owner without threads.
    pub fn prepare_step(&self) -> Result<(), Failure> {
        self.shared.log.as_ref().map_or(Ok(()), |log| log.prepare_step())
    }

    /// Copies a slice of the oldest segment forward if reclaim is due, and returns whether it did.
    /// For an owner without threads.
    pub fn reclaim_step(&self, now: Millis) -> Result<bool, log::ReclaimError> {
        self.shared.reclaim_step(now)
    }

    /// A clean stop: makes all appended records durable, and ends the threads. Later appends are
    /// lost, so end all sessions before. Closing again does nothing.
    pub fn close(&self, now: Millis) -> Result<(), Failure> {
        let closed = Threads { closed: true, ..Threads::default() };
        let threads = std::mem::replace(&mut *lock(&self.shared.threads), closed);
        if threads.closed {
            return Ok(());
        }
        if let Some(reclaimer) = threads.reclaimer {
            reclaimer.stop();
        }
        if let Some(committer) = threads.committer {
            committer.stop();
        }
        let Some(log) = &self.shared.log else { return Ok(()) };
        let next_number = self.shared.lock_core().engine.next_number();
        let closed = log.close(now.0, next_number);
        self.shared.notify_mailboxes();
        closed
    }
}

impl Shared {
    /// A panic during the engine's work leaves it half changed, and further replies could be false.
    /// So a poisoned lock panics too, and the process ends.
    fn lock_core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().expect("the engine is whole: no panic happened while it was locked")
    }

    pub(crate) fn turn(&self, now: Millis) -> Turn<'_> {
        let mut core = self.lock_core();
        core.engine.set_time(now);
        let mut turn = Turn { shared: self, core };
        turn.catch_up();
        turn
    }

    /// Whether the log's thread is behind. (Without a thread, only the owner writes, and waiting
    /// would not help.)
    pub(crate) fn writes_behind(&self) -> bool {
        let has_thread = self.has_threads.load(Ordering::Relaxed);
        has_thread
            && self
                .log
                .as_ref()
                .is_some_and(|log| log.open_batch_bytes() >= log.open_batch_bytes_max())
    }

    pub(crate) fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Ends a turn: passes the batch to the committer, and events to their mailboxes.
    pub(crate) fn end_turn(&self, core: &mut Core) {
        core.check_sample();
        self.memory.note_inside(core.memory_bytes());
        if let Some(log) = &self.log {
            // This includes ids that no entry of the log has.
            let next_number = core.engine.next_number();
            log.note_next_id(core.engine.now().0, next_number);
            self.next_number.store(next_number, Ordering::Relaxed);
            core.ledger.ask(log);
            if std::mem::take(&mut core.ledger.appended) {
                log.wake();
            }
        }
        let next = core.engine.next_deadline();
        let earlier = next.filter(|next| core.alarm.is_none_or(|alarm| *next < alarm));
        if core.outgoing.is_empty() && earlier.is_none() {
            return;
        }
        let mailboxes = self.mailboxes.read().unwrap_or_else(PoisonError::into_inner);
        for (mailbox, session, event) in core.outgoing.drain(..) {
            if let Some(mailbox) = mailboxes.get(mailbox as usize) {
                mailbox.deliver(session, event);
            }
        }
        if let (Some(at), Some(first)) = (earlier, mailboxes.first()) {
            core.alarm = Some(at);
            first.alarm(at);
        }
    }

    fn notify_mailboxes(&self) {
        let has_failed = self.log.as_ref().is_some_and(|log| log.failure().is_some());
        for mailbox in self.mailboxes.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if has_failed {
                mailbox.failed();
            } else {
                mailbox.released();
            }
        }
    }

    /// One step of the reclaim thread.
    fn reclaim_if_wanted(&self, now: Millis) -> Step {
        if !self.reclaim_wanted() {
            return Step::Idle;
        }
        match self.reclaim_step(now) {
            Ok(true) if self.is_short() => Step::CopiedInHaste,
            Ok(true) => Step::Copied,
            Ok(false) => Step::Idle,
            // The owner learns the error. If a file cannot be read, its jobs are still in memory.
            Err(error) => {
                lock(&self.reclaim_error).get_or_insert_with(|| Arc::new(error));
                Step::Idle
            }
        }
    }

    fn reclaim_wanted(&self) -> bool {
        self.log
            .as_ref()
            .is_some_and(|log| log.unreadable_segment().is_some() || log.reclaim_wanted())
    }

    /// Whether the log lacks space: puts are refused, or soon will be.
    fn is_short(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.usage().short)
    }

    pub(crate) fn reclaim_step(&self, now: Millis) -> Result<bool, log::ReclaimError> {
        let Some(log) = &self.log else { return Ok(false) };
        if let Some(segment) = log.unreadable_segment() {
            let done = self.turn(now).core.rescue_step(log, segment);
            if done.is_err() {
                log.end_rescue();
            }
            return done;
        }
        if !log.reclaim_wanted() {
            return Ok(false);
        }
        let Some(slice) = log.reclaim_read()? else { return Ok(false) };
        let mut turn = self.turn(now);
        let core = &mut *turn.core;
        let now = core.engine.now();
        log.reclaim_copy(now.0, &slice, &mut Mover::new(core))?;
        core.ledger.appended = true;
        Ok(true)
    }
}

impl Core {
    fn restore(&mut self, restored: Restored<'_>) -> Result<(), BrokerError> {
        match restored {
            Restored::Job { slot: log_slot, position, queue, meta, counters, body } => {
                let (facts, tags) = meta::facts(&meta, counters)?;
                let slot = self.engine.restore(queue, &facts, tags, body.into())?;
                self.ledger.locations.set(slot, Location { log_slot, after: position });
            }
            Restored::Fact { key, value, .. } => self.restore_fact(key, value)?,
        }
        Ok(())
    }

    /// Ignores facts of newer versions.
    fn restore_fact(&mut self, key: &[u8], value: &[u8]) -> Result<(), BrokerError> {
        if let Some((name, facts)) = meta::read_queue_fact(key, value) {
            self.engine.restore_queue(name, facts)?;
        } else if key == meta::POLICIES_KEY {
            if let Some(rules) = Rules::decode(value) {
                self.engine.restore_policies(rules);
            }
        } else if key == meta::STATUS_KEY
            && let [number] = value
            && let Some(status) = Status::from_number(*number)
        {
            self.engine.restore_status(status);
        }
        Ok(())
    }
}
