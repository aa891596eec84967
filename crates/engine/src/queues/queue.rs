//! A queue: its jobs by state, its waiters, and the reasons why it exists.

use smallvec::SmallVec;

use super::DEFAULT_QUEUE;
use super::extension::Extension;
use crate::collections::Ordered;
use crate::collections::prefetch;
use crate::ids::{JobSlot, Millis};
use crate::jobs::{CountedJob, Counts, Job, State};

/// The order of ready jobs: first the rank, then the order number. The rank is the priority, but
/// wider, so that policies can refine it.
pub(crate) type ReadyKey = (u64, u64);

/// The facts of a queue, apart from its jobs, as the log keeps them.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct QueueFacts {
    /// The queue exists without jobs or users.
    pub kept: bool,
    /// The number of unfinished jobs at which the queue refuses a submit of each [`crate::Band`]. 0
    /// for no limit.
    pub limits: [u32; 3],
    /// A client of Kestrel made it or used it.
    pub items: bool,
    /// The queue is a fan-out child: it gets a copy of each job that is put into the queue named
    /// before the first `+`.
    pub child: bool,
    /// When the queue was made, if `items`. Otherwise 0.
    pub created: Millis,
}

/// A queue on hold: it does not hand out ready jobs before `until`.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Pause {
    pub(crate) until: Millis,
    pub(crate) reason: PauseReason,
}

impl Pause {
    /// Whether the pause lasts only until the queue continues to serve its waiters.
    pub(crate) fn is_serving(self) -> bool {
        matches!(self.reason, PauseReason::Serving)
    }
}

#[derive(Copy, Clone, Debug)]
pub(crate) enum PauseReason {
    /// A client asked for a pause of this length.
    Requested { seconds: u32 },
    /// More sessions wait than one slice can serve. At the end of the pause, the queue continues to
    /// serve them. Other sessions get only the jobs that remain.
    Serving,
}

