//! One connection: its socket, its session, and its waiting bytes in both directions. Each function
//! is one step. The I/O thread that owns the connection decides when to take a step.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{Answer, Broker, Dialect, Event, Outbox, Position, Progress, SessionId, Turn};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use crate::config::listener::Listener;
use crate::config::protocol::Protocol;
use crate::net::first_line::{FirstLine, Verdict};
use crate::net::limits::Admission;
use crate::net::pending::Pending;
use crate::net::tls_stream::TlsStream;
use crate::threads::mailbox::{ConnectionInfo, OpenSession, Peer};
use crate::threads::sockets::Readiness;
use crate::threads::turn_time::{SHORT_INPUT_BYTES, TurnTime};

/// While a connection has more unsent bytes than this, its commands wait. Otherwise many short
/// requests with large replies could fill the memory.
const OUTBOX_BYTES_MAX: usize = 1 << 20;

/// Limit of pending bytes if the session waits and the client has closed its sending side. In this
/// case, the server reads the socket to the end, to distinguish a half-close from a broken
/// connection. By default, the kernel buffers fewer bytes than this limit.
const WAITING_BYTES_MAX: usize = 8 << 20;

/// Limit of pending bytes of a TLS connection while its session waits. With TLS, a half-close is
/// part of the encrypted bytes. So the server must read such a connection to notice a half-close.
const WAITING_TLS_BYTES_MAX: usize = 64 << 10;

/// The stage of a connection.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    /// The server executes commands and replies to them.
    Open,
    /// The server executes no more commands, and sends the last replies.
    Flushing,
    /// All replies are sent. The server reads and discards further bytes until the client closes
    /// the connection, too. If the server closed a socket with unread bytes, the kernel would
    /// discard the last replies.
    Lingering,
}

/// The result of a read.
pub(crate) enum Read {
    /// This many bytes were read.
    Bytes(usize),
    /// The client has closed its sending side.
    End,
    /// There are no bytes to read now.
    Nothing,
}

/// The result of sending.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Sent {
    /// Whether bytes were sent, or there was nothing to send.
    pub(crate) progress: bool,
    /// Number of reply bytes that were sent.
    pub(crate) bytes: usize,
}

/// Extra memory of a TLS connection after its handshake, measured with a thousand connections.
pub(crate) const TLS_BYTES: u64 = 7 << 10;

/// Memory that one or more connections use, in bytes.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
#[expect(clippy::struct_field_names, reason = "the unit is part of the names")]
pub(crate) struct Held {
    /// Bytes of incomplete or waiting commands, except puts that wait for room.
    pub(crate) unfinished_bytes: u64,
    /// Bytes of puts that wait for room in a full queue.
    pub(crate) blocked_bytes: u64,
    /// Bytes of unsent replies, without bodies that are not loaded yet.
    pub(crate) unsent_bytes: u64,
    /// Bytes of replies that wait because the client reads too slowly.
    pub(crate) stuck_bytes: u64,
    /// Bytes of bodies that were loaded for replies, unless the client reads too slowly.
    pub(crate) loaded_bytes: u64,
    /// Bytes of TLS state.
    pub(crate) tls_bytes: u64,
}

