//! The history of jobs that have left their queue, for queues whose policy keeps one.
//!
//! Once a second, the broker's milestones go to a store, which writes them to files in a thread of its
//! own. Requests read from the store, and not from the broker.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use broker::{AttemptEnd, FailureCause, JobEnd, JobId, Millis, NewJob};
use histogram::Histogram;
use http_api::QueueTimes;
use hyper::body::Bytes;
use hyper::{StatusCode, Uri};
use job_history::{
    Attempt, Bounds, Entry, LastDeparture, Lookup, Moment, Page, Store, Times, WhichEntry,
    WhichJobs,
};
use memchr::memmem;

use crate::access::Principal;
use crate::access::bodies::{BodySettings, shown_error};
use crate::act::with_json;
use crate::jobs::job::{JobNumber, no_job, with_body};
use crate::jobs::{BODIES_MAX, beginning};
use crate::openapi::Failures;
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::text::json::Json;
use crate::text::moment;
use crate::text::name::{QueueName, parse_name, shown_name};
use crate::text::query::Query;
use crate::types::{self, AttemptOutcome, Outcome};

/// The entries of all queues, at most.
const ENTRIES_MAX: usize = 1_000_000;
/// The memory of the index, at most: this part of the limit of memory, and this many bytes.
const INDEX_PARTS: u64 = 8;
const INDEX_BYTES_MAX: u64 = 256 << 20;
/// Each second, this many jobs with attempts are checked: whether their history can go on.
const CHECKS_MAX: usize = 500;
const PARAMETERS: [&str; 5] = ["outcome", "text", "body", "limit", "cursor"];
/// A request that searches for a text reads this many entries.
const SEARCHED_MAX: u64 = 5_000;
/// A request that searches for a text stops when it has found jobs with this many bytes of bodies.
const FOUND_BYTES_MAX: usize = 8 << 20;
/// A request that searches for a text takes this long.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(2);
/// The parameters that choose an entry of a job.
const OF_ENTRY: [&str; 2] = ["queue", "left_at"];

/// The history of jobs.
#[derive(Debug, Default)]
pub(crate) struct PastJobs {
    /// Empty until the first tick, and while the files of earlier processes are read.
    store: OnceLock<Store>,
    /// Whether a thread adds to the store. Two threads could add what happened in the wrong order.
    is_busy: AtomicBool,
    /// The memory that the broker counts.
    counted_bytes: AtomicU64,
}

/// The right to add to the store. Only one thread has it.
struct Adding(Arc<PastJobs>);

impl Adding {
    fn begin(past: &Arc<PastJobs>) -> Option<Adding> {
        (!past.is_busy.swap(true, Acquire)).then(|| Adding(past.clone()))
    }
}

impl Drop for Adding {
    fn drop(&mut self) {
        self.0.is_busy.store(false, Release);
    }
}

/// The jobs that have left a queue, newest first. The policy `history` of the queue says how long it
/// keeps them.
#[utoipa::path(
    get,
    path = "/queues/{queue}/history",
    tag = "history",
    params(
        ("queue" = String, Path, description = "The name of the queue. It need not exist any more."),
        ("outcome" = Option<String>, Query, description = "Only jobs that left like this: `done`, \
            `failed`, `dead`, `deleted`, `expired`, `dropped`, `flushed`, `abandoned`, `replaced` or \
            `moved`."),
        ("text" = Option<String>, Query, description = "Only jobs with this text in the kept part of \
            their body, or in an error of a worker: at most 200 characters, byte by byte. A request \
            reads about 5,000 jobs."),
        ("body" = Option<String>, Query, description = "`text` adds the beginning of the kept part of \
            each body. The default is `none`."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "The maximum number \
            of jobs in the response. The default is 50. With bodies, it is at most 100."),
        ("cursor" = Option<String>, Query, description = "The field `next` of the response before."),
    ),
    responses(
        (status = 200, description = "The jobs. A page can have fewer than `limit`, and still have a \
            next one.", body = types::PastJobs),
        Failures,
    )
)]
pub(crate) async fn get_past_jobs(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    QueueName(queue): QueueName,
    uri: Uri,
) -> Result<Json<types::PastJobs>, Problem> {
    let query = Query::read(&uri, &PARAMETERS)?;
    let list = api.read_past_list(&principal, queue, &query)?;
    api.past_jobs(list).await.map(Json)
}

