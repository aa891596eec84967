//! The state machine of a node, with a stream that the test controls.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod claim;
mod lead;
mod rig;
mod search;
