//! The inbox of an I/O thread: messages from other threads. The thread sleeps while its inbox is
//! empty and no socket is ready.

use std::collections::VecDeque;
use std::mem;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use broker::{Answer, Dialect, Event, Mailbox, Millis, SessionId, Turn};
use origin::Names;
use rustls::ServerConfig;

use crate::config::listener::Listener;
use crate::net::limits::Admission;
use crate::threads::inspections::{Inspect, Inspections};
use crate::threads::sockets::Sockets;
use crate::threads::wakeup::{ReleaseWatch, Wakeup};

/// The part of an IPv6 address that names the network of one host or site: the first 64 bits.
const IPV6_NETWORK: u128 = !0 << 64;

/// A function that opens the session of a new connection. Each protocol has its own function. The
/// number is the mailbox to which the broker sends the session's events.
pub(crate) type OpenSession =
    dyn Fn(ConnectionInfo<'_>, &mut Turn<'_>, usize) -> (SessionId, Box<dyn Dialect>) + Send + Sync;

/// The origin of a connection.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ConnectionInfo<'a> {
    pub(crate) peer: Peer,
    pub(crate) listener: &'a Listener,
    /// The names that the client may use over HTTP. `None`: those of this server.
    pub(crate) names: Option<&'a Arc<Names>>,
}

/// The client's address.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Peer {
    /// The address and the port of a host.
    Host(IpAddr, u16),
    /// A process on this machine, over a unix socket.
    Local,
}

impl From<SocketAddr> for Peer {
    fn from(host: SocketAddr) -> Peer {
        Peer::Host(host.ip().to_canonical(), host.port())
    }
}

impl Peer {
    /// The IP address. Unix sockets have no address.
    pub(crate) fn address(self) -> Option<IpAddr> {
        match self {
            Peer::Host(address, _) => Some(address),
            Peer::Local => None,
        }
    }

    /// The address under which connections are counted. A host with IPv6 usually has a whole /64
    /// network, and can use another address for each connection. So the network counts as one
    /// address. But all machines of a link have link-local addresses of one network.
    pub(crate) fn counted_address(self) -> Option<IpAddr> {
        match self.address()? {
            IpAddr::V6(address) if !address.is_loopback() && !address.is_unicast_link_local() => {
                Some(Ipv6Addr::from_bits(address.to_bits() & IPV6_NETWORK).into())
            }
            address => Some(address),
        }
    }

    /// The address as text without spaces, for messages and Gearman's list of workers.
    pub(crate) fn shown(self) -> String {
        match self {
            Peer::Host(address, _) => address.to_string(),
            Peer::Local => "unix".to_owned(),
        }
    }

    /// The address and the port as text, for operators.
    pub(crate) fn shown_with_port(self) -> String {
        match self {
            Peer::Host(address, port) => SocketAddr::new(address, port).to_string(),
            Peer::Local => "unix".to_owned(),
        }
    }
}

/// A connection that the server has accepted and assigned to an I/O thread.
pub(crate) struct Arrival {
    /// The socket, non-blocking.
    pub(crate) socket: OwnedFd,
    /// How the connection counts as open.
    pub(crate) admission: Admission,
    /// The listener to which the client connected.
    pub(crate) listener: Arc<Listener>,
    /// Opens the session of the connection.
    pub(crate) open: Arc<OpenSession>,
    /// The TLS configuration, if the connection speaks TLS.
    pub(crate) tls: Option<Arc<ServerConfig>>,
}

/// The value of an [`Alarm`] that is not set.
const NEVER: u64 = u64::MAX;

/// Messages for one I/O thread.
#[derive(Default)]
pub(crate) struct Inbox {
    wakeup: Wakeup,
    events: Mutex<Vec<(SessionId, Answer<Event>)>>,
    /// Sessions whose stored bodies are loaded now. The thread can send their replies.
    loaded: Mutex<Vec<SessionId>>,
    arrivals: Mutex<Vec<Arrival>>,
    /// Questions of operators about the thread's connections.
    pub(crate) inspections: Inspections,
    /// Whether the log has released more positions, or has failed.
    release: ReleaseWatch,
    /// When the broker's timers need a turn, in milliseconds of the clock.
    alarm: Alarm,
    /// The watchdog has requested a sign of life. The thread has not answered yet.
    life_sign_requested: AtomicBool,
    /// All connections of the process together use too much memory. The thread has not checked its
    /// own connections yet.
    excess: AtomicBool,
    /// The thread must send the pending replies, close its connections and end.
    stop: AtomicBool,
}

struct Alarm(AtomicU64);

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm(AtomicU64::new(NEVER))
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Inbox").finish_non_exhaustive()
    }
}

