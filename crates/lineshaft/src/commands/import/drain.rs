//! `lineshaft import beanstalkd --from`: moves the jobs of a running beanstalkd (the *source*) into
//! another running server (the *target*), tube by tube. It uses the beanstalkd protocol for both.
//! Jobs that were sent to the target, and are not yet deleted from the source, are *in flight*.
//!
//! The drain deletes a job from the source only after the target has acknowledged it. So if a
//! server or the drain is killed, no job is lost. At most the jobs in flight are then on both
//! servers.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use indicatif::ProgressBar;
use notation::plain;
use serde_json::{Value, json};

use super::{INTERRUPTED, bar};
use crate::client::{
    CONNECT_TIMEOUT, Client, ClientError, Job, Put, Reply, Schedule, Stats, Target, WaitingState,
};
use crate::interrupt::Interrupts;
use crate::text::{complain, count, counted, print_line, print_value};

/// Most jobs in flight.
const IN_FLIGHT_MAX: usize = 100;

/// The bodies of all jobs in flight have about this many bytes together.
const IN_FLIGHT_BYTES: usize = 4 << 20;

/// A put cannot create a buried job. So the drain puts a delayed copy, which no worker of the
/// target gets, and then takes and buries it. If the drain is killed before the bury, the copy
/// stays delayed for this long.
const UNTIL_BURIED_S: u32 = 24 * 3600;

/// A drain of fewer jobs shows no progress.
const BAR_JOBS_MIN: u64 = 1000;

/// What to drain.
pub(super) struct Request {
    pub(super) from: Target,
    pub(super) to: Target,
    /// Drain only these tubes. If empty, drain all.
    pub(super) tubes: Vec<String>,
    pub(super) dry_run: bool,
    pub(super) as_json: bool,
}

impl Request {
    /// The report as JSON. `left`: the jobs that the source has at the end; `None` if the drain
    /// stopped earlier.
    fn value(
        &self,
        moved: &BTreeMap<String, Moved>,
        left: Option<&BTreeMap<String, Stats>>,
    ) -> Value {
        let tubes = moved.iter().map(|(tube, Moved { ready, delayed, buried })| {
            json!({ "tube": tube, "ready": ready, "delayed": delayed, "buried": buried })
        });
        let left = left.map(|left| {
            let rows = left.iter().map(|(tube, stats)| {
                json!({ "tube": tube, "waiting": waiting(stats), "held": held(stats) })
            });
            rows.collect::<Vec<Value>>()
        });
        json!({
            "from": self.from.to_string(),
            "to": self.to.to_string(),
            "dry_run": self.dry_run,
            "moved": moved.values().map(Moved::all).sum::<u64>(),
            "tubes": tubes.collect::<Vec<Value>>(),
            "left": left,
        })
    }
}

/// The jobs of one tube that were moved.
#[derive(Debug, Default)]
struct Moved {
    ready: u64,
    delayed: u64,
    buried: u64,
}

impl Moved {
    fn all(&self) -> u64 {
        self.ready + self.delayed + self.buried
    }
}

/// A running drain.
struct Drain<'a> {
    request: &'a Request,
    target: Client,
    moved: BTreeMap<String, Moved>,
    /// Jobs that may have been done twice: while the drain copied the job, a worker of the source
    /// took it, and the drain could not remove the copy, for example because a worker of the
    /// target took it.
    doubled: u64,
    /// Buried jobs whose answer was a job that the target had: see [`Copied`].
    joined: u64,
    /// The highest id that the target has answered so far.
    newest: u64,
    interrupts: Interrupts,
    bar: ProgressBar,
}

