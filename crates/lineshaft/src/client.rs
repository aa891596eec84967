//! Small blocking clients for the command-line tools. Each protocol has a module. They share the
//! modules for the connection and the errors.
//!
//! A connection has a sending half ([`Requests`]) and a receiving half ([`Replies`]), so that `put`
//! can have many jobs in flight. For all other commands, a client uses both halves together.

mod api;
mod beanstalk;
mod error;
pub(crate) mod gearman;
pub(crate) mod kestrel;
mod protocol;
mod stream;
mod target;
mod tls;

pub(crate) use api::{ApiClient, ApiError, read_token, segment, shown_segment};
pub(crate) use beanstalk::{
    Client, Job, Put, Replies, Reply, Schedule, Stats, Survey, WaitingState, unexpected,
};
pub(crate) use error::{CONNECT_TIMEOUT, ClientError, PATIENCE, no_answer};
pub(crate) use protocol::Protocol;
pub(crate) use stream::Requests;
pub(crate) use target::{Target, TargetError, TlsFiles};
