//! Tests the whole program from a client's side, over Kestrel's memcache and text ports.
//!
//! All tests share one binary, because every change links each binary again.

mod clients;
mod crash;
mod programs;
mod readme;
mod socket;
