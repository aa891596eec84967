//! The JSON of the API. The server writes these types, and the operator's tools read them.
//!
//! Names of fields say their unit. A moment is text in the form of RFC 3339. A number counts from
//! the start of the server if its comment does not say otherwise.

mod changes;
mod cluster;
mod connections;
mod crons;
mod dead_letters;
mod log;
mod operations;
mod past_jobs;
mod sessions;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use changes::{
    Bury, GiveBack, MoveJob, Pause, Paused, Put, PutJob, PutLine, QueueLimits, Reloaded, SetStatus,
    Take, Taken, Touched,
};
pub use cluster::{
    Cluster, ClusterCheck, ClusterNode, ClusterRole, ClusterStream, NatsServer, NodeState,
};
pub use connections::{
    Connection, ConnectionWait, Connections, Consumer, Consumers, HeldJob, WaitFor,
};
pub use crons::{Cron, Crons};
pub use dead_letters::{DeadFilter, DeadLetter, DeathCause};
pub use log::{Log, Recovery};
pub use operations::{Operation, OperationKind, OperationStatus, Operations, StartOperation};
pub use past_jobs::{
    AttemptOutcome, JobResult, Outcome, PastAttempt, PastJob, PastJobs, PastTimes, Quantiles,
    ResultOutcome,
};
pub use sessions::{Session, Sessions};

/// The server as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Server {
    /// The version of the server.
    pub version: String,
    /// The name of the machine.
    pub host: String,
    /// When the server started.
    pub started_at: String,
    /// The time of this response.
    pub now_at: String,
    /// The time since the start.
    pub uptime_ms: u64,
    /// What clients are allowed to do.
    pub status: Status,
    /// Whether new jobs are refused because the server drains.
    pub draining: bool,
    /// The health of the server.
    pub health: Health,
    /// Sums over all queues.
    pub totals: Totals,
    /// The memory of jobs, queues and connections.
    pub memory: Memory,
    /// The limit of queues.
    pub queue_limit: QueueLimit,
    /// The connections of all protocols except HTTP.
    pub connections: ConnectionCounts,
    /// The process of the server.
    pub process: Process,
    /// The addresses where the server listens.
    pub listeners: Vec<Listener>,
}

/// The numbers of one second: the data of the event `tick`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Tick {
    /// The time of the numbers.
    pub now_at: String,
    /// What clients are allowed to do.
    pub status: Status,
    /// Whether new jobs are refused because the server drains.
    pub draining: bool,
    /// The health of the server.
    pub health: Health,
    /// Sums over all queues.
    pub totals: Totals,
    /// Jobs put in one second. `null` in the first event.
    pub puts_per_s: Option<f64>,
    /// Jobs handed out in one second. `null` in the first event.
    pub takes_per_s: Option<f64>,
    /// Jobs that ended in one second. `null` in the first event.
    pub ends_per_s: Option<f64>,
    /// The memory of jobs, queues and connections.
    pub memory: Memory,
    /// The connections of all protocols except HTTP.
    pub connections: ConnectionCounts,
}

/// What clients are allowed to do.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Clients can read and write.
    Up,
    /// Clients should write to another server, if they can choose.
    WriteAvoid,
    /// Clients can only read.
    ReadOnly,
    /// Clients cannot read or write.
    Quiescent,
}

/// The health of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// The level of the most important reason, or `ok`.
    pub level: HealthLevel,
    /// All reasons, the most important one first.
    pub reasons: Vec<HealthReason>,
}

/// How bad it is.
#[derive(Copy, Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthLevel {
    /// All is well.
    Ok,
    /// An operator should look at the server.
    Warning,
    /// Clients cannot work as they should.
    Critical,
}

/// One reason why the server is not healthy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HealthReason {
    /// How bad it is.
    pub level: HealthLevel,
    /// A fixed name of the reason, for programs.
    pub code: String,
    /// The reason, and what to do.
    pub text: String,
}

