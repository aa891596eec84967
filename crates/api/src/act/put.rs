//! New jobs.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::policy::Unsent;
use broker::{Body, JobId, NewJob, Position, PutRefusal};
use http_api::{DoorSession, Received, SessionKind, answer, complete};
use hyper::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use hyper::http::request::Parts;
use hyper::{HeaderMap, StatusCode};
use ring::digest::{Context, SHA256};

use super::once::Key;
use super::{parse_json, receive, receive_parts};
use crate::access::{PREFIX, Principal};
use crate::openapi::Failures;
use crate::problem::{Problem, ProblemKind, as_json};
use crate::state::Api;
use crate::text::name::{QueueName, shown_name};
use crate::text::query::Query;
use crate::types;

/// At most this many jobs in one request.
const JOBS_MAX: usize = 10_000;
/// The longest delay and ttr: about a hundred years. A moment must fit into its field.
const SECONDS_MAX: u32 = 3_153_600_000;
const NDJSON: &str = "application/x-ndjson";

/// The response to a put. It can be sent again.
#[derive(Clone, Debug)]
pub(crate) struct PutReply {
    status: StatusCode,
    kind: &'static str,
    location: Option<String>,
    body: Vec<u8>,
    /// Whether a job was put. The lines of a reply can all be refusals.
    pub(super) has_put: bool,
}

impl PutReply {
    /// A reply with this body, for tests.
    #[cfg(test)]
    pub(super) fn of(body: Vec<u8>) -> PutReply {
        PutReply { status: StatusCode::OK, kind: NDJSON, location: None, body, has_put: true }
    }

    /// The memory that the reply has outside of this value.
    pub(super) fn heap_bytes(&self) -> usize {
        self.body.capacity() + self.location.as_ref().map_or(0, String::capacity)
    }

    pub(super) fn response(self) -> Response {
        let mut response = complete(answer(self.status, self.kind, self.body));
        if let Some(location) = self.location.and_then(|it| HeaderValue::try_from(it).ok()) {
            response.headers_mut().insert(LOCATION, location);
        }
        response
    }
}

/// A job of a request.
struct Asked {
    job: NewJob,
    unsent: Unsent,
    body: Body,
    /// Whether the put is refused if it would not make a new job. It then has sent everything.
    is_new: bool,
}

/// The jobs of a request.
struct Jobs {
    all: Vec<Asked>,
    /// Whether the reply has one line for each job.
    in_lines: bool,
}

impl Jobs {
    /// The memory of the jobs.
    fn bytes(&self) -> usize {
        let bodies: usize = self.all.iter().map(|asked| asked.body.len()).sum();
        self.all.capacity() * size_of::<Asked>() + bodies
    }
}

/// Puts one job, or many.
#[utoipa::path(
    post,
    path = "/queues/{queue}/jobs",
    tag = "jobs",
    params(
        ("queue" = String, Path, description = "The name of the queue. A put creates it."),
        ("priority" = Option<u32>, Query, description = "Only without JSON: 0 is the most urgent."),
        ("delay_s" = Option<u32>, Query, description = "Only without JSON: seconds until it is ready."),
        ("ttr_s" = Option<u32>, Query, description = "Only without JSON: seconds that a worker has."),
        (
            "Idempotency-Key" = Option<String>,
            Header,
            description = "A name of this request. If it is sent again within an hour, the server \
                does nothing, and sends the same response.",
        ),
    ),
    request_body(
        description = "One job as JSON, or one job in each line (`application/x-ndjson`, at most \
            10,000). With any other content type, the bytes are the body of the job.",
        content(
            (types::PutJob = "application/json"),
            (types::PutJob = "application/x-ndjson"),
            (Vec<u8> = "application/octet-stream"),
        ),
    ),
    responses(
        (
            status = 200,
            description = "One line for each job: its number, or the problem.",
            body = types::PutLine,
            content_type = "application/x-ndjson",
        ),
        (status = 201, description = "The job is durable.", body = types::Put),
        Failures,
    )
)]
pub(crate) async fn post_jobs(
    State(api): State<Api>,
    QueueName(queue): QueueName,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let bytes_max = api.setup.body_bytes_max;
    let key = idempotency_key(&head.headers)?;
    let key = key.map(|key| -> Key { (principal.name.clone(), key.into()) });
    if let Some(key) = key.as_ref().filter(|key| api.act.once.knows(&api, key)) {
        // Only the sum of the body is needed, so the reply comes also while the memory is full. Without it, the
        // client would not learn that the job was put.
        let mut sum = Sum::begin(&head);
        receive_parts(body, bytes_max, |part| sum.add(&part)).await?;
        return api.act.once.again(&api, key, sum.end());
    }
    // As in the other protocols, the body of a put is received only if it fits into the memory.
    let has_room = |bytes| api.turn().admits_body(bytes);
    let mut received = receive(body, &head.extensions, bytes_max, has_room).await?;
    let jobs = parse_jobs(&head, received.bytes())?;
    let named = key.map(|key| {
        let mut sum = Sum::begin(&head);
        sum.add(received.bytes());
        (key, sum.end())
    });
    // The jobs have copies of their bodies, and can wait for the log. They stay in the account of memory
    // until they are put.
    received.replace(jobs.bytes());
    let (own, client) = (api.clone(), principal.client());
    let work = async move { own.put_jobs(queue, jobs, client, received).await };
    match named {
        None => Ok(work.await?.response()),
        Some((key, asked)) => api.act.once.run(&api, key, asked, work).await,
    }
}

