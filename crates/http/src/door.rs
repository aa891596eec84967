//! The door: lets the handlers of a site use the broker, and wait for it without a thread of their
//! own.
//!
//! A handler makes its requests in short turns, and waits between them. It never waits while it has
//! a turn: a turn is not `Send`, and the compiler checks that no turn is held across an `await`.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::{
    Answer, Body, Broker, Caller, Clock, Event, Failure, JobBody, JobId, Mailbox, Millis, Need,
    Position, SessionId, Turn,
};
use tokio::sync::Notify;

/// Lets handlers use the broker and wait for it. All requests of a site share one door.
#[derive(Clone)]
pub struct Door {
    inner: Arc<Inner>,
}

struct Inner {
    broker: Broker,
    clock: Clock,
    inbox: Arc<Inbox>,
    mailbox: usize,
    /// The server ends: see [`Door::stop`].
    is_stopping: AtomicBool,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Door").field("mailbox", &self.inner.mailbox).finish_non_exhaustive()
    }
}

/// Why a handler does not get an answer.
#[derive(Clone, Debug)]
pub enum DoorError {
    /// The log has failed, and the process is about to end. Nobody knows whether the change is
    /// durable.
    LogFailed(Failure),
    /// A body or a cold job cannot be read from the log.
    Unreadable,
}

/// What a session can do.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum SessionKind {
    /// Puts, finishes, kicks, peeks and so on, but takes no job. It watches no queue.
    Reader,
    /// Can also take jobs. It watches the queue `default`, like a new client.
    Taker,
}

/// A session that ends when this value is dropped, for example because the client has gone. Its
/// jobs then return to their queues.
#[derive(Debug)]
pub struct DoorSession {
    door: Door,
    id: SessionId,
}

/// Lets other threads, and then other requests of the site, come first. A handler that takes one turn
/// after the other calls this between them. Without it, the history of all queues kept a processor
/// from I/O threads for 8 to 22 ms.
pub async fn between_turns() {
    std::thread::yield_now();
    tokio::task::yield_now().await;
}

/// The events of the door's sessions that no handler has taken yet.
#[derive(Debug, Default)]
struct Inbox {
    events: Mutex<HashMap<SessionId, VecDeque<Answer<Event>>>>,
    /// Something has changed that a handler may wait for. A site has few requests at a time, so one
    /// notice for all of them is enough.
    changed: Notify,
}

impl Inbox {
    fn events(&self) -> MutexGuard<'_, HashMap<SessionId, VecDeque<Answer<Event>>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mailbox for Inbox {
    fn deliver(&self, session: SessionId, event: Answer<Event>) {
        if let Some(events) = self.events().get_mut(&session) {
            events.push_back(event);
        }
        self.changed.notify_waiters();
    }

    fn loaded(&self, _session: SessionId) {
        self.changed.notify_waiters();
    }

    fn released(&self) {
        self.changed.notify_waiters();
    }

    fn alarm(&self, _at: Millis) {
        unreachable!("only the first mailbox gets alarms, and an I/O thread has that one");
    }
}

impl Door {
    /// Opens a door to this broker. The broker must already have the mailbox that gets its alarms.
    pub fn open(broker: Broker, clock: Clock) -> Door {
        let inbox = Arc::new(Inbox::default());
        let mailbox = broker.add_quiet_mailbox(inbox.clone());
        let is_stopping = AtomicBool::new(false);
        Door { inner: Arc::new(Inner { broker, clock, inbox, mailbox, is_stopping }) }
    }

    /// The server ends. Sessions that are dropped from now on keep their jobs, like those of other
    /// clients: the next start makes these jobs ready, and their attempts have not failed.
    pub fn stop(&self) {
        self.inner.is_stopping.store(true, Ordering::Release);
    }

    /// The broker, for what needs no turn.
    pub fn broker(&self) -> &Broker {
        &self.inner.broker
    }

    /// The engine's time.
    pub fn now(&self) -> Millis {
        (self.inner.clock)()
    }

