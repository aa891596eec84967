//! Tests the whole program from the side of a beanstalkd client and of an operator.
//!
//! All tests share one binary, because every binary must be linked again after every change.

mod clients;
mod clock;
mod conformance_reference;
mod conformance_socket;
mod connections;
mod crash;
mod descriptors;
mod differential;
mod failed_flush;
mod load;
mod power_failure;
mod process_level;
mod programs;
mod slow_readers;
mod timers;
mod tls;
mod wall_clock;
