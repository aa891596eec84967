//! Tests of the thrift dialect: sessions, a broker, and simulated time.
//!
//! One binary for all of them: each further one would be linked anew on every change.

mod calls;
mod conformance;
mod durable;
mod fragments;
mod frames;
mod property;
mod sessions;
mod world;
