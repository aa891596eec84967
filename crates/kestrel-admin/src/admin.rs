//! Kestrel's admin commands, for its monitoring (spec kestrel 7.3).

#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use broker::{Broker, Clock, Millis};
use http_api::{
    Answer, HTML, Head, ProcessFacts, ReplaceableResponse, Request, Site, TEXT, answer, claims,
    complete, forbidden, head_of, method_not_allowed, only_looks,
};
use hyper::header::{ALLOW, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use origin::{Claims, Gate, Rejection};
use serde_json::{Value, json};

use crate::changes::PERIOD_S_MAX;
use crate::command::{Command, Form, Parameters};
use crate::history::History;
use crate::report::Stats;
use crate::snapshot::{Served, Snapshot};
use crate::{date, report};

const JSON: &str = "application/json";
const SCRIPT: &str = "text/javascript; charset=utf-8";
/// Kestrel sends this header, and monitoring checks for it.
const VERSION_HEADER: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-ostrich-version"), HeaderValue::from_static("8.2.9"));
/// Limit of the length of a namespace's name. The limit exists because the history stores the name.
const NAMESPACE_BYTES_MAX: usize = 256;

/// The index page, for people.
const INDEX: &str = "<!doctype html>\n<html lang=\"en\"><title>Kestrel's admin commands</title>\n\
    <h1>Kestrel's admin commands</h1>\n<ul>\n\
    <li><a href=\"/ping\">/ping</a>\n\
    <li><a href=\"/stats.txt\">/stats.txt</a>, <a href=\"/stats?period=60\">/stats?period=60</a>\n\
    <li><a href=\"/server_info.txt\">/server_info.txt</a>\n\
    <li><a href=\"/graph_data\">/graph_data</a>\n\
    <li>by POST: /reload, /quiesce, /shutdown\n</ul></html>\n";

/// Work that must end before the response is sent.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A response that is sent now, or after some work.
pub enum Reply {
    /// The response is ready.
    Now(Answer),
    /// The response is sent when the work is done.
    After(Work, Answer),
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (when, answer) = match self {
            Reply::Now(answer) => ("Now", answer),
            Reply::After(_, answer) => ("After", answer),
        };
        formatter.debug_tuple(when).field(answer).finish()
    }
}

impl Reply {
    /// Waits for the work, if any, and returns the response.
    pub async fn answer(self) -> Answer {
        match self {
            Reply::Now(answer) => answer,
            Reply::After(work, answer) => {
                work.await;
                answer
            }
        }
    }
}

/// Actions that a client can request, but that only the program around this site can execute.
pub trait Controls: Send + Sync {
    /// Reads the configuration again. The returned work ends when the reload is done.
    fn reload(&self) -> Work;

    /// Stops the server after 100 ms. Returns at once.
    fn shut_down(&self);
}

/// Which requests can change something. Requests from a page of another site can never change
/// anything.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Permissions {
    /// Whether a GET can change something, like a POST.
    pub by_get: bool,
    /// Whether clients can stop the server through listeners that only this machine can reach.
    pub stop_locally: bool,
    /// Whether clients can stop the server through all other listeners.
    pub stop_from_elsewhere: bool,
}

/// Facts about the server that the commands report.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// The version of Kestrel that its clients see.
    pub version: String,
    /// The version of the program.
    pub build: String,
    /// The name of the machine.
    pub host: String,
    /// When the server started, by the broker's clock.
    pub started: Millis,
}

/// The arguments of [`KestrelAdmin::new`].
pub struct AdminSetup {
    /// The broker with the queues.
    pub broker: Broker,
    /// The clock of the broker.
    pub clock: Clock,
    /// Facts about the server that do not change.
    pub info: ServerInfo,
    /// Which requests can change something.
    pub permissions: Permissions,
    /// Returns the current numbers of all Kestrel sessions.
    pub served: Box<dyn Fn() -> Served + Send + Sync>,
    /// Returns the current numbers of the process.
    pub process: Box<dyn Fn() -> ProcessFacts + Send + Sync>,
    /// Executes the actions that clients request.
    pub controls: Box<dyn Controls>,
}

