//! The result of a comparison, as data and as text.

pub(crate) mod document;
mod method;
pub(crate) mod plots;
pub(crate) mod result;
