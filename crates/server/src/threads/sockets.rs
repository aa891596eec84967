//! The sockets of one I/O thread, in an event queue of the kernel (epoll) of its own. The thread
//! sleeps in this queue: until a socket is ready, until another thread wakes it, or for a time.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

/// The kernel passes at most this many events at once. In tests, few descriptors must be enough for
/// more.
const EVENTS_MAX: usize = if cfg!(test) { 64 } else { 1024 };
/// The token of wake-ups. No connection has such a place.
const WAKE_UP: Token = Token(usize::MAX);

/// What the kernel has reported about a socket.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Readiness {
    /// There may be bytes to read, or their end.
    pub(crate) readable: bool,
    /// There may be room for bytes to send, or sending fails.
    pub(crate) writable: bool,
    /// The peer sends no further bytes.
    pub(crate) ended: bool,
}

impl Readiness {
    fn of(event: &Event) -> Readiness {
        let ended = event.is_read_closed();
        Readiness {
            readable: event.is_readable() || ended,
            writable: event.is_writable() || event.is_write_closed(),
            ended,
        }
    }
}

/// The sockets of a thread, each with the place of its connection.
pub(crate) struct Sockets {
    queue: Poll,
    /// The events that the kernel has passed, until `take`.
    events: Events,
    /// `events` has some.
    has_events: bool,
    /// The queue had more events than it could pass at once.
    has_more: bool,
}

/// Wakes a thread that sleeps in its queue.
struct QueueWaker(mio::Waker);

impl Wake for QueueWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake().expect("the kernel takes a number that is not full");
    }
}

impl Sockets {
    /// No sockets.
    pub(crate) fn new() -> io::Result<Sockets> {
        let (queue, events) = (Poll::new()?, Events::with_capacity(EVENTS_MAX));
        Ok(Sockets { queue, events, has_events: false, has_more: false })
    }

    /// Ends a sleep in this queue, or the next one. Must be called once. The queue forgets the waker
    /// when its last clone is dropped.
    pub(crate) fn waker(&self) -> io::Result<Waker> {
        let waker = mio::Waker::new(self.queue.registry(), WAKE_UP)?;
        Ok(Arc::new(QueueWaker(waker)).into())
    }