/// The site of Kestrel's admin commands.
pub struct KestrelAdmin {
    broker: Broker,
    clock: Clock,
    info: ServerInfo,
    permissions: Permissions,
    served: Box<dyn Fn() -> Served + Send + Sync>,
    process: Box<dyn Fn() -> ProcessFacts + Send + Sync>,
    controls: Box<dyn Controls>,
    /// Only the thread that serves this site locks this mutex.
    history: Mutex<History>,
}

impl std::fmt::Debug for AdminSetup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AdminSetup").field("info", &self.info).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for KestrelAdmin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KestrelAdmin").field("info", &self.info).finish_non_exhaustive()
    }
}

/// The outcome of a command.
enum Outcome {
    Stats(Snapshot),
    Value(Value),
    /// The command has ended when this work has ended.
    Begun(Work),
}

/// Why a command failed.
#[derive(Debug, Eq, PartialEq)]
enum CommandError {
    NoSuchCommand,
    /// The gate rejected the request, for example because a page of another site may have sent it.
    Rejected(Rejection),
    /// The request uses an HTTP method that cannot change anything.
    MethodNotAllowed,
    /// Clients at this address cannot stop the server.
    StopNotAllowed,
    Failed(String),
}

impl KestrelAdmin {
    /// Creates the site.
    pub fn new(setup: AdminSetup) -> KestrelAdmin {
        let AdminSetup { broker, clock, info, permissions, served, process, controls } = setup;
        let history = Mutex::default();
        KestrelAdmin { broker, clock, info, permissions, served, process, controls, history }
    }

    /// The time that the wall clock shows at this moment of the broker's clock.
    fn wall_at(&self, moment: Millis) -> Millis {
        self.broker.turn((self.clock)()).wall_at(moment)
    }

    fn snapshot(&self, now: Millis) -> Snapshot {
        let mut snapshot = Snapshot::take(&self.broker, &self.clock, &(self.served)());
        let process = (self.process)();
        snapshot.labels.insert("version", self.info.version.clone());
        snapshot.gauges.extend([
            // Lineshaft has no JVM. These are the corresponding numbers of its process.
            ("jvm_uptime", now.since(self.info.started) as f64),
            ("jvm_start_time", self.wall_at(self.info.started).0 as f64),
            ("jvm_heap_used", process.resident_bytes as f64),
            ("jvm_num_cpus", process.processors as f64),
        ]);
        snapshot
    }

