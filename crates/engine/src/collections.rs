//! The data structures that the engine's tables consist of. Each has an interface of a few
//! functions.

mod index;
mod ordered;
mod prefetch;
mod slab;

pub(crate) use index::IdIndex;
pub(crate) use ordered::{Key, Ordered};
pub use prefetch::prefetch;
pub(crate) use slab::Slab;
