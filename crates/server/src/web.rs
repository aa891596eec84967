//! HTTP sites: health and metrics, and Kestrel's admin commands.
//!
//! - `thread`: a thread with the listeners and connections of one site.
//! - `connections`: which connection a site closes if there are too many.
//! - `clients`: the connections of the I/O threads, for the API.
//! - `sites`: builds the sites, with the facts about the server that they need.

mod clients;
pub(crate) mod connections;
pub(crate) mod sites;
pub(crate) mod thread;
