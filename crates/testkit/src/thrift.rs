//! Kestrel's thrift service: calls and replies as bytes, conformance cases from
//! `corpus/kestrel-thrift/`, and their runner.
//!
//! A case is played over any [`crate::wire::Wire`]: over sockets against a process, or against the
//! dialect in this process, whose time is simulated.

pub mod cases;
pub mod codec;
