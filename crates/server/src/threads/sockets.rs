//! The sockets of one I/O thread. The thread has an event queue of the kernel of its own (epoll), and
//! its runtime watches only this queue. The runtime needs about 400 bytes for each thing that it
//! watches; an entry in the kernel's queue takes no memory of the process.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::task::Context;
use std::time::Duration;

use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use tokio::io::unix::AsyncFd;

use crate::net::socket::watch;

/// The kernel passes at most this many events at once. In tests, few descriptors must be enough for
/// more.
const EVENTS_MAX: usize = if cfg!(test) { 64 } else { 1024 };

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
    /// The runtime's watch of the kernel's queue. It must be dropped before the queue.
    watch: AsyncFd<RawFd>,
    queue: Poll,
    events: Events,
    /// The queue may have events.
    may_have_events: bool,
}

impl Sockets {
    /// No sockets. The caller must be inside the runtime of the thread.
    pub(crate) fn new() -> io::Result<Sockets> {
        let (queue, events) = (Poll::new()?, Events::with_capacity(EVENTS_MAX));
        let watch = watch(queue.as_raw_fd())?;
        Ok(Sockets { watch, queue, events, may_have_events: false })
    }

    /// Adds a socket. The kernel reports at once whether it is ready, and later each change. Its
    /// owner removes it by closing it, so nobody may duplicate it.
    pub(crate) fn add(&self, socket: &OwnedFd, place: u32) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        let socket = socket.as_raw_fd();
        self.queue.registry().register(&mut SourceFd(&socket), Token(place as usize), interest)
    }

    /// Whether there may be events. If not, the task wakes when there are.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> bool {
        // An event that comes after `clear_ready` makes the queue ready again. The loop ends when
        // the runtime has registered the task.
        while let std::task::Poll::Ready(Ok(mut guard)) = self.watch.poll_read_ready(context) {
            guard.clear_ready();
            self.may_have_events = true;
        }
        self.may_have_events
    }

    /// Whether there may be events, as far as the last `poll` and `take` know.
    pub(crate) fn may_have_events(&self) -> bool {
        self.may_have_events
    }

    /// Passes events to `each`, with the places of their connections: all that have come, or as many
    /// as one system call returns.
    pub(crate) fn take(&mut self, mut each: impl FnMut(u32, Readiness)) {
        if !self.may_have_events {
            return;
        }
        while let Err(error) = self.queue.poll(&mut self.events, Some(Duration::ZERO)) {
            // The other errors mean that the descriptor is no queue, or the memory not our own.
            assert_eq!(error.kind(), io::ErrorKind::Interrupted, "cannot read events: {error}");
        }
        let mut count = 0;
        for event in &self.events {
            count += 1;
            // The token is the place from `add`.
            each(event.token().0 as u32, Readiness::of(event));
        }
        // The queue has no more events if there was room for more.
        self.may_have_events = count == EVENTS_MAX;
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write as _;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    /// Waits until there are events, and returns them.
    fn wait(runtime: &Runtime, sockets: &mut Sockets) -> Vec<(u32, Readiness)> {
        runtime.block_on(poll_fn(|context| {
            let may_have_events = sockets.poll(context);
            if may_have_events { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        }));
        taken(sockets)
    }

    fn taken(sockets: &mut Sockets) -> Vec<(u32, Readiness)> {
        let mut events = Vec::new();
        sockets.take(|place, readiness| events.push((place, readiness)));
        events
    }

    #[test]
    fn each_change_of_a_socket_is_reported_once() {
        let runtime = runtime();
        let _inside = runtime.enter();
        let mut sockets = Sockets::new().unwrap();
        let (mut client, server) = UnixStream::pair().unwrap();
        let server = OwnedFd::from(server);
        sockets.add(&server, 7).unwrap();
        let seen = |events: &[(u32, Readiness)]| -> Vec<(u32, bool, bool, bool)> {
            let flags =
                |&(place, is): &(u32, Readiness)| (place, is.readable, is.writable, is.ended);
            events.iter().map(flags).collect()
        };
        assert_eq!(seen(&wait(&runtime, &mut sockets)), [(7, false, true, false)]);
        client.write_all(b"x").unwrap();
        assert_eq!(seen(&wait(&runtime, &mut sockets)), [(7, true, true, false)]);
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(seen(&wait(&runtime, &mut sockets)), [(7, true, true, true)]);
        sockets.may_have_events = true;
        assert!(taken(&mut sockets).is_empty(), "nothing has changed since");
    }

    #[test]
    fn a_closed_socket_has_no_events() {
        let runtime = runtime();
        let _inside = runtime.enter();
        let mut sockets = Sockets::new().unwrap();
        let (mut client, server) = UnixStream::pair().unwrap();
        let (_other, successor) = UnixStream::pair().unwrap();
        let (server, successor) = (OwnedFd::from(server), OwnedFd::from(successor));
        sockets.add(&server, 7).unwrap();
        client.write_all(b"x").unwrap();
        drop(server);
        sockets.add(&successor, 7).unwrap();
        let events = wait(&runtime, &mut sockets);
        assert_eq!(events.len(), 1);
        assert!(!events[0].1.readable, "the bytes came for the closed one");
    }

    #[test]
    fn more_sockets_than_fit_at_once_are_all_reported() {
        let runtime = runtime();
        let _inside = runtime.enter();
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
        let mut events = wait(&runtime, &mut sockets);
        while sockets.may_have_events() {
            events.extend(taken(&mut sockets));
        }
        let mut places: Vec<u32> = events.into_iter().map(|(place, _)| place).collect();
        places.sort_unstable();
        assert_eq!(places, (0..count).collect::<Vec<u32>>());
    }
}
