//! Tests of the thrift dialect: sessions, a broker, and simulated time.
//!
//! All tests share one binary, because after every change each binary is linked again.

mod calls;
mod conformance;
mod durable;
mod fragments;
mod frames;
mod property;
mod sessions;
mod world;