/// A job that has left its queue: what happened to it. If it left several queues, it is as it left
/// the last one of them that keeps a history, unless the parameters choose another one.
#[utoipa::path(
    get,
    path = "/jobs/{id}/history",
    tag = "history",
    params(
        ("id" = u64, Path, description = "The number of the job."),
        ("queue" = Option<String>, Query, description = "As it left this queue."),
        ("left_at" = Option<String>, Query, description = "As it left at this moment: the field \
            `left_at` of a list."),
    ),
    responses((status = 200, description = "The job.", body = types::PastJob), Failures)
)]
pub(crate) async fn get_past_job(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    JobNumber(id): JobNumber,
    uri: Uri,
) -> Result<Json<types::PastJob>, Problem> {
    let entry = PastEntry::read(id, &Query::read(&uri, &OF_ENTRY)?)?;
    api.past_job(&principal, entry).await.map(Json)
}

/// The kept part of the body of a job that has left its queue. The settings `http.bodies` and
/// `http.mask` can hide it, or values in it.
#[utoipa::path(
    get,
    path = "/jobs/{id}/history/body",
    tag = "history",
    params(
        ("id" = u64, Path, description = "The number of the job."),
        ("as" = Option<String>, Query, description = "The form: see `/jobs/{id}/body`."),
        ("queue" = Option<String>, Query, description = "See `/jobs/{id}/history`."),
        ("left_at" = Option<String>, Query, description = "See `/jobs/{id}/history`."),
    ),
    responses(
        (status = 200, description = "The body.", content_type = "application/octet-stream"),
        Failures,
    )
)]
pub(crate) async fn get_past_body(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    JobNumber(id): JobNumber,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["as", OF_ENTRY[0], OF_ENTRY[1]])?;
    let (form, entry) = (query.form()?, PastEntry::read(id, &query)?);
    with_body(api.past_body(&principal, entry).await?, form)
}

/// Puts a copy of a job that has left its queue into this queue: with its body, its priority and its
/// ttr. The history must have its whole body. If the policy `unique` of the queue makes the copy a
/// duplicate, it is refused, and the other job stays as it is.
#[utoipa::path(
    post,
    path = "/jobs/{id}/run_again",
    tag = "history",
    params(
        ("id" = u64, Path, description = "The number of the job."),
        ("queue" = Option<String>, Query, description = "See `/jobs/{id}/history`."),
        ("left_at" = Option<String>, Query, description = "See `/jobs/{id}/history`."),
    ),
    responses(
        (status = 201, description = "The copy is durable.", body = types::Put),
        Failures,
    )
)]
pub(crate) async fn post_run_again(
    State(api): State<Api>,
    JobNumber(id): JobNumber,
    uri: Uri,
) -> Result<Response, Problem> {
    let entry = PastEntry::read(id, &Query::read(&uri, &OF_ENTRY)?)?;
    let put = api.run_again(entry).await?;
    Ok(with_json(StatusCode::CREATED, &put))
}

/// An entry of the history: a job, as it left a queue.
#[derive(Clone, Debug)]
pub struct PastEntry {
    id: JobId,
    which: WhichEntry,
}

