//! What tests of several crates share.
//!
//! - [`conformance`]: cases from `corpus/`, played over sockets or in this process.
//! - [`dialect`]: dialects in this process, in simulated time, without a server.
//! - [`process`], [`tools`]: servers under test, and tools that a machine can lack.
//! - [`wait`]: the only place where a test sleeps.
//! - [`tls`]: TLS for clients, and for cases.
//! - [`client`], [`rng`]: a beanstalk client and seeded random numbers.
//! - [`fuzz_corpus()`]: the corpora of the fuzz targets.
//! - [`readme`]: code in README.
//!
//! The product does not use this crate; only tests depend on it.

pub mod client;
pub mod conformance;
pub mod dialect;
mod fuzz_corpus;
pub mod process;
pub mod readme;
pub mod rng;
pub mod tls;
pub mod tools;
pub mod wait;

pub use fuzz_corpus::fuzz_corpus;
