//! The commands. Each command has a small function, which calls the broker and replies.

use broker::{
    Answer, Body, BodyBuffer, Frame, JobId, Kick, Need, NewJob, NotFound, Outbox, Patience, Peeked,
    Position, PutRefusal, Refusal, State, Take, Turn,
};

use crate::command::{Command, Pause, PutHeader};
use crate::name::is_tube_name;
use crate::reply::{self, AT_ONCE, Numbers};
use crate::session::{PendingPut, Reading, Session, Waiting};
use crate::stats_text;
use crate::tube_list::TubeList;

/// Limit of watched tubes per connection. Each `reserve` checks all watched tubes, and other
/// clients wait meanwhile.
const WATCHED_TUBES_MAX: u32 = 10_000;

/// Units of work for one `stats`. The text is long, and the server makes a system call to get the
/// processor time.
const STATS_UNITS: usize = 10;

impl Session {
    /// Whether the command can run now. If not, it needs a job that is only in the log, and
    /// [`broker::Event::Loaded`] follows.
    pub(crate) fn is_at_hand(&self, command: &Command<'_>, turn: &mut Turn<'_>) -> bool {
        let mut caller = turn.caller(self.id);
        match *command {
            Command::Reserve | Command::ReserveWithTimeout(_) => caller.is_at_hand(Need::Watched),
            Command::PeekReady => caller.is_at_hand(Need::Used(State::Ready)),
            Command::PeekDelayed => caller.is_at_hand(Need::Used(State::Delayed)),
            Command::PeekBuried => caller.is_at_hand(Need::Used(State::Buried)),
            Command::ReserveJob(id)
            | Command::Delete(id)
            | Command::Peek(id)
            | Command::KickJob(id)
            | Command::StatsJob(id) => caller.is_job_at_hand(id),
            // These commands need no job, or only a job that a session holds.
            Command::Put(_)
            | Command::Use(_)
            | Command::Watch(_)
            | Command::Ignore(_)
            | Command::Release { .. }
            | Command::Bury { .. }
            | Command::Touch(_)
            | Command::Kick { .. }
            | Command::Stats
            | Command::StatsTube(_)
            | Command::ListTubes
            | Command::ListTubeUsed
            | Command::ListTubesWatched
            | Command::PauseTube(_)
            | Command::Quit => true,
        }
    }