/// The SHA-256 of all bytes of a request that matter.
struct Sum(Context);

impl Sum {
    /// Begins with the head of the request. The body follows.
    fn begin(head: &Parts) -> Sum {
        let kind = head.headers.get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
        let uri = head.uri.to_string();
        let mut sum = Sum(Context::new(&SHA256));
        for part in [uri.as_bytes(), b"\n", kind, b"\n"] {
            sum.add(part);
        }
        sum
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn end(self) -> [u8; 32] {
        let mut sum = [0; 32];
        sum.copy_from_slice(self.0.finish().as_ref());
        sum
    }
}

/// The name that the client gave this request.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let is_right =
        (1..=255).contains(&key.len()) && key.as_bytes().iter().all(u8::is_ascii_graphic);
    match key.to_str() {
        Ok(key) if is_right => Ok(Some(key.to_owned())),
        _ => {
            let why = "the header `Idempotency-Key` must have 1 to 255 visible ASCII characters";
            Err(Problem::new(ProblemKind::BadRequest, why).of_parameter("Idempotency-Key"))
        }
    }
}

fn parse_jobs(head: &Parts, bytes: &[u8]) -> Result<Jobs, Problem> {
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        Query::read(&head.uri, &[])?;
        return Ok(Jobs { all: vec![job_of(parse_json(bytes)?)?], in_lines: false });
    }
    if !kind.eq_ignore_ascii_case(NDJSON) {
        let query = Query::read(&head.uri, &["priority", "delay_s", "ttr_s"])?;
        let number = |name: &str| match query.get(name) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                Problem::new(ProblemKind::BadRequest, "write a number").of_parameter(name)
            }),
        };
        let job = types::PutJob {
            priority: number("priority")?,
            delay_s: number("delay_s")?,
            ttr_s: number("ttr_s")?,
            ..types::PutJob::default()
        };
        let asked = Asked { body: bytes.into(), ..job_of(job)? };
        return Ok(Jobs { all: vec![asked], in_lines: false });
    }
    Query::read(&head.uri, &[])?;
    let mut all = Vec::new();
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        // Nothing is put if a line is wrong.
        let job = parse_json(line).and_then(job_of).map_err(|problem| Problem {
            detail: format!("line {}: {}", number + 1, problem.detail),
            ..problem
        })?;
        all.push(job);
        if all.len() > JOBS_MAX {
            let why = format!("the request has more than {JOBS_MAX} jobs; send several requests");
            return Err(Problem::new(ProblemKind::TooLong, why));
        }
    }
    Ok(Jobs { all, in_lines: true })
}

fn job_of(job: types::PutJob) -> Result<Asked, Problem> {
    let bad =
        |name: &str, why: &str| Err(Problem::new(ProblemKind::BadRequest, why).of_parameter(name));
    let types::PutJob { body, body_base64, priority, delay_s, ttr_s } = job;
    let body: Body = match (body, body_base64) {
        (Some(_), Some(_)) => return bad("body", "write `body` or `body_base64`, not both"),
        (text, None) => text.unwrap_or_default().as_bytes().into(),
        (None, Some(text)) => match STANDARD.decode(text) {
            Ok(bytes) => bytes.as_slice().into(),
            Err(error) => return bad("body_base64", &format!("this is not base64: {error}")),
        },
    };
    for (name, seconds) in [("delay_s", delay_s), ("ttr_s", ttr_s)] {
        if seconds.is_some_and(|seconds| seconds > SECONDS_MAX) {
            return bad(name, "the time is longer than a hundred years");
        }
    }
    let usual = NewJob::default();
    let job = NewJob {
        priority: priority.unwrap_or(usual.priority),
        delay_s: delay_s.unwrap_or(usual.delay_s),
        ttr_s: ttr_s.unwrap_or(usual.ttr_s),
    };
    let (ttr, priority, delay) = (ttr_s.is_none(), priority.is_none(), delay_s.is_none());
    Ok(Asked { job, unsent: Unsent { ttr, priority, delay }, body, is_new: false })
}

