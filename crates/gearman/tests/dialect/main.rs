//! Tests of the whole dialect: sessions, a broker in memory, and simulated time.
//!
//! All tests share one binary, because cargo links each binary again after every change.

mod cold;
mod conformance;
mod crossing;
mod durable;
mod endings;
mod fragments;
mod http;
mod large;
mod listings;
mod options;
mod packets;
mod promises;
mod property;
mod split;
mod world;