    /// Records numbers at the end of each watched period and of each minute. Drops numbers that no
    /// client requests any more.
    fn remember(&self) {
        let now = (self.clock)();
        let mut history = self.history();
        history.series.take_if(|series| series.is_forgotten(now));
        let latches = history.changes.is_due(now);
        let draws = history.series.as_ref().is_some_and(|series| series.is_due(now));
        if !latches && !draws {
            return;
        }
        let mut snapshot = self.snapshot(now);
        history.share_names(&mut snapshot);
        if latches {
            history.changes.advance(now, &snapshot);
        }
        if let Some(series) = history.series.as_mut().filter(|_| draws) {
            series.advance(now, &snapshot);
        }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the history within its limit of memory, and reports the change of its memory to the
    /// broker.
    fn trim_history(&self) {
        let grown_bytes = self.history().trim();
        if grown_bytes != 0 {
            self.broker.add_outside_bytes(grown_bytes);
        }
    }

    fn execute(
        &self,
        command: &Command,
        parameters: &Parameters,
        request: &Head,
    ) -> Result<Outcome, CommandError> {
        let now = (self.clock)();
        let value = match (command.name.as_str(), command.rest.as_deref()) {
            ("stats", None) => return self.stats(parameters, request).map(Outcome::Stats),
            ("ping", None) => json!("pong"),
            ("server_info", None) => self.server_info(),
            ("graph_data", None | Some("")) => {
                check_remembering(request)?;
                let mut history = self.history();
                let series = history.series(now, || self.snapshot(now));
                json!({ "keys": series.keys().collect::<Vec<_>>() })
            }
            ("graph_data", Some(key)) => {
                check_remembering(request)?;
                self.graph(key)?
            }
            ("reload", None) => {
                self.check_change(request)?;
                return Ok(Outcome::Begun(self.controls.reload()));
            }
            ("shutdown" | "quiesce", None) => {
                self.check_change(request)?;
                self.check_stop(request)?;
                self.controls.shut_down();
                json!("ok")
            }
            _ => return Err(CommandError::NoSuchCommand),
        };
        Ok(Outcome::Value(value))
    }

    /// The numbers that the parameters select. The parameter `filtered` has no effect, because
    /// Lineshaft has no filters. In Kestrel, filters are code.
    fn stats(&self, parameters: &Parameters, request: &Head) -> Result<Snapshot, CommandError> {
        let (period, name) = (parameters.get("period"), parameters.get("namespace"));
        let remembers = match check_remembering(request) {
            Err(why) if period.is_some() || name.is_some() => return Err(why),
            verdict => verdict.is_ok(),
        };
        let now = (self.clock)();
        let mut snapshot = self.snapshot(now);
        if !remembers {
            return Ok(snapshot);
        }
        let mut history = self.history();
        history.share_names(&mut snapshot);
        history.series(now, || snapshot.clone());
        if let Some(period) = period {
            let seconds =
                period.parse().ok().filter(|seconds| (1..=PERIOD_S_MAX).contains(seconds));
            let seconds = seconds.ok_or_else(|| {
                CommandError::Failed(format!("period: write a number from 1 to {PERIOD_S_MAX}"))
            })?;
            return Ok(history.changes.in_period(now, seconds, &snapshot));
        }
        if let Some(name) = name {
            if name.len() > NAMESPACE_BYTES_MAX {
                return Err(CommandError::Failed("namespace: the name is too long".to_owned()));
            }
            return Ok(history.changes.for_namespace(now, name, &snapshot));
        }
        Ok(snapshot)
    }

    fn server_info(&self) -> Value {
        let ServerInfo { version, build, host: _, started } = &self.info;
        json!({
            "name": "kestrel",
            "version": version,
            "build": build,
            "build_revision": "unknown",
            "build_branch_name": "unknown",
            "build_last_few_commits": "unknown",
            "start_time": date::written(self.wall_at(*started)),
            "uptime": (self.clock)().since(*started),
        })
    }

    fn graph(&self, key: &str) -> Result<Value, CommandError> {
        let now = (self.clock)();
        let mut history = self.history();
        let series = history.series(now, || self.snapshot(now));
        let latest_at = self.wall_at(series.latest());
        let points = series.points(key, latest_at).ok_or(CommandError::NoSuchCommand)?;
        let points: Vec<Value> =
            points.map(|(second, value)| json!([second, report::number(value)])).collect();
        Ok(json!({ key: points }))
    }

    /// Checks that the request may change something. Without this check, a web page could stop a
    /// server that the reader of the page can reach.
    fn check_change(&self, request: &Head) -> Result<(), CommandError> {
        let is_get = match *request.method() {
            Method::POST => false,
            Method::GET if self.permissions.by_get => true,
            _ => return Err(CommandError::MethodNotAllowed),
        };
        gate(request)?
            .may_control(&claims(request.headers()), is_get)
            .map_err(CommandError::Rejected)
    }

    fn check_stop(&self, request: &Head) -> Result<(), CommandError> {
        let is_local = gate(request)?.reach.is_local();
        let Permissions { stop_locally, stop_from_elsewhere, .. } = self.permissions;
        let may_stop = if is_local { stop_locally } else { stop_from_elsewhere };
        if may_stop { Ok(()) } else { Err(CommandError::StopNotAllowed) }
    }

    fn answer(&self, request: &Head) -> Reply {
        let command = Command::read(request.uri().path());
        if matches!(command.name.as_str(), "" | "report" | "graph") && command.form == Form::Json {
            return Reply::Now(answer(StatusCode::OK, HTML, INDEX));
        }
        let parameters = Parameters::read(request.uri().query());
        let claims = claims(request.headers());
        let result = callback(&parameters, &claims)
            .and_then(|callback| Ok((callback, self.execute(&command, &parameters, request)?)));
        let written = |kind: &'static str, mut text: String, callback: Option<&str>| {
            // A long text can wait in memory until its client reads it. The memory account counts
            // only its length, so it must not have more capacity.
            text.shrink_to_fit();
            // Browsers run only responses whose content type is a script. So only a page of this
            // site gets this content type.
            let is_script = callback.is_some() && kind == JSON && claims.is_same_origin();
            answer(StatusCode::OK, if is_script { SCRIPT } else { kind }, text)
        };
        match result {
            Ok((callback, Outcome::Stats(snapshot))) => Reply::Now(match command.form {
                Form::Text => written(TEXT, Stats::of(&snapshot).as_text(), callback),
                Form::Json => {
                    let bytes = snapshot.report_bytes();
                    written(JSON, report::as_json(&Stats::of(&snapshot), callback, bytes), callback)
                }
            }),
            Ok((callback, outcome)) => {
                let (value, work) = match outcome {
                    Outcome::Value(value) => (value, None),
                    Outcome::Begun(work) => (json!("ok"), Some(work)),
                    Outcome::Stats(_) => unreachable!("they are written above"),
                };
                let answer = match command.form {
                    Form::Text => written(TEXT, report::as_text(&value), callback),
                    Form::Json => written(JSON, report::as_object(&value, callback), callback),
                };
                match work {
                    None => Reply::Now(answer),
                    Some(work) => Reply::After(work, answer),
                }
            }
            Err(error) => Reply::Now(refused(error)),
        }
    }
}