/// Sums over all queues.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Totals {
    /// Ready jobs, now.
    pub ready: u64,
    /// Leased jobs, now.
    pub leased: u64,
    /// Delayed jobs, now.
    pub delayed: u64,
    /// Buried jobs, now.
    pub buried: u64,
    /// Bytes of the bodies of ready jobs, now.
    pub ready_bytes: u64,
    /// Queues, now.
    pub queues: u64,
    /// Open sessions, now. Each connection of a client is a session.
    pub sessions: u64,
    /// Sessions that wait for a job, now.
    pub waiting_sessions: u64,
    /// Jobs put.
    pub puts: u64,
    /// Times that a job was handed out.
    pub takes: u64,
    /// Jobs that ended, for any reason.
    pub ends: u64,
    /// Times that a client gave a job back.
    pub releases: u64,
    /// Times that a client buried a job.
    pub buries: u64,
    /// Times that a job's time to run ended.
    pub timeouts: u64,
}

/// The memory of jobs, queues and connections.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Memory {
    /// Bytes in use, now.
    pub used_bytes: u64,
    /// The limit, above which new jobs are refused.
    pub limit_bytes: Option<u64>,
    /// Jobs refused at the limit.
    pub refused: u64,
}

/// The limit of queues.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueLimit {
    /// The limit, above which clients cannot create queues.
    pub max: Option<u64>,
    /// Requests refused at the limit.
    pub refused: u64,
}

/// The connections of all protocols except HTTP.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionCounts {
    /// Open connections, now.
    pub open: u64,
    /// Open connections by protocol, now. A protocol without connections is left out.
    pub by_protocol: BTreeMap<String, u64>,
    /// The limit of open connections.
    pub max: u64,
}

/// The process of the server.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Process {
    /// Memory in use, now. 0 if it is unknown.
    pub resident_bytes: u64,
    /// Processor time used.
    pub processor_us: u64,
    /// The number of processors that the process can use.
    pub processors: u64,
}

/// An address where the server listens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Listener {
    /// The protocol.
    pub protocol: String,
    /// The address.
    pub address: String,
    /// Whether clients must use TLS.
    pub tls: bool,
}

/// Numbers of the last hour, day or month.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// The time between two values. A value is an average over this time, or the largest one for
    /// `oldest_ms` and `sync_p99_us`.
    pub step_ms: u64,
    /// The moment of the first value of each series. The last value is of the present moment.
    pub from_at: String,
    /// The values by the name of the series. `null` where the server did not run, or had nothing to
    /// measure.
    pub series: BTreeMap<String, Vec<Option<f32>>>,
}

/// The client, as the server sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// The name of the client.
    pub name: String,
    /// What the client is allowed to do.
    pub role: Role,
    /// How the server recognized the client.
    pub via: Via,
}

/// A one-time code to sign in to the console.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LoginCode {
    /// The code.
    pub code: String,
    /// The path of the page on which a person signs in with it.
    pub path: String,
    /// How long the code is valid. It works once.
    pub expires_s: u64,
}

/// What a client is allowed to do.
#[derive(Copy, Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The client can do nothing.
    None,
    /// The client can read.
    Viewer,
    /// The client can also change jobs and queues.
    Operator,
    /// The client can also control the server.
    Admin,
}

impl Status {
    /// The name of the status.
    pub fn name(self) -> &'static str {
        match self {
            Status::Up => "up",
            Status::WriteAvoid => "write_avoid",
            Status::ReadOnly => "read_only",
            Status::Quiescent => "quiescent",
        }
    }
}

impl Role {
    /// All roles. Each one has the rights of those before it.
    pub const ALL: [Role; 4] = [Role::None, Role::Viewer, Role::Operator, Role::Admin];

    /// The name of the role.
    pub fn name(self) -> &'static str {
        match self {
            Role::None => "none",
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }

    /// The role with this name.
    pub fn parse(text: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == text)
    }
}

/// How the server recognized a client.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// The client sent no credentials.
    Anonymous,
    /// The client sent a token.
    Token,
    /// A person signed in to the console with a token.
    Session,
    /// The client has a certificate.
    Certificate,
    /// The client is at the operator's socket in the data folder.
    Socket,
}

impl Via {
    /// The name of the value.
    pub fn name(self) -> &'static str {
        match self {
            Via::Anonymous => "anonymous",
            Via::Token => "token",
            Via::Session => "session",
            Via::Certificate => "certificate",
            Via::Socket => "socket",
        }
    }
}

/// A page of the latest changes that clients requested over HTTP, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Audit {
    /// The changes.
    pub items: Vec<AuditLine>,
    /// The parameter `cursor` of the next page.
    pub next: Option<String>,
}