impl PastEntry {
    /// The last entry of a job, or the last one with this queue and this moment, as the API writes them.
    pub fn new(
        id: JobId,
        queue: Option<&str>,
        left_at: Option<&str>,
    ) -> Result<PastEntry, Problem> {
        let read = |text: &str| {
            let why = "write the field `left_at` of a job in the history";
            let bad = || Problem::new(ProblemKind::BadRequest, why).of_parameter("left_at");
            moment::read(text).map(|moment| moment.0).ok_or_else(bad)
        };
        let queue = queue.map(parse_name).transpose()?;
        let left_at = left_at.map(read).transpose()?;
        Ok(PastEntry { id, which: WhichEntry { queue, left_at } })
    }

    fn read(id: JobId, query: &Query) -> Result<PastEntry, Problem> {
        PastEntry::new(id, query.get("queue"), query.get("left_at"))
    }
}

/// A list of jobs that have left a queue.
#[derive(Clone, Debug)]
pub struct ListPastJobs {
    queue: Vec<u8>,
    outcome: Option<JobEnd>,
    /// Only jobs with this text in what is kept of them. Empty: all jobs.
    text: String,
    has_bodies: bool,
    /// Whether the client may see bodies, and so the errors of workers.
    sees_bodies: bool,
    limit: usize,
    before: Option<u64>,
}

impl ListPastJobs {
    /// Names the list for its cursors.
    fn id(&self) -> Vec<u8> {
        let outcome = self.outcome.map(|why| format!("{why:?}")).unwrap_or_default();
        let text = format!("{} {}", self.text.len(), self.text);
        [b"past jobs ", outcome.as_bytes(), b" ", text.as_bytes(), b" ", &self.queue].concat()
    }

    /// Whether an entry has the text, in what clients see of it.
    fn has_text(&self, entry: &Entry, bodies: &BodySettings) -> bool {
        if self.text.is_empty() {
            return true;
        }
        let has = |seen: &[u8]| memmem::find(seen, self.text.as_bytes()).is_some();
        let has_error = |error: &[u8]| {
            shown_error(error, Some(bodies)).is_some_and(|seen| has(seen.as_bytes()))
        };
        let body = entry.body.bytes.as_deref().and_then(|body| bodies.masked(body));
        body.is_some_and(|seen| has(&seen))
            || entry.attempts.iter().any(|attempt| has_error(&attempt.error))
    }

    /// The entries of a page. `next`: where the next page begins.
    fn read(&self, store: &Store, bodies: &BodySettings, now: Millis) -> Page {
        let began = Instant::now();
        let (mut found, mut unreadable, mut searched) = (Vec::new(), 0, 0);
        let mut which = WhichJobs { why: self.outcome, before: self.before };
        loop {
            let page = store.page(&self.queue, which, self.limit - found.len(), now);
            searched += page.entries.len() as u64 + page.unreadable;
            unreadable += page.unreadable;
            found.extend(page.entries.into_iter().filter(|entry| self.has_text(entry, bodies)));
            let kept_bytes = |entry: &Entry| entry.body.bytes.as_deref().map_or(0, <[u8]>::len);
            let is_enough = self.text.is_empty()
                || found.len() >= self.limit
                || found.iter().map(kept_bytes).sum::<usize>() >= FOUND_BYTES_MAX
                || searched >= SEARCHED_MAX
                || began.elapsed() >= SEARCH_TIME_MAX;
            if is_enough || page.next.is_none() {
                return Page { entries: found, unreadable, ..page };
            }
            which.before = page.next;
        }
    }
}

/// The reason with this name.
fn reason_named(name: &str) -> Option<JobEnd> {
    let outcome: Outcome = serde_json::from_value(name.into()).ok()?;
    Some(match outcome {
        Outcome::Done => JobEnd::Done,
        Outcome::Failed => JobEnd::Failed,
        Outcome::Dead => JobEnd::Dead,
        Outcome::Deleted => JobEnd::Deleted,
        Outcome::Expired => JobEnd::Expired,
        Outcome::Dropped => JobEnd::Dropped,
        Outcome::Flushed => JobEnd::Flushed,
        Outcome::Abandoned => JobEnd::Abandoned,
        Outcome::Replaced => JobEnd::Replaced,
        Outcome::Moved => JobEnd::Moved,
    })
}

