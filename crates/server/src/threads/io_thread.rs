//! One thread that serves connections: sleeps until something is to be done, then works in rounds:
//! read from the ready sockets, take a turn of the broker for all that came, send.
//!
//! It owns its connections alone. The broker is never locked while a system call is made, and
//! what is read and done in a round is bounded, so that no client keeps the others waiting.

mod account;
mod housekeeping;
mod sending;
mod turns;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::mem;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use broker::{Broker, Event, Millis, Missing, SessionId};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tokio::time::Sleep;

use self::account::Account;
use self::turns::Feed;
use crate::net::connection::{Connection, Opener, Phase, Read};
use crate::net::limits::LiveLimits;
use crate::net::socket::watch;
use crate::net::tls_stream::TlsStream;
use crate::process::clock::Clock;
use crate::process::log_limit::LogLimit;
use crate::threads::mailbox::{Arrival, Entrance, Port, ReadyWaker};
use crate::threads::table::Table;

/// All that is read before a turn of the broker is taken. How long a turn takes is bounded by its time, since
/// commands of the same length cost more or less.
const ROUND_BYTES: usize = 64 * 1024;
/// A socket is not read with less room than this: a large body would come in crumbs.
const READ_BYTES_MIN: usize = 8 * 1024;
/// A timer that is set for no purpose. Tests cannot wait until it fires for real.
const LONG: Duration =
    if cfg!(test) { Duration::from_millis(100) } else { Duration::from_hours(24) };

/// What all I/O threads share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) broker: Broker,
    pub(crate) clock: Clock,
    pub(crate) limits: Arc<LiveLimits>,
}

/// Why a thread ended.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Ended {
    /// It was asked to.
    Stopped,
    /// The log takes nothing any more.
    LogFailed,
}

/// How a connection comes to its end.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Farewell {
    /// Everything is said.
    Polite,
    /// It broke, or is cut off.
    Abrupt,
}

pub(crate) struct IoThread {
    shared: Shared,
    port: Arc<Port>,
    /// The number of `port` at the broker.
    mailbox: usize,
    connections: Table,
    account: Account,
    places: HashMap<SessionId, u32, FixedState>,
    buffer: Box<[u8]>,
    /// The moment at which this round began, in milliseconds.
    now_ms: u64,
    /// Nothing is read, and nothing held back goes on, before the log has caught up.
    congested: bool,
    /// The port was told that we wait for what the log releases.
    awaits_release: bool,
    /// The log takes nothing any more.
    log_failed: bool,
    // What is to be done. Places of connections that are gone meanwhile are skipped; a connection
    // that has taken over the place is looked at for nothing, which does no harm.
    /// Sockets that became ready.
    ready: Vec<u32>,
    /// Connections to be read, in the order in which they became ready.
    reads: VecDeque<u32>,
    /// Connections to be read whose handshake is not done yet.
    handshakes: VecDeque<u32>,
    /// Connections whose sessions are to be opened.
    opening: Vec<u32>,
    /// What was read: connection, and its part of the buffer.
    batch: Vec<(u32, Range<usize>)>,
    events: VecDeque<(SessionId, Event)>,
    /// Connections with commands that were held back until others had their turn, or replies had left.
    resumed: Vec<u32>,
    /// Connections whose sessions are to be closed.
    leaving: Vec<(u32, Farewell)>,
    /// Connections that may have something to send.
    touched: Vec<u32>,
    /// Connections with much to send, which take turns.
    bulky: VecDeque<u32>,
    /// Connections whose first unsent reply waits for the log to be written so far.
    held_until_written: BinaryHeap<Reverse<(Missing, u32)>>,
    /// The same for it to be durable.
    held_until_durable: BinaryHeap<Reverse<(Missing, u32)>>,
    /// Connections that were used lately, for housekeeping.
    recent: Vec<u32>,
    housekeeping_at: Option<Millis>,
    /// How often it is logged that a browser was turned away.
    foreigners: LogLimit,
}

impl IoThread {
    pub(crate) fn new(shared: Shared, port: Arc<Port>) -> IoThread {
        let mailbox = shared.broker.add_mailbox(port.clone());
        shared.limits.held.enter(&port);
        IoThread {
            shared,
            port,
            mailbox,
            connections: Table::default(),
            account: Account::default(),
            places: HashMap::with_hasher(FixedState::default()),
            buffer: vec![0; ROUND_BYTES].into_boxed_slice(),
            now_ms: 0,
            congested: false,
            awaits_release: false,
            log_failed: false,
            ready: Vec::new(),
            reads: VecDeque::new(),
            handshakes: VecDeque::new(),
            opening: Vec::new(),
            batch: Vec::new(),
            events: VecDeque::new(),
            resumed: Vec::new(),
            leaving: Vec::new(),
            touched: Vec::new(),
            bulky: VecDeque::new(),
            held_until_written: BinaryHeap::new(),
            held_until_durable: BinaryHeap::new(),
            recent: Vec::new(),
            housekeeping_at: None,
            foreigners: LogLimit::default(),
        }
    }

