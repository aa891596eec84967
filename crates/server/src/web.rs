//! HTTP sites: health and metrics, and Kestrel's admin commands.
//!
//! - `thread`: a thread with the listeners and connections of one site.
//! - `crowd`: which connection to close if there are too many.
//! - `sites`: the facts about the server that responses need.

mod crowd;
pub(crate) mod sites;
pub(crate) mod thread;
