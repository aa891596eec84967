//! The queue engine: jobs, queues, leases, waiters and time, as a deterministic state machine.
//!
//! Inputs are requests and the time. Outputs are return values, [`Record`]s and [`Event`]s. A
//! record is a change that must last. An event is a message to a session that waits. The engine has
//! no clock, no threads, no I/O and no randomness. So the same requests at the same moments always
//! give the same result. Simulation, replay and replication depend on this property.
//!
//! The engine does not depend on any protocol. A tube of beanstalkd, a function of Gearman and a
//! queue of Kestrel are a *queue*. A job, an item and a message are a *job*.
//!
//! **Invariants**: Either a job is in exactly one list, or exactly one session holds it. The lists
//! are ready, delayed and buried. If a queue can hand out jobs and has ready jobs, it has no
//! waiters. The only exception: the queue's timer is due now, and will serve the waiters. No
//! operation takes time in proportion to the number of jobs, queues or sessions. The only
//! exceptions are requests that concern all queues, such as new policies or a new status. A listing
//! reads one row at a time, with a cursor. [`Engine::check_invariants`] checks the invariants
//! between the tables.

mod bytes;
mod chores;
mod claims;
mod collections;
pub mod crons;
mod effects;
mod engine;
mod hash;
mod ids;
mod jobs;
mod kept_results;
pub mod limits;
mod meter;
mod milestones;
mod news;
mod notes;
pub mod policy;
mod queues;
mod room;
pub mod schedule;
mod sessions;
mod spans;
mod status;
mod tally;
mod timers;
mod wall;
mod warnings;

pub use bytes::allocated_bytes;
pub use claims::{Claim, ClaimKey};
pub use collections::prefetch;
pub use effects::{Effects, Event, Handout, News, Record};
pub use engine::{
    AliasStats, Choice, Clearing, Engine, EngineSetup, GrabOrder, Held, HeldCursor, HeldJob,
    ItemStats, JobCursor, Kick, MoveRefused, NameCursor, Need, NotFound, Obstacle, Patience,
    QueueCursor, QueueStats, RedriveRefused, Refused, RestoreError, SessionView, SessionWait,
    SetAsideRefused, Submit, Take, Totals, WorkProgress,
};
pub use ids::{BlockSlot, JobId, JobSlot, LeaseId, Millis, QueueId, SessionId};
pub use jobs::{
    Band, BlockFacts, Body, Counters, Death, DeathCause, FailureCause, JobBody, JobFacts, JobList,
    JobStatus, Loading, NewJob, State, Tags, job_bytes,
};
pub use kept_results::KeptResult;
pub use milestones::{AttemptEnd, Departure, JobEnd, Milestone, MilestoneKind};
pub use notes::NoteRefused;
pub use queues::{DEFAULT_QUEUE, QueueFacts};
pub use sessions::{ReadMode, ReturnOrder};
pub use spans::{LeaseEnd, Span, SpanKind};
pub use status::Status;
pub use tally::JobTimes;
pub use wall::When;