/// Moves all jobs that no worker holds, and prints a report.
pub(super) fn run(request: &Request) -> Result<ExitCode> {
    let mut source = connect(&request.from)?;
    let left = survey(&mut source, request)?;
    let code = complain_of_missing(request, &left);
    let jobs: u64 = left.values().map(waiting).sum();
    if request.dry_run && request.as_json {
        print_value(&request.value(&BTreeMap::new(), Some(&left)))?;
        return Ok(code);
    }
    if request.dry_run {
        print_left(&left)?;
        print_line(&format!("A drain would move {}. Nothing was changed.", counted(jobs, "job")))?;
        return Ok(code);
    }
    let mut target = connect(&request.to)?;
    refuse_itself(&mut source, &mut target)?;
    let mut drain = Drain {
        request,
        target,
        moved: BTreeMap::new(),
        doubled: 0,
        joined: 0,
        newest: 0,
        interrupts: Interrupts::listen(|_| ()).context("cannot listen for signals")?,
        bar: bar(jobs),
    };
    if jobs >= BAR_JOBS_MIN {
        drain.bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
    }
    let done = drain.all(&mut source, left.into_keys().collect());
    drain.bar.finish_and_clear();
    if !request.as_json {
        drain.print_moved()?;
    }
    let is_complete = done.is_ok() && drain.interrupts.count() == 0;
    let left = is_complete.then(|| survey(&mut source, request)).transpose()?;
    if request.as_json {
        let mut value = request.value(&drain.moved, left.as_ref());
        value["perhaps_twice"] = drain.doubled.into();
        value["joined"] = drain.joined.into();
        print_value(&value)?;
    }
    done.with_context(|| {
        let (from, to) = (&request.from, &request.to);
        format!("the drain from {from} to {to} stopped. No job is lost; run it again to continue")
    })?;
    let Some(left) = left else {
        eprintln!("interrupted; run the same command again to continue");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let (rest, held) = (left.values().map(waiting).sum::<u64>(), left.values().map(held).sum());
    if rest + held == 0 {
        return Ok(code);
    }
    if !request.as_json {
        print_line(&format!(
            "Not moved: {} held by workers, {} put during the drain. Run the drain again when the workers \
             are done.",
            counted(held, "job"),
            count(rest)
        ))?;
    }
    Ok(ExitCode::FAILURE)
}

fn connect(target: &Target) -> Result<Client, ClientError> {
    Client::connect_within(target, CONNECT_TIMEOUT)
}

/// The statistics of the tubes to drain.
fn survey(source: &mut Client, request: &Request) -> Result<BTreeMap<String, Stats>> {
    let survey = source.survey()?;
    if survey.unnamed_count > 0 && request.tubes.is_empty() {
        let queues = counted(survey.unnamed_count, "queue");
        let why = "have names that are not allowed in this protocol; their jobs stay there";
        complain(&format!("{queues} of the source: {why}"));
    }
    let named = survey.queues.into_iter().filter_map(|stats| {
        let name = stats.get("name")?.to_owned();
        let is_wanted = request.tubes.is_empty() || request.tubes.contains(&name);
        is_wanted.then_some((name, stats))
    });
    Ok(named.collect())
}

/// Reports the named tubes that the source does not have. `found` is the first survey, because a
/// tube can disappear when the drain has emptied it. Returns the exit code if nothing else fails.
fn complain_of_missing(request: &Request, found: &BTreeMap<String, Stats>) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for tube in request.tubes.iter().filter(|tube| !found.contains_key(*tube)) {
        let from = &request.from;
        complain(&format!(
            "tube {tube}: it does not exist on {from} (any more); check the name, unless a drain \
             has emptied this tube before"
        ));
        code = ExitCode::FAILURE;
    }
    code
}

fn waiting(stats: &Stats) -> u64 {
    let states = ["ready", "delayed", "buried"];
    states.map(|state| stats.number(&format!("current-jobs-{state}"))).iter().sum()
}

fn held(stats: &Stats) -> u64 {
    stats.number("current-jobs-reserved")
}

/// Fails if both addresses belong to the same server. Such a drain would never end.
fn refuse_itself(source: &mut Client, target: &mut Client) -> Result<()> {
    let (one, other) = (source.stats()?, target.stats()?);
    if one.get("id").is_some() && one.get("id") == other.get("id") {
        bail!("--from and --server are the same server");
    }
    Ok(())
}

/// A job of the source, with the properties that its copy must have on the target.
struct Taken {
    job: Job,
    schedule: Schedule,
    ttr_s: u32,
}

/// The target's answer to a put. It need not be a copy of the job: with the policy `unique`, it can
/// be a job with the same key that the target had before. This other job must stay as it is.
struct Copied {
    id: u64,
    /// When the drain began to put the job.
    asked_at: Instant,
    /// The delay of the put.
    delay_seconds: u32,
    /// False if this is the answer to another put of the drain, too.
    is_alone: bool,
}

