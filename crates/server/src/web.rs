//! What is served over HTTP beside the queues: health and metrics, and Kestrel's admin commands.
//!
//! - `thread`: a thread with the listeners and connections of one site.
//! - `crowd`: which connection goes when there are too many.
//! - `sites`: what the answers need to know of the server.

mod crowd;
pub(crate) mod sites;
pub(crate) mod thread;
