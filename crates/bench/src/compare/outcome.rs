//! What a comparison found, as data and as people read it.

pub(crate) mod document;
pub(crate) mod result;
