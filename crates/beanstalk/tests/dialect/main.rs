//! Tests of the whole dialect: sessions, a broker in memory, and simulated time.
//!
//! One binary for all of them: each further one would be linked anew on every change.

mod conformance;
mod durable;
mod endings;
mod fragments;
mod listings;
mod property;
mod split;
mod statistics;
mod world;
