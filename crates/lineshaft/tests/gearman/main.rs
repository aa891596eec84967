//! Tests of the whole program as a Gearman client, worker, or their operator, sees it.
//!
//! One binary for all of them: each further one would be linked anew on every change.

mod clients;
mod programs;
mod reference;
mod socket;
