//! A thread that serves connections. It sleeps until there is work, and then works in rounds. A
//! round reads from ready sockets, takes a turn of the broker for everything that arrived, and
//! sends replies.
//!
//! Only this thread uses its connections. While it holds the broker's lock, it makes no system
//! call. A round has a limit of work, so that no client delays other clients for long.

mod account;
mod housekeeping;
mod inspection;
mod sending;
mod turns;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use broker::{Answer, Broker, Event, Millis, Missing, SessionId};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use self::account::{Account, Excess};
use self::turns::{BUSY_MS, Feed, is_short};
use crate::net::connection::{Connection, Phase, Read};
use crate::net::limits::LiveLimits;
use crate::net::tls_stream::TlsStream;
use crate::process::clock::Clock;
use crate::process::message_limit::MessageLimit;
use crate::threads::client_mix::ClientMix;
use crate::threads::mailbox::{Arrival, Inbox};
use crate::threads::request_times::RequestTimes;
use crate::threads::rests::Rests;
use crate::threads::sockets::Sockets;
use crate::threads::table::Table;
use crate::threads::yields::Yields;

/// Limit of bytes that are read before a turn of the broker. A turn also has a time limit, because
/// commands of the same length can cost different amounts of work.
const ROUND_BYTES: usize = 64 * 1024;
/// The same limit for busy clients, while quiet clients send requests: see
/// `ClientMix::is_beside_quiet`. The next requests and replies of the quiet ones wait for the end of
/// the round.
const BUSY_BYTES_BESIDE_QUIET: usize = 16 * 1024;
/// Minimum room for a read. With less room, a large body would arrive in tiny pieces.
const READ_BYTES_MIN: usize = 8 * 1024;
/// A round reads at most this many lingering connections, up to [`READ_BYTES_MIN`] from each.
const LINGERING_READS_MAX: usize = 8;
/// If the thread has no alarm and no housekeeping, it sleeps at most for this time. The time is
/// shorter in tests.
const LONG: Duration =
    if cfg!(test) { Duration::from_millis(100) } else { Duration::from_hours(24) };

/// How long a thread sleeps at most while requests wait until clients have read more replies.
const WAIT_FOR_READERS_MS: u64 = 1;

/// State that all I/O threads share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) broker: Broker,
    pub(crate) clock: Clock,
    pub(crate) limits: Arc<LiveLimits>,
    pub(crate) client_mix: Arc<ClientMix>,
}

/// Why a thread ended.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Ended {
    /// The server stops the thread.
    Stopped,
    /// The log failed.
    LogFailed,
}

/// Whose requests wait until clients have read more replies.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
enum Waiting {
    #[default]
    Nobody,
    /// Those of busy clients.
    Busy,
    All,
}

/// How a connection ends.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum CloseReason {
    /// After all replies were sent.
    Finished,
    /// At once, because the connection broke or the server disconnects it.
    Failed,
}