    /// Serves until it is asked to stop, or the log fails. Runs inside a tokio runtime of its own.
    pub(crate) async fn run(mut self) -> Ended {
        let mut timer = pin!(tokio::time::sleep(LONG));
        let mut timer_for = None;
        loop {
            let alarm = self.port.alarm();
            let wanted = [alarm, self.housekeeping_at].into_iter().flatten().min();
            // One that has fired would wake us at once again, before the runtime looks at the sockets.
            if self.port.take_late_timer() || wanted != timer_for || timer.is_elapsed() {
                timer_for = wanted;
                self.set_timer(timer.as_mut(), wanted);
            }
            self.port.sleep(timer.as_mut(), alarm).await;
            loop {
                self.round();
                if self.log_failed {
                    return Ended::LogFailed;
                }
                if self.port.is_stopping() {
                    self.stop(timer.as_mut()).await;
                    return Ended::Stopped;
                }
                if !self.has_more() {
                    break;
                }
                // The runtime looks at the sockets meanwhile.
                tokio::task::yield_now().await;
            }
        }
    }

    fn set_timer(&self, timer: Pin<&mut Sleep>, wanted: Option<Millis>) {
        let instant = wanted.and_then(|at| self.shared.clock.instant(at));
        timer.reset(instant.unwrap_or_else(|| Instant::now() + LONG).into());
    }

    fn has_more(&self) -> bool {
        (self.has_commands() && !self.congested)
            || self.has_more_to_send()
            || !self.events.is_empty()
            || !self.leaving.is_empty()
            || self.is_alarm_due()
    }

    /// Whether commands wait, here or in sockets, that could go on.
    fn has_commands(&self) -> bool {
        !self.reads.is_empty() || !self.handshakes.is_empty() || !self.resumed.is_empty()
    }

    fn is_alarm_due(&self) -> bool {
        self.port.alarm().is_some_and(|at| at <= self.shared.clock.now())
    }

    fn round(&mut self) {
        self.now_ms = self.shared.clock.now().0;
        self.port.show_life();
        // The round ends with a look at it.
        self.port.take_excess();
        if self.port.take_released() {
            self.congested = false;
            self.log_failed = self.shared.broker.failure().is_some();
            self.collect_released();
        }
        self.take_arrivals();
        self.take_ready();
        self.housekeep();
        self.port.take_events(&mut self.events);
        let held_back = self.resumed.len();
        self.read();
        self.take_turn_if_wanted();
        self.send();
        if held_back > 0 && !self.congested {
            self.go_on(held_back);
        }
        self.settle_account();
        // What others had for us meanwhile is for the next round; the runtime looks at the sockets before.
        self.port.take_events(&mut self.events);
        self.await_release();
    }

    /// Goes on with what so many connections had to leave before. What others asked for meanwhile is done and
    /// sent, so it waits for no more than this.
    fn go_on(&mut self, connections: usize) {
        self.await_release();
        if self.awaits_release {
            // Where this thread shares a processor with the committer, long requests would keep the log,
            // and those who wait for it, from the processor for milliseconds.
            std::thread::yield_now();
        }
        self.take_turn(Feed::HeldBack(connections));
        self.send();
    }

    /// Tells the port whether this thread waits for the log. A commit need not wake threads that do
    /// not.
    fn await_release(&mut self) {
        let has_held = !self.held_until_written.is_empty() || !self.held_until_durable.is_empty();
        let awaits = has_held || self.congested;
        if awaits == mem::replace(&mut self.awaits_release, awaits) {
            return;
        }
        self.port.await_release(awaits);
        if awaits {
            // What was released since it was looked at last was not told; the next round sends it.
            self.collect_released();
            self.congested = self.congested && self.shared.broker.congested();
        }
    }

    fn take_arrivals(&mut self) {
        for arrival in self.port.take_arrivals() {
            let Arrival { socket, slot, protocol, reach, open, tls, silence_max_ms } = arrival;
            // Drawing random numbers for it takes time that a turn must not take.
            let tls = tls.map(|config| TlsStream::new(config, self.now_ms).map(Box::new));
            let (socket, tls) = match (watch(socket), tls.transpose()) {
                (Ok(socket), Ok(tls)) => (socket, tls),
                (Err(error), _) => {
                    tracing::warn!(%error, "cannot watch a new connection");
                    continue;
                }
                (_, Err(error)) => {
                    tracing::warn!(%error, "cannot begin TLS on a new connection");
                    continue;
                }
            };
            let place = self.connections.insert_with(|place| {
                let waker = ReadyWaker::waker(&self.port, place);
                let entrance = Entrance { peer: slot.peer, reach };
                Connection::new(socket, tls, waker, slot, protocol, Opener { open, entrance })
            });
            self.account.opened();
            let Some(connection) = self.connections.get(place) else { continue };
            (connection.heard_at, connection.silence_max_ms) = (self.now_ms, silence_max_ms);
            if connection.wants_session() {
                self.opening.push(place);
            } else {
                // Its session is opened after the handshake, which housekeeping has an eye on.
                connection.learn_readiness();
                self.touch(place);
                self.enqueue_read(place);
            }
        }
    }

