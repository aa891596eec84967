//! The durable queue: engine and log joined, as a library.
//!
//! A [`Broker`] is shared by all who use it. Requests are made in a [`Turn`], which locks it for
//! one batch. The engine's records go into the log's open batch; a committer thread writes and
//! syncs batch after batch. Each answer comes with the log [`Position`] that it rests on, and must
//! not be told to anybody before [`Broker::released`] has reached it; an [`Outbox`] sees to that
//! for the replies of a connection.
//!
//! Below this crate, `engine` and `log` do not know each other. Above it, a [`Dialect`] turns the
//! bytes of a protocol into requests, without I/O.

mod admission;
mod broker;
mod core;
mod dialect;
pub mod embedded;
mod event;
mod gathering;
mod items;
mod ledger;
mod memory;
mod meta;
mod outbox;
mod places;
mod position;
mod queue_limit;
mod reclaimer;
mod rescue;
mod turn;
mod wall;
mod work;

pub use admission::AddRefusal;
pub use broker::{Broker, BrokerError, Clock, Options};
pub use dialect::{Dialect, INPUT_REPLIES_BYTES, InputEnd, Progress, Step, take_steps};
pub use engine::allocated_bytes;
pub use engine::limits::{self, Limits};
pub use engine::policy;
pub use engine::{
    AliasStats, Band, Body, Counters, EngineSetup, GrabOrder, ItemStats, JobCursor, JobFacts,
    JobId, JobStatus, LeaseId, Millis, NameCursor, NewJob, News, Outlook, Patience, QueueCursor,
    QueueFacts, QueueId, QueueStats, ReadHow, SessionId, State, Status, Submit, Tags, Totals, When,
};
pub use event::{Event, Grant, Mailbox};
pub use gathering::Gathering;
pub use items::{Clearing, Item, NotHeld, Read};
pub use log::{Settings, Sync};
pub use memory::Memory;
pub use meta::UnknownMeta;
pub use outbox::Outbox;
pub use position::{Missing, Position};
pub use queue_limit::QueueUsage;
pub use turn::{Denied, Kick, LogStats, Peeked, Refusal, Take, Turn};
pub use wall::STOP_MS_MAX;
pub use work::{Grabbed, SubmittedJob};
