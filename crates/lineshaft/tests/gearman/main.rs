//! Tests the whole program from the side of Gearman clients, workers and operators.
//!
//! All tests share one binary, because every binary must be linked again after every change.

#![expect(clippy::unwrap_used, reason = "a test may end there")]

mod clients;
mod clock;
mod crash;
mod differential;
mod flags;
#[expect(dead_code, reason = "the tests of serving use more of it")]
#[path = "../serve/packet.rs"]
mod packet;
mod programs;
mod reference;
mod socket;
mod tls;
#[path = "../beanstalk/wall_clock.rs"]
mod wall_clock;
