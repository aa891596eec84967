//! Tests the whole program from a client's side, over Kestrel's memcache, text and thrift ports.
//!
//! All tests share one binary, because after every change each binary is linked again.

mod clients;
mod crash;
mod programs;
mod readme;
mod socket;
mod thrift;
