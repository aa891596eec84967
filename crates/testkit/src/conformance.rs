//! Conformance cases from `corpus/`. They are played over a [`wire`].
//!
//! - [`case`]: a case of any protocol. [`suite`]: plays many cases, and collects the failures.
//! - [`lines`], [`gearman`], [`thrift`]: the cases of each protocol, and the code that plays them.
//! - [`wire`]: the interface between a case and a server. [`socket`]: a wire over sockets. The wire
//!   to a server in this process is in [`crate::dialect`].
//! - [`policies`]: the policies that some of Kestrel's cases need.
//! - [`text`]: placeholders and patterns in the text of cases.

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
