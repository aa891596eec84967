//! The interface of a protocol for the load generator. A driver writes the next operations, and
//! counts the replies.
//!
//! One driver serves one connection. The input can be split anywhere, so a driver stores the
//! beginning of an incomplete reply. It stores nothing else. A new protocol is one new file with
//! one `impl Driver`.

pub(crate) mod amqp;
mod beanstalk;
mod gearman;
mod memcache;
pub(crate) mod nats;
pub(crate) mod packets;
mod redis;
mod scanner;
mod script;
mod thrift;

pub(crate) use amqp::Amqp;
pub(crate) use beanstalk::{Beanstalk, IdSink};
pub(crate) use gearman::Gearman;
pub(crate) use memcache::Memcache;
pub(crate) use nats::Nats;
pub(crate) use redis::Redis;
pub(crate) use script::{Cursor, Script};
pub(crate) use thrift::Thrift;

/// The client's side of a protocol, for one connection.
pub(crate) trait Driver {
    /// Appends the requests that begin up to `count` operations. Returns the number of operations
    /// begun. If it is lower than `count`, no operations are left.
    fn begin(&mut self, count: usize, output: &mut Vec<u8>) -> usize;

    /// Parses received bytes. Appends the requests that continue operations. Returns the operations
    /// that have ended.
    fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> anyhow::Result<Progress>;
}

/// The operations that have ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Operations that succeeded.
    pub(crate) finished: u32,
    /// Operations that found the queue empty.
    pub(crate) missed: u32,
    /// Operations that the server refused.
    pub(crate) failed: u32,
    /// The server's reply to the first refused operation.
    pub(crate) failure: Option<String>,
}

impl Progress {
    /// The number of operations that are no longer in flight.
    pub(crate) fn ended(&self) -> u32 {
        self.finished + self.missed + self.failed
    }

    fn fail(&mut self, reply: &[u8]) {
        self.failed += 1;
        if self.failure.is_none() {
            self.failure = Some(String::from_utf8_lossy(reply).into_owned());
        }
    }
}
