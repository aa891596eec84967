//! The loader: a thread that reads stored bodies from the log. It loads bodies that sessions wait
//! for, and bodies of jobs that will be taken soon. It does not hold the broker's lock while it
//! reads.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use engine::{Body, JobId, Loading, Millis, QueueId, SessionId};
use log::{BodyError, Log, SegmentHold};

use crate::Clock;
use crate::bodies::Ahead;
use crate::broker::Shared;
use crate::core::Core;
use crate::ledger::locations::Location;

/// One step loads at most this many bodies for sessions.
const STEP_BODIES_MAX: usize = 1024;
/// The loader stores at most this many bodies in one turn. Then other threads can get the broker's
/// lock.
const SLICE_BODIES: usize = 256;

/// A body that a session waits for.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) loading: Arc<Loading>,
    pub(crate) segment: u32,
    pub(crate) entry_at: u32,
    /// Keeps the segment's file until this load ends, even if the job ends before.
    pub(crate) _hold: Option<SegmentHold>,
    /// The queue to load ahead afterwards.
    pub(crate) queue: Option<QueueId>,
    /// The mailbox of the session that waits, and this session.
    pub(crate) session: Option<(u32, SessionId)>,
    pub(crate) id: JobId,
}

/// The bodies that the loader must load, and the queues that it must load ahead.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bodies: Vec<Load>,
    queues: BTreeSet<QueueId>,
    /// A limit has changed, so bodies may have to leave the memory.
    trims: bool,
    /// There may be work that the thread has not seen yet.
    changed: bool,
    stopping: bool,
}

impl Loads {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, load: Load) {
        let mut state = self.state();
        state.bodies.push(load);
        state.changed = true;
        drop(state);
        self.changed.notify_one();
    }

    pub(crate) fn add_queue(&self, queue: QueueId) {
        let mut state = self.state();
        state.changed |= state.queues.insert(queue);
        drop(state);
        self.changed.notify_one();
    }

    /// Lets the loader end turns until all pages are swept. Otherwise an idle server would keep its
    /// bodies above a new limit.
    pub(crate) fn wish_trim(&self) {
        let mut state = self.state();
        (state.trims, state.changed) = (true, true);
        drop(state);
        self.changed.notify_one();
    }

    fn take_trim(&self) -> bool {
        std::mem::take(&mut self.state().trims)
    }

    fn take_bodies(&self) -> Vec<Load> {
        let mut state = self.state();
        let count = state.bodies.len().min(STEP_BODIES_MAX);
        state.bodies.drain(..count).collect()
    }

    fn take_queues(&self) -> BTreeSet<QueueId> {
        std::mem::take(&mut self.state().queues)
    }

    /// Waits until there is work. Returns false if the thread must end.
    fn wait(&self) -> bool {
        let mut state = self.state();
        while !state.changed && !state.stopping {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.changed = false;
        !state.stopping
    }

    fn stop(&self) {
        self.state().stopping = true;
        self.changed.notify_all();
    }
}

/// The thread that loads bodies.
#[derive(Debug)]
pub(crate) struct Loader {
    loads: Arc<Loads>,
    thread: JoinHandle<()>,
}

impl Loader {
    pub(crate) fn spawn(
        loads: Arc<Loads>,
        shared: Weak<Shared>,
        clock: Clock,
    ) -> std::io::Result<Self> {
        let waiting = loads.clone();
        let thread = std::thread::Builder::new().name("load".into()).spawn(move || {
            while waiting.wait() {
                let Some(shared) = shared.upgrade() else { return };
                while shared.load_step(clock()) {}
            }
        })?;
        Ok(Self { loads, thread })
    }

    pub(crate) fn stop(self) {
        self.loads.stop();
        // A panic of the thread was already reported.
        let _ = self.thread.join();
    }
}

impl Shared {
    /// Loads bodies that sessions wait for, then the next bodies of their queues. Returns whether
    /// there was work.
    pub(crate) fn load_step(&self, now: Millis) -> bool {
        let Some(log) = &self.log else { return false };
        let has_loaded = self.load_for_sessions(|act| act(&mut self.turn(now).core));
        let queues = self.loads.take_queues();
        for queue in &queues {
            self.load_ahead(*queue, log, now);
        }
        let trims = self.loads.take_trim();
        // The end of each turn sweeps some pages.
        while trims && self.turn(now).core.is_trimming() {}
        has_loaded || trims || !queues.is_empty()
    }