    /// Executes a command, and counts it.
    pub(crate) fn execute(
        &mut self,
        command: Command<'_>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        match command {
            Command::Put(header) => self.begin_put(&header, turn, outbox),
            Command::Use(name) => self.use_tube(name, turn, outbox),
            Command::Watch(name) => self.watch(name, turn, outbox),
            Command::Ignore(name) => self.ignore(name, turn, outbox),
            Command::Reserve => {
                self.server().counters.reserve.add_one();
                self.reserve(Patience::Endless, turn, outbox);
            }
            Command::ReserveWithTimeout(patience) => {
                self.server().counters.reserve_with_timeout.add_one();
                self.reserve(patience, turn, outbox);
            }
            Command::ReserveJob(id) => self.reserve_job(id, turn, outbox),
            Command::Delete(id) => self.delete(id, turn, outbox),
            Command::Release { id, priority, delay_s } => {
                self.release(id, priority, delay_s, turn, outbox);
            }
            Command::Bury { id, priority } => self.bury(id, priority, turn, outbox),
            Command::Touch(id) => self.touch(id, turn, outbox),
            Command::Peek(id) => self.peek(id, turn, outbox),
            Command::PeekReady => self.peek_used(State::Ready, turn, outbox),
            Command::PeekDelayed => self.peek_used(State::Delayed, turn, outbox),
            Command::PeekBuried => self.peek_used(State::Buried, turn, outbox),
            Command::Kick { bound } => self.kick(bound, turn, outbox),
            Command::KickJob(id) => self.kick_job(id, turn, outbox),
            Command::Stats => self.stats(turn, outbox),
            Command::StatsJob(id) => self.stats_job(id, turn, outbox),
            Command::StatsTube(name) => self.stats_tube(name, turn, outbox),
            Command::ListTubes => self.list_tubes(),
            Command::ListTubeUsed => self.list_tube_used(turn, outbox),
            Command::ListTubesWatched => self.list_tubes_watched(turn, outbox),
            Command::PauseTube(pause) => self.pause_tube(&pause, turn, outbox),
            Command::Quit => self.quit(turn),
        }
    }

    /// Handles the line of a put. Also decides about the bytes of the body: the session stores
    /// them, skips them, or reads them as commands.
    ///
    /// COMPAT(beanstalkd): if a body is too big, the reply says so, even if the line has another
    /// mistake. After `BAD_FORMAT`, the bytes of the body are read as commands; cases
    /// put-too-big-beats-trailing-garbage, int-put-bad-line-does-not-swallow-body.
    fn begin_put(&mut self, header: &PutHeader, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.server().counters.put.add_one();
        if header.body_bytes > self.listener.max_job_size {
            self.refuse_body(header, reply::JOB_TOO_BIG);
        } else if header.trailing_garbage {
            outbox.reply(AT_ONCE, reply::BAD_FORMAT);
        } else if !turn.admits_body(header.body_bytes as usize) {
            turn.skip_job_id();
            self.refuse_body(header, reply::OUT_OF_MEMORY);
        } else {
            if !self.is_producer {
                self.is_producer = true;
                self.server().counters.producers.add_one();
            }
            let body = BodyBuffer::with_end(header.body_bytes as usize, reply::CR_LF.len());
            self.reading = Reading::Body(PendingPut { job: header.job, body });
        }
    }

    fn refuse_body(&mut self, header: &PutHeader, answer: &'static [u8]) {
        let missing = u64::from(header.body_bytes) + reply::CR_LF.len() as u64;
        self.reading = Reading::RefusedBody { missing, answer };
    }

    /// Handles the body of a put and the two bytes after the body, which should be CR LF. If this
    /// function refuses the put, the put uses up a job id, as in the original.
    pub(crate) fn finish_put(
        &mut self,
        job: NewJob,
        frame: Frame<'_>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        let (body, end) = frame.split_end::<{ reply::CR_LF.len() }>();
        if end != *reply::CR_LF {
            turn.skip_job_id();
            return outbox.reply(AT_ONCE, reply::EXPECTED_CRLF);
        }
        self.put(job, body, turn, outbox);
    }

    /// Puts a job, or waits for room.
    pub(crate) fn put(
        &mut self,
        job: NewJob,
        body: Body,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        // A half-closed connection does not wait, as in `reserve`.
        if self.is_input_ended() {
            turn.caller(self.id).stop_waiting_for_room(None, &body);
        } else if turn.caller(self.id).must_wait_for_room(None, &body, b"") {
            self.waiting = Waiting::Room;
            self.blocked = Some(Box::new((job, body)));
            return;
        }
        let Answer { value, after } = turn.caller(self.id).put(job, body);
        match value {
            Ok(id) => outbox.reply(after, Numbers::one(b"INSERTED", id.0).bytes()),
            Err(refusal) => {
                turn.skip_job_id();
                outbox.reply(after, not_put(refusal));
            }
        }
    }

    fn use_tube(&mut self, name: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.server().counters.use_tube.add_one();
        if !turn.admits_queue(name) {
            return outbox.reply(AT_ONCE, reply::OUT_OF_MEMORY);
        }
        turn.caller(self.id).use_queue(name);
        reply_using(name, outbox);
    }

    fn watch(&mut self, name: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.server().counters.watch.add_one();
        let is_one_too_many =
            self.watched_tubes >= WATCHED_TUBES_MAX && !turn.caller(self.id).watches(name);
        let watched = self.watched_tubes as usize;
        if is_one_too_many || !turn.caller(self.id).admits_watch(watched, name) {
            return outbox.reply(AT_ONCE, reply::OUT_OF_MEMORY);
        }
        let count = turn.caller(self.id).watch(name);
        self.reply_watching(count, outbox);
    }

    fn ignore(&mut self, name: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.server().counters.ignore.add_one();
        match turn.caller(self.id).ignore(name) {
            Some(count) => self.reply_watching(count, outbox),
            None => outbox.reply(AT_ONCE, reply::NOT_IGNORED),
        }
    }

    fn reply_watching(&mut self, count: usize, outbox: &mut Outbox) {
        self.watched_tubes = count as u32;
        outbox.reply(AT_ONCE, Numbers::one(b"WATCHING", count as u64).bytes());
    }

    fn reserve(&mut self, patience: Patience, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.become_worker();
        // COMPAT(beanstalkd): a half-closed connection does not wait; case
        // half-close-then-empty-reserve-times-out.
        let patience = if self.is_input_ended() { Patience::None } else { patience };
        let Answer { value, after } = turn.caller(self.id).take(patience);
        match value {
            Take::Granted(handout) => reply::reserved(&handout, after, outbox),
            // A take that waits gets nothing only at the limit of memory, if the client holds many jobs.
            Take::Nothing(_) if patience != Patience::None => {
                outbox.reply(after, reply::OUT_OF_MEMORY);
            }
            Take::Nothing(_) => outbox.reply(after, reply::TIMED_OUT),
            Take::DeadlineSoon => outbox.reply(after, reply::DEADLINE_SOON),
            Take::Waiting => self.waiting = Waiting::Job,
            Take::Finished { .. } | Take::Peeked { .. } => unreachable!("only a read does this"),
        }
    }

    fn reserve_job(&mut self, id: JobId, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let Answer { value, after } = turn.caller(self.id).take_job(id);
        match value {
            Ok(handout) => {
                self.become_worker();
                reply::reserved(&handout, after, outbox);
            }
            Err(refusal) => outbox.reply(after, refused(refusal, reply::OUT_OF_MEMORY)),
        }
    }

    fn become_worker(&mut self) {
        if !self.is_worker {
            self.is_worker = true;
            self.server().counters.workers.add_one();
        }
    }

    fn delete(&mut self, id: JobId, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.server().counters.delete.add_one();
        reply_done(turn.caller(self.id).finish(id), reply::DELETED, outbox);
    }

    fn release(
        &mut self,
        id: JobId,
        priority: u32,
        delay_s: u32,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        self.server().counters.release.add_one();
        let outcome = turn.caller(self.id).give_back(id, priority, delay_s);
        reply_outcome(outcome, reply::RELEASED, reply::OUT_OF_MEMORY, outbox);
    }

    fn bury(&mut self, id: JobId, priority: u32, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.server().counters.bury.add_one();
        let outcome = turn.caller(self.id).bury(id, priority);
        reply_outcome(outcome, reply::BURIED, reply::INTERNAL_ERROR, outbox);
    }

    fn touch(&mut self, id: JobId, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.server().counters.touch.add_one();
        reply_done(turn.caller(self.id).touch(id), reply::TOUCHED, outbox);
    }

    fn peek(&mut self, id: JobId, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.server().counters.peek.add_one();
        reply_found(turn.caller(self.id).peek(id), outbox);
    }

    fn peek_used(&mut self, state: State, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let counters = &self.server().counters;
        match state {
            State::Ready => counters.peek_ready.add_one(),
            State::Delayed => counters.peek_delayed.add_one(),
            State::Buried => counters.peek_buried.add_one(),
            State::Leased => {}
        }
        reply_found(turn.caller(self.id).peek_used(state), outbox);
    }

    fn kick(&mut self, bound: u32, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.server().counters.kick.add_one();
        let Answer { value, after } = turn.caller(self.id).kick(u64::from(bound));
        match value {
            Ok(Kick::Done(count)) => reply::kicked(count, after, outbox),
            Ok(Kick::Waiting) => self.waiting = Waiting::Kick,
            Err(refusal) => outbox.reply(after, refused(refusal, reply::OUT_OF_MEMORY)),
        }
    }

    /// Executes `kick-job`. The statistics do not count this command.
    fn kick_job(&self, id: JobId, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let outcome = turn.caller(self.id).kick_job(id);
        reply_outcome(outcome, reply::KICKED, reply::OUT_OF_MEMORY, outbox);
    }

    fn stats(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.server().counters.stats.add_one();
        turn.count_work(STATS_UNITS);
        reply_text(turn.after_all(), &stats_text::server(&self.listener, turn), outbox);
    }

    fn stats_job(&mut self, id: JobId, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.server().counters.stats_job.add_one();
        let Answer { value, after } = turn.job_status(id);
        match value {
            Ok(status) => {
                let tube = turn.queue_name(status.queue);
                let file = turn.job_segment(id);
                reply_text(after, &stats_text::job(&status, tube, file, turn.now()), outbox);
            }
            Err(NotFound) => outbox.reply(after, reply::NOT_FOUND),
        }
    }

    fn stats_tube(&mut self, name: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.server().counters.stats_tube.add_one();
        match turn.queue_stats(name) {
            Some(stats) => {
                reply_text(turn.after_named(name), &stats_text::tube(name, &stats), outbox);
            }
            None => outbox.reply(turn.after_named(name), reply::NOT_FOUND),
        }
    }

    fn list_tubes(&mut self) {
        self.server().counters.list_tubes.add_one();
        self.listing = Some(Box::new(TubeList::new()));
    }

    fn list_tube_used(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.server().counters.list_tube_used.add_one();
        reply_using(turn.caller(self.id).used_queue(), outbox);
    }

    fn list_tubes_watched(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.server().counters.list_tubes_watched.add_one();
        turn.count_work(self.watched_tubes as usize);
        reply_text(AT_ONCE, &stats_text::list(turn.caller(self.id).watched()), outbox);
    }

    fn pause_tube(&mut self, pause: &Pause<'_>, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.server().counters.pause_tube.add_one();
        if !is_tube_name(pause.name) {
            return outbox.reply(AT_ONCE, reply::BAD_FORMAT);
        }
        reply_done(turn.caller(self.id).pause(pause.name, pause.seconds), reply::PAUSED, outbox);
    }
}

