//! The queue engine: jobs, queues, leases, waiters and time, as a deterministic state machine.
//!
//! Requests and the time go in; answers, [`Record`]s (facts that must last) and [`Event`]s
//! (news for sessions that waited) come out. There is no clock, no thread, no I/O and no
//! randomness here, so that the same requests at the same moments always give the same result:
//! simulation, replay and replication rest on it.
//!
//! The engine knows nothing of protocols. What beanstalkd calls a tube, Gearman a function and
//! Kestrel a queue is a *queue*; a job, an item and a message are a *job*.
//!
//! **Invariants**: a job is in exactly one list (ready, delayed, buried) or in the hands of one
//! session. A queue that may hand out has no waiters while it has ready jobs, or its timer stands
//! at this moment and whoever looks at it first serves them. Nothing takes time in proportion to the
//! number of jobs, queues or sessions, except what a request names: other policies and another
//! status mean all queues. Lists go row by row, behind a cursor. (And [`Engine::check_invariants`].)

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
pub use effects::{Effects, Event, News, Record};
pub use engine::{
    AliasStats, Choice, Clearing, Engine, EngineSetup, GrabOrder, Handout, ItemStats, JobCursor,
    Kick, NameCursor, NotFound, Patience, QueueCursor, QueueStats, Refused, RestoreError, Submit,
    Take, Totals, WorkProgress,
};
pub use ids::{JobId, JobSlot, LeaseId, Millis, QueueId, SessionId};
pub use jobs::{Band, Body, Counters, JobFacts, JobStatus, NewJob, State, Tags, job_bytes};
pub use queues::{DEFAULT_QUEUE, QueueFacts};
pub use sessions::{ReadMode, ReturnOrder};
pub use status::Status;
pub use wall::When;
