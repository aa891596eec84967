//! HTTP sites: health and metrics, and Kestrel's admin commands.
//!
//! - `thread`: a thread with the listeners and connections of one site.
//! - `connections`: which connection a site closes if there are too many.
//! - `sites`: builds the sites, with the facts about the server that they need.

mod connections;
pub(crate) mod sites;
pub(crate) mod thread;
