//! Tests the whole program from a client's side, over Kestrel's thrift service.
//!
//! All tests share one binary, because every change links each binary again.

mod clients;
mod programs;
mod socket;
