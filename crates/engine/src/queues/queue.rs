//! A queue: its jobs by state, who waits for them, and why it exists.

use smallvec::SmallVec;

use super::DEFAULT_QUEUE;
use super::extension::Extension;
use crate::collections::Ordered;
use crate::collections::prefetch;
use crate::ids::{JobSlot, Millis};
use crate::jobs::{Counts, Job, Share, State};

/// The order of ready jobs: rank (the priority, wider so that policies can refine it), then the
/// order number.
pub(crate) type ReadyKey = (u64, u64);

/// What the log keeps of a queue apart from its jobs.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct QueueFacts {
    /// It exists without jobs or users.
    pub kept: bool,
    /// Most unfinished jobs at which a submit of each [`crate::Band`] is still accepted; 0 for no limit.
    pub limits: [u32; 3],
    /// A client of Kestrel's made it or used it.
    pub items: bool,
    /// It is a fan-out child: what is put into the queue whose name stands before the first `+` is
    /// put here, too.
    pub child: bool,
    /// When it was made, if `items`; else 0.
    pub created: Millis,
}

/// A queue on hold: its ready jobs are not handed out before `until`.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Pause {
    pub(crate) until: Millis,
    pub(crate) reason: PauseReason,
}

impl Pause {
    /// Whether it lasts only until those who wait are served further.
    pub(crate) fn is_serving(self) -> bool {
        matches!(self.reason, PauseReason::Serving)
    }
}

#[derive(Copy, Clone, Debug)]
pub(crate) enum PauseReason {
    /// Somebody asked for a pause of this length.
    Requested { seconds: u32 },
    /// More sessions wait than one slice may serve: it goes on serving them at the end. Others get
    /// only what these leave.
    Serving,
}

