//! The loader: threads that read stored bodies and cold jobs from the log. They load what sessions
//! wait for, and jobs that will be taken soon. They do not hold the broker's lock while they
//! read.
//!
//! At any time, at most one thread works for each queue, at most one thread loads ahead, and at
//! most one searches for jobs by their numbers. So if the disk is slow for one queue, or clients
//! ask for many numbers, another thread serves the sessions of other queues.
//!
//! If a file cannot be opened for want of descriptors, the bodies in it *rest*, and no thread waits
//! for them.
//!
//! Loaded bodies that clients have not read yet have a limit (`room`). At the limit, the loader
//! reads no further bodies for sessions. It reads on when clients have read some, or have become
//! slow readers, which have limits of their own.

mod room;

use std::collections::btree_map::BTreeMap;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::{Body, Loading, Millis, QueueId, SessionId};
use log::{BodyError, BodyReader, Log, SegmentHold};

use crate::Clock;
use crate::bodies::StoredBody;
use crate::broker::Shared;
use crate::cold::loads::ColdLoad;
use crate::cold::waits::Search;
use crate::core::Core;
use crate::ledger::locations::Location;

use room::Room;

/// Number of threads.
const THREADS: usize = 2;
/// One step loads bodies of at most this many bytes in all, and at least one body.
const STEP_BYTES_MAX: u64 = 1 << 20;
/// The loader reads at most this many bodies before it passes them on.
const SLICE_BODIES: usize = 1024;
/// One turn of a thread that loads jobs, makes them cold, or looks for changed ones, works on at most
/// this many. The log's index has as many in a block. For each job, the thread reads memory that
/// nobody has used for long, which takes 0.3 to 3 µs: so a turn takes at most 0.8 ms. Turns can
/// follow each other without a pause. If another thread waits, the lock passes on after half a
/// millisecond.
pub(crate) const TURN_JOBS: usize = 256;
/// While changed jobs are written again at the limit of memory, cold jobs are loaded once for so many of
/// them: twice as many as a block has. So changed jobs become fewer, even if clients change all jobs that
/// are loaded for them.
const WRITTEN_PER_LOAD: usize = 2 * TURN_JOBS;
/// The rest of bodies for which there is no descriptor, in milliseconds. Others can close a file at
/// any moment, clients wait, and an attempt is only a call to the disk.
const REST_MS: u64 = 100;

/// A body that a session waits for.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) loading: Arc<Loading>,
    pub(crate) stored: StoredBody,
    /// Keeps the segment's file until this load ends, even if the job ends before.
    pub(crate) _hold: Option<SegmentHold>,
    /// The queue to load ahead afterwards. `None` for a peek.
    pub(crate) queue: Option<QueueId>,
    /// The mailbox of the session that waits, and this session.
    pub(crate) session: Option<(u32, SessionId)>,
}

impl Load {
    /// Whether the body was read, or cannot be read.
    fn is_done(&self) -> bool {
        self.loading.body().is_some() || self.loading.has_failed()
    }

    fn bytes(&self) -> u64 {
        self.loading.len() as u64
    }
}

/// Takes the broker's lock, and calls its argument.
pub(crate) type WithCore<'a> = dyn FnMut(&mut dyn FnMut(&mut Core)) + 'a;

/// Calls `act` with the broker's lock held.
pub(crate) fn under_lock<T>(with_core: &mut WithCore<'_>, act: impl FnOnce(&mut Core) -> T) -> T {
    let (mut act, mut result) = (Some(act), None);
    with_core(&mut |core| result = act.take().map(|act| act(core)));
    result.expect("the function is called once")
}

