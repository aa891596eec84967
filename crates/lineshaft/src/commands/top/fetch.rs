//! The thread that asks the server. A slow server cannot delay the reaction to a key.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use api::types::{
    Connections, History, Job, JobState, Jobs, Operations, Queue, Queues, Server, Why,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::action::Action;
use super::ask::{
    Content, Head, JobContent, ListOfQueues, OverviewContent, Question, QueueContent, Update,
};
use super::tubes::Tubes;
use crate::client::{ApiClient, ApiError, shown_segment};

/// The series of the overview.
const SERIES: &str = "ready,leased,delayed,buried,puts_per_s,ends_per_s,oldest_ms,sync_p99_us";
/// Queues on the overview.
const LONGEST_MAX: usize = 20;
/// A longer body is not read.
pub(super) const BODY_BYTES_MAX: u64 = 64 << 10;

/// A message to the thread.
#[derive(Debug)]
pub(super) enum Ask {
    /// Ask this from now on.
    Show(Question),
    /// Do this once.
    Do(Action),
}

/// The server, by one of two ways.
pub(super) enum Source {
    /// The HTTP API.
    Api(Box<Watcher>),
    /// The beanstalkd protocol, which has fewer numbers. Nothing can be changed over it here.
    Tubes(Box<Tubes>),
}

/// Asks the API, and remembers what does not change or must be compared.
pub(super) struct Watcher {
    client: ApiClient,
    body: Option<(u64, Vec<u8>)>,
    counters: Option<(String, Instant, u64, u64)>,
}