/// Locks a list. A panic cannot leave a list half changed.
fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inbox {
    fn wake(&self) {
        self.wakeup.wake();
    }

    /// Passes a new connection to the thread.
    pub(crate) fn arrive(&self, arrival: Arrival) {
        lock(&self.arrivals).push(arrival);
        self.wake();
    }

    /// Asks the thread a question about its connections.
    pub(crate) fn inspect(&self, question: Inspect) {
        self.inspections.ask(question);
        self.wake();
    }

    /// Requests a sign of life from the thread.
    pub(crate) fn request_life_sign(&self) {
        self.life_sign_requested.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Answers a request for a sign of life. Only the thread itself calls this.
    pub(crate) fn show_life_sign(&self) {
        // Check before the store, because a store in each round costs more than a load.
        if self.life_sign_requested.load(Ordering::SeqCst) {
            self.life_sign_requested.store(false, Ordering::SeqCst);
        }
    }

    /// Whether the thread has answered the last request for a sign of life.
    pub(crate) fn has_shown_life(&self) -> bool {
        !self.life_sign_requested.load(Ordering::SeqCst)
    }

    /// Asks the thread to disconnect its largest connections, because all connections together use
    /// too much memory.
    pub(crate) fn notify_excess(&self) {
        self.excess.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub(crate) fn take_excess(&self) -> bool {
        self.excess.swap(false, Ordering::SeqCst)
    }

    /// Makes the thread wake and sleep anew. Called after the machine slept, because the time of a
    /// thread's sleep does not pass meanwhile.
    pub(crate) fn renew_sleep(&self) {
        self.wake();
    }

    /// Asks the thread to send the pending replies, close its connections and end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Moves the new events to the end of `into`.
    pub(crate) fn take_events(&self, into: &mut VecDeque<(SessionId, Answer<Event>)>) {
        into.extend(lock(&self.events).drain(..));
    }

    pub(crate) fn take_loaded(&self) -> Vec<SessionId> {
        mem::take(&mut *lock(&self.loaded))
    }

    pub(crate) fn take_arrivals(&self) -> Vec<Arrival> {
        mem::take(&mut *lock(&self.arrivals))
    }

    /// See [`ReleaseWatch::await_release`].
    pub(crate) fn await_release(&self, awaits: bool) {
        self.release.await_release(awaits);
    }

    pub(crate) fn take_released(&self) -> bool {
        self.release.take()
    }

    pub(crate) fn alarm(&self) -> Option<Millis> {
        match self.alarm.0.load(Ordering::SeqCst) {
            NEVER => None,
            at => Some(Millis(at)),
        }
    }

    /// Clears the alarm. The thread must call this before the turn that handles the alarm, because
    /// the broker sets the next alarm during that turn.
    pub(crate) fn clear_alarm(&self) {
        self.alarm.0.store(NEVER, Ordering::SeqCst);
    }

    pub(crate) fn has_messages(&self, alarm_seen: Option<Millis>) -> bool {
        self.release.is_noted()
            || self.life_sign_requested.load(Ordering::SeqCst)
            || self.excess.load(Ordering::SeqCst)
            || self.is_stopping()
            || self.inspections.has_some()
            || self.alarm() != alarm_seen
            || !lock(&self.events).is_empty()
            || !lock(&self.loaded).is_empty()
            || !lock(&self.arrivals).is_empty()
    }

    /// Sets what wakes the thread: see [`Sockets::waker`].
    pub(crate) fn set_waker(&self, waker: Waker) {
        self.wakeup.set_waker(waker);
    }

    /// Sleeps until a message arrives, a socket becomes ready or this time is over. `alarm_seen` is the
    /// alarm that the time considers.
    pub(crate) fn sleep(
        &self,
        time: impl FnOnce() -> Duration,
        alarm_seen: Option<Millis>,
        sockets: &mut Sockets,
    ) {
        self.wakeup.sleep(|| self.has_messages(alarm_seen), || sockets.sleep(time()));
        // If a message woke the thread, the same round serves the clients whose requests have come
        // meanwhile.
        sockets.look();
    }
}

impl Mailbox for Inbox {
    fn deliver(&self, session: SessionId, event: Answer<Event>) {
        lock(&self.events).push((session, event));
        self.wake();
    }

    fn loaded(&self, session: SessionId) {
        lock(&self.loaded).push(session);
        self.wake();
    }

    fn released(&self) {
        if self.release.release() {
            self.wake();
        }
    }

    fn failed(&self) {
        self.release.note();
        self.wake();
    }

    fn alarm(&self, at: Millis) {
        self.alarm.0.store(at.0, Ordering::SeqCst);
        self.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_notifies_waiting_threads_and_a_failure_notifies_all() {
        let inbox = Inbox::default();
        inbox.released();
        assert!(!inbox.take_released());
        inbox.await_release(true);
        inbox.released();
        assert!(inbox.take_released());
        inbox.await_release(false);
        inbox.released();
        assert!(!inbox.take_released());
        inbox.failed();
        assert!(inbox.take_released());
    }
}
