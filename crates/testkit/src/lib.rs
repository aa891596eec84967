//! Case runners, process control and free ports for tests.
//!
//! - [`case`], [`runner`], [`suite`]: conformance cases from `corpus/`, played over a [`wire`].
//! - [`process`], [`port`], [`tools`]: servers under test, and tools that a machine can lack.
//! - [`wait`]: the only place where a test sleeps.
//! - [`dialect`]: dialects in this process, in simulated time, without a server.
//! - [`gearman`], [`thrift`]: the same for Gearman and Kestrel's thrift service, whose cases
//!   consist of packets and calls.
//! - [`certificates`], [`tls`]: TLS for clients, and for cases.
//! - [`client`], [`rng`]: a beanstalk client and seeded random numbers.
//! - [`fuzz_corpus()`]: the corpora of the fuzz targets.
//! - [`readme`]: code in README.
//!
//! The product does not use this crate; only tests depend on it.

pub mod block;
pub mod case;
pub mod certificates;
pub mod client;
mod connection;
pub mod dialect;
mod fuzz_corpus;
pub mod gearman;
pub mod port;
pub mod process;
pub mod readme;
pub mod rng;
pub mod runner;
pub mod socket;
pub mod suite;
pub mod text;
pub mod thrift;
pub mod tls;
pub mod tools;
pub mod wait;
pub mod wire;

pub use fuzz_corpus::fuzz_corpus;
