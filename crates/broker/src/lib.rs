//! The durable queue as a library. It joins the engine and the log.
//!
//! All users share one [`Broker`]. A [`Turn`] locks the broker for one batch of requests. Sessions
//! make their requests through a [`Caller`]. The broker writes the engine's records into the log's
//! open batch. A committer thread writes and syncs one batch after another. Each [`Answer`] depends
//! on a log [`Position`], and must not be sent before [`Broker::released`] has reached that
//! position. An [`Outbox`] keeps the replies of a connection until then.
//!
//! This crate depends on `engine` and `log`, which do not depend on each other. Dialects depend on
//! this crate. A [`Dialect`] turns the bytes of a protocol into requests, without I/O.

mod admission;
mod answer;
mod bodies;
mod body_buffer;
mod broker;
mod caller;
mod cold;
mod core;
mod dialect;
pub mod embedded;
mod event;
mod follow;
mod guard;
mod journal;
mod ledger;
mod listing;
pub mod offline;
mod outbox;
mod position;
mod reclaim;
mod replication;
mod restore;
mod serving;
mod step_thread;
mod turn;
mod wall;

pub use admission::PutRefusal;
pub use admission::disk::{DiskLimit, DiskLimits, DiskRoom};
pub use admission::memory::Memory;
pub use admission::queue_limit::QueueUsage;
pub use answer::{Answer, Blocked, NotFound, Refusal};
pub use body_buffer::{BodyBuffer, BodyCopy, Frame, make_room, room_bytes};
pub use broker::{Broker, BrokerError, Clock, HEAD_JOBS, OnProgress, Options};
pub use caller::{Assignment, Caller, MoveRefusal, Peeked, RedriveRefusal, SetAsideRefusal};
pub use dialect::{Dialect, INPUT_REPLIES_BYTES, InputEnd, Progress, Step, take_steps};
pub use engine::allocated_bytes;
pub use engine::crons;
pub use engine::limits::{self, Limits};
pub use engine::policy;
pub use engine::schedule;
pub use engine::{
    AliasStats, AttemptEnd, Band, Body, Claim, ClaimKey, Clearing, Counters, Death, DeathCause,
    Departure, EngineSetup, FailureCause, GrabOrder, Handout, Held, HeldCursor, ItemStats, JobBody,
    JobCursor, JobEnd, JobFacts, JobId, JobStatus, JobTimes, KeptResult, Kick, LeaseEnd, LeaseId,
    Milestone, MilestoneKind, Millis, NameCursor, Need, NewJob, News, NoteRefused, Patience,
    QueueCursor, QueueFacts, QueueId, QueueStats, ReadMode, RedriveRefused, SessionId, SessionWait,
    SetAsideRefused, Span, SpanKind, State, Status, Submit, Tags, Take, Totals, When, WorkProgress,
};
pub use event::{Event, Mailbox};
pub use follow::{Applied, ApplyError};
pub use journal::fact::FactError;
pub use journal::stream::{OnGroup, Stream};
pub use ledger::meta::UnknownMeta;
pub use listing::{
    JobPage, JobRow, ListCursor, ListLimits, OPEN_BLOCKS_MAX, RowBody, StoredRowBody,
};
pub use log::{BodyError, CommitSizes, Failure, Settings, Sync};
pub use outbox::Outbox;
pub use position::{Missing, Position};
pub use replication::{ClusterError, Since};
pub use turn::{HeldRow, LeasedJob, LogStats, NoteRefusal, SessionInfo, SubmittedJob, Turn};
pub use wall::STOP_MS_MAX;