impl Drain<'_> {
    /// Drains all tubes repeatedly, until one pass moves no job.
    fn all(&mut self, source: &mut Client, mut tubes: Vec<String>) -> Result<()> {
        loop {
            let before = self.count();
            for tube in &tubes {
                self.tube(tube).with_context(|| format!("tube {tube}"))?;
                if self.interrupts.count() > 0 {
                    return Ok(());
                }
            }
            if self.count() == before {
                return Ok(());
            }
            tubes = survey(source, self.request)?.into_keys().collect();
        }
    }

    fn count(&self) -> u64 {
        self.moved.values().map(Moved::all).sum()
    }

    fn tube(&mut self, tube: &str) -> Result<()> {
        // If this connection ends, its jobs become ready again at the source.
        let mut source = connect(&self.request.from)?;
        source.use_queue(tube)?;
        source.watch_only(&[tube.to_owned()])?;
        self.target.use_queue(tube)?;
        let mut moved = Moved::default();
        let done = self.states(&mut source, tube, &mut moved);
        if moved.all() > 0 {
            let sum = self.moved.entry(tube.to_owned()).or_default();
            sum.ready += moved.ready;
            sum.delayed += moved.delayed;
            sum.buried += moved.buried;
        }
        done
    }

    fn states(&mut self, source: &mut Client, tube: &str, moved: &mut Moved) -> Result<()> {
        while self.one(source, WaitingState::Buried)? {
            moved.buried += 1;
        }
        while self.one(source, WaitingState::Delayed)? {
            moved.delayed += 1;
        }
        let mut wanted = 1;
        loop {
            let taken = reserve(source, tube, wanted)?;
            if taken.is_empty() || self.interrupts.count() > 0 {
                return Ok(());
            }
            let bytes: usize = taken.iter().map(|taken| taken.job.body.len()).sum();
            let typical = bytes / taken.len() + 1;
            wanted = (IN_FLIGHT_BYTES / typical).clamp(1, IN_FLIGHT_MAX);
            moved.ready += self.hand_over(source, &taken)?;
        }
    }

    /// Puts jobs that this connection holds into the target, and deletes each acknowledged job from
    /// the source. Returns the number of acknowledged jobs.
    fn hand_over(&mut self, source: &mut Client, taken: &[Taken]) -> Result<u64> {
        let puts = taken.iter().map(Taken::put).collect::<Vec<_>>();
        let asked_at = Instant::now();
        let replies = self.target.put_all(&puts)?;
        let mut ids: Vec<(u64, Copied)> = Vec::new();
        let mut refused = None;
        for (taken, reply) in taken.iter().zip(replies) {
            match reply {
                Reply::Inserted(id) => {
                    let copy = self.copied(id, taken, asked_at);
                    if !copy.is_alone {
                        for (_, earlier) in &mut ids {
                            earlier.is_alone &= earlier.id != id;
                        }
                    }
                    ids.push((taken.job.id, copy));
                }
                reply => refused = refused.or(Some(refusal(&taken.job, &reply))),
            }
        }
        let commands: Vec<String> = ids.iter().map(|(old, _)| format!("delete {old}")).collect();
        for ((_, copy), reply) in ids.iter().zip(source.ask_all(&commands)?) {
            if reply != Reply::Deleted {
                self.take_back(copy, WaitingState::Ready)?;
            }
        }
        self.bar.inc(ids.len() as u64);
        match refused {
            Some(refused) => bail!(refused),
            None => Ok(ids.len() as u64),
        }
    }

    fn copied(&mut self, id: u64, taken: &Taken, asked_at: Instant) -> Copied {
        // A new job has a higher id than all jobs before it.
        let is_alone = id > self.newest;
        self.newest = self.newest.max(id);
        Copied { id, asked_at, delay_seconds: taken.schedule.delay_seconds, is_alone }
    }

    /// Whether the put made this job, and nobody else has changed it. `state` and `reserves` are
    /// what the drain has made of it since.
    fn is_own(&mut self, copy: &Copied, state: WaitingState, reserves: u64) -> Result<bool> {
        let Some(stats) = self.target.stats_job(copy.id)? else { return Ok(false) };
        // The clock of the target can be a bit faster.
        let age_max_s = copy.asked_at.elapsed().as_secs() + 1;
        Ok(copy.is_alone
            && stats.get("state") == Some(state.word())
            && stats.number("age") <= age_max_s
            && stats.number("delay") == u64::from(copy.delay_seconds)
            && stats.number("reserves") == reserves)
    }

    /// Removes the target's copy of a job, because a worker of the source has taken the job
    /// meanwhile. `state` is the state of the copy.
    fn take_back(&mut self, copy: &Copied, state: WaitingState) -> Result<()> {
        let reserves = u64::from(state == WaitingState::Buried);
        if !self.is_own(copy, state, reserves)? || !self.target.delete(copy.id)? {
            self.doubled += 1;
        }
        Ok(())
    }

    /// Moves the first delayed or buried job. In the source, the job keeps its state until it is
    /// deleted. So if the drain is killed, the source's job has not changed. Returns false if no
    /// job was moved.
    fn one(&mut self, source: &mut Client, state: WaitingState) -> Result<bool> {
        if self.interrupts.count() > 0 {
            return Ok(false);
        }
        let Some(job) = source.peek_next(state)? else { return Ok(false) };
        let old = job.id;
        let Some(stats) =
            source.stats_job(old)?.filter(|stats| stats.get("state") == Some(state.word()))
        else {
            // The job has just changed its state. The next pass will find it in its new state.
            return Ok(false);
        };
        let delay_s = match state {
            // The source rounds the time down to whole seconds. Add a second, because the job must
            // not be ready too early.
            WaitingState::Delayed => stats.number("time-left").saturating_add(1),
            WaitingState::Buried | WaitingState::Ready => UNTIL_BURIED_S.into(),
        };
        let taken = Taken::of(job, &stats, u32::try_from(delay_s).unwrap_or(u32::MAX));
        let asked_at = Instant::now();
        let replies = self.target.put_all(&[taken.put()])?;
        let copy = match &replies[..] {
            [Reply::Inserted(id)] => self.copied(*id, &taken, asked_at),
            [reply] => bail!(refusal(&taken.job, reply)),
            _ => unreachable!("each command has one reply"),
        };
        if state == WaitingState::Buried {
            if self.is_own(&copy, WaitingState::Delayed, 0)? {
                let new = copy.id;
                let held = self.target.reserve_job(new)?.is_some();
                if !held || !self.target.bury(new, taken.schedule.priority)? {
                    bail!("the target cannot bury job {new}, the copy of job {old}");
                }
            } else {
                self.joined += 1;
            }
        }
        if !source.delete(old)? {
            self.take_back(&copy, state)?;
        }
        self.bar.inc(1);
        Ok(true)
    }

    fn print_moved(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for (tube, Moved { ready, delayed, buried }) in &self.moved {
            let tube = plain::escaped(tube);
            writeln!(out, "{tube}: {ready} ready, {delayed} delayed, {buried} buried")?;
        }
        writeln!(out, "Moved {}.", counted(self.count(), "job"))?;
        if self.doubled > 0 {
            let jobs = counted(self.doubled, "job");
            writeln!(
                out,
                "  {jobs}: perhaps done twice, because workers of both servers took them"
            )?;
        }
        if self.joined > 0 {
            let jobs = counted(self.joined, "buried job");
            writeln!(
                out,
                "  {jobs}: joined with jobs that the target had, which stay as they are"
            )?;
        }
        Ok(())
    }
}

