//! Conformance cases from `corpus/`, and how they are played over a [`wire`].
//!
//! - [`case`]: a case of any protocol. [`suite`]: plays many cases, and collects the failures.
//! - [`lines`], [`gearman`], [`thrift`]: the steps of cases, by protocol, and how they are played.
//! - [`wire`], [`socket`]: a server as a client sees it, and one behind sockets. The other wire is
//!   in [`crate::dialect`].
//! - [`policies`]: the policies that some cases of Kestrel need.
//! - [`text`]: placeholders and patterns in cases.

pub mod case;
mod connection;
pub mod gearman;
pub mod lines;
pub mod policies;
pub mod socket;
pub mod suite;
pub mod text;
pub mod thrift;
pub mod wire;
