//! The HTTP API under `/api/v1`: JSON for programs and for the operator's tools.
//!
//! Each endpoint is two functions: one returns a value of [`types`], so that other pages can show
//! the same numbers, and one makes a response of it. A request takes short turns of the broker, and
//! reads a bounded number of queues in each.
//!
//! - `state`: what all endpoints use. `routes`: the table of endpoints. `openapi`: the document that
//!   describes them.
//! - `access`: who a client is, and what it is allowed to do. `tokens`: the token file. `sessions`:
//!   people who signed in. `bodies`: who sees the bodies of jobs. `audit`: the record of changes.
//! - `form`, `json_lines`, `php`: bodies of jobs for people. `problem`: errors (RFC 9457). `query`,
//!   `name`: parameters, and names of queues. `json`, `moment`: responses, and dates in them.
//!   `cursor`: places in lists. `version`: `ETag`s.
//! - `events`: what happens, for clients that wait for it. `cluster`, `connections`, `server`, `health`,
//!   `history`, `log_health`, `queue`, `queues`, `jobs`, `job`, `past_jobs`, `result`, `search`, `why`, `policies`,
//!   `crons`: one topic each. `act`: requests that change something. `types`: their JSON. `survey`: the numbers of all
//!   queues, for sorted lists. `top`: the queues with metrics of their own.

#![expect(
    clippy::result_large_err,
    reason = "a problem ends its request, so its size costs little"
)]

mod access;
mod act;
mod audit;
mod bodies;
mod cluster;
mod connections;
mod crons;
mod cursor;
mod events;
mod form;
mod health;
mod history;
mod job;
mod jobs;
mod json;
mod json_lines;
mod log_health;
mod moment;
mod name;
mod openapi;
mod past_jobs;
mod php;
mod policies;
mod problem;
mod query;
mod queue;
mod queues;
mod result;
mod routes;
mod search;
mod server;
mod sessions;
mod state;
mod survey;
pub mod tokens;
mod top;
pub mod types;
mod version;
mod why;

pub use access::{AccessSettings, PREFIX, Principal, SignedIn, only_viewers};
pub use act::backup::{BackupPieces, BeginBackup};
pub use audit::{Asked, Pending};
pub use bodies::{BodySettings, JsonPointer};
pub use broker::JobId;
pub use connections::{ConnectionFacts, ConnectionPage, Connections, Later, ListConnections};
pub use form::{BodyForm, in_lines};
pub use history::{Series, Span};
pub use jobs::ListJobs;
pub use moment::written as shown_moment;
pub use name::{parse_name, shown_name};
pub use openapi::document;
pub use past_jobs::{ListPastJobs, PastEntry};
pub use problem::{Problem, ProblemKind};
pub use queues::ListQueues;
pub use routes::router;
pub use search::SearchJobs;
pub use state::{Api, HANGING_THREADS_MAX, HistoryFiles, Reload, ServerInfo, Setup};
pub use top::TopQueues;
pub use version::Condition;
