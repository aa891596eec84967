//! Small blocking clients for the command-line tools: shared parts here, and a module per protocol.
//!
//! A connection has a sending and a receiving half ([`Requests`], [`Replies`]), so that `put` can
//! keep many jobs in flight. The clients join both halves for all other commands.

mod beanstalk;
mod error;
pub(crate) mod gearman;
mod protocol;
mod stream;

pub(crate) use beanstalk::{
    Client, Job, Replies, Reply, Schedule, Stats, Survey, WaitingState, unexpected,
};
pub(crate) use error::{CONNECT_TIMEOUT, ClientError, PATIENCE, no_answer};
pub(crate) use protocol::Protocol;
pub(crate) use stream::Requests;
