//! The durable queue: engine and log joined, as a library.
//!
//! All users share a [`Broker`]. A [`Turn`] locks it for one batch of requests, which sessions make
//! through their [`Caller`]. The engine's records go into the log's open batch, and a committer
//! thread writes and syncs batch after batch. Each [`Answer`] comes with the log [`Position`] that
//! it depends on, and must not be sent before [`Broker::released`] has reached it. An [`Outbox`]
//! ensures that for the replies of a connection.
//!
//! Below this crate, `engine` and `log` do not know each other. Above it, a [`Dialect`] turns the
//! bytes of a protocol into requests, without I/O.

mod admission;
mod answer;
mod body_buffer;
mod broker;
mod caller;
mod core;
mod dialect;
pub mod embedded;
mod event;
mod ledger;
mod outbox;
mod position;
mod reclaimer;
mod rescue;
mod turn;
mod wall;

pub use admission::PutRefusal;
pub use admission::memory::Memory;
pub use admission::queue_limit::QueueUsage;
pub use answer::{Answer, Blocked, NotFound, Refusal};
pub use body_buffer::BodyBuffer;
pub use broker::{Broker, BrokerError, Clock, Options};
pub use caller::{Assignment, Caller, Peeked};
pub use dialect::{Dialect, INPUT_REPLIES_BYTES, InputEnd, Progress, Step, take_steps};
pub use engine::allocated_bytes;
pub use engine::limits::{self, Limits};
pub use engine::policy;
pub use engine::{
    AliasStats, Band, Body, Clearing, Counters, EngineSetup, GrabOrder, Handout, ItemStats,
    JobCursor, JobFacts, JobId, JobStatus, Kick, LeaseId, Millis, NameCursor, NewJob, News,
    Patience, QueueCursor, QueueFacts, QueueId, QueueStats, ReadMode, SessionId, State, Status,
    Submit, Tags, Take, Totals, When, WorkProgress,
};
pub use event::{Event, Mailbox};
pub use ledger::meta::UnknownMeta;
pub use log::{Settings, Sync};
pub use outbox::Outbox;
pub use position::{Missing, Position};
pub use turn::{LogStats, SubmittedJob, Turn};
pub use wall::STOP_MS_MAX;