/// The bodies that the loader must load, and the queues that it must load ahead.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The bodies that sessions wait for, by queue. Peeks of all queues are in the line `None`.
    lines: BTreeMap<Option<QueueId>, VecDeque<Load>>,
    /// The lines that no thread works for now. The next thread takes the first of them.
    next: VecDeque<Option<QueueId>>,
    /// The lines that a thread works for now.
    busy: BTreeSet<Option<QueueId>>,
    /// The bodies that rest. Afterwards they come into their lines again.
    resting: Vec<Load>,
    /// The end of the rest, if it has begun.
    rest_until: Option<Millis>,
    /// The queues to load ahead.
    queues: BTreeSet<QueueId>,
    /// A thread loads a queue ahead now.
    loads_ahead: bool,
    /// The cold jobs to load, except those that sessions search for by their numbers.
    lists: VecDeque<ColdLoad>,
    /// The searches that no thread has begun, by ticket. Each session has at most one.
    searches: BTreeMap<u64, Search>,
    /// A thread searches now.
    is_searching: bool,
    /// How many changed jobs were written again since the last load of cold jobs. `None`: loads do not
    /// wait for them. See [`Loads::note_written`].
    written: Option<usize>,
    /// The last cold jobs were those of a list, so a search is next.
    search_is_next: bool,
    /// The last work was for a line of bodies, so the next work is for cold jobs.
    cold_is_next: bool,
    /// How much may be loaded for sessions.
    room: Room,
    /// A limit has changed, so bodies may have to leave the memory.
    trims: bool,
    stopping: bool,
}

/// What a thread does next.
#[derive(Debug)]
enum Work {
    /// Load bodies of one line.
    Line(Option<QueueId>, Vec<Load>),
    /// Load cold jobs.
    Cold(ColdLoad),
    /// Load the next piece of a queue ahead.
    Ahead(QueueId),
    /// End turns until all pages are swept.
    Trim,
}

impl State {
    fn take(&mut self) -> Option<Work> {
        // Bodies and cold jobs take turns, so that neither waits for all the others.
        // If a thread works for their queue now, the cold jobs come next when it has ended.
        if self.cold_is_next
            && !self.stopping
            && let Some(load) = self.next_cold()
        {
            self.cold_is_next = false;
            return Some(Work::Cold(load));
        }
        // A line that is busy is added again when its work ends.
        if self.may_load()
            && let Some(line) =
                std::iter::from_fn(|| self.next.pop_front()).find(|line| !self.busy.contains(line))
        {
            self.busy.insert(line);
            self.cold_is_next = true;
            return Some(Work::Line(line, self.take_line(line)));
        }
        if self.stopping {
            return None;
        }
        if let Some(load) = self.next_cold() {
            return Some(Work::Cold(load));
        }
        if std::mem::take(&mut self.trims) {
            return Some(Work::Trim);
        }
        if self.loads_ahead {
            return None;
        }
        let queue = *self.queues.iter().find(|queue| !self.busy.contains(&Some(**queue)))?;
        self.queues.remove(&queue);
        self.busy.insert(Some(queue));
        self.loads_ahead = true;
        Some(Work::Ahead(queue))
    }

    fn add(&mut self, load: Load) {
        let queue = load.queue;
        let line = self.lines.entry(queue).or_default();
        line.push_back(load);
        if line.len() == 1 && !self.busy.contains(&queue) {
            self.next.push_back(queue);
        }
    }

    /// Adds the bodies that rest to their lines again, if the rest is over. Returns how long it
    /// still is. `None`: nothing rests.
    fn end_rest(&mut self, now: Millis) -> Option<Duration> {
        if self.resting.is_empty() {
            return None;
        }
        let until = *self.rest_until.get_or_insert(Millis(now.0 + REST_MS));
        if now < until {
            return Some(Duration::from_millis(until.since(now)));
        }
        self.rest_until = None;
        for load in std::mem::take(&mut self.resting) {
            self.add(load);
        }
        None
    }

    fn add_cold(&mut self, load: ColdLoad) {
        match load {
            ColdLoad::Job(search) => {
                self.searches.insert(search.ticket, search);
            }
            ColdLoad::List(_) | ColdLoad::Lost(_) => self.lists.push_back(load),
            // The jobs of these sessions are there, so they do not wait for other loads.
            ColdLoad::Wake(_) => self.lists.push_front(load),
        }
    }