pub(crate) struct IoThread {
    shared: Shared,
    inbox: Arc<Inbox>,
    /// The number of this thread's mailbox at the broker. `inbox` is the mailbox.
    mailbox: usize,
    connections: Table,
    sockets: Sockets,
    account: Account,
    places: HashMap<SessionId, u32, FixedState>,
    buffer: Box<[u8]>,
    /// When this round began, in milliseconds.
    now_ms: u64,
    /// The next turn has a request of a quiet client.
    serves_quiet: bool,
    /// When the last turn began.
    turn_began: Instant,
    /// When this round began to send: the end of its last turn. `None`: the round has not taken a
    /// turn, and has not sent anything yet.
    sent_from: Option<Instant>,
    request_times: Arc<RequestTimes>,
    /// The log writes too slowly for the requests of clients (`Broker::congested`). The thread
    /// reads nothing, and *held-back* commands wait. These are commands that have arrived but must
    /// wait for a later turn.
    congested: bool,
    /// The node of a cluster may not answer now: see [`Broker::may_answer`].
    silent: bool,
    /// Held-back commands have filled the open batch of the log. So further held-back commands wait
    /// until the batch is written. If the batch became larger, the requests of other clients would
    /// wait longer for its write.
    backlogged: bool,
    /// Whose requests wait in this round: see [`IoThread::waiting_for_readers`].
    waiting: Waiting,
    /// The value of the last call of `Inbox::await_release`. If true, the committer wakes this
    /// thread after each release.
    awaits_release: bool,
    yields: Yields,
    /// The log failed.
    log_failed: bool,
    // Lists of work. An entry is the place of a connection in the table. The thread ignores an
    // entry if its place is empty. If a new connection has the place of a removed connection, the
    // thread checks the new connection without need, which does no harm.
    /// Connections whose sockets became ready, and whether replies waited until then.
    ready: Vec<(u32, bool)>,
    /// Connections to read, in the order in which they became ready. Their clients were quiet then.
    reads: VecDeque<u32>,
    /// Connections to read whose clients were busy when they became ready. They come after `reads`.
    busy_reads: VecDeque<u32>,
    /// Connections to read, if their TLS handshake is not finished.
    handshakes: VecDeque<u32>,
    /// Lingering connections to read. Their clients wait for nothing, so they come last.
    lingering: VecDeque<u32>,
    /// Connections whose sessions must be opened.
    opening: Vec<u32>,
    /// Connections whose sessions were just opened.
    opened: Vec<u32>,
    /// Bytes that were read: the place of the connection, and the part of the buffer with the
    /// bytes.
    batch: Vec<(u32, Range<usize>)>,
    events: VecDeque<(SessionId, Answer<Event>)>,
    /// Bodies were loaded for sessions of this thread since its last report to the broker.
    has_loaded: bool,
    /// Connections with held-back commands. These commands wait because other connections come
    /// first, or until replies are sent.
    resumed: Vec<u32>,
    /// Connections whose sessions must be closed.
    leaving: Vec<(u32, CloseReason)>,
    /// Connections that may have something to send.
    touched: Vec<u32>,
    /// Connections with many unsent bytes. They take turns.
    bulky: VecDeque<u32>,
    /// Connections whose first unsent reply waits for the log to be written up to a position.
    held_until_written: BinaryHeap<Reverse<(Missing, u32)>>,
    /// Connections whose first unsent reply waits for the log to be durable up to a position.
    held_until_durable: BinaryHeap<Reverse<(Missing, u32)>>,
    /// Recently used connections, which housekeeping checks.
    recent: Vec<u32>,
    housekeeping_at: Option<Millis>,
    /// Rate limit for messages about rejected browsers.
    foreigners: MessageLimit,
    /// Rate limits for messages about clients that were cut off because all together hold too much.
    cut_offs: [MessageLimit; Excess::COUNT],
    /// Rate limit for messages about readers that were cut off because they are slow.
    slow_readers: MessageLimit,
    rests: Rests,
}

impl IoThread {
    /// A thread without connections.
    pub(crate) fn new(shared: Shared, inbox: Arc<Inbox>) -> io::Result<IoThread> {
        let sockets = Sockets::new()?;
        inbox.set_waker(sockets.waker()?);
        let mailbox = shared.broker.add_mailbox(inbox.clone());
        shared.broker.report_unread_bodies(mailbox, 0);
        shared.limits.held.enter(&inbox);
        let request_times = shared.limits.request_times.enter();
        Ok(IoThread {
            shared,
            inbox,
            mailbox,
            connections: Table::default(),
            sockets,
            account: Account::default(),
            places: HashMap::with_hasher(FixedState::default()),
            buffer: vec![0; ROUND_BYTES].into_boxed_slice(),
            now_ms: 0,
            serves_quiet: false,
            turn_began: Instant::now(),
            sent_from: None,
            request_times,
            congested: false,
            silent: false,
            backlogged: false,
            waiting: Waiting::Nobody,
            awaits_release: false,
            yields: Yields::default(),
            log_failed: false,
            ready: Vec::new(),
            reads: VecDeque::new(),
            busy_reads: VecDeque::new(),
            handshakes: VecDeque::new(),
            lingering: VecDeque::new(),
            opening: Vec::new(),
            opened: Vec::new(),
            batch: Vec::new(),
            events: VecDeque::new(),
            has_loaded: false,
            resumed: Vec::new(),
            leaving: Vec::new(),
            touched: Vec::new(),
            bulky: VecDeque::new(),
            held_until_written: BinaryHeap::new(),
            held_until_durable: BinaryHeap::new(),
            recent: Vec::new(),
            housekeeping_at: None,
            foreigners: MessageLimit::default(),
            cut_offs: Default::default(),
            slow_readers: MessageLimit::default(),
            rests: Rests::default(),
        })
    }

