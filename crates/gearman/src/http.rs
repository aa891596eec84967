//! A connection that speaks HTTP. One request submits one job, and the response has the outcome of
//! the job (spec gearman 7).

use std::io::Write as _;
use std::sync::Arc;

use broker::limits::UNIT_BODY_BYTES;
use broker::{
    Answer, Body, BodyBuffer, Dialect, Event, JobId, Millis, News, Outbox, Position, Progress,
    PutRefusal, SessionId, Submit, Turn,
};

use origin::Gate;

use crate::clients::UNIQUE_BYTES_MAX;
use crate::early_data::EarlyData;
use crate::environment::Server;
use crate::http_request::{HEAD_BYTES_MAX, Method, Refusal, Request, head_end};
use crate::packet::HEADER_BYTES;
use crate::reply::{self, AT_ONCE, Failure, not_submitted};

/// Time limit for the head of a request. A client cannot extend this limit by sending single bytes.
/// A body has no such limit while its bytes arrive.
const HEAD_TIME_MAX_MS: u64 = 10_000;

/// The reply to a client that waits for permission to send its workload (`Expect: 100-continue`).
const LEAVE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A connection of an HTTP client, without I/O. The connection ends after one response.
#[derive(Debug)]
pub struct HttpSession {
    id: SessionId,
    server: Arc<Server>,
    /// Decides which requests the server accepts.
    gate: Gate,
    /// When the first bytes of the head arrived. The client may have connected long before.
    head_began: Option<Millis>,
    stage: Stage,
}

/// The stage of the request.
#[derive(Debug)]
enum Stage {
    Head,
    Body(Request, BodyBuffer),
    /// The request is complete. The job with its key is only in the log, and the broker loads it.
    Loading(Request, Body),
    /// The job is submitted, and the client waits for the outcome.
    Waiting(Waiting),
    /// The session is closed in the broker. The connection ignores all input, and sends no more
    /// replies.
    Ended,
}

#[derive(Debug)]
struct Waiting {
    method: Method,
    /// Data that the worker has sent before the result.
    data: EarlyData,
}

impl HttpSession {
    /// Opens the session of a new connection that came through `gate`. The broker sends the
    /// session's events to `mailbox`.
    pub fn new(server: Arc<Server>, gate: Gate, turn: &mut Turn<'_>, mailbox: usize) -> Self {
        let id = turn.open_worker_session(mailbox);
        Self { id, server, gate, head_began: None, stage: Stage::Head }
    }

    /// The id of the session in the broker. Events have this id as their address.
    pub fn id(&self) -> SessionId {
        self.id
    }

    fn read_head(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let began = *self.head_began.get_or_insert(turn.now());
        if turn.now().since(began) > HEAD_TIME_MAX_MS {
            self.answer_plainly("408 Request Timeout", turn, outbox);
            return 0;
        }
        let Some(end) = head_end(bytes) else {
            if bytes.len() >= HEAD_BYTES_MAX {
                self.answer_plainly(Refusal::TooManyHeaders.status(), turn, outbox);
            }
            return 0;
        };
        match Request::parse(&bytes[..end], &self.gate) {
            Ok(request) => self.take_head(request, turn, outbox),
            // Here the original closes the connection without a response.
            Err(refusal) => self.answer_plainly(refusal.status(), turn, outbox),
        }
        end
    }

    fn take_head(&mut self, request: Request, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if request.function.is_empty() {
            let status = if request.method == Method::Head { "200 OK" } else { "404 NOT_FOUND" };
            return self.answer_plainly(status, turn, outbox);
        }
        // Refuse the request. Without the length, the server could only submit an empty job, which
        // the client did not mean.
        if request.has_no_length {
            return self.answer_plainly("411 Length Required", turn, outbox);
        }
        if request.body_bytes > self.body_bytes_max(&request) {
            return self.answer_plainly("413 Request Entity Too Large", turn, outbox);
        }
        let body_bytes = request.body_bytes as usize;
        if !turn.admits_body(body_bytes) {
            let failure = not_submitted(PutRefusal::MemoryFull);
            return self.refuse(request.method, Answer::at_once(failure), turn, outbox);
        }
        if request.asks_leave && body_bytes > 0 {
            outbox.reply(AT_ONCE, LEAVE);
        }
        let buffer = BodyBuffer::with_end(body_bytes, 0);
        self.stage = Stage::Body(request, buffer);
        self.read_body(&[], turn, outbox);
    }