fn outcome_of(why: JobEnd) -> Outcome {
    match why {
        JobEnd::Done => Outcome::Done,
        JobEnd::Failed => Outcome::Failed,
        JobEnd::Dead => Outcome::Dead,
        // The history of a leader has no job that its own leader ended.
        JobEnd::Deleted | JobEnd::Followed => Outcome::Deleted,
        JobEnd::Expired => Outcome::Expired,
        JobEnd::Dropped => Outcome::Dropped,
        JobEnd::Flushed => Outcome::Flushed,
        JobEnd::Abandoned => Outcome::Abandoned,
        JobEnd::Replaced => Outcome::Replaced,
        JobEnd::Moved => Outcome::Moved,
    }
}

fn no_body(id: JobId) -> Problem {
    let why = format!("the history has nothing of the body of job {}: see `history.body`", id.0);
    Problem::new(ProblemKind::NotFound, why)
}

impl Api {
    /// Takes what happened to jobs from the broker, and adds it to the history in another thread. Must
    /// be called once a second, in the runtime of the site.
    pub(crate) fn collect_soon(&self) {
        let Some(adding) = Adding::begin(&self.past) else { return };
        // A history that is off costs no thread. The first call opens it.
        let has_work =
            self.turn().has_milestones() || self.past.store.get().is_none_or(|it| !it.is_idle());
        if has_work {
            let api = self.clone();
            tokio::task::spawn_blocking(move || api.collect(&adding));
        }
    }

    /// Begins the history of jobs. Must be called before clients come, and only if [`Api::tick`] is
    /// called from then on: otherwise what happens to jobs would fill memory.
    pub fn begin_past_jobs(&self) {
        self.turn().note_milestones();
    }

    /// Adds what happened to jobs until now to the history. Blocks the thread. Does nothing if another
    /// thread does this now: then the disk hangs, or [`Api::tick`] is still called.
    pub fn collect_past_jobs(&self) {
        if let Some(adding) = Adding::begin(&self.past) {
            self.collect(&adding);
        }
    }

    fn collect(&self, adding: &Adding) {
        let known = adding.0.store.get();
        let mut gone = known.map(|store| store.next_pending(CHECKS_MAX)).unwrap_or_default();
        let (milestones, dropped, at) = {
            let mut turn = self.turn();
            // If one of them has ended until now, its end is among the milestones.
            gone.retain(|id| !turn.may_have_history(*id));
            let (milestones, dropped) = turn.take_milestones();
            let now = turn.now();
            (milestones, dropped, Moment { now, wall: turn.wall_at(now) })
        };
        let store = adding.0.store.get_or_init(|| {
            let files = self.setup.history.jobs.as_ref();
            let folder = files.map(|(folder, _)| folder.as_path());
            let bytes_max = files.map_or(u64::MAX, |(_, bytes_max)| *bytes_max);
            let memory = self.setup.door.broker().memory_usage().limit_bytes;
            let index_bytes_max =
                memory.map_or(INDEX_BYTES_MAX, |bytes| INDEX_BYTES_MAX.min(bytes / INDEX_PARTS));
            let bounds = Bounds { bytes_max, entries_max: ENTRIES_MAX, index_bytes_max };
            Store::open(folder, bounds, at)
        });
        store.add(milestones, dropped, at);
        if !gone.is_empty() {
            store.forget(&gone);
        }
        let bytes = store.summary().memory_bytes;
        let before = self.past.counted_bytes.swap(bytes, Relaxed);
        self.setup.door.broker().add_outside_bytes(bytes as i64 - before as i64);
    }