    /// Serves until the server stops the thread or the log fails.
    pub(crate) fn run(mut self) -> Ended {
        self.shared.broker.begin_work();
        loop {
            self.let_committer_work();
            let alarm = self.inbox.alarm();
            if !self.has_work_for_group(alarm) {
                self.shared.broker.end_work();
                self.sleep(alarm);
                self.shared.broker.begin_work();
            }
            loop {
                self.round();
                if self.log_failed {
                    self.shared.broker.end_work();
                    return Ended::LogFailed;
                }
                if self.inbox.is_stopping() {
                    self.shared.broker.end_work();
                    self.stop();
                    return Ended::Stopped;
                }
                if !self.has_more() {
                    break;
                }
                self.let_committer_work();
                self.sockets.look();
            }
        }
    }

    /// Whether a group of the log fills until the I/O threads have no more work, and this thread has more.
    /// `alarm_seen`: see [`Inbox::sleep`].
    fn has_work_for_group(&mut self, alarm_seen: Option<Millis>) -> bool {
        if !self.shared.broker.fills_until_idle() {
            return false;
        }
        self.sockets.look();
        self.sockets.may_have_events() || self.inbox.has_messages(alarm_seen)
    }

    /// Sleeps until there is work. `alarm`: the moment of the broker's next alarm.
    fn sleep(&mut self, alarm: Option<Millis>) {
        let wanted = [alarm, self.housekeeping_at, self.wait_end()];
        let wanted = wanted.into_iter().flatten().min();
        let clock = self.shared.clock;
        let time = || wanted.map_or(LONG, |at| clock.time_until(at).min(LONG));
        self.inbox.sleep(time, alarm, &mut self.sockets);
    }

    fn has_more(&self) -> bool {
        self.sockets.may_have_events()
            || (self.has_input() && !self.congested)
            || self.can_continue(self.resumed.len())
            || self.has_more_to_send()
            || !self.events.is_empty()
            || self.is_alarm_due()
    }

    /// Whether there are sockets to read now.
    fn has_input(&self) -> bool {
        if self.waiting == Waiting::All {
            return false;
        }
        let has_busy = !self.busy_reads.is_empty() && !self.must_busy_wait();
        self.has_reads() || has_busy
    }

    /// Whether there are sockets to read that wait for no rest.
    fn has_reads(&self) -> bool {
        !self.reads.is_empty() || !self.handshakes.is_empty() || !self.lingering.is_empty()
    }

    fn must_busy_wait(&self) -> bool {
        self.rests.busy_rest() || self.waiting != Waiting::Nobody
    }

    /// When clients that wait for the end of a rest, or for readers, come next.
    fn wait_end(&self) -> Option<Millis> {
        let do_wait = !self.busy_reads.is_empty()
            || !self.resumed.is_empty()
            || (self.waiting == Waiting::All && self.has_reads());
        let left_ms = if self.waiting == Waiting::Nobody {
            self.rests.busy_rest_left().as_millis() as u64
        } else {
            // Another thread can have sent the replies, and does not wake this one.
            WAIT_FOR_READERS_MS
        };
        (do_wait && self.must_busy_wait()).then(|| Millis(self.shared.clock.now().0 + left_ms + 1))
    }

