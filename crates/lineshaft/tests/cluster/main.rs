//! Tests nodes of a cluster, with three real servers of NATS. The tests are skipped if `nats-server`
//! is not installed.

#![expect(clippy::unwrap_used, reason = "a test may end there")]

mod copy;
mod disk;
mod faults;
mod pass;
mod promote;
mod rig;
mod takeover;
mod tools;
