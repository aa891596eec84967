//! The HTTP API under `/api/v1`: JSON for programs and for the operator's tools.
//!
//! Each endpoint is two functions: one returns a value of [`types`], so that other pages can show
//! the same numbers, and one makes a response of it. A request takes short turns of the broker, and
//! reads a bounded number of queues in each.
//!
//! - `state`: what all endpoints use. `routes`: the table of endpoints. `openapi`: the document that
//!   describes them. `types`: the JSON of requests and responses. `problem`: errors (RFC 9457).
//!   `version`: `ETag`s. `threads`: work in other threads.
//! - `access`: who a client is, and what it is allowed to do. In its folder: the token file, people who
//!   signed in, who sees bodies, and the record of changes.
//! - `text`: parameters, names, moments, places in lists, responses, and bodies for people.
//! - `server`, `queues`, `jobs`: what the server, its queues and its jobs are, one topic a file. In
//!   `queues`, `survey` has the numbers of all queues for sorted lists, and `top` chooses the queues with
//!   metrics of their own.
//! - `act`: requests that change something.

#![expect(
    clippy::result_large_err,
    reason = "a problem ends its request, so its size costs little"
)]

mod access;
mod act;
mod jobs;
mod openapi;
mod problem;
mod queues;
mod routes;
mod server;
mod state;
mod text;
mod threads;
pub mod types;
mod version;

pub use access::audit::{Asked, Pending};
pub use access::bodies::{BodySettings, JsonPointer};
pub use access::tokens;
pub use access::{AccessSettings, PREFIX, Principal, SignedIn, Viewers, only_viewers};
pub use act::backup::{BackupPieces, BeginBackup};
pub use broker::JobId;
pub use job_history::FILES_MAX as HISTORY_FILES_MAX;
pub use jobs::ListJobs;
pub use jobs::past_jobs::{ListPastJobs, PastEntry};
pub use jobs::search::SearchJobs;
pub use openapi::document;
pub use problem::{Problem, ProblemKind};
pub use queues::ListQueues;
pub use queues::top::TopQueues;
pub use routes::router;
pub use server::connections::{
    ConnectionFacts, ConnectionPage, Connections, Later, ListConnections,
};
pub use server::history::{Series, Span};
pub use state::{Api, HANGING_THREADS_MAX, HistoryFiles, Reload, ServerInfo, Setup};
pub use text::form::{BodyForm, in_lines};
pub use text::moment::written as shown_moment;
pub use text::name::{parse_name, shown_name};
pub use version::Condition;