    fn is_alarm_due(&self) -> bool {
        self.inbox.alarm().is_some_and(|at| at <= self.shared.clock.now())
    }

    fn round(&mut self) {
        self.now_ms = self.shared.clock.now().0;
        self.sent_from = None;
        self.rests.end_those_over();
        self.waiting = self.waiting_for_readers();
        self.inbox.show_life_sign();
        // Another thread may have asked this thread to check the limits of memory. Each round
        // checks them at its end in any case. So only clear the request here.
        self.inbox.take_excess();
        if self.inbox.take_released() {
            (self.congested, self.silent, self.backlogged) = (false, false, false);
            self.log_failed = self.shared.broker.failure().is_some();
            self.collect_released();
        }
        self.inspect();
        self.collect_loaded();
        self.take_arrivals();
        self.take_ready();
        self.housekeep();
        self.inbox.take_events(&mut self.events);
        let held_back = self.resumed.len();
        if self.is_beside_quiet() {
            // The log has released replies. If they waited for the next turn, they could wait for
            // all its time.
            self.send_short();
        }
        self.read();
        let long_inputs_wait = self.let_short_inputs_first();
        self.take_turn_if_wanted();
        self.send_short();
        let held_back = if long_inputs_wait { self.resumed.len() } else { held_back };
        if self.can_continue(held_back) {
            let connections = if self.may_continue_commands() { held_back } else { 0 };
            self.continue_work(connections, long_inputs_wait);
        }
        self.send_bulky();
        self.enforce_limits();
        let rest = self.rests.due(self.is_beside_quiet());
        if !rest.is_zero() {
            self.shared.broker.end_work();
            std::thread::sleep(rest);
            self.shared.broker.begin_work();
        }
        // Take events that other threads have put into the inbox meanwhile. The next round handles
        // them. Before that round, the thread looks at the sockets.
        self.inbox.take_events(&mut self.events);
        self.await_release();
    }

    /// Whether there is work for `continue_work`: held-back commands of `held_back` connections, or
    /// sessions to close.
    fn can_continue(&self, held_back: usize) -> bool {
        let has_work = held_back > 0 && self.may_continue_commands() || !self.leaving.is_empty();
        has_work && !self.backlogged
    }

    fn may_continue_commands(&self) -> bool {
        !self.congested && !self.must_busy_wait()
    }

    /// Continues the held-back commands of this many connections, and closes sessions. Before this
    /// call, the thread has executed newly arrived requests, and sent their replies. So the clients
    /// of those requests do not wait for this turn.
    fn continue_work(&mut self, connections: usize, beside_short: bool) {
        self.await_release();
        self.let_committer_work();
        self.take_turn(Feed::HeldBack { connections, beside_short });
        self.send_short();
        self.backlogged = self.shared.broker.has_backlog();
    }

    /// Yields the processor to the committer if this thread waits for the log.
    fn let_committer_work(&mut self) {
        if self.awaits_release {
            self.yields.yield_processor();
        }
    }

    /// Updates `awaits_release`, here and in the inbox. A commit wakes only threads that wait for
    /// the log.
    fn await_release(&mut self) {
        let has_held = !self.held_until_written.is_empty() || !self.held_until_durable.is_empty();
        let awaits = has_held || self.congested || self.silent || self.backlogged;
        if awaits == mem::replace(&mut self.awaits_release, awaits) {
            return;
        }
        self.inbox.await_release(awaits);
        if awaits {
            // The log may have released positions just before this update. Then the committer did
            // not wake this thread. So check the positions here. The next round sends the replies.
            self.collect_released();
            self.congested = self.congested && self.must_not_read();
            self.silent = self.silent && !self.may_answer();
            self.backlogged = self.backlogged && self.shared.broker.has_backlog();
        }
    }