impl Api {
    /// Puts one job, and waits until it is durable.
    pub async fn put_job(&self, queue: &[u8], job: types::PutJob) -> Result<JobId, Problem> {
        self.put_asked(queue, job_of(job)?).await
    }

    /// Puts a job with these values, if the queue takes it as a new job, and waits until it is durable.
    pub(crate) async fn put_new(
        &self,
        queue: &[u8],
        job: NewJob,
        body: Body,
    ) -> Result<JobId, Problem> {
        let asked = Asked { job, unsent: Unsent::NOTHING, body, is_new: true };
        self.put_asked(queue, asked).await
    }

    async fn put_asked(&self, queue: &[u8], job: Asked) -> Result<JobId, Problem> {
        let results = self.put_all(queue, vec![job], "", None).await?;
        Ok(results.into_iter().next().unwrap_or(Err(PutRefusal::QueueFull))?)
    }

    async fn put_jobs(
        &self,
        queue: Vec<u8>,
        jobs: Jobs,
        client: String,
        counted: Received,
    ) -> Result<PutReply, Problem> {
        let Jobs { all, in_lines } = jobs;
        let mut results = self.put_all(&queue, all, &client, Some(counted)).await?;
        if !in_lines && let Some(result) = results.pop() {
            let id = result?;
            let location = Some(format!("{PREFIX}/jobs/{}", id.0));
            let (status, kind) = (StatusCode::CREATED, "application/json");
            let body = as_json(&types::Put { id: id.0, queue: shown_name(&queue) });
            return Ok(PutReply { status, kind, location, body, has_put: true });
        }
        // A line does not repeat the name of the queue, which can be long.
        let shown = |id: JobId| as_json(&types::PutLine { id: id.0 });
        let has_put = results.iter().any(Result::is_ok);
        let mut body = Vec::new();
        for result in results {
            body.extend(result.map_or_else(|refusal| as_json(&Problem::from(refusal)), shown));
            body.push(b'\n');
        }
        Ok(PutReply { status: StatusCode::OK, kind: NDJSON, location: None, body, has_put })
    }

    /// Puts jobs, and waits until they are durable. A refused job does not stop the others. `client`:
    /// see [`Principal::client`]. `counted` has the jobs in the account of memory until they are put.
    async fn put_all(
        &self,
        queue: &[u8],
        jobs: Vec<Asked>,
        client: &str,
        mut counted: Option<Received>,
    ) -> Result<Vec<Result<JobId, PutRefusal>>, Problem> {
        let door = &self.setup.door;
        let session = door.session(SessionKind::Reader);
        let mut results = Vec::with_capacity(jobs.len());
        let mut after = Position::NONE;
        let mut jobs = jobs.into_iter();
        if !self.use_queue(&session, queue, client) {
            return Err(PutRefusal::NoNewQueue.into());
        }
        while jobs.len() > 0 {
            door.uncongested().await?;
            let put = self.put_slice(&session, &mut jobs, counted.as_mut(), &mut results);
            after = after.max(put);
            http_api::between_turns().await;
        }
        drop((jobs, counted));
        door.settled_at(after).await?;
        Ok(results)
    }

    /// Lets the session of this client use this queue. Returns false if that would create a queue
    /// beyond a limit.
    fn use_queue(&self, session: &DoorSession, queue: &[u8], client: &str) -> bool {
        let mut turn = self.turn();
        turn.set_peer(session.id(), client);
        let is_admitted = turn.admits_queue(queue);
        if is_admitted {
            turn.caller(session.id()).use_queue(queue);
        }
        is_admitted
    }

    /// Puts jobs in one turn, until the slice of work is spent. Returns the position that their
    /// replies wait for.
    fn put_slice(
        &self,
        session: &DoorSession,
        jobs: &mut impl Iterator<Item = Asked>,
        mut counted: Option<&mut Received>,
        results: &mut Vec<Result<JobId, PutRefusal>>,
    ) -> Position {
        let mut after = Position::NONE;
        let mut turn = self.turn();
        turn.begin_slice();
        while !turn.slice_is_spent()
            && let Some(Asked { job, unsent, body, is_new }) = jobs.next()
        {
            // The broker asks for the room of the body, and then counts it itself.
            if let Some(counted) = counted.as_deref_mut() {
                counted.hand_over(body.len());
            }
            let mut caller = turn.caller(session.id());
            let answer = if is_new {
                caller.put_new(job, body)
            } else {
                caller.put_partly(job, unsent, body)
            };
            after = after.max(answer.after);
            results.push(answer.value);
        }
        after
    }
}
