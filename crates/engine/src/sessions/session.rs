//! A session: the queues that one connection uses and watches, its held jobs, and its wait.

use std::collections::BTreeMap;

use super::other_names::OtherNames;
use super::worker::Worker;
use crate::collections::Ordered;
use crate::ids::{JobId, JobSlot, LeaseId, Millis, QueueId};
use crate::policy::Name;

/// A waiting session gets "deadline soon" this long before the deadline of a job that it holds
/// (spec beanstalkd 3, reserve).
const DEADLINE_MARGIN_MS: u64 = 1000;

/// A deadline that never comes.
pub(crate) const NEVER: Millis = Millis(u64::MAX);

/// The place of a job in its queue after its holder has lost the job.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum ReturnOrder {
    /// The job gets its old place back, as in beanstalkd and Kestrel.
    #[default]
    KeepPlace,
    /// The job moves behind all other jobs of its priority, as in Gearman.
    ToTail,
}

#[derive(Debug)]
pub(crate) struct Session {
    /// Distinguishes this session from earlier and later sessions with the same place in the table.
    generation: u32,
    /// The number of the caller's mailbox for this session's events. The engine only stores it.
    mailbox: u32,
    /// The queue that this session puts into.
    used: QueueId,
    /// The queues that this session takes from, in the order of watching.
    watched: Vec<QueueId>,
    /// Held jobs, by deadline and lease number.
    leases: Ordered<(Millis, u64)>,
    waiting: Option<Waiting>,
    return_order: ReturnOrder,
    /// `None`: the session has waited for no job's outcome.
    watching: Option<Box<Watching>>,
    worker: Option<Box<Worker>>,
    reader: Option<Box<Reader>>,
    /// `None`: the session has used no other names than those of its queues.
    other_names: Option<Box<OtherNames>>,
    /// The address of the session's client, as the owner of the session tells it. Often empty.
    peer: Name,
    /// The moment of the session's timer: see [`crate::timers`]. The moment is sometimes too early,
    /// but never too late.
    timer: Option<Millis>,
}

/// The jobs whose outcome a session waits for.
#[derive(Debug, Default)]
struct Watching {
    /// The unfinished jobs. The value is the number of the session's attachments to the job.
    jobs: BTreeMap<JobId, u32>,
    /// The sum of these values. The memory account needs it at the end of the session, which must
    /// not walk all jobs in one step.
    joins: u64,
}

/// What a session watches that has waited for no job's outcome.
static NO_JOBS: BTreeMap<JobId, u32> = BTreeMap::new();

/// The held jobs of a session that names each held job by the number of its lease.
#[derive(Debug, Default)]
struct Reader {
    /// All held jobs of the session, by lease.
    open: BTreeMap<LeaseId, JobSlot>,
}

/// The parts of a closed session that the engine must still clean up.
#[derive(Debug)]
pub(crate) struct ClosedSession {
    /// The jobs whose outcome the session waited for. The value is the number of the session's
    /// attachments to the job.
    pub(crate) watching: BTreeMap<JobId, u32>,
    /// Held jobs, by deadline and lease number.
    pub(crate) leases: Ordered<(Millis, u64)>,
    /// The queues that the session watched.
    pub(crate) watched: Vec<QueueId>,
    /// The address of the client.
    pub(crate) peer: Name,
}

/// The wait of a session. A session waits for one thing at a time.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Waiting {
    /// The session waits for a job of one of its watched queues. The ticket is its place in the
    /// lines of these queues.
    Job { ticket: u64, until: Millis },
    /// The session waits for a job of one queue. The ticket is its place in the line of the queue.
    Item { ticket: u64, until: Millis, queue: QueueId, how: ReadMode },
    /// The session waits for the end of its long kick.
    Kick,
    /// The session waits for the end of its long flush, or of its long removal of a queue.
    Clearing,
}

/// What a take from one queue does with the job: finish, hold or peek.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum ReadMode {
    /// Take the job and finish it.
    Finish,
    /// Take the job and hold it until the session confirms it or gives it back. The job is given
    /// back automatically after the limit, or after the policy's `open.timeout`, whichever is
    /// shorter.
    Open {
        /// The limit in milliseconds from the hand-out. `None` for no limit.
        limit_ms: Option<u64>,
    },
    /// Peek at the job.
    Peek,
}

impl Waiting {
    pub(crate) fn is_for_job(self) -> bool {
        match self {
            Self::Job { .. } | Self::Item { .. } => true,
            Self::Kick | Self::Clearing => false,
        }
    }
}