/// One requested change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditLine {
    /// The number of the line. The first line since the start has 1.
    pub number: u64,
    /// The time of the request.
    pub at: String,
    /// The name of the client.
    pub who: String,
    /// What the client is allowed to do.
    pub role: Role,
    /// How the server recognized the client.
    pub via: Via,
    /// The address of the client, if it came over TCP.
    pub address: Option<String>,
    /// The method and the path of the request.
    pub action: String,
    /// Further facts about the change.
    pub detail: Option<String>,
    /// The reason that the client gave.
    pub reason: Option<String>,
    /// The status of the response.
    pub status: u16,
    /// The kind of the problem, if the request failed.
    pub problem: Option<String>,
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// The name of the queue.
    pub name: String,
    /// The time of this response.
    pub as_of_at: String,
    /// Ready jobs.
    pub ready: u64,
    /// Leased jobs.
    pub leased: u64,
    /// Delayed jobs.
    pub delayed: u64,
    /// Buried jobs.
    pub buried: u64,
    /// Dead letters that no worker has. Most of them are ready or buried.
    #[serde(default)]
    pub dead: u64,
    /// Ready jobs with a priority below 1024.
    pub urgent: u64,
    /// Ready and delayed jobs by priority.
    pub bands: Bands,
    /// Bytes of the bodies of ready jobs.
    pub ready_bytes: u64,
    /// The time since the put of the next ready job. 0 if no job is ready.
    pub head_age_ms: u64,
    /// Jobs put into this queue since the server made the queue.
    pub puts: u64,
    /// Jobs of this queue that clients or workers ended since the server made the queue.
    pub finishes: u64,
    /// Sessions that use the queue, now.
    pub users: u64,
    /// Sessions that watch the queue, now.
    pub watchers: u64,
    /// Sessions that wait for a job of the queue, now.
    pub waiters: u64,
    /// Workers that have registered for the queue, now.
    pub workers: u64,
    /// Pauses of the queue.
    pub pauses: u64,
    /// The length of the present pause. 0 if the queue is not paused.
    pub pause_s: u32,
    /// The rest of the present pause. 0 if the queue is not paused.
    pub pause_left_ms: u64,
    /// Whether the queue exists even without jobs and clients.
    pub kept: bool,
    /// Whether the queue gets a copy of each job that is put into its parent: the queue named
    /// before the first `+`.
    pub is_child: bool,
    /// Whether the queue is being removed.
    pub is_being_removed: bool,
    /// Whether some jobs are only in the log.
    pub has_cold_jobs: bool,
    /// Whether the policy keeps a history of jobs.
    #[serde(default)]
    pub keeps_history: bool,
    /// Limits of unfinished jobs with high, normal and low priority. 0 for no limit.
    pub limits: [u32; 3],
    /// When the queue was made. The server knows this only for queues of Kestrel's clients.
    pub created_at: Option<String>,
    /// Numbers that only queues of Kestrel's clients have.
    pub items: Option<Items>,
    /// All settings of the queue.
    pub policy: Vec<Setting>,
}

/// Ready and delayed jobs by priority.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Bands {
    /// Jobs with a priority below 1024.
    pub high: u64,
    /// Jobs with a priority from 1024 to 2147483648.
    pub normal: u64,
    /// Jobs with a greater priority number.
    pub low: u64,
}

/// Numbers that only queues of Kestrel's clients have. They count since the server made the queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Items {
    /// Items added.
    pub puts: u64,
    /// Bytes of the items added.
    pub put_bytes: u64,
    /// Reads that found an item.
    pub hits: u64,
    /// Reads that found no item.
    pub misses: u64,
    /// Items that expired.
    pub expired: u64,
    /// Items dropped because the queue was full.
    pub discarded: u64,
    /// Flushes of the queue.
    pub flushes: u64,
    /// Open reads, now.
    pub open_reads: u64,
    /// Open reads that were given back.
    pub cancelled_reads: u64,
    /// Names of the fan-out children.
    pub children: Vec<String>,
}

/// The rules in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Policies {
    /// The rules, in the order of the configuration. If several rules match a name, a later rule
    /// wins.
    pub items: Vec<Rule>,
}

/// Settings for all queues whose names match a pattern.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rule {
    /// The rule applies to names that match one of these patterns.
    pub patterns: Vec<String>,
    /// The line of the configuration file where the rule begins.
    pub line: Option<u32>,
    /// The settings.
    pub settings: Vec<Setting>,
}

