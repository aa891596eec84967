//! Tests of the thrift dialect: sessions, a broker, and simulated time.
//!
//! All tests share one binary, because cargo links each binary again after every change.

mod calls;
mod cold;
mod conformance;
mod durable;
mod fragments;
mod frames;
mod property;
mod sessions;
mod walks;
mod world;
