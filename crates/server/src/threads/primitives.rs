//! Primitives that threads share. Some files use only these. `crates/interleavings` compiles those
//! files with the primitives of a model checker.

pub(crate) use std::sync::OnceLock;
pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
