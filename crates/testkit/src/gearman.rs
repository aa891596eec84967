//! Gearman: packets, conformance cases from `corpus/gearman/`, and their runner.
//!
//! A case is played over any [`crate::wire::Wire`]: over sockets against a process, or against the
//! dialect in this process, whose time is simulated.

pub mod case;
pub mod packet;
pub mod runner;
pub mod suite;