/// The settings of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EffectivePolicy {
    /// The name.
    pub name: String,
    /// All settings.
    pub settings: Vec<Setting>,
}

/// A setting of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Setting {
    /// The key in the configuration.
    pub key: String,
    /// The value, as it is written in the configuration.
    pub value: String,
    /// The line of the configuration file. `null` for a default.
    pub line: Option<u32>,
}

/// A page of a list of queues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Queues {
    /// The queues of this page.
    pub items: Vec<QueueRow>,
    /// The parameter `cursor` of the next page. `null`: this is the last page.
    pub next: Option<String>,
    /// The number of queues that match the request.
    pub matched: u64,
    /// The number of all queues.
    pub total: u64,
    /// The time of the numbers. They are at least one second apart, and more if there are very many
    /// queues.
    pub as_of_at: String,
}

/// A queue in a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueRow {
    /// The name of the queue.
    pub name: String,
    /// Ready jobs.
    pub ready: u64,
    /// Leased jobs.
    pub leased: u64,
    /// Delayed jobs.
    pub delayed: u64,
    /// Buried jobs.
    pub buried: u64,
    /// Bytes of the bodies of ready jobs.
    pub ready_bytes: u64,
    /// The time since the put of the next ready job. 0 if no job is ready.
    pub head_age_ms: u64,
    /// Sessions that wait for a job of the queue.
    pub waiters: u64,
    /// Sessions that watch the queue.
    pub watchers: u64,
    /// Workers that have registered for the queue.
    pub workers: u64,
    /// The rest of the present pause. 0 if the queue is not paused.
    pub pause_left_ms: u64,
    /// Whether a client of Kestrel made or used the queue.
    pub is_of_items: bool,
    /// Whether the queue is a fan-out child.
    pub is_child: bool,
    /// Jobs put per second. `null` if it is not known yet.
    pub puts_per_s: Option<f64>,
    /// Jobs ended per second. `null` if it is not known yet.
    pub finishes_per_s: Option<f64>,
    /// The change of the number of ready jobs per second. `null` if it is not known yet.
    pub growth_per_s: Option<f64>,
}

/// A page of the jobs of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Jobs {
    /// The jobs of this page, in the order in which the queue has them.
    pub items: Vec<Job>,
    /// The parameter `cursor` of the next page. `null`: this is the last page.
    pub next: Option<String>,
    /// False if later pages leave out jobs, because too many files overlap.
    pub is_complete: bool,
    /// Jobs that this page leaves out, because the log cannot be read.
    pub unreadable: u64,
    /// The number of all jobs in the list.
    pub total: u64,
    /// The time of this response.
    pub as_of_at: String,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// The number of the job.
    pub id: u64,
    /// The name of the job's queue.
    pub queue: String,
    /// The state of the job.
    pub state: JobState,
    /// 0 is the most urgent.
    pub priority: u32,
    /// The time that a worker has for the job. 0 for no limit.
    pub ttr_s: u32,
    /// The last delay that a client gave.
    pub delay_s: u32,
    /// When the job was put.
    pub created_at: String,
    /// The time since the put.
    pub age_ms: u64,
    /// When a delayed job becomes ready.
    pub due_at: Option<String>,
    /// The time until a delayed or leased job becomes ready again. Otherwise 0.
    pub time_left_ms: u64,
    /// When the job expires, if it expires.
    pub expires_at: Option<String>,
    /// What happened to the job so far.
    pub counters: JobCounters,
    /// Times that the job has failed, as the policy `retries` counts.
    #[serde(default)]
    pub attempts: u32,
    /// Why the job is a dead letter, if it is one.
    #[serde(default)]
    pub dead: Option<DeadLetter>,
    /// The length of the body.
    pub body_bytes: u64,
    /// The key of a Gearman job. Only lists have it.
    pub unique: Option<String>,
    /// Whether the log has the job.
    pub is_durable: bool,
    /// Where the job is. Only lists have it.
    pub memory: Option<JobMemory>,
    /// The beginning of the body, if the list has bodies.
    pub body: Option<BodyText>,
    /// The connection that holds a leased job.
    pub holder: Option<Holder>,
}

