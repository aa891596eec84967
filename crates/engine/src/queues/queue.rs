//! A queue: its jobs by state, its waiters, and the references that keep the queue in existence.

use smallvec::SmallVec;

use super::DEFAULT_QUEUE;
use super::cold::Cold;
use super::extension::Extension;
use crate::collections::Ordered;
use crate::collections::prefetch;
use crate::ids::{JobSlot, Millis, sooner};
use crate::jobs::{BlockFacts, CountedJob, Counts, Job, State};

/// The order of ready jobs: first the priority, then the order number.
pub(crate) type ReadyKey = (u32, u64);

/// The place of a job in the list of ready jobs: see [`BlockFacts::ready_place`].
pub(crate) fn ready_place((priority, order): ReadyKey) -> (u64, u64) {
    (priority.into(), order)
}

/// The key of the job at a place in the list of ready jobs.
pub(crate) fn ready_key((priority, order): (u64, u64)) -> ReadyKey {
    (priority.try_into().unwrap_or(u32::MAX), order)
}

/// The facts of a queue, apart from its jobs, as the log stores them.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct QueueFacts {
    /// The queue stays in existence, even without jobs or users.
    pub kept: bool,
    /// The limits of unfinished jobs, one for each [`crate::Band`]. When a band has reached its
    /// limit, the queue refuses further submits of that band. 0 for no limit.
    pub limits: [u32; 3],
    /// A client of Kestrel made or used the queue.
    pub items: bool,
    /// The queue is a fan-out child. It gets a copy of each job that is put into its parent, the
    /// queue named before the first `+`.
    pub child: bool,
    /// If `items` is true: when the queue was made. Otherwise 0.
    pub created: Millis,
}

/// The pause of a queue. The queue does not hand out ready jobs before `until`.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Pause {
    pub(crate) until: Millis,
    pub(crate) reason: PauseReason,
}

impl Pause {
    /// Whether the reason of the pause is [`PauseReason::Serving`].
    pub(crate) fn is_serving(self) -> bool {
        matches!(self.reason, PauseReason::Serving)
    }
}

#[derive(Copy, Clone, Debug)]
pub(crate) enum PauseReason {
    /// A client requested a pause of this length.
    Requested { seconds: u32 },
    /// One slice of work could not serve all waiters, or wake all sleepers. At the end of the pause,
    /// the queue continues. Meanwhile the waiters come first: other sessions get a job only if there are
    /// more ready jobs than waiters.
    Serving,
}

/// A queue in the table of queues. The fields that a put reads or changes come first, grouped by
/// cache lines. With many thousand queues in use, each cache line that a put needs costs time.
///
/// The compiler marks a free place of the table with a bit pattern that `timer` never has (a
/// niche). So each look-up reads `timer`, to check that the place is not free. For this reason
/// `timer` is the first field.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Queue {
    /// The moment of the queue's timer: see [`crate::timers`]. The moment is sometimes too early,
    /// but never too late.
    timer: Option<Millis>,
    name: SmallVec<[u8; 24]>,
    /// The number of sessions that use this queue, and of requests that hold it.
    users: u32,
    /// The number of sessions that watch this queue.
    watchers: u32,
    /// The optional parts. A plain queue has none, so a put into it only tests this field.
    extension: Option<Box<Extension>>,

    puts: u64,
    counts: Counts,
    pause: Option<Pause>,

    ready: Ordered<ReadyKey>,

    /// The number of removals of this queue in progress. During a removal, the queue hands out no
    /// job.
    removals: u32,
    /// The number of registrations of workers for this queue.
    workers: u32,
    /// Sessions that wait for a job of this queue, by ticket. The session with the lowest ticket
    /// gets the first job.
    waiters: Ordered<u64>,
    /// Workers that are registered for this queue and went to sleep, by ticket. Some may be awake
    /// again.
    sleepers: Ordered<u64>,

    /// Delayed jobs, by due time and job id.
    delayed: Ordered<(Millis, u64)>,
    /// Buried jobs, in the order in which they were buried.
    buried: Ordered<u64>,
    /// The place of the queue in the order of age. Each new queue gets a higher rank. Listings are
    /// in this order.
    age_rank: u64,
    /// The queue stays in existence, even without jobs or users.
    kept: bool,
    /// See [`QueueFacts::limits`].
    limits: [u32; 3],
    finishes: u64,
    pauses: u64,
    /// The ready jobs whose body is only in the log: their number, and the bytes of these bodies.
    stored: (u64, u64),
}

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
// All fields that a put reads, from `timer` to `waiters`, begin in the first four cache lines.
const _: () = assert!(std::mem::offset_of!(Queue, waiters) < 4 * LINE_BYTES);

