//! The primitives with which `wakeup` synchronizes threads. `crates/interleavings` compiles that
//! file with the primitives of a model checker instead.

pub(crate) use std::sync::OnceLock;
pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