    fn take_arrivals(&mut self) {
        for arrival in self.inbox.take_arrivals() {
            let Arrival { socket, admission, listener, open, tls } = arrival;
            // Creating a TLS stream draws random numbers. That takes too long for a turn. So it
            // happens here, before the turn.
            let tls = tls.map(|config| TlsStream::new(config, self.now_ms).map(Box::new));
            let tls = match tls.transpose() {
                Ok(tls) => tls,
                Err(error) => {
                    tracing::warn!(%error, "cannot begin TLS on a new connection");
                    continue;
                }
            };
            let connection = Connection::new(socket, tls, admission, listener, open);
            let place = self.connections.insert(connection);
            self.account.opened();
            let Some(connection) = self.connections.get(place) else { continue };
            (connection.heard_at, connection.opened_at) = (self.now_ms, self.now_ms);
            if connection.wants_session() {
                self.opening.push(place);
            } else {
                // The session is opened after the handshake. `touch` schedules the housekeeping,
                // which checks the time limit of the handshake.
                self.touch(place);
                self.watch(place);
            }
        }
    }

    /// Lets the kernel report when the socket of a new connection becomes ready. Often its first
    /// bytes have already arrived, so the thread also reads.
    fn watch(&mut self, place: u32) {
        let Some(connection) = self.connections.get(place) else { return };
        match self.sockets.add(connection.socket(), place) {
            Ok(()) => self.enqueue_read(place),
            Err(error) => {
                tracing::warn!(%error, "cannot watch a new connection");
                self.leave(place, CloseReason::Failed);
            }
        }
    }