/// The entries of a list for jobs at these places.
fn entries<K>(jobs: &[((u64, u64), JobSlot)], key: impl Fn((u64, u64)) -> K) -> Vec<(K, u32)> {
    jobs.iter().map(|(place, slot)| (key(*place), slot.0)).collect()
}

impl Queue {
    pub(super) fn new(name: &[u8], age_rank: u64) -> Self {
        Self {
            name: SmallVec::from_slice(name),
            users: 0,
            watchers: 0,
            extension: None,
            puts: 0,
            counts: Counts::default(),
            ready: Ordered::default(),
            waiters: Ordered::default(),
            workers: 0,
            sleepers: Ordered::default(),
            pause: None,
            removals: 0,
            delayed: Ordered::default(),
            buried: Ordered::default(),
            timer: None,
            age_rank,
            kept: false,
            limits: [0; 3],
            finishes: 0,
            pauses: 0,
            stored: (0, 0),
        }
    }

    /// Prefetches the memory that a put will need, except the name.
    pub(super) fn prefetch(&self) {
        prefetch(&self.counts);
        prefetch(&self.ready);
        prefetch(&self.removals);
    }

    // --- Name, age, optional parts ---

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// A copy of the name, for a request that changes the table of queues while it uses the name. A
    /// name of up to 24 bytes needs no allocation.
    pub(crate) fn owned_name(&self) -> SmallVec<[u8; 24]> {
        self.name.clone()
    }

    /// The place of the queue in the order of age. Each new queue gets a higher rank. Listings are
    /// in this order.
    pub(crate) fn age_rank(&self) -> u64 {
        self.age_rank
    }

    /// The optional parts of the queue.
    pub(crate) fn extension(&self) -> Option<&Extension> {
        self.extension.as_deref()
    }

    pub(crate) fn extension_mut(&mut self) -> Option<&mut Extension> {
        self.extension.as_deref_mut()
    }

    pub(super) fn ensure_extension(&mut self, now: Millis) -> &mut Extension {
        self.extension.get_or_insert_with(|| Box::new(Extension::new(now)))
    }

    /// Removes two marks: that the queue is a queue of items, and that it is a child. Returns
    /// whether the queue had the first mark, and whether it had the second. `None`: the queue has
    /// no extension, and so it has no marks.
    pub(super) fn unmark(&mut self) -> Option<(bool, bool)> {
        let extension = self.extension.as_mut()?;
        Some((extension.set_items(false), extension.set_child(false)))
    }

    /// The moment of the queue's timer. Only [`crate::timers::Timers`] changes this moment.
    pub(crate) fn timer(&self) -> Option<Millis> {
        self.timer
    }

    pub(crate) fn timer_mut(&mut self) -> &mut Option<Millis> {
        &mut self.timer
    }

    /// See [`QueueFacts::limits`].
    pub(crate) fn limits(&self) -> [u32; 3] {
        self.limits
    }

    pub(crate) fn set_limits(&mut self, limits: [u32; 3]) {
        self.limits = limits;
    }

    // --- Reasons for the queue to exist ---

    /// Keeps the queue in existence until [`Queue::release`], even without jobs.
    pub(crate) fn hold(&mut self) {
        self.users += 1;
    }

    /// Ends a [`Queue::hold`]. Afterwards the caller must drop the queue if it is not wanted any
    /// more: see [`Queue::is_wanted`].
    pub(crate) fn release(&mut self) {
        self.users -= 1;
    }

    /// The number of sessions that use this queue, and of requests that hold it.
    pub(crate) fn users(&self) -> u32 {
        self.users
    }

    pub(crate) fn add_watcher(&mut self) {
        self.watchers += 1;
    }

    pub(crate) fn remove_watcher(&mut self) {
        self.watchers -= 1;
    }

    /// The number of sessions that watch this queue.
    pub(crate) fn watchers(&self) -> u32 {
        self.watchers
    }

    pub(super) fn add_workers(&mut self, count: u32) {
        self.workers += count;
    }

    pub(super) fn remove_worker(&mut self) {
        self.workers -= 1;
    }

    /// The number of registrations of workers for this queue.
    pub(crate) fn workers(&self) -> u32 {
        self.workers
    }

    pub(crate) fn begin_removal(&mut self) {
        self.removals += 1;
    }

    pub(crate) fn end_removal(&mut self) {
        self.removals -= 1;
    }

    /// The number of removals of this queue in progress.
    pub(crate) fn removals(&self) -> u32 {
        self.removals
    }

