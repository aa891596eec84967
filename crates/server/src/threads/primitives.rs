//! Primitives shared between threads. `crates/interleavings` compiles the files that use only
//! these, with a model checker's versions.

pub(crate) use std::sync::OnceLock;
pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
