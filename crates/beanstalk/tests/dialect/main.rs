//! Tests of the whole dialect: sessions, a broker in memory, and simulated time.
//!
//! All tests share one binary, because cargo links each binary again after every change.

mod cold;
mod conformance;
mod durable;
mod endings;
mod fragments;
mod listings;
mod property;
mod split;
mod statistics;
mod world;
