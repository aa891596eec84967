//! The effect of each command, and the reply to it (spec beanstalkd 3).

use super::super::jobs::NoJob;
use super::super::rooms::Blocked;
use super::super::routes::Refused;
use super::super::session::{Expected, Observed, Reading};
use super::super::{Job, Model, Name, Need, Place, State};
use super::wire::{Command, is_name};

impl Model {
    pub(in crate::model) fn execute(
        &mut self,
        place: Place,
        command: Command,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        if let Some(counter) = counter(&command) {
            self.count(counter);
        }
        let used = self.conn(place).used.clone();
        if self.is_line_refused(refusal(&command), observed)? {
            return Ok(());
        }
        let reply = match command {
            Command::Unknown => Expected::line("UNKNOWN_COMMAND", 0),
            Command::Put { size, .. } if size > self.setting.max_job_size => {
                self.conn(place).reading = Reading::Skip(u64::from(size) + 2);
                return Ok(());
            }
            Command::Bad | Command::Put { garbage: true, .. } => Expected::line("BAD_FORMAT", 0),
            Command::Put { pri, delay, ttr, size, .. } => {
                let conn = self.conn(place);
                conn.is_producer = true;
                conn.reading = Reading::Body { pri, delay, ttr, size: size as usize };
                return Ok(());
            }
            Command::Use(name) => self.use_queue(place, &name),
            Command::Watch(name) => self.watch(place, &name),
            Command::Ignore(name) => self.ignore(place, &name),
            Command::Reserve => match self.reserve(place, None) {
                Some(reply) => reply,
                None => return Ok(()),
            },
            Command::ReserveWithTimeout(seconds) => {
                match self.reserve(place, u32::try_from(seconds).ok()) {
                    Some(reply) => reply,
                    None => return Ok(()),
                }
            }
            Command::ReserveJob(id) => match self.reserve_job(place, id) {
                Ok(reply) => {
                    self.conn(place).is_worker = true;
                    reply
                }
                Err(need) => Expected::line("NOT_FOUND", need),
            },
            Command::Delete(id) => outcome("DELETED", self.delete(place, id)),
            Command::Release { id, pri, delay } => {
                outcome("RELEASED", self.release(place, id, pri, delay))
            }
            Command::Bury { id, pri } => outcome("BURIED", self.bury(place, id, pri)),
            Command::Touch(id) => outcome("TOUCHED", self.touch(place, id)),
            Command::KickJob(id) => outcome("KICKED", self.kick_job(id)),
            Command::Kick(bound) => match self.kick(place, bound) {
                Some(count) => {
                    Expected::line(&format!("KICKED {count}"), self.history.jobs_need(&used))
                }
                None => return Ok(()),
            },
            Command::PauseTube { name, .. } if !is_name(&name) => Expected::line("BAD_FORMAT", 0),
            Command::PauseTube { name, seconds } => {
                let word = if self.pause(&name, seconds) { "PAUSED" } else { "NOT_FOUND" };
                Expected::line(word, 0)
            }
            Command::Quit => {
                self.close_conn(place);
                return Ok(());
            }
            command => self.look(place, &used, command),
        };
        observed.take(&reply)
    }

