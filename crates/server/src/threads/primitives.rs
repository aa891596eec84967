//! Primitives that threads share. The files that `crates/interleavings` checks use only these
//! primitives. It compiles the same files with the primitives of a model checker.

pub(crate) use std::sync::OnceLock;
pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
