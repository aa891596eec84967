//! HTTP sites: health and metrics, and Kestrel's admin commands.
//!
//! - `thread`: a thread with the listeners and connections of one site.
//! - `connections`: which connection to close if there are too many.
//! - `sites`: the facts about the server that responses need.

mod connections;
pub(crate) mod sites;
pub(crate) mod thread;