    /// The list that these parameters describe: the text behind the `?` of `/queues/QUEUE/history`.
    pub fn list_past_jobs(
        &self,
        principal: &Principal,
        queue: Vec<u8>,
        query: &str,
    ) -> Result<ListPastJobs, Problem> {
        self.read_past_list(principal, queue, &Query::read_form(query, &PARAMETERS)?)
    }

    fn read_past_list(
        &self,
        principal: &Principal,
        queue: Vec<u8>,
        query: &Query,
    ) -> Result<ListPastJobs, Problem> {
        let bad =
            |name: &str, why: &str| Problem::new(ProblemKind::BadRequest, why).of_parameter(name);
        let outcome = match query.get("outcome") {
            None => None,
            Some(name) => Some(reason_named(name).ok_or_else(|| {
                let why = "write done, failed, dead, deleted, expired, dropped, flushed, abandoned, \
                    replaced or moved";
                bad("outcome", why)
            })?),
        };
        let text = query.text()?.to_owned();
        // A search for a text tells what bodies contain.
        if !text.is_empty() {
            self.check_bodies(principal)?;
        }
        let wants_bodies = match query.get("body") {
            None | Some("none") => false,
            Some("text") => true,
            Some(_) => return Err(bad("body", "write none or text")),
        };
        let limit = query.limit()?;
        if wants_bodies && limit > BODIES_MAX {
            return Err(bad("limit", "a page with bodies has at most 100 jobs"));
        }
        let sees_bodies = self.sees_bodies(principal);
        let has_bodies = wants_bodies && sees_bodies;
        let mut list =
            ListPastJobs { queue, outcome, text, has_bodies, sees_bodies, limit, before: None };
        if let Some(text) = query.get("cursor") {
            let place = self.cursor_key.read(&list.id(), text)?;
            let before = place.parse().map_err(|_| bad("cursor", "the cursor is damaged"))?;
            list.before = Some(before);
        }
        Ok(list)
    }

    /// The queue that this name stands for: see the policy `same_as`. It need not exist any more.
    fn shown_queue(&self, name: &[u8]) -> Vec<u8> {
        let turn = self.turn();
        match turn.queue_id(name) {
            Some(queue) => turn.queue_name(queue).to_vec(),
            None => turn.policies().real_name(name).unwrap_or_else(|| name.into()).into_vec(),
        }
    }

    /// A page of the jobs that have left a queue.
    pub async fn past_jobs(&self, list: ListPastJobs) -> Result<types::PastJobs, Problem> {
        let (api, mut asked, now) = (self.clone(), list.clone(), self.setup.door.now());
        let shown_queue = self.shown_queue(&list.queue);
        let (page, times, lost) = self
            .reading_history(move || {
                let store = api.past_store()?;
                // An old queue has its own history, even if its name stands for another one by now.
                if store.page(&asked.queue, WhichJobs::default(), 0, now).total == 0 {
                    asked.queue = shown_queue;
                }
                let page = asked.read(store, &api.setup.bodies, now);
                let times = store.times(&asked.queue, now);
                let bodies = asked.sees_bodies.then_some(&api.setup.bodies);
                let items: Vec<types::PastJob> = page
                    .entries
                    .iter()
                    .map(|entry| {
                        let body = entry.body.bytes.as_deref().filter(|_| asked.has_bodies);
                        let body = body.map(|body| beginning(&api.setup.bodies, body));
                        types::PastJob { body, ..shown(entry, bodies) }
                    })
                    .collect();
                let shown = types::PastJobs {
                    items,
                    next: page.next.map(|next| next.to_string()),
                    unreadable: page.unreadable,
                    total: page.total,
                    ..types::PastJobs::default()
                };
                Ok::<_, Problem>((shown, times, store.summary().lost))
            })
            .await??;
        if page.total == 0 && self.turn().queue_stats(&list.queue).is_none() {
            return Err(Problem::no_queue(&list.queue));
        }
        Ok(types::PastJobs {
            next: page.next.as_ref().map(|next| self.cursor_key.written(&list.id(), next)),
            times: times.as_ref().map(shown_times),
            lost,
            ..page
        })
    }

