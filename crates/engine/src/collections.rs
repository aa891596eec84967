//! The data structures below the tables. Each has an interface of a few functions.

mod index;
mod ordered;
mod prefetch;
mod slab;

pub(crate) use index::IdIndex;
pub(crate) use ordered::Ordered;
pub(crate) use prefetch::prefetch;
pub(crate) use slab::Slab;
