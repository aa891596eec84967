//! Tests of the thrift dialect: sessions, a broker, and simulated time.
//!
//! All tests share one binary, because every change links each binary again.

mod calls;
mod conformance;
mod durable;
mod fragments;
mod frames;
mod property;
mod sessions;
mod world;