/// What a put touches comes first, by cache lines: with many thousand queues in use each one counts.
/// (`timer`, because by its impossible values a slab tells places in use from free ones.)
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Queue {
    /// When the engine looks at this queue next. Never later than needed, sometimes earlier.
    timer: Option<Millis>,
    name: SmallVec<[u8; 24]>,
    /// Sessions whose puts go here.
    users: u32,
    /// Sessions that take from here.
    watchers: u32,
    /// What only some queues have. All of it is behind this one test, which plain queues pay for.
    extension: Option<Box<Extension>>,

    puts: u64,
    counts: Counts,
    pause: Option<Pause>,

    ready: Ordered<ReadyKey>,

    /// Removals that go on: nothing is handed out meanwhile.
    removals: u32,
    /// Registrations of workers.
    workers: u32,
    /// Sessions that wait here, by their ticket: first come, first served.
    waiters: Ordered<u64>,
    /// Sessions that may be asleep and want to be woken, by ticket.
    sleepers: Ordered<u64>,

    /// By (due, id).
    delayed: Ordered<(Millis, u64)>,
    /// By the order of burying.
    buried: Ordered<u64>,
    /// Grows with every queue made; lists are in this order.
    age_rank: u64,
    /// Exists without jobs or users.
    kept: bool,
    /// Most unfinished jobs at which a submit of each band is still accepted; 0 for no limit.
    limits: [u32; 3],
    finishes: u64,
    pauses: u64,
}

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
// A put reads all up to whether somebody waits.
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

    /// Asks for what a put will touch, besides the name.
    pub(super) fn prefetch(&self) {
        prefetch(&self.counts);
        prefetch(&self.ready);
        prefetch(&self.removals);
    }

    // --- What it is ---

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// The name, for a request that goes on to change queues. Most names need no allocation.
    pub(crate) fn owned_name(&self) -> SmallVec<[u8; 24]> {
        self.name.clone()
    }

    /// Grows with every queue made; lists are in this order.
    pub(crate) fn age_rank(&self) -> u64 {
        self.age_rank
    }

    /// What only some queues have.
    pub(crate) fn extension(&self) -> Option<&Extension> {
        self.extension.as_deref()
    }

    pub(crate) fn extension_mut(&mut self) -> Option<&mut Extension> {
        self.extension.as_deref_mut()
    }

    pub(super) fn ensure_extension(&mut self, now: Millis) -> &mut Extension {
        self.extension.get_or_insert_with(|| Box::new(Extension::new(now)))
    }

    /// It is no queue of items, and no child, any more; whether it was.
    pub(super) fn unmark(&mut self) -> Option<(bool, bool)> {
        let extension = self.extension.as_mut()?;
        Some((extension.set_items(false), extension.set_child(false)))
    }

    /// When the engine looks at it next; changed by [`crate::timers::Timers`].
    pub(crate) fn timer(&self) -> Option<Millis> {
        self.timer
    }

    pub(crate) fn timer_mut(&mut self) -> &mut Option<Millis> {
        &mut self.timer
    }

    /// Most unfinished jobs at which a submit of each band is still accepted; 0 for no limit.
    pub(crate) fn limits(&self) -> [u32; 3] {
        self.limits
    }

    pub(crate) fn set_limits(&mut self, limits: [u32; 3]) {
        self.limits = limits;
    }

    // --- Why it exists ---

    /// Keeps it in existence, whatever becomes of its jobs, until [`Queue::release`].
    pub(crate) fn hold(&mut self) {
        self.users += 1;
    }

    /// To be followed by a look at whether it is wanted.
    pub(crate) fn release(&mut self) {
        self.users -= 1;
    }

    /// Sessions whose puts go here, and requests that hold it.
    pub(crate) fn users(&self) -> u32 {
        self.users
    }

    pub(crate) fn add_watcher(&mut self) {
        self.watchers += 1;
    }

    pub(crate) fn remove_watcher(&mut self) {
        self.watchers -= 1;
    }

    /// Sessions that take from here.
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

    /// Removals that go on.
    pub(crate) fn removals(&self) -> u32 {
        self.removals
    }

    /// Whether it exists without jobs or users.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept
    }

    pub(super) fn set_kept(&mut self, kept: bool) -> bool {
        std::mem::replace(&mut self.kept, kept)
    }

    /// Whether anything keeps the queue in existence (spec beanstalkd 6).
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

    /// Buried jobs, by the order of burying.
    pub(crate) fn buried(&self) -> &Ordered<u64> {
        &self.buried
    }

    /// The ready job that comes first, whether or not it can be had.
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

    /// Its jobs by state, those included that are in no list for a moment.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn count_in(&mut self, job: Share) {
        self.counts.add(job);
    }

    pub(crate) fn count_out(&mut self, job: Share) {
        self.counts.remove(job);
    }

    /// Counts a job that was put here.
    pub(crate) fn count_put(&mut self, body_bytes: usize) {
        self.puts += 1;
        if let Some(extension) = &mut self.extension {
            extension.put_bytes += body_bytes as u64;
        }
    }

    /// Jobs put since it exists, in this process.
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

    // --- Who waits ---

    /// Sessions that wait here, by their ticket: first come, first served.
    pub(crate) fn waiters(&self) -> &Ordered<u64> {
        &self.waiters
    }

    pub(crate) fn line_up(&mut self, ticket: u64, session_place: u32) {
        self.waiters.insert(ticket, session_place);
    }

    pub(crate) fn leave_line(&mut self, ticket: u64) {
        self.waiters.remove(ticket);
    }

    /// Sessions that may be asleep and want to be woken, by ticket.
    pub(crate) fn sleepers(&self) -> &Ordered<u64> {
        &self.sleepers
    }

    pub(crate) fn add_sleeper(&mut self, ticket: u64, session_place: u32) {
        self.sleepers.insert(ticket, session_place);
    }

    pub(crate) fn remove_sleeper(&mut self, ticket: u64) {
        self.sleepers.remove(ticket);
    }

    /// Takes out the place of the session that came first.
    pub(crate) fn pop_sleeper(&mut self) -> Option<u32> {
        self.sleepers.pop_first().map(|(_, place)| place)
    }

    // --- Whether it hands out ---

    pub(crate) fn pause(&self) -> Option<Pause> {
        self.pause
    }

    /// Its ready jobs are held back from now on, or not any more.
    pub(crate) fn set_pause(&mut self, pause: Option<Pause>) {
        self.pause = pause;
    }

    pub(crate) fn count_pause(&mut self) {
        self.pauses += 1;
    }

    /// Times it was paused.
    pub(crate) fn pauses(&self) -> u64 {
        self.pauses
    }

    /// Whether a take may be served from here: while those who wait are served in slices, or are
    /// about to be, only what they leave.
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

    /// Whether its ready jobs are held back from those who wait. A pause lasts until its timer ends
    /// it and serves them, lest anybody overtakes them in between.
    pub(crate) fn is_paused(&self) -> bool {
        self.removals > 0 || self.pause.is_some()
    }

    /// When it is to go, if its policy says so, and nobody uses it and nothing is in it.
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

    /// The next moment at which something happens here by itself, expiry and idleness apart.
    pub(crate) fn next_moment(&self) -> Option<Millis> {
        let due = self.delayed.first().map(|((due, _), _)| due);
        let unpause = self.pause.map(|pause| pause.until);
        [due, unpause].into_iter().flatten().min()
    }

    /// Panics where its lists and its counts disagree.
    pub(super) fn check_invariants(&self) {
        let counts = &self.counts;
        let lists = [self.ready.len(), self.delayed.len(), self.buried.len()];
        let counted = [counts.ready, counts.delayed, counts.buried].map(|count| count as usize);
        assert_eq!(lists, counted, "a queue counts its ready, delayed and buried jobs");
        assert!(self.is_wanted(), "a queue has no reason to exist");
    }
}
