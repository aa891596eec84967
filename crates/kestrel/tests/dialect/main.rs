//! Tests of the memcache and text dialects: sessions, a broker, and simulated time.
//!
//! All tests share one binary, because cargo links each binary again after every change.

mod closes;
mod cold;
mod conformance;
mod crossing;
mod endings;
mod fragments;
mod listings;
mod pairs;
mod promises;
mod property;
mod reload;
mod retries;
mod room;
mod world;
