//! The durable queue inside a program of your own: blocking calls, no server, no protocol.
//!
//! ```
//! use std::time::Duration;
//! use lineshaft_broker::embedded::{Store, Wait};
//! use lineshaft_broker::NewJob;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::in_memory();
//! let mut session = store.session();
//! let id = session.put("mail", NewJob::default(), b"hello")?;
//! let job = session.take(&["mail"], Wait::For(Duration::from_secs(1)))?.expect("just put");
//! assert_eq!((job.id, &job.body[..]), (id, &b"hello"[..]));
//! session.finish(job.id)?;
//! # Ok(())
//! # }
//! ```
//!
//! Delays, deadlines and waits use a clock that nobody can set. It stops while the machine sleeps.

// Code below the server must not read a clock or wait. This module is the only exception, because a
// program that embeds the broker has no server.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use engine::limits::QUEUE_NAME_BYTES_MAX;
use engine::policy::Rules;
use engine::{
    EngineSetup, ItemStats, JobBody, JobId, JobStatus, Millis, Patience, QueueStats, SessionId,
};
use log::{Failure, PosixDisk, Settings};

use crate::{
    Answer, Body, Broker, BrokerError, Clearing, Clock, Event, HEAD_JOBS, Mailbox, NotFound,
    Options, Peeked, PutRefusal, Refusal, Turn,
};

mod queue;
mod session;

pub use queue::{Item, Queue};
pub use session::{Job, Session};

/// Why a call on a [`Session`] failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The job or queue does not exist, or the job has the wrong state or holder for the call.
    #[error("no such job for this call")]
    NotFound,
    /// The disk is full, or a limit of the log's size or of memory is reached. Finish jobs, or make
    /// room.
    #[error("no room; finish jobs, free disk space, or raise the limit that is reached")]
    Full,
    /// The queue's policy or the store's status forbids the call.
    #[error("the queue's policy or the store's status forbids it")]
    Refused,
    /// The queue name is too long; nothing was done.
    #[error("the queue name has {0} bytes, more than {QUEUE_NAME_BYTES_MAX}")]
    NameTooLong(usize),
    /// The body of the job cannot be read from the log. [`Broker::body_error`] has the reason.
    #[error("the body of the job cannot be read from the log")]
    Unreadable,
    /// The log failed, so nothing can become durable any more. Close the store and open it again.
    #[error("the log failed and accepts nothing more: {0}")]
    Failed(Failure),
}

impl From<NotFound> for Error {
    fn from(NotFound: NotFound) -> Self {
        Self::NotFound
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound => Self::NotFound,
            Refusal::LogFull | Refusal::MemoryFull => Self::Full,
        }
    }
}

impl From<PutRefusal> for Error {
    fn from(refusal: PutRefusal) -> Self {
        match refusal {
            PutRefusal::LogFull
            | PutRefusal::MemoryFull
            | PutRefusal::JobsFull
            | PutRefusal::NoNewQueue => Self::Full,
            PutRefusal::QueueFull
            | PutRefusal::TooBig
            | PutRefusal::Duplicate
            | PutRefusal::WritesBlocked
            | PutRefusal::Draining => Self::Refused,
        }
    }
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder cannot be used.
    #[error("cannot use {folder}: {error}")]
    Folder {
        /// The folder.
        folder: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The folder's content cannot be used.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

/// A set of queues in a folder, or in memory.
#[derive(Debug)]
pub struct Store {
    broker: Broker,
    clock: SharedClock,
    inbox: Arc<EventInbox>,
    mailbox: usize,
    timer: Option<JoinHandle<()>>,
}

/// How long a call waits for a job or an item.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Wait {
    /// Not at all.
    No,
    /// At most this long.
    For(Duration),
    /// Until there is a job or an item.
    Forever,
}

impl Wait {
    fn patience(self) -> Patience {
        match self {
            Self::No => Patience::None,
            Self::For(time) => Patience::of_millis(time.as_millis() as u64),
            Self::Forever => Patience::Endless,
        }
    }
}

#[derive(Clone)]
struct SharedClock(Clock);

impl std::fmt::Debug for SharedClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

/// The mailbox for events and alarms.
#[derive(Debug, Default)]
struct EventInbox {
    inner: Mutex<InboxState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct InboxState {
    events: BTreeMap<SessionId, Answer<Event>>,
    alarm: Option<Millis>,
    closing: bool,
}

impl EventInbox {
    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut InboxState)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn wait<'a>(&self, guard: MutexGuard<'a, InboxState>) -> MutexGuard<'a, InboxState> {
        self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mailbox for EventInbox {
    fn deliver(&self, session: SessionId, event: Answer<Event>) {
        self.change(|inbox| drop(inbox.events.insert(session, event)));
    }

    fn loaded(&self, _session: SessionId) {
        self.change(|_| {});
    }

    fn released(&self) {
        self.change(|_| {});
    }

    fn alarm(&self, at: Millis) {
        self.change(|inbox| inbox.alarm = Some(at));
    }
}

impl SharedClock {
    /// A clock that begins at the wall clock's time, and then follows the monotonic clock.
    fn start() -> Self {
        let start_ms = wall().0;
        let begun = Instant::now();
        Self(Arc::new(move || Millis(start_ms + begun.elapsed().as_millis() as u64)))
    }

