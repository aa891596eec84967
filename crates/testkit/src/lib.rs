//! Helpers that tests of several crates share.
//!
//! - [`conformance`]: plays the cases from `corpus/`, over sockets or in this process.
//! - [`dialect`]: runs dialects in this process, in simulated time, without a server.
//! - [`differential`]: sends the same random steps to two servers.
//! - [`process`]: servers and clients under test. [`tools`]: programs that a machine can lack.
//! - [`cluster`]: servers of NATS, and networks that can be cut. [`power`]: disks that lose power.
//! - [`backlog`]: servers with more jobs than memory.
//! - [`wait`]: the only place where a test sleeps.
//! - [`browser`]: drives a web browser.
//! - [`tls`]: TLS for clients and for conformance cases.
//! - [`client`]: a beanstalk client. [`rng`]: seeded random numbers.
//! - [`settings`]: environment variables that set the length of tests.
//! - [`fuzz_corpus()`]: the corpora of the fuzz targets.
//! - [`readme`]: runs the code in README.
//!
//! The product does not use this crate; only tests depend on it.

pub mod backlog;
pub mod browser;
pub mod client;
pub mod cluster;
pub mod conformance;
pub mod dialect;
pub mod differential;
mod fuzz_corpus;
pub mod power;
pub mod process;
pub mod readme;
pub mod rng;
pub mod settings;
pub mod tls;
pub mod tools;
pub mod wait;

pub use fuzz_corpus::fuzz_corpus;