    /// Replies to commands that change nothing.
    fn look(&self, place: Place, used: &Name, command: Command) -> Expected {
        match command {
            Command::Peek(id) => self.found(Some(id), self.denial(id)),
            Command::PeekReady => {
                let first = self.first(place, |_, job| {
                    (job.state == State::Ready).then_some((u64::from(job.pri), job.order))
                });
                self.found(first, self.history.jobs_need(used))
            }
            Command::PeekDelayed => {
                let first = self.first(place, |id, job| match job.state {
                    State::Delayed { due } => Some((due, id)),
                    _ => None,
                });
                self.found(first, self.history.jobs_need(used))
            }
            Command::PeekBuried => {
                let first = self.first(place, |id, job| match job.state {
                    State::Buried { order } => Some((order, id)),
                    _ => None,
                });
                self.found(first, self.history.jobs_need(used))
            }
            Command::StatsJob(id) => match self.jobs.get(&id) {
                Some(job) => Expected::lines(self.stats_job_text(id), job.need),
                None => Expected::line("NOT_FOUND", self.denial(id)),
            },
            Command::StatsTube(name) => match self.queue_named(&name) {
                Some(queue) => Expected::lines(self.stats_tube_text(&queue, &name), 0),
                None => Expected::line("NOT_FOUND", 0),
            },
            Command::Stats => Expected::lines(self.stats_text(), 0),
            Command::ListTubes => {
                let names = self.queues_by_age();
                Expected::lines(Self::list_text(names.iter().map(|name| &**name)), 0)
            }
            Command::ListTubesWatched => {
                let conn = &self.conns[&place];
                let names_of = |queue: &Name| {
                    let queue = queue.clone();
                    conn.watched_as.iter().filter(move |(of, _)| *of == queue)
                };
                let names = conn.watched.iter().flat_map(names_of).map(|(_, name)| &**name);
                Expected::lines(Self::list_text(names), 0)
            }
            Command::ListTubeUsed => {
                Expected::line(&format!("USING {}", self.conns[&place].used_as), 0)
            }
            _ => unreachable!("all other commands are executed elsewhere"),
        }
    }

    fn is_line_refused(&mut self, word: &str, observed: &mut Observed<'_>) -> Result<bool, String> {
        if word.is_empty() {
            return Ok(false);
        }
        self.is_refused(&Expected::line(word, 0), observed)
    }

    /// Handles a put whose body has arrived. `whole` is the body and the two bytes after the body.
    pub(in crate::model) fn finish_put(
        &mut self,
        place: Place,
        job: Job,
        whole: &[u8],
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let before = self.leave_line(place);
        if !whole.ends_with(b"\r\n") {
            self.next_id += 1;
            return observed.take(&Expected::line("EXPECTED_CRLF", 0));
        }
        if self.is_draining {
            self.next_id += 1;
            return observed.take(&Expected::line("DRAINING", 0));
        }
        if self.is_line_refused("OUT_OF_MEMORY", observed)? {
            self.next_id += 1;
            return Ok(());
        }
        if self.writes_blocked() {
            self.next_id += 1;
            return observed.take(&Expected::line("DRAINING", 0));
        }
        let queue = self.conn(place).used.clone();
        let body = &whole[..whole.len() - 2];
        let may_wait = !self.conn(place).input_ended;
        if may_wait && self.must_wait(place, before.as_ref(), &queue, (body, b"")) {
            self.conn(place).blocked = Some(Blocked::Put(Box::new(job), whole.to_vec()));
            return Ok(());
        }
        let reply = match self.put(place, &queue, job) {
            Ok((id, need)) => Expected::line(&format!("INSERTED {id}"), need),
            Err(refused) => {
                self.next_id += 1;
                let word = if refused == Refused::TooBig { "JOB_TOO_BIG" } else { "DRAINING" };
                Expected::line(word, 0)
            }
        };
        observed.take(&reply)
    }

    fn use_queue(&mut self, place: Place, name: &str) -> Expected {
        let next = self.create_queue(name);
        name.clone_into(&mut self.conn(place).used_as);
        let last = std::mem::replace(&mut self.conn(place).used, next);
        self.drop_queue_if_unwanted(&last);
        Expected::line(&format!("USING {name}"), 0)
    }

    fn watch(&mut self, place: Place, name: &str) -> Expected {
        let queue = self.create_queue(name);
        let conn = self.conn(place);
        if !conn.watched.contains(&queue) {
            conn.watched.push(queue.clone());
        }
        let named = (queue, name.to_owned());
        if !conn.watched_as.contains(&named) {
            conn.watched_as.push(named);
        }
        Expected::line(&format!("WATCHING {}", conn.watched_as.len()), 0)
    }