/// Asks once per interval, and at once after a new question or an action. Ends when the other side
/// is gone.
pub(super) fn run(
    mut source: Source,
    interval: Duration,
    asks: &Receiver<Ask>,
    updates: &Sender<Update>,
) {
    let Ok(Ask::Show(mut question)) = asks.recv() else { return };
    let mut due = Instant::now();
    loop {
        let update = match asks.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(Ask::Show(next)) => {
                (question, due) = (next, Instant::now());
                continue;
            }
            Ok(Ask::Do(action)) => {
                due = Instant::now();
                Update::Done(source.act(&action))
            }
            Err(RecvTimeoutError::Timeout) => {
                due = Instant::now() + interval;
                source.look(&question)
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if updates.send(update).is_err() {
            return;
        }
    }
}

impl Source {
    fn look(&mut self, question: &Question) -> Update {
        let looked = match self {
            Source::Api(watcher) => watcher.look(question),
            Source::Tubes(tubes) => match question {
                Question::Queues(list) => tubes
                    .page(list)
                    .map(|(head, page)| (head, Ok(Content::Queues(page))))
                    .map_err(|error| error.to_string()),
                // The model asks nothing else.
                _ => Err("this needs the HTTP API".to_owned()),
            },
        };
        match looked {
            Ok((head, content)) => Update::Answer { question: question.clone(), head, content },
            Err(error) => Update::Trouble(error),
        }
    }

    fn act(&mut self, action: &Action) -> Result<String, String> {
        match self {
            Source::Api(watcher) => {
                let (method, path, body) = action.request();
                let reply = watcher.client.send_json::<Value>(&method, &path, body.as_ref());
                reply.map(|reply| action.result(&reply)).map_err(|error| error.to_string())
            }
            Source::Tubes(_) => Err("this needs the HTTP API".to_owned()),
        }
    }
}

type Looked = Result<(Head, Result<Content, String>), String>;

impl Watcher {
    /// Asks with this client.
    pub(super) fn new(client: ApiClient) -> Watcher {
        Watcher { client, body: None, counters: None }
    }

    fn look(&mut self, question: &Question) -> Looked {
        let server: Server = self.get("/server").map_err(|error| error.to_string())?;
        let head = Head::Server(Box::new(server));
        match self.answer(question) {
            Ok(content) => Ok((head, Ok(content))),
            // For example, the server was restarted. The list begins again.
            Err(ApiError::Refused(problem)) if problem.kind.ends_with("#bad-cursor") => {
                Ok((head, Ok(Content::Expired)))
            }
            // The server works, but does not have this thing.
            Err(ApiError::Refused(problem)) => {
                Ok((head, Err(ApiError::Refused(problem).to_string())))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ApiError> {
        self.client.get(path)
    }

    fn answer(&mut self, question: &Question) -> Result<Content, ApiError> {
        Ok(match question {
            Question::Nothing => Content::Nothing,
            Question::Overview => {
                let history: History = self.get(&format!("/server/history?series={SERIES}"))?;
                let path = format!("/queues?sort=-ready&state=nonempty&limit={LONGEST_MAX}");
                let longest = self.get::<Queues>(&path)?.items;
                Content::Overview(Box::new(OverviewContent { history, longest }))
            }
            Question::Queues(list) => Content::Queues(self.get(&path_of(list))?),
            Question::Queue { name, state, from, limit } => {
                let path = format!("/queues/{}", shown_segment(name));
                let queue: Queue = self.get(&path)?;
                let why: Why = self.get(&format!("{path}/why"))?;
                let list = page(
                    &format!("{path}/jobs?body=text&state={}", state.name()),
                    from.as_ref(),
                    *limit,
                );
                let jobs: Jobs = self.get(&list)?;
                let rates = self.rates(&queue);
                Content::Queue(Box::new(QueueContent { queue, rates, why, jobs }))
            }
            Question::Job(id) => {
                let job: Job = self.get(&format!("/jobs/{id}"))?;
                let why = match job.state {
                    JobState::Ready => {
                        Some(self.get(&format!("/queues/{}/why", shown_segment(&job.queue)))?)
                    }
                    JobState::Delayed | JobState::Leased | JobState::Buried => None,
                };
                let is_short = job.body_bytes <= BODY_BYTES_MAX;
                let body = match is_short.then(|| self.body(*id)).transpose() {
                    // The settings of the server hide it.
                    Err(ApiError::Refused(problem)) if matches!(problem.status, 401 | 403) => None,
                    body => body?,
                };
                Content::Job(Box::new(JobContent { job, body, why }))
            }
            Question::Connections { from, limit } => {
                let connections: Connections =
                    self.get(&page("/connections?", from.as_ref(), *limit))?;
                Content::Connections(connections)
            }
            Question::Operations => {
                let operations: Operations = self.get("/operations")?;
                Content::Operations(operations)
            }
        })
    }

    /// The body of a job. It never changes.
    fn body(&mut self, id: u64) -> Result<Vec<u8>, ApiError> {
        if let Some((known, body)) = &self.body
            && *known == id
        {
            return Ok(body.clone());
        }
        let body = self.client.get_bytes(&format!("/jobs/{id}/body"))?;
        self.body = Some((id, body.clone()));
        Ok(body)
    }

    /// Puts and ends per second since the look before at the same queue.
    fn rates(&mut self, queue: &Queue) -> Option<(f64, f64)> {
        let now = Instant::now();
        let present = (queue.name.clone(), now, queue.puts, queue.finishes);
        let (name, then, puts, finishes) = self.counters.replace(present)?;
        if name != queue.name {
            return None;
        }
        let seconds = now.duration_since(then).as_secs_f64().max(1e-3);
        // The counters begin again if the queue is removed and made again.
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        Some((rate(queue.puts, puts), rate(queue.finishes, finishes)))
    }
}

/// The path of a page of queues.
fn path_of(list: &ListOfQueues) -> String {
    let mut path = format!("/queues?sort={}", list.order.parameter());
    if !list.search.is_empty() {
        let is_pattern = list.search.contains(['*', '?']);
        let parameter = if is_pattern { "match" } else { "search" };
        path =
            format!("{path}&{parameter}={}", utf8_percent_encode(&list.search, NON_ALPHANUMERIC));
    }
    page(&path, list.from.as_ref(), list.limit)
}

/// A path with the parameters of a page.
fn page(path: &str, from: Option<&String>, limit: usize) -> String {
    let join = if path.ends_with('?') { "" } else { "&" };
    let from = from.map_or_else(String::new, |from| format!("&cursor={from}"));
    format!("{path}{join}limit={}{from}", limit.clamp(1, 500))
}
