//! Tests of the whole program as a client of Kestrel's thrift service sees it.
//!
//! One binary for all of them: each further one would be linked anew on every change.

mod clients;
mod programs;
mod socket;