    /// A job that has left its queue, as this client sees it.
    pub async fn past_job(
        &self,
        principal: &Principal,
        entry: PastEntry,
    ) -> Result<types::PastJob, Problem> {
        let bodies = self.bodies_for(principal);
        self.read_entry(entry).await.map(|entry| shown(&entry, bodies))
    }

    /// The kept part of the body of a job that has left its queue, as this client sees it.
    pub async fn past_body(
        &self,
        principal: &Principal,
        entry: PastEntry,
    ) -> Result<Bytes, Problem> {
        self.check_bodies(principal)?;
        let id = entry.id;
        let body = self.read_entry(entry).await?.body.bytes.ok_or_else(|| no_body(id))?;
        self.shown_body(Bytes::from(body)).await
    }

    /// Puts a copy of a job that has left its queue. The copy is refused if it is a duplicate.
    pub async fn run_again(&self, entry: PastEntry) -> Result<types::Put, Problem> {
        let id = entry.id;
        let entry = self.read_entry(entry).await?;
        let body = entry.body.whole().ok_or_else(|| {
            let why = format!(
                "the history does not have the whole body of job {}: see `history.body`",
                id.0
            );
            Problem::new(ProblemKind::WrongState, why)
        })?;
        let job = NewJob { priority: entry.priority, delay_s: 0, ttr_s: entry.ttr_s };
        let id = self.put_new(&entry.queue, job, body.into()).await?;
        Ok(types::Put { id: id.0, queue: shown_name(&entry.queue) })
    }

    async fn read_entry(&self, entry: PastEntry) -> Result<Entry, Problem> {
        let (api, now, PastEntry { id, which }) = (self.clone(), self.setup.door.now(), entry);
        let shown_queue = which.queue.as_deref().map(|queue| self.shown_queue(queue));
        let find = move || {
            let store = api.past_store()?;
            Ok::<_, Problem>(match store.find(id, &which, now) {
                Lookup::Unknown => store.find(id, &WhichEntry { queue: shown_queue, ..which }, now),
                found => found,
            })
        };
        match self.reading_history(find).await?? {
            Lookup::Found(entry) => Ok(*entry),
            Lookup::Unknown => {
                let why = format!("the history has no job with the number {}", id.0);
                Err(Problem::new(ProblemKind::NotFound, why))
            }
            Lookup::Unreadable => {
                let why = "a file of the history of jobs cannot be read; check the disk";
                Err(Problem::new(ProblemKind::Unreadable, why))
            }
        }
    }

    /// The times of the jobs that have left queues with a history since the start.
    pub fn queue_times(&self) -> Vec<QueueTimes> {
        let times = self.past.store.get().map(Store::times_since_start).unwrap_or_default();
        let shown = |(queue, times): (Option<Box<[u8]>>, Times)| QueueTimes {
            queue,
            waits_ms: times.waits_ms,
            runs_ms: times.runs_ms,
            totals_ms: times.totals_ms,
        };
        times.into_iter().map(shown).collect()
    }

    /// The problem that a job does not exist, or if the history has it, that it has ended.
    pub async fn or_ended(&self, id: JobId, problem: Problem) -> Problem {
        if problem != no_job(id) {
            return problem;
        }
        self.last_departure(id).await.map_or(problem, |left| ended(id, &left))
    }

    /// How a job left its last queue with a history. The memory knows this.
    async fn last_departure(&self, id: JobId) -> Option<LastDeparture> {
        let now = self.setup.door.now();
        if let Ok(left) = self.past.store.get()?.try_departure(id, now) {
            return left;
        }
        // Do not let the site wait for a thread that writes to the disk.
        let past = self.past.clone();
        let look = move || past.store.get().and_then(|store| store.departure(id, now));
        self.reading_history(look).await.ok().flatten()
    }

