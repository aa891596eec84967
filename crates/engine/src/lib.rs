//! The queue engine: jobs, queues, leases, waiters and time, as a deterministic state machine.
//!
//! Inputs are requests and the time. Outputs are return values, [`Record`]s (facts that must last)
//! and [`Event`]s (messages to sessions that waited). The engine has no clock, no threads, no I/O
//! and no randomness. So the same requests at the same moments always give the same result:
//! simulation, replay and replication depend on this.
//!
//! The engine knows nothing of protocols. A tube of beanstalkd, a function of Gearman and a queue
//! of Kestrel are a *queue*. A job, an item and a message are a *job*.
//!
//! **Invariants**: A job is in exactly one list (ready, delayed, buried) or is held by exactly one
//! session. A queue that can hand out jobs does not have both ready jobs and waiters, unless its
//! timer is due now. Then the next look at the queue serves the waiters. No operation takes time in
//! proportion to the number of jobs, queues or sessions, except for what a request names: new
//! policies and a new status concern all queues. Listings go row by row, behind a cursor.
//! [`Engine::check_invariants`] checks the rest.

mod bytes;
mod chores;
mod collections;
mod effects;
mod engine;
mod hash;
mod ids;
mod jobs;
pub mod limits;
mod meter;
mod news;
pub mod policy;
mod queues;
mod sessions;
mod status;
mod tally;
mod timers;
mod wall;

pub use bytes::allocated_bytes;
pub use effects::{Effects, Event, Handout, News, Record};
pub use engine::{
    AliasStats, Choice, Clearing, Engine, EngineSetup, GrabOrder, ItemStats, JobCursor, Kick,
    NameCursor, NotFound, Patience, QueueCursor, QueueStats, Refused, RestoreError, Submit, Take,
    Totals, WorkProgress,
};
pub use ids::{JobId, JobSlot, LeaseId, Millis, QueueId, SessionId};
pub use jobs::{Band, Body, Counters, JobFacts, JobStatus, NewJob, State, Tags, job_bytes};
pub use queues::{DEFAULT_QUEUE, QueueFacts};
pub use sessions::{ReadMode, ReturnOrder};
pub use status::Status;
pub use wall::When;