    /// Loads bodies that sessions wait for. Returns whether there were any. If a body cannot be
    /// read, calls `with_core`, which must take the broker's lock and call its argument.
    pub(crate) fn load_for_sessions(
        &self,
        mut with_core: impl FnMut(&mut dyn FnMut(&mut Core)),
    ) -> bool {
        let Some(log) = &self.log else { return false };
        let mut loads = self.loads.take_bodies();
        if loads.is_empty() {
            return false;
        }
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        reader.close_below(log.first_segment());
        let mut failed = Vec::new();
        loads.sort_unstable_by_key(|load| (load.segment, load.entry_at));
        for loads in loads.chunk_by(|one, next| one.segment == next.segment) {
            let entries: Vec<u32> = loads.iter().map(|load| load.entry_at).collect();
            reader.read(log, loads[0].segment, &entries, |index, body| {
                let load = &loads[index];
                match body {
                    Ok(body) if body.len() == load.loading.len() => {
                        load.loading.finish(Some(body.into()));
                    }
                    Ok(_) => failed.push(load),
                    Err(error) => {
                        failed.push(load);
                        self.note_body_error(error);
                    }
                }
            });
        }
        drop(reader);
        // Bury the job before the failure becomes visible. An I/O thread that sees the failure
        // closes the connection, and the session would give the job back. Then another client would
        // get this job.
        for load in failed {
            if let Some((_, session)) = load.session {
                with_core(&mut |core| core.bury_unreadable(session, load.id));
            }
            load.loading.finish(None);
        }
        for queue in loads.iter().filter_map(|load| load.queue) {
            self.loads.add_queue(queue);
        }
        let sessions: BTreeSet<_> = loads.iter().filter_map(|load| load.session).collect();
        let mailboxes = self.mailboxes.read().unwrap_or_else(PoisonError::into_inner);
        for (mailbox, session) in sessions {
            if let Some(mailbox) = mailboxes.get(mailbox as usize) {
                mailbox.loaded(session);
            }
        }
        true
    }

    /// Loads the next stored bodies of a queue, with one read or a few large reads.
    fn load_ahead(&self, queue: QueueId, log: &Log, now: Millis) {
        let (mut wanted, _holds) = self.turn(now).core.next_stored(queue, log);
        let Some(middle) = wanted.get(wanted.len() / 2).map(|ahead| ahead.id) else { return };
        wanted.sort_unstable_by_key(|ahead| (ahead.segment, ahead.entry_at));
        let mut loaded: Vec<(&Ahead, Body)> = Vec::with_capacity(wanted.len());
        for wanted in wanted.chunk_by(|one, next| one.segment == next.segment) {
            let entries: Vec<u32> = wanted.iter().map(|ahead| ahead.entry_at).collect();
            let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            reader.read(log, wanted[0].segment, &entries, |index, body| {
                // Ignore an error, because no client waits for this body yet. When a client needs
                // the body, the loader reads it again, and reports the error.
                if let Ok(body) = body {
                    loaded.push((&wanted[index], body.into()));
                }
            });
        }
        let mut loaded = loaded.into_iter().peekable();
        while loaded.peek().is_some() {
            let mut turn = self.turn(now);
            for (ahead, body) in loaded.by_ref().take(SLICE_BODIES) {
                turn.core.take_loaded(ahead, body);
            }
            turn.core.set_ahead(queue, middle);
        }
    }

    /// Reads one body in the calling thread.
    pub(crate) fn read_body(&self, location: &Location) -> Option<Body> {
        let log = self.log.as_ref()?;
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        reader.read(log, location.log_slot.segment, &[location.entry_at], |_, body| {
            found = body.ok().map(Body::from);
        });
        found
    }

    fn note_body_error(&self, error: BodyError) {
        self.body_errors.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut first = self.body_error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| Arc::new(error));
    }
}