    fn take_ready(&mut self) {
        let mut ready = mem::take(&mut self.ready);
        self.sockets.take(|place, readiness| {
            let Some(connection) = self.connections.get(place) else { return };
            ready.push((place, connection.is_stuck()));
            connection.note_readiness(readiness);
        });
        for (place, was_stuck) in ready.drain(..) {
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
            let line = if connection.phase == Phase::Lingering {
                &mut self.lingering
            } else if connection.is_without_tls_yet() {
                &mut self.handshakes
            } else if connection.busy_until > self.now_ms {
                &mut self.busy_reads
            } else {
                &mut self.reads
            };
            line.push_back(place);
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

    /// Whether the requests of clients must wait.
    fn must_not_read(&self) -> bool {
        self.shared.broker.congested() || !self.may_answer()
    }

    fn may_answer(&self) -> bool {
        self.shared.broker.may_answer(|| self.shared.clock.now())
    }

    /// Reads once from each connection that is ready, while the buffer has room.
    fn read(&mut self) {
        let has_commands = self.has_input() || !self.resumed.is_empty();
        self.congested = has_commands && self.must_not_read();
        if self.congested || self.waiting == Waiting::All {
            return;
        }
        let beside_quiet = self.is_beside_quiet();
        let mut used = 0;
        // A connection that becomes busy in this round waits for the next one: a round reads each
        // connection once.
        let busy_count = if self.must_busy_wait() { 0 } else { self.busy_reads.len() };
        // At least one busy client is read in each round, whatever quiet ones send.
        let quiet_end = self.buffer.len() - if busy_count == 0 { 0 } else { READ_BYTES_MIN };
        for _ in 0..self.reads.len() {
            if quiet_end - used < READ_BYTES_MIN {
                break;
            }
            let Some(place) = self.reads.pop_front() else { break };
            // A client that sends more is busy from this read on, and its rest comes later.
            let end = if beside_quiet { used + READ_BYTES_MIN } else { quiet_end };
            self.read_from(place, &mut used, end);
        }
        let busy_bytes = if beside_quiet { BUSY_BYTES_BESIDE_QUIET } else { ROUND_BYTES };
        let end = self.buffer.len().min(used + busy_bytes);
        for _ in 0..busy_count {
            if end - used < READ_BYTES_MIN {
                break;
            }
            let Some(place) = self.busy_reads.pop_front() else { break };
            self.read_from(place, &mut used, end);
        }
        // A step of a handshake can need a signature, which takes as long as hundreds of commands.
        // So each round does only one such step, after its other reads.
        if self.buffer.len() - used >= READ_BYTES_MIN
            && let Some(place) = self.handshakes.pop_front()
        {
            self.read_from(place, &mut used, self.buffer.len());
        }
        for _ in 0..self.lingering.len().min(LINGERING_READS_MAX) {
            let Some(place) = self.lingering.pop_front() else { break };
            self.discard_from(place);
        }
    }

    /// Reads once from a lingering connection, and discards the bytes, because they arrived after
    /// the last reply.
    fn discard_from(&mut self, place: u32) {
        let Some(connection) = self.connections.get(place) else { return };
        // A new connection can have the place of a removed one. Its bytes are requests.
        if connection.phase != Phase::Lingering {
            return;
        }
        connection.in_reads = false;
        match connection.read(&mut [0; READ_BYTES_MIN]) {
            Ok(Read::Bytes(_) | Read::Nothing) => self.enqueue_read(place),
            Ok(Read::End) | Err(_) => self.remove(place),
        }
    }

    /// Reads once from a connection. The first `used` bytes of the buffer are already in use, and
    /// the read uses no byte after `end`.
    fn read_from(&mut self, place: u32, used: &mut usize, end: usize) {
        let Some(connection) = self.connections.get(place) else { return };
        connection.in_reads = false;
        if connection.phase == Phase::Lingering {
            // It began to linger while it was in another line.
            return self.enqueue_read(place);
        }
        if !connection.wants_read() {
            return;
        }
        match connection.read(&mut self.buffer[*used..end]) {
            Ok(Read::Bytes(count))
                if connection.speaks_wrong_protocol(&self.buffer[*used..*used + count]) =>
            {
                self.turn_away(place);
            }
            Ok(Read::Bytes(count)) => {
                connection.heard_at = self.now_ms;
                connection.received_bytes += count as u64;
                let range = *used..*used + count;
                if !is_short(&range) {
                    connection.busy_until = self.now_ms + BUSY_MS;
                }
                self.batch.push((place, range));
                *used += count;
            }
            Ok(Read::Nothing) if connection.has_tls_to_send() => self.touch(place),
            Ok(Read::Nothing) => {}
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

    /// Closes the connection of a client that sent HTTP or TLS to a port of another protocol. It is
    /// probably a browser. The server ignores the bytes, because a web page may have made the
    /// browser send them.
    fn turn_away(&mut self, place: u32) {
        let Some(connection) = self.connections.get(place) else { return };
        self.shared.limits.refused.wrong_protocol.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = self.foreigners.count() {
            let (protocol, peer) = (connection.protocol().name(), connection.peer().shown());
            tracing::warn!(
                protocol,
                peer,
                count,
                "closed at once: the client sent HTTP or TLS to a port that does not speak it; perhaps a web page did"
            );
        }
        self.leave(place, CloseReason::Failed);
    }

    /// Discards all work that has not begun yet, during a stop.
    fn discard_pending(&mut self) {
        self.inbox.take_arrivals();
        self.inbox.take_events(&mut self.events);
        self.events.clear();
        self.reads.clear();
        self.busy_reads.clear();
        self.handshakes.clear();
        self.lingering.clear();
        self.resumed.clear();
        for (place, reason) in mem::take(&mut self.leaving) {
            if reason == CloseReason::Failed {
                self.remove(place);
            }
        }
    }

    /// Closes a broken connection.
    fn abandon(&mut self, place: u32, error: &io::Error) {
        tracing::debug!(connection = place, %error, "connection lost");
        self.leave(place, CloseReason::Failed);
    }

    fn leave(&mut self, place: u32, reason: CloseReason) {
        if let Some(connection) = self.connections.get(place)
            && connection.phase != Phase::Lingering
            && !mem::replace(&mut connection.in_leaving, true)
        {
            self.leaving.push((place, reason));
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