/// Replies to a command that needs no room in the log.
fn reply_done(answer: Answer<Result<(), NotFound>>, done: &'static [u8], outbox: &mut Outbox) {
    outbox.reply(answer.after, answer.value.map_or(reply::NOT_FOUND, |()| done));
}

fn reply_outcome(
    answer: Answer<Result<(), Refusal>>,
    done: &'static [u8],
    log_full: &'static [u8],
    outbox: &mut Outbox,
) {
    let text = match answer.value {
        Ok(()) => done,
        Err(refusal) => refused(refusal, log_full),
    };
    outbox.reply(answer.after, text);
}

fn refused(refusal: Refusal, log_full: &'static [u8]) -> &'static [u8] {
    match refusal {
        Refusal::NotFound => reply::NOT_FOUND,
        Refusal::LogFull => log_full,
        Refusal::MemoryFull => reply::OUT_OF_MEMORY,
    }
}

fn not_put(refusal: PutRefusal) -> &'static [u8] {
    match refusal {
        // `DRAINING` asks the client to try another server. This is also good advice if a queue or
        // the server is full, or if the status forbids writes. A duplicate has no reply of its own in this protocol.
        PutRefusal::QueueFull
        | PutRefusal::JobsFull
        | PutRefusal::Duplicate
        | PutRefusal::WritesBlocked
        | PutRefusal::Draining => reply::DRAINING,
        PutRefusal::TooBig => reply::JOB_TOO_BIG,
        PutRefusal::LogFull | PutRefusal::MemoryFull | PutRefusal::NoNewQueue => {
            reply::OUT_OF_MEMORY
        }
    }
}

fn reply_found(found: Answer<Result<Peeked, NotFound>>, outbox: &mut Outbox) {
    let Answer { value, after } = found;
    match value {
        Ok(Peeked { id, body }) => {
            let head = Numbers::two(b"FOUND", id.0, body.len() as u64);
            outbox.reply_with_body(after, head.bytes(), &body, reply::CR_LF);
        }
        Err(NotFound) => outbox.reply(after, reply::NOT_FOUND),
    }
}

fn reply_using(name: &[u8], outbox: &mut Outbox) {
    outbox.reply(AT_ONCE, b"USING ");
    outbox.reply(AT_ONCE, name);
    outbox.reply(AT_ONCE, reply::CR_LF);
}

fn reply_text(after: Position, text: &[u8], outbox: &mut Outbox) {
    outbox.reply(after, Numbers::one(b"OK", text.len() as u64).bytes());
    outbox.reply(after, text);
    outbox.reply(after, reply::CR_LF);
}
