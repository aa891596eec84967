//! Opens and closes the broker, and owns its lock and its threads.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use engine::policy::Rules;
use engine::{EngineSetup, Millis};
use log::{
    BackupHold, Begin, BodyReader, Committer, Disk, Failure, Log, OpenError, ReclaimError,
    RecoveryProgress, RecoveryReport, Restored, Settings,
};
use replica::Lineage;

use crate::admission::Refusals;
use crate::admission::disk::{DiskGuard, DiskLimits, DiskRoom};
use crate::admission::gate::PutGate;
use crate::admission::memory::{Memory, MemoryLimit, results_bytes_max};
use crate::admission::queue_limit::{QueueLimit, QueueUsage};
use crate::bodies::loads::{Loader, Loads};
use crate::cold::loads::ColdLoad;
use crate::cold::upkeep::{CoolPass, Upkeep};
use crate::cold::{Cold, classify};
use crate::core::Core;
use crate::guard::CoreGuard;
use crate::journal::stream::Stream;
use crate::ledger::meta;
use crate::replication::{ClusterError, RestoredState};
use crate::step_thread::StepThread;
use crate::wall::Start;
use crate::{Mailbox, Position, Turn};

/// The log counts as full when it refuses a body of this length. Shorter bodies may still fit.
/// Longer bodies are rare, because the beanstalkd protocol refuses them by default.
const USUAL_BODY_BYTES_MAX: usize = 64 * 1024;

/// If the log has reserved fewer unused ids than this, the server reads nothing from clients. One
/// pass of all I/O threads through their connections can use this many ids. The log normally
/// reserves more ids much earlier, so this happens only during a very long sync.
const NUMBERS_MARGIN: u64 = 1 << 18;

/// A clock. It returns milliseconds that never decrease.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// A function that a start calls with its progress.
pub type OnProgress = Arc<dyn Fn(RecoveryProgress) + Send + Sync>;

/// Options of a durable broker.
#[derive(Clone)]
pub struct Options {
    /// The disk for the log.
    pub disk: Arc<dyn Disk>,
    /// The settings of the log.
    pub log: Settings,
    /// The setup of the engine.
    pub engine: EngineSetup,
    /// The clock of the broker's threads, which write, sync, reclaim and load. The threads add
    /// [`Broker::clock_step_ms`] to the clock's time. If this is `None`, the broker starts no
    /// threads. Then the owner calls [`Broker::commit_step`], [`Broker::prepare_step`],
    /// [`Broker::reclaim_step`] and [`Broker::load_step`] itself, as the simulator does.
    pub clock: Option<Clock>,
    /// The limit of memory for the bodies of jobs in the log: see [`Broker::set_bodies_limit`].
    pub bodies_bytes_max: Option<u64>,
    /// Called whenever the start has read a segment of the log.
    pub on_progress: Option<OnProgress>,
    /// The limit of memory for the records of jobs: see [`Broker::set_jobs_limit`]. `None`: every
    /// job has its record in memory, and the log has no index files.
    pub jobs_bytes_max: Option<u64>,
    /// At least this many jobs at the head of each queue stay in memory, unless the memory is full.
    /// Simulations set a small number.
    pub head_jobs: usize,
    /// The lineage of the cluster that the folder belongs to. The broker then begins as a follower:
    /// see [`Broker::apply`] and [`Broker::lead`]. `None`: the server is alone.
    pub cluster: Option<Lineage>,
}

/// The default of [`Options::head_jobs`]. Loads ahead read as many jobs, so consumers find jobs in
/// memory.
pub const HEAD_JOBS: usize = 4096;