    fn past_store(&self) -> Result<&Store, Problem> {
        self.past.store.get().ok_or_else(|| {
            let why = "the server still reads the history of jobs; try again";
            Problem::new(ProblemKind::Unavailable, why)
        })
    }
}

/// The problem that a job has ended.
fn ended(id: JobId, left: &LastDeparture) -> Problem {
    let (outcome, at) = (name_of(outcome_of(left.why)), moment::written(Millis(left.left_at)));
    let how = if left.has_moved {
        // It ended in a queue without a history, or too long ago.
        let queue = shown_name(&left.queue);
        format!("; it left the queue `{queue}` before ({outcome}, {at})")
    } else {
        format!(" ({outcome}, {at})")
    };
    let why = format!("job {id} has ended{how}; see /api/v1/jobs/{id}/history", id = id.0);
    Problem::new(ProblemKind::JobEnded, why)
}

/// The name of an outcome in JSON.
fn name_of(outcome: Outcome) -> String {
    let value = serde_json::to_value(outcome).ok();
    value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// An entry as a client sees it. `bodies`: the settings for bodies, if the client may see bodies.
fn shown(entry: &Entry, bodies: Option<&BodySettings>) -> types::PastJob {
    let written = |at: u64| moment::written(Millis(at));
    types::PastJob {
        id: entry.job,
        queue: shown_name(&entry.queue),
        outcome: outcome_of(entry.why),
        to: entry.to.as_deref().map(shown_name),
        created_at: written(entry.created_at),
        left_at: written(entry.left_at),
        total_ms: entry.total_ms(),
        waited_ms: entry.waited_ms(),
        ran_ms: entry.ran_ms(),
        priority: entry.priority,
        ttr_s: entry.ttr_s,
        takes: entry.takes,
        attempts: entry.attempts.iter().map(|it| shown_attempt(it, bodies)).collect(),
        body_bytes: entry.body.len,
        kept_bytes: entry.body.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
        can_run_again: entry.body.whole().is_some(),
        body: None,
    }
}

fn shown_attempt(attempt: &Attempt, bodies: Option<&BodySettings>) -> types::PastAttempt {
    types::PastAttempt {
        taken_at: moment::written(Millis(attempt.taken_at)),
        waited_ms: attempt.waited_ms,
        ran_ms: attempt.took_ms,
        outcome: match attempt.end {
            None => AttemptOutcome::Left,
            Some(AttemptEnd::Buried) => AttemptOutcome::Buried,
            Some(AttemptEnd::Failed(FailureCause::TimedOut)) => AttemptOutcome::TimedOut,
            Some(AttemptEnd::Failed(FailureCause::Aborted)) => AttemptOutcome::Aborted,
            Some(AttemptEnd::Failed(FailureCause::HolderLeft)) => AttemptOutcome::WorkerLeft,
            Some(AttemptEnd::Failed(FailureCause::Released)) => AttemptOutcome::Released,
            Some(AttemptEnd::Failed(FailureCause::Reported)) => AttemptOutcome::Reported,
        },
        worker: (!attempt.worker.is_empty()).then(|| shown_name(&attempt.worker)),
        error: shown_error(&attempt.error, bodies),
    }
}

fn shown_times(times: &Times) -> types::PastTimes {
    let quantiles = |values: &Histogram| {
        let quantile = |share| values.quantile(share).unwrap_or(0.0);
        types::Quantiles {
            mean_ms: values.sum() as f64 / values.count().max(1) as f64,
            p50_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
        }
    };
    let were_taken = times.waits_ms.count() > 0;
    types::PastTimes {
        waited: were_taken.then(|| quantiles(&times.waits_ms)),
        ran: were_taken.then(|| quantiles(&times.runs_ms)),
        total: quantiles(&times.totals_ms),
    }
}
