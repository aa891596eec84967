//! Tests of the whole dialect: sessions, a broker in memory, and simulated time.
//!
//! One binary for all of them: each further one would be linked anew on every change.

mod conformance;
mod crossing;
mod durable;
mod endings;
mod fragments;
mod http;
mod listings;
mod options;
mod packets;
mod promises;
mod property;
mod split;
mod world;