    /// One turn of the broker. A handler that needs many turns uses [`Door::slices`], or calls
    /// [`between_turns`].
    pub fn turn(&self) -> Turn<'_> {
        self.inner.broker.turn(self.now())
    }

    /// Calls `step` in one turn after the other, each with a new slice of work, until it returns
    /// `Break`. `step` must return when [`Turn::slice_is_spent`]. Other requests of the site run
    /// between the turns.
    pub async fn slices<T>(&self, mut step: impl FnMut(&mut Turn<'_>) -> ControlFlow<T>) -> T {
        loop {
            let flow = {
                let mut turn = self.turn();
                turn.begin_slice();
                step(&mut turn)
            };
            match flow {
                ControlFlow::Break(result) => return result,
                ControlFlow::Continue(()) => between_turns().await,
            }
        }
    }

    /// Waits until a reply that is made from this answer can be sent: the log has everything that
    /// the answer depends on.
    pub async fn settled<T>(&self, answer: Answer<T>) -> Result<T, DoorError> {
        let Answer { value, after } = answer;
        self.settled_at(after).await?;
        Ok(value)
    }

    /// Waits until replies with this position can be sent.
    pub async fn settled_at(&self, after: Position) -> Result<(), DoorError> {
        let is_settled = || {
            after.is_reached(self.broker().released()) && self.broker().may_answer(|| self.now())
        };
        self.until(|| is_settled().then_some(())).await
    }

    /// Waits while the log is behind. Requests that put jobs call this first.
    pub async fn uncongested(&self) -> Result<(), DoorError> {
        self.until(|| (!self.broker().congested()).then_some(())).await
    }

    /// Opens a session.
    pub fn session(&self, kind: SessionKind) -> DoorSession {
        let mailbox = self.inner.mailbox;
        let mut turn = self.turn();
        let id = match kind {
            SessionKind::Reader => turn.open_reader_session(mailbox),
            SessionKind::Taker => turn.open_session(mailbox),
        };
        self.inner.inbox.events().insert(id, VecDeque::new());
        DoorSession { door: self.clone(), id }
    }

    /// Waits until `check` returns a value. Checks again after each change.
    async fn until<T>(&self, mut check: impl FnMut() -> Option<T>) -> Result<T, DoorError> {
        loop {
            // A change after the check wakes this future, because it is enabled before.
            let mut changed = std::pin::pin!(self.inner.inbox.changed.notified());
            changed.as_mut().enable();
            if let Some(value) = check() {
                return Ok(value);
            }
            if let Some(failure) = self.broker().failure() {
                return Err(DoorError::LogFailed(failure));
            }
            changed.await;
        }
    }
}

impl DoorSession {
    /// The number of the session, for [`Turn::caller`].
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Waits for the next event of the session.
    pub async fn event(&self) -> Result<Answer<Event>, DoorError> {
        let inbox = &self.door.inner.inbox;
        self.door.until(|| inbox.events().get_mut(&self.id)?.pop_front()).await
    }

    /// Waits until the job with this number is in memory, if it exists.
    pub async fn job_at_hand(&self, id: JobId) -> Result<(), DoorError> {
        self.until_loaded(|turn| turn.caller(self.id).is_job_at_hand(id).then_some(())).await
    }

