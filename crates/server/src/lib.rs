//! Sockets, threads, clock, signals and configuration: what the pure crates must not know.

pub mod address;
pub mod config;
pub mod config_sources;
mod units;