impl Options {
    /// Options for tests: without threads, and with the engine's default setup.
    pub fn without_threads(disk: Arc<dyn Disk>, log: Settings) -> Self {
        Self {
            disk,
            log,
            engine: EngineSetup::default(),
            clock: None,
            bodies_bytes_max: None,
            jobs_bytes_max: None,
            on_progress: None,
            head_jobs: HEAD_JOBS,
            cluster: None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("disk", &self.disk)
            .field("log", &self.log)
            .field("engine", &self.engine)
            .field("threads", &self.clock.is_some())
            .field("bodies_bytes_max", &self.bodies_bytes_max)
            .field("jobs_bytes_max", &self.jobs_bytes_max)
            .finish_non_exhaustive()
    }
}

/// Why a broker could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The log could not be opened.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// This version cannot decode one of the log's jobs.
    #[error(transparent)]
    Meta(#[from] meta::UnknownMeta),
    /// The log's entries contradict each other.
    #[error(transparent)]
    Restore(#[from] engine::RestoreError),
    /// The folder cannot be used in this way, because of the cluster that it belongs to.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// The durable queue, shared by all its users. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Broker {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    core: parking_lot::Mutex<Core>,
    pub(crate) log: Option<Arc<Log>>,
    /// `None`: the server is alone.
    pub(crate) stream: Option<Arc<Stream>>,
    /// The value of [`Options::clock`].
    clock: Option<Clock>,
    /// The bodies to load. The core and the loader's threads share this list.
    pub(crate) loads: Arc<Loads>,
    pub(crate) reader: Mutex<BodyReader>,
    /// The first error of a load, if any. `body_errors` is the number of such errors.
    pub(crate) body_error: Mutex<Option<Arc<log::BodyError>>>,
    pub(crate) body_errors: AtomicU64,
    /// The first error of an index file, if any.
    pub(crate) index_error: Mutex<Option<Arc<log::IndexError>>>,
    /// The number of rests that slow puts down while jobs become cold: see [`Turn::rests`].
    pub(crate) upkeep_rests: AtomicU32,
    /// The number of rests that slow all appends down while reclaim is behind: see [`Turn::rests`].
    pub(crate) reclaim_rests: AtomicU32,
    /// The progress of [`Broker::cool_step`].
    pub(crate) cooling: Mutex<CoolPass>,
    pub(crate) mailboxes: RwLock<Vec<Arc<dyn Mailbox>>>,
    /// The number of mailboxes of owners that make most turns.
    pub(crate) io_mailboxes: AtomicUsize,
    pub(crate) gate: PutGate,
    pub(crate) memory: MemoryLimit,
    pub(crate) refusals: Refusals,
    pub(crate) queue_limit: QueueLimit,
    pub(crate) disk: DiskGuard,
    /// The id that the engine assigns next, as of the end of the last turn.
    next_number: AtomicU64,
    /// The number of records that the log had no room for, as of the end of the last turn.
    owed: AtomicUsize,
    /// The value of [`Broker::clock_step_ms`]. The broker's threads share it.
    clock_step_ms: Arc<AtomicI64>,
    /// How long the server was stopped before the start, by the wall clock.
    stopped_ms: i64,
    /// Whether the log is written without the owner of the turns.
    has_committer: AtomicBool,
    threads: Mutex<Threads>,
    /// The value of [`Broker::reclaim_error`].
    pub(crate) reclaim_error: Mutex<Option<Arc<ReclaimError>>>,
    /// The slice of reclaim that is not copied to its end.
    pub(crate) reclaim_slice: Mutex<Option<log::Slice>>,
    /// When the rescue begins again, if the last rescue has left jobs (see `reclaim`).
    pub(crate) rescue_again_at: Mutex<Option<Millis>>,
}

#[derive(Debug, Default)]
struct Threads {
    committer: Option<Committer>,
    reclaimer: Option<StepThread>,
    loader: Option<Loader>,
    /// Builds index files, and makes jobs cold.
    upkeep: Option<StepThread>,
    closed: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("log", &self.log).finish_non_exhaustive()
    }
}

/// Locks a mutex, even if a thread panicked while it held the lock. This is safe, because no panic
/// can leave the data of these mutexes half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Broker {
    /// Creates a broker without a log. Its jobs are only in memory.
    pub fn memory(setup: EngineSetup, now: Millis) -> Self {
        Self::with(Core::new(setup, now), (None, None), None, 0)
    }