    /// Whether the queue stays in existence without jobs or users.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept
    }

    pub(super) fn set_kept(&mut self, kept: bool) -> bool {
        std::mem::replace(&mut self.kept, kept)
    }

    /// Whether something keeps the queue in existence (spec beanstalkd 6).
    pub(crate) fn is_wanted(&self) -> bool {
        self.users > 0
            || self.watchers > 0
            || self.counts.total() > 0
            || self.kept
            || self.workers > 0
            || self.removals > 0
    }

    // --- Jobs ---

    /// Ready jobs.
    pub(crate) fn ready(&self) -> &Ordered<ReadyKey> {
        &self.ready
    }

    /// Delayed jobs, by due time and job id.
    pub(crate) fn delayed(&self) -> &Ordered<(Millis, u64)> {
        &self.delayed
    }

    /// Buried jobs, in the order in which they were buried.
    pub(crate) fn buried(&self) -> &Ordered<u64> {
        &self.buried
    }

    /// Removes the delayed job with the earliest due time from the list, if it is due by now.
    pub(crate) fn pop_due(&mut self, now: Millis) -> Option<JobSlot> {
        let ((due, _), slot) = self.delayed.first()?;
        if due > now {
            return None;
        }
        self.delayed.pop_first();
        Some(JobSlot(slot))
    }

    /// Removes the delayed job with the earliest due time from the list.
    pub(crate) fn pop_delayed(&mut self) -> Option<JobSlot> {
        self.delayed.pop_first().map(|(_, slot)| JobSlot(slot))
    }

    /// Removes the job that was buried first from the list.
    pub(crate) fn pop_buried(&mut self) -> Option<JobSlot> {
        self.buried.pop_first().map(|(_, slot)| JobSlot(slot))
    }

    pub(super) fn add_to_list(&mut self, slot: JobSlot, job: &Job) {
        match job.state() {
            State::Ready => self.ready.insert(job.ready_key(), slot.0),
            State::Delayed => self.delayed.insert(job.delayed_key(), slot.0),
            State::Buried => self.buried.insert(job.buried_order(), slot.0),
            State::Leased => unreachable!("a leased job is in no list"),
        }
    }

    /// Adds jobs of these places to the list of this state. The places must be in ascending order.
    /// Calls `refused` with each job whose place another job has.
    pub(super) fn add_all_to_list(
        &mut self,
        state: State,
        jobs: &[((u64, u64), JobSlot)],
        mut refused: impl FnMut(JobSlot),
    ) {
        let refused = |slot| refused(JobSlot(slot));
        match state {
            State::Ready => self.ready.insert_all(&entries(jobs, ready_key), refused),
            State::Delayed => {
                self.delayed.insert_all(&entries(jobs, |(due, id)| (Millis(due), id)), refused);
            }
            State::Buried => self.buried.insert_all(&entries(jobs, |(order, _)| order), refused),
            State::Leased => unreachable!("a leased job is in no list"),
        }
    }

    pub(super) fn remove_from_list(&mut self, slot: JobSlot, job: &Job) {
        let found = match job.state() {
            State::Ready => self.ready.remove(job.ready_key()),
            State::Delayed => self.delayed.remove(job.delayed_key()),
            State::Buried => self.buried.remove(job.buried_order()),
            State::Leased => unreachable!("a leased job is in no list"),
        };
        assert_eq!(found, Some(slot.0), "a job is in the list of its state");
    }

    /// Removes the jobs at these places from the list of this state. The places must be in ascending
    /// order.
    pub(super) fn remove_all_from_list(&mut self, state: State, places: &[(u64, u64)]) {
        let mut count = 0;
        let removed = |_| count += 1;
        let places_of = places.iter().copied();
        match state {
            State::Ready => {
                self.ready.remove_all(places_of.map(ready_key), removed);
            }
            State::Delayed => {
                self.delayed.remove_all(places_of.map(|(due, id)| (Millis(due), id)), removed);
            }
            State::Buried => self.buried.remove_all(places_of.map(|(order, _)| order), removed),
            State::Leased => unreachable!("a leased job is in no list"),
        }
        assert_eq!(count, places.len(), "a job is in the list of its state");
    }

    /// The number of jobs of the queue by state. A job also counts while a request moves it from
    /// one list to another.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The number of ready jobs whose body is only in the log, and the bytes of these bodies.
    pub(crate) fn stored(&self) -> (u64, u64) {
        self.stored
    }

    /// The bytes of the bodies of ready jobs that are in memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.counts.bytes - self.stored.1
    }

    pub(crate) fn count_in(&mut self, job: CountedJob) {
        self.counts.add(job);
        if let Some(bytes) = job.stored_bytes() {
            self.stored.0 += 1;
            self.stored.1 += bytes;
        }
    }

    pub(super) fn count_block_in(&mut self, block: &BlockFacts) {
        self.counts.add_block(block);
        if block.state == State::Ready {
            self.stored.0 += u64::from(block.jobs());
            self.stored.1 += block.body_bytes;
        }
    }

    pub(super) fn count_block_out(&mut self, block: &BlockFacts) {
        self.counts.remove_block(block);
        if block.state == State::Ready {
            self.stored.0 -= u64::from(block.jobs());
            self.stored.1 -= block.body_bytes;
        }
    }

    pub(crate) fn count_out(&mut self, job: CountedJob) {
        self.counts.remove(job);
        if let Some(bytes) = job.stored_bytes() {
            self.stored.0 -= 1;
            self.stored.1 -= bytes;
        }
    }

    /// Counts a job that was put into this queue.
    pub(crate) fn count_put(&mut self, body_bytes: usize) {
        self.puts += 1;
        if let Some(extension) = &mut self.extension {
            extension.put_bytes += body_bytes as u64;
        }
    }

    /// The number of jobs put into this queue since the process made the queue.
    pub(crate) fn puts(&self) -> u64 {
        self.puts
    }

    pub(crate) fn count_finish(&mut self) {
        self.finishes += 1;
    }

    /// The number of jobs that clients finished, or whose workers reported the end.
    pub(crate) fn finishes(&self) -> u64 {
        self.finishes
    }

    // --- Waiting sessions ---

    /// Sessions that wait for a job of this queue, by ticket. The session with the lowest ticket
    /// gets the first job.
    pub(crate) fn waiters(&self) -> &Ordered<u64> {
        &self.waiters
    }

    pub(crate) fn line_up(&mut self, ticket: u64, session_place: u32) {
        self.waiters.insert(ticket, session_place);
    }

    pub(crate) fn leave_line(&mut self, ticket: u64) {
        self.waiters.remove(ticket);
    }

    /// Workers that are registered for this queue and went to sleep, by ticket. Some may be awake
    /// again.
    pub(crate) fn sleepers(&self) -> &Ordered<u64> {
        &self.sleepers
    }

    pub(crate) fn add_sleeper(&mut self, ticket: u64, session_place: u32) {
        self.sleepers.insert(ticket, session_place);
    }

    pub(crate) fn remove_sleeper(&mut self, ticket: u64) {
        self.sleepers.remove(ticket);
    }

    /// Removes the sleeper with the lowest ticket from the list, and returns its place in the table
    /// of sessions.
    pub(crate) fn pop_sleeper(&mut self) -> Option<u32> {
        self.sleepers.pop_first().map(|(_, place)| place)
    }

    // --- Pauses ---

    pub(crate) fn pause(&self) -> Option<Pause> {
        self.pause
    }

    /// Pauses the queue, or ends its pause.
    pub(crate) fn set_pause(&mut self, pause: Option<Pause>) {
        self.pause = pause;
    }

    pub(crate) fn count_pause(&mut self) {
        self.pauses += 1;
    }

    /// The number of pauses that clients requested.
    pub(crate) fn pauses(&self) -> u64 {
        self.pauses
    }

    /// The moment at which the engine can remove the queue as idle. `None`: the queue's policy does
    /// not allow the removal, or the queue has jobs, users, watchers, workers or waiters.
    pub(crate) fn idle_ends(&self) -> Option<Millis> {
        let extension = self.extension.as_ref()?;
        let idle_ms = extension.policy().idle_ms?;
        let is_idle = self.kept
            && self.counts.total() == 0
            && self.users == 0
            && self.watchers == 0
            && self.workers == 0
            && self.waiters.is_empty()
            && self.removals == 0
            && &*self.name != DEFAULT_QUEUE;
        is_idle.then(|| Millis(extension.created.0.saturating_add(idle_ms).saturating_add(1)))
    }

    /// The next moment at which a delayed job is due, a block of delayed jobs must be looked at, or
    /// a pause ends. Expired jobs and idleness are not included.
    pub(crate) fn next_moment(&self) -> Option<Millis> {
        let due = self.delayed.first().map(|((due, _), _)| due);
        let unpause = self.pause.map(|pause| pause.until);
        let cold = self.cold().and_then(Cold::next_moment);
        sooner(sooner(due, unpause), cold)
    }

    /// Panics if nothing keeps the queue in existence.
    pub(super) fn check_invariants(&self) {
        assert!(self.is_wanted(), "a queue has no reason to exist");
    }
}