    /// The largest body that the server accepts with this head. With such a body, a packet with the
    /// same function, key and workload would just reach the size limit of packets.
    fn body_bytes_max(&self, request: &Request) -> u64 {
        let separators = 2;
        let others = HEADER_BYTES + request.names_bytes() + separators;
        u64::from(self.server.options.packet_bytes_max).saturating_sub(others as u64)
    }

    fn read_body(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let Stage::Body(_, buffer) = &mut self.stage else { return 0 };
        let (count, frame) = buffer.complete_frame(bytes);
        if let Some(frame) = frame
            && let Stage::Body(request, _) = std::mem::replace(&mut self.stage, Stage::Head)
        {
            let (body, []) = frame.split_end();
            self.submit_if_at_hand(request, body, turn, outbox);
        }
        count
    }

    fn submit_if_at_hand(
        &mut self,
        request: Request,
        body: Body,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        if turn.caller(self.id).is_key_at_hand(Some(&request.function), &request.unique) {
            self.submit(request, body, turn, outbox);
        } else {
            self.stage = Stage::Loading(request, body);
        }
    }

    fn submit(&mut self, request: Request, body: Body, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let Request { method, function, unique, priority, background, .. } = request;
        if unique.len() > UNIQUE_BYTES_MAX {
            return self.refuse(method, Answer::at_once(reply::UNIQUE_TOO_LARGE), turn, outbox);
        }
        let submit = Submit {
            priority,
            due: None,
            unique: &unique,
            reducer: b"",
            body,
            foreground: !background,
        };
        let Answer { value, after } = turn.caller(self.id).submit(&function, submit);
        match value {
            Ok(id) if background => {
                let handle = self.server.prefix.handle(id);
                let head = self.head(method, &handle, "JOB_CREATED", 0);
                outbox.reply(after, &head);
                self.end(turn);
            }
            Ok(_) => self.stage = Stage::Waiting(Waiting { method, data: EarlyData::default() }),
            Err(refusal) => {
                let failure = Answer::new(not_submitted(refusal), after);
                self.refuse(method, failure, turn, outbox);
            }
        }
    }

    /// Handles news of the job. The response contains only the outcome. The session stores data of
    /// the worker, and sends it in front of the result. It ignores warnings and progress, because
    /// an HTTP response cannot contain them. If more data arrives than fits into a packet, the
    /// connection ends.
    fn send_news(
        &mut self,
        id: JobId,
        news: &News,
        after: Position,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        let bytes_max = self.server.options.packet_bytes_max as usize;
        let Stage::Waiting(Waiting { method, data }) = &mut self.stage else { return };
        let method = *method;
        let (command, result) = match news {
            News::Data(more) => {
                if data.total_bytes() + more.len() > bytes_max {
                    self.end(turn);
                } else {
                    // The owner counts only the bytes of replies.
                    turn.count_work(data.push(more) / UNIT_BODY_BYTES);
                }
                return;
            }
            News::Warning(_) | News::Progress(_) => return,
            News::Complete(result) => ("WORK_COMPLETE", Some(result)),
            News::Exception(_) | News::Fail => ("WORK_FAIL", None),
        };
        let data = std::mem::take(data);
        let body_bytes = result.map_or(0, |result| data.total_bytes() + result.len());
        if body_bytes <= bytes_max {
            let handle = self.server.prefix.handle(id);
            outbox.reply(after, &self.head(method, &handle, command, body_bytes));
            if let Some(result) = result.filter(|_| method != Method::Head) {
                data.send(after, outbox);
                outbox.reply_with_body(after, b"", &result.clone().into(), b"");
            }
        }
        self.end(turn);
    }

    /// Replies with an error. As in the original, the response has the status 200, and the error
    /// code is in place of the job handle.
    fn refuse(
        &mut self,
        method: Method,
        failure: Answer<Failure>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        let head = self.head(method, failure.value.code().as_bytes(), "ERROR", 0);
        outbox.reply(failure.after, &head);
        self.end(turn);
    }