pub(crate) struct Connection {
    socket: OwnedFd,
    /// The TLS layer between socket and dialect, if the connection speaks TLS.
    tls: Option<Box<TlsStream>>,
    admission: Admission,
    listener: Arc<Listener>,
    /// Opens the session. `None` after the session is open.
    open: Option<Arc<OpenSession>>,
    /// The session in the broker, once it is open.
    pub(crate) session: Option<SessionId>,
    pub(crate) dialect: Box<dyn Dialect>,
    /// The client's first line, until it shows whether the client speaks another protocol.
    first_line: Option<Box<FirstLine>>,
    pub(crate) outbox: Outbox,
    /// Bytes that the dialect did not use: part of a command, or bytes that arrived while the
    /// session waited.
    pending: Pending,
    pub(crate) phase: Phase,
    /// The memory of the connection, as last added to the thread's account.
    pub(crate) counted: Held,
    /// The later of two times, in milliseconds of the clock: when bytes were last sent, and when
    /// replies began to wait.
    pub(crate) progress_at: u64,
    /// The number of unsent bytes at the last housekeeping, if the client was too far behind.
    /// Otherwise `None`.
    pub(crate) was_behind_by: Option<NonZeroU64>,
    /// When bytes last arrived, in milliseconds of the clock.
    pub(crate) heard_at: u64,
    /// When the connection was opened, in milliseconds of the clock.
    pub(crate) opened_at: u64,
    /// The client counts as busy until this time, in milliseconds of the clock: see
    /// `IoThread::look_at_inputs`.
    pub(crate) busy_until: u64,
    /// Bytes from the client.
    pub(crate) received_bytes: u64,
    /// Bytes of replies that were sent.
    pub(crate) sent_bytes: u64,
    /// When the turn began that made the first of the unsent replies. `None`: no reply is unsent.
    asked_at: Option<Instant>,
    /// When the session's last wait ended, in milliseconds of the clock. During a wait, the client
    /// has no reason to send more of a request.
    waited_until: u64,
    /// The socket may have bytes to read.
    readable: bool,
    /// The socket may have room for bytes to send.
    writable: bool,
    /// The kernel has reported the end of input. The socket may still have unread bytes.
    peer_ended: bool,
    /// The connection has read all input, up to the end.
    input_ended: bool,
    /// [`Dialect::end_of_input`] was called.
    end_told: bool,
    /// The connection has *held-back* commands: complete commands that wait for a later turn, or
    /// until replies are sent.
    held_back: bool,
    /// The dialect stopped in the middle of its work. So the dialect has work even if no bytes are
    /// pending.
    unfinished: bool,
    // Each flag from here to `in_opening` says whether a list of the I/O thread contains the
    // connection. The flag is named after the list.
    pub(crate) in_reads: bool,
    pub(crate) in_touched: bool,
    pub(crate) in_bulky: bool,
    pub(crate) in_held: bool,
    pub(crate) in_recent: bool,
    pub(crate) in_leaving: bool,
    pub(crate) in_resumed: bool,
    pub(crate) in_opening: bool,
    /// The connection was used since the last housekeeping, which the I/O thread does regularly.
    pub(crate) active: bool,
}

impl Connection {
    pub(crate) fn new(
        socket: OwnedFd,
        tls: Option<Box<TlsStream>>,
        admission: Admission,
        listener: Arc<Listener>,
        open: Arc<OpenSession>,
    ) -> Connection {
        Connection {
            socket,
            tls,
            admission,
            open: Some(open),
            session: None,
            dialect: Box::new(NoSession),
            first_line: (!listener.protocol.is_http()).then(Box::default),
            listener,
            outbox: Outbox::default(),
            pending: Pending::default(),
            phase: Phase::Open,
            counted: Held::default(),
            progress_at: 0,
            was_behind_by: None,
            heard_at: 0,
            opened_at: 0,
            busy_until: 0,
            received_bytes: 0,
            sent_bytes: 0,
            asked_at: None,
            waited_until: 0,
            // Read at once, because often the first bytes have already arrived.
            readable: true,
            writable: true,
            peer_ended: false,
            input_ended: false,
            end_told: false,
            held_back: false,
            unfinished: false,
            in_reads: false,
            in_touched: false,
            in_bulky: false,
            in_held: false,
            in_recent: false,
            in_leaving: false,
            in_resumed: false,
            in_opening: false,
            active: true,
        }
    }

    /// The socket, so that its thread can watch it.
    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Notes what the kernel has reported about the socket.
    pub(crate) fn note_readiness(&mut self, readiness: Readiness) {
        self.readable |= readiness.readable;
        self.writable |= readiness.writable;
        self.peer_ended |= readiness.ended;
    }

    /// Whether the I/O thread should read from this connection now.
    pub(crate) fn wants_read(&self) -> bool {
        if !self.readable || self.input_ended {
            return false;
        }
        match self.phase {
            Phase::Open if self.in_leaving => false,
            Phase::Open if self.dialect.wants_input() => {
                !self.held_back && self.outbox.len() <= OUTBOX_BYTES_MAX
            }
            Phase::Open if self.peer_ended => self.pending.len() < WAITING_BYTES_MAX,
            Phase::Open => self.tls.is_some() && self.pending.len() < WAITING_TLS_BYTES_MAX,
            Phase::Flushing => false,
            Phase::Lingering => true,
        }
    }

