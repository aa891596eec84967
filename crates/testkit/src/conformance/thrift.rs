//! Cases of Kestrel's thrift service. Their requests and replies are calls.

pub mod codec;
mod runner;

pub use runner::{Case, read_cases};
