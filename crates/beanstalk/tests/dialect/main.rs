//! Tests of the whole dialect: sessions, a broker in memory, and simulated time.
//!
//! All tests share one binary, because every change links each binary again.

mod conformance;
mod durable;
mod endings;
mod fragments;
mod listings;
mod property;
mod split;
mod statistics;
mod world;