    /// The head of a response about a job.
    fn head(&self, method: Method, handle: &[u8], command: &str, body_bytes: usize) -> Vec<u8> {
        let mut head = b"HTTP/1.0 200 OK\r\nX-Gearman-Job-Handle: ".to_vec();
        head.extend_from_slice(handle);
        let line = match method {
            Method::Post | Method::Get => format!("\r\nX-Gearman-Command: {command}"),
            // As in the original, the response to HEAD does not contain the outcome.
            Method::Head => String::new(),
        };
        let version = &self.server.options.version;
        write!(
            head,
            "{line}\r\nContent-Length: {body_bytes}\r\nServer: Lineshaft/{version}\r\n\r\n"
        )
        .expect("a vector takes everything");
        head
    }

    /// Sends a response that is not about a job.
    fn answer_plainly(&mut self, status: &str, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let version = &self.server.options.version;
        let head = format!(
            "HTTP/1.0 {status}\r\nServer: Lineshaft/{version}\r\nContent-Length: 0\r\n\r\n"
        );
        outbox.reply(AT_ONCE, head.as_bytes());
        self.end(turn);
    }

    /// Closes the session in the broker, but only once. If no other client waits for the job, the
    /// job ends.
    fn end(&mut self, turn: &mut Turn<'_>) {
        if !matches!(self.stage, Stage::Ended) {
            self.stage = Stage::Ended;
            turn.close_session(self.id);
        }
    }
}

impl Dialect for HttpSession {
    fn input(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> Progress {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            let count = match self.stage {
                Stage::Head => self.read_head(rest, turn, outbox),
                Stage::Body(..) => self.read_body(rest, turn, outbox),
                // Ignore a second request, because it would get no response.
                Stage::Loading(..) | Stage::Waiting(_) | Stage::Ended => rest.len(),
            };
            if count == 0 && !matches!(self.stage, Stage::Ended) {
                break;
            }
            used += count;
        }
        Progress { used, more: false }
    }

    fn event(&mut self, event: Answer<Event>, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let Answer { value, after } = event;
        match value {
            Event::News { id, news } => self.send_news(id, &news, after, turn, outbox),
            Event::Loaded => match std::mem::replace(&mut self.stage, Stage::Head) {
                Stage::Loading(request, body) => {
                    self.submit_if_at_hand(request, body, turn, outbox);
                }
                other => self.stage = other,
            },
            Event::Unreadable => self.end(turn),
            Event::WorkToDo
            | Event::Granted(_)
            | Event::TimedOut
            | Event::DeadlineSoon
            | Event::Kicked(_)
            | Event::Peeked(_)
            | Event::Cleared
            | Event::Room
            | Event::Reloaded => unreachable!("this dialect only submits jobs"),
        }
    }

    fn end_of_input(&mut self, turn: &mut Turn<'_>, _outbox: &mut Outbox) {
        // A client that has closed its sending side may have disconnected. The server cannot
        // distinguish the two cases, so it ends the session. But a whole request for a background job
        // counts.
        if !matches!(&self.stage, Stage::Loading(request, _) if request.background) {
            self.end(turn);
        }
    }

    fn wants_input(&self) -> bool {
        !matches!(self.stage, Stage::Ended)
    }

    fn buffered_bytes(&self) -> usize {
        match &self.stage {
            Stage::Body(request, buffer) => request.names_bytes() + buffer.buffered_bytes(),
            Stage::Loading(request, body) => request.names_bytes() + body.len(),
            Stage::Waiting(waiting) => waiting.data.memory_bytes(),
            Stage::Head | Stage::Ended => 0,
        }
    }

    fn is_mid_request(&self) -> bool {
        match self.stage {
            // A connection has only one request. Until the request is complete, the session always
            // waits for more bytes of the client.
            Stage::Head | Stage::Body(..) => true,
            Stage::Loading(..) | Stage::Waiting(_) | Stage::Ended => false,
        }
    }

    fn finished(&self) -> bool {
        matches!(self.stage, Stage::Ended)
    }

    fn close(&mut self, turn: &mut Turn<'_>) {
        self.end(turn);
    }
}
