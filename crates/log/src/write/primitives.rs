//! What threads meet over. The files that use nothing else are also compiled into `crates/interleavings`, which
//! has a model checker's in their place.

pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
pub(crate) use std::thread::{Thread, current, park, park_timeout};