impl Session {
    pub(super) fn new(
        generation: u32,
        mailbox: u32,
        return_order: ReturnOrder,
        queue: QueueId,
    ) -> Self {
        Self {
            generation,
            mailbox,
            used: queue,
            watched: vec![queue],
            leases: Ordered::default(),
            waiting: None,
            return_order,
            watching: None,
            worker: None,
            reader: None,
            other_names: None,
            peer: Name::default(),
            timer: None,
        }
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// The number of the caller's mailbox for the session's events.
    pub(crate) fn mailbox(&self) -> u32 {
        self.mailbox
    }

    /// The address of the client. Empty: it is unknown.
    pub(crate) fn peer(&self) -> &[u8] {
        &self.peer
    }

    pub(super) fn set_peer(&mut self, peer: Name) {
        self.peer = peer;
    }

    pub(crate) fn return_order(&self) -> ReturnOrder {
        self.return_order
    }

    /// The moment of the session's timer. Only [`crate::timers::Timers`] changes this moment.
    pub(crate) fn timer(&self) -> Option<Millis> {
        self.timer
    }

    pub(crate) fn timer_mut(&mut self) -> &mut Option<Millis> {
        &mut self.timer
    }

    // --- Queues ---

    /// The queue that the session puts into.
    pub(crate) fn used(&self) -> QueueId {
        self.used
    }

    /// Sets the queue that the session puts into. Returns the queue that the session used before.
    pub(crate) fn set_used(&mut self, queue: QueueId) -> QueueId {
        std::mem::replace(&mut self.used, queue)
    }

    /// The queues that the session takes from, in the order of watching.
    pub(crate) fn watched(&self) -> &[QueueId] {
        &self.watched
    }

    pub(super) fn watch(&mut self, queue: QueueId) -> bool {
        let is_new = !self.watched.contains(&queue);
        if is_new {
            self.watched.push(queue);
        }
        is_new
    }

    pub(super) fn ignore(&mut self, queue: QueueId) -> bool {
        let at = self.watched.iter().position(|watched| *watched == queue);
        at.map(|at| self.watched.remove(at)).is_some()
    }

    /// Moves the list of watched queues to the caller, for a loop that also changes the engine.
    /// After the loop, the caller must call [`Session::return_watched`].
    pub(crate) fn lend_watched(&mut self) -> Vec<QueueId> {
        std::mem::take(&mut self.watched)
    }

    pub(crate) fn return_watched(&mut self, watched: Vec<QueueId>) {
        self.watched = watched;
    }

    pub(crate) fn other_names(&self) -> Option<&OtherNames> {
        self.other_names.as_deref()
    }

    /// Makes a place for other names, if there is none yet.
    pub(super) fn ensure_other_names(&mut self) -> &mut OtherNames {
        self.other_names.get_or_insert_default()
    }

    pub(super) fn forget_other_names(&mut self) {
        self.other_names = None;
    }

    // --- Held jobs ---

    /// From now on, the session can name its held jobs by the numbers of their leases. The session
    /// must not hold a job yet.
    pub(crate) fn hold_by_lease(&mut self) {
        debug_assert!(self.leases.is_empty());
        self.reader = Some(Box::default());
    }

    /// Adds a job of this queue to the jobs that the session holds.
    #[inline]
    pub(crate) fn hold(&mut self, queue: QueueId, lease: LeaseId, deadline: Millis, slot: JobSlot) {
        self.leases.insert((deadline, lease.0), slot.0);
        if let Some(reader) = &mut self.reader {
            reader.open.insert(lease, slot);
        }
        if let Some(worker) = &mut self.worker {
            worker.hold(queue, lease, slot);
        }
    }

    /// Removes a job from the jobs that the session holds.
    #[inline]
    pub(crate) fn let_go(
        &mut self,
        queue: QueueId,
        lease: LeaseId,
        deadline: Millis,
        slot: JobSlot,
    ) {
        self.leases.remove((deadline, lease.0));
        if let Some(reader) = &mut self.reader {
            reader.open.remove(&lease);
        }
        if let Some(worker) = &mut self.worker {
            worker.let_go(queue, lease, slot);
        }
    }

    /// Changes the deadline of a job that the session holds.
    pub(crate) fn move_deadline(
        &mut self,
        lease: LeaseId,
        from: Millis,
        to: Millis,
        slot: JobSlot,
    ) {
        self.leases.remove((from, lease.0));
        self.leases.insert((to, lease.0), slot.0);
    }

    /// The job that the session holds by this lease. Always `None` without
    /// [`Session::hold_by_lease`].
    pub(crate) fn held_by(&self, lease: LeaseId) -> Option<JobSlot> {
        self.reader.as_ref().and_then(|reader| reader.open.get(&lease).copied())
    }

    /// The held job with the earliest deadline, if this deadline has passed.
    pub(crate) fn first_overdue(&self, now: Millis) -> Option<JobSlot> {
        let ((deadline, _), slot) = self.leases.first()?;
        (deadline <= now).then_some(JobSlot(slot))
    }

    /// Held jobs, by deadline and lease number.
    pub(crate) fn leases(&self) -> &Ordered<(Millis, u64)> {
        &self.leases
    }

    /// The earliest deadline of a held job.
    fn first_deadline(&self) -> Option<Millis> {
        self.leases.first().map(|((deadline, _), _)| deadline)
    }

    /// The moment from which a take that finds no job gets "deadline soon". `None`: the session
    /// holds no job.
    pub(crate) fn margin_begins(&self) -> Option<Millis> {
        self.first_deadline().map(|deadline| Millis(deadline.0.saturating_sub(DEADLINE_MARGIN_MS)))
    }

    // --- Waiting ---

    pub(crate) fn waiting(&self) -> Option<Waiting> {
        self.waiting
    }

    pub(super) fn set_waiting(&mut self, waiting: Option<Waiting>) -> Option<Waiting> {
        std::mem::replace(&mut self.waiting, waiting)
    }

    /// Sets the moment at which the session's wait for a job or an item ends.
    pub(crate) fn wait_until(&mut self, moment: Millis) {
        if let Some(Waiting::Job { until, .. } | Waiting::Item { until, .. }) = &mut self.waiting {
            *until = moment;
        }
    }

    /// The next moment at which this session changes without a request.
    pub(crate) fn next_moment(&self) -> Option<Millis> {
        let wait_ends = match self.waiting {
            Some(Waiting::Job { until, .. }) => {
                Some(self.margin_begins().map_or(until, |margin| margin.min(until)))
            }
            Some(Waiting::Item { until, .. }) => Some(until),
            Some(Waiting::Kick | Waiting::Clearing) | None => None,
        };
        let moment = [self.first_deadline(), wait_ends].into_iter().flatten().min();
        moment.filter(|moment| *moment != NEVER)
    }

    // --- Outcomes ---

    /// Unfinished jobs whose outcome the session waits for. The value is the number of the
    /// session's attachments to the job.
    pub(crate) fn watching(&self) -> &BTreeMap<JobId, u32> {
        self.watching.as_ref().map_or(&NO_JOBS, |watching| &watching.jobs)
    }

    /// The number of the session's attachments to all jobs.
    pub(super) fn joins(&self) -> u64 {
        self.watching.as_ref().map_or(0, |watching| watching.joins)
    }

    pub(super) fn join(&mut self, job: JobId) {
        let watching = self.watching.get_or_insert_default();
        *watching.jobs.entry(job).or_default() += 1;
        watching.joins += 1;
    }

    pub(super) fn part(&mut self, job: JobId) -> u32 {
        let Some(watching) = &mut self.watching else { return 0 };
        let count = watching.jobs.remove(&job).unwrap_or(0);
        watching.joins -= u64::from(count);
        count
    }

    // --- Work ---

    pub(crate) fn worker(&self) -> Option<&Worker> {
        self.worker.as_deref()
    }

    pub(crate) fn worker_mut(&mut self) -> Option<&mut Worker> {
        self.worker.as_deref_mut()
    }

    /// Makes the session a worker, if it is not a worker yet.
    pub(crate) fn ensure_worker(&mut self) -> &mut Worker {
        self.worker.get_or_insert_default()
    }

    /// The parts of the session that the engine must still clean up.
    pub(crate) fn into_closed(self) -> ClosedSession {
        let Self { watching, leases, watched, peer, .. } = self;
        let watching = watching.map(|watching| watching.jobs).unwrap_or_default();
        ClosedSession { watching, leases, watched, peer }
    }

    /// Panics if the lists of held jobs disagree, or if the count of attachments is wrong.
    pub(super) fn check_invariants(&self) {
        let joins: u64 = self.watching().values().map(|count| u64::from(*count)).sum();
        assert_eq!(joins, self.joins(), "attachments to jobs");
        let leases = self.leases.iter().map(|((_, lease), slot)| (LeaseId(lease), JobSlot(slot)));
        let leases: BTreeMap<LeaseId, JobSlot> = leases.collect();
        assert_eq!(leases.len(), self.leases.len(), "a lease has one deadline");
        if let Some(reader) = &self.reader {
            assert_eq!(reader.open, leases, "what is named by the lease is held");
        }
        if let Some(worker) = &self.worker {
            let held = worker.held().map(|(_, lease, slot)| (lease, slot));
            assert_eq!(held.collect::<BTreeMap<_, _>>(), leases, "what a worker holds");
            worker.check_invariants();
        }
    }
}