    /// The next cold jobs. Lists and searches take turns, so that neither waits for all the others.
    fn next_cold(&mut self) -> Option<ColdLoad> {
        if !self.may_load_cold() {
            // The jobs of these sessions are there already.
            let is_wake = matches!(self.lists.front(), Some(ColdLoad::Wake(_)));
            return if is_wake { self.lists.pop_front() } else { None };
        }
        let load = if self.search_is_next {
            self.next_search().or_else(|| self.next_list())
        } else {
            self.next_list().or_else(|| self.next_search())
        };
        self.search_is_next = !matches!(load, None | Some(ColdLoad::Job(_)));
        if !matches!(load, None | Some(ColdLoad::Wake(_))) {
            self.written = self.written.map(|_| 0);
        }
        load
    }

    /// Whether enough changed jobs were written again since the last load of cold jobs.
    fn may_load_cold(&self) -> bool {
        self.written.is_none_or(|written| written >= WRITTEN_PER_LOAD)
    }

    /// The first cold jobs whose queue no thread works for. Only a few are in front of them, because
    /// there are few threads.
    fn next_list(&mut self) -> Option<ColdLoad> {
        let is_free =
            |load: &ColdLoad| load.queue().is_none_or(|queue| !self.busy.contains(&Some(queue)));
        let load = self.lists.remove(self.lists.iter().position(is_free)?)?;
        self.busy.extend(load.queue().map(Some));
        Some(load)
    }

    /// The oldest search, if no thread searches now.
    fn next_search(&mut self) -> Option<ColdLoad> {
        if self.is_searching {
            return None;
        }
        let (_, search) = self.searches.pop_first()?;
        self.is_searching = true;
        Some(ColdLoad::Job(search))
    }

    /// The thread that loaded these cold jobs has finished.
    fn end_cold(&mut self, load: ColdLoad) {
        match load {
            ColdLoad::List(list) => self.end(Some(list.queue)),
            ColdLoad::Job(_) => self.is_searching = false,
            ColdLoad::Lost(_) | ColdLoad::Wake(_) => {}
        }
    }

    /// Whether bodies may be loaded for sessions now. When the loader ends, no report comes any
    /// more, so it loads what sessions still wait for.
    fn may_load(&self) -> bool {
        self.stopping || self.room.left().is_some()
    }

    /// The first bodies of a line.
    fn take_line(&mut self, line: Option<QueueId>) -> Vec<Load> {
        let bytes_max = self.room.left().map_or(0, |left| left.min(STEP_BYTES_MAX));
        let Some(loads) = self.lines.get_mut(&line) else { return Vec::new() };
        let (mut count, mut bytes) = (0, 0);
        while count < loads.len() && (count == 0 || bytes < bytes_max) {
            // Each load costs at least a part of a read.
            bytes += loads[count].bytes().max(1024);
            count += 1;
        }
        let taken: Vec<Load> = loads.drain(..count).collect();
        if loads.is_empty() {
            self.lines.remove(&line);
        }
        self.room.begin(taken.iter().map(Load::bytes).sum());
        taken
    }

    /// The thread that worked for this line has finished.
    fn end(&mut self, line: Option<QueueId>) {
        self.busy.remove(&line);
        // While nothing may be loaded for sessions, the line keeps its place in `next`.
        if self.lines.contains_key(&line) && !self.next.contains(&line) {
            self.next.push_back(line);
        }
    }
}