    /// The same clock, moved by `step_ms`.
    fn moved(self, step_ms: i64) -> Self {
        Self(Arc::new(move || Millis((self.0)().0.saturating_add_signed(step_ms))))
    }
}

/// Checks a name, because the engine relies on valid names.
fn check_name(name: &[u8]) -> Result<&[u8], Error> {
    if name.len() > QUEUE_NAME_BYTES_MAX { Err(Error::NameTooLong(name.len())) } else { Ok(name) }
}

/// The setup of the engine. The standard library draws the hash seed from system randomness.
fn setup() -> EngineSetup {
    EngineSetup { hash_seed: RandomState::new().hash_one(0), ..EngineSetup::default() }
}

impl Store {
    /// Opens the folder, or creates a store in it. Every call returns when its change is on stable
    /// storage. Only one process at a time can open a folder.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(folder, Settings::default())
    }

    /// Like [`Store::open`], with settings of the log, such as its durability and size.
    pub fn open_with(folder: impl AsRef<Path>, log: Settings) -> Result<Self, StoreError> {
        let folder = folder.as_ref();
        let disk = PosixDisk::new(folder)
            .map_err(|error| StoreError::Folder { folder: folder.display().to_string(), error })?;
        let clock = SharedClock::start();
        let options = Options {
            cluster: None,
            disk: Arc::new(disk),
            log,
            engine: setup(),
            clock: Some(clock.0.clone()),
            bodies_bytes_max: None,
            on_progress: None,
            jobs_bytes_max: None,
            head_jobs: HEAD_JOBS,
        };
        let (broker, _) = Broker::open(options, (clock.0)())?;
        let clock = clock.moved(broker.clock_step_ms());
        Self::over(broker, clock).map_err(|error| BrokerError::Thread(error).into())
    }

    /// Creates a store without a folder. Its jobs are only in memory, so they are lost when the
    /// process ends.
    pub fn in_memory() -> Self {
        let clock = SharedClock::start();
        let broker = Broker::memory(setup(), (clock.0)());
        Self::over(broker, clock).expect("the system has a thread left for the timer")
    }

    fn over(broker: Broker, clock: SharedClock) -> std::io::Result<Self> {
        let inbox = Arc::new(EventInbox::default());
        let mailbox = broker.add_mailbox(inbox.clone());
        let timer = std::thread::Builder::new().name("queue timer".into()).spawn({
            let (broker, clock, inbox) = (broker.clone(), clock.clone(), inbox.clone());
            move || run_timer(&broker, &clock, &inbox)
        })?;
        Ok(Self { broker, clock, inbox, mailbox, timer: Some(timer) })
    }