    /// Makes a request when the jobs that it needs are in memory: see [`Caller::is_at_hand`]. Both
    /// happen in one turn. Between two turns, other sessions could take these jobs, and then the
    /// request would not see the next ones.
    pub async fn when_at_hand<T>(
        &self,
        need: Need<'_>,
        mut request: impl FnMut(&mut Caller<'_>) -> T,
    ) -> Result<T, DoorError> {
        self.until_loaded(|turn| {
            let mut caller = turn.caller(self.id);
            if caller.is_at_hand(need) { Some(request(&mut caller)) } else { None }
        })
        .await
    }

    /// Repeats this step until it returns a value. Waits for a load after each step without one.
    async fn until_loaded<T>(
        &self,
        mut step: impl FnMut(&mut Turn<'_>) -> Option<T>,
    ) -> Result<T, DoorError> {
        let mut look = || {
            let mut turn = self.door.turn();
            turn.begin_slice();
            step(&mut turn)
        };
        loop {
            if let Some(value) = look() {
                return Ok(value);
            }
            match self.event().await?.value {
                Event::Loaded => {}
                Event::Unreadable => return Err(DoorError::Unreadable),
                other => unreachable!("the session waits for a load: {other:?}"),
            }
        }
    }

    /// Waits until a body is in memory.
    pub async fn loaded(&self, body: &JobBody) -> Result<Body, DoorError> {
        let loaded = self.door.until(|| {
            if let Some(body) = body.resident() {
                return Some(Ok(body.clone()));
            }
            let has_failed = matches!(body, JobBody::Loading(loading) if loading.has_failed());
            has_failed.then_some(Err(DoorError::Unreadable))
        });
        loaded.await?
    }
}

impl Drop for DoorSession {
    fn drop(&mut self) {
        if self.door.inner.is_stopping.load(Ordering::Acquire) {
            return;
        }
        self.door.turn().close_session(self.id);
        self.door.inner.inbox.events().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use broker::{NewJob, Options, Patience, State, Take};
    use tokio::runtime::Builder;

    use super::*;

    const NOW: Millis = Millis(1_000_000);

    struct Deaf;

    impl Mailbox for Deaf {
        fn deliver(&self, _session: SessionId, _event: Answer<Event>) {}
        fn released(&self) {}
        fn alarm(&self, _at: Millis) {}
    }

    fn open(disk: &log::FaultDisk) -> Door {
        let options = Options::without_threads(Arc::new(disk.clone()), log::Settings::default());
        let (broker, _) = Broker::open(options, NOW).expect("the log is whole");
        broker.add_mailbox(Arc::new(Deaf));
        Door::open(broker, Arc::new(|| NOW))
    }

    fn put(door: &Door, session: &DoorSession) -> Answer<JobId> {
        let put = door.turn().caller(session.id()).put(NewJob::default(), b"x"[..].into());
        put.map(|put| put.expect("there is room"))
    }

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(future)
    }

    #[test]
    fn a_put_is_answered_after_its_commit() {
        let door = open(&log::FaultDisk::new(1, 64 << 20));
        let session = door.session(SessionKind::Reader);
        let mut settled = pin!(door.settled(put(&door, &session)));
        assert!(poll(settled.as_mut()).is_pending());
        door.broker().commit_step(NOW).expect("the disk works");
        assert!(matches!(poll(settled.as_mut()), Poll::Ready(Ok(_))));
    }

    #[test]
    fn many_waiters_are_answered_by_one_commit() {
        let door = open(&log::FaultDisk::new(1, 64 << 20));
        let session = door.session(SessionKind::Reader);
        let answers: Vec<_> = (0..1000).map(|_| put(&door, &session)).collect();
        run(async {
            let waiting = answers.into_iter().map(|answer| {
                let door = door.clone();
                tokio::spawn(async move { door.settled(answer).await.is_ok() })
            });
            let waiting: Vec<_> = waiting.collect();
            tokio::task::yield_now().await;
            assert!(waiting.iter().all(|waiter| !waiter.is_finished()));
            door.broker().commit_step(NOW).expect("the disk works");
            for waiter in waiting {
                assert!(waiter.await.expect("no panic"));
            }
        });
    }

    #[test]
    fn a_waiter_learns_that_the_log_has_failed() {
        let disk = log::FaultDisk::new(1, 64 << 20);
        let door = open(&disk);
        let session = door.session(SessionKind::Reader);
        let mut settled = pin!(door.settled(put(&door, &session)));
        assert!(poll(settled.as_mut()).is_pending());
        disk.fail_at(disk.calls() + 1);
        door.broker().commit_step(NOW).expect_err("the disk fails");
        assert!(matches!(poll(settled.as_mut()), Poll::Ready(Err(DoorError::LogFailed(_)))));
    }

    #[test]
    fn a_session_that_is_dropped_gives_its_job_back() {
        let door = open(&log::FaultDisk::new(1, 64 << 20));
        let producer = door.session(SessionKind::Reader);
        let taker = door.session(SessionKind::Taker);
        let take = door.turn().caller(taker.id()).take(Patience::Endless);
        assert!(matches!(take.value, Take::Waiting));
        let mut event = Box::pin(taker.event());
        assert!(poll(event.as_mut()).is_pending());
        let put = put(&door, &producer);
        let granted = match poll(event.as_mut()) {
            Poll::Ready(Ok(Answer { value: Event::Granted(handout), .. })) => handout.id,
            other => panic!("not a job: {other:?}"),
        };
        assert_eq!(granted, put.value);
        let state = || door.turn().job_status(granted).value.expect("it exists").facts.state;
        assert_eq!(state(), State::Leased);
        drop(event);
        drop(taker);
        assert_eq!(state(), State::Ready);
    }

    #[test]
    fn the_end_of_the_server_ends_no_lease() {
        let door = open(&log::FaultDisk::new(1, 64 << 20));
        let session = door.session(SessionKind::Taker);
        let id = put(&door, &session).value;
        let take = door.turn().caller(session.id()).take(Patience::None);
        assert!(matches!(take.value, Take::Granted(_)), "{take:?}");
        door.stop();
        drop(session);
        let facts = door.turn().job_status(id).value.expect("it exists").facts;
        assert_eq!(facts.state, State::Leased);
    }

    #[test]
    fn a_session_that_takes_no_jobs_can_change_them() {
        let door = open(&log::FaultDisk::new(1, 64 << 20));
        let session = door.session(SessionKind::Reader);
        let id = put(&door, &session).value;
        let mut turn = door.turn();
        assert!(turn.caller(session.id()).peek(id).value.is_ok());
        assert!(turn.caller(session.id()).finish(id).value.is_ok());
        assert!(turn.caller(session.id()).peek(id).value.is_err());
        let watchers = turn.queue_stats(b"default").map(|stats| stats.watchers);
        assert_eq!(watchers, Some(0), "the session watches no queue");
    }

    #[test]
    fn slices_end_with_the_result_of_the_last_one() {
        let door = open(&log::FaultDisk::new(1, 64 << 20));
        let mut left = 3;
        let result = run(door.slices(|turn| {
            assert!(!turn.slice_is_spent());
            left -= 1;
            if left == 0 { ControlFlow::Break("done") } else { ControlFlow::Continue(()) }
        }));
        assert_eq!((result, left), ("done", 0));
    }
}
