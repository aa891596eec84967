//! Tests of the whole program as a Gearman client, worker, or their operator, sees it.
//!
//! One binary for all of them: each further one would be linked anew on every change.

mod clients;
mod differential;
mod programs;
mod reference;
#[expect(dead_code, reason = "the tests of beanstalk use more of it")]
#[path = "../beanstalk/settings.rs"]
mod settings;
mod socket;
mod tls;
