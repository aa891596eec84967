//! Tests the whole program from a client's side, over Kestrel's memcache, text and thrift ports.
//!
//! All tests share one binary, because every binary must be linked again after every change.

mod clients;
mod crash;
mod programs;
mod readme;
mod socket;
mod thrift;