    fn ignore(&mut self, place: Place, name: &str) -> Expected {
        let conn = self.conn(place);
        if let Some(index) = conn.watched_as.iter().position(|(_, known)| known == name) {
            if conn.watched_as.len() == 1 {
                return Expected::line("NOT_IGNORED", 0);
            }
            let (queue, _) = conn.watched_as.remove(index);
            if conn.watched_as.iter().all(|(of, _)| *of != queue) {
                conn.watched.retain(|watched| *watched != queue);
                self.drop_queue_if_unwanted(&queue);
            }
        }
        Expected::line(&format!("WATCHING {}", self.conn(place).watched_as.len()), 0)
    }

    /// Returns the reply, or `None` if the client waits.
    fn reserve(&mut self, place: Place, seconds: Option<u32>) -> Option<Expected> {
        let conn = self.conn(place);
        conn.is_worker = true;
        // A half-closed connection never waits.
        let seconds = if conn.input_ended { Some(0) } else { seconds };
        match self.take(place, seconds) {
            Ok(reply) => Some(reply),
            Err(NoJob::TimedOut) => {
                Some(Expected::line("TIMED_OUT", self.denial_of_watched(place)))
            }
            Err(NoJob::DeadlineSoon) => Some(Expected::line("DEADLINE_SOON", 0)),
            Err(NoJob::Waiting) => None,
        }
    }

    fn first(&self, place: Place, key: impl Fn(u64, &Job) -> Option<(u64, u64)>) -> Option<u64> {
        let used = &self.conns[&place].used;
        let in_queue = self.jobs.iter().filter(|(_, job)| job.queue == *used);
        in_queue.filter_map(|(id, job)| Some((key(*id, job)?, *id))).min().map(|(_, id)| id)
    }

    fn found(&self, id: Option<u64>, denial: Need) -> Expected {
        match id.and_then(|id| Some((id, self.jobs.get(&id)?))) {
            Some((id, job)) => Expected::with_body("FOUND", id, &job.body, job.need),
            None => Expected::line("NOT_FOUND", denial),
        }
    }
}

fn outcome(done: &str, outcome: Result<Need, Need>) -> Expected {
    match outcome {
        Ok(need) => Expected::line(done, need),
        Err(need) => Expected::line("NOT_FOUND", need),
    }
}

/// The reply to a request that needs room in the log, if the log has no room. The request then
/// changes nothing.
fn refusal(command: &Command) -> &'static str {
    match command {
        Command::Release { .. }
        | Command::Kick(_)
        | Command::KickJob(_)
        | Command::ReserveJob(_) => "OUT_OF_MEMORY",
        Command::Bury { .. } => "INTERNAL_ERROR",
        _ => "",
    }
}

/// The name of the counter for this command in `stats` (spec beanstalkd 5.2).
fn counter(command: &Command) -> Option<&'static str> {
    Some(match command {
        Command::Put { .. } => "put",
        Command::Use(_) => "use",
        Command::Watch(_) => "watch",
        Command::Ignore(_) => "ignore",
        Command::Reserve => "reserve",
        Command::ReserveWithTimeout(_) => "reserve-with-timeout",
        Command::Delete(_) => "delete",
        Command::Release { .. } => "release",
        Command::Bury { .. } => "bury",
        Command::Touch(_) => "touch",
        Command::Peek(_) => "peek",
        Command::PeekReady => "peek-ready",
        Command::PeekDelayed => "peek-delayed",
        Command::PeekBuried => "peek-buried",
        Command::Kick(_) => "kick",
        Command::StatsJob(_) => "stats-job",
        Command::StatsTube(_) => "stats-tube",
        Command::Stats => "stats",
        Command::ListTubes => "list-tubes",
        Command::ListTubeUsed => "list-tube-used",
        Command::ListTubesWatched => "list-tubes-watched",
        Command::PauseTube { .. } => "pause-tube",
        Command::Unknown
        | Command::Bad
        | Command::ReserveJob(_)
        | Command::KickJob(_)
        | Command::Quit => return None,
    })
}