    /// Reads once.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Read> {
        if self.tls.is_some() {
            return self.read_tls(buffer);
        }
        let room = buffer.len();
        match retry(|| rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT)) {
            Ok((0, _)) => {
                self.readable = false;
                self.input_ended = true;
                Ok(Read::End)
            }
            Ok((count, _)) => {
                // If a read does not fill the buffer, the socket is empty. New bytes will wake the
                // thread.
                self.readable = count == room || self.peer_ended;
                Ok(Read::Bytes(count))
            }
            Err(Errno::WOULDBLOCK) => {
                self.readable = false;
                Ok(Read::Nothing)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads once through TLS. If this returns `Read::Nothing`, TLS may have something to send.
    fn read_tls(&mut self, buffer: &mut [u8]) -> io::Result<Read> {
        let Some(tls) = &mut self.tls else { return Ok(Read::Nothing) };
        let (plaintext, ciphertext) = buffer.split_at_mut(buffer.len() / 2);
        let mut count = tls.take(plaintext);
        if count == 0 && !tls.has_ended() {
            match retry(|| rustix::net::recv(&self.socket, &mut *ciphertext, RecvFlags::DONTWAIT)) {
                Ok((0, _)) => {
                    self.readable = false;
                    tls.end();
                }
                Ok((received, _)) => {
                    self.readable = received == ciphertext.len() || self.peer_ended;
                    match tls.decrypt(&ciphertext[..received], plaintext) {
                        Ok(decrypted) => count = decrypted,
                        Err(error) => {
                            tracing::debug!(%error, "TLS failed");
                            self.phase = Phase::Flushing;
                            return Ok(Read::Nothing);
                        }
                    }
                }
                Err(Errno::WOULDBLOCK) => self.readable = false,
                Err(error) => return Err(error.into()),
            }
        }
        if count > 0 {
            // TLS may have more decrypted bytes. The socket does not report such bytes as readable,
            // so set the flag here.
            self.readable |= count == plaintext.len() || tls.has_ended();
            return Ok(Read::Bytes(count));
        }
        if !tls.has_ended() {
            return Ok(Read::Nothing);
        }
        if tls.is_unusable() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.readable = false;
        self.input_ended = true;
        Ok(Read::End)
    }

    /// Opens the session. With TLS, the handshake must have succeeded, because it checks the
    /// client's certificate.
    pub(crate) fn open_session(
        &mut self,
        turn: &mut Turn<'_>,
        mailbox: usize,
    ) -> Option<SessionId> {
        let open = self.open.take()?;
        let info = ConnectionInfo { peer: self.peer(), listener: &self.listener, names: None };
        let (session, dialect) = open(info, turn, mailbox);
        turn.set_peer(session, &self.peer().shown_with_port());
        self.dialect = dialect;
        self.session = Some(session);
        self.session
    }

    /// Whether the session is not open yet, and can be opened now.
    pub(crate) fn wants_session(&self) -> bool {
        self.open.is_some() && self.phase == Phase::Open && !self.is_without_tls_yet()
    }

    /// The client's address.
    pub(crate) fn peer(&self) -> Peer {
        self.admission.peer()
    }

    /// Whether the connection uses TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.listener.protocol
    }

    /// Whether the client speaks HTTP or TLS at a port of another protocol. `arrived` has the bytes
    /// that were just read.
    pub(crate) fn speaks_wrong_protocol(&mut self, arrived: &[u8]) -> bool {
        let Some(line) = &mut self.first_line else { return false };
        match line.scan(arrived) {
            Verdict::Open => false,
            Verdict::Other => {
                self.first_line = None;
                false
            }
            Verdict::WrongProtocol => true,
        }
    }

    /// Whether the dialect stopped in the middle of its work, because its slice was spent.
    pub(crate) fn is_mid_work(&self) -> bool {
        self.unfinished
    }

    /// Whether there are held-back commands that can continue, because enough replies were sent.
    /// The dialect makes no step while a body waits and there are many loads. The load of this body
    /// then touches the connection.
    pub(crate) fn has_work(&mut self, broker: &Broker) -> bool {
        self.held_back
            && self.phase == Phase::Open
            && !self.in_leaving
            && self.outbox.len() <= OUTBOX_BYTES_MAX
            && !(self.outbox.waits_for_body() && broker.has_many_loads())
    }

    /// Passes pending and new bytes to the dialect, then the end of input.
    pub(crate) fn feed(&mut self, arrived: &[u8], turn: &mut Turn<'_>, time: TurnTime) {
        if self.phase != Phase::Open || self.in_leaving {
            return;
        }
        self.held_back = false;
        if self.pending.is_empty() {
            let used = self.present(arrived, turn, time);
            self.pending.append(&arrived[used..]);
        } else {
            self.pending.append(arrived);
            self.present_pending(turn, time);
        }
        if self.input_ended && !self.end_told && !self.held_back {
            self.end_told = true;
            self.dialect.end_of_input(turn, &mut self.outbox);
            self.present_pending(turn, time);
        }
        self.end_if_finished();
    }

    fn present_pending(&mut self, turn: &mut Turn<'_>, time: TurnTime) {
        let mut pending = std::mem::take(&mut self.pending);
        let used = self.present(pending.as_slice(), turn, time);
        pending.consume(used);
        self.pending = pending;
    }

    /// Called after an event ended the session's wait. Pending commands become held-back commands.
    /// They continue in a later turn, because the thread must first check whether the log is too
    /// slow.
    pub(crate) fn go_on_after_event(&mut self, now_ms: u64) {
        if self.phase == Phase::Open {
            self.waited_until = now_ms;
            self.unfinished |= self.dialect.has_more();
            self.held_back |= self.unfinished || !self.pending.is_empty();
            self.end_if_finished();
        }
    }

    fn end_if_finished(&mut self) {
        if self.dialect.finished() {
            self.phase = Phase::Flushing;
            self.pending = Pending::default();
        }
    }

    /// Keeps new bytes for a later turn.
    pub(crate) fn hold_back(&mut self, arrived: &[u8]) {
        if self.phase == Phase::Open {
            self.pending.append(arrived);
            self.held_back = true;
        }
    }

    /// Passes bytes to the dialect in pieces, and returns how many bytes the dialect used. Between
    /// two pieces, checks the unsent bytes and the time of the turn. Holds back the unused bytes if
    /// too many replies are unsent, a slice is spent, or the turn has lasted too long.
    fn present(&mut self, bytes: &[u8], turn: &mut Turn<'_>, time: TurnTime) -> usize {
        // After the end of input, the dialect discards an incomplete command. A piece could end
        // inside a complete command. So pass all bytes at once.
        let is_whole = self.end_told || bytes.len() <= SHORT_INPUT_BYTES;
        let mut piece = if is_whole { bytes.len() } else { time.piece_bytes() };
        let (mut used, mut is_first) = (0, true);
        while (used < bytes.len() || self.unfinished) && !self.dialect.finished() {
            if self.outbox.len() > OUTBOX_BYTES_MAX || (!is_first && time.is_over()) {
                self.held_back = true;
                break;
            }
            is_first = false;
            let end = bytes.len().min(used + piece);
            let Progress { used: count, more } =
                self.dialect.input(&bytes[used..end], turn, &mut self.outbox);
            used += count;
            self.unfinished = more;
            if more {
                // Other connections come before the next slice of this connection.
                self.held_back = true;
                break;
            }
            if count == 0 {
                if end == bytes.len() || !self.dialect.wants_input() {
                    break;
                }
                // The dialect needs more bytes of the command. So try a longer piece.
                piece *= 2;
            }
        }
        used
    }

    /// Sends released replies, and stops after about `bytes_max` bytes.
    pub(crate) fn send(&mut self, released: Position, bytes_max: usize) -> io::Result<Sent> {
        if self.tls.is_some() {
            return self.send_tls(released, bytes_max);
        }
        let mut sent = Sent::default();
        while self.writable && sent.bytes < bytes_max {
            let bytes = self.outbox.sendable(released);
            let bytes = &bytes[..bytes.len().min(bytes_max - sent.bytes)];
            if bytes.is_empty() {
                sent.progress = true;
                return Ok(sent);
            }
            let wanted = bytes.len();
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match retry(|| rustix::net::send(&self.socket, bytes, flags)) {
                Ok(count) => {
                    sent.progress = true;
                    sent.bytes += count;
                    self.outbox.advance(count);
                    if count < wanted {
                        self.writable = false;
                    }
                }
                Err(Errno::WOULDBLOCK) => self.writable = false,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(sent)
    }

    /// Sends released replies through TLS. Each pass encrypts as many records as TLS can buffer.
    fn send_tls(&mut self, released: Position, bytes_max: usize) -> io::Result<Sent> {
        let mut sent = Sent::default();
        while self.send_ciphertext(&mut sent.progress)? {
            let Some(tls) = &mut self.tls else { break };
            if tls.has_failed() {
                self.outbox = Outbox::default();
            }
            if tls.is_unusable() {
                sent.progress = true;
                return Ok(sent);
            }
            while sent.bytes < bytes_max {
                let bytes = self.outbox.sendable(released);
                let wanted = bytes.len();
                let count = if wanted == 0 { 0 } else { tls.encrypt(bytes)? };
                self.outbox.advance(count);
                sent.bytes += count;
                if count == 0 || count < wanted {
                    break;
                }
            }
            if !tls.has_ciphertext() {
                sent.progress = true;
                return Ok(sent);
            }
        }
        Ok(sent)
    }

    /// Notes that the replies in the outbox were made in a turn that began at this moment, if they
    /// were not noted before.
    pub(crate) fn note_asked(&mut self, turn_began: Instant) {
        if self.asked_at.is_none() && !self.outbox.is_empty() {
            self.asked_at = Some(turn_began);
        }
    }

    /// If all replies are sent, the time from the turn that made the first of them until `now`.
    pub(crate) fn take_request_time(&mut self, now: Instant) -> Option<Duration> {
        if !self.outbox.is_empty() {
            return None;
        }
        self.asked_at.take().map(|asked| now.saturating_duration_since(asked))
    }

    /// Whether there are replies that can be sent now.
    pub(crate) fn can_send(&mut self, released: Position) -> bool {
        self.writable && !self.is_without_tls_yet() && !self.outbox.sendable(released).is_empty()
    }

    /// Sends encrypted bytes. Returns true if it has sent all of them.
    fn send_ciphertext(&mut self, progress: &mut bool) -> io::Result<bool> {
        while let Some(tls) = self.tls.as_mut().filter(|tls| tls.has_ciphertext()) {
            if !self.writable {
                return Ok(false);
            }
            match tls.send(&self.socket) {
                Ok(()) => *progress = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Whether TLS has bytes to send, or has failed. Called after a read without decrypted bytes.
    pub(crate) fn has_tls_to_send(&self) -> bool {
        self.has_ciphertext() || self.phase == Phase::Flushing
    }

    /// Whether encrypted bytes wait to be sent.
    fn has_ciphertext(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_ciphertext())
    }

    /// Whether there are unsent replies.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.outbox.is_empty() || self.has_ciphertext()
    }

    /// Whether the TLS handshake has failed or is not finished.
    pub(crate) fn is_without_tls_yet(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_unusable())
    }

    /// Bytes of memory for incomplete or waiting commands, except puts that wait for room.
    fn unfinished_bytes(&self) -> usize {
        match self.phase {
            Phase::Open => {
                // An empty buffer does not count, because housekeeping frees the buffer when the
                // connection is idle.
                let is_kept = self.pending.is_empty();
                let pending_bytes = if is_kept { 0 } else { self.pending.capacity() };
                let allocated = |bytes| broker::allocated_bytes(bytes) as usize;
                allocated(pending_bytes) + allocated(self.dialect.buffered_bytes())
            }
            Phase::Flushing | Phase::Lingering => 0,
        }
    }

    /// Bytes of memory for a put that waits for room.
    fn blocked_bytes(&self) -> usize {
        match self.phase {
            Phase::Open => broker::allocated_bytes(self.dialect.blocked_bytes()) as usize,
            Phase::Flushing | Phase::Lingering => 0,
        }
    }

    /// The connection's current memory.
    pub(crate) fn held(&mut self) -> Held {
        if self.in_leaving {
            // The connection closes soon, so its memory counts as already freed.
            return Held::default();
        }
        // A body that is not loaded yet takes no memory, and no reader can make it leave.
        let unsent_bytes = self.outbox.resident_len() as u64;
        let loaded_bytes = self.outbox.loaded_len() as u64;
        let is_stuck = self.is_stuck();
        Held {
            unfinished_bytes: self.unfinished_bytes() as u64,
            blocked_bytes: self.blocked_bytes() as u64,
            unsent_bytes,
            stuck_bytes: if is_stuck { unsent_bytes } else { 0 },
            loaded_bytes: if is_stuck { 0 } else { loaded_bytes },
            tls_bytes: if self.tls.is_some() { TLS_BYTES } else { 0 },
        }
    }

    /// Whether a part of a request has arrived, or whole requests wait.
    pub(crate) fn has_begun_request(&self) -> bool {
        self.phase == Phase::Open && (self.dialect.is_mid_request() || !self.pending.is_empty())
    }

    /// Whether the server waits until the client sends more bytes of a request.
    fn is_mid_request(&self) -> bool {
        self.has_begun_request() && self.dialect.wants_input() && !self.held_back && !self.readable
    }

    /// Whether the server has waited for the end of a request for `most_ms` or longer.
    pub(crate) fn is_request_overdue(&self, now_ms: u64, most_ms: u64) -> bool {
        let since = self.heard_at.max(self.waited_until);
        self.is_mid_request() && now_ms.saturating_sub(since) >= most_ms
    }

    /// How long the client can be silent, in milliseconds. `None` means for ever.
    pub(crate) fn silence_max_ms(&self) -> Option<u64> {
        self.listener.silence_max_ms
    }

    /// Whether the client has been silent for too long.
    pub(crate) fn is_too_silent(&self, now_ms: u64) -> bool {
        self.silence_max_ms().is_some_and(|most| now_ms.saturating_sub(self.heard_at) >= most)
    }

    /// Whether the TLS handshake takes too long.
    pub(crate) fn is_tls_overdue(&self, now_ms: u64) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_overdue(now_ms))
    }

    /// Whether replies wait because the client reads too slowly.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.writable && self.has_unsent()
    }

    /// Whether the client is too far behind now, was too far behind at the last call, and has not
    /// caught up in between. Housekeeping calls this each time.
    pub(crate) fn falls_behind(&mut self, unsent_bytes: u64, bytes_max: u64) -> bool {
        let is_behind = self.is_stuck() && unsent_bytes > bytes_max;
        let behind_by = NonZeroU64::new(unsent_bytes).filter(|_| is_behind);
        let before = std::mem::replace(&mut self.was_behind_by, behind_by);
        is_behind && before.is_some_and(|before| unsent_bytes >= before.get())
    }

    /// Whether the last reply is sent. If so, the connection can end.
    pub(crate) fn is_flushed(&self) -> bool {
        self.phase == Phase::Flushing && !self.has_unsent()
    }

    /// Begins [`Phase::Lingering`]. Returns false if the client has already closed the connection,
    /// so that the server can close it at once.
    pub(crate) fn linger(&mut self) -> bool {
        self.phase = Phase::Lingering;
        self.pending = Pending::default();
        self.outbox.shrink();
        if let Some(mut tls) = self.tls.take() {
            tls.send_end(&self.socket);
        }
        !self.input_ended && rustix::net::shutdown(&self.socket, Shutdown::Write).is_ok()
    }

    /// Frees empty buffers, which the connection keeps for its next request.
    pub(crate) fn shrink(&mut self) {
        self.pending.shrink();
        self.outbox.shrink();
    }
}

/// A placeholder for the dialect until the session is open. It gets no bytes.
struct NoSession;

impl Dialect for NoSession {
    fn input(&mut self, _bytes: &[u8], _turn: &mut Turn<'_>, _outbox: &mut Outbox) -> Progress {
        Progress::default()
    }

    fn event(&mut self, _event: Answer<Event>, _turn: &mut Turn<'_>, _outbox: &mut Outbox) {}

    fn end_of_input(&mut self, _turn: &mut Turn<'_>, _outbox: &mut Outbox) {}

    fn wants_input(&self) -> bool {
        true
    }

    fn buffered_bytes(&self) -> usize {
        0
    }

    fn is_mid_request(&self) -> bool {
        false
    }

    fn finished(&self) -> bool {
        false
    }

    fn close(&mut self, _turn: &mut Turn<'_>) {}
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}