    /// Opens the log, and restores every job in it. `wall` is the time of the wall clock, or 0 if
    /// it is unknown. In that case, the engine's time continues from the log's last time. The
    /// engine's first moment is [`Broker::last_time`].
    pub fn open(options: Options, wall: Millis) -> Result<(Self, RecoveryReport), BrokerError> {
        let node = options.cluster.map(RestoredState::new);
        Self::open_as(options, node, wall)
    }

    /// Like [`Broker::open`]. `node`: the folder is that of a cluster's node.
    pub(crate) fn open_as(
        options: Options,
        node: Option<RestoredState>,
        wall: Millis,
    ) -> Result<(Self, RecoveryReport), BrokerError> {
        let mut core = Core::new(options.engine, Millis(0));
        core.bodies.set_limit(options.bodies_bytes_max);
        core.cold = Cold::new(options.jobs_bytes_max, options.head_jobs);
        let own = options.jobs_bytes_max.map(|_| classify as log::Classify);
        let classify = own.or(options.log.classify);
        // A node of a cluster writes updates that a single server leaves out on a full disk.
        let update_segments = u64::from(node.is_some());
        let log = Settings { classify, update_segments, ..options.log };
        core.restored = node;
        let core = RefCell::new(core);
        let mut stopped_ms = 0;
        let mut begin = |begin: Begin<'_>| {
            let last = Millis(begin.last_time_ms);
            let mut core = core.borrow_mut();
            let start = match &mut core.restored {
                None => Start::new(wall, last, begin.fact(meta::CLOCK_KEY)),
                Some(restored) => restored.begin(&begin),
            };
            core.engine.set_time(start.now);
            core.engine.set_wall_ahead(start.ahead_ms);
            core.logged_ahead_ms = start.logged_ms;
            stopped_ms = start.stopped_ms;
            let rules = begin.fact(meta::POLICIES_KEY).and_then(Rules::decode);
            core.cold.set_start_rules(rules.clone());
            core.bodies.set_start_rules(rules);
            start.now.0
        };
        let mut restore = |restored: Restored<'_>| core.borrow_mut().restore(restored);
        let mut check = |next_id| core.borrow_mut().check_restored(next_id);
        let on_progress = options.on_progress;
        let mut progress = |progress: RecoveryProgress| {
            if let Some(on_progress) = &on_progress {
                on_progress(progress);
            }
        };
        let (log, report) = Log::open_at::<BrokerError>(
            options.disk,
            log,
            &mut begin,
            &mut restore,
            &mut check,
            &mut progress,
        )?;
        let mut core = core.into_inner();
        core.bodies.set_start_rules(None);
        core.cold.set_start_rules(None);
        let log = Arc::new(log);
        let stream = core.open_journal(&log);
        let broker = Self::with(core, (Some(log), stream), options.clock, stopped_ms);
        if let Some(clock) = &broker.shared.clock {
            broker.set_clock_step();
            let (clock, step_ms) = (clock.clone(), broker.shared.clock_step_ms.clone());
            let stepped = move || clock().0.saturating_add_signed(step_ms.load(Ordering::Relaxed));
            broker
                .start_threads(Arc::new(move || Millis(stepped())))
                .map_err(BrokerError::Thread)?;
        }
        Ok((broker, report))
    }

    /// Makes the broker's threads use the engine's time.
    pub(crate) fn set_clock_step(&self) {
        if let Some(clock) = &self.shared.clock {
            let step_ms = self.last_time().ahead_of(clock());
            self.shared.clock_step_ms.store(step_ms, Ordering::Relaxed);
        }
    }

    fn with(
        core: Core,
        (log, stream): (Option<Arc<Log>>, Option<Arc<Stream>>),
        clock: Option<Clock>,
        stopped_ms: i64,
    ) -> Self {
        let inside_bytes = core.memory_bytes();
        let loads = core.loads.clone();
        let broker = Self {
            shared: Arc::new(Shared {
                core: parking_lot::Mutex::new(core),
                log,
                stream,
                clock,
                loads,
                reader: Mutex::default(),
                body_error: Mutex::default(),
                body_errors: AtomicU64::new(0),
                index_error: Mutex::default(),
                upkeep_rests: AtomicU32::new(0),
                reclaim_rests: AtomicU32::new(0),
                cooling: Mutex::default(),
                mailboxes: RwLock::default(),
                io_mailboxes: AtomicUsize::new(0),
                gate: PutGate::default(),
                memory: MemoryLimit::default(),
                refusals: Refusals::default(),
                queue_limit: QueueLimit::default(),
                disk: DiskGuard::default(),
                next_number: AtomicU64::new(0),
                owed: AtomicUsize::new(0),
                clock_step_ms: Arc::default(),
                stopped_ms,
                has_committer: AtomicBool::new(false),
                threads: Mutex::default(),
                reclaim_error: Mutex::default(),
                reclaim_slice: Mutex::default(),
                rescue_again_at: Mutex::default(),
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
        let weak = Arc::downgrade(&self.shared);
        threads.loader = Some(Loader::spawn(&self.shared.loads, &weak, &clock)?);
        let millis = clock.clone();
        let now_ms = Arc::new(move || millis().0);
        self.expect_commits();
        threads.committer = Some(Committer::spawn(log.clone(), now_ms, on_progress)?);
        let shared = Arc::downgrade(&self.shared);
        let upkeep_clock = clock.clone();
        let step = move || shared.upgrade().map(|shared| shared.reclaim_if_wanted(clock()));
        threads.reclaimer = Some(StepThread::spawn("reclaim", step)?);
        let shared = Arc::downgrade(&self.shared);
        let mut upkeep = Upkeep::default();
        let step = move || Some(shared.upgrade()?.upkeep_step(&mut upkeep, upkeep_clock()));
        threads.upkeep = Some(StepThread::spawn("upkeep", step)?);
        Ok(())
    }

    /// Registers a mailbox for events, and returns its number for [`Turn::open_session`].
    pub fn add_mailbox(&self, mailbox: Arc<dyn Mailbox>) -> usize {
        let mut mailboxes = self.shared.mailboxes.write().unwrap_or_else(PoisonError::into_inner);
        mailboxes.push(mailbox);
        self.shared.io_mailboxes.fetch_add(1, Ordering::Relaxed);
        mailboxes.len() - 1
    }

    /// Like [`Broker::add_mailbox`], for an owner with few requests. Its turns need no share of the
    /// broker's time: see [`Turn::rests`].
    pub fn add_quiet_mailbox(&self, mailbox: Arc<dyn Mailbox>) -> usize {
        let number = self.add_mailbox(mailbox);
        self.shared.io_mailboxes.fetch_sub(1, Ordering::Relaxed);
        number
    }

    /// From now on, the engine's own work waits while the log is behind, because something else than the
    /// owner of the turns commits: the broker's own thread, or the simulator.
    pub fn expect_commits(&self) {
        self.shared.has_committer.store(true, Ordering::Relaxed);
    }

    /// Locks the broker for one batch of requests at the moment `now`. If `now` is before an
    /// earlier turn's moment, the turn uses that earlier turn's moment. The turn begins with at
    /// most one slice of the engine's due work, such as the end of leases.
    pub fn turn(&self, now: Millis) -> Turn<'_> {
        self.shared.turn(now)
    }

    /// The released position. Replies that wait for this position or an earlier one can be sent.
    pub fn released(&self) -> Position {
        if let Some(stream) = &self.shared.stream {
            return stream.released();
        }
        self.shared.log.as_ref().map_or(Position::NONE, |log| Position::released(log))
    }

    /// Whether the log is behind. If it is, the owner should read nothing from clients before the
    /// next call of [`Mailbox::released`]. More requests would only cost memory and latency, or use
    /// ids that the log has not reserved yet.
    pub fn congested(&self) -> bool {
        let next_number = self.shared.next_number.load(Ordering::Relaxed);
        let stream = self.shared.stream.as_ref();
        self.shared.log.as_ref().is_some_and(|log| {
            let id_limit = stream.map_or_else(|| log.id_limit(), |stream| stream.id_limit());
            log.is_batch_full() || next_number + NUMBERS_MARGIN > id_limit || log.lags()
        })
    }

    /// Whether so many bytes wait for the committer that a follower should apply no further group before it
    /// has written them. A leader asks [`Broker::congested`], which also asks for ids and prepared segments.
    pub fn is_batch_full(&self) -> bool {
        self.shared.log.as_ref().is_some_and(|log| log.is_batch_full())
    }

    /// Whether the log has so much to write that more requests would noticeably delay other
    /// clients. If it has, the caller should execute at most one held-back request before the next
    /// call of [`Mailbox::released`].
    pub fn has_backlog(&self) -> bool {
        self.shared.log.as_ref().is_some_and(|log| log.has_backlog())
    }

    /// Why the log failed, if it has failed. After a failure, only changes that are already durable
    /// may be acknowledged, and the process must end.
    pub fn failure(&self) -> Option<Failure> {
        self.shared.log.as_ref().and_then(|log| log.failure())
    }

    /// Whether the log refuses puts, because the disk is full, the log has reached its limit, or the
    /// free room is below [`DiskLimits::critical`].
    /// Small puts may still fit.
    pub fn is_full(&self) -> bool {
        let full = |log: &Arc<Log>| log.usage().short && !log.admits_put(USUAL_BODY_BYTES_MAX);
        self.shared.disk.is_critical() || self.shared.log.as_ref().is_some_and(full)
    }

    /// Whether the log refuses puts because the process or the system has too many open files.
    pub fn lacks_descriptors(&self) -> bool {
        self.shared.log.as_ref().is_some_and(|log| log.lacks_descriptors())
    }

    /// The first error of reclaim, if any. If reclaim cannot read the oldest segment, the broker
    /// writes the segment's jobs again. If it cannot write some of these jobs, this function
    /// returns [`ReclaimError::Left`] instead of the first error, and the log grows until the jobs
    /// have ended. After any other error, reclaim may no longer free space, and then the log only
    /// grows. The broker continues in all these cases, but an operator should check the disk.
    pub fn reclaim_error(&self) -> Option<Arc<ReclaimError>> {
        lock(&self.shared.reclaim_error).clone()
    }

    /// Sets the limit of memory in bytes; `None` means no limit. From now on, puts that would
    /// exceed the limit are refused. Existing jobs stay, and can be taken and finished.
    pub fn set_memory_limit(&self, limit_bytes: Option<u64>) {
        self.shared.memory.set(limit_bytes);
        let results = results_bytes_max(limit_bytes);
        self.shared.lock_core().engine.set_results_limit(results);
    }

    /// Adds memory of connections and their buffers to the memory in use. `bytes` is negative if
    /// memory was freed. The limit of memory includes these bytes.
    pub fn add_outside_bytes(&self, bytes: i64) {
        self.shared.memory.add_outside(bytes);
    }

    /// The memory in use, and its limit.
    pub fn memory_usage(&self) -> Memory {
        self.shared.memory.memory()
    }

    /// How long the syncs of the log took, and how large its groups were. Without a log, there are
    /// none.
    pub fn commit_sizes(&self) -> log::CommitSizes {
        self.shared.log.as_ref().map(|log| log.commit_sizes()).unwrap_or_default()
    }

    /// Limits the number of jobs in all queues and states; `None` means [`engine::limits::JOBS_MAX`]. At
    /// the limit, puts are refused. A put into several queues can exceed it, and so can schedules that fire
    /// together. Jobs that come back are never refused.
    pub fn set_job_count_limit(&self, most: Option<u64>) {
        self.shared.gate.set_jobs_max(most);
    }

    /// The limit of jobs: see [`Broker::set_job_count_limit`].
    pub fn job_count_limit(&self) -> Option<u64> {
        self.shared.gate.jobs_max()
    }

    /// Limits the number of queues; `None` means no limit. At the limit, requests of clients create
    /// no further queue. Queues from policies and the log are always created.
    pub fn set_queue_limit(&self, most: Option<usize>) {
        self.shared.queue_limit.set(most);
    }

    /// The limit of queues, and the number of refused requests.
    pub fn queue_usage(&self) -> QueueUsage {
        self.shared.queue_limit.usage()
    }

    /// Sets limits of the free room of the disk. The reclaim thread looks at the disk once a second.
    pub fn set_disk_limits(&self, limits: DiskLimits) {
        self.shared.disk.set(limits);
    }

    /// The room of the disk at the last look. `None`: there is no log, or no look yet.
    pub fn disk_room(&self) -> Option<DiskRoom> {
        self.shared.disk.room()
    }

    /// Looks at the disk if a second has passed. Only for a broker without threads: see
    /// [`Options::clock`].
    pub fn disk_step(&self, now: Millis) {
        self.shared.look_at_disk(now);
    }

    /// Refuses all puts from now on, so that workers can empty the queues.
    pub fn drain(&self) {
        self.shared.gate.set_draining(true);
    }

    /// Accepts puts again.
    pub fn end_drain(&self) {
        self.shared.gate.set_draining(false);
    }

    /// Whether the broker drains: see [`Broker::drain`]. If it does, it refuses all puts.
    pub fn draining(&self) -> bool {
        self.shared.draining()
    }

    /// Holds the log's files for a backup, until the returned value is dropped. Returns `None` if
    /// the broker has no log. Does not take the broker's lock.
    pub fn begin_backup(&self) -> Option<BackupHold> {
        self.shared.log.as_ref().map(Log::begin_backup)
    }

    /// The latest moment of the broker, including moments before a restart. The owner's clock must
    /// not start earlier.
    pub fn last_time(&self) -> Millis {
        self.shared.lock_core().engine.now()
    }

    /// How many milliseconds the engine's first moment was ahead of [`Options::clock`] when the log
    /// was opened. Negative if the engine was behind the clock. An owner that uses the same clock
    /// for its turns must add this difference to the clock's time. The broker's own threads add it,
    /// too.
    pub fn clock_step_ms(&self) -> i64 {
        self.shared.clock_step_ms.load(Ordering::Relaxed)
    }

    /// How long the server was stopped before the start, by the wall clock. If the value is
    /// negative or more than [`STOP_MS_MAX`](crate::STOP_MS_MAX), the wall clock is wrong or was
    /// wrong earlier. Then the engine's time continued from the log's last time.
    pub fn stopped_ms(&self) -> i64 {
        self.shared.stopped_ms
    }

    /// Writes and syncs the open batch. Only for a broker without threads: see [`Options::clock`].
    pub fn commit_step(&self, now: Millis) -> Result<log::Committed, Failure> {
        match &self.shared.log {
            Some(log) => {
                let committed = log.commit_step(now.0);
                self.shared.notify_mailboxes();
                committed
            }
            None => Ok(log::Committed::default()),
        }
    }

    /// Prepares and frees segments. Only for a broker without threads: see [`Options::clock`].
    pub fn prepare_step(&self) -> Result<(), Failure> {
        self.shared.log.as_ref().map_or(Ok(()), |log| log.prepare_step())
    }

    /// Sets the limit of memory for the bodies of jobs in the log. `None` means no limit. Above the
    /// limit, some bodies leave the memory and are then only in the log. The broker loads such a
    /// body when a client needs it.
    pub fn set_bodies_limit(&self, bytes_max: Option<u64>) {
        // Without a log, all bodies must stay in memory.
        let bytes_max = bytes_max.filter(|_| self.shared.log.is_some());
        let mut core = self.shared.lock_core();
        // To trim looks at all jobs. Each reload sets the limit, and clients can ask for reloads.
        if core.bodies.set_limit(bytes_max) {
            core.trim_bodies();
        }
    }

    /// Sets the limit of memory for the records of jobs: everything about a job except its body.
    /// Above the limit, ready jobs far from the head of their queue leave the memory and are then
    /// only in the log: they are *cold*. The broker loads them before clients need them. `None`
    /// means no limit. Then no more jobs become cold, and jobs that are cold come back when clients
    /// need them.
    pub fn set_jobs_limit(&self, bytes_max: Option<u64>) {
        let Some(log) = &self.shared.log else { return };
        if bytes_max.is_some() {
            log.use_indexes(classify);
        }
        self.shared.lock_core().cold.set_limit(bytes_max);
    }

    /// The first error of an index file, if any. If the file cannot be written, all jobs of its
    /// segment stay in memory. If cold jobs cannot be read, the broker tries again, and clients do
    /// not get these jobs meanwhile.
    pub fn index_error(&self) -> Option<Arc<log::IndexError>> {
        lock(&self.shared.index_error).clone()
    }

    /// Begins a new segment of the log if the newest one has jobs. Returns whether it had. After the
    /// next `commit_step`, `index_step` can build the index of these jobs. Only for a broker without
    /// threads: see [`Options::clock`].
    pub fn seal_step(&self, now: Millis) -> bool {
        let Some(log) = &self.shared.log else { return false };
        let mut core = self.shared.lock_core();
        // A group for other nodes is in one segment.
        core.ledger.cut();
        log.seal(now.0)
    }

    /// Builds one missing index file of the log. Returns whether it built one. Only for a broker
    /// without threads: see [`Options::clock`].
    pub fn index_step(&self) -> Result<bool, log::IndexError> {
        let Some(log) = &self.shared.log else { return Ok(false) };
        let has_built = log.index_step()?.is_some();
        self.shared.note_lag(has_built && lock(&self.shared.cooling).is_cooling);
        Ok(has_built)
    }

    /// Makes some blocks cold if the records of jobs take too much memory. Returns false if no
    /// block is left to look at. Only for a broker without threads: see [`Options::clock`].
    pub fn cool_step(&self, now: Millis) -> bool {
        let mut pass = lock(&self.shared.cooling);
        let shared = &self.shared;
        let has_worked = shared.cool_step(&mut pass, &mut |act| act(&mut shared.turn(now).core));
        self.shared.note_lag(pass.is_cooling);
        has_worked
    }

    /// The number of cold jobs: see [`Broker::set_jobs_limit`].
    pub fn cold_jobs(&self) -> u64 {
        self.shared.lock_core().engine.cold_jobs()
    }

    /// The error of the first body that could not be loaded, if any. If a session waited for the
    /// body, the broker has buried the job. If this job had already ended, for example by a read
    /// for good, it is lost.
    pub fn body_error(&self) -> Option<Arc<log::BodyError>> {
        lock(&self.shared.body_error).clone()
    }

    /// Loads bodies that sessions wait for, and the next bodies of their queues. Returns whether
    /// there was work. Only for a broker without threads: see [`Options::clock`].
    pub fn load_step(&self, now: Millis) -> bool {
        self.shared.load_step(now)
    }

    /// If the log needs reclaim, copies a slice of the oldest segment to the end of the log.
    /// Returns whether it copied a slice. Only for a broker without threads: see
    /// [`Options::clock`].
    pub fn reclaim_step(&self, now: Millis) -> Result<bool, ReclaimError> {
        self.shared.reclaim_step(now)
    }

    /// Stops cleanly: makes all appended entries durable, and ends the threads. Later entries are
    /// lost, so close all sessions before this call. A second call does nothing.
    pub fn close(&self, now: Millis) -> Result<(), Failure> {
        let closed = Threads { closed: true, ..Threads::default() };
        let threads = std::mem::replace(&mut *lock(&self.shared.threads), closed);
        if threads.closed {
            return Ok(());
        }
        while self.shared.write_owed(now) {}
        if let Some(log) = &self.shared.log {
            log.stop_indexing();
        }
        if let Some(loader) = threads.loader {
            loader.stop();
        }
        for thread in [threads.reclaimer, threads.upkeep].into_iter().flatten() {
            thread.stop();
        }
        if let Some(committer) = threads.committer {
            committer.stop();
        }
        // A group that the stream has not accepted must not get into the folder, nor what is behind
        // it.
        let Some(log) = self.shared.log.as_ref().filter(|log| !log.is_gated()) else {
            return Ok(());
        };
        let next_number = self.shared.lock_core().engine.next_number();
        let closed = log.close(now.0, next_number);
        self.shared.notify_mailboxes();
        closed
    }
}

impl Shared {
    /// Locks the engine and the ledger. Panics if another thread panicked while it held this lock.
    /// The engine may then be half changed, so further replies could be wrong, and the process must
    /// end.
    fn lock_core(&self) -> CoreGuard<'_> {
        CoreGuard::lock(&self.core)
    }

    pub(crate) fn turn(&self, now: Millis) -> Turn<'_> {
        let mut core = self.lock_core();
        // The leader decides what is due. So a follower has no clock of its own.
        if !core.ledger.follows() {
            core.engine.set_time(now);
        }
        core.engine.note_full_memory(self.memory.memory().is_full());
        let records_before = core.engine.record_bytes();
        let mut turn = Turn { shared: self, core, records_before };
        turn.core.write_owed();
        turn.catch_up();
        turn
    }

    /// Writes some of the records that the log had no room for, if it has room now. Returns whether more
    /// of them can follow.
    pub(crate) fn write_owed(&self, now: Millis) -> bool {
        let before = self.owed.load(Ordering::Relaxed);
        if before == 0 {
            return false;
        }
        drop(self.turn(now));
        self.owed.load(Ordering::Relaxed) < before
    }

    /// Whether the committer is behind. Returns false if there is none: then only the owner writes to
    /// the log, so work that waited for the committer would wait forever.
    pub(crate) fn writes_behind(&self) -> bool {
        let has_committer = self.has_committer.load(Ordering::Relaxed);
        has_committer && self.log.as_ref().is_some_and(|log| log.is_batch_full())
    }

    pub(crate) fn draining(&self) -> bool {
        self.gate.draining()
    }

    /// Ends a turn: passes the batch to the committer, and events to their mailboxes.
    pub(crate) fn end_turn(&self, core: &mut Core) {
        if core.is_stopped {
            return;
        }
        core.evict_bodies();
        for list in core.engine.take_wanted() {
            core.loads.add_cold(ColdLoad::List(list));
        }
        core.check_sample();
        self.memory.note_inside(core.memory_bytes());
        core.memory_left.set(0);
        self.next_number.store(core.engine.next_number(), Ordering::Relaxed);
        core.ledger.end_turn(&core.engine);
        self.owed.store(core.ledger.owed(), Ordering::Relaxed);
        let leads = !core.ledger.follows();
        let next = core.engine.next_deadline().filter(|_| leads);
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

    pub(crate) fn notify_mailboxes(&self) {
        let has_failed = self.log.as_ref().is_some_and(|log| log.failure().is_some());
        for mailbox in self.mailboxes.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if has_failed {
                mailbox.failed();
            } else {
                mailbox.released();
            }
        }
    }
}