impl Loads {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes a thread.
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_one();
    }

    pub(crate) fn add(&self, load: Load) {
        self.change(|state| {
            state.room.want(load.bytes());
            state.add(load);
        });
    }

    /// Sets the limit of bodies that are being loaded, or that clients have not read yet.
    pub(crate) fn set_limit(&self, bytes_max: u64) {
        self.state().room.set_limit(bytes_max);
        self.changed.notify_all();
    }

    /// The clients of a mailbox have not read this number of bytes of loaded bodies.
    pub(crate) fn report_unread(&self, mailbox: u32, bytes: u64) {
        let mut state = self.state();
        state.room.report(mailbox, bytes);
        let goes_on = !state.next.is_empty() && state.may_load();
        drop(state);
        if goes_on {
            self.changed.notify_all();
        }
    }

    /// Whether clients that wait for bodies should request nothing more: see [`Room::is_exceeded`].
    /// Also while bodies rest, because an outbox does not count the loaded bodies behind them.
    pub(crate) fn are_many(&self) -> bool {
        let state = self.state();
        !state.resting.is_empty() || state.room.is_exceeded()
    }

    pub(crate) fn add_queue(&self, queue: QueueId) {
        self.change(|state| {
            state.queues.insert(queue);
        });
    }

    pub(crate) fn add_cold(&self, load: ColdLoad) {
        self.change(|state| state.add_cold(load));
    }

    /// Notes that so many changed jobs were just written again, at the limit of memory. 0: loads need not
    /// wait for such jobs now. Until then, there is one load of cold jobs for each [`WRITTEN_PER_LOAD`]
    /// of them. Otherwise clients could bring jobs into memory, and change them, faster than changed jobs
    /// can become cold.
    pub(crate) fn note_written(&self, jobs: usize) {
        let mut state = self.state();
        let waited = !state.may_load_cold();
        state.written = (jobs > 0).then(|| state.written.unwrap_or(0) + jobs);
        let goes_on = waited && state.may_load_cold();
        drop(state);
        if goes_on {
            self.changed.notify_all();
        }
    }

    /// Removes a search that no session waits for any more, if no thread has begun it.
    pub(crate) fn remove_search(&self, search: Search) {
        self.state().searches.remove(&search.ticket);
    }

    /// The next cold jobs to load, for a caller that is the only one.
    pub(crate) fn take_cold(&self) -> Option<ColdLoad> {
        let mut state = self.state();
        let list = state.lists.pop_front();
        list.or_else(|| state.searches.pop_first().map(|(_, search)| ColdLoad::Job(search)))
    }

    /// Lets the loader end turns until all pages are swept. Otherwise an idle server would keep its
    /// bodies above a new limit.
    pub(crate) fn wish_trim(&self) {
        self.change(|state| state.trims = true);
    }

    /// The next work, if there is any now.
    fn take(&self) -> Option<Work> {
        self.state().take()
    }

    /// Waits for the next work. Returns `None` if the thread must end. Then bodies that rest are
    /// not read: nobody waits for them any more.
    fn wait(&self, clock: &Clock) -> Option<Work> {
        let mut state = self.state();
        loop {
            let rest = state.end_rest(clock());
            match (state.take(), rest) {
                (None, _) if state.stopping => return None,
                (None, None) => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                (None, Some(rest)) => {
                    let waited = self.changed.wait_timeout(state, rest);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                (work, _) => return work,
            }
        }
    }

    fn stop(&self) {
        self.state().stopping = true;
        self.changed.notify_all();
    }
}

/// The threads that load bodies.
#[derive(Debug)]
pub(crate) struct Loader {
    loads: Arc<Loads>,
    threads: Vec<JoinHandle<()>>,
}

impl Loader {
    pub(crate) fn spawn(
        loads: &Arc<Loads>,
        shared: &Weak<Shared>,
        clock: &Clock,
    ) -> std::io::Result<Self> {
        let mut loader = Self { loads: loads.clone(), threads: Vec::new() };
        for _ in 0..THREADS {
            let (loads, shared, clock) = (loads.clone(), shared.clone(), clock.clone());
            let run = move || {
                let mut reader = BodyReader::default();
                while let Some(work) = loads.wait(&clock) {
                    let Some(shared) = shared.upgrade() else { return };
                    shared.work(work, &mut reader, clock());
                }
            };
            match std::thread::Builder::new().name("load".into()).spawn(run) {
                Ok(thread) => loader.threads.push(thread),
                Err(error) => {
                    loader.stop();
                    return Err(error);
                }
            }
        }
        Ok(loader)
    }

