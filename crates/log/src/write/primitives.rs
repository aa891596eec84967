//! The primitives with which `positions`, `serving`, `sleeper` and `syncs` synchronize threads.
//! `crates/interleavings` compiles these files with the primitives of a model checker instead.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::{Thread, current, park, park_timeout};