    /// A new user of the store.
    pub fn session(&self) -> Session<'_> {
        let id = self.turn().open_session(self.mailbox);
        Session { store: self, id, watched: session::Watched::default() }
    }

    /// A handle on one queue. Its items are read in the order in which they were added.
    pub fn queue(&self, name: &str) -> Queue<'_> {
        let session = self.turn().open_reader_session(self.mailbox);
        Queue::new(self, session, name)
    }

    /// Sets the policies, for example limits of queues, the age at which items expire, and which
    /// queues get copies. The log stores the policies with the jobs.
    ///
    /// # Panics
    ///
    /// If the rules do not pass [`Rules::check`].
    pub fn set_policies(&self, rules: Rules) -> Result<(), Error> {
        rules.check().expect("the rules pass their check");
        let set = self.turn().set_policies(rules);
        self.wait_released(set)
    }

    /// Limits the memory of jobs, queues and sessions, in bytes. `None` means no limit. From now
    /// on, a put that would exceed the limit fails with [`Error::Full`]. Existing jobs stay.
    pub fn set_memory_limit(&self, limit_bytes: Option<u64>) {
        self.broker.set_memory_limit(limit_bytes);
    }

    /// Sets the limit of memory for the bodies of jobs in the log. `None`, the default, means no
    /// limit. Above the limit, some bodies leave the memory, and are then only in the log. A call
    /// that needs such a body waits until it was read.
    pub fn set_bodies_limit(&self, bytes_max: Option<u64>) {
        self.broker.set_bodies_limit(bytes_max);
    }

    /// Removes a queue with all its jobs, and ends all waits for its items.
    pub fn remove_queue(&self, name: &str) -> Result<(), Error> {
        let session = self.turn().open_reader_session(self.mailbox);
        let removal = self.turn().caller(session).remove_queue(name.as_bytes());
        let removed = self.finish_clearing(session, removal);
        self.end(session);
        removed
    }

    /// Waits until a flush or a removal is done.
    fn finish_clearing(&self, session: SessionId, answer: Answer<Clearing>) -> Result<(), Error> {
        let done = match answer.value {
            Clearing::Done => answer.map(|_| ()),
            Clearing::Waiting => self.event_for(session)?.map(|event| match event {
                Event::Cleared => {}
                other => unreachable!("who clears a queue waits for nothing else: {other:?}"),
            }),
        };
        self.wait_released(done)
    }

    /// The sorted names of queues that were used through [`Store::queue`] or by a Kestrel client.
    pub fn item_queues(&self) -> Vec<String> {
        let turn = self.turn();
        let names = turn.item_queues();
        names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    /// Statistics of one of the queues of [`Store::item_queues`], if it exists.
    pub fn item_stats(&self, queue: &str) -> Option<ItemStats> {
        self.turn().item_stats(queue.as_bytes())
    }

    /// Statistics of a queue, if it exists.
    pub fn stats(&self, queue: &str) -> Option<QueueStats> {
        self.turn().queue_stats(queue.as_bytes())
    }

    /// The status of a job in any queue.
    pub fn job(&self, id: JobId) -> Result<JobStatus, Error> {
        let status = self.turn().job_status(id);
        Ok(self.wait_released(status)??)
    }

    /// Looks at a job in any state and any queue.
    pub fn peek(&self, id: JobId) -> Result<Job, Error> {
        let peeked = {
            let mut turn = self.turn();
            let session = turn.open_reader_session(self.mailbox);
            let peeked = turn.caller(session).peek(id);
            turn.close_session(session);
            peeked
        };
        self.wait_peeked(peeked)
    }

    fn wait_peeked(&self, peeked: Answer<Result<Peeked, NotFound>>) -> Result<Job, Error> {
        let Peeked { id, body } = self.wait_released(peeked)??;
        Ok(Job { id, body: self.wait_loaded(&body)? })
    }

    /// Stops the store cleanly. Dropping the store also stops it, but cannot report an error.
    pub fn close(mut self) -> Result<(), Failure> {
        self.stop()
    }

    fn stop(&mut self) -> Result<(), Failure> {
        let Some(timer) = self.timer.take() else { return Ok(()) };
        self.inbox.change(|inbox| inbox.closing = true);
        // A panic of the timer was already reported.
        let _ = timer.join();
        self.broker.close((self.clock.0)())
    }

    fn turn(&self) -> Turn<'_> {
        let (now, wall) = ((self.clock.0)(), wall());
        let mut turn = self.broker.turn(now);
        turn.set_wall(now, wall);
        turn
    }

    /// Waits until the log is no longer behind. A log that is behind can temporarily lack room, and
    /// could then refuse the next put.
    fn wait_while_congested(&self) {
        let mut guard = self.inbox.lock();
        while self.broker.congested() && self.broker.failure().is_none() {
            guard = self.inbox.wait(guard);
        }
    }

    /// Waits for the next event of a session.
    fn event_for(&self, session: SessionId) -> Result<Answer<Event>, Error> {
        let mut guard = self.inbox.lock();
        loop {
            if let Some(event) = guard.events.remove(&session) {
                return Ok(event);
            }
            if let Some(failure) = self.broker.failure() {
                return Err(Error::Failed(failure));
            }
            guard = self.inbox.wait(guard);
        }
    }

    /// Waits until a body is in memory.
    fn wait_loaded(&self, body: &JobBody) -> Result<Body, Error> {
        let mut guard = self.inbox.lock();
        loop {
            if let Some(body) = body.resident() {
                return Ok(body.clone());
            }
            if matches!(body, JobBody::Loading(loading) if loading.has_failed()) {
                return Err(Error::Unreadable);
            }
            guard = self.inbox.wait(guard);
        }
    }

    /// Ends a session, and gives back the jobs it holds.
    fn end(&self, session: SessionId) {
        self.turn().close_session(session);
        self.inbox.change(|inbox| drop(inbox.events.remove(&session)));
    }

    /// Waits until the log has released the position of an answer, and returns its value.
    fn wait_released<T>(&self, answer: Answer<T>) -> Result<T, Error> {
        let mut guard = self.inbox.lock();
        while !answer.after.is_reached(self.broker.released()) {
            if let Some(failure) = self.broker.failure() {
                return Err(Error::Failed(failure));
            }
            guard = self.inbox.wait(guard);
        }
        Ok(answer.value)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // `drop` cannot return an error. A caller that needs the error calls `close`.
        let _ = self.stop();
    }
}

/// The wall clock.
fn wall() -> Millis {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Millis(since_epoch.map_or(0, |since| since.as_millis() as u64))
}

/// Takes a turn whenever the engine has due work.
fn run_timer(broker: &Broker, clock: &SharedClock, inbox: &EventInbox) {
    let mut guard = inbox.lock();
    while !guard.closing {
        let now = (clock.0)();
        match guard.alarm {
            Some(at) if at <= now => {
                guard.alarm = None;
                drop(guard);
                while broker.turn((clock.0)()).advance() {}
                guard = inbox.lock();
            }
            Some(at) => {
                let rest = Duration::from_millis(at.since(now));
                guard = inbox
                    .changed
                    .wait_timeout(guard, rest)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            None => guard = inbox.wait(guard),
        }
    }
}