/// Takes ready jobs of the source, in their order.
fn reserve(source: &mut Client, tube: &str, count: usize) -> Result<Vec<Taken>> {
    let commands = vec!["reserve-with-timeout 0".to_owned(); count];
    let mut jobs = Vec::new();
    for reply in source.ask_all(&commands)? {
        match reply {
            Reply::Reserved(job) => jobs.push(job),
            Reply::TimedOut | Reply::DeadlineSoon => {}
            reply => bail!("the source answered {reply}"),
        }
    }
    let is_paused = |stats: Stats| stats.number("pause") > 0;
    if jobs.is_empty() && source.stats_queue(tube)?.is_some_and(is_paused) {
        // `reserve` returns nothing from a paused tube, but `peek-ready` and `reserve-job` do.
        if let Some(next) = source.peek_next(WaitingState::Ready)? {
            jobs.extend(source.reserve_job(next.id)?);
        }
    }
    let commands: Vec<String> = jobs.iter().map(|job| format!("stats-job {}", job.id)).collect();
    let replies = source.ask_all(&commands)?;
    let taken = jobs.into_iter().zip(replies).filter_map(|(job, reply)| {
        // If the job has no statistics, it no longer exists: its ttr has run out, and another
        // worker has taken and deleted it.
        let Reply::Data(text) = reply else { return None };
        Some(Taken::of(job, &Stats::parse(&text), 0))
    });
    Ok(taken.collect())
}

impl Taken {
    fn of(job: Job, stats: &Stats, delay_seconds: u32) -> Taken {
        let number = |key| u32::try_from(stats.number(key)).unwrap_or(u32::MAX);
        let schedule = Schedule { priority: number("pri"), delay_seconds };
        Taken { job, schedule, ttr_s: number("ttr") }
    }

    fn put(&self) -> Put<'_> {
        Put { schedule: self.schedule, ttr_seconds: self.ttr_s, body: &self.job.body }
    }
}

/// Why the drain stops at a job.
fn refusal(job: &Job, reply: &Reply) -> String {
    let (id, bytes) = (job.id, count(job.body.len() as u64));
    let advice = match reply {
        Reply::JobTooBig => ": allow larger jobs there (lineshaft serve --max-job-size)",
        Reply::OutOfMemory | Reply::Buried(_) => ": it has no room",
        Reply::Draining => ": it accepts no jobs",
        _ => "",
    };
    format!("the target refused job {id} of {bytes} bytes with {reply}{advice}")
}

fn print_left(left: &BTreeMap<String, Stats>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for (tube, stats) in left {
        let number = |state: &str| stats.number(&format!("current-jobs-{state}"));
        let [ready, delayed, buried] = ["ready", "delayed", "buried"].map(number);
        let (tube, held) = (plain::escaped(tube), held(stats));
        writeln!(out, "{tube}: {ready} ready, {delayed} delayed, {buried} buried, {held} held")?;
    }
    Ok(())
}