    pub(crate) fn stop(self) {
        self.loads.stop();
        for thread in self.threads {
            // A panic of the thread was already reported.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Loads bodies that sessions wait for, and the next bodies of their queues, until there is no
    /// more work. Returns whether there was work.
    pub(crate) fn load_step(&self, now: Millis) -> bool {
        let mut has_worked = false;
        self.repeat_loads(now);
        self.loads.state().end_rest(now);
        while let Some(work) = self.loads.take() {
            self.work(work, &mut self.reader(), now);
            has_worked = true;
        }
        has_worked
    }

    /// Loads bodies that sessions wait for. Returns whether there were any.
    pub(crate) fn load_for_sessions(
        &self,
        mut with_core: impl FnMut(&mut dyn FnMut(&mut Core)),
    ) -> bool {
        let line = {
            let mut state = self.loads.state();
            if !state.may_load() {
                return false;
            }
            let Some(line) = state.next.pop_front() else { return false };
            state.busy.insert(line);
            line
        };
        self.load_line(line, &mut self.reader(), &mut with_core);
        self.loads.change(|state| state.end(line));
        true
    }

    pub(crate) fn reader(&self) -> MutexGuard<'_, BodyReader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, work: Work, reader: &mut BodyReader, now: Millis) {
        let Some(log) = &self.log else { return };
        reader.close_below(log.first_segment());
        match work {
            Work::Line(line, loads) => {
                self.load(loads, reader, &mut |act| act(&mut self.turn(now).core));
                self.loads.change(|state| state.end(line));
            }
            Work::Ahead(queue) => {
                self.load_ahead(queue, log, reader, &mut |act| act(&mut self.turn(now).core));
                self.loads.change(|state| {
                    state.loads_ahead = false;
                    state.end(Some(queue));
                });
            }
            Work::Cold(load) => {
                self.load_cold(load, log, reader, &mut |act| act(&mut self.turn(now).core));
                self.loads.change(|state| state.end_cold(load));
            }
            // The end of each turn sweeps some pages.
            Work::Trim => while self.turn(now).core.is_trimming() {},
        }
    }

    /// Loads the first bodies of a line, if bodies may be loaded now.
    pub(crate) fn load_line(
        &self,
        line: Option<QueueId>,
        reader: &mut BodyReader,
        with_core: &mut WithCore<'_>,
    ) {
        let loads = {
            let mut state = self.loads.state();
            if state.may_load() { state.take_line(line) } else { Vec::new() }
        };
        self.load(loads, reader, with_core);
    }

    /// Loads bodies that sessions wait for.
    fn load(&self, mut loads: Vec<Load>, reader: &mut BodyReader, with_core: &mut WithCore<'_>) {
        // If only the loader has the body, the session has ended, or has let the body go.
        let dropped = loads.extract_if(.., |load| Arc::strong_count(&load.loading) <= 1);
        let dropped_bytes: u64 = dropped.map(|load| load.bytes()).sum();
        if dropped_bytes > 0 {
            self.loads.change(|state| state.room.end(dropped_bytes, None));
        }
        loads.sort_unstable_by_key(|load| (load.stored.segment, load.stored.entry_at));
        for loads in loads.chunk_by(|one, next| one.stored.segment == next.stored.segment) {
            for loads in loads.chunks(SLICE_BODIES) {
                self.load_slice(loads, reader, with_core);
            }
        }
        let (done, resting): (Vec<_>, Vec<_>) = loads.into_iter().partition(Load::is_done);
        for queue in done.iter().filter_map(|load| load.queue).collect::<BTreeSet<_>>() {
            self.loads.add_queue(queue);
        }
        if !resting.is_empty() {
            self.loads.change(|state| {
                state.room.pause(resting.iter().map(Load::bytes).sum());
                state.resting.extend(resting);
            });
        }
    }

    /// Loads bodies of one segment, in the order of their entries. If the segment cannot be opened
    /// for want of descriptors, does nothing.
    fn load_slice(&self, loads: &[Load], reader: &mut BodyReader, with_core: &mut WithCore<'_>) {
        let stored: Vec<_> = loads.iter().map(|load| load.stored).collect();
        let bodies = self.read_bodies(&stored, reader);
        let mut failed = Vec::new();
        for (load, body) in loads.iter().zip(&bodies) {
            match body {
                Ok(body) if body.len() == load.loading.len() => {
                    load.loading.finish(Some(body.clone()));
                }
                Ok(_) => failed.push(load),
                Err(error) if error.is_out_of_descriptors() => {}
                Err(error) => {
                    failed.push(load);
                    self.note_body_error(error);
                }
            }
        }
        // Bury the job before the failure becomes visible. An I/O thread that sees the failure
        // closes the connection, and the session would give the job back. Then another client would
        // get this job.
        for load in failed {
            if let Some((_, session)) = load.session {
                with_core(&mut |core| core.bury_unreadable(session, load.stored.id));
            }
            load.loading.finish(None);
        }
        let done: Vec<&Load> = loads.iter().filter(|load| load.is_done()).collect();
        self.loads.change(|state| {
            for load in &done {
                state.room.end(load.bytes(), load.session.map(|(mailbox, _)| mailbox));
            }
        });
        let sessions: BTreeSet<_> = done.iter().filter_map(|load| load.session).collect();
        let mailboxes = self.mailboxes.read().unwrap_or_else(PoisonError::into_inner);
        for (mailbox, session) in sessions {
            if let Some(mailbox) = mailboxes.get(mailbox as usize) {
                mailbox.loaded(session);
            }
        }
        drop(mailboxes);
        // A job that was peeked, or that comes back, is probably needed again.
        keep_loaded(&stored, &bodies, with_core);
    }

    /// Loads the next stored bodies of a queue, with one read or a few large reads.
    fn load_ahead(
        &self,
        queue: QueueId,
        log: &Log,
        reader: &mut BodyReader,
        with_core: &mut WithCore<'_>,
    ) {
        let mut piece = under_lock(with_core, |core| core.begin_ahead(queue));
        while under_lock(with_core, |core| core.look_ahead(queue, &mut piece, log)) {}
        piece.found.sort_unstable_by_key(|stored| (stored.segment, stored.entry_at));
        for wanted in piece.found.chunk_by(|one, next| one.segment == next.segment) {
            for wanted in wanted.chunks(SLICE_BODIES) {
                // Ignore errors, because no client waits for these bodies yet. When a client needs
                // such a body, the loader reads it again, and reports the error.
                let bodies = self.read_bodies(wanted, reader);
                keep_loaded(wanted, &bodies, with_core);
                // Sessions come first.
                self.load_line(Some(queue), reader, with_core);
            }
        }
    }

    /// Reads bodies of one segment, in the order of their entries. Jobs that were put together share
    /// an entry, and then also a body.
    fn read_bodies(
        &self,
        stored: &[StoredBody],
        reader: &mut BodyReader,
    ) -> Vec<Result<Body, Arc<BodyError>>> {
        let (Some(log), Some(first)) = (&self.log, stored.first()) else { return Vec::new() };
        let mut entries: Vec<u32> = stored.iter().map(|stored| stored.entry_at).collect();
        entries.dedup();
        let mut read = vec![None; entries.len()];
        reader.read(log, first.segment, &entries, |index, body| {
            read[index] = Some(body.map(Body::from).map_err(Arc::new));
        });
        let sharing = stored.chunk_by(|one, next| one.entry_at == next.entry_at);
        let bodies = sharing.zip(read).flat_map(|(sharing, body)| {
            let body = body.expect("the reader returns a result for each entry");
            std::iter::repeat_n(body, sharing.len())
        });
        bodies.collect()
    }

    /// Reads one body in the calling thread.
    pub(crate) fn read_body(&self, location: &Location) -> Option<Body> {
        let log = self.log.as_ref()?;
        let mut found = None;
        self.reader().read(log, location.log_slot.segment, &[location.entry_at], |_, body| {
            found = body.ok().map(Body::from);
        });
        found
    }

    fn note_body_error(&self, error: &Arc<BodyError>) {
        self.body_errors.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut first = self.body_error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| error.clone());
    }
}

/// Keeps these bodies in memory, as far as they were read.
fn keep_loaded(
    stored: &[StoredBody],
    bodies: &[Result<Body, Arc<BodyError>>],
    with_core: &mut WithCore<'_>,
) {
    for (stored, bodies) in stored.chunks(TURN_JOBS).zip(bodies.chunks(TURN_JOBS)) {
        under_lock(with_core, |core| {
            for (stored, body) in stored.iter().zip(bodies) {
                if let Ok(body) = body {
                    core.take_loaded(*stored, body.clone());
                }
            }
        });
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod turn_tests;
