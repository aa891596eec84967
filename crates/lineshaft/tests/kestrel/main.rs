//! Tests of the whole program as a client of Kestrel's memcache or text port sees it.
//!
//! One binary for all of them: each further one would be linked anew on every change.

mod clients;
mod crash;
mod programs;
mod readme;
mod socket;
