//! The queue engine: jobs, queues, leases, waiters and time, as a deterministic state machine.
//!
//! Requests and the time go in; answers, [`Record`]s (facts that must last) and [`Happening`]s
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

mod advance;
mod aim;
mod bytes;
mod check;
mod chores;
mod collections;
mod effects;
mod engine;
mod expiry;
mod extra;
mod flush;
mod hash;
mod ids;
mod items;
mod jobs;
pub mod limits;
mod listing;
mod meter;
mod names;
mod news;
pub mod policy;
mod queue;
mod queues;
mod removal;
mod replay;
mod results;
mod route;
mod session;
mod sessions;
mod stats;
mod status;
mod submit;
mod take;
mod timers;
mod walk;
mod wall;
mod workers;

pub use bytes::allocated_bytes;
pub use chores::Kick;
pub use effects::{Effects, Happening, News, Record};
pub use engine::{DEFAULT_QUEUE, Engine, EngineSetup, NotFound};
pub use flush::Clearing;
pub use ids::{JobId, JobSlot, LeaseId, Millis, QueueId, SessionId};
pub use items::{AliasStats, ItemStats, Read, ReadHow};
pub use jobs::{Band, Body, Counters, JobFacts, JobStatus, NewJob, State, Tags, job_bytes};
pub use listing::{JobCursor, NameCursor, QueueCursor};
pub use queue::QueueFacts;
pub use replay::RestoreError;
pub use results::Outlook;
pub use route::Refused;
pub use session::Manner;
pub use stats::{QueueStats, Totals};
pub use status::Status;
pub use submit::Submit;
pub use take::{Handout, Patience, Take};
pub use wall::When;
pub use workers::GrabOrder;
