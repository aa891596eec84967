//! Primitives shared between threads. `crates/interleavings` compiles the files that use only
//! these, with a model checker's versions.

pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
pub(crate) use std::thread::{Thread, current, park, park_timeout};