/// The connection that holds a leased job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Holder {
    /// The number of the connection.
    pub connection: String,
    /// The time since the hand-out.
    pub held_ms: u64,
}

/// The jobs that a search found, as far as one request searches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Search {
    /// The jobs that match. `body` has the part of the body around the text, or the beginning of a
    /// body in memory.
    pub items: Vec<Job>,
    /// The parameter `cursor` of the request that continues the search. `null` if all jobs were
    /// searched.
    pub next: Option<String>,
    /// The jobs of the queue in these states, now.
    pub total: u64,
    /// The jobs that this request looked at.
    pub scanned_jobs: u64,
    /// The bytes of the bodies that this request searched.
    pub scanned_bytes: u64,
    /// Jobs whose body was not searched: it is too long, or cannot be read or masked.
    pub unsearched: u64,
    /// False if later responses leave out jobs, because the jobs of very many files have mixed
    /// priorities.
    pub is_complete: bool,
    /// The time of this response.
    pub as_of_at: String,
}

/// The state of a job.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// The job waits for a worker.
    Ready,
    /// The job waits for its time.
    Delayed,
    /// A worker has the job.
    Leased,
    /// The job is set aside until a client kicks it.
    Buried,
}

impl JobState {
    /// The name of the state.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Ready => "ready",
            JobState::Delayed => "delayed",
            JobState::Leased => "leased",
            JobState::Buried => "buried",
        }
    }

    /// The state with this name.
    pub fn parse(text: &str) -> Option<JobState> {
        let all = [JobState::Ready, JobState::Delayed, JobState::Leased, JobState::Buried];
        all.into_iter().find(|state| state.name() == text)
    }
}

/// Where a job is.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobMemory {
    /// The job and its body are in memory.
    Resident,
    /// The body is only in the log.
    Stored,
    /// The whole job is only in the log.
    Cold,
}

/// What happened to a job so far.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobCounters {
    /// Times that a worker took the job.
    pub takes: u32,
    /// Times that the job's time to run ended.
    pub timeouts: u32,
    /// Times that a worker gave the job back.
    pub releases: u32,
    /// Times that the job was buried.
    pub buries: u32,
    /// Times that the job was kicked.
    pub kicks: u32,
    /// Times that a worker lost the job, or reported that it failed.
    pub failures: u32,
}

/// The beginning of a body as text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BodyText {
    /// The text. Bytes that are not UTF-8 are replaced. Empty for a large body that is only in the
    /// log.
    pub text: String,
    /// Whether the body is longer.
    pub is_cut: bool,
}

/// Why no job of a queue runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// The first thing in the way.
    pub answer: WhyCode,
    /// The reason in words, and what to do.
    pub text: String,
    /// The reason that the operator gave for the pause, if the policy pauses the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Milliseconds until time alone removes the reason. `null`: only an event does.
    pub wait_ms: Option<u64>,
    /// What the server checked, in this order. The last one is the answer.
    pub checked: Vec<WhyCode>,
    /// Why a put of a short job into the queue is refused now. `null`: it is accepted.
    #[serde(default)]
    pub put_refusal: Option<String>,
}

/// A thing that can be in the way of a job.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhyCode {
    /// The status of the server does not let clients take jobs.
    ReadsBlocked,
    /// The queue is being removed.
    Removing,
    /// The policy pauses the queue.
    PausedByPolicy,
    /// No job is ready.
    NotReady,
    /// The name of the queue is an alias, and takes of this name find nothing.
    Alias,
    /// The queue is paused.
    Paused,
    /// The policy limits how many jobs of the queue are leased at one time.
    Concurrency,
    /// The policy limits how many jobs the queue hands out in a time.
    Rate,
    /// The policy limits how many jobs of one key are leased at one time.
    KeyConcurrency,
    /// The policy limits how many jobs of one key the queue hands out in a time.
    KeyRate,
    /// The order of the policy is strict, and a delayed job holds back the jobs behind it.
    Order,
    /// The policy has changed, and the queue sorts its jobs by their keys.
    Sorting,
    /// The next job has expired, and the server ends it.
    Expired,
    /// No client watches the queue.
    NoWorkers,
    /// No client waits for a job of the queue.
    AllBusy,
    /// A client waits, and the server loads the next job from the log.
    Loading,
    /// Nothing is in the way.
    ShouldRun,
}
