//! Tests of the memcache and text dialects: sessions, a broker, and simulated time.
//!
//! One binary for all of them: each further one would be linked anew on every change.

mod conformance;
mod crossing;
mod endings;
mod fragments;
mod listings;
mod promises;
mod property;
mod reload;
mod world;