/// The fields that a put touches come first, grouped by cache lines: with many thousand queues in
/// use, each line counts. (`timer` is the first field, because a slab uses its impossible values to
/// mark free places.)
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Queue {
    /// When the engine looks at this queue next. This is sometimes earlier than needed, but never
    /// later.
    timer: Option<Millis>,
    name: SmallVec<[u8; 24]>,
    /// Sessions that put into this queue.
    users: u32,
    /// Sessions that take from this queue.
    watchers: u32,
    /// The optional parts. A plain queue has none, so it costs only this one test.
    extension: Option<Box<Extension>>,

    puts: u64,
    counts: Counts,
    pause: Option<Pause>,

    ready: Ordered<ReadyKey>,

    /// Removals in progress. Meanwhile the queue hands out nothing.
    removals: u32,
    /// Registrations of workers.
    workers: u32,
    /// Sessions that wait at this queue, by ticket: first come, first served.
    waiters: Ordered<u64>,
    /// Sessions that may be asleep and want a wake-up, by ticket.
    sleepers: Ordered<u64>,

    /// By (due, id).
    delayed: Ordered<(Millis, u64)>,
    /// By the order of burial.
    buried: Ordered<u64>,
    /// Ascending with each new queue. Listings are in this order.
    age_rank: u64,
    /// The queue exists without jobs or users.
    kept: bool,
    /// The number of unfinished jobs at which the queue refuses a submit of each band. 0 for no
    /// limit.
    limits: [u32; 3],
    finishes: u64,
    pauses: u64,
}

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
// A put reads all fields up to `waiters`.
const _: () = assert!(std::mem::offset_of!(Queue, waiters) < 4 * LINE_BYTES);

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
        }
    }

    /// Prefetches what a put will touch, except the name.
    pub(super) fn prefetch(&self) {
        prefetch(&self.counts);
        prefetch(&self.ready);
        prefetch(&self.removals);
    }

    // --- What it is ---

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// The name, for a request that changes queues while it uses the name. Most names need no
    /// allocation.
    pub(crate) fn owned_name(&self) -> SmallVec<[u8; 24]> {
        self.name.clone()
    }

    /// Ascending with each new queue. Listings are in this order.
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

    /// Removes the marks of a queue of items and of a child. Returns whether the queue had each.
    pub(super) fn unmark(&mut self) -> Option<(bool, bool)> {
        let extension = self.extension.as_mut()?;
        Some((extension.set_items(false), extension.set_child(false)))
    }

    /// When the engine looks at this queue next. [`crate::timers::Timers`] changes it.
    pub(crate) fn timer(&self) -> Option<Millis> {
        self.timer
    }

    pub(crate) fn timer_mut(&mut self) -> &mut Option<Millis> {
        &mut self.timer
    }

    /// The number of unfinished jobs at which the queue refuses a submit of each band. 0 for no
    /// limit.
    pub(crate) fn limits(&self) -> [u32; 3] {
        self.limits
    }

    pub(crate) fn set_limits(&mut self, limits: [u32; 3]) {
        self.limits = limits;
    }

    // --- Why it exists ---

    /// Keeps the queue in existence, with or without jobs, until [`Queue::release`].
    pub(crate) fn hold(&mut self) {
        self.users += 1;
    }

    /// Ends a hold. The caller must then drop the queue if it is unwanted.
    pub(crate) fn release(&mut self) {
        self.users -= 1;
    }

    /// Sessions that put into this queue, and requests that hold it.
    pub(crate) fn users(&self) -> u32 {
        self.users
    }

    pub(crate) fn add_watcher(&mut self) {
        self.watchers += 1;
    }

    pub(crate) fn remove_watcher(&mut self) {
        self.watchers -= 1;
    }

    /// Sessions that take from this queue.
    pub(crate) fn watchers(&self) -> u32 {
        self.watchers
    }

    pub(super) fn add_workers(&mut self, count: u32) {
        self.workers += count;
    }

    pub(super) fn remove_worker(&mut self) {
        self.workers -= 1;
    }

    /// Registrations of workers.
    pub(crate) fn workers(&self) -> u32 {
        self.workers
    }

    pub(crate) fn begin_removal(&mut self) {
        self.removals += 1;
    }

    pub(crate) fn end_removal(&mut self) {
        self.removals -= 1;
    }

    /// Removals in progress.
    pub(crate) fn removals(&self) -> u32 {
        self.removals
    }

    /// Whether the queue exists without jobs or users.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept
    }

    pub(super) fn set_kept(&mut self, kept: bool) -> bool {
        std::mem::replace(&mut self.kept, kept)
    }

    /// Whether the queue has a reason to exist (spec beanstalkd 6).
    pub(crate) fn is_wanted(&self) -> bool {
        self.users > 0
            || self.watchers > 0
            || self.counts.total() > 0
            || self.kept
            || self.workers > 0
            || self.removals > 0
    }

    // --- Its jobs ---

    /// Ready jobs.
    pub(crate) fn ready(&self) -> &Ordered<ReadyKey> {
        &self.ready
    }

    /// Delayed jobs, by (due, id).
    pub(crate) fn delayed(&self) -> &Ordered<(Millis, u64)> {
        &self.delayed
    }

    /// Buried jobs, by the order of burial.
    pub(crate) fn buried(&self) -> &Ordered<u64> {
        &self.buried
    }

    /// The first ready job, whether or not a take can get it.
    pub(crate) fn first_ready(&self) -> Option<JobSlot> {
        self.ready.first().map(|(_, slot)| JobSlot(slot))
    }

    /// Takes out the next delayed job if it is due by now.
    pub(crate) fn pop_due(&mut self, now: Millis) -> Option<JobSlot> {
        let ((due, _), slot) = self.delayed.first()?;
        if due > now {
            return None;
        }
        self.delayed.pop_first();
        Some(JobSlot(slot))
    }

    /// Takes out the delayed job that is due soonest.
    pub(crate) fn pop_delayed(&mut self) -> Option<JobSlot> {
        self.delayed.pop_first().map(|(_, slot)| JobSlot(slot))
    }

    /// Takes out the job that was buried longest ago.
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

    pub(super) fn remove_from_list(&mut self, slot: JobSlot, job: &Job) {
        let found = match job.state() {
            State::Ready => self.ready.remove(job.ready_key()),
            State::Delayed => self.delayed.remove(job.delayed_key()),
            State::Buried => self.buried.remove(job.buried_order()),
            State::Leased => unreachable!("a leased job is in no list"),
        };
        assert_eq!(found, Some(slot.0), "a job is in the list of its state");
    }

    /// The jobs of the queue by state, including jobs that are in no list for a moment.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn count_in(&mut self, job: CountedJob) {
        self.counts.add(job);
    }

    pub(crate) fn count_out(&mut self, job: CountedJob) {
        self.counts.remove(job);
    }

    /// Counts a job that was put into this queue.
    pub(crate) fn count_put(&mut self, body_bytes: usize) {
        self.puts += 1;
        if let Some(extension) = &mut self.extension {
            extension.put_bytes += body_bytes as u64;
        }
    }

    /// Jobs put into this queue since it was made, in this process.
    pub(crate) fn puts(&self) -> u64 {
        self.puts
    }

    pub(crate) fn count_finish(&mut self) {
        self.finishes += 1;
    }

    /// Jobs finished on request, or ended by the worker that held them.
    pub(crate) fn finishes(&self) -> u64 {
        self.finishes
    }

    // --- Waiting sessions ---

    /// Sessions that wait at this queue, by ticket: first come, first served.
    pub(crate) fn waiters(&self) -> &Ordered<u64> {
        &self.waiters
    }

    pub(crate) fn line_up(&mut self, ticket: u64, session_place: u32) {
        self.waiters.insert(ticket, session_place);
    }

    pub(crate) fn leave_line(&mut self, ticket: u64) {
        self.waiters.remove(ticket);
    }

    /// Sessions that may be asleep and want a wake-up, by ticket.
    pub(crate) fn sleepers(&self) -> &Ordered<u64> {
        &self.sleepers
    }

    pub(crate) fn add_sleeper(&mut self, ticket: u64, session_place: u32) {
        self.sleepers.insert(ticket, session_place);
    }

    pub(crate) fn remove_sleeper(&mut self, ticket: u64) {
        self.sleepers.remove(ticket);
    }

    /// Takes out the place of the sleeper that came first.
    pub(crate) fn pop_sleeper(&mut self) -> Option<u32> {
        self.sleepers.pop_first().map(|(_, place)| place)
    }

    // --- Whether it hands out ---

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

    /// Times that the queue was paused.
    pub(crate) fn pauses(&self) -> u64 {
        self.pauses
    }

    /// Whether the queue can serve a take. While the queue serves its waiters in slices, or is
    /// about to, a take gets only the jobs that remain.
    pub(crate) fn can_serve(&self, now: Millis) -> bool {
        !self.ready.is_empty()
            && self.removals == 0
            && self.pause.is_none_or(|pause| {
                let is_held = match pause.reason {
                    PauseReason::Requested { .. } => pause.until > now,
                    PauseReason::Serving => false,
                };
                !is_held && self.ready.len() > self.waiters.len()
            })
    }

    /// Whether the queue holds its ready jobs back from its waiters. A pause lasts until its timer
    /// ends it and serves the waiters, so that no other session overtakes them in between.
    pub(crate) fn is_paused(&self) -> bool {
        self.removals > 0 || self.pause.is_some()
    }

    /// The moment at which the queue can be removed as idle: its policy must allow this, and the
    /// queue must be empty and unused.
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

    /// The next moment at which this queue changes without a request, apart from expiry and
    /// idleness.
    pub(crate) fn next_moment(&self) -> Option<Millis> {
        let due = self.delayed.first().map(|((due, _), _)| due);
        let unpause = self.pause.map(|pause| pause.until);
        [due, unpause].into_iter().flatten().min()
    }

    /// Panics if the lists and the counts disagree.
    pub(super) fn check_invariants(&self) {
        let counts = &self.counts;
        let lists = [self.ready.len(), self.delayed.len(), self.buried.len()];
        let counted = [counts.ready, counts.delayed, counts.buried].map(|count| count as usize);
        assert_eq!(lists, counted, "a queue counts its ready, delayed and buried jobs");
        assert!(self.is_wanted(), "a queue has no reason to exist");
    }
}
