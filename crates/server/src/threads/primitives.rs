//! What threads meet over. The files that use nothing else are also compiled into `crates/interleavings`, which
//! has a model checker's in their place.

pub(crate) use std::sync::OnceLock;
pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