    fn take_ready(&mut self) {
        let mut ready = mem::take(&mut self.ready);
        self.port.take_ready(&mut ready);
        for place in ready.drain(..) {
            let Some(connection) = self.connections.get(place) else { continue };
            let was_stuck = connection.is_stuck();
            connection.learn_readiness();
            if was_stuck {
                self.touch(place);
            }
            self.enqueue_read(place);
        }
        self.ready = ready;
    }

    fn enqueue_read(&mut self, place: u32) {
        if let Some(connection) = self.connections.get(place)
            && !connection.in_reads
            && connection.wants_read()
        {
            connection.in_reads = true;
            if connection.is_without_tls_yet() {
                self.handshakes.push_back(place);
            } else {
                self.reads.push_back(place);
            }
        }
    }

    fn touch(&mut self, place: u32) {
        let Some(connection) = self.connections.get(place) else { return };
        connection.active = true;
        if !mem::replace(&mut connection.in_touched, true) {
            self.touched.push(place);
        }
        if !mem::replace(&mut connection.in_recent, true) {
            self.recent.push(place);
            self.schedule_housekeeping();
        }
    }

    /// Reads each connection that wants it once, as far as the buffer goes.
    fn read(&mut self) {
        self.congested = self.has_commands() && self.shared.broker.congested();
        if self.congested {
            return;
        }
        let mut used = 0;
        for _ in 0..self.reads.len() {
            if self.buffer.len() - used < READ_BYTES_MIN {
                return;
            }
            let Some(place) = self.reads.pop_front() else { break };
            self.read_from(place, &mut used);
        }
        // One step of a handshake may cost a signature, which takes as long as hundreds of commands. So others are
        // asked first whether they want something, each time.
        if self.buffer.len() - used >= READ_BYTES_MIN
            && let Some(place) = self.handshakes.pop_front()
        {
            self.read_from(place, &mut used);
        }
    }

    /// Reads a connection once; the first `used` bytes of the buffer are in use.
    fn read_from(&mut self, place: u32, used: &mut usize) {
        let Some(connection) = self.connections.get(place) else { return };
        connection.in_reads = false;
        if !connection.wants_read() {
            return;
        }
        let is_lingering = connection.phase == Phase::Lingering;
        match connection.read(&mut self.buffer[*used..]) {
            // What comes after the end is thrown away.
            Ok(Read::Bytes(_)) if is_lingering => {}
            Ok(Read::Bytes(count)) if connection.is_foreign(&self.buffer[*used..*used + count]) => {
                self.turn_away(place);
            }
            Ok(Read::Bytes(count)) => {
                connection.heard_at = self.now_ms;
                self.batch.push((place, *used..*used + count));
                *used += count;
            }
            Ok(Read::Nothing) if connection.has_tls_to_say() => self.touch(place),
            Ok(Read::Nothing) => {}
            Ok(Read::End) | Err(_) if is_lingering => self.remove(place),
            Ok(Read::End) => self.batch.push((place, *used..*used)),
            Err(error) => self.abandon(place, &error),
        }
        self.open_after_handshake(place);
        self.enqueue_read(place);
    }

    fn open_after_handshake(&mut self, place: u32) {
        if let Some(connection) = self.connections.get(place)
            && connection.wants_session()
            && !mem::replace(&mut connection.in_opening, true)
        {
            self.opening.push(place);
        }
    }

    /// A browser has come to a port where no HTTP is spoken. What it sent is not looked at: a page may have written it.
    fn turn_away(&mut self, place: u32) {
        let Some(connection) = self.connections.get(place) else { return };
        self.shared.limits.refused.foreign.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = self.foreigners.count() {
            let (protocol, peer) = (connection.protocol().name(), connection.peer().shown());
            tracing::warn!(
                protocol,
                peer,
                count,
                "closed at once: HTTP or TLS came where neither is spoken, perhaps from a web page"
            );
        }
        self.leave(place, Farewell::Abrupt);
    }

    /// Nothing new is begun any more.
    fn forget_word(&mut self) {
        self.port.take_arrivals();
        self.port.take_events(&mut self.events);
        self.events.clear();
        self.reads.clear();
        self.handshakes.clear();
        self.resumed.clear();
        for (place, farewell) in mem::take(&mut self.leaving) {
            if farewell == Farewell::Abrupt {
                self.remove(place);
            }
        }
    }

    /// The connection is of no use any more.
    fn abandon(&mut self, place: u32, error: &io::Error) {
        tracing::debug!(connection = place, %error, "connection lost");
        self.leave(place, Farewell::Abrupt);
    }

    fn leave(&mut self, place: u32, farewell: Farewell) {
        if let Some(connection) = self.connections.get(place)
            && connection.phase != Phase::Lingering
            && !mem::replace(&mut connection.in_leaving, true)
        {
            self.leaving.push((place, farewell));
            self.recount(place);
        }
    }

    fn remove(&mut self, place: u32) {
        if let Some(connection) = self.connections.remove(place) {
            self.account.closed(connection.counted);
        }
    }
}

#[cfg(test)]
mod tests;