/// The gate of the listener that received the request.
fn gate(request: &Head) -> Result<&Gate, CommandError> {
    request.extensions().get::<Gate>().ok_or(CommandError::StopNotAllowed)
}

/// Rejects a request that records numbers, if a page of another site may have caused the request.
/// Such a page could change or evict the recorded numbers of other clients.
fn check_remembering(request: &Head) -> Result<(), CommandError> {
    claims(request.headers())
        .check_no_page(only_looks(request.method()))
        .map_err(CommandError::Rejected)
}

fn refused(error: CommandError) -> Answer {
    match error {
        CommandError::NoSuchCommand => answer(StatusCode::NOT_FOUND, TEXT, "no such command\n"),
        CommandError::Rejected(why) => forbidden(why),
        CommandError::MethodNotAllowed => {
            let text = "use POST; GET works with kestrel.admin_get = true\n";
            let mut answer = answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, text);
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            answer
        }
        CommandError::StopNotAllowed => {
            let text = "refused: kestrel.control does not allow clients at this address to stop the server\n";
            answer(StatusCode::FORBIDDEN, TEXT, text)
        }
        CommandError::Failed(why) => {
            let text = format!("error processing command: {why}\n");
            answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, text)
        }
    }
}

/// The name of the callback function in the request, if any. A page of another site gets an error
/// instead, because its function could read the numbers.
fn callback<'a>(
    parameters: &'a Parameters,
    claims: &Claims<'_>,
) -> Result<Option<&'a str>, CommandError> {
    let is_name = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_$.[]".contains(&byte))
    };
    let name = match parameters.get("callback") {
        None => return Ok(None),
        Some("" | "true") => "ostrichCallback",
        Some(name) if is_name(name) => name,
        Some(_) => {
            return Err(CommandError::Failed("callback: not a function name".to_owned()));
        }
    };
    if claims.is_unsuspicious() {
        Ok(Some(name))
    } else {
        Err(CommandError::Rejected(Rejection::CrossSite))
    }
}

impl KestrelAdmin {
    /// The pages and the timed work of this site.
    pub fn site(self: Arc<Self>) -> Site {
        let admin = self.clone();
        let page = move |request: Request| {
            let admin = admin.clone();
            async move {
                let mut response = complete(admin.reply(&head_of(request)).answer().await);
                // Only commands that read have long responses, also by POST.
                response.extensions_mut().insert(ReplaceableResponse);
                response
            }
        };
        Site::new(Router::new().fallback(page)).with_tick(move || self.tick())
    }

    /// Answers one request.
    pub fn reply(&self, request: &Head) -> Reply {
        // Kestrel ignores the method, and some scripts use POST for commands that only read.
        let is_posted = *request.method() == Method::POST;
        let mut reply = if only_looks(request.method()) || is_posted {
            self.answer(request)
        } else {
            Reply::Now(method_not_allowed())
        };
        self.trim_history();
        let (name, value) = VERSION_HEADER;
        let (Reply::Now(answer) | Reply::After(_, answer)) = &mut reply;
        answer.headers_mut().insert(name, value);
        reply
    }

    fn tick(&self) {
        self.remember();
        self.trim_history();
    }
}