    /// Adds a socket. The kernel reports at once whether it is ready, and later each change. Its
    /// owner removes it by closing it, so nobody may duplicate it.
    pub(crate) fn add(&self, socket: &OwnedFd, place: u32) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        let socket = socket.as_raw_fd();
        self.queue.registry().register(&mut SourceFd(&socket), Token(place as usize), interest)
    }

    /// Gets the events that have come. Does not wait for any.
    pub(crate) fn look(&mut self) {
        self.sleep(Duration::ZERO);
    }

    /// Sleeps until there are events, but at most for this time.
    pub(crate) fn sleep(&mut self, time: Duration) {
        // The kernel reports each change once, so an event that was not taken must not be lost.
        if self.has_events {
            return;
        }
        match self.queue.poll(&mut self.events, Some(time)) {
            Ok(()) => {
                self.has_events = !self.events.is_empty();
                self.has_more = self.events.iter().count() == EVENTS_MAX;
            }
            // The other errors mean that the descriptor is no queue, or the memory not our own.
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::Interrupted, "cannot read events: {error}");
            }
        }
    }

    /// Whether there may be events, as far as the last `look` or `sleep` knows.
    pub(crate) fn may_have_events(&self) -> bool {
        self.has_events || self.has_more
    }

    /// Passes the events of the last `look` or `sleep` to `each`, with the places of their connections.
    pub(crate) fn take(&mut self, mut each: impl FnMut(u32, Readiness)) {
        if !std::mem::take(&mut self.has_events) {
            return;
        }
        for event in &self.events {
            if event.token() != WAKE_UP {
                // The token is the place from `add`.
                each(event.token().0 as u32, Readiness::of(event));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    /// Longer than any event takes.
    const LONG: Duration = Duration::from_secs(10);

    /// Waits until there are events, and returns them.
    fn wait(sockets: &mut Sockets) -> Vec<(u32, Readiness)> {
        sockets.sleep(LONG);
        taken(sockets)
    }

    fn taken(sockets: &mut Sockets) -> Vec<(u32, Readiness)> {
        let mut events = Vec::new();
        sockets.take(|place, readiness| events.push((place, readiness)));
        events
    }

    #[test]
    fn each_change_of_a_socket_is_reported_once() {
        let mut sockets = Sockets::new().unwrap();
        let (mut client, server) = UnixStream::pair().unwrap();
        let server = OwnedFd::from(server);
        sockets.add(&server, 7).unwrap();
        let seen = |events: &[(u32, Readiness)]| -> Vec<(u32, bool, bool, bool)> {
            let flags =
                |&(place, is): &(u32, Readiness)| (place, is.readable, is.writable, is.ended);
            events.iter().map(flags).collect()
        };
        assert_eq!(seen(&wait(&mut sockets)), [(7, false, true, false)]);
        client.write_all(b"x").unwrap();
        assert_eq!(seen(&wait(&mut sockets)), [(7, true, true, false)]);
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(seen(&wait(&mut sockets)), [(7, true, true, true)]);
        sockets.look();
        assert!(taken(&mut sockets).is_empty(), "nothing has changed since");
    }

    #[test]
    fn an_event_that_was_not_taken_is_not_lost() {
        let mut sockets = Sockets::new().unwrap();
        let (mut client, server) = UnixStream::pair().unwrap();
        let server = OwnedFd::from(server);
        sockets.add(&server, 7).unwrap();
        sockets.look();
        client.write_all(b"x").unwrap();
        sockets.look();
        assert_eq!(taken(&mut sockets).len(), 1);
        sockets.look();
        assert_eq!(taken(&mut sockets).len(), 1, "the byte came after the first event");
    }

    #[test]
    fn a_wake_up_ends_the_sleep_or_the_next_one() {
        let mut sockets = Sockets::new().unwrap();
        let waker = sockets.waker().unwrap();
        let begun = Instant::now();
        waker.wake_by_ref();
        assert!(wait(&mut sockets).is_empty());
        // The queue forgets a waker that is dropped, also if the thread has not woken yet.
        let other = waker.clone();
        let thread = std::thread::spawn(move || other.wake());
        assert!(wait(&mut sockets).is_empty());
        thread.join().unwrap();
        assert!(begun.elapsed() < LONG, "a sleep lasted for its whole time");
    }

    #[test]
    fn a_closed_socket_has_no_events() {
        let mut sockets = Sockets::new().unwrap();
        let (mut client, server) = UnixStream::pair().unwrap();
        let (_other, successor) = UnixStream::pair().unwrap();
        let (server, successor) = (OwnedFd::from(server), OwnedFd::from(successor));
        sockets.add(&server, 7).unwrap();
        client.write_all(b"x").unwrap();
        drop(server);
        sockets.add(&successor, 7).unwrap();
        let events = wait(&mut sockets);
        assert_eq!(events.len(), 1);
        assert!(!events[0].1.readable, "the bytes came for the closed one");
    }

    #[test]
    fn more_sockets_than_fit_at_once_are_all_reported() {
        let mut sockets = Sockets::new().unwrap();
        // One socket is enough for many entries: the kernel's queue knows descriptors, and each
        // duplicate is another one.
        let (_client, server) = UnixStream::pair().unwrap();
        let count = 2 * EVENTS_MAX as u32 + 1;
        let server = OwnedFd::from(server);
        let duplicates: Vec<OwnedFd> = (0..count).map(|_| server.try_clone().unwrap()).collect();
        for (place, socket) in duplicates.iter().enumerate() {
            sockets.add(socket, place as u32).unwrap();
        }
        let mut events = wait(&mut sockets);
        while sockets.may_have_events() {
            sockets.look();
            events.extend(taken(&mut sockets));
        }
        let mut places: Vec<u32> = events.into_iter().map(|(place, _)| place).collect();
        places.sort_unstable();
        assert_eq!(places, (0..count).collect::<Vec<u32>>());
    }
}
